//! What the reuse distances of bursts cost: the figure at the head of `reuse/mod.rs`.
//!
//! A hundred bursts as long as real ones of 3 ms: a streaming loop of 6 million accesses, 300,000 single loads anywhere in
//! 64 MB, and as many in 32 KB.

use std::hint::black_box;
use std::time::Instant;

use analysis::reuse::{TlbSizes, reuse};
use analysis::{Key, Profile, Selection, TracedCode};
use facts::Recording;
use testkit::recording::{BurstRecord, RecordingBuilder};

const BURSTS: u64 = 100;
const LOADS: u64 = 300_000;

// movsd xmm0,[rdx+rax*8]; mulsd xmm0,xmm1; addsd xmm0,[rsi+rax*8]; movsd [rdi+rax*8],xmm0; add rax,1; cmp rax,rcx; jne
const TRIAD: &[u8] =
    b"\xf2\x0f\x10\x04\xc2\xf2\x0f\x59\xc1\xf2\x0f\x58\x04\xc6\xf2\x0f\x11\x04\xc7\
    \x48\x83\xc0\x01\x48\x39\xc8\x75\xe4";
const TRIAD_RECORD: &str = "words 6; values rax@0:1 rdx@0:2 rsi@0:3 rdi@0:4; ways 7; loop rax 1..5 +1; advanced 0 0 0 0 0 1 1";
// mov rax,[rax]; dec rcx; jne
const LOAD: &[u8] = b"\x48\x8b\x00\x48\xff\xc9\x75\xf8";

fn main() {
    for (name, lines) in [("stream", 0), ("64 MB", 1 << 20), ("32 KB", 512)] {
        let recording = recording(lines);
        let code = TracedCode::read(&recording);
        let profile = Profile::with_addresses(&recording, code.addresses());
        let start = Instant::now();
        let tlb = TlbSizes::default();
        let selection = Selection::default();
        black_box(reuse(&profile, &code, &selection, &[Key::Function], &[], tlb));
        println!("{name}: {:.1} ms per burst", start.elapsed().as_secs_f64() * 1e3 / BURSTS as f64);
    }
}

fn recording(lines: u64) -> Recording {
    let mut builder = RecordingBuilder::new();
    let module = builder.file("/bench");
    let triad = builder.block(1, module, 0x1000, TRIAD, TRIAD_RECORD);
    let load = builder.block(1, module, 0x2000, LOAD, "words 2; values rax@0:1; ways 3");
    let mut state = 1u64;
    for _ in 0..BURSTS {
        let records: Vec<BurstRecord> = match lines {
            0 => vec![(triad, 2_000_000, vec![0, 0x1000_0000, 0x9000_0000, 0x1_1000_0000, 0])],
            lines => (0..LOADS)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (load, 1, vec![0x7000_0000 + (state >> 33) % lines * 64])
                })
                .collect(),
        };
        builder.burst(1, 1, &records);
    }
    builder.build()
}
