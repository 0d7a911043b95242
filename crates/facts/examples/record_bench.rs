//! What encoding and decoding a record costs: the figure at the head of `records.rs`.
//!
//! Records are shaped like those of a program with 50 hot blocks of 3 recorded values, two that advance by a few bytes
//! and one that jumps. The best of 20 rounds is printed: others are disturbed by neighbours.

use std::hint::black_box;
use std::time::Instant;

use base::BlockId;
use facts::{Record, RecordEncoder, decode_records};

const RECORDS: u64 = 20_000;

fn main() {
    let records: Vec<(BlockId, [u64; 3])> = (0..RECORDS)
        .map(|n| {
            let block = n * n % 50;
            let jump = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
            (BlockId(block as u32), [0x7f00_0000_0000 + n * 8, n, 0x5600_0000_0000 + jump * 8])
        })
        .collect();
    let mut best = (f64::MAX, f64::MAX);
    let mut size = 0;
    for _ in 0..20 {
        let start = Instant::now();
        let mut encoder = RecordEncoder::new();
        for (block, values) in black_box(&records) {
            encoder.push(&Record { block: *block, way: 0, iterations: 1, values });
        }
        let bytes = black_box(encoder.finish());
        let encoded = start.elapsed();
        size = bytes.len();
        let start = Instant::now();
        let mut sum = 0u64;
        decode_records(&bytes, |record| {
            sum = record.values.iter().fold(sum, |sum, value| sum.wrapping_add(*value));
        })
        .expect("we encoded them");
        black_box(sum);
        best.0 = best.0.min(encoded.as_secs_f64());
        best.1 = best.1.min(start.elapsed().as_secs_f64());
    }
    let per_record = |seconds: f64| seconds * 1e9 / RECORDS as f64;
    println!(
        "encode {:.1} ns, decode {:.1} ns, {:.1} bytes per record",
        per_record(best.0),
        per_record(best.1),
        size as f64 / RECORDS as f64
    );
}
