//! Opens a result: a complete one from its tables, an interrupted one from its journal.
//!
//! What not: repairing references (`repair`), checking invariants (`verify`).

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use base::{BurstId, Nanos};
use facts::{Fact, Recording, Run, RunState};

use crate::convert::{kept, read_facts};
use crate::error::{Problem, StoreError};
use crate::journal::{JOURNAL_FILE, JournalReader};
use crate::manifest;
use crate::parquet_read::read_table;
use crate::repair::repair;
use crate::schema::Row;
use crate::table::Table;

/// A result in memory.
#[derive(Debug)]
pub struct Opened {
    /// All observations. Ids are dense (row `i` has id `i`), every reference holds, parents come before their
    /// children; samples, faults and sampled accesses are sorted by time. Ids of blocks and bursts are unique, perhaps with gaps. The
    /// reader of records must check whether they decode, and to existing blocks.
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
    let mut manifest = manifest::read(directory)?;
    if manifest.run.state == RunState::Incomplete {
        let path = directory.join(JOURNAL_FILE);
        match JournalReader::open(&path) {
            Err(StoreError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            journal => return load_journal(journal?, manifest.run),
        }
        // No journal: the writer may have finished since the manifest was read.
        manifest = manifest::read(directory)?;
        if manifest.run.state == RunState::Incomplete {
            let what = "the recording is incomplete and its journal is missing";
            return Err(StoreError::damaged(&path, what));
        }
    }
    let (seals, schema) = (&manifest.tables, manifest.run.schema);
    Tables { directory, seals, schema, problems: Vec::new() }.load(manifest.run)
}

struct Tables<'a> {
    directory: &'a Path,
    seals: &'a std::collections::BTreeMap<String, manifest::TableSeal>,
    schema: u32,
    problems: Vec<Problem>,
}

impl Tables<'_> {
    fn read<R: Row>(&mut self, table: Table) -> Result<Vec<R>, StoreError> {
        let name = table.name_in(self.schema);
        let file_name = format!("{name}.parquet");
        let seal = self.seals.get(name);
        // A version may have got a table before its release. If neither the directory nor the manifest has the table,
        // it was never written.
        let is_there = || self.directory.join(&file_name).exists();
        if !table.is_in(self.schema) || (seal.is_none() && !is_there()) {
            return Ok(Vec::new());
        }
        read_table(self.directory, &file_name, seal, &mut self.problems)
    }

    fn load(mut self, run: Run) -> Result<Opened, StoreError> {
        let mut recording = self.read_all(run)?;
        for total in std::mem::take(&mut recording.heap_totals) {
            recording.add(Fact::HeapTotal(total));
        }
        sort_by_time(&mut recording);
        Ok(Opened { recording, problems: self.problems })
    }
}

macro_rules! read_all {
    ($($kind:ident in $rows:ident $(at $time:ident)?;)+) => {
        impl Tables<'_> {
            fn read_all(&mut self, run: Run) -> Result<Recording, StoreError> {
                Ok(Recording { run, $($rows: self.read(Table::$kind)?),+ })
            }
        }
    };
}

facts::every_kind_of_fact!(read_all);

fn load_journal(mut journal: JournalReader, run: Run) -> Result<Opened, StoreError> {
    let mut recording = Recording { run, ..Recording::default() };
    let mut last = Nanos(0);
    let torn = read_facts(&mut journal, |fact| {
        last = last.max(fact.time().unwrap_or_default());
        recording.add(fact);
        Ok(())
    })?;
    recording.run.elapsed_ns = last.0;
    sort_by_time(&mut recording);
    let mut problems = vec![Problem::Incomplete { milliseconds: last.0 / 1_000_000 }];
    problems.extend(torn.map(|torn| Problem::TornTail { bytes: torn.bytes, what: torn.what }));
    Ok(Opened { recording, problems })
}

/// What a complete journal holds, as its tables will have it.
pub(crate) fn complete_journal(
    mut journal: JournalReader,
    run: Run,
    incomplete_bursts: &BTreeSet<BurstId>,
) -> Result<Opened, StoreError> {
    let mut recording = Recording { run, ..Recording::default() };
    read_facts(&mut journal, |fact| {
        kept(fact, incomplete_bursts).into_iter().for_each(|fact| recording.add(fact));
        Ok(())
    })?;
    sort_by_time(&mut recording);
    let problems = repair(&mut recording);
    Ok(Opened { recording, problems })
}

/// A stable sort: nothing to do for tables, which are sorted already.
fn sort_by_time(recording: &mut Recording) {
    recording.samples.sort_by_key(|sample| sample.time);
    recording.faults.sort_by_key(|fault| fault.time);
    recording.memory_samples.sort_by_key(|sample| sample.time);
    recording.marks.sort_by_key(|mark| mark.time);
}

/// Files that should not exist. An incomplete result may hold partial tables or a partial new journal: a killed
/// process could not remove them, and they are not read.
pub(crate) fn leftovers(directory: &Path, state: RunState) -> Vec<String> {
    let names = [JOURNAL_FILE, crate::compact::COMPACTED_FILE];
    let left = names.into_iter().filter(|name| directory.join(name).exists());
    if state == RunState::Complete { left.map(str::to_owned).collect() } else { Vec::new() }
}
