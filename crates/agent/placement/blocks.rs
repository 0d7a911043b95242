//! The program's large blocks: where they are, and what was done with them.
//!
//! What not: how pages move to their users (`next_touch`).
//!
//! One lock guards all. Nobody who holds it allocates, or accesses memory of a block, so nobody waits for himself.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use super::next_touch;
use super::settings::{OBJECT, OBJECT_AFTER, OBJECT_NODES, TOUCH};
use super::system::{self, quietly, sched_yield, syscall};

/// Smaller blocks stay where they are.
pub const LARGE: usize = 1 << 20;
pub const PAGE: usize = 4096;
/// More blocks than these stay where they are.
const MOST: usize = 4096;
const FILTER: usize = 1 << 16;

/// A block of the program.
#[derive(Clone, Copy)]
pub struct Block {
    /// What the program knows it by; 0 where there is none.
    pub address: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Whether it is the object that goes elsewhere, and has not gone yet.
    pub is_object: bool,
    /// What happens with its pages.
    pub pages: next_touch::Pages,
}

const NONE: Block =
    Block { address: 0, bytes: 0, is_object: false, pages: next_touch::Pages::NONE };

/// All of them.
pub struct Table {
    pub blocks: [Block; MOST],
    /// None lies beyond.
    pub used: usize,
}

struct Guarded(UnsafeCell<Table>);
// Safety: only `with_table` reaches it, under the lock.
unsafe impl Sync for Guarded {}
static TABLE: Guarded = Guarded(UnsafeCell::new(Table { blocks: [NONE; MOST], used: 0 }));
static LOCKED: AtomicBool = AtomicBool::new(false);
/// How many blocks there are by a hash of their address, so that a `free` of another one needs no lock.
static COUNTS: [AtomicU8; FILTER] = [const { AtomicU8::new(0) }; FILTER];
static BLOCKS: AtomicUsize = AtomicUsize::new(0);

/// Takes the lock.
pub fn lock() {
    while LOCKED.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        // Safety: no argument.
        unsafe { sched_yield() };
    }
}

/// Gives it back.
pub fn unlock() {
    LOCKED.store(false, Ordering::Release);
}

/// The table; only for who holds the lock.
///
/// # Safety
/// The caller holds the lock while it uses the table.
#[allow(clippy::mut_from_ref, reason = "the lock makes it the only one")]
pub unsafe fn table() -> &'static mut Table {
    // Safety: as the caller says.
    unsafe { &mut *TABLE.0.get() }
}

fn with_table<T>(work: impl FnOnce(&mut Table) -> T) -> T {
    quietly(|| {
        lock();
        // Safety: the lock is held.
        let result = work(unsafe { table() });
        unlock();
        result
    })
}

fn count(address: usize) -> &'static AtomicU8 {
    let hash = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    // Below FILTER by the shift.
    COUNTS.get(hash).unwrap_or(&COUNTS[0])
}

/// The program has a new block.
pub fn allocated(address: usize, bytes: usize) {
    let is_object = OBJECT.load(Ordering::Relaxed) == bytes as u64;
    if !TOUCH.load(Ordering::Relaxed) && !is_object {
        return;
    }
    let after = OBJECT_AFTER.load(Ordering::Relaxed);
    with_table(|table| {
        let mut used = table.blocks.iter_mut().take(table.used);
        let slot = match used.position(|block| block.address == 0) {
            Some(free) => free,
            None => {
                table.used = table.used.wrapping_add(1).min(MOST);
                table.used.wrapping_sub(1)
            }
        };
        let Some(block) = table.blocks.get_mut(slot).filter(|block| block.address == 0) else {
            return;
        };
        *block = Block { address, bytes, is_object, ..NONE };
        if is_object && after == 0 {
            place(block);
        }
        count(address).fetch_add(1, Ordering::Relaxed);
        BLOCKS.fetch_add(1, Ordering::Relaxed);
    });
    if is_object && after > 0 {
        next_touch::begin_later();
    }
}

/// Puts the object on its nodes.
pub fn place(block: &mut Block) {
    block.is_object = false;
    let mask = OBJECT_NODES.load(Ordering::Relaxed);
    let (start, end) = whole_pages(block);
    if start < end {
        // MPOL_BIND of one node, MPOL_INTERLEAVE over several.
        let mode: usize = if mask.is_power_of_two() { 2 } else { 3 };
        let bytes = end.wrapping_sub(start);
        // Safety: a policy for the program's own pages, which keep their content when they move.
        unsafe {
            syscall(system::MBIND, start, bytes, mode, &raw const mask, 65usize, system::MOVE)
        };
    }
}

/// The pages that hold nothing but the block.
pub fn whole_pages(block: &Block) -> (usize, usize) {
    let up = |at: usize| at.wrapping_add(PAGE - 1) & !(PAGE - 1);
    (up(block.address), block.address.wrapping_add(block.bytes) & !(PAGE - 1))
}

/// The program gives a block back; before that it is whole if it is `needed`. Gives its size, 0 for one that we do not know.
pub fn leaves(address: usize, needed: bool) -> usize {
    if address == 0
        || BLOCKS.load(Ordering::Relaxed) == 0
        || count(address).load(Ordering::Relaxed) == 0
    {
        return 0;
    }
    with_table(|table| {
        let mut used = table.blocks.iter_mut().take(table.used);
        let Some(block) = used.find(|block| block.address == address) else { return 0 };
        let bytes = block.bytes;
        forget(block, needed);
        bytes
    })
}

/// The program changes this part of its addresses: blocks there are whole first, and no longer ours unless `stay`.
pub fn changes(at: usize, bytes: usize, stay: bool) {
    if BLOCKS.load(Ordering::Relaxed) == 0 {
        return;
    }
    let end = at.wrapping_add(bytes);
    with_table(|table| {
        let used = table.used;
        for block in table.blocks.iter_mut().take(used) {
            let behind = block.address.wrapping_add(block.bytes);
            if block.address != 0 && block.address < end && at < behind {
                match stay {
                    true => whole(block, true),
                    false => forget(block, true),
                }
            }
        }
    });
}

fn whole(block: &mut Block, needed: bool) {
    let (start, _) = whole_pages(block);
    next_touch::end(&mut block.pages, start, needed);
}

fn forget(block: &mut Block, needed: bool) {
    whole(block, needed);
    count(block.address).fetch_sub(1, Ordering::Relaxed);
    BLOCKS.fetch_sub(1, Ordering::Relaxed);
    *block = NONE;
}
