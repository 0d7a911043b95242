//! The events that count what a socket reads from its memory and writes to it, and what its links to other sockets carry.
//!
//! What for: from the PMUs of a machine to the events to open, by what they count. What not: opening them (`collect::counting`), rates
//! (`analysis`).
//!
//! Memory: each occurrence is a transfer of one line of 64 bytes (a CAS command). Sources: drivers in arch/x86/events/intel/uncore_*.c and
//! arch/x86/events/amd/uncore.c, which name them in sysfs except for those of AMD's UMC (Processor Programming Reference for Family 19h
//! Model 11h, 55901, "UMC Performance Monitor Counters").
//!
//! Links, Intel's UPI: UNC_UPI_TxL_FLITS.ALL_DATA and RxL of the tables of perfmon, whose metrics `upi_data_transmit_bw` take nine of
//! these flits for 64 bytes. The limit of a direction follows from UNC_UPI_CLOCKTICKS: a clock carries 5/6 of three such flits
//! (`getFlitsPerLinkCycle` in cpucounters.h of Intel PCM), so 64 / 9 × 5/2 bytes of data.
//!
//! QPI, before it: a data flit has 8 bytes (perfmon, `qpi_data_transmit_bw` = UNC_Q_TxL_FLITS_G0.DATA × 8 B). What is received is
//! UNC_Q_RxL_FLITS_G0.DATA or, from Haswell on, coherent and other data flits (G1.DRS_DATA, G2.NCB_DATA). The limit follows from
//! UNC_Q_CLOCKTICKS: a flit passes in four transfers, a clock is four of them on Haswell and Broadwell and eight before, and a line takes
//! nine flits (descriptions of these events), so 64 / 9 bytes of data in a clock, or twice that. The field `event` of this PMU has a
//! ninth bit (arch/x86/events/intel/uncore_snbep.c, `event_ext`; `ExtSel` of perfmon).
//!
//! AMD's xGMI: data beats of the Data Fabric's
//! links (tools/perf/pmu-events/arch/x86/amdzen*/data-fabric.json); nothing public tells their clock. A machine with one socket has none.

use crate::events::resolve;
use crate::pmu::Pmu;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Traffic {
    /// From memory.
    Read,
    /// To memory.
    Write,
    /// To another socket.
    Sent,
    /// From another socket.
    Received,
    /// What the link could have carried in one direction.
    Limit,
}

impl Traffic {
    /// The name of its counts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Traffic::Read => "memory reads",
            Traffic::Write => "memory writes",
            Traffic::Sent => "link sent",
            Traffic::Received => "link received",
            Traffic::Limit => "link limit",
        }
    }
}

/// An event of one controller or link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrafficEvent {
    /// What it counts.
    pub traffic: Traffic,
    /// The link: `UPI 0`, `QPI 1`, `xGMI 3`; `None`: memory.
    pub link: Option<String>,
    /// The number of the PMU.
    pub pmu: u32,
    /// `config`, `config1`, `config2`.
    pub config: [u64; 3],
    /// Where it is opened: one CPU of each socket.
    pub cpus: Vec<u32>,
    /// What 1,000 occurrences move, bytes.
    pub bytes_per_thousand: u32,
}

/// What it counts, by which terms, and what 1,000 occurrences move unless the kernel says it.
type Event = (Traffic, &'static str, u32);

/// Events of PMUs whose name begins so: of any CPU, or of these (`family/model`).
struct Known {
    pmu: &'static str,
    cpus: &'static [&'static str],
    links: Links,
    events: &'static [Event],
}

/// Which links the events are of.
#[derive(Clone, Copy)]
enum Links {
    None,
    /// Each PMU is one, with this name and the PMU's number.
    OfPmu(&'static str),
    /// A PMU has so many with this name. The first has this code; the codes of its terms lie [`STEP`] apart.
    Many(&'static str, u64, u64),
}

/// Between the codes of two links of AMD's Data Fabric.
const STEP: u64 = 0x40;
/// A thousand lines of 64 bytes.
const LINES: u32 = 64_000;
const HALF_LINES: u32 = 32_000;
/// 64 bytes in nine flits.
const FLITS: u32 = 7_111;
/// 5/2 of such flits.
const LINK_CLOCKS: u32 = 17_778;
/// 8 bytes in each, headers apart.
const QPI_FLITS: u32 = 8_000;
/// A flit of nine that bring 64 bytes.
const QPI_CLOCKS: u32 = 7_111;
/// Two of them.
const OLD_QPI_CLOCKS: u32 = 14_222;

use Traffic::{Limit, Read, Received, Sent, Write};

/// The first that a PMU has counts. Those of servers by their codes are from the tables of Intel's perfmon, UNC_M_CAS_COUNT.
const KNOWN: [Known; 15] = [
    Known {
        pmu: "uncore_imc_free_running",
        cpus: &[],
        links: Links::None,
        events: &[(Read, "data_read", LINES), (Write, "data_write", LINES)],
    },
    Known {
        pmu: "uncore_imc",
        cpus: &[],
        links: Links::None,
        events: &[(Read, "cas_count_read", LINES), (Write, "cas_count_write", LINES)],
    },
    Known {
        pmu: "uncore_imc",
        cpus: &[],
        links: Links::None,
        events: &[(Read, "data_reads", LINES), (Write, "data_writes", LINES)],
    },
    // Nehalem and Westmere: UNC_QMC_NORMAL_READS.ANY and UNC_QMC_WRITES.FULL.ANY.
    Known {
        pmu: "uncore",
        cpus: &[],
        links: Links::None,
        events: &[(Read, "qmc_normal_reads_any", LINES), (Write, "qmc_writes_full_any", LINES)],
    },
    Known {
        pmu: "uncore_imc_",
        cpus: &["6/85"],
        links: Links::None,
        events: &[(Read, "event=0x4,umask=0x3", LINES), (Write, "event=0x4,umask=0xc", LINES)],
    },
    Known {
        pmu: "uncore_imc_",
        cpus: &["6/106", "6/108"],
        links: Links::None,
        events: &[(Read, "event=0x4,umask=0xf", LINES), (Write, "event=0x4,umask=0x30", LINES)],
    },
    Known {
        pmu: "uncore_imc_",
        cpus: &["6/143", "6/207"],
        links: Links::None,
        events: &[(Read, "event=0x5,umask=0xcf", LINES), (Write, "event=0x5,umask=0xf0", LINES)],
    },
    Known {
        pmu: "uncore_imc_",
        cpus: &["6/173", "6/174", "6/175"],
        links: Links::None,
        events: &[
            (Read, "event=0x5,umask=0xcf", LINES),
            (Read, "event=0x6,umask=0xcf", LINES),
            (Write, "event=0x5,umask=0xf0", LINES),
            (Write, "event=0x6,umask=0xf0", LINES),
        ],
    },
    Known {
        pmu: "amd_umc",
        cpus: &[],
        links: Links::None,
        events: &[
            (Read, "event=0xa,rdwrmask=0x1", LINES),
            (Write, "event=0xa,rdwrmask=0x2", LINES),
        ],
    },
    Known {
        pmu: "uncore_upi_",
        cpus: &["6/85", "6/106", "6/143", "6/173", "6/175", "6/207", "6/221"],
        links: Links::OfPmu("UPI"),
        events: &[
            (Sent, "event=0x2,umask=0xf", FLITS),
            (Received, "event=0x3,umask=0xf", FLITS),
            (Limit, "event=0x1", LINK_CLOCKS),
        ],
    },
    // Haswell-EP, Broadwell-EP.
    Known {
        pmu: "uncore_qpi_",
        cpus: &["6/63", "6/79"],
        links: Links::OfPmu("QPI"),
        events: &[
            (Sent, "event=0x0,umask=0x2", QPI_FLITS),
            (Received, "event=0x102,umask=0x8", QPI_FLITS),
            (Received, "event=0x103,umask=0x4", QPI_FLITS),
            (Limit, "event=0x14", QPI_CLOCKS),
        ],
    },
    // Sandy Bridge-EP, Ivy Bridge-EP.
    Known {
        pmu: "uncore_qpi_",
        cpus: &["6/45", "6/62"],
        links: Links::OfPmu("QPI"),
        events: &[
            (Sent, "event=0x0,umask=0x2", QPI_FLITS),
            (Received, "event=0x1,umask=0x2", QPI_FLITS),
            (Limit, "event=0x14", OLD_QPI_CLOCKS),
        ],
    },
    // Zen 2 and 3: Rome, Milan.
    Known {
        pmu: "amd_df",
        cpus: &["23/49", "25/0", "25/1"],
        links: Links::Many("xGMI", 4, 0x7c7),
        events: &[(Sent, "umask=0x2", HALF_LINES)],
    },
    // Zen 4: Genoa, Bergamo.
    Known {
        pmu: "amd_df",
        cpus: &["25/17", "25/160"],
        links: Links::Many("xGMI", 8, 0xb5f),
        events: &[(Sent, "umask=0xf3e", LINES)],
    },
    // Zen 5: Turin.
    Known {
        pmu: "amd_df",
        cpus: &["26/2", "26/17"],
        links: Links::Many("xGMI", 6, 0xd5f),
        events: &[(Sent, "umask=0xf3e", LINES), (Received, "umask=0xf3f", LINES)],
    },
];

/// Those of all controllers and links, in the order of their PMUs. A PMU of a kind that has no such events is left out. `cpu`:
/// `family/model/stepping`.
#[must_use]
pub fn traffic_events(pmus: &[Pmu], cpu: &str) -> Vec<TrafficEvent> {
    let is_model = |model: &str| cpu.strip_prefix(model).is_some_and(|rest| rest.starts_with('/'));
    let is_of =
        |known: &Known| known.cpus.is_empty() || known.cpus.iter().any(|model| is_model(model));
    let mut found: Vec<TrafficEvent> = Vec::new();
    for pmu in pmus.iter().filter(|pmu| pmu.kind.is_of_machine()) {
        let known = KNOWN.iter().filter(|known| pmu.name.starts_with(known.pmu) && is_of(known));
        found.extend(known.filter_map(|known| of_pmu(pmu, known, pmus)).take(1).flatten());
    }
    // Clients have counters that always run besides those that are set: each transfer is in both.
    let runs_always = |one: &TrafficEvent| {
        let of = |pmu: &&Pmu| pmu.number == one.pmu;
        pmus.iter().find(of).is_some_and(|pmu| pmu.name.contains("free_running"))
    };
    if found.iter().any(runs_always) {
        found.retain(runs_always);
    }
    found
}

/// All or none: a part would look like the whole.
fn of_pmu(pmu: &Pmu, known: &Known, pmus: &[Pmu]) -> Option<Vec<TrafficEvent>> {
    let events = known.events.iter();
    match known.links {
        Links::None => events.map(|event| named(pmu, None, event, event.1, pmus)).collect(),
        _ if pmu.cpus.as_ref().is_none_or(|cpus| cpus.len() < 2) => None,
        Links::OfPmu(name) => {
            let link = format!("{name} {}", pmu.name.rsplit('_').next()?);
            events.map(|event| named(pmu, Some(link.clone()), event, event.1, pmus)).collect()
        }
        Links::Many(name, number, first) => (0..number)
            .flat_map(|link| events.clone().map(move |event| (link, event)))
            .map(|(link, event)| {
                let terms = format!("event={:#x},{}", first + STEP * link, event.1);
                named(pmu, Some(format!("{name} {link}")), event, &terms, pmus)
            })
            .collect(),
    }
}

/// `terms`: an event with a name that the kernel gives, or fields of the PMU.
fn named(
    pmu: &Pmu,
    link: Option<String>,
    (traffic, _, known): &Event,
    terms: &str,
    pmus: &[Pmu],
) -> Option<TrafficEvent> {
    let code = resolve(&format!("{}/{terms}/", pmu.name), pmus)?;
    let described = pmu.events.iter().find(|one| one.name == terms);
    let per_thousand = match described.and_then(|one| Some((one.scale?, one.unit.as_deref()?))) {
        Some((scale, "MiB")) => (scale * f64::from(1 << 20) * 1000.0).round(),
        Some(_) => return None,
        None => f64::from(*known),
    };
    if !(1.0..=f64::from(u32::MAX)).contains(&per_thousand) {
        return None;
    }
    Some(TrafficEvent {
        traffic: *traffic,
        link,
        pmu: pmu.number,
        config: code.config,
        cpus: pmu.cpus.clone().unwrap_or_else(|| vec![0]),
        bytes_per_thousand: per_thousand as u32,
    })
}
