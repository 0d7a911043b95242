//! What the timeline draws adds up to what the reports say: of the whole run, of a part of it, and of two halves together.
//! Asked of the web's answers, as the page asks them, for recordings of all kinds.
//!
//! What not: how it is drawn. Assumption: answers have six digits, so sums of them agree to [`ROUNDING`].

#[allow(
    dead_code,
    unused_imports,
    reason = "the recordings of report's golden tests; here those with figures over time"
)]
#[path = "../../report/tests/recordings/mod.rs"]
mod recordings;

use facts::Recording;
use serde_json::Value;
use web::{Site, Subject};

const ROUNDING: f64 = 1e-4;

/// Recordings with a name each.
fn all() -> Vec<(&'static str, Recording)> {
    vec![
        ("triad", recordings::triad()),
        ("templates", recordings::templates()),
        ("all_kernel", recordings::all_kernel()),
        ("incomplete", recordings::incomplete()),
        ("bursts", recordings::bursts()),
        ("threading", recordings::threading()),
        ("kernel", recordings::kernel()),
        ("objects", recordings::objects()),
        ("heap", recordings::heap()),
        ("heap_by_lot", recordings::heap_by_lot()),
    ]
}

fn ask(site: &Site<'_>, question: &str) -> Value {
    let answer = site.answer(question).unwrap_or_else(|error| panic!("{question}: {error}"));
    serde_json::from_str(&answer).expect("JSON")
}

/// With a part of the time, from one share of it to another.
fn part(question: &str, elapsed: f64, (from, to): (f64, f64)) -> String {
    let join = if question.contains('?') { '&' } else { '?' };
    format!("{question}{join}filter=time%3D{}..{}", elapsed * from, elapsed * to)
}

/// The value of a metric or a plain number; `None` where there is none.
fn value(cell: &Value) -> Option<f64> {
    cell.as_f64().or_else(|| cell["value"].as_f64())
}

/// A column of a table; 0 where there is no value. `None` when it has no such column.
fn column(table: &Value, key: &str) -> Option<Vec<f64>> {
    table["columns"].as_array()?.iter().find(|column| column["key"] == key)?;
    Some(table["rows"].as_array()?.iter().map(|row| value(&row[key]).unwrap_or(0.0)).collect())
}

fn total(table: &Value, key: &str) -> Option<f64> {
    value(&table["total"][key])
}

/// Amounts of a figure of the call stacks, in its unit: of lanes, of cells with what was left out, of the kernel's lanes.
fn of_stacks(stacks: &Value, key: &str) -> Option<[f64; 3]> {
    let figure = stacks["figures"].as_array()?.iter().find(|figure| figure["key"] == key)?;
    let factor = figure["factor"].as_f64()?;
    let amounts = |of: &str| -> Vec<f64> {
        figure[of]["amount"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let (lanes, cells) = (amounts("lanes"), amounts("cells"));
    let in_kernel = figure["lanes"]["kernel"].as_array()?.iter();
    let kernel: f64 =
        in_kernel.zip(&lanes).filter(|(kernel, _)| **kernel == 1).map(|(_, amount)| amount).sum();
    let left_out = figure["left_out"].as_f64()?;
    let cells = cells.iter().sum::<f64>() + left_out;
    Some([lanes.iter().sum::<f64>(), cells, kernel].map(|amount| amount * factor))
}

/// Fails when two figures that both are there differ.
fn same(what: &str, drawn: Option<f64>, said: Option<f64>) {
    let (Some(drawn), Some(said)) = (drawn, said) else { return };
    let near = (drawn - said).abs() <= ROUNDING * said.abs().max(drawn.abs());
    assert!(near, "{what}: drawn {drawn}, but the report says {said}");
}

#[test]
fn figures_of_stacks_add_up_to_the_summary() {
    for (name, recording) in all() {
        let site = Site::new(&recording, name, Vec::new(), &|_| None);
        let (summary, stacks) = (ask(&site, "summary"), ask(&site, "stacks"));
        let split = &summary["time_split"];
        let kernel = value(&split["kernel"]).zip(value(&split["page_faults"]));
        let faults = &summary["page_faults"];
        let faults = value(&faults["minor"]).zip(value(&faults["major"]));
        let heap = &summary["heap"];
        for (key, said) in [
            ("cpu_time", value(&summary["cpu_time"])),
            ("page_faults", faults.map(|(minor, major)| minor + major)),
            ("allocations", value(&heap["allocations"])),
            ("bytes_allocated", value(&heap["bytes_allocated"])),
        ] {
            let Some([lanes, cells, in_kernel]) = of_stacks(&stacks, key) else { continue };
            // One recording has blocks by hand, and nobody who counted them; in another the few blocks that the lot fell on
            // stand for all.
            let counted = recording.heap_totals.iter().any(|total| total.allocations > 0);
            if key.contains("alloc") && (!counted || name == "heap_by_lot") {
                continue;
            }
            same(&format!("{name}, lanes of {key}"), Some(lanes), said);
            same(&format!("{name}, cells of {key}"), Some(cells), said);
            if key == "cpu_time" {
                let what = format!("{name}, CPU time in the kernel");
                same(&what, Some(in_kernel), kernel.map(|(kernel, faults)| kernel + faults));
            }
        }
    }
}

#[test]
fn bandwidth_over_time_adds_up_to_the_traffic_of_the_run() {
    let mut compared = 0;
    for (name, recording) in all() {
        let site = Site::new(&recording, name, Vec::new(), &|_| None);
        let (summary, table) = (ask(&site, "summary"), ask(&site, "bandwidth"));
        let ends = column(&table, "start").zip(column(&table, "end"));
        let Some((starts, ends)) = ends.filter(|(starts, _)| !starts.is_empty()) else { continue };
        let elapsed = value(&summary["elapsed"]).expect("a length");
        for key in ["read", "write"] {
            let rates = column(&table, key).expect("a rate");
            let bytes: f64 = rates
                .iter()
                .zip(starts.iter().zip(&ends))
                .map(|(rate, (a, b))| rate * (b - a))
                .sum();
            let said = value(&summary["dram_bandwidth"][key]);
            compared += usize::from(said.is_some_and(|rate| rate > 0.0));
            same(&format!("{name}, {key}"), Some(bytes / elapsed), said);
            same(&format!("{name}, {key} below the table"), total(&table, key), said);
        }
    }
    assert!(compared > 0, "no recording here has traffic with memory");
}

/// Bytes that a table of rates over time stands for, and the bytes of its total.
fn bytes_over_time(table: &Value, key: &str) -> Option<(f64, Option<f64>)> {
    let (starts, ends) = column(table, "start").zip(column(table, "end"))?;
    let rates = column(table, key)?;
    let lengths = starts.iter().zip(&ends).map(|(start, end)| end - start);
    let length = ends.last()? - starts.first()?;
    let bytes: f64 = rates.iter().zip(lengths).map(|(rate, length)| rate * length).sum();
    Some((bytes * 1e9, total(table, key).map(|rate| rate * length * 1e9)))
}

/// In a part of the time the bursts that were taken in it speak, and no others: whoever sums up, by time, code or thread.
#[test]
fn bandwidth_of_a_part_of_the_time_is_the_same_by_time_code_and_thread() {
    let mut compared = 0;
    for (name, recording) in all() {
        let site = Site::new(&recording, name, Vec::new(), &|_| None);
        let elapsed = recording.run.elapsed_ns as f64 * 1e-9;
        for cut in [(0.0, 0.37), (0.37, 1.0), (0.1, 0.6)] {
            let of = |question: &str| ask(&site, &part(question, elapsed, cut));
            let (over_time, by_thread) = (of("bandwidth"), of("bandwidth?group=thread"));
            let (by_code, by_module) =
                (of("bandwidth?group=module,function"), of("bandwidth?group=module"));
            for (rate, bytes) in [("read", "dram_read"), ("write", "dram_write")] {
                let Some((drawn, said)) = bytes_over_time(&over_time, rate) else { continue };
                let what = |of: &str| format!("{name}, {bytes} {of} of {cut:?}");
                same(&what("below the table"), Some(drawn), said);
                for (of, table) in [
                    ("by function", &by_code),
                    ("by module", &by_module),
                    ("by thread", &by_thread),
                ] {
                    // Without samples the running time of each thread is unknown: there is no row, and no 0 either.
                    if of == "by thread" && recording.samples.is_empty() {
                        assert_eq!(table["rows"].as_array().map(Vec::len), Some(0));
                        continue;
                    }
                    same(&what(of), Some(drawn), sum(table, bytes));
                }
                compared += usize::from(drawn > 0.0);
            }
        }
    }
    assert!(compared > 3, "{compared} parts with traffic are too few to compare");
}

/// Where no burst was taken there is no figure, and no 0 in its place.
#[test]
fn a_part_of_the_time_without_bursts_has_no_traffic_to_tell() {
    let recording = recordings::bursts();
    let site = Site::new(&recording, "bursts", Vec::new(), &|_| None);
    let last = recording.bursts.iter().map(|burst| burst.time.0 + burst.elapsed.0).max();
    let behind = (last.unwrap_or(0) + 1) as f64 / recording.run.elapsed_ns as f64;
    assert!(behind < 1.0);
    let elapsed = recording.run.elapsed_ns as f64 * 1e-9;
    for question in ["bandwidth", "bandwidth?group=function", "latency?group=function"] {
        let table = ask(&site, &part(question, elapsed, (behind, 1.0)));
        assert_eq!(table["rows"].as_array().map(Vec::len), Some(0), "{question}: {table}");
    }
}

#[test]
fn the_table_over_time_adds_up_to_its_total_and_the_summary() {
    for (name, recording) in all() {
        let site = Site::new(&recording, name, Vec::new(), &|_| None);
        let (summary, table) = (ask(&site, "summary"), ask(&site, "timeline?limit=400"));
        for key in ["cpu_time", "user_time", "kernel_time", "page_faults"] {
            let sum = column(&table, key).map(|column| column.iter().sum());
            same(&format!("{name}, {key} by time"), sum, total(&table, key));
        }
        same(&format!("{name}, CPU time"), total(&table, "cpu_time"), value(&summary["cpu_time"]));
    }
}

/// The parts are not cut at the borders of bins: the server adds up single samples.
#[test]
fn a_part_of_the_time_has_what_the_reports_say_of_it_and_two_parts_make_the_whole() {
    for (name, recording) in all() {
        let site = Site::new(&recording, name, Vec::new(), &|_| None);
        let whole = ask(&site, "stacks");
        let elapsed = whole["elapsed"].as_f64().expect("a length");
        // Samples behind the end, which there are in damaged recordings, are in neither.
        let cuts = [(0.0, 0.37), (0.37, 1.000_001)];
        let parts = cuts.map(|cut| ask(&site, &part("stacks", elapsed, cut)));
        for key in ["cpu_time", "page_faults", "allocations", "bytes_allocated"] {
            let sums: Vec<f64> =
                parts.iter().map(|one| of_stacks(one, key).map_or(0.0, |sum| sum[0])).collect();
            let all = of_stacks(&whole, key).map(|sums| sums[0]);
            same(&format!("{name}, {key} of both parts"), Some(sums.iter().sum()), all);
        }
        for (cut, stacks) in cuts.iter().zip(&parts) {
            let of = |question: &str| ask(&site, &part(question, elapsed, *cut));
            let drawn = |key| of_stacks(stacks, key).map(|sums| sums[0]);
            let what = |key: &str| format!("{name}, {key} of {cut:?}");
            let hotspots = of("hotspots?group=function");
            let by_function =
                column(&hotspots, "cpu_time").map(|column| column.iter().sum::<f64>());
            same(&what("cpu_time by function"), drawn("cpu_time"), by_function);
            same(&what("cpu_time"), drawn("cpu_time"), total(&hotspots, "cpu_time"));
            let faults = of("faults?group=function");
            let by_function =
                column(&faults, "page_faults").map(|column| column.iter().sum::<f64>());
            same(&what("page faults"), drawn("page_faults"), by_function);
        }
    }
}

/// Columns of what threads did.
const STATES: [&str; 8] = [
    "running_time",
    "spin_time",
    "ready_time",
    "lock_wait",
    "barrier_wait",
    "io_wait",
    "sleep_wait",
    "other_wait",
];

fn sum(table: &Value, key: &str) -> Option<f64> {
    column(table, key).map(|column| column.iter().sum())
}

/// Where switches of threads were followed, each moment of a thread is in one state: of the whole run, and of a part.
#[test]
fn states_of_threads_add_up_to_their_reports() {
    let recording = recordings::threading();
    let site = Site::new(&recording, "threading", Vec::new(), &|_| None);
    let elapsed = recording.run.elapsed_ns as f64 * 1e-9;
    let mut of_parts = [0.0; STATES.len()];
    for cut in [(0.0, 1.0), (0.0, 0.37), (0.37, 0.9), (0.9, 1.0)] {
        let ask = |question: &str| match cut {
            (0.0, 1.0) => ask(&site, question),
            cut => ask(&site, &part(question, elapsed, cut)),
        };
        let (table, threads) = (ask("timeline?group=thread&limit=60"), ask("threads"));
        for (key, of_parts) in STATES.iter().zip(&mut of_parts) {
            let drawn = sum(&table, key);
            assert!(drawn.is_some(), "no {key} over time");
            same(&format!("{key} of {cut:?}"), drawn, sum(&threads, key));
            same(&format!("{key} of {cut:?} below the table"), drawn, total(&threads, key));
            *of_parts += if cut == (0.0, 1.0) { 0.0 } else { drawn.unwrap_or(0.0) };
        }
    }
    let whole = ask(&site, "threads");
    // Spinning is a share of the samples times the counted time, in each part its own share: these are near, not equal.
    for (key, of_parts) in STATES.iter().zip(of_parts).filter(|(key, _)| **key != "spin_time") {
        same(&format!("{key} of all parts"), Some(of_parts), sum(&whole, key));
    }
}
