//! One run of a program without a profiler: how long it took, and what it printed, as a number to compare.
//!
//! What for: comparing a program with itself (`try`). What not: statistics (`analysis::trial`).

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub struct TimedRun {
    /// From its start until it ended and closed its output.
    pub seconds: f64,
    /// How it ended.
    pub exit: ExitStatus,
    /// Digest of what it wrote to standard output.
    pub output: u64,
}

/// Runs a command with variables set, without input; its errors are not shown.
pub fn timed_run(
    command: &[OsString],
    variables: &[(String, String)],
) -> std::io::Result<TimedRun> {
    let (program, arguments) = command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut prepared = Command::new(program);
    prepared.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    prepared.envs(variables.iter().map(|(name, value)| (name, value)));
    let began = Instant::now();
    let mut child = prepared.spawn()?;
    let mut digest = DefaultHasher::new();
    let mut bytes = vec![0; 1 << 16];
    if let Some(mut output) = child.stdout.take() {
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            digest.write(&bytes[..count]);
        }
    }
    let exit = child.wait()?;
    Ok(TimedRun { seconds: began.elapsed().as_secs_f64(), exit, output: digest.finish() })
}
