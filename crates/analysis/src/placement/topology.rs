//! The machine that a what-if assumes: its nodes, how much longer a load from another node takes, and the run on it.
//!
//! What not: reading files. A shape such as `2x18` has no measured latency; a machine that was measured has.

use facts::host::{Calibration, Host};
use facts::{Evidence, Metric};

/// How much longer a load from another node takes than one from the own. Some 1.5 times between two sockets (Lameter,
/// "NUMA: an overview", ACM Queue 11(7), 2013); 1.2 within a package that shows its halves as nodes, 2.1 what firmware
/// states for two sockets (ACPI SLIT: 21 to 10) and Intel's Memory Latency Checker measures on some.
pub(crate) const SLOWER: [f64; 3] = [1.2, 1.5, 2.1];

/// The same of a node without CPUs. High-bandwidth memory answers 1.2 times as late (Ramos and Hoefler, "Capability models for manycore
/// memory systems", IPDPS 2017), CXL 1.8 to 2.2 times (Li et al., "Pond", ASPLOS 2023), persistent memory 3 times (Yang et al., "An
/// empirical guide to the behavior and use of scalable persistent memory", FAST 2020).
const TIER_SLOWER: [f64; 3] = [1.2, 2.0, 3.0];

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
    /// The same of a node without CPUs.
    pub tier_slower: [f64; 3],
    /// Whether that was measured there.
    pub tier_measured: bool,
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
        Ok(Topology::assumed(text.to_owned(), nodes))
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
        let alone = |id: u32| host.numa_nodes.iter().any(|one| one.id == id && one.cpus.is_empty());
        let slower = calibration.and_then(|one| slower_to(one, &|to| !alone(to)));
        let tier_slower = calibration.and_then(|one| slower_to(one, &alone));
        Ok(Topology {
            slower: slower.unwrap_or(SLOWER),
            measured: slower.is_some(),
            tier_slower: tier_slower.unwrap_or(TIER_SLOWER),
            tier_measured: tier_slower.is_some(),
            ..Topology::assumed(name.to_owned(), nodes)
        })
    }

    /// Nodes of a machine that nobody measured.
    fn assumed(name: String, nodes: Vec<TopologyNode>) -> Topology {
        Topology {
            name,
            nodes,
            slower: SLOWER,
            measured: false,
            tier_slower: TIER_SLOWER,
            tier_measured: false,
        }
    }

    /// The first node that has memory and no CPUs.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.memory && node.cpus == 0)
    }

    /// This machine, if it has several nodes; else one with two nodes of as many CPUs each.
    #[must_use]
    pub fn usual(host: &Host, calibration: Option<&Calibration>) -> Topology {
        Topology::of_machine("its own machine", host, calibration).unwrap_or_else(|_| {
            let cpus = (host.logical_cpus as usize).clamp(1, MOST_CPUS);
            let node = TopologyNode { cpus, memory: true };
            let name = format!("2x{cpus}");
            Topology::assumed(name, vec![node; 2])
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

    /// Elapsed seconds there of a run of `elapsed` seconds with all memory on its own node, of which memory has the share `bound`, once
    /// `remote` of the accesses take longer, `on_tier` of all because they go to a node without CPUs; these three in percent. What
    /// of the time passes on a CPU is all that grows.
    #[must_use]
    pub fn elapsed(
        &self,
        remote: &Metric,
        on_tier: &Metric,
        bound: &Metric,
        elapsed: f64,
    ) -> Metric {
        let part = |of: &Metric, end: Option<f64>| end.or(of.value).map(|percent| percent / 100.0);
        let time = |remote: Option<f64>, tier: Option<f64>, bound: Option<f64>, at: usize| {
            let tier = tier.unwrap_or(0.0);
            let sockets = (remote? - tier).max(0.0) * (self.slower[at] - 1.0);
            Some(elapsed * (1.0 + bound? * (sockets + tier * (self.tier_slower[at] - 1.0))))
        };
        // A tier may be nearer than another socket: then more on it makes a shorter run.
        let ends = |of_remote: Option<f64>, of_bound: Option<f64>, at: usize| {
            let ends = [on_tier.low, on_tier.high].map(|end| part(on_tier, end));
            let [one, other] =
                ends.map(|tier| time(part(remote, of_remote), tier, part(bound, of_bound), at));
            one.zip(other)
        };
        let value = time(part(remote, None), part(on_tier, None), part(bound, None), 1);
        let low = ends(remote.low, bound.low, 0).map(|(one, other)| one.min(other));
        let high = ends(remote.high, bound.high, 2).map(|(one, other)| one.max(other));
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

    /// Where the kernel puts a page that a thread of this node touches first: there, or on the first that has memory.
    pub(crate) fn first_touch(&self, node: usize) -> usize {
        match self.nodes[node].memory {
            true => node,
            false => self.nodes.iter().position(|node| node.memory).unwrap_or(node),
        }
    }
}

/// The latencies of remote memory of some nodes over those of the own: least, mean, most. Damaged ones are left out.
fn slower_to(calibration: &Calibration, is_of: &dyn Fn(u32) -> bool) -> Option<[f64; 3]> {
    let pairs = &calibration.node_pairs;
    let ratio = |pair: &facts::host::NodePair| {
        let own = pairs.iter().find(|one| (one.from, one.to) == (pair.from, pair.from))?;
        let ratio = pair.latency.value? / own.latency.value?;
        (pair.from != pair.to && is_of(pair.to) && (0.1..1000.0).contains(&ratio))
            .then_some(ratio.max(1.0))
    };
    let mut found: Vec<f64> = pairs.iter().filter_map(ratio).collect();
    found.sort_by(f64::total_cmp);
    let (least, most) = (*found.first()?, *found.last()?);
    Some([least, found.iter().sum::<f64>() / found.len() as f64, most])
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
            loaded: Vec::new(),
        };
        let pairs = [(0, 0, 100.0), (0, 1, 150.0), (1, 0, 140.0), (1, 1, 100.0)].map(pair);
        let measured = Calibration { node_pairs: pairs.into(), ..Calibration::default() };
        let found = Topology::usual(&host, Some(&measured));
        assert!(found.measured && found.slower == [1.4, 1.45, 1.5], "{found:?}");
        assert!(!Topology::usual(&host, None).measured && !found.tier_measured);
        let mut host = host;
        host.numa_nodes.push(node(2, &[]));
        let mut measured = measured;
        measured.node_pairs.extend([(0, 2, 300.0), (1, 2, 200.0)].map(pair));
        let found = Topology::usual(&host, Some(&measured));
        assert_eq!((found.slower, found.tier_slower), ([1.4, 1.45, 1.5], [2.0, 2.5, 3.0]));
        assert_eq!(found.tier(), Some(2));
        let single = Host { numa_nodes: vec![node(0, &[0])], logical_cpus: 8, ..Host::default() };
        assert!(Topology::of_machine("it", &single, None).is_err());
        assert_eq!(Topology::usual(&single, None).name, "2x8");
    }
}
