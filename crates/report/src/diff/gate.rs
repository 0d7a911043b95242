//! Gates for CI: `elapsed<=3%`, `dram_bandwidth.average>=-5%`, `function:multiply<=10%`.

use analysis::bare_function_name;
use serde::Serialize;

use super::RunFigures;
use super::pairs::Pairs;
use super::rows::{Compared, total};
use crate::ReportError;
use crate::text::{self, markdown};

/// A limit for the change of one figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Gate {
    text: String,
    figure: Figure,
    /// Whether it may at most (or else at least) change by `percent`.
    at_most: bool,
    percent: f64,
}

#[derive(Clone, PartialEq, Debug)]
enum Figure {
    /// A path of the summary's JSON.
    Total(String),
    /// The compared figure of this function.
    Function(String),
}

/// What a gate came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The whole interval of the change is beyond the limit.
    Failed,
    /// The whole interval is within the limit.
    Holds,
    /// Undecided by these runs.
    Undecided,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Outcome::Failed => "failed",
            Outcome::Holds => "holds",
            Outcome::Undecided => "is undecided",
        }
    }
}

/// A gate with its outcome.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GateResult {
    /// The condition as typed.
    pub gate: String,
    /// What it came to.
    pub outcome: Outcome,
    /// Why, as a clause.
    pub reason: String,
}

impl Gate {
    /// A gate from text: `FIGURE<=N%` or `FIGURE>=N%`, where the figure is a path of the summary's JSON or
    /// `function:NAME`, and N the change in percent of the base, -100 or more.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Gate, ReportError> {
        let bad = || ReportError::BadGate { text: text.to_owned() };
        let (at_most, (figure, limit)) = match text.split_once("<=") {
            Some(parts) => (true, parts),
            None => (false, text.split_once(">=").ok_or_else(bad)?),
        };
        let limit = limit.trim().trim_end_matches('%').trim();
        let percent = limit.parse::<f64>().ok().filter(|percent| (-100.0..=1e6).contains(percent));
        let figure = figure.trim();
        let figure = match figure.strip_prefix("function:") {
            Some(name) => Figure::Function(name.trim().to_owned()),
            None => Figure::Total(figure.to_owned()),
        };
        if matches!(&figure, Figure::Total(name) | Figure::Function(name) if name.is_empty()) {
            return Err(bad());
        }
        Ok(Gate { text: text.to_owned(), figure, at_most, percent: percent.ok_or_else(bad)? })
    }

    /// Judges it; `parts` are the rows of the table.
    pub(super) fn result(
        &self,
        (base, new): (&[RunFigures], &[RunFigures]),
        pairs: &Pairs,
        parts: &[Compared],
    ) -> Result<GateResult, ReportError> {
        let found = match &self.figure {
            Figure::Total(path) => total(path, base, new, pairs),
            Figure::Function(name) => parts
                .iter()
                .find(|row| row.name == *name)
                .or_else(|| parts.iter().find(|row| bare_function_name(&row.name) == *name))
                .cloned(),
        };
        let row =
            found.ok_or_else(|| ReportError::GateWithoutFigure { gate: self.text.clone() })?;
        let (outcome, reason) = self.judge(&row);
        Ok(GateResult { gate: self.text.clone(), outcome, reason })
    }

    fn judge(&self, row: &Compared) -> (Outcome, String) {
        let Some(comparison) = &row.comparison else {
            return (Outcome::Undecided, "one of the sides does not have this figure".to_owned());
        };
        let change = row.change();
        let shown = match (change.value, change.low, change.high) {
            (Some(value), Some(low), Some(high)) if low < high => {
                format!("it changed by {value:+.1} % ({low:+.1} to {high:+.1})")
            }
            (Some(value), ..) => format!("it changed by {value:+.1} %"),
            _ => {
                let base = text::measure(row.base.value.unwrap_or(0.0), &row.base.unit);
                format!("it changed by {:+} {} from {base}", comparison.difference, row.base.unit)
            }
        };
        if comparison.p.is_none() {
            let why = "one run a side does not show how much runs differ";
            return (Outcome::Undecided, format!("{shown}; {why}"));
        }
        // From a base of 0 any change is beyond any share of it.
        let (interval, limit) = match row.base_is_nothing() {
            false => (change.low.zip(change.high), self.percent),
            true => (comparison.difference_interval, 0.0),
        };
        let Some((low, high)) = interval else {
            return (Outcome::Undecided, format!("{shown}; the base may be 0"));
        };
        let (beyond, within) =
            if self.at_most { (low > limit, high <= limit) } else { (high < limit, low >= limit) };
        let outcome = match (beyond, within) {
            (true, _) => Outcome::Failed,
            (_, true) => Outcome::Holds,
            _ => Outcome::Undecided,
        };
        (outcome, shown)
    }
}

impl GateResult {
    /// One line.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("gate {} {}: {}", self.gate, self.outcome.words(), self.reason)
    }

    pub(super) fn markdown(&self) -> String {
        let (gate, why) = (markdown::code(&self.gate), markdown::escaped(&self.reason));
        format!("- gate {gate} **{}**: {why}\n", self.outcome.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_or_refused() {
        let gate = Gate::parse(" elapsed <= 3 %").unwrap();
        assert_eq!(
            (gate.figure, gate.at_most, gate.percent),
            (Figure::Total("elapsed".into()), true, 3.0)
        );
        let gate = Gate::parse("function:a<b>::c>=-5%").unwrap();
        assert_eq!(
            (gate.figure, gate.at_most, gate.percent),
            (Figure::Function("a<b>::c".into()), false, -5.0)
        );
        for wrong in [
            "elapsed",
            "elapsed<3%",
            "<=3%",
            "elapsed<=x%",
            "elapsed<=nan%",
            "elapsed>=-200%",
            "function:<=1%",
        ] {
            assert!(matches!(Gate::parse(wrong), Err(ReportError::BadGate { .. })), "{wrong}");
        }
    }
}
