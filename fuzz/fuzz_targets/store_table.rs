#![no_main]
//! Any bytes as one of the Parquet tables; the first byte chooses which.

use fathom_fuzz::{complete_result, read_it};
use libfuzzer_sys::fuzz_target;

const TABLES: [&str; 14] = [
    "modules",
    "mappings",
    "stacks",
    "samples",
    "faults",
    "threads",
    "lost",
    "counters",
    "gauges",
    "frames",
    "blocks",
    "bursts",
    "records",
    "burst_refusals",
    "core_floors",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let table = TABLES[usize::from(*choice) % TABLES.len()];
    let file = complete_result().join(format!("{table}.parquet"));
    let before = std::fs::read(&file).expect("the table is there");
    std::fs::write(&file, bytes).expect("the table can be replaced");
    read_it(complete_result());
    std::fs::write(&file, before).expect("the table can be put back");
});
