//! `moments`: single samples, page faults, waits, bursts and passes of regions in a span of time, for the page's timeline.
//!
//! What for: `moments?filter=time=1.2..1.3&limit=20000`. What not: a view of the command line; `docs/format/stacks.md` has the meaning
//! of each field. Times are whole microseconds, stored as differences to save space.

use analysis::Selection;
use analysis::moments::{Close, Moments, close};
use analysis::threading::State;
use base::{CpuId, Nanos};
use facts::BurstFlavour;
use serde_json::{Map, Value, json};

use crate::stacks::{Names, nodes, of_scale};
use crate::{Filter, Prepared, ReportError};

/// Default number of each kind: as many as a self-contained page can carry.
const MOST: usize = 4000;
/// What a page can draw and keep.
const LARGEST: usize = 50_000;

/// The document as JSON on one line. Filters on time, thread and process choose what is in it.
///
/// # Errors
/// When a filter matches nothing.
pub fn moments(
    prepared: &Prepared<'_>,
    filters: &[Filter],
    limit: Option<usize>,
    result: &str,
) -> Result<String, ReportError> {
    let profile = &prepared.profile;
    let selection = Selection::resolve(profile, filters)?;
    let found = close(profile, &selection, limit.unwrap_or(MOST).min(LARGEST));
    let mut names = Names::default();
    let nodes = nodes(profile, &found.nodes, &mut names);
    let factor = of_scale(&profile.cpu_scale()).1;
    let cpu = |cpu: Option<CpuId>| json!(cpu.map_or(-1, |cpu| i64::from(cpu.0)));
    let flag = |is: bool| json!(u8::from(is));
    let document = json!({
        "view": "moments",
        "result": result,
        "from": found.start.seconds(),
        "to": found.end.seconds(),
        "modules": names.modules.list,
        "files": names.files.list,
        "functions": names.functions,
        "nodes": nodes,
        "factor": factor,
        "samples": columns(found.start, &found.samples, &[
            ("cpu", &|sample| cpu(sample.cpu)),
            ("kernel", &|sample| flag(sample.kernel)),
        ]),
        "faults": columns(found.start, &found.faults, &[
            ("weight", &|fault| json!(fault.weight)),
            ("major", &|fault| flag(fault.major)),
        ]),
        "waits": columns(found.start, &found.waits, &[("state", &|state| json!(*state as u8))]),
        "states": State::ALL.map(State::name),
        "merged_waits": found.merged_waits,
        "bursts": columns(found.start, &found.bursts, &[("flavour", &|flavour| json!(name_of(*flavour)))]),
        "passes": passes(&found),
        "bin_seconds": found.bin.seconds(),
        "cells": cells(&found),
    });
    Ok(document.to_string())
}

fn name_of(flavour: BurstFlavour) -> &'static str {
    match flavour {
        BurstFlavour::Trace => "every address",
        BurstFlavour::Count => "counts of blocks",
        BurstFlavour::Timed => "times of loads",
        BurstFlavour::Sparse => "counts of rare blocks",
    }
}

fn micros(time: Nanos) -> i64 {
    i64::try_from((time.0.saturating_add(500)) / 1000).unwrap_or(i64::MAX)
}

/// A column that only moments of this kind have.
type Field<'a, T> = (&'static str, &'a dyn Fn(&T) -> Value);

/// `count`, and where they are not too many, a list for each field.
fn columns<T>(start: Nanos, found: &Moments<T>, fields: &[Field<'_, T>]) -> Value {
    let mut columns = Map::new();
    columns.insert("count".to_owned(), json!(found.count));
    let mut before = micros(start);
    let mut times = Vec::with_capacity(found.each.len());
    for moment in &found.each {
        let time = micros(moment.time);
        times.push(time - before);
        before = time;
    }
    columns.insert("time".to_owned(), json!(times));
    let lengths = found.each.iter();
    let lengths: Vec<i64> =
        lengths.map(|moment| micros(moment.time + moment.length) - micros(moment.time)).collect();
    if lengths.iter().any(|length| *length != 0) {
        columns.insert("length".to_owned(), json!(lengths));
    }
    let threads = found.each.iter().map(|moment| moment.thread.index());
    columns.insert("thread".to_owned(), json!(threads.collect::<Vec<usize>>()));
    let nodes = found.each.iter().map(|moment| moment.node);
    columns.insert("node".to_owned(), json!(nodes.collect::<Vec<u32>>()));
    for (name, value) in fields {
        let values = found.each.iter().map(|moment| value(&moment.what));
        columns.insert((*name).to_owned(), json!(values.collect::<Vec<Value>>()));
    }
    Value::Object(columns)
}

/// Times as in the other columns: whole microseconds, the difference to the row before; `inside` is the time in the passes.
fn passes(found: &Close) -> Value {
    let passes = || found.passes.iter();
    let mut before = micros(found.start);
    let times = passes().map(|pass| {
        let time = micros(pass.time);
        time - std::mem::replace(&mut before, time)
    });
    json!({
        "time": times.collect::<Vec<i64>>(),
        "length": passes().map(|pass| micros(pass.end) - micros(pass.time)).collect::<Vec<i64>>(),
        "thread": passes().map(|pass| pass.thread.index()).collect::<Vec<usize>>(),
        "region": passes().map(|pass| pass.region).collect::<Vec<u32>>(),
        "depth": passes().map(|pass| pass.depth).collect::<Vec<u32>>(),
        "passes": passes().map(|pass| pass.passes).collect::<Vec<u64>>(),
        "inside": passes().map(|pass| micros(pass.inside)).collect::<Vec<i64>>(),
    })
}

fn cells(found: &Close) -> Value {
    let cells = || found.cells.iter();
    json!({
        "thread": cells().map(|cell| cell.thread.index()).collect::<Vec<usize>>(),
        "cpu": cells().map(|cell| cell.cpu.map_or(-1, |cpu| i64::from(cpu.0))).collect::<Vec<i64>>(),
        "bin": cells().map(|cell| cell.bin).collect::<Vec<u32>>(),
        "kernel": cells().map(|cell| u8::from(cell.kernel)).collect::<Vec<u8>>(),
        "amount": cells().map(|cell| cell.amount).collect::<Vec<u64>>(),
    })
}
