//! Pairs of samples of one thread in one run of a loop: how many iterations lie between them, in how much CPU time.
//!
//! No pair are: samples in different runs, which values that stay constant within a run distinguish (bounds, bases, the stack
//! pointer, counters of enclosing loops, also of callers where they are in callee-saved registers); samples between which a
//! caller's loop went round; samples whose registers disagree. Two samples around a burst tell how far the loop came there, which is less than natively.
//! The pace of a caller's loop comes from the caller's registers, restored when the sample was taken. If a loop has several frames
//! in one sample (recursion), that sample does not count for it. What not: the pace (`estimate`).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use base::{Nanos, Pid, StackId, ThreadId, Tid};
use estimate::parameters::SWITCHES;
use facts::{
    CounterKind, Privilege, Recording, Sample, SampledFrame, SampledState, decode_registers,
};
use x86::{Gpr, TripCount, Variable};

use super::code::{Code, Counters, LoopId, Snapshot, Terms, cut, signed};
use super::estimate::seconds;
use super::stacks::{Met, Stacks};
use super::trip_counts::{Kind, Link, TripCounts};

/// A sample that represents more sampling periods than this is of the slow clock, which samples threads that wait often, or
/// many threads at once.
const LONG: f64 = 2.0;

/// By this part of a period a timer may be late.
const LATE: u64 = 20;

/// No loop is faster, iterations per second: each takes a branch, of which cores take two per cycle at most, at 6 GHz, and some
/// more.
const FASTEST: f64 = 2e10;

/// By these parts of a period a sample and an echo are apart at most: any, and a near one.
const CLOSE: [u64; 2] = [8, 20];

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
}

/// What was found of one loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub pairs: Vec<Pair>,
    /// Pairs in one run and in a later one.
    pub restarts: usize,
    /// Group and first place of those that the registers do not tell apart, with no sample outside of the loop between them.
    pub backwards: Vec<(usize, f64)>,
    /// In one run too, but with a burst between them: iterations and seconds.
    pub around_bursts: Vec<(f64, f64)>,
    /// The furthest place of each group.
    pub furthest: HashMap<usize, f64>,
    /// Pairs whose registers disagree.
    pub disagreeing: u64,
    /// Pairs of different runs.
    pub other_runs: u64,
    /// Pairs with other elapsed than CPU time.
    pub interrupted: u64,
    /// Samples in whose gaps the thread waited, so that a run ended.
    pub waits: u64,
    /// How often what was read.
    pub carriers: BTreeMap<Variable, u64>,
    /// How many of them in a caller's frame.
    pub in_callers: u64,
    /// Samples of it with registers.
    pub samples: u64,
    /// Numbers of groups.
    pub groups: HashMap<Group, usize>,
    /// Of samples and echoes that are close to each other; of these, of near ones.
    pub close: Option<Box<Found>>,
}

/// Thread, what stays, and what was read.
pub(super) type Group = (Pid, Tid, Vec<((Terms, u32), u64)>, Terms);

/// The last sample with a snapshot of a loop.
struct Last {
    snapshot: Rc<Snapshot>,
    /// Those of the loops that its function was called in.
    callers: Vec<(LoopId, Rc<Snapshot>)>,
    cpu_time: Option<Nanos>,
    time: Nanos,
    /// Its place among the thread's samples.
    at: Option<usize>,
    /// The thread's samples outside of the loop until then.
    outside: u64,
}

/// A clock sample without registers.
#[derive(Clone, Copy)]
struct Plain {
    time: Nanos,
    weight: Nanos,
    kernel: bool,
    stack: Option<StackId>,
}

/// One sample of a thread. A loop with two frames in it has no snapshot.
struct SampledFrames {
    time: Nanos,
    cpu_time: Option<Nanos>,
    /// Frames so far.
    frames: usize,
    snapshots: BTreeMap<LoopId, Option<InFrame>>,
}

/// A loop in one frame of a sample.
#[derive(Clone)]
struct InFrame {
    snapshot: Rc<Snapshot>,
    /// Number of the frame; callers have higher ones.
    frame: usize,
    is_caller: bool,
}

/// Finds the pairs of all loops.
pub(super) fn find(
    recording: &Recording,
    code: &Code,
    stacks: &mut Stacks<'_>,
) -> (BTreeMap<LoopId, Found>, TripCounts) {
    let mut found = BTreeMap::new();
    let mut trip_counts = TripCounts::default();
    let mut plain: HashMap<ThreadId, Vec<Plain>> = HashMap::new();
    for sample in &recording.samples {
        let kernel = sample.privilege == Privilege::Kernel;
        let Sample { time, weight, stack, .. } = *sample;
        let of_thread = plain.entry(ThreadId::new(sample.pid, sample.tid)).or_default();
        of_thread.push(Plain { time, weight, kernel, stack });
    }
    let bursts = bursts(recording);
    let counted = |kind| recording.counter(kind).map(|count| count as f64);
    let switches = counted(CounterKind::ContextSwitches)
        .zip(counted(CounterKind::TaskClock).filter(|used| *used > 0.0))
        .map_or(f64::INFINITY, |(switches, used)| switches / (1e-9 * used));
    let mut pieces: BTreeMap<ThreadId, Vec<&facts::SampleRegisters>> = BTreeMap::new();
    for piece in &recording.sample_registers {
        pieces.entry(ThreadId::new(piece.pid, piece.tid)).or_default().push(piece);
    }
    for (thread, mut pieces) in pieces {
        pieces.sort_by_key(|piece| piece.time);
        let mut walk = Walk {
            code,
            stacks: &mut *stacks,
            bursts: bursts.get(&thread.tid).map_or(&[][..], Vec::as_slice),
            found: &mut found,
            trip_counts: &mut trip_counts,
            last: BTreeMap::new(),
            around: BTreeMap::new(),
            met: Met::new(),
            thread,
            period: Nanos(recording.run.collector.sampling_period_ns),
            switches,
            plain: plain.remove(&thread).unwrap_or_default(),
            next: 0,
            seen: 0,
            inside: BTreeMap::new(),
        };
        for piece in pieces {
            let mut seen: Option<SampledFrames> = None;
            // Damaged bytes end the piece there; `verify` reports them.
            let _ = decode_registers(&piece.bytes, |state| {
                if state.place.frame != SampledFrame::Caller
                    && let Some(whole) = seen.take()
                {
                    walk.see(whole);
                }
                let SampledState { time, cpu_time, .. } = *state;
                let seen = seen.get_or_insert(SampledFrames {
                    time,
                    cpu_time,
                    frames: 0,
                    snapshots: BTreeMap::new(),
                });
                seen.add(code, state);
            });
            if let Some(whole) = seen {
                walk.see(whole);
            }
        }
    }
    (found, trip_counts)
}

impl SampledFrames {
    fn add(&mut self, code: &Code, state: &SampledState<'_>) {
        let (module, offset) = (state.place.module, state.place.offset);
        let is_caller = state.place.frame == SampledFrame::Caller;
        let around = match is_caller {
            true => code.functions.around_byte(module, offset),
            false => code.around(module, offset),
        };
        let frame = self.frames;
        self.frames += 1;
        for one in around {
            let known = self.snapshots.entry(one);
            let snapshot = || Rc::new(code.snapshot(one, state));
            let in_frame = || Some(InFrame { snapshot: snapshot(), frame, is_caller });
            known.and_modify(|known| *known = None).or_insert_with(in_frame);
        }
    }

    /// The loops that the function of a frame was called in.
    fn callers(&self, of: usize) -> Vec<(LoopId, Rc<Snapshot>)> {
        let known = self.snapshots.iter().filter_map(|(one, known)| Some((*one, known.as_ref()?)));
        let callers = known.filter(|(_, known)| known.frame > of);
        callers.map(|(one, known)| (one, Rc::clone(&known.snapshot))).collect()
    }
}

impl Last {
    /// Whether a loop that the function was called in went round in between, or began anew: then the function returned.
    fn returned(&self, now: &Last) -> bool {
        now.callers.iter().any(|(one, now)| {
            let before = self.callers.iter().find(|(other, _)| other == one);
            before.is_some_and(|(_, before)| before.differs(now))
        })
    }
}

struct Walk<'a, 's, 'r> {
    code: &'a Code,
    stacks: &'s mut Stacks<'r>,
    bursts: &'a [(Nanos, Nanos)],
    found: &'a mut BTreeMap<LoopId, Found>,
    trip_counts: &'a mut TripCounts,
    last: BTreeMap<LoopId, Last>,
    /// The outer loop of each link, when a sample was last in the inner one.
    around: BTreeMap<Link, Rc<Snapshot>>,
    /// Of loops that call several functions by a pointer: for which they were met last.
    met: Met,
    thread: ThreadId,
    period: Nanos,
    /// How often threads leave their CPU, per second of CPU time; infinite if that is not known.
    switches: f64,
    /// Samples, and which is the next.
    plain: Vec<Plain>,
    next: usize,
    /// Samples so far, of all, and inside of each loop.
    seen: u64,
    inside: BTreeMap<LoopId, u64>,
}

impl Walk<'_, '_, '_> {
    fn see(&mut self, mut seen: SampledFrames) {
        while let Some(plain) =
            self.plain.get(self.next).copied().filter(|one| one.time < seen.time)
        {
            self.next += 1;
            self.pass(Some(plain), &[]);
        }
        let plain = self.plain.get(self.next).copied().filter(|one| one.time == seen.time);
        self.next += usize::from(plain.is_some());
        let at = plain.map(|_| self.next - 1);
        if let Some(stack) = plain.and_then(|plain| plain.stack) {
            for one in &self.stacks.around(stack).loops {
                self.stacks.as_met(*one, &mut self.met);
            }
        }
        let snapshots = std::mem::take(&mut seen.snapshots).into_iter();
        let as_met = |(one, snapshot)| (self.stacks.as_met(one, &mut self.met), snapshot);
        seen.snapshots = snapshots.map(as_met).collect();
        let sampled: Vec<LoopId> = seen.snapshots.keys().copied().collect();
        let weight = plain.map_or(self.period, |plain| plain.weight);
        self.pass(plain, &sampled);
        let in_burst = overlaps(self.bursts, seen.time, seen.time);
        if let Some(stack) = plain.and_then(|plain| plain.stack).filter(|_| !in_burst) {
            self.count_trips(stack, &seen.snapshots);
        }
        for (one, known) in &seen.snapshots {
            let one = *one;
            self.found.entry(one).or_default().samples += u64::from(at.is_some());
            // A sample without a snapshot is skipped.
            let Some(InFrame { snapshot, frame, is_caller }) = known else { continue };
            if snapshot.moves.is_empty() || in_burst {
                continue;
            }
            let outside = self.seen - self.inside.get(&one).copied().unwrap_or_default();
            let (time, cpu_time) = (seen.time, seen.cpu_time);
            let (snapshot, callers) = (Rc::clone(snapshot), seen.callers(*frame));
            let now = Last { snapshot, callers, cpu_time, time, at, outside };
            let last = self.last.remove(&one);
            let has_echo = |last: &Last| last.at.is_none() || now.at.is_none();
            if let Some(last) = last.as_ref().filter(|last| has_echo(last)) {
                self.note_close(one, last, &now);
            } else if let Some(last) = &last {
                let used = self.used(last, &now);
                let around = overlaps(self.bursts, last.time, time);
                // Each wait ends the run of a loop that calls nothing.
                let is_slow = seconds(weight) > LONG * seconds(self.period);
                let is_often = self.switches * seconds(weight) > SWITCHES.value;
                let waited = is_slow && is_often && !self.code.get(one).calls;
                let apart = time - last.time;
                let is_interrupted = |used: Nanos| apart.0.abs_diff(used.0) > used.0 / LATE;
                let known = self.found.entry(one).or_default();
                known.waits += u64::from(waited);
                known.interrupted += u64::from(used.is_some_and(is_interrupted) && !around);
                if let Some(used) = used.filter(|used| used.0 > 0 && !waited) {
                    let is_pair = known.pair(self.thread, last, &now, (used, around));
                    known.in_callers += u64::from(*is_caller && is_pair);
                }
            }
            self.last.insert(one, now);
        }
    }

    /// A sample and an echo. What passed between them is the CPU time of their thread: a run of a loop that calls nothing ends where
    /// the thread waits.
    fn note_close(&mut self, one: LoopId, last: &Last, now: &Last) {
        let apart = now.time - last.time;
        let around = overlaps(self.bursts, last.time, now.time);
        if apart.0 == 0 || around || self.code.get(one).calls {
            return;
        }
        let mut found = self.found.entry(one).or_default();
        for part in CLOSE {
            if apart.0 > self.period.0 / part {
                return;
            }
            found = found.close.get_or_insert_default();
            found.samples += 1;
            found.pair(self.thread, last, now, (apart, false));
        }
    }

    /// Notes how often the loops around a sample go round in these runs.
    fn count_trips(&mut self, stack: StackId, snapshots: &BTreeMap<LoopId, Option<InFrame>>) {
        for link in &self.stacks.around(stack).links {
            let counters = self.code.counters(*link);
            let read = |count: &Option<TripCount>, one: LoopId| {
                let count = count.as_ref()?;
                let first = count.first.as_ref()?;
                let known = first.known().map(|known| signed(known, first.bits));
                let value = || snapshots.get(&one)?.as_ref()?.snapshot.value(first);
                count.iterations(known.or_else(value)?)
            };
            let whole = read(&counters.whole, link.outer);
            let whole = whole.or_else(|| read(&counters.by_own, link.inner));
            let left = read(&counters.left, link.inner).filter(|left| *left > 0);
            let left = left.map(|left| (Kind::FromEnd(self.thread), left as f64));
            let place = || {
                let inner = snapshots.get(&link.inner)?.as_ref()?;
                self.place(*link, &counters, &inner.snapshot)
            };
            let place = left.or_else(place);
            let outer = snapshots.get(&link.outer).and_then(Option::as_ref);
            let went = outer.and_then(|outer| {
                let before = self.around.insert(*link, Rc::clone(&outer.snapshot))?;
                u64::try_from(before.advance(&outer.snapshot)?).ok()
            });
            self.trip_counts.add((*link, self.thread), (whole, place), &counters);
            self.trip_counts.met(*link, went);
        }
    }

    /// Where in a run of a loop a sample is, by what moves.
    fn place(&self, link: Link, counters: &Counters, snapshot: &Snapshot) -> Option<(Kind, f64)> {
        let (terms, moving) =
            snapshot.moves.iter().min_by_key(|(_, moving)| std::cmp::Reverse(moving.bits))?;
        if self.code.may_go_on(link.inner, terms) {
            return None;
        }
        let bounds = counters.bounds.iter().map(|bound| snapshot.held(*bound));
        let bounds: Vec<u64> = bounds.collect::<Option<_>>()?;
        Some((Kind::Alike(self.thread, bounds, terms.clone()), moving.place()))
    }

    /// A sample counts for the loops that it lies in: by its stack, and where that is cut off, by its registers and
    /// those that may have been left for a callee.
    fn pass(&mut self, plain: Option<Plain>, sampled: &[LoopId]) {
        self.seen += 1;
        let stack = plain.and_then(|plain| plain.stack).map(|stack| self.stacks.around(stack));
        let mut inside: Vec<LoopId> = sampled.to_vec();
        let around = stack.as_ref().map_or(&[][..], |stack| &stack.loops);
        inside.extend(around.iter().map(|one| self.stacks.as_met(*one, &mut self.met)));
        // Of the kernel alone it is not known who called.
        let in_kernel = sampled.is_empty() && plain.is_some_and(|plain| plain.kernel);
        if in_kernel || stack.is_none_or(|stack| stack.truncated) {
            let may_call = |one: &&LoopId| in_kernel || self.code.get(**one).calls;
            let is_met = |one: &&LoopId| self.met.get(&one.whole()).is_none_or(|met| met == *one);
            inside.extend(self.last.keys().filter(is_met).filter(may_call));
        }
        inside.sort_unstable();
        inside.dedup();
        for one in inside {
            *self.inside.entry(one).or_default() += 1;
        }
    }

    /// CPU time between two samples. A thread does not use more than passes: the time that the kernel reports of an inherited event
    /// may have that of threads that ended (`child_total_time_enabled`, kernel/events/core.c) in one sample, and not in the next.
    /// Where the kernel reports none, it is what the later sample represents: exactly, if a timer of the thread took both, and on
    /// average also of threads that wait while the timer of a CPU goes on, or to which the kernel hands another thread's timer
    /// (`perf_event_context_sched_out`, the same file). What passed is no measure: the thread may have waited.
    fn used(&self, last: &Last, now: &Last) -> Option<Nanos> {
        let apart = now.time.0.checked_sub(last.time.0)?;
        let counted = last.cpu_time.zip(now.cpu_time);
        let counted = counted.and_then(|(before, now)| now.0.checked_sub(before.0));
        let most = apart.saturating_add(self.period.0 / LATE);
        if let Some(counted) = counted.filter(|counted| *counted <= most) {
            return Some(Nanos(counted));
        }
        let [_, between @ .., end] = self.plain.get(last.at?..=now.at?)? else { return None };
        // Other samples may be of another run, but not those in a burst.
        let in_burst = |one: &Plain| overlaps(self.bursts, one.time, one.time);
        let weight = between.iter().map(|one| one.weight.0).sum::<u64>() + end.weight.0;
        between.iter().all(in_burst).then_some(Nanos(weight))
    }
}

/// Bursts of each thread with its stops around them, in the order of time.
fn bursts(recording: &Recording) -> HashMap<Tid, Vec<(Nanos, Nanos)>> {
    let mut bursts: HashMap<Tid, Vec<(Nanos, Nanos)>> = HashMap::new();
    for burst in &recording.bursts {
        let from = burst.time - burst.stand_still;
        let to = burst.time + burst.elapsed + burst.stand_still;
        bursts.entry(burst.tid).or_default().push((from, to));
    }
    bursts.values_mut().for_each(|bursts| bursts.sort_unstable());
    bursts
}

/// CPU time between samples with a burst between them, or in one, seconds.
pub(super) fn around_bursts(recording: &Recording) -> f64 {
    let bursts = bursts(recording);
    let mut before: HashMap<ThreadId, Nanos> = HashMap::new();
    let mut around = 0.0;
    for sample in &recording.samples {
        let last = before.insert(ThreadId::new(sample.pid, sample.tid), sample.time);
        let of_thread = bursts.get(&sample.tid).map_or(&[][..], Vec::as_slice);
        if last.is_some_and(|last| overlaps(of_thread, last, sample.time)) {
            around += seconds(sample.weight);
        }
    }
    around
}

fn overlaps(bursts: &[(Nanos, Nanos)], from: Nanos, to: Nanos) -> bool {
    let before = bursts.partition_point(|(begin, _)| *begin <= to);
    // Bursts of a thread follow one another.
    bursts[..before].last().is_some_and(|(_, end)| *end >= from)
}

impl Found {
    /// Takes two samples that follow one another, perhaps around a burst; whether they are a pair in one run.
    fn pair(
        &mut self,
        thread: ThreadId,
        last: &Last,
        now: &Last,
        (used, around_burst): (Nanos, bool),
    ) -> bool {
        let (before, after) = (&last.snapshot, &now.snapshot);
        let moved: Vec<_> = before.moved(after).collect();
        // By the code alone: what wraps around last, then by order of registers.
        let Some((terms, from, to, bits, went)) =
            moved.iter().copied().min_by_key(|(.., bits, _)| std::cmp::Reverse(*bits))
        else {
            return false;
        };
        let stack = (vec![(Variable::Register(Gpr::RSP), 1)], 64);
        let known = after.stays.contains_key(&stack) && from.step == to.step;
        let one_kind = known && before.is_alike(after) && !last.returned(now);
        let iterations = signed(went, bits).checked_div(from.step).unwrap_or(0);
        // All registers must agree, as far as their bits allow.
        let agree = moved.iter().all(|(_, from, to, bits, went)| {
            let expected = iterations.wrapping_mul(from.step).cast_unsigned();
            from.step == to.step && cut(expected, *bits) == *went
        });
        let possible = iterations as f64 <= FASTEST * seconds(used);
        if one_kind && !(agree && possible) {
            self.disagreeing += 1;
            return false;
        }
        if around_burst {
            if one_kind && iterations >= 0 {
                self.around_bursts.push((iterations as f64, seconds(used)));
            }
            return false;
        }
        self.other_runs += u64::from(!one_kind);
        let group = self.group(thread, before, terms);
        let to_group = self.group(thread, after, terms);
        let place = from.place();
        let stays = now.outside == last.outside;
        let one_run = one_kind && iterations >= 0 && stays;
        let iterations = iterations as f64;
        let end = if one_run { place + iterations } else { to.place() };
        for (group, place) in [(group, place), (to_group, end)] {
            let furthest = self.furthest.entry(group).or_insert(place);
            *furthest = furthest.max(place);
        }
        if one_run {
            *self.carriers.entry(to.carrier).or_default() += 1;
            let (time, seconds) = (now.time, seconds(used));
            self.pairs.push(Pair { time, iterations, seconds, from: place, group });
        } else if known {
            self.restarts += 1;
            self.backwards.extend((stays && to_group == group).then_some((group, place)));
        }
        one_run
    }

    fn group(&mut self, thread: ThreadId, snapshot: &Snapshot, terms: &Terms) -> usize {
        let values = snapshot.stays.iter().map(|(key, held)| (key.clone(), *held)).collect();
        let number = self.groups.len();
        *self.groups.entry((thread.pid, thread.tid, values, terms.clone())).or_insert(number)
    }
}
