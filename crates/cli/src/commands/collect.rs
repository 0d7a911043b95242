//! `fathom run` and `fathom collect`: from the command line to a finished result and its report.
//!
//! Order of steps, and what a failure or Ctrl-C leaves behind at each:
//! ```text
//!   find the program, make the directory     nothing was run
//!   collect                                  the directory opens with everything until the last second
//!   time hot loops alone                     likewise
//!   name the symbols, close the tables       likewise; symbols are looked up again when it is opened
//!   measure the machine (once per machine)   the result is complete, without the machine's figures
//!   print the report, wait for a program that goes on, pass its exit code on
//! ```

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use base::{FileOffset, ModuleId, Nanos, Pid};
use collect::floor::HotLoops;
use collect::heap::HeapOptions;
use collect::program::ProgramError;
use collect::session::{self, Options, Outcome, SessionError};
use collect::symbolise;
use collect::wait_objects::WaitObjects;
use facts::{
    Analysis, Block, ExitKind, Fact, Module, Run, RunState, SCHEMA_VERSION, Sink, SinkError, Target,
};
use store::Writer;
use sys::process::{LaunchError, Received, Signal, SignalFd};

use crate::agent_file;
use crate::arguments::{AnalysisName, CollectOptions, Collection, RunOptions};
use crate::exit::{CANNOT_MEASURE, Failure, USAGE};
use crate::knobs::{self, HeapSettings, Settings};
use crate::progress::Progress;

use super::variables::DataPlaces;

/// `fathom run`.
pub fn run(options: RunOptions, began: Nanos) -> Result<ExitCode, Failure> {
    collect_target(
        Analysis::MemoryAccess,
        WhatToWatch::Program(Started { command: options.command, ..Started::default() }),
        &options.collection,
        began,
    )
}

/// `fathom collect`.
pub fn collect(options: CollectOptions, began: Nanos) -> Result<ExitCode, Failure> {
    let analysis = match options.analysis {
        AnalysisName::MemoryAccess => Analysis::MemoryAccess,
        AnalysisName::Hotspots => Analysis::Hotspots,
        AnalysisName::MemoryConsumption => Analysis::MemoryConsumption,
        AnalysisName::Threading => Analysis::Threading,
        AnalysisName::SystemOverview => Analysis::SystemOverview,
    };
    let what = match options.pid {
        Some(pid) if pid <= 0 => return Err(Failure::usage(format!("{pid} is not a process id"))),
        Some(pid) => WhatToWatch::Process(Pid(pid)),
        None if options.system && analysis != Analysis::SystemOverview => {
            return Err(Failure::usage("--system goes with system-overview only"));
        }
        None if options.system => WhatToWatch::Machine,
        None if options.command.is_empty() => {
            return Err(Failure::usage(
                "nothing to watch: name a program after `--`, or a process with --pid PID",
            ));
        }
        None => WhatToWatch::Program(Started { command: options.command, ..Started::default() }),
    };
    collect_target(analysis, what, &options.collection, began)
}

const NO_AGENT: &str = "cannot write the library that counts heap blocks";

fn heap_options(settings: &Settings, regions: bool) -> std::io::Result<HeapOptions> {
    let agent = agent_file::path()?;
    let HeapSettings { large_from, sample_every, every_block } = settings.heap;
    Ok(HeapOptions {
        agent,
        large_from,
        sample_every,
        every_block,
        regions,
        stack_bytes: settings.stack_bytes,
    })
}

/// What to record of the heap: all that memory-consumption is about; beside bursts, what can be had.
fn heap_of(
    analysis: Analysis,
    what: &WhatToWatch,
    program: Option<&Path>,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<Option<HeapOptions>, Failure> {
    let beside_bursts = analysis == Analysis::MemoryAccess && settings.objects;
    let whole_machine = matches!(what, WhatToWatch::Machine);
    if whole_machine || !(beside_bursts || analysis == Analysis::MemoryConsumption) {
        return Ok(None);
    }
    if !beside_bursts {
        return heap_options(settings, false).map(Some).map_err(|error| {
            Failure::new(CANNOT_MEASURE, anyhow::Error::new(error).context(NO_AGENT))
        });
    }
    if let Some(why) = program.and_then(collect::preload::obstacle) {
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
}

enum WhatToWatch {
    Program(Started),
    Process(Pid),
    Machine,
}

/// Runs a program under `memory-access` into a result, for another command. What goes wrong after it ran is an error too.
pub fn collect_program(
    program: Started,
    collection: &Collection,
    began: Nanos,
) -> Result<ExitKind, Failure> {
    let what = WhatToWatch::Program(program);
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
    let settings = knobs::parse(&collection.knobs)?;
    let file = match &what {
        WhatToWatch::Program(program) => Some(find_program(&program.command[0])?),
        WhatToWatch::Process(_) | WhatToWatch::Machine => None,
    };
    let (host, problems) = calibrate::host();
    // Before any thread is started: threads inherit the mask.
    let signals = SignalFd::take_over().map_err(|error| Failure::new(CANNOT_MEASURE, error))?;
    let directory = match &collection.result {
        Some(directory) => directory.clone(),
        None => {
            let free = store::next_free(Path::new("."), analysis.suffix());
            free.strip_prefix(".").map(Path::to_owned).unwrap_or(free)
        }
    };
    let mut run = Run {
        schema: SCHEMA_VERSION,
        fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Incomplete,
        analysis,
        command: command_line(&what),
        working_directory: working_directory(&what),
        started_unix: SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        host,
        knobs: settings.changed.clone(),
        limit_bytes: collection.limit * 1_000_000,
        notes: problems,
        ..Run::default()
    };
    let (environment, output) = match &mut what {
        WhatToWatch::Program(program) => (program.environment.clone(), program.output.take()),
        WhatToWatch::Process(_) | WhatToWatch::Machine => (Vec::new(), None),
    };
    if settings.changed.contains_key("collecting-mode") {
        run.notes.push(
            "hw-tracing: processor traces (intel_pt) are not read; entries into the kernel come from its tracepoints"
                .to_owned(),
        );
    }
    let options = Options {
        environment,
        output,
        period: settings.period,
        stack_bytes: settings.stack_bytes,
        cpus: online_cpus(),
        duration: collection.duration,
        best_method: settings.method,
        bursts: settings.bursts.filter(|_| analysis == Analysis::MemoryAccess),
        follow_waits: analysis == Analysis::Threading,
        kernel: analysis == Analysis::SystemOverview,
        heap: heap_of(analysis, &what, file.as_deref(), &settings, &mut run.notes)?,
        regions: analysis == Analysis::MemoryAccess && settings.objects,
        began,
    };
    let writer = Writer::create(&directory, &run).map_err(store_failure)?;
    let mut sink = Noting::new(writer, options.regions);
    let outcome = match (&what, &file) {
        (WhatToWatch::Program(program), Some(file)) => {
            session::launch(file, &program.command, &options, &signals, &mut sink)
        }
        (WhatToWatch::Process(pid), _) => session::attach(*pid, &options, &signals, &mut sink),
        (WhatToWatch::Machine, _) => session::observe_machine(&options, &signals, &mut sink),
        (WhatToWatch::Program(_), None) => unreachable!("a program was found above"),
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
    let pid = match &what {
        WhatToWatch::Process(pid) => Some(Target::Attached { pid: pid.0 }),
        WhatToWatch::Machine => Some(Target::Machine),
        WhatToWatch::Program(_) => sink.first_pid.map(|pid| Target::Launched { pid: pid.0 }),
    };
    describe(&mut run, pid, &outcome);
    let program = outcome.program.take();
    let kept = match outcome.sink_error.take() {
        // The journal is what there is; closing the tables would need the room that is missing.
        Some(error) => Err(Failure::new(CANNOT_MEASURE, error).hint(kept_in(&directory))),
        None => {
            time_hot_loops(&mut sink, &mut run, collection.quiet);
            finish(sink, &mut run, &directory, collection.quiet)
        }
    };
    // From here on Ctrl-C ends us, unless the program still runs: then it must end the program.
    let signals = program.is_some().then_some(signals);
    let shown = kept.and_then(|finished| {
        // Measuring beside a running program would slow it down and give false figures.
        let may_measure = settings.calibrate && !outcome.still_runs;
        add_calibration(&mut run, &directory, may_measure, collection.quiet);
        if !collection.quiet {
            super::report::print_summary(&directory)?;
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

/// Remembers, while facts pass, which addresses must be named at the end.
struct Noting {
    writer: Writer,
    modules: Vec<Module>,
    addresses: BTreeSet<(ModuleId, FileOffset)>,
    /// Decoded at the end only: nobody waits then.
    blocks: Vec<Block>,
    hot_loops: HotLoops,
    /// Where memory objects are wanted.
    data: Option<DataPlaces>,
    first_pid: Option<Pid>,
    wait_objects: WaitObjects,
}

impl Noting {
    fn new(writer: Writer, objects: bool) -> Noting {
        Noting {
            writer,
            modules: Vec::new(),
            addresses: BTreeSet::new(),
            blocks: Vec::new(),
            hot_loops: HotLoops::default(),
            data: objects.then(DataPlaces::default),
            first_pid: None,
            wait_objects: WaitObjects::default(),
        }
    }
}

impl Sink for Noting {
    fn push(&mut self, fact: Fact) -> Result<(), SinkError> {
        self.hot_loops.note(&fact);
        self.wait_objects.note(&fact);
        if let Some(data) = &mut self.data {
            data.note(&fact, &self.modules);
        }
        match &fact {
            Fact::Module(module) => self.modules.push(module.clone()),
            Fact::StackNode(node) => {
                self.addresses.insert((node.module, node.offset));
            }
            Fact::Block(block) => self.blocks.push(block.clone()),
            Fact::ThreadEvent(event) => {
                self.first_pid.get_or_insert(event.pid);
            }
            _ => {}
        }
        self.writer.push(fact)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.writer.flush().map_err(SinkError::from)
    }
}

/// Measures what the hottest loops take without their memory; about a second at most. Who interrupts wants to be done.
fn time_hot_loops(sink: &mut Noting, run: &mut Run, quiet: bool) {
    let Some(hz) = run.host.tsc_hz.filter(|hz| *hz > 0.0) else { return };
    if run.stopped_by.as_deref() == Some("interrupted") {
        return;
    }
    let mut progress = Progress::new(!quiet);
    let measured = sink.hot_loops.measure(&sink.blocks, 1.0 / hz, &mut |done| {
        progress.show(done, "timing hot loops without their memory");
    });
    drop(progress);
    match measured {
        Ok(floors) => {
            for floor in floors {
                // A full disk: closing the tables fails too and says so.
                if sink.writer.push(Fact::CoreFloor(floor)).is_err() {
                    return;
                }
            }
        }
        Err(error) => run.notes.push(format!("hot loops were not timed without memory: {error}")),
    }
}

/// Names the symbols and closes the tables.
fn finish(
    mut sink: Noting,
    run: &mut Run,
    directory: &Path,
    quiet: bool,
) -> Result<store::Finished, Failure> {
    let mut progress = Progress::new(!quiet);
    let mut addresses: Vec<_> = sink.addresses.iter().copied().collect();
    let traced = symbolise::traced_addresses(&sink.blocks);
    addresses.extend(&traced);
    let named = symbolise::symbolise(
        &sink.modules,
        &addresses,
        &symbolise::Options { typed: traced, ..symbolise::Options::default() },
        &mut |done, all| {
            progress.show(done as f64 / all.max(1) as f64, "naming functions");
        },
    );
    drop(progress);
    run.notes.extend(named.problems);
    for object in sink.wait_objects.name(&sink.modules) {
        // As below.
        if sink.writer.push(Fact::WaitObject(object)).is_err() {
            break;
        }
    }
    let frames = named.frames.into_iter().map(Fact::Frame);
    for fact in frames.chain(named.types.into_iter().map(Fact::AccessType)) {
        // A full disk: the tables below fail too and say so.
        if sink.writer.push(fact).is_err() {
            break;
        }
    }
    if let Some(data) = sink.data.take() {
        data.write(&sink.modules, run, &mut sink.writer);
    }
    run.state = RunState::Complete;
    sink.writer.finish(run).map_err(|error| store_failure(error).hint(kept_in(directory)))
}

fn kept_in(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "what was collected is kept in {directory} and opens with `fathom report summary -r {directory}`"
    )
}

fn describe(run: &mut Run, target: Option<Target>, outcome: &Outcome) {
    run.target = target;
    run.elapsed_ns = outcome.elapsed.0;
    run.exit = Some(outcome.exit);
    run.stopped_by.clone_from(&outcome.stopped_by);
    run.collector = outcome.collector.clone();
    run.own_cost = outcome.own_cost.clone();
    run.resource_use.clone_from(&outcome.resource_use);
    run.notes.extend(outcome.notes.iter().cloned());
}

/// Adds what the machine can do: from the cache, or measured now.
fn add_calibration(run: &mut Run, directory: &Path, may_measure: bool, quiet: bool) {
    let mut calibration = calibrate::cache::load(&run.host);
    if calibration.is_none() && may_measure {
        let mut progress = Progress::new(!quiet);
        if !quiet {
            eprintln!(
                "fathom: measuring what this machine's memory can do, once (about 15 s; kept for later runs)"
            );
        }
        let mut measured =
            calibrate::measure(&run.host, &calibrate::Options::default(), &mut |done, what| {
                progress.show(done, what);
            });
        drop(progress);
        if let Err(error) = calibrate::cache::save(&run.host, &mut measured) {
            run.notes
                .push(format!("the machine's figures could not be kept for later runs: {error}"));
        }
        calibration = Some(measured);
    }
    if calibration.is_some() {
        run.calibration = calibration;
        // Not being able to add it loses nothing that was collected.
        if let Err(error) = store::replace_run(directory, run) {
            eprintln!("fathom: the machine's figures could not be added to the result: {error}");
        }
    }
}

fn say_what_was_kept(
    directory: &Path,
    finished: store::Finished,
    outcome: &Outcome,
    goes_on: bool,
) {
    for note in &finished.notes {
        eprintln!("fathom: {note}");
    }
    eprintln!("fathom: result in {} ({})", directory.display(), finished.size);
    if goes_on {
        let why = match outcome.stopped_by.as_deref() {
            Some("duration") => "the time given with -d is over",
            _ => "collection stopped",
        };
        eprintln!("fathom: {why}; the program goes on. Ctrl-C ends it.");
    }
}

/// Waits until a program that outlived its collection ends. Ctrl-C then ends it: first politely, the next time by
/// force. Other signals are passed on.
fn wait_for_program(
    program: Option<collect::launched::LaunchedProgram>,
    signals: Option<&SignalFd>,
) -> Option<ExitKind> {
    use std::os::fd::AsFd;
    let (mut program, signals) = (program?, signals?);
    let mut asked_to_end = false;
    loop {
        program.look();
        if let Some((exit, _)) = program.ended() {
            return Some(*exit);
        }
        let mut descriptors = vec![signals.as_fd()];
        descriptors.extend(program.descriptor());
        let _ = sys::process::wait_for_data(&descriptors, Duration::from_millis(200));
        while let Some(Received(signal)) = signals.next() {
            match signal {
                Signal::Interrupt if asked_to_end => program.signal(Signal::Kill),
                Signal::Interrupt => {
                    program.signal(Signal::Terminate);
                    asked_to_end = true;
                }
                signal => program.pass_on(signal),
            }
        }
    }
}

/// The program's own failure becomes ours, and is said.
pub fn pass_on(exit: ExitKind, quiet: bool) -> ExitCode {
    match exit {
        ExitKind::Code(0) | ExitKind::StillRunning | ExitKind::Unknown => ExitCode::SUCCESS,
        ExitKind::Code(code) => {
            if !quiet {
                eprintln!("fathom: the program itself ended with exit code {code}");
            }
            ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
        }
        ExitKind::Signal(signal) => {
            if !quiet {
                eprintln!("fathom: the program was ended by signal {signal}");
            }
            // As shells report it.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
        }
    }
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

fn store_failure(error: store::StoreError) -> Failure {
    let code = super::report::store_error_code(&error, CANNOT_MEASURE);
    Failure::new(code, error)
}

fn command_line(what: &WhatToWatch) -> Vec<String> {
    match what {
        WhatToWatch::Program(program) => super::words(&program.command),
        WhatToWatch::Process(pid) => {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0)
                .filter(|word| !word.is_empty())
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect()
        }
        WhatToWatch::Machine => Vec::new(),
    }
}

fn working_directory(what: &WhatToWatch) -> String {
    let directory = match what {
        WhatToWatch::Program(_) | WhatToWatch::Machine => std::env::current_dir(),
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
