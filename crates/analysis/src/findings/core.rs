//! `core-bound`: memory is not the problem.
//!
//! Said when bursts show that the program's time is that of its instructions, and no rule found anything to gain.

use facts::Metric;

use super::{Draft, Figures, Finding, Proof, Severity, Where, high};
use crate::memory::Class;

pub(super) const ID: &str = "core-bound";
/// Beyond what instructions need, percent, at most.
const BOUND: f64 = 40.0;

pub(super) fn judge(figures: &Figures, found: &[Finding]) -> Option<Draft> {
    let traced = figures.traced.as_ref().ok()?;
    let (class, why) = traced.class.as_ref()?;
    let bound = traced.memory_bound.as_ref()?;
    let other = found.iter().any(|finding| finding.severity > Severity::Info);
    if *class != Class::Core || other || high(bound) > BOUND {
        return None;
    }
    let hottest = traced.functions.first();
    Some(Draft {
        title: "Core-bound: memory is not what holds this program up".to_owned(),
        evidence: vec![Proof::new("time beyond what its instructions need", bound)],
        place: hottest.map_or_else(Where::default, |one| one.place.clone()),
        advice: format!(
            "{why}. Look at the instructions: a better algorithm, vector instructions (-O3 -march=native), fewer \
             divisions and branches, more threads."
        ),
        gain: Metric::unavailable("s", "nothing to gain from memory"),
        next: ["report", "hotspots"].map(str::to_owned).to_vec(),
    })
}
