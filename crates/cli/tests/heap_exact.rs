//! `collect memory-consumption` where every block is recorded, against programs that make it hard: other allocators, signal
//! handlers, filters of system calls, frames that are hard to follow.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use testkit::programs::{Fathom, NO_CALIBRATION, skip, target};

/// The rows of `allocations` by call stack, after a run that ended well; `None` when the machine was too busy to keep all
/// records, several times.
fn rows_by_stack(name: &str, knobs: &[&str], program: &Path) -> Option<Vec<Value>> {
    for attempt in 0..5 {
        let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), &format!("{name}-{attempt}"));
        let mut words = vec!["collect", "memory-consumption", "-q", "-r", "result"];
        words.extend(["-k", NO_CALIBRATION]);
        words.extend(knobs);
        words.extend(["--", program.to_str().expect("a path of ours")]);
        let output = fathom.output(&words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.ends_with("EXIT-SUCCESS\n"), "{text}");
        let verified = fathom.output(["verify", "result"]);
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
        let rows = fathom.rows("result", &["allocations", "-g", "call-stack"]);
        if rows.iter().all(|row| row["allocations"]["lost"] == 0) {
            return Some(rows);
        }
    }
    skip("the machine is too busy to keep every record");
    None
}

fn whole(metric: &Value) -> u64 {
    metric["value"].as_f64().expect("a number") as u64
}

/// Blocks and bytes of all call stacks with this function.
fn of_function(rows: &[Value], function: &str) -> (u64, u64) {
    let has = |row: &&Value| {
        let mut frames = row["stack"].as_array().expect("a stack").iter();
        frames.any(|frame| frame == function)
    };
    let sums = rows.iter().filter(has).map(|row| {
        assert_eq!(row["allocations"]["evidence"], "counted", "{row}");
        (whole(&row["allocations"]), whole(&row["bytes_allocated"]))
    });
    sums.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1))
}

#[test]
fn other_allocators_are_counted_likewise() {
    for name in ["jemalloc", "tcmalloc", "mimalloc"] {
        let program = target(&format!("malloc_mix_{name}"));
        if !program.exists() {
            skip(&format!("{name} is not installed"));
            continue;
        }
        let knobs = ["-k", "stacks=all"];
        let Some(rows) = rows_by_stack(&format!("heap-{name}"), &knobs, &program) else { continue };
        assert_eq!(of_function(&rows, "alloc_small"), (100 * 64, 100 * 33_280), "{name}");
        let large = 100_000 + 300_000 + 4096 + 8192;
        assert_eq!(of_function(&rows, "alloc_large"), (100 * 4, 100 * large), "{name}");
    }
}

#[test]
fn blocks_of_memkind_are_counted() {
    let program = target("memkind_blocks");
    if !program.exists() {
        return skip("libmemkind is not installed");
    }
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "heap-memkind");
    let folder = fathom.scratch.path().to_str().expect("UTF-8").to_owned();
    let program = program.to_str().expect("UTF-8");
    let words =
        ["collect", "memory-consumption", "-q", "-r", "result", "-k", "stacks=all", "--", program];
    let output = fathom.output([&words[..], &[&folder]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = fathom.rows("result", &["allocations", "-g", "function"]);
    let main = rows.iter().find(|row| row["function"] == "main").expect("its own row");
    let of = |key: &str| whole(&main[key]);
    // 100 of 40,000, and one that is moved: a free and an allocation more.
    assert_eq!((of("allocations"), of("bytes_allocated")), (102, 4_900_000));
}

#[test]
fn signal_handlers_may_allocate() {
    let program = target("malloc_in_handler");
    let Some(rows) = rows_by_stack("heap-handler", &["-k", "stacks=all"], &program) else { return };
    for (function, bytes) in [("on_own_stack", 48), ("on_other_stack", 80), ("meanwhile", 112)] {
        assert_eq!(of_function(&rows, function), (1000, 1000 * bytes), "{function}");
    }
}

/// A filter that ends the program at `gettid` does not meet one of ours, in neither mode.
#[test]
fn no_thread_is_asked_for_its_number() {
    for knob in ["stacks=sampled", "stacks=all"] {
        let program = target("seccomp_heap");
        let Some(rows) = rows_by_stack("heap-seccomp", &["-k", knob], &program) else { continue };
        for (function, bytes) in [("after_filter", 300_000), ("in_thread", 400_000)] {
            let has = |row: &&Value| row["stack"].to_string().contains(function);
            let blocks: u64 = rows.iter().filter(has).map(|row| whole(&row["allocations"])).sum();
            let sum: u64 = rows.iter().filter(has).map(|row| whole(&row["bytes_allocated"])).sum();
            assert_eq!((blocks, sum), (1000, 1000 * bytes), "{knob} {function}");
        }
    }
}

/// Stacks that the agent follows by rules are those that are unwound from copies.
#[test]
fn hard_frames_are_followed_as_the_slow_path_does() {
    for name in ["allocation_stacks", "allocation_stacks_o0"] {
        let program = target(name);
        let by_copies = ["-k", "stacks=sampled", "-k", "mem-object-size-min-thres=1"];
        let Some(slow) = rows_by_stack(&format!("{name}-slow"), &by_copies, &program) else {
            continue;
        };
        let fast = rows_by_stack(&format!("{name}-fast"), &["-k", "stacks=all"], &program);
        let Some(fast) = fast else { continue };
        let sums = |rows: &[Value]| -> BTreeMap<String, (u64, u64)> {
            let row = |row: &Value| {
                (
                    row["stack"].to_string(),
                    (whole(&row["allocations"]), whole(&row["bytes_allocated"])),
                )
            };
            rows.iter().map(row).collect()
        };
        let (slow, fast) = (sums(&slow), sums(&fast));
        assert!(fast.len() > 15, "{name}: {fast:?}");
        assert_eq!(fast, slow, "{name}");
    }
}
