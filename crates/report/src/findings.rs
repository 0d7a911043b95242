//! Findings as they leave the program: in the summary and in their own view.

use analysis::findings::{Finding, Findings, NotJudged};
use facts::Metric;
use serde::Serialize;

use crate::json::tidy;
use crate::summary::quoted;
use crate::text::{IN_PROSE, interval, seconds, shorten_function};

/// One finding.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "as in docs/format/summary.schema.json")]
pub struct FindingSummary {
    pub id: &'static str,
    pub severity: &'static str,
    pub title: String,
    pub evidence: Vec<ProofSummary>,
    #[serde(rename = "where")]
    pub place: PlaceSummary,
    pub advice: String,
    pub predicted_gain: Metric,
    pub next_command: String,
}

/// A figure that a finding rests on.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "as in docs/format/summary.schema.json")]
pub struct ProofSummary {
    pub what: String,
    pub metric: Metric,
}

/// Where it is.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "as in docs/format/summary.schema.json")]
pub struct PlaceSummary {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub object: Option<String>,
}

/// All findings, with commands that name the result.
pub(crate) fn summaries(judged: &Findings, result: &str) -> Vec<FindingSummary> {
    judged.found.iter().map(|finding| summary(finding, result)).collect()
}

/// Rules that could not be judged, for one reason.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "as in docs/format/summary.schema.json")]
pub struct UndecidedSummary {
    pub rules: Vec<&'static str>,
    pub reason: String,
    /// The measurement that would decide them; `None` where only the reason is known.
    pub decided_by: Option<String>,
    /// Whether it is another analysis that looks for them.
    pub elsewhere: bool,
}

/// The rules that could not be judged, by reason.
pub(crate) fn undecided(judged: &Findings) -> Vec<UndecidedSummary> {
    let mut reasons: Vec<UndecidedSummary> = Vec::new();
    for rule in &judged.unjudged {
        if let Some(known) = reasons.iter_mut().find(|one| one.reason == rule.why.text()) {
            known.rules.push(rule.id);
            continue;
        }
        // A reason ends with what to do, after a colon.
        let by = rule.why.text().rsplit_once(": ").map(|(_, by)| by.to_owned());
        reasons.push(UndecidedSummary {
            rules: vec![rule.id],
            reason: rule.why.text().to_owned(),
            decided_by: by,
            elsewhere: matches!(rule.why, NotJudged::OtherAnalysis(_)),
        });
    }
    reasons
}

/// The sentence where nothing was found: "nothing is slow" is known only of what was examined.
pub(crate) fn nothing_found(undecided: &[UndecidedSummary]) -> String {
    let open = undecided.iter().filter(|one| !one.elsewhere).flat_map(|one| &one.rules).count();
    match open {
        0 => "No rule found a cause.".to_owned(),
        1 => "No cause was found, but 1 rule is undecided.".to_owned(),
        open => format!("No cause was found, but {open} rules are undecided."),
    }
}

fn summary(finding: &Finding, result: &str) -> FindingSummary {
    let evidence = finding
        .evidence
        .iter()
        .map(|proof| ProofSummary { what: proof.what.clone(), metric: tidy(proof.metric.clone()) });
    FindingSummary {
        id: finding.id,
        severity: finding.severity.name(),
        title: finding.title.clone(),
        evidence: evidence.collect(),
        place: PlaceSummary {
            function: finding.place.function.clone(),
            file: finding.place.file.clone(),
            line: finding.place.line,
            object: finding.place.object.clone(),
        },
        advice: finding.advice.clone(),
        predicted_gain: tidy(finding.gain.clone()),
        next_command: command(&finding.next, result),
    }
}

/// `fathom report VIEW -r RESULT ...`, or another command, as a shell takes it.
fn command(words: &[String], result: &str) -> String {
    let mut command = vec!["fathom".to_owned()];
    command.extend(words.iter().map(|word| quoted(word)));
    if words.first().is_some_and(|word| word == "report") {
        let after_view = command.len().min(3);
        command.insert(after_view, format!("-r {}", quoted(result)));
    }
    command.join(" ")
}

impl FindingSummary {
    /// `saves 0.31 s (0.2 to 0.41 s)`, or what it may cost where the sign is not sure; empty where no gain is stated. The page says
    /// the same (`saving` of `ui/src/format.ts`).
    pub(crate) fn gain(&self) -> String {
        let gain = &self.predicted_gain;
        match (gain.value, gain.low, gain.high) {
            (Some(value), Some(low), Some(high)) if high <= 0.0 && low < 0.0 => {
                format!("costs {} ({} to {})", seconds(-value), seconds(-high), seconds(-low))
            }
            (Some(value), Some(low), Some(high)) if low < 0.0 && value <= 0.0 => {
                format!("may cost up to {} or save up to {}", seconds(-low), seconds(high))
            }
            (Some(value), Some(low), Some(high)) if low < 0.0 => format!(
                "may save {} (up to {}) or cost up to {}",
                seconds(value),
                seconds(high),
                seconds(-low)
            ),
            (Some(value), Some(low), Some(high)) => {
                format!("saves {} ({} to {})", seconds(value), seconds(low), seconds(high))
            }
            (Some(value), ..) => format!("saves {}", seconds(value)),
            _ => String::new(),
        }
    }

    /// `sum_field (/src/a.c:12), line 0x7f00`; empty where it is the whole program.
    pub(crate) fn place(&self) -> String {
        let place = &self.place;
        let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
        let file = place.file.as_ref().map(|file| format!(" ({file}{line})")).unwrap_or_default();
        let object = place.object.as_ref().map(|object| format!(", {object}"));
        place
            .function
            .as_ref()
            .map(|function| {
                let function = shorten_function(function, IN_PROSE);
                format!("{function}{file}{}", object.unwrap_or_default())
            })
            .unwrap_or_default()
    }

    /// Its title, without the parameters and template arguments of a long name.
    pub(crate) fn short_title(&self) -> String {
        match &self.place.function {
            Some(name) => self.title.replace(name, &shorten_function(name, IN_PROSE)),
            None => self.title.clone(),
        }
    }

    /// Each figure in words.
    pub(crate) fn proofs(&self) -> Vec<String> {
        let proof = |one: &ProofSummary| format!("{} {}", one.what, shown(&one.metric));
        self.evidence.iter().map(proof).collect()
    }
}

/// The value with its interval.
fn shown(metric: &Metric) -> String {
    match metric.value {
        Some(value) => interval(metric, value),
        None => format!("n/a ({})", metric.note.as_deref().unwrap_or("not recorded")),
    }
}

#[cfg(test)]
mod tests {
    use facts::Evidence;

    use super::*;

    #[test]
    fn a_gain_whose_sign_is_not_sure_says_what_it_may_cost() {
        let says = |value, low, high| {
            let gain = Metric::with_interval(Evidence::Estimated, value, "s", (low, high), 1);
            let finding = FindingSummary {
                id: "tlb-bound",
                severity: "low",
                title: String::new(),
                evidence: Vec::new(),
                place: PlaceSummary { function: None, file: None, line: None, object: None },
                advice: String::new(),
                predicted_gain: gain,
                next_command: String::new(),
            };
            finding.gain()
        };
        assert_eq!(says(0.4, 0.3, 0.9), "saves 400 ms (300 ms to 900 ms)");
        assert_eq!(says(0.4, -0.1, 0.9), "may save 400 ms (up to 900 ms) or cost up to 100 ms");
        assert_eq!(says(-0.2, -0.67, 0.3), "may cost up to 670 ms or save up to 300 ms");
        assert_eq!(says(-0.67, -0.938, -0.402), "costs 670 ms (402 ms to 938 ms)");
    }
}
