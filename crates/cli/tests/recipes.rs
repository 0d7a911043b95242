//! The recipe programs, run for real at small sizes: what a user must be able to see in them with this version.

use serde_json::Value;
use testkit::programs::{Fathom, facts_of, number, perf_events_work, recipe};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Runs a recipe under fathom; its checksum must be right and its own facts are returned with the hotspots.
fn profiled(
    fathom: &Fathom,
    name: &str,
    arguments: &[&str],
) -> Option<(std::collections::BTreeMap<String, String>, Vec<Value>)> {
    let program = recipe(name)?;
    let output = fathom.collect(name, &[], &program, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {error}");
    let facts = facts_of(&output.stdout);
    assert_eq!(facts.get("verified").map(String::as_str), Some("yes"), "{name}: {facts:?}");
    assert!(
        number(&facts, "loop_seconds") > 0.0 && facts.contains_key("checksum"),
        "{name}: {facts:?}"
    );
    Some((facts, fathom.rows(name, &["hotspots"])))
}

/// Rows in short, for messages.
fn shown(rows: &[Value]) -> Vec<String> {
    let one = |row: &Value| {
        let name = row["function"]
            .as_str()
            .or(row["thread"].as_str())
            .or(row["module"].as_str())
            .unwrap_or("?");
        format!("{name} {} %", row["self_percent"]["value"])
    };
    rows.iter().take(12).map(one).collect()
}

fn self_percent(rows: &[Value], function: &str) -> f64 {
    rows.iter()
        .filter(|row| row["function"].as_str().is_some_and(|name| name.starts_with(function)))
        .filter_map(|row| row["self_percent"]["value"].as_f64())
        .sum()
}

fn total_percent(rows: &[Value], function: &str) -> f64 {
    let of = |row: &&Value| row["function"].as_str().is_some_and(|name| name.starts_with(function));
    rows.iter()
        .filter(of)
        .filter_map(|row| row["total_percent"]["value"].as_f64())
        .fold(0.0, f64::max)
}

/// R1: the hottest function is an inlined one of the library's header, with its file and line; after the fix it is gone.
#[test]
fn the_cost_of_the_pmdk_macros_is_seen_and_goes_away() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("r1");
    let size = ["--elements", "2000000", "--repeat", "60"];
    let Some((_, before)) = profiled(&fathom, "pmdk_triad_before", &size) else { return };
    let inlined =
        before.iter().find(|row| row["function"] == "pmemobj_direct_inline").expect("its own row");
    assert!(
        inlined["file"].as_str().is_some_and(|file| file.ends_with("libpmemobj/base.h")),
        "{inlined}"
    );
    assert!(inlined["line"].as_u64().is_some(), "{inlined}");
    let hottest = before
        .iter()
        .max_by(|a, b| {
            let share = |row: &Value| row["self_percent"]["value"].as_f64().unwrap_or(0.0);
            share(a).total_cmp(&share(b))
        })
        .expect("rows");
    assert_eq!(hottest["function"], "pmemobj_direct_inline", "{hottest}");
    let callers = fathom
        .report("pmdk_triad_before", &["callers", "--filter", "function=pmemobj_direct_inline"]);
    assert!(callers["rows"].to_string().contains("triad"), "{callers}");
    let source =
        fathom.rows("pmdk_triad_before", &["source", "--filter", "function=pmemobj_direct_inline"]);
    assert!(
        source.iter().any(|row| row["code"].as_str().is_some_and(|code| code.contains("oid.off"))),
        "{source:?}"
    );

    let Some((_, after)) = profiled(&fathom, "pmdk_triad_after", &size) else { return };
    assert!(self_percent(&after, "pmemobj_direct_inline") < 5.0, "{:?}", shown(&after));
}

/// R2: page faults of the matrices, counted exactly (4 KB pages: one per page of the four matrices, and little else).
#[test]
fn the_matrices_page_faults_are_counted() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("r2");
    let Some((facts, _)) = profiled(&fathom, "multiply2", &["--size", "700", "--threads", "2"])
    else {
        return;
    };
    let pages = number(&facts, "matrix_bytes") / 4096.0;
    let manifest: Value = serde_json::from_slice(
        &std::fs::read(fathom.scratch.join("multiply2/run.json")).expect("run.json"),
    )
    .expect("JSON");
    let kernels = manifest["resource_use"]["minor_faults"].as_f64().expect("getrusage");
    let summary = fathom.report("multiply2", &["summary"]);
    let minor = summary["page_faults"]["minor"]["value"].as_f64().expect("minor faults");
    // getrusage also has the faults of our child before it executed the program: some dozens.
    assert!(
        (minor - kernels).abs() <= 0.001 * kernels + 40.0,
        "{minor} counted, {kernels} by getrusage"
    );
    let huge =
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if huge.contains("[always]") {
        testkit::programs::skip(
            "transparent huge pages are on for all memory: fewer faults than pages",
        );
        return;
    }
    assert!(
        minor >= pages && minor < 1.2 * pages + 500.0,
        "{minor} faults, {pages} pages of matrices"
    );
}

/// R3: STREAM's four kernels have their rows, and both threads share the work.
#[test]
fn streams_kernels_and_threads_are_distinguished() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("r3");
    let size = ["--elements", "4000000", "--repeat", "40", "--threads", "2"];
    let Some((_, rows)) = profiled(&fathom, "stream", &size) else { return };
    for kernel in ["stream_copy", "stream_scale", "stream_add", "stream_triad"] {
        assert!(total_percent(&rows, kernel) > 5.0, "{kernel}: {:?}", shown(&rows));
    }
    let threads = fathom.rows("stream", &["hotspots", "-g", "thread"]);
    let busy = threads
        .iter()
        .filter(|row| row["self_percent"]["value"].as_f64().is_some_and(|share| share > 20.0));
    assert_eq!(busy.count(), 2, "{:?}", shown(&threads));
}

/// R4: each variant of the multiplication spends its time where its name says.
#[test]
fn every_multiplication_shows_its_loop() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("r4");
    for (name, size) in [
        ("multiply1", "420"),
        ("multiply2", "700"),
        ("multiply2_pinned", "700"),
        ("multiply3", "800"),
    ] {
        let Some((_, rows)) = profiled(&fathom, name, &["--size", size, "--threads", "2"]) else {
            return;
        };
        let function = name.trim_end_matches("_pinned");
        assert!(total_percent(&rows, function) > 60.0, "{name}: {:?}", shown(&rows));
    }
    let Some(_) = profiled(&fathom, "multiply5", &["--size", "1200", "--threads", "2"]) else {
        return;
    };
    let modules = fathom.rows("multiply5", &["hotspots", "-g", "module"]);
    let share = |wanted: &dyn Fn(&str) -> bool| -> f64 {
        let rows = modules.iter().filter(|row| row["module"].as_str().is_some_and(wanted));
        rows.filter_map(|row| row["self_percent"]["value"].as_f64()).sum()
    };
    // How long the kernel gives out pages meanwhile depends on what else the machine does.
    let own = share(&|name| name != "[kernel]");
    assert!(share(&|name| name.contains("blas")) > 0.5 * own, "{:?}", shown(&modules));
}
