//! Copies and their originals executed in a process of their own: same registers, flags, vectors and memory at the end
//! or at the same fault; the record gives the addresses that the evaluator gives for the native registers; and wherever
//! the copy is stopped, its state gives native registers that the original had.

mod common;

use base::RemoteAddr;
use common::Random;
use common::compare::{Case, Pair};
use common::machine::{self, CODE, Machine};
use common::native;
use iced_x86::{Decoder, DecoderOptions};
use x86::translate::{Flavour, translate};
use x86::{Block, CodeBytes, Gpr, Limits, Reader, find_roots, read_block, self_loop};

/// Where blocks begin, with room for what they jump back to.
const OFFSET: usize = 0x8000;
const START: RemoteAddr = RemoteAddr(CODE.address.0 + OFFSET as u64);

/// What differs from run to run, needs rights, or shows its own address or the trap flag; and what the kernel emulates
/// (UMIP), because a step over that takes the next instruction too.
const LEFT_OUT: &[&str] = &[
    "rdtsc*", "rdrand", "rdseed", "rdpid", "rdpru", "cpuid", "pushf*", "fnst*", "fnsave",
    "fxsave*", "umwait", "tpause", "umonitor", "monitorx", "mwaitx", "ptwrite", "sgdt", "sidt",
    "sldt", "smsw", "str",
];

fn is_left_out(block: &Block) -> bool {
    let names: Vec<String> = block.instructions.iter().map(x86::Instruction::mnemonic).collect();
    let out = |name: &String| {
        LEFT_OUT.iter().any(|one| common::matches_pattern(one.as_bytes(), name.as_bytes()))
    };
    names.iter().any(out)
}

/// Lets operands that are relative to the instruction pointer point into the data.
fn bend(random: &mut Random, bytes: &mut [u8], block: &Block) {
    for instruction in &block.instructions {
        let at = (instruction.address().0 - CODE.address.0) as usize;
        let end = (at + instruction.length()).min(bytes.len());
        let mut decoder =
            Decoder::with_ip(64, &bytes[at..end], instruction.address().0, DecoderOptions::NONE);
        let raw = decoder.decode();
        if raw.is_ip_rel_memory_operand() {
            let field = at + decoder.get_constant_offsets(&raw).displacement_offset();
            let target = machine::MIDDLE + 64 * random.below(100) as u64;
            let displacement = target.wrapping_sub(instruction.next_address().0) as u32;
            bytes[field..field + 4].copy_from_slice(&displacement.to_le_bytes());
        }
    }
}

/// Registers that serve as bases, and those that serve as indices or counters only.
fn roles(block: &Block) -> (Vec<Gpr>, Vec<Gpr>) {
    let accesses = || block.instructions.iter().flat_map(|one| one.accesses());
    let bases: Vec<Gpr> = accesses().filter_map(|access| access.address().base).collect();
    let indices = accesses().filter_map(|access| access.address().index);
    let counters = accesses().filter_map(|access| match access.when {
        x86::Occurrence::Repeated(repeat) => Some(repeat.counter),
        _ => None,
    });
    let others = indices.map(|index| index.register).chain(counters);
    let others = others.filter(|register| !bases.contains(register)).collect();
    (bases, others)
}

#[derive(Default, Debug)]
struct Tally {
    blocks: usize,
    runs: usize,
    faults: usize,
    too_long: usize,
    loops: usize,
    refused: usize,
    points: usize,
}

struct Bench {
    pair: Pair,
    random: Random,
    flavour: Flavour,
    tally: Tally,
    reader: Reader,
}

impl Bench {
    fn new(seed: u64, flavour: Flavour, reserved: Gpr) -> Bench {
        let reserved = (flavour != Flavour::Count).then_some(reserved);
        let pair = Pair { stepped: Machine::start(reserved), whole: Machine::start(reserved) };
        Bench {
            pair,
            random: Random(seed),
            flavour,
            tally: Tally::default(),
            reader: Reader::of_processor(x86::Vectors::of_this_processor()),
        }
    }

    /// Runs the block at `START` of `code` (which lies from `OFFSET - before` on) from some random starts.
    fn block(&mut self, code: &[u8], before: usize, starts: usize, limits: &Limits) {
        let mut bytes = vec![0xcc; CODE.bytes];
        bytes[OFFSET - before..OFFSET - before + code.len()].copy_from_slice(code);
        let read = |reader: &mut Reader, bytes: &[u8]| {
            let code = CodeBytes { start: CODE.address, bytes };
            read_block(reader, &code, START, limits)
        };
        let block = read(&mut self.reader, &bytes);
        if is_left_out(&block) {
            return;
        }
        bend(&mut self.random, &mut bytes, &block);
        let block = read(&mut self.reader, &bytes);
        let code = CodeBytes { start: CODE.address, bytes: &bytes };
        let flavour = match self.flavour {
            Flavour::Timed { .. } => Flavour::Timed { pick: self.random.below(9) as u32 },
            other => other,
        };
        let site = self.pair.stepped.site(flavour);
        let Ok(translation) = translate(&block, &code, &site) else {
            self.tally.refused += 1;
            return;
        };
        native::place(&mut self.pair.stepped, 0, &bytes);
        self.tally.blocks += 1;
        self.tally.loops += usize::from(translation.record.iterations.is_some());
        let (bases, indices) = roles(&block);
        for _ in 0..starts {
            let registers = machine::registers(&mut self.random, START, &bases, &indices);
            let pristine = machine::memory(&mut self.random);
            let extended = machine::extended(&mut self.random, &self.pair.stepped.extended);
            let case = Case::new(&block, &translation, flavour, registers, &extended, &pristine);
            let Some(case) = case else { return };
            let shown = Shown(&block, &translation);
            let native = case.run(&mut self.pair, 600, true);
            std::mem::forget(shown);
            self.tally.runs += 1;
            match native {
                Some(native) => {
                    self.tally.faults += usize::from(native.fault.is_some());
                    self.tally.points += native.points.len();
                }
                None => self.tally.too_long += 1,
            }
        }
    }
}

/// Prints the block when a comparison fails.
struct Shown<'a>(&'a Block, &'a x86::translate::Translation);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        println!("{}\n{}", x86::listing(self.0), self.1.record);
        println!("{}", common::translated::listing(self.1, &(0..0)));
    }
}

/// Every case of the golden tests: one for each form of operand and of branch.
fn by_hand(flavour: Flavour, reserved: Gpr) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut bench = Bench::new(1, flavour, reserved);
    for name in ["translate", "operands", "stack", "strings", "vectors", "blocks", "flags", "roots"]
    {
        let text = std::fs::read_to_string(folder.join(name).with_extension("txt")).unwrap();
        for case in common::cases(&text) {
            bench.block(&case.bytes, 0, 12, &Limits::SUPER);
        }
    }
    println!("{flavour:?} {reserved}: {:?}", bench.tally);
    assert!(bench.tally.runs > 500);
}

#[test]
fn cases_by_hand_traced() {
    by_hand(Flavour::Trace, Gpr::R15);
}

#[test]
fn cases_by_hand_traced_with_rbx_reserved() {
    by_hand(Flavour::Trace, Gpr::from_number(3).unwrap());
}

#[test]
fn cases_by_hand_counted() {
    by_hand(Flavour::Count, Gpr::R15);
}

#[test]
fn cases_by_hand_timed() {
    by_hand(Flavour::Timed { pick: 0 }, Gpr::R15);
}

/// Blocks of system libraries, one in so many.
fn of_libraries(seed: u64, flavour: Flavour, every: usize) {
    let mut bench = Bench::new(seed, flavour, Gpr::R15);
    common::for_each_library(common::FEW_MEGABYTES, |_, bytes| {
        let mut at = OFFSET;
        loop {
            at += 1 + bench.random.below(2 * every);
            if at >= bytes.len() {
                break;
            }
            let from = at - 0x1000;
            let end = (at + 0x1000).min(bytes.len());
            let limits = if bench.random.below(2) == 0 { Limits::SUPER } else { Limits::BASIC };
            bench.block(&bytes[from..end], 0x1000, 2, &limits);
        }
    });
    println!("{flavour:?}: {:?}", bench.tally);
}

#[test]
fn libraries_traced() {
    of_libraries(2, Flavour::Trace, 4000);
}

#[test]
fn libraries_counted() {
    of_libraries(3, Flavour::Count, 20_000);
}

#[test]
fn libraries_timed() {
    of_libraries(4, Flavour::Timed { pick: 0 }, 20_000);
}

/// Every loop of system libraries that is summarised.
#[test]
fn loops_of_libraries() {
    let mut bench = Bench::new(5, Flavour::Trace, Gpr::R15);
    let mut reader = Reader::new();
    common::for_each_library(common::FEW_MEGABYTES, |start, bytes| {
        let code = CodeBytes { start, bytes };
        let mut at = 0x1000;
        while at + 0x1000 < bytes.len() {
            let block = read_block(&mut reader, &code, start.offset(at as u64), &Limits::SUPER);
            let found = self_loop(&block, &find_roots(&block));
            if found.is_some_and(|found| found.is_summarisable()) {
                bench.block(&bytes[at - 0x1000..at + 0x1000], 0x1000, 4, &Limits::SUPER);
            }
            at = common::behind(&block, at, start);
        }
    });
    println!("loops: {:?}", bench.tally);
}
