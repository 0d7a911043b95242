//! Roots against a small emulator: random straight-line code is built here, together with what it means, so that the
//! expected addresses come from no decoder. For each access two ways of computing its address must agree with the
//! emulator: from the registers just before its instruction, and from the block's roots.
//!
//! The emulator knows mov, add, sub, inc, dec, lea, xchg, push, pop, leave and loads and stores; memory it has not written
//! holds a hash of its address.

mod common;

use std::collections::HashMap;

use base::RemoteAddr;
use common::Random;
use x86::{
    Advance, CodeBytes, Gpr, Kind, Limits, Reader, State, Value, evaluate, find_roots, read_block,
    self_loop,
};

const START: RemoteAddr = RemoteAddr(0x7000_0000);
const RSP: usize = 4;
const RBP: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Step {
    AddImmediate(usize, i32),
    SubImmediate(usize, i32),
    AddNarrow(usize, i32),
    Increment(usize),
    Decrement(usize),
    Lea(usize, usize, i32),
    LeaIndexed(usize, Operand),
    Move(usize, usize),
    MoveNarrow(usize, usize),
    MoveByte(usize, u8),
    Constant(usize, u64),
    Zero(usize),
    Add(usize, usize),
    Exchange(usize, usize),
    Push(usize),
    Pop(usize),
    PopMemory(Operand),
    Leave,
    Load(usize, Operand),
    Store(Operand, usize),
}

/// `[base + index x 2^shift + displacement]`; the index is never rsp.
#[derive(Clone, Copy, Debug)]
struct Operand {
    base: usize,
    index: usize,
    shift: u8,
    displacement: i32,
}

fn rex(wide: bool, reg: usize, index: usize, base: usize) -> u8 {
    let bit = |register: usize| u8::from(register >= 8);
    0x40 | u8::from(wide) << 3 | bit(reg) << 2 | bit(index) << 1 | bit(base)
}

fn modrm(mode: u8, reg: usize, rm: usize) -> u8 {
    mode << 6 | ((reg & 7) as u8) << 3 | (rm & 7) as u8
}

impl Operand {
    /// Opcode with SIB byte and 32-bit displacement.
    fn encode(&self, opcode: u8, reg: usize) -> Vec<u8> {
        let sib = self.shift << 6 | ((self.index & 7) as u8) << 3 | (self.base & 7) as u8;
        let mut bytes =
            vec![rex(true, reg, self.index, self.base), opcode, modrm(2, reg, RSP), sib];
        bytes.extend(self.displacement.to_le_bytes());
        bytes
    }

    fn address(&self, general: &[u64; 16]) -> u64 {
        general[self.base]
            .wrapping_add(general[self.index] << self.shift)
            .wrapping_add(i64::from(self.displacement).cast_unsigned())
    }
}

fn register_form(wide: bool, opcode: u8, reg: usize, rm: usize) -> Vec<u8> {
    vec![rex(wide, reg, 0, rm), opcode, modrm(3, reg, rm)]
}

fn immediate_form(wide: bool, extension: usize, rm: usize, value: i32) -> Vec<u8> {
    let mut bytes = register_form(wide, 0x81, extension, rm);
    bytes.extend(value.to_le_bytes());
    bytes
}

impl Step {
    fn encode(&self) -> Vec<u8> {
        match *self {
            Step::AddImmediate(to, value) => immediate_form(true, 0, to, value),
            Step::SubImmediate(to, value) => immediate_form(true, 5, to, value),
            Step::AddNarrow(to, value) => immediate_form(false, 0, to, value),
            Step::Increment(to) => register_form(true, 0xff, 0, to),
            Step::Decrement(to) => register_form(true, 0xff, 1, to),
            Step::Lea(to, base, displacement) => {
                // Mode 2 with an SIB byte that has no index, which every base can have.
                let sib = 0x20 | (base & 7) as u8;
                let mut bytes = vec![rex(true, to, 0, base), 0x8d, modrm(2, to, RSP), sib];
                bytes.extend(displacement.to_le_bytes());
                bytes
            }
            Step::LeaIndexed(to, operand) => operand.encode(0x8d, to),
            Step::Move(to, from) => register_form(true, 0x8b, to, from),
            Step::MoveNarrow(to, from) => register_form(false, 0x8b, to, from),
            Step::MoveByte(to, value) => vec![rex(false, 0, 0, to), 0xb0 | (to & 7) as u8, value],
            Step::Constant(to, value) => {
                let mut bytes = vec![rex(true, 0, 0, to), 0xb8 | (to & 7) as u8];
                bytes.extend(value.to_le_bytes());
                bytes
            }
            Step::Zero(to) => register_form(false, 0x31, to, to),
            Step::Add(to, from) => register_form(true, 0x03, to, from),
            Step::Exchange(one, other) => register_form(true, 0x87, one, other),
            Step::Push(from) => vec![rex(false, 0, 0, from), 0x50 | (from & 7) as u8],
            Step::Pop(to) => vec![rex(false, 0, 0, to), 0x58 | (to & 7) as u8],
            Step::PopMemory(operand) => operand.encode(0x8f, 0),
            Step::Leave => vec![0xc9],
            Step::Load(to, operand) => operand.encode(0x8b, to),
            Step::Store(operand, from) => operand.encode(0x89, from),
        }
    }
}

struct Machine {
    general: [u64; 16],
    memory: HashMap<u64, u64>,
    accesses: Vec<(u64, Kind)>,
}

impl Machine {
    fn read(&mut self, address: u64) -> u64 {
        self.accesses.push((address, Kind::Read));
        self.memory.get(&address).copied().unwrap_or_else(|| Random(address).next())
    }

    fn write(&mut self, address: u64, value: u64) {
        self.accesses.push((address, Kind::Write));
        self.memory.insert(address, value);
    }

    fn push(&mut self, value: u64) {
        self.general[RSP] = self.general[RSP].wrapping_sub(8);
        self.write(self.general[RSP], value);
    }

    fn pop(&mut self) -> u64 {
        let value = self.read(self.general[RSP]);
        self.general[RSP] = self.general[RSP].wrapping_add(8);
        value
    }

    fn run(&mut self, step: &Step) {
        let extended = |value: i32| i64::from(value).cast_unsigned();
        let old = self.general;
        match *step {
            Step::AddImmediate(to, value) => {
                self.general[to] = old[to].wrapping_add(extended(value))
            }
            Step::SubImmediate(to, value) => {
                self.general[to] = old[to].wrapping_sub(extended(value))
            }
            Step::AddNarrow(to, value) => {
                self.general[to] = u64::from((old[to] as u32).wrapping_add(value.cast_unsigned()));
            }
            Step::Increment(to) => self.general[to] = old[to].wrapping_add(1),
            Step::Decrement(to) => self.general[to] = old[to].wrapping_sub(1),
            Step::Lea(to, base, more) => self.general[to] = old[base].wrapping_add(extended(more)),
            Step::LeaIndexed(to, operand) => self.general[to] = operand.address(&old),
            Step::Move(to, from) => self.general[to] = old[from],
            Step::MoveNarrow(to, from) => self.general[to] = old[from] & 0xffff_ffff,
            Step::MoveByte(to, value) => self.general[to] = old[to] & !0xff | u64::from(value),
            Step::Constant(to, value) => self.general[to] = value,
            Step::Zero(to) => self.general[to] = 0,
            Step::Add(to, from) => self.general[to] = old[to].wrapping_add(old[from]),
            Step::Exchange(one, other) => self.general.swap(one, other),
            Step::Push(from) => self.push(old[from]),
            Step::Pop(to) => self.general[to] = self.pop(),
            // The address counts from the new rsp.
            Step::PopMemory(operand) => {
                let value = self.pop();
                self.write(operand.address(&self.general), value);
            }
            Step::Leave => {
                self.general[RSP] = old[RBP];
                self.general[RBP] = self.pop();
            }
            Step::Load(to, operand) => self.general[to] = self.read(operand.address(&old)),
            Step::Store(operand, from) => self.write(operand.address(&old), old[from]),
        }
    }
}

fn operand(random: &mut Random) -> Operand {
    let index = random.below(15);
    Operand {
        base: random.below(16),
        index: if index >= RSP { index + 1 } else { index },
        shift: random.below(4) as u8,
        displacement: random.next() as i32 >> random.below(32),
    }
}

fn step(random: &mut Random) -> Step {
    let (one, other) = (random.below(16), random.below(16));
    let value = random.next() as i32 >> random.below(32);
    match random.below(24) {
        0 => Step::AddImmediate(one, value),
        1 => Step::SubImmediate(one, value),
        2 => Step::AddNarrow(one, value),
        3 => Step::Increment(one),
        4 => Step::Decrement(one),
        5 => Step::Lea(one, other, value),
        6 => Step::LeaIndexed(one, operand(random)),
        7 => Step::Move(one, other),
        8 => Step::MoveNarrow(one, other),
        9 => Step::MoveByte(one, value as u8),
        10 => Step::Constant(one, random.next()),
        11 => Step::Zero(one),
        12 => Step::Add(one, other),
        13 => Step::Exchange(one, other),
        14 | 15 => Step::Push(one),
        16 | 17 => Step::Pop(one),
        18 => Step::PopMemory(operand(random)),
        19 => Step::Leave,
        20 | 21 => Step::Load(one, operand(random)),
        _ => Step::Store(operand(random), one),
    }
}

fn state_of(general: &[u64; 16]) -> State {
    State { general: *general, ..State::default() }
}

/// Runs `steps` from `machine`'s state; gives the state in front of each step and behind the last.
fn emulate(machine: &mut Machine, steps: &[Step]) -> Vec<State> {
    let mut states = vec![state_of(&machine.general)];
    for step in steps {
        machine.run(step);
        states.push(state_of(&machine.general));
    }
    states
}

fn machine(random: &mut Random) -> Machine {
    let mut general = [0; 16];
    general.fill_with(|| random.next());
    Machine { general, memory: HashMap::new(), accesses: Vec::new() }
}

#[test]
fn addresses_from_registers_and_from_roots() {
    let mut random = Random(7);
    let mut reader = Reader::new();
    let (mut accesses, mut recorded, mut needed) = (0, 0, 0);
    for _ in 0..20_000 {
        let steps: Vec<Step> = (0..1 + random.below(20)).map(|_| step(&mut random)).collect();
        let bytes: Vec<u8> = steps.iter().flat_map(Step::encode).collect();
        let code = CodeBytes { start: START, bytes: &bytes };
        let block = read_block(&mut reader, &code, START, &Limits::SUPER);
        assert_eq!(block.instructions.len(), steps.len(), "{steps:?}");
        let mut machine = machine(&mut random);
        let states = emulate(&mut machine, &steps);

        let plain = |touched: x86::Touched| (touched.address.0, touched.kind);
        let direct: Vec<_> = block
            .instructions
            .iter()
            .zip(&states)
            .flat_map(|(instruction, state)| evaluate(instruction.accesses(), state))
            .map(plain)
            .collect();
        assert_eq!(direct, machine.accesses, "{steps:?}");

        let roots = find_roots(&block);
        let rebuilt: Vec<_> = roots
            .accesses
            .iter()
            .flat_map(|access| evaluate(&[access.access], &access.state(|at| &states[at])))
            .map(plain)
            .collect();
        assert_eq!(rebuilt, machine.accesses, "{steps:?}");
        check_end(&roots, &states, &steps);
        accesses += rebuilt.len();
        recorded += roots.roots.len();
        needed += roots.accesses.iter().map(|access| access.inputs.len()).sum::<usize>();
    }
    println!("{accesses} accesses, {needed} register values used, {recorded} roots recorded");
    assert!(accesses > 90_000, "only {accesses}");
}

fn check_end(roots: &x86::BlockRoots, states: &[State], steps: &[Step]) {
    let last = &states[states.len() - 1];
    for register in Gpr::all() {
        let value = match roots.general_at_end[register.number()] {
            Some(Value::Constant(value)) => value,
            Some(Value::Root { root, displacement }) => match root.source {
                x86::Source::General(from) => states[root.at].get(from).wrapping_add(displacement),
                other => panic!("{other} in {register}"),
            },
            None => continue,
        };
        assert_eq!(value, last.get(register), "{register} behind {steps:?}");
    }
}

/// A loop whose roots all advance by constants: every address of every iteration from the first one's registers.
#[test]
fn summarised_loops() {
    let mut random = Random(11);
    let mut reader = Reader::new();
    let mut summarised = 0;
    for _ in 0..60_000 {
        let steps: Vec<Step> = (0..1 + random.below(5)).map(|_| step(&mut random)).collect();
        let mut bytes: Vec<u8> = steps.iter().flat_map(Step::encode).collect();
        // jmp to the start
        let back = -(i32::try_from(bytes.len()).unwrap() + 5);
        bytes.push(0xe9);
        bytes.extend(back.to_le_bytes());
        let code = CodeBytes { start: START, bytes: &bytes };
        let block = read_block(&mut reader, &code, START, &Limits::BASIC);
        let roots = find_roots(&block);
        let found = self_loop(&block, &roots).unwrap();
        if !found.is_summarisable() || roots.accesses.is_empty() {
            continue;
        }
        summarised += 1;
        let mut machine = machine(&mut random);
        let first = state_of(&machine.general);
        let mut rebuilt = Vec::new();
        for iteration in 0..5u64 {
            emulate(&mut machine, &steps);
            let state = advanced(&first, &roots, &found.advances, iteration);
            let touched = roots
                .accesses
                .iter()
                .flat_map(|access| evaluate(&[access.access], &access.state(|_| &state)));
            rebuilt.extend(touched.map(|touched| (touched.address.0, touched.kind)));
        }
        assert_eq!(rebuilt, machine.accesses, "{steps:?}");
    }
    println!("{summarised} loops summarised");
    assert!(summarised > 5_000, "only {summarised}");
}

/// The first iteration's registers, moved on by `iteration` iterations.
fn advanced(first: &State, roots: &x86::BlockRoots, advances: &[Advance], iteration: u64) -> State {
    let mut state = first.clone();
    for (root, advance) in roots.roots.iter().zip(advances) {
        if let (x86::Source::General(register), Advance::Constant(step)) = (root.source, advance) {
            let value = first.get(register).wrapping_add(step.wrapping_mul(iteration));
            state.set(register, value);
        }
    }
    state
}
