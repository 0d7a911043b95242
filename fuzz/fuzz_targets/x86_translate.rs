#![no_main]
//! Any bytes as code: what is translated has a state for each of its instructions, and a layout that comes back from text.

use base::RemoteAddr;
use libfuzzer_sys::fuzz_target;
use x86::translate::{Common, Flavour, RecordLayout, Site, Witness, translate};
use x86::{CodeBytes, Gpr, Limits, Reader, read_block};
use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::long_mode::InstDecoder;

fuzz_target!(|bytes: &[u8]| {
    let (start, at, cold) = (RemoteAddr(0x40_0000), RemoteAddr(0x80_0000), RemoteAddr(0x88_0000));
    let witness = bytes.first().map(|word| Witness { at: start, word: u32::from(*word) << 24 });
    let common = Common { exit: RemoteAddr(0x90_0000), miss: RemoteAddr(0x90_0100) };
    let code = CodeBytes { start, bytes };
    let block = read_block(&mut Reader::new(), &code, start, &Limits::SUPER);
    for flavour in [Flavour::Trace, Flavour::Count, Flavour::Timed { pick: 1 }] {
        let site = Site {
            at,
            cold,
            block: 7,
            first_exit: 0,
            flavour,
            common,
            reserved: Gpr::R15,
            witness,
        };
        let Ok(copy) = translate(&block, &code, &site) else { continue };
        assert_eq!(copy.record.to_string().parse::<RecordLayout>().as_ref(), Ok(&copy.record));
        let mut begins = Vec::new();
        for part in [0..copy.constants.start, copy.constants.end..copy.bytes.len()] {
            let mut offset = part.start;
            while offset < part.end {
                begins.push(offset);
                let rest = &copy.bytes[offset..part.end];
                // What the other decoder does not know (tests/second_decoder.rs) ends the comparison.
                let Ok(one) = InstDecoder::default().decode_slice(rest) else { return };
                offset += one.len().to_const() as usize;
            }
        }
        let known = |from: usize| begins.binary_search(&from).is_ok();
        assert!(copy.states.from.iter().all(|(from, _)| known(*from)));
    }
});
