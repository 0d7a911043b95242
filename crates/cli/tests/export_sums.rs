//! Sums of what is exported against the report's totals, and pprof against its own reader.
//!
//! What for: no figure is lost or made up on the way. What not: how viewers look. A format's own reader is used where this
//! machine has it.

#[path = "../../report/tests/recordings/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of report use all of them")]
mod recordings;

use std::collections::BTreeMap;

use export::Exported;
use facts::Recording;
use report::{Options, View};
use serde_json::Value;

fn view(recording: &Recording, view: View) -> Value {
    let options = Options { view, result_name: "r000ma".into(), ..Options::default() };
    let document = report::build(recording, &options, &|_| None).expect("a view");
    serde_json::from_str(&document.json()).expect("JSON")
}

fn sum(exported: &Exported, name: &str) -> f64 {
    let figure = exported.figure(name).unwrap_or_else(|| panic!("no {name}"));
    exported.samples.iter().map(|sample| sample.amounts[figure]).sum()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-6, "{found}, not {expected}");
}

#[test]
fn cpu_time_is_that_of_the_report() {
    for recording in [recordings::triad(), recordings::templates(), recordings::all_kernel()] {
        let exported = Exported::new(&recording, "r000ma");
        let seconds =
            view(&recording, View::Summary)["cpu_time"]["value"].as_f64().expect("a time");
        close(sum(&exported, "cpu"), seconds * 1e9);
        assert_eq!(sum(&exported, "samples"), recording.samples.len() as f64);
        let figure = exported.figure("cpu").expect("CPU time");
        let folded: u64 = exported
            .folded(figure)
            .lines()
            .map(|line| line.rsplit_once(' ').expect("an amount").1.parse::<u64>().expect("one"))
            .sum();
        close(folded as f64, seconds * 1e9);
        let speedscope: Value = serde_json::from_str(&exported.speedscope()).expect("JSON");
        close(speedscope["profiles"][figure]["endValue"].as_f64().expect("an end"), seconds * 1e9);
    }
}

#[test]
fn allocated_bytes_are_those_of_the_report_and_say_whether_they_are_estimated() {
    let counted = recordings::heap();
    let exported = Exported::new(&counted, "r000mc");
    let whole = view(&counted, View::Summary)["heap"]["bytes_allocated"]["value"].as_f64();
    let by_lot = Exported::new(&recordings::heap_by_lot(), "r000mc");
    assert!(by_lot.figure("alloc_space").is_none());
    assert!(sum(&by_lot, "estimated_alloc_space") > 0.0);
    assert!(by_lot.notes.iter().any(|note| note.starts_with("Allocated bytes are estimates")));
    close(sum(&exported, "alloc_space"), whole.expect("a total"));
}

#[test]
fn traffic_is_that_of_the_report_and_is_called_estimated() {
    let recording = recordings::bursts();
    let exported = Exported::new(&recording, "r000ma");
    let options = Options {
        view: View::Bandwidth,
        group: vec![report::Key::Function],
        result_name: "r000ma".into(),
        ..Options::default()
    };
    let document = report::build(&recording, &options, &|_| None).expect("a view");
    let rows: Value = serde_json::from_str(&document.json()).expect("JSON");
    for (key, name) in
        [("dram_read", "estimated_dram_read"), ("dram_write", "estimated_dram_write")]
    {
        let rows = rows["rows"].as_array().expect("rows");
        let expected = rows.iter().filter_map(|row| row[key]["value"].as_f64()).sum::<f64>();
        // Figures in JSON have six digits.
        let found = sum(&exported, name);
        assert!((found - expected).abs() <= found * 1e-3, "{name}: {found}, not {expected}");
    }
}

#[test]
fn a_recording_of_nothing_has_no_figures_and_says_why() {
    let exported = Exported::new(&recordings::nothing(), "r000ma");
    assert_eq!((exported.figures.len(), exported.samples.len()), (0, 0));
    assert!(
        exported.notes.iter().any(|note| note.starts_with("No CPU time")),
        "{:?}",
        exported.notes
    );
}

#[test]
fn go_tool_pprof_reads_the_same_total() {
    let recording = recordings::triad();
    let exported = Exported::new(&recording, "r000ma");
    let file = std::env::temp_dir().join(format!("fathom-export-{}.pb.gz", std::process::id()));
    std::fs::write(&file, exported.pprof()).expect("write");
    let command = ["tool", "pprof", "-top", "-unit=ms", "-sample_index=cpu"];
    let output = std::process::Command::new("go").args(command).arg(&file).output();
    let _ = std::fs::remove_file(&file);
    let Ok(output) = output else {
        testkit::programs::skip("go, which brings pprof, is not installed");
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let total = text.lines().find_map(|line| line.split(" of ").nth(1)?.split("ms total").next());
    let total: f64 = total.unwrap_or_else(|| panic!("no total: {text}")).parse().expect("a number");
    assert!((total - sum(&exported, "cpu") / 1e6).abs() <= 1.0, "{text}");
}

/// A field of a protobuf message.
#[derive(Clone, Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, read as its specification says.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let length = bytes.iter().position(|byte| byte & 0x80 == 0).expect("an end") + 1;
        let (head, rest) = bytes.split_at(length);
        *bytes = rest;
        head.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (head, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(head.try_into().expect("eight")))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (head, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(head)
            }
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn number(of: &[(u64, Field<'_>)], field: u64) -> Option<u64> {
    of.iter().find_map(|(at, value)| match value {
        Field::Number(value) if *at == field => Some(*value),
        _ => None,
    })
}

fn part<'a>(of: &[(u64, Field<'a>)], field: u64) -> Option<&'a [u8]> {
    of.iter().find_map(|(at, value)| match value {
        Field::Bytes(bytes) if *at == field => Some(*bytes),
        _ => None,
    })
}

/// Numbers of fields: protos/perfetto/trace/trace_packet.proto, track_event/track_descriptor.proto and track_event.proto.
#[test]
fn a_trace_of_perfetto_has_each_bin_of_bandwidth() {
    let recording = recordings::bursts();
    let trace = Exported::new(&recording, "r000ma").perfetto();
    let options =
        Options { view: View::Bandwidth, result_name: "r000ma".into(), ..Options::default() };
    let document = report::build(&recording, &options, &|_| None).expect("a view");
    let view: Value = serde_json::from_str(&document.json()).expect("JSON");
    let bins = view["rows"].as_array().expect("bins over time");
    let (mut track, mut values) = (None, Vec::new());
    for (field, packet) in fields(&trace) {
        assert_eq!(field, 1, "a trace is packets");
        let Field::Bytes(packet) = packet else { panic!("no message") };
        let packet = fields(packet);
        assert_eq!(number(&packet, 10), Some(1), "a sequence");
        if let Some(descriptor) = part(&packet, 60).map(fields) {
            if part(&descriptor, 2) == Some(b"estimated DRAM read") {
                track = number(&descriptor, 1);
                assert!(part(&descriptor, 8).is_some(), "a counter");
            }
        } else if let Some(event) = part(&packet, 11).map(fields) {
            let time = number(&packet, 8).expect("a time");
            if track.is_some() && number(&event, 11) == track {
                assert_eq!(number(&event, 9), Some(4), "a value of a counter");
                values.push((time, f64::from_bits(number(&event, 44).expect("a value"))));
            }
        }
    }
    let known = bins.iter().filter_map(|bin| bin["read"]["value"].as_f64());
    let known: Vec<f64> = known.collect();
    assert!(!known.is_empty());
    assert_eq!(values.len(), known.len());
    for ((_, found), expected) in values.iter().zip(known) {
        assert!(
            (found - expected).abs() <= expected.abs() * 1e-4 + 1e-9,
            "{found}, not {expected}"
        );
    }
    assert!(values.is_sorted_by_key(|(time, _)| *time));
}

#[test]
fn regions_marks_and_pauses_are_in_a_trace_of_perfetto() {
    let recording = recordings::paused(recordings::triad());
    let trace = Exported::new(&recording, "r000ma").perfetto();
    let (mut tracks, mut events) = (BTreeMap::new(), Vec::new());
    for (_, packet) in fields(&trace) {
        let Field::Bytes(packet) = packet else { panic!("no message") };
        let packet = fields(packet);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if let Some(descriptor) = part(&packet, 60).map(fields) {
            tracks.insert(number(&descriptor, 1), part(&descriptor, 2).map(text));
        } else if let Some(event) = part(&packet, 11).map(fields) {
            let track = tracks[&number(&event, 11)].clone().expect("a name");
            let name = part(&event, 23).map(text).unwrap_or_default();
            events.push((track, number(&event, 9), number(&packet, 8), name));
        }
    }
    let on = |begin: &str| {
        let of = events.iter().filter(|event| event.0.starts_with(begin));
        of.map(|(_, kind, time, name)| {
            (kind.unwrap_or(0), time.unwrap_or(0) / 1_000_000, name.as_str())
        })
        .collect::<Vec<_>>()
    };
    let marks = on("marks and pauses");
    assert_eq!(marks[..2], [(3, 250, "warm"), (3, 900, "second phase")]);
    assert_eq!(marks[2..], [(1, 500, "paused: nothing was observed"), (2, 750, "")]);
    let regions = on("regions of");
    let passes = [
        (1, 100, "solve"),
        (2, 400, ""),
        (1, 800, "io (the recording ended in it)"),
        (2, 1000, ""),
        (1, 100, "step (1000 passes, 200.000 ms in them)"),
        (2, 350, ""),
    ];
    assert_eq!(regions, passes);
}

#[test]
fn regions_marks_and_pauses_are_markers_of_firefox() {
    let recording = recordings::paused(recordings::triad());
    let profile = Exported::new(&recording, "r000ma").firefox();
    let profile: Value = serde_json::from_str(&profile).expect("JSON");
    let mut found = Vec::new();
    for thread in profile["threads"].as_array().expect("threads") {
        let markers = &thread["markers"];
        let length = markers["length"].as_u64().expect("a number") as usize;
        for key in ["name", "startTime", "endTime", "phase", "category", "data"] {
            assert_eq!(markers[key].as_array().expect("a column").len(), length, "{key}");
        }
        for at in 0..length {
            let name = &thread["stringArray"][markers["name"][at].as_u64().unwrap() as usize];
            let says = markers["data"][at]["name"].as_str().unwrap_or_default();
            let times = (markers["startTime"][at].as_f64(), markers["endTime"][at].as_f64());
            found.push((name.as_str().unwrap(), says, times));
        }
    }
    let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-3,
        (a, b) => a == b,
    };
    for (name, says, from, to) in [
        ("solve", "", 100.0, Some(400.0)),
        ("step", "1000 passes, 200.000 ms in them", 100.0, Some(350.0)),
        ("io", "the recording ended in it", 800.0, Some(1000.0)),
        ("Mark", "warm", 250.0, None),
        ("Mark", "second phase", 900.0, None),
        ("Paused", "nothing was observed", 500.0, Some(750.0)),
    ] {
        let is = |one: &&(&str, &str, (Option<f64>, Option<f64>))| {
            one.0 == name && one.1 == says && close(one.2.0, Some(from)) && close(one.2.1, to)
        };
        assert!(found.iter().any(|one| is(&one)), "{name} {says}: {found:?}");
    }
}

#[test]
fn a_flame_graph_is_xml_whatever_functions_are_called() {
    let exported = Exported::new(&recordings::templates(), "a<b>&c");
    let svg = exported.svg(exported.main_figure().expect("a figure"));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("a&lt;b&gt;&amp;c: cpu by call stack"), "{}", &svg[..2000]);
    // Each tag that begins ends, and nothing of a name is a tag.
    for tag in ["g", "title", "text", "style"] {
        let count = |text: &str| svg.matches(text).count();
        assert_eq!(
            count(&format!("<{tag}>")) + count(&format!("<{tag} ")),
            count(&format!("</{tag}>"))
        );
    }
    let tags = svg.matches('<').count();
    let known = ["svg", "g", "title", "text", "style", "rect"];
    let known: usize = known
        .iter()
        .map(|tag| {
            [format!("<{tag}>"), format!("<{tag} "), format!("</{tag}>")]
                .iter()
                .map(|text| svg.matches(text.as_str()).count())
                .sum::<usize>()
        })
        .sum();
    assert_eq!(tags, known);
}

#[test]
fn samples_of_firefox_have_the_time_of_the_report() {
    let recording = recordings::triad();
    let exported = Exported::new(&recording, "r000ma");
    let profile: Value = serde_json::from_str(&exported.firefox()).expect("JSON");
    let threads = profile["threads"].as_array().expect("threads");
    let (mut samples, mut milliseconds) = (0, 0.0);
    for thread in threads {
        let times = numbers(&thread["samples"]["timeDeltas"]);
        assert!(times.iter().all(|delta| *delta >= 0.0), "in the order of time");
        samples += times.len();
        milliseconds += numbers(&thread["samples"]["weight"]).iter().sum::<f64>();
        let stacks = thread["stackTable"]["length"].as_u64().expect("a number");
        let prefixes = thread["stackTable"]["prefix"].as_array().expect("a list");
        assert_eq!(prefixes.len() as u64, stacks);
        let before = |(at, prefix): (usize, &Value)| prefix.as_u64().is_none_or(|p| p < at as u64);
        assert!(prefixes.iter().enumerate().all(before), "each stack continues an earlier one");
    }
    assert_eq!(samples, recording.samples.len());
    close(milliseconds * 1e6, sum(&exported, "cpu"));
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|one| one.as_f64().expect("one")).collect()
}

#[test]
fn counters_of_firefox_have_the_traffic_of_the_bins() {
    let recording = recordings::bursts();
    let profile = Exported::new(&recording, "r000ma").firefox();
    let profile: Value = serde_json::from_str(&profile).expect("JSON");
    let options =
        Options { view: View::Bandwidth, result_name: "r000ma".into(), ..Options::default() };
    let document = report::build(&recording, &options, &|_| None).expect("a view");
    let view: Value = serde_json::from_str(&document.json()).expect("JSON");
    let bytes_of = |bin: &Value| {
        let length = bin["end"].as_f64()? - bin["start"].as_f64()?;
        Some(bin["read"]["value"].as_f64()? * length * 1e9)
    };
    let bins = view["rows"].as_array().expect("bins");
    assert!(bins.iter().all(|bin| bytes_of(bin).is_some()), "the recording has no gaps");
    let expected: f64 = bins.iter().filter_map(bytes_of).sum();
    let counter = &profile["counters"][0];
    assert_eq!(counter["name"], "estimated DRAM read, bytes");
    let found: f64 = numbers(&counter["samples"]["count"]).iter().sum();
    assert!((found - expected).abs() <= expected * 1e-3, "{found}, not {expected}");
}

/// By the viewer's own code: `profiler-cli`, among the packages of `ui`.
#[test]
fn the_firefox_profiler_reads_the_same_total() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let viewer = root.join("ui/node_modules/.bin/profiler-cli");
    let home = std::env::temp_dir().join(format!("fathom-firefox-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a directory");
    let run = |words: &[&str]| -> Option<String> {
        let mut command = std::process::Command::new(&viewer);
        let output = command.args(words).env("HOME", &home).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    };
    if run(&["--version"]).is_none() {
        testkit::programs::skip(
            "the packages of ui, or a Node that runs profiler-cli, are missing",
        );
        return;
    }
    let exported = Exported::new(&recordings::triad(), "r000ma");
    let file = home.join("profile.json");
    std::fs::write(&file, exported.firefox()).expect("write");
    let loaded = run(&["load", file.to_str().expect("a path of ours")]);
    let text = loaded.as_ref().and_then(|_| run(&["profile", "info"]));
    run(&["stop", "--all"]);
    let _ = std::fs::remove_dir_all(&home);
    // "p-0: triad (41) [pid 41] [ts-0 -> end] - 2521.252ms"
    let text = text.expect("the viewer opens the profile");
    let total: f64 = text
        .lines()
        .filter(|line| line.trim_start().starts_with("p-"))
        .filter_map(|line| {
            line.rsplit_once(" - ")?.1.trim().strip_suffix("ms")?.parse::<f64>().ok()
        })
        .sum();
    close_to(total, sum(&exported, "cpu") / 1e6, &text);
}

fn close_to(found: f64, expected: f64, text: &str) {
    assert!((found - expected).abs() <= expected * 0.01, "{found}, not {expected}: {text}");
}

#[test]
fn a_table_of_stacks_has_the_sums_and_no_row_of_another_length() {
    let exported = Exported::new(&recordings::triad(), "r000ma");
    let text = exported.csv();
    let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let at = header.iter().position(|name| *name == "cpu_nanoseconds").expect("CPU time");
    let mut total = 0.0;
    for line in lines {
        // Commas stand within quotes only in names.
        let cells = line.split('"').enumerate().filter(|(at, _)| at % 2 == 0);
        let cells: String = cells.map(|(_, text)| text).collect();
        let cells: Vec<&str> = cells.split(',').collect();
        assert_eq!(cells.len(), header.len(), "{line}");
        total += cells[at].parse::<f64>().unwrap_or(0.0);
    }
    close(total, sum(&exported, "cpu"));
}
