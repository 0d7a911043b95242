//! `fathom diff`: opens the results one after the other, compares their figures, judges gates.
//!
//! What not: the statistics (`analysis::compare`).

use std::path::PathBuf;
use std::process::ExitCode;

use report::diff::{Diff, DiffOptions, Gate, Outcome, RunFigures};
use report::{Document, Options, ReportError, View};

use crate::arguments::DiffArguments;
use crate::exit::{Failure, GATE_FAILED, USAGE};
use crate::progress::Progress;

/// Compares results.
pub fn diff(arguments: DiffArguments) -> Result<ExitCode, Failure> {
    let usage = |error: ReportError| Failure::new(USAGE, error);
    let table = Options {
        view: View::parse(&arguments.view).map_err(usage)?,
        group: super::keys(arguments.group.as_deref()).map_err(usage)?,
        ..Options::default()
    };
    let options = DiffOptions::new(table, arguments.metric.clone()).map_err(usage)?;
    let gates = arguments.gate.iter().map(|text| Gate::parse(text)).collect::<Result<Vec<_>, _>>();
    let gates = gates.map_err(usage)?;
    let (base, new) = sides(&arguments)?;
    let mut progress = Progress::new(true);
    let all = base.len() + new.len();
    let mut done = 0;
    let mut read = |side: &[PathBuf]| -> Result<Vec<RunFigures>, Failure> {
        let one = |directory: &PathBuf| {
            let name = super::shown_name(directory);
            progress.show(f64::from(done) / all as f64, &format!("reading {name}"));
            done += 1;
            let recording = super::report::open(directory)?;
            RunFigures::of(&recording, &name, &options).map_err(usage)
        };
        side.iter().map(one).collect()
    };
    let (base, new) = (read(&base)?, read(&new)?);
    drop(progress);
    let diff = Diff::new(&base, &new, &options, &gates, arguments.limit).map_err(usage)?;
    let results = diff.gates.clone();
    let document = Document::Diff(Box::new(diff));
    super::print(&super::rendered(&document, arguments.format))?;
    let fails = |outcome: Outcome| {
        outcome == Outcome::Failed || (arguments.strict && outcome == Outcome::Undecided)
    };
    let failed: Vec<_> = results.iter().filter(|result| fails(result.outcome)).collect();
    for result in &failed {
        eprintln!("fathom: {}", result.sentence());
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(GATE_FAILED) })
}

/// The results of the base and of the new side, from the forms that the help shows.
fn sides(arguments: &DiffArguments) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Failure> {
    let DiffArguments { base, new, results, .. } = arguments;
    let hint = "fathom diff A B, or fathom diff --base A1 A2 ... --new B1 B2 ...";
    match (base.as_slice(), new.as_slice(), results.as_slice()) {
        ([], [], [a, b]) => Ok((vec![a.clone()], vec![b.clone()])),
        ([_, ..], [], [_, ..]) => Ok((base.clone(), results.clone())),
        ([_, ..], [_, ..], []) => Ok((base.clone(), new.clone())),
        _ => Err(Failure::usage(format!(
            "diff needs two sides; it got {} results without a side, {} of the base and {} new ones",
            results.len(),
            base.len(),
            new.len()
        ))
        .hint(hint)),
    }
}
