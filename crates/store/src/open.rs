//! The reading end: a complete result from its tables, an interrupted one from its journal.

use std::path::Path;

use base::Nanos;
use facts::{Recording, Run, RunState};

use crate::convert::read_facts;
use crate::error::{Problem, StoreError};
use crate::journal::{JOURNAL_FILE, JournalReader};
use crate::manifest;
use crate::parquet_read::read_table;
use crate::repair::repair;
use crate::schema::{Row, Table};
use crate::writer::time_of;

/// A result in memory.
#[derive(Debug)]
pub struct Opened {
    /// Everything observed. Ids are dense (row `i` has id `i`), every reference holds, parents come before their
    /// children; samples and faults are sorted by time.
    pub recording: Recording,
    /// What the reader must know, worst first.
    pub problems: Vec<Problem>,
}

/// Opens a result, complete or not. Writes nothing: a directory that cannot be written to is fine.
///
/// # Errors
/// `NotAResult`, `Newer`, `Damaged`, `Read`. What can be repaired is a [`Problem`] instead.
pub fn open(directory: &Path) -> Result<Opened, StoreError> {
    let Opened { mut recording, mut problems } = load(directory)?;
    problems.extend(repair(&mut recording));
    Ok(Opened { recording, problems })
}

/// As [`open`], but references are as the files say.
pub(crate) fn load(directory: &Path) -> Result<Opened, StoreError> {
    let manifest = manifest::read(directory)?;
    match manifest.run.state {
        RunState::Complete => {
            let tables = Tables { directory, seals: &manifest.tables, problems: Vec::new() };
            tables.load(manifest.run)
        }
        RunState::Incomplete => load_journal(&directory.join(JOURNAL_FILE), manifest.run),
    }
}

struct Tables<'a> {
    directory: &'a Path,
    seals: &'a std::collections::BTreeMap<String, manifest::TableSeal>,
    problems: Vec<Problem>,
}

impl Tables<'_> {
    fn read<R: Row>(&mut self) -> Result<Vec<R>, StoreError> {
        let seal = self.seals.get(R::TABLE.name());
        read_table(self.directory, seal, &mut self.problems)
    }

    fn load(mut self, run: Run) -> Result<Opened, StoreError> {
        let mut recording = Recording {
            run,
            modules: self.read()?,
            mappings: self.read()?,
            stack_nodes: self.read()?,
            samples: self.read()?,
            faults: self.read()?,
            thread_events: self.read()?,
            lost: self.read()?,
            counters: self.read()?,
            gauges: self.read()?,
            frames: self.read()?,
        };
        sort_by_time(&mut recording);
        Ok(Opened { recording, problems: self.problems })
    }
}

fn load_journal(path: &Path, run: Run) -> Result<Opened, StoreError> {
    let mut journal = JournalReader::open(path).map_err(|error| match error {
        StoreError::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            StoreError::damaged(path, "the recording is incomplete and its journal is missing")
        }
        other => other,
    })?;
    let mut recording = Recording { run, ..Recording::default() };
    let mut last = Nanos(0);
    let torn = read_facts(&mut journal, |fact| {
        last = last.max(time_of(&fact).unwrap_or_default());
        recording.add(fact);
        Ok(())
    })?;
    recording.run.elapsed_ns = last.0;
    sort_by_time(&mut recording);
    let mut problems = vec![Problem::Incomplete { milliseconds: last.0 / 1_000_000 }];
    problems.extend(torn.map(|torn| Problem::TornTail { bytes: torn.bytes, what: torn.what }));
    Ok(Opened { recording, problems })
}

/// A stable sort: nothing to do for tables, which are sorted already.
fn sort_by_time(recording: &mut Recording) {
    recording.samples.sort_by_key(|sample| sample.time);
    recording.faults.sort_by_key(|fault| fault.time);
}

/// The tables' files that exist although the result is incomplete, and the other way round.
pub(crate) fn leftovers(directory: &Path, state: RunState) -> Vec<String> {
    let mut names = vec![crate::compact::COMPACTED_FILE.to_owned()];
    match state {
        RunState::Complete => names.push(JOURNAL_FILE.to_owned()),
        RunState::Incomplete => names.extend(Table::ALL.map(Table::file_name)),
    }
    names.retain(|name| directory.join(name).exists());
    names
}
