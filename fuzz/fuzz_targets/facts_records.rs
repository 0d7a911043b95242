#![no_main]
//! Any bytes as the records of a burst; what decodes must come back when it is encoded again.

use base::BlockId;
use facts::{Record, RecordEncoder, decode_records};
use libfuzzer_sys::fuzz_target;

type Owned = (BlockId, u32, u64, Vec<u64>);

fn decode(bytes: &[u8]) -> (Vec<Owned>, bool) {
    let mut found = Vec::new();
    let whole = decode_records(bytes, |record| {
        let Record { block, way, iterations, values } = *record;
        found.push((block, way, iterations, values.to_vec()));
    });
    (found, whole.is_ok())
}

fuzz_target!(|bytes: &[u8]| {
    let (records, _) = decode(bytes);
    let mut encoder = RecordEncoder::new();
    for (block, way, iterations, values) in &records {
        let (block, way, iterations) = (*block, *way, *iterations);
        encoder.push(&Record { block, way, iterations, values });
    }
    assert_eq!(decode(&encoder.finish()), (records, true));
});
