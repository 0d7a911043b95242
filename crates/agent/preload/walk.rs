//! Unwinds the stack by rules and names it by a node of the tree, without unwind tables.
//!
//! How: a frame is (return address, stack pointer, rbp); the rule of the address and two words of the stack give the
//! caller's. Each thread keeps the frames of its last walk, and the words that they came from with their values. A
//! new walk follows rules until it meets one of these frames. If the words outside it are unchanged, so is the rest
//! of the walk, because it depends on nothing else. So an outer frame costs one or two comparisons, and the result is
//! that of a full walk. Frames further inside change with every call site; walks of recent call sites are stored
//! (`memo`). What not: one step (`step`); frames without a simple rule: then the caller copies the stack and the
//! collector unwinds it.
//!
//! Assumptions: a rule changes only with the generation (an unloaded library, a fork); then nothing is kept. Words
//! are compared again only in the thread's own stack, which stays mapped (`stack_range`), and only above the frame
//! that was met: a later thread with this control block has its stack there too.

use super::heap_exact as layout;
use super::memo::{KnownFrame, Memo};
use super::stack_range::{Range, Readable};
use super::step::{Frame, Step, StepOutcome, next};
use super::tree::Region;

/// Deeper stacks are cut: only their innermost [`KEPT_OF_DEEP`] frames are named.
const MOST_FRAMES: usize = 2048;
/// See [`MOST_FRAMES`].
const KEPT_OF_DEEP: usize = 64;
/// Words that are kept: three a frame at most.
const MOST_WORDS: usize = 3 * MOST_FRAMES;

/// A frame of the last walk.
#[derive(Clone, Copy)]
struct WalkedFrame {
    frame: Frame,
    node: u32,
    /// Number of words from which the frames outside it came.
    words: u16,
    /// Whether its rbp is needed to find them: mostly it is an arbitrary number that changes each time.
    needs_bp: bool,
    /// No other has it, of any walk of this thread.
    serial: u64,
}

impl WalkedFrame {
    /// Whether frames outside of this one are those outside of `frame`, as far as registers tell.
    #[inline(always)]
    fn is(&self, frame: &Frame) -> bool {
        let same_bp = self.frame.bp == frame.bp || !self.needs_bp;
        self.frame.pc == frame.pc && self.frame.sp == frame.sp && same_bp
    }
}

/// A word of the stack and what it was.
#[derive(Clone, Copy)]
pub struct Word {
    /// Its address.
    pub at: usize,
    /// What it was.
    pub value: usize,
}

impl Word {
    /// 0 if it still is what it was.
    #[inline(always)]
    fn difference(&self) -> usize {
        // Safety: a word of this thread's own stack, which stays mapped as long as the thread runs (head of the file).
        unsafe { (self.at as *const usize).read_unaligned() ^ self.value }
    }
}

/// A node of the tree that this thread used: the tree itself is spread over many pages, these lie in a few.
#[derive(Clone, Copy)]
struct Child {
    pc: usize,
    parent: u32,
    node: u32,
}

/// Used nodes that are kept, a power of two: the frames of some hundred call chains.
const CHILDREN: usize = 1024;

/// A thread's last walk. All zero at first.
pub struct Walker {
    generation: u64,
    range: Range,
    /// How many of `known` hold: outermost first.
    count: usize,
    /// The last frame's number.
    serial: u64,
    memo: Memo,
    known: [WalkedFrame; MOST_FRAMES],
    words: [Word; MOST_WORDS],
    steps: [Step; MOST_FRAMES],
    children: [Child; CHILDREN],
}

/// What a walk came to.
pub enum Walked {
    /// The node.
    Node(u32),
    /// The tree is full: the node of a caller.
    Caller(u32),
    /// There is no rule for this return address.
    NoRule(usize),
}

/// Where the frames outside of the new ones come from.
#[derive(Clone, Copy)]
enum OuterFrames {
    /// The last so many known ones are met.
    Known(usize),
    /// The root, and whether the stack is cut.
    Root(bool),
    /// Too many frames.
    TooDeep,
}

impl Walker {
    /// Names the stack of `frame`. `control_block` is the thread's.
    #[inline(always)]
    pub fn walk(
        &mut self,
        region: Region,
        generation: u64,
        frame: Frame,
        control_block: usize,
    ) -> Walked {
        let stack = self.range.above(frame.sp, control_block);
        if self.generation != generation {
            (self.generation, self.count) = (generation, 0);
            self.children = [Child { pc: 0, parent: 0, node: 0 }; CHILDREN];
        }
        if !stack.is_own() {
            self.count = 0;
        } else if let Some(node) = self.remembered(&frame) {
            return Walked::Node(node);
        }
        self.walk_anew(region, frame, stack)
    }

    /// Apart, so that a walk that was made before needs none of its registers.
    #[inline(never)]
    fn walk_anew(&mut self, region: Region, frame: Frame, mut stack: Readable) -> Walked {
        let generation = self.generation;
        let mut step = Step { frame, saved_at: 0, kept_at: 0, by_bp: false };
        let mut kept = self.count.min(MOST_FRAMES);
        let mut new = 0;
        let outside = loop {
            let met = loop {
                match kept.checked_sub(1).map(|last| &self.known[last]) {
                    Some(known) if known.frame.sp < step.frame.sp => kept -= 1,
                    known => break known,
                }
            };
            if let Some(known) = met.filter(|known| known.is(&step.frame)) {
                let Some(changed) = self.first_change(known.words) else {
                    break OuterFrames::Known(kept);
                };
                while kept > 0 && usize::from(self.known[kept - 1].words) > changed {
                    kept -= 1;
                }
            }
            let Some(slot) = self.steps.get_mut(new) else { break OuterFrames::TooDeep };
            *slot = step;
            new += 1;
            match next(region, generation, &step.frame, &mut stack) {
                StepOutcome::Frame(outer) => step = outer,
                StepOutcome::End => break OuterFrames::Root(false),
                StepOutcome::Cut => break OuterFrames::Root(true),
                StepOutcome::NotCode => {
                    new -= 1;
                    break OuterFrames::Root(true);
                }
                StepOutcome::Unknown => return Walked::NoRule(step.frame.pc),
            }
        };
        let walked = self.name(region, outside, step, new);
        if let (OuterFrames::Known(kept), Walked::Node(node)) = (outside, &walked) {
            self.remember(&frame, kept, new, *node);
        }
        if !stack.is_own() || matches!(outside, OuterFrames::TooDeep) {
            self.count = 0;
        }
        walked
    }

    /// The node of a walk from `frame` that was made before, if nothing that it came from has changed.
    #[inline(always)]
    fn remembered(&self, frame: &Frame) -> Option<u32> {
        let (met, node) = self.memo.find(frame)?;
        let known = self.known.get(..self.count)?.get(met.index as usize)?;
        let holds = known.serial == met.serial && self.first_change(known.words).is_none();
        holds.then_some(node)
    }

    /// Remembers a walk of `new` frames that met the `kept`th known one, after it was named.
    #[inline(always)]
    fn remember(&mut self, first: &Frame, kept: usize, new: usize, node: u32) {
        let index = kept.wrapping_sub(1);
        let (Some(outer), Some(last)) = (self.known.get(index), self.known.get(index + new)) else {
            return;
        };
        let words = usize::from(outer.words)..usize::from(last.words);
        if let (1.., Some(words)) = (new, self.words.get(words)) {
            let met = KnownFrame { index: index as u32, serial: outer.serial };
            self.memo.keep(first, last.needs_bp, words, met, node);
        }
    }

    /// The first of `count` words that is not what it was.
    #[inline(always)]
    fn first_change(&self, count: u16) -> Option<usize> {
        let words = self.words.get(..usize::from(count)).unwrap_or(&[]);
        // Nearly always none is: then no branch for each is cheaper than one.
        if words.iter().fold(0, |sum, word| sum | word.difference()) == 0 {
            return None;
        }
        words.iter().position(|word| word.difference() != 0)
    }

    /// Names `new` frames inside of those outside, and keeps them. `met` is the step to the known frame.
    #[inline(always)]
    fn name(&mut self, region: Region, outside: OuterFrames, met: Step, new: usize) -> Walked {
        let (kept, root, new) = match outside {
            OuterFrames::Known(kept) => (kept, None, new),
            OuterFrames::Root(cut) => (0, region.root(cut, self.generation), new),
            OuterFrames::TooDeep => (0, region.root(true, self.generation), KEPT_OF_DEEP),
        };
        let last = kept.checked_sub(1).and_then(|last| self.known.get(last)).copied();
        let Some(mut node) = last.map(|known| known.node).or(root) else {
            return Walked::Caller(layout::CUT_ROOT);
        };
        self.count = kept;
        let mut words = last.map_or(0, |known| usize::from(known.words));
        let mut needs_bp = last.is_none_or(|known| known.needs_bp);
        let mut outer = last.map(|_| met);
        for number in (0..new.min(MOST_FRAMES)).rev() {
            if let Some(outer) = &outer {
                words = self.keep_words(words, outer, needs_bp);
                needs_bp = outer.by_bp || needs_bp && outer.saved_at == 0;
            }
            let step = self.steps[number];
            let Some(child) = self.child(region, node, step.frame.pc) else {
                return Walked::Caller(node);
            };
            node = child;
            // Beyond the last place nothing is kept: then the next walk is a longer one.
            match self.known.get_mut(self.count) {
                Some(slot) => {
                    self.serial += 1;
                    let (frame, words, serial) = (step.frame, words as u16, self.serial);
                    *slot = WalkedFrame { frame, node, words, needs_bp, serial };
                    self.count += 1;
                }
                None => self.count = 0,
            }
            outer = Some(step);
        }
        Walked::Node(node)
    }

    /// The node of a frame under its caller's.
    #[inline(always)]
    fn child(&mut self, region: Region, parent: u32, pc: usize) -> Option<u32> {
        let mixed = (pc ^ (parent as usize) << 20).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        let slot = &mut self.children[mixed % CHILDREN];
        if slot.pc == pc && slot.parent == parent {
            return Some(slot.node);
        }
        let node = region.child(parent, pc)?;
        *slot = Child { pc, parent, node };
        Some(node)
    }

    /// Keeps the words that a frame came from behind the first `count`, that of rbp if it is needed further out.
    #[inline(always)]
    fn keep_words(&mut self, count: usize, step: &Step, needs_bp: bool) -> usize {
        let Step { frame, saved_at, kept_at, .. } = *step;
        let saved_at = if needs_bp { saved_at } else { 0 };
        let mut count = count;
        for (at, value) in
            [(frame.sp.wrapping_sub(8), frame.pc), (saved_at, frame.bp), (kept_at, frame.sp)]
        {
            if at != 0
                && let Some(slot) = self.words.get_mut(count)
            {
                *slot = Word { at, value };
                count += 1;
            }
        }
        count
    }
}
