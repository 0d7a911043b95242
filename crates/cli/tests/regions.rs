//! Regions, marks and pauses that programs make themselves: by `fathom.h`, its Fortran module, ITT and NVTX.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::programs::{
    Fathom, NO_CALIBRATION, facts_of, perf_events_work, python_with, root, skip, target,
};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Collects and verifies; returns what the program printed, and the rows of `report regions` by name.
fn collect(
    fathom: &Fathom,
    options: &[&str],
    program: &Path,
    arguments: &[&str],
) -> (BTreeMap<String, String>, BTreeMap<String, Value>) {
    let mut command: Command = fathom.command(["collect", "hotspots", "-q", "-r", "result"]);
    command.args(["-k", NO_CALIBRATION]).args(options).arg("--");
    let output = command.arg(program).args(arguments).output().expect("fathom runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let rows = fathom.rows("result", &["regions"]);
    let named = |row: Value| (row["region"].as_str().expect("a name").to_owned(), row);
    (facts_of(&output.stdout), rows.into_iter().map(named).collect())
}

fn value(row: &Value, key: &str) -> f64 {
    row[key]["value"].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

fn printed(facts: &BTreeMap<String, String>, key: &str) -> f64 {
    facts[key].parse().expect("a number")
}

#[test]
fn regions_have_the_times_that_the_program_measured() {
    let fathom = fathom("regions-times");
    let arguments = ["--threads", "2", "--rounds", "20", "--us", "4000", "--tiny", "50", "--open"];
    let (facts, rows) = collect(&fathom, &[], &target("regions"), &arguments);
    for region in ["outer", "inner", "tiny"] {
        assert_eq!(value(&rows[region], "passes"), printed(&facts, region), "{region}");
        assert_eq!(value(&rows[region], "threads"), 2.0);
    }
    let (outer, inner) = (&rows["outer"], &rows["inner"]);
    for (row, key, least) in [(outer, "outer_ns", 0.32), (inner, "inner_ns", 0.16)] {
        let (counted, measured) = (value(row, "time"), printed(&facts, key) * 1e-9);
        // The program's own measure begins before and ends after ours, and each pass has 4 or 8 ms of CPU time.
        assert!(counted <= measured && counted > least, "{key}: {counted} of {measured}");
    }
    // A few passes have some microseconds more as their own time than the regions in them leave.
    let own = value(outer, "time") - value(inner, "time") - value(&rows["tiny"], "time");
    assert!((value(outer, "own_time") - own).abs() < 1e-4, "{own} {outer}");
    let lengths = ["shortest", "median", "p95", "longest"].map(|key| value(inner, key));
    assert!(lengths.is_sorted() && lengths[0] >= 0.004, "{lengths:?}");
    let open = &rows["open"];
    assert_eq!((value(open, "passes"), value(open, "open")), (0.0, 1.0));
    if perf_events_work() {
        // The threads work all the time in `inner`, 4 ms of CPU time in each pass; the sampling clock also runs while a host
        // takes the CPU away.
        let cpu = &inner["cpu_time"];
        let (low, high) = (cpu["low"].as_f64().unwrap(), cpu["high"].as_f64().unwrap());
        assert!(low < value(inner, "time") && high > 0.16, "{cpu}");
        assert_eq!(cpu["evidence"], "sampled");
    }
}

#[test]
fn a_filter_on_a_region_has_the_cpu_time_of_the_region() {
    if !perf_events_work() {
        return skip("no perf events");
    }
    let fathom = fathom("regions-filter");
    let arguments = ["--threads", "2", "--rounds", "20", "--us", "4000", "--tiny", "50"];
    let (_, rows) = collect(&fathom, &[], &target("regions"), &arguments);
    for region in ["outer", "inner"] {
        let filter = format!("region={region}");
        let hotspots = fathom.report("result", &["hotspots", "--filter", &filter]);
        let total = hotspots["total"]["cpu_time"]["value"].as_f64().expect("a total");
        let of_region = value(&rows[region], "cpu_time");
        assert!((total - of_region).abs() < 1e-4 * of_region, "{region}: {total}, {of_region}");
    }
    let tiny = fathom.output(["report", "hotspots", "-r", "result", "--filter", "region=tiny"]);
    let tiny = String::from_utf8_lossy(&tiny.stderr).into_owned();
    assert!(tiny.contains("passes of region 'tiny' are too short"), "{tiny}");
    let none = fathom.output(["report", "hotspots", "-r", "result", "--filter", "region=other"]);
    let none = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(none.contains("inner") && none.contains("outer"), "{none}");
}

#[test]
fn rows_by_region_are_of_the_innermost_and_add_up() {
    if !perf_events_work() {
        return skip("no perf events");
    }
    let fathom = fathom("regions-group");
    let arguments = ["--threads", "2", "--rounds", "20", "--us", "4000", "--tiny", "50"];
    let (_, rows) = collect(&fathom, &[], &target("regions"), &arguments);
    let report = fathom.report("result", &["hotspots", "-g", "region"]);
    let found = report["rows"].as_array().expect("rows");
    let cpu = |row: &Value| value(row, "cpu_time");
    let of = |region: &str| found.iter().find(|row| row["region"] == region).map_or(0.0, cpu);
    let sum: f64 = found.iter().map(cpu).sum();
    assert!((sum / cpu(&report["total"]) - 1.0).abs() < 1e-4, "{report}");
    // `tiny` is too short to be distinguished, and all of it is in `outer`.
    let [inner, outer] = ["inner", "outer"].map(|region| value(&rows[region], "cpu_time"));
    assert!((of("inner") / inner - 1.0).abs() < 1e-4, "{report}");
    assert!(((of("inner") + of("outer")) / outer - 1.0).abs() < 1e-4, "{report}");
    assert!(
        of("tiny") == 0.0 && report["notes"].to_string().contains("a part of that: tiny"),
        "{report}"
    );
    let functions = fathom.rows("result", &["hotspots", "-g", "region,function"]);
    let all: f64 = functions.iter().map(cpu).sum();
    assert!((all / sum - 1.0).abs() < 1e-4, "{all} {sum}");
}

#[test]
fn millions_of_passes_are_counted_in_a_small_result() {
    let fathom = fathom("regions-many");
    let arguments = ["--us", "0", "--rounds", "2", "--tiny", "2000000"];
    let (_, rows) = collect(&fathom, &[], &target("regions"), &arguments);
    assert_eq!(value(&rows["tiny"], "passes"), 4e6);
    let bytes =
        std::fs::metadata(fathom.scratch.join("result/marked_passes.parquet")).unwrap().len();
    assert!(bytes < 500_000, "{bytes} bytes");
}

#[test]
fn a_program_pauses_and_marks_itself() {
    let fathom = fathom("regions-pause");
    let arguments = ["--rounds", "20", "--us", "5000", "--pause"];
    let (_, rows) = collect(&fathom, &[], &target("regions"), &arguments);
    // Rounds 10 to 18 lie in the pause.
    assert_eq!(value(&rows["inner"], "passes"), 11.0);
    let summary = fathom.report("result", &["summary"]);
    let paused = summary["paused"]["value"].as_f64().expect("a pause");
    assert!(paused >= 9.0 * 0.01, "{paused}");
    if perf_events_work() {
        let cpu = summary["cpu_time"]["value"].as_f64().expect("CPU time");
        assert!((0.09..0.15).contains(&cpu), "11 rounds of 10 ms: {cpu}");
    }
    let text = fathom.output(["report", "timeline", "-r", "result"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("Marks: last round at "), "{text}");
}

#[test]
fn a_program_begins_the_observation_itself() {
    let fathom = fathom("regions-resume");
    let arguments = ["--rounds", "10", "--us", "5000", "--pause"];
    let (_, rows) = collect(&fathom, &["--start-paused"], &target("regions"), &arguments);
    assert_eq!(value(&rows["outer"], "passes"), 1.0, "only the last round is observed");
}

#[test]
fn without_a_collection_nothing_happens() {
    for program in ["regions", "regions_static"] {
        let output = Command::new(target(program)).args(["--rounds", "2"]).output().unwrap();
        assert!(output.status.success(), "{program}");
    }
    let fathom = fathom("regions-static");
    let (_, rows) = collect(&fathom, &[], &target("regions_static"), &["--rounds", "2"]);
    assert!(rows.is_empty(), "a static program has no regions: {rows:?}");
}

/// Compiles a program for the test; `None`, with the reason printed, where that cannot be done here.
fn compiled(fathom: &Fathom, compiler: &str, arguments: &[&str], lacks: &str) -> Option<PathBuf> {
    let program = fathom.scratch.join("program");
    let mut command = Command::new(compiler);
    let output = command.current_dir(fathom.scratch.path()).args(arguments).arg("-o").arg(&program);
    match output.output() {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(lacks) && !lacks.is_empty(), "{said}");
            skip(&format!("{lacks} is not there"));
            None
        }
        Err(_) => {
            skip(&format!("no {compiler}"));
            None
        }
    }
}

#[test]
fn fortran_marks_regions() {
    let fathom = fathom("regions-fortran");
    let source = fathom.scratch.join("marks.f90");
    let text = "program marks\n use fathom\n integer :: i\n do i = 1, 7\n call fathom_begin('step')\n \
                call fathom_end()\n end do\n call fathom_mark('done ')\nend program\n";
    std::fs::write(&source, text).unwrap();
    let module = root().join("include/fathom.f90");
    let arguments = [module.to_str().unwrap(), source.to_str().unwrap()];
    let Some(program) = compiled(&fathom, "gfortran", &arguments, "") else { return };
    let (_, rows) = collect(&fathom, &[], &program, &[]);
    assert_eq!(value(&rows["step"], "passes"), 7.0);
}

#[test]
fn rust_marks_regions() {
    let fathom = fathom("regions-rust");
    let build = |more: &[&str], to: &str| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["build", "--release", "--quiet", "--offline", "--example", "phases"]);
        command.arg("--manifest-path").arg(root().join("include/rust/Cargo.toml")).args(more);
        command.arg("--target-dir").arg(fathom.scratch.join(to)).output()
    };
    let output = match build(&[], "built") {
        Ok(output) => output,
        Err(error) => return skip(&format!("cargo is not here: {error}")),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = fathom.scratch.join("built/release/examples/phases");
    let (facts, rows) = collect(&fathom, &[], &program, &[]);
    assert_eq!(facts["sum"], "1", "both threads computed the same");
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["fails", "solve", "step"]);
    for row in rows.values() {
        assert_eq!((value(row, "passes"), value(row, "threads")), (20.0, 2.0), "{row}");
    }
    let [step, within] = ["step", "solve"].map(|name| value(&rows[name], "time"));
    assert!(within > 0.0 && step - within > value(&rows["step"], "own_time") - 1e-9, "{rows:?}");
    let text = fathom.output(["report", "timeline", "-r", "result"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("Marks: threads ended at "), "{text}");
    let alone = Command::new(&program).output().expect("it runs alone");
    assert!(alone.status.success(), "without Fathom nothing happens");
    let disabled = build(&["--features", "disable"], "disabled").expect("cargo runs");
    assert!(disabled.status.success(), "{}", String::from_utf8_lossy(&disabled.stderr));
    let bytes = std::fs::read(fathom.scratch.join("disabled/release/examples/phases")).expect("it");
    let looks = bytes.windows(14).any(|part| part == b"FATHOM_REGIONS");
    assert!(!looks, "all calls are gone");
}

/// Real stubs of both: those of their Python packages.
#[test]
fn tasks_of_itt_and_ranges_of_nvtx_are_regions() {
    let Some(folder) = python_with("requirements.txt") else { return };
    let fathom = fathom("regions-stubs");
    let script = fathom.scratch.join("marks.py");
    let text = "import ittapi, nvtx\nfor _ in range(6):\n with ittapi.task('task', domain=ittapi.domain('numbers')):\n  \
                with nvtx.annotate('range', domain='library'):\n   sum(range(1000))\nnvtx.mark('a mark')\nittapi.pause()\n\
                with nvtx.annotate('unseen'): pass\n";
    std::fs::write(&script, text).unwrap();
    let python = folder.join("python3");
    let (_, rows) = collect(&fathom, &[], &python, &[script.to_str().unwrap()]);
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["range", "task"]);
    assert_eq!((value(&rows["task"], "passes"), value(&rows["range"], "passes")), (6.0, 6.0));
    assert_eq!(
        (&rows["task"]["domain"], &rows["range"]["domain"]),
        (&"numbers".into(), &"library".into())
    );
    let inside = value(&rows["task"], "time") - value(&rows["task"], "own_time");
    assert!((inside - value(&rows["range"], "time")).abs() < 1e-9, "{rows:?}");
    let summary = fathom.report("result", &["summary"]);
    assert!(summary["paused"]["value"].as_f64().is_some(), "paused to the end");
    let text = fathom.output(["report", "timeline", "-r", "result"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("Marks: a mark at "), "{text}");
}
