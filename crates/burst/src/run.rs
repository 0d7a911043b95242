//! One burst: a stopped thread enters translated code, runs, and gets its native state back.
//!
//! What for: the loop of stops, and the guarantee that on every path out (time over, buffer full, signal, fault,
//! system call, death, panic of ours) the thread has exactly its native registers. What not: the choice of thread and
//! time (`picker`, `budget`), the meaning of records (`drain`), the system calls behind which a burst goes on (`call`),
//! code for which a thread does not stop (`ask`).

mod ask;
mod call;

use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Nanos, RemoteAddr, Tid};
use facts::BurstEnd;
use sys::trace::{self, Happened, Registers, Stop};
use x86::Refusal;
use x86::translate::{MOST_WORDS, area};

use crate::cache::{Cache, Counts, Native};
use crate::code_map::CodeMap;
use crate::odometers::{Read, Reads};
use crate::refused::Refused;
use crate::schedule::looks_slow;
use crate::space::RECORDS;
use crate::visit::{Visit, elapsed, signal_of};

/// How long we wait for a thread that was asked to stop: it may have to wait for a CPU on a loaded machine, or for a
/// page from a slow disk. After this the tracer gives up. The kernel then releases the thread, and its translated
/// code continues alone.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a thread that got no CPU in its time is given that time again.
const GIVEN_ANEW: u32 = 2;
/// What the first execution of a block in a window waits for its code and for where it leads on, on average: 0.6 to 3 us in windows of
/// a program of 600 blocks, 250 ms apart (CaDiCaL without optimisation, Intel Granite Rapids).
const COLD_BLOCK: Nanos = Nanos(1000);
/// Less is not worth a stop.
const SHORTEST_WARM_UP: Duration = Duration::from_micros(100);
/// Another window follows where that was one part in so many of the time, or more.
const COLD_PART: u64 = 32;
/// A stop for new code takes a thread about so long: answers may take as long as the stops that are allowed.
const PER_MISS: Nanos = Nanos(50_000);
/// Room after the limit: a block checks once for all that it records.
const LARGEST_RECORD: usize = 8 * MOST_WORDS;

/// The limits of a burst.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Longest time in translated code.
    pub time: Duration,
    /// Blocks count: where the code of the window was cold, another one follows.
    pub counts: bool,
    /// Most bytes of records, at most `space::RECORD_BYTES`.
    pub bytes: usize,
    /// Most stops for code that is not translated yet.
    pub misses: u32,
    /// Blocks translated per such stop.
    pub ahead: usize,
    /// We have a CPU of our own: the thread asks for code in memory, and need not stop.
    pub listens: bool,
    /// Nanoseconds of a tick of the time-stamp counter.
    pub tick: f64,
    /// The thread only enters and leaves again, to measure the cost of that.
    pub is_empty: bool,
    /// A thread that its records slowed down stands still behind the burst: another one may follow in the same visit.
    pub stays: bool,
}

/// The outcome of a burst.
pub struct Ran {
    /// Why it ended.
    pub end: BurstEnd,
    /// From entering to leaving.
    pub elapsed: Nanos,
    /// CPU time of the thread meanwhile, by the given clock.
    pub cpu_time: Option<Nanos>,
    /// How long the thread was stopped, before and within.
    pub stand_still: Nanos,
    /// How often it was stopped.
    pub stops: u32,
    /// How often it went into translated code.
    pub entries: u32,
    /// How often it asked for code, and went on without a stop.
    pub answers: u32,
    /// The time in system calls behind which it went on.
    pub in_calls: Nanos,
    /// Minor faults in it, if they were counted.
    pub faults: Option<u32>,
    /// The thread's base of fs.
    pub fs_base: RemoteAddr,
    /// Words of records.
    pub words: usize,
    /// Where there was no code for the thread, and why.
    pub missing: Option<(RemoteAddr, Refused)>,
    /// What was read in front of a window and behind it, if all of that is known.
    pub read: Option<Read>,
    /// The counts, of a window that another one follows in the same visit.
    pub counts: Option<Counts>,
    /// The windows of the same visit before this one, in their order.
    pub before: Vec<Ran>,
}

/// A thread that runs translated code.
struct Inside<'c, 'v> {
    visit: Option<Visit<'v>>,
    cache: &'c mut Cache,
    meters: &'c Meters<'c>,
    /// What was read in front of the window.
    read: Option<Vec<i64>>,
    /// Its CPU time at its entry.
    used: Option<Nanos>,
    /// The same at its last stop, once it was read.
    used_by_then: Option<Option<Nanos>>,
    allowance: Allowance,
    began: Instant,
    /// When its time is over.
    until: Instant,
    /// How often its time was given again.
    given: u32,
    /// When it stopped last.
    stopped: Instant,
    stand_still: Nanos,
    stops: u32,
    entries: u32,
    misses: u32,
    answers: u32,
    /// How long it waited for them.
    asked: Nanos,
    /// What it asked for last and got.
    answered: Option<RemoteAddr>,
    /// What it may ask for next: what the last answers lead to.
    wanted: Vec<RemoteAddr>,
    /// Its stops at system calls can be made to be those of the program, and are followed by a stop behind them.
    catches_exits: bool,
    calls: u32,
    in_calls: Nanos,
    /// Words of records when it made its last call.
    words: usize,
    missing: Option<(RemoteAddr, Refused)>,
    /// The window only brings code into the caches, until its time is over.
    warms_up: bool,
    /// Windows that are over.
    before: Vec<Ran>,
}

/// The end of a burst.
struct Last {
    end: BurstEnd,
    /// The last stop, of a thread that still exists.
    stop: Option<Stop>,
    /// The meaning of the stop, if it was looked up.
    native: Option<Native>,
}

impl Last {
    const GONE: Last = Last { end: BurstEnd::Gone, stop: None, native: None };
}

/// What is read of a thread while it stands still.
pub struct Meters<'m> {
    /// Its CPU time: the kernel brings that up to date when a thread stops (update_curr in kernel/sched/fair.c), of a running one only with
    /// each tick.
    pub clock: &'m dyn Fn() -> Option<Nanos>,
    /// Its minor faults so far.
    pub faults: &'m dyn Fn() -> Option<u64>,
    /// Words of its memory, in front of a window and behind it.
    pub reads: Option<Arc<Reads>>,
}

/// Runs a burst on a stopped thread, which `visit.check` has found fit. The thread is let go, or comes back where it stays.
pub fn run<'v>(
    visit: Visit<'v>,
    cache: &mut Cache,
    code: &CodeMap,
    allowance: &Allowance,
    meters: &Meters<'_>,
    next_id: &mut u32,
) -> Result<(Ran, Option<Visit<'v>>), Refused> {
    let fs_base = visit.native.fs_base();
    let faults_before = (meters.faults)();
    let mut inside = Inside::enter(visit, cache, code, allowance, meters, next_id)?;
    let last = loop {
        let next = match inside.next_stop(code, next_id) {
            Continue(Stop::SystemCall) => inside.go_on(code, next_id),
            Continue(stop) => {
                Break(Last { end: BurstEnd::Stopped, stop: Some(stop), native: None })
            }
            Break(last) => Break(last),
        };
        let Break(mut last) = next else { continue };
        // Another stop at the same moment, by a signal or a system call, is answered elsewhere.
        if last.end == BurstEnd::Time && matches!(last.stop, Some(Stop::Interrupted)) {
            last.native = inside.native();
            let goes_on = |inside: &mut Inside<'_, '_>| {
                inside.goes_on_warmed_up() || inside.goes_on() || inside.goes_on_warm()
            };
            if last.native.is_some() && goes_on(&mut inside) {
                continue;
            }
        }
        break last;
    };
    let elapsed_inside = elapsed(inside.began);
    inside.cache.meets_new_code = inside.misses > 0 || inside.asked > Nanos(0);
    let cpu_time = last.stop.and_then(|_| inside.ran());
    let faults_after = last.stop.and_then(|_| (meters.faults)());
    let read = last.stop.and_then(|_| inside.read_again());
    let end = last.end;
    let in_code = elapsed_inside - inside.in_calls.min(elapsed_inside);
    let (words, visit) = inside.finish(last, in_code);
    let stood_still = if visit.is_some() { Nanos(0) } else { elapsed(inside.stopped) };
    let ran = Ran {
        end,
        elapsed: elapsed_inside,
        cpu_time,
        stand_still: inside.stand_still + stood_still,
        stops: inside.stops + 1,
        entries: inside.entries,
        answers: inside.answers,
        in_calls: inside.in_calls,
        faults: faults_before
            .zip(faults_after)
            .and_then(|(before, after)| u32::try_from(after.checked_sub(before)?).ok()),
        fs_base,
        words,
        missing: inside.missing,
        read,
        counts: None,
        before: std::mem::take(&mut inside.before),
    };
    Ok((ran, visit))
}

fn prepare_area(cache: &Cache, bytes: usize) {
    let space = &cache.space;
    let begin = space.area().0 + RECORDS as u64;
    let limit = (begin + bytes as u64).min(space.records_end()) - LARGEST_RECORD as u64;
    space.set_slot(area::LIMIT, limit);
    space.set_slot(area::NEGATIVE_LIMIT, limit.wrapping_neg());
    // What the last burst ended with.
    [area::HEARD, area::ASKED].into_iter().for_each(|slot| space.set_slot(slot, 0));
}

/// Registers that enter a block.
fn enter_at(cache: &Cache, native: &Registers, entry: RemoteAddr, pointer: u64) -> Registers {
    let mut registers = *native;
    if let Some(reserved) = cache.reserved() {
        cache.space.set_slot(area::RESERVED, native.general(reserved.number()));
        cache.space.set_slot(area::POINTER, pointer);
        registers.set_general(reserved.number(), pointer);
    }
    registers.set_gs_base(cache.space.area());
    registers.set_instruction_pointer(entry);
    registers.forget_system_call();
    registers
}

impl<'c, 'v> Inside<'c, 'v> {
    fn enter(
        mut visit: Visit<'v>,
        cache: &'c mut Cache,
        code: &CodeMap,
        allowance: &Allowance,
        meters: &'c Meters<'c>,
        next_id: &mut u32,
    ) -> Result<Inside<'c, 'v>, Refused> {
        let used = visit.used.or_else(meters.clock);
        let at = visit.native.instruction_pointer();
        let entry = match allowance.is_empty {
            true => cache.way_out(at),
            false => cache.enter(code, at, next_id)?,
        };
        prepare_area(cache, allowance.bytes);
        let read = meters.reads.as_ref().and_then(|reads| reads.read(cache.space.pid()));
        let records = cache.space.area().0 + RECORDS as u64;
        let translated = enter_at(cache, &visit.native, entry, records);
        translated.set(visit.tid).map_err(|_| Refused::NotRunning)?;
        let stand_still = elapsed(visit.since);
        // Read the clock before the call that releases the thread: on one CPU the thread may run first and be done
        // before we are back. Its burst would then appear to have taken no time.
        let began = Instant::now();
        if trace::resume_to_system_call(visit.tid, 0).is_err() {
            let _ = visit.native.set(visit.tid);
            return Err(Refused::NotRunning);
        }
        visit.since = began;
        let cold = Duration::from_nanos(cache.entered_before as u64 * COLD_BLOCK.0);
        let warms_up = allowance.counts && cold > allowance.time / COLD_PART as u32;
        let cold = cold.min(allowance.time / 4).max(SHORTEST_WARM_UP);
        Ok(Inside {
            visit: Some(visit),
            cache,
            meters,
            read,
            used,
            used_by_then: None,
            allowance: *allowance,
            began,
            until: began + if warms_up { cold } else { allowance.time },
            warms_up,
            given: 0,
            stopped: began,
            stand_still,
            stops: 1,
            entries: 1,
            misses: 0,
            answers: 0,
            asked: Nanos(0),
            answered: None,
            wanted: Vec::new(),
            catches_exits: true,
            calls: 0,
            in_calls: Nanos(0),
            words: 0,
            missing: None,
            before: Vec::new(),
        })
    }

    /// Waits for a stop that ends the burst or asks for code. When the time is over, we stop the thread ourselves.
    fn next_stop(&mut self, code: &CodeMap, next_id: &mut u32) -> ControlFlow<Last, Stop> {
        match self.listen(code, next_id) {
            Some(Happened::Stopped(stop)) => return Continue(stop),
            Some(Happened::Ended) => return Break(Last::GONE),
            Some(Happened::Nothing) | None => {}
        }
        match self.stop_within(self.until.saturating_duration_since(Instant::now())) {
            Some((stop, false)) => Continue(stop),
            Some((stop, true)) => {
                Break(Last { end: BurstEnd::Time, stop: Some(stop), native: None })
            }
            None => Break(Last::GONE),
        }
    }

    /// The next stop, and whether we asked for it, when this time was over. `None` if the thread is gone.
    fn stop_within(&mut self, time: Duration) -> Option<(Stop, bool)> {
        // An error means that no thread of this number is traced.
        match self.wait(time)? {
            Happened::Stopped(stop) => return Some((stop, false)),
            Happened::Ended => return None,
            Happened::Nothing => {}
        }
        // The kernel refuses this when another thread executed a program and now has the number.
        trace::interrupt(self.visit.as_ref()?.tid).ok()?;
        match self.wait(PATIENCE)? {
            Happened::Stopped(stop) => Some((stop, true)),
            Happened::Ended => None,
            Happened::Nothing => {
                self.abandon();
                None
            }
        }
    }

    /// Whether a thread that was stopped because its time is over continues with more time. It must be in translated
    /// code: in native code we would swallow a system call.
    fn goes_on(&mut self) -> bool {
        let Some(tid) = self.visit.as_ref().map(|visit| visit.tid) else { return false };
        if !self.has_time() || self.resume(tid).is_err() {
            return false;
        }
        self.stops += 1;
        self.entries += 1;
        self.note_stand_still();
        true
    }

    /// The same for a window behind one that only brought code into the caches.
    fn goes_on_warmed_up(&mut self) -> bool {
        std::mem::take(&mut self.warms_up) && self.counts_anew()
    }

    fn counts_anew(&mut self) -> bool {
        let counts = self.cache.take_counts();
        self.next_window(counts)
    }

    /// The same for a window that follows one whose code was cold. Most of that one's time went into fetching code: what ran once
    /// in a tenth of a second has left the caches, and a wait of 1 us for each of 500 blocks is half a millisecond.
    fn goes_on_warm(&mut self) -> bool {
        let Some(ran) = self.ran().filter(|_| self.before.is_empty() && self.allowance.counts)
        else {
            return false;
        };
        let cold = self.cache.entered_blocks() as u64 * COLD_BLOCK.0;
        cold > ran.0 / COLD_PART && self.counts_anew()
    }

    /// CPU time of a stopped thread since this window began.
    fn ran(&mut self) -> Option<Nanos> {
        let now = self.used_by_then();
        self.used.zip(now).map(|(before, now)| now - before)
    }

    /// Ends a window and begins the next one.
    fn next_window(&mut self, counts: Counts) -> bool {
        let Some(visit) = self.visit.as_ref() else { return false };
        let (tid, fs_base) = (visit.tid, visit.native.fs_base());
        let cpu_time = self.ran();
        self.before.push(Ran {
            end: BurstEnd::Time,
            elapsed: elapsed(self.began) - elapsed(self.stopped),
            cpu_time,
            stand_still: std::mem::take(&mut self.stand_still),
            stops: self.stops + 1,
            entries: std::mem::replace(&mut self.entries, 1),
            answers: std::mem::take(&mut self.answers),
            in_calls: std::mem::take(&mut self.in_calls),
            faults: None,
            fs_base,
            words: 0,
            missing: None,
            read: None,
            counts: Some(counts),
            before: Vec::new(),
        });
        self.read = self.values();
        if self.resume(tid).is_err() {
            return false;
        }
        self.note_stand_still();
        self.used = self.used_by_then.flatten();
        (self.stops, self.given, self.misses, self.calls, self.asked) = (1, 0, 0, 0, Nanos(0));
        self.began = Instant::now();
        self.until = self.began + self.allowance.time;
        true
    }

    /// What the stopped thread's words are.
    fn values(&self) -> Option<Vec<i64>> {
        self.meters.reads.as_ref()?.read(self.cache.space.pid())
    }

    /// Reads them again behind the window.
    fn read_again(&mut self) -> Option<Read> {
        let (begin, end) = (self.read.take()?, self.values()?);
        let used = self.used_by_then()?;
        Some(Read { reads: Arc::clone(self.meters.reads.as_ref()?), begin, end, used })
    }

    /// Lets a thread in translated code continue.
    fn resume(&self, tid: Tid) -> io::Result<()> {
        match self.catches_exits {
            true => trace::resume_to_system_call(tid, 0),
            false => trace::resume_and_catch_system_call(tid),
        }
    }

    /// Whether a stopped thread has time left. A thread that had a CPU for less than half of its time gets the unused
    /// time again.
    fn has_time(&mut self) -> bool {
        if Instant::now() < self.until {
            return true;
        }
        let time = self.allowance.time;
        let Some(ran) = self.ran().map(|ran| Duration::from_nanos(ran.0)) else { return false };
        let is_given = self.given < GIVEN_ANEW && ran <= time / 2;
        if is_given {
            self.given += 1;
            self.until = Instant::now() + (time - ran);
        }
        is_given
    }

    /// Whether it came to more new code than the burst is worth.
    fn has_missed_enough(&self) -> bool {
        u64::from(self.misses) + self.asked.0 / PER_MISS.0 > u64::from(self.allowance.misses)
    }

    /// Lets a thread continue. The limit is on time in translated code: next to other work each stop may take a tenth
    /// of a millisecond.
    fn note_stand_still(&mut self) {
        let stood_still = elapsed(self.stopped);
        self.stand_still += stood_still;
        self.until += Duration::from_nanos(stood_still.0);
    }

    fn wait(&mut self, time: Duration) -> Option<Happened> {
        let visit = self.visit.as_ref()?;
        let happened = visit.watch.alarm.wait(visit.tid, time).ok();
        self.stopped = Instant::now();
        self.used_by_then = None;
        happened
    }

    /// CPU time of the stopped thread.
    fn used_by_then(&mut self) -> Option<Nanos> {
        *self.used_by_then.get_or_insert_with(self.meters.clock)
    }

    /// Answers the system call by which translated code leaves: the thread continues where the program does, if that
    /// is allowed.
    fn go_on(&mut self, code: &CodeMap, next_id: &mut u32) -> ControlFlow<Last> {
        let last = |end, native| Last { end, stop: Some(Stop::SystemCall), native };
        let Some(native) = self.native() else { return Break(last(BurstEnd::Stopped, None)) };
        let pointer = self.cache.record_pointer(&native);
        let target = native.registers.instruction_pointer();
        self.cache.space.set_slot(area::ASKED, 0);
        // It stopped although it had its answer: that came late, because we have no CPU to ourselves.
        self.allowance.listens &= self.answered.take() != Some(target);
        if pointer + LARGEST_RECORD as u64 >= self.limit() || self.cache.has_used_up(target) {
            return Break(last(BurstEnd::Full, Some(native)));
        }
        self.misses += 1;
        self.cache.meets_new_code = true;
        if self.has_missed_enough() || !self.has_time() {
            return Break(last(BurstEnd::Untranslated, Some(native)));
        }
        // It may have come here because another thread has replaced the code.
        if !code.is_there(target) {
            return Break(last(BurstEnd::Untranslated, Some(native)));
        }
        let entry = match self.cache.enter(code, target, next_id) {
            Ok(entry) => entry,
            Err(refused) => {
                if refused == Refused::Instruction(Refusal::SystemCall)
                    && let Some(passed) = self.passes_call(&native, code, next_id)
                {
                    return passed;
                }
                self.missing = Some((target, refused));
                let end = match refused {
                    Refused::Instruction(_) => BurstEnd::Native,
                    _ => BurstEnd::Untranslated,
                };
                return Break(last(end, Some(native)));
            }
        };
        self.cache.translate_ahead(code, target, self.allowance.ahead, next_id);
        let Some(tid) = self.visit.as_ref().map(|visit| visit.tid) else {
            return Break(Last::GONE);
        };
        let next = enter_at(self.cache, &native.registers, entry, pointer);
        // The call without effect at which it left is not made. A stop behind it would be one more for each piece of new code.
        self.catches_exits = false;
        if next.set(tid).is_err() || trace::resume_and_catch_system_call(tid).is_err() {
            return Break(Last::GONE);
        }
        self.stops += 1;
        self.entries += 1;
        self.note_stand_still();
        Continue(())
    }

    fn abandon(&mut self) {
        if let Some(visit) = self.visit.take() {
            visit.abandon();
        }
    }

    fn native(&self) -> Option<Native> {
        let visit = self.visit.as_ref()?;
        self.cache.native(&Registers::of(visit.tid).ok()?)
    }

    fn limit(&self) -> u64 {
        self.cache.space.slot(area::LIMIT)
    }

    /// Gives the thread its native registers and lets it go, unless it stays after so long a burst; returns the words of
    /// records.
    fn finish(&mut self, last: Last, ran: Nanos) -> (usize, Option<Visit<'v>>) {
        let Some(stop) = last.stop else {
            // The thread is gone; the end of its records is unknown.
            if let Some(visit) = self.visit.take() {
                visit.forget();
            }
            return (0, None);
        };
        let native = last.native.or_else(|| self.native());
        let complete = |native: &Native| self.cache.complete_last_record(native);
        let words = native.as_ref().map_or(self.words, complete);
        let Some(mut visit) = self.visit.take() else { return (words, None) };
        let mut signal = signal_of(stop);
        match native {
            Some(native) => {
                const SIGBUS: i32 = 7;
                const SIGSEGV: i32 = 11;
                const SIGILL: i32 = 4;
                const SIGFPE: i32 = 8;
                visit.native = native.registers;
                // Nothing but the burst itself ended it.
                let is_over = matches!(
                    (last.end, stop),
                    (BurstEnd::Full, Stop::SystemCall) | (BurstEnd::Time, Stop::Interrupted)
                );
                let is_smooth = self.entries + self.answers == 1 + self.calls;
                if self.allowance.stays && is_over && is_smooth && looks_slow(words, ran) {
                    (visit.since, visit.used) = (self.stopped, self.used_by_then.flatten());
                    return (words, Some(visit));
                }
                let is_ours = |fault| {
                    self.cache.is_at_witness(&native, fault) || self.cache.is_at_our_clock(&native)
                };
                if matches!(signal, SIGBUS | SIGSEGV)
                    && trace::fault_address(visit.tid).is_some_and(is_ours)
                {
                    signal = 0;
                }
                if matches!(signal, SIGILL | SIGFPE) {
                    let at = native.registers.instruction_pointer();
                    let _ = trace::set_faulting_instruction(visit.tid, at);
                }
            }
            // The thread is not in translated code, so its registers are native already, except those that only we
            // set.
            None => {
                if let Ok(mut registers) = Registers::of(visit.tid) {
                    registers.set_gs_base(RemoteAddr(0));
                    visit.native = registers;
                }
            }
        }
        visit.leave(signal);
        (words, None)
    }
}

impl Drop for Inside<'_, '_> {
    fn drop(&mut self) {
        // Reached only on a panic of ours: the thread runs translated code and must get its native state back.
        let Some(tid) = self.visit.as_ref().map(|visit| visit.tid) else { return };
        let _ = trace::interrupt(tid);
        let last = match self.wait(PATIENCE) {
            Some(Happened::Stopped(stop)) => {
                Last { end: BurstEnd::Stopped, stop: Some(stop), native: None }
            }
            _ => Last::GONE,
        };
        let _ = self.finish(last, Nanos(0));
    }
}
