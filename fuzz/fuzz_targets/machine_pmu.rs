#![no_main]
//! Any text as the kernel's description of PMUs: a line `PMU/FILE TEXT` per file. One with spaces before it is the name of an event,
//! or the family, model and stepping of the processor.

use std::collections::BTreeMap;
use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use machine::pmu::{pmus, rights};
use machine::{event_names, events, traffic_events};

const DIRECTORY: &str = "/sys/bus/event_source/devices";

fuzz_target!(|text: &str| {
    let (names, files): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with(' '));
    let file = |line: &&str| {
        let (path, content) = line.split_once(' ').unwrap_or((line, ""));
        (format!("{DIRECTORY}/{path}"), format!("{content}\n"))
    };
    let pmus = pmus(&files.iter().map(file).collect::<BTreeMap<_, _>>());
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
