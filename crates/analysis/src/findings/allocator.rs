//! `allocator-churn`: time in malloc, free and their relatives.
//!
//! Gain: of reusing blocks. Between half and all of that time goes; the bookkeeping of the program's own reuse remains. The
//! library that counts heap blocks (`libfathom_agent`) runs between the program and its allocator, and a part of the time that
//! samples show there is the allocator's ([`BEHIND`]). Where memory is released and faulted in again (`fault-churn`), that rule
//! has the kernel's part. What not: which blocks (`heap`).

use super::gain::judged;
use super::{Draft, Figures, NotJudged, Part, Proof};

/// Share of the allocator's time that reuse saves; the program's own bookkeeping takes the rest.
pub(super) const GOES: Part<'static> = Part::Assumed([0.5, 0.9, 1.0]);
/// Share of the time that samples attribute to the counting of blocks which the program takes without it: clock samples have
/// skid, and work that overlaps here takes longer alone.
pub(super) const BEHIND: Part<'static> = Part::Assumed([0.0, 0.25, 0.5]);

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let spent = figures.allocator.as_ref().map_err(NotJudged::clone)?;
    let time = match super::faults::churns(figures) {
        true => &spent.in_program,
        false => &spent.time,
    };
    let [seconds, counting] = [time, &spent.counting].map(Part::Seconds);
    let saves = |[time, counting, goes, behind]: [f64; 4]| (time + counting * behind) * goes;
    let gain = judged(figures, [seconds, counting, GOES, BEHIND], |_| true, saves);
    let name = spent.place.function.as_deref().unwrap_or("the program");
    Ok(vec![Draft {
        title: format!("Allocating and freeing takes much time, most of it in {name}"),
        evidence: vec![Proof::new("CPU time in the allocator", time)],
        place: spent.place.clone(),
        advice: "Allocate less often: reuse buffers, reserve before growing, put objects of the same lifetime into \
                one block (an arena), or keep small things on the stack. `fathom collect memory-consumption` shows \
                which blocks."
            .to_owned(),
        gain,
        next: super::try_remedy(figures, None),
    }])
}
