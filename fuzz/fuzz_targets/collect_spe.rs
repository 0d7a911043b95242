#![no_main]
//! Any bytes as the trace of Arm SPE, at any place and of any core.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, Option<u64>, &[u8])| {
    let (offset, midr, bytes) = input;
    let mut operations = collect::spe::Operations::new(bytes, offset);
    let mut place = 0;
    while let Some(operation) = operations.next() {
        let _ = (operation.access(midr), operation.is_saturated());
        // Each takes bytes: it ends.
        assert!(operations.place() > place);
        place = operations.place();
    }
    assert!(operations.bad <= bytes.len() as u64);
});
