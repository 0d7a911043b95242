#![no_main]
//! Any bytes as a perf.data file.

use std::sync::Once;

use libfuzzer_sys::fuzz_target;

static QUIET: Once = Once::new();

fuzz_target!(|bytes: &[u8]| {
    // A panic of the parser of perf.data files is caught and becomes an error; libfuzzer's hook would abort on it.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let path = std::env::temp_dir().join(format!("fathom-fuzz-{}.data", std::process::id()));
    std::fs::write(&path, bytes).expect("a file can be written");
    let mut facts: Vec<facts::Fact> = Vec::new();
    let _ = import::perf_data(&path, &mut facts);
});
