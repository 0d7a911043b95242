//! Errors of reading symbols, and what the user can do about them.
//!
//! What for: [`Error`] ends the reading of one input; a [`Problem`] only reduces the answers and is collected with
//! them. What not: the name of the file: the caller knows its path and puts it in front.

use std::fmt;

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
    #[error(
        "{actual}, but at most {limit} are read; its content most likely differs from its name"
    )]
    TooLarge {
        /// Size of the input.
        actual: Bytes,
        /// The limit.
        limit: Bytes,
    },
}

/// Why the answers for a module are incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Problem {
    /// Neither the file nor a debug file has `.debug_info`, but there is a full symbol table.
    SymbolTableOnly,
    /// Only the dynamic symbol table is left.
    ExportedSymbolsOnly,
    /// Nothing names any code.
    NoSymbols,
    /// `.debug_info` is there but cannot be used.
    DamagedDebugInformation {
        /// What the parser said.
        reason: String,
    },
    /// Decompression would exceed a limit, or failed.
    Compressed {
        /// Section name.
        section: &'static str,
        /// Why.
        reason: String,
    },
    /// Units whose debug information is in `.dwo`/`.dwp` files.
    SplitDebugInformation {
        /// Name of one `.dwo` file.
        example: String,
    },
    /// The debug file refers to a common file (made by `dwz`) that was not found.
    AlternateMissing {
        /// Name in `.gnu_debugaltlink`.
        name: String,
    },
    /// The budget against absurd input is used up.
    Absurd {
        /// Which limit was hit.
        reason: &'static str,
    },
}

impl Problem {
    /// What is wrong, in words that fit one module as well as several, and its consequence.
    #[must_use]
    pub fn what(&self) -> &'static str {
        match self {
            Problem::SymbolTableOnly => {
                "no debug information, so functions by symbol table only, without inlined functions and source lines"
            }
            Problem::ExportedSymbolsOnly => {
                "no debug information and stripped, so only exported functions have names"
            }
            Problem::NoSymbols => "no debug information and no symbols, so functions have no names",
            Problem::DamagedDebugInformation { .. } => {
                "damaged debug information, so the symbol table is used where it fails"
            }
            Problem::Compressed { .. } => {
                "compressed debug information that cannot be read, so names or lines are missing"
            }
            Problem::SplitDebugInformation { .. } => {
                "split debug information is not read, so source lines are known, inlined functions are not"
            }
            Problem::AlternateMissing { .. } => {
                "a file with shared debug information was not found, so some function names are missing"
            }
            Problem::Absurd { .. } => {
                "absurd debug information, so the symbol table is used instead"
            }
        }
    }

    /// The part that is particular to the module.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self {
            Problem::SymbolTableOnly | Problem::ExportedSymbolsOnly | Problem::NoSymbols => None,
            Problem::DamagedDebugInformation { reason } => Some(reason.clone()),
            Problem::Compressed { section, reason } => Some(format!("{section}: {reason}")),
            Problem::SplitDebugInformation { example } => Some(example.clone()),
            Problem::AlternateMissing { name } => Some(name.clone()),
            Problem::Absurd { reason } => Some((*reason).to_owned()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail() {
            Some(detail) => write!(out, "{} ({detail})", self.what()),
            None => out.write_str(self.what()),
        }
    }
}

impl std::error::Error for Problem {}
