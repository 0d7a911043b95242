//! `fathom command`: pauses, resumes or marks a collection that runs.
//!
//! What not: the channel (`collect::control`), what the collection does then.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use collect::control::{self, RunningCollection, Wish};

use crate::arguments::{CommandOptions, Steer};
use crate::exit::{CANNOT_MEASURE, Failure};

/// Finds the collection, and tells it.
pub fn steer(options: &CommandOptions) -> Result<ExitCode, Failure> {
    let wish = match (options.action, &options.name) {
        (Steer::Pause, None) => Wish::Pause,
        (Steer::Resume, None) => Wish::Resume,
        (Steer::Mark, name) => {
            let name = name.as_deref().unwrap_or_default().trim();
            if name.is_empty() || name.len() > LONGEST_NAME {
                let text = format!("the name of a mark has 1 to {LONGEST_NAME} bytes");
                return Err(Failure::usage(text));
            }
            Wish::Mark(name.to_owned())
        }
        (_, Some(name)) => {
            return Err(Failure::usage(format!("only a mark takes a name: leave out {name:?}")));
        }
    };
    let (running, problems) = control::running(&control::directories());
    let one = chosen(&running, options)
        .map_err(|failure| problems.iter().fold(failure, |failure, why| failure.hint(why)))?;
    let result = one.about.result.display();
    match one.ask(&wish) {
        Ok(Ok(said)) => super::print(&format!("{result}: {said}\n")),
        Ok(Err(why)) => Err(Failure::new(CANNOT_MEASURE, anyhow!("{result}: {why}"))),
        Err(error) => {
            let what = anyhow::Error::new(error).context(format!("{result} does not answer"));
            Err(Failure::new(CANNOT_MEASURE, what).hint("it may have ended just now"))
        }
    }
}

/// Longest name of a mark, bytes; a request with it is shorter than the longest line.
const LONGEST_NAME: usize = 200;

fn chosen<'a>(
    running: &'a [RunningCollection],
    options: &CommandOptions,
) -> Result<&'a RunningCollection, Failure> {
    let wanted = options.result.as_ref().map(|path| absolute(path));
    let is_chosen = |one: &&RunningCollection| match (options.pid, &wanted) {
        (Some(pid), _) => one.about.target == Some(pid) || one.about.collector == pid,
        (None, Some(wanted)) => one.about.result == *wanted,
        (None, None) => true,
    };
    let found: Vec<&RunningCollection> = running.iter().filter(is_chosen).collect();
    match (found.as_slice(), options.pid, &options.result) {
        ([one], _, _) => Ok(one),
        ([], None, None) => {
            let hint = "fathom collect hotspots --start-paused -- PROGRAM starts one";
            Err(Failure::usage("no collection of this user runs here").hint(hint))
        }
        ([], Some(pid), _) => Err(Failure::usage(format!(
            "no collection of this user observes process {pid}{}",
            others(running)
        ))),
        ([], _, Some(path)) => Err(Failure::usage(format!(
            "no collection of this user writes {}{}",
            path.display(),
            others(running)
        ))),
        _ => {
            let text = format!("{} collections run: say which", found.len());
            let action = match options.action {
                Steer::Pause => "pause".to_owned(),
                Steer::Resume => "resume".to_owned(),
                Steer::Mark => format!("mark {:?}", options.name.as_deref().unwrap_or_default()),
            };
            let line = |one: &&RunningCollection| {
                let about = &one.about;
                let pid = about.target.unwrap_or(about.collector);
                format!("fathom command {action} --pid {pid:<8} # {}", described(one))
            };
            let lines: Vec<String> = found.iter().map(line).collect();
            Err(Failure::usage(text).hint(lines.join("\n  ")))
        }
    }
}

fn described(one: &RunningCollection) -> String {
    let about = &one.about;
    let paused = if about.paused { ", paused" } else { "" };
    format!("{} of {} into {}{paused}", about.analysis, about.command, about.result.display())
}

fn others(running: &[RunningCollection]) -> String {
    if running.is_empty() {
        return "; none runs here".to_owned();
    }
    let lines = running.iter().map(|one| {
        format!("\n  {}: {}", one.about.target.unwrap_or(one.about.collector), described(one))
    });
    format!("; what runs:{}", lines.collect::<String>())
}

/// As the collector names its result: the directory may be reached over links.
pub fn absolute(path: &std::path::Path) -> PathBuf {
    std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_default()
}
