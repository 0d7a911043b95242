//! Marked regions of a program: reads what the region library counts (`crates/agent/regions`).
//!
//! What for: the shared memory, the environment by which programs find library and memory, rows into facts. What not: the
//! layout (`sys::marked`), marks and pauses, which come over the socket (`control`), sums (`analysis`).
//!
//! Bounded: a row takes some 15 bytes of the result. Each time there were [`ROWS`] more, what counts as a long pass and the
//! length of a batch double, so that rows of the same program come half as fast. Nothing is lost by that: a row has the sums
//! of its passes, and lengths are counted one by one.
//!
//! Assumption: the program can write everything in the shared memory, so all of it is checked. A program that overwrites it
//! spoils only its own regions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use base::{Nanos, Pid, Tid};
use facts::{Fact, MarkedLength, MarkedPass, MarkedRegion, NoteSubject, SinkError};
use sys::marked as layout;
use sys::shared::SharedMemory;

use crate::recorder::Recorder;

/// Passes of this length or more have a row of their own at first: ten thousand a second of a thread at most.
const LONG_FROM: u64 = 100_000;
/// Shorter ones of a region and thread share a row for so long at first.
const BATCH: u64 = 1_000_000;
/// Rows after which both double.
const ROWS: u64 = 200_000;
/// Name of the regions that found no room.
const OTHERS: &str = "(other regions)";

/// The reader.
pub struct Marked {
    memory: SharedMemory,
    environment: Vec<(OsString, OsString)>,
    /// Ids of facts by the number in the memory.
    ids: BTreeMap<usize, u32>,
    rows: u64,
    doubled: u32,
    /// Slots that no thread ever took come last: none beyond the first of them is read.
    slots: usize,
    damaged: u64,
}

impl Marked {
    /// Creates the shared memory for a program that we will start. `library` is the file of the region library.
    pub fn prepare(library: &Path) -> io::Result<Marked> {
        let memory = SharedMemory::create(c"fathom-regions", layout::TOTAL_BYTES)?;
        memory.store_u64(layout::HEADER_LONG_FROM, LONG_FROM);
        memory.store_u64(layout::HEADER_BATCH, BATCH);
        memory.store_u64(layout::HEADER_MAGIC, layout::MAGIC);
        let mut environment = vec![
            (layout::LIBRARY_VARIABLE.into(), library.into()),
            (layout::MEMORY_VARIABLE.into(), memory.path().into()),
        ];
        for other in ["INTEL_LIBITTNOTIFY64", "NVTX_INJECTION64_PATH"] {
            // Somebody who set it wants another tool.
            if std::env::var_os(other).is_none() {
                environment.push((other.into(), library.into()));
            }
        }
        let (ids, slots) = (BTreeMap::new(), 0);
        Ok(Marked { memory, environment, ids, rows: 0, doubled: 0, slots, damaged: 0 })
    }

    /// What the program's environment must contain.
    #[must_use]
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Passes from now on are not counted, or are counted again. `since`: CLOCK_MONOTONIC.
    pub fn pause(&self, since: Option<Nanos>) {
        self.memory.store_u64(layout::HEADER_PAUSED, since.map_or(0, |since| since.0));
    }

    /// Hands over the rows since the last call. `start` is that of the recording, `now` counts from it.
    pub fn look(
        &mut self,
        now: Nanos,
        start: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        while self.slots < layout::SLOTS && self.word(self.slots, layout::SLOT_PID) != 0 {
            self.slots += 1;
        }
        for slot in 0..self.slots {
            let pid = self.pid(slot);
            let (head, tail) =
                (self.word(slot, layout::SLOT_HEAD), self.word(slot, layout::SLOT_TAIL));
            let new = head.wrapping_sub(tail);
            if new > layout::RING_ROWS as u64 {
                self.damaged += 1;
            }
            for row in head.wrapping_sub(new.min(layout::RING_ROWS as u64))..head {
                let at =
                    layout::RING_AT + (row as usize % layout::RING_ROWS) * layout::ROW_WORDS * 8;
                let at = at_slot(slot) + at;
                let Some(words) = self.memory.array::<{ layout::ROW_WORDS }>(at) else { continue };
                self.row(pid, words, (now, start), recorder)?;
            }
            self.memory.store_u64(at_slot(slot) + layout::SLOT_TAIL, head);
        }
        if self.rows >= ROWS {
            self.rows = 0;
            self.doubled += 1;
            for at in [layout::HEADER_LONG_FROM, layout::HEADER_BATCH] {
                let length = self.memory.load_u64(at).unwrap_or(0);
                self.memory.store_u64(at, length.saturating_mul(2));
            }
        }
        Ok(())
    }

    /// Hands over the rest: batches, regions that threads are still in, and the lengths of all passes.
    pub fn finish(
        mut self,
        end: Nanos,
        start: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<Vec<String>, SinkError> {
        self.look(end, start, recorder)?;
        let mut lengths: BTreeMap<(u32, Pid, usize), u64> = BTreeMap::new();
        let mut extremes: BTreeMap<(u32, Pid), (u64, u64)> = BTreeMap::new();
        let mut too_deep = 0_u64;
        for slot in 0..self.slots {
            let (pid, tid) = (self.pid(slot), self.word(slot, layout::SLOT_TID));
            too_deep = too_deep.saturating_add(self.word(slot, layout::SLOT_TOO_DEEP));
            for region in 0..layout::REGIONS {
                let used = self.word(slot, layout::SLOT_USED + region / 64 * 8);
                if used >> (region % 64) & 1 == 0 {
                    continue;
                }
                let Some(id) = self.id(region, recorder)? else { continue };
                let cell = layout::CELLS_AT + region * layout::CELL_BYTES;
                let word = |at| self.word(slot, cell + at);
                let [begin, last] = [layout::CELL_BEGIN, layout::CELL_END].map(word);
                let passes = word(layout::CELL_PASSES);
                let of = region as u64 | word(layout::CELL_DEPTH) << 32;
                let sums = [layout::CELL_INSIDE, layout::CELL_OWN].map(word);
                let shortest = word(layout::CELL_SHORTEST).saturating_sub(1);
                let longest = word(layout::CELL_LONGEST);
                let counts =
                    self.memory.words(at_slot(slot) + cell + layout::CELL_LENGTHS, layout::LENGTHS);
                if passes > 0 {
                    let span = last.saturating_sub(begin);
                    let row = [begin, span, of, tid, passes, sums[0], sums[1], 0];
                    self.row(pid, row, (end, start), recorder)?;
                }
                for (class, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0)
                {
                    let sum = lengths.entry((id, pid, class)).or_default();
                    *sum = sum.saturating_add(count);
                }
                let of = extremes.entry((id, pid)).or_insert((u64::MAX, 0));
                *of = (of.0.min(shortest), of.1.max(longest));
            }
            self.open_regions(slot, (end, start), recorder)?;
        }
        for ((region, pid, class), passes) in lengths {
            let (shortest, longest) =
                extremes.get(&(region, pid)).copied().unwrap_or((0, u64::MAX));
            // The shortest and the longest pass are known exactly: they narrow the outermost classes.
            let next = (class + 1 < layout::LENGTHS).then(|| layout::class_start(class + 1) - 1);
            let least = layout::class_start(class).max(shortest);
            let most = next.unwrap_or(u64::MAX).min(longest).max(least);
            let (least, most) = (Nanos(least), Nanos(most));
            recorder.push(Fact::MarkedLength(MarkedLength { region, pid, least, most, passes }))?;
        }
        Ok(self.notes(too_deep))
    }

    fn notes(&self, too_deep: u64) -> Vec<String> {
        let note = |text: String| NoteSubject::MarkedRegions.note(text);
        let mut notes = Vec::new();
        if self.doubled > 0 {
            let long = Nanos(self.memory.load_u64(layout::HEADER_LONG_FROM).unwrap_or(0));
            notes.push(note(format!(
                "passed too often for a row each: at the end, passes of less than {:.1} ms share rows; \
                 their numbers, times and lengths are exact",
                long.seconds() * 1e3
            )));
        }
        if too_deep > 0 {
            notes.push(note(format!(
                "{too_deep} passes are missing: they lay in more than {} others",
                layout::STACK
            )));
        }
        let refused = self.memory.load_u64(layout::HEADER_REFUSED).unwrap_or(0);
        if refused > 0 {
            notes.push(note(format!(
                "some threads are missing: there is room for {} at a time",
                layout::SLOTS
            )));
        }
        if self.damaged > 0 {
            notes.push(note("the program overwrote their memory".to_owned()));
        }
        notes
    }

    /// Regions that the thread of a slot is in.
    fn open_regions(
        &mut self,
        slot: usize,
        (end, start): (Nanos, Nanos),
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let (pid, tid) = (self.pid(slot), self.word(slot, layout::SLOT_TID));
        let id = Tid(i32::try_from(tid).unwrap_or(0));
        let last = recorder.end_of(pid, id).unwrap_or(end).min(end);
        let depth = usize::try_from(self.word(slot, layout::SLOT_DEPTH)).unwrap_or(usize::MAX);
        let mut within = 0;
        for depth in (0..depth.min(layout::STACK)).rev() {
            let open = layout::SLOT_STACK + depth * layout::OPEN_WORDS * 8;
            let [region, begin, closed] = [0, 8, 16].map(|at| self.word(slot, open + at));
            let inside = (start.0 + last.0).saturating_sub(begin);
            let own = inside.saturating_sub(closed).saturating_sub(within);
            let of = (region & 0xffff_ffff) | (depth as u64) << 32;
            self.row(pid, [begin, inside, of, tid, 0, inside, own, 0], (end, start), recorder)?;
            within = inside;
        }
        Ok(())
    }

    fn row(
        &mut self,
        pid: Pid,
        row: [u64; layout::ROW_WORDS],
        (now, start): (Nanos, Nanos),
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let [begin, span, of, tid, passes, inside, own, _] = row;
        let region = usize::try_from(of & 0xffff_ffff).unwrap_or(usize::MAX);
        let Some(region) = self.id(region, recorder)? else {
            self.damaged += 1;
            return Ok(());
        };
        self.rows += 1;
        // The program's clock is ours, unless its row is false.
        let time = Nanos(begin.saturating_sub(start.0)).min(now);
        let span = Nanos(span).min(now - time);
        let inside = Nanos(inside).min(span);
        recorder.push(Fact::MarkedPass(MarkedPass {
            time,
            span,
            region,
            pid,
            tid: Tid(i32::try_from(tid).unwrap_or(0)),
            depth: (of >> 32) as u32,
            passes,
            inside,
            own: Nanos(own).min(inside),
        }))
    }

    /// The id of a region; `None` where it has no name.
    fn id(&mut self, region: usize, recorder: &mut Recorder<'_>) -> Result<Option<u32>, SinkError> {
        if let Some(id) = self.ids.get(&region) {
            return Ok(Some(*id));
        }
        let Some((domain, name)) = self.name(region) else { return Ok(None) };
        let id = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        self.ids.insert(region, id);
        recorder.push(Fact::MarkedRegion(MarkedRegion { id, name, domain }))?;
        Ok(Some(id))
    }

    fn name(&self, region: usize) -> Option<(Option<String>, String)> {
        if region + 1 == layout::REGIONS {
            // It has no name of its own; whether it was used, its cells show.
            let names = (0..region).all(|one| self.state(one) != layout::NAME_FREE);
            return names.then(|| (None, OTHERS.to_owned()));
        }
        if region >= layout::REGIONS || self.state(region) != layout::NAME_READY {
            return None;
        }
        let at = layout::NAMES_AT + region * layout::NAME_BYTES;
        let lengths = self.memory.load_u64(at + 8)?;
        let text = self.memory.bytes(at + 16, layout::NAME_TEXT / 8);
        let domain = usize::try_from(lengths & 0xffff_ffff).ok()?.min(text.len());
        let name = usize::try_from(lengths >> 32).ok()?.min(text.len() - domain);
        let readable = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (domain, name) = (&text[..domain], readable(&text[domain..domain + name]));
        Some(((!domain.is_empty()).then(|| readable(domain)), name))
    }

    fn state(&self, region: usize) -> u64 {
        self.memory.load_u64(layout::NAMES_AT + region * layout::NAME_BYTES).unwrap_or(0)
    }

    fn pid(&self, slot: usize) -> Pid {
        Pid(i32::try_from(self.word(slot, layout::SLOT_PID)).unwrap_or(0))
    }

    fn word(&self, slot: usize, at: usize) -> u64 {
        self.memory.load_u64(at_slot(slot) + at).unwrap_or(0)
    }
}

fn at_slot(slot: usize) -> usize {
    layout::SLOTS_AT + slot * layout::SLOT_BYTES
}
