//! Findings end to end: what they say of programs with one known cause, and of their near-misses.
//!
//! Chosen are causes that show in what loads wait for or in who computes, by a factor and not by percents: the other
//! programs of `tests/findings` are measured by `bench/findings.py`.

use std::ffi::OsStr;

use serde_json::Value;
use testkit::programs::{Fathom, finding};

use crate::watched::{COLLECT, bursts_work, fathom};

/// The findings of a program that runs for so many seconds, with its result.
fn found(fathom: &Fathom, program: &str, seconds: &str) -> (Vec<Value>, String) {
    let path = finding(program);
    let result = format!("{program}-{seconds}");
    let mut all: Vec<&OsStr> = COLLECT.iter().map(OsStr::new).collect();
    let rest = ["-r", &result, "--"].map(OsStr::new);
    all.extend(rest.into_iter().chain([path.as_os_str(), OsStr::new(seconds)]));
    let output = fathom.output(all);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let summary = fathom.report(&result, &["summary"]);
    (summary["findings"].as_array().expect("findings").clone(), result)
}

/// Whether one of these rules spoke, and where.
fn place_of(findings: &[Value], id: &str) -> Option<(String, u64)> {
    let one = findings.iter().find(|one| one["id"] == id)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some((text(&one["where"]["function"]), one["where"]["line"].as_u64().unwrap_or(0)))
}

#[test]
fn causes_are_found_with_their_lines_and_near_misses_are_not() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("findings");
    for (program, near_miss, id, function, line) in [
        ("chase_far", "chase_near", "pointer-chase", "walk", 6),
        ("column_walk", "column_small", "strided-walk", "by_columns", 7),
        ("record_field", "record_whole", "low-line-use", "sum_field", 7),
        ("handle_in_loop", "handle_by_element", "repeated-loads", "triad", 14),
        ("lines_persisted", "lines_together", "unbatched-flushes", "fill", 12),
        ("lines_persisted_again", "entries_committed", "redundant-flushes", "write_block", 10),
    ] {
        // Next to many other programs it gets too few bursts in a second: then a longer run shows its cause.
        let mut findings = Vec::new();
        for seconds in ["1", "4", "12"] {
            if place_of(&findings, id).is_none() {
                (findings, _) = found(&fathom, program, seconds);
            }
        }
        let place = place_of(&findings, id);
        assert_eq!(place, Some((function.to_owned(), line)), "{program}: {findings:?}");
        let gain = &findings.iter().find(|one| one["id"] == id).expect("found")["predicted_gain"];
        assert!(gain["low"].as_f64() > Some(0.0) && gain["unit"] == "s", "{program}: {gain}");
        let (findings, _) = found(&fathom, near_miss, "1");
        assert_eq!(place_of(&findings, id), None, "{near_miss}: {findings:?}");
    }
}

#[test]
fn the_view_says_what_could_not_be_judged() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("unjudged");
    // The machine is not measured in tests, so that what depends on its figures cannot be judged.
    // A function that waits for nothing is not held up by bandwidth, whatever this machine's peak is. Next to many other
    // programs it takes a longer run to know that it waits for nothing. (clock_gettime waits for the clock: what it would take
    // without waits is not known.)
    let is_open = |notes: &str| {
        let rules = notes.split("Undecided: ");
        rules
            .filter(|one| one.starts_with("bandwidth-saturated"))
            .any(|one| one.contains("polynomial"))
    };
    let mut notes = String::from("Undecided: bandwidth-saturated: it may apply to polynomial");
    let mut waits = 0.0;
    for seconds in ["1", "4", "12"] {
        if is_open(&notes) {
            let (_, result) = found(&fathom, "arithmetic", seconds);
            notes = fathom.report(&result, &["findings"])["notes"].to_string();
            let bound = &fathom.report(&result, &["summary"])["memory_bound"];
            waits = bound["high"].as_f64().expect("a range");
        }
    }
    // On some machines the range stays wide: then nothing else may be said.
    assert!(!is_open(&notes) || waits > 20.0, "waits at most {waits} %: {notes}");
    assert!(notes.contains("Undecided: tlb-bound"), "{notes}");
    assert!(notes.contains("fathom machine"), "{notes}");
}
