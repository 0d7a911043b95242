//! One collection from start to end: start or attach, watch, stop, account.
//!
//! What for: the order of steps, the choice of the source (perf events, else ptrace, else /proc alone), signals, and
//! what the kernel counted.
//! What not: where facts go (a [`Sink`]), what is printed.
//!
//! The program is never harmed by our failures: when the sink takes no more (disk full) or a source breaks, the
//! collection ends, the program goes on, and the outcome says what happened.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use base::{CpuId, Nanos, Pid, Tid};
use facts::{
    CollectorInfo, Counter, CounterKind, ExitKind, Fact, OwnCost, ResourceUse, SamplingMethod,
    Sink, SinkError,
};
use sys::process::{self, Launch, LaunchError, ProcessFd, Received, Signal, SignalFd, Suspended};

use crate::gauges::Gauges;
use crate::launched::LaunchedProgram;
use crate::perf::{OpenError, PerfSampler, Settings, Totals};
use crate::ptrace_sampler::{self, PtraceSampler, thread_name};
use crate::recorder::Recorder;

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time between samples of a running thread.
    pub period: Nanos,
    /// Bytes of user stack copied per sample.
    pub stack_bytes: u32,
    /// CPUs of the machine that are online.
    pub cpus: Vec<CpuId>,
    /// Stop by ourselves after this long.
    pub duration: Option<Duration>,
    /// Use this method or a lesser one; `PerfEvents` means the best that works.
    pub best_method: SamplingMethod,
    /// When our own process began (CLOCK_MONOTONIC), to tell how late the program started.
    pub began: Nanos,
}

/// Why nothing could be collected.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The program did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The process to attach to does not exist.
    #[error("there is no process {0}")]
    NoSuchProcess(Pid),
    /// It exists, but is not ours to look at.
    #[error(
        "process {pid} may not be observed by this user: {perf}; {ptrace}. Run as the process's user or as root, or \
         see `fathom doctor`"
    )]
    NotPermitted {
        /// The process.
        pid: Pid,
        /// What perf_event_open said.
        perf: String,
        /// What ptrace said.
        ptrace: String,
    },
    /// The process is a 32-bit one.
    #[error("process {0} is a 32-bit program; Fathom profiles 64-bit programs only")]
    ThirtyTwoBit(Pid),
    /// A thread of the kernel.
    #[error("process {0} is a kernel thread: it has no program to profile")]
    KernelThread(Pid),
    /// The kernel refused something that always works.
    #[error("cannot watch the program: {0}")]
    System(#[from] std::io::Error),
}

/// What a collection came to.
#[derive(Debug)]
pub struct Outcome {
    /// Length of the recording.
    pub elapsed: Nanos,
    /// How the program ended, or that it still runs.
    pub exit: ExitKind,
    /// `interrupted`, `duration` or `write error`, when the program did not end the recording.
    pub stopped_by: Option<String>,
    /// How it was observed.
    pub collector: CollectorInfo,
    /// What it cost.
    pub own_cost: OwnCost,
    /// The kernel's account of a launched program that ended.
    pub resource_use: Option<ResourceUse>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
    /// The launched program, when it still runs.
    pub program: Option<LaunchedProgram>,
    /// The sink's error, when it ended the collection.
    pub sink_error: Option<SinkError>,
}

/// How often rings and gauges are looked at when nothing wakes us earlier.
const ROUND: Duration = Duration::from_millis(100);
/// Fault records per second and thread: at some 1.3 microseconds each about half a percent, and only while a program
/// faults faster than that, which costs it far more.
const FAULT_RATE: u64 = 4000;
const FLUSH_INTERVAL: Nanos = Nanos(1_000_000_000);

enum Source {
    Perf(Box<PerfSampler>),
    Ptrace(Box<PtraceSampler>),
    Proc,
}

/// Starts `file` and watches it until it ends, `duration` is over or somebody interrupts.
pub fn launch(
    file: &Path,
    arguments: &[OsString],
    options: &Options,
    signals: &SignalFd,
    sink: &mut dyn Sink,
) -> Result<Outcome, SessionError> {
    let child = Suspended::fork(&Launch { file, arguments, own_group: true })?;
    let pid = child.pid();
    let (mut source, info) =
        choose_source(pid, options, |settings| PerfSampler::on_launch(pid, settings))?;
    let start = process::monotonic();
    let usage_before = process::own_usage();
    source.begin(start);
    let pid = child.release()?;
    let startup = process::monotonic() - options.began;
    let mut recorder = Recorder::new(sink);
    let name =
        file.file_name().map(|name| name.to_string_lossy().chars().take(15).collect::<String>());
    let announced = recorder.thread_started(Nanos(0), pid, Tid(pid.0), &name.unwrap_or_default());
    let mut session = Session {
        source,
        program: Some(LaunchedProgram::new(pid)),
        pid,
        attached: None,
        start,
        options,
        signals,
        collector: info,
        notes: Vec::new(),
    };
    let watched = announced.and_then(|()| session.watch(&mut recorder));
    Ok(session.finish(recorder, watched, usage_before, startup))
}

/// Watches a running process until it ends, `duration` is over or somebody interrupts.
pub fn attach(
    pid: Pid,
    options: &Options,
    signals: &SignalFd,
    sink: &mut dyn Sink,
) -> Result<Outcome, SessionError> {
    let ended = check_running(pid)?;
    let faults_before = FaultCounts::of(pid);
    let time_before = cpu_time(pid);
    let (mut source, info, threads) = open_on_all_threads(pid, options)?;
    let start = process::monotonic();
    let usage_before = process::own_usage();
    if matches!(source, Source::Proc) {
        let refusal = info.fallback_reason.clone().unwrap_or_default();
        if options.best_method != SamplingMethod::ProcOnly {
            return Err(SessionError::NotPermitted {
                pid,
                perf: refusal,
                ptrace: "ptrace neither".to_owned(),
            });
        }
    }
    source.begin(start);
    let mut recorder = Recorder::new(sink);
    let mut session = Session {
        source,
        program: None,
        pid,
        attached: Some(Attached { ended, faults_before, time_before }),
        start,
        options,
        signals,
        collector: info,
        notes: Vec::new(),
    };
    let watched =
        session.announce(&threads, &mut recorder).and_then(|()| session.watch(&mut recorder));
    Ok(session.finish(recorder, watched, usage_before, Nanos(0)))
}

/// Opens the source on every thread. Threads that are born meanwhile by one that is not watched yet would be missed, so
/// it is done again until nobody is.
fn open_on_all_threads(
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
    // A program that never stops making threads: those that are watched make watched ones from now on.
    let (source, info) =
        choose_source(pid, options, |settings| PerfSampler::on_running(&threads, settings))?;
    Ok((source, info, threads))
}

/// Refuses what cannot be profiled; returns a descriptor that tells of the process's end.
fn check_running(pid: Pid) -> Result<Option<ProcessFd>, SessionError> {
    let ended = match ProcessFd::open(pid) {
        Ok(fd) => Some(fd),
        Err(error) if error.raw_os_error() == Some(3) => {
            return Err(SessionError::NoSuchProcess(pid));
        }
        Err(_) => None,
    };
    let maps = match std::fs::read(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(SessionError::NoSuchProcess(pid));
        }
        // Not readable: the sampler's refusal will say more.
        Err(_) => return Ok(ended),
    };
    if maps.is_empty() {
        return Err(SessionError::KernelThread(pid));
    }
    let mut head = [0u8; 5];
    let read = std::fs::File::open(format!("/proc/{pid}/exe"))
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    if read.is_ok() && head == *b"\x7fELF\x01" {
        return Err(SessionError::ThirtyTwoBit(pid));
    }
    Ok(ended)
}

fn choose_source(
    pid: Pid,
    options: &Options,
    open: impl FnOnce(&Settings) -> Result<PerfSampler, OpenError>,
) -> Result<(Source, CollectorInfo), SessionError> {
    let settings = Settings {
        period: options.period,
        stack_bytes: options.stack_bytes,
        fault_rate: FAULT_RATE,
        cpus: options.cpus.clone(),
    };
    let mut info = CollectorInfo {
        method: SamplingMethod::PerfEvents,
        fallback_reason: None,
        sampling_period_ns: options.period.0,
        kernel_samples: false,
        stack_bytes: options.stack_bytes,
    };
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
                     known in total only, and the kernel's functions not at all"
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

impl Source {
    fn begin(&mut self, start: Nanos) {
        match self {
            Source::Perf(sampler) => sampler.begin(start),
            Source::Ptrace(sampler) => sampler.begin(start),
            Source::Proc => {}
        }
    }

    /// Ends all observation.
    fn stop(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        match self {
            Source::Perf(sampler) => sampler.stop(),
            Source::Ptrace(sampler) => sampler.stop(recorder)?,
            Source::Proc => {}
        }
        Ok(())
    }

    fn look(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        match self {
            Source::Perf(sampler) => sampler.look(recorder),
            Source::Ptrace(sampler) => sampler.look(recorder),
            Source::Proc => Ok(()),
        }
    }
}

/// What was read when we attached, to be subtracted at the end.
struct Attached {
    ended: Option<ProcessFd>,
    faults_before: Option<FaultCounts>,
    time_before: Option<Nanos>,
}

struct Session<'a> {
    source: Source,
    program: Option<LaunchedProgram>,
    pid: Pid,
    attached: Option<Attached>,
    start: Nanos,
    options: &'a Options,
    signals: &'a SignalFd,
    collector: CollectorInfo,
    notes: Vec<String>,
}

/// Why watching ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    ProgramEnded,
    Interrupted,
    Duration,
}

impl Session<'_> {
    /// Announces what runs already.
    fn announce(&mut self, threads: &[Tid], recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        for tid in threads {
            recorder.thread_started(Nanos(0), self.pid, *tid, &thread_name(self.pid, *tid))?;
        }
        recorder.read_maps(Nanos(0), self.pid)
    }

    fn watch(&mut self, recorder: &mut Recorder<'_>) -> Result<End, SinkError> {
        let mut gauges = Gauges::default();
        let mut last_flush = Nanos(0);
        if matches!(self.source, Source::Ptrace(_) | Source::Proc) {
            recorder.read_maps(Nanos(0), self.pid)?;
        }
        loop {
            self.wait();
            let now = process::monotonic() - self.start;
            let end = self.handle_signals();
            self.source.look(recorder)?;
            if matches!(self.source, Source::Proc) {
                self.follow_threads(now, recorder)?;
            }
            gauges.poll(now, recorder)?;
            if now - last_flush >= FLUSH_INTERVAL {
                last_flush = now;
                recorder.flush()?;
            }
            if let Some(end) = end.or_else(|| self.is_over(now)) {
                gauges.finish(now, recorder)?;
                return Ok(end);
            }
        }
    }

    fn is_over(&mut self, now: Nanos) -> Option<End> {
        if self.program_ended() {
            return Some(End::ProgramEnded);
        }
        let over = |duration: Duration| u128::from(now.0) >= duration.as_nanos();
        self.options.duration.is_some_and(over).then_some(End::Duration)
    }

    /// Sleeps until something happens, at most one round.
    fn wait(&self) {
        let now = process::monotonic() - self.start;
        let mut timeout = match &self.source {
            // Rounded up to the millisecond that poll(2) knows, so that it does not end too early and spin.
            Source::Ptrace(sampler) => sampler.idle_time() + Duration::from_micros(999),
            _ => ROUND,
        };
        if let Some(duration) = self.options.duration {
            timeout = timeout.min(
                duration.saturating_sub(Duration::from_nanos(now.0)) + Duration::from_millis(1),
            );
        }
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![std::os::fd::AsFd::as_fd(self.signals)];
        descriptors.extend(self.program.as_ref().and_then(LaunchedProgram::descriptor));
        let ended = self.attached.as_ref().and_then(|attached| attached.ended.as_ref());
        descriptors.extend(ended.map(std::os::fd::AsFd::as_fd));
        if let Source::Perf(sampler) = &self.source {
            descriptors.extend(sampler.descriptors());
        }
        // An error here can only be a lack of memory; the timeout then is a busy round, which still works.
        let _ = process::poll_readable(&descriptors, timeout);
    }

    fn handle_signals(&mut self) -> Option<End> {
        while let Some(Received(signal)) = self.signals.next() {
            match signal {
                Signal::Interrupt => return Some(End::Interrupted),
                Signal::Terminate | Signal::HangUp => match &self.program {
                    // Somebody wants the whole command to end: the program gets the signal, and its end ours.
                    Some(program) => program.signal(signal),
                    None => return Some(End::Interrupted),
                },
                Signal::TerminalStop => {
                    if let Some(program) = &self.program {
                        program.signal(signal);
                    }
                    process::stop_self();
                    if let Some(program) = &self.program {
                        program.signal(Signal::Continue);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn program_ended(&mut self) -> bool {
        if let Source::Ptrace(sampler) = &mut self.source {
            // The tracer is the one that the kernel tells.
            let Some(change) = sampler.take_main_change() else { return false };
            if let Some(program) = &mut self.program {
                program.note(change);
            }
            return !matches!(change, process::Waited::Stopped(_));
        }
        match &mut self.program {
            Some(program) => {
                program.look();
                program.ended().is_some()
            }
            None => {
                !std::path::Path::new(&format!("/proc/{}/task", self.pid)).exists()
                    || is_zombie(self.pid)
            }
        }
    }

    /// Without a sampler that reports births and deaths, `/proc` is looked at.
    fn follow_threads(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        for tid in tracee::threads_of(self.pid).unwrap_or_default() {
            recorder.thread_started(now, self.pid, tid, &thread_name(self.pid, tid))?;
        }
        Ok(())
    }

    fn finish(
        mut self,
        mut recorder: Recorder<'_>,
        watched: Result<End, SinkError>,
        usage_before: process::Usage,
        startup: Nanos,
    ) -> Outcome {
        let stopped = self.source.stop(&mut recorder);
        let elapsed = process::monotonic() - self.start;
        let usage = process::own_usage();
        let own_cost = OwnCost {
            cpu_time_ns: (usage.cpu() - usage_before.cpu()).0,
            peak_resident_bytes: usage.peak_resident_bytes,
            startup_ns: startup.0,
        };
        let (exit, resource_use) = match self.program.as_ref().and_then(LaunchedProgram::ended) {
            Some((exit, usage)) => (*exit, Some(usage.clone())),
            None if matches!(watched, Ok(End::ProgramEnded)) => (ExitKind::Unknown, None),
            None => (ExitKind::StillRunning, None),
        };
        let totals = self.totals_from_proc(resource_use.as_ref());
        let counted = match self.source {
            Source::Perf(sampler) => stopped.and_then(|()| sampler.finish(elapsed, &mut recorder)),
            Source::Ptrace(_) | Source::Proc => stopped.map(|()| Totals::default()),
        };
        let closed = counted.and_then(|counted| push_totals(counted.or(totals), &mut recorder));
        let closed = closed.and_then(|()| recorder.flush());
        let stopped_by = match &watched {
            Ok(End::ProgramEnded) => None,
            Ok(End::Interrupted) => Some("interrupted".to_owned()),
            Ok(End::Duration) => Some("duration".to_owned()),
            Err(_) => Some("write error".to_owned()),
        };
        Outcome {
            elapsed,
            exit,
            stopped_by,
            collector: self.collector,
            own_cost,
            resource_use,
            notes: std::mem::take(&mut self.notes),
            program: self.program.filter(|program| program.ended().is_none()),
            sink_error: watched.err().or(closed.err()),
        }
    }

    /// What /proc and getrusage count, for totals that the source could not.
    fn totals_from_proc(&self, resource_use: Option<&ResourceUse>) -> Totals {
        if let Some(usage) = resource_use {
            return Totals {
                task_clock: Some(usage.user_ns + usage.system_ns),
                minor_faults: Some(usage.minor_faults),
                major_faults: Some(usage.major_faults),
                context_switches: Some(usage.voluntary_switches + usage.involuntary_switches),
                migrations: None,
            };
        }
        let (faults_before, time_before) = match &self.attached {
            Some(attached) => (attached.faults_before, attached.time_before),
            None => (Some(FaultCounts::default()), Some(Nanos(0))),
        };
        let difference =
            |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let faults = FaultCounts::of(self.pid);
        Totals {
            task_clock: difference(cpu_time(self.pid).map(|t| t.0), time_before.map(|t| t.0)),
            minor_faults: difference(faults.map(|f| f.minor), faults_before.map(|f| f.minor)),
            major_faults: difference(faults.map(|f| f.major), faults_before.map(|f| f.major)),
            context_switches: None,
            migrations: None,
        }
    }
}

fn push_totals(totals: Totals, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
    for (kind, value) in [
        (CounterKind::TaskClock, totals.task_clock),
        (CounterKind::MinorFaults, totals.minor_faults),
        (CounterKind::MajorFaults, totals.major_faults),
        (CounterKind::ContextSwitches, totals.context_switches),
        (CounterKind::Migrations, totals.migrations),
    ] {
        if let Some(value) = value {
            recorder.push(Fact::Counter(Counter { kind, value }))?;
        }
    }
    Ok(())
}

/// Faults of a process so far: `/proc/PID/stat`, fields 10 and 12 (proc_pid_stat(5)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct FaultCounts {
    minor: u64,
    major: u64,
}

impl FaultCounts {
    fn of(pid: Pid) -> Option<FaultCounts> {
        FaultCounts::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<FaultCounts> {
        // The name in parentheses may hold anything; field 3 follows it.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        Some(FaultCounts {
            minor: fields.get(7)?.parse().ok()?,
            major: fields.get(9)?.parse().ok()?,
        })
    }
}

/// CPU time of all living threads of a process.
fn cpu_time(pid: Pid) -> Option<Nanos> {
    let threads = tracee::threads_of(pid).ok()?;
    threads
        .into_iter()
        .map(|tid| sys::trace::scheduled_time(pid, tid))
        .try_fold(Nanos(0), |sum, one| Some(sum + one?))
}

fn is_zombie(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('Z')))
        .unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_counts_survive_odd_names() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194304 123 9 45 0 1 2 3";
        assert_eq!(FaultCounts::parse(stat), Some(FaultCounts { minor: 123, major: 45 }));
        assert_eq!(FaultCounts::parse("7 (x) S 1"), None);
    }
}
