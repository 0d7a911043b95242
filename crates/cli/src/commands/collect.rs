//! `fathom run` and `fathom collect`: from the command line to a finished result and its report.
//!
//! Order of steps, and what a failure or Ctrl-C leaves at each:
//! ```text
//!   find the program, make the directory     nothing ran
//!   read the memory's speed                  likewise
//!   collect                                  the directory opens with everything up to the last second
//!   read the memory's speed                  likewise
//!   measure no-miss times of hot loops       likewise
//!   name the symbols                         likewise; symbols are looked up again when it is opened
//!     (where that takes too long, the report is printed before, with the names known so far)
//!   close the tables, print the report       likewise
//!   measure the machine (once per machine, before the report)   the result is complete, without figures of the machine
//!   wait for a program that continues, pass on its exit code
//! ```

mod afterwards;
pub(super) mod closing;
mod core_reads;
mod cycles;
mod readings;
mod top_down;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use base::{CpuId, Nanos, Pid};
use collect::control::CollectionStatus;
use collect::counting::{Choice, ControllerEvent};
use collect::heap::HeapOptions;
use collect::program::ProgramError;
use collect::session::{self, Options, Outcome, SessionError};
use collect::symbolise;
use facts::host::{Host, ReadingMoment};
use facts::{Analysis, ExitKind, NoteSubject, Rank, Run, RunState, SCHEMA_VERSION, Target};
use machine::traffic_events::{TrafficEvent, traffic_events};
use store::{StoreError, Writer};
use sys::process::{Affinity, LaunchError, SignalFd};

pub use self::afterwards::{measure_machine, pass_on};
use self::afterwards::{say_what_was_kept, wait_for_program};
use self::closing::{Closing, Deadline, Noting, kept_in, time_hot_code};
use self::readings::Readings;
pub use self::top_down::{SAMPLES, sampled_accesses};
use crate::agent_file;
use crate::arguments::{AnalysisName, CollectOptions, Collection, RunOptions};
use crate::exit::{CANNOT_MEASURE, Failure, USAGE};
use crate::knobs::{self, HeapSettings, Settings};
use crate::ranks;

/// `fathom run`.
pub fn run(options: RunOptions, began: Nanos) -> Result<ExitCode, Failure> {
    collect_target(
        Analysis::MemoryAccess,
        WhatToWatch::program(Started {
            command: options.command,
            repeat: options.repeat.repeat,
            ..Started::default()
        })?,
        &options.collection,
        began,
    )
}

/// Analyses that may observe a whole machine.
const OF_MACHINE: [Analysis; 2] = [Analysis::SystemOverview, Analysis::UarchExploration];

/// `fathom collect`.
pub fn collect(options: CollectOptions, began: Nanos) -> Result<ExitCode, Failure> {
    let analysis = match options.analysis {
        AnalysisName::MemoryAccess => Analysis::MemoryAccess,
        AnalysisName::Hotspots => Analysis::Hotspots,
        AnalysisName::MemoryConsumption => Analysis::MemoryConsumption,
        AnalysisName::Threading => Analysis::Threading,
        AnalysisName::SystemOverview => Analysis::SystemOverview,
        AnalysisName::UarchExploration => Analysis::UarchExploration,
    };
    let what = match options.pid {
        Some(pid) if pid <= 0 => return Err(Failure::usage(format!("{pid} is not a process id"))),
        Some(pid) => WhatToWatch::Process(Pid(pid)),
        None if options.system && !OF_MACHINE.contains(&analysis) => {
            return Err(Failure::usage(
                "--system is for system-overview and uarch-exploration only",
            ));
        }
        None if options.system && options.command.is_empty() => WhatToWatch::Machine(None),
        None if options.system => {
            let program = find_program(&options.command[0])?;
            let started = Started { command: options.command, repeat: 1, ..Started::default() };
            WhatToWatch::Machine(Some((program, started)))
        }
        None if options.command.is_empty() => {
            return Err(Failure::usage(
                "nothing to observe: name a program after `--`, or a process with --pid PID",
            ));
        }
        None => WhatToWatch::program(Started {
            command: options.command,
            repeat: options.repeat.repeat,
            ..Started::default()
        })?,
    };
    collect_target(analysis, what, &options.collection, began)
}

const NO_AGENT: &str = "cannot write the heap library";

/// `of_accesses`: blocks get names, and so do mappings; what is live is not counted, which would slow the program down.
fn heap_options(settings: &Settings, of_accesses: bool) -> std::io::Result<HeapOptions> {
    let agent = agent_file::path()?;
    let HeapSettings { large_from, sample_every, every_block } = settings.heap;
    let every_block = every_block && collect::heap::NO_EXACT_MODE.is_none();
    Ok(HeapOptions {
        agent,
        large_from,
        sample_every,
        every_block,
        live: !of_accesses,
        regions: of_accesses,
        stack_bytes: settings.stack_bytes,
    })
}

/// What to record of the heap: everything for memory-consumption; together with bursts, what is available.
fn heap_of(
    analysis: Analysis,
    of_accesses: bool,
    what: &WhatToWatch,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<Option<HeapOptions>, Failure> {
    let whole_machine = matches!(what, WhatToWatch::Machine(_));
    if whole_machine || !(of_accesses || analysis == Analysis::MemoryConsumption) {
        return Ok(None);
    }
    if let Some(why) = collect::heap::NO_EXACT_MODE.filter(|_| settings.heap.every_block) {
        notes.push(format!("heap blocks were drawn, not all recorded: {why}"));
    }
    if !of_accesses {
        return heap_options(settings, false).map(Some).map_err(|error| {
            Failure::new(CANNOT_MEASURE, anyhow::Error::new(error).context(NO_AGENT))
        });
    }
    if let WhatToWatch::Program(file, _) = what
        && let Some(why) = collect::preload::obstacle(file)
    {
        notes.push(format!("heap blocks were not recorded: {why}"));
        return Ok(None);
    }
    Ok(heap_options(settings, true)
        .map_err(|error| notes.push(format!("heap blocks were not recorded: {NO_AGENT}: {error}")))
        .ok())
}

/// A program to start.
#[derive(Default)]
pub struct Started {
    /// Its name and arguments.
    pub command: Vec<OsString>,
    /// Variables that it gets besides our environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its standard output; ours when absent.
    pub output: Option<File>,
    /// The CPUs that it may use; ours when absent.
    pub affinity: Option<Affinity>,
    /// How often it is run; 0 is taken for 1.
    pub repeat: u32,
}

enum WhatToWatch {
    /// With its file.
    Program(PathBuf, Started),
    Process(Pid),
    /// While a program runs, if there is one.
    Machine(Option<(PathBuf, Started)>),
}

impl WhatToWatch {
    fn program(started: Started) -> Result<WhatToWatch, Failure> {
        Ok(WhatToWatch::Program(find_program(&started.command[0])?, started))
    }

    /// What we start.
    fn started(&mut self) -> Option<&mut Started> {
        match self {
            WhatToWatch::Program(_, started) | WhatToWatch::Machine(Some((_, started))) => {
                Some(started)
            }
            WhatToWatch::Process(_) | WhatToWatch::Machine(None) => None,
        }
    }
}

/// Runs a program under `memory-access` into a result, for another command. What goes wrong after it ran is an error too.
pub fn collect_program(
    program: Started,
    collection: &Collection,
    began: Nanos,
) -> Result<ExitKind, Failure> {
    let what = WhatToWatch::program(program)?;
    let (exit, kept) = collect_result(Analysis::MemoryAccess, what, collection, began)?;
    kept.map(|()| exit)
}

fn collect_target(
    analysis: Analysis,
    what: WhatToWatch,
    collection: &Collection,
    began: Nanos,
) -> Result<ExitCode, Failure> {
    let (exit, shown) = collect_result(analysis, what, collection, began)?;
    Ok(match shown {
        // Only a success of the program's own is outweighed by the failure of our report.
        Err(failure) if exit == ExitKind::Code(0) => failure.code(),
        Err(_) => pass_on(exit, false),
        Ok(()) => pass_on(exit, collection.quiet),
    })
}

/// The program's end, and whether its result could be finished and shown; a failure of that was said already.
fn collect_result(
    analysis: Analysis,
    mut what: WhatToWatch,
    collection: &Collection,
    began: Nanos,
) -> Result<(ExitKind, Result<(), Failure>), Failure> {
    let mut settings = knobs::parse(&collection.knobs)?;
    let rank = ranks::rank(|name| std::env::var_os(name));
    let chooses = collection.ranks.is_some() || !collection.nodes.is_empty();
    let not_traced = chooses && !is_chosen(collection, rank.as_ref());
    if chooses && rank.is_none() {
        return Err(Failure::usage("--ranks and --nodes: no MPI rank is known here")
            .hint("a launcher sets it: mpirun -n 4 fathom run --ranks 0 -r job.%r -- ./app"));
    }
    settings.bursts = settings.bursts.filter(|_| !not_traced);
    let mut run = new_run(analysis, &what, collection, &settings);
    // Before any thread is started: threads inherit the mask.
    let signals = SignalFd::take_over().map_err(|error| Failure::new(CANNOT_MEASURE, error))?;
    if let Some(rank) = &rank {
        let of = rank.ranks.map_or(String::new(), |ranks| format!(" of {ranks}"));
        run.notes.push(format!("this is MPI rank {}{of}", rank.rank));
    }
    if not_traced {
        run.notes.push(ranks::NOT_TRACED.to_owned());
    }
    let wanted = collection.result.as_ref();
    let wanted = wanted.map(|name| ranks::named(name, rank.as_ref(), &host_name())).transpose()?;
    run.rank = rank;
    let mut options = Options {
        duration: collection.duration,
        began,
        ..options(analysis, &mut what, &settings, &run.host, &mut run.notes)?
    };
    if let Some(bursts) = &mut options.bursts {
        let cpus = run.host.usable_cpus();
        bursts.rationed = cpus.is_none_or(|cpus| cpus < f64::from(run.host.logical_cpus));
    }
    let (directory, writer) = new_result(analysis, wanted.as_deref(), &run)?;
    options.start_paused = collection.start_paused;
    options.about = Some(CollectionStatus {
        result: super::steer::absolute(&directory),
        analysis: analysis.name().to_owned(),
        command: run.command.join(" "),
        ..CollectionStatus::default()
    });
    if collection.start_paused && !collection.quiet {
        eprintln!(
            "fathom: nothing is observed until you type: fathom command resume -r {}",
            directory.display()
        );
    }
    let mut sink = Noting::new(writer, options.regions);
    run.calibration = calibrate::cache::load(&run.host);
    let mut readings = Readings::new(&run, matches!(what, WhatToWatch::Program(..)), &settings);
    readings.take(ReadingMoment::Before);
    (run.started_unix, run.started_part_ns) = now();
    let outcome = match &what {
        WhatToWatch::Program(file, program) => {
            session::launch(file, &program.command, &options, &signals, &mut sink)
        }
        WhatToWatch::Process(pid) => session::attach(*pid, &options, &signals, &mut sink),
        WhatToWatch::Machine(program) => {
            let program =
                program.as_ref().map(|(file, it)| (file.as_path(), it.command.as_slice()));
            session::observe_machine(program, &options, &signals, &mut sink)
        }
    };
    let mut outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            drop(sink);
            // Nothing was collected: an empty result would only be in the way.
            let _ = std::fs::remove_dir_all(&directory);
            return Err(session_failure(error));
        }
    };
    let target = match &what {
        WhatToWatch::Process(pid) => Some(Target::Attached { pid: pid.0 }),
        WhatToWatch::Machine(_) => Some(Target::Machine),
        WhatToWatch::Program(..) => sink.first_pid.map(|pid| Target::Launched { pid: pid.0 }),
    };
    describe(&mut run, target, &outcome);
    if !outcome.still_runs && outcome.stopped_by.is_none() {
        readings.take(ReadingMoment::After);
    }
    readings.finish(&mut run);
    let program = outcome.program.take();
    let closing = match outcome.sink_error.take() {
        // The journal is what there is; closing the tables would need the room that is missing.
        Some(error) => Err(Failure::new(CANNOT_MEASURE, error).hint(kept_in(&directory))),
        None => {
            let deadline = Deadline::new(outcome.end, outcome.elapsed);
            time_hot_code(&mut sink, &mut run, deadline, collection.quiet);
            let files = std::mem::take(&mut outcome.files);
            let elsewhere = symbolise::Elsewhere::default();
            Ok(Closing::begin(sink, files, elsewhere, deadline, collection.quiet))
        }
    };
    // From here on Ctrl-C ends us, unless the program still runs: then it must end the program.
    let signals = program.is_some().then_some(signals);
    let shown = closing.and_then(|mut closing| {
        let early = closing.report_early(&run, &directory, collection.quiet)?;
        // Measuring next to a running program, or to other ranks, would slow it down and give false figures.
        let measures = settings.calibrate && !outcome.still_runs && run.rank.is_none();
        let measures = measures && run.calibration.is_none();
        let print = |opened| super::report::print_summary_of(&directory, opened);
        let meanwhile = !collection.quiet && !early && !measures;
        let print = meanwhile.then_some(&print as &dyn Fn(_) -> _);
        let finished = closing.finish(&mut run, &directory, collection.quiet, print)?;
        if measures {
            measure_machine(&mut run, &directory, true, collection.quiet);
        }
        if !collection.quiet {
            if measures && !early {
                super::report::print_summary(&directory)?;
            }
            say_what_was_kept(&directory, finished, &outcome, program.is_some());
        }
        Ok(())
    });
    if let Err(failure) = &shown {
        failure.report();
    }
    // The program must not be left without its parent before it ends, whatever became of our files.
    let exit = wait_for_program(program, signals.as_ref()).unwrap_or(outcome.exit);
    Ok((exit, shown))
}

/// Whether accesses are traced in this rank. Of a host's name its domain may be left out.
fn is_chosen(collection: &Collection, rank: Option<&Rank>) -> bool {
    let host = host_name();
    let short = |name: &str| name.split('.').next().map(str::to_owned);
    let is_here = |name: &String| *name == host || short(name) == short(&host);
    let by_number = rank.zip(collection.ranks.as_ref());
    by_number.is_some_and(|(rank, ranks)| ranks.has(rank.rank))
        || collection.nodes.iter().any(is_here)
}

/// What is known of a run before it.
fn new_run(
    analysis: Analysis,
    what: &WhatToWatch,
    collection: &Collection,
    settings: &Settings,
) -> Run {
    let (host, mut notes) = calibrate::host();
    for note in knobs::ignored(&collection.knobs, analysis) {
        if !collection.quiet {
            eprintln!("fathom: {note}");
        }
        notes.push(note);
    }
    if analysis == Analysis::SystemOverview && settings.changed.contains_key("collecting-mode") {
        notes.push(
            "hw-tracing: processor traces (intel_pt) are not used; kernel entries come from tracepoints"
                .to_owned(),
        );
    }
    let (started_unix, started_part_ns) = now();
    Run {
        schema: SCHEMA_VERSION,
        fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Incomplete,
        analysis,
        command: command_line(what),
        working_directory: working_directory(what),
        started_unix,
        started_part_ns,
        host_name: Some(host_name()).filter(|name| !name.is_empty()),
        host,
        knobs: settings.changed.clone(),
        limit_bytes: collection.limit * 1_000_000,
        notes,
        ..Run::default()
    }
}

/// Seconds since 1970, and nanoseconds beyond these.
fn now() -> (u64, u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or((0, 0), |since| (since.as_secs(), since.subsec_nanos()))
}

/// A new result where the user wants it, else by the next free name here. Of several that begin at once, each gets one.
pub(super) fn new_result(
    analysis: Analysis,
    wanted: Option<&Path>,
    run: &Run,
) -> Result<(PathBuf, Writer), Failure> {
    if let Some(wanted) = wanted {
        let writer = Writer::create(wanted, run).map_err(store_failure)?;
        return Ok((wanted.to_owned(), writer));
    }
    loop {
        let free = store::next_free(Path::new("."), analysis.suffix());
        let free = free.strip_prefix(".").map(Path::to_owned).unwrap_or(free);
        match Writer::create(&free, run) {
            // Somebody else took it: there is a higher one next time.
            Err(StoreError::Exists { .. }) => {}
            created => return Ok((free, created.map_err(store_failure)?)),
        }
    }
}

/// The name of this machine; empty if it has none.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or(String::new(), |name| name.trim().to_owned())
}

/// How to collect; what cannot be had is noted. The program's output goes from `what` into the options.
fn options(
    analysis: Analysis,
    what: &mut WhatToWatch,
    settings: &Settings,
    host: &Host,
    notes: &mut Vec<String>,
) -> Result<Options, Failure> {
    let mut events = settings.events.clone();
    let is_machine = matches!(what, WhatToWatch::Machine(_));
    if analysis == Analysis::UarchExploration {
        if is_machine && !calibrate::counters().rights.machine {
            // All that it observes is counters of CPUs.
            return Err(Failure::new(
                CANNOT_MEASURE,
                anyhow::anyhow!("this user may not count the whole machine"),
            )
            .hint("to enable: sudo sysctl kernel.perf_event_paranoid=0"));
        }
        events.extend(top_down::groups(host, notes));
    }
    if analysis == Analysis::MemoryAccess && settings.bursts.is_some() {
        events.extend(top_down::next_to_bursts(host, &calibrate::counters().pmus, notes));
    }
    let controllers = controllers(analysis, host);
    if MEMORY_IS_ASKED.contains(&analysis) {
        let counters = calibrate::counters();
        let is_memory = |one: &ControllerEvent| one.link.is_none();
        if !counters.rights.machine || !controllers.iter().any(is_memory) {
            events.extend(core_reads::groups(host, &counters.pmus, notes));
        }
    }
    if !events.is_empty() {
        events.extend(cycles::besides(&events, &calibrate::counters().pmus));
    }
    // Accesses have addresses: bursts record them, or the cores sample them.
    let of_accesses = settings.objects
        && !is_machine
        && match analysis {
            Analysis::MemoryAccess => true,
            Analysis::UarchExploration => events.iter().flatten().any(Choice::has_access),
            _ => false,
        };
    let heap = heap_of(analysis, of_accesses, what, settings, notes)?;
    let region_library = match what {
        WhatToWatch::Program(..) => agent_file::regions()
            .map_err(|error| {
                notes.push(NoteSubject::MarkedRegions.note(format!("not recorded: {error}")));
            })
            .ok(),
        WhatToWatch::Process(_) | WhatToWatch::Machine(_) => None,
    };
    let started = match what.started() {
        Some(program) => Started {
            command: Vec::new(),
            environment: program.environment.clone(),
            output: program.output.take(),
            affinity: program.affinity.clone(),
            repeat: program.repeat,
        },
        None => Started { repeat: 1, ..Started::default() },
    };
    let repeat = started.repeat;
    if repeat > 1 && input_is_read_once() {
        notes.push(
            "standard input is a pipe: each run got what earlier runs left in it, probably nothing; with a file \
             (`< FILE`) every run reads all of it"
                .to_owned(),
        );
    }
    Ok(Options {
        environment: started.environment,
        output: started.output,
        affinity: started.affinity,
        repeat,
        period: settings.period.unwrap_or_else(|| knobs::usual_period(sample_cost(host))),
        stack_bytes: settings.stack_bytes,
        cpus: online_cpus(),
        duration: None,
        best_method: settings.method,
        bursts: settings.bursts.filter(|_| analysis == Analysis::MemoryAccess),
        follow_waits: analysis == Analysis::Threading,
        kernel: analysis == Analysis::SystemOverview,
        heap,
        regions: of_accesses,
        events,
        controllers,
        began: Nanos(0),
        region_library,
        start_paused: false,
        about: None,
    })
}

/// Analyses whose reader asks what memory moves.
const MEMORY_IS_ASKED: [Analysis; 3] =
    [Analysis::MemoryAccess, Analysis::UarchExploration, Analysis::SystemOverview];

/// What memory controllers and links between sockets count, for the analyses that ask about memory.
fn controllers(analysis: Analysis, host: &Host) -> Vec<ControllerEvent> {
    if !MEMORY_IS_ASKED.contains(&analysis) {
        return Vec::new();
    }
    let found = traffic_events(&calibrate::counters().pmus, &host.family_model_stepping);
    let event = |one: TrafficEvent| ControllerEvent {
        name: one.traffic.name().to_owned(),
        link: one.link,
        pmu: one.pmu,
        config: one.config,
        cpus: one.cpus.into_iter().map(CpuId).collect(),
        bytes_per_thousand: one.bytes_per_thousand,
    };
    found.into_iter().map(event).collect()
}

/// Whether what one run reads from standard input is gone for the next: neither a file nor a device.
fn input_is_read_once() -> bool {
    use std::os::unix::fs::FileTypeExt;
    let input = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let kind = input.and_then(|file| file.metadata()).map(|about| about.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

/// Nanoseconds that a sample costs the program, where this machine was measured.
fn sample_cost(host: &Host) -> Option<f64> {
    calibrate::cache::load(host)?.sample_cost?.value
}

fn describe(run: &mut Run, target: Option<Target>, outcome: &Outcome) {
    run.target = target;
    run.elapsed_ns = outcome.elapsed.0;
    run.exit = Some(outcome.exit);
    run.runs.clone_from(&outcome.runs);
    run.stopped_by.clone_from(&outcome.stopped_by);
    run.collector = outcome.collector.clone();
    run.own_cost = outcome.own_cost.clone();
    run.resource_use.clone_from(&outcome.resource_use);
    run.notes.extend(outcome.notes.iter().cloned());
}

/// The program's file, as the shell would find it; whether it can be watched at all.
pub fn find_program(name: &OsString) -> Result<PathBuf, Failure> {
    let search_path =
        std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
    collect::program::find(&name.to_string_lossy(), &search_path).map_err(|error| {
        let code = match error {
            ProgramError::ThirtyTwoBit(_)
            | ProgramError::OtherArchitecture { .. }
            | ProgramError::SetUserId { .. } => CANNOT_MEASURE,
            _ => USAGE,
        };
        Failure::new(code, error)
    })
}

fn session_failure(error: SessionError) -> Failure {
    let code = match &error {
        SessionError::Launch(LaunchError::NulByte) | SessionError::NoSuchProcess(_) => USAGE,
        _ => CANNOT_MEASURE,
    };
    Failure::new(code, error)
}

pub(super) fn store_failure(error: store::StoreError) -> Failure {
    let code = super::report::store_error_code(&error, CANNOT_MEASURE);
    Failure::new(code, error)
}

fn command_line(what: &WhatToWatch) -> Vec<String> {
    match what {
        WhatToWatch::Program(_, program) | WhatToWatch::Machine(Some((_, program))) => {
            super::words(&program.command)
        }
        WhatToWatch::Process(pid) => {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0)
                .filter(|word| !word.is_empty())
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect()
        }
        WhatToWatch::Machine(None) => Vec::new(),
    }
}

fn working_directory(what: &WhatToWatch) -> String {
    let directory = match what {
        WhatToWatch::Program(..) | WhatToWatch::Machine(_) => std::env::current_dir(),
        WhatToWatch::Process(pid) => std::fs::read_link(format!("/proc/{pid}/cwd")),
    };
    directory.map(|path| path.display().to_string()).unwrap_or_default()
}

/// CPUs whose threads can be sampled.
pub fn online_cpus() -> Vec<base::CpuId> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = machine::text::number_list(text.trim()).unwrap_or_default();
    if cpus.is_empty() { vec![base::CpuId(0)] } else { cpus.into_iter().map(base::CpuId).collect() }
}
