//! `waits`: what threads waited for, and where.

use std::collections::BTreeMap;

use analysis::threading::{Reason, ThreadSplit, WaitSum, object_name, threading, was_recorded};
use analysis::{CallPathId, Code, FunctionId, Key, PlaceId, ThreadIndex};
use base::{Pid, RemoteAddr};
use facts::{Evidence, Metric};

use super::Request;
use super::columns::{figure, missing, name};
use super::thread_states::wait_time;
use crate::table::{Cell, Look, Table};

type RowKey =
    (Reason, Option<(Pid, RemoteAddr)>, Option<PlaceId>, Option<ThreadIndex>, Option<CallPathId>);

pub(crate) fn waits(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let by = |key| request.options.group.contains(&key);
    let (by_thread, by_stack) = (by(Key::Thread), by(Key::CallStack));
    let found = threading(profile, request.selection);
    let total = found.total();
    let paths = profile.stacks.call_paths();
    let mut sums: BTreeMap<RowKey, WaitSum> = BTreeMap::new();
    for (place, sum) in &found.places {
        let wanted = place.caller.is_none_or(|caller| request.selection.has_place(caller));
        if wanted {
            let thread = by_thread.then_some(place.thread);
            let stack = by_stack.then(|| paths.of(place.stack));
            let key = (place.reason, place.object, place.caller, thread, stack);
            sums.entry(key).or_default().add(sum);
        }
    }
    let mut rows: Vec<(RowKey, WaitSum)> = sums.into_iter().collect();
    rows.sort_by(|a, b| b.1.time.total_cmp(&a.1.time));
    let mut columns = vec![
        name("reason", "Reason"),
        name("object", "Object"),
        name("function", "Called from"),
        name("file", "File"),
        name("line", "Line"),
    ];
    let mut looks = vec![
        (Look::Time("wait_time"), "waited"),
        (Look::Percent("wait_percent"), "of life %"),
        (Look::Count("waits"), "waits"),
        (Look::Time("mean_wait"), "mean"),
        (Look::Text("reason"), "reason"),
        (Look::Text("object"), "object"),
    ];
    if !by_stack {
        looks.extend([(Look::Function("function", None), "called from"), (Look::Place, "source")]);
    }
    if by_thread {
        columns.push(name("thread", "Thread"));
        looks.push((Look::Text("thread"), "thread"));
    }
    if by_stack {
        columns.push(name("stack", "Call stack"));
        looks.push((Look::Stack("stack"), "call stack"));
    }
    let keys = columns.len();
    columns.extend([
        figure("wait_time", "Waited", "s"),
        figure("wait_percent", "Share of the threads' time", "percent"),
        figure("waits", "Waits", "count"),
        figure("mean_wait", "Mean", "s"),
    ]);
    let all = rows.iter().fold(WaitSum::default(), |mut all, (_, sum)| {
        all.add(sum);
        all
    });
    let cells = |(key, sum): &(RowKey, WaitSum)| {
        let mut cells = key_cells(request, key);
        let path = |path| {
            // The kernel's own functions led to the reason.
            let functions = paths.functions(path).filter(|id| !is_kernel(request, *id));
            functions.map(|id| profile.stacks.functions[id.index()].name.clone()).collect()
        };
        cells.extend(key.3.map(|thread| Cell::text(profile.threads.get(thread).label())));
        cells.extend(key.4.map(|stack| Cell::Stack(path(stack))));
        cells.extend(figures(sum, &total));
        cells
    };
    let mut totals = missing(keys);
    totals.extend(figures(&all, &total));
    let empty = if was_recorded(profile) {
        "No thread waited for anything.".to_owned()
    } else {
        "Waits were not recorded: `fathom collect threading` does.".to_owned()
    };
    let table = Table {
        view: "waits",
        result: request.options.result_name.clone(),
        rows: rows.iter().map(cells).collect(),
        columns,
        total: totals,
        notes: request.sampling_notes(),
        title: request.title("what threads waited for"),
        looks,
        page: 25,
        empty,
    };
    table.limited(request.options.limit)
}

fn is_kernel(request: &Request<'_>, function: FunctionId) -> bool {
    let stacks = &request.profile.stacks;
    let module = stacks.functions[function.index()].module;
    stacks.modules[module.index()].code == Code::Kernel
}

fn key_cells(request: &Request<'_>, (reason, object, caller, ..): &RowKey) -> Vec<Cell> {
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
        false => Metric::unavailable("percent", "the threads' lives are not known"),
    };
    let mean = match sum.waits > 0.0 {
        true => wait_time(sum.time / sum.waits, total),
        false => Cell::Missing,
    };
    let waits = divided(Metric::counted(sum.waits.round(), "count"), total);
    [wait_time(sum.time, total), Cell::metric(divided(percent, total)), Cell::metric(waits), mean]
}
