//! Small programs built by the system's compiler, for the tests of this crate.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::path::{Path, PathBuf};
use std::process::Command;

use base::FileOffset;
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use symbols::{Demangle, Elf, ModuleImage, SourceFrame};

/// A fresh directory for the files of one test.
pub fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("symbols-{test}"));
    if path.exists() {
        std::fs::remove_dir_all(&path).unwrap();
    }
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a tool in `directory`; its failure is the test's.
pub fn tool(directory: &Path, words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).current_dir(directory).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The file offsets of all bytes of the function `name` (mangled) in an unstripped file.
pub fn offsets_of(bytes: &[u8], name: &str) -> Vec<FileOffset> {
    let file = object::File::parse(bytes).unwrap();
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
    let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
    let start = section.file_range().unwrap().0 + symbol.address() - section.address();
    (start..start + symbol.size()).map(FileOffset).collect()
}

/// All file offsets of the section `name`.
pub fn offsets_in_section(bytes: &[u8], name: &str) -> std::ops::Range<u64> {
    let file = object::File::parse(bytes).unwrap();
    let (start, size) = file.section_by_name(name).unwrap().file_range().unwrap();
    start..start + size
}

/// Frames of one address, each as `function file-name:line`, innermost first, inlined ones marked.
pub fn shown(frames: &[SourceFrame]) -> String {
    let shown = |frame: &SourceFrame| {
        let file = frame.file.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or("?");
        let line = frame.line.map_or("?".to_owned(), |line| line.to_string());
        let inlined = if frame.inlined { " (inlined)" } else { "" };
        format!("{} {file}:{line}{inlined}", frame.function)
    };
    frames.iter().map(shown).collect::<Vec<_>>().join(" < ")
}

/// The distinct answers for `offsets`, in order of first appearance.
pub fn answers(main: &[u8], debug: Option<&[u8]>, offsets: &[FileOffset]) -> Vec<String> {
    let debug = debug.map(|bytes| Elf::parse(bytes).unwrap());
    let image = ModuleImage::new(Elf::parse(main).unwrap(), debug, None);
    let table = image.symbol_table(Demangle::Yes);
    let mut answers: Vec<String> = Vec::new();
    for offset in offsets {
        let answer = shown(&table.lookup(*offset));
        if !answers.contains(&answer) {
            answers.push(answer);
        }
    }
    answers
}
