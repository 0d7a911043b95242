//! Dependent loads in random order: the latency of wherever the data lies.
//!
//! What for: each slot holds the address of the next one. The slots form one cycle (Sattolo's algorithm), so a walk
//! of n steps touches n different slots, and no prefetcher can know the next. A step costs one load-to-use latency.
//! What not: timing, choice of sizes.

use base::Bytes;

use super::{Buffer, page_bytes};

/// A permutation of `0..slots` that is one single cycle: `next[i]` follows `i`.
#[derive(Clone, Debug)]
pub struct Cycle {
    next: Vec<u32>,
}

impl Cycle {
    /// A random cycle (Sattolo 1986, "An algorithm to generate a random cyclic permutation"), the same for the
    /// same seed. Costs 4 bytes and one random access per slot: about 0.2 s for 8 million slots.
    #[must_use]
    pub fn random(slots: u32, seed: u64) -> Cycle {
        let mut next: Vec<u32> = (0..slots.max(1)).collect();
        let mut state = seed | 1;
        for i in (1..next.len()).rev() {
            // xorshift64* (Vigna 2016); the high half scaled to 0..i. Excluding i itself makes it one cycle instead
            // of any permutation.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let random = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
            next.swap(i, ((random * i as u64) >> 32) as usize);
        }
        Cycle { next }
    }

    /// How many slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.next.len() as u32
    }
}

/// Distance between slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spacing {
    /// One slot per 64-byte line: the data caches are what is measured.
    Line,
    /// One slot per base page, in a different line of each page so that they spread over the cache's sets: with
    /// few slots the data stay cached and the TLBs are what is measured.
    Page,
}

const LINE_BYTES: u64 = 64;

impl Spacing {
    /// Byte offset of slot `index`.
    fn offset(self, index: u64) -> u64 {
        match self {
            Spacing::Line => index * LINE_BYTES,
            Spacing::Page => {
                let page = page_bytes().0;
                index * page + (index * LINE_BYTES) % page
            }
        }
    }

    /// Bytes that `slots` slots span.
    #[must_use]
    pub fn span(self, slots: u32) -> Bytes {
        match self {
            Spacing::Line => Bytes(u64::from(slots) * LINE_BYTES),
            Spacing::Page => Bytes(u64::from(slots) * page_bytes().0),
        }
    }
}

/// A cycle laid out in memory, with our position on it.
#[derive(Debug)]
pub struct Chase<'buffer> {
    /// Address of the slot to load next. Points into the buffer borrowed for `'buffer`, which nobody else can
    /// touch as long as this value lives.
    position: *const u64,
    slots: u32,
    buffer: std::marker::PhantomData<&'buffer mut Buffer>,
}

impl<'buffer> Chase<'buffer> {
    /// Writes `cycle` into `buffer` at the given spacing; `None` when the buffer is too small for it.
    #[must_use]
    pub fn lay(
        buffer: &'buffer mut Buffer,
        cycle: &Cycle,
        spacing: Spacing,
    ) -> Option<Chase<'buffer>> {
        if spacing.span(cycle.slots()) > buffer.size() {
            return None;
        }
        let start = buffer.words_mut().as_mut_ptr();
        for (index, next) in cycle.next.iter().enumerate() {
            let here = spacing.offset(index as u64) as usize / 8;
            let there = spacing.offset(u64::from(*next)) as usize / 8;
            // Safety: both offsets are below the span, which was checked against the buffer's size; the buffer
            // is borrowed exclusively for as long as the chase lives.
            unsafe { start.add(here).write(start.add(there).expose_provenance() as u64) };
        }
        Some(Chase { position: start, slots: cycle.slots(), buffer: std::marker::PhantomData })
    }

    /// How many different slots the cycle has.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Follows the cycle for at least `loads` loads (rounded up to 16) and returns how many it made. The next
    /// walk goes on where this one ended.
    pub fn walk(&mut self, loads: u64) -> u64 {
        let rounds = loads.div_ceil(LOADS_PER_ROUND).max(1);
        // Safety: `position` is a slot of our exclusively borrowed buffer and every slot holds the address of
        // another one, all written by `lay`; the borrow keeps others from changing them.
        self.position = unsafe { follow(self.position, rounds) };
        rounds * LOADS_PER_ROUND
    }

    /// Byte offset of the current position in the buffer; for tests of the cycle's length.
    #[cfg(test)]
    fn address(&self) -> usize {
        self.position.addr()
    }
}

/// Loads per turn of the unrolled loop: its two counting instructions hide behind the loads.
const LOADS_PER_ROUND: u64 = 16;

/// Follows 16 x `rounds` pointers.
///
/// # Safety
/// `position` and everything reachable from it must be readable, aligned pointer slots.
#[cfg(target_arch = "x86_64")]
unsafe fn follow(mut position: *const u64, mut rounds: u64) -> *const u64 {
    // Safety: the caller vouches for every address loaded; flags and the two registers are declared; nothing is
    // written and the stack is not used.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 16",
            "mov {position}, [{position}]",
            ".endr",
            "dec {rounds}",
            "jnz 2b",
            position = inout(reg) position,
            rounds = inout(reg) rounds,
            options(nostack, readonly),
        );
    }
    let _ = rounds;
    position
}

/// Follows 16 x `rounds` pointers.
///
/// # Safety
/// `position` and everything reachable from it must be readable, aligned pointer slots.
#[cfg(target_arch = "aarch64")]
unsafe fn follow(mut position: *const u64, mut rounds: u64) -> *const u64 {
    // Safety: as above.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 16",
            "ldr {position}, [{position}]",
            ".endr",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            position = inout(reg) position,
            rounds = inout(reg) rounds,
            options(nostack, readonly),
        );
    }
    let _ = rounds;
    position
}

#[cfg(test)]
mod tests {
    use super::super::Pages;
    use super::*;

    #[test]
    fn the_cycle_visits_every_slot_once() {
        for slots in [1, 2, 3, 17, 1000] {
            let cycle = Cycle::random(slots, 7);
            let (mut at, mut steps) = (0_usize, 0);
            loop {
                at = cycle.next[at] as usize;
                steps += 1;
                if at == 0 {
                    break;
                }
            }
            assert_eq!(steps, slots, "one single cycle");
        }
    }

    #[test]
    fn a_full_lap_comes_home() {
        let mut buffer = Buffer::map(Bytes(2 << 20), Pages::Base).expect("2 MiB can be mapped");
        for (slots, spacing) in [(512, Spacing::Line), (64, Spacing::Page)] {
            let mut chase =
                Chase::lay(&mut buffer, &Cycle::random(slots, 3), spacing).expect("it fits");
            let home = chase.address();
            assert_eq!(chase.walk(u64::from(slots) - 16), u64::from(slots) - 16);
            assert_ne!(chase.address(), home, "not before the lap is full");
            chase.walk(16);
            assert_eq!(chase.address(), home);
        }
    }

    #[test]
    fn a_cycle_larger_than_the_buffer_is_refused() {
        let mut buffer = Buffer::map(Bytes(2 << 20), Pages::Base).expect("2 MiB can be mapped");
        assert!(Chase::lay(&mut buffer, &Cycle::random(513, 1), Spacing::Page).is_none());
    }
}
