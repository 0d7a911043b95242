//! `fathom dataset`: opens results one after the other and adds their figures to a dataset; checks one.
//!
//! What not: the files of a dataset, and which figures (`dataset`); a dataset in an S3 store (`store`). What one result lacks never stops the others; a dataset that
//! cannot be written stops all, and the same command goes on from there.

mod store;

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::dataset::{Dataset, DatasetError, Identity, Labels, Membership, Rows, Verified};
use ::store::StoreError;
use facts::{Run, RunState};
use sys::process::{Signal, SignalFd};

use crate::arguments::{AddOptions, DatasetAction};
use crate::exit::{CANNOT_MEASURE, DAMAGED, Failure, USAGE};
use crate::progress::Progress;
use crate::redact::{Redact, redact, redact_run};
use crate::s3::Bucket;

pub use self::store::Stored;

/// A clock may be ahead by this before it is said: results come from machines whose clocks differ by less.
const CLOCK_TOLERANCE_S: u64 = 2;

/// How often `--watch` looks at its folder.
const LOOK: Duration = Duration::from_secs(1);
/// A recording is written to every second; one that was not for so long has no profiler any more.
const QUIET: Duration = Duration::from_secs(60);

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

/// The store that a name is of, if it is of one.
pub fn bucket(dataset: &Path) -> Result<Option<Bucket>, Failure> {
    let name = dataset.to_string_lossy();
    if !Bucket::is_named(&name) {
        return Ok(None);
    }
    Bucket::new(&name, |name| std::env::var(name).ok()).map(Some).map_err(store::failure)
}

fn verify(path: &Path) -> Result<ExitCode, Failure> {
    let name = path.display().to_string();
    if Bucket::is_named(&name) {
        return Err(Failure::usage("verify reads all files of a dataset: it needs a copy")
            .hint(format!("aws s3 sync {name} copy && fathom dataset verify copy")));
    }
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

/// Where a dataset is.
enum Location {
    Folder(Dataset),
    Store(Box<Stored>),
}

impl Location {
    fn create(path: &Path) -> Result<Location, Failure> {
        match bucket(path)? {
            Some(bucket) => Stored::create(bucket).map(|stored| Location::Store(Box::new(stored))),
            None => Dataset::create(path).map(Location::Folder).map_err(failure),
        }
    }

    fn holds(&self, identity: &Identity, state: RunState) -> Result<Membership, Failure> {
        match self {
            Location::Folder(dataset) => Ok(dataset.holds(identity, state)),
            Location::Store(stored) => stored.holds(identity, state),
        }
    }

    fn add(
        &self,
        identity: &Identity,
        rows: &Rows,
        state: RunState,
        held: Membership,
    ) -> Result<(), Failure> {
        match self {
            Location::Folder(dataset) => dataset.add(identity, rows, state).map_err(failure),
            Location::Store(stored) => stored.add(identity, rows, state, held),
        }
    }

    fn quarantine(&self, result: &Path, reason: &str) -> Result<(), Failure> {
        match self {
            Location::Folder(dataset) => {
                dataset.quarantine(result, reason).map(drop).map_err(failure)
            }
            Location::Store(stored) => stored.quarantine(result, reason),
        }
    }

    fn release(&self, result: &Path) -> Result<(), Failure> {
        match self {
            Location::Folder(dataset) => {
                dataset.release(result);
                Ok(())
            }
            Location::Store(stored) => stored.release(result),
        }
    }
}

/// A dataset that is added to, and how.
struct Adding<'a> {
    dataset: Location,
    labels: Labels,
    redact: &'a [Redact],
    counts: [usize; 4],
}

impl Adding<'_> {
    /// Adds a result, counts it, and says why it was left out.
    fn add(&mut self, result: &Path) -> Result<(), Failure> {
        let at = match self.add_one(result)? {
            Outcome::Added => 0,
            Outcome::Renewed => 1,
            Outcome::There => 2,
            Outcome::LeftOut(why) => {
                eprintln!("fathom: {} was left out: {why}", super::shown_name(result));
                LEFT_OUT
            }
        };
        self.counts[at] += 1;
        Ok(())
    }
}

/// Where [`Adding::counts`] has those that were left out.
const LEFT_OUT: usize = 3;

fn add(options: &AddOptions) -> Result<ExitCode, Failure> {
    let mut adding = Adding {
        dataset: Location::create(&options.dataset)?,
        labels: options.labels.iter().cloned().collect(),
        redact: &options.redact,
        counts: [0; 4],
    };
    match &options.watch {
        Some(folder) => add_as_they_come(&mut adding, folder)?,
        None => {
            let mut progress = Progress::new(!options.quiet);
            for (at, result) in options.results.iter().enumerate() {
                let done = at as f64 / options.results.len() as f64;
                progress.show(done, &format!("adding {}", super::shown_name(result)));
                adding.add(result)?;
            }
        }
    }
    let [added, renewed, there, left_out] = adding.counts;
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

/// Adds the results in a folder, those that are there and those that come, until a signal ends it. One that is not complete is
/// still being recorded, or its profiler died: it is added when nothing was written into it for a minute.
fn add_as_they_come(adding: &mut Adding<'_>, folder: &Path) -> Result<(), Failure> {
    let signals = SignalFd::of(&[Signal::Interrupt, Signal::Terminate, Signal::HangUp])
        .map_err(|error| Failure::new(CANNOT_MEASURE, error))?;
    // With the time of their manifest: one that changed is looked at again.
    let mut known = BTreeSet::new();
    loop {
        let entries = std::fs::read_dir(folder).map_err(|error| {
            Failure::usage(format!("cannot read {}: {error}", folder.display()))
        })?;
        let mut results: Vec<_> =
            entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        results.sort();
        for result in results {
            let Some(written) = written(&result.join("run.json")) else { continue };
            let is_whole =
                || ::store::read_run(&result).is_ok_and(|run| run.state == RunState::Complete);
            if known.contains(&(result.clone(), written)) || !(is_whole() || is_quiet(&result)) {
                continue;
            }
            adding.add(&result)?;
            known.insert((result, written));
        }
        if sys::process::wait_for_data(&[signals.as_fd()], LOOK).unwrap_or(false) {
            return Ok(());
        }
    }
}

fn written(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|about| about.modified()).ok()
}

/// Whether nothing was written into a result for a while.
fn is_quiet(result: &Path) -> bool {
    let entries = std::fs::read_dir(result).into_iter().flatten().filter_map(Result::ok);
    let newest = entries.filter_map(|entry| written(&entry.path())).max();
    newest.and_then(|newest| newest.elapsed().ok()).is_some_and(|since| since > QUIET)
}

impl Adding<'_> {
    fn add_one(&self, result: &Path) -> Result<Outcome, Failure> {
        let Adding { dataset, labels, .. } = self;
        // One result has one name in quarantine, wherever the command was typed.
        let whole = std::path::absolute(result).unwrap_or_else(|_| result.to_owned());
        let left_out = |why: String| {
            dataset.quarantine(&whole, &why)?;
            Ok(Outcome::LeftOut(why))
        };
        let mut run = match ::store::read_run(result) {
            Ok(run) => run,
            // There is nothing to keep a reason about.
            Err(error @ StoreError::NotAResult { .. }) => {
                return Ok(Outcome::LeftOut(error.to_string()));
            }
            Err(error) => return left_out(error.to_string()),
        };
        // Before its name, which is a hash of the command, too.
        redact_run(&mut run, self.redact);
        let identity = match Identity::of(&run, labels.get("host").map(String::as_str)) {
            Ok(identity) => identity,
            Err(why) => return left_out(why),
        };
        let held = dataset.holds(&identity, run.state)?;
        if held == Membership::Whole {
            dataset.release(&whole)?;
            return Ok(Outcome::There);
        }
        let (mut recording, problems) = match super::report::opened(result) {
            Ok(opened) => opened,
            Err(error) => return left_out(error.to_string()),
        };
        redact(&mut recording, self.redact);
        let mut name = super::shown_name(result);
        if self.redact.contains(&Redact::Paths) {
            name = result.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
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
        dataset.add(&identity, &rows, recording.run.state, held)?;
        dataset.release(&whole)?;
        Ok(if held == Membership::No { Outcome::Added } else { Outcome::Renewed })
    }
}

/// That a result is of the future: by its machine's clock, or by ours.
fn ahead(run: &Run) -> Option<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let seconds = run.started_unix.checked_sub(now).filter(|ahead| *ahead > CLOCK_TOLERANCE_S)?;
    Some(format!(
        "by this machine's clock it begins {seconds} s in the future; it is added with the time that it states"
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
