#![no_main]
//! Any bytes as code: blocks, accesses, liveness, roots.

use std::hint::black_box;

use base::RemoteAddr;
use libfuzzer_sys::fuzz_target;
use x86::{CodeBytes, Limits, Reader, find_roots, live_at_start, read_block, self_loop};

fuzz_target!(|bytes: &[u8]| {
    let start = RemoteAddr(0x40_0000);
    let code = CodeBytes { start, bytes };
    let mut reader = Reader::new();
    for offset in 0..bytes.len().min(64) as u64 {
        let block = read_block(&mut reader, &code, start.offset(offset), &Limits::SUPER);
        let roots = find_roots(&block);
        black_box((live_at_start(&block.instructions), self_loop(&block, &roots)));
    }
});
