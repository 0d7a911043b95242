//! `swapping`: the machine has too little memory, and the program's pages come back from swap.
//!
//! Fires when the machine swapped at least as many pages as the program read by major faults. Gain: as in `disk-faults`. Pages
//! that were only written out have no known cost for the program.

use super::gain::stated;
use super::{Draft, Figures, NotJudged, Proof, words};

/// Whether swap may be where the major faults come from: the count is the machine's.
pub(super) fn explains(figures: &Figures) -> bool {
    let (swapped, major) = (figures.system.swapped.value, figures.faults.major.value);
    swapped.zip(major).is_some_and(|(swapped, major)| swapped >= 1.0 && swapped >= major)
}

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let system = &figures.system;
    let major = figures.faults.major.value.ok_or("major faults were not counted")?;
    let Some(pages) = system.swapped.value else {
        return Err(system.swapped.note.clone().unwrap_or_default().into());
    };
    if major < 1.0 || !explains(figures) {
        return Ok(Vec::new());
    }
    Ok(vec![Draft {
        title: format!("The machine swapped {pages:.0} pages, and the program waited for {major:.0} of them"),
        evidence: vec![
            Proof::new("pages that the machine swapped", &system.swapped),
            Proof::new("major faults", &figures.faults.major),
            Proof::new("lifetime of threads without running", &figures.waiting),
        ],
        place: figures.faults.place.clone(),
        advice: "Reduce the memory of the program or of others on this machine, or add memory. A program that \
                swaps is as slow as the disk: solve this before any other finding."
            .to_owned(),
        gain: stated(figures, super::disk::reads(figures, major)),
        next: words("report timeline"),
    }])
}
