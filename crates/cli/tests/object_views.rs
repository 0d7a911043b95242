//! `report objects` of a program whose objects are known: nearly all accesses of each function are to the object that it
//! says it uses.
//!
//! Assumption: a burst comes every millisecond or so; how many there are decides no test, as long as each function has one.

use serde_json::Value;
use testkit::programs::{Fathom, NO_CALIBRATION, assert_ended_well, skip, target};

/// Each function of `memory_objects`, and the objects that its words or nodes are in: names begin like this.
const EXPECTED: [(&str, &[&str]); 7] = [
    ("use_heap_array", &["make_heap_array memory_objects.c:"]),
    ("use_small_nodes", &["small heap blocks", "make_small_nodes memory_objects.c:"]),
    ("use_global_array", &["global_array"]),
    ("use_static_array", &["static_array"]),
    ("use_stack_array", &["stack of memory_objects"]),
    ("use_mapped_array", &["make_mapped_array memory_objects.c:"]),
    ("use_mapped_file", &["/"]),
];

/// At least this share of a function's accesses is to its object, percent.
const RIGHT: f64 = 99.0;

fn collect(fathom: &Fathom, result: &str, ms: &str, more: &[&str]) {
    let program = target("memory_objects");
    let fixed = [
        "collect",
        "memory-access",
        "-q",
        "-k",
        NO_CALIBRATION,
        "-k",
        "burst-interval=1",
        "-k",
        "overhead=100",
        "-r",
        result,
    ];
    let program = program.to_str().expect("a path in UTF-8");
    let output =
        fathom.output(fixed.iter().chain(more).chain(&["--", program, "--ms", ms]).copied());
    assert_ended_well(&output);
}

/// Function, object, share of all accesses.
fn shares(fathom: &Fathom, result: &str) -> Vec<(String, String, f64)> {
    let rows = fathom.rows(result, &["objects", "-g", "function,object", "--limit", "100000"]);
    let text = |cell: &Value| cell.as_str().unwrap_or("?").to_owned();
    let share = |row: &Value| row["access_percent"]["value"].as_f64().unwrap_or(0.0);
    rows.iter().map(|row| (text(&row["function"]), text(&row["object"]), share(row))).collect()
}

fn is_traced(rows: &[(String, String, f64)], function: &str) -> bool {
    rows.iter().any(|(one, _, share)| one == function && *share > 0.0)
}

fn check(rows: &[(String, String, f64)], function: &str, objects: &[&str]) {
    let of_it = || rows.iter().filter(|(one, ..)| one == function);
    let all: f64 = of_it().map(|(.., share)| share).sum();
    // The variable that it was assigned to may stand in front.
    let bare = |object: &str| object.split_once(": ").map_or(object, |(_, bare)| bare).to_owned();
    let is_right = |object: &str| {
        objects.iter().any(|name| object.starts_with(name) || bare(object).starts_with(name))
    };
    let right = of_it().filter(|(_, object, _)| is_right(object));
    let right: f64 = right.map(|(.., share)| share).sum();
    let found: Vec<_> = of_it().collect();
    assert!(right / all * 100.0 >= RIGHT, "{function}: {found:?}");
}

#[test]
fn accesses_are_attributed_to_the_objects_that_the_program_says_it_uses() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "object-views");
    // On a loaded machine a tenth of a second may pass without a burst.
    let mut rows = Vec::new();
    for ms in ["200", "600", "2000"] {
        collect(&fathom, ms, ms, &[]);
        rows = shares(&fathom, ms);
        if EXPECTED.iter().all(|(function, _)| is_traced(&rows, function)) {
            break;
        }
    }
    if rows.is_empty() {
        return skip("no burst could be taken here");
    }
    for (function, objects) in EXPECTED {
        assert!(is_traced(&rows, function), "{function} was not traced");
        check(&rows, function, objects);
    }
    let all: f64 = rows.iter().map(|(.., share)| share).sum();
    assert!((all - 100.0).abs() < 0.01, "shares sum up to {all}");
    collect(&fathom, "without", "50", &["-k", "analyze-mem-objects=false"]);
    let text = fathom.output(["report", "objects", "-r", "without"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("has no memory objects"), "{text}");
}
