//! `redundant-flushes` and `unbatched-flushes`: lines that are flushed for nothing, and fences that wait for one line each.
//!
//! Fires for code that flushes lines of an object (`crate::flushes`). Not judged where records of bursts are missing: a store in them
//! may have made a line dirty. Gain: of the CPU time of samples at its flushes and fences. A redundant flush costs less than one that
//! writes a line back, and fences wait less where write-backs overlap; how much less is assumed ([`SAVED`], [`OVERLAPPED`]).
//! Near-misses: a head that is flushed again with something new in it each time; an entry that must be in memory before the head that
//! makes it valid: its fences wait for lines in different places by turns.

use super::gain::judged;
use super::{Draft, Figures, FlushFigure, NotJudged, Part, Proof, view_by};

/// Fewer of the flushes are not worth a change of code.
const LEAST_REDUNDANT: f64 = 0.2;
/// Fewer of the fences are no habit.
const LEAST_ALONE: f64 = 0.5;
/// Part of the time of a redundant flush and of its share of the fences that goes with it: half of the flushes of `lines_persisted_again`
/// are redundant, and without them it is 27 and 31 % quicker (AMD EPYC 9004, clwb, DRAM).
pub(super) const SAVED: Part<'static> = Part::Assumed([0.2, 0.55, 1.0]);
/// Part of the time of fences that wait alone that goes where one waits for all: 98 % for `lines_persisted` there; less where memory takes
/// writes more slowly, as persistent memory does.
pub(super) const OVERLAPPED: Part<'static> = Part::Assumed([0.3, 0.9, 1.0]);

pub(super) fn judge_redundant(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let all = figures.flushes.as_ref().map_err(NotJudged::clone)?;
    // Code without a flush has no share of them.
    let flushes = all.iter().filter(|one| one.redundant.value.is_some());
    Ok(flushes.map(|one| redundant(figures, one)).collect())
}

pub(super) fn judge_unbatched(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let all = figures.flushes.as_ref().map_err(NotJudged::clone)?;
    let waits = all.iter().filter(|one| one.alone.value.is_some());
    Ok(waits.map(|one| unbatched(figures, one)).collect())
}

fn redundant(figures: &Figures, one: &FlushFigure) -> Draft {
    let name = one.redundant_place.function.as_deref().unwrap_or("a function");
    let parts = [Part::Seconds(&one.time), Part::Share(&one.redundant), SAVED];
    let holds = |[_, redundant, _]: [f64; 3]| redundant >= LEAST_REDUNDANT;
    Draft {
        title: format!("{name} flushes cache lines that are not dirty"),
        evidence: vec![
            Proof::new("share of its flushes without a store to the line before", &one.redundant),
            Proof::new("flushes per second", &one.flushes),
            Proof::new("CPU time at its flushes and fences", &one.time),
        ],
        place: one.redundant_place.clone(),
        advice: "Flush a line once, after the last store to it. A second flush of the same line writes nothing, and the next fence \
                 waits for it, too: often a helper persists a record that its caller persists again. Non-temporal stores need no \
                 flush, only the fence."
            .to_owned(),
        gain: judged(figures, parts, holds, |[time, redundant, saved]| time * redundant * saved),
        next: view_by("flushes", &one.redundant_place, "object,source-line"),
    }
}

fn unbatched(figures: &Figures, one: &FlushFigure) -> Draft {
    let name = one.place.function.as_deref().unwrap_or("a function");
    let parts = [Part::Seconds(&one.time), Part::Share(&one.alone), OVERLAPPED];
    let holds = |[_, alone, _]: [f64; 3]| alone >= LEAST_ALONE;
    Draft {
        title: format!("{name} waits for neighbouring lines one by one"),
        evidence: vec![
            Proof::new("share of its fences that wait for a line or two, one after the other", &one.alone),
            Proof::new("lines that a fence waits for", &one.lines_per_fence),
            Proof::new("fences per second", &one.fences),
            Proof::new("CPU time at its flushes and fences", &one.time),
        ],
        place: one.place.clone(),
        advice: "If the lines need not be in memory one before the other, flush all of them and fence once: write-backs then overlap. \
                 With libpmem, pmem_flush for each and one pmem_drain, or one pmem_persist of the whole range. An entry that must be in \
                 memory before what refers to it needs its own fence; several entries together need one."
            .to_owned(),
        gain: judged(figures, parts, holds, |[time, alone, overlapped]| time * alone * overlapped),
        next: view_by("flushes", &one.place, "object,source-line"),
    }
}
