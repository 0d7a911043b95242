//! How many of a file's memory accesses get a type, and what they are: `cargo run --example types -- FILE [-v]`.
//!
//! What for: judging `symbols::types` on real programs, all of whose functions are taken as if they had been traced. With
//! `-v` each answer is a line with its source place, to be compared with the source by eye.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use base::{CodeAddress, FileOffset, ModuleId, RemoteAddr};
use collect::symbolise::{Options, symbolise};
use facts::{AccessType, Module, ModuleKind};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use symbols::Elf;
use x86::{Gpr, Reader};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: types FILE [-v]");
        std::process::exit(2);
    };
    let verbose = arguments.next().is_some();
    let bytes = std::fs::read(&path).expect("the file can be read");
    let build_id = Elf::parse(&bytes).expect("an ELF file").build_id();
    let (all, stack) = accesses(&bytes);
    let module = Module { id: ModuleId(1), kind: ModuleKind::File, path: path.clone(), build_id };
    let typed: Vec<_> = all.keys().map(|offset| CodeAddress::new(module.id, *offset)).collect();
    let begun = Instant::now();
    let without = Options::default();
    symbolise(std::slice::from_ref(&module), &typed, &without, &mut |_| {});
    let names = begun.elapsed();
    let options = Options { typed: typed.clone(), ..Options::default() };
    let begun = Instant::now();
    let found = symbolise(&[module], &typed, &options, &mut |_| {});
    let both = begun.elapsed();
    if verbose {
        let lines = found.frames.iter().filter(|frame| frame.depth == 0);
        let lines: BTreeMap<_, _> = lines.map(|frame| (frame.offset, frame)).collect();
        for one in &found.types {
            let frame = lines.get(&one.offset);
            let place = frame.map_or(String::new(), |frame| {
                format!("{}:{}", frame.file.as_deref().unwrap_or("?"), frame.line.unwrap_or(0))
            });
            println!("{}\t{}\t{}\t{place}", one.offset, one.access, shown(one));
        }
    }
    let total: usize = all.values().sum();
    let count = found.types.len();
    let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy();
    println!(
        "{name}: {count} of {total} accesses, of which {stack} are push, pop, call and ret; names {names:.1?}, with types {both:.1?}"
    );
    found.problems.iter().for_each(|problem| println!("{problem}"));
}

fn shown(one: &AccessType) -> String {
    let field = one.field.as_deref().map_or(String::new(), |field| format!(".{field}"));
    let variable = one.variable.as_deref().unwrap_or("-");
    format!("{}{field} +{} {} ({variable})", one.type_name, one.field_offset.0, one.field_bytes.0)
}

/// Accesses of each instruction of each function, and how many move the stack pointer.
fn accesses(bytes: &[u8]) -> (BTreeMap<FileOffset, usize>, usize) {
    let file = object::File::parse(bytes).expect("an ELF file");
    let mut reader = Reader::new();
    let (mut found, mut stack) = (BTreeMap::new(), 0);
    for symbol in file.symbols().filter(|one| one.kind() == SymbolKind::Text && one.size() > 0) {
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let Some((section, code)) = section.and_then(|one| Some((one.address(), one.data().ok()?)))
        else {
            continue;
        };
        let (at, _) = file
            .sections()
            .find(|one| one.address() == section)
            .and_then(|one| one.file_range())
            .unwrap_or_default();
        let mut inside = symbol.address() - section;
        let end = (inside + symbol.size()).min(code.len() as u64);
        while inside < end {
            let rest = &code[inside as usize..];
            let Some(step) = reader.pointer_step(rest, RemoteAddr(section + inside)) else { break };
            let count = step.accesses.len();
            if count > 0 && found.insert(FileOffset(at + inside), count).is_none() {
                stack += usize::from(step.changed.contains(Gpr::RSP)) * count;
            }
            inside += step.length as u64;
        }
    }
    (found, stack)
}
