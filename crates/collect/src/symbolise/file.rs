//! The symbols of a module that has a file: from the file itself and its separate debug file, and what is wrong with
//! them.
//!
//! What not: parsing (`symbols`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use symbols::{Demangle, Elf, ModuleImage, Problem};
use sys::map::FileMap;

use super::{Collector, Options};
use crate::modules::DELETED;
use crate::recorder::is_our_agent;

/// The name for all code of the agent: its cost is ours, not the program's.
const AGENT_FUNCTION: &str = "[fathom agent]";

/// Debug information of a file of this size may take half a second to unpack and to search.
const LARGE: usize = 32 << 20;

/// Names the functions of a module that has a file.
pub(super) fn look_up(collector: &mut Collector<'_>, options: &Options, demangle: Demangle) {
    let module = collector.job.module;
    if is_our_agent(&module.path) {
        // The agent's `malloc` is not the program's: all of its code is one row, marked as ours.
        return collector.look_up_names(|_| Some(AGENT_FUNCTION.to_owned()));
    }
    let held = options.files.get(&module.id);
    if held.is_none() && module.path.ends_with(DELETED) {
        return collector.shared_problem(
            "deleted or replaced while the program ran, so functions cannot be named",
            None,
            "collect again and leave such files alone meanwhile",
        );
    }
    if held.is_none() && options.elsewhere.files {
        return collector.shared_problem(
            "recorded on another machine, and not found here by build-id, so functions cannot be named",
            None,
            "import the file on that machine, or put the same files at the same paths (`perf archive` collects them)",
        );
    }
    let path = Path::new(&module.path);
    let held = held.map(|held| Ok(Arc::clone(held)));
    let map = match held.unwrap_or_else(|| FileMap::open(path).map(Arc::new)) {
        Ok(map) => map,
        Err(error) => {
            return collector.problem(format!("cannot be opened for its symbols: {error}"));
        }
    };
    let elf = match Elf::parse(&map) {
        Ok(elf) => elf,
        Err(error) => return collector.problem(error),
    };
    if let Some(recorded) = &module.build_id
        && elf.build_id().as_ref() != Some(recorded)
    {
        let now = elf.build_id();
        let now = now.as_deref().unwrap_or("none");
        return collector.shared_problem(
            "replaced since the recording, so functions cannot be named",
            Some(format!("build-id {recorded} then, {now} now")),
            "collect again",
        );
    }
    let mut rejected = Vec::new();
    let debug = debug_file(path, &elf, options, &mut rejected);
    let debug_elf = debug.as_ref().and_then(|(_, map)| Elf::parse(map).ok());
    let (link, referrer) = match (&debug, &debug_elf) {
        (Some((path, _)), Some(elf)) => (elf.alternate_link(), path.as_path()),
        _ => (elf.alternate_link(), path),
    };
    let alternate = link.and_then(|link| {
        let places =
            symbols::alternate_file_candidates(referrer, &link, &options.debug_directories);
        first_match(places, &mut rejected, |elf| symbols::check_alternate_file(&link, elf))
    });
    let alternate_elf = alternate.as_ref().and_then(|(_, map)| Elf::parse(map).ok());
    let debug_bytes = debug.as_ref().map_or(map.len(), |(_, map)| map.len());
    if debug_bytes >= LARGE
        && let Ok(names) = Elf::parse(&map)
    {
        let names = ModuleImage::without_debug_information(names);
        collector.tell_names(&names.symbol_table(demangle));
    }
    let image = ModuleImage::new(elf, debug_elf, alternate_elf);
    let table = image.symbol_table(demangle);
    collector.look_up_table(&table);
    collector.add_types(&image);
    collector.add_code(&table, &map);
    let problems = table.problems();
    if problems.is_empty() {
        collector.tell_poor_coverage();
    }
    for problem in problems {
        collector.shared_problem(problem.what(), problem.detail(), advice(&problem));
    }
    for sentence in rejected {
        collector.problem(sentence);
    }
}

/// What the user can do about a problem.
fn advice(problem: &Problem) -> &'static str {
    match problem {
        Problem::SymbolTableOnly | Problem::ExportedSymbolsOnly | Problem::NoSymbols => {
            "build with -g or install debug symbols (Debian: packages ending in -dbgsym or -dbg)"
        }
        Problem::AlternateMissing { .. } => "reinstall the debug symbols",
        Problem::SplitDebugInformation { .. } => "build without -gsplit-dwarf",
        Problem::DamagedDebugInformation { .. }
        | Problem::Compressed { .. }
        | Problem::Absurd { .. } => "",
    }
}

/// The separate debug file of a module without debug information of its own. `rejected` gets a sentence for each file
/// that was found but does not match, unless a matching one was found.
pub(super) fn debug_file(
    path: &Path,
    elf: &Elf<'_>,
    options: &Options,
    rejected: &mut Vec<String>,
) -> Option<(PathBuf, FileMap)> {
    if elf.has_debug_information() {
        return None;
    }
    // The loader may have used a path with symbolic links; debug packages use the real one.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let places = symbols::debug_file_candidates(
        &real,
        elf.build_id().as_deref(),
        elf.debug_link().as_ref(),
        &options.debug_directories,
    );
    first_match(places, rejected, |candidate| symbols::check_debug_file(elf, candidate))
}

fn first_match(
    places: Vec<PathBuf>,
    rejected: &mut Vec<String>,
    check: impl Fn(&Elf<'_>) -> Result<(), symbols::DebugFileMismatch>,
) -> Option<(PathBuf, FileMap)> {
    let mut wrong = Vec::new();
    for place in places {
        // Most candidates do not exist: that is no problem.
        let Ok(map) = FileMap::open(&place) else { continue };
        let verdict = match Elf::parse(&map) {
            Ok(elf) => check(&elf).map_err(|mismatch| mismatch.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match verdict {
            Ok(()) => return Some((place, map)),
            Err(reason) => wrong.push(format!("its debug file {} {reason}", place.display())),
        }
    }
    rejected.extend(wrong);
    None
}
