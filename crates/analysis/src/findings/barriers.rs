//! `barrier-waits`: between two barriers one thread has more work than the others, each time a different one.
//!
//! With even work no thread would wait, so a phase would take the mean of its threads instead of the longest. The gain is the
//! time at barriers over the working threads, less the part of `load-imbalance` (one thread has more work in total). The low
//! end also excludes CPU time that other programs took: a thread without a CPU keeps the others waiting. Only for a recording
//! that followed every thread switch.

use super::gain::stated;
use super::{Draft, Figures, NotJudged, Proof, exactly, imbalance, of_lives, without_waits, words};

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let waits = figures.waits.as_ref().map_err(NotJudged::clone)?;
    let barriers = &waits.barriers;
    let said =
        imbalance::judge(figures)?.iter().filter_map(|draft| draft.gain.metric.value).sum::<f64>();
    let mut gain = without_waits(figures, &barriers.time, waits);
    for end in [&mut gain.value, &mut gain.low, &mut gain.high] {
        *end = end.map(|seconds| (seconds - said).max(0.0));
    }
    gain.low = gain.low.map(|low| (low - figures.displaced).max(0.0));
    let percent = of_lives(&barriers.time, waits);
    Ok(vec![Draft {
        title: format!("Threads wait {percent:.0} % of their time at barriers, each of them in turn"),
        evidence: vec![
            Proof::new("waited at barriers, summed over threads", &barriers.time),
            Proof::new("of the threads' time", &exactly(percent)),
        ],
        place: barriers.place.clone(),
        advice: "At each barrier all threads wait for the slowest. Distribute the work of a step in small pieces \
                (schedule(dynamic) or guided), drop barriers between independent steps (nowait), or merge parallel \
                loops."
            .to_owned(),
        gain: stated(figures, gain),
        next: words("report timeline -g thread"),
    }])
}
