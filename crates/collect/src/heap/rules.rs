//! Rules of return addresses, written into a process's region for the agent to unwind by.
//!
//! What not: finding the rule of an address (`AddressSpace::return_rule`), and its form in memory
//! (`sys::heap_exact`). Assumption: we are the only writer. If the program writes there too, only its own stacks are
//! wrong.

use std::collections::HashSet;

use base::RemoteAddr;
use sys::heap;
use sys::heap_exact as layout;
use sys::shared::SharedMemory;

use crate::address_space::{Base, ReturnRule};

/// A return address of a process while the set of its libraries is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReturnAddress {
    /// Entry of the process.
    pub process: u32,
    /// As the agent counts, 16 bits.
    pub generation: u64,
    /// The return address.
    pub address: RemoteAddr,
}

/// The addresses that were examined, whether they have a rule or not.
#[derive(Default)]
pub struct Rules {
    known: HashSet<ReturnAddress>,
}

impl Rules {
    /// Whether this address was not examined before; from now on it was.
    pub fn is_new(&mut self, code: ReturnAddress) -> bool {
        (code.process as usize) < layout::REGIONS && self.known.insert(code)
    }

    /// Writes a rule. Without room it is left out, and the agent copies such stacks.
    pub fn publish(memory: &SharedMemory, code: ReturnAddress, rule: ReturnRule) {
        let Some(rule) = encode(rule) else { return };
        let address = code.address.0;
        let rules = region(code.process) + layout::RULES_AT;
        let first = layout::rule_place(address);
        for probe in 0..layout::MOST_PROBES {
            let at = rules + 16 * ((first + probe) % layout::RULES);
            let key = memory.load_u64(at);
            if key == Some(0) || key == Some(address) {
                // The rule is written before its address, so that a reader that sees the address also sees the rule.
                memory.store_u64(at + 8, rule | code.generation << 48);
                memory.store_u64(at, address);
                return;
            }
        }
    }
}

/// Where a process's region begins.
pub fn region(process: u32) -> usize {
    heap::TOTAL_BYTES + process as usize * layout::REGION_BYTES
}

/// The word of a rule without its generation; `None` for a rule that does not fit.
fn encode(rule: ReturnRule) -> Option<u64> {
    let ReturnRule::Caller { base, cfa, saved } = rule else {
        return Some(if rule == ReturnRule::End { layout::RULE_END } else { layout::RULE_CUT });
    };
    let words = |bytes: i64| {
        let words = i16::try_from(bytes / 8).ok().filter(|_| bytes % 8 == 0)?;
        Some(u64::from(words.cast_unsigned()))
    };
    let cfa = i64::try_from(cfa).ok()?;
    let (kind, above) = match base {
        Base::StackPointer => (layout::RULE_BY_SP, cfa),
        Base::FramePointer => (layout::RULE_BY_BP, cfa),
        // The agent reads both words at this place.
        Base::Saved(at) if saved.is_some() && cfa == 0 => (layout::RULE_BY_WORD, at),
        Base::Saved(_) => return None,
    };
    let with_saved = match saved {
        Some(saved) => layout::RULE_SAVED | words(saved)? << 32,
        None => 0,
    };
    Some(kind | words(above)? << 8 | with_saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_fit_into_a_word_or_are_left_out() {
        let rule = |base, cfa, saved| encode(ReturnRule::Caller { base, cfa, saved });
        assert_eq!(rule(Base::StackPointer, 48, Some(-16)), Some(0x0000_fffe_0000_0609));
        assert_eq!(rule(Base::FramePointer, 16, Some(-16)), Some(0x0000_fffe_0000_020a));
        assert_eq!(rule(Base::StackPointer, 8, None), Some(0x101));
        assert_eq!(rule(Base::Saved(-8), 0, Some(0)), Some(0x00ff_ff0d));
        assert_eq!(rule(Base::StackPointer, 8 << 16, None), None);
        assert_eq!(rule(Base::StackPointer, 12, None), None);
        assert_eq!(encode(ReturnRule::End), Some(layout::RULE_END));
    }
}
