//! The writing end of a result: takes facts while the program runs, and writes tables at the end.
//!
//! Bounds (`limit` is `Run::limit_bytes`, at least [`LEAST_LIMIT`]; 0 means none):
//! ```text
//! journal reaches limit x 0.45   it is halved, bit by bit, into a second file: its samples, or its bursts' records,
//!                                whichever takes more room; new ones are thinned twice as much
//! both files together            at most limit x (0.45 + 1/8 x 0.45 + 0.25)
//! journal reaches limit x 0.60   (only when stacks, mappings, gauges fill it) bulk facts are dropped and counted
//! journal reaches limit x 0.65   (only when names fill it) all but counters and losses are dropped and counted
//! conversion                     tables and journal exist for a moment: journal + tables, about limit x 0.9
//! ```
//! Only writing takes disk space; nothing is reserved.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base::{BurstId, Bytes, Nanos};
use facts::{Fact, Lost, LostSource, NoteSubject, Run, RunState, SCHEMA_VERSION, Sink, SinkError};

use crate::compact::{COMPACTED_FILE, Compaction, Halve};
use crate::convert::convert;
use crate::error::StoreError;
use crate::journal::{FRAME_TARGET_BYTES, JOURNAL_FILE, JournalWriter};
use crate::manifest::{self, Manifest};
use crate::open::{Opened, complete_journal};
use crate::parquet_write::remove_tables;
use crate::schema::{MAX_BLOB_BYTES, Room};
use crate::table::Table;
use crate::tables::code_length;
use crate::thin::{KeptBursts, Thinner};
use crate::varint::Encoder;

/// The least limit; manifest and tables with a few rows each take some 50 KB.
pub const LEAST_LIMIT: Bytes = Bytes(1 << 20);

/// Old rows processed per byte of new rows during a halving: it ends before an eighth has been added.
const COMPACTION_PACE: u64 = 8;

/// What [`Writer::finish`] leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// All files of the result together.
    pub size: Bytes,
    /// Remarks for the user, also in `run.json`.
    pub notes: Vec<String>,
}

/// A result directory being written.
pub struct Writer {
    directory: PathBuf,
    journal: JournalWriter,
    rows: Encoder,
    thinner: Thinner,
    kept_bursts: KeptBursts,
    /// Bursts of which some records, or the burst itself, found no room.
    incomplete_bursts: BTreeSet<BurstId>,
    filled: Filled,
    compaction: Option<Compaction>,
    /// Halving no longer helps.
    saturated: bool,
    limit: u64,
    manifest_bytes: u64,
    /// Time of the newest fact: the time at which a loss is noticed.
    now: Nanos,
    /// All refusals, and those not yet written as losses.
    refused: Refused,
    refused_unwritten: Refused,
    failed: bool,
}

/// Uncompressed bytes of rows in the journal: what fills it.
#[derive(Default, Clone, Copy)]
struct Filled {
    samples: u64,
    records: u64,
}

impl Filled {
    fn count(&mut self, fact: &Fact, bytes: usize) {
        match fact {
            Fact::Sample(_)
            | Fact::Fault(_)
            | Fact::MemorySample(_)
            | Fact::EventSample(_)
            | Fact::SampleRegisters(_) => self.samples += bytes as u64,
            Fact::Records(_) => self.records += bytes as u64,
            _ => {}
        }
    }
}

/// Facts refused because the limit is reached.
#[derive(Default, Clone, Copy)]
struct Refused {
    samples: u64,
    faults: u64,
    others: u64,
}

impl Refused {
    fn count(&mut self, fact: &Fact) {
        match fact {
            Fact::Sample(_) | Fact::MemorySample(_) | Fact::EventSample(_) => self.samples += 1,
            Fact::Fault(_) => self.faults += 1,
            _ => self.others += 1,
        }
    }
}

impl Writer {
    /// Makes the directory (mode 0755, files 0644) and writes `run`, marked incomplete.
    ///
    /// # Errors
    /// `Exists` when anything is there already, `Create`, `DiskFull`.
    pub fn create(directory: &Path, run: &Run) -> Result<Writer, StoreError> {
        let fail = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AlreadyExists => StoreError::Exists { path: directory.to_owned() },
            std::io::ErrorKind::StorageFull => StoreError::writing(directory, source),
            _ => StoreError::Create { path: directory.to_owned(), source },
        };
        DirBuilder::new().mode(0o755).create(directory).map_err(fail)?;
        // Again, because the umask may have taken the others' right to read.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(fail)?;
        let started = (|| {
            let manifest = incomplete(run);
            let manifest_bytes = manifest::write(directory, &manifest)?;
            Ok((
                manifest_bytes,
                JournalWriter::create(&directory.join(JOURNAL_FILE), SCHEMA_VERSION)?,
            ))
        })();
        let (manifest_bytes, journal) = started.inspect_err(|_| {
            // An empty directory would only block the name for the next attempt; we created it a moment ago.
            let _ = fs::remove_dir_all(directory);
        })?;
        Ok(Writer {
            directory: directory.to_owned(),
            journal,
            rows: Encoder::default(),
            thinner: Thinner::new(1),
            kept_bursts: KeptBursts::ALL,
            incomplete_bursts: BTreeSet::new(),
            filled: Filled::default(),
            compaction: None,
            saturated: false,
            limit: if run.limit_bytes == 0 { u64::MAX } else { run.limit_bytes.max(LEAST_LIMIT.0) },
            manifest_bytes,
            now: Nanos(0),
            refused: Refused::default(),
            refused_unwritten: Refused::default(),
            failed: false,
        })
    }

    /// Writes out what is buffered, so that a crash from now on loses nothing of it. No fsync.
    ///
    /// # Errors
    /// `DiskFull`, `Vanished`, `Write`; from then on the writer takes nothing more.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.refuse_after_failure()?;
        let result = self.write_out().and_then(|()| self.journal.check_exists());
        self.failed = result.is_err();
        result
    }

    /// Bytes that the result takes on disk now.
    #[must_use]
    pub fn size(&self) -> Bytes {
        let compacted = self.compaction.as_ref().map_or(0, Compaction::bytes);
        Bytes(self.manifest_bytes + self.journal.bytes() + compacted)
    }

    /// One of this many samples is kept.
    #[must_use]
    pub fn thinning(&self) -> u64 {
        self.thinner.factor()
    }

    /// The recording as its tables will have it, for a report that does not wait for them. Nothing more may be pushed.
    ///
    /// # Errors
    /// As [`finish`](Writer::finish).
    pub fn recording(&mut self, run: &Run) -> Result<Opened, StoreError> {
        self.end()?;
        let mut run = Run { state: RunState::Complete, ..incomplete(run).run };
        run.notes.extend(self.notes());
        complete_journal(self.journal.reader()?, run, &self.incomplete_bursts)
    }

    /// Turns the journal into tables, writes `run` as complete, removes the journal.
    ///
    /// # Errors
    /// `DiskFull` and the like. The journal then stays and the directory opens as incomplete.
    pub fn finish(mut self, run: &Run) -> Result<Finished, StoreError> {
        self.end()?;
        let notes = self.notes();
        let mut manifest = incomplete(run);
        manifest.run.notes.extend(notes.iter().cloned());
        let sealed = self.journal.reader().and_then(|mut reader| {
            manifest.tables = convert(&self.directory, &mut reader, &self.incomplete_bursts)?;
            manifest.run.state = RunState::Complete;
            manifest::write(&self.directory, &manifest)
        });
        if let Err(error) = sealed {
            remove_tables(&self.directory);
            manifest.run.state = RunState::Incomplete;
            manifest.tables.clear();
            // Keeps what is known of the end (exit code, notes) if a few KB are still available.
            let _ = manifest::write(&self.directory, &manifest);
            return Err(error);
        }
        // Last: until the manifest says "complete", only the journal holds everything.
        fs::remove_file(self.journal.path())
            .map_err(|source| StoreError::writing(self.journal.path(), source))?;
        Ok(Finished { size: crate::size_on_disk(&self.directory), notes })
    }

    /// Puts everything into the journal.
    fn end(&mut self) -> Result<(), StoreError> {
        self.refuse_after_failure()?;
        for fact in self.thinner.drain() {
            self.rows.push(&fact);
        }
        self.push_losses();
        self.journal.write_frame(&mut self.rows)?;
        self.journal.check_exists()?;
        // A halving in progress must end: later samples are thinner already.
        if let Some(compaction) = self.compaction.take() {
            self.journal = compaction.finish(&self.journal)?.journal;
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        let mut note = |text: String| notes.push(NoteSubject::SizeLimit.note(text));
        if self.thinner.factor() > 1 {
            note(format!(
                "samples were thinned out to keep the result within {}: one of every {} was kept, with the weight of all",
                Bytes(self.limit),
                self.thinner.factor()
            ));
        }
        if self.kept_bursts.factor() > 1 {
            note(format!(
                "records of bursts were thinned out to keep the result within {}: one of every {} bursts kept its own",
                Bytes(self.limit),
                self.kept_bursts.factor()
            ));
        }
        if !self.incomplete_bursts.is_empty() {
            note(format!(
                "{} bursts lost their records because the result reached its limit of {}",
                self.incomplete_bursts.len(),
                Bytes(self.limit)
            ));
        }
        let refused = self.refused.samples + self.refused.faults + self.refused.others;
        if refused > 0 {
            note(format!(
                "the result reached its limit of {} and {refused} records were dropped: record again with a higher --limit",
                Bytes(self.limit)
            ));
        }
        notes
    }

    fn refuse_after_failure(&self) -> Result<(), StoreError> {
        if self.failed {
            let source = std::io::Error::other("writing failed before; nothing more is taken");
            return Err(StoreError::Write { path: self.journal.path().to_owned(), source });
        }
        Ok(())
    }

    fn take(&mut self, fact: Fact) -> Result<(), StoreError> {
        if let Some(time) = fact.time() {
            self.now = self.now.max(time);
        }
        if !self.admits(&fact) {
            self.refuse(&fact);
            return Ok(());
        }
        let kept = match fact {
            Fact::Sample(sample) => self.thinner.sample(sample),
            Fact::Fault(fault) => self.thinner.fault(fault),
            Fact::MemorySample(sample) => self.thinner.memory(sample),
            Fact::EventSample(sample) => self.thinner.counted(sample),
            Fact::SampleRegisters(piece) => self.thinner.registers(piece),
            other => self.kept_bursts.fact(other),
        };
        if let Some(fact) = kept {
            let before = self.rows.bytes().len();
            self.rows.push(&fact);
            self.filled.count(&fact, self.rows.bytes().len() - before);
        }
        if self.rows.bytes().len() >= FRAME_TARGET_BYTES { self.write_out() } else { Ok(()) }
    }

    fn refuse(&mut self, fact: &Fact) {
        match fact {
            Fact::Records(records) => {
                self.incomplete_bursts.insert(records.burst);
            }
            Fact::Burst(burst) => {
                self.incomplete_bursts.insert(burst.id);
            }
            _ => {}
        }
        // Lost records show in their burst's row, which convert marks; as losses they would count twice.
        if !matches!(fact, Fact::Records(_)) {
            self.refused.count(fact);
            self.refused_unwritten.count(fact);
        }
    }

    /// Whether there is room for a fact of this kind, and the fact fits into a row.
    fn admits(&self, fact: &Fact) -> bool {
        // Readers refuse longer blobs before they allocate, so a longer one would make the result unreadable.
        let fits = match fact {
            Fact::Records(records) => records.bytes.len() <= MAX_BLOB_BYTES,
            Fact::Block(block) => code_length(&block.pieces) <= MAX_BLOB_BYTES,
            Fact::SampleRegisters(piece) => piece.bytes.len() <= MAX_BLOB_BYTES,
            Fact::SampledCode(code) => code.bytes.len() <= MAX_BLOB_BYTES,
            _ => true,
        };
        let used = self.journal.bytes();
        fits && match Table::of(fact).room() {
            // Division first: without a limit, `limit` is u64::MAX.
            Room::Bulk => used < self.limit / 100 * 60,
            Room::Names => used < self.limit / 100 * 65,
            Room::Always => true,
        }
    }

    /// Writes the buffered rows and lets a halving keep pace.
    fn write_out(&mut self) -> Result<(), StoreError> {
        self.push_losses();
        let raw = self.rows.bytes().len() as u64;
        self.journal.write_frame(&mut self.rows)?;
        if let Some(compaction) = &mut self.compaction {
            if compaction.step(raw * COMPACTION_PACE)? {
                self.end_compaction()?;
            }
        } else if !self.saturated && self.journal.bytes() >= self.limit / 100 * 45 {
            self.start_compaction()?;
        }
        Ok(())
    }

    fn start_compaction(&mut self) -> Result<(), StoreError> {
        // The samples that the thinner holds back belong to the part that will be halved.
        for fact in self.thinner.drain() {
            self.rows.push(&fact);
        }
        self.push_losses();
        self.journal.write_frame(&mut self.rows)?;
        // The counts are of rows that will still be there once the halving has ended.
        let halve = if self.filled.records > self.filled.samples {
            self.filled.records /= 2;
            self.kept_bursts = self.kept_bursts.halved();
            Halve::Records(self.kept_bursts)
        } else {
            self.filled.samples /= 2;
            self.thinner = Thinner::new(self.thinner.factor().saturating_mul(2));
            Halve::Samples
        };
        self.compaction = Some(Compaction::start(&self.directory, &self.journal, halve)?);
        Ok(())
    }

    fn end_compaction(&mut self) -> Result<(), StoreError> {
        if let Some(compaction) = self.compaction.take() {
            let compacted = compaction.finish(&self.journal)?;
            self.journal = compacted.journal;
            self.saturated = !compacted.worthwhile;
        }
        Ok(())
    }

    /// Losses are facts too; they are written as soon as rows are.
    fn push_losses(&mut self) {
        let refused = std::mem::take(&mut self.refused_unwritten);
        let losses = [
            (LostSource::Thinned, self.thinner.take_dropped()),
            (LostSource::Samples, refused.samples),
            (LostSource::Faults, refused.faults),
            (LostSource::Events, refused.others),
        ];
        for (source, count) in losses.into_iter().filter(|(_, count)| *count > 0) {
            self.rows.push(&Fact::Lost(Lost { time: self.now, source, count }));
        }
    }
}

impl Sink for Writer {
    fn push(&mut self, fact: Fact) -> Result<(), SinkError> {
        self.refuse_after_failure()?;
        let result = self.take(fact);
        self.failed = result.is_err();
        Ok(result?)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(Writer::flush(self)?)
    }
}

impl Drop for Writer {
    /// A writer that is not finished leaves what it has, for `open` to find.
    fn drop(&mut self) {
        if !self.failed {
            let _ = self.journal.write_frame(&mut self.rows);
        }
        // Its rows are in the journal, too, which readers take.
        if self.compaction.is_some() {
            let _ = fs::remove_file(self.directory.join(COMPACTED_FILE));
        }
    }
}

fn incomplete(run: &Run) -> Manifest {
    let run = Run { state: RunState::Incomplete, schema: SCHEMA_VERSION, ..run.clone() };
    Manifest { run, tables: Default::default() }
}
