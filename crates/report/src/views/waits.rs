//! `waits`: what threads waited for, where, and which thread ended it.

use std::collections::BTreeMap;

use analysis::threading::{
    EndedWaits, Reason, ThreadSplit, WaitSum, WokenBy, by_waker, object_name, threading,
    was_recorded,
};
use analysis::{CallPathId, Code, FunctionId, Key, LocationId, ThreadIndex};
use base::{Pid, RemoteAddr};
use facts::{Evidence, Metric};

use super::Request;
use super::list::{COUNT, Columns, Figure, PERCENT, SECONDS, WORDS};
use super::thread_states::wait_time;
use crate::table::{Cell, CellStyle, Table};

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
    for EndedWaits { place, by: waker, sum } in by_waker(profile, request.selection, &found) {
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
    let wakers = !profile.recording.wakes.is_empty();
    let mut columns = Columns::new();
    columns.name("reason", "Reason", CellStyle::Text, "reason", |(key, _): &(RowKey, Row)| {
        Cell::text(key.reason.name())
    });
    columns.name("object", "Object", CellStyle::Text, "object", |(key, _)| {
        key.object.map_or(Cell::Missing, |at| Cell::text(object_name(profile, at)))
    });
    let caller = |key: &RowKey| key.caller.map(|place| profile.stacks.function_of(place));
    let function = |key| CellStyle::Function(key, None);
    columns.name("function", "Called from", function, "called from", move |(key, _)| {
        Cell::text_or_missing(caller(key).map(|function| function.name.as_str()))
    });
    columns.name("file", "File", CellStyle::Text, "", move |(key, _)| {
        Cell::text_or_missing(caller(key).and_then(|function| function.file.as_deref()))
    });
    columns.name("line", "Line", CellStyle::Number, "", |(key, _)| {
        let line = key.caller.and_then(|place| profile.stacks.places[place.index()].line);
        line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line)))
    });
    if by_thread {
        columns.name("thread", "Thread", CellStyle::Text, "thread", |(key, _)| {
            let label = |thread| Cell::text(profile.threads.get(thread).label());
            key.thread.map_or(Cell::Missing, label)
        });
    }
    if by_stack {
        columns.name("stack", "Call stack", CellStyle::Stack, "call stack", |(key, _)| {
            let path = |path| {
                // The kernel's own functions led to the reason.
                let functions = paths.functions(path).filter(|id| !is_kernel(request, *id));
                functions.map(|id| profile.stacks.functions[id.index()].name.clone()).collect()
            };
            key.stack.map_or(Cell::Missing, |stack| Cell::Stack(path(stack)))
        });
    }
    let in_heading = if by_whom { "in" } else { "mostly woken by" };
    let wakers_columns = [
        ("waker", "Ended by", WORDS, "ended by"),
        ("waker_function", "Ended in", WORDS, in_heading),
    ];
    columns.figures(wakers_columns, |(_, row)| waker_cells(request, row));
    columns.end_of_names();
    columns.figures(FIGURES, |(_, row)| figures(&row.sum, &total));
    columns.show(&["wait_time", "wait_percent", "waits"]);
    // Next to so many names there is no room for it.
    if !by_whom {
        columns.show(&["mean_wait"]);
    }
    columns.show(&["reason", "object"]);
    if !by_stack {
        columns.show(&["function"]);
    }
    // Next to more names there is no room for it.
    if !(by_stack || by_thread || by_whom || wakers) {
        columns.text.push(CellStyle::SourceLine.titled("source"));
    }
    columns.show(&["thread"]);
    if by_whom {
        columns.show(&["waker", "waker_function"]);
    } else if wakers && !by_stack {
        columns.show(&["waker_function"]);
    }
    // A stack takes several lines, so it comes last.
    columns.show(&["stack"]);
    let mut all = WaitSum::default();
    rows.iter().for_each(|(_, row)| all.add(&row.sum));
    let empty = if was_recorded(profile) {
        "No thread waited for anything.".to_owned()
    } else {
        "Waits were not recorded: `fathom collect threading` records them.".to_owned()
    };
    let mut table = Table {
        notes: request.sampling_notes(),
        empty,
        ..columns.table(request, "waits", "what threads waited for", &rows)
    };
    table.total.truncate(table.columns.len() - FIGURES.len());
    table.total.extend(figures(&all, &total));
    table
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

/// The common property of those wakers that together ended the most time.
fn most<'a, T: Ord>(row: &'a Row, common: impl Fn(&'a WokenBy) -> T) -> Option<T> {
    let mut times: BTreeMap<T, f64> = BTreeMap::new();
    for (waker, time) in &row.wakers {
        *times.entry(common(waker)).or_default() += time;
    }
    times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(what, _)| what)
}

/// What was divided is no count.
fn divided(metric: Metric, total: &ThreadSplit) -> Metric {
    if total.exact || metric.value.is_none() {
        return metric;
    }
    Metric { low: None, high: None, evidence: Some(Evidence::Estimated), ..metric }
}

const FIGURES: [Figure; 4] = [
    ("wait_time", "Waited", SECONDS, "waited"),
    ("wait_percent", "Share of the threads' time", PERCENT, "of time %"),
    ("waits", "Waits", COUNT, "waits"),
    ("mean_wait", "Mean", SECONDS, "mean"),
];

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
