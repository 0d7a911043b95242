//! Which addresses above the stack pointer are readable: a wrong rule or a stray rbp must not make the program fault.
//!
//! How: a thread's own stack is one mapping. It ends at the thread's control block, which the C library puts at the
//! upper end of the stacks that it creates; the first thread's ends at what the kernel put above `main` (AT_RANDOM of
//! getauxval(3)). The kernel is asked once, page by page, whether all of it up to there is readable; that stays true
//! while the thread runs. The program may unmap other stacks (coroutines, signal stacks) at any time: their pages are
//! tested again in every walk. What not: the content of stacks (`step`).

use core::sync::atomic::{AtomicUsize, Ordering};

use super::{kernel, libc};

const PAGE: usize = 4096;
/// The end of a stack is searched up to this distance above the stack pointer: 8 MiB are usual, 64 are not.
const MOST_STACK: usize = 64 << 20;
/// Most bytes of another stack that are read.
const MOST_FOREIGN: usize = 1 << 20;

/// The latest end of the first thread's stack; 0 if unknown.
static FIRST_STACK_END: AtomicUsize = AtomicUsize::new(0);

/// Finds the end of the first thread's stack.
pub fn find_first_stack() {
    // Safety: reads the auxiliary vector.
    let end = unsafe { libc::getauxval(libc::AT_RANDOM) };
    FIRST_STACK_END.store(end, Ordering::Relaxed);
}

/// How many of `wanted` bytes above `sp` lie before the end of a stack. Neither end lies inside of a stack that the program
/// created itself, so no frame is cut off.
pub fn before_end(sp: usize, control_block: usize, wanted: usize) -> usize {
    ends_above(sp, control_block).fold(wanted, |least, end| least.min(end - sp))
}

/// Where stacks of the C library and of the kernel end above `sp`.
fn ends_above(sp: usize, control_block: usize) -> impl Iterator<Item = usize> {
    let ends = [control_block, FIRST_STACK_END.load(Ordering::Relaxed)];
    ends.into_iter().filter(move |end| *end > sp)
}

/// The known stacks of a thread. All zero at first.
pub struct Range {
    /// All of this range is readable while the thread runs.
    low: usize,
    high: usize,
    /// Stack pointers in this range do not belong to the thread's own stack: there was a hole above them.
    foreign_low: usize,
    foreign_high: usize,
}

/// The readable range of one walk: from the stack pointer to `end`.
pub struct Readable {
    low: usize,
    end: usize,
    may_grow: bool,
}

impl Range {
    /// The readable range above `sp` for a thread with this control block.
    #[inline(always)]
    pub fn above(&mut self, sp: usize, control_block: usize) -> Readable {
        if sp >= self.low && sp < self.high {
            return Readable { low: sp, end: self.high, may_grow: false };
        }
        self.find(sp, control_block)
    }

    #[cold]
    #[inline(never)]
    fn find(&mut self, sp: usize, control_block: usize) -> Readable {
        let page_end = (sp & !(PAGE - 1)).wrapping_add(PAGE);
        let foreign = Readable { low: sp, end: page_end, may_grow: true };
        if sp >= self.foreign_low && sp < self.foreign_high {
            return foreign;
        }
        let near = ends_above(sp, control_block).filter(|end| *end - sp <= MOST_STACK);
        let Some(end) = near.min() else { return foreign };
        // Pages of the same stack that were tested earlier need no test.
        let until = if end == self.high && self.low > sp { self.low } else { end };
        let mut page = page_end;
        while page < until {
            if !kernel::is_readable(page) {
                (self.foreign_low, self.foreign_high) = (page_end - PAGE, page);
                return foreign;
            }
            page += PAGE;
        }
        (self.low, self.high) = (page_end - PAGE, end);
        Readable { low: sp, end, may_grow: false }
    }
}

impl Readable {
    /// Whether it is the thread's own stack, which stays mapped as long as the thread runs.
    #[inline(always)]
    pub fn is_own(&self) -> bool {
        !self.may_grow
    }

    /// The word at `address`, if it lies above the stack pointer and can be read.
    #[inline(always)]
    pub fn word(&mut self, address: usize) -> Option<usize> {
        let inside = address >= self.low && address < self.end && self.end - address >= 8;
        if !inside && !self.grow(address) {
            return None;
        }
        // Safety: in a stack that this thread runs on, above its stack pointer, as just checked; memory that other code may
        // change, but which stays mapped while we are here.
        Some(unsafe { (address as *const usize).read_unaligned() })
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, address: usize) -> bool {
        if !self.may_grow || address < self.low || address - self.low > MOST_FOREIGN {
            return false;
        }
        while self.end - 8 < address {
            if !kernel::is_readable(self.end) {
                return false;
            }
            self.end += PAGE;
        }
        true
    }
}
