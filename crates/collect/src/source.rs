//! The source of observations: perf events, else ptrace, else `/proc` alone. It is chosen once; all are driven alike.
//!
//! What for: the order of preference, and messages that say why the best source is not available. What not: what
//! follows from an observation (`recorder`), when to stop (`session`).

use base::{Nanos, Pid, Tid};
use facts::{CollectorInfo, SamplingMethod, SinkError};
use sys::process;

use crate::perf::{OpenError, PerfSampler, Settings, WakingTracepoint};
use crate::ptrace_sampler::{self, PtraceSampler};
use crate::recorder::Recorder;
use crate::session::{Options, SessionError};

/// Fault records per second and thread. At some 1.3 to 5 microseconds each they cost up to half a percent, and only
/// while a program takes more faults than that, which costs it far more.
const FAULT_RATE: u64 = 1000;

/// The source in use.
pub enum Source {
    /// Perf events.
    Perf(Box<PerfSampler>),
    /// Short stops by ptrace.
    Ptrace(Box<PtraceSampler>),
    /// Totals only.
    Proc,
}

/// Copied stacks of waiting threads per second, thread and CPU. Below that rate of switches every wait has its stack;
/// above, the kernel thins them evenly. At some 5 microseconds each, unwinding included, they cost up to 5 percent.
const WAIT_STACK_RATE: u64 = 10_000;

/// Records of wakes per second, thread and CPU, at the same cost each: up to 1 percent.
const WAKE_RATE: u64 = 2000;

impl Source {
    /// Sets time zero of the recording.
    pub fn begin(&mut self, start: Nanos) {
        match self {
            Source::Perf(sampler) => sampler.begin(start),
            Source::Ptrace(sampler) => sampler.begin(start),
            Source::Proc => {}
        }
    }

    /// Names the counted events that take samples. Returns their number.
    pub fn announce_counted(&self, recorder: &mut Recorder<'_>) -> Result<u32, SinkError> {
        match self {
            Source::Perf(sampler) => sampler.announce_counted(recorder),
            Source::Ptrace(_) | Source::Proc => Ok(0),
        }
    }

    /// Ends all observation.
    pub fn stop(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        match self {
            Source::Perf(sampler) => sampler.stop(),
            Source::Ptrace(sampler) => sampler.stop(recorder)?,
            Source::Proc => {}
        }
        Ok(())
    }

    /// Observes nothing from now on, or observes again; `now` is since the start of the recording. What the program maps and
    /// starts is noted all the same.
    pub fn pause(&mut self, paused: bool, now: Nanos) {
        match self {
            Source::Perf(sampler) => sampler.pause(paused, now),
            Source::Ptrace(sampler) => sampler.pause(paused),
            Source::Proc => {}
        }
    }

    /// A pause begins or ends at this time, by which what threads do is cut in two.
    pub fn cut(&mut self, time: Nanos) {
        if let Source::Perf(sampler) = self {
            sampler.cut(time);
        }
    }

    /// The latest time of its next reading, since the start of the recording.
    pub fn due(&self) -> Option<Nanos> {
        match self {
            Source::Perf(sampler) => sampler.due(),
            Source::Ptrace(_) | Source::Proc => None,
        }
    }

    /// A note for the reader where not every wait has its stack.
    pub fn waits_note(&self, options: &Options) -> Option<String> {
        let note = match self {
            _ if !options.follow_waits => return None,
            Source::Perf(sampler) if sampler.sees_wakers() => return None,
            Source::Perf(sampler) if sampler.sees_kernel() => {
                "who ends waits was not recorded: the kernel's tracepoint sched:sched_waking may not be read here (run as \
                 root, outside of containers, with `mount -t tracefs tracefs /sys/kernel/tracing`)"
            }
            Source::Perf(_) => {
                "every switch of a thread was followed, but this user may not see where threads leave their CPU \
                 (kernel.perf_event_paranoid is 2 or more): waits are read ten times a second, and the others are divided \
                 like these"
            }
            Source::Ptrace(_) | Source::Proc => {
                "without perf events, context switches are not recorded: threads were read ten times a second, and \
                 the reason found then stands for the whole time since the reading before"
            }
        };
        Some(note.to_owned())
    }

    /// Takes the observations since the last call.
    pub fn look(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        match self {
            Source::Perf(sampler) => sampler.look(recorder),
            Source::Ptrace(sampler) => sampler.look(recorder),
            Source::Proc => Ok(()),
        }
    }
}

/// Opens the source on every thread. A thread that is born meanwhile by one that is not observed yet would be missed,
/// so this is repeated until there is none.
pub fn open_on_all_threads(
    pid: Pid,
    options: &Options,
) -> Result<(Source, CollectorInfo, Vec<Tid>), SessionError> {
    let list = || tracee::threads_of(pid).map_err(|_| SessionError::NoSuchProcess(pid));
    let mut threads = list()?;
    for _ in 0..10 {
        let (source, info) =
            choose_source(pid, options, |settings| PerfSampler::on_running(&threads, settings))?;
        let now = list()?;
        if now.iter().all(|tid| threads.contains(tid)) || matches!(source, Source::Ptrace(_)) {
            return Ok((source, info, now));
        }
        threads = now;
    }
    // A program that never stops creating threads: threads that are observed pass that on to those that they create.
    let (source, info) =
        choose_source(pid, options, |settings| PerfSampler::on_running(&threads, settings))?;
    Ok((source, info, threads))
}

/// Opens the best source for the whole machine: perf events on every CPU, else totals only.
pub fn choose_machine_source(options: &Options) -> (Source, CollectorInfo) {
    let settings = settings(options);
    let mut info = collector_info(options);
    let refusal = match options.best_method {
        SamplingMethod::PerfEvents => match PerfSampler::on_machine(&settings) {
            Ok(sampler) => {
                info.kernel_samples = true;
                return (Source::Perf(Box::new(sampler)), info);
            }
            Err(error) => {
                format!(
                    "{error}; to sample the whole machine: sudo sysctl kernel.perf_event_paranoid=0"
                )
            }
        },
        _ => "as the knob sampling-mode asks".to_owned(),
    };
    info.method = SamplingMethod::ProcOnly;
    info.sampling_period_ns = 0;
    info.fallback_reason = Some(format!("{refusal}: functions are not sampled"));
    (Source::Proc, info)
}

fn settings(options: &Options) -> Settings {
    let most = |rate: u64| highest_sample_rate().map_or(rate, |highest| rate.min(highest));
    Settings {
        period: options.period,
        echoes: options.bursts.is_some(),
        stack_bytes: options.stack_bytes,
        fault_rate: most(FAULT_RATE),
        cpus: options.cpus.clone(),
        start_paused: options.start_paused,
        counted: options
            .events
            .iter()
            .flatten()
            .filter(|one| one.sampled.is_some())
            .cloned()
            .collect(),
        wait_stack_rate: options.follow_waits.then(|| most(WAIT_STACK_RATE)),
        wakes: if options.follow_waits {
            WakingTracepoint::find().map(|tracepoint| (tracepoint, most(WAKE_RATE)))
        } else {
            None
        },
    }
}

fn collector_info(options: &Options) -> CollectorInfo {
    CollectorInfo {
        method: SamplingMethod::PerfEvents,
        fallback_reason: None,
        sampling_period_ns: options.period.0,
        kernel_samples: false,
        stack_bytes: options.stack_bytes,
        timed_load_overhead_cycles: None,
    }
}

/// The kernel refuses a higher frequency, and lowers this limit by itself on slow machines.
fn highest_sample_rate() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?.trim().parse().ok()
}

/// Opens the best source that is allowed here.
pub fn choose_source(
    pid: Pid,
    options: &Options,
    open: impl FnOnce(&Settings) -> Result<PerfSampler, OpenError>,
) -> Result<(Source, CollectorInfo), SessionError> {
    let settings = settings(options);
    let mut info = collector_info(options);
    let perf = if options.best_method == SamplingMethod::PerfEvents {
        Some(open(&settings))
    } else {
        None
    };
    let refusal = match perf {
        Some(Ok(sampler)) => {
            info.kernel_samples = sampler.sees_kernel();
            if !info.kernel_samples {
                info.fallback_reason = Some(
                    "the kernel's own functions may not be sampled by this user (kernel.perf_event_paranoid is 2 or \
                     more): time in the kernel is known in total only"
                        .to_owned(),
                );
            }
            return Ok((Source::Perf(Box::new(sampler)), info));
        }
        Some(Err(OpenError::Gone)) => return Err(SessionError::NoSuchProcess(pid)),
        Some(Err(error)) => format!("{error}"),
        None => "as the knob sampling-mode asks".to_owned(),
    };
    if options.best_method != SamplingMethod::ProcOnly {
        match PtraceSampler::on_process(pid, options.stack_bytes) {
            Ok(sampler) => {
                info.method = SamplingMethod::Ptrace;
                info.sampling_period_ns = ptrace_sampler::PERIOD.0;
                info.fallback_reason = Some(format!(
                    "{refusal}: threads are stopped shortly with ptrace instead, 100 times a second; page faults are \
                     known in total only, and the kernel's functions not at all; a blocking write may return early \
                     and be counted as short by the program{}",
                    if process::user_id() == 0 {
                        ""
                    } else {
                        ", and set-uid programs that it starts run without their rights"
                    }
                ));
                return Ok((Source::Ptrace(Box::new(sampler)), info));
            }
            Err(error) => {
                info.fallback_reason = Some(format!(
                    "{refusal}, and {error}: functions cannot be sampled, only totals are known"
                ));
            }
        }
    } else {
        info.fallback_reason =
            Some(format!("{refusal}: functions are not sampled, only totals are known"));
    }
    info.method = SamplingMethod::ProcOnly;
    info.sampling_period_ns = 0;
    Ok((Source::Proc, info))
}
