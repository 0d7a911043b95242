//! The groups of events that `collect uarch-exploration` counts.
//!
//! What for: the table's events as this machine's PMU takes them, and notes on what it cannot count. What not: the table and the
//! tree (`analysis::uarch`), opening events (`collect::counting`).

use collect::counting::Choice;
use facts::NoteSubject;
use facts::host::Host;

use crate::knobs::choice;

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
    if !pmus.iter().any(|pmu| pmu.name == "cpu") {
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
        let event = |(name, terms): &(&str, &str)| find(name, &format!("cpu/{terms}/"));
        groups.push(group.iter().filter_map(event).collect());
    }
    groups.retain(|group| !group.is_empty());
    if !without.is_empty() {
        let names = without.join(", ");
        notes.push(note(format!("this kernel describes no such event of its PMU: {names}")));
    }
    groups
}
