//! What in the core limits a program that is core-bound.
//!
//! What for: the verdict's second half, and its evidence. What not: loop by loop (`views::pace`).

use analysis::core_limits::{Cause, loop_limits, program_limit};
use analysis::memory::{Class, Memory};
use facts::Metric;
use serde::Serialize;

use super::Summary;
use crate::json::tidy;
use crate::prepared::Prepared;
use crate::text::{IN_PROSE, percent, printable, seconds, shorten_function};

/// What limits most of the time.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct CoreLimitSummary {
    pub cause: &'static str,
    pub percent: Metric,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The slowest instruction of a chain.
    pub instruction: Option<String>,
    /// Its need per iteration of the loop.
    pub bound: Metric,
    /// Time of an iteration with all its data in L1.
    pub iteration_time: Metric,
}

/// Where the core is what limits, by everything that is known.
pub(super) fn core_limit(
    prepared: &Prepared<'_>,
    memory: &Memory<'_>,
    class: Option<Class>,
    cpu_time: &Metric,
) -> Option<CoreLimitSummary> {
    if class != Some(Class::Core) {
        return None;
    }
    let rows = prepared.profile.paces();
    let limits = loop_limits(prepared.recording(), rows);
    let found = program_limit(rows, &limits, &memory.mispredicted(), cpu_time.value?)?;
    let row = found.position.map(|at| &rows[at]);
    let limit = found.position.and_then(|at| limits[at].as_ref());
    let none = || Metric::unavailable("s", "no loop alone");
    Some(CoreLimitSummary {
        cause: found.cause.name(),
        percent: tidy(found.share),
        function: row.map(|row| row.function.clone()),
        file: row.and_then(|row| row.file.clone()),
        line: row.and_then(|row| row.line),
        instruction: limit.and_then(|limit| limit.instruction.clone()),
        bound: tidy(limit.map_or_else(none, |limit| limit.bound.clone())),
        iteration_time: tidy(limit.map_or_else(none, |limit| limit.time.clone())),
    })
}

/// In words.
pub(crate) fn words(cause: &str, instruction: Option<&str>) -> String {
    match cause {
        one if one == Cause::Chain.name() => match instruction {
            Some(instruction) => format!("a dependency chain through {instruction}"),
            None => "a dependency chain".to_owned(),
        },
        one if one == Cause::Divider.name() => "the divider".to_owned(),
        one if one == Cause::Loads.name() => "the throughput of loads".to_owned(),
        one if one == Cause::Stores.name() => "the throughput of stores".to_owned(),
        one if one == Cause::Arithmetic.name() => "the throughput of arithmetic".to_owned(),
        one if one == Cause::FrontEnd.name() => "the rate of instructions".to_owned(),
        _ => "mispredicted branches".to_owned(),
    }
}

impl CoreLimitSummary {
    /// `In the core it is the divider, in f f.c:7 (98 % of the CPU time, modelled).`
    pub(super) fn sentence(&self) -> Option<String> {
        let words = words(self.cause, self.instruction.as_deref());
        let share = percent(self.percent.value?);
        Some(format!(
            "In the core it is {words}{} ({share} % of the CPU time, modelled).",
            self.place()
        ))
    }

    fn place(&self) -> String {
        let Some(function) = &self.function else { return String::new() };
        let place = self.file.as_deref().zip(self.line);
        let last = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
        let place = place.map(|(file, line)| format!(" {}:{line}", last(file)));
        let function = shorten_function(&printable(function), IN_PROSE);
        format!(", in {function}{}", printable(&place.unwrap_or_default()))
    }
}

/// The evidence, for the detail view of a program that is core-bound.
pub(super) fn detail(summary: &Summary) -> Option<String> {
    if summary.classification != Some(Class::Core.name()) {
        return None;
    }
    let Some(limit) = &summary.core_limit else {
        return Some("not known what: no need of its loops explains most of its time".to_owned());
    };
    let words = words(limit.cause, limit.instruction.as_deref());
    let needs = match (limit.bound.value, limit.iteration_time.value) {
        (Some(bound), Some(time)) => {
            // How long an integer division takes depends on its quotient.
            let needs = match (limit.bound.low, limit.bound.high) {
                (Some(low), Some(high)) if low < high => {
                    format!("{} to {}", seconds(low), seconds(high))
                }
                _ => seconds(bound),
            };
            format!(": needs {needs} of {} per iteration", seconds(time))
        }
        _ => String::new(),
    };
    Some(format!("{words}{}{needs} (modelled)", limit.place()))
}
