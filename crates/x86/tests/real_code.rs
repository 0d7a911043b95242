//! All code of some system libraries, read as superblocks one after the other: nothing in it accesses memory in a way
//! that we cannot size, few blocks are refused, and the figures that matter for recording are printed
//! (`cargo test -p x86 --test real_code -- --nocapture`).

mod common;

use std::collections::BTreeMap;

use base::RemoteAddr;
use x86::{
    Block, CodeBytes, End, Flags, Limits, Reader, Refusal, find_roots, live_at_start, read_block,
    self_loop,
};

#[derive(Default)]
struct Figures {
    blocks: u64,
    instructions: u64,
    accesses: u64,
    roots: u64,
    flags_free: u64,
    loops: u64,
    summarisable: u64,
    refused: BTreeMap<Refusal, u64>,
}

impl Figures {
    fn add(&mut self, block: &Block) {
        if let End::Refused { why, .. } = block.end {
            *self.refused.entry(why).or_default() += 1;
        }
        if block.instructions.is_empty() {
            return;
        }
        let roots = find_roots(block);
        self.blocks += 1;
        self.instructions += block.instructions.len() as u64;
        self.accesses += roots.accesses.len() as u64;
        self.roots += roots.roots.len() as u64;
        let live = live_at_start(&block.instructions).flags;
        self.flags_free += u64::from(Flags::INC.without(live) == Flags::INC);
        if let Some(found) = self_loop(block, &roots) {
            self.loops += 1;
            self.summarisable += u64::from(found.is_summarisable());
        }
    }
}

#[test]
fn libraries_as_blocks() {
    let mut reader = Reader::new();
    let mut figures = Figures::default();
    common::for_each_library(common::FEW_MEGABYTES, |start, bytes| {
        let code = CodeBytes { start, bytes };
        let mut at = 0;
        while at < bytes.len() {
            let address = RemoteAddr(start.0.wrapping_add(at as u64));
            let block = read_block(&mut reader, &code, address, &Limits::SUPER);
            figures.add(&block);
            at = common::behind(&block, at, start);
        }
    });
    if figures.blocks == 0 {
        println!("skipped: none of the libraries is here");
        return;
    }
    let per_block = |count: u64| count as f64 / figures.blocks as f64;
    println!(
        "{} blocks; per block {:.1} instructions, {:.2} accesses, {:.2} roots; flags free for inc in {:.1} %",
        figures.blocks,
        per_block(figures.instructions),
        per_block(figures.accesses),
        per_block(figures.roots),
        100.0 * per_block(figures.flags_free),
    );
    println!("{} self-loops, {} summarisable", figures.loops, figures.summarisable);
    println!("refused: {:?}", figures.refused);
    assert_eq!(figures.refused.get(&Refusal::UnknownSize), None);
    // Nearly all of it is a table of curve points in libcrypto's code, and what follows a refused instruction, of which we
    // don't know the length here: 1.1 % where libcrypto is most of the code, as without OpenBLAS. Of code that runs, far less
    // is refused.
    let refused: u64 = figures.refused.values().sum();
    let instructions = figures.instructions;
    assert!(refused * 50 < instructions, "{refused} of {instructions} instructions");
}
