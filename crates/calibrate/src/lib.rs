//! Measures what this machine can do: bandwidth of memory and caches, latency ladder, floating-point peak, cost of page faults, of a
//! mispredicted branch and of a sample, and the skid of samples.
//!
//! What for: every figure of a program is compared with the measured limits of the machine, not with data sheets: a
//! virtual machine gets an unspecified share of the memory. What not: profiled programs. No `unsafe`: the timed loops
//! are in `sys::kernels`.
//!
//! Assumptions: interference (other programs, other tenants, a lower clock) only makes a repeat slower. So the median
//! of repeats is typical, and the best of many short ones is what is possible. The measurement itself loads the
//! machine for up to [`Options::time_limit`] and uses up to a quarter of the available memory.

#![forbid(unsafe_code)]

mod bandwidth;
mod branches;
pub mod cache;
mod distance;
mod faults;
mod flops;
mod history;
mod ladder;
mod levels;
mod live;
mod load;
mod loaded;
mod nodes;
mod operations;
pub mod pages;
mod plan;
pub mod reading;
mod sample_cost;
mod statistics;
mod workers;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use facts::host::{Calibration, Host};

pub use live::{Counters, counters, host, snapshot};

/// Version of the measuring code. Raise it when a change makes earlier figures incomparable: stored calibrations
/// of other versions are measured again.
pub const VERSION: u32 = 7;

/// How to measure.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The whole measurement ends about then, on a busy machine up to 5 s later. A shorter one has fewer repeats;
    /// below 5 s it also leaves out large sizes, so that its figures for memory are not to be trusted. A machine with
    /// memory in several NUMA nodes takes a quarter longer.
    pub time_limit: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { time_limit: Duration::from_secs(18) }
    }
}

/// Parts of the measurement: what it is called while it runs, its share of the time.
const PARTS: [(&str, f64); 11] = [
    ("latency of caches and memory", 0.39),
    ("bandwidth of caches", 0.02),
    ("memory bandwidth", 0.425),
    ("floating-point peak", 0.11),
    ("cost of page faults", 0.025),
    ("cost of a mispredicted branch", 0.005),
    ("cost of single operations", 0.005),
    ("cost of a clock sample", 0.01),
    ("where clock samples stand", 0.01),
    // On most machines there is nothing to do: it has its own time.
    ("memory of each NUMA node", 0.0),
    // With one CPU there is nothing to do: it, too, has its own time.
    ("latency of memory under load", 0.0),
];

/// Share of the time limit for memory in several nodes, in addition.
const NODES_TIME: f64 = 0.25;
/// The same for latency under load.
const LOADED_TIME: f64 = 0.06;

/// Reports how far one part is.
struct Progress<'caller> {
    report: &'caller mut dyn FnMut(f64, &str),
    part: usize,
}

impl Progress<'_> {
    /// `done` of the current part, 0 to 1.
    fn part_done(&mut self, done: f64) {
        let before: f64 = PARTS[..self.part].iter().map(|(_, share)| share).sum();
        let (name, share) = PARTS[self.part];
        (self.report)((before + share * done.clamp(0.0, 1.0)).min(1.0), name);
    }
}

/// Measures the machine. `progress` gets how much is done (0 to 1) and what is being measured; it runs between
/// timed loops and should take microseconds.
///
/// Never fails as a whole: what could not be measured is `None` or absent and stands in the notes.
pub fn measure(host: &Host, options: &Options, progress: &mut dyn FnMut(f64, &str)) -> Calibration {
    let started = Instant::now();
    let mut calibration = Calibration {
        version: VERSION,
        fingerprint: machine::fingerprint(host),
        measured_unix: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        ..Calibration::default()
    };
    let plan = plan::Plan::new(host, options.time_limit, &mut calibration.notes);
    let load = load::Load::begin();
    let mut progress = Progress { report: progress, part: 0 };
    let mut deadline = started;
    for (part, (_, share)) in PARTS.iter().enumerate() {
        progress.part = part;
        progress.part_done(0.0);
        // What one part leaves over goes to the next ones.
        deadline = deadline.max(started) + options.time_limit.mul_f64(*share);
        match part {
            0 => ladder::measure(host, &plan, deadline, &mut progress, &mut calibration),
            1 => levels::measure(host, &plan, deadline, &mut calibration),
            2 => bandwidth::measure(host, &plan, deadline, &mut progress, &mut calibration),
            3 => flops::measure(&plan, deadline, &mut progress, &mut calibration),
            4 => faults::measure(&plan, &mut calibration),
            5 => branches::measure(&plan, &mut calibration),
            6 => operations::measure(&plan, &mut calibration),
            7 => sample_cost::measure(&plan, &mut calibration),
            8 => distance::measure(&plan, &mut calibration),
            9 => {
                let time = options.time_limit.mul_f64(NODES_TIME);
                nodes::measure(host, &plan, time, &mut progress, &mut calibration);
            }
            _ => {
                let time = options.time_limit.mul_f64(LOADED_TIME);
                loaded::measure(host, &plan, time, &mut progress, &mut calibration);
            }
        }
    }
    progress.part_done(1.0);
    let disturbances = load.end(plan.cpus.len());
    calibration.disturbed = !disturbances.is_empty();
    calibration.notes.extend(disturbances);
    calibration.took_seconds = started.elapsed().as_secs_f64();
    calibration
}
