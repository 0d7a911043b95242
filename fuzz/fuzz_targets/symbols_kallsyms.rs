#![no_main]
//! Any text as `/proc/kallsyms`.

use std::hint::black_box;

use base::RemoteAddr;
use libfuzzer_sys::fuzz_target;
use symbols::KernelSymbols;

fuzz_target!(|text: &str| {
    let Ok(symbols) = KernelSymbols::parse(text) else { return };
    for address in [0, 1, 0xffff_ffff_8100_0000, u64::MAX] {
        black_box(symbols.lookup(RemoteAddr(address)));
    }
});
