//! When the result is closed: the machine is measured if it never was, the user is told what was kept, and the program, where
//! it goes on, is waited for and its exit code passed on.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use collect::session::Outcome;
use facts::{ExitKind, Run};
use sys::process::{Received, Signal, SignalFd};

use crate::progress::Progress;

/// Measures what the machine can do, if that is not known, and adds it to the result.
pub(super) fn add_calibration(run: &mut Run, directory: &Path, may_measure: bool, quiet: bool) {
    if run.calibration.is_some() || !may_measure {
        return;
    }
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
        run.notes.push(format!("the machine's figures could not be kept for later runs: {error}"));
    }
    run.calibration = Some(measured);
    // Not being able to add it loses nothing that was collected.
    if let Err(error) = store::replace_run(directory, run) {
        eprintln!("fathom: the machine's figures could not be added to the result: {error}");
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
            "fathom: the report stands behind the program's own output in that file: with --quiet only the program writes there"
        );
    }
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
                eprintln!("fathom: the program was ended by {}", report::signal_name(signal));
            }
            // As shells report it.
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
        }
    }
}

/// Whether standard output is a file: what a program writes there, somebody may want as it is.
fn output_is_kept() -> bool {
    let output = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    output.and_then(|file| file.metadata()).is_ok_and(|about| about.is_file())
}
