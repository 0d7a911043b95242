#![no_main]
//! Any text as a line of `/proc/PID/maps`: file names may hold anything but a line feed.

use libfuzzer_sys::fuzz_target;
use tracee::maps::parse_line;

fuzz_target!(|line: &str| {
    if let Some(mapping) = parse_line(line) {
        assert!(mapping.start < mapping.end);
        assert!(line.contains(mapping.name));
    }
});
