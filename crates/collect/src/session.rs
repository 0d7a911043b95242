//! One collection from start to end: start or attach, watch, stop, account.
//!
//! What for: the order of steps, signals, and the kernel's own counts. What not: the choice of the source (`source`),
//! the destination of facts (a [`Sink`]), printing.
//!
//! Our failures never harm the program. If the sink is full (disk) or a source breaks, the collection ends, the
//! program continues, and the outcome says what happened.

mod ending;
mod machine;
mod paused;
mod watch;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{CpuId, Nanos, Pid, Tid};
use facts::{
    CollectorInfo, ExitKind, NoteSubject, OneRun, OwnCost, ResourceUse, SamplingMethod, Sink,
    SinkError,
};
use sys::process::{self, Affinity, Launch, LaunchError, ProcessFd, Runs, SignalFd, Suspended};
use tracee::status::FaultCounts;

use crate::bursts::{BurstOptions, Bursts};
use crate::control::{self, CollectionStatus, Control};
use crate::counting::{Choice, ControllerEvent, Counting};
use crate::first_checks::FirstChecks;
use crate::heap::{Heap, HeapOptions};
use crate::kernel::{KernelTrace, Watched};
use crate::launched::{JobControl, LaunchedProgram};
use crate::marked::Marked;
use crate::modules::HeldFiles;
use crate::perf::PerfSampler;
use crate::proc_status::{children_of, fault_counts, is_kernel_thread, process_cpu_time};
use crate::recorder::Recorder;
use crate::source::{Source, choose_source, open_on_all_threads};

pub use machine::observe_machine;

/// What to record and how.
#[derive(Debug)]
pub struct Options {
    /// Time between samples of a running thread.
    pub period: Nanos,
    /// Bytes of user stack copied per sample.
    pub stack_bytes: u32,
    /// CPUs of the machine that are online.
    pub cpus: Vec<CpuId>,
    /// How many times a program that we start is run.
    pub repeat: u32,
    /// End the recording after this time.
    pub duration: Option<Duration>,
    /// Use this method or a lesser one; `PerfEvents` means the best that works.
    pub best_method: SamplingMethod,
    /// How to take bursts along with samples, if at all.
    pub bursts: Option<BurstOptions>,
    /// What to record of the heap, if anything.
    pub heap: Option<HeapOptions>,
    /// Record every switch of a thread to and from a CPU.
    pub follow_waits: bool,
    /// Whether to count and time entries into the kernel.
    pub kernel: bool,
    /// Record which memory is mapped.
    pub regions: bool,
    /// Groups of events to count, and events that take samples.
    pub events: Vec<Vec<Choice>>,
    /// What memory controllers and links between sockets count, of the whole machine.
    pub controllers: Vec<ControllerEvent>,
    /// Variables added to the environment of a program that we start.
    pub environment: Vec<(OsString, OsString)>,
    /// The standard output of a program that we start, instead of ours.
    pub output: Option<std::fs::File>,
    /// The CPUs that a program that we start may use, instead of ours.
    pub affinity: Option<Affinity>,
    /// When our own process began (CLOCK_MONOTONIC), which shows how late the program started.
    pub began: Nanos,
    /// The file of the region library, for a program that we start; `None`: its marked regions are not recorded.
    pub region_library: Option<PathBuf>,
    /// Observe nothing until somebody asks for it.
    pub start_paused: bool,
    /// The answer to a request for what is collected; `None`: the collection cannot be steered.
    pub about: Option<CollectionStatus>,
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
    /// It exists, but this user may not observe it.
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
    /// The kernel refused a call that otherwise always succeeds.
    #[error("cannot watch the program: {0}")]
    System(#[from] std::io::Error),
}

/// The outcome of a collection.
#[derive(Debug)]
pub struct Outcome {
    /// Length of the recording.
    pub elapsed: Nanos,
    /// The end of the recording (CLOCK_MONOTONIC).
    pub end: Nanos,
    /// How the program ended, or that it still runs.
    pub exit: ExitKind,
    /// Its runs, where more than one was asked for.
    pub runs: Vec<OneRun>,
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
    /// Whether anything of the program still runs, even if only children.
    pub still_runs: bool,
    /// The launched program, when it still runs.
    pub program: Option<LaunchedProgram>,
    /// The files in which symbols are looked up.
    pub files: HeldFiles,
    /// The sink's error, when it ended the collection.
    pub sink_error: Option<SinkError>,
}

/// Starts `file` and observes it until it ends, `duration` is over or somebody interrupts.
pub fn launch(
    file: &Path,
    arguments: &[OsString],
    options: &Options,
    signals: &SignalFd,
    sink: &mut (dyn Sink + Send),
) -> Result<Outcome, SessionError> {
    on_own_thread(|| launch_here(file, arguments, options, signals, sink))
}

/// Observes a running process until it ends, `duration` is over or somebody interrupts.
pub fn attach(
    pid: Pid,
    options: &Options,
    signals: &SignalFd,
    sink: &mut (dyn Sink + Send),
) -> Result<Outcome, SessionError> {
    on_own_thread(|| attach_here(pid, options, signals, sink))
}

/// Runs `f` on a thread of its own, because ptrace binds the traced program to the tracing thread. When that thread
/// ends, the kernel releases everything that we could not release ourselves (a thread in an uninterruptible wait). So
/// nothing of the program is stopped while we name symbols and print.
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
    let (control, mut notes) = open_control(options);
    let mut environment = options.environment.clone();
    let marked = options.region_library.as_deref().map(Marked::prepare).transpose();
    let marked = marked.unwrap_or_else(|error| {
        notes.push(NoteSubject::MarkedRegions.note(format!("not recorded: {error}")));
        None
    });
    environment.extend_from_slice(marked.as_ref().map_or(&[], Marked::environment));
    let socket = control.as_ref().map(|control| control.path().as_os_str().to_owned());
    environment.extend(socket.map(|socket| (control::VARIABLE.into(), socket)));
    environment.extend_from_slice(heap.as_ref().map_or(&[], Heap::environment));
    let runs = (options.repeat > 1).then(|| Runs::new(options.repeat)).transpose()?;
    let child = Suspended::fork(&Launch {
        file,
        arguments,
        environment: &environment,
        own_group: job.is_some(),
        output: options.output.as_ref().map(AsFd::as_fd),
        affinity: options.affinity.as_ref(),
        runs: runs.as_ref(),
    })?;
    // Only now: the program must inherit the limit that our starter gave us.
    process::raise_file_limit();
    let pid = child.pid();
    let repeats = runs.is_some();
    let (mut source, info) = choose_source(pid, options, |settings| {
        if repeats {
            PerfSampler::on_starter(pid, settings)
        } else {
            PerfSampler::on_launch(pid, settings)
        }
    })?;
    let counting = counts(options)
        .then(|| Counting::on_launch(pid, &options.events).with_sockets(&options.controllers));
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
        // A traced child is stopped at its execve, and at each signal, until we answer.
        if matches!(source, Source::Ptrace(_)) && announced.is_ok() {
            announced = source.look(&mut recorder);
        }
    })?;
    let startup = process::monotonic() - options.began;
    let name =
        file.file_name().map(|name| name.to_string_lossy().chars().take(15).collect::<String>());
    let name = name.unwrap_or_default();
    let announced = announced.and_then(|()| {
        // The process that starts the runs is not part of the program.
        if runs.is_some() {
            return Ok(());
        }
        recorder.thread_started(Nanos(0), pid, Tid(pid.0), &name)?;
        // Only perf events announce mappings.
        if matches!(source, Source::Perf(_)) { Ok(()) } else { recorder.read_maps(Nanos(0), pid) }
    });
    let mut session = Session {
        source,
        program: Some(LaunchedProgram::new(pid, job, runs)),
        name,
        announced: 0,
        pid,
        attached: None,
        start,
        options,
        signals,
        collector: info,
        notes,
        bursts: None,
        heap,
        marked,
        kernel,
        counting,
        checks: FirstChecks::begin(pid),
        ended: None,
        control,
        is_paused: false,
        marks: 0,
    };
    session.notes.extend(session.source.waits_note(options));
    session.start_bursts(&mut recorder);
    let announced = announced.and_then(|()| session.start_paused(&mut recorder));
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
    let faults_before = fault_counts(pid);
    let time_before = process_cpu_time(pid);
    // Before anything else traces the process's threads: the agent needs one of them.
    let heap = options.heap.as_ref().map(|heap| Heap::attach(pid, heap));
    let start = process::monotonic();
    let (mut source, info, threads) = open_on_all_threads(pid, options)?;
    let counting = counts(options).then(|| {
        Counting::on_running(&threads, &options.events).with_sockets(&options.controllers)
    });
    let usage_before = process::own_usage();
    if matches!(source, Source::Proc) && options.best_method != SamplingMethod::ProcOnly {
        let why = info.fallback_reason.unwrap_or_default();
        return Err(SessionError::NotPermitted { pid, why });
    }
    source.begin(start);
    kernel.iter_mut().for_each(KernelTrace::begin);
    let mut recorder = Recorder::new(sink);
    let (control, notes) = open_control(options);
    if options.regions {
        recorder.follow_regions();
    }
    if let Some(heap) = &options.heap {
        recorder.expect_agent(&heap.agent);
    }
    let mut session = Session {
        source,
        program: None,
        name: String::new(),
        announced: 0,
        pid,
        attached: Some(Attached { ended, faults_before, time_before }),
        start,
        options,
        signals,
        collector: info,
        notes,
        bursts: None,
        heap: None,
        marked: None,
        kernel,
        counting,
        checks: FirstChecks::begin(pid),
        ended: None,
        control,
        is_paused: false,
        marks: 0,
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
    let announced = session.announce(&threads, &mut recorder);
    let announced = announced.and_then(|()| session.start_paused(&mut recorder));
    let watched = announced.and_then(|()| session.watch(&mut recorder));
    Ok(session.finish(recorder, watched, usage_before, Nanos(0)))
}

/// Lets others steer the collection, where the options say how it presents itself. That it cannot be had is only noted.
fn open_control(options: &Options) -> (Option<Control>, Vec<String>) {
    let opened = options.about.as_ref().map(|_| Control::open(&control::directories()));
    match opened.transpose() {
        Ok(control) => (control, Vec::new()),
        Err(error) => {
            (None, vec![format!("`fathom command` could not steer this collection: {error}")])
        }
    }
}

fn counts(options: &Options) -> bool {
    let counted = options.events.iter().flatten().any(|event| event.sampled.is_none());
    counted || !options.controllers.is_empty()
}

/// Refuses a process that cannot be profiled; returns a descriptor that becomes readable at the process's end.
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
        // Unreadable: the refusal of the sampler will say more.
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

/// Counts at the attach, to be subtracted at the end.
struct Attached {
    ended: Option<ProcessFd>,
    faults_before: Option<FaultCounts>,
    time_before: Option<Nanos>,
}

struct Session<'a> {
    source: Source,
    program: Option<LaunchedProgram>,
    /// The kernel's name for a program that we start.
    name: String,
    /// How many of its runs were announced.
    announced: usize,
    pid: Pid,
    attached: Option<Attached>,
    start: Nanos,
    options: &'a Options,
    signals: &'a SignalFd,
    collector: CollectorInfo,
    notes: Vec<String>,
    bursts: Option<Bursts>,
    heap: Option<Heap>,
    marked: Option<Marked>,
    kernel: Option<KernelTrace>,
    counting: Option<Counting>,
    checks: FirstChecks,
    /// When the program's end was noticed, since the start, and what we had used until then.
    ended: Option<(Nanos, process::Usage)>,
    control: Option<Control>,
    /// Nothing is observed at the moment.
    is_paused: bool,
    /// How many marks were asked for.
    marks: u64,
}

/// Why the observation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    ProgramEnded,
    Interrupted,
    Duration,
}
