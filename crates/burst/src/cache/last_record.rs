//! The end of what a burst recorded.
//!
//! What for: a thread stops anywhere, also in the middle of a block whose record is already open. What not: decoding
//! (`drain`). Assumption: values in the program's memory and registers are untrusted and are checked.

use x86::translate::{Iterations, area};

use super::{Cache, Native};
use crate::space::RECORDS;

impl Cache {
    /// The end of what was recorded.
    #[must_use]
    pub fn record_pointer(&self, native: &Native) -> u64 {
        match self.reserved() {
            Some(reserved) if !native.state.pointer_in_slot => {
                self.checked(native.translated.general(reserved.number()))
            }
            _ => self.pointer_in_slot(),
        }
    }

    /// The same, of a thread at an exit.
    #[must_use]
    pub fn pointer_in_slot(&self) -> u64 {
        self.checked(self.reserved().map_or(0, |_| self.space.slot(area::POINTER)))
    }

    /// The pointer comes from the program's memory: it is used only if it lies in the buffer.
    fn checked(&self, pointer: u64) -> u64 {
        let begin = self.space.area().0 + RECORDS as u64;
        if (begin..=self.space.records_end()).contains(&pointer) { pointer } else { begin }
    }

    /// Completes or drops the last record, whose block may not have run to its end: a loop gets its number of
    /// iterations so far, any other record is dropped.
    pub fn complete_last_record(&self, native: &Native) -> usize {
        let begin = self.space.area().0 + RECORDS as u64;
        let pointer = self.record_pointer(native);
        let words = ((pointer - begin) / 8) as usize;
        let Some(block) = native.block.and_then(|number| self.block(number)) else { return words };
        if !native.state.recorded || block.layout.words == 0 || words < block.layout.words {
            return words;
        }
        let first = words - block.layout.words;
        let offset = |word: usize| RECORDS + 8 * (first + word);
        let memory = self.space.memory();
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
                // The count is made at the start of an iteration, so the last iteration may be incomplete.
                let held = |register: x86::Gpr| native.translated.general(register.number());
                let begun = self.reserved().map_or(0, held);
                let done = begun.saturating_sub(u64::from(inside.is_some()));
                memory.store_u64(offset(*word), done);
                if done == 0 { first } else { words }
            }
            _ if inside.is_some() => first,
            _ => words,
        }
    }
}

/// The number of steps of `stride` from `start` to `end`.
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
