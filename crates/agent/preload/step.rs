//! One unwind step: a rule and two words of the stack give the caller of a frame.
//!
//! What not: whole stacks (`walk`), the origin of rules (`tree`, the collector). Each address is checked before it is
//! read.

use super::heap_exact as layout;
use super::stack_range::Readable;
use super::tree::Region;

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

/// The next frame of a walk, and where its registers were read.
#[derive(Clone, Copy)]
pub struct Step {
    /// It.
    pub frame: Frame,
    /// Where rbp was saved; 0 if it is unchanged.
    pub saved_at: usize,
    /// Where the stack pointer was saved; 0 if a rule computes it.
    pub kept_at: usize,
    /// Whether the inner frame's rbp was needed.
    pub by_bp: bool,
}

/// The outcome of a step.
pub enum StepOutcome {
    /// The next frame.
    Frame(Step),
    /// There is none: the outermost frame.
    End,
    /// Unknown from here on.
    Cut,
    /// The frame itself is not code.
    NotCode,
    /// There is no rule.
    Unknown,
}

/// The caller of a frame by its rule. The order of the checks is that of the collector's unwinder (framehop,
/// `x86_64/unwind_rule.rs`), so that both find the same stacks.
#[inline(always)]
pub fn next(region: Region, generation: u64, frame: &Frame, stack: &mut Readable) -> StepOutcome {
    let Some(rule) = region.rule(frame.pc, generation) else { return StepOutcome::Unknown };
    let offset = |shift: u32| isize::from((rule >> shift) as u16 as i16) * 8;
    let above = offset(8);
    let kind = rule & layout::RULE_KIND;
    // The two kinds of nearly all frames come first: a jump table would be mispredicted.
    let (cfa, by_bp) = if kind == layout::RULE_BY_SP {
        (frame.sp.wrapping_add_signed(above), false)
    } else if kind == layout::RULE_BY_BP && frame.bp != 0 {
        (frame.bp.wrapping_add_signed(above), true)
    } else {
        return rarely(kind, frame, above, offset(32), stack);
    };
    if cfa <= frame.sp {
        return StepOutcome::Cut;
    }
    let (bp, saved_at) = if rule & layout::RULE_SAVED == 0 {
        (frame.bp, 0)
    } else {
        let saved_at = cfa.wrapping_add_signed(offset(32));
        match stack.word(saved_at) {
            Some(bp) if saved_at >= frame.sp => (bp, saved_at),
            _ => return StepOutcome::Cut,
        }
    };
    let frame = Frame { pc: 0, sp: cfa, bp };
    outer(Step { frame, saved_at, kept_at: 0, by_bp }, stack)
}

/// The step with its return address.
#[inline(always)]
fn outer(mut step: Step, stack: &mut Readable) -> StepOutcome {
    match stack.word(step.frame.sp.wrapping_sub(8)) {
        Some(0) => StepOutcome::End,
        Some(pc) => {
            step.frame.pc = pc;
            StepOutcome::Frame(step)
        }
        None => StepOutcome::Cut,
    }
}

/// The rare kinds of rules.
#[cold]
#[inline(never)]
fn rarely(
    kind: u64,
    frame: &Frame,
    above: isize,
    saved: isize,
    stack: &mut Readable,
) -> StepOutcome {
    match kind {
        layout::RULE_BY_WORD => by_word(frame, above, saved, stack),
        // By rbp, which is 0: the outermost frame where there are no unwind tables.
        layout::RULE_BY_BP | layout::RULE_END => StepOutcome::End,
        layout::RULE_CUT => StepOutcome::NotCode,
        _ => StepOutcome::Unknown,
    }
}

/// The caller of a function that aligned its stack: the CFA is a word that it saved.
fn by_word(frame: &Frame, at: isize, saved: isize, stack: &mut Readable) -> StepOutcome {
    let saved_at = frame.bp.wrapping_add_signed(saved);
    let kept_at = frame.bp.wrapping_add_signed(at);
    match (stack.word(kept_at), stack.word(saved_at)) {
        (Some(cfa), Some(bp)) if cfa > frame.sp && saved_at.min(kept_at) >= frame.sp => {
            let frame = Frame { pc: 0, sp: cfa, bp };
            outer(Step { frame, saved_at, kept_at, by_bp: true }, stack)
        }
        _ => StepOutcome::Cut,
    }
}
