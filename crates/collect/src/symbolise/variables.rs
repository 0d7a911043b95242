//! The variables of the modules that a program had mapped, with their addresses in its processes.
//!
//! What for: names for data, after the collection, in processes of which addresses of data are known (bursts, page
//! faults). What not: which of them were accessed: only analysis can tell, so all are taken, within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base::{ModuleId, Nanos, Pid};
use facts::{Global, Mapping, Module, ModuleKind};
use symbols::{Demangle, Elf, LoadBias, Variables};
use sys::map::FileMap;

use super::file::debug_file;
use super::{Options, file_name};
use crate::recorder::is_our_agent;

/// Variables of one module that are taken, the largest first.
const MOST_OF_MODULE: usize = 20_000;
/// Variables of all modules and processes together: some 20 MB before compression.
const MOST: usize = 200_000;

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
