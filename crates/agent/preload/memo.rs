//! Earlier walks, by their first frame: most blocks are allocated and freed at a few call sites in a loop.
//!
//! What for: a walk that met a frame of the previous walk (`walk`) is stored with the few stack words that led there.
//! The next walk that begins alike compares these words and has its node, without a rule. What not: frames outside
//! the one that was met, which the walker keeps and compares itself.
//!
//! Assumption: as in `walk`, a walk depends on its first frame, on rules, which change with the generation only, and
//! on the words that it read. A new generation leaves no known frame, and each frame has a unique number: a walk
//! whose frame is gone is never found again.

use super::step::Frame;
use super::walk::Word;

/// Remembered call sites, a power of two: those of a loop or two.
const SITES: usize = 256;
/// Stack words that are kept per walk: enough for four frames or more.
const WORDS: usize = 8;

/// The walks of a thread. All zero at first.
pub struct Memo {
    sites: [CallSite; SITES],
}

/// A walk up to the frame that it met.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CallSite {
    pc: usize,
    sp: usize,
    bp: usize,
    met: KnownFrame,
    node: u32,
    needs_bp: bool,
    /// Number of valid words.
    count: u8,
    /// Their offsets from the stack pointer, in words.
    offsets: [u16; WORDS],
    values: [usize; WORDS],
}

/// A frame that the walker knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KnownFrame {
    /// Its index, from 0 for the outermost.
    pub index: u32,
    /// Its number; 0 for none.
    pub serial: u64,
}

impl Memo {
    /// The frame that the last walk from `frame` met, and its node, if the words in between are unchanged.
    #[inline(always)]
    pub fn find(&self, frame: &Frame) -> Option<(KnownFrame, u32)> {
        let site = &self.sites[index_of(frame)];
        let same = site.pc == frame.pc
            && site.sp == frame.sp
            && (site.bp == frame.bp || !site.needs_bp)
            && site.met.serial != 0;
        if !same {
            return None;
        }
        let words = site.offsets.iter().zip(&site.values).take(usize::from(site.count));
        // Safety: words that a walk from this stack pointer has read in this thread's own stack, which stays mapped
        // (`stack_range`); the caller makes sure that it is such a stack.
        let read = |offset: u16| unsafe {
            ((frame.sp + 8 * usize::from(offset)) as *const usize).read_unaligned()
        };
        let differs = words.fold(0, |differs, (offset, value)| differs | (read(*offset) ^ value));
        (differs == 0).then_some((site.met, site.node))
    }

    /// Stores a walk: its first frame and whether the walk depends on its rbp, the words read up to the frame that it
    /// met, and its node.
    #[inline(always)]
    pub fn keep(
        &mut self,
        first: &Frame,
        needs_bp: bool,
        words: &[Word],
        met: KnownFrame,
        node: u32,
    ) {
        let site = &mut self.sites[index_of(first)];
        site.met.serial = 0;
        if words.len() > WORDS {
            return;
        }
        for (number, word) in words.iter().enumerate() {
            let offset = word.at.wrapping_sub(first.sp);
            let (Ok(words), 0) = (u16::try_from(offset / 8), offset % 8) else { return };
            (site.offsets[number], site.values[number]) = (words, word.value);
        }
        (site.pc, site.sp, site.bp) = (first.pc, first.sp, first.bp);
        (site.needs_bp, site.count) = (needs_bp, words.len() as u8);
        (site.met, site.node) = (met, node);
    }
}

#[inline(always)]
fn index_of(frame: &Frame) -> usize {
    let mixed = (frame.pc ^ frame.sp << 20).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed >> (usize::BITS - SITES.trailing_zeros())
}
