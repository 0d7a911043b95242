#![no_main]
//! Any bytes as one of the Parquet tables; the first byte chooses which.

use std::sync::Once;

use fathom_fuzz::{complete_result, read_it};
use libfuzzer_sys::fuzz_target;
use store::Table;

static QUIET: Once = Once::new();

fuzz_target!(|bytes: &[u8]| {
    // A panic of the parser of Parquet files is caught and becomes an error; libfuzzer's hook would abort on it.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let table = Table::ALL[usize::from(*choice) % Table::ALL.len()];
    let file = complete_result().join(format!("{}.parquet", table.name()));
    let before = std::fs::read(&file).expect("the table is there");
    std::fs::write(&file, bytes).expect("the table can be replaced");
    read_it(complete_result());
    std::fs::write(&file, before).expect("the table can be put back");
});
