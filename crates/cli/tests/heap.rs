//! `collect memory-consumption` against programs that know what they allocate, and against valgrind's dhat.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::programs::{
    Fathom, NO_CALIBRATION, assert_ended_well, facts_of, number, recipe, skip, target,
};

/// A result in `fathom`'s directory; what the program printed.
fn collect(fathom: &Fathom, options: &[&str], program: &Path, arguments: &[&str]) -> Vec<u8> {
    let mut words = vec!["collect", "memory-consumption", "-q", "-r", "result"];
    words.extend(["-k", NO_CALIBRATION]);
    words.extend(options);
    words.extend(["--", program.to_str().expect("a path of ours")]);
    words.extend(arguments);
    let output = fathom.output(&words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    output.stdout
}

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// A metric that was counted, and is not an interval.
#[track_caller]
fn exactly(metric: &Value) -> u64 {
    assert_eq!(metric["evidence"], "counted", "{metric}");
    assert_eq!(metric["low"], metric["high"], "{metric}");
    metric["value"].as_f64().expect("a number") as u64
}

/// Blocks and bytes of the whole program.
fn heap(fathom: &Fathom) -> (u64, u64, u64) {
    let heap = &fathom.report("result", &["summary"])["heap"];
    let peak = heap["peak_bytes"]["value"].as_f64().expect("a peak") as u64;
    (exactly(&heap["allocations"]), exactly(&heap["bytes_allocated"]), peak)
}

/// What malloc_mix allocates in one round, by function: blocks and bytes.
const SMALL: (u64, u64) = (64, 33_280);
const LARGE: (u64, u64) = (4, 100_000 + 300_000 + 4096 + 8192);

#[test]
fn every_block_has_its_function_and_its_end() {
    // A program does not wait for long for a reader that gets no CPU: then records are lost, and counted.
    let complete = (0..5).find_map(|number| {
        let fathom = fathom(&format!("heap-every-block-{number}"));
        let knobs = ["-k", "stacks=all"];
        let known = collect(&fathom, &knobs, &target("malloc_mix"), &["--rounds", "20"]);
        let rows = fathom.rows("result", &["allocations"]);
        let all = rows.iter().all(|row| row["allocations"]["lost"] == 0);
        all.then_some((fathom, known))
    });
    let Some((fathom, known)) = complete else {
        return skip("the machine is too busy to keep every record");
    };
    let known = facts_of(&known);
    assert_eq!(
        heap(&fathom),
        (20 * 68, number(&known, "bytes_asked") as u64, number(&known, "bytes_peak") as u64)
    );
    let view = fathom.report("result", &["allocations"]);
    for (function, (blocks, bytes)) in [("alloc_small", SMALL), ("alloc_large", LARGE)] {
        let row = view["rows"].as_array().expect("rows").iter();
        let row = row.clone().find(|row| row["function"] == function).expect(function);
        let found = (exactly(&row["allocations"]), exactly(&row["bytes_allocated"]));
        assert_eq!(found, (20 * blocks, 20 * bytes), "{function}");
        assert_eq!(exactly(&row["live_at_end"]), 0);
    }
    assert_eq!(exactly(&view["total"]["live_at_end"]), 0);
}

#[test]
fn totals_do_not_depend_on_what_is_recorded() {
    let fathom = fathom("heap-totals");
    let known = collect(&fathom, &[], &target("malloc_mix"), &["--rounds", "500"]);
    let known = facts_of(&known);
    assert_eq!(
        heap(&fathom),
        (500 * 68, number(&known, "bytes_asked") as u64, number(&known, "bytes_peak") as u64)
    );
    let rows = fathom.rows("result", &["allocations"]);
    let row = rows.iter().find(|row| row["function"] == "alloc_large").expect("large blocks");
    // Two of its four blocks a round are above the threshold and have a record each, unless the machine was too busy.
    if row["bytes_allocated"]["lost"] == 0 {
        assert!(row["bytes_allocated"]["value"].as_f64().expect("bytes") >= 500.0 * 400_000.0);
    }
}

/// `memory-access` remembers no small blocks: it counts what was allocated, and knows what is live from records.
#[test]
fn what_is_live_is_sampled_in_memory_access() {
    let fathom = fathom("heap-sampled-live");
    let program = target("malloc_mix");
    let program = program.to_str().expect("a path of ours");
    let output = fathom.output([
        "collect",
        "memory-access",
        "-q",
        "-r",
        "result",
        "-k",
        NO_CALIBRATION,
        "--",
        program,
        "--rounds",
        "500",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let known = facts_of(&output.stdout);
    let heap = &fathom.report("result", &["summary"])["heap"];
    assert_eq!(exactly(&heap["allocations"]), 500 * 68);
    assert_eq!(exactly(&heap["bytes_allocated"]), number(&known, "bytes_asked") as u64);
    let peak = &heap["peak_bytes"];
    let lost = fathom
        .rows("result", &["allocations"])
        .iter()
        .any(|row| row["bytes_allocated"]["lost"] != 0);
    if lost {
        return skip("the machine is too busy to keep every record");
    }
    assert_eq!(peak["evidence"], "sampled", "{peak}");
    // Two large blocks are live together; a drawn block weighs for at most 524,288 bytes and itself.
    let value = peak["value"].as_f64().expect("a peak");
    assert!((300_000.0..5e6).contains(&value), "{peak}");
}

/// Recipe R2: the matrices, and 272 bytes that the C library takes per thread; to the byte.
#[test]
fn the_matrix_program_is_counted_to_the_byte() {
    let Some(program) = recipe("multiply2") else { return };
    let fathom = fathom("heap-matrix");
    let known = collect(&fathom, &[], &program, &["--size", "512", "--threads", "2"]);
    let matrices = number(&facts_of(&known), "matrix_bytes") as u64;
    let (blocks, bytes, _) = heap(&fathom);
    assert_eq!((blocks, bytes), (4 + 2, matrices + 2 * 272));
    let notes = fathom.report("result", &["allocations"])["notes"].to_string();
    assert!(notes.contains(&format!("{} pages of 2 MB", bytes.div_ceil(2 << 20))), "{notes}");
}

/// dhat counts each call likewise: blocks, bytes asked for, and the most that is live. Not so of programs that copy their
/// environment to the heap (perl, git), in which either tool leaves variables of its own.
#[test]
fn dhat_counts_the_same() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip("valgrind is not installed");
    }
    for (name, arguments) in [
        ("malloc_mix", &["--rounds", "3"][..]),
        ("sort_calls", &["--rounds", "1"]),
        ("dlopen_loop", &["--rounds", "100"]),
        ("cpp_exceptions", &["--count", "1000"]),
        ("exceptions_map", &["--rounds", "100"]),
        ("memcpy_big", &[]),
        ("false_sharing", &[]),
        ("threads", &[]),
        ("allocation_stacks", &[]),
        ("reallocations", &[]),
    ] {
        let fathom = fathom("heap-dhat");
        let program = target(name);
        let file = fathom.scratch.join("dhat.json");
        let status = Command::new("valgrind")
            .args(["-q", "--tool=dhat", &format!("--dhat-out-file={}", file.display())])
            .arg(&program)
            .args(arguments)
            .output()
            .expect("valgrind can be started");
        if !status.status.success() {
            skip(&format!("{name} does not end well under valgrind"));
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("dhat wrote its file");
        let dhat: Value = serde_json::from_str(&text).expect("JSON");
        let points = dhat["pps"].as_array().expect("program points");
        let sum = |key: &str| points.iter().filter_map(|point| point[key].as_u64()).sum::<u64>();
        let dhat = (sum("tbk"), sum("tb"), sum("gb"));
        collect(&fathom, &[], &program, arguments);
        assert_eq!(heap(&fathom), dhat, "{name}");
        std::fs::remove_dir_all(fathom.scratch.join("result")).expect("it was written");
        collect(&fathom, &["-k", "stacks=all"], &program, arguments);
        assert_eq!(heap(&fathom), dhat, "{name}, every block");
    }
}

/// A block that `realloc` gives is a new one, whether it moved or not.
#[test]
fn reallocations_count_as_allocations() {
    let fathom = fathom("heap-reallocations");
    let known = collect(&fathom, &[], &target("reallocations"), &[]);
    let known = facts_of(&known);
    let (blocks, bytes, _) = heap(&fathom);
    assert_eq!(
        (blocks, bytes),
        (number(&known, "blocks") as u64, number(&known, "bytes_asked") as u64)
    );
}

#[test]
fn programs_that_fork_exec_thread_and_handle_signals_run_as_ever() {
    for name in [
        "fork_children",
        "threads_churn",
        "signal_storm",
        "vfork_exec",
        "exec_chain",
        "stack_overflow",
    ] {
        let fathom = fathom("heap-life");
        let program = target(name);
        for knob in ["stacks=sampled", "stacks=all"] {
            let alone = Command::new(&program).output().expect("it can be started");
            let output = fathom.output([
                "collect",
                "memory-consumption",
                "-q",
                "-r",
                knob,
                "-k",
                NO_CALIBRATION,
                "-k",
                knob,
                "--",
                program.to_str().expect("a path of ours"),
            ]);
            assert_eq!(output.status.code(), alone.status.code(), "{name} {knob}: {output:?}");
            if alone.status.success() && alone.stdout.ends_with(b"EXIT-SUCCESS\n") {
                assert_ended_well(&output);
            }
        }
    }
}

#[test]
fn a_program_without_the_c_library_is_said_not_to_be_seen() {
    let fathom = fathom("heap-static");
    collect(&fathom, &[], &target("no_libc"), &[]);
    let summary = fathom.report("result", &["summary"]);
    assert!(summary["heap"]["allocations"]["value"].is_null());
    assert!(
        summary["notes"].to_string().contains("no heap blocks were seen"),
        "{}",
        summary["notes"]
    );
}

/// A TLS segment makes the C library allocate more for each thread; a library more is a mapping more.
#[test]
fn the_agent_has_no_tls_segment_and_needs_the_c_library_alone() {
    let library = agent::LIBRARY;
    let word = |at: usize, bytes: usize| {
        library[at..at + bytes].iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
    };
    // ELF-64 header (elf(5)): offset of the program headers at 32, their size at 54, their number at 56.
    let kinds: Vec<usize> =
        (0..word(56, 2)).map(|n| word(word(32, 8) + n * word(54, 2), 4)).collect();
    const PT_LOAD: usize = 1;
    const PT_TLS: usize = 7;
    assert!(kinds.contains(&PT_LOAD) && !kinds.contains(&PT_TLS), "{kinds:?}");
    let names = |name: &[u8]| library.windows(name.len()).any(|bytes| bytes == name);
    assert!(names(b"libc.so.6") && !names(b"libgcc_s") && !names(b"libm.so"));
}

/// A recording ends with its writer: what was summed up until the last second is there, and the program runs on.
#[test]
fn a_killed_collector_leaves_the_program_and_its_sums() {
    let fathom = fathom("heap-killed");
    let program = target("malloc_mix");
    let arguments = ["--rounds", "200000"];
    let alone = Command::new(&program).args(arguments).output().expect("it can be started");
    let output = fathom.scratch.join("output");
    let mut collector = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .current_dir(fathom.scratch.path())
        .args(["collect", "memory-consumption", "-q", "-r", "killed", "-k", "stacks=all"])
        .args(["-k", NO_CALIBRATION, "--"])
        .arg(&program)
        .args(arguments)
        .stdout(std::fs::File::create(&output).expect("a file of ours"))
        .spawn()
        .expect("it can be started");
    // Until a second's sums can be read.
    let has_sums = || {
        let report = fathom.output(["report", "allocations", "-r", "killed", "--format", "json"]);
        let view: Value = serde_json::from_slice(&report.stdout).unwrap_or_default();
        let mut rows = view["rows"].as_array().into_iter().flatten();
        rows.any(|row| {
            row["function"] == "alloc_small" && row["allocations"]["evidence"] == "counted"
        })
    };
    while !has_sums() && collector.try_wait().expect("our child").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    if collector.try_wait().expect("our child").is_some() {
        return skip("the program ended before anything was written");
    }
    collector.kill().expect("our child");
    collector.wait().expect("our child");
    // The program has no parent of ours now; it ends by itself.
    let text = || std::fs::read(&output).unwrap_or_default();
    while !text().ends_with(b"EXIT-SUCCESS\n") {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let known = |text: &[u8]| {
        let facts = facts_of(text);
        ["bytes_asked", "bytes_peak"].map(|name| facts[name].clone())
    };
    assert_eq!(known(&text()), known(&alone.stdout));
    let rows = fathom.rows("killed", &["allocations"]);
    let small = rows.iter().find(|row| row["function"] == "alloc_small").expect("a row");
    let blocks = exactly(&small["allocations"]);
    assert!(blocks > 0 && blocks < 200_000 * SMALL.0, "{blocks}");
}
