//! One run of a program without a profiler: its time, and a digest of its output to compare.
//!
//! What for: comparing a program with itself (`try`). What not: statistics (`analysis::trial`).
//!
//! An interrupt ends the run: earlier runs are still worth showing, and no program stays behind. So we receive the signals
//! that end a program; the program itself starts with its usual dispositions.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use base::Pid;
use sys::process::{Signal, SignalFd, kill, poll_readable};

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub struct TimedRun {
    /// From its start until it ended and closed its output.
    pub seconds: f64,
    /// How it ended.
    pub exit: ExitStatus,
    /// Digest of its standard output.
    pub output: u64,
}

/// After an interrupt a program has this long to end by itself.
const PATIENCE: Duration = Duration::from_secs(3);
/// A signal is seen at once; this is only how often to look all the same.
const LOOK: Duration = Duration::from_secs(1);

/// Takes over the signals by which a user ends us.
pub fn take_over_interrupts() -> io::Result<SignalFd> {
    SignalFd::of(&[Signal::Interrupt, Signal::Terminate, Signal::HangUp])
}

/// Runs a command with variables set, without input; its errors are not shown. `None` when one of `interrupts` came: the
/// program has ended then, or was killed.
pub fn timed_run(
    command: &[OsString],
    variables: &[(String, String)],
    interrupts: &SignalFd,
) -> io::Result<Option<TimedRun>> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut prepared = Command::new(program);
    prepared.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    prepared.envs(variables.iter().map(|(name, value)| (name, value)));
    interrupts.hand_back(&mut prepared);
    let began = Instant::now();
    let mut child = prepared.spawn()?;
    let mut digest = DefaultHasher::new();
    let mut bytes = vec![0; 1 << 16];
    if let Some(mut output) = child.stdout.take() {
        loop {
            let readable = poll_readable(&[output.as_fd(), interrupts.as_fd()], LOOK)?;
            if interrupts.next().is_some() {
                end(&mut child)?;
                return Ok(None);
            }
            if readable[0] {
                match output.read(&mut bytes) {
                    Ok(count @ 1..) => digest.write(&bytes[..count]),
                    _ => break,
                }
            }
        }
    }
    let exit = child.wait()?;
    Ok(Some(TimedRun { seconds: began.elapsed().as_secs_f64(), exit, output: digest.finish() }))
}

/// Ends a program, by force where it does not go by itself. From a terminal it was interrupted together with us.
fn end(child: &mut Child) -> io::Result<()> {
    kill(Pid(child.id().cast_signed()), Signal::Terminate)?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait().map(|_| ())
}
