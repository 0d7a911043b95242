//! Code for which a thread need not stop: it asks for it in memory, and waits for the answer.
//!
//! What for: a stop and the two wake-ups that belong to it take 40 to 100 us in a virtual machine, as much as the translation of
//! several blocks, and a program of much code comes to thousands of them. Where the tracer has a CPU of its own, it looks for the
//! question and answers it while the thread looks for the answer (`x86::translate::common_code`). Without an answer in time, the
//! thread stops, as ever. What not: what else may end a burst at such a place (`run`): then the answer is to stop.
//!
//! The thread looks for about a millisecond. If the tracer dies meanwhile, the thread goes on natively after that.

use std::time::{Duration, Instant};

use base::{Nanos, RemoteAddr};
use sys::kernels::read_tsc;
use sys::trace::Happened;
use x86::translate::area;

use super::{Inside, LARGEST_RECORD};
use crate::code_map::CodeMap;
use crate::visit::elapsed;

/// A thread that has asked for nothing for so long is in code that it knows: we sleep until it stops.
const SILENCE: Duration = Duration::from_micros(150);
/// So long after an answer, what comes next is translated in advance: a thread that asks at once would wait for it.
const PAUSE: Duration = Duration::from_micros(3);
/// Looks for a question between two looks for a stop, which are system calls.
const LOOKS: u32 = 16;

impl Inside<'_, '_> {
    /// Answers what the thread asks, until it has asked nothing for a while or its time is over. Returns what happened, if it stopped.
    pub(super) fn listen(&mut self, code: &CodeMap, next_id: &mut u32) -> Option<Happened> {
        if !self.allowance.listens || !self.cache.meets_new_code {
            return None;
        }
        let tid = self.visit.as_ref()?.tid;
        self.cache.space.set_slot(area::HEARD, 1);
        let mut since = Instant::now();
        let happened = loop {
            if self.is_asked() {
                self.answer(code, next_id);
                since = Instant::now();
            }
            match self.visit.as_ref()?.watch.alarm.wait(tid, Duration::ZERO) {
                Ok(Happened::Nothing) => {}
                Ok(happened) => {
                    self.stopped = Instant::now();
                    self.used_by_then = None;
                    break Some(happened);
                }
                Err(_) => break Some(Happened::Ended),
            }
            let now = Instant::now();
            let quiet = now.duration_since(since);
            if quiet > SILENCE || now >= self.until || self.has_missed_enough() {
                break None;
            }
            if quiet > PAUSE
                && let Some(at) = self.wanted.pop()
                && !self.cache.has(at)
            {
                self.translate(code, at, next_id);
            }
        };
        self.cache.space.set_slot(area::HEARD, 0);
        // It may have asked before it saw that, and would look for an answer for as long as it does.
        if happened.is_none() && self.is_asked() {
            self.answer(code, next_id);
        }
        happened
    }

    fn is_asked(&self) -> bool {
        (0..LOOKS).any(|_| {
            std::hint::spin_loop();
            self.cache.space.slot(area::ASKED) != 0
        })
    }

    fn answer(&mut self, code: &CodeMap, next_id: &mut u32) {
        let asked = self.cache.space.slot(area::ASKED) as u32;
        self.cache.space.set_slot(area::ASKED, 0);
        let entry = self.answer_to_last(code, next_id);
        let answer = entry.map_or(area::CALL, |(_, entry)| entry.0);
        self.cache.space.set_slot(area::ANSWER, answer);
        self.answered = entry.map(|(target, _)| target);
        // From the question, not from when we saw it: we may have waited for a CPU.
        let ticks = (read_tsc().unwrap_or(0) as u32).wrapping_sub(asked);
        // The stamp comes from the program's memory.
        let took = Nanos((f64::from(ticks) * self.allowance.tick) as u64).min(elapsed(self.began));
        self.answers += u32::from(answer != area::CALL);
        self.asked += took;
        // As if it had stood still.
        self.stand_still += took;
        self.until += Duration::from_nanos(took.0);
        self.used = self.used.map(|used| used + took);
    }

    /// The code that the thread asks for, and where that is. `None` where a stop decides.
    fn answer_to_last(
        &mut self,
        code: &CodeMap,
        next_id: &mut u32,
    ) -> Option<(RemoteAddr, RemoteAddr)> {
        let target = RemoteAddr(self.cache.space.slot(area::TARGET));
        let is_full = self.cache.pointer_in_slot() + LARGEST_RECORD as u64 >= self.limit();
        let is_over = self.has_missed_enough() || Instant::now() >= self.until;
        if is_full || is_over || self.cache.has_used_up(target) || !code.is_there(target) {
            return None;
        }
        Some((target, self.translate(code, target, next_id)?))
    }

    /// Translates a block, and notes what it leads to.
    fn translate(
        &mut self,
        code: &CodeMap,
        at: RemoteAddr,
        next_id: &mut u32,
    ) -> Option<RemoteAddr> {
        let is_new = !self.cache.has(at);
        let entry = self.cache.enter(code, at, next_id).ok()?;
        if is_new {
            self.wanted = self.cache.leads_to(at);
        }
        Some(entry)
    }
}
