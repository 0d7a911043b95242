//! Traffic, loads and latency by memory object.
//!
//! What for: the estimates of `rows` and `latency` with parts of objects as the key: the same bursts, the same model of unknown
//! outcomes, the same scaling to the run and the same intervals. So rows over all objects add up to the figures of the whole
//! program. What not: what the objects are (`objects`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;

use base::BurstId;
use estimate::Estimate;
use facts::Burst;

use super::latency::{Latency, LatencyRow};
use super::rows::{MemoryRow, Traffic};
use super::work::BurstWork;
use super::{Memory, OfPart};
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
    traffic: Traffic,
    /// Latency of its loads, or why it is not known.
    pub latency: Result<Latency, String>,
}

impl Deref for PartRow {
    type Target = Traffic;

    fn deref(&self) -> &Traffic {
        &self.traffic
    }
}

/// The bursts of a selection.
type Chosen = HashSet<BurstId>;

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
        let amount = |row: &PartRow| (row.moved.value, row.loads.value);
        let amounts = rows.iter().flatten().map(|row| {
            let (traffic, loads) = amount(row);
            (traffic.unwrap_or(0.0), loads.unwrap_or(0.0))
        });
        Ok(by_weight(amounts.collect()).into_iter().filter_map(|at| rows[at].take()).collect())
    }

    /// The first `most` of the wanted rows. For the others only the sort key is computed: a caller that shows the first few of
    /// 100,000 objects need not wait for all.
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
        let rows = self.code_of_objects(grouping)?.into_iter();
        let rows = rows.map(|(row, parts)| {
            let weighted = self.weighted_of_parts(self.loads_of_parts(&parts, &chosen), &chosen);
            (row, weighted)
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
        PartRow { key, traffic, .. }: PartRow,
        parts: &Parts,
        chosen: &Chosen,
    ) -> MemoryRow {
        let executed = |one: &&(SiteIndex, Part)| -> u64 {
            self.works(one, chosen).map(|(.., done)| done.loads + done.stores).sum()
        };
        let busiest = parts.iter().max_by_key(|one| (executed(one), Reverse(one.0)));
        let levels = self.levels_of(parts.iter().map(|one| {
            let works = self.works(one, chosen);
            (one.0, works.map(|(number, burst, _, done)| (number, burst, done.loads)))
        }));
        let place = busiest.map_or(NO_STACK, |(site, _)| grouping.place(*site));
        let sites = parts.iter().map(|(site, _)| *site).collect();
        MemoryRow { key, place, traffic, levels, sites }
    }

    /// What chosen bursts did at a site with a part.
    fn works(
        &self,
        (site, part): &(SiteIndex, Part),
        chosen: &Chosen,
    ) -> impl Iterator<Item = OfPart<'_>> {
        let id = |burst: &BurstWork| self.profile.recording.bursts[burst.burst].id;
        self.works_of_part(*site, *part).filter(move |(_, burst, ..)| chosen.contains(&id(burst)))
    }

    /// Sites and parts of objects by row.
    fn groups_of_parts(&self, grouping: &Grouping<'_>, chosen: &Chosen) -> BTreeMap<RowKey, Parts> {
        let mut groups: BTreeMap<RowKey, Parts> = BTreeMap::new();
        for (site, part) in self.parts.keys() {
            let Some(key) = grouping.row(*site, *part) else { continue };
            // What only other threads use, or at other times, makes no row.
            if self.works(&(*site, *part), chosen).next().is_some() {
                groups.entry(key).or_default().push((*site, *part));
            }
        }
        groups
    }

    /// The bursts of a selection.
    fn chosen(&self, grouping: &Grouping<'_>) -> Chosen {
        let asked = |burst: &&Burst| is_chosen(self.profile, grouping.selection, burst);
        self.profile.recording.bursts.iter().filter(asked).map(|burst| burst.id).collect()
    }

    fn part_row(&self, key: RowKey, parts: &Parts, chosen: &Chosen, whole: &Estimate) -> PartRow {
        let amounts = self.summed(parts.iter().flat_map(|one| self.works(one, chosen)));
        let loads = self.weighted_of_parts(self.loads_of_parts(parts, chosen), chosen);
        let (traffic, latency) = (self.traffic(&amounts, whole), self.enough(&loads));
        PartRow { key, traffic, latency }
    }

    /// Bytes moved over the run, and loads: likely.
    fn weight_of_parts(&self, parts: &Parts, chosen: &Chosen) -> (f64, f64) {
        let works = || parts.iter().flat_map(|one| self.works(one, chosen));
        let moved = works().map(|(number, burst, site, done)| {
            let (fills, written) = self.moved_by(burst, site, done);
            (number, fills.best + written.best)
        });
        let loads = works().map(|(number, _, _, done)| (number, done.loads as f64));
        (self.expansion().sum(moved), self.expansion().sum(loads))
    }

    /// Loads of each site from its part over the whole run.
    fn loads_of_parts(
        &self,
        parts: &Parts,
        chosen: &Chosen,
    ) -> impl Iterator<Item = (SiteIndex, Part, f64)> {
        parts.iter().map(|one| {
            let loads = self.works(one, chosen);
            let loads = loads.map(|(number, _, _, done)| (number, done.loads as f64));
            (one.0, one.1, self.expansion().sum(loads))
        })
    }
}

/// Positions in the order in which rows are shown: most bytes first, then most loads; equal ones as they are.
fn by_weight(weights: Vec<(f64, f64)>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order
        .sort_by(|a, b| weights[*b].partial_cmp(&weights[*a]).unwrap_or(std::cmp::Ordering::Equal));
    order
}
