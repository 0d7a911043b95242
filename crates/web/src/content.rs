//! The questions that the page can ask, and the answers that a self-contained page carries.
//!
//! What not: computing answers (`report`).

use std::sync::OnceLock;

use facts::Recording;
use report::{Cell, CodeOf, Document, Options, Prepared, View, build_prepared};
use serde_json::{Value, json};

use crate::WebError;
use crate::bundle::ENGINE;
use crate::compact::{Found, compact, compacted};
use crate::glance::glance;
use crate::layout::layout;
use crate::query::Query;
use crate::texts;
use crate::window::{LongTables, Window};

/// Questions whose answers a self-contained page carries; the page asks these words. Limits keep the file small:
/// tables are sorted by weight, and say how much was cut.
pub const EMBEDDED: [&str; 41] = [
    "summary",
    "stacks",
    "points",
    "moments",
    "hotspots?group=function&limit=400",
    "bandwidth",
    "latency",
    "timeline?limit=400",
    "timeline?group=thread&limit=60",
    "threads?limit=200",
    "objects?limit=250",
    "objects?group=object,function&limit=250",
    "objects?group=type,function&limit=250",
    "objects?group=object,field&limit=400",
    "objects?group=object,source-line&limit=400",
    "bandwidth?group=module,function&limit=250",
    "bandwidth?group=source-line&limit=400",
    "latency?group=module,function&limit=250",
    "latency?group=source-line&limit=400",
    "pace?limit=200",
    "regions?limit=200",
    "accesses?limit=300",
    "reuse?limit=60",
    "working-set",
    "sharing?limit=100",
    "flushes?group=object,function&limit=100",
    "roofline?limit=100",
    "roofline?group=loop&limit=100",
    "allocations?group=function&limit=250",
    "allocations?group=call-stack&limit=100",
    "faults?limit=200",
    "waits?limit=200",
    "kernel?limit=200",
    "kernel?group=time,cause&limit=60",
    "findings",
    "callers?limit=400",
    "callees?limit=400",
    "hotspots?group=source-line&limit=400",
    "hotspots?group=module&limit=200",
    "layout",
    "platform",
];

/// What a self-contained page carries besides, where the program marks regions.
const STACKS_BY_REGION: &str = "stacks?group=region";

/// Source files that a self-contained page carries.
const EMBEDDED_TEXTS: usize = 16;
/// Functions whose machine code a self-contained page carries, where it is known.
const EMBEDDED_CODES: usize = 16;
/// Bytes of all source files together.
const ALL_TEXTS: usize = 1_500_000;
/// Rows of a stored table that are sent to be asked in SQL.
const MOST_FACTS: usize = 50_000;
/// Rows that are sent when the page names no limit: more are for files, not for people.
const MOST_ROWS: usize = 5000;

/// Stored facts as JSON: without a name which tables there are, with one its first rows, at most so many; `None` when no table
/// has that name (`store::tables_json`, `store::rows_json`).
pub type FactsOf<'a> = dyn Fn(Option<&str>, usize) -> Option<Value> + Sync + 'a;

/// Makes an answer.
pub type Made<'a> = dyn Fn() -> Result<String, WebError> + 'a;

/// An answer that was kept from an earlier time, or one that is made now and kept.
pub type KeptOrMade<'a> = dyn Fn(&str, &Made<'_>) -> Result<String, WebError> + Sync + 'a;

/// What a page is of.
pub trait Subject: Sync {
    /// What the user calls it.
    fn name(&self) -> &str;

    /// The answer to a question, as JSON.
    ///
    /// # Errors
    /// When it is no question, or has no answer.
    fn answer(&self, question: &str) -> Result<String, WebError>;

    /// Questions that a server answers before they are asked.
    fn ahead(&self) -> &'static [&'static str];

    /// Everything that the page carries. `everything`: for a self-contained page; else only what is available without
    /// computing.
    fn data(&self, everything: bool) -> Carried;
}

/// The first questions of a page, in their order and wording: answered in advance, because a very large recording
/// takes seconds to sum up. Everything that is computed once and used by many views is computed for these.
const AHEAD: [&str; 10] = [
    // Of samples alone: shown until the summary is there.
    "hotspots?group=function&limit=400",
    "summary",
    "latency",
    "stacks",
    FIRST_OBJECTS,
    "timeline?group=thread&limit=60",
    "timeline?limit=400",
    "bandwidth",
    "bandwidth?group=module,function&limit=250",
    // Never kept: it makes the table that further parts are cut from.
    "objects?count=1&from=0",
];

/// The part of a long table that a page shows first.
const FIRST_OBJECTS: &str = "objects?count=100&from=0";

/// What a page carries.
pub struct Carried {
    /// What the page is of, as JSON.
    pub head: String,
    /// Questions with their answers, as JSON; the first is what is shown first.
    pub documents: Vec<(String, String)>,
    /// The SQL engine belongs to them, where the page has room for it.
    pub engine: bool,
}

/// The other result of a comparison.
pub enum ComparedResult<'a> {
    /// It is the base.
    Base(&'a Recording),
    /// It is the new one.
    New(&'a Recording),
}

/// What changed.
struct Compared {
    diff: String,
    side: &'static str,
    /// `other-stacks`: its call stacks, and which side it is.
    stacks: String,
}

/// The result that a page shows.
pub struct Site<'a> {
    recording: &'a Recording,
    /// Made at the first question: a server can show what ran before samples are summed.
    prepared: OnceLock<Prepared<'a>>,
    name: String,
    problems: Vec<String>,
    sources: &'a (dyn Fn(&str) -> Option<String> + Sync),
    codes: &'a CodeOf<'a>,
    facts: Option<&'a FactsOf<'a>>,
    kept: &'a KeptOrMade<'a>,
    compared: Option<Compared>,
    sweep: Option<String>,
    long: LongTables,
}

impl<'a> Site<'a> {
    /// `name` is what the user calls the result, `problems` what was wrong with it when it was opened. `sources` returns
    /// the text of a file that the result names, as for `report::build`.
    pub fn new(
        recording: &'a Recording,
        name: &str,
        problems: Vec<String>,
        sources: &'a (dyn Fn(&str) -> Option<String> + Sync),
    ) -> Site<'a> {
        let name = name.to_owned();
        Site {
            recording,
            prepared: OnceLock::new(),
            name,
            problems,
            sources,
            codes: &|_, offsets| vec![None; offsets.len()],
            facts: None,
            kept: &|_: &str, make: &Made<'_>| make(),
            compared: None,
            sweep: None,
            long: LongTables::default(),
        }
    }

    /// Adds the changes against another result, as `fathom diff` computes them, and the call stacks of that result.
    ///
    /// # Errors
    /// When its call stacks cannot be had.
    pub fn comparing(
        self,
        diff: &Document,
        other: &ComparedResult<'_>,
    ) -> Result<Site<'a>, WebError> {
        let (side, recording) = match other {
            ComparedResult::Base(recording) => ("base", recording),
            ComparedResult::New(recording) => ("new", recording),
        };
        let stacks = report::stacks(&Prepared::new(recording), &[], false, side)?;
        let stacks = format!("{{\"side\":\"{side}\",\"stacks\":{stacks}}}");
        let compared = Compared { diff: compact(&diff.json()), side, stacks };
        Ok(Site { compared: Some(compared), ..self })
    }

    /// Adds the source of functions' code in the files of modules; without it only code that bursts recorded is
    /// known.
    #[must_use]
    pub fn with_code(self, codes: &'a CodeOf<'a>) -> Site<'a> {
        Site { codes, ..self }
    }

    /// Adds the stored facts, which a server gives to who asks in SQL.
    #[must_use]
    pub fn with_facts(self, facts: &'a FactsOf<'a>) -> Site<'a> {
        Site { facts: Some(facts), ..self }
    }

    /// Adds a place that keeps the answers with which a page begins.
    #[must_use]
    pub fn with_kept(self, kept: &'a KeptOrMade<'a>) -> Site<'a> {
        Site { kept, ..self }
    }

    /// Adds a sweep over numbers of threads: the text of a `scale.json`. `None` when it is no such document.
    #[must_use]
    pub fn scaling(self, sweep: &str) -> Option<Site<'a>> {
        let document: serde_json::Value = serde_json::from_str(sweep).ok()?;
        (document["view"] == "scale").then(|| Site { sweep: Some(compact(sweep)), ..self })
    }

    fn prepared(&self) -> &Prepared<'a> {
        self.prepared.get_or_init(|| Prepared::new(self.recording))
    }

    fn with_other(&self, of: impl Fn(&Compared) -> &String) -> Result<String, WebError> {
        self.compared
            .as_ref()
            .map(|compared| of(compared).clone())
            .ok_or(WebError::NothingToCompare)
    }

    fn part(&self, query: &Query, window: &Window) -> Result<String, WebError> {
        let options = query.options(&self.name)?;
        let part = self.long.part(&query.without_window(), window, || {
            match build_prepared(self.prepared(), &options, &self.sources)? {
                Document::Table(table) => Ok(*table),
                _ => Err(WebError::Query(query.name.clone())),
            }
        });
        part.map(|table| compacted(table).to_string())
    }

    fn document(&self, options: &Options) -> Result<Document, WebError> {
        let limit = match options.view {
            View::Summary => None,
            _ => Some(options.limit.unwrap_or(MOST_ROWS).min(MOST_ROWS)),
        };
        // The timeline reads a limit as a number of bins.
        let limit =
            if options.view == View::Timeline { options.limit.or(Some(400)) } else { limit };
        let options = Options { limit, ..options.clone() };
        Ok(build_prepared(self.prepared(), &options, &self.sources)?)
    }

    /// All tables of a page, and what chooses the files that it carries.
    fn expect(&self, questions: &[String]) {
        let options = |question: &String| Query::parse(question)?.options(&self.name).ok();
        let tables = questions.iter().filter_map(options);
        let tables: Vec<Options> = tables.chain([by_line(View::Accesses)]).collect();
        self.prepared().expect(&tables);
    }

    fn found(&self, question: &str) -> Result<Found, WebError> {
        let query = Query::parse(question).ok_or_else(|| WebError::Query(question.to_owned()))?;
        let text = match query.name.as_str() {
            "stacks" => {
                let by_region = match query.value("group") {
                    None => false,
                    Some("region") => true,
                    Some(_) => return Err(WebError::Query(question.to_owned())),
                };
                let filters = query.filters()?;
                Ok(report::stacks(self.prepared(), &filters, by_region, &self.name)?)
            }
            "layout" => Ok(layout(self.recording).to_string()),
            "moments" => {
                let limit = query.value("limit").map(str::parse).transpose();
                let limit = limit.map_err(|_| WebError::Query(question.to_owned()))?;
                Ok(report::moments(self.prepared(), &query.filters()?, limit, &self.name)?)
            }
            "points" => Ok(report::points(self.prepared(), &self.name)),
            "platform" => Ok(compact(&report::platform(self.prepared(), &self.name))),
            "text" => {
                let file = query.value("file").unwrap_or_default();
                let text = texts::text(self.recording, self.sources, file);
                let text = text.ok_or_else(|| WebError::NoText(file.to_owned()))?;
                Ok(json!({ "file": file, "text": text }).to_string())
            }
            "assembly" => {
                let of = |name| query.value(name).unwrap_or_default();
                let mut code = self.assemblies(&[(of("function"), of("module"))]);
                code.remove(0)
            }
            "engine" => Ok(engine()),
            "facts" => {
                let facts = self.facts.ok_or(WebError::NoFacts)?;
                let found = facts(query.value("table"), MOST_FACTS);
                Ok(found.ok_or_else(|| WebError::Query(question.to_owned()))?.to_string())
            }
            "diff" => self.with_other(|compared| &compared.diff),
            "other-stacks" => self.with_other(|compared| &compared.stacks),
            "scale" => self.sweep.clone().ok_or(WebError::NoSweep),
            _ => match query.window()? {
                Some(window) => self.part(&query, &window),
                None => {
                    let document = self.document(&query.options(&self.name)?)?;
                    return Ok(Found::Value(compacted(document.value())));
                }
            },
        };
        text.map(Found::Text)
    }

    /// The machine code of each function, which is given with the name of its module.
    fn assemblies(&self, functions: &[(&str, &str)]) -> Vec<Result<String, WebError>> {
        let found = report::assemblies(self.prepared(), functions, self.codes).into_iter();
        let no_code = |function: &str| WebError::NoCode(function.to_owned());
        found
            .zip(functions)
            .map(|(code, (function, _))| code.ok_or_else(|| no_code(function)))
            .collect()
    }

    /// The machine code of the functions with the most time: questions and answers.
    fn codes_of_hottest(&self) -> Vec<(String, String)> {
        let functions = self.functions();
        let functions: Vec<(&str, &str)> =
            functions.iter().map(|(function, module)| (&**function, &**module)).collect();
        let answers = self.assemblies(&functions).into_iter();
        let answers = answers
            .map(|code| code.map_or_else(refused, |code| Found::Text(near_samples(code))).packed());
        let question = |(function, module): (&str, &str)| {
            format!("assembly?function={}&module={}", encoded(function), encoded(module))
        };
        functions.iter().copied().map(question).zip(answers).collect()
    }

    /// The functions with the most time.
    fn functions(&self) -> Vec<(String, String)> {
        let options =
            Options { view: View::Hotspots, limit: Some(EMBEDDED_CODES), ..Options::default() };
        let Ok(Document::Table(table)) = self.document(&options) else { return Vec::new() };
        let (function, module) = (table.column("function"), table.column("module"));
        let text = |row: &[Cell], column: Option<usize>| match row.get(column?) {
            Some(Cell::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let named =
            table.rows.iter().filter_map(|row| Some((text(row, function)?, text(row, module)?)));
        named.collect()
    }

    /// The files with the most time, then those with the most accesses.
    fn texts(&self) -> Vec<String> {
        let mut files: Vec<String> = Vec::new();
        for options in [View::Hotspots, View::Accesses].map(by_line) {
            if let Ok(Document::Table(table)) = self.document(&options) {
                files.extend(texts::files_of(&table, EMBEDDED_TEXTS));
            }
        }
        let mut all = 0;
        let mut chosen: Vec<String> = Vec::new();
        for file in files {
            if chosen.contains(&file) || chosen.len() >= EMBEDDED_TEXTS {
                continue;
            }
            let length = texts::text(self.recording, self.sources, &file).map(|text| text.len());
            if let Some(length) =
                length.filter(|length| *length <= texts::LONGEST && all + length <= ALL_TEXTS)
            {
                all += length;
                chosen.push(file);
            }
        }
        chosen
    }
}

fn by_line(view: View) -> Options {
    let group = vec![report::Key::SourceLine];
    Options { view, group, limit: Some(1000), ..Options::default() }
}

impl Subject for Site<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn ahead(&self) -> &'static [&'static str] {
        &AHEAD
    }

    fn answer(&self, question: &str) -> Result<String, WebError> {
        let make = || self.found(question).map(Found::text);
        match EMBEDDED.contains(&question) || question == FIRST_OBJECTS {
            true => (self.kept)(question, &make),
            false => make(),
        }
    }

    fn data(&self, everything: bool) -> Carried {
        let embedded: &[&str] = if everything { &EMBEDDED } else { &[] };
        let mut questions: Vec<String> =
            embedded.iter().map(|question| (*question).to_owned()).collect();
        if self.compared.is_some() {
            questions.extend(["diff".to_owned(), "other-stacks".to_owned()]);
        }
        if self.sweep.is_some() {
            questions.push("scale".to_owned());
        }
        if everything && !self.recording.marked_regions.is_empty() {
            questions.push(STACKS_BY_REGION.to_owned());
        }
        if everything {
            self.expect(&questions);
            questions
                .extend(self.texts().iter().map(|file| format!("text?file={}", encoded(file))));
        }
        let answer = |question: &String| {
            let answer = self.found(question).unwrap_or_else(refused);
            (question.clone(), answer.packed())
        };
        let mut documents = report::each_long(&questions, answer);
        if everything {
            documents.extend(self.codes_of_hottest());
        }
        let head = json!({
            "mode": if everything { "file" } else { "server" },
            "result": self.name,
            "problems": self.problems,
            "compares": self.compared.as_ref().map_or(json!(false), |compared| json!(compared.side)),
            "scales": self.sweep.is_some(),
            "run": glance(self.recording),
        });
        Carried { head: head.to_string(), documents, engine: everything }
    }
}

/// What stands in place of an answer that cannot be had.
fn refused(error: WebError) -> Found {
    Found::Text(json!({ "error": error.to_string() }).to_string())
}

/// The document `engine`.
pub(crate) fn engine() -> String {
    json!({ "engine": ENGINE }).to_string()
}

/// Number of instructions of a function above which a self-contained page carries only the code around samples: an
/// interpreter's loop alone would be as large as all else.
const ALL_CODE: usize = 1500;
/// Instructions before and behind one with samples.
const AROUND: usize = 16;

fn near_samples(answer: String) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(&answer) else { return answer };
    let Some(rows) = document["rows"].as_array_mut() else { return answer };
    let count = rows.len();
    if count <= ALL_CODE {
        return answer;
    }
    let hot: Vec<usize> = (0..count)
        .filter(|at| rows[*at]["cpu_time"].as_f64().is_some_and(|time| time > 0.0))
        .collect();
    let is_near = |at: usize| {
        let next = hot.partition_point(|hot| hot + AROUND < at);
        hot.get(next).is_some_and(|hot| *hot <= at + AROUND)
    };
    let mut at = 0;
    rows.retain(|_| {
        at += 1;
        is_near(at - 1)
    });
    let left = rows.len();
    if let Some(notes) = document["notes"].as_array_mut() {
        notes.push(json!(format!(
            "{} of {count} instructions are left out here, without samples near them; `fathom open` shows all.",
            count - left
        )));
    }
    document.to_string()
}

/// As JavaScript's `encodeURIComponent` writes it, so that both sides ask with the same words.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte);
    let one =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}
