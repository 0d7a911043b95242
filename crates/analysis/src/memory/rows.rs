//! Traffic and cache levels per function, line, module or instruction.
//!
//! What for: what no counter of a memory controller can say. What not: over time (`bandwidth`).

use std::cmp::Ordering;

use facts::{Evidence, Metric};

use super::bandwidth::{Quantity, both, bounds};
use super::levels::LevelShares;
use super::{LINE, Memory};
use crate::hotspots::{Key, RowKey};
use crate::index_map::IndexMap;
use crate::selection::Selection;
use crate::stack::PlaceId;
use crate::threads::ThreadIndex;
use crate::traced::SiteIndex;

/// Sites that are shown together.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it with the most traffic.
    pub place: PlaceId,
    /// Bytes read from memory.
    pub read: Metric,
    /// Bytes written to memory.
    pub write: Metric,
    /// Of all bytes of the program, percent.
    pub share: Metric,
    /// Loads executed.
    pub loads: Metric,
    /// Stores executed.
    pub stores: Metric,
    /// Who served the loads.
    pub levels: LevelShares,
    pub(super) sites: Vec<SiteIndex>,
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

    /// Bytes read and written.
    #[must_use]
    pub fn traffic(&self) -> Metric {
        both(&self.read, &self.write)
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
        self.available()?;
        let keys = if keys.is_empty() { &[Key::Function] } else { keys };
        let groups = self.groups(selection, keys);
        let whole = self.all.read.plus(&self.all.write).total(&self.replayed.strata).0;
        let mut rows: Vec<MemoryRow> =
            groups.into_iter().map(|(key, sites)| self.row(key, sites, whole)).collect();
        rows.sort_by(MemoryRow::larger_first);
        Ok(rows)
    }

    /// Bytes read and written by each selected thread, most first.
    ///
    /// # Errors
    /// Why there are none.
    pub fn by_thread(
        &self,
        selection: &Selection,
    ) -> Result<Vec<(ThreadIndex, Metric, Metric)>, &str> {
        self.available()?;
        if self.profile.whole().is_empty() {
            return Err("without samples nobody knows how long each thread ran");
        }
        let all = &self.all;
        let metric = |quantity: &Quantity, thread| {
            let cells = self.cells_of(thread);
            let total = |values: &[f64]| self.strata.total_of_cells(self.profile, &cells, values);
            let (value, interval) =
                bounds(total(&quantity.likely), total(&quantity.low), total(&quantity.high));
            let bursts = self.strata.bursts() as u64;
            Metric::with_interval(Evidence::Estimated, value, "bytes", interval, bursts)
        };
        let threads = (0..self.profile.threads.all().len()).map(ThreadIndex::new);
        let mut rows: Vec<_> = threads
            .filter(|thread| selection.has_thread(*thread))
            .map(|thread| (thread, metric(&all.read, thread), metric(&all.write, thread)))
            .collect();
        let bytes = |row: &(ThreadIndex, Metric, Metric)| {
            row.1.value.unwrap_or(0.0) + row.2.value.unwrap_or(0.0)
        };
        rows.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
        Ok(rows)
    }

    /// Sites by key, in the order of code.
    fn groups(&self, selection: &Selection, keys: &[Key]) -> Vec<(RowKey, Vec<SiteIndex>)> {
        let stacks = &self.profile.stacks;
        let mut groups: Vec<(RowKey, Vec<SiteIndex>)> = Vec::new();
        let mut known: IndexMap<RowKey, usize> = IndexMap::default();
        for site in self.passed.sites.keys() {
            let place = self.place(*site);
            if !selection.has_place(place) || !self.is_seen(*site) {
                continue;
            }
            let module = stacks.function_of(place).module;
            let key = RowKey::of_code(keys, &stacks.places[place.index()], module).with_site(
                keys,
                &self.profile.types,
                &self.code.sites[site.index()],
            );
            let group = *known.entry(key).or_insert(groups.len());
            if group == groups.len() {
                groups.push((key, Vec::new()));
            }
            groups[group].1.push(*site);
        }
        groups
    }

    pub(crate) fn place(&self, site: SiteIndex) -> PlaceId {
        let site = &self.code.sites[site.index()];
        self.profile.stacks.place_at(site.module, site.offset)
    }

    fn row(&self, key: RowKey, sites: Vec<SiteIndex>, whole: f64) -> MemoryRow {
        let amounts = self.amounts(sites.iter().copied());
        let metric = |quantity: &Quantity, unit| {
            quantity.metric(&self.strata, 1.0, unit, Evidence::Estimated)
        };
        let moved = amounts.read.plus(&amounts.write);
        let share = match whole >= LINE {
            true => moved.metric(&self.strata, whole / 100.0, "percent", Evidence::Estimated),
            false => Metric::unavailable("percent", "the program moved no data to or from memory"),
        };
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
            read: metric(&amounts.read, "bytes"),
            write: metric(&amounts.write, "bytes"),
            share: Metric { high: share.high.map(|high| high.min(100.0)), ..share },
            loads: metric(&amounts.loads, "count"),
            stores: metric(&amounts.stores, "count"),
            levels: self.levels(sites.iter().copied()),
            sites,
        }
    }
}
