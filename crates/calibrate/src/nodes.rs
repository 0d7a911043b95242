//! Memory of each NUMA node as the CPUs of each node reach it: latency of dependent loads, and bandwidth of reading with one
//! thread and with all, and latency while the node's other CPUs read.
//!
//! What for: how far remote memory is on a machine that has some; nodes without CPUs (CXL, HBM, persistent memory as system
//! RAM) are memory only. What not: stores, and machines where one node has all memory: these have no pairs.
//!
//! Assumptions: a policy of binding holds (a sample of pages is checked). A quarter of a node's free memory is ours to take:
//! where it is bound and there is less, the kernel would end the process.

use std::time::{Duration, Instant};

use base::{Bytes, CpuId, NodeId, Pid};
use facts::Metric;
use facts::host::{CacheKind, Calibration, Host, LoadedLatency, NodePair, NumaNode};
use sys::kernels::{Buffer, Chase, Cycle, Kernel, KernelError, Pages, Simd, Spacing, sweep};

use crate::plan::Plan;
use crate::statistics::Repeats;
use crate::{Progress, ladder, live, loaded, workers};

/// Largest and smallest memory of a node that is gone through, and the least that is worth it.
const LARGEST: u64 = 1 << 30;
const SMALLEST: u64 = 128 << 20;
const LEAST: u64 = 16 << 20;
/// Size as a multiple of the last-level cache, so that few of the loads hit in it.
const TIMES_CACHE: u64 = 4;
/// Divisor of a node's free memory: as much is taken.
const FREE_SHARE: u64 = 4;
/// Repeats of a chase, their length, and passes; fewer where the time is up, but at least [`LEAST_REPEATS`].
const REPEATS: usize = 9;
const LEAST_REPEATS: usize = 3;
const CHASE: Duration = Duration::from_millis(4);
/// Loads that bring the chase's TLB entries and page-table lines into the caches.
const WARM_LOADS: u64 = 20_000;
const SEED: u64 = 0x5EED_0002;
const CHECKED_PAGES: usize = 16;

/// CPUs of a node that we may use.
struct Origin {
    node: u32,
    cpus: Vec<CpuId>,
}

/// Measures all pairs within about `time`.
pub(crate) fn measure(
    host: &Host,
    plan: &Plan,
    time: Duration,
    progress: &mut Progress<'_>,
    calibration: &mut Calibration,
) {
    let targets: Vec<&NumaNode> = host.memory_nodes().collect();
    if targets.len() < 2 {
        return;
    }
    let origins = origins(host, plan);
    let started = Instant::now();
    for (number, target) in targets.iter().enumerate() {
        let deadline = started + time.mul_f64((number + 1) as f64 / targets.len() as f64);
        let size = size(host, plan, target, live_free(target.id));
        let pairs = of_target(&origins, NodeId(target.id), size, deadline);
        calibration.node_pairs.extend(pairs);
        progress.part_done((number + 1) as f64 / targets.len() as f64);
    }
    let possible = |pair: &&NodePair| pair.threads > 1 && pair.latency.value.is_some();
    let without = calibration
        .node_pairs
        .iter()
        .filter(possible)
        .filter(|pair| pair.loaded.is_empty())
        .count();
    if without > 0 {
        calibration.notes.push(format!(
            "no latency under load of {without} pairs of nodes: the time was up, or the memory of the node"
        ));
    }
    calibration.node_pairs.sort_by_key(|pair| (pair.from, pair.to));
}

fn origins(host: &Host, plan: &Plan) -> Vec<Origin> {
    let nodes = host.numa_nodes.iter().enumerate().filter(|(_, node)| !node.cpus.is_empty());
    let of_node = |(at, node): (usize, &NumaNode)| {
        let placed = plan.cpus.iter().zip(&plan.nodes);
        let cpus = placed.filter(|(_, of)| **of == at).map(|(cpu, _)| *cpu).collect();
        Origin { node: node.id, cpus }
    };
    nodes.map(of_node).collect()
}

/// Free bytes of a node, as the kernel says.
fn live_free(node: u32) -> Option<u64> {
    let path = format!("/sys/devices/system/node/node{node}/meminfo");
    let meminfo = live::read(&path)?;
    machine::text::size(machine::text::value_of(&meminfo, &format!("Node {node} MemFree"))?).ok()
}

/// Bytes of a node's memory that are read; or why none.
fn size(host: &Host, plan: &Plan, node: &NumaNode, free: Option<u64>) -> Result<Bytes, String> {
    let free = free.ok_or_else(|| format!("how much of node {} is free is not known", node.id))?;
    let data = host.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let last = data.max_by_key(|cache| cache.level).map_or(0, |cache| cache.bytes);
    let wanted = last.saturating_mul(TIMES_CACHE).clamp(SMALLEST, LARGEST);
    let wanted = if plan.hurried { SMALLEST / 2 } else { wanted };
    let size = wanted.min(plan.memory.0).min(free / FREE_SHARE);
    match size < LEAST {
        true => Err(format!("node {} has only {} free", node.id, Bytes(free))),
        false => Ok(Bytes(size)),
    }
}

/// From the CPUs of each node to the memory of one.
fn of_target(
    origins: &[Origin],
    to: NodeId,
    size: Result<Bytes, String>,
    deadline: Instant,
) -> Vec<NodePair> {
    let bytes = size.clone().unwrap_or_default();
    let pair = |origin: &Origin, figures: Result<[Metric; 3], String>| {
        let unavailable =
            |why: &str| ["ns", "GB/s", "GB/s"].map(|unit| Metric::unavailable(unit, why));
        let loaded = match &figures {
            Ok(_) => under_load(origin, to, bytes, deadline).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let [latency, one_thread, all_threads] = figures.unwrap_or_else(|why| unavailable(&why));
        let threads = origin.cpus.len() as u32;
        NodePair { from: origin.node, to: to.0, latency, one_thread, all_threads, threads, loaded }
    };
    let most_threads = origins.iter().map(|origin| origin.cpus.len()).max().unwrap_or(0);
    let measured = size.and_then(|size| {
        let latencies = latencies(origins, to, size, deadline)?;
        let mut parts = parts(origins, to, size, most_threads)?;
        let rates = origins.iter().map(|origin| rates(origin, &mut parts, size, deadline));
        Ok(latencies.into_iter().zip(rates.collect::<Vec<_>>()).collect::<Vec<_>>())
    });
    let figures: Vec<Result<[Metric; 3], String>> = match measured {
        Err(why) => origins.iter().map(|_| Err(why.clone())).collect(),
        Ok(measured) => {
            let join = |(latency, rates): (Result<Metric, String>, Result<[Metric; 2], String>)| {
                let (latency, [one, all]) = (latency?, rates?);
                Ok([latency, one, all])
            };
            measured.into_iter().map(join).collect()
        }
    };
    origins.iter().zip(figures).map(|(origin, figures)| pair(origin, figures)).collect()
}

/// Memory of that node, and of no other.
fn bound(cpu: CpuId, to: NodeId, size: Bytes) -> Result<Buffer, String> {
    let mut buffer = Buffer::map(size, Pages::Huge).map_err(|error| error.to_string())?;
    buffer.bind(to).map_err(|error| error.to_string())?;
    workers::alone(cpu, || buffer.touch_each_page()).map_err(|error| error.to_string())?;
    let own = Pid(std::process::id().cast_signed());
    // Where the kernel does not say, the policy is believed.
    let nodes = sys::process::nodes_of(own, &buffer.some_pages(CHECKED_PAGES)).unwrap_or_default();
    match nodes.into_iter().flatten().find(|node| *node != to) {
        Some(other) => Err(format!("memory bound to node {to} was put on node {other}")),
        None => Ok(buffer),
    }
}

fn some_cpu(origins: &[Origin]) -> Result<CpuId, String> {
    let cpus = origins.iter().flat_map(|origin| &origin.cpus);
    cpus.copied().next().ok_or_else(|| "no CPU of any node may be used".to_owned())
}

fn not_allowed(origin: &Origin) -> String {
    format!("no CPU of node {} may be used here: they are outside our cpuset or quota", origin.node)
}

fn latencies(
    origins: &[Origin],
    to: NodeId,
    size: Bytes,
    deadline: Instant,
) -> Result<Vec<Result<Metric, String>>, String> {
    let mut buffer = bound(some_cpu(origins)?, to, size)?;
    let slots = u32::try_from(buffer.size().0 / 64).unwrap_or(u32::MAX);
    let cycle = Cycle::random(slots, SEED);
    let of_origin = |origin: &Origin| {
        let cpu = *origin.cpus.first().ok_or_else(|| not_allowed(origin))?;
        let chased = workers::alone(cpu, || {
            let chase = Chase::lay(&mut buffer, &cycle, Spacing::Line);
            chase.map(|mut chase| latency(&mut chase, deadline))
        });
        let latency = chased.map_err(|error| error.to_string())?;
        let latency = latency.ok_or_else(|| "the chase does not fit into its memory".to_owned())?;
        Ok(with_size(latency, size))
    };
    Ok(origins.iter().map(of_origin).collect())
}

/// Latency while the other CPUs of the node read; nothing with one CPU or where the time is up.
fn under_load(
    origin: &Origin,
    to: NodeId,
    size: Bytes,
    deadline: Instant,
) -> Result<Vec<LoadedLatency>, String> {
    let [first, others @ ..] = origin.cpus.as_slice() else { return Ok(Vec::new()) };
    if others.is_empty() || Instant::now() > deadline {
        return Ok(Vec::new());
    }
    let half = size.0 / 2;
    let chase = bound(*first, to, Bytes(half))?;
    let part = Bytes(half / others.len() as u64);
    let parts = others.iter().map(|cpu| bound(*cpu, to, part));
    loaded::curve(&origin.cpus, chase, parts.collect::<Result<Vec<Buffer>, String>>()?, deadline)
}

/// Adds over how much memory it was measured.
fn with_size(metric: Metric, size: Bytes) -> Metric {
    let over = format!("over {size} of the node");
    let note = metric.note.as_ref().map_or(over.clone(), |note| format!("{note}; {over}"));
    if metric.value.is_some() { metric.noted(&note) } else { metric }
}

fn latency(chase: &mut Chase<'_>, deadline: Instant) -> Metric {
    let (warm, _) = ladder::timed(chase, WARM_LOADS);
    let loads = (CHASE.as_nanos() as f64 / warm.max(0.1)) as u64;
    let mut repeats = Repeats::default();
    for number in 0..REPEATS {
        if number >= LEAST_REPEATS && Instant::now() > deadline {
            break;
        }
        let (latency, disturbed) = ladder::timed(chase, loads);
        repeats.push(latency, disturbed);
    }
    repeats.median_metric(1.0, "ns")
}

/// A part for each of the threads, as they cannot share one.
fn parts(
    origins: &[Origin],
    to: NodeId,
    size: Bytes,
    threads: usize,
) -> Result<Vec<Buffer>, String> {
    let cpu = some_cpu(origins)?;
    let simd = Simd::Baseline;
    let part = |_| {
        let mut buffer = bound(cpu, to, Bytes(size.0 / threads.max(1) as u64))?;
        // No zeros: memory of equal zero pages may be treated specially by hypervisors.
        sweep(Kernel::Store, simd, &mut buffer);
        Ok(buffer)
    };
    (0..threads).map(part).collect()
}

/// Bandwidth of reading with one thread, and with all of a node.
fn rates(
    origin: &Origin,
    parts: &mut [Buffer],
    size: Bytes,
    deadline: Instant,
) -> Result<[Metric; 2], String> {
    if origin.cpus.is_empty() {
        return Err(not_allowed(origin));
    }
    let mut found = [1, origin.cpus.len()].map(|threads| (threads, Repeats::default()));
    for number in 0..REPEATS {
        if number >= LEAST_REPEATS && Instant::now() > deadline {
            break;
        }
        for (threads, repeats) in &mut found {
            let (rate, disturbed) =
                pass(&origin.cpus[..*threads], parts).map_err(|error| error.to_string())?;
            repeats.push(rate, disturbed);
        }
    }
    Ok(found.map(|(_, repeats)| with_size(repeats.median_metric(1.0, "GB/s"), size)))
}

/// GB/s of one pass over all parts, and whether it was disturbed.
fn pass(cpus: &[CpuId], parts: &mut [Buffer]) -> Result<(f64, bool), KernelError> {
    let simd = Simd::available().last().copied().unwrap_or(Simd::Baseline);
    let mut jobs: Vec<(CpuId, Vec<&mut Buffer>)> =
        cpus.iter().map(|cpu| (*cpu, Vec::new())).collect();
    let count = jobs.len();
    for (number, part) in parts.iter_mut().enumerate() {
        jobs[number % count].1.push(part);
    }
    let done = workers::together(jobs, |buffers: Vec<&mut Buffer>| {
        buffers.into_iter().map(|buffer| sweep(Kernel::Load, simd, buffer)).sum::<u64>()
    })?;
    let bytes = Kernel::Load.bus_bytes(done.results.iter().sum());
    Ok((bytes.0 as f64 / done.elapsed.as_secs_f64() / 1e9, done.disturbed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(memory: u64) -> Plan {
        Plan {
            cpus: vec![CpuId(0), CpuId(2)],
            nodes: vec![0, 1],
            thread_counts: vec![1, 2],
            memory: Bytes(memory),
            hurried: false,
        }
    }

    fn node(id: u32, cpus: &[u32]) -> NumaNode {
        NumaNode { id, cpus: cpus.to_vec(), memory_bytes: 1 << 30, distances: Vec::new() }
    }

    #[test]
    fn nodes_without_cpus_are_no_origin_and_those_without_allowed_ones_say_so() {
        let host = Host {
            numa_nodes: vec![node(0, &[0, 1]), node(1, &[2]), node(2, &[3]), node(3, &[])],
            ..Host::default()
        };
        let found = origins(&host, &plan(1 << 30));
        let shown: Vec<_> = found.iter().map(|one| (one.node, one.cpus.as_slice())).collect();
        assert_eq!(shown, [(0, &[CpuId(0)][..]), (1, &[CpuId(2)][..]), (2, &[][..])]);
        assert!(not_allowed(&found[2]).starts_with("no CPU of node 2 may be used here"));
    }

    #[test]
    fn no_more_is_taken_than_a_quarter_of_what_is_free() {
        let (host, one) = (Host::default(), node(1, &[]));
        let taken = |memory, free| size(&host, &plan(memory), &one, free);
        assert_eq!(taken(1 << 40, Some(1 << 40)), Ok(Bytes(SMALLEST)));
        assert_eq!(taken(1 << 40, Some(256 << 20)), Ok(Bytes(64 << 20)));
        assert_eq!(taken(20 << 20, Some(1 << 40)), Ok(Bytes(20 << 20)));
        assert_eq!(taken(1 << 40, Some(10 << 20)), Err("node 1 has only 10 MiB free".to_owned()));
        assert!(taken(1 << 40, None).is_err());
    }

    /// Also where there is one node, its own memory is reached, or the refusal is worded.
    #[test]
    fn the_memory_of_a_node_is_measured_or_the_reason_is_given() {
        let origins =
            [Origin { node: 0, cpus: vec![CpuId(0)] }, Origin { node: 7, cpus: Vec::new() }];
        let found = of_target(&origins, NodeId(0), Ok(Bytes(LEAST)), Instant::now());
        assert_eq!((found[0].from, found[0].to, found[0].threads), (0, 0, 1));
        for metric in [&found[0].latency, &found[0].one_thread, &found[0].all_threads] {
            match metric.value {
                Some(value) => assert!(value > 0.0 && metric.samples >= 3, "{metric:?}"),
                None => println!("skipped: {:?}", metric.note),
            }
        }
        assert_eq!(found[1].latency.value, None);
        let (host, _) = crate::host();
        if host.logical_cpus < 2 {
            println!("skipped: latency under load takes two CPUs");
        } else {
            let two = [Origin { node: 0, cpus: vec![CpuId(0), CpuId(1)] }];
            let later = Instant::now() + Duration::from_secs(2);
            let found = of_target(&two, NodeId(0), Ok(Bytes(LEAST)), later);
            match found[0].latency.value {
                Some(_) => {
                    let loaded = &found[0].loaded;
                    let is_measured = |point: &LoadedLatency| {
                        point.rate.value > Some(0.0) && point.latency.value > Some(0.0)
                    };
                    assert!(loaded.len() > 2 && loaded.iter().all(is_measured), "{loaded:?}");
                }
                None => println!("skipped: {:?}", found[0].latency.note),
            }
        }
        let absent = of_target(&origins, NodeId(1023), Ok(Bytes(LEAST)), Instant::now());
        let why = absent[0].latency.note.as_deref().unwrap_or_default();
        assert!(why.starts_with("cannot place memory on node 1023: "), "{why}");
    }
}
