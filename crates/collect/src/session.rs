//! One collection from start to end: start or attach, watch, stop, account.
//!
//! What for: the order of steps, signals, and what the kernel counted.
//! What not: the choice of the source (`source`), where facts go (a [`Sink`]), what is printed.
//!
//! The program is never harmed by our failures: when the sink takes no more (disk full) or a source breaks, the
//! collection ends, the program goes on, and the outcome says what happened.

mod machine;

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use base::{CpuId, Nanos, Pid, Tid};
use facts::{
    CollectorInfo, Counter, CounterKind, ExitKind, Fact, OwnCost, ResourceUse, SamplingMethod,
    Sink, SinkError,
};
use sys::process::{
    self, Launch, LaunchError, ProcessFd, Received, Signal, SignalFd, StopFor, Suspended,
};

use crate::bursts::{BurstOptions, Bursts, timed_load_floor};
use crate::first_checks::FirstChecks;
use crate::gauges::Gauges;
use crate::heap::{Heap, HeapOptions};
use crate::kernel::{KernelTrace, Watched};
use crate::launched::{JobControl, LaunchedProgram};
use crate::perf::{PerfSampler, Totals};
use crate::polled_threads::PolledThreads;
use crate::proc_status::{
    FaultCounts, children_of, is_kernel_thread, process_cpu_time, process_is_alive,
};
use crate::ptrace_sampler::thread_name;
use crate::recorder::Recorder;
use crate::source::{Source, choose_source, open_on_all_threads};

pub use machine::observe_machine;

/// What to do.
#[derive(Debug)]
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
    /// How to take bursts beside sampling, if at all.
    pub bursts: Option<BurstOptions>,
    /// What to record of the heap, if anything.
    pub heap: Option<HeapOptions>,
    /// Follow every switch of a thread to and from a CPU.
    pub follow_waits: bool,
    /// Whether to count and time entries into the kernel.
    pub kernel: bool,
    /// Record which memory is mapped.
    pub regions: bool,
    /// Variables that a program that we start gets besides our environment.
    pub environment: Vec<(OsString, OsString)>,
    /// What a program that we start gets as its standard output, instead of ours.
    pub output: Option<std::fs::File>,
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
        "process {pid} may not be observed by this user: {why}. Run as the process's user or as root, or see \
         `fathom doctor`"
    )]
    NotPermitted {
        /// The process.
        pid: Pid,
        /// What perf_event_open and ptrace said.
        why: String,
    },
    /// The id of a thread.
    #[error("{tid} is a thread of process {process}: use --pid {process}")]
    IsAThread {
        /// What was asked for.
        tid: Pid,
        /// Its process.
        process: Pid,
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
    /// Whether anything of the program still runs, be it children only.
    pub still_runs: bool,
    /// The launched program, when it still runs.
    pub program: Option<LaunchedProgram>,
    /// The sink's error, when it ended the collection.
    pub sink_error: Option<SinkError>,
}

/// How often rings and gauges are looked at when nothing wakes us earlier.
const ROUND: Duration = Duration::from_millis(100);
const FLUSH_INTERVAL: Nanos = Nanos(1_000_000_000);

/// Starts `file` and watches it until it ends, `duration` is over or somebody interrupts.
pub fn launch(
    file: &Path,
    arguments: &[OsString],
    options: &Options,
    signals: &SignalFd,
    sink: &mut (dyn Sink + Send),
) -> Result<Outcome, SessionError> {
    on_own_thread(|| launch_here(file, arguments, options, signals, sink))
}

/// Watches a running process until it ends, `duration` is over or somebody interrupts.
pub fn attach(
    pid: Pid,
    options: &Options,
    signals: &SignalFd,
    sink: &mut (dyn Sink + Send),
) -> Result<Outcome, SessionError> {
    on_own_thread(|| attach_here(pid, options, signals, sink))
}

/// ptrace binds the traced program to the thread that traces it. When that thread ends, the kernel lets go of
/// everything that we could not let go of ourselves (a thread in an uninterruptible wait), so that nothing of the
/// program stands still while we name symbols and print.
fn on_own_thread<T: Send>(
    work: impl FnOnce() -> Result<T, SessionError> + Send,
) -> Result<T, SessionError> {
    std::thread::scope(|scope| {
        let collector = std::thread::Builder::new().name("collector".to_owned());
        match collector.spawn_scoped(scope, work)?.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn launch_here(
    file: &Path,
    arguments: &[OsString],
    options: &Options,
    signals: &SignalFd,
    sink: &mut dyn Sink,
) -> Result<Outcome, SessionError> {
    let job = JobControl::at_terminal();
    let heap = options.heap.as_ref().map(Heap::prepare).transpose()?;
    let mut environment = options.environment.clone();
    environment.extend_from_slice(heap.as_ref().map_or(&[], Heap::environment));
    let child = Suspended::fork(&Launch {
        file,
        arguments,
        environment: &environment,
        own_group: job.is_some(),
        output: options.output.as_ref().map(AsFd::as_fd),
    })?;
    // Only now: the program must find the limit that our starter gave it.
    process::raise_file_limit();
    let pid = child.pid();
    let (mut source, info) =
        choose_source(pid, options, |settings| PerfSampler::on_launch(pid, settings))?;
    let watched = Watched { pid, running: Vec::new() };
    let mut kernel = options.kernel.then(|| KernelTrace::start(&options.cpus, Some(&watched)));
    let mut recorder = Recorder::new(sink);
    if options.regions {
        recorder.follow_regions();
    }
    let start = process::monotonic();
    let usage_before = process::own_usage();
    source.begin(start);
    kernel.iter_mut().for_each(KernelTrace::begin);
    let mut announced = Ok(());
    let pid = child.release(&mut || {
        // A traced child stands still at its execve, and at each signal, until we answer.
        if matches!(source, Source::Ptrace(_)) && announced.is_ok() {
            announced = source.look(&mut recorder);
        }
    })?;
    let startup = process::monotonic() - options.began;
    let name =
        file.file_name().map(|name| name.to_string_lossy().chars().take(15).collect::<String>());
    let announced = announced.and_then(|()| {
        recorder.thread_started(Nanos(0), pid, Tid(pid.0), &name.unwrap_or_default())?;
        // Only perf events announce mappings.
        if matches!(source, Source::Perf(_)) { Ok(()) } else { recorder.read_maps(Nanos(0), pid) }
    });
    let mut session = Session {
        source,
        program: Some(LaunchedProgram::new(pid, job)),
        pid,
        attached: None,
        start,
        options,
        signals,
        collector: info,
        notes: Vec::new(),
        bursts: None,
        heap,
        kernel,
        checks: FirstChecks::begin(pid),
    };
    session.notes.extend(session.source.waits_note(options));
    session.start_bursts(&mut recorder);
    let watched = announced.and_then(|()| session.watch(&mut recorder));
    Ok(session.finish(recorder, watched, usage_before, startup))
}

fn attach_here(
    pid: Pid,
    options: &Options,
    signals: &SignalFd,
    sink: &mut dyn Sink,
) -> Result<Outcome, SessionError> {
    let ended = check_running(pid)?;
    process::raise_file_limit();
    let watched = Watched { pid, running: tracee::threads_of(pid).unwrap_or_default() };
    let mut kernel = options.kernel.then(|| KernelTrace::start(&options.cpus, Some(&watched)));
    let faults_before = FaultCounts::of(pid);
    let time_before = process_cpu_time(pid);
    // Before anything else traces the process's threads: one of them is borrowed.
    let heap = options.heap.as_ref().map(|heap| Heap::attach(pid, heap));
    let start = process::monotonic();
    let (mut source, info, threads) = open_on_all_threads(pid, options)?;
    let usage_before = process::own_usage();
    if matches!(source, Source::Proc) && options.best_method != SamplingMethod::ProcOnly {
        let why = info.fallback_reason.unwrap_or_default();
        return Err(SessionError::NotPermitted { pid, why });
    }
    source.begin(start);
    kernel.iter_mut().for_each(KernelTrace::begin);
    let mut recorder = Recorder::new(sink);
    if options.regions {
        recorder.follow_regions();
    }
    if let Some(heap) = &options.heap {
        recorder.expect_agent(&heap.agent);
    }
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
        bursts: None,
        heap: None,
        kernel,
        checks: FirstChecks::begin(pid),
    };
    match heap.transpose() {
        Ok(heap) => session.heap = heap,
        Err(why) => session.notes.push(format!("heap blocks were not recorded: {why}")),
    }
    session.notes.extend(session.source.waits_note(options));
    session.start_bursts(&mut recorder);
    let children = children_of(pid, &threads);
    if !children.is_empty() {
        session.notes.push(format!(
            "process {pid} had children already, which are not observed: {}; attach to them with --pid as well",
            children.join(", ")
        ));
    }
    let watched =
        session.announce(&threads, &mut recorder).and_then(|()| session.watch(&mut recorder));
    Ok(session.finish(recorder, watched, usage_before, Nanos(0)))
}

/// Refuses what cannot be profiled; returns a descriptor that tells of the process's end.
fn check_running(pid: Pid) -> Result<Option<ProcessFd>, SessionError> {
    let ended = ProcessFd::open(pid).ok();
    match tracee::process_of(Tid(pid.0)) {
        Some(process) if process != pid => {
            return Err(SessionError::IsAThread { tid: pid, process });
        }
        Some(_) => {}
        None => return Err(SessionError::NoSuchProcess(pid)),
    }
    if is_kernel_thread(pid) {
        return Err(SessionError::KernelThread(pid));
    }
    match std::fs::File::open(format!("/proc/{pid}/maps")) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(SessionError::NoSuchProcess(pid));
        }
        // Not readable: the sampler's refusal will say more.
        Err(_) => return Ok(ended),
    }
    let mut head = [0u8; 5];
    let read = std::fs::File::open(format!("/proc/{pid}/exe"))
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    if read.is_ok() && head == *b"\x7fELF\x01" {
        return Err(SessionError::ThirtyTwoBit(pid));
    }
    Ok(ended)
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
    bursts: Option<Bursts>,
    heap: Option<Heap>,
    kernel: Option<KernelTrace>,
    checks: FirstChecks,
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

    /// Bursts need threads that nobody else traces: where ptrace samples, there are none.
    fn start_bursts(&mut self, recorder: &mut Recorder<'_>) {
        let Some(options) = self.options.bursts else { return };
        if matches!(self.source, Source::Ptrace(_)) {
            self.notes.push(
                "no memory accesses were traced: perf events are not allowed here, and sampling needs ptrace for itself"
                    .to_owned(),
            );
            return;
        }
        match Bursts::start(options, self.start) {
            Ok(bursts) => {
                recorder.follow_bursts(bursts.whereabouts());
                self.collector.timed_load_floor_cycles = timed_load_floor();
                self.bursts = Some(bursts);
            }
            Err(error) => self.notes.push(format!("no memory accesses were traced: {error}")),
        }
    }

    fn watch(&mut self, recorder: &mut Recorder<'_>) -> Result<End, SinkError> {
        let mut gauges = Gauges::default();
        let polled = self.options.follow_waits && !matches!(self.source, Source::Perf(_));
        let mut polled = polled.then(PolledThreads::default);
        let mut last_flush = Nanos(0);
        loop {
            self.wait(recorder.regions_due());
            let now = process::monotonic() - self.start;
            let end = self.handle_signals();
            self.source.look(recorder)?;
            if matches!(self.source, Source::Proc) && !self.watches_machine() {
                self.follow_threads(now, recorder)?;
            }
            if let Some(bursts) = &self.bursts {
                bursts.look(recorder)?;
            }
            if let Some(heap) = &mut self.heap {
                heap.look(now, self.start, recorder)?;
            }
            if let Some(kernel) = &mut self.kernel {
                kernel.look(now, recorder)?;
            }
            recorder.look_at_regions(now, self.heap.as_ref().map_or(now, Heap::told_until))?;
            gauges.poll(now, recorder)?;
            if let Some(polled) = &mut polled {
                polled.poll(now, recorder)?;
            }
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

    /// Whether it is no program that is watched.
    fn watches_machine(&self) -> bool {
        self.pid == Pid(0)
    }

    fn is_over(&mut self, now: Nanos) -> Option<End> {
        if !self.watches_machine() && self.program_ended() {
            return Some(End::ProgramEnded);
        }
        let over = |duration: Duration| u128::from(now.0) >= duration.as_nanos();
        self.options.duration.is_some_and(over).then_some(End::Duration)
    }

    /// Sleeps until something happens or is due, at most one round.
    fn wait(&self, due: Option<Nanos>) {
        let now = process::monotonic() - self.start;
        let mut timeout = match &self.source {
            // Rounded up to the millisecond that poll(2) knows, so that it does not end too early and spin.
            Source::Ptrace(sampler) => sampler.idle_time() + Duration::from_micros(999),
            _ => ROUND,
        };
        if let Some(heap) = &self.heap {
            timeout = timeout.min(heap.patience());
        }
        if let Some(duration) = self.options.duration {
            timeout = timeout.min(
                duration.saturating_sub(Duration::from_nanos(now.0)) + Duration::from_millis(1),
            );
        }
        if let Some(due) = due {
            let left = Duration::from_nanos(due.0.saturating_sub(now.0));
            timeout = timeout.min(left + Duration::from_micros(999));
        }
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![self.signals.as_fd()];
        descriptors.extend(self.program.as_ref().and_then(LaunchedProgram::descriptor));
        let ended = self.attached.as_ref().and_then(|attached| attached.ended.as_ref());
        descriptors.extend(ended.map(AsFd::as_fd));
        if let Source::Perf(sampler) = &self.source {
            descriptors.extend(sampler.descriptors());
        }
        // An error here can only be a lack of memory; the timeout then is a busy round, which still works.
        let _ = process::wait_for_data(&descriptors, timeout);
    }

    fn handle_signals(&mut self) -> Option<End> {
        while let Some(Received(signal)) = self.signals.next() {
            match (signal, &mut self.program) {
                (Signal::Interrupt, _) => return Some(End::Interrupted),
                // Somebody wants the whole command to end: the program gets the signal, and its end is ours.
                (signal, Some(program)) => program.pass_on(signal),
                (Signal::Terminate | Signal::HangUp | Signal::Quit, None) => {
                    return Some(End::Interrupted);
                }
                (Signal::TerminalStop, None) => process::stop_self(StopFor::TerminalStop),
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
                match &self.bursts {
                    Some(bursts) => bursts.undisturbed(|| program.look()),
                    None => program.look(),
                }
                program.ended().is_some()
            }
            None => self.attached_process_ended(),
        }
    }

    /// A process is over when its last thread is; its first one may end long before.
    fn attached_process_ended(&self) -> bool {
        match self.attached.as_ref().and_then(|attached| attached.ended.as_ref()) {
            Some(fd) => process::poll_readable(&[fd.as_fd()], Duration::ZERO)
                .is_ok_and(|readable| readable == [true]),
            None => tracee::threads_of(self.pid)
                .map_or(true, |threads| threads.iter().all(|tid| tracee::status::has_ended(*tid))),
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
        // First: it lets go of the program.
        let bursts = self.bursts.take().map(|mut bursts| bursts.stop(&mut recorder)).transpose();
        let (bursts, unwritten) = match bursts {
            Ok(cost) => (cost, Ok(())),
            Err(error) => (None, Err(error)),
        };
        if let Some(heap) = &mut self.heap {
            heap.stop();
        }
        let stopped = self.source.stop(&mut recorder).and(unwritten);
        if let (Source::Ptrace(sampler), Some(program)) = (&mut self.source, &mut self.program)
            && let Some(change) = sampler.take_main_change()
        {
            program.note(change);
        }
        let elapsed = process::monotonic() - self.start;
        let usage = process::own_usage();
        let own_cost = OwnCost {
            cpu_time_ns: (usage.cpu() - usage_before.cpu()).0,
            peak_resident_bytes: usage.peak_resident_bytes,
            startup_ns: startup.0,
            burst_stand_still_ns: bursts.map(|cost| cost.stand_still.0),
            burst_time_ns: bursts.map(|cost| cost.inside.0),
            burst_slowdown_ns: bursts.map(|cost| cost.slowdown.0),
            consumer_cpu_ns: bursts.map(|cost| cost.consumer.0),
        };
        let (exit, resource_use) = match self.program.as_ref().and_then(LaunchedProgram::ended) {
            Some((exit, usage)) => (*exit, Some(usage.clone())),
            None if matches!(watched, Ok(End::ProgramEnded)) => (ExitKind::Unknown, None),
            None => (ExitKind::StillRunning, None),
        };
        let totals = self.totals_from_proc(resource_use.as_ref(), recorder.processes_seen());
        let counted = match self.source {
            Source::Perf(sampler) => stopped.and_then(|()| sampler.finish(elapsed, &mut recorder)),
            Source::Ptrace(_) | Source::Proc => stopped.map(|()| Totals::default()),
        };
        let counted = counted.and_then(|counted| {
            let kernel = self.kernel.take();
            let notes = kernel.map(|kernel| kernel.finish(elapsed, &mut recorder)).transpose()?;
            self.notes.extend(notes.unwrap_or_default());
            let notes =
                self.heap.take().map(|heap| heap.finish(elapsed, self.start, &mut recorder));
            self.notes.extend(notes.transpose()?.unwrap_or_default());
            recorder.finish_regions(elapsed)?;
            Ok(counted)
        });
        let left =
            recorder.processes().filter(|pid| *pid != self.pid && process_is_alive(*pid)).count();
        if left > 0 && matches!(watched, Ok(End::ProgramEnded)) {
            self.notes.push(format!(
                "{left} {} started by the program still ran when it ended; the recording ends there",
                if left == 1 { "process" } else { "processes" }
            ));
        }
        let closed = counted.and_then(|counted| {
            push_totals(believable(counted, totals, &mut self.notes), &mut recorder)
        });
        let closed = closed.and_then(|()| self.checks.finish(&mut recorder));
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
            still_runs: left > 0 || !matches!(watched, Ok(End::ProgramEnded)),
            program: self.program.filter(|program| program.ended().is_none()),
            sink_error: watched.err().or(closed.err()),
        }
    }

    /// What /proc and getrusage count, for totals that the source could not. Of a program that still runs only what
    /// one process says of itself; with several processes that would be a part, and a part is no total.
    fn totals_from_proc(&self, resource_use: Option<&ResourceUse>, processes: usize) -> Totals {
        if let Some(usage) = resource_use {
            return Totals {
                task_clock: Some(usage.user_ns + usage.system_ns),
                minor_faults: Some(usage.minor_faults),
                major_faults: Some(usage.major_faults),
                context_switches: Some(usage.voluntary_switches + usage.involuntary_switches),
                migrations: None,
            };
        }
        if processes > 1 || self.watches_machine() {
            return Totals::default();
        }
        let (faults_before, time_before) = match &self.attached {
            Some(attached) => (attached.faults_before, attached.time_before),
            None => (Some(FaultCounts::default()), Some(Nanos(0))),
        };
        let difference =
            |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let faults = FaultCounts::of(self.pid);
        Totals {
            task_clock: difference(
                process_cpu_time(self.pid).map(|t| t.0),
                time_before.map(|t| t.0),
            ),
            minor_faults: difference(faults.map(|f| f.minor), faults_before.map(|f| f.minor)),
            major_faults: difference(faults.map(|f| f.major), faults_before.map(|f| f.major)),
            context_switches: None,
            migrations: None,
        }
    }
}

/// The source's totals, with gaps filled, unless getrusage shows that the kernel took a part of the program out of
/// observation (an executable that may not be read, a set-uid child): then its own account is the better one.
fn believable(counted: Totals, other: Totals, notes: &mut Vec<String>) -> Totals {
    const WORTH_TELLING_NS: u64 = 10_000_000;
    if let (Some(seen), Some(used)) = (counted.task_clock, other.task_clock)
        && seen < used - used / 10
        && used - seen > WORTH_TELLING_NS
    {
        notes.push(format!(
            "the kernel showed only {:.2} s of the program's {:.2} s of CPU time: a part ran programs that this \
             user may not observe (not readable, or set-uid)",
            Nanos(seen).seconds(),
            Nanos(used).seconds()
        ));
        return Totals { task_clock: Some(used), ..counted.or(other) };
    }
    counted.or(other)
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
