//! `fathom dataset`: opens results one after the other and adds their figures to a dataset; checks one.
//!
//! What not: the files of a dataset, and which figures (`dataset`). What one result lacks never stops the others; a dataset that
//! cannot be written stops all, and the same command goes on from there.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use ::dataset::{Dataset, DatasetError, Held, Identity, Labels, Verified};
use facts::{Run, RunState};
use store::StoreError;

use crate::arguments::{AddOptions, DatasetAction};
use crate::exit::{CANNOT_MEASURE, DAMAGED, Failure, USAGE};
use crate::progress::Progress;

/// A clock may be ahead by this before it is said: results come from machines whose clocks differ by less.
const CLOCK_TOLERANCE_S: u64 = 2;

/// What became of a result.
enum Outcome {
    Added,
    Renewed,
    There,
    LeftOut(String),
}

/// Does what was asked.
pub fn dataset(action: &DatasetAction) -> Result<ExitCode, Failure> {
    match action {
        DatasetAction::Add(options) => add(options),
        DatasetAction::Verify { dataset } => verify(dataset),
    }
}

fn verify(path: &Path) -> Result<ExitCode, Failure> {
    let found = Dataset::open(path).and_then(|dataset| dataset.verify()).map_err(failure)?;
    let mut text = String::new();
    for (file, what) in &found.damaged {
        text += &format!("damaged  {}: {what}; add its result again\n", file.display());
    }
    for file in &found.leftovers {
        text +=
            &format!("unread   {}: its result was not finished; add it again\n", file.display());
    }
    let Verified { results, quarantined, damaged, .. } = &found;
    text += &format!("{}: {results} results are whole", path.display());
    if *quarantined > 0 {
        text += &format!(", {quarantined} were left out (reasons in quarantine)");
    }
    text += &format!(", {} files are damaged\n", damaged.len());
    super::print(&text)?;
    Ok(if damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

fn add(options: &AddOptions) -> Result<ExitCode, Failure> {
    let dataset = Dataset::create(&options.dataset).map_err(failure)?;
    let labels: Labels = options.labels.iter().cloned().collect();
    let mut progress = Progress::new(!options.quiet);
    let (mut added, mut renewed, mut there, mut left_out) = (0, 0, 0, 0);
    for (at, result) in options.results.iter().enumerate() {
        let name = super::shown_name(result);
        progress.show(at as f64 / options.results.len() as f64, &format!("adding {name}"));
        match add_one(&dataset, result, &labels).map_err(failure)? {
            Outcome::Added => added += 1,
            Outcome::Renewed => renewed += 1,
            Outcome::There => there += 1,
            Outcome::LeftOut(why) => {
                left_out += 1;
                eprintln!("fathom: {name} was left out: {why}");
            }
        }
    }
    drop(progress);
    if !options.quiet {
        let more = [(renewed, "renewed"), (there, "there already"), (left_out, "left out")];
        let more: String = more
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!(", {count} {what}"))
            .collect();
        super::print(&format!("{}: {added} added{more}\n", options.dataset.display()))?;
    }
    Ok(if left_out > 0 { ExitCode::from(DAMAGED) } else { ExitCode::SUCCESS })
}

fn add_one(dataset: &Dataset, result: &Path, labels: &Labels) -> Result<Outcome, DatasetError> {
    // One result has one name in quarantine, wherever the command was typed.
    let whole = std::path::absolute(result).unwrap_or_else(|_| result.to_owned());
    let left_out = |why: String| {
        dataset.quarantine(&whole, &why)?;
        Ok(Outcome::LeftOut(why))
    };
    let run = match store::read_run(result) {
        Ok(run) => run,
        // There is nothing to keep a reason about.
        Err(error @ StoreError::NotAResult { .. }) => {
            return Ok(Outcome::LeftOut(error.to_string()));
        }
        Err(error) => return left_out(error.to_string()),
    };
    let identity = match Identity::of(&run, labels.get("host").map(String::as_str)) {
        Ok(identity) => identity,
        Err(why) => return left_out(why),
    };
    let held = dataset.holds(&identity, run.state);
    if held == Held::Whole {
        dataset.release(&whole);
        return Ok(Outcome::There);
    }
    let (recording, problems) = match super::report::opened(result) {
        Ok(opened) => opened,
        Err(error) => return left_out(error.to_string()),
    };
    let name = super::shown_name(result);
    if recording.run.state == RunState::Complete && !problems.is_empty() {
        return left_out(problems.join("; "));
    }
    for problem in &problems {
        eprintln!("fathom: {name}: {problem}; it is added as incomplete");
    }
    ahead(&run).into_iter().for_each(|what| eprintln!("fathom: {name}: {what}"));
    let rows = match ::dataset::rows(&recording, &identity, &name, labels) {
        Ok(rows) => rows,
        Err(error) => return left_out(error.to_string()),
    };
    dataset.add(&identity, &rows, recording.run.state)?;
    dataset.release(&whole);
    Ok(if held == Held::No { Outcome::Added } else { Outcome::Renewed })
}

/// That a result is of the future: by its machine's clock, or by ours.
fn ahead(run: &Run) -> Option<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let seconds = run.started_unix.checked_sub(now).filter(|ahead| *ahead > CLOCK_TOLERANCE_S)?;
    Some(format!(
        "it began {seconds} s after this machine's clock says now; it is added with the time that it has"
    ))
}

/// The failure of a command about a dataset.
pub fn failure(error: DatasetError) -> Failure {
    let code = match &error {
        DatasetError::NotADataset { .. } | DatasetError::Missing { .. } => USAGE,
        DatasetError::Damaged { .. } => DAMAGED,
        _ => CANNOT_MEASURE,
    };
    Failure::new(code, error)
}
