//! Machine code in, listing out: `tests/cases/*.txt` against `tests/golden/*.txt`.
//!
//! A case is a title behind `=` and lines `hex  # assembler`, assembled when it was written (`llvm-mc
//! -triple=x86_64 -x86-asm-syntax=intel --show-encoding`). The code lies at 0x1000 and is read as a superblock.

use std::fmt::Write as _;
use std::path::Path;

use base::RemoteAddr;
use x86::{CodeBytes, Limits, Reader, listing, read_block};

const START: RemoteAddr = RemoteAddr(0x1000);

fn bytes_of(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2) && hex.is_ascii(), "not hex: {hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Title, assembler lines, bytes.
fn cases(text: &str) -> Vec<(String, Vec<String>, Vec<u8>)> {
    let mut cases: Vec<(String, Vec<String>, Vec<u8>)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("= ") {
            cases.push((title.to_owned(), Vec::new(), Vec::new()));
            continue;
        }
        let (hex, assembler) = line.split_once('#').unwrap();
        let (_, lines, bytes) = cases.last_mut().unwrap();
        lines.push(format!("{} {}", hex.trim(), assembler.trim()));
        bytes.extend(bytes_of(hex.trim()));
    }
    cases
}

fn run(file: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text = std::fs::read_to_string(folder.join("cases").join(file)).unwrap();
    let mut out = String::new();
    for (title, assembler, bytes) in cases(&text) {
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
