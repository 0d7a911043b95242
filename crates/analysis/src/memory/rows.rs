//! Traffic and hit levels per function, line, module or instruction.
//!
//! What for: what no counter of a memory controller can show. What not: over time (`bandwidth`).

use std::cmp::Ordering;
use std::ops::Deref;

use base::IndexMap;
use estimate::Estimate;
use facts::{Evidence, Metric};

use super::levels::LevelShares;
use super::quantity::Quantity;
use super::{Amounts, LINE, Memory, NOTHING_MOVED, any_line, most_per_second};
use crate::code_keys::CodeKeys;
use crate::hotspots::{Key, RowKey};
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::threads::ThreadIndex;
use crate::traced::SiteIndex;

/// What code did with memory, or with parts of objects.
#[derive(Clone, PartialEq, Debug)]
pub struct Traffic {
    /// Bytes read from memory.
    pub read: Metric,
    /// Bytes written to memory.
    pub write: Metric,
    /// Both.
    pub moved: Metric,
    /// Share of all bytes of the program, percent.
    pub share: Metric,
    /// Loads executed.
    pub loads: Metric,
    /// Stores executed.
    pub stores: Metric,
}

/// Sites that are shown together.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it with the most traffic.
    pub place: LocationId,
    pub(super) traffic: Traffic,
    /// Hit levels of the loads.
    pub levels: LevelShares,
    pub(super) sites: Vec<SiteIndex>,
}

impl Deref for MemoryRow {
    type Target = Traffic;

    fn deref(&self) -> &Traffic {
        &self.traffic
    }
}

/// The traffic of a thread.
#[derive(Clone, Debug)]
pub struct ThreadTraffic {
    /// The thread.
    pub thread: ThreadIndex,
    /// Bytes read from memory.
    pub read: Metric,
    /// Bytes written to memory.
    pub written: Metric,
}

/// What is said of none of something that bursts could have seen.
pub(super) const NONE_SEEN: &str = "none in the bursts";

/// How many bursts have these accesses, and what is said of something that none of them had.
pub(super) fn none_of(accesses: &Quantity, one: &str, many: &str) -> (usize, String) {
    let bursts = accesses.0.iter().filter(|one| one.best > 0.0).count();
    let count = accesses.sum();
    let what = if count == 1.0 { one } else { many };
    let plural = if bursts == 1 { "" } else { "s" };
    (bursts, format!("none of {count:.0} {what} in {bursts} burst{plural}"))
}

/// An amount of which these accesses had nothing in any burst, with the upper end that this leaves: up to 3 in n bursts may
/// (`Strata::opened`) do `most` of it. The second is how much higher that is. Without an access there is no doubt.
pub(super) fn opened(amount: Metric, accesses: &Quantity, most: f64) -> (Metric, Option<f64>) {
    let (bursts, why) = none_of(accesses, "access", "accesses");
    if amount.value != Some(0.0) || amount.high != Some(0.0) || bursts == 0 {
        return (amount, None);
    }
    let high = 3.0 / bursts.max(3) as f64 * most;
    (Metric { high: Some(high), ..amount }.noted(&why), Some(high))
}

impl MemoryRow {
    /// Most bytes first, then most loads.
    pub(super) fn larger_first(&self, other: &MemoryRow) -> Ordering {
        let amount = |row: &MemoryRow| {
            let bytes = row.read.value.unwrap_or(0.0) + row.write.value.unwrap_or(0.0);
            (bytes, row.loads.value.unwrap_or(0.0))
        };
        amount(other).partial_cmp(&amount(self)).unwrap_or(Ordering::Equal)
    }

    /// Its sites.
    #[must_use]
    pub fn sites(&self) -> &[SiteIndex] {
        &self.sites
    }
}

impl Memory<'_> {
    /// Rows of the selected code, most traffic first, then most loads.
    ///
    /// # Errors
    /// Why there are none.
    pub fn rows(&self, selection: &Selection, keys: &[Key]) -> Result<Vec<MemoryRow>, &str> {
        self.rows_by(selection, &CodeKeys::new(self.profile, keys))
    }

    /// The same, by keys that are shared with other figures.
    ///
    /// # Errors
    /// Why there are none.
    pub fn rows_by(
        &self,
        selection: &Selection,
        keys: &CodeKeys<'_>,
    ) -> Result<Vec<MemoryRow>, &str> {
        self.available()?;
        let groups = self.groups(selection, keys);
        let whole = self.whole_traffic();
        let mut rows: Vec<MemoryRow> =
            groups.into_iter().map(|(key, sites)| self.row(key, sites, &whole)).collect();
        rows.sort_by(MemoryRow::larger_first);
        Ok(rows)
    }

    /// Bytes read and written by each selected thread, most first.
    ///
    /// # Errors
    /// Why there are none.
    pub fn by_thread(&self, selection: &Selection) -> Result<Vec<ThreadTraffic>, &str> {
        self.available()?;
        if self.profile.whole().is_empty() {
            return Err("the running time of each thread is unknown without samples");
        }
        let all = &self.all;
        let row = |thread| {
            let cells = self.cells_of(thread);
            let expansion = self.strata.expansion_of_cells(self.profile, &cells);
            let metric = |quantity| expansion.metric(quantity, (1.0, "bytes"), Evidence::Estimated);
            ThreadTraffic { thread, read: metric(&all.read), written: metric(&all.write) }
        };
        let threads = (0..self.profile.threads.all().len()).map(ThreadIndex::new);
        let mut rows: Vec<_> =
            threads.filter(|thread| selection.has_thread(*thread)).map(row).collect();
        let bytes =
            |row: &ThreadTraffic| row.read.value.unwrap_or(0.0) + row.written.value.unwrap_or(0.0);
        rows.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
        Ok(rows)
    }

    /// Sites by key, in the order of code.
    fn groups(&self, selection: &Selection, by: &CodeKeys<'_>) -> Vec<(RowKey, Vec<SiteIndex>)> {
        let mut groups: Vec<(RowKey, Vec<SiteIndex>)> = Vec::new();
        let mut known: IndexMap<RowKey, usize> = IndexMap::default();
        for site in self.passed.sites.keys() {
            let code = &self.code.sites[site.index()];
            let (key, place) = by.at(code.instruction);
            if !selection.has_place(place) || !self.is_seen(*site) {
                continue;
            }
            let key = key.with_site(by.keys, &self.profile.types, code);
            let group = *known.entry(key).or_insert(groups.len());
            if group == groups.len() {
                groups.push((key, Vec::new()));
            }
            groups[group].1.push(*site);
        }
        groups
    }

    pub(crate) fn place(&self, site: SiteIndex) -> LocationId {
        let site = &self.code.sites[site.index()];
        self.profile.stacks.place_at(site.instruction)
    }

    /// All bytes of the whole program.
    pub(super) fn whole_traffic(&self) -> Estimate {
        let moved = self.all.read.plus(&self.all.write);
        self.replayed.strata.expansion().total(&moved).map(any_line)
    }

    /// Amounts over the run.
    pub(super) fn traffic(&self, amounts: &Amounts, whole: &Estimate) -> Traffic {
        let metric = |quantity: &Quantity, unit| {
            self.strata.amount(quantity, unit, Evidence::Estimated, most_per_second(unit))
        };
        let moved = amounts.read.plus(&amounts.write);
        let share = self.expansion().percent(&moved, whole, Evidence::Estimated, NOTHING_MOVED);
        let (loads, stores) = (metric(&amounts.loads, "count"), metric(&amounts.stores, "count"));
        // No row moves more than the program.
        let all = whole.interval().1;
        let lines = |count: &Metric| (count.high.unwrap_or(0.0) * LINE).min(all);
        let accesses = amounts.loads.plus(&amounts.stores);
        // A store reads its line, too.
        let read = opened(
            metric(&amounts.read, "bytes"),
            &accesses,
            (lines(&loads) + lines(&stores)).min(all),
        );
        let write = opened(metric(&amounts.write, "bytes"), &amounts.stores, lines(&stores));
        let more: f64 = [&read, &write].iter().filter_map(|one| one.1).sum();
        let wider = |metric: Metric, more: f64, most: f64| {
            let high = metric.high.map(|high| (high + more).min(most));
            let note = metric.note.clone().or_else(|| read.0.note.clone());
            let note = if metric.value == Some(0.0) { note } else { metric.note.clone() };
            Metric { high, note, ..metric }
        };
        Traffic {
            moved: wider(metric(&moved, "bytes"), more, f64::INFINITY),
            share: wider(share.metric(), more / whole.point().max(LINE) * 100.0, 100.0),
            read: read.0,
            write: write.0,
            loads,
            stores,
        }
    }

    fn row(&self, key: RowKey, sites: Vec<SiteIndex>, whole: &Estimate) -> MemoryRow {
        let busiest = sites.iter().max_by_key(|site| {
            let outcomes = &self.passed.sites[site];
            (
                outcomes.llc.absent.total(),
                outcomes.loads + outcomes.stores,
                std::cmp::Reverse(**site),
            )
        });
        MemoryRow {
            key,
            place: busiest.map_or(crate::stack::NO_STACK, |site| self.place(*site)),
            traffic: self.traffic(&self.amounts(sites.iter().copied()), whole),
            levels: self.levels(sites.iter().copied()),
            sites,
        }
    }
}

#[cfg(test)]
mod tests {
    use estimate::Bounds;

    use super::*;

    #[test]
    fn none_in_a_few_bursts_leaves_more_open_than_none_in_many() {
        let none = || Metric::with_interval(Evidence::Estimated, 0.0, "bytes", (0.0, 0.0), 9);
        let accesses = |bursts: usize| {
            let some = |at| Bounds::exactly(if at < bursts { 7.0 } else { 0.0 });
            Quantity((0..100).map(some).collect())
        };
        let high = |bursts| opened(none(), &accesses(bursts), 600.0).0.high;
        assert_eq!([1, 3, 30].map(high), [600.0, 600.0, 60.0].map(Some));
        let (few, more) = opened(none(), &accesses(1), 600.0);
        assert_eq!(
            (few.note.as_deref(), more),
            (Some("none of 7 accesses in 1 burst"), Some(600.0))
        );
        // Code without a store writes nothing, and what was seen has an interval of its own.
        assert_eq!(opened(none(), &accesses(0), 600.0), (none(), None));
        let some = Metric { value: Some(5.0), high: Some(9.0), ..none() };
        assert_eq!(opened(some.clone(), &accesses(3), 600.0), (some, None));
    }
}
