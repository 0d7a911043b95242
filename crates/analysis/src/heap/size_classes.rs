//! Blocks by size: counted at every call, independent of recorded blocks.
//!
//! What not: code, threads and time, which the counts do not have. A filter on them leaves no rows; a filter that selects whole
//! processes does.

use std::collections::BTreeMap;

use base::{Bytes, Pid};
use facts::Metric;

use crate::profile::Profile;
use crate::selection::Selection;

/// The blocks whose sizes have as many binary digits.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeClassRow {
    /// The process, where processes are distinguished.
    pub process: Option<Pid>,
    /// The smallest size of the class.
    pub smallest: Bytes,
    /// The largest.
    pub largest: Bytes,
    /// Blocks.
    pub allocations: Metric,
    /// Bytes in them.
    pub bytes: Metric,
    /// Share of all blocks of the table.
    pub allocations_percent: Metric,
    /// Share of all bytes of the table.
    pub bytes_percent: Metric,
}

/// Whether sizes are known for a selection: it selects neither code nor time.
fn fits(selection: &Selection) -> bool {
    !selection.chooses_places() && selection.time().is_none()
}

/// All classes with a block, smallest first, and their total; `by_process`: each process for itself.
#[must_use]
pub fn size_class_table(
    profile: &Profile<'_>,
    selection: &Selection,
    by_process: bool,
) -> (Vec<SizeClassRow>, Option<SizeClassRow>) {
    let mut sums: BTreeMap<(Option<Pid>, Bytes), (u64, u64)> = BTreeMap::new();
    let mut all = (0u64, 0u64);
    let classes = profile.recording.size_classes.iter().filter(|_| fits(selection));
    for class in classes.filter(|class| selection.has_whole_process(profile, class.pid)) {
        let key = (by_process.then_some(class.pid), class.largest);
        for sum in [sums.entry(key).or_default(), &mut all] {
            sum.0 = sum.0.saturating_add(class.allocations);
            sum.1 = sum.1.saturating_add(class.allocated.0);
        }
    }
    let row = |process, smallest, largest, (blocks, bytes): (u64, u64)| {
        let share = |part: u64, whole: u64| match whole {
            0 => Metric::unavailable("percent", "all blocks have 0 bytes"),
            whole => Metric::counted(part as f64 / whole as f64 * 100.0, "percent"),
        };
        SizeClassRow {
            process,
            smallest,
            largest,
            allocations: Metric::counted(blocks as f64, "count"),
            bytes: Metric::counted(bytes as f64, "bytes"),
            allocations_percent: share(blocks, all.0),
            bytes_percent: share(bytes, all.1),
        }
    };
    let rows: Vec<SizeClassRow> = sums
        .iter()
        .map(|(&(process, largest), sum)| row(process, smallest(largest), largest, *sum))
        .collect();
    let ends = rows.iter().map(|row| row.smallest).min();
    let ends = ends.zip(rows.iter().map(|row| row.largest).max());
    let total = ends.map(|(smallest, largest)| row(None, smallest, largest, all));
    (rows, total)
}

/// The smallest size with as many binary digits.
fn smallest(largest: Bytes) -> Bytes {
    Bytes(if largest.0 == 0 { 0 } else { largest.0 / 2 + 1 })
}
