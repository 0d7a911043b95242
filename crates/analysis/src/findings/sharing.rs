//! `false-sharing` and `true-sharing`: a line that threads take from each other.
//!
//! Fires when the possible transfers of the line between cores would fill a good part of the time, at the low end: some ten
//! thousand visits from each side in a few milliseconds are not chance. Gain: transfers per second × cost of one, of the CPU
//! time of the threads in this code, but no more than that code waits. A transfer needs both sides: half of the possible ones
//! is the best value, a quarter the least. Hardware threads of one core share its cache, and the line stays there: then there
//! is nothing to gain *here*, and the finding says so.

use facts::{Evidence, Metric};

use super::gain::{Gain, Truth, judged};
use super::{Draft, Figures, NamedLocation, NotJudged, Part, Proof, SharedFigure};
use crate::figure::Figure;

/// Share of the time that transfers must be able to fill.
const ROOM: f64 = 0.03;
/// Seconds that a line takes from core to core: 40 to 150 ns in published measurements of server processors of these
/// years (core-to-core latency within a socket).
const TURN: (f64, f64, f64) = (40e-9, 80e-9, 150e-9);
/// Share of the transfers beyond the observed waits that the code waits for: the no-miss time of a loop that loads what it has
/// just stored is not reliable, because how soon a store is forwarded depends on both addresses (Intel optimization manual,
/// 3.6.5; Fog, "Microarchitecture", 22.19: 0 to 8 cycles on Zen).
pub(super) const HIDDEN: Part<'static> = Part::Assumed([0.0, 0.3, 1.0]);
/// Share of the observed waits that a fix regains: for the same reason the no-miss time may also be too short, and threads of
/// one core, which share its units, are timed separately.
pub(super) const BACK: Part<'static> = Part::Assumed([0.4, 0.85, 1.0]);
/// A thread that waits for a line does little else, percent.
const MOST: f64 = 90.0;

pub(super) fn judge_false(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    judge(figures, true)
}

pub(super) fn judge_true(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    judge(figures, false)
}

/// The line with most turns for which it is so, or else may be.
fn judge(figures: &Figures, different_bytes: bool) -> Result<Vec<Draft>, NotJudged> {
    let lines = figures.shared.as_ref().map_err(NotJudged::clone)?;
    let lines = lines.iter().filter(|line| line.different_bytes == different_bytes);
    let mut drafts: Vec<Draft> = lines.map(|line| draft(figures, line)).collect();
    drafts.retain(|one| one.gain.truth != Truth::No);
    drafts.sort_by_key(|one| one.gain.truth != Truth::Yes);
    drafts.truncate(1);
    Ok(drafts)
}

/// Whether threads take lines from each other in this function.
pub(super) fn concerns(figures: &Figures, place: &NamedLocation) -> bool {
    let of_it = |line: &&SharedFigure| line.place.same_function(place);
    let lines = figures.shared.as_ref().map_or(&[][..], Vec::as_slice);
    lines.iter().filter(of_it).any(|line| draft(figures, line).gain.truth == Truth::Yes)
}

fn draft(figures: &Figures, line: &SharedFigure) -> Draft {
    let percent = |turns: Option<f64>, share: f64, seconds: f64| {
        turns.map(|turns| (turns * share * seconds * 100.0).min(MOST))
    };
    let rate = &line.conflicts;
    let least = rate.low.or(rate.value);
    let part = Metric {
        value: percent(rate.value, 0.5, TURN.1),
        low: percent(least, 0.25, TURN.0),
        high: percent(rate.high.or(rate.value), 1.0, TURN.2),
        unit: "percent".to_owned(),
        evidence: Some(Evidence::Estimated),
        ..rate.clone()
    };
    let gain = saved(figures, line, part);
    let name = line.place.function.as_deref().unwrap_or("a function");
    let threads = line.threads;
    let (title, advice) = if line.different_bytes {
        (
            format!("{threads} threads use different bytes of one line in {name}"),
            "Put data that different threads write at least 64 bytes apart (128 where lines are fetched in pairs): \
             `alignas(64)` on the element, or a copy per thread that is summed at the end.",
        )
    } else {
        (
            format!("{threads} threads keep writing to the same bytes in {name}"),
            "Write there less often: use a counter or a part per thread, summed at the end. If it is a lock, hold \
             it for a shorter time, or use several locks.",
        )
    };
    Draft {
        title,
        evidence: vec![
            Proof::new("possible line transfers per second", rate),
            Proof::new("CPU time of these threads in this code", &line.time),
            Proof::new("share of that beyond its no-miss time", &line.waits),
        ],
        place: line.place.clone(),
        advice: advice.to_owned(),
        gain,
        next: vec!["report".to_owned(), "sharing".to_owned()],
    }
}

/// No gain is stated where the code does not wait.
fn saved(figures: &Figures, line: &SharedFigure, part: Metric) -> Gain {
    let least = |a: Option<f64>, b: Option<f64>| Some(b.map_or(a?, |b| a.unwrap_or(b).min(b)));
    let seen = Figure::from(Metric {
        value: least(part.value, line.waits.value),
        low: least(part.low, line.waits.low),
        high: least(part.high, line.waits.high),
        ..part.clone()
    });
    let turns = Figure::from(part);
    let shares = [&seen, &turns].map(Part::Share);
    let parts = [Part::Seconds(&line.time), shares[0], shares[1], BACK, HIDDEN];
    let holds = |[_, seen, turns, ..]: [f64; 5]| seen > 0.0 && turns >= ROOM;
    let gain = judged(figures, parts, holds, |[time, seen, turns, back, hidden]| {
        time * (back * seen + hidden * (turns - seen).max(0.0))
    });
    if gain.truth == Truth::Yes {
        return gain;
    }
    let why = "this code does not wait for the line here: hardware threads of one core share their caches. On \
               different cores it would wait";
    judged(figures, [shares[1]], |[turns]| turns >= ROOM, |_| f64::INFINITY).unstated(why)
}
