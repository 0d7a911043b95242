//! `disk-faults`: major faults for pages of a mapped file. Major faults for swapped pages belong to `swap`.
//!
//! Fires when the faults, at the shortest time in which a disk answers, fill a good part of the elapsed time. Gain: that time,
//! but no more than the lifetime of threads without running.

use facts::{Evidence, Metric};

use super::gain::stated;
use super::{Draft, Figures, NotJudged, Proof, high, words};

/// Seconds of a read of 4 KiB: a fast NVMe device, a usual one, a network disk.
const READ: (f64, f64, f64) = (20e-6, 80e-6, 1e-3);

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let faults = &figures.faults;
    let Some(count) = faults.major.value else {
        return Err("major faults were not counted".into());
    };
    if count < 1.0 || super::swap::explains(figures) {
        return Ok(Vec::new());
    }
    Ok(vec![Draft {
        title: format!("{count:.0} pages were read from a disk while the program waited"),
        evidence: vec![
            Proof::new("major faults", &faults.major),
            Proof::new("lifetime of threads without running", &figures.waiting),
        ],
        place: faults.place.clone(),
        advice: "Read the mapped file in order, or prefetch it with madvise(..., MADV_WILLNEED) or readahead()."
            .to_owned(),
        gain: stated(figures, reads(figures, count)),
        next: words("report faults -g function,source-line"),
    }])
}

/// Elapsed seconds for reading these pages, each when it is needed.
pub(super) fn reads(figures: &Figures, count: f64) -> Metric {
    let most = high(&figures.waiting).min(figures.waiting.value.unwrap_or(figures.elapsed));
    let seconds = |each: f64| (count * each).min(most).min(figures.elapsed);
    let interval = (seconds(READ.0), seconds(READ.2));
    Metric::with_interval(Evidence::Estimated, seconds(READ.1), "s", interval, count as u64)
}
