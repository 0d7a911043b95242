//! From records to sums: every burst's records in order, each access filed under its row.
//!
//! What for: one pass over all records in bounded memory: what a row keeps are counts, distances, and the lines of the
//! burst at hand. What not: figures (`mod`).
//! Cost: 31 ns per access of a record, 85 ns where each is in another line; a loop that is summarised costs as much as
//! one iteration (`cargo run --release -p analysis --example accesses_bench`; VM with 2 CPUs, Xeon).

use std::collections::HashMap;

use base::BurstId;
use facts::{Burst, BurstFlavour, Record, Recording, decode_records};

use super::address::Touch;
use super::chain::Depths;
use super::code::{TracedBlock, TracedCode};
use super::lines::{Bounds, LineSet};
use super::strides::Strides;

/// An address that needs so many loads, one after the other, is part of a chase.
const CHASE_DEPTH: u8 = 4;

/// What one burst contributed to a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Share {
    pub(super) accesses: u64,
    /// Of all accesses in the burst.
    pub(super) of: u64,
    pub(super) lines: Bounds,
    /// Bytes touched, in percent of the lines'.
    pub(super) used_percent: (f64, f64),
    /// Some addresses of the burst are not known.
    pub(super) partial: bool,
}

/// Everything about a row.
#[derive(Debug, Default)]
pub(super) struct RowSums {
    pub(super) accesses: u64,
    pub(super) bytes: u64,
    pub(super) smallest: u32,
    pub(super) largest: u32,
    pub(super) strides: Strides,
    /// Accesses whose address is at the end of a chain of loads.
    pub(super) chased: u64,
    /// How often at least is known, not how often at most.
    pub(super) at_least: bool,
    pub(super) bursts: Vec<Share>,
    lines: LineSet,
    in_burst: u64,
    partial: bool,
}

/// The result of the pass.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) rows: Vec<RowSums>,
    /// Accesses of each burst that was read, selected or not.
    pub(super) totals: Vec<u64>,
    pub(super) accesses: u64,
    /// Records that could not be used, and why not.
    pub(super) unusable_records: u64,
    pub(super) damaged_pieces: u64,
}

/// What the pass needs to know beside the recording.
pub(super) struct Question<'a> {
    pub(super) code: &'a TracedCode,
    /// The row of each site; `None` for those that are not asked for.
    pub(super) row_of_site: Vec<Option<usize>>,
    pub(super) rows: usize,
    /// Whether a burst is asked for.
    pub(super) chosen: &'a dyn Fn(&Burst) -> bool,
}

/// Goes through all bursts that recorded addresses.
pub(super) fn walk(recording: &Recording, question: &Question<'_>) -> Walked {
    let mut pieces: HashMap<BurstId, Vec<&[u8]>> = HashMap::new();
    for records in &recording.records {
        pieces.entry(records.burst).or_default().push(&records.bytes);
    }
    let mut walked = Walked::default();
    walked.rows.resize_with(question.rows, RowSums::default);
    let mut walker = Walker {
        question,
        last_address: vec![None; question.code.sites.len()],
        touched_sites: Vec::new(),
        touched_rows: Vec::new(),
    };
    let traced = |burst: &&Burst| burst.flavour == BurstFlavour::Trace && !burst.records_lost;
    for burst in recording.bursts.iter().filter(traced) {
        let pieces = pieces.get(&burst.id).map_or(&[][..], Vec::as_slice);
        walker.burst(burst, pieces, &mut walked);
    }
    walked
}

struct Walker<'a> {
    question: &'a Question<'a>,
    /// The last address of each site in this burst.
    last_address: Vec<Option<u64>>,
    touched_sites: Vec<usize>,
    touched_rows: Vec<usize>,
}

/// The state of a burst's thread.
struct Thread {
    fs_base: u64,
    depths: Depths,
    chosen: bool,
    accesses: u64,
}

impl Walker<'_> {
    fn burst(&mut self, burst: &Burst, pieces: &[&[u8]], walked: &mut Walked) {
        let mut thread = Thread {
            fs_base: burst.fs_base.0,
            depths: Depths::default(),
            chosen: (self.question.chosen)(burst),
            accesses: 0,
        };
        let code = self.question.code;
        for piece in pieces {
            let decoded = decode_records(piece, |record| {
                let block = code.blocks.get(&record.block);
                match block.filter(|block| block.pid == burst.pid && fits(block, record)) {
                    Some(block) => self.record(block, record, &mut thread, walked),
                    None => walked.unusable_records += 1,
                }
            });
            walked.damaged_pieces += u64::from(decoded.is_err());
        }
        walked.totals.push(thread.accesses);
        walked.accesses = walked.accesses.saturating_add(thread.accesses);
        self.end_burst(thread.accesses, walked);
    }

    fn record(
        &mut self,
        block: &TracedBlock,
        record: &Record<'_>,
        thread: &mut Thread,
        walked: &mut Walked,
    ) {
        let executed = block.ways[record.way as usize];
        for (access, depth) in block.accesses.iter().zip(&block.chains.accesses) {
            // Of the last iteration only the instructions in front of the way out.
            let cut = u64::from(access.instruction >= executed);
            let iterations = record.iterations.saturating_sub(cut);
            let site = access.site.index();
            let row = self.question.row_of_site[site].filter(|_| thread.chosen);
            let mut count = 0u64;
            let is_chase = depth.at(&thread.depths) >= CHASE_DEPTH;
            access.form.touches(record, thread.fs_base, iterations, |touch| {
                let times = match touch {
                    Touch::Run { count, .. } | Touch::Unknown { count } => count,
                    Touch::AtLeast { .. } => 1,
                };
                count = count.saturating_add(times);
                if let Some(row) = row {
                    self.touch(site, row, touch, &mut walked.rows[row]);
                }
            });
            thread.accesses = thread.accesses.saturating_add(count);
            if let Some(row) = row.filter(|_| is_chase) {
                let row = &mut walked.rows[row];
                row.chased = row.chased.saturating_add(count);
            }
        }
        thread.depths = block.chains.leave(&thread.depths);
    }

    fn touch(&mut self, site: usize, number: usize, touch: Touch, row: &mut RowSums) {
        if row.in_burst == 0 {
            self.touched_rows.push(number);
        }
        let (start, stride, count, bytes) = match touch {
            Touch::Run { start, stride, count, bytes } => (start, stride, count, bytes),
            Touch::AtLeast { start, bytes } => {
                row.at_least = true;
                row.partial = true;
                (start, 0, 1, bytes)
            }
            Touch::Unknown { count } => {
                row.partial = true;
                row.in_burst = row.in_burst.saturating_add(count);
                return;
            }
        };
        row.in_burst = row.in_burst.saturating_add(count);
        row.bytes = row.bytes.saturating_add(count.saturating_mul(u64::from(bytes)));
        row.smallest = if row.largest == 0 { bytes } else { row.smallest.min(bytes) };
        row.largest = row.largest.max(bytes);
        if count == 1 || !row.lines.add_run(start, stride, count, bytes) {
            row.lines.add(start, bytes);
            row.partial |= count > 1;
        }
        let last = &mut self.last_address[site];
        match *last {
            Some(last) => row.strides.add(start.wrapping_sub(last).cast_signed(), bytes, 1),
            None => self.touched_sites.push(site),
        }
        if count > 1 {
            row.strides.add(stride, bytes, count - 1);
        }
        let end = stride.cast_unsigned().wrapping_mul(count - 1);
        *last = Some(start.wrapping_add(end));
    }

    fn end_burst(&mut self, of: u64, walked: &mut Walked) {
        for site in self.touched_sites.drain(..) {
            self.last_address[site] = None;
        }
        for number in self.touched_rows.drain(..) {
            let row = &mut walked.rows[number];
            let extent = row.lines.measure();
            let percent = |bytes: u64, lines: u64| {
                (bytes as f64 / (lines.max(1) as f64 * super::lines::LINE as f64) * 100.0)
                    .min(100.0)
            };
            row.bursts.push(Share {
                accesses: row.in_burst,
                of,
                lines: extent.lines,
                used_percent: (
                    percent(extent.bytes.low, extent.lines.high),
                    percent(extent.bytes.high, extent.lines.low),
                ),
                partial: row.partial,
            });
            row.accesses = row.accesses.saturating_add(row.in_burst);
            row.in_burst = 0;
            row.partial = false;
        }
    }
}

/// Whether the record can be one of this block.
fn fits(block: &TracedBlock, record: &Record<'_>) -> bool {
    record.values.len() == block.values
        && block.ways.get(record.way as usize).is_some()
        // A loop that was stopped in its first iteration has completed none.
        && (record.iterations == 1 || block.loops)
}
