//! Programs whose source says which members each line touches, as compilers build them.
//!
//! Nothing runs: every access of every function of the source file is looked up. No answer may be wrong; how many there are
//! depends on the compiler, so only a share far below what was measured is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use base::{CodeAddress, FileOffset, ModuleId};
use facts::{AccessType, Frame, Module, ModuleKind};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use symbols::{Elf, ModuleImage};
use testkit::programs;
use x86::Reader;

use crate::symbolise::{Options, Symbolised, symbolise};

/// What the marks of a source file say.
struct Marks {
    file: &'static str,
    /// Per line: what may be said of memory there.
    lines: BTreeMap<u32, BTreeSet<String>>,
    /// The type of a local variable of this name.
    locals: BTreeSet<(String, String)>,
    /// Only marked lines are judged, and a variable itself may be touched on them: for languages whose compilers make up
    /// variables and functions.
    lenient: bool,
    /// From this line on, nothing is said.
    last: u32,
}

impl Marks {
    fn read(file: &'static str, comment: &str) -> Marks {
        let path = programs::root().join("tests/programs").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let (mut lines, mut locals, mut last) = (BTreeMap::new(), BTreeSet::new(), u32::MAX);
        for (number, line) in (1..).zip(text.lines()) {
            let Some((_, mark)) = line.split_once(comment) else { continue };
            if mark == " end of marks" {
                last = number;
                break;
            }
            if let Some(types) = mark.strip_prefix(" type:") {
                let types = types.replace("::", "\u{1}");
                let types = types.split(' ').filter(|one| !one.is_empty());
                let types = types.map(|one| one.replace('\u{1}', "::").replace('~', " "));
                lines.insert(number, types.collect());
            } else if let Some((name, of)) =
                mark.strip_prefix(" local ").and_then(|local| local.split_once(": "))
            {
                locals.insert((name.to_owned(), of.to_owned()));
            }
        }
        Marks { file, lines, locals, lenient: !file.ends_with(".c"), last }
    }

    /// Whether the answer is one of the marks. A local variable itself may be touched anywhere.
    fn allow(&self, line: u32, answer: &AccessType) -> bool {
        if line >= self.last || (self.lenient && !self.lines.contains_key(&line)) {
            return true;
        }
        let marked = self.lines.get(&line).is_some_and(|marks| marks.contains(&shown(answer)));
        let local = (answer.variable.clone().unwrap_or_default(), answer.type_name.clone());
        let of_itself = self.lenient && answer.variable.is_some() && answer.field.is_none();
        marked || of_itself || self.locals.contains(&local)
    }
}

fn shown(answer: &AccessType) -> String {
    match &answer.field {
        Some(field) => format!("{}.{field}", answer.type_name),
        None => answer.type_name.clone(),
    }
}

/// Offsets of all instructions with accesses, and how many accesses each has.
fn accesses(path: &Path) -> BTreeMap<FileOffset, usize> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let mut reader = Reader::new();
    let mut found = BTreeMap::new();
    for symbol in file.symbols().filter(|one| one.kind() == SymbolKind::Text && one.size() > 0) {
        let Some(section) = symbol.section_index() else { continue };
        let section = file.section_by_index(section).unwrap();
        let (at, _) = section.file_range().unwrap();
        let start = symbol.address() - section.address();
        let code = section.data().unwrap();
        let (mut inside, end) = (start, (start + symbol.size()).min(code.len() as u64));
        while inside < end {
            let rest = &code[inside as usize..];
            let address = base::RemoteAddr(section.address() + inside);
            let Some(step) = reader.pointer_step(rest, address) else { break };
            if !step.accesses.is_empty() {
                found.insert(FileOffset(at + inside), step.accesses.len());
            }
            inside += step.length as u64;
        }
    }
    found
}

fn looked_up(path: &Path, accesses: &BTreeMap<FileOffset, usize>) -> Symbolised {
    let bytes = std::fs::read(path).unwrap();
    let build_id = Elf::parse(&bytes).unwrap().build_id();
    let path = path.to_str().unwrap().to_owned();
    let module = Module { id: ModuleId(1), kind: ModuleKind::File, path, build_id };
    let typed: Vec<_> =
        accesses.keys().map(|offset| CodeAddress::new(module.id, *offset)).collect();
    let options = Options { typed: typed.clone(), ..Options::default() };
    symbolise(&[module], &typed, &options, &mut |_| {})
}

/// Where an instruction comes from: its file and line, not those of a function that it was inlined into.
fn line_of(frames: &BTreeMap<FileOffset, &Frame>, offset: FileOffset, file: &str) -> Option<u32> {
    let frame = frames.get(&offset)?;
    frame.file.as_deref().is_some_and(|path| path.ends_with(file)).then_some(frame.line?)
}

/// Checks all answers of a program; its marked lines, those with any answer, and how many of their accesses have one.
fn check(program: &Path, marks: &Marks) -> (usize, usize, usize, usize) {
    let accesses = accesses(program);
    let found = looked_up(program, &accesses);
    let innermost = found.frames.iter().filter(|frame| frame.depth == 0);
    let frames: BTreeMap<_, _> = innermost.map(|frame| (frame.offset, frame)).collect();
    let mut wrong = Vec::new();
    let (mut right, mut reached) = (0, BTreeSet::new());
    for answer in &found.types {
        let Some(line) = line_of(&frames, answer.offset, marks.file) else { continue };
        if !marks.allow(line, answer) {
            let variable = answer.variable.as_deref().unwrap_or("-");
            wrong.push(format!("line {line} at {}: {} ({variable})", answer.offset, shown(answer)));
        }
        if marks.lines.get(&line).is_some_and(|marks| !marks.is_empty()) {
            right += 1;
            reached.insert(line);
        }
    }
    let marked = |(offset, count): (&FileOffset, &usize)| {
        let line = line_of(&frames, *offset, marks.file)?;
        marks.lines.get(&line).filter(|marks| !marks.is_empty()).map(|_| (line, *count))
    };
    let all: Vec<(u32, usize)> = accesses.iter().filter_map(marked).collect();
    let lines: BTreeSet<u32> = all.iter().map(|(line, _)| *line).collect();
    let unobserved: Vec<_> = lines.difference(&reached).collect();
    let total: usize = all.iter().map(|(_, count)| count).sum();
    let name = program.file_name().unwrap().to_string_lossy();
    println!(
        "{name}: {right} of {total} accesses on marked lines; unobserved lines {unobserved:?}"
    );
    assert_eq!(wrong, [""; 0], "{name}");
    (lines.len(), reached.len(), total, right)
}

#[test]
fn members_of_c_are_the_ones_that_the_source_names() {
    let marks = Marks::read("typed_accesses.c", "//");
    for (program, least_percent) in [
        ("typed_accesses_o0", 80),
        ("typed_accesses_o1", 60),
        ("typed_accesses_o2", 60),
        ("typed_accesses_o3", 50),
        ("typed_accesses_dwarf4", 60),
    ] {
        let (lines, reached, _, _) = check(&programs::target(program), &marks);
        assert!(reached * 100 >= lines * least_percent, "{program}: {reached} of {lines} lines");
    }
}

#[test]
fn members_of_classes_and_templates_are_the_ones_that_the_source_names() {
    let marks = Marks::read("typed_classes.cpp", "//");
    for (program, least_percent) in [("typed_classes_o0", 80), ("typed_classes_o2", 50)] {
        let (lines, reached, _, _) = check(&programs::target(program), &marks);
        assert!(reached * 100 >= lines * least_percent, "{program}: {reached} of {lines} lines");
    }
}

/// Builds a source of the test-suite with a compiler that may not be there.
fn built(compiler: &[&str], source: &str, program: &Path) -> bool {
    let folder = programs::root().join("tests/programs");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg(folder.join(source)).arg("-o").arg(program);
    let directory = program.parent().unwrap();
    match command.current_dir(directory).status() {
        Ok(status) => status.success(),
        Err(_) => {
            programs::skip(&format!("{} is not installed", compiler[0]));
            false
        }
    }
}

#[test]
fn members_of_fortran_and_rust_are_the_ones_that_the_source_names() {
    let scratch = programs::Scratch::new("typed");
    for (source, comment, compiler, least_percent) in [
        ("typed_fortran.f90", "!", &["gfortran", "-g", "-O0"][..], 60),
        ("typed_fortran.f90", "!", &["gfortran", "-g", "-O2"], 40),
        ("typed_rust.rs", "//", &["rustc", "--edition", "2021", "-g"], 30),
        ("typed_rust.rs", "//", &["rustc", "--edition", "2021", "-g", "-O"], 40),
    ] {
        let marks = Marks::read(source, comment);
        let program = scratch.join(&format!("{source}.{least_percent}"));
        if built(compiler, source, &program) {
            let (lines, reached, _, _) = check(&program, &marks);
            assert!(reached * 100 >= lines * least_percent, "{source}: {reached} of {lines}");
        }
    }
}

/// Debug information that was tampered with: answers or none, never a panic, and members stay within their types.
#[test]
fn damaged_debug_information_is_survived() {
    for program in ["typed_accesses_o2", "typed_accesses_dwarf4", "typed_classes_o0"] {
        let path = programs::target(program);
        let whole = std::fs::read(&path).unwrap();
        let offsets: Vec<_> = accesses(&path).into_keys().collect();
        let file = object::File::parse(&*whole).unwrap();
        let debug =
            file.sections().filter(|one| one.name().is_ok_and(|name| name.starts_with(".debug_")));
        let ranges: Vec<_> = debug.filter_map(|one| one.file_range()).collect();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below.max(1)
        };
        for round in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..1 + round / 10 {
                let (start, size) = ranges[next(ranges.len() as u64) as usize];
                let value = [0, 0xff, 0x80, next(256) as u8][next(4) as usize];
                bytes[(start + next(size)) as usize] = value;
            }
            let image = ModuleImage::new(Elf::parse(&bytes).unwrap(), None, None);
            let mut decoder = super::X86 { reader: Reader::new() };
            for one in symbols::types::typed_accesses(&image, &offsets, &mut decoder, &mut || true)
            {
                let end = one.field_offset.0 + one.field_bytes.0;
                assert!(end <= one.type_bytes.0, "{program}, round {round}: {one:?}");
            }
        }
    }
}
