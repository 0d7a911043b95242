//! Addresses whose types say to which space they belong.
//!
//! What not: dereferencing them.

use std::fmt;

use crate::ModuleId;

/// An address in the virtual address space of a profiled process (or of the kernel, for kernel frames).
///
/// Holding one proves nothing: the memory behind it may be gone. It can never be dereferenced here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RemoteAddr(pub u64);

impl RemoteAddr {
    /// The address `bytes` further on; saturates at the end of the address space.
    #[must_use]
    pub fn offset(self, bytes: u64) -> RemoteAddr {
        RemoteAddr(self.0.saturating_add(bytes))
    }

    /// Distance in bytes from `base`, or `None` when this address lies below it.
    #[must_use]
    pub fn distance_from(self, base: RemoteAddr) -> Option<u64> {
        self.0.checked_sub(base.0)
    }
}

impl fmt::Display for RemoteAddr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

impl fmt::Debug for RemoteAddr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RemoteAddr({:#x})", self.0)
    }
}

/// A position in a module's file, in bytes from its start: the one address form that can be computed from a
/// mapping without reading the file. It is often *not* equal to the ELF virtual address; `symbols` converts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileOffset(pub u64);

impl fmt::Display for FileOffset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

impl fmt::Debug for FileOffset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FileOffset({:#x})", self.0)
    }
}

/// The place of a machine instruction: its file, and where in the file. The same in every process that maps the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CodeAddress {
    /// The file.
    pub module: ModuleId,
    /// Where in the file.
    pub offset: FileOffset,
}

impl CodeAddress {
    /// The place `offset` of `module`.
    #[must_use]
    pub const fn new(module: ModuleId, offset: FileOffset) -> CodeAddress {
        CodeAddress { module, offset }
    }
}
