#![no_main]
//! Any text as the kernel's description of PMUs: a line `PMU/FILE TEXT` per file. One with spaces before it is the name of an event,
//! or the family, model and stepping of the processor.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use machine::pmu::{pmus, rights};
use machine::{Source, event_names, events, traffic_events};

const DIRECTORY: &str = "/sys/bus/event_source/devices";

struct Tree(BTreeMap<String, String>);

impl Source for Tree {
    fn read(&self, path: &str) -> Option<String> {
        self.0.get(path).cloned()
    }

    fn list(&self, directory: &str) -> Vec<String> {
        let prefix = format!("{directory}/");
        let below = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        let names: BTreeSet<&str> = below.filter_map(|rest| rest.split('/').next()).collect();
        names.into_iter().map(str::to_owned).collect()
    }
}

fuzz_target!(|text: &str| {
    // Lists of folders take time by the square of the files here, not in Fathom.
    let (names, files): (Vec<&str>, Vec<&str>) =
        text.lines().take(300).partition(|line| line.starts_with(' '));
    let file = |line: &&str| {
        let (path, content) = line.split_once(' ').unwrap_or((line, ""));
        (format!("{DIRECTORY}/{path}"), format!("{content}\n"))
    };
    let pmus = pmus(&Tree(files.iter().map(file).collect()));
    for name in names.iter().map(|line| line.trim()).take(10) {
        for vendor in ["GenuineIntel", "AuthenticAMD", "Arm"] {
            let host = facts::host::Host {
                vendor: vendor.to_owned(),
                cpu: name.to_owned(),
                family_model_stepping: name.to_owned(),
                ..facts::host::Host::default()
            };
            black_box(event_names::known(&host, &pmus));
            if let Some(written) = event_names::written(name, &host, &pmus) {
                black_box(events::resolve(&written, &pmus));
            }
        }
        black_box((events::resolve(name, &pmus), rights(name, name)));
        for event in traffic_events::traffic_events(&pmus, name) {
            assert!(event.bytes_per_thousand > 0);
        }
    }
});
