//! Notes that a reader needs before quoting a diff.

use analysis::compare::{LEVEL, PAIRS_FROM, TRIM_FROM, runs_to_decide};

use super::RunFigures;
use super::pairs::Pairs;
use super::rows::Compared;
use crate::text;

/// Standard deviation between runs that is assumed where it is not known, only to say what repeats would bring.
const USUAL_SPREAD: f64 = 0.02;

pub(super) fn notes(
    base: &[RunFigures],
    new: &[RunFigures],
    pairs: &Pairs,
    totals: &[Compared],
    parts: &[Compared],
) -> Vec<String> {
    let elapsed = totals.iter().find(|row| row.name == "elapsed");
    let mut notes = Vec::new();
    if base.len() < 2 || new.len() < 2 {
        notes.push(one_run(base.len(), new.len(), elapsed));
    } else {
        notes.push(test(base.len(), new.len(), pairs, totals, parts));
        notes.extend(elapsed.and_then(|elapsed| more_runs(elapsed, pairs)));
        if one_after_the_other(base, new) {
            notes.push(
                "All runs of one side were recorded before those of the other. A machine that became slower in \
                between looks like a change. Record the sides alternately to avoid that."
                    .to_owned(),
            );
        }
    }
    let both = || base.iter().chain(new);
    for (what, of) in DIFFERENCES {
        let first = of(&base[0]);
        if let Some(other) = both().find(|run| of(run) != first) {
            notes.push(format!(
                "The results differ in {what}: {} in {}, {} in {}.",
                first,
                base[0].summary.result,
                of(other),
                other.summary.result
            ));
        }
    }
    let failed = both().filter(|run| run.summary.exit_code.is_some_and(|code| code != 0));
    for run in failed {
        notes.push(format!("The program of {} {}.", run.summary.result, run.summary.exit));
    }
    for run in both().filter(|run| run.summary.state == "incomplete") {
        notes.push(format!("{} is incomplete: its recording was not closed.", run.summary.result));
    }
    notes
}

/// A condition of a run, as text.
type Condition = fn(&RunFigures) -> String;

/// What should be equal in all results.
const DIFFERENCES: [(&str, Condition); 3] = [
    ("machine", |run| {
        format!("{} with {} CPUs", run.summary.host.cpu, run.summary.host.logical_cpus)
    }),
    ("analysis", |run| run.summary.analysis.to_owned()),
    ("arguments", |run| {
        let arguments = run.summary.command.get(1..).unwrap_or_default();
        if arguments.is_empty() { "none".to_owned() } else { format!("'{}'", arguments.join(" ")) }
    }),
];

fn one_run(base: usize, new: usize, elapsed: Option<&Compared>) -> String {
    let mut note = format!(
        "{base} against {new}: one run does not show how much runs of the same program differ, so nothing is \
         called a change. Intervals here have only the error of each figure itself."
    );
    let change = elapsed.and_then(|row| row.comparison?.ratio).map(|ratio| ratio - 1.0);
    if let Some(runs) = change.and_then(|change| runs_to_decide(change, USUAL_SPREAD)) {
        note += &format!(
            " If runs vary by {:.0} %, about {runs} runs per side decide whether the elapsed time changed: --base A1 \
             A2 ... --new B1 B2 ...",
            USUAL_SPREAD * 100.0
        );
    }
    note
}

fn test(base: usize, new: usize, pairs: &Pairs, totals: &[Compared], parts: &[Compared]) -> String {
    let tests = totals.iter().chain(parts).filter(|row| row.p.is_some()).count();
    let trimmed = base.max(new) >= TRIM_FROM;
    let how = match (pairs.are_none(), trimmed) {
        (false, false) => {
            "recorded alternately, compared pairwise (a changed figure is the mean of their quotients)"
        }
        (false, true) => {
            "recorded alternately, compared pairwise (a changed figure is the mean of their quotients without the \
             outer fifths)"
        }
        (true, false) => "by Welch's t test",
        (true, true) => "by Yuen's test (Welch's on means without the outer fifths)",
    };
    format!(
        "{base} against {new} runs {how}; {tests} tests, adjusted: at most {:.0} % of comparisons of equal \
         programs report any change (half of that for the elapsed time, half for the rest by Holm). Intervals are \
         95 % each.",
        LEVEL * 100.0
    )
}

fn more_runs(elapsed: &Compared, pairs: &Pairs) -> Option<String> {
    if elapsed.is_changed() {
        return None;
    }
    let (change, spread) = (elapsed.comparison?.ratio? - 1.0, elapsed.spread?);
    let runs = runs_to_decide(change, spread)?;
    let percent = |share: f64| text::number(share.abs() * 100.0);
    let between = if pairs.are_none() { "from run to run" } else { "between runs side by side" };
    let mut note = format!(
        "The elapsed time varies by {} % {between}. To confirm a change of {} %, about {runs} runs per side are needed.",
        percent(spread),
        percent(change)
    );
    if pairs.are_none() {
        note += &format!(
            " Alternate recording (base, new, base, new ...; {PAIRS_FROM} or more of each) may need fewer."
        );
    }
    Some(note)
}

/// Whether no run of one side began between two of the other.
fn one_after_the_other(base: &[RunFigures], new: &[RunFigures]) -> bool {
    let range = |side: &[RunFigures]| {
        let started = || side.iter().map(|run| run.started);
        started().min().zip(started().max())
    };
    match (range(base), range(new)) {
        (Some(base), Some(new)) => base.1 < new.0 || new.1 < base.0,
        _ => false,
    }
}
