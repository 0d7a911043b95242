#![no_main]
//! Any bytes as `/tmp/perf-PID.map`, which a program writes about itself.

use std::hint::black_box;

use base::RemoteAddr;
use libfuzzer_sys::fuzz_target;
use symbols::{Demangle, PerfMap};

fuzz_target!(|bytes: &[u8]| {
    let Ok(map) = PerfMap::parse(bytes) else { return };
    for address in [0, 0x1000, 0x7f00_0000_0000, u64::MAX] {
        black_box(map.lookup(RemoteAddr(address), Demangle::Yes));
    }
    let mut before = 0;
    for (start, bytes, name) in map.ranges() {
        assert!(before <= start.0 && bytes.0 > 0);
        before = start.0 + bytes.0;
        black_box(name);
    }
    black_box(map.skipped());
});
