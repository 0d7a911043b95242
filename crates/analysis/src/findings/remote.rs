//! `remote-memory`: the data that a function accesses is on another NUMA node than its thread.
//!
//! Fires when a good part of its lines is remote, unless the memory was interleaved on purpose: most of the lines are on one node
//! (one thread touched all of it first), or more of them are remote than by chance. Gain: by how much the waits for remote lines
//! exceed those for local ones. Where a hot function may wait most of its time, but how much is unknown (its loops have no
//! no-miss time, or bursts were few), the finding has no gain.

use super::gain::{Gain, Truth, judged};
use super::{Draft, Figures, NotJudged, Part, Proof, RemoteFigure, high, try_remedy};
use crate::placement::SLOWER;

/// Least share of the lines.
const LEAST: f64 = 0.25;
/// Least share of the time.
const WAITS: f64 = 0.2;
/// Percent of the lines on one node: more than this is not interleaved memory.
const FULLEST: f64 = 75.0;
/// Beyond chance.
const MARGIN: f64 = 0.1;
/// A finding without a gain must take this part of the CPU time.
const WORTH: f64 = 0.1;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let functions = figures.remote.as_ref().map_err(NotJudged::clone)?;
    Ok(functions.iter().filter_map(|one| draft(figures, one)).collect())
}

/// No accident of memory that was spread on purpose, with this part of its lines remote.
fn is_misplaced(one: &RemoteFigure, remote: f64) -> bool {
    let by_chance = 1.0 - 1.0 / one.nodes.max(1.0);
    remote >= LEAST && (one.fullest >= FULLEST || remote >= by_chance + MARGIN)
}

/// Where a hot function may wait most of its time, but how much is unknown, no gain is stated.
fn saved(figures: &Figures, one: &RemoteFigure) -> Gain {
    let [waits, remote] = [&one.waits, &one.remote].map(Part::Share);
    let parts = [Part::Seconds(&one.time), waits, remote, Part::Assumed(SLOWER)];
    let holds = |[_, waits, remote, _]: [f64; 4]| waits >= WAITS && is_misplaced(one, remote);
    let gain = judged(figures, parts, holds, |[time, waits, remote, slower]| {
        time * waits * remote * (1.0 - 1.0 / slower)
    });
    let times = one.time.value.zip(figures.cpu_time.value);
    let worth = times.is_some_and(|(time, all)| time >= WORTH * all);
    if gain.truth == Truth::Yes || !worth || high(&one.waits) < (1.0 - WAITS) * 100.0 {
        return gain;
    }
    let misplaced = |[remote]: [f64; 1]| is_misplaced(one, remote);
    let why = "its memory-bound share is not known well enough";
    judged(figures, [remote], misplaced, |_| f64::INFINITY).unstated(why)
}

fn draft(figures: &Figures, one: &RemoteFigure) -> Option<Draft> {
    let percent = one.remote.value?;
    let (fullest, node) = (one.fullest, one.fullest_node);
    Some(Draft {
        title: format!(
            "{percent:.0} % of the data that it accesses is on another NUMA node than its thread; {fullest:.0} % \
             of all data is on node {node}"
        ),
        evidence: vec![
            Proof::new("share of its lines on another node", &one.remote),
            Proof::new("memory-bound share of its time", &one.waits),
        ],
        place: one.place.clone(),
        advice: "A page is allocated on the node of the thread that touches it first. Let each thread initialise \
                the data that it will use, with the same division of work and threads bound to CPUs \
                (OMP_PROC_BIND=true). If the program fits into one node, bind it: numactl --cpunodebind=N \
                --membind=N. Interleave data that all threads use equally: numactl --interleave=all."
            .to_owned(),
        gain: saved(figures, one),
        next: try_remedy(figures, Some("numa-interleave")),
    })
}
