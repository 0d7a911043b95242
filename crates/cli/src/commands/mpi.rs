//! `fathom mpi`: starts an MPI job with every rank under `fathom collect`, and shows the ranks side by side.
//!
//! ```text
//!   launcher   the one that fits the library that the program was built with, else the one at hand
//!   job        LAUNCHER -n N fathom collect ANALYSIS -r JOB/rank.%r ... -- PROGRAM; few ranks are traced, the others sampled
//!   ranks      a row for each; those that left no result are named
//! ```
//! What not: what a rank records (`collect`), the table (`report::ranks`). Assumption: all nodes see the job's directory, and this
//! program by the same path.

mod launcher;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use base::Pid;
use clap::{Args, ValueEnum};
use facts::{ExitKind, Run};
use report::ranks::{Job, RankOfJob};
use report::{Document, Options};
use sys::process::{ProcessFd, Received, Signal, SignalFd, kill, wait_for_data};

use self::launcher::Launcher;
use super::collect::{measure_machine, pass_on};
use crate::arguments::{AddOptions, AnalysisName, DatasetAction, Format};
use crate::exit::{CANNOT_MEASURE, Failure, USAGE};
use crate::ranks::{NOT_TRACED, Ranks};
use crate::timed_run::take_over_interrupts;

#[derive(Args, Debug)]
pub struct MpiOptions {
    /// Number of ranks [default: the launcher's, e.g. all of a Slurm allocation]
    #[arg(short = 'n', long = "processes", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub number: Option<u32>,
    /// Trace accesses in these ranks, as in 0,4-7, or all, or none; the others are sampled [default: 0, without --nodes]
    #[arg(long, value_name = "LIST")]
    pub trace: Option<Ranks>,
    /// Trace accesses in all ranks on these hosts
    #[arg(long, value_name = "HOST[,HOST...]", value_delimiter = ',')]
    pub nodes: Vec<String>,
    /// What to collect
    #[arg(short, long, value_enum, default_value = "memory-access")]
    pub analysis: AnalysisName,
    /// New directory for the job, with a result for each rank [default: the next free of r000mpi, r001mpi, ...]
    #[arg(short, long, value_name = "DIR")]
    pub result: Option<PathBuf>,
    /// Start the job with this, e.g. 'mpirun.mpich -ppn 2' or 'srun -N 2' [default: by the program's MPI library]
    #[arg(long, value_name = "COMMAND")]
    pub launcher: Option<String>,
    /// Set a knob (repeatable); `fathom knobs` lists them
    #[arg(short, long = "knob", value_name = "NAME=VALUE")]
    pub knobs: Vec<String>,
    /// Also add all results to this dataset
    #[arg(long, value_name = "DATASET")]
    pub dataset: Option<PathBuf>,
    /// Output format of the table of ranks
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Print errors only: no table
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS")]
    pub command: Vec<OsString>,
}

/// Runs a job.
pub fn mpi(options: &MpiOptions) -> Result<ExitCode, Failure> {
    let program = super::collect::find_program(&options.command[0])?;
    crate::knobs::parse(&options.knobs)?;
    let launcher = Launcher::choose(options.launcher.as_deref(), &program)?;
    let directory = job_directory(options.result.as_deref())?;
    let status = run(options, &launcher, &directory)?;
    let found = ranks(&directory);
    if options.analysis == AnalysisName::MemoryAccess {
        measure(options, &found);
    }
    let whole = show(options, &directory, found)?;
    let ended = match status.code() {
        Some(code) => ExitKind::Code(code),
        None => ExitKind::Signal(status.signal().unwrap_or(0)),
    };
    Ok(match ended {
        ExitKind::Code(0) if !whole => ExitCode::from(CANNOT_MEASURE),
        ended => pass_on(ended, true),
    })
}

/// A directory that nobody else has: two jobs never share one.
fn job_directory(wanted: Option<&Path>) -> Result<PathBuf, Failure> {
    loop {
        let directory =
            wanted.map_or_else(|| store::next_free(Path::new("."), "mpi"), Path::to_owned);
        match std::fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if wanted.is_some() {
                    let there = format!("{} is there already", directory.display());
                    return Err(Failure::new(USAGE, anyhow::Error::msg(there)));
                }
            }
            Err(error) => {
                let what = format!("cannot make {}", directory.display());
                return Err(Failure::new(CANNOT_MEASURE, anyhow::Error::new(error).context(what)));
            }
        }
    }
}

fn cannot(error: std::io::Error) -> Failure {
    Failure::new(CANNOT_MEASURE, error)
}

/// The words that each rank is started with.
fn of_a_rank(options: &MpiOptions, directory: &Path) -> Result<Vec<OsString>, Failure> {
    let mut words = vec![std::env::current_exe().map_err(cannot)?.into_os_string()];
    let analysis = options.analysis.to_possible_value();
    let analysis = analysis.map(|value| value.get_name().to_owned()).unwrap_or_default();
    words.extend(["collect", &analysis, "--quiet", "-r"].map(OsString::from));
    // A percent sign is one of its own in the name of a result.
    let directory = std::path::absolute(directory).map_err(cannot)?;
    let name = directory.as_os_str().as_bytes();
    let mut name: Vec<u8> =
        name.iter().flat_map(|byte| vec![*byte; 1 + usize::from(*byte == b'%')]).collect();
    name.extend(b"/rank.%r");
    words.push(OsString::from_vec(name));
    if options.analysis == AnalysisName::MemoryAccess {
        let first = options.nodes.is_empty().then(|| Ranks::only(0));
        let traced = options.trace.clone().or(first);
        words.extend(
            traced
                .iter()
                .flat_map(|ranks| ["--ranks".to_owned(), ranks.to_string()])
                .map(OsString::from),
        );
        if !options.nodes.is_empty() {
            words.extend(["--nodes".to_owned(), options.nodes.join(",")].map(OsString::from));
        }
    }
    words.extend(options.knobs.iter().flat_map(|knob| ["-k".into(), OsString::from(knob)]));
    words.push("--".into());
    words.extend_from_slice(&options.command);
    Ok(words)
}

/// Starts the job and waits for its end. From a terminal, Ctrl-C reaches the launcher without us; what reaches us alone is passed on.
fn run(options: &MpiOptions, launcher: &Launcher, directory: &Path) -> Result<ExitStatus, Failure> {
    let words = of_a_rank(options, directory)?;
    let signals = take_over_interrupts().map_err(cannot)?;
    let mut command = Command::new(&launcher.program);
    command.args(&launcher.arguments);
    command.args(options.number.iter().flat_map(|number| ["-n".to_owned(), number.to_string()]));
    command.args(words);
    // For ranks whose launcher has no name for its job (MPICH).
    let job = directory.file_name().unwrap_or_default().to_string_lossy();
    command.env(crate::ranks::JOB, format!("{job}-{}", std::process::id()));
    signals.hand_back(&mut command);
    let mut child = command.spawn().map_err(|error| {
        let _ = std::fs::remove_dir(directory);
        let what = format!("cannot start {}", launcher.program.display());
        Failure::new(CANNOT_MEASURE, anyhow::Error::new(error).context(what))
    })?;
    wait(&mut child, &signals).map_err(cannot)
}

fn wait(child: &mut std::process::Child, signals: &SignalFd) -> std::io::Result<ExitStatus> {
    let pid = Pid(child.id().cast_signed());
    let ended = ProcessFd::open(pid)?;
    let foreground = sys::process::Terminal::open().and_then(|terminal| terminal.foreground());
    let from_terminal = foreground == Some(sys::process::own_group());
    loop {
        wait_for_data(&[signals.as_fd(), ended.as_fd()], std::time::Duration::from_secs(60))?;
        while let Some(Received(signal)) = signals.next() {
            if !(from_terminal && signal == Signal::Interrupt) {
                let _ = kill(pid, signal);
            }
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
}

/// The results of a job, by rank.
fn ranks(directory: &Path) -> BTreeMap<u32, (PathBuf, Run)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let found = entries.filter_map(|entry| {
        let run = store::read_run(&entry.path()).ok()?;
        Some((run.rank.as_ref()?.rank, (entry.path(), run)))
    });
    found.collect()
}

/// Figures of this machine for traced ranks that ran on it. While ranks run, none can measure it: their neighbours run, too. Ranks that
/// their launcher bound to different CPUs have different figures; measuring takes 16 s, so that only the first gets them at once.
fn measure(options: &MpiOptions, found: &BTreeMap<u32, (PathBuf, Run)>) {
    let here = super::collect::host_name();
    let wanted = crate::knobs::parse(&options.knobs).is_ok_and(|settings| settings.calibrate);
    let traced = found.values().filter(|(_, run)| {
        wanted
            && run.host_name.as_ref() == Some(&here)
            && !run.notes.iter().any(|note| note == NOT_TRACED)
    });
    for (at, (directory, run)) in traced.enumerate() {
        measure_machine(&mut run.clone(), directory, at == 0, options.quiet);
    }
}

/// Prints the ranks. Whether all of them have a result.
fn show(
    options: &MpiOptions,
    directory: &Path,
    found: BTreeMap<u32, (PathBuf, Run)>,
) -> Result<bool, Failure> {
    let stated = found.values().filter_map(|(_, run)| run.rank.as_ref()?.ranks).max();
    let last = found.keys().last().map(|rank| rank + 1);
    let number = stated.or(options.number).max(last).unwrap_or(0);
    let shown = super::shown_name(directory);
    if found.is_empty() {
        let _ = std::fs::remove_dir(directory);
        return Err(Failure::new(CANNOT_MEASURE, anyhow::Error::msg("no rank left a result"))
            .hint("the launcher's messages are above; do all nodes share this directory, and have fathom at the same path?"));
    }
    let results: Vec<PathBuf> = found.values().map(|(directory, _)| directory.clone()).collect();
    let missing = (0..number).filter(|rank| !found.contains_key(rank)).collect();
    let mut job = Job { name: shown, ranks: Vec::new(), missing };
    if !options.quiet {
        for (rank, (directory, _)) in found {
            let recording = super::report::open(&directory)?;
            let name = directory
                .file_name()
                .unwrap_or_else(|| OsStr::new(""))
                .to_string_lossy()
                .into_owned();
            match report::build(
                &recording,
                &Options { result_name: name, ..Options::default() },
                &|_| None,
            ) {
                Ok(Document::Summary(summary)) => {
                    job.ranks.push(RankOfJob::new(rank, &recording.run, &summary));
                }
                Ok(_) => unreachable!("the default view is the summary"),
                Err(error) => return Err(Failure::new(CANNOT_MEASURE, error)),
            }
        }
    }
    let whole = job.missing.is_empty();
    match options.quiet {
        true => job.says_missing().into_iter().for_each(|what| eprintln!("fathom: {what}")),
        false => {
            super::print(&super::rendered(&report::ranks::ranks(&job), options.format))?;
        }
    }
    if let Some(dataset) = &options.dataset {
        super::dataset::dataset(&DatasetAction::Add(AddOptions {
            dataset: dataset.clone(),
            results,
            watch: None,
            redact: Vec::new(),
            labels: Vec::new(),
            quiet: options.quiet,
        }))?;
    }
    Ok(whole)
}
