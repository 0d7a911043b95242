#![no_main]
//! Any bytes as a module's file: headers, notes, symbol tables, variables, DWARF, stubs.

use std::hint::black_box;

use base::FileOffset;
use libfuzzer_sys::fuzz_target;
use symbols::{Demangle, Elf, ModuleImage, variables};

fuzz_target!(|bytes: &[u8]| {
    let Ok(elf) = Elf::parse(bytes) else { return };
    black_box((elf.build_id(), elf.debug_link(), elf.alternate_link()));
    let found = variables(&elf, None, "module", Demangle::Yes, 1000);
    assert!(found.list.iter().all(|variable| variable.bytes.0 > 0));
    let image = ModuleImage::new(elf, None, None);
    let table = image.symbol_table(Demangle::Yes);
    for offset in (0..bytes.len() as u64).step_by(61).take(200).chain([u64::MAX]) {
        black_box(table.lookup(FileOffset(offset)));
        black_box(table.function_start(FileOffset(offset)));
    }
    black_box(table.problems());
});
