//! Notes that a reader needs before quoting a figure.

use std::collections::BTreeSet;

use facts::{Counter, CounterKind, RunState, Target};

use crate::profile::Profile;
use crate::weight::Weight;

/// Remarks of the run, then what the figures themselves show to be wrong.
pub(super) fn notes(profile: &Profile<'_>) -> Vec<String> {
    let run = &profile.recording.run;
    let mut notes = Vec::new();
    if run.state == RunState::Incomplete {
        notes.push(
            "The recording was not closed (the profiler was killed, or is still running): it holds what was \
             written until then, and totals may be missing."
                .to_owned(),
        );
    }
    if let Some(Target::Attached { pid }) = run.target {
        notes.push(format!(
            "Attached to the running process {pid}: all figures start at the attach."
        ));
    }
    match run.stopped_by.as_deref() {
        Some("interrupted") => {
            notes.push("The collection was interrupted from the keyboard.".to_owned())
        }
        Some("duration") => {
            notes.push("The collection ended after the duration asked for.".to_owned())
        }
        Some(other) => notes.push(format!("The collection was stopped early: {other}.")),
        None => {}
    }
    notes.extend(run.collector.fallback_reason.clone());
    notes.extend(few_samples(profile));
    notes.extend(uncovered_time(profile));
    notes.extend(truncated_stacks(profile));
    notes.extend(damage(profile));
    // The collector may have said one of these already.
    notes.extend(run.notes.iter().cloned());
    let mut said = BTreeSet::new();
    notes.retain(|note| said.insert(note.clone()));
    notes
}

fn few_samples(profile: &Profile<'_>) -> Option<String> {
    let records = profile.whole().records();
    (1..100).contains(&records).then(|| {
        let (_, high) = estimate::interval::wilson(0.0, profile.whole().effective_records());
        let (noise, plural) = ((high * 100.0).max(1.0), if records == 1 { "" } else { "s" });
        format!("Only {records} sample{plural}: shares below about {noise:.0} % are noise. Run for longer, or \
                repeat with --repeat.")
    })
}

/// Sampled and counted CPU time should agree; where they do not, the shares may be biased.
fn uncovered_time(profile: &Profile<'_>) -> Option<String> {
    let counted = profile
        .recording
        .counters
        .iter()
        .rev()
        .find(|Counter { kind, .. }| *kind == CounterKind::TaskClock)?;
    let (counted, sampled) = (counted.value as f64, profile.whole().amount() as f64);
    let effective = profile.whole().effective_records();
    if counted <= 0.0 || effective <= 0.0 || !profile.samples_kernel() {
        return None;
    }
    let off = (sampled - counted) / counted;
    // Three standard errors of a Poisson count of as many samples as the counted time should have, and at least 5 %.
    let expected = effective * counted / sampled;
    let tolerated = (3.0 / expected.sqrt()).max(0.05);
    (off.abs() > tolerated).then(|| {
        let why = if off < 0.0 { short_processes(profile, counted) } else { "" };
        format!(
            "The samples represent {:.2} s of CPU time, the kernel counted {:.2} s ({:+.0} %): shares may be \
             biased.{why}",
            sampled * 1e-9,
            counted * 1e-9,
            off * 100.0
        )
    })
}

/// The clock that takes samples begins anew in each process (`inherit_event`, kernel/events/core.c), so one that ends
/// within a period has none, however many of them there are.
fn short_processes(profile: &Profile<'_>, counted: f64) -> &'static str {
    /// With this many periods per process, on average half a period has no sample.
    const PERIODS: f64 = 3.0;
    let period = profile.whole().amount() as f64 / profile.whole().records().max(1) as f64;
    match profile.threads.process_count() as f64 {
        processes if processes > 1.0 && counted / processes < PERIODS * period => {
            " Processes that use less CPU time than one sampling period get no sample."
        }
        _ => "",
    }
}

fn truncated_stacks(profile: &Profile<'_>) -> Option<String> {
    let mut cut = Weight::default();
    for cell in profile.stack_cells() {
        if profile.stacks.is_truncated(cell.stack) {
            cut.merge(&cell.weight);
        }
    }
    let share = profile.cpu_scale().share(&cut);
    (share >= 0.01).then(|| {
        // Who chose a size knows the knob.
        let more = match profile.recording.run.knobs.contains_key("stack-size") {
            true => "",
            false => " -k stack-size=65000 copies more of deep stacks.",
        };
        format!(
            "{:.0} % of the stacks could not be unwound completely: total times and callers miss that part.{more}",
            share * 100.0
        )
    })
}

fn damage(profile: &Profile<'_>) -> Option<String> {
    let problems = &profile.stacks.problems;
    problems.any().then(|| {
        format!(
            "Parts of the recording were unusable: {} stacks cut off, {} repeated, {} in unknown modules, {} \
             inlined frames dropped. Check it with `fathom verify`.",
            problems.broken_parents,
            problems.duplicate_nodes,
            problems.unknown_modules,
            problems.dropped_frames
        )
    })
}
