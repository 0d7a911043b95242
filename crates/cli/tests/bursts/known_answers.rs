//! What the views say of programs whose accesses are known.

use serde_json::Value;
use testkit::programs::{Fathom, assert_ended_well, facts_of, skip};

use crate::watched::{assert_verified, attempts, bursts_work, collect, fathom, value};

/// The rows of `report accesses` of these functions that make up more than a hundredth of their function's accesses:
/// what a function does once per call is not its loop.
fn loops(fathom: &Fathom, result: &str, functions: &[&str]) -> Vec<Value> {
    let rows = fathom.rows(result, &["accesses", "--limit", "100000"]);
    let mut found = Vec::new();
    for function in functions {
        let of_it = || rows.iter().filter(|row| row["function"] == **function);
        let all: f64 = of_it().map(|row| value(&row["accesses"])).sum();
        found.extend(of_it().filter(|row| value(&row["accesses"]) > all / 100.0).cloned());
    }
    found
}

/// A line per row: function, kind, bytes, pattern; in the order of the alphabet.
fn lines(rows: &[Value]) -> String {
    let word = |cell: &Value| cell.as_str().unwrap_or("?").to_owned();
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let (function, kind, stride) = (&row["function"], &row["kind"], &row["stride"]);
            let bytes = value(&row["access_bytes"]);
            format!("{} {} {bytes} {}", word(function), word(kind), word(stride))
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

const FUNCTIONS: [&str; 7] = ["triad", "column", "chase", "scalar", "fill", "in_place", "atomic"];

const EXPECTED: &str = "\
atomic atomic 8 constant
chase read 8 pointer chase
column read 8 +4096
fill write 8 unit
in_place read+write 8 unit
scalar read 8 constant
triad read 8 unit
triad read 8 unit
triad write 8 unit";

/// Collects until each function was traced: on a loaded machine a tenth of a second may pass without a burst.
fn collect_known(fathom: &Fathom, threads: &str) -> String {
    let mut functions = Vec::new();
    for ms in ["100", "400", "1600"] {
        let output = collect(fathom, ms, "known_accesses", &["--ms", ms, "--threads", threads]);
        assert_ended_well(&output);
        assert_verified(fathom, ms);
        let rows = fathom.rows(ms, &["accesses", "--limit", "100000"]);
        functions =
            rows.iter().filter_map(|row| row["function"].as_str().map(str::to_owned)).collect();
        if FUNCTIONS.iter().all(|function| functions.iter().any(|name| name == function)) {
            return ms.to_owned();
        }
    }
    panic!("not all functions were traced, but {functions:?}");
}

fn check_known_accesses(fathom: &Fathom, result: &str) {
    let rows = loops(fathom, result, &FUNCTIONS);
    assert_eq!(lines(&rows), EXPECTED);
    let of = |function: &str| {
        let rows = rows.iter().filter(|row| row["function"] == function);
        rows.cloned().collect::<Vec<_>>()
    };
    // Unit strides use every byte of a line but at the ends of a burst's stretch.
    for row in ["triad", "fill", "in_place"].iter().flat_map(|function| of(function)) {
        assert!(value(&row["line_use_percent"]) > 99.0, "{row}");
        assert!(value(&row["stride_percent"]) > 99.0, "{row}");
    }
    // One of 128 steps leads to the next column.
    let column = &of("column")[0];
    assert!(value(&column["stride_percent"]) > 99.0, "{column}");
    for row in ["scalar", "atomic"].iter().flat_map(|function| of(function)) {
        assert_eq!(value(&row["lines_per_burst"]), 1.0, "{row}");
    }
    // A burst may begin or end within an iteration.
    let bursts = attempts(&fathom.report(result, &["summary"])).expect("attempts").0 as f64;
    let counts: Vec<f64> = of("triad").iter().map(|row| value(&row["accesses"])).collect();
    let spread = counts.iter().fold(f64::MIN, |most, count| most.max(*count))
        - counts.iter().fold(f64::MAX, |least, count| least.min(*count));
    assert!(spread <= bursts, "sites of one loop: {counts:?} in {bursts} bursts");
}

#[test]
fn ways_to_use_memory_are_recognised() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("known");
    let result = collect_known(&fathom, "1");
    check_known_accesses(&fathom, &result);
    let summary = fathom.report(&result, &["summary"]);
    let parts = summary["overhead_parts"].as_object().expect("parts of the overhead");
    for part in ["cpu_time", "consumer_cpu", "stand_still", "burst_time", "slowdown"] {
        assert!(value(&parts[part]) > 0.0, "{part}: {}", parts[part]);
    }
    assert!(value(&summary["overhead"]) > 0.0);
}

#[test]
fn threads_are_traced_alike() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("threads");
    check_known_accesses(&fathom, &collect_known(&fathom, "2"));
}

#[test]
fn each_lane_of_a_gather_is_an_access() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("gather");
    let output = collect(&fathom, "r", "gather", &["--rounds", "2000"]);
    assert_ended_well(&output);
    assert_verified(&fathom, "r");
    if facts_of(&output.stdout)["avx2"] != "1" {
        skip("this processor has no AVX2");
        return;
    }
    // The instructions stand in functions of the compiler's headers, inlined into by_avx2.
    let rows = fathom.rows("r", &["accesses", "--limit", "100000"]);
    let inlined =
        |row: &&Value| row["function"].as_str().is_some_and(|name| name.starts_with("_mm256_"));
    let count = |bytes: f64, stride: &str| {
        let of_kind = |row: &&Value| row["stride"] == stride && row["kind"] == "read";
        let mut found = rows.iter().filter(inlined).filter(of_kind);
        let row = found.find(|row| value(&row["access_bytes"]) == bytes);
        value(
            &row.unwrap_or_else(|| panic!("no {stride} reads of {bytes} bytes: {rows:?}"))["accesses"],
        )
    };
    // Six lanes are on; a burst may begin or end between the two loads.
    let bursts = attempts(&fathom.report("r", &["summary"])).expect("attempts").0 as f64;
    let (lanes, loads) = (count(4.0, "irregular"), count(32.0, "unit"));
    assert!((lanes - 6.0 * loads).abs() <= 6.0 * bursts, "{lanes} lanes, {loads} loads");
}

/// Programs that are refused run on unharmed, and the result says why nothing is known of them.
#[test]
fn what_cannot_be_traced_is_named() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("refused");
    for (program, arguments, reason) in [
        ("jit_code", &["--ms", "300", "--remove-map"][..], "jit code"),
        ("gs_user", &["--rounds", "300000"], "gs in use"),
        ("seccomp_user", &["--rounds", "12000"], "system call filter"),
        ("seccomp_user", &["--rounds", "12000", "--before", "3000"], "system call filter"),
    ] {
        let result = format!("{program}-{}", arguments.len());
        let output = collect(&fathom, &result, program, arguments);
        assert_ended_well(&output);
        assert_verified(&fathom, &result);
        let summary = fathom.report(&result, &["summary"]);
        let refused = summary["coverage"]["refused"].as_array().expect("reasons");
        let share = refused.iter().find(|one| one["reason"] == reason);
        let share = share.unwrap_or_else(|| panic!("{program}: {reason} not in {refused:?}"));
        assert!(value(&share["percent"]) > 10.0, "{program}: {share}");
    }
}
