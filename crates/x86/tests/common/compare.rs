//! One block, one start: the original against its copy, run as a whole and stopped everywhere.

use base::RemoteAddr;
use sys::sandbox::{Registers, Stopped};
use x86::translate::{Flavour, Iterations, State as CopyState, Translation};
use x86::{Block, BlockRoots, Flags, Flow, Live, find_roots, live_at_start, live_points};

use super::machine::{DATA, Machine, RECORDS, STATUS_FLAGS, comparable};
use super::native::{self, Native};
use super::records;

/// Two processes: one is only stepped, the other only runs up to system calls, because a step behind a system call that
/// was not made reports a stop without an instruction (kernel/entry/common.c, report_single_step).
pub struct Pair {
    pub stepped: Machine,
    pub whole: Machine,
}

/// What is compared.
pub struct Case<'a> {
    pub block: &'a Block,
    pub translation: &'a Translation,
    pub roots: BlockRoots,
    pub flavour: Flavour,
    pub start: Registers,
    pub extended: &'a [u8],
    pub pristine: &'a [u8],
    /// In front of each instruction and behind them all: flags that are the same in a copy.
    sure: Vec<u64>,
    live: Vec<Live>,
}

fn bits(flags: Flags) -> u64 {
    let pairs = [
        (Flags::CARRY, 1),
        (Flags::PARITY, 4),
        (Flags::ADJUST, 0x10),
        (Flags::ZERO, 0x40),
        (Flags::SIGN, 0x80),
        (Flags::OVERFLOW, 0x800),
    ];
    pairs.iter().filter(|(flag, _)| flags.contains(*flag)).fold(0, |bits, (_, bit)| bits | bit)
}

/// Flags but for those that the check of a copy changes and that may still differ, in front of each instruction and behind
/// them all: those that were dead and only "undefined" since (a processor may leave an undefined flag as it was). `None`
/// when the block looks at one: no compiler writes that, but it comes up where data are taken for code.
fn sure(block: &Block, checked: Flags) -> Option<Vec<u64>> {
    let mut unsure = checked;
    let mut sure = vec![STATUS_FLAGS & !bits(unsure)];
    for instruction in &block.instructions {
        let flags = instruction.flags();
        if bits(unsure) & bits(flags.read) != 0 {
            return None;
        }
        if !flags.conditional {
            unsure = unsure.without(flags.written);
        }
        sure.push(STATUS_FLAGS & !bits(unsure));
    }
    Some(sure)
}

impl<'a> Case<'a> {
    pub fn new(
        block: &'a Block,
        translation: &'a Translation,
        flavour: Flavour,
        start: Registers,
        extended: &'a [u8],
        pristine: &'a [u8],
    ) -> Option<Case<'a>> {
        let changed = if flavour == Flavour::Count { Flags::INC } else { Flags::STATUS };
        let live = live_at_start(&block.instructions).flags;
        let checked = if changed.without(live) == changed { changed } else { Flags::NONE };
        let sure = sure(block, checked)?;
        let roots = find_roots(block);
        let live = live_points(&block.instructions);
        let case =
            Case { block, translation, roots, flavour, start, extended, pristine, sure, live };
        Some(case)
    }

    /// Those that matter in front of the block.
    pub fn flags_of_start(&self) -> u64 {
        bits(self.live[0].flags)
    }

    fn flags_in_front(&self, number: usize) -> u64 {
        bits(self.live[number].flags) & self.sure[number]
    }

    fn flags_behind(&self, native: &Native) -> u64 {
        self.sure[native.left_by.map_or(self.block.instructions.len(), |number| number + 1)]
    }

    /// The way by which the block was left, as its record tells it.
    fn way(&self, native: &Native) -> u64 {
        let exits = || self.block.side_exits();
        native
            .left_by
            .map_or(0, |number| 1 + exits().position(|exit| exit == number).unwrap() as u64)
    }

    fn is_summarised(&self) -> bool {
        // A loop without accesses has no record to tell by; its copy has no way back but inside.
        let back =
            self.translation.exits.iter().any(|one| one.linkable && one.target == self.block.start);
        self.flavour == Flavour::Trace && !back
    }

    /// Returns how the block went, `None` when it took too long.
    pub fn run(&self, pair: &mut Pair, most: usize, stepping: bool) -> Option<Native> {
        let again = self.is_summarised();
        let machine = &mut pair.stepped;
        let native = native::run(
            machine,
            self.block,
            &self.start,
            self.extended,
            self.pristine,
            again,
            most,
        )?;
        self.check_leaving(&mut pair.whole);
        if self.branches_nowhere(&native) {
            return Some(native);
        }
        self.whole(&mut pair.whole, &native, false);
        self.whole(&mut pair.whole, &native, true);
        if stepping {
            self.stepped(&mut pair.stepped, &native, 40 * native.points.len() + 200);
        }
        Some(native)
    }

    /// A branch to an address that is not canonical faults natively at the branch. A copy finds out when the thread is
    /// sent there, behind the branch; such a program ends either way.
    fn branches_nowhere(&self, native: &Native) -> bool {
        let last =
            native.points.last().map(|point| self.block.instructions[point.instruction].flow());
        let indirect = matches!(last, Some(Flow::Return | Flow::IndirectJump | Flow::IndirectCall));
        indirect && native.fault.is_some_and(|(_, address)| address == RemoteAddr(0))
    }

    pub fn state_at(&self, machine: &Machine, rip: RemoteAddr) -> CopyState {
        let Translation { parts, bytes, states, .. } = self.translation;
        let found = match parts.offset(rip, bytes.len()) {
            Some(offset) => states.at(offset),
            None => {
                let shared = super::machine::COPY.address;
                machine.common.states.at(rip.0.wrapping_sub(shared.0) as usize)
            }
        };
        found.unwrap_or_else(|| panic!("no state at {rip}")).clone()
    }

    fn whole(&self, machine: &mut Machine, native: &Native, through_table: bool) {
        machine.reset(self.pristine, self.extended);
        machine.enter(&self.start, self.translation, through_table);
        let stopped = machine.sandbox.run().unwrap();
        let mut registers = machine.sandbox.registers().unwrap();
        if let Stopped::SystemCall(number) = stopped {
            assert_eq!(number, 39);
            // Behind the instruction already; the state is the one in front of it.
            registers.rip = RemoteAddr(registers.rip.0 - 2);
        }
        let state = self.state_at(machine, registers.rip);
        let stands_for = machine.native(&registers, &state);
        match (native.fault, stopped) {
            (None, Stopped::SystemCall(_)) => {}
            (Some((signal, address)), Stopped::Signal(other, at)) => {
                assert_eq!(signal, other);
                let in_code = address == native.end.rip;
                assert_eq!(at, if in_code { registers.rip } else { address });
                assert_eq!(state.instruction, native.points.last().map(|last| last.instruction));
            }
            other => panic!("natively and here: {other:?} at {}", registers.rip),
        }
        let flags = match state.instruction {
            Some(number) => self.flags_in_front(number),
            None => self.flags_behind(native),
        };
        same(&native.end, &stands_for, flags);
        let data = machine.part(DATA);
        if let Some(at) = (0..data.len()).find(|at| data[*at] != native.memory[*at]) {
            panic!(
                "memory at data + {at:#x}: {:#x} natively, {:#x} here",
                native.memory[at], data[at]
            );
        }
        let image = comparable(&machine.sandbox.extended().unwrap());
        if let Some(at) = (0..image.len()).find(|at| image[*at] != native.extended[*at]) {
            panic!(
                "extended state at {at}: {:#x} natively, {:#x} here",
                native.extended[at], image[at]
            );
        }
        let complete = native.fault.is_none();
        let executed = native.points.len() - usize::from(!complete);
        self.check_record(machine, native, &registers, &state, executed);
    }

    /// `executed`: how many of the native points are done.
    fn check_record(
        &self,
        machine: &mut Machine,
        native: &Native,
        registers: &Registers,
        state: &CopyState,
        executed: usize,
    ) {
        let layout = &self.translation.record;
        if self.flavour == Flavour::Count {
            return;
        }
        let pointer = machine.pointer(registers, state);
        let recorded = state.recorded && layout.words > 0 && !self.left_before_timed(native);
        let length = if recorded { 8 * layout.words as u64 } else { 0 };
        assert_eq!(pointer, RECORDS.0 + length, "record pointer, {state:?}");
        if !recorded {
            return;
        }
        let words: Vec<u64> = (0..layout.words).map(|word| machine.record_word(word)).collect();
        let left = state.instruction.is_none() && executed == native.points.len();
        let way = words[0] >> 32;
        // A return elsewhere is in the record before it takes place.
        assert!(way == if left || way != 0 { self.way(native) } else { 0 }, "way {way}");
        assert_eq!(words[0] as u32, 7, "header");
        let stands_for = machine.native(registers, state);
        let until = state.instruction.unwrap_or(layout.ways[way as usize]);
        if let Some((access, word)) = layout.timed {
            self.check_timed(native, &words, access, word);
            return;
        }
        let (complete, until) = match &layout.iterations {
            None => (0, until),
            Some(iterations) => {
                let number = match (iterations, state.looping) {
                    (_, false) => records::iterations(layout, &words, None),
                    (Iterations::Word(_), true) => {
                        let begun = registers.general[machine.reserved().unwrap().number()];
                        begun - u64::from(state.instruction.is_some())
                    }
                    (Iterations::Counter { register, advanced, .. }, true) => {
                        let value = stands_for.general[register.number()];
                        let more = state.instruction.map_or(0, |number| advanced[number]);
                        records::iterations(layout, &words, Some(value.wrapping_sub(more)))
                    }
                };
                match way {
                    0 => (number, state.instruction.unwrap_or(0)),
                    _ => (number - 1, until),
                }
            }
        };
        let all = self.block.instructions.len();
        let mut rebuilt = Vec::new();
        for iteration in 0..=complete {
            let until = if iteration < complete { all } else { until };
            let base = self.start.fs_base.0;
            rebuilt.extend(records::accesses(layout, &self.roots, &words, base, iteration, until));
        }
        let mut done = executed;
        while native.points.get(done).is_some_and(|point| !point.first_round) {
            done -= 1;
        }
        let expected: Vec<_> =
            native.points[..done].iter().flat_map(|point| point.touched.clone()).collect();
        assert_eq!(rebuilt, expected, "accesses by record {words:x?}");
    }

    /// The shared code takes every block for recorded.
    fn left_before_timed(&self, native: &Native) -> bool {
        let timed = self
            .translation
            .record
            .timed
            .map(|(access, _)| self.roots.accesses[access].instruction);
        timed.zip(native.left_by).is_some_and(|(timed, left_by)| left_by < timed)
    }

    fn check_timed(&self, native: &Native, words: &[u64], access: usize, word: usize) {
        let rooted = &self.roots.accesses[access];
        let layout = &self.translation.record;
        let rebuilt = records::of_one(layout, rooted, words, self.start.fs_base.0);
        let point = native.points.iter().find(|one| one.instruction == rooted.instruction);
        assert_eq!(rebuilt, point.unwrap().touched);
        let cycles = ((words[word] >> 32) as u32).wrapping_sub(words[word] as u32);
        assert!(cycles > 0);
    }

    fn stepped(&self, machine: &mut Machine, native: &Native, most: usize) {
        machine.reset(self.pristine, self.extended);
        machine.enter(&self.start, self.translation, false);
        let system_call = machine.system_call();
        let mut point = 0;
        for _ in 0..most {
            let registers = machine.sandbox.registers().unwrap();
            let state = self.state_at(machine, registers.rip);
            let stands_for = machine.native(&registers, &state);
            point = self.check_point(native, point, &state, &stands_for);
            self.check_record(machine, native, &registers, &state, point);
            if registers.rip == system_call {
                return;
            }
            match machine.sandbox.step().unwrap() {
                Stopped::Step => {}
                Stopped::Signal(signal, _) => {
                    assert_eq!(native.fault.map(|(signal, _)| signal), Some(signal));
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("the copy does not come to an end");
    }

    /// Finds the native point, not before `from`, that a stop stands for.
    fn check_point(
        &self,
        native: &Native,
        from: usize,
        state: &CopyState,
        stands_for: &Registers,
    ) -> usize {
        let later = native.points.iter().enumerate().skip(from);
        for (number, point) in later {
            let right = match state.instruction {
                Some(instruction) => instruction == point.instruction,
                None => point.instruction == 0,
            };
            let flags = self.flags_in_front(point.instruction);
            if right && is_same(&point.registers, stands_for, flags) {
                return number;
            }
        }
        assert!(
            native.fault.is_none() && state.instruction.is_none(),
            "no native point from {from} like {stands_for:x?} {state:?}; there is {:x?}",
            native.points[from].registers
        );
        same(&native.end, stands_for, self.flags_behind(native));
        native.points.len()
    }
}

fn is_same(one: &Registers, other: &Registers, flags: u64) -> bool {
    one.general == other.general
        && one.rip == other.rip
        && one.flags & flags == other.flags & flags
        && one.fs_base == other.fs_base
}

pub fn same(native: &Registers, here: &Registers, flags: u64) {
    for register in x86::Gpr::all() {
        let number = register.number();
        let (one, other) = (native.general[number], here.general[number]);
        assert_eq!(one, other, "{register} is {one:#x} natively, {other:#x} here");
    }
    assert_eq!(native.rip, here.rip, "rip");
    assert_eq!(native.flags & flags, here.flags & flags, "flags {flags:#x}");
    assert_eq!(native.fs_base, here.fs_base);
}
