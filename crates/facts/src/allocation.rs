//! What the allocation agent saw of a program's heap: exact counts for all of it, records for some blocks.
//!
//! What for: [`HeapTotal`] and [`SizeClass`] are counted at every call; [`Allocation`] and [`Release`] are of blocks that
//! were large enough, or drawn at random; [`HeapStack`],
//! [`HeapFree`] and [`HeapLifetime`] are sums over every block, where each was recorded. An address at a time leads to the block that was there: the last [`Allocation`] of
//! the process before that time whose range holds it and whose [`Release`] is not before it.
//! What not: sums over records, which need the blocks' chances ([`Allocation::sample_every`]); that is `analysis`.

use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, StackId, Tid};

/// The function of the C library that a block was asked from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AllocationCall {
    /// `malloc`, and C++ `new`, which calls it.
    Malloc,
    /// `calloc`.
    Calloc,
    /// `realloc`, `reallocarray`: the block it gave.
    Realloc,
    /// `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`.
    Aligned,
    /// A function of libpmemobj: the block lies in a pool.
    Persistent,
}

/// A block that was allocated and has a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The id other facts use. Ids rise; some may be missing.
    pub id: AllocationId,
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread that asked for it.
    pub tid: Tid,
    /// Its first byte.
    pub address: RemoteAddr,
    /// Bytes asked for.
    pub size: Bytes,
    /// How it was asked for.
    pub call: AllocationCall,
    /// Who asked: innermost frame outside of the agent. `None` when no frame could be had.
    pub stack: Option<StackId>,
    /// 0: every block of this size has a record. Else it was drawn at random with the probability
    /// 1 - exp(-size / sample_every).
    pub sample_every: Bytes,
}

/// The end of a recorded block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// When.
    pub time: Nanos,
    /// The block.
    pub allocation: AllocationId,
    /// The thread that freed it. Where every block is recorded a thread has a name once a large or drawn block of it was
    /// recorded; before, it may be an ended one whose stack it has.
    pub tid: Tid,
    /// Who freed it, where that was asked for.
    pub stack: Option<StackId>,
}

/// Heap blocks of one process: all of them, or in a row of a result those since the row before. Sizes are those asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeapTotal {
    /// The process.
    pub pid: Pid,
    /// Blocks allocated; `realloc` frees one and allocates one.
    pub allocations: u64,
    /// Bytes in them.
    pub allocated: Bytes,
    /// Blocks freed.
    pub frees: u64,
    /// Bytes in them.
    pub freed: Bytes,
    /// Bytes that were live when the process was forked from its parent.
    pub inherited: Bytes,
    /// Most bytes live at once.
    pub peak: Bytes,
    /// By how much the true peak may be higher or lower: threads tell of what they allocate some KiB late.
    pub peak_doubt: Bytes,
    /// Frees of blocks that nobody saw being allocated.
    pub unknown_frees: u64,
    /// Blocks whose size could not be remembered: live bytes are that much too high.
    pub forgotten: u64,
}

/// The blocks of one process whose size has as many binary digits as `largest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeClass {
    /// The process.
    pub pid: Pid,
    /// The largest size of the class: 0, or a power of two less 1.
    pub largest: Bytes,
    /// Blocks allocated.
    pub allocations: u64,
    /// Bytes in them.
    pub allocated: Bytes,
}

impl HeapTotal {
    /// Adds what was counted of the same process later to the row of it, or as a new one: peaks are the larger, the rest are
    /// sums. A result holds several rows of a process, so that little is lost when its writer is killed.
    pub fn add_to(self, totals: &mut Vec<HeapTotal>) {
        let plus = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        let Some(row) = totals.iter_mut().find(|row| row.pid == self.pid) else {
            return totals.push(self);
        };
        plus(&mut row.allocations, self.allocations);
        plus(&mut row.allocated.0, self.allocated.0);
        plus(&mut row.frees, self.frees);
        plus(&mut row.freed.0, self.freed.0);
        plus(&mut row.inherited.0, self.inherited.0);
        row.peak = row.peak.max(self.peak);
        row.peak_doubt = row.peak_doubt.max(self.peak_doubt);
        plus(&mut row.unknown_frees, self.unknown_frees);
        plus(&mut row.forgotten, self.forgotten);
    }
}

/// What became of the blocks that one call chain asked for by one call since the row before: every block counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapStack {
    /// When this was summed up.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// Who asked, as in [`Allocation::stack`].
    pub stack: Option<StackId>,
    /// How.
    pub call: AllocationCall,
    /// Blocks allocated.
    pub allocations: u64,
    /// Bytes in them.
    pub allocated: Bytes,
    /// Blocks freed that had been asked for so, whenever that was.
    pub frees: u64,
    /// Bytes in them.
    pub freed: Bytes,
    /// Of the freed blocks those that the thread which asked for them freed before it asked for another.
    pub temporary: u64,
    /// The time that the freed blocks had lived, added up.
    pub lifetime: Nanos,
    /// The largest block so far, not only since the row before.
    pub largest: Bytes,
    /// Bytes of it live when those of the process were at their peak so far; the last row has it.
    pub at_peak: Bytes,
}

/// Blocks that one call chain asked for and another freed, since the row before: every block counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapFree {
    /// When this was summed up.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// Who asked.
    pub stack: Option<StackId>,
    /// Who freed.
    pub free_stack: Option<StackId>,
    /// Blocks freed.
    pub frees: u64,
    /// Bytes in them.
    pub freed: Bytes,
}

/// Blocks that one call chain asked for by one call and that lived about so long, of those freed since the row before: every
/// block counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapLifetime {
    /// When this was summed up.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// Who asked, as in [`Allocation::stack`].
    pub stack: Option<StackId>,
    /// How.
    pub call: AllocationCall,
    /// The longest lifetime of the class: 0, or a power of two less 1.
    pub longest: Nanos,
    /// Blocks freed.
    pub frees: u64,
    /// Bytes in them.
    pub freed: Bytes,
    /// Of the freed blocks those that count as [`HeapStack::temporary`].
    pub temporary: u64,
}
