//! The invariants of bursts and their records.
//!
//! What not: whether a block's code reads as the instructions that its layout speaks of; `analysis` sees that.
//! The layout's text is of crate `x86`, which defines it.
//! Assumption: only a complete result has all records of a burst; an interrupted one ends somewhere in them.

use std::collections::{HashMap, HashSet};

use base::{BlockId, BurstId};
use facts::{Block, Burst, BurstFlavour, NoMissOutcome, RunState, WordAdvance, decode_records};
use x86::translate::RecordLayout;

use super::{Report, Subject};

pub(super) fn ids_once(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let blocks = recording.blocks.iter().map(|block| ("block", block.id.0));
    let bursts = recording.bursts.iter().map(|burst| ("burst", burst.id.0));
    let mut seen = HashSet::new();
    for (what, id) in blocks.chain(bursts) {
        if !seen.insert((what, id)) {
            report.add(|| format!("{what} {id} again"));
        }
    }
}

pub(super) fn blocks_proper(subject: &Subject<'_>, report: &mut Report) {
    for block in &subject.recording.blocks {
        if block.pieces.is_empty() || block.pieces.iter().any(|piece| piece.bytes.is_empty()) {
            report.add(|| format!("block {} has no code, or a piece of it has none", block.id));
        }
        if let Err(error) = block.record.parse::<RecordLayout>() {
            report.add(|| format!("block {}: {error}", block.id));
        }
    }
}

pub(super) fn bursts_proper(subject: &Subject<'_>, report: &mut Report) {
    for burst in &subject.recording.bursts {
        let Burst { id, stops, elapsed, .. } = *burst;
        let entries = burst.entries.unwrap_or(1);
        let in_calls = burst.in_calls.unwrap_or_default();
        if entries == 0 || entries >= stops.max(2) || in_calls > elapsed {
            report.add(|| {
                format!(
                    "burst {id}: {entries} entries, {stops} stops, {} of {} ns in calls",
                    in_calls.0, elapsed.0
                )
            });
        }
    }
}

pub(super) fn records_fit(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let layouts = recording.blocks.iter().filter_map(|block| {
        let layout: RecordLayout = block.record.parse().ok()?;
        // The first word is the header; a block without words has no records but counts.
        Some((block.id, (layout.words.saturating_sub(1), layout.ways.len())))
    });
    let layouts: HashMap<BlockId, (usize, usize)> = layouts.collect();
    for records in &recording.records {
        let mut misfits = 0u64;
        let _ = decode_records(&records.bytes, |record| {
            if let Some((values, ways)) = layouts.get(&record.block) {
                let way = record.way as usize;
                // Blocks that are only counted have no ways to tell apart.
                misfits += u64::from(record.values.len() != *values || way >= (*ways).max(1));
            }
        });
        if misfits > 0 {
            report.add(|| format!("{misfits} records of burst {}", records.burst));
        }
    }
}

pub(super) fn records_decode(subject: &Subject<'_>, report: &mut Report) {
    for (row, records) in subject.recording.records.iter().enumerate() {
        if let Err(error) = decode_records(&records.bytes, |_| {}) {
            report.add(|| format!("row {row}, of burst {}: {error}", records.burst));
        }
    }
}

pub(super) fn records_known(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let blocks: HashMap<BlockId, _> =
        recording.blocks.iter().map(|block| (block.id, (block.pid, block.flavour))).collect();
    let bursts: HashMap<BurstId, &Burst> =
        recording.bursts.iter().map(|burst| (burst.id, burst)).collect();
    for records in &recording.records {
        let Some(burst) = bursts.get(&records.burst) else {
            // The burst itself comes last; an interrupted result may end before it.
            if recording.run.state == RunState::Complete {
                report.add(|| format!("records of burst {}, which is not there", records.burst));
            }
            continue;
        };
        let mut strangers = Vec::new();
        // What does not decode is another invariant's.
        let _ = decode_records(&records.bytes, |record| {
            let fits = blocks.get(&record.block) == Some(&(burst.pid, burst.flavour.of_blocks()));
            if !fits && !strangers.contains(&record.block) {
                strangers.push(record.block);
            }
        });
        for block in strangers {
            let (id, pid, flavour) = (burst.id, burst.pid, burst.flavour.of_blocks());
            report.add(|| {
                format!("burst {id} ran block {block}: none of process {pid} for {flavour:?}")
            });
        }
    }
}

pub(super) fn records_counted(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    if recording.run.state != RunState::Complete {
        return;
    }
    let mut found: HashMap<BurstId, u64> = HashMap::new();
    for records in &recording.records {
        let count = found.entry(records.burst).or_default();
        let _ = decode_records(&records.bytes, |_| *count += 1);
    }
    for burst in &recording.bursts {
        let found = found.get(&burst.id).copied().unwrap_or(0);
        let expected = if burst.records_lost { 0 } else { burst.records };
        if found != expected {
            report.add(|| {
                format!("burst {} has {found} records where {expected} are expected", burst.id)
            });
        }
    }
}

pub(super) fn advances_known(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let traced = recording.bursts.iter().filter(|burst| burst.flavour == BurstFlavour::Trace);
    let traced: HashSet<BurstId> = traced.map(|burst| burst.id).collect();
    for advance in &recording.native_advances {
        let (burst, register) = (advance.burst, &advance.register);
        // An interrupted result may end before the burst.
        if recording.run.state == RunState::Complete && !traced.contains(&burst) {
            report.add(|| format!("{register} after burst {burst}, which records no addresses"));
        }
    }
}

pub(super) fn word_advances_known(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let counted = recording.bursts.iter().filter(|burst| burst.flavour == BurstFlavour::Count);
    let counted: HashSet<BurstId> = counted.map(|burst| burst.id).collect();
    for WordAdvance { burst, address, .. } in &recording.word_advances {
        // An interrupted result may end before the burst.
        if recording.run.state == RunState::Complete && !counted.contains(burst) {
            report.add(|| format!("word {address} after burst {burst}, which counts no blocks"));
        }
    }
}

pub(super) fn native_counts_known(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let counted = recording.blocks.iter().filter(|block| block.flavour == BurstFlavour::Count);
    let bytes = |block: &Block| block.pieces.first().map_or(0, |piece| piece.bytes.len());
    let counted: HashMap<BlockId, _> =
        counted.map(|block| (block.id, (block.pid, bytes(block)))).collect();
    let counts =
        |burst: &&Burst| matches!(burst.flavour, BurstFlavour::Count | BurstFlavour::Sparse);
    let windows = recording.bursts.iter().filter(counts);
    let windows: HashMap<BurstId, _> = windows.map(|burst| (burst.id, burst.pid)).collect();
    for count in &recording.native_counts {
        let (burst, block) = (windows.get(&count.burst), counted.get(&count.block));
        // An interrupted result may end before the burst.
        let is_known = burst.is_some() && burst == block.map(|(pid, _)| pid);
        if recording.run.state == RunState::Complete && !is_known {
            report.add(|| format!("block {} natively after burst {}", count.block, count.burst));
        }
        let offset = count.offset.unwrap_or(0) as usize;
        if block.is_some_and(|(_, bytes)| offset >= *bytes) {
            report.add(|| format!("byte {offset} of block {}, which is shorter", count.block));
        }
    }
}

pub(super) fn no_miss_times_proper(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let traced = recording.blocks.iter().filter(|block| block.flavour == BurstFlavour::Trace);
    let traced: HashSet<BlockId> = traced.map(|block| block.id).collect();
    let mut expected = traced.clone();
    let mut loops = HashSet::new();
    for no_miss in &recording.no_miss_times {
        let block = no_miss.block;
        let named = match no_miss.path {
            None => expected.remove(&block),
            Some(path) => traced.contains(&block) && path.instructions > 0,
        };
        if !named {
            report.add(|| format!("no_miss of block {block}: no block for addresses, or again"));
        }
        let ordered = match &no_miss.outcome {
            NoMissOutcome::Measured(time) => time.low <= time.median && time.median <= time.high,
            NoMissOutcome::Refused(_) => true,
        };
        let is_resolved = no_miss.resolution.is_none_or(|one| one.blocks > 0);
        if !ordered || !is_resolved || no_miss.iterations == 0 {
            let (iterations, outcome) = (no_miss.iterations, &no_miss.outcome);
            report
                .add(|| format!("no_miss of block {block}: {iterations} iterations, {outcome:?}"));
        }
        if no_miss.path.is_none() && matches!(no_miss.outcome, NoMissOutcome::Measured(_)) {
            loops.insert(block);
        }
    }
    for kept in &recording.no_reload_times {
        let ordered = kept.low <= kept.median && kept.median <= kept.high;
        if !ordered || !loops.remove(&kept.block) {
            report.add(|| format!("a second no_miss of block {}: {kept:?}", kept.block));
        }
    }
}
