//! Flushes and fences of programs whose counts are known by construction.

use std::ffi::OsStr;

use serde_json::Value;
use testkit::programs::{Fathom, finding, skip, target};

use crate::watched::{COLLECT, bursts_work, fathom, value};

/// The row of a function, once a run was long enough that bursts came to it.
fn row(fathom: &Fathom, name: &str, program: &OsStr, function: &str) -> Value {
    for seconds in ["1", "4", "12"] {
        let result = format!("{name}-{seconds}");
        let mut all: Vec<&OsStr> = COLLECT.iter().map(OsStr::new).collect();
        let rest = [OsStr::new("-r"), OsStr::new(&result), OsStr::new("--"), program];
        all.extend(rest.into_iter().chain([OsStr::new(seconds)]));
        let output = fathom.output(all);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows = fathom.rows(&result, &["flushes"]);
        let found = rows.iter().find(|row| row["function"] == function);
        if let Some(row) = found.filter(|row| row["alone_percent"]["value"].is_number()) {
            return row.clone();
        }
    }
    panic!("no burst came to a fence of {function}");
}

#[test]
fn fences_and_flushes_are_counted_as_the_programs_make_them() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("flushes");
    // Lines that a fence waits for, shares of fences that wait alone and of flushes without a store before: least and most. A burst
    // begins and ends anywhere.
    for (program, function, lines, alone, redundant) in [
        ("lines_persisted", "fill", (1.0, 1.0), (95.0, 100.0), (0.0, 0.1)),
        ("lines_together", "fill", (500.0, 4096.0), (0.0, 0.1), (0.0, 0.1)),
        ("lines_persisted_again", "write_block", (55.0, 64.0), (0.0, 0.1), (45.0, 52.0)),
        ("entries_committed", "append", (1.0, 1.0), (0.0, 0.1), (0.0, 0.1)),
    ] {
        let path = finding(program);
        let row = row(&fathom, program, path.as_os_str(), function);
        for (key, (least, most)) in
            [("lines_per_fence", lines), ("alone_percent", alone), ("redundant_percent", redundant)]
        {
            let found = value(&row[key]);
            assert!(least <= found && found <= most, "{program}, {key}: {row}");
        }
        assert!(
            value(&row["flushes_per_second"]) > 0.0 && value(&row["flush_time"]) > 0.0,
            "{row}"
        );
    }
}

/// What libpmem flushes is said to be of the function that calls it.
#[test]
fn what_a_library_persists_is_found_at_its_caller() {
    let program = target("persisted_lines");
    if !program.exists() {
        return skip("libpmem is not installed");
    }
    if !bursts_work() {
        return;
    }
    let fathom = fathom("flushes-libpmem");
    let file = fathom.scratch.join("memory");
    let file = file.to_str().expect("a path of ours");
    let mut all: Vec<&OsStr> = COLLECT.iter().map(OsStr::new).collect();
    all.extend(["-r", "pmem", "--"].map(OsStr::new));
    all.extend([program.as_os_str(), OsStr::new(file), OsStr::new("3000")]);
    let output = fathom.output(all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = fathom.rows("pmem", &["flushes", "-g", "module,object"]);
    let of_library: Vec<&Value> = rows
        .iter()
        .filter(|row| row["module"].as_str().is_some_and(|name| name.starts_with("libpmem.so")))
        .collect();
    let sum = |key: &str| of_library.iter().map(|row| value(&row[key])).sum::<f64>();
    assert!(sum("flushes_per_second") > 0.0 && sum("fences_per_second") > 0.0, "{rows:?}");
    assert!(sum("past_caches_per_second") > 0.0, "{rows:?}");
    let object = |row: &&Value| row["object"].as_str().is_some_and(|name| name.contains("memory"));
    assert!(of_library.iter().any(object), "{rows:?}");
}
