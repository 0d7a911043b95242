#![no_main]
//! Any code, layout of records and records as what a burst left: the input is two lengths, the code, the layout's text,
//! and the encoded records of block 0.

use analysis::accesses::accesses;
use analysis::{Key, Profile, Selection, TracedCode};
use base::{BlockId, BurstId, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, Tid};
use facts::{Block, Burst, BurstEnd, BurstFlavour, CodePiece, Recording, Records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [code, text, rest @ ..] = bytes else { return };
    let Some((code, rest)) = rest.split_at_checked(usize::from(*code)) else { return };
    let Some((text, records)) = rest.split_at_checked(usize::from(*text)) else { return };
    let (pid, tid) = (Pid(1), Tid(1));
    let piece = CodePiece {
        address: RemoteAddr(0x40_0000),
        module: ModuleId(0),
        offset: FileOffset(0),
        bytes: code.to_vec(),
    };
    let block = Block {
        id: BlockId(0),
        pid,
        flavour: BurstFlavour::Trace,
        pieces: vec![piece],
        record: String::from_utf8_lossy(text).into_owned(),
    };
    let burst = Burst {
        id: BurstId(0),
        time: Nanos(0),
        pid,
        tid,
        flavour: BurstFlavour::Trace,
        end: BurstEnd::Time,
        elapsed: Nanos(1),
        cpu_time: None,
        stand_still: Nanos(0),
        stops: 0,
        fs_base: RemoteAddr(u64::MAX),
        records: 0,
        records_lost: false,
        entries: None,
        in_calls: None,
        faults: None,
        answers: None,
    };
    let recording = Recording {
        blocks: vec![block],
        bursts: vec![burst],
        records: vec![Records { burst: BurstId(0), bytes: records.to_vec() }],
        ..Recording::default()
    };
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    for keys in [&[][..], &[Key::Module]] {
        std::hint::black_box(accesses(&profile, &code, &Selection::default(), keys));
    }
});
