//! How often a loop goes round in one run: from the comparison that ends it, and the values that it is entered with.
//!
//! What for: `for (i = 0; i < n; i++)` goes round n times. The code says so, and a sample in the loop has n. A burst sees only
//! runs that are shorter than itself. What not: loops with a second way out (except to code that never returns), or whose
//! bounds are loaded from memory other than the stack; samples.
//!
//! How: one block decides in each iteration whether the loop goes on, by a difference of two values that moves by a constant per
//! iteration. Its value in the first iteration follows from the registers at the entry, as sums of those at the start of an
//! iteration of the loop around, or of the function. A call continues these sums into the caller.
//!
//! Assumptions: differences do not overflow, and unsigned bounds are below 2^63 (2^31 in 32-bit code), as in C code that counts.

use std::collections::{BTreeMap, BTreeSet};

use base::RemoteAddr;
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess};

use super::graph::Natural;
use super::linear::{Linear, Variable};
use super::transfer::State;
use super::{Loop, Loops, propagate};
use crate::instruction::{Flow, flow};
use crate::register::Gpr;

/// Most instructions of a function outside of its loops that are interpreted.
const MOST_STEPS: usize = 200_000;

/// The number of iterations of a run of a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TripCount {
    /// What decides whether the loop goes on, in its first iteration; by values at the start of an iteration of the loop
    /// around it, or of its function where there is none. `None` where no sum tells it.
    pub first: Option<Linear>,
    /// By how much that moves per iteration.
    step: i64,
    /// The loop goes on while it is so.
    stays: Relation,
    /// The loop may be entered and left without an iteration.
    may_be_none: bool,
    /// Values that must be the same in all iterations around, for each of these to enter the loop if one does.
    pub(super) guards: Vec<Linear>,
    /// Values from which `first` follows.
    sources: Vec<Linear>,
    /// It is the same in all runs of the loop in one run of the loop around it.
    is_even: bool,
}

/// What a difference is, compared with zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Relation {
    Zero,
    NotZero,
    Below,
    AtMost,
}

impl TripCount {
    /// Iterations, where `first` has this value; `None` where it never ends so.
    #[must_use]
    pub fn iterations(&self, first: i64) -> Option<u64> {
        let (first, step) = (i128::from(first), i128::from(self.step));
        let upwards = |distance: i128| (step > 0).then(|| (distance + step - 1) / step);
        let stayed = match self.stays {
            Relation::Zero => return None,
            Relation::NotZero => {
                Some(-first).filter(|way| way % step == 0 && way / step >= 0)? / step
            }
            Relation::Below if first >= 0 => 0,
            Relation::Below => upwards(-first)?,
            Relation::AtMost if first > 0 => 0,
            Relation::AtMost => upwards(1 - first)?,
        };
        u64::try_from(stayed + i128::from(!self.may_be_none)).ok()
    }

    /// Whether all runs in one run of the loop around have as many iterations.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.is_even
    }

    /// Whether runs without an iteration are possible: these no sample meets.
    #[must_use]
    pub fn may_be_none(&self) -> bool {
        self.may_be_none
    }
}

/// What makes each iteration around a loop, or each call of its function, enter it if one does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entered {
    /// Values that must be the same in all of these.
    guards: Vec<Linear>,
    /// And those that are compared only to see whether the loop has an iteration.
    checks: Vec<Linear>,
    /// Some may not enter the loop, because it would have no iteration.
    is_checked: bool,
}

impl Entered {
    /// Whether some may not enter the loop, because it would have no iteration.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }
}

/// Where a loop lies: in a larger one, or in its function.
#[derive(Clone, Copy)]
struct Region<'a> {
    header: usize,
    around: Option<&'a Loop>,
}

impl Region<'_> {
    fn has(&self, block: usize) -> bool {
        self.around.is_none_or(|one| one.natural.blocks.contains(&block))
    }
}

impl Loops {
    /// The number of iterations of a run of a loop, if it follows from values at its entry, and each iteration of the loop
    /// around it, or each call of its function, enters it.
    #[must_use]
    pub fn trip_count(&self, wanted: usize) -> Option<TripCount> {
        let left = self.iterations_left(wanted)?;
        let guards = self.entered(wanted)?.guards;
        let (region, states) = self.region(wanted)?;
        let entry = self.entry(&self.loops[wanted].natural, region, states)?;
        let first = replaced(left.first.as_ref()?, |variable| value_in(&entry, variable))
            .filter(|first| !first.has_results())?;
        let sources = self.computed.sources(&first);
        let is_even = region.around.is_some_and(|one| self.stays(one, &first));
        Some(TripCount { first: Some(first), guards, sources, is_even, ..left })
    }

    /// What remains of a run of a loop, the iteration included at whose start `first` has its value: by values there.
    #[must_use]
    pub fn iterations_left(&self, wanted: usize) -> Option<TripCount> {
        let one = self.loops.get(wanted)?;
        let (exit, goes_on_if_taken) = self.exit(&one.natural)?;
        let order = self.once_blocks(wanted);
        let position = |block| order.iter().position(|at| *at == block);
        let counted = self.last_per_iteration(wanted, true);
        let counted = counted.or_else(|| self.last_per_iteration(wanted, false))?;
        let is_counted_behind = position(self.graph.locate(counted)?.block)? > position(exit)?;
        let (difference, code) = self.compared(one.states.get(&exit)?, exit)?;
        let (stays, is_negated) = relation(code, goes_on_if_taken)?;
        let first = if is_negated { difference.times(u64::MAX) } else { difference };
        let step = one.step_of(&first)?;
        let step = signed(step.known()?, step.bits);
        let known = stays != Relation::Zero && step != 0;
        known.then_some(TripCount {
            first: Some(first),
            step,
            stays,
            may_be_none: is_counted_behind,
            guards: Vec::new(),
            sources: Vec::new(),
            is_even: false,
        })
    }

    /// The number of iterations of a run of a loop, where it follows from values that stay for the whole run: `first` is by these.
    /// Whether each iteration around enters the loop is another question.
    #[must_use]
    pub fn whole_run(&self, wanted: usize) -> Option<TripCount> {
        let left = self.iterations_left(wanted)?;
        let (one, (region, states)) = (&self.loops[wanted], self.region(wanted)?);
        let entry = self.entry(&one.natural, region, states)?;
        let at_entry = |variable: Variable| {
            if is_invariant(one, &Linear::variable(variable)) {
                return Some(Linear::variable(variable));
            }
            replaced(&value_in(&entry, variable)?, |source| kept(one, &entry, source))
        };
        let first = replaced(left.first.as_ref()?, at_entry)?;
        Some(TripCount { first: Some(first), ..left })
    }

    /// Whether each iteration around a loop, or each call of its function, enters it if one does; `None` where that is not known.
    #[must_use]
    pub fn entered(&self, wanted: usize) -> Option<Entered> {
        let (region, states) = self.region(wanted)?;
        let header = self.loops[wanted].natural.header;
        self.always(header, region, states, |branch, leading| {
            self.checks_iterations(branch, wanted, leading)
        })
    }

    /// The same of the innermost loop around the instruction of which a byte is at `call`, and a loop of the callee that each call
    /// enters so.
    #[must_use]
    pub fn entered_by_call(&self, call: RemoteAddr, callee: &Entered) -> Option<Entered> {
        self.by_call(call, &callee.guards)?;
        let stays = self.by_call(call, &callee.checks).is_some();
        Some(Entered { is_checked: callee.is_checked || !stays, ..Entered::default() })
    }

    /// A loop that lies in no other one of its function, seen from the innermost loop around a call of that function.
    /// `first` is by values at the start of its iterations.
    #[must_use]
    pub fn trip_count_by_call(&self, call: RemoteAddr, callee: &TripCount) -> Option<TripCount> {
        let (around, state) = self.by_call(call, &callee.guards)?;
        let value = |sum: &Linear| replaced(sum, |variable| passed(&state, variable));
        let first = callee.first.as_ref().and_then(value).filter(|first| !first.has_results());
        let is_even =
            callee.sources.iter().all(|one| value(one).is_some_and(|one| self.stays(around, &one)));
        let known = first.is_some() || is_even;
        let (guards, sources) = (Vec::new(), Vec::new());
        known.then(|| TripCount { first, guards, sources, is_even, ..callee.clone() })
    }

    /// The loop around a call and the values there, if each of its iterations comes there, and values of the callee stay.
    fn by_call(&self, call: RemoteAddr, guards: &[Linear]) -> Option<(&Loop, State)> {
        let at = self.instruction_at(call)?;
        let around = self.loops.get(*self.around(at).first()?)?;
        let region = Region { header: around.natural.header, around: Some(around) };
        self.always(self.graph.locate(at)?.block, region, &around.states, |_, _| false)?;
        let state = self.state(around, at)?;
        self.calls_the_same(around, &state, at)?;
        let mut guards =
            guards.iter().map(|one| replaced(one, |variable| passed(&state, variable)));
        let stay = guards.all(|guard| guard.is_some_and(|guard| self.stays(around, &guard)));
        stay.then_some((around, state))
    }

    /// Whether a call is of the same function in all iterations around: by a pointer only if that stays, or lies where it did. What
    /// calls another one for each object says nothing of how often one of them runs.
    fn calls_the_same(&self, around: &Loop, state: &State, at: RemoteAddr) -> Option<()> {
        let call = &self.graph.instructions[self.graph.locate(at)?.instruction];
        let is_fixed = match flow(call) {
            Flow::IndirectCall if call.is_ip_rel_memory_operand() => true,
            Flow::IndirectCall => self.stays(around, &state.pointer(call)?),
            _ => true,
        };
        is_fixed.then_some(())
    }

    /// Whether a value is the same in all iterations of a loop.
    fn stays(&self, one: &Loop, value: &Linear) -> bool {
        self.computed.sources(value).iter().all(|source| is_invariant(one, source))
    }

    /// What tells runs of a loop apart: the values that stay of those that end it, or where these are no sums, of all that it
    /// reads. The variables that it ends by, or reads, and that stay.
    #[must_use]
    pub fn bounds(&self, wanted: usize) -> BTreeSet<Variable> {
        let Some(one) = self.loops.get(wanted) else { return BTreeSet::new() };
        let compared = self.exits(&one.natural).map(|block| {
            let (sum, _) = self.compared(one.states.get(&block)?, block)?;
            Some(self.computed.sources(&sum))
        });
        let compared: Option<Vec<Vec<Linear>>> = compared.collect();
        let stays = |variable: &Variable| is_invariant(one, &Linear::variable(*variable));
        let variables: BTreeSet<Variable> = match compared {
            Some(sums) => {
                sums.iter().flatten().flat_map(|sum| &sum.terms).map(|term| term.0).collect()
            }
            None => self.read_in(one),
        };
        variables.into_iter().filter(stays).collect()
    }

    /// Registers and stack words that instructions of a loop read.
    fn read_in(&self, one: &Loop) -> BTreeSet<Variable> {
        let mut factory = InstructionInfoFactory::new();
        let mut found = BTreeSet::new();
        for block in &one.natural.blocks {
            let Some(state) = one.states.get(block) else { continue };
            for raw in &self.graph.instructions[self.graph.blocks[*block].range.clone()] {
                let used = factory.info(raw).used_registers().iter();
                let read = used.filter(|one| !matches!(one.access(), OpAccess::Write));
                let gpr = read.filter_map(|one| Gpr::from_iced(one.register()));
                found.extend(gpr.map(Variable::Register));
                found.extend(state.operand(raw).map(Variable::Slot));
            }
        }
        found.retain(|one| !matches!(one, Variable::Register(Gpr::RSP | Gpr::RBP)));
        found
    }

    /// Whether a run of a loop may go on from where the last one ended: what moves with it is, at its entry, something that
    /// moves with the loop around.
    #[must_use]
    pub fn may_go_on(&self, wanted: usize, terms: &[(Variable, u64)]) -> bool {
        let go_on = || {
            let (region, states) = self.region(wanted)?;
            let around = region.around?;
            let entry = self.entry(&self.loops[wanted].natural, region, states)?;
            let sum = Linear { terms: terms.to_vec(), ..Linear::constant(0) };
            let value = replaced(&sum, |variable| value_in(&entry, variable))?;
            Some(!value.has_results() && !self.stays(around, &value))
        };
        go_on().unwrap_or(false)
    }

    /// What lies around a loop, and the values there.
    fn region(&self, wanted: usize) -> Option<(Region<'_>, &BTreeMap<usize, State>)> {
        match self.loops.get(wanted)?.parent.and_then(|parent| self.loops.get(parent)) {
            Some(around) => {
                let header = around.natural.header;
                Some((Region { header, around: Some(around) }, &around.states))
            }
            None => Some((Region { header: 0, around: None }, self.of_function()?)),
        }
    }

    /// The blocks that may leave a loop, except to code that never returns.
    fn exits<'a>(&'a self, natural: &'a Natural) -> impl Iterator<Item = usize> + 'a {
        let leaves = |to: &usize| !natural.blocks.contains(to) && !self.never_returns(*to);
        let blocks = natural.blocks.iter().copied();
        blocks.filter(move |block| self.graph.blocks[*block].next.iter().any(leaves))
    }

    /// The block that may leave a loop, if there is one such block, and whether its jump is taken to go on.
    fn exit(&self, natural: &Natural) -> Option<(usize, bool)> {
        let mut exits = self.exits(natural);
        let exit = exits.next().filter(|_| exits.next().is_none())?;
        let block = &self.graph.blocks[exit];
        // The target of the jump comes first.
        let [taken, _] = block.next[..] else { return None };
        Some((exit, natural.blocks.contains(&taken)))
    }

    /// A block that ends in an instruction behind a call that does not return: a failed check.
    fn never_returns(&self, block: usize) -> bool {
        let block = &self.graph.blocks[block];
        let last = block.range.clone().next_back().and_then(|at| self.graph.instructions.get(at));
        block.next.is_empty() && last.is_some_and(|last| last.mnemonic() == Mnemonic::Ud2)
    }

    /// What the conditional jump at the end of a block compares, one side minus the other, with these values at its start.
    fn compared(&self, before: &State, block: usize) -> Option<(Linear, ConditionCode)> {
        let (at, code) = self.comparison(block)?;
        let state = self.after(before, self.graph.blocks[block].range.start..at);
        let difference = self.difference(&state, at, code)?;
        (!difference.has_results()).then_some((difference, code))
    }

    /// The comparison that the conditional jump at the end of a block goes by, and how.
    fn comparison(&self, block: usize) -> Option<(usize, ConditionCode)> {
        let range = self.graph.blocks[block].range.clone();
        let (jump, body) = self.graph.instructions[range.clone()].split_last()?;
        let code = matches!(flow(jump), Flow::Conditional(_)).then(|| jump.condition_code())?;
        let at = body.iter().rposition(|one| one.rflags_modified() != 0)?;
        Some((range.start + at, code))
    }

    /// One side of a comparison minus the other, by the values before it.
    fn difference(&self, state: &State, at: usize, code: ConditionCode) -> Option<Linear> {
        let raw = &self.graph.instructions[at];
        let of_carry = |code| {
            use ConditionCode as C;
            matches!(code, C::b | C::ae | C::be | C::a)
        };
        match raw.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Sub => state.source(raw, 0)?.minus(&state.source(raw, 1)?),
            // The carry is not that of a comparison with zero.
            Mnemonic::Add | Mnemonic::Inc | Mnemonic::Dec if !of_carry(code) => {
                state.value_written(raw)
            }
            Mnemonic::Test if is_of_one(raw) && !of_carry(code) => state.source(raw, 0),
            _ => None,
        }
    }

    /// Whether a branch decides only whether a loop behind it has an iteration: what it compares differs by a constant from what
    /// may end the loop. Compilers put such a check in front of a loop that is compared at its end. `leading` has all blocks from
    /// which an iteration around comes to the loop.
    fn checks_iterations(
        &self,
        (branch, to): (usize, usize),
        wanted: usize,
        leading: &BTreeSet<usize>,
    ) -> bool {
        let checked = || {
            let one = self.loops.get(wanted)?;
            let natural = &one.natural;
            let ends = self.exits(natural);
            let ends: Vec<Linear> = ends
                .filter_map(|exit| Some(self.compared(one.states.get(&exit)?, exit)?.0))
                .collect();
            // All values are by those at the start of the branch's block.
            let (at, code) = self.comparison(branch)?;
            let (begin, range) = (State::begin(), self.graph.blocks[branch].range.clone());
            let compared = self.difference(&self.after(&begin, range.start..at), at, code)?;
            let state = self.after(&begin, range);
            let entry = if natural.header == to {
                State::begin()
            } else {
                let has =
                    |block: usize| leading.contains(&block) && !natural.blocks.contains(&block);
                let mut budget = MOST_STEPS;
                let (_, behind, _) =
                    propagate(&self.graph, self.context(), (to, &has), &mut budget)?;
                let before =
                    |block: &usize| self.graph.blocks[*block].next.contains(&natural.header);
                let mut entry = None;
                for (_, end) in behind.iter().filter(|(block, _)| before(block)) {
                    join(&mut entry, end);
                }
                entry?
            };
            let is_alike = |end: &Linear| {
                let at_entry = replaced(end, |variable| value_in(&entry, variable))?;
                let end = replaced(&at_entry, |variable| value_in(&state, variable))?;
                let apart = [end.minus(&compared), end.plus(&compared)];
                Some(apart.into_iter().flatten().any(|apart| apart.known().is_some()))
            };
            Some(ends.iter().any(|end| is_alike(end) == Some(true)))
        };
        checked().unwrap_or(false)
    }

    /// The values with which a loop is entered.
    fn entry(
        &self,
        natural: &Natural,
        region: Region<'_>,
        states: &BTreeMap<usize, State>,
    ) -> Option<State> {
        // A function may begin with its loop.
        let mut entry = (natural.header == region.header).then(State::begin);
        let before = self.graph.blocks.iter().enumerate().filter(|(from, block)| {
            region.has(*from)
                && !natural.blocks.contains(from)
                && block.next.contains(&natural.header)
        });
        for (from, block) in before {
            join(&mut entry, &self.after(states.get(&from)?, block.range.clone()));
        }
        entry
    }

    /// Whether each iteration of a region comes to a block, if one does. Where one way of a branch never leads to the block, and
    /// what decides the branch stays, it always goes the other way; `is_check` says of a branch and the block behind it that it
    /// goes there wherever that makes a difference.
    fn always(
        &self,
        wanted: usize,
        region: Region<'_>,
        states: &BTreeMap<usize, State>,
        is_check: impl Fn((usize, usize), &BTreeSet<usize>) -> bool,
    ) -> Option<Entered> {
        let leading = self.leading_to(wanted, region)?;
        let mut found = Entered::default();
        let (mut seen, mut open) = (BTreeSet::from([region.header]), vec![region.header]);
        while let Some(at) = open.pop() {
            if at == wanted {
                continue;
            }
            let block = &self.graph.blocks[at];
            let is_end = match region.around {
                Some(one) => one.natural.latches.contains(&at),
                None => block.next.is_empty() && !self.never_returns(at),
            };
            if is_end {
                return None;
            }
            let inside = |to: &usize| *to != region.header && region.has(*to);
            let next: Vec<usize> = block.next.iter().copied().filter(inside).collect();
            let leads = |to: &usize| leading.contains(to);
            let guard = || {
                let (value, _) = self.compared(states.get(&at)?, at)?;
                region.around.is_none_or(|one| self.stays(one, &value)).then_some(value)
            };
            let is_fork = next.iter().any(leads) && !next.iter().all(leads);
            let guard = if is_fork { guard() } else { None };
            // In a loop, what decides stays.
            let is_open = is_fork && (guard.is_none() || region.around.is_none());
            let is_check = is_open
                && next.iter().filter(|to| leads(to)).all(|to| is_check((at, *to), &leading));
            let known = if is_check { &mut found.checks } else { &mut found.guards };
            known.extend(guard.iter().flat_map(|guard| self.computed.sources(guard)));
            found.is_checked |= is_check && guard.is_none();
            let is_decided = is_check || guard.is_some();
            let next = next.into_iter().filter(|to| !is_decided || leads(to));
            open.extend(next.filter(|to| seen.insert(*to)));
        }
        Some(found)
    }

    /// The blocks of a region from which a block is reached within one iteration, the region's header left out; `None` if one of
    /// them may be entered from nowhere.
    fn leading_to(&self, wanted: usize, region: Region<'_>) -> Option<BTreeSet<usize>> {
        let before = self.graph.predecessors();
        let (mut leading, mut open) = (BTreeSet::from([wanted]), vec![wanted]);
        while let Some(at) = open.pop().filter(|at| *at != region.header) {
            if before[at].is_empty() {
                return None;
            }
            let inside = before[at].iter().copied().filter(|from| region.has(*from));
            open.extend(inside.filter(|from| leading.insert(*from)));
        }
        leading.remove(&region.header);
        Some(leading)
    }

    /// Values at the start of each block, by those at the function's entry.
    fn of_function(&self) -> Option<&BTreeMap<usize, State>> {
        let states = self.of_function.get_or_init(|| {
            let mut budget = MOST_STEPS;
            propagate(&self.graph, self.context(), (0, &|_| true), &mut budget)
                .map(|(states, ..)| states)
        });
        states.as_ref()
    }
}

/// Adds the values of one more way.
fn join(known: &mut Option<State>, other: &State) {
    match known {
        Some(known) => drop(known.join(other)),
        None => *known = Some(other.clone()),
    }
}

/// Whether a value is the same in all iterations of a loop.
fn is_invariant(one: &Loop, value: &Linear) -> bool {
    one.step_of(value).and_then(|step| step.known()) == Some(0)
}

/// A value with which a loop is entered, by a register that stays and was entered with it, too.
fn kept(one: &Loop, entry: &State, source: Variable) -> Option<Linear> {
    Gpr::all().find_map(|register| {
        let known = entry.register(register)?;
        let (register, is_it) = (Linear::variable(Variable::Register(register)), [(source, 1)]);
        let stays = known.terms == is_it && known.bits == 64 && is_invariant(one, &register);
        stays.then(|| register.minus(&Linear::constant(known.constant)))?
    })
}

/// A sum with other values for its variables.
fn replaced(sum: &Linear, value: impl Fn(Variable) -> Option<Linear>) -> Option<Linear> {
    let constant = Linear { terms: Vec::new(), constant: sum.constant, bits: sum.bits };
    sum.terms.iter().try_fold(constant, |known, (variable, factor)| {
        known.plus(&value(*variable)?.times(*factor))
    })
}

/// The value of a variable of an inner region, by those at the start of the outer one.
fn value_in(state: &State, variable: Variable) -> Option<Linear> {
    match variable {
        Variable::Register(register) => state.register(register).cloned(),
        Variable::Slot(slot) => state.slot(state.by_own(slot)?),
        Variable::Computed(_) | Variable::Result(..) => None,
    }
}

/// The value of a variable of a callee. Its stack frame is another one.
fn passed(state: &State, variable: Variable) -> Option<Linear> {
    match variable {
        Variable::Register(Gpr::RSP)
        | Variable::Slot(_)
        | Variable::Computed(_)
        | Variable::Result(..) => None,
        Variable::Register(register) => state.register(register).cloned(),
    }
}

/// How a difference must be for the jump to go on, and whether that is said of its opposite.
fn relation(code: ConditionCode, if_taken: bool) -> Option<(Relation, bool)> {
    use ConditionCode as C;
    let (relation, is_negated) = match code {
        C::e => (Relation::Zero, false),
        C::ne => (Relation::NotZero, false),
        C::l | C::b | C::s => (Relation::Below, false),
        C::le | C::be => (Relation::AtMost, false),
        C::ge | C::ae | C::ns => (Relation::AtMost, true),
        C::g | C::a => (Relation::Below, true),
        _ => return None,
    };
    Some(match (relation, if_taken) {
        (known, true) => (known, is_negated),
        (Relation::Zero, false) => (Relation::NotZero, false),
        (Relation::NotZero, false) => (Relation::Zero, false),
        // Not below zero: its opposite is at most zero.
        (Relation::Below, false) => (Relation::AtMost, !is_negated),
        (Relation::AtMost, false) => (Relation::Below, !is_negated),
    })
}

fn is_of_one(raw: &Instruction) -> bool {
    raw.op0_kind() == raw.op1_kind() && raw.op0_register() == raw.op1_register()
}

fn signed(value: u64, bits: u32) -> i64 {
    let unused = 64 - bits;
    (value << unused).cast_signed() >> unused
}
