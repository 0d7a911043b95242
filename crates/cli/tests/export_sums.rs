//! Sums of what is exported against the report's totals, and pprof against its own reader.
//!
//! What for: no figure is lost or made up on the way. What not: how viewers look. A format's own reader is used where this
//! machine has it.

#[path = "../../report/tests/recordings/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of report use all of them")]
mod recordings;

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
