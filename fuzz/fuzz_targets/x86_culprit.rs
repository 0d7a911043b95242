#![no_main]
//! Any bytes as code, sampled anywhere: suspects, and their addresses.

use std::hint::black_box;

use base::RemoteAddr;
use libfuzzer_sys::fuzz_target;
use x86::{CodeBytes, FARTHEST, Surroundings, Whereabouts};

fuzz_target!(|bytes: &[u8]| {
    let start = RemoteAddr(0x40_0000);
    let code = [CodeBytes { start, bytes }];
    let places = |every: usize| (0..bytes.len() as u64).step_by(every).map(|at| start.offset(at));
    for every in [1, 7, bytes.len().max(1)] {
        let surroundings = Surroundings::read(&code, places(every));
        for at in places(1) {
            for suspect in surroundings.suspects(at, FARTHEST).unwrap_or_default() {
                if let Whereabouts::Address(operand) | Whereabouts::Next(operand) = suspect.place {
                    black_box(operand.resolve(|_| Some(at.0), Some(1), u64::MAX));
                }
            }
        }
    }
});
