#![no_main]
//! Any bytes as the firmware's table of memory modules.

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let slots = machine::smbios::memory_slots(bytes);
    assert!(slots.len() <= bytes.len() / 4);
    black_box(slots);
});
