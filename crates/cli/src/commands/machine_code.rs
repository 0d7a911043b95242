//! Machine code of functions from the files of modules, for the page that shows it.
//!
//! What not: code that bursts recorded. Only files that the result names as modules are read, and only if their
//! build-id is that of the recorded build. A result is untrusted: it may name any file, but a file without build-id
//! never matches.

use base::FileOffset;
use facts::{Module, ModuleKind};
use report::FunctionCode;
use symbols::{Demangle, Elf, ModuleImage, SymbolTable};

/// Larger functions are cut here.
const LONGEST: u64 = 16 << 10;
/// A larger file is not read.
const LARGEST_FILE: u64 = 1 << 30;

/// The functions around these offsets.
pub fn of_functions(module: &Module, offsets: &[FileOffset]) -> Vec<Option<FunctionCode>> {
    let none = || vec![None; offsets.len()];
    let Some(bytes) = bytes_of(module) else { return none() };
    let Some(elf) = Elf::parse(&bytes).ok().filter(|elf| elf.build_id() == module.build_id) else {
        return none();
    };
    let image = ModuleImage::new(elf, None, None);
    let table = image.symbol_table(Demangle::Yes);
    offsets.iter().map(|offset| function(&bytes, &table, *offset)).collect()
}

fn bytes_of(module: &Module) -> Option<Vec<u8>> {
    module.build_id.as_ref().filter(|_| module.kind == ModuleKind::File)?;
    let metadata = std::fs::metadata(&module.path).ok()?;
    let is_read = metadata.is_file() && metadata.len() <= LARGEST_FILE;
    is_read.then(|| std::fs::read(&module.path).ok())?
}

fn function(bytes: &[u8], table: &SymbolTable<'_>, offset: FileOffset) -> Option<FunctionCode> {
    let start = table.function_start(offset)?;
    let mut code = FunctionCode { start, ..FunctionCode::default() };
    for at in start.0..start.0.saturating_add(LONGEST) {
        let byte = usize::try_from(at).ok().and_then(|at| bytes.get(at));
        let inside = table.function_start(FileOffset(at)) == Some(start);
        let Some(byte) = byte.filter(|_| inside) else { break };
        code.bytes.push(*byte);
        add_line(&mut code, table, FileOffset(at));
    }
    Some(code)
}

fn add_line(code: &mut FunctionCode, table: &SymbolTable<'_>, at: FileOffset) {
    let innermost = table.lookup(at).into_iter().next();
    let Some((file, line)) = innermost.and_then(|frame| Some((frame.file, frame.line?))) else {
        return;
    };
    if code.lines.last().is_none_or(|(_, before, number)| (before, *number) != (&file, line)) {
        code.lines.push((at, file, line));
    }
}
