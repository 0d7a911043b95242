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
use facts::{Burst, Metric};

use super::latency::{Latency, LatencyRow};
use super::rows::{MemoryRow, NONE_SEEN, Traffic};
use super::work::BurstWork;
use super::{ExecutedAccesses, LINE, Memory, OfPart};
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

/// What the program does as a whole.
struct Whole {
    moved: Estimate,
    loads: Metric,
    stores: Metric,
    bursts: usize,
}

impl Whole {
    /// What no burst did with an object, others may have done: up to 3 in n (`Strata::opened`). Rows of code say of themselves
    /// that they have no store.
    fn opened(&self, key: &RowKey, mut traffic: Traffic) -> Traffic {
        if key.function.is_some() || key.line.is_some() {
            return traffic;
        }
        let part = 3.0 / self.bursts.max(3) as f64;
        let open = |metric: &mut Metric, most: f64| {
            let is_none = metric.value == Some(0.0) && metric.high == Some(0.0);
            if is_none && metric.note.is_none() {
                metric.high = Some(most * part);
                metric.note = Some(NONE_SEEN.to_owned());
            }
            is_none
        };
        let [loads, stores] = [&self.loads, &self.stores].map(|all| all.high.unwrap_or(0.0));
        open(&mut traffic.loads, loads);
        let moved = self.moved.interval().1;
        if open(&mut traffic.stores, stores) && open(&mut traffic.write, moved.min(stores * LINE)) {
            let more = traffic.write.high.unwrap_or(0.0);
            traffic.moved.high = traffic.moved.high.map(|high| high + more);
            let more = more / self.moved.point().max(LINE) * 100.0;
            traffic.share.high = traffic.share.high.map(|high| (high + more).min(100.0));
        }
        traffic
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
        let whole = self.whole();
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
        let whole = self.whole();
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
        let whole = self.whole();
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

    fn part_row(&self, key: RowKey, parts: &Parts, chosen: &Chosen, whole: &Whole) -> PartRow {
        let amounts = self.summed(parts.iter().flat_map(|one| self.works(one, chosen)));
        let loads = self.weighted_of_parts(self.loads_of_parts(parts, chosen), chosen);
        let traffic = whole.opened(&key, self.traffic(&amounts, &whole.moved));
        PartRow { key, traffic, latency: self.enough(&loads) }
    }

    fn whole(&self) -> Whole {
        let ExecutedAccesses { loads, stores } = self.executed();
        Whole { moved: self.whole_traffic(), loads, stores, bursts: self.strata.bursts() }
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

#[cfg(test)]
mod tests {
    use facts::Evidence;

    use super::*;

    fn metric(value: f64, high: f64) -> Metric {
        Metric::with_interval(Evidence::Estimated, value, "count", (0.0, high), 30)
    }

    #[test]
    fn an_object_without_a_store_in_the_bursts_may_have_some() {
        let whole = Whole {
            moved: Estimate::exactly(6400.0),
            loads: metric(50.0, 90.0),
            stores: metric(20.0, 40.0),
            bursts: 30,
        };
        let seen = |stores: Metric, write: Metric| Traffic {
            read: metric(640.0, 700.0),
            write,
            moved: metric(640.0, 700.0),
            share: metric(10.0, 12.0),
            loads: metric(9.0, 12.0),
            stores,
        };
        let object = RowKey::default();
        let found = whole.opened(&object, seen(metric(0.0, 0.0), metric(0.0, 0.0)));
        // A tenth of the program's 40, and as many lines.
        assert_eq!((found.stores.high, found.write.high), (Some(4.0), Some(256.0)));
        assert_eq!(found.stores.note.as_deref(), Some(NONE_SEEN));
        assert_eq!((found.moved.high, found.share.high), (Some(956.0), Some(16.0)));
        let some = || seen(metric(3.0, 5.0), metric(64.0, 90.0));
        assert_eq!(whole.opened(&object, some()), some());
    }
}
