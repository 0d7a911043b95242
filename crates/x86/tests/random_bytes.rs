//! Whatever the bytes: no panic, no endless walk, and what comes out is within the bounds that the types promise.
//! Bytes are random behind openings that lead into every opcode map. The seed is fixed.

mod common;

use base::RemoteAddr;
use common::{Random, translated};
use x86::translate::{Flavour, RecordLayout, translate};
use x86::{
    Block, CodeBytes, End, Flow, Gpr, LONGEST_INSTRUCTION, Limits, Location, Occurrence, Reader,
    State, Times, evaluate, find_roots, live_points, read_block, self_loop,
};

const BLOCKS: usize = 400_000;

/// Beginnings that random bytes alone would rarely have: prefixes, escapes, VEX, EVEX, XOP.
const OPENINGS: &[&[u8]] = &[
    &[],
    &[],
    &[0x0f],
    &[0x66],
    &[0xf2, 0x0f],
    &[0xf3, 0x0f],
    &[0x66, 0x0f, 0x38],
    &[0x0f, 0x3a],
    &[0x48],
    &[0x48, 0x0f],
    &[0xc5],
    &[0xc4],
    &[0x62, 0xf1],
    &[0x62, 0xf2],
    &[0x62, 0xf3],
    &[0x62, 0xf5],
    &[0x8f, 0xe8],
    &[0x67],
    &[0x64, 0x48],
    &[0xf0],
    &[0xf3],
    &[0x0f, 0x01],
    &[0x0f, 0xae],
    &[0x0f, 0x0f],
    &[0xdd],
];

fn bytes(random: &mut Random) -> Vec<u8> {
    let length = random.below(96);
    let mut bytes = OPENINGS[random.below(OPENINGS.len())].to_vec();
    while bytes.len() < length {
        bytes.extend(random.next().to_le_bytes());
        if random.below(3) == 0 {
            bytes.extend(OPENINGS[random.below(OPENINGS.len())]);
        }
    }
    bytes
}

fn state(random: &mut Random) -> State {
    let mut state = State::default();
    state.general.fill_with(|| random.next());
    state.masks.fill_with(|| random.next());
    state.mmx.fill_with(|| random.next());
    for vector in &mut state.vectors {
        vector.fill_with(|| random.next() as u8);
    }
    state.fs_base = random.next();
    state.direction_down = random.below(2) == 0;
    state
}

/// Checks what must hold of any block; returns the number of instructions.
fn check(block: &Block, limits: &Limits, state: &State) -> usize {
    assert!(block.instructions.len() <= limits.instructions);
    assert!(block.byte_length() <= limits.bytes);
    for instruction in &block.instructions {
        assert!((1..=LONGEST_INSTRUCTION).contains(&instruction.length()));
        for access in instruction.accesses() {
            assert!((1..=512).contains(&access.bytes), "{access}");
            if let (Location::One(_), Occurrence::Masked(masked)) = (&access.place, access.when) {
                let elements = access.bytes / u32::from(masked.element_bytes);
                assert!(access.bytes % u32::from(masked.element_bytes) == 0, "{access}");
                assert!(u32::from(masked.lanes) % elements == 0, "{access}");
            }
        }
        for touched in evaluate(instruction.accesses(), state) {
            assert!((1..=512).contains(&touched.bytes));
            assert!(!matches!(touched.times, Times::Run { count: 0, .. }));
        }
    }
    let roots = find_roots(block);
    for root in &roots.roots {
        assert!(root.at <= block.instructions.len());
    }
    // The evaluation from one state at all points is not the program's; it must only not panic.
    for access in &roots.accesses {
        let _ = evaluate(&[access.access], &access.state(|_| state));
    }
    assert_eq!(live_points(&block.instructions).len(), block.instructions.len() + 1);
    let _ = self_loop(block, &roots);
    // The end lies behind the last instruction, where nothing was followed.
    if let (End::MissingBytes(at) | End::Refused { at, .. } | End::FallThrough(at), Some(last)) =
        (block.end, block.instructions.last())
        && last.flow() == Flow::Next
    {
        assert_eq!(at, last.next_address());
    }
    block.instructions.len()
}

#[test]
fn any_bytes() {
    let mut random = Random(1);
    let mut reader = Reader::new();
    let mut instructions = 0;
    let state = state(&mut random);
    for _ in 0..BLOCKS {
        let bytes = bytes(&mut random);
        // Near both ends of the address space now and then.
        let start = match random.below(8) {
            0 => RemoteAddr(0u64.wrapping_sub(bytes.len() as u64)),
            1 => RemoteAddr(0),
            _ => RemoteAddr(random.next()),
        };
        let (follow, branches) = (random.below(3), random.below(3));
        let limits = Limits { instructions: 16, bytes: 64, follow, branches };
        let block = read_block(&mut reader, &CodeBytes { start, bytes: &bytes }, start, &limits);
        instructions += check(&block, &limits, &state);
    }
    // So that the test does not become empty by accident.
    assert!(instructions > BLOCKS, "only {instructions} instructions");
}

/// Every length of every beginning of some instructions, at every distance from a missing page.
#[test]
fn cut_off_anywhere() {
    let mut random = Random(2);
    let mut reader = Reader::new();
    for _ in 0..20_000 {
        let bytes = bytes(&mut random);
        let whole = CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes };
        let Ok(instruction) = reader.instruction(&whole, whole.start) else { continue };
        for cut in 0..instruction.length() {
            let code = CodeBytes { start: whole.start, bytes: &bytes[..cut] };
            let result = reader.instruction(&code, code.start);
            assert!(matches!(result, Err(x86::NotRead::MissingBytes)), "{bytes:02x?} cut at {cut}");
        }
    }
}

/// Millions of single instructions, without the passes over blocks.
#[test]
fn any_instruction() {
    let mut random = Random(3);
    let mut reader = Reader::new();
    let mut read = 0usize;
    for _ in 0..8_000_000 {
        let opening = OPENINGS[random.below(OPENINGS.len())];
        let mut bytes = [0; 20];
        bytes[..opening.len()].copy_from_slice(opening);
        bytes[opening.len()..opening.len() + 8].copy_from_slice(&random.next().to_le_bytes());
        bytes[12..].copy_from_slice(&random.next().to_le_bytes());
        let code = CodeBytes { start: RemoteAddr(0x40_0000), bytes: &bytes };
        read += usize::from(reader.instruction(&code, code.start).is_ok());
    }
    assert!(read > 2_000_000, "only {read} of 8,000,000 are instructions");
}

/// Copies of random code, of every flavour and with every register that may be reserved.
#[test]
fn any_copy() {
    let mut random = Random(4);
    let mut reader = Reader::new();
    let mut copies = 0;
    for _ in 0..100_000 {
        let bytes = bytes(&mut random);
        let start = RemoteAddr(0x1000);
        let code = CodeBytes { start, bytes: &bytes };
        let (follow, branches) = (random.below(3), random.below(3));
        let limits = Limits { instructions: 16, bytes: 64, follow, branches };
        let block = read_block(&mut reader, &code, start, &limits);
        let pick = random.below(5) as u32;
        let flavour = [Flavour::Trace, Flavour::Count, Flavour::Timed { pick }][random.below(3)];
        let mut site = translated::site(flavour);
        site.reserved = Gpr::from_number([3, 5, 12, 13, 14, 15][random.below(6)]).unwrap();
        if let Ok(copy) = translate(&block, &code, &site) {
            translated::check_boundaries(&copy);
            assert_eq!(copy.record.to_string().parse::<RecordLayout>().as_ref(), Ok(&copy.record));
            copies += 1;
        }
    }
    assert!(copies > 30_000, "only {copies} copies");
}
