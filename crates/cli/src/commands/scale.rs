//! `fathom scale`: runs a program with several numbers of threads, times it, and shows how it scales.
//!
//! What not: the laws and their fit (`analysis::scaling`). Steps: create the directory; timed runs without collector, in random
//! order, so that drift of the machine affects all numbers of threads and all ways to pin them alike; one run each under `collect
//! memory-access`, of the first way; `scale.json`. After a failure the directory keeps the output of each last run, and complete
//! results.

mod sweeps;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use base::Nanos;
use facts::ExitKind;
use facts::host::Host;
use report::scale::{Collected, ScaleInput, ScalePoint};
use report::{Document, Scale};
use sys::process::{
    Launch, ProcessFd, Suspended, Usage, Waited, monotonic, poll_readable, try_wait,
};

use sweeps::Way;
use words::{number_behind, thread_list, usual_counts, with_threads};

use super::collect::{Started, collect_program, find_program, pass_on};
use crate::arguments::{Collection, ScaleArguments};
use crate::exit::{CANNOT_MEASURE, Failure, USAGE};
use crate::order::Order;
use crate::progress::Progress;

/// Variables that set the number of threads of OpenMP, MKL, OpenBLAS and Rayon.
const VARIABLES: [&str; 4] =
    ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"];

/// Runs the sweep and shows its result.
pub fn scale(arguments: ScaleArguments) -> Result<ExitCode, Failure> {
    let (host, _) = calibrate::host();
    let counts = match &arguments.threads {
        Some(text) => thread_list(text)?,
        None => usual_counts(usable_cpus(&host)),
    };
    let others = arguments.overlay.iter().map(|directory| sweeps::read(directory));
    let mut others: Vec<_> = others.collect::<Result<_, _>>()?;
    let sweep = Sweep::prepare(&arguments)?;
    let point = |&threads: &u32| ScalePoint { threads, ..ScalePoint::default() };
    let mut ways: Vec<Way> = arguments
        .pin
        .iter()
        .map(|pin| Way::new(*pin, &host, counts.iter().map(point).collect()))
        .collect();
    if let Some(exit) = sweep.time(&mut ways)? {
        return Ok(exit);
    }
    let mut notes = cpu_notes(&host, &counts);
    if !arguments.no_collect
        && let Some(exit) = sweep.collect(&mut ways[0], &mut notes)?
    {
        return Ok(exit);
    }
    let first_is_baseline = !others.is_empty();
    let result = super::shown_name(&sweep.directory);
    others.extend(ways[1..].iter().map(|way| way.as_other(&result)));
    let Way { pin, points, .. } = ways.swap_remove(0);
    let input = ScaleInput {
        result,
        command: super::words(&arguments.command),
        points,
        pin: sweeps::name(pin),
        others,
        first_is_baseline,
        cores: sweeps::cores(&host),
        figure: arguments.figure.clone(),
        notes,
    };
    let scale = Scale::new(&input)
        .ok_or_else(|| Failure::new(CANNOT_MEASURE, anyhow::anyhow!("no run took any time")))?;
    let svg = arguments.svg.as_ref().map(|file| (file.clone(), scale.svg()));
    let document = Document::Scale(Box::new(scale));
    write(&sweep.directory.join("scale.json"), &document.json())?;
    if let Some((file, svg)) = svg {
        write(&file, &svg)?;
    }
    super::print(&super::rendered(&document, arguments.format))
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| {
        let what = format!("cannot write {}", file.display());
        Failure::new(CANNOT_MEASURE, anyhow::Error::new(error).context(what))
    })
}

struct Sweep<'a> {
    arguments: &'a ScaleArguments,
    file: PathBuf,
    directory: PathBuf,
}

/// One run without collector.
struct Timed {
    wall: Nanos,
    usage: Usage,
    exit: ExitKind,
}

impl Sweep<'_> {
    fn prepare(arguments: &ScaleArguments) -> Result<Sweep<'_>, Failure> {
        let file = find_program(&arguments.command[0])?;
        if let Some(wrong) = arguments.env.iter().find(|word| !word.contains('=')) {
            return Err(Failure::usage(format!("'{wrong}' is not NAME=VALUE")));
        }
        let directory = match &arguments.result {
            Some(directory) => directory.clone(),
            None => {
                let free = store::next_free(Path::new("."), "sc");
                free.strip_prefix(".").map(Path::to_owned).unwrap_or(free)
            }
        };
        std::fs::create_dir(&directory).map_err(|error| {
            let code = match error.kind() {
                std::io::ErrorKind::AlreadyExists => USAGE,
                _ => CANNOT_MEASURE,
            };
            let what = format!("cannot make {}", directory.display());
            Failure::new(code, anyhow::Error::new(error).context(what))
        })?;
        Ok(Sweep { arguments, file, directory })
    }

    /// The program's command with this number of threads.
    fn program(&self, threads: u32, way: &Way) -> Result<Started, Failure> {
        let set = |name: &str, value: &OsStr| (OsString::from(name), value.to_owned());
        let number = OsString::from(threads.to_string());
        let mut environment: Vec<_> = VARIABLES.iter().map(|name| set(name, &number)).collect();
        let (affinity, pinned) = way.pinned(threads);
        environment.extend(pinned.iter().map(|(name, value)| set(name, value.as_ref())));
        for word in &self.arguments.env {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            // The user's value replaces ours.
            environment.retain(|(other, _)| other.to_str() != Some(name));
            environment.push(set(name, OsStr::new(&words::text_with_threads(value, threads))));
        }
        let output = self.output(threads, way);
        let output = File::create(&output).map_err(|error| {
            let what = format!("cannot write {}", output.display());
            Failure::new(CANNOT_MEASURE, anyhow::Error::new(error).context(what))
        })?;
        let command =
            self.arguments.command.iter().map(|word| with_threads(word, threads)).collect();
        Ok(Started { command, environment, output: Some(output), affinity, repeat: 1 })
    }

    fn output(&self, threads: u32, way: &Way) -> PathBuf {
        let pin = sweeps::name(way.pin).map_or(String::new(), |pin| format!("-{pin}"));
        self.directory.join(format!("threads-{threads}{pin}.out"))
    }

    /// Times all runs; a failure of the program ends it with the code to exit with.
    fn time(&self, ways: &mut [Way]) -> Result<Option<ExitCode>, Failure> {
        let mut progress = Progress::new(!self.arguments.quiet);
        let mut order = Order(0x5ca1e);
        let repeats = self.arguments.repeat;
        let counts = ways.first().map_or(0, |way| way.points.len());
        let all = repeats as usize * counts * ways.len();
        let mut done = 0;
        for round in 1..=repeats {
            // A new order in each round: a machine that becomes slower (heat, neighbours) then burdens no number of
            // threads more than the others.
            for at in order.shuffled(counts * ways.len()) {
                let way = &mut ways[at / counts];
                let threads = way.points[at % counts].threads;
                progress.show(
                    done as f64 / all as f64,
                    &format!("{threads} threads, run {round} of {repeats}"),
                );
                let run = self.run(threads, way)?;
                done += 1;
                if run.exit != ExitKind::Code(0) {
                    drop(progress);
                    return Ok(Some(self.failed(threads, way, run.exit)));
                }
                let printed = self.arguments.figure.as_ref();
                let printed = printed.map(|label| self.figure(threads, way, label)).transpose()?;
                let point = &mut way.points[at % counts];
                point.printed.extend(printed);
                point.seconds.push(run.wall.seconds());
                point.cpu_seconds.push(run.usage.cpu().seconds());
            }
        }
        Ok(None)
    }

    fn run(&self, threads: u32, way: &Way) -> Result<Timed, Failure> {
        let program = self.program(threads, way)?;
        let launch = Launch {
            file: &self.file,
            arguments: &program.command,
            environment: &program.environment,
            own_group: false,
            output: program.output.as_ref().map(AsFd::as_fd),
            affinity: program.affinity.as_ref(),
            runs: None,
        };
        let failure = |error: anyhow::Error| Failure::new(CANNOT_MEASURE, error);
        let child = Suspended::fork(&launch).map_err(|error| failure(error.into()))?;
        // The child is forked and waits: the time begins with its exec.
        let began = monotonic();
        let pid = child.release(&mut || {}).map_err(|error| failure(error.into()))?;
        // Without it (before Linux 5.3) the end is seen at the next look.
        let end = ProcessFd::open(pid).ok();
        loop {
            match &end {
                Some(end) => {
                    let _ = poll_readable(&[end.as_fd()], Duration::from_secs(1));
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
            let (exit, usage) = match try_wait(pid).map_err(|error| failure(error.into()))? {
                Waited::Exited(code, usage) => (ExitKind::Code(code), usage),
                Waited::Killed(signal, usage) => (ExitKind::Signal(signal), usage),
                Waited::Running | Waited::Stopped(_) => continue,
            };
            return Ok(Timed { wall: monotonic() - began, usage, exit });
        }
    }

    /// One run each under the collector. A run that cannot be collected gives a note: the times remain.
    fn collect(&self, way: &mut Way, notes: &mut Vec<String>) -> Result<Option<ExitCode>, Failure> {
        for at in 0..way.points.len() {
            let threads = way.points[at].threads;
            let directory = self.directory.join(format!("threads-{threads}"));
            if !self.arguments.quiet {
                eprintln!("fathom: collecting with {threads} threads");
            }
            let collection = Collection {
                start_paused: false,
                result: Some(directory.clone()),
                ranks: None,
                nodes: Vec::new(),
                duration: None,
                knobs: self.arguments.knobs.clone(),
                limit: 200,
                quiet: true,
            };
            match collect_program(self.program(threads, way)?, &collection, monotonic()) {
                Ok(ExitKind::Code(0)) => {}
                Ok(exit) => return Ok(Some(self.failed(threads, way, exit))),
                Err(failure) => {
                    failure.report();
                    notes.push(format!(
                        "No GB/s and GFLOP/s for {threads} threads: collecting that run failed."
                    ));
                    continue;
                }
            }
            let recording = super::report::open(&directory)?;
            let name = super::shown_name(&directory);
            let collected =
                Collected::of(&recording, &name).map_err(|error| Failure::new(USAGE, error))?;
            way.points[at].collected = Some(collected);
        }
        Ok(None)
    }

    /// Reports that the program failed, with the end of its output.
    fn failed(&self, threads: u32, way: &Way, exit: ExitKind) -> ExitCode {
        const LINES: usize = 5;
        let output = std::fs::read(self.output(threads, way)).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let lines: Vec<&str> = output.lines().collect();
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            eprintln!("{line}");
        }
        let kept = self.output(threads, way);
        eprintln!("fathom: with {threads} threads (output in {}):", kept.display());
        pass_on(exit, false)
    }

    /// The number that the program printed after a text.
    fn figure(&self, threads: u32, way: &Way, label: &str) -> Result<f64, Failure> {
        let file = self.output(threads, way);
        let output = std::fs::read(&file).unwrap_or_default();
        number_behind(&String::from_utf8_lossy(&output), label).ok_or_else(|| {
            Failure::usage(format!(
                "with {threads} threads the program printed no number after '{label}': see {}",
                file.display()
            ))
        })
    }
}

/// Whole CPUs that this process may use.
fn usable_cpus(host: &Host) -> u32 {
    host.usable_cpus().map_or(1, |cpus| (cpus as u32).max(1))
}

fn cpu_notes(host: &Host, counts: &[u32]) -> Vec<String> {
    let cpus = usable_cpus(host);
    let most = counts.last().copied().unwrap_or(1);
    let mut notes = Vec::new();
    if most > cpus {
        notes.push(format!(
            "This process may use {cpus} CPUs. More threads share them and do not measure the program."
        ));
    }
    if host.cores > 0 && most > host.cores && host.logical_cpus > host.cores {
        notes.push(format!(
            "The machine has {} cores. More threads share cores (hyper-threads).",
            host.cores
        ));
    }
    notes
}
