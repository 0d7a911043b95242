//! A block executed as it is, one instruction at a time.

use base::RemoteAddr;
use sys::sandbox::{Registers, Stopped};
use x86::{Block, End, Flow, Occurrence, State, Touched, evaluate};

use super::machine::{CODE, DATA, Machine, comparable};

/// Native registers in front of one instruction, or one round of a repeated one.
pub struct Point {
    pub instruction: usize,
    pub first_round: bool,
    pub registers: Registers,
    /// What the instruction accesses, by the evaluator; of a repeated one, with the first round.
    pub touched: Vec<Touched>,
}

/// How the block went.
pub struct Native {
    pub points: Vec<Point>,
    pub end: Registers,
    pub fault: Option<(i32, RemoteAddr)>,
    pub extended: Vec<u8>,
    pub memory: Vec<u8>,
    /// The instruction that left the block although others follow.
    pub left_by: Option<usize>,
}

fn is_repeated(instruction: &x86::Instruction) -> bool {
    instruction.accesses().iter().any(|access| matches!(access.when, Occurrence::Repeated(_)))
}

pub fn needs_vectors(block: &Block) -> bool {
    let roots = x86::find_roots(block).roots;
    roots.iter().any(|root| {
        matches!(root.source, x86::Source::Vector(_) | x86::Source::Mask(_) | x86::Source::Mmx(_))
    })
}

/// `None` when it takes more than `most` steps. `again`: the block goes on when it comes back to its start.
pub fn run(
    machine: &mut Machine,
    block: &Block,
    start: &Registers,
    extended: &[u8],
    pristine: &[u8],
    again: bool,
    most: usize,
) -> Option<Native> {
    machine.reset(pristine, extended);
    machine.sandbox.set_registers(start).unwrap();
    let vectors = needs_vectors(block);
    let mut native = Native {
        points: Vec::new(),
        end: *start,
        fault: None,
        extended: Vec::new(),
        memory: Vec::new(),
        left_by: None,
    };
    let (mut number, mut first_round) = (0, true);
    while native.points.len() < most {
        let registers = native.end;
        let instruction = &block.instructions[number];
        let state: State = machine.state(&registers, vectors);
        let accesses = if first_round { instruction.accesses() } else { &[] };
        let touched = evaluate(accesses, &state);
        native.points.push(Point { instruction: number, first_round, registers, touched });
        let stopped = machine.sandbox.step().unwrap();
        native.end = machine.sandbox.registers().unwrap();
        if let Stopped::Signal(signal, address) = stopped {
            native.fault = Some((signal, address));
            return Some(finish(machine, native));
        }
        assert_eq!(stopped, Stopped::Step);
        first_round = true;
        if is_repeated(instruction) && native.end.rip == registers.rip {
            first_round = false;
        } else if block.side_exits().any(|exit| exit == number) && leaves(block, number, &native) {
            native.left_by = Some(number);
            return Some(finish(machine, native));
        } else if number + 1 < block.instructions.len() {
            number += 1;
            assert_eq!(native.end.rip, block.instructions[number].address());
        } else if again && native.end.rip == block.start {
            number = 0;
        } else {
            return Some(finish(machine, native));
        }
    }
    None
}

/// Whether this side exit was taken.
fn leaves(block: &Block, number: usize, native: &Native) -> bool {
    let rip = native.end.rip;
    match (block.instructions[number].flow(), block.instructions.get(number + 1), block.end) {
        (Flow::Conditional(taken), _, _) => taken == rip,
        (_, Some(next), _) => next.address() != rip,
        (_, None, End::FallThrough(at) | End::MissingBytes(at) | End::Refused { at, .. }) => {
            at != rip
        }
        _ => false,
    }
}

fn finish(machine: &mut Machine, mut native: Native) -> Native {
    native.extended = comparable(&machine.sandbox.extended().unwrap());
    native.memory = machine.part(DATA).to_vec();
    native
}

/// Puts code where blocks lie.
pub fn place(machine: &mut Machine, offset: usize, code: &[u8]) {
    let part = machine.part(CODE);
    part.fill(0xcc);
    part[offset..offset + code.len()].copy_from_slice(code);
}
