#![no_main]
//! Any bytes as one of the Parquet tables; the first byte chooses which.

use fathom_fuzz::{complete_result, read_it};
use libfuzzer_sys::fuzz_target;
use store::Table;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let table = Table::ALL[usize::from(*choice) % Table::ALL.len()];
    let file = complete_result().join(format!("{}.parquet", table.name()));
    let before = std::fs::read(&file).expect("the table is there");
    std::fs::write(&file, bytes).expect("the table can be replaced");
    read_it(complete_result());
    std::fs::write(&file, before).expect("the table can be put back");
});
