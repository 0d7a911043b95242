//! `barrier-waits`: between two barriers one thread has more to do than the others, each time another one.
//!
//! With even work no thread would wait, so a phase would take the mean of its threads instead of the longest: the gain is
//! the time at barriers over the threads that work. What `load-imbalance` says of it, that one thread has more work in
//! all, is taken off; off the low end also CPU time that others took, for who is kept from running keeps the others
//! waiting. Only for a recording that followed every switch of threads.

use super::gain::stated;
use super::{Draft, Figures, Proof, exactly, imbalance, of_lives, without_waits};

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, String> {
    let waits = figures.waits.as_ref().map_err(String::clone)?;
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
        title: format!("Threads wait {percent:.0} % of their time at barriers, now this one, now that one"),
        evidence: vec![
            Proof::new("waited at barriers, all threads together", &barriers.time),
            Proof::new("of the threads' time", &exactly(percent)),
        ],
        place: barriers.place.clone(),
        advice: "Between two barriers all wait for the slowest. Hand the work of such a step out in small pieces \
                 (schedule(dynamic) or guided), let steps that do not need each other run on (nowait), or join several \
                 parallel loops into one."
            .to_owned(),
        gain: stated(figures, gain),
        next: ["report", "timeline", "-g", "thread"].map(str::to_owned).to_vec(),
    }])
}
