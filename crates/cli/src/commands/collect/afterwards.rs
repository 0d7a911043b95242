//! The steps after the result is closed: measures the machine if that was never done, reports the result, waits for a
//! program that continues, and passes on its exit code.
//!
//! What not: closing the result (`closing`).

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use collect::session::Outcome;
use facts::{ExitKind, Run};
use sys::process::{Received, Signal, SignalFd};

use crate::progress::Progress;

/// Adds what the machine can do to a result that has it not. If that was never measured, it is now, if it may.
pub fn measure_machine(run: &mut Run, directory: &Path, may_measure: bool, quiet: bool) {
    if run.calibration.is_some() {
        return;
    }
    run.calibration = calibrate::cache::load(&run.host);
    if run.calibration.is_none() {
        if !may_measure {
            return;
        }
        let mut progress = Progress::new(!quiet);
        if !quiet {
            eprintln!("fathom: measuring this machine's memory, once (about 16 s)");
        }
        let mut measured =
            calibrate::measure(&run.host, &calibrate::Options::default(), &mut |done, what| {
                progress.show(done, what);
            });
        drop(progress);
        if let Err(error) = calibrate::cache::save(&run.host, &mut measured) {
            run.notes.push(format!("cannot store the machine's figures for later runs: {error}"));
        }
        run.calibration = Some(measured);
    }
    // Not being able to add it loses nothing that was collected.
    if let Err(error) = store::replace_run(directory, run) {
        eprintln!("fathom: cannot add the machine's figures to the result: {error}");
    }
}

pub(super) fn say_what_was_kept(
    directory: &Path,
    finished: store::Finished,
    outcome: &Outcome,
    goes_on: bool,
) {
    for note in &finished.notes {
        eprintln!("fathom: {note}");
    }
    eprintln!("fathom: result in {} ({})", directory.display(), finished.size);
    if matches!(outcome.exit, ExitKind::Code(_) | ExitKind::Signal(_)) && output_is_kept() {
        eprintln!(
            "fathom: the report follows the program's output in that file; --quiet leaves the report out"
        );
    }
    if goes_on {
        let why = match outcome.stopped_by.as_deref() {
            Some("duration") => "the duration of -d is over",
            _ => "collection stopped",
        };
        eprintln!("fathom: {why}; the program continues. Ctrl-C ends it.");
    }
}

/// Waits until a program that outlived its collection ends. Ctrl-C then ends it: first with SIGINT, the next time by
/// force. Other signals are passed on.
pub(super) fn wait_for_program(
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

/// Our exit code for the end of the program; prints how a failed program ended.
pub fn pass_on(exit: ExitKind, quiet: bool) -> ExitCode {
    match exit {
        ExitKind::Code(0) | ExitKind::StillRunning | ExitKind::Unknown => ExitCode::SUCCESS,
        ExitKind::Code(code) => {
            if !quiet {
                eprintln!("fathom: the program ended with exit code {code}");
            }
            ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
        }
        ExitKind::Signal(signal) => {
            if !quiet {
                eprintln!("fathom: the program was killed by {}", report::signal_name(signal));
            }
            // As shells report it.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
        }
    }
}

/// Whether standard output is a file: the program's output in it may be wanted unchanged.
fn output_is_kept() -> bool {
    let output = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    output.and_then(|file| file.metadata()).is_ok_and(|about| about.is_file())
}
