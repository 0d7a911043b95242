//! What reading a record of a burst costs: the figure at the head of `accesses/walk.rs`.
//!
//! Ten bursts of 200,000 records each, of three kinds: a block whose four addresses advance by little, one whose address
//! jumps anywhere in 64 MB, and both in turn. The best of five rounds is printed.

use std::hint::black_box;
use std::time::Instant;

use analysis::TracedCode;
use analysis::accesses::accesses;
use analysis::{Profile, Selection};
use base::BlockId;
use facts::Recording;
use testkit::recording::{BurstRecord, RecordingBuilder};

const RECORDS: u64 = 200_000;
const BURSTS: u64 = 10;

fn main() {
    for (name, regular, jumping) in
        [("regular", true, false), ("jumping", false, true), ("both", true, true)]
    {
        let recording = recording(regular, jumping);
        let code = TracedCode::read(&recording);
        let profile = Profile::with_addresses(&recording, code.addresses());
        let mut best = f64::MAX;
        let mut total = 0;
        for _ in 0..5 {
            let start = Instant::now();
            let found = accesses(&profile, &code, &Selection::default(), &[]);
            best = best.min(start.elapsed().as_secs_f64());
            total = black_box(found).total;
        }
        let per = |count: u64| best * 1e9 / count as f64;
        println!(
            "{name}: {:.0} ns per record, {:.0} ns per access",
            per(RECORDS * BURSTS),
            per(total)
        );
    }
}

fn recording(regular: bool, jumping: bool) -> Recording {
    let mut builder = RecordingBuilder::new();
    let module = builder.file("/program");
    // mov rax,[rdi]; add rax,[rdi+8]; mov [rsi+rcx*8],rax; inc qword [rbp-16]; ret left out
    let near = builder.block(
        1,
        module,
        0x1000,
        &[0x48, 0x8b, 0x07, 0x48, 0x03, 0x47, 0x08, 0x48, 0x89, 0x04, 0xce, 0x48, 0xff, 0x45, 0xf0],
        "words 5; values rcx@0:1 rbp@0:2 rsi@0:3 rdi@0:4; ways 4",
    );
    // mov rax,[rax]
    let far =
        builder.block(1, module, 0x2000, &[0x48, 0x8b, 0x00], "words 2; values rax@0:1; ways 1");
    let mut at = 1u64;
    for _ in 0..BURSTS {
        let records: Vec<BurstRecord> =
            (0..RECORDS).map(|n| one(n, regular, jumping, (near, far), &mut at)).collect();
        builder.burst(1, 1, &records);
    }
    builder.build()
}

fn one(
    n: u64,
    regular: bool,
    jumping: bool,
    (near, far): (BlockId, BlockId),
    at: &mut u64,
) -> BurstRecord {
    if regular && (!jumping || n.is_multiple_of(2)) {
        return (near, 1, vec![n, 0x7ffd_0000, 0x100_0000, 0x200_0000 + n * 16]);
    }
    *at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (far, 1, vec![0x7000_0000 + (*at >> 44) * 64])
}
