//! The machine that a what-if assumes: its nodes, how much longer a load from another node takes, and the run on it.
//!
//! What not: reading files. A shape such as `2x18` has no measured latency; a machine that was measured has.

use facts::host::{Calibration, Host};
use facts::{Evidence, Metric};

/// How much longer a load from another node takes than one from the own. Some 1.5 times between two sockets (Lameter,
/// "NUMA: an overview", ACM Queue 11(7), 2013); 1.2 within a package that shows its halves as nodes, 2.1 what firmware
/// states for two sockets (ACPI SLIT: 21 to 10) and Intel's Memory Latency Checker measures on some.
pub(crate) const SLOWER: [f64; 3] = [1.2, 1.5, 2.1];

/// Nodes and CPUs that anybody has.
const MOST_NODES: usize = 1024;
const MOST_CPUS: usize = 65_536;

/// A node of a [`Topology`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopologyNode {
    /// 0 for memory alone.
    pub cpus: usize,
    /// Whether it has memory.
    pub memory: bool,
}

/// Nodes to lay a program out on.
#[derive(Clone, PartialEq, Debug)]
pub struct Topology {
    /// The name in reports.
    pub name: String,
    /// Its nodes; some have CPUs, and at least two memory.
    pub nodes: Vec<TopologyNode>,
    /// How many times as long a load from another node takes: least, likely, most.
    pub slower: [f64; 3],
    /// Whether that was measured there.
    pub measured: bool,
}

impl Topology {
    /// `2x18`: two nodes with 18 CPUs each. `2x18+1`: and one that has memory only.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Topology, String> {
        let wrong = || {
            format!(
                "\"{text}\" is no topology: 2x18 is two nodes with 18 CPUs each, 2x18+1 has one more with memory only"
            )
        };
        let (shape, alone) = text.split_once('+').unwrap_or((text, "0"));
        let (nodes, cpus) = shape.split_once('x').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        let (nodes, cpus, alone) = (number(nodes)?, number(cpus)?, number(alone)?);
        let possible = (1..=MOST_NODES).contains(&nodes)
            && (1..=MOST_CPUS).contains(&cpus)
            && alone <= MOST_NODES
            && nodes + alone >= 2;
        if !possible {
            return Err(wrong());
        }
        let with_cpus = std::iter::repeat_n(TopologyNode { cpus, memory: true }, nodes);
        let without = std::iter::repeat_n(TopologyNode { cpus: 0, memory: true }, alone);
        let nodes = with_cpus.chain(without).collect();
        Ok(Topology { name: text.to_owned(), nodes, slower: SLOWER, measured: false })
    }

    /// A machine with memory in several nodes, as it was described and measured.
    ///
    /// # Errors
    /// It has one node.
    pub fn of_machine(
        name: &str,
        host: &Host,
        calibration: Option<&Calibration>,
    ) -> Result<Topology, String> {
        let node = |node: &facts::host::NumaNode| TopologyNode {
            cpus: node.cpus.len(),
            memory: node.memory_bytes > 0,
        };
        let nodes: Vec<TopologyNode> = host.numa_nodes.iter().take(MOST_NODES).map(node).collect();
        if nodes.iter().filter(|node| node.memory).count() < 2
            || nodes.iter().all(|node| node.cpus == 0)
        {
            return Err(format!("{name} has memory in one NUMA node only"));
        }
        let ratios = calibration.map_or(Vec::new(), ratios);
        let slower = match (ratios.first(), ratios.last()) {
            (Some(least), Some(most)) => {
                [*least, ratios.iter().sum::<f64>() / ratios.len() as f64, *most]
            }
            _ => SLOWER,
        };
        let measured = !ratios.is_empty();
        Ok(Topology { name: name.to_owned(), nodes, slower, measured })
    }

    /// This machine, if it has several nodes; else one with two nodes of as many CPUs each.
    #[must_use]
    pub fn usual(host: &Host, calibration: Option<&Calibration>) -> Topology {
        Topology::of_machine("its own machine", host, calibration).unwrap_or_else(|_| {
            let cpus = (host.logical_cpus as usize).clamp(1, MOST_CPUS);
            let node = TopologyNode { cpus, memory: true };
            let name = format!("2x{cpus}");
            Topology { name, nodes: vec![node; 2], slower: SLOWER, measured: false }
        })
    }

    /// The node of each of so many threads: in order, equal parts of them on the nodes that have CPUs.
    #[must_use]
    pub fn lay(&self, threads: usize) -> Vec<usize> {
        let with_cpus: Vec<usize> =
            (0..self.nodes.len()).filter(|at| self.nodes[*at].cpus > 0).collect();
        (0..threads).map(|thread| with_cpus[thread * with_cpus.len() / threads]).collect()
    }

    /// How many nodes have memory.
    #[must_use]
    pub fn memory_nodes(&self) -> usize {
        self.nodes.iter().filter(|node| node.memory).count()
    }

    /// Where the kernel puts a page that a thread of this node touches first: there, or on the first that has memory.
    pub(crate) fn first_touch(&self, node: usize) -> usize {
        match self.nodes[node].memory {
            true => node,
            false => self.nodes.iter().position(|node| node.memory).unwrap_or(node),
        }
    }
}

/// The latencies of remote memory over those of the own, ascending. Damaged ones are left out.
fn ratios(calibration: &Calibration) -> Vec<f64> {
    let pairs = &calibration.node_pairs;
    let ratio = |pair: &facts::host::NodePair| {
        let own = pairs.iter().find(|one| (one.from, one.to) == (pair.from, pair.from))?;
        let ratio = pair.latency.value? / own.latency.value?;
        (pair.from != pair.to && (0.1..1000.0).contains(&ratio)).then_some(ratio.max(1.0))
    };
    let mut found: Vec<f64> = pairs.iter().filter_map(ratio).collect();
    found.sort_by(f64::total_cmp);
    found
}

/// Elapsed seconds of a run of `elapsed` seconds with all memory on its own node, of which memory has the share `bound`, once
/// `remote` of the accesses take so many times as long. What of the time passes on a CPU is all that grows.
#[must_use]
pub fn elapsed_there(remote: &Metric, bound: &Metric, elapsed: f64, slower: [f64; 3]) -> Metric {
    let part = |of: &Metric, end: Option<f64>| end.or(of.value).map(|percent| percent / 100.0);
    let time = |remote: Option<f64>, bound: Option<f64>, slower: f64| {
        Some(elapsed * (1.0 + bound? * remote? * (slower - 1.0)))
    };
    let value = time(part(remote, None), part(bound, None), slower[1]);
    let low = time(part(remote, remote.low), part(bound, bound.low), slower[0]);
    let high = time(part(remote, remote.high), part(bound, bound.high), slower[2]);
    match (value, low, high) {
        (Some(value), Some(low), Some(high)) => {
            Metric::with_interval(Evidence::Modelled, value, "s", (low, high), remote.samples)
        }
        _ => {
            let why = remote.note.as_deref().filter(|_| remote.value.is_none());
            let why = why.or(bound.note.as_deref()).unwrap_or("memory's share is not known");
            Metric::unavailable("s", why)
        }
    }
}

#[cfg(test)]
mod tests {
    use facts::host::{NodePair, NumaNode};

    use super::*;

    #[test]
    fn shapes_are_read_and_nonsense_is_refused() {
        let two = Topology::parse("2x18").expect("a shape");
        assert_eq!((two.nodes.len(), two.nodes[1].cpus, two.memory_nodes()), (2, 18, 2));
        let three = Topology::parse("2x1+1").expect("a shape");
        assert_eq!(three.nodes[2], TopologyNode { cpus: 0, memory: true });
        assert_eq!(three.lay(4), [0, 0, 1, 1]);
        assert_eq!(Topology::parse("4x1").expect("a shape").lay(2), [0, 2]);
        for wrong in ["", "2", "1x8", "0x2", "2x0", "2x", "x2", "2x2+", "99999x1", "2x-1", "two"] {
            let why = Topology::parse(wrong).expect_err(wrong);
            assert!(why.contains("is no topology"), "{why}");
        }
    }

    #[test]
    fn a_measured_machine_gives_its_own_ratios() {
        let node = |id: u32, cpus: &[u32]| NumaNode {
            id,
            cpus: cpus.to_vec(),
            memory_bytes: 1 << 30,
            distances: Vec::new(),
        };
        let host = Host { numa_nodes: vec![node(0, &[0]), node(1, &[1])], ..Host::default() };
        let pair = |(from, to, nanos)| NodePair {
            from,
            to,
            latency: Metric::counted(nanos, "ns"),
            one_thread: Metric::counted(1.0, "GB/s"),
            all_threads: Metric::counted(1.0, "GB/s"),
            threads: 1,
        };
        let pairs = [(0, 0, 100.0), (0, 1, 150.0), (1, 0, 140.0), (1, 1, 100.0)].map(pair);
        let measured = Calibration { node_pairs: pairs.into(), ..Calibration::default() };
        let found = Topology::usual(&host, Some(&measured));
        assert!(found.measured && found.slower == [1.4, 1.45, 1.5], "{found:?}");
        assert!(!Topology::usual(&host, None).measured);
        let single = Host { numa_nodes: vec![node(0, &[0])], logical_cpus: 8, ..Host::default() };
        assert!(Topology::of_machine("it", &single, None).is_err());
        assert_eq!(Topology::usual(&single, None).name, "2x8");
    }
}
