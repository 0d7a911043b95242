//! `fathom try`: what each remedy gained.
//!
//! What for: the table of a trial and its text. What not: the statistics (`analysis::trial`), which remedies fit
//! (`analysis::remedies`).

use analysis::trial::{Effect, Verdict};
use estimate::interval::{median, median_interval};
use facts::{Evidence, Metric};

use crate::Document;
use crate::summary::quoted;
use crate::table::{Cell, CellStyle, Column, Table};

/// A remedy that was tried.
pub struct Tried {
    /// Its name.
    pub name: String,
    /// What it does.
    pub what: String,
    /// Seconds of each run with it.
    pub times: Vec<f64>,
    /// What it changed.
    pub effect: Effect,
    /// What went wrong: the program failed with it, or printed something else.
    pub trouble: Option<String>,
    /// What to put in front of the command.
    pub line: String,
}

/// A trial.
pub struct Trials {
    /// The command's words.
    pub command: Vec<String>,
    /// Seconds of each plain run.
    pub plain: Vec<f64>,
    /// Remedies in the order of the table.
    pub tried: Vec<Tried>,
    /// Names of the others, and why they were not tried.
    pub not_tried: Vec<(String, String)>,
    /// Remarks.
    pub notes: Vec<String>,
}

const COLUMNS: [Column; 6] = [
    Column { key: "remedy", label: "Remedy", unit: None },
    Column { key: "what", label: "What it does", unit: None },
    Column { key: "time", label: "Time", unit: Some("s") },
    Column { key: "change", label: "Change", unit: Some("percent") },
    Column { key: "verdict", label: "Verdict", unit: None },
    Column { key: "line", label: "In front of the command", unit: None },
];

/// Makes the view.
#[must_use]
pub fn trials(trials: &Trials) -> Document {
    let command = trials.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let mut rows = vec![vec![
        Cell::text("(as it is)"),
        Cell::text("nothing"),
        time(&trials.plain),
        Cell::Missing,
        Cell::Missing,
        Cell::Missing,
    ]];
    rows.extend(trials.tried.iter().map(row));
    let advice = trials.tried.iter().filter(|tried| helps(tried)).map(|tried| {
        let percent = tried.effect.change.value.unwrap_or(0.0).abs();
        format!("{percent:.0} % less time: {} {command}", tried.line)
    });
    let mut notes: Vec<String> = advice.collect();
    if notes.is_empty() && !trials.tried.is_empty() {
        notes.push("No remedy made the program significantly faster.".to_owned());
    }
    notes.extend(trials.notes.iter().cloned());
    notes.extend(not_tried(&trials.not_tried));
    Document::Table(Box::new(Table {
        view: "try",
        title: format!("remedies for {command}"),
        result: command,
        columns: COLUMNS.to_vec(),
        total: vec![Cell::Missing; COLUMNS.len()],
        rows,
        notes,
        text_columns: vec![
            CellStyle::Text("remedy").titled("Remedy"),
            CellStyle::Text("what").titled("What it does"),
            CellStyle::Time("time").titled("Time"),
            CellStyle::Percent("change").titled("Change %"),
            CellStyle::Text("verdict").titled("Verdict"),
        ],
        page: usize::MAX,
        empty: String::new(),
    }))
}

/// A sentence per reason.
fn not_tried(reasons: &[(String, String)]) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, why) in reasons {
        match by_reason.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((why, vec![name])),
        }
    }
    let sentence =
        |(why, names): (&str, Vec<&str>)| format!("Not tried: {}: {why}.", names.join(", "));
    by_reason.into_iter().map(sentence).collect()
}

fn helps(tried: &Tried) -> bool {
    tried.effect.verdict == Verdict::Faster && tried.trouble.is_none()
}

fn row(tried: &Tried) -> Vec<Cell> {
    let verdict = match (&tried.trouble, tried.effect.verdict) {
        (Some(trouble), _) => trouble,
        (None, Verdict::Faster) => "faster",
        (None, Verdict::Slower) => "slower",
        (None, Verdict::Same) => "no difference of 1 %",
        (None, Verdict::NoGain) => "no gain of 1 %",
        (None, Verdict::Open) => "not clear",
    };
    vec![
        Cell::text(&tried.name),
        Cell::text(&tried.what),
        time(&tried.times),
        Cell::metric(tried.effect.change.clone()),
        Cell::text(verdict),
        Cell::text(&tried.line),
    ]
}

/// The median of runs.
fn time(seconds: &[f64]) -> Cell {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(middle) = median(&sorted) else {
        return Cell::metric(Metric::unavailable("s", "no run ended successfully"));
    };
    let count = sorted.len() as u64;
    Cell::metric(match median_interval(&sorted) {
        Some(interval) => Metric::with_interval(Evidence::Timed, middle, "s", interval, count),
        None => Metric {
            low: None,
            high: None,
            note: Some(format!("{count} runs: too few for an interval")),
            ..Metric::with_interval(Evidence::Timed, middle, "s", (middle, middle), count)
        },
    })
}
