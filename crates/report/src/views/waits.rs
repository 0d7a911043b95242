//! `waits`: what threads waited for, where, and which thread ended it.

use std::collections::BTreeMap;

use analysis::threading::{
    Reason, ThreadSplit, WaitSum, WokenBy, by_waker, object_name, threading, was_recorded,
};
use analysis::{CallPathId, Code, FunctionId, Key, LocationId, ThreadIndex};
use base::{Pid, RemoteAddr};
use facts::{Evidence, Metric};

use super::Request;
use super::columns::{figure, missing, name};
use super::thread_states::wait_time;
use crate::table::{Cell, CellStyle, Column, Table, TextColumn};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    reason: Reason,
    object: Option<(Pid, RemoteAddr)>,
    caller: Option<LocationId>,
    thread: Option<ThreadIndex>,
    stack: Option<CallPathId>,
    waker: Option<WokenBy>,
}

/// What a row is of, and for how long who ended it.
#[derive(Default)]
struct Row {
    sum: WaitSum,
    wakers: BTreeMap<WokenBy, f64>,
}

pub(crate) fn waits(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let by = |key| request.options.group.contains(&key);
    let (by_thread, by_stack, by_whom) = (by(Key::Thread), by(Key::CallStack), by(Key::Waker));
    let found = threading(profile, request.selection);
    let mut total = found.total();
    // What wakers ended is an estimate where their wakes were thinned.
    total.exact &= !by_whom || profile.recording.wakes.iter().all(|wake| wake.seen == wake.wakes);
    let paths = profile.stacks.call_paths();
    let mut sums: BTreeMap<RowKey, Row> = BTreeMap::new();
    for (place, waker, sum) in by_waker(profile, request.selection, &found) {
        let wanted = place.caller.is_none_or(|caller| request.selection.has_place(caller));
        if wanted {
            let key = RowKey {
                reason: place.reason,
                object: place.object,
                caller: place.caller,
                thread: by_thread.then_some(place.thread),
                stack: by_stack.then(|| paths.of(place.stack)),
                waker: by_whom.then_some(waker),
            };
            let row = sums.entry(key).or_default();
            row.sum.add(&sum);
            *row.wakers.entry(waker).or_default() += sum.time;
        }
    }
    let mut rows: Vec<(RowKey, Row)> = sums.into_iter().collect();
    rows.sort_by(|a, b| b.1.sum.time.total_cmp(&a.1.sum.time));
    let (mut columns, text_columns) = headings(request);
    let keys = columns.len();
    columns.extend([
        figure("wait_time", "Waited", "s"),
        figure("wait_percent", "Share of the threads' time", "percent"),
        figure("waits", "Waits", "count"),
        figure("mean_wait", "Mean", "s"),
    ]);
    let all = rows.iter().fold(WaitSum::default(), |mut all, (_, row)| {
        all.add(&row.sum);
        all
    });
    let cells = |(key, row): &(RowKey, Row)| {
        let mut cells = key_cells(request, key);
        let path = |path| {
            // The kernel's own functions led to the reason.
            let functions = paths.functions(path).filter(|id| !is_kernel(request, *id));
            functions.map(|id| profile.stacks.functions[id.index()].name.clone()).collect()
        };
        cells.extend(key.thread.map(|thread| Cell::text(profile.threads.get(thread).label())));
        cells.extend(key.stack.map(|stack| Cell::Stack(path(stack))));
        cells.extend(waker_cells(request, row));
        cells.extend(figures(&row.sum, &total));
        cells
    };
    let mut totals = missing(keys);
    totals.extend(figures(&all, &total));
    let empty = if was_recorded(profile) {
        "No thread waited for anything.".to_owned()
    } else {
        "Waits were not recorded: `fathom collect threading` records them.".to_owned()
    };
    Table {
        view: "waits",
        result: request.options.result_name.clone(),
        rows: rows.iter().map(cells).collect(),
        columns,
        total: totals,
        notes: request.sampling_notes(),
        title: request.title("what threads waited for"),
        text_columns,
        page: 25,
        empty,
    }
}

/// The columns of names, and what of everything is shown in text.
fn headings(request: &Request<'_>) -> (Vec<Column>, Vec<TextColumn>) {
    let by = |key| request.options.group.contains(&key);
    let (by_thread, by_stack, by_whom) = (by(Key::Thread), by(Key::CallStack), by(Key::Waker));
    let mut columns = vec![
        name("reason", "Reason"),
        name("object", "Object"),
        name("function", "Called from"),
        name("file", "File"),
        name("line", "Line"),
    ];
    let mut text_columns = vec![
        CellStyle::Time("wait_time").titled("waited"),
        CellStyle::Percent("wait_percent").titled("of time %"),
        CellStyle::Count("waits").titled("waits"),
        CellStyle::Time("mean_wait").titled("mean"),
        CellStyle::Text("reason").titled("reason"),
        CellStyle::Text("object").titled("object"),
    ];
    if by_whom {
        // Next to so many names there is no room for it.
        text_columns.retain(|one| one.style != CellStyle::Time("mean_wait"));
    }
    let wakers = !request.profile.recording.wakes.is_empty();
    if !by_stack {
        text_columns.push(CellStyle::Function("function", None).titled("called from"));
    }
    // Next to more names there is no room for it.
    if !(by_stack || by_thread || by_whom || wakers) {
        text_columns.push(CellStyle::SourceLine.titled("source"));
    }
    if by_thread {
        columns.push(name("thread", "Thread"));
        text_columns.push(CellStyle::Text("thread").titled("thread"));
    }
    if by_stack {
        columns.push(name("stack", "Call stack"));
    }
    columns.extend([name("waker", "Ended by"), name("waker_function", "Ended in")]);
    if by_whom {
        text_columns.extend([
            CellStyle::Text("waker").titled("ended by"),
            CellStyle::Text("waker_function").titled("in"),
        ]);
    } else if wakers && !by_stack {
        text_columns.push(CellStyle::Text("waker_function").titled("mostly woken by"));
    }
    // A stack takes several lines, so it comes last.
    if by_stack {
        text_columns.push(CellStyle::Stack("stack").titled("call stack"));
    }
    (columns, text_columns)
}

fn is_kernel(request: &Request<'_>, function: FunctionId) -> bool {
    let stacks = &request.profile.stacks;
    let module = stacks.functions[function.index()].module;
    stacks.modules[module.index()].code == Code::Kernel
}

/// Who ended most of the row's time: the thread, and the function, each by itself.
fn waker_cells(request: &Request<'_>, row: &Row) -> [Cell; 2] {
    let (stacks, threads) = (&request.profile.stacks, &request.profile.threads);
    let thread = most(row, |waker| match waker {
        WokenBy::Thread(thread, _) => Ok(*thread),
        other => Err(no_thread(*other)),
    });
    let function = most(row, |waker| match waker {
        WokenBy::Thread(_, place) => Ok(place.map(|place| stacks.function_of(place).name.as_str())),
        other => Err(no_thread(*other)),
    });
    [
        thread.map_or(Cell::Missing, |thread| match thread {
            Ok(thread) => Cell::text(threads.get(thread).label()),
            Err(no_thread) => Cell::text(no_thread),
        }),
        function.map_or(Cell::Missing, |function| match function {
            Ok(function) => Cell::text_or_missing(function),
            Err(no_thread) => Cell::text(no_thread),
        }),
    ]
}

fn no_thread(waker: WokenBy) -> &'static str {
    if waker == WokenBy::Others { "(others)" } else { "(not seen)" }
}

/// What wakers have in common that ended the most time together.
fn most<'a, T: Ord>(row: &'a Row, common: impl Fn(&'a WokenBy) -> T) -> Option<T> {
    let mut times: BTreeMap<T, f64> = BTreeMap::new();
    for (waker, time) in &row.wakers {
        *times.entry(common(waker)).or_default() += time;
    }
    times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(what, _)| what)
}

fn key_cells(request: &Request<'_>, key: &RowKey) -> Vec<Cell> {
    let RowKey { reason, object, caller, .. } = *key;
    let stacks = &request.profile.stacks;
    let function = caller.map(|place| stacks.function_of(place));
    let line = caller.and_then(|place| stacks.places[place.index()].line);
    vec![
        Cell::text(reason.name()),
        object.map_or(Cell::Missing, |at| Cell::text(object_name(request.profile, at))),
        Cell::text_or_missing(function.map(|function| function.name.as_str())),
        Cell::text_or_missing(function.and_then(|function| function.file.as_deref())),
        line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line))),
    ]
}

/// What was divided is no count.
fn divided(metric: Metric, total: &ThreadSplit) -> Metric {
    if total.exact || metric.value.is_none() {
        return metric;
    }
    Metric { low: None, high: None, evidence: Some(Evidence::Estimated), ..metric }
}

fn figures(sum: &WaitSum, total: &ThreadSplit) -> [Cell; 4] {
    let percent = match total.lived > 0.0 {
        true => Metric::counted(100.0 * sum.time / total.lived, "percent"),
        false => Metric::unavailable("percent", "the lifetimes of the threads are unknown"),
    };
    let mean = match sum.waits > 0.0 {
        true => wait_time(sum.time / sum.waits, total),
        false => Cell::Missing,
    };
    let waits = divided(Metric::counted(sum.waits.round(), "count"), total);
    [wait_time(sum.time, total), Cell::metric(divided(percent, total)), Cell::metric(waits), mean]
}
