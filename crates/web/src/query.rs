//! Questions of the page: `VIEW?group=...&filter=...&limit=...`, with the words of the command line.
//!
//! What not: answering them (`content`).

use report::{Options, View, parse_bands, parse_filter, parse_keys};

use crate::WebError;
use crate::window::Window;

/// Fields that say which part of a table is asked for.
const WINDOW: [&str; 5] = ["from", "count", "sort", "turned", "search"];

/// A question taken apart.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Query {
    /// The part before the `?`.
    pub(crate) name: String,
    /// Names and values, decoded, in their order.
    pub(crate) fields: Vec<(String, String)>,
}

impl Query {
    /// From a path such as `hotspots?group=function`.
    pub(crate) fn parse(text: &str) -> Option<Query> {
        let (name, rest) = text.split_once('?').unwrap_or((text, ""));
        let fields = rest.split('&').filter(|field| !field.is_empty()).map(|field| {
            let (name, value) = field.split_once('=')?;
            Some((decoded(name)?, decoded(value)?))
        });
        Some(Query { name: decoded(name)?, fields: fields.collect::<Option<_>>()? })
    }

    /// The first value of this name.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The filters.
    pub(crate) fn filters(&self) -> Result<Vec<report::Filter>, WebError> {
        let filters = self.fields.iter().filter(|(name, _)| name == "filter");
        Ok(filters.map(|(_, value)| parse_filter(value)).collect::<Result<_, _>>()?)
    }

    /// The part of the rows that is asked for; `None`: as many as the options say.
    pub(crate) fn window(&self) -> Result<Option<Window>, WebError> {
        let number = |name: &str| {
            let value = self.value(name).map(|value| (value, value.parse()));
            match value {
                None => Ok(None),
                Some((_, Ok(number))) => Ok(Some(number)),
                Some((value, Err(_))) => Err(WebError::Query(value.to_owned())),
            }
        };
        let (from, count) = (number("from")?, number("count")?);
        let sort = self.value("sort").map(str::to_owned);
        let turned = self.value("turned").is_some();
        let search = self.value("search").unwrap_or_default().to_owned();
        Ok(count.map(|count| Window { sort, turned, search, from: from.unwrap_or(0), count }))
    }

    /// What stays the same from one part of a table to the next.
    pub(crate) fn without_window(&self) -> String {
        let other = self.fields.iter().filter(|(name, _)| !WINDOW.contains(&name.as_str()));
        format!("{}{:?}", self.name, other.collect::<Vec<_>>())
    }

    /// As the options of `fathom report`.
    pub(crate) fn options(&self, result: &str) -> Result<Options, WebError> {
        let mut options = Options {
            view: View::parse(&self.name)?,
            filters: self.filters()?,
            result_name: result.to_owned(),
            ..Options::default()
        };
        for (name, value) in &self.fields {
            match name.as_str() {
                "group" => options.group = parse_keys(value)?,
                "bands" => options.bands = parse_bands(value)?,
                "limit" => {
                    let limit = value.parse().map_err(|_| WebError::Query(value.clone()))?;
                    options.limit = Some(limit);
                }
                "filter" => {}
                name if WINDOW.contains(&name) => {}
                _ => return Err(WebError::Query(name.clone())),
            }
        }
        Ok(options)
    }
}

/// Percent-decoding (RFC 3986, 2.1); `None` when it is cut off or no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_command_line() {
        let query = Query::parse("hotspots?group=thread,function&filter=function%3Da%26b&limit=3")
            .expect("a question");
        let options = query.options("r000ma").expect("options");
        assert_eq!(options.view, View::Hotspots);
        assert_eq!(options.limit, Some(3));
        assert_eq!(options.filters, [report::Filter::Function("a&b".into())]);
        assert_eq!(options.group, [report::Key::Thread, report::Key::Function]);
    }

    #[test]
    fn a_part_of_a_table_is_its_own_question_of_the_same_table() {
        let parse = |text| Query::parse(text).expect("a question");
        let query = parse("objects?filter=module%3Da&from=200&count=100&sort=loads&search=No");
        let window = query.window().expect("numbers").expect("a part");
        let (sort, search) = (Some("loads".into()), "No".into());
        assert_eq!(window, Window { sort, turned: false, search, from: 200, count: 100 });
        assert_eq!(
            query.without_window(),
            parse("objects?filter=module%3Da&count=3").without_window()
        );
        assert_eq!(parse("objects?limit=3").window().expect("no numbers"), None);
        assert!(parse("objects?count=many").window().is_err());
    }

    #[test]
    fn what_is_no_question_is_said() {
        for broken in ["a?x", "%", "%4", "%zz", "%ff", "a?b=%"] {
            assert_eq!(Query::parse(broken), None, "{broken}");
        }
        let query = Query::parse("hotspots?what=1").expect("well formed");
        assert!(matches!(query.options("r"), Err(WebError::Query(_))));
    }
}
