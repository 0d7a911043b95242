//! Unwind tables of files, and the rules learned from them, shared by all processes.
//!
//! What for: framehop caches rules by address, for 509 addresses, and drops them whenever anything is mapped. But a
//! file lies at a different address in each process, and a compiler has thousands of call sites. So each file has an
//! unwinder of its own that works with the addresses stated in the file, never changes, and has more room for rules.
//! What not: which file an address belongs to (`AddressSpace`).

use std::collections::HashMap;

use base::{IndexMap, ModuleId};
use framehop::{Error, FrameAddress, Module, Unwinder};

use super::Mapped;
use super::native::{Cache, NativeUnwinder, UnwindRegisters};
use crate::modules::{SectionBytes, UnwindSections};

/// Caches of a file, some 10 KiB each once used: room for 8144 rules.
const CACHES: usize = 16;
/// The size of one of framehop's caches. Addresses next to each other use the same cache.
const PLACES: u64 = 509;
/// Beyond this number of files all rules are learned again.
const MOST_FILES: usize = 256;

/// From rsp after a return into one of CPython's trampolines to rsp after its own: an unused word and the return address.
const TRAMPOLINE_FRAME: u64 = 16;

/// An unwinder and the rules that it found.
struct Tables {
    unwinder: NativeUnwinder<SectionBytes>,
    caches: [Option<Box<Cache>>; CACHES],
}

impl Tables {
    /// For a file; without sections, frame pointers are followed.
    fn new(sections: Option<&UnwindSections>) -> Tables {
        let mut unwinder = NativeUnwinder::new();
        if let Some(sections) = sections {
            let sections = sections.sections.clone();
            unwinder.add_module(Module::new(String::new(), 0..u64::MAX, 0, sections));
        }
        Tables { unwinder, caches: Default::default() }
    }

    fn caller_of(
        &mut self,
        address: FrameAddress,
        registers: &mut UnwindRegisters,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<u64>, Error> {
        let cache = (address.address_for_lookup() / PLACES) as usize % CACHES;
        let cache = self.caches[cache].get_or_insert_with(|| Box::new(Cache::new()));
        self.unwinder.unwind_frame(address, registers, cache, read)
    }
}

/// The unwind rules learned so far, for all processes.
pub struct UnwindCache {
    files: IndexMap<ModuleId, Tables>,
    without: Tables,
    /// The file whose tables were read last.
    in_use: Option<ModuleId>,
}

impl Default for UnwindCache {
    fn default() -> Self {
        UnwindCache { files: HashMap::default(), without: Tables::new(None), in_use: None }
    }
}

impl UnwindCache {
    /// The return address of the frame at an address of a process, in this mapping; `None` without a caller.
    /// `registers` become the caller's.
    pub(super) fn caller_of(
        &mut self,
        mapped: Option<&Mapped>,
        address: FrameAddress,
        registers: &mut UnwindRegisters,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<u64>, Error> {
        if address.is_return_address() && mapped.is_some_and(|mapped| mapped.module.trampolines) {
            let outer = registers.sp().wrapping_add(TRAMPOLINE_FRAME);
            registers.set_sp(outer);
            let at = outer.wrapping_sub(8);
            return read(at).map(Some).map_err(|()| Error::CouldNotReadStack(at));
        }
        let stated = mapped.and_then(|mapped| {
            let (unwind, bias) = (mapped.module.unwind.as_deref()?, mapped.bias?);
            Some((mapped.module.id, unwind, moved_down(address, bias)?))
        });
        let Some((id, unwind, stated)) = stated else {
            return self.without.caller_of(address, registers, read);
        };
        self.in_use = Some(id);
        if self.files.len() > MOST_FILES {
            self.files.clear();
        }
        let tables = self.files.entry(id).or_insert_with(|| Tables::new(Some(unwind)));
        tables.caller_of(stated, registers, read)
    }

    /// Drops the tables that were being read when their parser panicked.
    pub(super) fn drop_tables_in_use(&mut self) {
        if let Some(id) = self.in_use {
            self.files.insert(id, Tables::new(None));
        }
    }
}

fn moved_down(address: FrameAddress, bias: u64) -> Option<FrameAddress> {
    let stated = address.address().wrapping_sub(bias);
    match address {
        FrameAddress::InstructionPointer(_) => Some(FrameAddress::from_instruction_pointer(stated)),
        FrameAddress::ReturnAddress(_) => FrameAddress::from_return_address(stated),
    }
}
