//! Memory other than heap blocks: mapped regions and named variables of a program, and what its types say about one
//! access.
//!
//! What for: an address at a time leads to the block, variable, stack or mapping that it lies in: heap blocks
//! ([`Allocation`](crate::Allocation)) first, then [`Global`]s, then the last [`Region`] of the process before that time
//! which holds it and of which no [`RegionEnd`] took that part away.
//! What not: the choice itself and all sums, which are `analysis`.

use base::{Bytes, FileOffset, ModuleId, Nanos, NodeId, Pid, RemoteAddr, StackId, Tid};

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
    /// What `brk` gave, or (with the name `[arena]`) a further heap of glibc's malloc: where small heap blocks lie.
    Break,
}

/// A range of a process's memory, from when it was mapped, or seen first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// When it was mapped, where that call was seen. Else the time of the last look at the process that found nothing there;
    /// where it found something else, of the look that found this.
    pub time: Nanos,
    /// Whose address space.
    pub pid: Pid,
    /// For a stack: the thread whose it is. Else who mapped it; `None` when nobody was seen to: it was there already.
    pub tid: Option<Tid>,
    /// First address.
    pub start: RemoteAddr,
    /// Length, at least 1.
    pub bytes: Bytes,
    /// What for.
    pub kind: RegionKind,
    /// The file's path, or the kernel's word for it as `[heap]`; empty where there is none.
    pub name: String,
    /// Offset in the file of `start`.
    pub file_offset: FileOffset,
    /// Size of its pages where that is fixed (hugetlbfs); `None` where the kernel decides page by page.
    pub page: Option<Bytes>,
    /// Who asked for it. `None` when that was not seen.
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

/// A page of a process's memory, drawn at random from a stretch of it at a look at the process. Pages that nothing lies
/// behind (never touched, swapped out) are drawn, too, but not reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Of the look; all pages of one look at a process have the same.
    pub time: Nanos,
    /// Whose address space.
    pub pid: Pid,
    /// Its first address.
    pub address: RemoteAddr,
    /// Length of the stretch that it was drawn from, at least a base page: that is what it stands for.
    pub stands_for: Bytes,
    /// Whether it is part of a huge page, transparent or of hugetlbfs. `None` where the kernel does not tell.
    pub huge: Option<bool>,
    /// The NUMA node of its memory. `None` where the kernel does not tell.
    pub node: Option<NodeId>,
}

/// A variable with a place of its own for the life of its module in a process: `.data`, `.bss`, `.rodata`, and what the
/// linker put there.
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

/// What the statement on a source line gives its value to: the name that people know an allocation by.
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
