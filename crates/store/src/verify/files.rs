//! The invariants of the files themselves and of the manifest's version.

use facts::SCHEMA_VERSION;

use super::{Report, Subject};
use crate::error::Problem;

pub(super) fn files_whole(subject: &Subject<'_>, report: &mut Report) {
    for problem in subject.problems {
        if matches!(problem, Problem::Changed { .. } | Problem::TornTail { .. }) {
            report.add(|| problem.to_string());
        }
    }
}

pub(super) fn files_expected(subject: &Subject<'_>, report: &mut Report) {
    for name in subject.leftovers {
        report.add(|| format!("{name} should not be there"));
    }
}

pub(super) fn schema_known(subject: &Subject<'_>, report: &mut Report) {
    let found = subject.recording.run.schema;
    if !(1..=SCHEMA_VERSION).contains(&found) {
        report.add(|| format!("version {found}"));
    }
}
