//! `fathom report`: opens a result and renders a view.
//!
//! What not: views (`report`).

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use collect::symbolise;
use facts::{Fact, Frame, Recording, Run, RunState};
use report::{Document, Options, Topology, View};
use store::{Answer, Answers, Opened, StoreError};

use crate::arguments::{Format, ReportOptions};
use crate::exit::{CANNOT_MEASURE, DAMAGED, Failure, USAGE};

/// Larger source files are generated or not source; they are not shown.
const SOURCE_LIMIT: u64 = 16 << 20;

/// Shows a view.
pub fn report(options: &ReportOptions) -> Result<ExitCode, Failure> {
    let request = parse(options)?;
    let directory = super::result_directory(options.result.as_ref())?;
    let request = Options { result_name: super::shown_name(&directory), ..request };
    // Into a file there are no colours.
    let (width, colour) = (super::width(), options.output.is_none() && super::colour());
    let render = |document: &Document| match options.format {
        Format::Text => document.text(width, colour),
        other => super::rendered(document, other),
    };
    let look = match options.format {
        Format::Text => format!("text {width} {colour}"),
        other => format!("{other:?}"),
    };
    let answer = answer(&directory, &request, &look);
    let text = match answer.as_ref().and_then(Answer::read) {
        Some(text) => text,
        None => {
            let (recording, problems) = open_with_problems(&directory)?;
            let text = render(&build_of(&recording, &request)?);
            if let Some(answer) = answer.filter(|_| problems.is_empty()) {
                answer.keep(&text, recording.run.limit_bytes);
            }
            text
        }
    };
    match &options.output {
        None => super::print(&text),
        Some(file) => super::write(file, text.as_bytes()),
    }
}

/// The stored answer of a view that reads traced accesses, for this build of Fathom; other views are fast.
fn answer(directory: &Path, request: &Options, look: &str) -> Option<Answer> {
    if !request.view.is_traced() {
        return None;
    }
    Some(Answers::of(directory)?.to(format!("{} {request:?} {look}", this_build()?).as_bytes()))
}

/// Other builds may answer otherwise.
pub fn this_build() -> Option<String> {
    let build = std::env::current_exe().and_then(|file| file.metadata()).ok()?;
    Some(format!("{:?}", (env!("CARGO_PKG_VERSION"), build.len(), build.modified().ok()?)))
}

/// Prints the summary of a new result.
pub fn print_summary(directory: &Path) -> Result<(), Failure> {
    let request = Options { result_name: super::shown_name(directory), ..Options::default() };
    let document = build(directory, &request)?;
    super::print(&document.text(super::width(), super::colour())).map(|_| ())
}

/// Prints the summary of a result whose tables are being written.
pub fn print_summary_of(directory: &Path, opened: Opened) -> Result<(), Failure> {
    print_problems(directory, &opened.problems);
    print_summary_of_recording(directory, opened.recording)
}

/// Prints the summary of a result that is not closed yet, with the names known so far.
pub fn print_early_summary(directory: &Path, run: &Run, frames: &[Frame]) -> Result<(), Failure> {
    let opened = store::open(directory);
    let mut recording = opened.map_err(|error| Failure::new(DAMAGED, error))?.recording;
    recording.run = Run { state: RunState::Complete, ..run.clone() };
    frames.iter().for_each(|frame| recording.add(Fact::Frame(frame.clone())));
    let assigned = symbolise::assignments(&recording.modules, frames);
    assigned.into_iter().for_each(|one| recording.add(Fact::Assignment(one)));
    print_summary_of_recording(directory, recording)
}

fn print_summary_of_recording(directory: &Path, mut recording: Recording) -> Result<(), Failure> {
    let request = Options { result_name: super::shown_name(directory), ..Options::default() };
    analysis::count_thread_ends(&mut recording);
    let document = build_of(&recording, &request)?;
    super::print(&document.text(super::width(), super::colour())).map(|_| ())
}

fn parse(options: &ReportOptions) -> Result<Options, Failure> {
    let usage = |error| Failure::new(USAGE, error);
    Ok(Options {
        view: View::parse(&options.view).map_err(usage)?,
        group: super::keys(options.group.as_deref()).map_err(usage)?,
        filters: options
            .filter
            .iter()
            .map(|text| report::parse_filter(text))
            .collect::<Result<_, _>>()
            .map_err(usage)?,
        limit: options.limit,
        sort: options.sort.clone(),
        columns: options.columns.clone(),
        bands: options
            .bands
            .as_deref()
            .map(report::parse_bands)
            .transpose()
            .map_err(usage)?
            .unwrap_or_default(),
        topology: options.topology.as_deref().map(topology).transpose()?,
        wrappers: options.wrappers.clone(),
        detail: options.detail,
        result_name: String::new(),
    })
}

/// A machine's own description, in a file, or a shape.
fn topology(text: &str) -> Result<Topology, Failure> {
    let path = Path::new(text);
    if !path.is_file() {
        return Topology::parse(text).map_err(Failure::usage);
    }
    let usage = |why: &str| {
        Failure::usage(format!("{text} is not what `fathom machine --format json` writes: {why}"))
    };
    let described = read_source(path).ok_or_else(|| usage("it cannot be read"))?;
    let mut machine: serde_json::Value =
        serde_json::from_str(&described).map_err(|error| usage(&error.to_string()))?;
    let mut part = |name: &str| machine.get_mut(name).map(serde_json::Value::take);
    let (host, calibration) = (part("host").unwrap_or_default(), part("calibration"));
    let host = serde_json::from_value(host).map_err(|error| usage(&error.to_string()))?;
    let calibration = calibration.map(serde_json::from_value).transpose();
    let calibration: Option<_> = calibration.map_err(|error| usage(&error.to_string()))?;
    Topology::of_machine(text, &host, calibration.as_ref()).map_err(Failure::usage)
}

fn build(directory: &Path, request: &Options) -> Result<Document, Failure> {
    build_of(&open(directory)?, request)
}

fn build_of(recording: &Recording, request: &Options) -> Result<Document, Failure> {
    let working_directory = PathBuf::from(&recording.run.working_directory);
    let sources = |path: &str| read_source(&working_directory.join(path));
    report::build(recording, request, &sources).map_err(|error| Failure::new(USAGE, error))
}

/// Opens a result. Problems that do not prevent this are printed to stderr.
pub fn open(directory: &Path) -> Result<Recording, Failure> {
    open_with_problems(directory).map(|(recording, _)| recording)
}

/// The same, with the problems.
pub fn open_with_problems(directory: &Path) -> Result<(Recording, Vec<String>), Failure> {
    let (recording, problems) = opened(directory).map_err(|error| {
        let code = store_error_code(&error, DAMAGED);
        Failure::new(code, error)
    })?;
    print_problems(directory, &problems);
    Ok((recording, problems))
}

fn print_problems(directory: &Path, problems: &[impl Display]) {
    for problem in problems {
        eprintln!("fathom: {}: {problem}", directory.display());
    }
}

/// The same, and prints nothing.
pub fn opened(directory: &Path) -> Result<(Recording, Vec<String>), StoreError> {
    let opened = store::open(directory)?;
    let mut recording = opened.recording;
    if recording.run.state == RunState::Incomplete && recording.frames.is_empty() {
        name_symbols(&mut recording);
    }
    analysis::count_thread_ends(&mut recording);
    Ok((recording, opened.problems.iter().map(ToString::to_string).collect()))
}

/// Names the functions of a result whose profiler died before it did, as far as the files still exist.
fn name_symbols(recording: &mut Recording) {
    let mut addresses: Vec<_> =
        recording.stack_nodes.iter().map(facts::StackNode::code_address).collect();
    let traced = symbolise::traced_addresses(&recording.blocks);
    addresses.extend(&traced);
    let options = symbolise::Options { typed: traced, ..symbolise::Options::default() };
    let named = symbolise::symbolise(&recording.modules, &addresses, &options, &mut |_| {});
    recording.run.notes.extend(named.problems);
    named.frames.into_iter().for_each(|frame| recording.add(Fact::Frame(frame)));
    named.types.into_iter().for_each(|typed| recording.add(Fact::AccessType(typed)));
    named.assignments.into_iter().for_each(|one| recording.add(Fact::Assignment(one)));
}

/// The text of a file; `None` when it cannot be had or is too large for a source file.
pub fn read_source(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > SOURCE_LIMIT {
        return None;
    }
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The exit code for a failure of the store; `otherwise` for those that are neither usage nor damage.
pub fn store_error_code(error: &StoreError, otherwise: u8) -> u8 {
    match error {
        StoreError::Exists { .. } | StoreError::NotAResult { .. } => USAGE,
        StoreError::Damaged { .. } => DAMAGED,
        StoreError::Newer { .. } => CANNOT_MEASURE,
        _ => otherwise,
    }
}
