//! Events by the names that people give them: `cycles`, `page-faults`, `cpu/event=0x3c,umask=0x1/`, `uncore_imc_0/cas_count_read/`.
//!
//! What for: from a name to the words that perf_event_open takes. What not: opening events (`collect::counting`), names that only
//! the makers' tables have.
//!
//! Source: `enum perf_hw_id` and `enum perf_sw_ids` in include/uapi/linux/perf_event.h; terms as in perf-list(1).

use crate::pmu::{Pmu, number};

/// What perf_event_open takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventCode {
    /// The number of the PMU.
    pub pmu: u32,
    /// `config`, `config1`, `config2`.
    pub config: [u64; 3],
    /// Happens only in the kernel.
    pub only_in_kernel: bool,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// The kernel's own names, which each PMU translates.
const KERNEL: [(&str, u32, u64); 17] = [
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
    ("branches", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("bus-cycles", HARDWARE, 6),
    ("stalled-cycles-frontend", HARDWARE, 7),
    ("stalled-cycles-backend", HARDWARE, 8),
    ("ref-cycles", HARDWARE, 9),
    ("cpu-clock", SOFTWARE, 0),
    ("task-clock", SOFTWARE, 1),
    ("page-faults", SOFTWARE, 2),
    ("context-switches", SOFTWARE, 3),
    ("cpu-migrations", SOFTWARE, 4),
    ("minor-faults", SOFTWARE, 5),
    ("major-faults", SOFTWARE, 6),
];

/// The event of this name; `None` where nothing here has it.
#[must_use]
pub fn resolve(name: &str, pmus: &[Pmu]) -> Option<EventCode> {
    if let Some((_, pmu, config)) = KERNEL.iter().find(|(known, ..)| *known == name) {
        let only_in_kernel = matches!(name, "context-switches" | "cpu-migrations");
        return Some(EventCode { pmu: *pmu, config: [*config, 0, 0], only_in_kernel });
    }
    let (pmu, terms) = name.strip_suffix('/')?.split_once('/')?;
    let pmu = pmus.iter().find(|one| one.name == pmu)?;
    let terms = match pmu.events.iter().find(|event| event.name == terms) {
        Some(event) => {
            let valued = |(term, value): &(String, Option<u64>)| Some((term.clone(), (*value)?));
            event.terms.iter().map(valued).collect::<Option<Vec<_>>>()?
        }
        None => terms.split(',').map(term).collect::<Option<Vec<_>>>()?,
    };
    let mut config = [0; 3];
    for (term, value) in terms {
        place(pmu, &term, value, &mut config)?;
    }
    Some(EventCode { pmu: pmu.number, config, only_in_kernel: false })
}

/// `umask=0x1`, or `edge` for 1.
fn term(text: &str) -> Option<(String, u64)> {
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    Some((name.to_owned(), number(value)?))
}

/// Puts the value where the PMU says that the field is.
fn place(pmu: &Pmu, field: &str, value: u64, config: &mut [u64; 3]) -> Option<()> {
    let whole = ["config", "config1", "config2"].iter().position(|word| *word == field);
    if let Some(word) = whole {
        config[word] |= value;
        return Some(());
    }
    let field = pmu.fields.iter().find(|one| one.name == field)?;
    let mut left = value;
    for bits in &field.bits {
        let width = u32::from(bits.last - bits.first) + 1;
        let mask = u64::MAX >> (64 - width);
        *config.get_mut(usize::from(bits.word))? |= (left & mask) << bits.first;
        left = left.checked_shr(width).unwrap_or(0);
    }
    // A value that does not fit would count something else.
    (left == 0).then_some(())
}
