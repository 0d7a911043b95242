//! The requested size of each remembered block: a byte of shadow per 8 bytes of memory. Where live bytes are counted, every
//! living block is remembered, else those that have a record.
//!
//! What for: the requested size is known at `malloc` and not at `free`, where it is needed for live bytes.
//! `malloc_usable_size` is up to 24 bytes more, and a header before the block would change the program's memory. What
//! not: blocks above the addresses of `arch::ADDRESS_BITS`, which no allocator gets without an explicit request.
//!
//! ```text
//! byte of a block's first 8   0          unknown: not observed, or freed
//!                             1..=241    size + 1
//!                             242..=250  size + 242, of a block that has a record
//!                             251        of 9 to 240 bytes, and has a record; the size is the next byte
//!                             252        of more; the size is in the next 8 bytes
//!                             253        likewise, of a block that has a record
//! ```
//! The further bytes are in the block's own shadow: 9 bytes have two bytes of it, 241 have 31. Behind a piece of shadow stands
//! for each page of 4 KiB how many blocks with a record begin in it. That table is 512 times denser, so it stays in the
//! caches: a free of a block without record reads no shadow.
//!
//! Cost: where every block is remembered, an eighth of the pages of a heap of small blocks; one page for a large block. Pieces for 64 MiB of memory
//! are mapped at their first block, not reserved as a whole, so that limits of address space and `mlockall` keep
//! their meaning. The common case, a block of up to 240 bytes without record, is one branch.
//!
//! Who may write: the thread that owns the block, from its allocation until the allocator gets it back.

use core::sync::atomic::{AtomicPtr, AtomicU16, Ordering};

const REGION_BITS: u32 = 26;
const PIECE_BYTES: usize = 1 << (REGION_BITS - 3);
/// Room after the end of a piece: for the size of a block that begins right before the end.
const BEHIND: usize = 4096;
const PAGE_BITS: u32 = 12;
/// Bytes of the counts of blocks with a record, behind that: an `AtomicU16` per page.
const COUNT_BYTES: usize = 2 << (REGION_BITS - PAGE_BITS);
const MAPPED_BYTES: usize = PIECE_BYTES + BEHIND + COUNT_BYTES;
const REGIONS: usize = 1 << (super::arch::ADDRESS_BITS - REGION_BITS);

static PIECES: [AtomicPtr<u8>; REGIONS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; REGIONS];

/// Largest size that fits into the first byte.
const SHORT: u64 = 240;
/// Largest size that fits into the first byte with the flag that there is a record.
const TINY: u64 = 8;
const LAST_SHORT: u8 = 241;
const TINY_RECORDED: u8 = 242;
const SHORT_RECORDED: u8 = 251;
const LONG: u8 = 252;
const LONG_RECORDED: u8 = 253;

/// The stored properties of a block.
#[derive(Clone, Copy)]
pub struct Block {
    /// Bytes asked for.
    pub size: u64,
    /// Whether it has a record.
    pub recorded: bool,
}

#[inline(always)]
fn piece(address: usize) -> *mut u8 {
    PIECES
        .get(address >> REGION_BITS)
        .map_or(core::ptr::null_mut(), |piece| piece.load(Ordering::Acquire))
}

#[inline(always)]
fn byte_of(piece: *mut u8, address: usize) -> *mut u8 {
    piece.wrapping_add((address >> 3) & (PIECE_BYTES - 1))
}

/// How many blocks with a record begin in the page of `address`: at most 512, one per 8 bytes.
#[inline(always)]
fn count_of_page<'a>(piece: *mut u8, address: usize) -> &'a AtomicU16 {
    let page = (address >> PAGE_BITS) & (COUNT_BYTES / 2 - 1);
    // Safety: inside of a piece that is never unmapped, and aligned, because pieces are pages.
    unsafe { AtomicU16::from_ptr(piece.add(PIECE_BYTES + BEHIND).cast::<u16>().add(page)) }
}

/// Whether a block with a record may begin at `address`.
#[inline(always)]
pub fn has_record_near(address: usize) -> bool {
    let piece = piece(address);
    !piece.is_null() && count_of_page(piece, address).load(Ordering::Relaxed) != 0
}

/// Stores a block; `false` if there was no memory for it.
#[inline(always)]
pub fn remember(address: usize, block: Block) -> bool {
    let mut piece = piece(address);
    if piece.is_null() {
        piece = new_piece(address);
        if piece.is_null() {
            return false;
        }
    }
    let byte = byte_of(piece, address);
    if block.recorded {
        count_of_page(piece, address).fetch_add(1, Ordering::Relaxed);
    }
    // Safety: inside of a piece that is never unmapped; the block is this thread's, and what is written behind the first
    // byte lies in the block's own shadow, or behind the end of the piece (head of the file).
    unsafe {
        match block {
            Block { size: 0..=SHORT, recorded: false } => *byte = 1 + block.size as u8,
            Block { size: 0..=TINY, .. } => *byte = TINY_RECORDED + block.size as u8,
            Block { size: 0..=SHORT, .. } => {
                *byte = SHORT_RECORDED;
                *byte.add(1) = block.size as u8;
            }
            Block { size, recorded } => {
                *byte = if recorded { LONG_RECORDED } else { LONG };
                byte.add(1).cast::<u64>().write_unaligned(size);
            }
        }
    }
    true
}

/// Removes a block and returns it; `None` if it is unknown.
#[inline(always)]
pub fn take(address: usize) -> Option<Block> {
    let piece = piece(address);
    if piece.is_null() {
        return None;
    }
    let byte = byte_of(piece, address);
    // Safety: inside of a piece that is never unmapped.
    let value = unsafe { *byte };
    if value == 0 {
        return None;
    }
    // Safety: as above, and as in `remember`.
    let block = unsafe {
        *byte = 0;
        match value {
            1..=LAST_SHORT => Block { size: u64::from(value) - 1, recorded: false },
            TINY_RECORDED..SHORT_RECORDED => {
                Block { size: u64::from(value - TINY_RECORDED), recorded: true }
            }
            SHORT_RECORDED => Block { size: u64::from(*byte.add(1)), recorded: true },
            _ => {
                let size = byte.add(1).cast::<u64>().read_unaligned();
                Block { size, recorded: value == LONG_RECORDED }
            }
        }
    };
    if block.recorded {
        count_of_page(piece, address).fetch_sub(1, Ordering::Relaxed);
    }
    Some(block)
}

/// Maps the piece for `address`; null when there is no memory or the address is too high.
#[cold]
#[inline(never)]
fn new_piece(address: usize) -> *mut u8 {
    let Some(place) = PIECES.get(address >> REGION_BITS) else { return core::ptr::null_mut() };
    let mapped = super::kernel::map_private(MAPPED_BYTES);
    if mapped.is_null() {
        return mapped;
    }
    match place.compare_exchange(core::ptr::null_mut(), mapped, Ordering::AcqRel, Ordering::Acquire)
    {
        Ok(_) => mapped,
        Err(other) => {
            super::kernel::unmap(mapped, MAPPED_BYTES);
            other
        }
    }
}
