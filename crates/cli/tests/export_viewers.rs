//! Exported files in the viewers of their formats, and against the definitions that these publish.
//!
//! What for: speedscope by its own schema and its own page, which reads folded stacks as well; traces by Perfetto's own messages. What not:
//! pprof, Firefox Profiler (`export_sums`) and OTLP (`otlp`), each by its own reader.

#[path = "../../report/tests/recordings/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of report use all of them")]
mod recordings;

use std::collections::BTreeMap;
use std::process::Command;

use export::Exported;
use facts::Recording;
use serde_json::{Value, json};
use testkit::programs::{Scratch, in_chromium, python_with, root, skip};

fn recordings() -> [Recording; 5] {
    [
        recordings::triad(),
        recordings::templates(),
        recordings::heap(),
        recordings::bursts(),
        recordings::paused(recordings::triad()),
    ]
}

/// What the page of speedscope shows of a file; `None` where it cannot be opened here.
fn shown(scratch: &Scratch, name: &str, text: &str) -> Option<Value> {
    let file = scratch.join(name);
    std::fs::write(&file, text).expect("write");
    let said = in_chromium("export/speedscope.mjs", &[file])?;
    Some(serde_json::from_str(&said).expect("JSON"))
}

/// `2.52s (100%)` in seconds.
fn seconds(text: &str) -> f64 {
    let figure = text.split(' ').next().expect("a figure");
    let units = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(name, unit)| Some((figure.strip_suffix(name)?, unit)))
        .unwrap_or_else(|| panic!("no time: {text}"));
    number.parse::<f64>().expect("a number") * unit
}

/// `1,234 (5%)` as a number.
fn whole(text: &str) -> u64 {
    text.split(' ').next().expect("a figure").replace(',', "").parse().expect("a whole number")
}

fn rows<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().expect("rows")
}

#[test]
fn speedscope_shows_each_figure_with_its_total() {
    let exported = Exported::new(&recordings::triad(), "r000ma");
    let scratch = Scratch::new("speedscope");
    let Some(page) = shown(&scratch, "r.speedscope.json", &exported.speedscope()) else { return };
    let names: Vec<&str> = exported.figures.iter().map(|figure| figure.name).collect();
    let shown: Vec<&str> =
        rows(&page, "profiles").iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(shown, names);
    let sum = |name: &str| -> f64 {
        let at = exported.figure(name).expect("a figure");
        exported.samples.iter().map(|sample| sample.amounts[at]).sum()
    };
    let total = |name: &str| {
        let profile = rows(&page, "profiles").iter().find(|profile| profile["name"] == name);
        profile.and_then(|profile| profile["total"].as_str()).expect("a total")
    };
    assert_eq!(whole(total("samples")) as f64, sum("samples"));
    // Of times it shows three digits.
    let close = |found: f64| (found / sum("cpu") * 1e9 - 1.0).abs() < 0.01;
    assert!(close(seconds(total("cpu"))), "{page}");
    let own =
        rows(&page, "functions").iter().map(|one| seconds(one["self"].as_str().expect("a time")));
    assert!(close(own.sum()), "functions of the main figure: {page}");
}

#[test]
fn speedscope_reads_folded_stacks_with_the_same_sums() {
    let exported = Exported::new(&recordings::templates(), "r000hs");
    let folded = exported.folded(exported.main_figure().expect("a figure"));
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, amount) = line.rsplit_once(' ').expect("an amount");
        let innermost = stack.rsplit(';').next().expect("a frame");
        *expected.entry(innermost).or_default() += amount.parse::<u64>().expect("a number");
    }
    let scratch = Scratch::new("folded");
    let Some(page) = shown(&scratch, "r.folded", &folded) else { return };
    let text = |one: &Value, key: &str| one[key].as_str().expect("text").to_owned();
    let own =
        rows(&page, "functions").iter().map(|one| (text(one, "name"), whole(&text(one, "self"))));
    let own: BTreeMap<String, u64> = own.filter(|(_, amount)| *amount > 0).collect();
    let own: BTreeMap<&str, u64> =
        own.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
    assert_eq!(own, expected);
}

#[test]
fn speedscope_files_fit_the_schema_of_speedscope() {
    let schema = root().join("ui/node_modules/speedscope/dist/release/file-format-schema.json");
    let Some(python) = python_with("requirements.txt") else { return };
    if !schema.is_file() {
        skip("the packages of ui, which bring speedscope, are missing: cd ui && npm ci");
        return;
    }
    let scratch = Scratch::new("speedscope-schema");
    let fits = |files: &[(String, String)]| {
        let mut command = Command::new(python.join("check-jsonschema"));
        command.arg("--schemafile").arg(&schema);
        for (name, text) in files {
            std::fs::write(scratch.join(name), text).expect("write");
            command.arg(scratch.join(name));
        }
        let output = command.output().expect("check-jsonschema starts");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let text = |recording: &Recording| Exported::new(recording, "r000ma").speedscope();
    let all = recordings();
    let all = all.iter().enumerate().map(|(at, one)| (format!("{at}.json"), text(one)));
    let (fit, said) = fits(&all.collect::<Vec<_>>());
    assert!(fit, "{said}");
    let broken = text(&recordings::triad()).replace("\"nanoseconds\"", "\"joules\"");
    assert!(!fits(&[("broken.json".to_owned(), broken)]).0, "the schema takes anything");
}

/// What is on the tracks of a trace; `None` where Perfetto's messages are missing.
fn tracks(scratch: &Scratch, recording: &Recording) -> Option<BTreeMap<String, Value>> {
    let python = python_with("requirements.txt")?;
    let file = scratch.join("trace.perfetto");
    std::fs::write(&file, Exported::new(recording, "r000ma").perfetto()).expect("write");
    let script = root().join("tests/export/perfetto_trace.py");
    let output = Command::new(python.join("python3")).arg(script).arg(file).output();
    let output = output.expect("python can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tracks: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let name = |track: &Value| track["name"].as_str().expect("a name").to_owned();
    Some(tracks.into_iter().map(|track| (name(&track), track)).collect())
}

#[test]
fn traces_are_messages_of_perfetto() {
    let scratch = Scratch::new("perfetto");
    for recording in recordings().iter().chain([&recordings::nothing()]) {
        let Some(tracks) = tracks(&scratch, recording) else { return };
        let elapsed = Exported::new(recording, "r000ma").elapsed.0;
        assert_eq!(tracks["fathom r000ma"]["slices"], json!([[0, elapsed, "recording"]]));
    }
    let Some(tracks) = tracks(&scratch, &recordings::bursts()) else { return };
    for name in ["estimated DRAM read", "estimated DRAM write"] {
        assert_eq!(tracks[name]["unit"], "GB/s");
        let values = rows(&tracks[name], "values");
        assert!(!values.is_empty() && values.iter().all(|one| one[1].as_f64() >= Some(0.0)));
    }
    let paused = recordings::paused(recordings::triad());
    let Some(tracks) = self::tracks(&scratch, &paused) else { return };
    let marks = &tracks["marks and pauses"];
    assert_eq!(marks["moments"], json!([[250_000_000, "warm"], [900_000_000, "second phase"]]));
    let pause = json!([[500_000_000, 750_000_000, "paused: nothing was observed"]]);
    assert_eq!(marks["slices"], pause);
}
