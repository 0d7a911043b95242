//! The variables of the modules that a program had mapped, with their addresses in its processes; and what a process names itself.
//!
//! What for: names for data, after the collection, in processes of which addresses of data are known (bursts, page
//! faults). What not: which of them were accessed: only analysis can tell, so all are taken, within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Bytes, ModuleId, Nanos, Pid, RemoteAddr};
use facts::{Global, Mapping, Module, ModuleKind};
use symbols::{Demangle, Elf, LoadBias, PERF_MAP_LIMIT, PerfMap, Variables};
use sys::map::FileMap;

use super::file::debug_file;
use super::{Options, file_name};
use crate::recorder::is_our_agent;

/// Variables of one module that are taken, the largest first.
const MOST_OF_MODULE: usize = 20_000;
/// Variables of all modules and processes together: some 20 MB before compression.
const MOST: usize = 200_000;

/// How a memory file's name begins (memfd_create(2)).
const NAMES: &[u8] = b"/memfd:fathom-objects";

/// The result.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Globals {
    /// By process, then by module and address.
    pub globals: Vec<Global>,
    /// What is missing, one sentence each.
    pub problems: Vec<String>,
}

/// The variables in `processes`, the most interesting first. `mappings` are of code; the place of the data follows
/// from them.
#[must_use]
pub fn globals(
    modules: &[Module],
    mappings: &[Mapping],
    processes: &[Pid],
    options: &Options,
) -> Globals {
    let modules: BTreeMap<ModuleId, &Module> = modules
        .iter()
        .filter(|module| module.kind == ModuleKind::File && !is_our_agent(&module.path))
        .map(|module| (module.id, module))
        .collect();
    let mut read: BTreeMap<ModuleId, Option<Read>> = BTreeMap::new();
    let mut found = Globals::default();
    let mut left_out = 0;
    for pid in processes {
        let mut seen: BTreeSet<(ModuleId, LoadBias)> = BTreeSet::new();
        for mapping in mappings.iter().filter(|mapping| mapping.pid == *pid) {
            let Some(module) = modules.get(&mapping.module) else { continue };
            let read = read.entry(module.id).or_insert_with(|| {
                Read::of(
                    module,
                    mappings.iter().filter(|mapping| mapping.module == module.id),
                    options,
                )
            });
            let Some(read) = read else { continue };
            let Some(moved) = read.moved(mapping) else { continue };
            // A module has several mappings of code, but its data once for each place where it is loaded.
            if !seen.insert((module.id, moved)) {
                continue;
            }
            let room = MOST.saturating_sub(found.globals.len());
            left_out += read.variables.list.len().saturating_sub(room);
            let list = read.variables.list.iter().take(room);
            found.globals.extend(list.map(|variable| Global {
                time: mapping.time,
                pid: *pid,
                module: module.id,
                start: variable.address(moved),
                bytes: variable.bytes,
                name: variable.name.clone(),
            }));
        }
        let program = mappings.iter().find(|mapping| mapping.pid == *pid);
        if let Some(program) = program
            && let Err(problem) = add_named(*pid, program.module, &mut found.globals)
        {
            found.problems.push(problem);
        }
    }
    let small: usize = read.values().flatten().map(|read| read.variables.left_out).sum();
    if small + left_out > 0 {
        found.problems.push(format!(
            "{} variables have no object of their own: at most {MOST_OF_MODULE} of a module (the largest) and {MOST} in all",
            small + left_out
        ));
    }
    found
}

/// Adds what the process names itself: lines as in `/tmp/perf-PID.map` in a memory file [`NAMES`] that it holds open, which so is no
/// other's and not older than it. What is a variable of a module is not named anew.
fn add_named(pid: Pid, program: ModuleId, globals: &mut Vec<Global>) -> Result<(), String> {
    let Some(text) = read_names(pid) else { return Ok(()) };
    let of = |what| format!("names of memory by process {pid}: {what}");
    let named = PerfMap::parse(&text).map_err(|error| of(error.to_string()))?;
    let own = globals.iter().filter(|global| global.pid == pid);
    let known: BTreeMap<u64, u64> =
        own.map(|global| (global.start.0, global.start.0.saturating_add(global.bytes.0))).collect();
    let is_new = |start: RemoteAddr, bytes: Bytes| {
        let before = known.range(..start.0.saturating_add(bytes.0)).next_back();
        before.is_none_or(|(_, end)| *end <= start.0)
    };
    let all = named.ranges().filter(|(start, bytes, _)| is_new(*start, *bytes));
    let room = MOST.saturating_sub(globals.len());
    let new = all.take(room).map(|(start, bytes, name)| Global {
        time: Nanos(0),
        pid,
        module: program,
        start,
        bytes,
        name,
    });
    globals.extend(new);
    match named.skipped() {
        0 => Ok(()),
        skipped => Err(of(format!("{skipped} lines were not understood"))),
    }
}

fn read_names(pid: Pid) -> Option<Vec<u8>> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let has_name = |path: &PathBuf| {
        std::fs::read_link(path).is_ok_and(|name| name.as_os_str().as_bytes().starts_with(NAMES))
    };
    let file = File::open(files.map(|file| file.path()).find(has_name)?).ok()?;
    let mut text = Vec::new();
    // One byte more than allowed, so that the parser can tell "too large".
    file.take(PERF_MAP_LIMIT.0 + 1).read_to_end(&mut text).ok()?;
    Some(text)
}

/// A module's variables, and the offset of each of its mappings from the stated addresses.
struct Read {
    variables: Variables,
    moved: BTreeMap<(Pid, Nanos, u64), LoadBias>,
}

impl Read {
    /// `None` when the file is gone or was replaced; `symbolise` reports that.
    fn of<'a>(
        module: &Module,
        mappings: impl Iterator<Item = &'a Mapping>,
        options: &Options,
    ) -> Option<Read> {
        let path = Path::new(&module.path);
        let held = options.files.get(&module.id).cloned();
        let map = held.or_else(|| FileMap::open(path).ok().map(Arc::new))?;
        let elf = Elf::parse(&map).ok()?;
        if elf.build_id() != module.build_id {
            return None;
        }
        let key = |mapping: &Mapping| (mapping.pid, mapping.time, mapping.start.0);
        let moved = mappings
            .filter_map(|mapping| {
                Some((key(mapping), elf.load_bias(mapping.start, mapping.file_offset)?))
            })
            .collect();
        let debug = debug_file(path, &elf, options, &mut Vec::new());
        let debug = debug.as_ref().and_then(|(_, map)| Elf::parse(map).ok());
        let demangle = if options.demangle { Demangle::Yes } else { Demangle::No };
        let name = file_name(module);
        let variables = symbols::variables(&elf, debug.as_ref(), name, demangle, MOST_OF_MODULE);
        Some(Read { variables, moved })
    }

    fn moved(&self, mapping: &Mapping) -> Option<LoadBias> {
        self.moved.get(&(mapping.pid, mapping.time, mapping.start.0)).copied()
    }
}
