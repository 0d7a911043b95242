//! The invariants of marks, pauses and marked regions.

use super::{Report, Subject};
use facts::MarkKind;

/// Only marks have names.
pub(super) fn marks_proper(subject: &Subject<'_>, report: &mut Report) {
    let marks = subject.recording.marks.iter();
    for mark in marks.filter(|mark| (mark.kind == MarkKind::Mark) == mark.name.is_empty()) {
        report
            .add(|| format!("the {:?} at {} ns is named {:?}", mark.kind, mark.time.0, mark.name));
    }
}

/// Region i has id i; passes and their lengths are of regions, and last no longer than they may.
pub(super) fn marked_regions_proper(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let regions = &recording.marked_regions;
    for (row, region) in (0_u32..).zip(regions) {
        if region.id != row {
            report.add(|| format!("region {} is in row {row}", region.id));
        }
    }
    let is_there = |region: u32| (region as usize) < regions.len();
    for pass in &recording.marked_passes {
        if !is_there(pass.region) || pass.inside > pass.span || pass.own > pass.inside {
            report.add(|| format!("{pass:?}"));
        }
    }
    for length in &recording.marked_lengths {
        if !is_there(length.region) || length.least > length.most || length.passes == 0 {
            report.add(|| format!("{length:?}"));
        }
    }
}
