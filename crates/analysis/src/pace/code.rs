//! The functions in which samples fell, their loops, and what a sample shows of a loop.
//!
//! What not: pairs of samples (`pairs`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::rc::Rc;

use base::{CodeAddress, FileOffset, ModuleId, RemoteAddr};
use facts::{SampledFrame, SampledPlace, SampledState};
use x86::{CodeBytes, Linear, Loops, Reading, TripCount, Variable, loops};

use super::trip_counts::Link;

/// A loop of the result: function and position in it. Where a loop calls several functions by a pointer, as threads do that wait
/// for work, its iterations for each of them are a loop of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct LoopId {
    pub function: usize,
    pub position: usize,
    /// That function.
    pub callee: Option<usize>,
}

impl LoopId {
    pub(super) fn new(function: usize, position: usize) -> LoopId {
        LoopId { function, position, callee: None }
    }

    /// It, whatever it calls.
    pub(super) fn whole(self) -> LoopId {
        LoopId { callee: None, ..self }
    }
}

/// One function.
pub(super) struct Function {
    pub module: ModuleId,
    pub start: FileOffset,
    length: u64,
    pub loops: Loops,
}

type ReadingsOf = HashMap<(LoopId, SampledPlace), Rc<Vec<Reading>>>;

/// What tells the iterations of an inner loop: of a run, by values of the loop around; and what remains of a run, by its own.
#[derive(Default)]
pub(super) struct Counters {
    pub whole: Option<TripCount>,
    /// The same by values of its own that stay for a run.
    pub by_own: Option<TripCount>,
    pub left: Option<TripCount>,
    /// Whether each iteration around enters it, by the code.
    pub is_entered: bool,
    /// The code checks first whether it has an iteration.
    pub is_checked: bool,
    /// What tells runs of it apart.
    pub bounds: BTreeSet<Variable>,
}

impl Counters {
    /// Whether there may be runs without an iteration.
    pub(super) fn may_be_none(&self) -> bool {
        let count = self.whole.as_ref().or(self.by_own.as_ref());
        self.is_checked || count.is_some_and(TripCount::may_be_none)
    }
}

/// All functions by module and offset.
pub(super) struct Functions(Vec<Function>);

impl Deref for Functions {
    type Target = Vec<Function>;

    fn deref(&self) -> &Vec<Function> {
        &self.0
    }
}

impl Functions {
    /// The function around an address.
    pub(super) fn function(&self, module: ModuleId, offset: FileOffset) -> Option<usize> {
        let behind =
            self.partition_point(|function| (function.module, function.start) <= (module, offset));
        let at = behind.checked_sub(1)?;
        let function = &self[at];
        let inside = function.module == module && offset.0 - function.start.0 < function.length;
        inside.then_some(at)
    }

    /// The loops around an instruction of which any byte is given: a caller's frame lies inside of its call.
    pub(super) fn around_byte(&self, module: ModuleId, offset: FileOffset) -> Vec<LoopId> {
        let Some(function) = self.function(module, offset) else { return Vec::new() };
        let around = self[function].loops.around_byte(RemoteAddr(offset.0));
        around.into_iter().map(|position| LoopId::new(function, position)).collect()
    }
}

/// These functions, and what was found out of them. Addresses inside are offsets.
pub(super) struct Code {
    pub functions: Functions,
    readings: RefCell<ReadingsOf>,
    counters: RefCell<HashMap<Link, Rc<Counters>>>,
    may_go_on: RefCell<HashMap<(LoopId, Terms), bool>>,
}

impl Code {
    pub(super) fn read(code: &[facts::SampledCode]) -> Code {
        let mut functions: Vec<Function> = code
            .iter()
            .map(|one| {
                let bytes = CodeBytes { start: RemoteAddr(one.offset.0), bytes: &one.bytes };
                let (module, start) = (one.module, one.offset);
                let length = one.bytes.len() as u64;
                Function { module, start, length, loops: loops(&bytes) }
            })
            .collect();
        functions.sort_by_key(|function| (function.module, function.start));
        Code {
            functions: Functions(functions),
            readings: RefCell::default(),
            counters: RefCell::default(),
            may_go_on: RefCell::default(),
        }
    }

    /// The loops around an address, the innermost first.
    pub(super) fn around(&self, module: ModuleId, offset: FileOffset) -> Vec<LoopId> {
        let Some(function) = self.functions.function(module, offset) else { return Vec::new() };
        let around = self.functions[function].loops.around(RemoteAddr(offset.0));
        around.into_iter().map(|position| LoopId::new(function, position)).collect()
    }

    /// Whether the instruction around a byte calls what a pointer says.
    pub(super) fn calls_by_pointer(&self, at: CodeAddress) -> bool {
        let function = self.functions.function(at.module, at.offset);
        function
            .is_some_and(|one| self.functions[one].loops.calls_by_pointer(RemoteAddr(at.offset.0)))
    }

    pub(super) fn get(&self, one: LoopId) -> &x86::Loop {
        &self.functions[one.function].loops.all()[one.position]
    }

    /// The last instruction that runs once in each iteration, of any kind or of those that access memory.
    pub(super) fn last_per_iteration(&self, one: LoopId, with_memory: bool) -> Option<CodeAddress> {
        let function = &self.functions[one.function];
        let found = function.loops.last_per_iteration(one.position, with_memory)?;
        Some(CodeAddress::new(function.module, FileOffset(found.0)))
    }

    /// All loops.
    pub(super) fn all(&self) -> impl Iterator<Item = LoopId> + '_ {
        let functions = self.functions.iter().enumerate();
        functions.flat_map(|(function, one)| {
            (0..one.loops.all().len()).map(move |position| LoopId::new(function, position))
        })
    }

    /// What the number of iterations of a run of an inner loop follows from, if each iteration around enters it.
    pub(super) fn counters(&self, link: Link) -> Rc<Counters> {
        if let Some(known) = self.counters.borrow().get(&link) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.find_counters(link));
        self.counters.borrow_mut().insert(link, Rc::clone(&found));
        found
    }

    fn find_counters(&self, Link { inner, outer, call }: Link) -> Counters {
        let loops = &self.functions[inner.function].loops;
        let (by_own, left) =
            (loops.whole_run(inner.position), loops.iterations_left(inner.position));
        let bounds = loops.bounds(inner.position);
        let entered = loops.entered(inner.position);
        let whole = entered.as_ref().and_then(|_| loops.trip_count(inner.position));
        let (whole, entered) = match call.map(|call| RemoteAddr(call.0)) {
            None => (whole, entered),
            Some(call) => {
                let caller = &self.functions[outer.function].loops;
                let whole = whole.and_then(|own| caller.trip_count_by_call(call, &own));
                (whole, entered.and_then(|own| caller.entered_by_call(call, &own)))
            }
        };
        let is_checked = entered.as_ref().is_some_and(x86::Entered::is_checked);
        Counters { whole, by_own, left, is_entered: entered.is_some(), is_checked, bounds }
    }

    /// Whether runs of a loop may go on where the last one ended, by what moves.
    pub(super) fn may_go_on(&self, one: LoopId, terms: &Terms) -> bool {
        let key = (one, terms.clone());
        let mut known = self.may_go_on.borrow_mut();
        let loops = || self.functions[one.function].loops.may_go_on(one.position, terms);
        *known.entry(key).or_insert_with(loops)
    }

    fn readings(&self, one: LoopId, place: &SampledPlace) -> Rc<Vec<Reading>> {
        let key = (one, place.clone());
        if let Some(known) = self.readings.borrow().get(&key) {
            return Rc::clone(known);
        }
        let loops = &self.functions[one.function].loops;
        // A caller's place lies within its call; in front of that, what callees leave as it is stood there already.
        let at = match place.frame {
            SampledFrame::Own | SampledFrame::Kernel => Some(RemoteAddr(place.offset.0)),
            SampledFrame::Caller => loops.instruction_at(RemoteAddr(place.offset.0)),
        };
        let found = at.map_or(Vec::new(), |at| loops.readings(one.position, at, &place.slots));
        let found = Rc::new(found);
        self.readings.borrow_mut().insert(key, Rc::clone(&found));
        found
    }

    /// The snapshot of a loop around a sample.
    pub(super) fn snapshot(&self, one: LoopId, state: &SampledState<'_>) -> Snapshot {
        let readings = self.readings(one, state.place);
        let mut snapshot = Snapshot::default();
        let read = readings.iter().filter_map(|reading| {
            let value = match reading.carrier {
                Variable::Register(register) => state.register(register.number())?,
                Variable::Slot(slot) => state.slot(slot)?,
                Variable::Computed(_) | Variable::Result(..) => return None,
            };
            Some((reading, value))
        });
        let read: Vec<(&Reading, u64)> = read.collect();
        for (reading, value) in &read {
            if reading.step.known() == Some(0) && !reading.value.terms.is_empty() {
                let key = (reading.value.terms.clone(), reading.value.bits);
                let value = cut(value.wrapping_sub(reading.value.constant), reading.value.bits);
                snapshot.stays.insert(key, value);
            }
        }
        for (reading, value) in read {
            let Some(step) = snapshot.step(&reading.step).filter(|step| *step != 0) else {
                continue;
            };
            let value = value.wrapping_sub(reading.value.constant);
            let moving = Moving { value, step, bits: reading.value.bits, carrier: reading.carrier };
            if let Some((terms, moving)) = by_one(&reading.value, moving) {
                snapshot.moves.entry(terms).or_insert(moving);
            }
        }
        snapshot
    }
}

/// Sums of variables, each with its factor.
pub(super) type Terms = Vec<(Variable, u64)>;

/// What moves with a loop, as read in one sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moving {
    /// The sum's value when the iteration began, modulo two to `bits`.
    pub value: u64,
    /// By how much it moves per iteration.
    pub step: i64,
    pub bits: u32,
    /// Where it was read.
    pub carrier: Variable,
}

impl Moving {
    /// How many iterations from anywhere.
    pub(super) fn place(&self) -> f64 {
        signed(self.value, self.bits) as f64 / self.step as f64
    }
}

/// A loop's state in one sample.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Snapshot {
    /// What stays for the whole run of the loop.
    pub stays: BTreeMap<(Terms, u32), u64>,
    /// What moves by the same amount in every iteration.
    pub moves: BTreeMap<Terms, Moving>,
}

impl Snapshot {
    /// A sum of variables at the start of the iteration; `None` where the sample does not have them all.
    pub(super) fn value(&self, sum: &Linear) -> Option<i64> {
        let value = sum.terms.iter().try_fold(sum.constant, |known, (variable, factor)| {
            let moving = self.moves.get(&vec![(*variable, 1)]);
            let value = moving.map(|moving| signed(moving.value, moving.bits).cast_unsigned());
            let value = value.or_else(|| self.held(*variable))?;
            Some(known.wrapping_add(value.wrapping_mul(*factor)))
        })?;
        Some(signed(value, sum.bits))
    }

    /// The value of a variable that stays.
    pub(super) fn held(&self, variable: Variable) -> Option<u64> {
        let key = |bits| (vec![(variable, 1)], bits);
        self.stays.get(&key(64)).or_else(|| self.stays.get(&key(32))).copied()
    }

    /// What both have that moves: here, in a later snapshot, how many bits of both are known, and by how much it went.
    pub(super) fn moved<'a>(
        &'a self,
        later: &'a Snapshot,
    ) -> impl Iterator<Item = (&'a Terms, Moving, Moving, u32, u64)> {
        self.moves.iter().filter_map(|(terms, from)| {
            let to = later.moves.get(terms)?;
            let bits = from.bits.min(to.bits);
            Some((terms, *from, *to, bits, cut(to.value.wrapping_sub(from.value), bits)))
        })
    }

    /// Whether all that stays, as far as both have it, is the same.
    pub(super) fn is_alike(&self, later: &Snapshot) -> bool {
        let same = |(key, held): (_, &u64)| later.stays.get(key).is_none_or(|other| other == held);
        self.stays.iter().all(same)
    }

    /// How many iterations lie between this and a later one, if it is in the same run by all that both have.
    pub(super) fn advance(&self, later: &Snapshot) -> Option<i64> {
        let mut went = self.moved(later).map(|(_, from, to, bits, went)| {
            let went = signed(went, bits);
            let is_whole = from.step == to.step && went % from.step == 0;
            is_whole.then_some(went / from.step)
        });
        let first = went.next()??;
        let agree = went.all(|other| other == Some(first));
        (agree && self.is_alike(later)).then_some(first)
    }

    /// Whether anything that both have is not the same.
    pub(super) fn differs(&self, later: &Snapshot) -> bool {
        self.moved(later).any(|(.., went)| went != 0) || !self.is_alike(later)
    }

    /// A step's value; `None` where it depends on values that the sample does not have.
    fn step(&self, step: &Linear) -> Option<i64> {
        let mut sum = step.constant;
        for (variable, factor) in &step.terms {
            sum = sum.wrapping_add(self.held(*variable)?.wrapping_mul(*factor));
        }
        Some(signed(sum, step.bits))
    }
}

pub(super) fn cut(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// A number of this many bits, sign-extended.
pub(super) fn signed(value: u64, bits: u32) -> i64 {
    let unused = 64 - bits.clamp(1, 64);
    (value << unused).cast_signed() >> unused
}

/// A multiple of one variable as that variable, so that 8 x i and i compare equal. `None` where the value is no multiple.
fn by_one(value: &Linear, moving: Moving) -> Option<(Terms, Moving)> {
    let [(variable, factor)] = value.terms[..] else {
        let value_of = cut(moving.value, moving.bits);
        return Some((value.terms.clone(), Moving { value: value_of, ..moving }));
    };
    let zeroes = factor.trailing_zeros();
    let bits = moving.bits.checked_sub(zeroes).filter(|bits| *bits >= 24)?;
    let odd = factor >> zeroes;
    // Newton's iteration for the inverse modulo 2^64: each round doubles the number of right bits, from 3.
    let inverse = (0..5)
        .fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))));
    let over = cut(moving.value, moving.bits);
    if over & ((1 << zeroes) - 1) != 0 {
        return None;
    }
    let value = cut((over >> zeroes).wrapping_mul(inverse), bits);
    let factor = signed(factor, moving.bits);
    if moving.step % factor != 0 {
        return None;
    }
    let step = moving.step / factor;
    Some((vec![(variable, 1)], Moving { value, step, bits, carrier: moving.carrier }))
}

#[cfg(test)]
mod tests {
    use x86::Gpr;

    use super::*;

    #[test]
    fn multiples_tell_the_same_as_the_variable() {
        let variable = Variable::Register(Gpr::RCX);
        for (factor, value, step, expected) in [
            (1u64, 1000u64, 4i64, Some((1000, 4))),
            (8, 8000, 32, Some((1000, 4))),
            (24, 24_000, 96, Some((1000, 4))),
            (8u64.wrapping_neg(), 8000u64.wrapping_neg(), -32, Some((1000, 4))),
            (8, 8001, 32, None),
        ] {
            let linear = Linear { terms: vec![(variable, factor)], constant: 0, bits: 64 };
            let moving = Moving { value, step, bits: 64, carrier: variable };
            let found = by_one(&linear, moving).map(|(_, one)| (one.value, one.step));
            assert_eq!(found, expected, "factor {factor}");
        }
        // Modulo 2^32: three more bits are gone.
        let linear = Linear { terms: vec![(variable, 8)], constant: 0, bits: 32 };
        let moving = Moving { value: 0xffff_fff8, step: 8, bits: 32, carrier: variable };
        let found = by_one(&linear, moving).unwrap().1;
        assert_eq!((found.value, found.bits, found.step), (0x1fff_ffff, 29, 1));
    }
}
