//! From the journal to the tables, in one pass and bounded memory.
//!
//! What not: the columns of tables (`tables`). Samples and faults are written in order of time. In the journal they
//! are in order of discovery, which is off by the depth of the kernel's buffers. Two windows of [`WINDOW`] rows are
//! sorted at a time, so that a row is in its place unless it came more than one window late. Memory: the two windows
//! (9 MB for samples and faults together) and one row group per table (at most 2 MiB each; only the few large tables
//! ever fill theirs).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base::{BurstId, Nanos};
use facts::{EventSample, Fact, Fault, MemorySample, Sample};

use crate::error::StoreError;
use crate::journal::{JournalReader, NextFrame};
use crate::manifest::TableSeal;
use crate::parquet_write::TableWriter;
use crate::schema::Row;
use crate::table::{Table, put};
use crate::thin::without;
use crate::varint::Decoder;

/// Rows sorted together.
const WINDOW: usize = 32 << 10;

/// Puts rows into order of time.
struct Sorter<R> {
    rows: Vec<R>,
    time: fn(&R) -> Nanos,
}

impl<R: Row> Sorter<R> {
    fn new(time: fn(&R) -> Nanos) -> Sorter<R> {
        Sorter { rows: Vec::new(), time }
    }

    fn push(&mut self, row: R, out: &mut TableWriter) -> Result<(), StoreError> {
        self.rows.push(row);
        if self.rows.len() == 2 * WINDOW { self.write(WINDOW, out) } else { Ok(()) }
    }

    /// Writes the earliest `count` rows.
    fn write(&mut self, count: usize, out: &mut TableWriter) -> Result<(), StoreError> {
        self.rows.sort_by_key(self.time);
        self.rows.drain(..count).try_for_each(|row| out.push(|cells| row.put(cells)))
    }
}

/// All tables while they are written.
struct Tables<'a> {
    writers: Vec<TableWriter>,
    samples: Sorter<Sample>,
    faults: Sorter<Fault>,
    memory_samples: Sorter<MemorySample>,
    event_samples: Sorter<EventSample>,
    incomplete_bursts: &'a BTreeSet<BurstId>,
}

/// The fact as its table has it. Of `incomplete_bursts` the journal may hold only a part of the records: these are left out.
pub fn kept(fact: Fact, incomplete_bursts: &BTreeSet<BurstId>) -> Option<Fact> {
    match fact {
        Fact::Burst(row) if incomplete_bursts.contains(&row.id) => Some(Fact::Burst(without(row))),
        Fact::Records(row) if incomplete_bursts.contains(&row.burst) => None,
        other => Some(other),
    }
}

impl Tables<'_> {
    fn push(&mut self, fact: Fact) -> Result<(), StoreError> {
        let Some(fact) = kept(fact, self.incomplete_bursts) else { return Ok(()) };
        let out = &mut self.writers[Table::of(&fact) as usize];
        match fact {
            Fact::Sample(row) => self.samples.push(row, out),
            Fact::Fault(row) => self.faults.push(row, out),
            Fact::MemorySample(row) => self.memory_samples.push(row, out),
            Fact::EventSample(row) => self.event_samples.push(row, out),
            other => out.push(|cells| put(&other, cells)),
        }
    }

    fn finish(mut self) -> Result<BTreeMap<String, TableSeal>, StoreError> {
        let samples = self.samples.rows.len();
        self.samples.write(samples, &mut self.writers[Table::Sample as usize])?;
        let faults = self.faults.rows.len();
        self.faults.write(faults, &mut self.writers[Table::Fault as usize])?;
        let accesses = self.memory_samples.rows.len();
        self.memory_samples.write(accesses, &mut self.writers[Table::MemorySample as usize])?;
        let counts = self.event_samples.rows.len();
        self.event_samples.write(counts, &mut self.writers[Table::EventSample as usize])?;
        Table::ALL
            .into_iter()
            .zip(self.writers)
            .map(|(table, writer)| Ok((table.name().to_owned(), writer.finish()?)))
            .collect()
    }
}

/// Writes every table of `directory` from its journal, and seals them. `incomplete_bursts`: see [`kept`].
///
/// # Errors
/// `DiskFull` and the like. The journal is unchanged; the tables are then worthless.
pub fn convert(
    directory: &Path,
    journal: &mut JournalReader,
    incomplete_bursts: &BTreeSet<BurstId>,
) -> Result<BTreeMap<String, TableSeal>, StoreError> {
    let writers = Table::ALL
        .into_iter()
        .map(|table| TableWriter::create(directory, table))
        .collect::<Result<Vec<_>, _>>()?;
    let mut tables = Tables {
        writers,
        samples: Sorter::new(|sample| sample.time),
        faults: Sorter::new(|fault| fault.time),
        memory_samples: Sorter::new(|sample| sample.time),
        event_samples: Sorter::new(|sample| sample.time),
        incomplete_bursts,
    };
    read_facts(journal, |fact| tables.push(fact))?;
    tables.finish()
}

/// How the reading of a journal ended, when not cleanly.
pub struct Torn {
    /// Bytes not used.
    pub bytes: u64,
    /// Why.
    pub what: String,
}

/// Calls `take` with every fact of the journal, up to its end or the first damaged frame.
pub fn read_facts(
    journal: &mut JournalReader,
    mut take: impl FnMut(Fact) -> Result<(), StoreError>,
) -> Result<Option<Torn>, StoreError> {
    loop {
        match journal.next_frame()? {
            NextFrame::End => return Ok(None),
            NextFrame::Torn(bytes, what) => return Ok(Some(Torn { bytes, what })),
            NextFrame::Rows => {}
        }
        let mut decoder = Decoder::new(journal.rows());
        loop {
            match decoder.next_fact() {
                Ok(Some(fact)) => take(fact)?,
                Ok(None) => break,
                // The checksum was right, so another program made this frame.
                Err(error) => {
                    return Ok(Some(Torn { bytes: journal.bytes_left(), what: error.to_string() }));
                }
            }
        }
    }
}
