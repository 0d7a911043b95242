//! One burst: a stopped thread enters translated code, runs, and is given back its native state.
//!
//! What for: the loop of stops, and the promise that on every path out (time over, buffer full, signal, fault, system
//! call, death, panic of ours) the thread has exactly its native registers. What not: choosing thread and time
//! (`picker`, `budget`), what records mean (`drain`).

use std::time::{Duration, Instant};

use base::{Nanos, RemoteAddr};
use facts::BurstEnd;
use sys::trace::{self, Happened, Registers, Stop};
use x86::translate::{Iterations, MOST_WORDS, area};

use crate::cache::{Cache, Native};
use crate::code_map::CodeMap;
use crate::refused::Refused;
use crate::space::RECORDS;
use crate::visit::{Visit, elapsed, signal_of};

/// A thread that was asked to stop may have to wait for a CPU on a loaded machine, or for a page from a slow disk. After
/// this long the tracer gives up for good; the kernel then lets the thread go, and its translated code goes on alone.
const PATIENCE: Duration = Duration::from_secs(60);
/// Room behind the limit, which a block checks once for all that it records.
const LARGEST_RECORD: usize = 8 * MOST_WORDS;

/// What a burst may cost.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Longest time in translated code.
    pub time: Duration,
    /// Most bytes of records, at most `space::RECORD_BYTES`.
    pub bytes: usize,
    /// Most stops for code that is not translated yet.
    pub misses: u32,
    /// Blocks translated per such stop.
    pub ahead: usize,
}

/// What came of a burst.
pub struct Ran {
    /// Why it ended.
    pub end: BurstEnd,
    /// From entering to leaving.
    pub elapsed: Nanos,
    /// The thread stood still for this long, before and within.
    pub stand_still: Nanos,
    /// How often.
    pub stops: u32,
    /// The thread's base of fs.
    pub fs_base: RemoteAddr,
    /// Words of records.
    pub words: usize,
    /// Where the thread should have had code.
    pub missing: Option<(RemoteAddr, Refused)>,
}

/// A thread in translated code.
struct Inside<'c, 'v> {
    visit: Option<Visit<'v>>,
    cache: &'c mut Cache,
}

/// Runs a burst on a stopped thread, which `visit.check` has found fit. The thread is let go.
pub fn run(
    mut visit: Visit<'_>,
    cache: &mut Cache,
    code: &CodeMap,
    allowance: &Allowance,
    next_id: &mut u32,
) -> Result<Ran, Refused> {
    let begin = visit.native.instruction_pointer();
    let entry = cache.enter(code, begin, next_id)?;
    prepare_area(cache, allowance.bytes);
    let records = cache.space.area().0 + RECORDS as u64;
    let translated = enter_at(cache, &visit.native, entry, records);
    translated.set(visit.tid).map_err(|_| Refused::NotRunning)?;
    let fs_base = visit.native.fs_base();
    let mut stand_still = elapsed(visit.asked);
    let mut stops = 1;
    let tid = visit.tid;
    if trace::resume_and_catch_system_call(tid).is_err() {
        let _ = visit.native.set(tid);
        return Err(Refused::NotRunning);
    }
    let began = Instant::now();
    visit.asked = began;
    let mut inside = Inside { visit: Some(visit), cache };
    let mut misses = 0;
    let mut missing = None;
    // When the thread stopped last.
    let mut stopped;
    let (end, stop) = loop {
        let left = allowance.time.saturating_sub(began.elapsed());
        let happened = inside.wait(left);
        stopped = Instant::now();
        let stop = match happened {
            Some(Happened::Stopped(stop)) => stop,
            // An error says that nobody traces a thread of this number.
            Some(Happened::Ended) | None => break (BurstEnd::Gone, None),
            Some(Happened::Nothing) => {
                // Refused when another thread executed a program, and its thread has the number now.
                if trace::interrupt(tid).is_err() {
                    break (BurstEnd::Gone, None);
                }
                let happened = inside.wait(PATIENCE);
                stopped = Instant::now();
                match happened {
                    Some(Happened::Stopped(stop)) => break (BurstEnd::Time, Some(stop)),
                    Some(Happened::Ended) | None => break (BurstEnd::Gone, None),
                    Some(Happened::Nothing) => {
                        inside.abandon();
                        break (BurstEnd::Gone, None);
                    }
                }
            }
        };
        if stop != Stop::SystemCall {
            break (BurstEnd::Stopped, Some(stop));
        }
        let Some(native) = inside.native() else { break (BurstEnd::Stopped, Some(stop)) };
        let pointer = inside.record_pointer(&native);
        if pointer + LARGEST_RECORD as u64 >= inside.limit() {
            break (BurstEnd::Full, Some(stop));
        }
        let target = native.registers.instruction_pointer();
        misses += 1;
        if misses > allowance.misses || began.elapsed() >= allowance.time {
            break (BurstEnd::Untranslated, Some(stop));
        }
        let entry = match inside.cache.enter(code, target, next_id) {
            Ok(entry) => entry,
            Err(refused) => {
                missing = Some((target, refused));
                let end = match refused {
                    Refused::Instruction(_) => BurstEnd::Native,
                    _ => BurstEnd::Untranslated,
                };
                break (end, Some(stop));
            }
        };
        inside.cache.translate_ahead(code, target, allowance.ahead, next_id);
        let next = enter_at(inside.cache, &native.registers, entry, pointer);
        if next.set(tid).is_err() || trace::resume_and_catch_system_call(tid).is_err() {
            break (BurstEnd::Gone, None);
        }
        stops += 1;
        stand_still += elapsed(stopped);
    };
    let elapsed_inside = elapsed(began);
    let words = inside.finish(stop);
    stand_still += elapsed(stopped);
    Ok(Ran { end, elapsed: elapsed_inside, stand_still, stops: stops + 1, fs_base, words, missing })
}

fn prepare_area(cache: &Cache, bytes: usize) {
    let space = &cache.space;
    let begin = space.area().0 + RECORDS as u64;
    let limit = (begin + bytes as u64).min(space.records_end()) - LARGEST_RECORD as u64;
    space.set_slot(area::LIMIT, limit);
    space.set_slot(area::NEGATIVE_LIMIT, limit.wrapping_neg());
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

impl Inside<'_, '_> {
    fn wait(&self, time: Duration) -> Option<Happened> {
        let visit = self.visit.as_ref()?;
        visit.watch.alarm.wait(visit.tid, time).ok()
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

    /// The end of what was recorded.
    fn record_pointer(&self, native: &Native) -> u64 {
        let begin = self.cache.space.area().0 + RECORDS as u64;
        let Some(reserved) = self.cache.reserved() else { return begin };
        let pointer = match native.state.pointer_in_slot {
            true => Some(self.cache.space.slot(area::POINTER)),
            false => self.held(reserved),
        };
        // What the program's memory says is checked.
        pointer
            .filter(|value| (begin..=self.cache.space.records_end()).contains(value))
            .unwrap_or(begin)
    }

    fn held(&self, register: x86::Gpr) -> Option<u64> {
        let visit = self.visit.as_ref()?;
        Registers::of(visit.tid).ok().map(|registers| registers.general(register.number()))
    }

    /// Gives the thread its native registers and lets it go; returns the words of records.
    fn finish(&mut self, stop: Option<Stop>) -> usize {
        let Some(stop) = stop else {
            // It is gone; what it recorded ends nobody knows where.
            if let Some(visit) = self.visit.take() {
                visit.forget();
            }
            return 0;
        };
        let native = self.native();
        let words = native.as_ref().map_or(0, |native| self.complete_last_record(native));
        let Some(mut visit) = self.visit.take() else { return 0 };
        let signal = signal_of(stop);
        match native {
            Some(native) => {
                const SIGILL: i32 = 4;
                const SIGFPE: i32 = 8;
                visit.native = native.registers;
                if matches!(signal, SIGILL | SIGFPE) {
                    let at = native.registers.instruction_pointer();
                    let _ = trace::set_faulting_instruction(visit.tid, at);
                }
            }
            // Not in translated code: then it is native already, but for what only we set.
            None => {
                if let Ok(mut registers) = Registers::of(visit.tid) {
                    registers.set_gs_base(RemoteAddr(0));
                    visit.native = registers;
                }
            }
        }
        visit.leave(signal);
        words
    }

    /// The last record may belong to a block that was not run to its end: a loop's gets its number of iterations so
    /// far, another one is dropped.
    fn complete_last_record(&self, native: &Native) -> usize {
        let begin = self.cache.space.area().0 + RECORDS as u64;
        let pointer = self.record_pointer(native);
        let words = ((pointer - begin) / 8) as usize;
        let Some(block) = native.block.and_then(|number| self.cache.block(number)) else {
            return words;
        };
        if !native.state.recorded || block.layout.words == 0 || words < block.layout.words {
            return words;
        }
        let first = words - block.layout.words;
        let offset = |word: usize| RECORDS + 8 * (first + word);
        let memory = self.cache.space.memory();
        let inside = native.state.instruction;
        match &block.layout.iterations {
            Some(Iterations::Counter { register, start, end, stride, narrow, advanced })
                if native.state.looping =>
            {
                let before = inside.and_then(|at| advanced.get(at)).unwrap_or(&0);
                let now = native.registers.general(register.number()).wrapping_sub(*before);
                let begun = memory.load_u64(offset(*start)).unwrap_or(0);
                let done = iterations(begun, now, *stride, *narrow);
                memory.store_u64(offset(*end), begun.wrapping_add(done.wrapping_mul(*stride)));
                if done == 0 { first } else { words }
            }
            Some(Iterations::Word(word)) if native.state.looping => {
                // Counted at the begin of each iteration, of which the last may not be over.
                let begun = self.cache.reserved().and_then(|register| self.held(register));
                let done = begun.unwrap_or(0).saturating_sub(u64::from(inside.is_some()));
                memory.store_u64(offset(*word), done);
                if done == 0 { first } else { words }
            }
            _ if inside.is_some() => first,
            _ => words,
        }
    }
}

/// How many times `stride` leads from `start` to `end`.
#[must_use]
pub fn iterations(start: u64, end: u64, stride: u64, narrow: bool) -> u64 {
    if narrow {
        let distance = (end as u32).wrapping_sub(start as u32);
        let stride = stride as u32;
        let (distance, stride) = match stride.cast_signed() < 0 {
            true => (distance.wrapping_neg(), stride.wrapping_neg()),
            false => (distance, stride),
        };
        return u64::from(distance.checked_div(stride).unwrap_or(0));
    }
    let distance = end.wrapping_sub(start);
    let (distance, stride) = match stride.cast_signed() < 0 {
        true => (distance.wrapping_neg(), stride.wrapping_neg()),
        false => (distance, stride),
    };
    distance.checked_div(stride).unwrap_or(0)
}

impl Drop for Inside<'_, '_> {
    fn drop(&mut self) {
        // Only on a panic of ours: the thread runs translated code and must be given back.
        let Some(tid) = self.visit.as_ref().map(|visit| visit.tid) else { return };
        let _ = trace::interrupt(tid);
        match self.wait(PATIENCE) {
            Some(Happened::Stopped(stop)) => {
                self.finish(Some(stop));
            }
            _ => {
                self.finish(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::iterations;

    #[test]
    fn iterations_follow_from_both_ends() {
        assert_eq!(iterations(100, 164, 8, false), 8);
        assert_eq!(iterations(164, 100, 8u64.wrapping_neg(), false), 8);
        assert_eq!(iterations(u64::MAX - 7, 8, 8, false), 2);
        assert_eq!(iterations(0xffff_ffff, 3, 1, true), 4);
        assert_eq!(iterations(5, 1, u64::MAX, true), 4);
        assert_eq!(iterations(5, 9, 0, false), 0);
    }
}
