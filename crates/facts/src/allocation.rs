//! What the allocation agent observed of a program's heap: exact counts for all of it, records for some blocks.
//!
//! What for: [`HeapTotal`] and [`SizeClass`] are counted at every call. [`Allocation`] and [`Release`] are of blocks
//! that were large enough, or drawn at random. [`HeapStack`], [`HeapFree`] and [`HeapLifetime`] are sums over every
//! block, where each was recorded. To find the block of an address at a time: the last [`Allocation`] of the process
//! before that time whose range contains the address and whose [`Release`] is not before it. What not: sums over
//! records, which need the blocks' probabilities ([`Allocation::sample_every`]); `analysis` computes them.

use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, StackId, Tid};

/// The function of the C library that allocated a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AllocationCall {
    /// `malloc`, and C++ `new`, which calls it.
    Malloc,
    /// `calloc`.
    Calloc,
    /// `realloc`, `reallocarray`: the block that it returned.
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
    /// The thread that allocated it.
    pub tid: Tid,
    /// Its first byte.
    pub address: RemoteAddr,
    /// Bytes asked for.
    pub size: Bytes,
    /// The allocation function that was called.
    pub call: AllocationCall,
    /// The allocating call chain: innermost frame outside the agent. `None` if no frame is known.
    pub stack: Option<StackId>,
    /// 0: every block of this size has a record. Else it was drawn at random with the probability 1 - exp(-size /
    /// sample_every).
    pub sample_every: Bytes,
}

/// The end of a recorded block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// When.
    pub time: Nanos,
    /// The block.
    pub allocation: AllocationId,
    /// The thread that freed it. Where every block is recorded, the thread's number is known once a large or drawn
    /// block of it was recorded; before, it may be that of an ended thread with the same slot.
    pub tid: Tid,
    /// The freeing call chain, if it was requested.
    pub stack: Option<StackId>,
}

/// Heap blocks of one process: all of them, or in a row of a result those since the row before. Sizes are those
/// requested. What was freed and what is live at once are absent where sizes were not remembered until the free, which
/// would slow down programs with many small blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeapTotal {
    /// The process.
    pub pid: Pid,
    /// Blocks allocated; `realloc` frees one and allocates one.
    pub allocations: u64,
    /// Bytes in them.
    pub allocated: Bytes,
    /// Blocks freed.
    pub frees: Option<u64>,
    /// Bytes in them.
    pub freed: Option<Bytes>,
    /// Bytes that were live when the process was forked from its parent.
    pub inherited: Bytes,
    /// Most bytes live at once.
    pub peak: Option<Bytes>,
    /// Bytes by which the true peak may be higher or lower: threads publish what they allocate some KiB late.
    pub peak_doubt: Bytes,
    /// Frees of blocks whose allocation was not observed.
    pub unknown_frees: u64,
    /// Blocks whose size could not be stored: live bytes are too high by these.
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
    /// Adds later counts of the same process to its row, or as a new row: peaks are the larger of both, the rest are
    /// sums. A result holds several rows of a process, so that little is lost if its writer is killed.
    pub fn add_to(self, totals: &mut Vec<HeapTotal>) {
        let plus = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        let Some(row) = totals.iter_mut().find(|row| row.pid == self.pid) else {
            return totals.push(self);
        };
        plus(&mut row.allocations, self.allocations);
        plus(&mut row.allocated.0, self.allocated.0);
        let frees = row.frees.zip(self.frees);
        row.frees = frees.map(|(sum, more)| sum.saturating_add(more));
        let freed = row.freed.zip(self.freed);
        row.freed = freed.map(|(sum, more)| Bytes(sum.0.saturating_add(more.0)));
        plus(&mut row.inherited.0, self.inherited.0);
        row.peak = row.peak.max(self.peak);
        row.peak_doubt = row.peak_doubt.max(self.peak_doubt);
        plus(&mut row.unknown_frees, self.unknown_frees);
        plus(&mut row.forgotten, self.forgotten);
    }
}

/// What happened since the row before to the blocks that one call chain allocated by one call: every block counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapStack {
    /// The time of this sum.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The allocating call chain, as in [`Allocation::stack`].
    pub stack: Option<StackId>,
    /// The function.
    pub call: AllocationCall,
    /// Blocks allocated.
    pub allocations: u64,
    /// Bytes in them.
    pub allocated: Bytes,
    /// Blocks freed that this call chain had allocated at any time.
    pub frees: u64,
    /// Bytes in them.
    pub freed: Bytes,
    /// Freed blocks that their allocating thread freed before it allocated another.
    pub temporary: u64,
    /// The sum of the lifetimes of the freed blocks.
    pub lifetime: Nanos,
    /// The largest block so far, not only since the row before.
    pub largest: Bytes,
    /// Its live bytes at the time of the process's peak so far; the last row counts.
    pub at_peak: Bytes,
}

/// Blocks that one call chain allocated and another freed, since the row before: every block counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapFree {
    /// The time of this sum.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The allocating call chain.
    pub stack: Option<StackId>,
    /// The freeing call chain.
    pub free_stack: Option<StackId>,
    /// Blocks freed.
    pub frees: u64,
    /// Bytes in them.
    pub freed: Bytes,
}

/// Blocks that one call chain allocated by one call and that lived about equally long, of those freed since the row
/// before: every block counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapLifetime {
    /// The time of this sum.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The allocating call chain, as in [`Allocation::stack`].
    pub stack: Option<StackId>,
    /// The function.
    pub call: AllocationCall,
    /// The longest lifetime of the class: 0, or a power of two less 1.
    pub longest: Nanos,
    /// Blocks freed.
    pub frees: u64,
    /// Bytes in them.
    pub freed: Bytes,
    /// Freed blocks that count as [`HeapStack::temporary`].
    pub temporary: u64,
}
