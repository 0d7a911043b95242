//! The processed format of the Firefox Profiler: each sample at its time, per thread, and traffic with memory as counters.
//!
//! Source: docs-developer/processed-profile-format.md and the versions in CHANGELOG-formats.md of
//! https://github.com/firefox-devtools/profiler. Version 55 is the last whose threads have tables of their own; the viewer
//! upgrades it. What not: addresses. Frames have names already.

use std::collections::HashMap;
use std::hash::Hash;

use base::Nanos;
use facts::Metric;
use serde_json::{Value, json};

use crate::stacks::{Exported, TimedPass, TimedSample, TimedThread};

const VERSION: u32 = 55;
const USER: usize = 0;
const KERNEL: usize = 1;
/// `resourceTypes.library` of the viewer's src/profile-logic/data-structures.ts.
const LIBRARY: u32 = 1;

/// Distinct values in the order in which they came.
struct Table<T> {
    rows: Vec<T>,
    known: HashMap<T, usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { rows: Vec::new(), known: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn id(&mut self, row: T) -> usize {
        if let Some(&id) = self.known.get(&row) {
            return id;
        }
        self.rows.push(row.clone());
        *self.known.entry(row).or_insert(self.rows.len() - 1)
    }

    fn column<V: Into<Value>>(&self, value: impl Fn(&T) -> V) -> Value {
        self.rows.iter().map(|row| value(row).into()).collect()
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Function {
    name: usize,
    file: Option<usize>,
    resource: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct FrameRow {
    function: usize,
    line: Option<u32>,
    kernel: bool,
}

/// The tables of one thread.
#[derive(Default)]
struct Tables {
    texts: Table<String>,
    /// Each a library: its name and its position among all.
    resources: Table<(usize, usize)>,
    functions: Table<Function>,
    frames: Table<FrameRow>,
    /// Each a stack: the one it continues, and a frame.
    stacks: Table<(Option<usize>, usize)>,
}

impl Tables {
    fn stack(
        &mut self,
        exported: &Exported,
        libraries: &mut Table<String>,
        stack: &[usize],
    ) -> Option<usize> {
        let mut outer = None;
        for &at in stack.iter().rev() {
            let frame = &exported.frames[at];
            let library = (self.texts.id(frame.module.clone()), libraries.id(frame.module.clone()));
            let function = Function {
                name: self.texts.id(frame.function.clone()),
                file: frame.file.as_ref().map(|file| self.texts.id(file.clone())),
                resource: self.resources.id(library),
            };
            let function = self.functions.id(function);
            let row = FrameRow { function, line: frame.line, kernel: frame.kernel };
            outer = Some(self.stacks.id((outer, self.frames.id(row))));
        }
        outer
    }

    fn json(&self) -> Value {
        let nothing = |count: usize| vec![Value::Null; count];
        let (functions, frames) = (self.functions.rows.len(), self.frames.rows.len());
        let category = |row: &FrameRow| if row.kernel { KERNEL } else { USER };
        json!({
            "stringArray": self.texts.rows,
            "resourceTable": {
                "length": self.resources.rows.len(),
                "lib": self.resources.column(|row| row.1),
                "name": self.resources.column(|row| row.0),
                "host": nothing(self.resources.rows.len()),
                "type": self.resources.column(|_| LIBRARY),
            },
            "funcTable": {
                "length": functions,
                "name": self.functions.column(|row| row.name),
                "isJS": vec![false; functions],
                "relevantForJS": vec![false; functions],
                "resource": self.functions.column(|row| row.resource),
                "fileName": self.functions.column(|row| row.file),
                "lineNumber": nothing(functions),
                "columnNumber": nothing(functions),
            },
            "frameTable": {
                "length": frames,
                "address": vec![-1; frames],
                "inlineDepth": vec![0; frames],
                "category": self.frames.column(category),
                "subcategory": vec![0; frames],
                "func": self.frames.column(|row| row.function),
                "nativeSymbol": nothing(frames),
                "innerWindowID": vec![0; frames],
                "line": self.frames.column(|row| row.line),
                "column": nothing(frames),
            },
            "stackTable": {
                "length": self.stacks.rows.len(),
                "prefix": self.stacks.column(|row| row.0),
                "frame": self.stacks.column(|row| row.1),
            },
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
        })
    }
}

pub(crate) fn firefox(exported: &Exported) -> String {
    let mut libraries = Table::default();
    let mut threads: Vec<Value> = exported
        .threads
        .iter()
        .map(|thread| thread_json(exported, &mut libraries, thread))
        .collect();
    add_markers(exported, &mut threads);
    let counters =
        if threads.is_empty() { Vec::new() } else { counters(exported, &mut threads[0]) };
    let library = |name: &String| {
        json!({
            "name": name, "path": name, "debugName": name, "debugPath": name,
            "arch": "", "breakpadId": "", "codeId": null,
        })
    };
    let category =
        |name: &str, color: &str| json!({"name": name, "color": color, "subcategories": ["Other"]});
    let document = json!({
        "meta": {
            "version": 24,
            "preprocessedProfileVersion": VERSION,
            "product": exported.result,
            "importedFrom": concat!("fathom ", env!("CARGO_PKG_VERSION")),
            "startTime": exported.started_unix as f64 * 1e3,
            "profilingStartTime": 0.0,
            "profilingEndTime": milliseconds(exported.elapsed.0),
            "interval": 1.0,
            "processType": 0,
            "debug": false,
            "symbolicated": true,
            "usesOnlyOneStackType": true,
            "sourceCodeIsNotOnSearchfox": true,
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
            "categories": [category("User", "yellow"), category("Kernel", "orange")],
            "extensions": {"length": 0, "baseURL": [], "id": [], "name": []},
            "markerSchema": [{
                "name": "Text",
                "display": ["marker-chart", "marker-table", "timeline-overview"],
                "fields": [{"key": "name", "label": "Details", "format": "string"}],
            }],
        },
        "libs": libraries.rows.iter().map(library).collect::<Vec<_>>(),
        "pages": [],
        "profilerOverhead": [],
        "threads": threads,
        "counters": counters,
    });
    document.to_string() + "\n"
}

fn thread_json(exported: &Exported, libraries: &mut Table<String>, thread: &TimedThread) -> Value {
    let mut tables = Tables::default();
    // Stacks of `Exported` to those of the thread.
    let mut known: HashMap<usize, Option<usize>> = HashMap::new();
    let mut stack_of = |sample: &TimedSample| {
        *known.entry(sample.of).or_insert_with(|| {
            tables.stack(exported, libraries, &exported.samples[sample.of].stack)
        })
    };
    let stacks: Vec<Option<usize>> = thread.samples.iter().map(&mut stack_of).collect();
    let samples = json!({
        "length": stacks.len(),
        "stack": stacks,
        "timeDeltas": deltas(thread.samples.iter().map(|sample| sample.time.0)),
        "weightType": "tracing-ms",
        "weight": thread.samples.iter().map(|sample| sample.cpu / 1e6).collect::<Vec<_>>(),
        "threadCPUDelta": thread.samples.iter().map(|sample| sample.cpu.round()).collect::<Vec<_>>(),
    });
    let mut value = tables.json();
    value["samples"] = samples;
    value["markers"] = markers(&[]);
    value["name"] = json!(thread.name);
    value["isMainThread"] = json!(thread.tid.0 == thread.pid.0);
    value["processName"] = json!(thread.process);
    value["processType"] = json!("default");
    value["processStartupTime"] = json!(0.0);
    value["processShutdownTime"] = Value::Null;
    value["registerTime"] = json!(milliseconds(thread.start.0));
    value["unregisterTime"] = json!(milliseconds(thread.end.0));
    let paused = exported.pauses.iter().map(|(start, end)| {
        let (start, end) = (milliseconds(start.0), milliseconds(end.0));
        json!({"startTime": start, "endTime": end, "reason": "collecting"})
    });
    value["pausedRanges"] = paused.collect();
    value["pid"] = json!(thread.pid.0.to_string());
    value["tid"] = json!(thread.tid.0.to_string());
    value["showMarkersInTimeline"] = json!(true);
    value
}

/// Two counters of bytes. Where a span has no estimate the last rate goes on, and a marker of the first thread says so.
fn counters(exported: &Exported, thread: &mut Value) -> Vec<Value> {
    let counter = |name: &str, metric: fn(&analysis::memory::BandwidthBin) -> &Metric| {
        let (mut ends, mut bytes, mut rate) = (Vec::new(), Vec::new(), None);
        for bin in &exported.bandwidth {
            rate = metric(bin).value.or(rate);
            let Some(rate) = rate else { continue };
            if ends.is_empty() {
                // What follows is counted from here.
                ends.push(bin.start.0);
                bytes.push(0.0);
            }
            // 1 GB/s is 1 byte per nanosecond.
            ends.push(bin.end.0);
            bytes.push((rate * bin.end.0.saturating_sub(bin.start.0) as f64).round());
        }
        (!ends.is_empty()).then(|| {
            json!({
                "name": name,
                // Not "Bandwidth": the viewer takes that for a network and adds what it emits of CO2.
                "category": "DRAM",
                "description": "Estimated from traced bursts; the report has the intervals",
                "pid": exported.threads[0].pid.0.to_string(),
                "mainThreadIndex": 0,
                "samples": {
                    "length": ends.len(),
                    "timeDeltas": deltas(ends.into_iter()),
                    "count": bytes,
                },
            })
        })
    };
    let unknown = |bin: &&analysis::memory::BandwidthBin| {
        bin.read.value.is_none() || bin.write.value.is_none()
    };
    let gaps: Vec<(u64, u64)> =
        exported.bandwidth.iter().filter(unknown).map(|bin| (bin.start.0, bin.end.0)).collect();
    let says = "no estimate: the counter shows the last rate";
    let gap = |(start, end)| Marker {
        name: "DRAM traffic not estimated",
        start,
        end: Some(end),
        says: Some(says.to_owned()),
    };
    append(thread, gaps.into_iter().map(gap).collect());
    let read = counter("estimated DRAM read, bytes", |bin| &bin.read);
    let write = counter("estimated DRAM write, bytes", |bin| &bin.write);
    read.into_iter().chain(write).collect()
}

/// Something that a thread shows over time.
struct Marker<'a> {
    name: &'a str,
    start: u64,
    /// `None` of a moment.
    end: Option<u64>,
    says: Option<String>,
}

fn of_pass(pass: &TimedPass) -> Marker<'_> {
    let TimedPass { region, start, end, .. } = pass;
    Marker { name: region, start: start.0, end: Some(end.0), says: pass.remark() }
}

/// Passes of each thread through regions; and of the first one what concerns all.
fn add_markers(exported: &Exported, threads: &mut [Value]) {
    for (at, thread) in threads.iter_mut().enumerate() {
        let passes = exported.passes.iter().filter(|pass| pass.thread == at);
        let mut all: Vec<Marker<'_>> = passes.map(of_pass).collect();
        if at == 0 {
            let mark = |(time, name): &(Nanos, String)| Marker {
                name: "Mark",
                start: time.0,
                end: None,
                says: Some(name.clone()),
            };
            all.extend(exported.marks.iter().map(mark));
            let paused = exported.pauses.iter().map(|(start, end)| Marker {
                name: "Paused",
                start: start.0,
                end: Some(end.0),
                says: Some("nothing was observed".to_owned()),
            });
            all.extend(paused);
        }
        append(thread, all);
    }
}

/// Writes markers behind those that a thread has.
fn append(thread: &mut Value, found: Vec<Marker<'_>>) {
    let texts = thread["stringArray"].as_array().map_or(0, Vec::len);
    let mut names: Vec<&str> = found.iter().map(|marker| marker.name).collect();
    names.sort_unstable();
    names.dedup();
    let named: Vec<(usize, Marker<'_>)> = found
        .into_iter()
        .map(|marker| (texts + names.partition_point(|name| *name < marker.name), marker))
        .collect();
    if let Some(texts) = thread["stringArray"].as_array_mut() {
        texts.extend(names.into_iter().map(|name| json!(name)));
    }
    let Value::Object(columns) = markers(&named) else { return };
    for (key, more) in columns {
        match (&mut thread["markers"][&key], more) {
            (Value::Array(all), Value::Array(more)) => all.extend(more),
            (length, more) => {
                *length = json!(length.as_u64().unwrap_or(0) + more.as_u64().unwrap_or(0));
            }
        }
    }
}

/// Each with the position of its name.
fn markers(found: &[(usize, Marker<'_>)]) -> Value {
    /// `INSTANT` and `INTERVAL` of the viewer's src/app-logic/constants.ts.
    const MOMENT: u32 = 0;
    const SPAN: u32 = 1;
    let column =
        |of: &dyn Fn(&(usize, Marker<'_>)) -> Value| found.iter().map(of).collect::<Value>();
    json!({
        "length": found.len(),
        "name": column(&|(name, _)| json!(name)),
        "startTime": column(&|(_, marker)| json!(milliseconds(marker.start))),
        "endTime": column(&|(_, marker)| json!(marker.end.map(milliseconds))),
        "phase": column(&|(_, marker)| json!(if marker.end.is_some() { SPAN } else { MOMENT })),
        "category": column(&|_| json!(USER)),
        "data": column(&|(_, marker)| json!(marker.says.as_ref().map(|says| json!({"type": "Text", "name": says})))),
    })
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// Each time as the milliseconds since the one before; the first since the start.
fn deltas(times: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut last = 0;
    times.map(|time| milliseconds(time - std::mem::replace(&mut last, time))).collect()
}
