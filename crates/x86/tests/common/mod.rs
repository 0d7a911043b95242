//! What the tests share: random numbers with a fixed seed, so that a failure can be had again; the code of system
//! libraries; patterns of mnemonics.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod compare;
pub mod leaving;
pub mod machine;
pub mod native;
pub mod records;
pub mod translated;

use std::path::Path;

use base::RemoteAddr;
use object::{Object, ObjectSection};
use x86::Block;

/// splitmix64 (Steele, Lea, Flood 2014; public domain code by Vigna).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..bound; the bias for small bounds does not matter here.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Only the last REX prefix counts (SDM vol. 2, 2.2.1: it must come right before the opcode). The other decoder rejects
/// two, or takes bits of both; not compared.
pub fn rex_before_rex(bytes: &[u8]) -> bool {
    let prefix = |byte: &&u8| matches!(**byte, 0x40..=0x4f | 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let prefixes: Vec<u8> = bytes.iter().take_while(prefix).copied().collect();
    let is_rex = |byte: &u8| byte & 0xf0 == 0x40;
    prefixes.iter().rev().skip(1).any(is_rex)
}

/// `*` stands for any letters, `?` for one.
pub fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            (0..=name.len()).any(|taken| matches_pattern(rest, &name[taken..]))
        }
        (Some((b'?', rest)), Some((_, name))) => matches_pattern(rest, name),
        (Some((one, rest)), Some((other, name))) => one == other && matches_pattern(rest, name),
        _ => false,
    }
}

const LIBRARIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libm.so.6",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/lib/x86_64-linux-gnu/libopenblas.so.0",
];

/// Enough of a library where its whole code (33 MB in OpenBLAS) would only take longer.
pub const FEW_MEGABYTES: usize = 4 << 20;

/// Calls `each` with address and bytes of `.text` of every library that is here, at most `most` bytes of each.
pub fn for_each_library(most: usize, mut each: impl FnMut(RemoteAddr, &[u8])) {
    for path in LIBRARIES.iter().map(Path::new) {
        let Ok(bytes) = std::fs::read(path) else {
            println!("skipped {}: not here", path.display());
            continue;
        };
        let file = object::File::parse(&*bytes).unwrap();
        let Some(text) = file.section_by_name(".text") else { continue };
        let code = text.data().unwrap();
        let code = &code[..code.len().min(most)];
        println!("{}: {} bytes of code", path.display(), code.len());
        each(RemoteAddr(text.address()), code);
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2) && hex.is_ascii(), "not hex: {hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Code written by hand.
#[derive(Default)]
pub struct Case {
    pub title: String,
    /// Lines `hex assembler`.
    pub assembler: Vec<String>,
    pub bytes: Vec<u8>,
}

/// A case is a title behind `=` and lines `hex  # assembler`.
pub fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("= ") {
            cases.push(Case { title: title.to_owned(), ..Case::default() });
            continue;
        }
        let (hex, assembler) = line.split_once('#').unwrap();
        let case = cases.last_mut().unwrap();
        case.assembler.push(format!("{} {}", hex.trim(), assembler.trim()));
        case.bytes.extend(bytes_of(hex.trim()));
    }
    cases
}

/// Where the reading goes on: behind the last byte that was read in a row.
pub fn behind(block: &Block, at: usize, start: RemoteAddr) -> usize {
    let straight = block
        .instructions
        .iter()
        .scan(block.start, |expected, one| {
            let here = *expected == one.address();
            *expected = one.next_address();
            here.then_some(one.next_address())
        })
        .last();
    let end = straight.and_then(|end| end.distance_from(start)).map_or(at + 1, |end| end as usize);
    end.max(at + 1)
}
