#![no_main]
//! Any text as a line of `/proc/PID/maps`: file names may hold anything but a line feed.

#[path = "../../crates/collect/src/proc_maps.rs"]
mod proc_maps;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    if let Some(mapping) = proc_maps::parse_line(line) {
        assert!(mapping.start < mapping.end);
        assert!(line.contains(mapping.name));
        let _ = (mapping.executable, mapping.offset);
    }
});
