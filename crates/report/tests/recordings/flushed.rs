//! A program that persists records one by one, and a table as a whole, which it flushes twice.

use facts::{CounterKind, Recording};
use testkit::recording::RecordingBuilder;

use super::run;

// mov [rdi],rax; clwb [rdi]; sfence; add rdi,64; cmp rdi,rsi; jb
const PERSIST: &[u8] =
    b"\x48\x89\x07\x66\x0f\xae\x37\x0f\xae\xf8\x48\x83\xc7\x40\x48\x39\xf7\x72\xed";
// mov [rdi],rax; clwb [rdi]; add rdi,64; cmp rdi,rsi; jb
const FLUSH: &[u8] = b"\x48\x89\x07\x66\x0f\xae\x37\x48\x83\xc7\x40\x48\x39\xf7\x72\xf0";
// clwb [rdi]; add rdi,64; cmp rdi,rsi; jb
const AGAIN: &[u8] = b"\x66\x0f\xae\x37\x48\x83\xc7\x40\x48\x39\xf7\x72\xf3";
// sfence; jmp +62
const FENCE: &[u8] = b"\x0f\xae\xf8\xeb\x3e";

pub fn flushed() -> Recording {
    let mut b = RecordingBuilder::new();
    b.recording.run = run(&["./pool"]);
    let app = b.file("/home/user/build/pool");
    let mut named = |offset: u64, code: &[u8], layout: &str, function: &str, line: u32| {
        for inside in 0..code.len() as u64 {
            b.code(app, offset + inside, &[(function, "/home/user/pool.c", line)]);
        }
        b.block(7, app, offset, code, layout)
    };
    let steps = "values rdi@0:1; ways";
    let persist = named(
        0x1000,
        PERSIST,
        &format!("words 3; {steps} 6; loop rdi 1..2 +64; advanced 0 0 0 0 64 64"),
        "write_records",
        21,
    );
    let flush = named(
        0x2000,
        FLUSH,
        &format!("words 3; {steps} 5; loop rdi 1..2 +64; advanced 0 0 0 64 64"),
        "write_table",
        34,
    );
    let again = named(
        0x3000,
        AGAIN,
        &format!("words 3; {steps} 4; loop rdi 1..2 +64; advanced 0 0 64 64"),
        "write_table",
        36,
    );
    let fence = named(0x4000, FENCE, "words 1; ways 2", "write_table", 37);
    b.thread(7, 7, "pool", 0.0, 2.0);
    for number in 0..12u64 {
        let lines = |from: u64, count: u64| vec![from, from + count * 64];
        let (records, table) = (0x10_0000 + number * 0x1_0000, 0x90_0000 + number * 0x1_0000);
        let of_burst = match number % 2 {
            0 => vec![(persist, 900 + number, lines(records, 900 + number))],
            _ => vec![
                (flush, 512, lines(table, 512)),
                (again, 512, lines(table, 512)),
                (fence, 1, Vec::new()),
            ],
        };
        b.burst(7, 7, &of_burst);
    }
    // At the fence, behind it, behind a flush, and elsewhere.
    for (offset, count) in
        [(0x1007, 300), (0x100a, 500), (0x2007, 150), (0x4003, 450), (0x1000, 600)]
    {
        let at = b.unnamed(app, offset);
        let stack = b.stack(&[at]);
        b.samples(7, 7, stack, count);
    }
    b.counter(CounterKind::TaskClock, 2_000_000_000);
    b.build()
}
