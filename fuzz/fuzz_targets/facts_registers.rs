#![no_main]
//! Any bytes as registers at clock samples; what decodes must come back when it is encoded again.

use base::Nanos;
use facts::{RegisterEncoder, SampledPlace, SampledState, decode_registers};
use libfuzzer_sys::fuzz_target;

type Owned = (Nanos, Option<Nanos>, SampledPlace, [u64; 16], Vec<Option<u64>>);

fn decode(bytes: &[u8]) -> (Vec<Owned>, bool) {
    let mut found = Vec::new();
    let whole = decode_registers(bytes, |state| {
        let SampledState { time, cpu_time, place, registers, slots } = *state;
        found.push((time, cpu_time, place.clone(), *registers, slots.to_vec()));
    });
    (found, whole.is_ok())
}

fuzz_target!(|bytes: &[u8]| {
    let (states, _) = decode(bytes);
    let mut encoder = RegisterEncoder::default();
    for (time, cpu_time, place, registers, slots) in &states {
        let (time, cpu_time) = (*time, *cpu_time);
        encoder.push(&SampledState { time, cpu_time, place, registers, slots });
    }
    assert_eq!(decode(&encoder.finish()), (states, true));
});
