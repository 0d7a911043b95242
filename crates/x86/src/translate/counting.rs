//! The counter of a block of flavour `Count`: it counts down, and at 0 the thread leaves before the block.
//!
//! What not: reading the counters (`burst::cache::counts`).

use iced_x86::{Code, Instruction};

use super::area::{COUNTER_COUNT, COUNTERS, Displacement};
use super::emit::{Label, at, wide};
use super::writer::{SPILLED_RCX, Writer};
use crate::refusal::Refusal;
use crate::register::Gpr;

impl Writer<'_> {
    pub(super) fn count(&mut self, leave: Label, borrows: bool) {
        let Some(counter) = counter(self.site.block) else {
            self.out.fail(Refusal::TooFar);
            return;
        };
        // dec leaves the carry flag alone, so that the short form is possible more often than with
        // sub.
        if !borrows {
            self.out.count_down(counter);
            self.out.branch(Code::Je_rel32_64, leave);
            return;
        }
        self.out.spill(Gpr::RCX, SPILLED_RCX);
        self.out.load(Gpr::RCX, counter);
        self.out.put(Instruction::with2(Code::Lea_r64_m, wide(Gpr::RCX), at(Gpr::RCX, -1)));
        self.out.store(counter, Gpr::RCX);
        self.out.branch(Code::Jrcxz_rel8_64, leave);
        self.out.restore(Gpr::RCX, SPILLED_RCX);
    }
}

fn counter(block: u32) -> Option<Displacement> {
    let number = usize::try_from(block).ok().filter(|number| *number < COUNTER_COUNT)?;
    Some(COUNTERS + 8 * Displacement::try_from(number).ok()?)
}
