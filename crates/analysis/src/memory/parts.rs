//! Traffic, loads and latency by memory object.
//!
//! What for: the estimates of `rows` and `latency` with parts of objects as the key: the same bursts, the same model of unknown
//! outcomes, the same scaling to the run and the same intervals. So rows over all objects add up to the figures of the whole
//! program. What not: what the objects are (`objects`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use base::BurstId;
use estimate::{Bounds, Estimate};
use facts::{Burst, Evidence, Metric};

use super::latency::{Latency, LatencyRow};
use super::quantity::Quantity;
use super::rows::MemoryRow;
use super::work::{BurstWork, PartWork, SiteWork};
use super::{Amounts, LINE, Memory, NOTHING_MOVED, any_line, most_per_second};
use crate::accesses::is_chosen;
use crate::hotspots::RowKey;
use crate::objects::{Grouping, Part};
use crate::parallel;
use crate::stack::NO_STACK;
use crate::traced::SiteIndex;

/// What a row is made of.
type Parts = Vec<(SiteIndex, Part)>;

/// Code and parts of objects that are shown together.
#[derive(Clone, PartialEq, Debug)]
pub struct PartRow {
    /// What it is.
    pub key: RowKey,
    /// Bytes read from memory.
    pub read: Metric,
    /// Bytes written to memory.
    pub write: Metric,
    /// Both.
    moved: Metric,
    /// Of all bytes of the program, percent.
    pub share: Metric,
    /// Loads executed.
    pub loads: Metric,
    /// Stores executed.
    pub stores: Metric,
    /// Latency of its loads, or why it is not known.
    pub latency: Result<Latency, String>,
}

impl PartRow {
    /// Bytes read and written.
    #[must_use]
    pub fn traffic(&self) -> Metric {
        self.moved.clone()
    }
}

impl Memory<'_> {
    /// Rows of objects, most traffic first, then most loads. The grouping's pieces must be those of
    /// [`Memory::with_objects`].
    ///
    /// # Errors
    /// Why there are none.
    pub fn part_rows(&self, grouping: &Grouping<'_>) -> Result<Vec<PartRow>, &str> {
        self.available()?;
        let chosen = self.chosen(grouping);
        let groups = self.groups_of_parts(grouping, &chosen);
        let whole = self.whole_traffic();
        let groups: Vec<(RowKey, Parts)> = groups.into_iter().collect();
        let row =
            |(key, parts): &(RowKey, Parts)| Some(self.part_row(*key, parts, &chosen, &whole));
        let mut rows = parallel::each(&groups, row);
        let amount = |row: &PartRow| (row.traffic().value, row.loads.value);
        let amounts = rows.iter().flatten().map(|row| {
            let (traffic, loads) = amount(row);
            (traffic.unwrap_or(0.0), loads.unwrap_or(0.0))
        });
        Ok(by_weight(amounts.collect()).into_iter().filter_map(|at| rows[at].take()).collect())
    }

    /// As many of the same rows as `most`, of those that are wanted. Of the others only what rows are sorted by is computed:
    /// who shows the first few of 100,000 objects need not wait for all.
    ///
    /// # Errors
    /// Why there are none.
    pub fn first_part_rows(
        &self,
        grouping: &Grouping<'_>,
        wanted: impl Fn(&RowKey) -> bool,
        most: usize,
    ) -> Result<Vec<PartRow>, &str> {
        self.available()?;
        let chosen = self.chosen(grouping);
        let groups = self.groups_of_parts(grouping, &chosen);
        let groups: Vec<(RowKey, Parts)> =
            groups.into_iter().filter(|(key, _)| wanted(key)).collect();
        let weights = groups.iter().map(|(_, parts)| self.weight_of_parts(parts, &chosen));
        let order = by_weight(weights.collect());
        let whole = self.whole_traffic();
        let first = order.into_iter().take(most).map(|at| &groups[at]);
        Ok(first.map(|(key, parts)| self.part_row(*key, parts, &chosen, &whole)).collect())
    }

    /// The same as rows of code have it, with cache levels. Those are of instructions: where one goes to several objects,
    /// it has the same levels in the row of each.
    ///
    /// # Errors
    /// Why there are none.
    pub fn rows_of_objects(&self, grouping: &Grouping<'_>) -> Result<Vec<MemoryRow>, &str> {
        Ok(self.code_of_objects(grouping)?.into_iter().map(|(row, _)| row).collect())
    }

    /// Latency by object, largest share of the time of loads first; levels as in [`Memory::rows_of_objects`].
    ///
    /// # Errors
    /// Why there are no rows.
    pub fn latency_rows_of_objects(
        &self,
        grouping: &Grouping<'_>,
    ) -> Result<Vec<LatencyRow>, String> {
        let chosen = self.chosen(grouping);
        let is_chosen = |burst: BurstId| chosen.get(&burst).copied().unwrap_or(false);
        let rows = self.code_of_objects(grouping)?.into_iter().map(|(row, parts)| {
            let loads = parts
                .iter()
                .map(|(site, part)| (*site, *part, self.loads_of_part(*site, *part, is_chosen)));
            (row, self.weighted_of_parts(loads, is_chosen))
        });
        Ok(self.with_latency(rows))
    }

    /// Rows with what they are made of.
    fn code_of_objects(&self, grouping: &Grouping<'_>) -> Result<Vec<(MemoryRow, Parts)>, &str> {
        self.available()?;
        let chosen = self.chosen(grouping);
        let groups = self.groups_of_parts(grouping, &chosen);
        let whole = self.whole_traffic();
        let mut rows: Vec<(MemoryRow, Parts)> = groups
            .into_iter()
            .map(|(key, parts)| {
                let amounts = self.part_row(key, &parts, &chosen, &whole);
                (self.code_of_part(grouping, amounts, &parts, &chosen), parts)
            })
            .collect();
        rows.sort_by(|(a, _), (b, _)| MemoryRow::larger_first(a, b));
        Ok(rows)
    }

    fn code_of_part(
        &self,
        grouping: &Grouping<'_>,
        amounts: PartRow,
        parts: &Parts,
        chosen: &HashMap<BurstId, bool>,
    ) -> MemoryRow {
        let works = |site: SiteIndex, part: Part| {
            let is_chosen = |burst: &BurstWork| chosen.get(&self.id_of(burst)) == Some(&true);
            self.works_of_part(site, part).filter(move |(_, burst, ..)| is_chosen(burst))
        };
        let executed = |(site, part): &&(SiteIndex, Part)| -> u64 {
            works(*site, *part).map(|(_, _, _, work)| work.loads + work.stores).sum()
        };
        let busiest = parts.iter().max_by_key(|one| (executed(one), Reverse(one.0)));
        let levels = self.levels_of(parts.iter().map(|(site, part)| {
            let works = works(*site, *part);
            (*site, works.map(|(number, burst, _, work)| (number, burst, work.loads)))
        }));
        let PartRow { key, read, write, moved, share, loads, stores, .. } = amounts;
        MemoryRow {
            key,
            place: busiest.map_or(NO_STACK, |(site, _)| grouping.place(*site)),
            read,
            write,
            moved,
            share,
            loads,
            stores,
            levels,
            sites: parts.iter().map(|(site, _)| *site).collect(),
        }
    }

    /// Sites and parts of objects by row.
    fn groups_of_parts(
        &self,
        grouping: &Grouping<'_>,
        chosen: &HashMap<BurstId, bool>,
    ) -> BTreeMap<RowKey, Parts> {
        let mut groups: BTreeMap<RowKey, Parts> = BTreeMap::new();
        for (site, part) in self.parts.keys() {
            let Some(key) = grouping.row(*site, *part) else { continue };
            // What only other threads use, or at other times, makes no row.
            let mut bursts = self.works_of_part(*site, *part);
            if bursts.any(|(_, burst, ..)| chosen.get(&self.id_of(burst)) == Some(&true)) {
                groups.entry(key).or_default().push((*site, *part));
            }
        }
        groups
    }

    fn id_of(&self, burst: &BurstWork) -> BurstId {
        self.profile.recording.bursts[burst.burst].id
    }

    /// All bytes of the whole program.
    fn whole_traffic(&self) -> Estimate {
        let moved = self.all.read.plus(&self.all.write);
        self.replayed.strata.expansion().total(&moved).map(any_line)
    }

    /// Whether the selection has a burst.
    fn chosen(&self, grouping: &Grouping<'_>) -> HashMap<BurstId, bool> {
        let bursts = &self.profile.recording.bursts;
        let asked = |burst: &Burst| is_chosen(self.profile, grouping.selection, burst);
        bursts.iter().map(|burst| (burst.id, asked(burst))).collect()
    }

    fn part_row(
        &self,
        key: RowKey,
        parts: &[(SiteIndex, Part)],
        chosen: &HashMap<BurstId, bool>,
        whole: &Estimate,
    ) -> PartRow {
        let is_chosen = |burst: BurstId| chosen.get(&burst).copied().unwrap_or(false);
        let amounts = self.amounts_of_parts(parts, is_chosen);
        let metric = |quantity: &Quantity, unit| {
            self.strata.amount(quantity, unit, Evidence::Estimated, most_per_second(unit))
        };
        let moved = amounts.read.plus(&amounts.write);
        let share =
            self.expansion().percent(&moved, whole, Evidence::Estimated, NOTHING_MOVED).metric();
        let loads = parts
            .iter()
            .map(|(site, part)| (*site, *part, self.loads_of_part(*site, *part, is_chosen)));
        PartRow {
            key,
            read: metric(&amounts.read, "bytes"),
            write: metric(&amounts.write, "bytes"),
            moved: metric(&moved, "bytes"),
            share,
            loads: metric(&amounts.loads, "count"),
            stores: metric(&amounts.stores, "count"),
            latency: self.latency_of_parts(loads, is_chosen),
        }
    }

    /// Bytes moved over the run, and loads: likely.
    fn weight_of_parts(
        &self,
        parts: &[(SiteIndex, Part)],
        chosen: &HashMap<BurstId, bool>,
    ) -> (f64, f64) {
        let works = || {
            let works = parts.iter().flat_map(|(site, part)| self.works_of_part(*site, *part));
            works.filter(|(_, burst, ..)| chosen.get(&self.id_of(burst)) == Some(&true))
        };
        let moved = works().map(|(number, burst, site, part)| {
            let (fills, written) = self.moved_by(burst, site, part);
            (number, fills.best + written.best)
        });
        let loads = works().map(|(number, _, _, part)| (number, part.loads as f64));
        (self.expansion().sum(moved), self.expansion().sum(loads))
    }

    /// Bytes that a burst read from memory and wrote to it, at a site in a part.
    fn moved_by(&self, burst: &BurstWork, site: &SiteWork, part: &PartWork) -> (Bounds, Bounds) {
        // First touches by time are those of the site: so the parts' lines sum up to the site's.
        let fills = self.model.fetched(burst, site, &part.fills).times(LINE);
        let dirtied = self.model.dirtied(burst, site, &part.dirtied).times(LINE);
        (fills, dirtied.plus(Bounds::exactly(part.streamed as f64)))
    }

    /// What some sites did with some parts, per burst.
    fn amounts_of_parts(
        &self,
        parts: &[(SiteIndex, Part)],
        chosen: impl Fn(BurstId) -> bool,
    ) -> Amounts {
        let none = || Quantity::none(self.passed.bursts.len());
        let mut amounts = Amounts { read: none(), write: none(), loads: none(), stores: none() };
        for (site, part) in parts {
            for (number, burst, site, part) in self.works_of_part(*site, *part) {
                if !chosen(self.id_of(burst)) {
                    continue;
                }
                let (fills, written) = self.moved_by(burst, site, part);
                amounts.read.add(number, fills);
                amounts.write.add(number, written);
                amounts.loads.add(number, Bounds::exactly(part.loads as f64));
                amounts.stores.add(number, Bounds::exactly(part.stores as f64));
            }
        }
        amounts
    }

    /// Loads of a site from a part over the whole run.
    fn loads_of_part(&self, site: SiteIndex, part: Part, chosen: impl Fn(BurstId) -> bool) -> f64 {
        let works = self.works_of_part(site, part);
        let works = works.filter(|(_, burst, ..)| chosen(self.id_of(burst)));
        self.expansion().sum(works.map(|(number, _, _, part)| (number, part.loads as f64)))
    }
}

/// Positions in the order in which rows are shown: most bytes first, then most loads; equal ones as they are.
fn by_weight(weights: Vec<(f64, f64)>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order
        .sort_by(|a, b| weights[*b].partial_cmp(&weights[*a]).unwrap_or(std::cmp::Ordering::Equal));
    order
}
