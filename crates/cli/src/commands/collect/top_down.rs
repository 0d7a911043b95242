//! The groups of events that `collect uarch-exploration` counts, and the events of which it takes samples.
//!
//! What for: the table's events as this machine's PMU takes them, and notes on what it cannot count. What not: the table and the
//! tree (`analysis::uarch`), opening events (`collect::counting`).

use analysis::uarch::EventToCount;
use collect::counting::{Choice, SampleRate};
use facts::NoteSubject;
use facts::host::Host;

use crate::knobs::choice;

/// Samples of an event a second, while it has a counter. Some ten events on four counters then take 800 samples a second on a CPU, of 2
/// to 3 µs each without a copied stack: 0.2 %, by arithmetic.
const SAMPLES: u64 = 199;
const NO_PMU: &str = "this machine has no PMU for its cores, so its events could not be counted; only time and \
                      stacks were recorded. A virtual machine has a PMU where its host lends it one";

/// Cycles and instructions, then the groups of the tree. What this machine cannot count is noted.
pub(super) fn groups(host: &Host, notes: &mut Vec<String>) -> Vec<Vec<Choice>> {
    let note = |text: String| NoteSubject::TopDown.note(text);
    let wanted = match analysis::uarch::groups(host) {
        Ok(wanted) => wanted,
        Err(why) => {
            notes.push(note(format!("{why}; only time and stacks were recorded")));
            return Vec::new();
        }
    };
    let pmus = calibrate::counters().pmus;
    let has = |event: &EventToCount| pmus.iter().any(|pmu| pmu.name == event.pmu);
    if !wanted.iter().flatten().any(has) {
        notes.push(note(NO_PMU.to_owned()));
        return Vec::new();
    }
    let mut without = Vec::new();
    let mut find = |name: &str, event: &str| {
        let found = choice(name, event, &pmus);
        if found.is_none() {
            without.push(name.to_owned());
        }
        found
    };
    let own = ["cycles", "instructions"].iter().filter_map(|name| find(name, name)).collect();
    let mut groups: Vec<Vec<Choice>> = vec![own];
    for group in wanted {
        let event =
            |one: &EventToCount| find(&one.full_name(), &format!("{}/{}/", one.pmu, one.terms));
        groups.push(group.iter().filter_map(event).collect());
    }
    groups.push(of_code(host, &mut find));
    groups.retain(|group| !group.is_empty());
    if !without.is_empty() {
        let names = without.join(", ");
        notes.push(note(format!("this kernel describes no such event of its PMU: {names}")));
    }
    groups
}

/// Cycles, instructions and the events of the tree's first levels, as events that take samples.
fn of_code(host: &Host, find: &mut impl FnMut(&str, &str) -> Option<Choice>) -> Vec<Choice> {
    let events = analysis::uarch::events_of_code(host).unwrap_or_default();
    let own = ["cycles", "instructions"].map(|name| (name.to_owned(), name.to_owned()));
    let of_tree = events.iter().map(|one| (one.full_name(), format!("{}/{}/", one.pmu, one.terms)));
    // The kernel's names count one kind of cores; `inst_retired.any` and its like are not in the first levels of all trees.
    let efficient = events.iter().any(|one| one.pmu == "cpu_atom");
    let of_others = [
        ("cpu_atom/cycles/", "cpu_atom/event=0x3c/"),
        ("cpu_atom/instructions/", "cpu_atom/event=0xc0/"),
    ];
    let of_others = of_others.into_iter().filter(|_| efficient);
    let of_others = of_others.map(|(name, event)| (name.to_owned(), event.to_owned()));
    let sampled = Some(SampleRate::Hertz(SAMPLES));
    own.into_iter()
        .chain(of_others)
        .chain(of_tree)
        .filter_map(|(name, event)| find(&name, &event))
        .map(|choice| Choice { sampled, ..choice })
        .collect()
}
