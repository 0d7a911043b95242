//! Who asked: follows the stack by rules and names it by a node of the tree, without unwind tables.
//!
//! How: a frame's state is (return address, stack pointer, rbp); the rule of the address and two words of the stack give the
//! caller's. Each thread keeps the states of its last walk with the words they came from. A new walk goes by rules until it
//! meets one of them; if the words behind the outer ones are still the same, so is the rest of the walk, because it
//! depends on nothing else. So outer frames cost two comparisons each, and the result is that of a full walk.
//! What not: frames whose rule is missing or no simple one. Then the caller copies the stack and the collector unwinds it.
//!
//! Assumption: a rule changes only with the generation (a library that goes, a fork); then all states are dropped.

use super::heap_exact as layout;
use super::stack_range::{Range, Readable};
use super::tree::Region;

/// Deeper stacks are cut: only their innermost [`KEPT_OF_DEEP`] frames are named.
const MOST_FRAMES: usize = 2048;
/// See [`MOST_FRAMES`].
const KEPT_OF_DEEP: usize = 64;

/// Registers right after a return to `pc`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Return address.
    pub pc: usize,
    /// Stack pointer.
    pub sp: usize,
    /// rbp.
    pub bp: usize,
}

/// Where a frame's registers were read.
#[derive(Clone, Copy)]
struct From {
    /// Where rbp was saved; 0 when it is that of the frame inside.
    saved_at: usize,
    /// Where the stack pointer was kept; 0 when a rule computes it.
    kept_at: usize,
}

/// Of a frame that is where the walk begins.
const NOWHERE: From = From { saved_at: 0, kept_at: 0 };

#[derive(Clone, Copy)]
struct State {
    frame: Frame,
    from: From,
    node: u32,
}

/// A thread's last walk. All zero at first.
pub struct Walker {
    generation: u64,
    /// How many of `known` hold: outermost first.
    count: usize,
    range: Range,
    known: [State; MOST_FRAMES],
    fresh: [State; MOST_FRAMES],
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

/// How the next frame outwards is found.
enum Next {
    Frame(Frame, From),
    End,
    Cut,
    NotCode,
    Unknown,
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
        if self.generation != generation {
            (self.generation, self.count) = (generation, 0);
        }
        let mut stack = self.range.above(frame.sp, control_block);
        let mut state = State { frame, from: NOWHERE, node: 0 };
        let mut kept = self.count;
        let mut new = 0;
        let root = loop {
            while kept > 0 && self.state(kept - 1).frame.sp < state.frame.sp {
                kept -= 1;
            }
            if kept > 0 && self.state(kept - 1).frame == state.frame {
                if self.unchanged(kept - 1, &mut stack) {
                    break Some(self.state(kept - 1).node);
                }
                kept = 0;
            }
            let Some(place) = self.fresh.get_mut(new) else {
                // Too deep, whether walked anew or not.
                new = KEPT_OF_DEEP;
                kept = 0;
                break region.root(true, generation);
            };
            *place = state;
            new += 1;
            match next(region, generation, &state.frame, &mut stack) {
                Next::Frame(frame, from) => state = State { frame, from, node: 0 },
                Next::Unknown => return Walked::NoRule(state.frame.pc),
                end => {
                    new -= usize::from(matches!(end, Next::NotCode));
                    kept = 0;
                    break region.root(!matches!(end, Next::End), generation);
                }
            }
        };
        self.name(region, root, kept, new)
    }

    #[inline(always)]
    fn state(&self, at: usize) -> &State {
        // In range whatever `at` is: there is nothing that could panic here.
        &self.known[at % MOST_FRAMES]
    }

    /// Whether what the outer frames of the one at `from` came from is still there.
    #[inline(always)]
    fn unchanged(&self, from: usize, stack: &mut Readable) -> bool {
        for at in (0..from).rev() {
            let State { frame, from: From { saved_at, kept_at }, .. } = self.state(at);
            if stack.word(frame.sp.wrapping_sub(8)) != Some(frame.pc)
                || (*saved_at != 0 && stack.word(*saved_at) != Some(frame.bp))
                || (*kept_at != 0 && stack.word(*kept_at) != Some(frame.sp))
            {
                return false;
            }
        }
        true
    }

    /// Names `new` frames inside of the `kept` known ones, and keeps them.
    #[inline(always)]
    fn name(&mut self, region: Region, root: Option<u32>, kept: usize, new: usize) -> Walked {
        let Some(mut node) = root else { return Walked::Caller(layout::CUT_ROOT) };
        self.count = kept;
        for number in (0..new).rev() {
            let mut state = self.fresh[number % MOST_FRAMES];
            let Some(child) = region.child(node, state.frame.pc) else {
                return Walked::Caller(node);
            };
            node = child;
            state.node = node;
            // Beyond the last place nothing is kept: then the next walk is a longer one.
            if let Some(place) = self.known.get_mut(self.count) {
                *place = state;
                self.count += 1;
            } else {
                self.count = 0;
            }
        }
        Walked::Node(node)
    }
}

/// The caller of a frame, as its rule says. The order of the checks is that of the unwinder that the collector uses
/// (framehop, `x86_64/unwind_rule.rs`), so that both find the same stacks.
#[inline(always)]
fn next(region: Region, generation: u64, frame: &Frame, stack: &mut Readable) -> Next {
    let Some(rule) = region.rule(frame.pc, generation) else { return Next::Unknown };
    let offset = |shift: u32| isize::from((rule >> shift) as u16 as i16) * 8;
    let above = offset(8);
    let cfa = match rule & layout::RULE_KIND {
        layout::RULE_BY_SP => frame.sp.wrapping_add_signed(above),
        layout::RULE_BY_BP if frame.bp == 0 => return Next::End,
        layout::RULE_BY_BP => frame.bp.wrapping_add_signed(above),
        layout::RULE_BY_WORD => return by_word(frame, above, offset(32), stack),
        layout::RULE_END => return Next::End,
        layout::RULE_CUT => return Next::NotCode,
        _ => return Next::Unknown,
    };
    if cfa <= frame.sp {
        return Next::Cut;
    }
    let (bp, saved_at) = if rule & layout::RULE_SAVED == 0 {
        (frame.bp, 0)
    } else {
        let saved_at = cfa.wrapping_add_signed(offset(32));
        match stack.word(saved_at) {
            Some(bp) => (bp, saved_at),
            None => return Next::Cut,
        }
    };
    outer(cfa, bp, From { saved_at, kept_at: 0 }, stack)
}

#[inline(always)]
fn outer(cfa: usize, bp: usize, from: From, stack: &mut Readable) -> Next {
    match stack.word(cfa.wrapping_sub(8)) {
        Some(0) => Next::End,
        Some(pc) => Next::Frame(Frame { pc, sp: cfa, bp }, from),
        None => Next::Cut,
    }
}

/// The caller of a function that aligned its stack: the CFA is a word that it kept.
#[inline(never)]
fn by_word(frame: &Frame, at: isize, saved: isize, stack: &mut Readable) -> Next {
    let saved_at = frame.bp.wrapping_add_signed(saved);
    let kept_at = frame.bp.wrapping_add_signed(at);
    match (stack.word(kept_at), stack.word(saved_at)) {
        (Some(cfa), Some(bp)) if cfa > frame.sp => {
            outer(cfa, bp, From { saved_at, kept_at }, stack)
        }
        _ => Next::Cut,
    }
}
