//! How fast copies of much code run: nanoseconds of a basic block natively and in copies that count, by the number of blocks.
//!
//! What for: what a copy takes besides the instructions of its block (caches and pages of code, counters, look-ups of returns). What
//! not: the time until code is in the caches; each figure is the best of several runs.
//!
//! ```sh
//! cargo run --release -p x86 --example copies_pace
//! ```
use std::collections::HashMap;
use std::time::Instant;

use base::RemoteAddr;
use sys::sandbox::{Piece, Registers, Sandbox, Stopped};
use x86::translate::{Common, Exit, Flavour, MISS, NativeRip, Site, area, common_code, translate};
use x86::{CodeBytes, Limits, Reader, Refusal, read_block};

const CODE: Piece = Piece { address: RemoteAddr(0x2345_0000), bytes: 4 << 20 };
const COPY: Piece = Piece { address: RemoteAddr(0x2945_6000), bytes: 24 << 20 };
const COLD: usize = 12 << 20;
const AREA: Piece = Piece { address: RemoteAddr(0x3567_8000), bytes: area::TABLE_END as usize };
const STACK: Piece = Piece { address: RemoteAddr(0x1000_0000), bytes: 0x1_0000 };
const RUNS: usize = 7;
/// Blocks that a run executes.
const EXECUTIONS: usize = 4_000_000;

fn range(piece: Piece) -> std::ops::Range<usize> {
    let start: usize = [CODE, COPY, AREA, STACK]
        .iter()
        .take_while(|one| one.address != piece.address)
        .map(|one| one.bytes)
        .sum();
    start..start + piece.bytes
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// Blocks in a random order, each of four instructions and a jump to the next one or, every second one, a call of one of 64 functions.
/// Rounds are counted in rbp; behind the last round is `ud2`.
fn program(blocks: usize, calls: bool) -> Vec<u8> {
    const BYTES: usize = 40;
    let mut random = Random(7);
    let mut order: Vec<usize> = (1..blocks).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    order.insert(0, 0);
    let functions = blocks * BYTES;
    let mut code = vec![0xcc; functions + 64 * 64 + 64];
    let near = |code: &mut Vec<u8>, at: usize, opcode: &[u8], target: usize| {
        code[at..at + opcode.len()].copy_from_slice(opcode);
        let field = at + opcode.len();
        let relative = (target as i64 - field as i64 - 4) as i32;
        code[field..field + 4].copy_from_slice(&relative.to_le_bytes());
        field + 4
    };
    // add rax, 1; lea rbx, [rax+rax*2]; xor rdx, rbx; add rsi, rdx
    let work = [0x48, 0x83, 0xc0, 1, 0x48, 0x8d, 0x1c, 0x40, 0x48, 0x31, 0xda, 0x48, 0x01, 0xd6];
    for (place, block) in order.iter().enumerate() {
        let mut at = block * BYTES;
        code[at..at + work.len()].copy_from_slice(&work);
        at += work.len();
        if calls && place % 2 == 0 {
            let function = functions + 64 * random.below(64);
            at = near(&mut code, at, &[0xe8], function);
        }
        match order.get(place + 1) {
            Some(next) => {
                near(&mut code, at, &[0xe9], next * BYTES);
            }
            None => {
                // dec rbp; jnz first; ud2
                code[at..at + 3].copy_from_slice(&[0x48, 0xff, 0xcd]);
                at = near(&mut code, at + 3, &[0x0f, 0x85], 0);
                code[at..at + 2].copy_from_slice(&[0x0f, 0x0b]);
            }
        }
    }
    for function in 0..64 {
        let at = functions + 64 * function;
        code[at..at + work.len()].copy_from_slice(&work);
        code[at + work.len()] = 0xc3;
    }
    code
}

struct Copies<'a> {
    sandbox: Sandbox,
    code: CodeBytes<'a>,
    common: Common,
    call: RemoteAddr,
    states: x86::translate::States,
    by_start: HashMap<RemoteAddr, RemoteAddr>,
    exits: Vec<(Exit, RemoteAddr)>,
    waiting: HashMap<RemoteAddr, Vec<RemoteAddr>>,
    next: [usize; 2],
    blocks: u32,
    bytes: [usize; 2],
}

impl Copies<'_> {
    fn slot(&mut self, at: i32) -> u64 {
        let at = range(AREA).start + at as usize;
        u64::from_le_bytes(self.sandbox.memory()[at..at + 8].try_into().unwrap())
    }

    fn set_slot(&mut self, at: i32, value: u64) {
        let at = range(AREA).start + at as usize;
        self.sandbox.memory()[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn write(&mut self, at: RemoteAddr, bytes: &[u8]) {
        let at = range(COPY).start + (at.0 - COPY.address.0) as usize;
        self.sandbox.memory()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn link(&mut self, field: RemoteAddr, to: RemoteAddr) {
        self.write(field, &(to.0.wrapping_sub(field.0 + 4) as u32).to_le_bytes());
    }

    /// As the first one of its chain.
    fn enter_into_table(&mut self, start: RemoteAddr, entry: RemoteAddr, chain: RemoteAddr) {
        let slot = area::TABLE + 8 * (start.0 % area::TABLE_ENTRIES as u64) as i32;
        let next = RemoteAddr(self.slot(slot));
        self.link(chain, next);
        self.set_slot(slot, entry.0);
    }

    fn entry(&mut self, start: RemoteAddr) -> Option<RemoteAddr> {
        if let Some(entry) = self.by_start.get(&start) {
            return Some(*entry);
        }
        let block = read_block(&mut Reader::new(), &self.code, start, &Limits::BASIC);
        let [at, cold] = self.next.map(|next| COPY.address.offset(next as u64));
        let reserved = x86::Gpr::R15;
        let first_exit = self.exits.len() as u32;
        let site = Site {
            at,
            cold,
            block: self.blocks,
            first_exit,
            flavour: Flavour::Count,
            common: self.common,
            reserved,
            witness: None,
        };
        let copy = match translate(&block, &self.code, &site) {
            Ok(copy) => copy,
            Err(Refusal::AlwaysFaults) => return None,
            Err(why) => panic!("{start}: {why}"),
        };
        let split = copy.parts.split;
        self.write(at, &copy.bytes[..split]);
        self.write(cold, &copy.bytes[split..]);
        for (place, bytes) in [split, copy.bytes.len() - split].into_iter().enumerate() {
            self.next[place] += bytes.next_multiple_of(16);
            self.bytes[place] += bytes;
        }
        self.set_slot(area::COUNTERS + 8 * self.blocks as i32, 1 << 40);
        self.blocks += 1;
        let entry = copy.parts.address(copy.entry);
        self.by_start.insert(start, entry);
        self.enter_into_table(
            start,
            copy.parts.address(copy.table.start),
            copy.parts.address(copy.chain),
        );
        for exit in &copy.exits {
            let field = copy.parts.address(exit.link);
            self.exits.push((*exit, field));
            if exit.linkable {
                match self.by_start.get(&exit.target).copied() {
                    Some(to) => self.link(field, to),
                    None => self.waiting.entry(exit.target).or_default().push(field),
                }
            }
        }
        for field in self.waiting.remove(&start).unwrap_or_default() {
            self.link(field, entry);
        }
        Some(entry)
    }

    /// Runs to the end of the program; returns the seconds since the thread last stopped for new code.
    fn run(&mut self, start: &Registers) -> f64 {
        let mut native = *start;
        while let Some(entry) = self.entry(native.rip) {
            let mut registers = native;
            registers.gs_base = AREA.address;
            registers.rip = entry;
            self.sandbox.set_registers(&registers).unwrap();
            let began = Instant::now();
            assert_eq!(self.sandbox.run().unwrap(), Stopped::SystemCall(39));
            let took = began.elapsed().as_secs_f64();
            let stopped = self.sandbox.registers().unwrap();
            let state = self.states.at((self.call.0 - COPY.address.0) as usize).unwrap().clone();
            native = stopped;
            for (register, slot) in state.saved.iter() {
                native.general[register.number()] = self.slot(slot);
            }
            let NativeRip::Slot(slot) = state.rip else { panic!("the way out knows no target") };
            native.rip = RemoteAddr(self.slot(slot));
            native.gs_base = RemoteAddr(0);
            let exit = self.slot(area::EXIT) as u32;
            if self.entry(native.rip).is_none() {
                assert!(exit != MISS);
                return took;
            }
        }
        0.0
    }
}

fn measure(blocks: usize, calls: bool) {
    let bytes = program(blocks, calls);
    let mut sandbox = Sandbox::start(&[CODE, COPY, AREA, STACK]).unwrap();
    sandbox.memory()[range(CODE)][..bytes.len()].copy_from_slice(&bytes);
    let shared = common_code(COPY.address, None);
    sandbox.memory()[range(COPY)][..shared.bytes.len()].copy_from_slice(&shared.bytes);
    let common = Common {
        exit: COPY.address.offset(shared.exit as u64),
        miss: COPY.address.offset(shared.miss as u64),
    };
    for entry in 0..area::TABLE_ENTRIES {
        let at = range(AREA).start + area::TABLE as usize + 8 * entry;
        sandbox.memory()[at..at + 8].copy_from_slice(&common.miss.0.to_le_bytes());
    }
    let call = shared.bytes.windows(2).position(|two| two == [0x0f, 0x05]).unwrap();
    let mut start = Registers { rip: CODE.address, ..Registers::default() };
    start.general[4] = STACK.address.0 + STACK.bytes as u64 / 2;
    start.general[5] = (EXECUTIONS / blocks) as u64;
    start.flags = 0x202;
    let executed = (EXECUTIONS / blocks * blocks) as f64;
    let mut natively = f64::INFINITY;
    for _ in 0..RUNS {
        sandbox.set_registers(&start).unwrap();
        let began = Instant::now();
        assert!(matches!(sandbox.run().unwrap(), Stopped::Signal(4, _)));
        natively = natively.min(began.elapsed().as_secs_f64());
    }
    let code = CodeBytes { start: CODE.address, bytes: &bytes };
    let mut copies = Copies {
        sandbox,
        code,
        common,
        call: COPY.address.offset(call as u64),
        states: shared.states,
        by_start: HashMap::new(),
        exits: Vec::new(),
        waiting: HashMap::new(),
        next: [0x1000, COLD],
        blocks: 0,
        bytes: [0; 2],
    };
    let copied = (0..RUNS).map(|_| copies.run(&start)).fold(f64::INFINITY, f64::min);
    let nanos = |seconds: f64| seconds * 1e9 / executed;
    println!(
        "{blocks:6} blocks{}: natively {:6.2} ns, in copies {:6.2} ns; {} blocks copied, {} + {} bytes each",
        if calls { " with calls" } else { "" },
        nanos(natively),
        nanos(copied),
        copies.blocks,
        copies.bytes[0] / copies.blocks as usize,
        copies.bytes[1] / copies.blocks as usize,
    );
}

fn main() {
    for calls in [false, true] {
        for blocks in [20, 200, 1000, 4000, 16000] {
            measure(blocks, calls);
        }
    }
}
