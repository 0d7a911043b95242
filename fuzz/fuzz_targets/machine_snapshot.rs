#![no_main]
//! Any text as a stored description of a machine, and as its list of free blocks.

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use machine::{Snapshot, describe, fingerprint, free_blocks};

fuzz_target!(|text: &str| {
    black_box(free_blocks(text, 4096, 2 << 20));
    let Ok(snapshot) = Snapshot::from_text(text) else { return };
    let (host, _problems) = describe(&snapshot);
    black_box(fingerprint(&host));
    let again = Snapshot::from_text(&snapshot.to_text()).expect("what we wrote can be read");
    assert_eq!(again.files.len(), snapshot.files.len());
});
