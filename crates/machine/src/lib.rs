//! Describes the machine, from text and registers of the kernel and the CPU that a caller hands in.
//!
//! What for: [`Snapshot`] holds the files and CPUID leaves that describe a machine; [`describe`] turns it into
//! [`facts::host::Host`]; [`ladder`] finds cache sizes in measured latencies; [`fingerprint`] says whether a
//! stored calibration is of this machine; [`pmu`] reads what its counters can do, [`events`] knows their names.
//! Pure: opens no file, reads no clock and no environment. A
//! [`Source`] hands in the files, from the live system or from a directory of a stored one.
//! What not: measuring (crate `calibrate`).
//!
//! Assumptions: the layouts of `/sys/devices/system` in the kernel's `Documentation/ABI/{stable,testing}`.
//! Everything in them is an allegation: virtual machines and firmware lie. What cannot be parsed is left out
//! and named in the list of problems; nothing panics.

#![forbid(unsafe_code)]

mod arm;
mod caches;
pub mod cpuid;
pub mod event_names;
pub mod events;
mod fingerprint;
mod host;
pub mod ladder;
mod memory;
mod modules;
pub mod pmu;
pub mod smbios;
mod snapshot;
mod surroundings;
pub mod text;
mod topology;
pub mod traffic_events;

pub use fingerprint::fingerprint;
pub use host::describe;
pub use memory::free_blocks;
pub use snapshot::{Snapshot, Source};
pub use surroundings::{has_core_counters, memory_limits};
pub use topology::placement;

/// Why a piece of text was not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MachineError {
    /// Not a list such as `0-3,8`.
    #[error("\"{text}\" is not a list of CPUs or nodes like 0-3,8")]
    List {
        /// The text, shortened.
        text: String,
    },
    /// A CPU number that no machine has.
    #[error("number {number} in a list of CPUs or nodes is above {limit}")]
    Number {
        /// The number.
        number: u64,
        /// The largest that is believed.
        limit: u32,
    },
    /// Not a size such as `48K`.
    #[error("\"{text}\" is not a size like 48K or 2048 kB")]
    Size {
        /// The text, shortened.
        text: String,
    },
    /// Not a stored snapshot.
    #[error("line {line} of the snapshot belongs to no file: it must begin with \"== /path\"")]
    Snapshot {
        /// 1-based.
        line: usize,
    },
}
