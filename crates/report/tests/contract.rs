//! What is promised to programs and readers: the JSON schema, the glossary, the shape of tables.

mod recordings;

use std::path::PathBuf;

use facts::Recording;
use report::{Document, Options, View, build};
use serde_json::Value;

fn documents(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

fn view(recording: &Recording, view: View) -> Document {
    let options = Options { view, result_name: "r000ma".into(), ..Options::default() };
    build(recording, &options, &|_| None).expect("no filters, so nothing can be missing")
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("valid JSON")
}

fn all_recordings() -> Vec<Recording> {
    vec![
        recordings::triad(),
        recordings::templates(),
        recordings::nothing(),
        recordings::all_kernel(),
        recordings::incomplete(),
        recordings::bursts(),
        recordings::flushed(),
        recordings::threading(),
        recordings::kernel(),
        recordings::objects(),
        recordings::waited(),
        recordings::touched(),
        recordings::with_nodes(recordings::touched()),
        recordings::heap(),
        recordings::heap_by_lot(),
        recordings::pace(),
        recordings::counted(),
        recordings::top_down(),
        recordings::paused(recordings::triad()),
        Recording::default(),
    ]
}

#[test]
fn views_do_not_contradict_each_other() {
    for recording in all_recordings() {
        let found = report::consistency::contradictions(&recording).expect("views");
        assert_eq!(found, []);
    }
}

#[test]
fn summaries_fit_the_schema() {
    let schema = parse(&documents("format/summary.schema.json"));
    for recording in all_recordings() {
        let summary = parse(&view(&recording, View::Summary).json());
        assert_eq!(testkit::schema::violations(&schema, &summary), Vec::<String>::new());
    }
    let mut broken = parse(&view(&recordings::triad(), View::Summary).json());
    broken["elapsed"] = Value::from(1.0);
    assert_eq!(testkit::schema::violations(&schema, &broken), ["/elapsed: is 1.0, not \"object\""]);
}

/// Every metric that is null says why; every other has evidence.
fn check_metrics(value: &Value, path: &str) {
    match value {
        Value::Object(fields) if fields.contains_key("value") => {
            let missing = fields["value"].is_null();
            assert_eq!(missing, fields["evidence"].is_null(), "{path}");
            assert!(!missing || fields["note"].is_string(), "{path}");
            if let (Some(low), Some(value), Some(high)) =
                (fields["low"].as_f64(), fields["value"].as_f64(), fields["high"].as_f64())
            {
                assert!(low <= value && value <= high, "{path}: {low} {value} {high}");
            }
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| check_metrics(field, &format!("{path}/{name}")));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(at, item)| check_metrics(item, &format!("{path}/{at}")));
        }
        _ => {}
    }
}

#[test]
fn tables_have_their_shape_and_metrics_their_evidence() {
    for recording in all_recordings() {
        for (name, _) in View::ALL {
            let document = parse(&view(&recording, name).json());
            check_metrics(&document, name.name());
            if name == View::Summary {
                continue;
            }
            let columns = document["columns"].as_array().expect("columns");
            let keys: Vec<&str> =
                columns.iter().map(|column| column["key"].as_str().expect("a key")).collect();
            for row in document["rows"].as_array().expect("rows").iter().chain([&document["total"]])
            {
                let row = row.as_object().expect("a row");
                assert_eq!(row.len(), keys.len());
                assert!(keys.iter().all(|key| row.contains_key(*key)), "{keys:?} {row:?}");
            }
        }
    }
}

#[test]
fn every_figure_is_in_the_glossary() {
    let glossary = documents("glossary/README.md");
    let paused = recordings::paused(recordings::triad());
    let recordings = [
        paused,
        recordings::threading(),
        recordings::sampled(),
        recordings::counted_code(),
        recordings::sockets(),
        recordings::by_cores(),
        recordings::checked(),
    ];
    let mut keys = Vec::new();
    let views = View::ALL
        .iter()
        .flat_map(|(name, _)| recordings.iter().map(|recording| (*name, recording)));
    for (name, recording) in views {
        match view(recording, name) {
            Document::Summary(summary) => {
                keys.extend(summary.metrics().into_iter().map(|(path, _)| path))
            }
            Document::Table(table) => {
                keys.extend(table.columns.iter().map(|column| column.key.to_owned()))
            }
            Document::Machine(_) | Document::Diff(_) | Document::Scale(_) => {}
        }
    }
    let missing: Vec<&String> =
        keys.iter().filter(|key| !glossary.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/glossary/README.md lacks {missing:?}");
}

/// On a narrow terminal too: only commands, which must survive being copied, are longer than a line, and no number stands
/// without its unit.
#[test]
fn lines_of_the_summary_end_where_they_may() {
    for recording in all_recordings() {
        let summary = view(&recording, View::Summary);
        for width in [60, 80, 100] {
            let text = summary.text(width, false);
            // The table of functions needs more than 60.
            let fits = |line: &&str| line.chars().count() <= width || width == 60;
            let long = text.lines().find(|line| !fits(line) && !line.starts_with("  fathom "));
            assert_eq!(long, None, "at {width}");
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let number = pair[0].ends_with(|c: char| c.is_ascii_digit());
                let next = pair[1].split_whitespace().next().unwrap_or_default();
                let torn =
                    number && ["%", "s", "ms", "µs", "ns", "GB/s", "MiB", "GiB"].contains(&next);
                assert!(!torn, "at {width}: {pair:?}");
            }
        }
    }
}
