//! Halves a journal that has reached its bound, in small steps, while it continues to grow.
//!
//! What for: the density of samples stays even over the whole run, also in an incomplete result, and a run that stays
//! below the bound is not thinned. What not: which samples stay (`thin`).
//!
//! How: reads the journal's frames up to a cut, thins their samples by two, or drops the records of every second
//! burst, and writes them to a second file. The frames after the cut, already thinner, follow unchanged. Then the
//! second file takes the name of the first. A crash at any moment leaves one complete journal under that name.

use std::path::Path;

use base::Nanos;
use facts::{Fact, Lost, LostSource};

use crate::error::StoreError;
use crate::journal::{FRAME_TARGET_BYTES, JournalReader, JournalWriter, NextFrame};
use crate::thin::{KeptBursts, Thinner};
use crate::varint::{Decoder, Encoder};

/// The second file's name.
pub const COMPACTED_FILE: &str = "journal.fathom.new";

/// What is halved: the kind that takes more room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Halve {
    /// Samples, their registers, and faults.
    Samples,
    /// The bursts that keep their records; these are left.
    Records(KeptBursts),
}

/// A halving in progress.
pub struct Compaction {
    input: JournalReader,
    cut: u64,
    output: JournalWriter,
    rows: Encoder,
    thinner: Thinner,
    bursts: KeptBursts,
    thinned: Lost,
}

/// The result of a halving.
pub struct Compacted {
    /// The journal from now on.
    pub journal: JournalWriter,
    /// Whether it gave back at least a fifth of what it read; if not, something else fills it.
    pub worthwhile: bool,
}

impl Compaction {
    /// Begins to halve what `journal` holds now.
    pub fn start(
        directory: &Path,
        journal: &JournalWriter,
        halve: Halve,
    ) -> Result<Compaction, StoreError> {
        // Samples in the journal have been thinned by all earlier halvings: 2 is what this one
        // adds. Bursts are chosen by their id, so their set is that of all halvings together.
        let (factor, bursts) = match halve {
            Halve::Samples => (2, KeptBursts::ALL),
            Halve::Records(bursts) => (1, bursts),
        };
        Ok(Compaction {
            input: journal.reader()?,
            cut: journal.bytes(),
            output: JournalWriter::create(&directory.join(COMPACTED_FILE), facts::SCHEMA_VERSION)?,
            rows: Encoder::default(),
            thinner: Thinner::new(factor),
            bursts,
            thinned: Lost { time: Nanos(0), source: LostSource::Thinned, count: 0 },
        })
    }

    /// Bytes of the second file.
    pub fn bytes(&self) -> u64 {
        self.output.bytes()
    }

    /// Processes about `budget` bytes of rows. `true` if only [`Compaction::finish`] remains to be done.
    pub fn step(&mut self, budget: u64) -> Result<bool, StoreError> {
        let mut done = 0;
        while done < budget {
            if self.input.position() >= self.cut {
                return Ok(true);
            }
            match self.input.next_frame()? {
                NextFrame::Rows => {}
                NextFrame::End => return Ok(true),
                NextFrame::Torn(_, what) => return Err(self.unreadable(what)),
            }
            done += self.input.rows().len() as u64;
            self.copy_frame()?;
        }
        Ok(false)
    }

    fn copy_frame(&mut self) -> Result<(), StoreError> {
        let path = self.input.path().to_owned();
        let mut decoder = Decoder::new(self.input.rows());
        let bad = |error: crate::schema::RowError| StoreError::damaged(&path, error.to_string());
        while let Some(fact) = decoder.next_fact().map_err(bad)? {
            let kept = match fact {
                Fact::Sample(sample) => {
                    self.thinned.time = sample.time;
                    self.thinner.sample(sample)
                }
                Fact::Fault(fault) => self.thinner.fault(fault),
                Fact::MemorySample(sample) => self.thinner.memory(sample),
                Fact::EventSample(sample) => self.thinner.counted(sample),
                Fact::SampleRegisters(piece) => self.thinner.registers(piece),
                // One row for all thinning: otherwise each halving would add its own.
                Fact::Lost(lost) if lost.source == LostSource::Thinned => {
                    self.thinned.time = lost.time;
                    self.thinned.count += lost.count;
                    None
                }
                other => self.bursts.fact(other),
            };
            if let Some(fact) = kept {
                self.rows.push(&fact);
            }
            if self.rows.bytes().len() >= FRAME_TARGET_BYTES {
                self.output.write_frame(&mut self.rows)?;
            }
        }
        Ok(())
    }

    /// Processes the rest, appends what `journal` got meanwhile, and takes its place.
    pub fn finish(mut self, journal: &JournalWriter) -> Result<Compacted, StoreError> {
        while !self.step(u64::MAX)? {}
        for fact in self.thinner.drain() {
            self.rows.push(&fact);
        }
        self.thinned.count += self.thinner.take_dropped();
        if self.thinned.count > 0 {
            self.rows.push(&Fact::Lost(self.thinned));
        }
        self.output.write_frame(&mut self.rows)?;
        // Measured before the newer frames are appended: these were not halved.
        let worthwhile = self.output.bytes() <= self.cut / 5 * 4;
        // Frames are copied compressed: they are thinned already, and decoding them would cost the pace.
        self.output.append_frames_of(journal, self.cut)?;
        self.output.rename_to(journal.path())?;
        Ok(Compacted { journal: self.output, worthwhile })
    }

    fn unreadable(&self, what: String) -> StoreError {
        StoreError::damaged(self.input.path(), what)
    }
}
