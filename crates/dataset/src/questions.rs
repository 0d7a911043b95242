//! The questions about a dataset: one SQL text each, in `questions`, for all engines.
//!
//! What for: the head of a text says what it answers, its parameters and its columns; [`Question::sql`] puts the parameters in. What
//! not: what differs between engines (`dialect`).
//!
//! ```text
//! -- What it answers, in one line.
//! -- @param NAME KIND DEFAULT meaning          KIND: name, text, date, whole, number; DEFAULT - means that it must be given
//! -- @column KEY KIND UNIT Heading             KIND: text, count, metric; UNIT: -, a unit, or * for that of the row's column `unit`;
//!                                              Heading: - where text does not show it
//! ```
//! A metric KEY is the columns KEY, `KEY_low`, `KEY_high` and `KEY_evidence` of the answer.

use std::collections::BTreeMap;

use crate::dialect::{Dialect, expand};

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// What the user types.
    pub name: &'static str,
    /// What it answers, in one line.
    pub about: &'static str,
    /// Its own parameters; [`COMMON`] are those of all.
    pub parameters: Vec<Parameter>,
    /// Columns of the answer.
    pub columns: Vec<AnswerColumn>,
    text: &'static str,
}

/// A parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    kind: &'static str,
    /// `None` if it must be given.
    pub default: Option<&'static str>,
    /// What it means.
    pub meaning: &'static str,
}

/// A column of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerColumn {
    /// Its key.
    pub key: &'static str,
    /// `text`, `count` or `metric`.
    pub kind: &'static str,
    /// `-`, a unit, or `*`.
    pub unit: &'static str,
    /// Its heading in text; `-` where text does not show it.
    pub label: &'static str,
}

/// Parameters of every question.
pub const COMMON: [Parameter; 4] = [
    common("program", "text", "", "Only runs of this program, by its file name"),
    common("from", "date", "0000-00-00", "Only runs since this day"),
    common("to", "date", "9999-99-99", "Only runs up to this day"),
    common("limit", "whole", "1000", "At most so many rows"),
];

const fn common(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Parameter {
    Parameter { name, kind, default: Some(default), meaning }
}

const TEXTS: [(&str, &str); 9] = [
    ("results", include_str!("../questions/results.sql")),
    ("imbalance", include_str!("../questions/imbalance.sql")),
    ("slowest-node", include_str!("../questions/slowest-node.sql")),
    ("regressed", include_str!("../questions/regressed.sql")),
    ("regressed-functions", include_str!("../questions/regressed-functions.sql")),
    ("top-functions", include_str!("../questions/top-functions.sql")),
    ("bandwidth", include_str!("../questions/bandwidth.sql")),
    ("remote-objects", include_str!("../questions/remote-objects.sql")),
    ("trend", include_str!("../questions/trend.sql")),
];

/// All questions.
#[must_use]
pub fn questions() -> Vec<Question> {
    TEXTS.iter().map(|(name, text)| Question::parse(name, text)).collect()
}

impl Question {
    fn parse(name: &'static str, text: &'static str) -> Question {
        let head = text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim);
        let (mut parameters, mut columns) = (Vec::new(), Vec::new());
        for line in head.clone() {
            let mut words = line.splitn(5, ' ');
            let mut word = || words.next().unwrap_or_default();
            match (word(), word(), word(), word(), word()) {
                ("@param", name, kind, default, meaning) => {
                    let default = Some(default).filter(|default| *default != "-");
                    parameters.push(Parameter { name, kind, default, meaning });
                }
                ("@column", key, kind, unit, label) => {
                    columns.push(AnswerColumn { key, kind, unit, label });
                }
                _ => {}
            }
        }
        let about = head.clone().next().unwrap_or_default();
        Question { name, about, parameters, columns, text }
    }

    /// All parameters, its own first.
    pub fn all_parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().chain(&COMMON)
    }

    /// The statements that answer it on an engine, the last of which gives the rows.
    ///
    /// # Errors
    /// What is wrong with a parameter or the path.
    pub fn sql(
        &self,
        dialect: Dialect,
        dataset: &str,
        given: &[(String, String)],
    ) -> Result<Vec<String>, String> {
        let mut values = BTreeMap::new();
        for parameter in self.all_parameters() {
            // The last one given counts, as on any command line.
            let typed = given.iter().rev().find(|(name, _)| name == parameter.name);
            let value = typed.map(|(_, value)| value.as_str()).or(parameter.default);
            let value = value.ok_or_else(|| {
                format!(
                    "{} needs --param {}=VALUE: {}",
                    self.name, parameter.name, parameter.meaning
                )
            })?;
            values.insert(parameter.name, literal(parameter, value, typed.is_some())?);
        }
        if let Some((unknown, _)) =
            given.iter().find(|(name, _)| !values.contains_key(name.as_str()))
        {
            let known: Vec<&str> = self.all_parameters().map(|one| one.name).collect();
            return Err(format!(
                "{} has no parameter '{unknown}'; it has {}",
                self.name,
                known.join(", ")
            ));
        }
        let text = expand(self.text, &values)?;
        let lines = text.lines().filter(|line| !line.starts_with("--"));
        let query = lines.collect::<Vec<_>>().join("\n");
        dialect.statements(dataset, &query, &values)
    }
}

/// A value as SQL.
fn literal(parameter: &Parameter, value: &str, typed: bool) -> Result<String, String> {
    let wrong = |what: &str| Err(format!("--param {}={value}: must be {what}", parameter.name));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match parameter.kind {
        "whole" if digits(value) && value.len() < 10 && value != "0" => Ok(value.to_owned()),
        "whole" => wrong("a whole number, 1 or more"),
        "number" => match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(format!("{number:e}")),
            _ => wrong("a number"),
        },
        "date" if typed && !is_date(value) => wrong("a day, as 2026-11-24"),
        // Engines differ in how they read a backslash.
        _ if value.contains(['\'', '\\']) || value.chars().any(char::is_control) => {
            wrong("a text without quotes and backslashes")
        }
        _ => Ok(format!("'{value}'")),
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |at: usize, length: usize| {
        let part = parts.get(at).filter(|part| part.len() == length);
        part.and_then(|part| part.parse::<u32>().ok())
    };
    parts.len() == 3
        && number(0, 4).is_some()
        && number(1, 2).is_some_and(|month| (1..=12).contains(&month))
        && number(2, 2).is_some_and(|day| (1..=31).contains(&day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_is_whole_for_every_engine() {
        for question in questions() {
            assert!(question.about.ends_with('?'), "{}", question.name);
            let given: Vec<_> = question
                .parameters
                .iter()
                .filter(|one| one.default.is_none())
                .map(|one| (one.name.to_owned(), "2026-11-24".to_owned()))
                .collect();
            for dialect in Dialect::ALL {
                let statements = question.sql(dialect, "/data/fleet", &given).expect("SQL");
                let last = statements.last().expect("a query");
                assert!(
                    !last.contains("{") && last.contains("/data/fleet")
                        || dialect == Dialect::Spark,
                    "{last}"
                );
            }
            for column in &question.columns {
                assert!(["text", "count", "metric"].contains(&column.kind), "{column:?}");
                assert!(!column.label.is_empty(), "{column:?}");
                assert!(question.text.contains(column.key), "{column:?}");
            }
            assert!(question.columns.iter().any(|one| one.key == "runs"), "how many were pooled");
        }
    }

    #[test]
    fn parameters_are_checked_and_never_become_sql() {
        let all = questions();
        let sql = |name: &str, given: &[(&str, &str)]| {
            let question = all.iter().find(|one| one.name == name).expect("a question");
            let given: Vec<_> = given
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            question.sql(Dialect::DuckDb, "/d", &given)
        };
        /// A question, its parameters, and what is said.
        type Wrong<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let wrong: [Wrong<'_>; 7] = [
            ("regressed", &[], "regressed needs --param since=VALUE"),
            ("regressed", &[("since", "Tuesday")], "must be a day"),
            ("trend", &[("window", "0")], "1 or more"),
            ("trend", &[("window", "3; DROP")], "1 or more"),
            ("trend", &[("threshold", "nan")], "must be a number"),
            ("trend", &[("figure", "x' OR 'a")], "without quotes"),
            ("trend", &[("figures", "x")], "has no parameter 'figures'; it has figure, window"),
        ];
        for (name, given, what) in wrong {
            let error = sql(name, given).expect_err(what);
            assert!(error.contains(what), "{error}");
        }
        let sql = sql("trend", &[("window", "7"), ("program", "a b")]).expect("SQL").join("\n");
        assert!(sql.contains("BETWEEN 7 PRECEDING") && sql.contains("AND 6 FOLLOWING"), "{sql}");
        assert!(sql.contains("program = 'a b'"), "{sql}");
    }
}
