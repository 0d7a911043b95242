//! `lock-contention`: threads wait for a lock that others of them hold.
//!
//! Gain: the time waited for it, over the working threads. Only for a recording that followed every thread switch.

use super::gain::stated;
use super::{Draft, Figures, NotJudged, Proof, exactly, of_lives, without_waits, words};

/// Locks that are reported, at most.
const MOST: usize = 3;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let waits = figures.waits.as_ref().map_err(NotJudged::clone)?;
    let drafts = waits.locks.iter().take(MOST).map(|lock| {
        let percent = of_lives(&lock.time, waits);
        let name = lock.place.object.as_deref().unwrap_or("of unknown address");
        let by = lock.place.function.as_deref();
        let by = by.map_or(String::new(), |name| format!(", most of it in {name}"));
        Draft {
            title: format!("Threads wait {percent:.0} % of their time for the lock {name}{by}"),
            evidence: vec![
                Proof::new("waited for it, summed over threads", &lock.time),
                Proof::new("waits", &lock.waits),
                Proof::new("of the threads' time", &exactly(percent)),
            ],
            place: lock.place.clone(),
            advice: "Hold it for a shorter time: compute outside it and store only the result under it. Or share \
                less: a lock per part of the data, a copy per thread that is merged at the end, an atomic for a \
                single counter."
                .to_owned(),
            gain: stated(figures, without_waits(figures, &lock.time, waits)),
            next: words("report waits"),
        }
    });
    Ok(drafts.collect())
}
