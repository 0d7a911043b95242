#![no_main]
//! Any text as `/proc/kallsyms`.

use std::hint::black_box;

use base::RemoteAddr;
use libfuzzer_sys::fuzz_target;
use symbols::KernelSymbols;

fuzz_target!(|text: &[u8]| {
    let wanted = [0, 1, 0xffff_ffff_8100_0000, u64::MAX].map(RemoteAddr);
    let mut symbols = KernelSymbols::of(wanted);
    for piece in text.chunks(100) {
        if symbols.read(piece).is_err() {
            return;
        }
    }
    if symbols.finish().is_ok() {
        for address in wanted {
            black_box(symbols.lookup(address));
        }
    }
});
