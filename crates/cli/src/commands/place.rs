//! `fathom place`: runs a program on given CPUs, with its memory on given NUMA nodes.
//!
//! What for: remedies of `fathom try` by the same line that a user types afterwards, also where numactl is not installed. What not: which
//! placement (`analysis::remedies`).
//!
//! All that changes is inherited by the program alone, or done inside it by the placement library (`agent/placement`): nothing of the
//! machine changes, so nothing has to be undone, also after `kill -9`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use base::{CpuId, NodeId, Pid};
use clap::Args;
use facts::ExitKind;
use facts::host::Host;
use sys::process::{
    Affinity, MemoryPolicy, ProcessFd, Received, SignalFd, kill, set_memory_policy, wait_for_data,
};

use super::collect::{find_program, pass_on};
use crate::exit::{CANNOT_MEASURE, Failure};
use crate::timed_run::take_over_interrupts;

#[derive(Args, Debug)]
pub struct PlaceOptions {
    /// Run on the CPUs of these NUMA nodes, as in 0,2-3
    #[arg(short = 'N', long, value_name = "NODES")]
    pub cpunodebind: Option<String>,
    /// Place memory on these NUMA nodes only
    #[arg(short, long, value_name = "NODES", conflicts_with = "interleave")]
    pub membind: Option<String>,
    /// Spread memory over these NUMA nodes, page by page; `all`: those with memory
    #[arg(short, long, value_name = "NODES")]
    pub interleave: Option<String>,
    /// Spread memory over these NUMA nodes by their weights in /sys/kernel/mm/mempolicy/weighted_interleave
    #[arg(short, long, value_name = "NODES", conflicts_with_all = ["membind", "interleave"])]
    pub weighted_interleave: Option<String>,
    /// Give the pages of blocks from 1 MiB on to the NUMA node of the thread that uses them next
    #[arg(long, conflicts_with_all = ["membind", "interleave", "weighted_interleave"])]
    pub next_touch: bool,
    /// Move the heap blocks of exactly this size, from 1 MiB on, to the nodes of --object-nodes
    #[arg(long, value_name = "BYTES", requires = "object_nodes", value_parser = clap::value_parser!(u64).range(1 << 20..))]
    pub object: Option<u64>,
    /// Where these go: to one node, or page by page to several; `all`: those with memory
    #[arg(long, value_name = "NODES", requires = "object")]
    pub object_nodes: Option<String>,
    /// Move them so long after the program's start [default: as soon as they are allocated]
    #[arg(long, value_name = "SEC", value_parser = crate::arguments::seconds, requires = "object")]
    pub object_after: Option<Duration>,
    /// Run each thread on one of these CPUs, in the order in which the threads start; again from the first one when all are used
    #[arg(long, value_name = "CPUS", conflicts_with = "cpunodebind")]
    pub each_thread: Option<String>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM ARGS")]
    pub command: Vec<OsString>,
}

/// Runs a program so.
pub fn place(options: &PlaceOptions) -> Result<ExitCode, Failure> {
    let program = find_program(&options.command[0])?;
    let (host, _) = calibrate::host();
    let cpus = options.cpunodebind.as_deref().map(|list| cpus_of(&host, list)).transpose()?;
    let each = options.each_thread.as_deref().map(|list| usable(&host, list)).transpose()?;
    if let Some(cpus) = cpus {
        Affinity::of(&cpus).apply().map_err(|error| cannot("run on these CPUs", &error))?;
    }
    let policies = [
        (MemoryPolicy::Bind, options.membind.as_deref()),
        (MemoryPolicy::Interleave, options.interleave.as_deref()),
        (MemoryPolicy::Weighted, options.weighted_interleave.as_deref()),
    ];
    for (policy, list) in policies {
        if let Some(list) = list {
            let nodes = nodes(&host, list, |node| node.memory_bytes > 0, "memory")?;
            let nodes: Vec<NodeId> = nodes.into_iter().map(|node| NodeId(node.id)).collect();
            set_memory_policy(policy, &nodes).map_err(|error| refused(&error))?;
        }
    }
    let mut command = Command::new(program);
    command.arg0(&options.command[0]).args(&options.command[1..]);
    if let Some(words) = inside(options, &host)? {
        command.envs(preloaded(&words)?);
    }
    match each {
        Some(cpus) => pin_each(command, &cpus),
        None => Err(cannot("start the program", &command.exec())),
    }
}

/// What the placement library has to do, in its words (`agent/placement/settings.rs`).
fn inside(options: &PlaceOptions, host: &Host) -> Result<Option<String>, Failure> {
    let mut words = Vec::new();
    if options.next_touch {
        sys::process::next_touch_works().map_err(|error| {
            let why = sys::process::no_next_touch(&error);
            Failure::new(CANNOT_MEASURE, anyhow::anyhow!("--next-touch: {why}"))
        })?;
        words.push("touch".to_owned());
    }
    if let (Some(bytes), Some(list)) = (options.object, options.object_nodes.as_deref()) {
        let nodes = nodes(host, list, |node| node.memory_bytes > 0, "memory")?;
        let mut mask = 0_u64;
        for node in nodes {
            let bit = 1_u64.checked_shl(node.id);
            mask |= bit.ok_or_else(|| Failure::usage("--object-nodes: nodes up to 63 only"))?;
        }
        // What the library will ask for is refused where this is.
        let policy = || sys::process::set_memory_policy(MemoryPolicy::Local, &[]);
        let policy = std::thread::spawn(policy).join().unwrap_or(Ok(()));
        policy.map_err(|error| refused(&error))?;
        let after = options.object_after.map_or(0, |after| after.as_millis());
        words.push(format!("object={bytes}:{mask}:{after}"));
    }
    if words.is_empty() {
        return Ok(None);
    }
    let most = host.numa_nodes.iter().flat_map(|node| &node.cpus).max().copied().unwrap_or(0);
    let of = |cpu: u32| {
        let node = host.numa_nodes.iter().find(|node| node.cpus.contains(&cpu));
        node.map_or("0".to_owned(), |node| node.id.to_string())
    };
    words.push(format!("nodes={}", (0..=most).map(of).collect::<Vec<_>>().join(",")));
    Ok(Some(words.join(";")))
}

/// The variables that load the placement library into the program, before what is loaded already.
fn preloaded(words: &str) -> Result<[(&'static str, OsString); 2], Failure> {
    let library = crate::agent_file::placement();
    let library = library.map_err(|error| cannot("write the placement library", &error))?;
    let mut all = library.into_os_string();
    if let Some(already) = std::env::var_os("LD_PRELOAD").filter(|already| !already.is_empty()) {
        all.push(":");
        all.push(already);
    }
    Ok([("LD_PRELOAD", all), ("FATHOM_PLACEMENT", words.into())])
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(CANNOT_MEASURE, anyhow::anyhow!("cannot {what}: {error}"))
}

/// Why the kernel sets no policy.
pub fn refused(error: &std::io::Error) -> Failure {
    let why = sys::kernels::unbound(error);
    Failure::new(CANNOT_MEASURE, anyhow::anyhow!("cannot place memory: {error}; {why}"))
}

/// The nodes of a list that have something.
fn nodes<'a>(
    host: &'a Host,
    list: &str,
    has: impl Fn(&facts::host::NumaNode) -> bool,
    what: &str,
) -> Result<Vec<&'a facts::host::NumaNode>, Failure> {
    let known: Vec<_> = host.numa_nodes.iter().filter(|node| has(node)).collect();
    if list == "all" {
        return Ok(known);
    }
    let wanted = numbers(list)?;
    let find = |id: &u32| {
        known.iter().find(|node| node.id == *id).copied().ok_or_else(|| {
            let ids: Vec<String> = known.iter().map(|node| node.id.to_string()).collect();
            Failure::usage(match known.len() {
                0 => "this kernel tells of no NUMA nodes".to_owned(),
                1 => {
                    format!("no NUMA node {id} with {what}: this machine has one, node {}", ids[0])
                }
                _ => format!("no NUMA node {id} with {what}; there are {}", ids.join(", ")),
            })
        })
    };
    wanted.iter().map(find).collect()
}

fn numbers(list: &str) -> Result<Vec<u32>, Failure> {
    let numbers = machine::text::number_list(list).unwrap_or_default();
    match numbers.is_empty() {
        true => Err(Failure::usage(format!("'{list}' is no list of numbers, as in 0,2-3"))),
        false => Ok(numbers),
    }
}

fn cpus_of(host: &Host, list: &str) -> Result<Vec<CpuId>, Failure> {
    let nodes = nodes(host, list, |node| !node.cpus.is_empty(), "CPUs")?;
    let cpus = nodes.iter().flat_map(|node| &node.cpus);
    let cpus: Vec<CpuId> =
        cpus.filter(|cpu| host.allowed_cpus.contains(cpu)).map(|cpu| CpuId(*cpu)).collect();
    match cpus.is_empty() {
        true => Err(Failure::usage(format!(
            "no CPU of node {list} may be used: they are outside our affinity mask or cpuset"
        ))),
        false => Ok(cpus),
    }
}

fn usable(host: &Host, list: &str) -> Result<Vec<CpuId>, Failure> {
    // In the given order: a list as the kernel writes them has none.
    let parts: Vec<Vec<u32>> = list.split(',').map(numbers).collect::<Result<_, _>>()?;
    let cpus = parts.concat();
    match cpus.iter().find(|cpu| !host.allowed_cpus.contains(cpu)) {
        Some(cpu) => Err(Failure::usage(format!("CPU {cpu} may not be used here"))),
        None => Ok(cpus.into_iter().map(CpuId).collect()),
    }
}

/// Threads that the program starts are looked for this often at first, and when it has run for a while.
const LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];
/// Rounds of the first.
const EARLY: u32 = 500;

/// Starts a program and gives each of its threads a CPU soon after its start. A thread has inherited all CPUs, or the one of the thread that
/// started it; one with other CPUs has chosen them by itself, and keeps them.
fn pin_each(mut command: Command, cpus: &[CpuId]) -> Result<ExitCode, Failure> {
    let failed = |error: std::io::Error| cannot("run the program", &error);
    let signals = take_over_interrupts().map_err(failed)?;
    signals.hand_back(&mut command);
    let inherited = Affinity::own().map_err(failed)?;
    let mut child = command.spawn().map_err(failed)?;
    let exit = pin_until_its_end(&mut child, cpus, &inherited, &signals).map_err(failed)?;
    Ok(pass_on(exit, true))
}

fn pin_until_its_end(
    child: &mut Child,
    cpus: &[CpuId],
    inherited: &Affinity,
    signals: &SignalFd,
) -> std::io::Result<ExitKind> {
    let pid = Pid(child.id().cast_signed());
    let ended = ProcessFd::open(pid)?;
    let single: Vec<Affinity> = cpus.iter().map(|cpu| Affinity::of(&[*cpu])).collect();
    let mut known = BTreeSet::new();
    for round in 0_u32.. {
        for thread in threads(pid) {
            if known.insert(thread) {
                let cpu = cpus[(known.len() - 1) % cpus.len()];
                let own = Affinity::of_thread(thread);
                let given = |mask| mask == *inherited || single.contains(&mask);
                // One that has ended meanwhile needs none.
                if own.is_ok_and(given) {
                    let _ = Affinity::of(&[cpu]).apply_to(thread);
                }
            }
        }
        wait_for_data(&[ended.as_fd(), signals.as_fd()], LOOKS[usize::from(round > EARLY)])?;
        while let Some(Received(signal)) = signals.next() {
            let _ = kill(pid, signal);
        }
        if let Some(status) = child.try_wait()? {
            return Ok(match status.code() {
                Some(code) => ExitKind::Code(code),
                None => ExitKind::Signal(status.signal().unwrap_or(0)),
            });
        }
    }
    Ok(ExitKind::Unknown)
}

/// In the order of their numbers, which is that of their starts.
fn threads(pid: Pid) -> BTreeSet<Pid> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.map(Pid).collect()
}
