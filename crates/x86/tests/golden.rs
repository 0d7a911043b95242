//! Machine code in, listing out: `tests/cases/*.txt` against `tests/golden/*.txt`.
//!
//! A case is a title behind `=` and lines `hex  # assembler`, assembled when it was written (`llvm-mc
//! -triple=x86_64 -x86-asm-syntax=intel --show-encoding`). The code lies at 0x1000 and is read as a superblock.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use base::RemoteAddr;
use common::Case;
use x86::{CodeBytes, Limits, Reader, listing, read_block};

const START: RemoteAddr = RemoteAddr(0x1000);

fn run(file: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text = std::fs::read_to_string(folder.join("cases").join(file)).unwrap();
    let mut out = String::new();
    for Case { title, assembler, bytes } in common::cases(&text) {
        writeln!(out, "= {title}").unwrap();
        for line in assembler {
            writeln!(out, "  {line}").unwrap();
        }
        let code = CodeBytes { start: START, bytes: &bytes };
        let block = read_block(&mut Reader::new(), &code, START, &Limits::SUPER);
        writeln!(out, "{}", listing(&block)).unwrap();
    }
    testkit::golden::check(folder.join("golden").join(file), &out);
}

macro_rules! golden {
    ($($name:ident),*) => {
        $(#[test] fn $name() { run(concat!(stringify!($name), ".txt")); })*
    };
}

golden!(operands, stack, strings, vectors, refusals, blocks, flags, roots);

#[test]
fn floating_point_operations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text = std::fs::read_to_string(folder.join("cases/flops.txt")).unwrap();
    let mut out = String::new();
    for Case { title, assembler, bytes } in common::cases(&text) {
        writeln!(out, "= {title}").unwrap();
        let code = CodeBytes { start: START, bytes: &bytes };
        let block = read_block(&mut Reader::new(), &code, START, &Limits::SUPER);
        assert_eq!(block.instructions.len(), assembler.len(), "all of '{title}' can be read");
        for (line, instruction) in assembler.iter().zip(&block.instructions) {
            let flops = instruction.flops().map_or("-".to_owned(), |flops| flops.to_string());
            writeln!(out, "  {line}: {flops}").unwrap();
        }
        writeln!(out).unwrap();
    }
    testkit::golden::check(folder.join("golden/flops.txt"), &out);
}
