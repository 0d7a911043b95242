#![no_main]
//! Any bytes as a function: its loops, what registers tell at each of its bytes, and what is kept of a sample there.

use base::RemoteAddr;
use libfuzzer_sys::fuzz_target;
use x86::{CodeBytes, loops, wanted};

fuzz_target!(|bytes: &[u8]| {
    let code = CodeBytes { start: RemoteAddr(0x1000), bytes };
    let found = loops(&code);
    for at in (0x1000..0x1000 + bytes.len() as u64).map(RemoteAddr) {
        let slots = wanted(&code, at).slots;
        for one in found.around(at) {
            let _ = found.readings(one, at, &slots);
        }
    }
});
