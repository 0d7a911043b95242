//! Pairs of samples of one thread in one run of a loop: how many iterations lie between them, in how much CPU time.
//!
//! What is no pair: samples in different runs, told by what stays in one (bounds, bases, the stack pointer, counters of
//! loops around, of callers too where they are in registers that callees leave alone); an advance backwards; samples
//! between which the thread was seen outside of the loop, or in a burst; samples whose registers disagree.

use std::collections::{BTreeMap, HashMap};

use base::{Nanos, Pid, Tid};
use facts::{Privilege, Recording, SampledState, decode_registers};
use x86::{Gpr, Variable};

use super::code::{Code, LoopId, Snapshot, Terms, cut, signed};

/// Two samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pair {
    /// When the second was taken.
    pub time: Nanos,
    /// Iterations between them.
    pub iterations: f64,
    /// CPU time between them, seconds.
    pub seconds: f64,
    /// Where the first was, in iterations from anywhere; comparable among pairs of one `group`.
    pub from: f64,
    /// What stays, and what was read, as a number.
    pub group: usize,
    /// Whether the pair before it ends where this begins.
    pub linked: bool,
}

/// What was found of one loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub pairs: Vec<Pair>,
    /// The furthest position seen of each group.
    pub furthest: HashMap<usize, f64>,
    /// Pairs that went backwards: another run that nothing tells from the first. Where they began, and in which group.
    pub backwards: Vec<(usize, f64)>,
    /// Pairs whose registers disagree.
    pub disagreeing: u64,
    /// Pairs of different runs.
    pub other_runs: u64,
    /// How often what was read.
    pub carriers: BTreeMap<Variable, u64>,
    /// Samples of it with registers.
    pub samples: u64,
    /// Numbers of groups.
    pub groups: HashMap<Group, usize>,
}

/// Thread, what stays, and what was read.
pub(super) type Group = (Pid, Tid, Vec<((Terms, u32), u64)>, Terms);

struct Last {
    snapshot: Snapshot,
    cpu_time: Option<Nanos>,
    time: Nanos,
    linked: bool,
}

/// One sample of a thread: its registers, or that it has none.
struct Seen<'a> {
    state: Option<SampledState<'a>>,
    kernel: bool,
}

/// Finds the pairs of all loops.
pub(super) fn find(recording: &Recording, code: &Code) -> BTreeMap<LoopId, Found> {
    let mut found = BTreeMap::new();
    let mut without: HashMap<(Pid, Tid), Vec<(Nanos, bool)>> = HashMap::new();
    for sample in &recording.samples {
        let kernel = sample.privilege == Privilege::Kernel;
        without.entry((sample.pid, sample.tid)).or_default().push((sample.time, kernel));
    }
    let mut bursts: HashMap<Tid, Vec<(Nanos, Nanos)>> = HashMap::new();
    for burst in &recording.bursts {
        let from = burst.time - burst.stand_still;
        let to = burst.time + burst.elapsed + burst.stand_still;
        bursts.entry(burst.tid).or_default().push((from, to));
    }
    bursts.values_mut().for_each(|bursts| bursts.sort_unstable());
    let mut pieces: BTreeMap<(Pid, Tid), Vec<&facts::SampleRegisters>> = BTreeMap::new();
    for piece in &recording.sample_registers {
        pieces.entry((piece.pid, piece.tid)).or_default().push(piece);
    }
    for (thread, mut pieces) in pieces {
        pieces.sort_by_key(|piece| piece.time);
        let bursts = bursts.get(&thread.1).map_or(&[][..], Vec::as_slice);
        let mut walk = Walk {
            code,
            bursts,
            found: &mut found,
            last: BTreeMap::new(),
            thread,
            period: Nanos(recording.run.collector.sampling_period_ns),
        };
        let mut plain = without.remove(&thread).unwrap_or_default().into_iter().peekable();
        for piece in pieces {
            // What does not decode ends the piece there; `verify` tells.
            let _ = decode_registers(&piece.bytes, |state| {
                while let Some((_, kernel)) = plain.next_if(|(time, _)| *time < state.time) {
                    walk.see(&Seen { state: None, kernel });
                }
                plain.next_if(|(time, _)| *time == state.time);
                walk.see(&Seen { state: Some(*state), kernel: false });
            });
        }
    }
    found
}

struct Walk<'a> {
    code: &'a Code,
    bursts: &'a [(Nanos, Nanos)],
    found: &'a mut BTreeMap<LoopId, Found>,
    last: BTreeMap<LoopId, Last>,
    thread: (Pid, Tid),
    period: Nanos,
}

impl Walk<'_> {
    fn see(&mut self, seen: &Seen<'_>) {
        if seen.kernel {
            return;
        }
        let place = seen.state.map(|state| (state.place.module, state.place.offset));
        let function = place.and_then(|(module, offset)| self.code.function(module, offset));
        let around = place.map(|(module, offset)| self.code.around(module, offset));
        let around = around.unwrap_or_default();
        let code = self.code;
        // Elsewhere: in a callee, or out of the loop.
        self.last.retain(|one, _| {
            around.contains(one) || (code.get(*one).calls && Some(one.function) != function)
        });
        let Some(state) = seen.state else { return };
        for one in around {
            let snapshot = self.code.snapshot(one, &state);
            let silent = snapshot.moves.is_empty();
            let known = self.found.entry(one).or_default();
            known.samples += 1;
            if silent {
                // The next that tells something makes a pair with the last that did.
                continue;
            }
            let mut linked = false;
            if let Some(last) = self.last.get(&one) {
                let used = cpu_time(last, &state, self.period);
                let disturbed = overlaps(self.bursts, last.time, state.time);
                if let Some(used) = used.filter(|used| used.0 > 0 && !disturbed) {
                    linked = known.pair(self.thread, last, &snapshot, (state.time, used));
                }
            }
            let (time, cpu_time) = (state.time, state.cpu_time);
            self.last.insert(one, Last { snapshot, cpu_time, time, linked });
        }
    }
}

/// CPU time between two samples. Where the kernel does not tell it, the time on the clock, if the two are neighbours: so far
/// apart as the timer's period, which runs with the thread only.
fn cpu_time(last: &Last, state: &SampledState<'_>, period: Nanos) -> Option<Nanos> {
    match (last.cpu_time, state.cpu_time) {
        (Some(before), Some(now)) => now.0.checked_sub(before.0).map(Nanos),
        _ => {
            let apart = state.time.0.checked_sub(last.time.0)?;
            // A twentieth: what a timer is late, and no time slice of another thread.
            let late = apart.abs_diff(period.0) > period.0 / 20;
            (!late).then_some(Nanos(apart))
        }
    }
}

fn overlaps(bursts: &[(Nanos, Nanos)], from: Nanos, to: Nanos) -> bool {
    let before = bursts.partition_point(|(begin, _)| *begin <= to);
    // Bursts of a thread follow one another.
    bursts[..before].last().is_some_and(|(_, end)| *end >= from)
}

impl Found {
    /// Takes two samples that follow one another; whether they are a pair.
    fn pair(
        &mut self,
        thread: (Pid, Tid),
        last: &Last,
        now: &Snapshot,
        (time, used): (Nanos, Nanos),
    ) -> bool {
        let before = &last.snapshot;
        let common =
            || before.stays.iter().filter_map(|(key, held)| Some((key, held, now.stays.get(key)?)));
        let stack = (vec![(Variable::Register(Gpr::RSP), 1)], 64);
        if !now.stays.contains_key(&stack) || common().any(|(_, held, other)| held != other) {
            self.other_runs += 1;
            return false;
        }
        let told = before.moves.iter().filter_map(|(terms, from)| {
            let to = now.moves.get(terms)?;
            let bits = from.bits.min(to.bits);
            Some((terms, *from, *to, bits, cut(to.value.wrapping_sub(from.value), bits)))
        });
        let told: Vec<_> = told.collect();
        // By the code alone: what wraps around last, then by order of registers.
        let Some((terms, from, to, bits, went)) =
            told.iter().copied().min_by_key(|(.., bits, _)| std::cmp::Reverse(*bits))
        else {
            return false;
        };
        let iterations = signed(went, bits).checked_div(from.step).unwrap_or(0);
        // All of them must tell the same, as far as they can.
        let agree = told.iter().all(|(_, from, to, bits, went)| {
            let expected = iterations.wrapping_mul(from.step).cast_unsigned();
            from.step == to.step && cut(expected, *bits) == *went
        });
        if !agree {
            self.disagreeing += 1;
            return false;
        }
        let stays = now.stays.iter().filter(|(key, _)| before.stays.contains_key(*key));
        let values = stays.map(|(key, held)| (key.clone(), *held)).collect();
        let number = self.groups.len();
        let key = (thread.0, thread.1, values, terms.clone());
        let group = *self.groups.entry(key).or_insert(number);
        let position = signed(from.value, from.bits) as f64 / from.step as f64;
        let furthest = self.furthest.entry(group).or_insert(position);
        *furthest = furthest.max(position + (iterations.max(0)) as f64);
        if iterations < 0 {
            self.backwards.push((group, position));
            return false;
        }
        *self.carriers.entry(to.carrier).or_default() += 1;
        self.pairs.push(Pair {
            time,
            iterations: iterations as f64,
            seconds: used.0 as f64 / 1e9,
            from: position,
            group,
            linked: last.linked,
        });
        true
    }
}
