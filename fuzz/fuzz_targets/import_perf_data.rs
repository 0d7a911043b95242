#![no_main]
//! Any bytes as a perf.data file.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("fathom-fuzz-{}.data", std::process::id()));
    std::fs::write(&path, bytes).expect("a file can be written");
    let mut facts: Vec<facts::Fact> = Vec::new();
    let _ = import::perf_data(&path, &mut facts);
});
