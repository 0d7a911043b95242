//! Follows the values of registers through a function.
//!
//! What for: the values of the registers at each instruction ([`Flow::visit`]). What not: memory; a value that is
//! stored and loaded again is known only by the type of its place.
//!
//! Method: from the function's entry along every way through the code, with a join where ways meet, until nothing
//! changes (a data-flow analysis; Kildall 1973). Joins only lose knowledge, and the number of visits is bounded.
//! Assumptions: an instruction is reached by the ways that `Code` knows, or as the landing pad of an exception.
//! Landing pads have the callee-saved registers of some call, so in languages with exceptions only stack addresses
//! survive calls; where a jump's targets are unknown, everywhere.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};

use super::function::Code;
use super::model::{Kind, Model};
use super::units::DieRef;
use super::value::{Origin, Target, Value};
use super::variables::Variables;
use super::{Register, Step, Successor, Written};
use crate::elf::LinkAddress;

/// Registers that a called function may change: rax, rdx, rcx, rsi, rdi, r8 to r11 (System V ABI, AMD64 supplement, 3.2.1).
const CALLER_SAVED: [usize; 9] = [0, 1, 2, 4, 5, 8, 9, 10, 11];
/// Most visits per basic block, on average.
const VISITS: usize = 24;
/// Most variables examined over all accesses of a function: seconds; the largest real functions need a hundredth.
const EFFORT: u64 = 1 << 28;
/// Most pairs of an instruction and a pointer variable in a register.
const SEEDS_LIMIT: usize = 1 << 22;

/// The registers.
pub(super) type State = [Value; Register::COUNT];

/// The analysis of a function.
pub(super) struct Flow<'m, 'a> {
    pub(super) model: &'m Model<'a>,
    pub(super) code: &'m Code,
    pub(super) variables: &'m Variables,
    /// For each instruction, the variables in registers.
    seeds: Vec<Vec<u32>>,
    /// Values at the starts of basic blocks.
    states: HashMap<usize, State>,
    leaders: BTreeSet<usize>,
    exceptions: bool,
    /// The possible values at an instruction that no known way leads to.
    landing: Option<State>,
    /// Number of variables that may still be examined.
    pub(super) effort: Cell<u64>,
    returned: RefCell<HashMap<LinkAddress, Option<DieRef>>>,
}

impl<'m, 'a> Flow<'m, 'a> {
    pub(super) fn new(
        model: &'m Model<'a>,
        code: &'m Code,
        variables: &'m Variables,
        exceptions: bool,
    ) -> Flow<'m, 'a> {
        Flow {
            model,
            code,
            variables,
            seeds: seeds(code, variables),
            states: HashMap::new(),
            leaders: leaders(code),
            exceptions,
            landing: None,
            effort: Cell::new(EFFORT),
            returned: RefCell::default(),
        }
    }

    /// Computes the values everywhere. `entry` is where callers enter.
    pub(super) fn follow(&mut self, entry: Option<usize>) {
        let mut visits = self.leaders.len().saturating_mul(VISITS).saturating_add(1000);
        let mut pending = BTreeSet::new();
        if let Some(entry) = entry {
            let mut state: State =
                std::array::from_fn(|register| Value::made_at(usize::MAX, register));
            // The call pushed the return address; the canonical frame address is above it.
            state[Register::RSP.index()] = Value::pointer(Target::Frame, -8);
            self.leaders.insert(entry);
            self.reach(entry, state, &mut pending);
        }
        self.work(&mut pending, &mut visits);
        // Landing pads; they may lead to each other.
        let rest: Vec<usize> =
            self.leaders.iter().filter(|one| !self.states.contains_key(one)).copied().collect();
        for leader in rest {
            if self.states.contains_key(&leader) {
                continue;
            }
            let state = match self.landing {
                Some(state) if self.keeps_frame_only() => state,
                _ => [Value::ANY; Register::COUNT],
            };
            self.reach(leader, state, &mut pending);
            self.work(&mut pending, &mut visits);
        }
        if visits == 0 {
            // The analysis did not end: the values so far may claim too much.
            self.states.values_mut().for_each(|state| *state = [Value::ANY; Register::COUNT]);
        }
    }

    fn keeps_frame_only(&self) -> bool {
        self.exceptions || self.code.unknown_jumps
    }

    fn work(&mut self, pending: &mut BTreeSet<usize>, visits: &mut usize) {
        while let Some(leader) = pending.pop_first() {
            let Some(left) = visits.checked_sub(1) else { return };
            *visits = left;
            self.run(leader, pending);
        }
    }

    /// Interprets the basic block that begins at `leader`.
    fn run(&mut self, leader: usize, pending: &mut BTreeSet<usize>) {
        let Some(mut state) = self.states.get(&leader).copied() else { return };
        let mut number = leader;
        loop {
            let onward = self.code.steps[number].1.onward;
            self.step(number, &mut state);
            if matches!(onward, Successor::Call(_) | Successor::Indirect) {
                // A landing pad is reached from some call, code without a known way also from an
                // indirect jump.
                let known = self.landing.map_or(state, |known| joined(known, state));
                self.landing = Some(frame_only(known));
            }
            let code = self.code;
            match onward {
                Successor::Jump(to) | Successor::Branch(to) => {
                    if let Some(to) = code.at(to) {
                        self.reach(to, state, pending);
                    }
                }
                Successor::Indirect => {
                    for to in &code.table_targets {
                        self.reach(*to, state, pending);
                    }
                }
                Successor::Next | Successor::Call(_) | Successor::Away => {}
            }
            if matches!(onward, Successor::Jump(_) | Successor::Indirect | Successor::Away) {
                return;
            }
            let Some(next) = code.behind(number) else { return };
            if self.leaders.contains(&next) {
                return self.reach(next, state, pending);
            }
            number = next;
        }
    }

    fn reach(&mut self, leader: usize, state: State, pending: &mut BTreeSet<usize>) {
        let known = self.states.get(&leader).copied();
        let new = known.map_or(state, |known| joined(known, state));
        if known != Some(new) {
            self.states.insert(leader, new);
            pending.insert(leader);
        }
    }

    /// Calls `show` with every instruction and the values before it.
    pub(super) fn visit(&self, show: &mut dyn FnMut(&Flow<'m, 'a>, usize, &State)) {
        for leader in &self.leaders {
            let Some(mut state) = self.states.get(leader).copied() else { continue };
            let mut number = *leader;
            loop {
                self.seed(number, &mut state);
                show(self, number, &state);
                self.step(number, &mut state);
                match self.code.behind(number) {
                    Some(next) if !self.leaders.contains(&next) => number = next,
                    _ => break,
                }
            }
        }
    }

    /// Sets registers that hold pointer variables and have no better known value.
    fn seed(&self, number: usize, state: &mut State) {
        let mut given: [Option<Value>; Register::COUNT] = [None; Register::COUNT];
        for (register, value) in self.seeds_at(number) {
            let given = &mut given[register.index()];
            // Two variables that do not agree say nothing here; `resolve` looks at both.
            *given =
                Some(given.map_or(value, |other| if other == value { value } else { Value::ANY }));
        }
        for (value, given) in state.iter_mut().zip(given) {
            let vague = !matches!(value, Value::Pointer(_)) && !is_constant(*value);
            if let Some(given) = given.filter(|given| vague && *given != Value::ANY) {
                *value = given;
            }
        }
    }

    fn seeds_at(&self, number: usize) -> impl Iterator<Item = (Register, Value)> + '_ {
        self.in_registers(number).map(|one| (one.register, Value::Pointer(one.pointer)))
    }

    /// The pointer variables that are in registers before an instruction.
    pub(super) fn in_registers(
        &self,
        number: usize,
    ) -> impl Iterator<Item = &'m super::variables::InRegister> + '_ {
        let all = &self.variables.registers;
        self.seeds[number].iter().filter_map(|one| all.get(*one as usize))
    }

    /// The values after an instruction, from those before it.
    fn step(&self, number: usize, state: &mut State) {
        self.seed(number, state);
        let step = &self.code.steps[number].1;
        if let Successor::Call(target) = step.onward {
            self.call(number, target, state);
        } else {
            self.write(number, step, state);
        }
        // A jump whose targets are unknown may lead to the instruction after this one.
        if self.code.unknown_jumps {
            *state = frame_only(*state);
        }
    }

    fn call(&self, number: usize, target: Option<LinkAddress>, state: &mut State) {
        for register in CALLER_SAVED {
            forget(state, Origin { instruction: number, register });
            state[register] = Value::made_at(number, register);
        }
        if let Some(of) = target.and_then(|target| self.returned_by(target)) {
            state[Register::RAX.index()] = Value::pointer(Target::Type(of), 0);
        }
        if self.exceptions {
            *state = frame_only(*state);
        }
    }

    fn write(&self, number: usize, step: &Step, state: &mut State) {
        let before = *state;
        for register in &step.changed {
            forget(state, Origin { instruction: number, register: register.index() });
            state[register.index()] = Value::made_at(number, register.index());
        }
        for (to, written) in &step.written {
            let value = match written {
                Written::Sum(terms, constant) => {
                    let term = |(register, factor): &(Register, i64)| {
                        before[register.index()].times(*factor)
                    };
                    terms.iter().map(term).fold(Value::constant(*constant), Value::plus)
                }
                Written::Loaded(access) => {
                    let operand = step.operands.get(*access).copied().flatten();
                    let target =
                        operand.and_then(|operand| self.resolve(number, &before, &operand).target);
                    match target {
                        Some(target) => Value::pointer(Target::Type(target), 0),
                        None => continue,
                    }
                }
            };
            state[to.index()] = value;
        }
        self.store(number, step, state, &before);
    }

    /// A stored value gets the type of the variable or member that it is assigned to.
    fn store(&self, number: usize, step: &Step, state: &mut State, before: &State) {
        let Some((access, register)) = step.stored else { return };
        let known = before[register.index()];
        let clear = matches!(known, Value::Pointer(_)) || is_constant(known);
        if clear || step.changed.contains(&register) {
            return;
        }
        let operand = step.operands.get(access).copied().flatten();
        let target = operand.and_then(|operand| self.resolve(number, before, &operand).target);
        if let Some(target) = target {
            state[register.index()] = Value::pointer(Target::Type(target), 0);
        }
    }

    /// What the result of the function at `target` points to.
    fn returned_by(&self, target: LinkAddress) -> Option<DieRef> {
        if let Some(known) = self.returned.borrow().get(&target) {
            return *known;
        }
        let read = || {
            let units = &self.model.units;
            let function = units.function_at(target)?;
            (function.ranges.first()?.begin == target).then_some(())?;
            let result = units.inherited(function.die, |unit, entry| {
                units.link(unit, entry, addr2line::gimli::DW_AT_type)
            })?;
            let Kind::Pointer(target) = self.model.get(result)?.kind else { return None };
            target.and_then(|target| self.model.own(target))
        };
        let found = read();
        self.returned.borrow_mut().insert(target, found);
        found
    }
}

fn is_constant(value: Value) -> bool {
    matches!(value, Value::Number(number) if number.step == 0)
}

fn joined(known: State, new: State) -> State {
    std::array::from_fn(|register| known[register].join(new[register]))
}

/// Keeps stack addresses; the other values become unknown.
fn frame_only(state: State) -> State {
    state.map(|value| match value {
        Value::Pointer(pointer) if pointer.target == Target::Frame => value,
        _ => Value::ANY,
    })
}

/// The value of `origin` is computed again: older copies are other numbers.
fn forget(state: &mut State, origin: Origin) {
    for value in state.iter_mut().filter(|value| value.has_origin(origin)) {
        *value = Value::ANY;
    }
}

/// The starts of basic blocks.
fn leaders(code: &Code) -> BTreeSet<usize> {
    let mut found: BTreeSet<usize> = code.table_targets.iter().copied().collect();
    found.extend((!code.steps.is_empty()).then_some(0));
    for (number, (_, step)) in code.steps.iter().enumerate() {
        match step.onward {
            Successor::Jump(to) | Successor::Branch(to) => {
                found.extend(code.at(to));
                found.insert(number + 1);
            }
            Successor::Indirect | Successor::Away => {
                found.insert(number + 1);
            }
            Successor::Next | Successor::Call(_) => {}
        }
        if code.behind(number).is_none() {
            found.insert(number + 1);
        }
    }
    found.retain(|number| *number < code.steps.len());
    found
}

fn seeds(code: &Code, variables: &Variables) -> Vec<Vec<u32>> {
    let mut found = vec![Vec::new(); code.steps.len()];
    let mut left = SEEDS_LIMIT;
    for (seed, number) in variables.registers.iter().zip(0_u32..) {
        let from = code.steps.partition_point(|(address, _)| *address < seed.range.begin);
        let to = code.steps.partition_point(|(address, _)| *address < seed.range.end);
        let Some(rest) = left.checked_sub(to.saturating_sub(from)) else { break };
        left = rest;
        for at in found.iter_mut().take(to).skip(from) {
            at.push(number);
        }
    }
    found
}
