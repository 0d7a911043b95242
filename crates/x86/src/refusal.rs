//! Why an instruction cannot run in translated code: one name per reason.
//!
//! What for: a burst ends before such an instruction and the program continues natively. A result counts two of these
//! reasons only, `system call` and, for all others, `instruction` (`burst::Refused`). What not: which instructions these
//! are (`refused_instructions`), and reasons that only a live process shows (JIT pages, rseq critical sections, `gs` in
//! use), which `burst::Refused` has.

/// Why an instruction must run natively.
///
/// Sources: Intel SDM vol. 2 for each instruction, vol. 1 ch. 17 (CET), ch. 16 (TSX), ch. 18 (AMX), ch. 13 (XSAVE).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// No such instruction in 64-bit mode, or its prefixes are not allowed.
    #[error("not an instruction in 64-bit mode; the program faults here on its own")]
    Invalid,
    /// `syscall`, `sysenter`.
    #[error("system call; only native code may enter the kernel with its own return address")]
    SystemCall,
    /// `int n`, `int3`, `int1`, `iret`, `uiret`.
    #[error("software interrupt or return from one; the saved instruction pointer must be native")]
    Interrupt,
    /// `ud0`, `ud1`, `ud2`: intended faults.
    #[error("instruction that always faults; the fault must happen at its native address")]
    AlwaysFaults,
    /// Far jump, call, return: loads CS.
    #[error("far transfer; it may leave 64-bit mode")]
    FarTransfer,
    /// A near branch with an operand-size prefix.
    #[error("branch with an operand-size prefix; Intel and AMD go to different addresses")]
    OperandSizeBranch,
    /// `xbegin`, `xend`, `xabort`: an abort goes to an address in the code.
    #[error("hardware transaction; recording inside it would abort it")]
    Transaction,
    /// `hlt`, port I/O and everything that needs privilege.
    #[error("privileged instruction; a program faults here on its own")]
    Privileged,
    /// `vmcall` and the like.
    #[error("call into a hypervisor or a secure mode")]
    Hypervisor,
    /// `enclu`.
    #[error("enters or leaves an enclave; code in it cannot be traced")]
    Enclave,
    /// Loads of a segment register, `wrfsbase`, `wrgsbase`, `swapgs`.
    #[error("changes a segment register or its base, on which addresses depend")]
    SegmentLoad,
    /// `rdgsbase`.
    #[error("reads the base of gs, which is the tracer's own inside a burst")]
    GsBaseRead,
    /// `xsave`, `xrstor` and variants.
    #[error("saves or restores processor state; how many bytes depends on XCR0 and edx:eax")]
    StateSave,
    /// AMX tile loads and stores, tile configuration.
    #[error(
        "tile load or store; its rows depend on the tile configuration, which no trace records"
    )]
    Tile,
    /// `wrpkru`.
    #[error("changes the rights of memory protection keys, perhaps of the trace buffer too")]
    ProtectionKeys,
    /// `incssp`, `rstorssp`, `saveprevssp`, `wrss`, `setssbsy`, `clrssbsy`.
    #[error("works on the shadow stack; translated calls would not match it")]
    ShadowStack,
    /// VIA PadLock and other vendor extensions with implicit buffers.
    #[error("vendor extension whose memory traffic no manual at hand states exactly")]
    VendorExtension,
    /// A repeated string instruction with an address-size prefix.
    #[error("repeated string instruction with 32-bit addresses; its range may wrap at 4 GiB")]
    NarrowRepeat,
    /// The decoder knows the instruction but not how many bytes it touches.
    #[error("accesses memory, but the number of bytes is unknown")]
    UnknownSize,
    /// A memory operand relative to gs.
    #[error("accesses memory relative to gs, whose base is the tracer's own inside a burst")]
    GsUse,
    /// `std`.
    #[error("sets the direction flag, which traces do not record")]
    DirectionSet,
    /// `popf`, `popfq`.
    #[error("loads all flags, perhaps the direction or the trap flag")]
    FlagsLoad,
    /// The copy would have to reach further than 2 GiB.
    #[error("refers to an address more than 2 GiB from where its copy would lie")]
    TooFar,
    /// More values than a record may have; no block within the current [`Limits`](crate::Limits) needs that many.
    #[error("its record would have more than {} words", crate::translate::MOST_WORDS)]
    TooManyValues,
    /// Vectors that this processor does not have.
    #[error("this processor does not have the instruction; the program faults here on its own")]
    NotOnThisProcessor,
    /// There is nothing to copy, or not all of its bytes are available.
    #[error("the bytes of the code are not all there")]
    MissingBytes,
}
