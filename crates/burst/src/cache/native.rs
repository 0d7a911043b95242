//! What a stop in translated code means.
//!
//! What for: any stop -> exact native registers, from the state that `x86` gives for every byte of a copy. What not:
//! setting them (`run`).

use base::RemoteAddr;
use sys::trace::Registers;
use x86::Gpr;
use x86::translate::{NativeRip, State};

use super::{Cache, CachedBlock};

/// What a stop inside translated code means.
pub struct Native {
    /// All registers, as if the program had run natively.
    pub registers: Registers,
    /// All registers as the kernel reported them.
    pub translated: Registers,
    /// The block in which it stopped, if it did in one.
    pub block: Option<u32>,
    /// The state there.
    pub state: State,
}

impl Cache {
    /// Whether a fault at this address is ours: the read of a witness, in place of which other memory is mapped, or none. The
    /// thread is about to enter the block natively, which has no such fault.
    #[must_use]
    pub fn is_at_witness(&self, native: &Native, fault: RemoteAddr) -> bool {
        let Some(block) = native.block.and_then(|number| self.block(number)) else { return false };
        let within = block.offset(native.translated.instruction_pointer());
        let reads =
            |witness: x86::translate::Witness| (witness.at.0..witness.at.0 + 4).contains(&fault.0);
        block.witness.is_some_and(reads)
            && within.is_some_and(|within| block.table.contains(&within))
    }

    /// Whether it is at a read of the clock that is ours. It faults where the program forbids it (prctl(2), PR_SET_TSC). The program's
    /// own reads have rax in its place.
    #[must_use]
    pub fn is_at_our_clock(&self, native: &Native) -> bool {
        const RDTSC: [u8; 2] = [0x0f, 0x31];
        let at = native.translated.instruction_pointer();
        let Some(region) = self.space.region_of(at).and_then(|n| self.space.regions().get(n))
        else {
            return false;
        };
        let offset = region.offset + (at.0 - region.at.0) as usize;
        let code = self.space.memory().bytes(offset / 8 * 8, 2);
        native.state.saved.iter().any(|(register, _)| register == Gpr::RAX)
            && code.get(offset % 8..).is_some_and(|code| code.starts_with(&RDTSC))
    }

    /// What a stop at these registers means; `None` where it is not in translated code.
    #[must_use]
    pub fn native(&self, registers: &Registers) -> Option<Native> {
        let at = registers.instruction_pointer();
        let region_number = self.space.region_of(at)?;
        let region = &self.space.regions()[region_number];
        let offset = (at.0 - region.at.0) as usize;
        let (block, state) = if offset < region.common.bytes.len() {
            (None, region.common.states.at(offset)?.clone())
        } else {
            let numbers = self.in_region.get(region_number)?;
            // Blocks come one after the other, and so do both of their parts.
            let last = |begins: &dyn Fn(&CachedBlock) -> RemoteAddr| {
                let behind =
                    numbers.partition_point(|number| begins(&self.blocks[*number as usize]) <= at);
                let number = *numbers.get(behind.checked_sub(1)?)?;
                Some((number, self.blocks[number as usize].offset(at)?))
            };
            let (number, within) =
                last(&|block| block.parts.cold).or_else(|| last(&|block| block.parts.hot))?;
            (Some(number), self.blocks[number as usize].states.at(within)?.clone())
        };
        let mut native = *registers;
        let rip = match state.rip {
            NativeRip::Known(address) => address,
            NativeRip::Register(register, plus) => {
                RemoteAddr(registers.general(register.number()).wrapping_add(plus))
            }
            NativeRip::Slot(slot) => RemoteAddr(self.space.slot(slot)),
        };
        for (register, slot) in state.saved.iter() {
            native.set_general(register.number(), self.space.slot(slot));
        }
        native.set_instruction_pointer(rip);
        native.set_gs_base(RemoteAddr(0));
        native.forget_system_call();
        Some(Native { registers: native, translated: *registers, block, state })
    }
}
