//! `allocator-churn`: time in malloc, free and their relatives.
//!
//! Gain: of blocks that are used again. Between half and all of that time goes; what remains is the bookkeeping of the program's
//! own reuse. Who counts the program's blocks (`libfathom_agent`) stands between it and its allocator, and a part of the time
//! that samples find there is the allocator's ([`BEHIND`]). Where memory is given back and taken anew (`fault-churn`) the
//! kernel's part belongs to that.

use super::gain::judged;
use super::{Draft, Figures, Part, Proof};

const GOES: Part<'static> = Part::Assumed([0.5, 0.9, 1.0]);
/// Of the time that samples find in the counting of blocks, the part that the program takes without it: clock samples stand
/// behind what a core waits for, and what both do at a time alone takes longer.
const BEHIND: Part<'static> = Part::Assumed([0.0, 0.25, 0.5]);

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, String> {
    let spent = figures.allocator.as_ref().map_err(String::clone)?;
    let time = match super::faults::churns(figures) {
        true => &spent.in_program,
        false => &spent.time,
    };
    let [seconds, counting] = [time, &spent.counting].map(Part::Seconds);
    let saves = |[time, counting, goes, behind]: [f64; 4]| (time + counting * behind) * goes;
    let gain = judged(figures, [seconds, counting, GOES, BEHIND], |_| true, saves);
    let name = spent.place.function.as_deref().unwrap_or("the program");
    Ok(vec![Draft {
        title: format!("Allocating and freeing takes much time, most of it for {name}"),
        evidence: vec![Proof::new("CPU time in the allocator", time)],
        place: spent.place.clone(),
        advice: "Allocate less often: reuse buffers, reserve before growing, put what lives together into one block \
                 (an arena), or keep small things on the stack. `fathom collect memory-consumption` says which blocks."
            .to_owned(),
        gain,
        next: super::try_remedy(figures, None),
    }])
}
