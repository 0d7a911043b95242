//! Memory other than heap blocks: mapped regions and named variables of a program, and the types of accesses.
//!
//! What for: the block, variable, stack or mapping of an address at a time. Heap blocks
//! ([`Allocation`](crate::Allocation)) come first, then [`Global`]s, then the last [`Region`] of the process before
//! that time that contains the address and of which no [`RegionEnd`] removed that part. What not: the choice itself
//! and all sums, which are `analysis`.

use base::{
    Bytes, CodeAddress, FileOffset, ModuleId, Nanos, NodeId, Pid, RemoteAddr, StackId, Tid,
};

/// What a range of addresses is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RegionKind {
    /// Private memory without a file.
    Anonymous,
    /// Pages of a file, private or shared; code and constants of a module too.
    File,
    /// Memory without a file that processes may share: `MAP_SHARED`, System V, memfd.
    Shared,
    /// Pages of hugetlbfs or `MAP_HUGETLB`.
    Huge,
    /// The stack of a thread.
    Stack,
    /// Memory of `brk`, or (with the name `[arena]`) a further heap of glibc's malloc: where small heap blocks are.
    Break,
}

/// A range of a process's memory, from its mapping or first observation on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// When it was mapped, if that call was observed. Else the time of the last reading that found nothing there; if
    /// a reading found something else there, the time of the reading that found this.
    pub time: Nanos,
    /// Whose address space.
    pub pid: Pid,
    /// For a stack: its thread. Else the thread that mapped it; `None` if the call was not observed.
    pub tid: Option<Tid>,
    /// First address.
    pub start: RemoteAddr,
    /// Length, at least 1.
    pub bytes: Bytes,
    /// What for.
    pub kind: RegionKind,
    /// The file's path, or the kernel's name such as `[heap]`; empty if there is none.
    pub name: String,
    /// Offset in the file of `start`.
    pub file_offset: FileOffset,
    /// Fixed size of its pages (hugetlbfs); `None` where the kernel decides page by page.
    pub page: Option<Bytes>,
    /// The call chain that mapped it. `None` if it was not observed.
    pub stack: Option<StackId>,
}

/// A range that is no longer mapped. It may be part of a region, or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionEnd {
    /// When.
    pub time: Nanos,
    /// Whose address space.
    pub pid: Pid,
    /// First address.
    pub start: RemoteAddr,
    /// Length.
    pub bytes: Bytes,
}

/// A page of a process's memory, drawn at random from a stretch of it at one look at the process. Pages without
/// memory (never touched, swapped out) are drawn too, but not reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// The time of the look; all pages of one look at a process have the same.
    pub time: Nanos,
    /// Whose address space.
    pub pid: Pid,
    /// Its first address.
    pub address: RemoteAddr,
    /// Length of the stretch from which it was drawn, at least a base page: that is what it represents.
    pub stands_for: Bytes,
    /// Whether it is part of a huge page, transparent or of hugetlbfs. `None` if the kernel does not say.
    pub huge: Option<bool>,
    /// The NUMA node of its memory. `None` if the kernel does not say.
    pub node: Option<NodeId>,
}

/// A variable with an address of its own for the life of its module in a process: `.data`, `.bss`, `.rodata`, and
/// what the linker put there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Global {
    /// From when on it is there.
    pub time: Nanos,
    /// In which process.
    pub pid: Pid,
    /// The module that it belongs to.
    pub module: ModuleId,
    /// First address in that process.
    pub start: RemoteAddr,
    /// Length, at least 1.
    pub bytes: Bytes,
    /// Demangled name.
    pub name: String,
}

/// What debug information says about one memory access of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessType {
    /// The module of the instruction.
    pub module: ModuleId,
    /// Offset in it of the instruction's first byte.
    pub offset: FileOffset,
    /// Which access of the instruction: its position in `x86::Instruction::accesses`.
    pub access: u32,
    /// The variable that the address was taken from: `list`, `grid.cells`; `None` where no name is known.
    pub variable: Option<String>,
    /// The type that is accessed in: `node` of `struct node`, `double`; as C, C++, Fortran or Rust call it.
    pub type_name: String,
    /// Bytes of one such value.
    pub type_bytes: Bytes,
    /// The member: `next`, `position.x`; `None` where the whole value is meant.
    pub field: Option<String>,
    /// Bytes from the value's start to the member's.
    pub field_offset: Bytes,
    /// Bytes of the member, or of the whole value.
    pub field_bytes: Bytes,
}

impl AccessType {
    /// The instruction's address.
    #[must_use]
    pub const fn code_address(&self) -> CodeAddress {
        CodeAddress::new(self.module, self.offset)
    }
}

/// What the statement on a source line assigns to: the name by which people know an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// A module with code of this line.
    pub module: ModuleId,
    /// The source file, as frames name it.
    pub file: String,
    /// The line in it.
    pub line: u32,
    /// `parent`, `grid->cells`, `rows[]`; as the source has it.
    pub variable: String,
}
