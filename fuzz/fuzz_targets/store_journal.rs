#![no_main]
//! Any bytes as the rows of a frame whose checksum is right, and the same bytes as the journal's tail.

use fathom_fuzz::{interrupted_result, read_it};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|rows: &[u8]| {
    // Layout: crates/store/src/journal.rs. A fuzzer would never find the checksum by itself.
    let mut journal = b"FATHOMJ\n\x01\0\0\0\0\0\0\0".to_vec();
    let mut compressor = zstd::bulk::Compressor::new(1).expect("a compressor");
    compressor.include_checksum(true).expect("checksums are a feature of every zstd");
    let frame = compressor.compress(rows).expect("rows can be compressed");
    journal.extend(b"FRAM");
    journal.extend((frame.len() as u32).to_le_bytes());
    journal.extend((rows.len() as u32).to_le_bytes());
    journal.extend(frame);
    journal.extend(rows);
    let directory = interrupted_result();
    std::fs::write(directory.join("journal.fathom"), journal).expect("the journal can be replaced");
    read_it(directory);
});
