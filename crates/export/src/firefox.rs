//! The processed format of the Firefox Profiler: each sample at its time, per thread, and traffic with memory as counters.
//!
//! Source: docs-developer/processed-profile-format.md and the versions in CHANGELOG-formats.md of
//! https://github.com/firefox-devtools/profiler. Version 55 is the last whose threads have tables of their own; the viewer
//! upgrades it. What not: addresses. Frames have names already.

use std::collections::HashMap;
use std::hash::Hash;

use facts::Metric;
use serde_json::{Value, json};

use crate::stacks::{Exported, TimedSample, TimedThread};

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
    value["markers"] = markers(&[], 0);
    value["name"] = json!(thread.name);
    value["isMainThread"] = json!(thread.tid.0 == thread.pid.0);
    value["processName"] = json!(thread.process);
    value["processType"] = json!("default");
    value["processStartupTime"] = json!(0.0);
    value["processShutdownTime"] = Value::Null;
    value["registerTime"] = json!(milliseconds(thread.start.0));
    value["unregisterTime"] = json!(milliseconds(thread.end.0));
    value["pausedRanges"] = json!([]);
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
    if !gaps.is_empty() {
        let texts = thread["stringArray"].as_array_mut();
        let name = texts.map_or(0, |texts| {
            texts.push(json!("DRAM traffic not estimated"));
            texts.len() - 1
        });
        thread["markers"] = markers(&gaps, name);
    }
    let read = counter("estimated DRAM read, bytes", |bin| &bin.read);
    let write = counter("estimated DRAM write, bytes", |bin| &bin.write);
    read.into_iter().chain(write).collect()
}

/// Spans of a thread, with the position of their name.
fn markers(spans: &[(u64, u64)], name: usize) -> Value {
    /// `INTERVAL` of the viewer's src/app-logic/constants.ts.
    const SPAN: u32 = 1;
    let data = json!({"type": "Text", "name": "no estimate: the counter shows the last rate"});
    json!({
        "length": spans.len(),
        "name": vec![name; spans.len()],
        "startTime": spans.iter().map(|span| milliseconds(span.0)).collect::<Vec<_>>(),
        "endTime": spans.iter().map(|span| milliseconds(span.1)).collect::<Vec<_>>(),
        "phase": vec![SPAN; spans.len()],
        "category": vec![USER; spans.len()],
        "data": vec![data; spans.len()],
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
