#![no_main]
//! Any bytes as a table of `likwid-perfctr -O`.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"PERFILE2") {
        return;
    }
    let path = std::env::temp_dir().join(format!("fathom-fuzz-likwid-{}.csv", std::process::id()));
    std::fs::write(&path, bytes).expect("a file can be written");
    let mut facts: Vec<facts::Fact> = Vec::new();
    let _ = import::import(&path, &mut facts);
});
