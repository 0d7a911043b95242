//! What can go wrong while symbols are read, and what the user can do about it.
//!
//! [`Error`] ends the reading of one input; a [`Problem`] only makes the answers poorer and is collected beside
//! them. Neither names the file: the caller knows its path and puts it in front.

use base::Bytes;

/// Why an input gives no symbols at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not an ELF file that can be read.
    #[error(
        "not a readable ELF file ({reason}); check that the path names a program or shared library"
    )]
    NotElf {
        /// What the parser stumbled over.
        reason: String,
    },
    /// Big-endian ELF: none of the machines Fathom runs on executes it.
    #[error("a big-endian ELF file, which cannot be code of this machine")]
    BigEndian,
    /// Every address in kallsyms is zero.
    #[error(
        "the kernel hides its symbol addresses (all {symbols} of them read as 0); as root, \
         `sysctl kernel.kptr_restrict=0` shows them, or give Fathom the capability CAP_SYSLOG"
    )]
    KernelAddressesHidden {
        /// How many symbols were listed.
        symbols: usize,
    },
    /// A kallsyms text without a single text symbol.
    #[error("the kernel's symbol list names no function; is CONFIG_KALLSYMS off?")]
    NoKernelSymbols,
    /// A text input larger than its limit.
    #[error("{actual} where at most {limit} are read; it is most likely not what its name says")]
    TooLarge {
        /// Size of the input.
        actual: Bytes,
        /// The limit.
        limit: Bytes,
    },
}

/// Why the answers for a module are poorer than they could be.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Problem {
    /// Neither the file nor a debug file has `.debug_info`, but there is a full symbol table.
    #[error(
        "no debug information: functions by symbol table only, without inlined functions and source lines"
    )]
    SymbolTableOnly,
    /// Only the dynamic symbol table is left.
    #[error("no debug information and stripped: only exported functions can be named")]
    ExportedSymbolsOnly,
    /// Nothing names any code.
    #[error("no debug information and no symbols: its functions cannot be named")]
    NoSymbols,
    /// `.debug_info` is there but cannot be used.
    #[error("its debug information is damaged ({reason}): the symbol table is used where it fails")]
    DamagedDebugInformation {
        /// What the parser said.
        reason: String,
    },
    /// Decompression would exceed a limit, or failed.
    #[error("its debug section {section} cannot be decompressed ({reason})")]
    Compressed {
        /// Section name.
        section: &'static str,
        /// Why.
        reason: String,
    },
    /// Units whose debug information is in `.dwo`/`.dwp` files.
    #[error(
        "split debug information ({example}) is not read: source lines are known, inlined functions are not; \
         build without -gsplit-dwarf"
    )]
    SplitDebugInformation {
        /// Name of one `.dwo` file.
        example: String,
    },
    /// The debug file refers to a common file (made by `dwz`) that was not found.
    #[error("its debug file needs {name}, which was not found: some function names are missing")]
    AlternateMissing {
        /// Name in `.gnu_debugaltlink`.
        name: String,
    },
    /// The budget against absurd input ran out.
    #[error("its debug information is absurd ({reason}): the symbol table is used instead")]
    Absurd {
        /// Which limit was hit.
        reason: &'static str,
    },
}
