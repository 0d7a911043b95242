//! `remote-memory`: what a function goes through lies on another NUMA node than the thread that does.
//!
//! Fires when a good part of its lines is remote, and this is no accident of memory that was spread on purpose: most of the
//! lines lie on one node (a thread touched all of it first), or more of them are remote than would be by chance. Gain:
//! what the waits for remote lines take longer than for local ones. Where a hot function may wait most of its time, and
//! nobody knows how much of it (its loops have no core floor, or bursts were few), it is said without a gain. Where too few bursts were taken to be sure of the part that is
//! remote, the rule is not judged: silence would be an all-clear.

use facts::Metric;

use super::gain::gain;
use super::{Draft, Figures, LEAST_GAIN, Part, Proof, RemoteFigure, high, low, try_remedy};

/// Percent of the lines.
const LEAST: f64 = 25.0;
/// Percent of the time.
const WAITS: f64 = 20.0;
/// Percent of the lines on one node: so many were not spread on purpose.
const FULLEST: f64 = 75.0;
/// Beyond chance, percent.
const MARGIN: f64 = 10.0;
/// What is told without a gain takes this part of the CPU time.
const WORTH: f64 = 0.1;

/// How much longer a load from another node takes than one from the own. Some 1.5 times between two sockets (Lameter,
/// "NUMA: an overview", ACM Queue 11(7), 2013); 1.2 within a package that shows its halves as nodes, 2.1 what firmware
/// tells of two sockets (ACPI SLIT: 21 to 10) and Intel's Memory Latency Checker measures on some.
const SLOWER: [f64; 3] = [1.2, 1.5, 2.1];

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, String> {
    let functions = figures.remote.as_ref().map_err(String::clone)?;
    let judged = |one: &RemoteFigure| is_misplaced(one).then(|| draft(figures, one)).flatten();
    let drafts: Vec<Draft> = functions.iter().filter_map(judged).collect();
    match functions.iter().find(|one| judged(&exactly(one)).is_some()) {
        Some(one) if drafts.is_empty() => Err(too_few_bursts(one)),
        _ => Ok(drafts),
    }
}

/// As if the part that is remote were known without doubt.
fn exactly(one: &RemoteFigure) -> RemoteFigure {
    let value = one.remote.value;
    let remote = Metric { low: value, high: value, ..one.remote.clone() };
    RemoteFigure { remote, ..one.clone() }
}

fn is_misplaced(one: &RemoteFigure) -> bool {
    let by_chance = (1.0 - 1.0 / one.nodes.max(1.0)) * 100.0;
    let remote = low(&one.remote);
    remote >= LEAST && (one.fullest >= FULLEST || remote >= by_chance + MARGIN)
}

fn too_few_bursts(one: &RemoteFigure) -> String {
    format!(
        "{:.0} to {:.0} % of what {} goes through lies on another NUMA node, as far as {} bursts tell: run for longer, or \
         more bursts with -k burst-interval",
        low(&one.remote),
        high(&one.remote),
        one.place.function.as_deref().unwrap_or("the program"),
        one.remote.samples
    )
}

fn draft(figures: &Figures, one: &RemoteFigure) -> Option<Draft> {
    let [waits, remote] = [&one.waits, &one.remote].map(Part::Share);
    let slower = Part::Assumed(SLOWER);
    let parts = [Part::Seconds(&one.time), waits, remote, slower];
    let gain = gain(figures, parts, |[time, waits, remote, slower]| {
        time * waits * remote * (1.0 - 1.0 / slower)
    });
    let known = low(&one.waits) >= WAITS && gain.sure >= LEAST_GAIN * figures.elapsed;
    let worth = one.time.value? >= WORTH * figures.cpu_time.value?;
    if !known && (!worth || high(&one.waits) < 100.0 - WAITS) {
        return None;
    }
    let percent = one.remote.value?;
    let (fullest, node) = (one.fullest, one.fullest_node);
    Some(Draft {
        title: format!(
            "{percent:.0} % of what it goes through lies on another NUMA node than its thread; {fullest:.0} % of all lies on \
             node {node}"
        ),
        evidence: vec![
            Proof::new("of its lines, those on another node", &one.remote),
            Proof::new("of its time, waits", &one.waits),
        ],
        place: one.place.clone(),
        advice: "Memory lies on the node of the thread that touches it first. Let each thread initialise what it will use, \
                 with the same division of the work and threads bound to CPUs (OMP_PROC_BIND=true). If the program fits \
                 into one node, bind it: numactl --cpunodebind=N --membind=N. What all threads use alike is better spread: \
                 numactl --interleave=all."
            .to_owned(),
        gain: match known {
            true => gain,
            false => Metric::unavailable("s", "how much it waits for memory is not known well enough").into(),
        },
        next: try_remedy(figures, Some("numa-interleave")),
    })
}
