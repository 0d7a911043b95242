//! Accesses of the recorded run to another NUMA node than that of the thread, on the machine of the recording.
//!
//! What for: their share of the run, or of a part of its time. What not: other machines and placements (the model); caches: whether an
//! access went to memory at all.
//!
//! Assumptions: those of `findings::figures::nodes`. A line counts once per burst, and a burst for its part of its thread's time.

use std::collections::HashMap;

use base::Nanos;
use facts::{Burst, Metric};

use crate::findings::figures::nodes::{
    Lines, PageSnapshots, ThreadNodes, TouchedPages, nodes_of_threads, remote_share,
};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::threads::ThreadIndex;
use crate::traced::{Execution, Tool, TracedBlock, TracedCode, in_order};

/// Why nothing is remote.
pub const ONE_NODE: &str = "this machine has one NUMA node";
const NO_NODES: &str = "the NUMA nodes of the recorded machine are not known";
const NO_PAGES: &str = "on which NUMA nodes the program's pages lie was not recorded";
const NO_BURST: &str = "no burst accessed a page whose NUMA node is known";
const HARDLY_KNOWN: &str =
    "the NUMA nodes of most pages that bursts accessed are not known: record for longer";

/// What bursts accessed, by node.
pub struct RecordedNodes(Vec<OfBurst>);

/// Lines of a burst, by what the burst stands for.
struct OfBurst {
    thread: ThreadIndex,
    time: Nanos,
    elapsed: Nanos,
    lines: Lines,
}

/// Looks up the node of each page that bursts touched, in one pass over them.
///
/// # Errors
/// Why the nodes are not known, or that there is one only.
pub fn recorded_nodes(
    profile: &Profile<'_>,
    code: &TracedCode,
) -> Result<RecordedNodes, &'static str> {
    let recording = profile.recording;
    match recording.run.host.memory_nodes().count() {
        0 => return Err(NO_NODES),
        1 => return Err(ONE_NODE),
        _ => {}
    }
    let snapshots = PageSnapshots::new(&recording.pages);
    if snapshots.is_empty() {
        return Err(NO_PAGES);
    }
    let threads = nodes_of_threads(profile, &recording.run.host.numa_nodes);
    let pages = TouchedPages::default();
    let mut watcher = Watcher { profile, threads, snapshots, pages, found: Vec::new() };
    in_order(recording, code, &mut watcher);
    let mut found = watcher.found;
    let factors = time_per_burst(profile, found.iter().map(|one| (one.thread, one.elapsed)));
    for one in &mut found {
        let factor = factors.get(&one.thread).copied().unwrap_or(1.0);
        let Lines { remote, known, all } = one.lines;
        one.lines = Lines { remote: remote * factor, known: known * factor, all: all * factor };
    }
    match found.iter().any(|one| one.lines.known > 0.0) {
        true => Ok(RecordedNodes(found)),
        false => Err(NO_BURST),
    }
}

impl RecordedNodes {
    /// Share of all accesses, percent.
    #[must_use]
    pub fn remote(&self) -> Metric {
        RecordedNodes::share(self.0.iter())
    }

    /// Share of the accesses by selected threads in a part of the selected time, percent.
    #[must_use]
    pub fn remote_in(&self, selection: &Selection, start: Nanos, end: Nanos) -> Metric {
        let is_in = |one: &&OfBurst| {
            (start..end).contains(&one.time) && selection.has(one.thread, one.time)
        };
        RecordedNodes::share(self.0.iter().filter(is_in))
    }

    fn share<'b>(bursts: impl Iterator<Item = &'b OfBurst>) -> Metric {
        let lines: Vec<Lines> = bursts.map(|one| one.lines).collect();
        let is_known = lines.iter().any(|one| one.known > 0.0);
        let why = if is_known { HARDLY_KNOWN } else { NO_BURST };
        remote_share(&lines).unwrap_or_else(|| Metric::unavailable("percent", why))
    }
}

/// CPU time of each thread over that of its bursts: a burst stands for its part of the time, because which thread had more bursts is
/// chance. Threads without clock samples stay as they are.
pub(super) fn time_per_burst(
    profile: &Profile<'_>,
    bursts: impl Iterator<Item = (ThreadIndex, Nanos)>,
) -> HashMap<ThreadIndex, f64> {
    let mut traced: HashMap<ThreadIndex, f64> = HashMap::new();
    for (thread, elapsed) in bursts {
        *traced.entry(thread).or_default() += elapsed.0 as f64;
    }
    let factor = |(thread, traced): (ThreadIndex, f64)| {
        let cells = profile.cells_of(thread);
        let ran: f64 = cells.iter().map(|cell| cell.weight.amount() as f64).sum();
        (thread, if ran > 0.0 && traced > 0.0 { ran / traced } else { 1.0 })
    };
    traced.into_iter().map(factor).collect()
}

struct Watcher<'a> {
    profile: &'a Profile<'a>,
    threads: ThreadNodes,
    snapshots: PageSnapshots,
    /// Of the burst at hand.
    pages: TouchedPages,
    found: Vec<OfBurst>,
}

impl Tool for Watcher<'_> {
    type OfBurst = ();

    fn begin(&mut self, _: &Burst, _: usize) {
        self.pages = TouchedPages::default();
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            execution.touches(access).for_each(|touch| self.pages.add(touch));
        }
    }

    fn end(&mut self, burst: &Burst) {
        let Some(thread) = self.profile.threads.find(burst.pid, burst.tid) else { return };
        let (time, elapsed) = (burst.time, burst.elapsed);
        let mut of_burst = Lines::default();
        if let Some(own) = self.threads.near(burst) {
            for (first, lines) in self.pages.drain() {
                of_burst.all += lines;
                let Some(node) = self.snapshots.node(burst.pid, first, time) else { continue };
                of_burst.known += lines;
                of_burst.remote += if node == own { 0.0 } else { lines };
            }
        }
        self.found.push(OfBurst { thread, time, elapsed, lines: of_burst });
    }
}
