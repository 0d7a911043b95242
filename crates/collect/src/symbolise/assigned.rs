//! The variables that source lines assign to, read from the source files, where they exist.
//!
//! What for: names of objects that people know (`symbols::assigned`). What not: which of the lines allocate: all
//! lines that have a frame are read. Assumption: paths from debug information may be false. So only regular files of
//! a source file's size are read, and none that was changed after the module was built, because its lines may have
//! moved.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use base::ModuleId;
use facts::{Assignment, Frame, Module, ModuleKind};

/// A larger file is generated code.
const LARGEST_FILE: u64 = 4 << 20;
/// Most bytes of source that are read for a recording.
const LARGEST_SUM: u64 = 64 << 20;

/// The assignments on all lines of the frames, by module, file and line.
#[must_use]
pub fn assignments(modules: &[Module], frames: &[Frame]) -> Vec<Assignment> {
    let mut lines: BTreeMap<(ModuleId, &str), BTreeSet<u32>> = BTreeMap::new();
    for frame in frames {
        if let (Some(file), Some(line)) = (&frame.file, frame.line) {
            lines.entry((frame.module, file)).or_default().insert(line);
        }
    }
    let paths: BTreeMap<ModuleId, &str> = modules
        .iter()
        .filter(|module| module.kind == ModuleKind::File)
        .map(|module| (module.id, module.path.as_str()))
        .collect();
    let (mut found, mut left) = (Vec::new(), LARGEST_SUM);
    for ((module, file), lines) in lines {
        let Some(text) = paths.get(&module).and_then(|path| read(file, path, &mut left)) else {
            continue;
        };
        let all: Vec<&str> = text.lines().collect();
        for line in lines {
            let at = (line as usize).checked_sub(1);
            let Some((at, code)) = at.and_then(|at| Some((at, *all.get(at)?))) else { continue };
            let before = at.checked_sub(1).and_then(|at| all.get(at)).copied();
            if let Some(variable) = symbols::assigned(code, before) {
                found.push(Assignment { module, file: file.to_owned(), line, variable });
            }
        }
    }
    found
}

/// The text of a source file that is as old as the module built from it.
fn read(file: &str, module: &str, left: &mut u64) -> Option<String> {
    let path = Path::new(file);
    // A relative path refers to a directory that is not known.
    let source = path.is_absolute().then(|| std::fs::metadata(path).ok()).flatten()?;
    let built = std::fs::metadata(module).ok()?.modified().ok()?;
    // Files of /proc and the like report no length and may have no end.
    let fits = source.is_file() && (1..=LARGEST_FILE.min(*left)).contains(&source.len());
    if !fits || source.modified().ok()? > built {
        return None;
    }
    *left -= source.len();
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(source.len()).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
