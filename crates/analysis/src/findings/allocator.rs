//! `allocator-churn`: time in malloc, free and their relatives.
//!
//! Gain: between half and all of that time; what remains is the bookkeeping of the program's own reuse. Where memory is
//! given back and taken anew (`fault-churn`) the kernel's part belongs to that.

use facts::{Evidence, Metric};

use super::{Draft, Figures, Proof, saved};

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, String> {
    let spent = figures.allocator.as_ref().map_err(String::clone)?;
    let time = match super::faults::churns(figures) {
        true => &spent.in_program,
        false => &spent.time,
    };
    let part = Metric::with_interval(Evidence::Estimated, 75.0, "percent", (50.0, 100.0), 1);
    let name = spent.place.function.as_deref().unwrap_or("the program");
    Ok(vec![Draft {
        title: format!("Allocating and freeing takes much time, most of it for {name}"),
        evidence: vec![Proof::new("CPU time in the allocator", time)],
        place: spent.place.clone(),
        advice: "Allocate less often: reuse buffers, reserve before growing, put what lives together into one block \
                 (an arena), or keep small things on the stack. `fathom collect memory-consumption` says which blocks."
            .to_owned(),
        gain: saved(figures, time, &[&part]),
        next: super::try_remedy(figures, None),
    }])
}
