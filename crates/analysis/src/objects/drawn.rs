//! Shares of accesses that include an object's blocks without a record.
//!
//! What for: small blocks are drawn at random. The accesses of a block that was drawn with probability p represent 1/p as many
//! (D. G. Horvitz, D. J. Thompson, J. Am. Stat. Assoc. 47 (1952) 663-685), with the variance Σ x² (1 - p) / p² over the drawn
//! blocks. What not: which accesses those are; they stay in the class of small blocks.
//!
//! Assumption: successive blocks of one allocation site at one address count as one.

use std::collections::BTreeMap;

use base::{Pid, RemoteAddr};
use facts::{Burst, Evidence, Metric};

use super::{Grouping, NearObjects, ObjectId, ObjectKind};
use crate::accesses::is_chosen;
use crate::traced::{Execution, SiteIndex, Tool, Touch, TracedBlock, stream, traced_bursts};
use estimate::interval::Z_95;

/// Accesses of an object.
#[derive(Default)]
struct Count {
    /// In blocks that represent only themselves.
    certain: u64,
    /// In each drawn block, and how many blocks it represents.
    drawn: BTreeMap<(Pid, RemoteAddr), (u64, f64)>,
}

struct Counter<'a> {
    grouping: Grouping<'a>,
    chosen: bool,
    pid: Pid,
    near: NearObjects<'a>,
    counts: BTreeMap<ObjectId, Count>,
    all: u64,
}

/// By object of which blocks were drawn: its share of all accesses of all bursts, percent, including its blocks without a
/// record. Empty where none was drawn. The same whatever the keys of the grouping.
#[must_use]
pub fn estimated_shares(grouping: &Grouping<'_>) -> BTreeMap<ObjectId, Metric> {
    let objects = grouping.objects;
    if !objects.all().iter().any(is_drawn) {
        return BTreeMap::new();
    }
    let counter = || Counter {
        grouping: *grouping,
        chosen: false,
        pid: Pid(0),
        near: NearObjects::new(grouping.code.sites.len(), objects),
        counts: BTreeMap::new(),
        all: 0,
    };
    let Grouping { profile, code, .. } = grouping;
    let bursts: Vec<_> = traced_bursts(profile.recording, code).collect();
    let (_, counters) = stream(profile.recording, code, &bursts, counter, |_, ()| {});
    let (mut counts, mut all) = (BTreeMap::<ObjectId, Count>::new(), 0u64);
    for counter in counters {
        all = all.saturating_add(counter.all);
        for (id, count) in counter.counts {
            counts.entry(id).or_default().merge(count);
        }
    }
    let small: u64 = counts
        .iter()
        .filter(|(id, _)| objects.get(**id).kind == ObjectKind::SmallBlocks)
        .map(|(_, count)| count.certain)
        .sum();
    let drawn = counts.iter().filter(|(id, _)| is_drawn(objects.get(**id)));
    drawn.map(|(id, count)| (*id, count.share(small, all))).collect()
}

fn is_drawn(object: &super::Object) -> bool {
    object.kind == ObjectKind::Heap && object.blocks > object.ranges as f64
}

impl Count {
    fn merge(&mut self, other: Count) {
        self.certain = self.certain.saturating_add(other.certain);
        for (block, (accesses, weight)) in other.drawn {
            let known = self.drawn.entry(block).or_insert((0, weight));
            known.0 = known.0.saturating_add(accesses);
        }
    }

    /// All of its own accesses are seen, and no more than those in small blocks without a record are not.
    fn share(&self, small: u64, all: u64) -> Metric {
        let (mut sum, mut variance) = (self.certain as f64, 0.0);
        let mut seen = self.certain as f64;
        for (accesses, weight) in self.drawn.values() {
            let accesses = *accesses as f64;
            seen += accesses;
            sum += accesses * weight;
            variance += accesses * accesses * weight * (weight - 1.0);
        }
        let half = Z_95 * variance.sqrt();
        let most = seen + small as f64;
        let percent = |accesses: f64| accesses.clamp(seen, most) / all.max(1) as f64 * 100.0;
        let interval = (percent(sum - half), percent(sum + half));
        let samples = self.drawn.len() as u64;
        Metric::with_interval(Evidence::Estimated, percent(sum), "percent", interval, samples)
    }
}

impl Tool for Counter<'_> {
    type OfBurst = ();

    fn begin(&mut self, burst: &Burst, _: usize) {
        self.chosen = is_chosen(self.grouping.profile, self.grouping.selection, burst);
        self.pid = burst.pid;
        self.near.begin(burst);
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            let is_asked =
                self.chosen && self.grouping.selection.has_place(self.grouping.place(access.site));
            execution.touches(access).for_each(|touch| {
                // A run leaves a small block at once, so its first address suffices.
                let (start, count) = match touch {
                    Touch::Run { start, count, .. } => (start, count),
                    Touch::AtLeast { start, .. } => (start, 1),
                    Touch::Unknown { count } => (0, count),
                };
                self.all = self.all.saturating_add(count);
                if is_asked {
                    self.count(access.site, RemoteAddr(start), count);
                }
            });
        }
    }

    fn end(&mut self, _: &Burst) {}
}

impl Counter<'_> {
    fn count(&mut self, site: SiteIndex, address: RemoteAddr, times: u64) {
        let (located, _) = self.near.at(site, address);
        let count = self.counts.entry(located.object).or_default();
        if located.weight > 1.0 {
            let drawn = count.drawn.entry((self.pid, located.start)).or_insert((0, located.weight));
            drawn.0 = drawn.0.saturating_add(times);
        } else {
            count.certain = count.certain.saturating_add(times);
        }
    }
}
