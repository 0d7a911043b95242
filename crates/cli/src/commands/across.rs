//! `fathom across`: asks a question about a dataset, on an engine that is installed, and shows the answer like a view.
//!
//! What not: the questions and their SQL (`dataset`), starting engines (`engine`), tables in text (`report`).

mod engine;

use std::path::Path;
use std::process::ExitCode;

use ::dataset::{COMMON, Dataset, Dialect, Question, questions};
use ::report::{Answer, AnswerColumn, AnswerKind};
use facts::{Evidence, Metric};
use report::Cell;
use serde_json::{Map, Value};

use self::engine::Engine;
use crate::arguments::AcrossOptions;
use crate::exit::{CANNOT_MEASURE, Failure};

/// Rows that a page takes.
const MOST: usize = 20_000;

/// Answers a question, or lists them.
pub fn across(options: &AcrossOptions) -> Result<ExitCode, Failure> {
    let all = questions();
    let Some(name) = options.question.as_ref().filter(|_| !options.list) else {
        return super::print(&list(&all));
    };
    let question = all.iter().find(|question| question.name == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|question| question.name).collect();
        Failure::usage(format!("there is no question '{name}'; possible are {}", names.join(", ")))
    })?;
    let engine: Engine = options.engine.parse().map_err(Failure::usage)?;
    let place = place(&options.dataset, &engine)?;
    let statements =
        question.sql(engine.dialect(), &place, &options.parameters).map_err(Failure::usage)?;
    if options.sql {
        return super::print(&(statements.join(";\n") + ";\n"));
    }
    let rows = engine.rows(&statements)?;
    let document = answer(question, &super::shown_name(&options.dataset), &rows).document();
    super::print(&super::rendered(&document, options.format))
}

/// Answers a question with its usual parameters on DuckDB, as a view in JSON.
pub fn answered(dataset: &Path, name: &str) -> Result<String, Failure> {
    let all = questions();
    let question = all.iter().find(|question| question.name == name);
    let question =
        question.ok_or_else(|| Failure::usage(format!("there is no question '{name}'")))?;
    let most = [("limit".to_owned(), MOST.to_string())];
    let engine = Engine::DuckDb;
    let place = place(dataset, &engine)?;
    let statements = question.sql(engine.dialect(), &place, &most).map_err(Failure::usage)?;
    let rows = engine.rows(&statements)?;
    let mut answer = answer(question, &super::shown_name(dataset), &rows);
    if rows.len() == MOST {
        answer.notes.push(format!("These are the first {MOST} rows: there are more."));
    }
    Ok(answer.document().json())
}

/// Where an engine finds the dataset, which must be there.
fn place(dataset: &Path, engine: &Engine) -> Result<String, Failure> {
    if let Some(bucket) = super::dataset::bucket(dataset)? {
        super::dataset::Stored::check(&bucket)?;
        return Ok(match engine.dialect() {
            Dialect::DuckDb => bucket.name,
            Dialect::Spark => bucket.name.replacen("s3://", "s3a://", 1),
            Dialect::ClickHouse => bucket.url(),
        });
    }
    Dataset::open(dataset).map_err(super::dataset::failure)?;
    // An engine may run in another directory.
    let path = std::path::absolute(dataset).unwrap_or_else(|_| dataset.to_owned());
    Ok(path.to_string_lossy().into_owned())
}

/// The questions, one line each, with their parameters.
fn list(all: &[Question]) -> String {
    let mut text = String::new();
    for question in all {
        text += &format!("{:<20} {}\n", question.name, question.about);
        for one in &question.parameters {
            let default =
                one.default.map_or("required".to_owned(), |value| format!("default {value}"));
            text += &format!("{:<20}   {}: {} ({default})\n", "", one.name, one.meaning);
        }
    }
    text += "\nof every question\n";
    for one in COMMON {
        text += &format!("{:<20}   {}: {}\n", "", one.name, one.meaning);
    }
    text
}

fn answer(question: &Question, dataset: &str, rows: &[Map<String, Value>]) -> Answer {
    let kind = |kind: &str| match kind {
        "metric" => AnswerKind::Metric,
        "count" => AnswerKind::Count,
        _ => AnswerKind::Text,
    };
    let columns: Vec<AnswerColumn> = question
        .columns
        .iter()
        .map(|one| AnswerColumn {
            key: one.key,
            label: if one.label == "-" { one.key } else { one.label },
            shown: one.label != "-",
            kind: kind(one.kind),
            unit: Some(one.unit).filter(|unit| !["*", "-"].contains(unit)),
        })
        .collect();
    let row = |row: &Map<String, Value>| columns.iter().map(|column| cell(row, column)).collect();
    Answer {
        question: question.name,
        about: question.about.to_owned(),
        dataset: dataset.to_owned(),
        rows: rows.iter().map(row).collect(),
        columns,
        notes: Vec::new(),
        empty: "No complete result in the dataset has what this asks for.".to_owned(),
    }
}

fn cell(row: &Map<String, Value>, column: &AnswerColumn) -> Cell {
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    // DuckDB's program prints sums of whole numbers, of 128 bits, as text.
    let number = |key: &str| {
        let value = row.get(key)?;
        value.as_f64().or_else(|| value.as_str()?.parse().ok())
    };
    match column.kind {
        AnswerKind::Text => {
            text(column.key).map_or(Cell::Missing, |text| Cell::Text(text.to_owned()))
        }
        AnswerKind::Count => {
            let count = number(column.key).filter(|count| *count >= 0.0);
            count.map_or(Cell::Missing, |count| Cell::Number(count as u64))
        }
        AnswerKind::Metric => {
            let of = |end: &str| format!("{}_{end}", column.key);
            let unit = column.unit.or_else(|| text("unit")).unwrap_or("");
            let evidence = text(&of("evidence")).map(|word| Value::String(word.to_owned()));
            let evidence: Option<Evidence> =
                evidence.and_then(|word| serde_json::from_value(word).ok());
            let (Some(value), Some(_)) = (number(column.key), evidence) else {
                return Cell::Metric(Metric::unavailable(unit, "no result has the figures for it"));
            };
            let interval = number(&of("low")).zip(number(&of("high")));
            Cell::Metric(Metric {
                value: Some(value),
                unit: unit.to_owned(),
                low: interval.map(|(low, _)| low),
                high: interval.map(|(_, high)| high),
                evidence,
                // How many results were pooled.
                samples: number("runs").unwrap_or(0.0) as u64,
                lost: 0,
                note: interval.is_none().then(|| "the results do not give an interval".to_owned()),
            })
        }
    }
}

/// The failure of an engine.
fn engine_failure(message: String) -> Failure {
    Failure::new(CANNOT_MEASURE, anyhow::Error::msg(message))
}
