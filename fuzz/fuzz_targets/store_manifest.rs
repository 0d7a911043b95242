#![no_main]
//! Any bytes as `run.json` next to a journal.

use fathom_fuzz::{interrupted_result, read_it};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let directory = interrupted_result();
    std::fs::write(directory.join("run.json"), bytes).expect("run.json can be replaced");
    read_it(directory);
});
