//! Observes a whole machine instead of a program, or while a program runs.
//!
//! What not: the kernel's part of it (`kernel`). Assumption: processes come and go while they are listed; one that
//! was not listed becomes known through its samples.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;

use base::{Nanos, Pid};
use facts::{Sink, SinkError};
use sys::process::{self, Launch, SignalFd, Suspended};

use super::{Options, Outcome, Session, SessionError, on_own_thread};
use crate::counting::Counting;
use crate::first_checks::FirstChecks;
use crate::kernel::KernelTrace;
use crate::launched::{JobControl, LaunchedProgram};
use crate::proc_status::all_processes;
use crate::ptrace_sampler::thread_name;
use crate::recorder::Recorder;
use crate::source::choose_machine_source;

/// Observes everything that runs on the machine until `duration` is over or somebody interrupts; with a program and its arguments
/// starts it, and ends with it at the latest.
pub fn observe_machine(
    program: Option<(&Path, &[OsString])>,
    options: &Options,
    signals: &SignalFd,
    sink: &mut (dyn Sink + Send),
) -> Result<Outcome, SessionError> {
    on_own_thread(|| machine_here(program, options, signals, sink))
}

fn machine_here(
    program: Option<(&Path, &[OsString])>,
    options: &Options,
    signals: &SignalFd,
    sink: &mut dyn Sink,
) -> Result<Outcome, SessionError> {
    let job = program.and_then(|_| JobControl::at_terminal());
    let child = program.map(|(file, arguments)| {
        Suspended::fork(&Launch {
            file,
            arguments,
            environment: &options.environment,
            own_group: job.is_some(),
            output: options.output.as_ref().map(AsFd::as_fd),
            affinity: options.affinity.as_ref(),
            runs: None,
        })
    });
    let child = child.transpose()?;
    // Only now: the program must inherit the limit that our starter gave us.
    process::raise_file_limit();
    let mut kernel = options.kernel.then(|| KernelTrace::start(&options.cpus, None));
    let (mut source, collector) = choose_machine_source(options);
    let start = process::monotonic();
    let usage_before = process::own_usage();
    source.begin(start);
    kernel.iter_mut().for_each(KernelTrace::begin);
    let counting = super::counts(options);
    let counting = counting.then(|| {
        Counting::on_machine(&options.cpus, &options.events).with_sockets(&options.controllers)
    });
    let mut recorder = Recorder::new(sink);
    let (control, notes) = super::open_control(options);
    let pid = child.map(|child| child.release(&mut || {})).transpose()?;
    let startup = pid.map_or(Nanos(0), |_| process::monotonic() - options.began);
    let mut session = Session {
        source,
        program: pid.map(|pid| LaunchedProgram::new(pid, job, None)),
        name: String::new(),
        announced: 0,
        pid: Pid(0),
        attached: None,
        start,
        options,
        signals,
        collector,
        notes,
        bursts: None,
        heap: None,
        marked: None,
        kernel,
        counting,
        checks: FirstChecks::begin(Pid(0)),
        ended: None,
        control,
        is_paused: false,
        marks: 0,
    };
    let announced = all_processes()
        .into_iter()
        .try_for_each(|pid| session.announce_process(pid, &mut recorder));
    let watched = announced.and_then(|()| session.watch(&mut recorder));
    Ok(session.finish(recorder, watched, usage_before, startup))
}

impl Session<'_> {
    /// Announces a process that may have ended by now.
    fn announce_process(&self, pid: Pid, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        for tid in tracee::threads_of(pid).unwrap_or_default() {
            recorder.thread_started(Nanos(0), pid, tid, &thread_name(pid, tid))?;
        }
        recorder.read_maps(Nanos(0), pid)
    }
}
