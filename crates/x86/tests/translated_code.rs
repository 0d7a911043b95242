//! All code of some system libraries, translated: nothing panics, the same block gives the same bytes, the other decoder
//! finds instructions where the states say there are some, and the sizes are printed
//! (`cargo test -p x86 --test translated_code -- --nocapture`).

mod common;

use std::collections::BTreeMap;

use base::RemoteAddr;
use common::translated::check_boundaries;
use x86::translate::{Common, Flavour, Iterations, RecordLayout, Site, translate};
use x86::{Block, CodeBytes, Gpr, Limits, Reader, Refusal, find_roots, read_block, self_loop};

#[derive(Default, Debug)]
struct Figures {
    blocks: usize,
    instructions: usize,
    native_bytes: usize,
    bytes: usize,
    hot_bytes: usize,
    words: usize,
    loops: usize,
    summarisable: usize,
    counted_by_register: usize,
    counted_narrow: usize,
    counted_apart: usize,
    refused: BTreeMap<Refusal, usize>,
}

impl Figures {
    fn add(&mut self, block: &Block, code: &CodeBytes<'_>, site: &Site) {
        let translation = match translate(block, code, site) {
            Ok(translation) => translation,
            Err(why) => {
                *self.refused.entry(why).or_default() += 1;
                return;
            }
        };
        check_boundaries(&translation);
        let record = &translation.record;
        assert_eq!(record.to_string().parse::<RecordLayout>().as_ref(), Ok(record));
        if self.blocks.is_multiple_of(16) {
            assert_eq!(translate(block, code, site).as_ref(), Ok(&translation));
        }
        self.blocks += 1;
        self.instructions += block.instructions.len();
        self.native_bytes += block.byte_length();
        self.bytes += translation.bytes.len();
        self.hot_bytes += translation.parts.split;
        self.words += record.words;
        if let Some(found) = self_loop(block, &find_roots(block)) {
            self.loops += 1;
            self.summarisable += usize::from(found.is_summarisable());
        }
        match record.iterations {
            Some(Iterations::Counter { narrow: false, .. }) => self.counted_by_register += 1,
            Some(Iterations::Counter { narrow: true, .. }) => self.counted_narrow += 1,
            Some(Iterations::Word(_)) => self.counted_apart += 1,
            None => {}
        }
    }
}

fn libraries(flavour: Flavour, most: usize) {
    let mut reader = Reader::new();
    let mut figures = Figures::default();
    common::for_each_library(most, |start, bytes| {
        let code = CodeBytes { start, bytes };
        // Behind the code, as close as a region of copies may be.
        let at = RemoteAddr((start.0 + bytes.len() as u64 + (64 << 20)) & !4095);
        let common = Common { exit: at, miss: at.offset(64) };
        let mut offset = 0;
        while offset < bytes.len() {
            let block = read_block(&mut reader, &code, start.offset(offset as u64), &Limits::SUPER);
            let site = Site {
                at: at.offset((4096 + offset as u64) & !15),
                cold: at.offset((4096 + offset as u64) & !15 | 1 << 28),
                block: 7,
                first_exit: 0,
                flavour,
                common,
                reserved: Gpr::R15,
                witness: None,
            };
            figures.add(&block, &code, &site);
            offset = common::behind(&block, offset, start);
        }
    });
    if figures.blocks == 0 {
        println!("skipped: none of the libraries is here");
        return;
    }
    let per_block = |count: usize| count as f64 / figures.blocks as f64;
    println!(
        "{flavour:?}: {} blocks; per block {:.1} instructions in {:.1} bytes, copy {:.1} bytes of which {:.1} hot, \
         record {:.2} words",
        figures.blocks,
        per_block(figures.instructions),
        per_block(figures.native_bytes),
        per_block(figures.bytes),
        per_block(figures.hot_bytes),
        per_block(figures.words),
    );
    println!("{figures:?}");
    // Displacements out of the library: data taken for code.
    let too_far = figures.refused.get(&Refusal::TooFar).copied().unwrap_or(0);
    assert!(too_far * 10_000 < figures.blocks, "{too_far} of {} blocks", figures.blocks);
    assert_eq!(
        figures.counted_by_register + figures.counted_narrow + figures.counted_apart == 0,
        flavour != Flavour::Trace
    );
}

#[test]
fn traced() {
    libraries(Flavour::Trace, common::FEW_MEGABYTES / 2);
}

#[test]
fn counted() {
    libraries(Flavour::Count, common::FEW_MEGABYTES / 8);
}

#[test]
fn timed() {
    libraries(Flavour::Timed { pick: 3 }, common::FEW_MEGABYTES / 8);
}

/// Data that are 2 GiB away from the copy are out of reach; the refusal says so.
#[test]
fn too_far() {
    // mov rax, [rip+0x10]
    let bytes = [0x48, 0x8b, 0x05, 0x10, 0, 0, 0];
    let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes };
    let block = read_block(&mut Reader::new(), &code, code.start, &Limits::SUPER);
    let mut site = common::translated::site(Flavour::Trace);
    (site.at, site.cold) = (RemoteAddr(0x8000_2000), RemoteAddr(0x8000_3000));
    site.common = Common { exit: site.at, miss: site.at };
    assert_eq!(translate(&block, &code, &site), Err(Refusal::TooFar));
}
