//! The executable mappings of one process, and the unwinding of its stacks.
//!
//! What for: address -> module and file offset, and copied stack -> call chain. What not: reading the process; the
//! caller passes registers and stack bytes.
//!
//! Unwinding uses DWARF unwind information (`.eh_frame`, `.debug_frame`) where a module has it, which is nearly
//! everywhere on x86-64 Linux. Elsewhere (JIT code) it follows frame pointers. That is framehop's order. CPython's trampolines are JIT code
//! with neither; their one frame is known.

#[cfg_attr(target_arch = "x86_64", path = "address_space/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "address_space/aarch64.rs")]
mod native;
mod returns;
mod saved;
#[cfg(any(test, target_arch = "aarch64"))]
mod signed_returns;
mod tables;

pub use native::{MACHINE, REGISTER_NUMBERS, changed_table};
pub use returns::{Base, ReturnRule};
pub use saved::{LASTING, Saved};
pub use tables::UnwindCache;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use base::{CodeAddress, FileOffset, ModuleId, RemoteAddr};
use framehop::FrameAddress;

use crate::modules::KnownModule;

/// Most frames of a chain: a runaway recursion must not fill memory.
const MAX_DEPTH: usize = 512;

/// Registers that unwinding starts from, in the order of `sys::perf::USER_REGISTERS`.
pub type Registers = [u64; sys::perf::USER_REGISTER_COUNT];

/// A copied piece of stack, from the stack pointer upwards.
#[derive(Clone, Copy)]
pub struct CopiedStack<'a> {
    /// Where execution was.
    pub registers: &'a Registers,
    /// Memory from the stack pointer on.
    pub bytes: &'a [u8],
}

impl CopiedStack<'_> {
    /// The word at an address of the program, if it was copied.
    fn read(&self, address: u64) -> Result<u64, ()> {
        let at = address.checked_sub(self.registers[sys::perf::USER_STACK_POINTER]).ok_or(())?;
        let at = usize::try_from(at).map_err(|_| ())?;
        let word = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(())?;
        Ok(u64::from_le_bytes(*word))
    }
}

/// A frame of a copied stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserFrame {
    /// The address to look up; for a caller, one byte before the return address.
    pub address: RemoteAddr,
    /// What lies there.
    pub found: Option<CodeAddress>,
    /// rsp in this frame; for a caller, its value after the return.
    pub stack_pointer: u64,
    /// rbp in it.
    pub frame_pointer: u64,
}

#[derive(Clone)]
struct Mapped {
    end: u64,
    file_offset: u64,
    module: KnownModule,
    /// The difference between the process's addresses and those stated in the file; `None` without unwind tables. 0
    /// for a file linked at a fixed address. Arithmetic wraps, because a prelinked file may state a higher address.
    bias: Option<u64>,
}

/// One process's executable memory.
#[derive(Clone, Default)]
pub struct AddressSpace {
    mapped: BTreeMap<u64, Mapped>,
}

impl AddressSpace {
    /// Whether nothing is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mapped.is_empty()
    }

    /// Whether exactly this mapping is known already.
    #[must_use]
    pub fn knows(&self, start: RemoteAddr, end: RemoteAddr, module: ModuleId) -> bool {
        self.mapped
            .get(&start.0)
            .is_some_and(|mapped| mapped.end == end.0 && mapped.module.id == module)
    }

    /// Adds a mapping. It replaces the parts of older mappings that it covers.
    pub fn map(
        &mut self,
        start: RemoteAddr,
        end: RemoteAddr,
        offset: FileOffset,
        module: &KnownModule,
    ) {
        if start >= end {
            return;
        }
        let touched: Vec<u64> = self
            .mapped
            .range(..end.0)
            .rev()
            .take_while(|(_, mapped)| mapped.end > start.0)
            .map(|(at, _)| *at)
            .collect();
        for at in touched {
            let Some(old) = self.mapped.remove(&at) else { continue };
            if at < start.0 {
                self.insert(at, start.0, old.file_offset, &old.module);
            }
            if old.end > end.0 {
                let file_offset = old.file_offset.saturating_add(end.0 - at);
                self.insert(end.0, old.end, file_offset, &old.module);
            }
        }
        self.insert(start.0, end.0, offset.0, module);
    }

    fn insert(&mut self, start: u64, end: u64, file_offset: u64, module: &KnownModule) {
        let stated = module.unwind.as_ref().and_then(|unwind| unwind.stated_address(file_offset));
        let bias = stated.map(|stated| start.wrapping_sub(stated));
        self.mapped.insert(start, Mapped { end, file_offset, module: module.clone(), bias });
    }

    /// The mapping of an address, and where in its module it lies.
    fn mapping(&self, address: RemoteAddr) -> Option<(&Mapped, CodeAddress)> {
        let (start, mapped) = self.mapped.range(..=address.0).next_back()?;
        if address.0 >= mapped.end {
            return None;
        }
        let offset = if mapped.module.absolute {
            address.0
        } else {
            (address.0 - start).saturating_add(mapped.file_offset)
        };
        Some((mapped, CodeAddress::new(mapped.module.id, FileOffset(offset))))
    }

    /// Module and offset of an address.
    #[must_use]
    pub fn find(&self, address: RemoteAddr) -> Option<CodeAddress> {
        self.mapping(address).map(|(_, found)| found)
    }

    /// Unwinds a copied stack: calls `frame` for each frame, innermost first. Returns whether the outermost frame was
    /// reached.
    ///
    /// Unwind tables come from untrusted files. If their parser panics, this file's tables are dropped, and frame
    /// pointers are followed in it from then on: a recording is worth more than a stack.
    pub fn unwind(
        &self,
        stack: CopiedStack<'_>,
        cache: &mut UnwindCache,
        mut frame: impl FnMut(UserFrame),
    ) -> bool {
        let followed = catch_unwind(AssertUnwindSafe(|| self.follow(stack, cache, &mut frame)));
        followed.unwrap_or_else(|_| {
            cache.drop_tables_in_use();
            false
        })
    }

    fn follow(
        &self,
        stack: CopiedStack<'_>,
        cache: &mut UnwindCache,
        frame: &mut impl FnMut(UserFrame),
    ) -> bool {
        let mut read = |address: u64| stack.read(address);
        let (ip, mut registers) = native::unwind_registers(stack.registers);
        let mut next = FrameAddress::from_instruction_pointer(ip);
        for _ in 0..MAX_DEPTH {
            let address = RemoteAddr(next.address_for_lookup());
            let mapping = self.mapping(address);
            // Without unwind information framehop follows frame pointers. If rbp was not one, the result is
            // arbitrary: an address outside all code ends the chain.
            if next.is_return_address() && mapping.is_none() {
                return false;
            }
            let found = mapping.map(|(_, found)| found);
            let (stack_pointer, frame_pointer) =
                (registers.sp(), native::frame_pointer(&registers));
            frame(UserFrame { address, found, stack_pointer, frame_pointer });
            let mapped = mapping.map(|(mapped, _)| mapped);
            match cache.caller_of(mapped, next, &mut registers, &mut read) {
                Ok(Some(outer)) => match FrameAddress::from_return_address(outer) {
                    Some(outer) => next = outer,
                    None => return false,
                },
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(module: u32, offset: u64) -> CodeAddress {
        CodeAddress::new(ModuleId(module), FileOffset(offset))
    }

    fn module(id: u32, absolute: bool) -> KnownModule {
        KnownModule { id: ModuleId(id), absolute, unwind: None, trampolines: false }
    }

    #[test]
    fn a_new_mapping_replaces_what_it_covers_and_no_more() {
        let mut space = AddressSpace::default();
        let at = RemoteAddr;
        space.map(at(0x1000), at(0x5000), FileOffset(0x100), &module(1, false));
        space.map(at(0x8000), at(0x9000), FileOffset(0), &module(2, false));
        assert_eq!(space.find(at(0x1010)), Some(code(1, 0x110)));
        space.map(at(0x4000), at(0x6000), FileOffset(0), &module(3, false));
        assert_eq!(space.find(at(0x1010)), Some(code(1, 0x110)));
        assert_eq!(space.find(at(0x3fff)), Some(code(1, 0x30ff)));
        assert_eq!(space.find(at(0x4fff)), Some(code(3, 0xfff)));
        assert_eq!(space.find(at(0x8000)), Some(code(2, 0)));
        assert_eq!(space.find(at(0x9000)), None);
        // A hole in the middle leaves both ends.
        space.map(at(0x2000), at(0x3000), FileOffset(0), &module(5, false));
        assert_eq!(space.find(at(0x1fff)), Some(code(1, 0x10ff)));
        assert_eq!(space.find(at(0x2000)), Some(code(5, 0)));
        assert_eq!(space.find(at(0x3000)), Some(code(1, 0x2100)));
        space.map(at(0x7000), at(0x7000), FileOffset(0), &module(4, false));
        assert_eq!(space.find(at(0x7000)), None);
    }

    #[test]
    fn memory_without_a_file_keeps_absolute_addresses() {
        let mut space = AddressSpace::default();
        space.map(RemoteAddr(0x1000), RemoteAddr(0x2000), FileOffset(0), &module(1, true));
        assert_eq!(space.find(RemoteAddr(0x1234)), Some(code(1, 0x1234)));
    }

    /// Frame pointers: [rbp] = caller's rbp, [rbp+8] = return address.
    #[test]
    fn frame_pointers_are_followed_where_there_is_no_unwind_information() {
        let mut space = AddressSpace::default();
        space.map(RemoteAddr(0x1000), RemoteAddr(0x2000), FileOffset(0), &module(1, true));
        let words: [u64; 6] = [0, 0x7020, 0x1500, 0, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let stack = CopiedStack { registers: &[0x7008, 0x7000, 0x1234], bytes: &bytes };
        let mut frames = Vec::new();
        space.unwind(stack, &mut UnwindCache::default(), |frame| {
            frames.push((frame.address.0, frame.stack_pointer));
        });
        // rsp of the caller is behind the return address.
        assert_eq!(frames[..2], [(0x1234, 0x7000), (0x14ff, 0x7018)]);
    }

    /// A trampoline's return address lies behind a word that it leaves unused; rbp is any value.
    #[test]
    fn the_frame_of_a_trampoline_is_two_words() {
        let mut space = AddressSpace::default();
        let trampolines = KnownModule { trampolines: true, ..module(1, true) };
        space.map(RemoteAddr(0x1000), RemoteAddr(0x2000), FileOffset(0), &trampolines);
        space.map(RemoteAddr(0x3000), RemoteAddr(0x4000), FileOffset(0), &module(2, false));
        let words: [u64; 6] = [0x3100, 99, 0x1018, 0x98, 0x3200, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // From code with frame pointers at the bottom, through a trampoline, to code in a file.
        let stack = CopiedStack { registers: &[0x7008, 0x7000, 0x3050], bytes: &bytes };
        let mut frames = Vec::new();
        space.unwind(stack, &mut UnwindCache::default(), |frame| frames.push(frame.address.0));
        assert_eq!(frames[..3], [0x3050, 0x1017, 0x31ff]);
        let rule = space.return_rule(RemoteAddr(0x1018), &mut UnwindCache::default());
        let caller = ReturnRule::Caller { base: Base::StackPointer, cfa: 16, saved: None };
        assert_eq!(rule, Some(caller));
    }
}
