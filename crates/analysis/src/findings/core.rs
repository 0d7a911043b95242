//! `core-bound`: memory is not the problem.
//!
//! Reported when bursts show that the program's time is that of its instructions, and no rule found a gain.

use facts::{Evidence, Metric};

use super::gain::unquantified;
use super::{Draft, Figures, Finding, NamedLocation, Proof, Traced, high, words};
use crate::memory::Class;

pub(super) const ID: &str = "core-bound";
/// Beyond what instructions need, percent, at most.
const BOUND: f64 = 40.0;
/// Spinning that is more than this part of the CPU time decides what to do.
const SPINNING: f64 = 0.2;

pub(super) fn judge(figures: &Figures, found: &[Finding]) -> Option<Draft> {
    let traced = figures.traced.as_ref().ok()?;
    // Threads that may wait for each other's lines are not known to be held up by nothing.
    if !found.is_empty() || figures.shared.is_err() || spins(figures) {
        return None;
    }
    let (why, proof) = by_no_miss_time(traced).or_else(|| by_ceiling(traced))?;
    let hottest = traced.functions.first();
    Some(Draft {
        title: "Core-bound: memory does not limit this program".to_owned(),
        evidence: vec![proof],
        place: hottest.map_or_else(NamedLocation::default, |one| one.place.clone()),
        advice: format!(
            "{why}. Improve the instructions: a better algorithm, vector instructions (-O3 -march=native), fewer \
             divisions and branches, more threads."
        ),
        gain: unquantified("nothing to gain from memory"),
        next: words("report hotspots"),
    })
}

/// Whether threads spin for a good part of the CPU time: better instructions there would save nothing.
fn spins(figures: &Figures) -> bool {
    let threads = figures.threads.as_deref().unwrap_or_default();
    let computed: f64 = threads.iter().filter_map(|thread| thread.cpu.value).sum();
    let cpu = figures.cpu_time.value.unwrap_or(0.0);
    !threads.is_empty() && computed < cpu * (1.0 - SPINNING)
}

/// Its loops take as long with all their data in the first level.
fn by_no_miss_time(traced: &Traced) -> Option<(String, Proof)> {
    let (class, why) = traced.class.as_ref()?;
    let bound = traced.memory_bound.as_ref()?;
    let core = *class == Class::Core && high(bound) <= BOUND;
    core.then(|| (why.clone(), Proof::new("time beyond its no-miss time", bound)))
}

/// It does too little with memory for that to matter, wherever its data are.
fn by_ceiling(traced: &Traced) -> Option<(String, Proof)> {
    let most = traced.ceiling.filter(|percent| *percent <= BOUND)?;
    let metric = Metric::with_interval(Evidence::Estimated, most, "percent", (0.0, most), 1);
    let why = "It has too few loads and stores for memory to matter, even if every access waited for memory";
    Some((why.to_owned(), Proof::new("time for memory, at most", &metric)))
}
