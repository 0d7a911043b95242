//! The events of memory controllers that count what a socket reads from its memory and writes to it.
//!
//! What for: from the PMUs of a machine to the events to open, by direction. What not: opening them (`collect::counting`), rates
//! (`analysis`).
//!
//! Each occurrence is a transfer of one line of 64 bytes (a CAS command). Sources: drivers in arch/x86/events/intel/uncore_*.c and
//! arch/x86/events/amd/uncore.c, which name them in sysfs except for those of AMD's UMC (Processor Programming Reference for Family 19h
//! Model 11h, 55901, "UMC Performance Monitor Counters").

use crate::events::resolve;
use crate::pmu::{Pmu, PmuKind};

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// From memory.
    Read,
    /// To memory.
    Write,
}

impl Direction {
    /// The name of its counts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "memory reads",
            Direction::Write => "memory writes",
        }
    }
}

/// An event of one controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryEvent {
    /// Which way.
    pub direction: Direction,
    /// The number of the controller's PMU.
    pub pmu: u32,
    /// `config`, `config1`, `config2`.
    pub config: [u64; 3],
    /// Where it is opened: one CPU of each socket.
    pub cpus: Vec<u32>,
    /// What 1,000 occurrences move, bytes.
    pub bytes_per_thousand: u32,
}

/// Events of controllers whose PMU's name begins so: of any CPU, or of these (`family/model`); reads, then writes.
struct Known {
    pmu: &'static str,
    cpus: &'static [&'static str],
    events: [&'static [&'static str]; 2],
}

/// The first that a PMU has counts. Those of servers by their codes are from the tables of Intel's perfmon, UNC_M_CAS_COUNT.
const KNOWN: [Known; 8] = [
    Known { pmu: "uncore_imc_free_running", cpus: &[], events: [&["data_read"], &["data_write"]] },
    Known { pmu: "uncore_imc", cpus: &[], events: [&["cas_count_read"], &["cas_count_write"]] },
    Known { pmu: "uncore_imc", cpus: &[], events: [&["data_reads"], &["data_writes"]] },
    Known {
        pmu: "uncore_imc_",
        cpus: &["6/85"],
        events: [&["event=0x4,umask=0x3"], &["event=0x4,umask=0xc"]],
    },
    Known {
        pmu: "uncore_imc_",
        cpus: &["6/106", "6/108"],
        events: [&["event=0x4,umask=0xf"], &["event=0x4,umask=0x30"]],
    },
    Known {
        pmu: "uncore_imc_",
        cpus: &["6/143", "6/207"],
        events: [&["event=0x5,umask=0xcf"], &["event=0x5,umask=0xf0"]],
    },
    Known {
        pmu: "uncore_imc_",
        cpus: &["6/173", "6/174", "6/175"],
        events: [
            &["event=0x5,umask=0xcf", "event=0x6,umask=0xcf"],
            &["event=0x5,umask=0xf0", "event=0x6,umask=0xf0"],
        ],
    },
    Known {
        pmu: "amd_umc",
        cpus: &[],
        events: [&["event=0xa,rdwrmask=0x1"], &["event=0xa,rdwrmask=0x2"]],
    },
];
/// Bytes of a line.
const LINE: f64 = 64.0;

/// Those of all controllers, in the order of their PMUs. Controllers of a kind that has no such events are left out. `cpu`:
/// `family/model/stepping`.
#[must_use]
pub fn memory_events(pmus: &[Pmu], cpu: &str) -> Vec<MemoryEvent> {
    let is_model = |model: &str| cpu.strip_prefix(model).is_some_and(|rest| rest.starts_with('/'));
    let is_of =
        |known: &Known| known.cpus.is_empty() || known.cpus.iter().any(|model| is_model(model));
    let mut found: Vec<MemoryEvent> = Vec::new();
    for pmu in pmus.iter().filter(|pmu| pmu.kind == PmuKind::MemoryController) {
        let known = KNOWN.iter().filter(|known| pmu.name.starts_with(known.pmu) && is_of(known));
        let both = known.filter_map(|known| {
            let directions = [Direction::Read, Direction::Write].into_iter().zip(known.events);
            let events = directions.flat_map(|(direction, events)| {
                events.iter().map(move |event| of_controller(pmu, direction, event, pmus))
            });
            events.collect::<Option<Vec<MemoryEvent>>>()
        });
        found.extend(both.take(1).flatten());
    }
    // Clients have counters that always run besides those that are set: each transfer is in both.
    let runs_always = |one: &MemoryEvent| {
        let of = |pmu: &&Pmu| pmu.number == one.pmu;
        pmus.iter().find(of).is_some_and(|pmu| pmu.name.contains("free_running"))
    };
    if found.iter().any(runs_always) {
        found.retain(runs_always);
    }
    found
}

fn of_controller(
    pmu: &Pmu,
    direction: Direction,
    event: &str,
    pmus: &[Pmu],
) -> Option<MemoryEvent> {
    // Terms with names that the kernel gives, or fields of the PMU.
    let code = resolve(&format!("{}/{event}/", pmu.name), pmus)?;
    let described = pmu.events.iter().find(|one| one.name == event);
    let bytes = match described.and_then(|one| Some((one.scale?, one.unit.as_deref()?))) {
        Some((scale, "MiB")) => scale * f64::from(1 << 20),
        Some(_) => return None,
        None => LINE,
    };
    let per_thousand = (bytes * 1000.0).round();
    if !(1.0..=f64::from(u32::MAX)).contains(&per_thousand) {
        return None;
    }
    Some(MemoryEvent {
        direction,
        pmu: pmu.number,
        config: code.config,
        cpus: pmu.cpus.clone().unwrap_or_else(|| vec![0]),
        bytes_per_thousand: per_thousand as u32,
    })
}
