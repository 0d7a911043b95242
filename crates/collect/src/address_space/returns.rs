//! Stacks that begin right after a return into the program, and the unwinder's rule for each return address.
//!
//! What for: the heap agent unwinds inside the program by such rules (`sys::heap_exact`). What not: frames whose
//! caller depends on more than rsp, rbp and two words of the stack.
//!
//! How a rule is found: the unwinder is asked for the caller of a frame with made-up registers, and made-up memory in
//! which every word is a function of its address. Its answer shows which words it read and what it added. A rule
//! holds if two such frames agree. So a rule is what the unwinder does, whichever tables or heuristics it uses.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::{CodeAddress, RemoteAddr};
use framehop::FrameAddress;

use super::{AddressSpace, CopiedStack, MAX_DEPTH, UnwindCache, native};

/// The base of the canonical frame address (CFA).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The stack pointer.
    StackPointer,
    /// rbp.
    FramePointer,
    /// The word at rbp plus this: functions that align their own stack save it there.
    Saved(i64),
}

/// The caller of the code at a return address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnRule {
    /// The caller's registers follow from the frame's.
    Caller {
        /// The base of the CFA.
        base: Base,
        /// Bytes from the base to the CFA.
        cfa: u64,
        /// Where rbp was saved, relative to the CFA, or with [`Base::Saved`] relative to rbp; `None` when it is
        /// unchanged.
        saved: Option<i64>,
    },
    /// There is no caller.
    End,
    /// This is no code.
    NoCode,
}

/// A frame with made-up registers.
struct Trial {
    sp: u64,
    bp: u64,
}

const TRIALS: [Trial; 2] = [
    Trial { sp: 0x7f00_0000_1000, bp: 0x7f00_1000_2000 },
    Trial { sp: 0x7e12_3450_0040, bp: 0x7e12_9990_0780 },
];
const SCRAMBLE: u64 = 0x0000_5bd1_e995_97f8;
/// Saved words lie within this many bytes of their base.
const NEAR: i64 = 200_000;

/// The made-up memory: never 0, and different at each address.
fn word_at(address: u64) -> u64 {
    address.rotate_left(7) ^ SCRAMBLE
}

fn address_of(word: u64) -> u64 {
    (word ^ SCRAMBLE).rotate_right(7)
}

fn distance(from: u64, to: u64) -> Option<i64> {
    let distance = to.wrapping_sub(from).cast_signed();
    (distance.abs() <= NEAR && distance % 8 == 0).then_some(distance)
}

impl AddressSpace {
    /// Unwinds a copied stack that begins right after a return: calls `frame` with each return address and what lies
    /// there, innermost first. Returns whether the outermost frame was reached. Otherwise like
    /// [`AddressSpace::unwind`].
    pub fn unwind_returns(
        &self,
        stack: CopiedStack<'_>,
        cache: &mut UnwindCache,
        mut frame: impl FnMut(RemoteAddr, Option<CodeAddress>),
    ) -> bool {
        let followed = catch_unwind(AssertUnwindSafe(|| {
            let mut read = |address| stack.read(address);
            let (ip, mut registers) = native::unwind_registers(stack.registers);
            let mut next = ip;
            for _ in 0..MAX_DEPTH {
                let Some(address) = FrameAddress::from_return_address(next) else { return true };
                let found = self.mapping(RemoteAddr(address.address_for_lookup()));
                frame(RemoteAddr(next), found.map(|(_, found)| found));
                let Some((mapped, _)) = found else { return false };
                match cache.caller_of(Some(mapped), address, &mut registers, &mut read) {
                    Ok(Some(outer)) => next = outer,
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
            false
        }));
        followed.unwrap_or_else(|_| {
            cache.drop_tables_in_use();
            false
        })
    }

    /// The rule for a return address; `None` when no simple rule describes it.
    pub fn return_rule(&self, at: RemoteAddr, cache: &mut UnwindCache) -> Option<ReturnRule> {
        let address = FrameAddress::from_return_address(at.0)?;
        if self.find(RemoteAddr(address.address_for_lookup())).is_none() {
            return Some(ReturnRule::NoCode);
        }
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let [first, second] = TRIALS.map(|trial| self.attempt(address, &trial, cache));
            if first == second { first } else { None }
        }));
        tried.unwrap_or_else(|_| {
            cache.drop_tables_in_use();
            None
        })
    }

    fn attempt(
        &self,
        address: FrameAddress,
        trial: &Trial,
        cache: &mut UnwindCache,
    ) -> Option<ReturnRule> {
        let &Trial { sp, bp } = trial;
        let (_, mut registers) =
            native::unwind_registers(&sys::perf::user_registers(bp, sp, address.address()));
        let mut read = |address| Ok(word_at(address));
        let mapped =
            self.mapping(RemoteAddr(address.address_for_lookup())).map(|(mapped, _)| mapped);
        let caller = cache.caller_of(mapped, address, &mut registers, &mut read);
        let Some(caller) = caller.ok()? else { return Some(ReturnRule::End) };
        let (cfa, outer_bp) = (registers.sp(), native::frame_pointer(&registers));
        if caller != word_at(cfa.wrapping_sub(8)) {
            return None;
        }
        let (base, above) = if let Some(above) = distance(sp, cfa) {
            (Base::StackPointer, above)
        } else if let Some(above) = distance(bp, cfa) {
            (Base::FramePointer, above)
        } else {
            (Base::Saved(distance(bp, address_of(cfa))?), 0)
        };
        let from = if matches!(base, Base::Saved(_)) { bp } else { cfa };
        let saved = if outer_bp == bp { None } else { Some(distance(from, address_of(outer_bp))?) };
        Some(ReturnRule::Caller { base, cfa: u64::try_from(above).ok()?, saved })
    }
}

#[cfg(test)]
mod tests {
    use base::{FileOffset, ModuleId};

    use super::*;
    use crate::modules::KnownModule;

    #[test]
    fn without_tables_the_rule_is_that_of_frame_pointers() {
        let mut space = AddressSpace::default();
        let module =
            KnownModule { id: ModuleId(1), absolute: true, unwind: None, trampolines: false };
        space.map(RemoteAddr(0x1000), RemoteAddr(0x2000), FileOffset(0), &module);
        let mut cache = UnwindCache::default();
        let rule = space.return_rule(RemoteAddr(0x1500), &mut cache);
        let caller = ReturnRule::Caller { base: Base::FramePointer, cfa: 16, saved: Some(-16) };
        assert_eq!(rule, Some(caller));
        assert_eq!(space.return_rule(RemoteAddr(0x2001), &mut cache), Some(ReturnRule::NoCode));
        // The address after a call that ends the code still belongs to it.
        assert_eq!(space.return_rule(RemoteAddr(0x2000), &mut cache), Some(caller));
    }
}
