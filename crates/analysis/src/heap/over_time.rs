//! The heap per second: what was allocated and freed, and what was live at its end.
//!
//! Where every block was recorded, seconds end when sums were written (about once a second), and all is counted. Otherwise rows
//! come from recorded blocks, weighted as in the table by code, in whole seconds from the start.
//! What not: peaks within a second. A second without a change has no row.

use std::collections::{BTreeMap, HashMap};

use base::Nanos;
use facts::{Allocation, LostSource, Metric, Recording};

use super::{Estimate, Scale, Sums, asking_place, is_exact};
use crate::objects::weight;
use crate::profile::Profile;
use crate::selection::Selection;

const SECOND: Nanos = Nanos(1_000_000_000);

/// About a second.
#[derive(Clone, PartialEq, Debug)]
pub struct HeapBin {
    /// Its begin.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
    /// Blocks allocated.
    pub allocations: Metric,
    /// Bytes in them.
    pub bytes: Metric,
    /// Blocks freed.
    pub frees: Metric,
    /// Bytes in them.
    pub freed: Metric,
    /// Bytes live at the end of it.
    pub live: Metric,
}

/// The selected blocks over time. What is live holds all that was allocated before, also outside of a filter on time.
#[must_use]
pub fn heap_over_time(profile: &Profile<'_>, selection: &Selection) -> Vec<HeapBin> {
    let bins = if is_exact(profile.recording) {
        counted(profile, selection)
    } else {
        sampled(profile, selection)
    };
    let shown = |bin: &HeapBin| {
        selection.time().is_none_or(|(start, end)| start < bin.end && bin.start < end)
    };
    bins.into_iter().filter(shown).collect()
}

fn counted(profile: &Profile<'_>, selection: &Selection) -> Vec<HeapBin> {
    let recording = profile.recording;
    // All times, so that a second without a selected block ends the one before.
    let mut sums: BTreeMap<Nanos, [u64; 4]> = BTreeMap::new();
    for fact in &recording.heap_stacks {
        let sum = sums.entry(fact.time).or_default();
        let stack = fact.stack.and_then(|id| profile.stacks.find(id));
        if selection.has_whole_process(profile, fact.pid)
            && selection.has_place(asking_place(&profile.stacks, stack))
        {
            let parts = [fact.allocations, fact.allocated.0, fact.frees, fact.freed.0];
            for (sum, part) in sum.iter_mut().zip(parts) {
                *sum = sum.saturating_add(part);
            }
        }
    }
    let lost = recording.lost(LostSource::Allocations);
    let (mut before, mut live) = (Nanos(0), 0u64);
    let mut bins = Vec::new();
    for (end, [blocks, bytes, frees, freed]) in sums {
        live = live.saturating_add(bytes).saturating_sub(freed);
        // Sums of a second in which nothing changed are not written: then the last is no longer ago than a second.
        let is_next = end - before < Nanos(SECOND.0 * 3 / 2);
        let start = if is_next { before } else { end - SECOND };
        before = end;
        let metric = |value: u64, unit| Metric::counted(value as f64, unit).with_lost(lost);
        bins.push(HeapBin {
            start,
            end,
            allocations: metric(blocks, "count"),
            bytes: metric(bytes, "bytes"),
            frees: metric(frees, "count"),
            freed: metric(freed, "bytes"),
            live: metric(live, "bytes"),
        });
    }
    bins
}

/// Sums of what was drawn in a second.
#[derive(Default)]
struct Drawn {
    asked: Sums,
    freed: Sums,
}

fn sampled(profile: &Profile<'_>, selection: &Selection) -> Vec<HeapBin> {
    let recording = profile.recording;
    let mut bins: BTreeMap<u64, Drawn> = BTreeMap::new();
    let ends: HashMap<_, Nanos> =
        recording.releases.iter().map(|release| (release.allocation, release.time)).collect();
    for block in chosen(profile, selection, recording) {
        let weight = weight(block);
        let second = |time: Nanos| time.0 / SECOND.0;
        add(&mut bins.entry(second(block.time)).or_default().asked, block, weight);
        if let Some(end) = ends.get(&block.id) {
            add(&mut bins.entry(second(*end)).or_default().freed, block, weight);
        }
    }
    let scale = Scale::of(recording);
    let (unseen_blocks, unseen) = scale.unseen();
    let mut live = Sums::default();
    let mut rows = Vec::new();
    for (second, Drawn { asked, freed }) in bins {
        live.records += asked.records;
        live.drawn += asked.drawn;
        live.bytes.sum = (live.bytes.sum + asked.bytes.sum - freed.bytes.sum).max(0.0);
        let variance = live.bytes.variance + asked.bytes.variance - freed.bytes.variance;
        live.bytes.variance = variance.max(0.0);
        let bytes = |sums: &Sums| scale.metric(sums.bytes, "bytes", sums, unseen);
        let blocks = |sums: &Sums| scale.metric(sums.allocations, "count", sums, unseen_blocks);
        rows.push(HeapBin {
            start: Nanos(second * SECOND.0),
            end: Nanos((second + 1) * SECOND.0).min(profile.elapsed()),
            allocations: blocks(&asked),
            bytes: bytes(&asked),
            frees: blocks(&freed),
            freed: bytes(&freed),
            live: bytes(&live),
        });
    }
    rows
}

/// Recorded blocks of chosen code and threads.
fn chosen<'a>(
    profile: &'a Profile<'_>,
    selection: &'a Selection,
    recording: &'a Recording,
) -> impl Iterator<Item = &'a Allocation> {
    recording.allocations.iter().filter(|block| {
        let stack = block.stack.and_then(|id| profile.stacks.find(id));
        let thread = profile.threads.find(block.pid, block.tid);
        selection.has_place(asking_place(&profile.stacks, stack))
            && thread.map_or(!selection.chooses_threads(), |thread| {
                selection.has_thread(thread) && selection.in_region(thread, block.time)
            })
    })
}

fn add(sums: &mut Sums, block: &Allocation, weight: f64) {
    let one: &mut Estimate = &mut sums.allocations;
    one.add(1.0, weight);
    sums.bytes.add(block.size.0 as f64, weight);
    sums.records += 1;
    sums.drawn += u64::from(block.sample_every.0 != 0);
}
