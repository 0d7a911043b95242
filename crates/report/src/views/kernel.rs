//! `kernel`: entries into the kernel per cause, process, thread, CPU or bin of time.

use analysis::Key;
use analysis::kernel::{
    EntryRow, EntryTable, counts_together, entry_table, entry_time, observes_machine,
    only_of_machine, waited,
};
use base::{Pid, Tid};
use facts::{KernelCause, LostSource, Metric};

use super::Request;
use super::columns::{figure, missing, name, names};
use crate::table::{Cell, CellStyle, Column, Table, TextColumn};
use crate::text;

/// Bins of time without `--limit`: about what fits a screen.
const BINS: usize = 50;

pub(crate) fn kernel(request: &Request<'_>) -> Table {
    let keys: &[Key] = match request.options.group.as_slice() {
        [] => &[Key::Cause],
        keys => keys,
    };
    let by_time = keys.contains(&Key::Time);
    let most = request.options.limit.filter(|_| by_time).unwrap_or(BINS);
    let found = entry_table(request.profile, request.selection, keys, most);
    let mut columns = key_columns(keys);
    let key_count = columns.len();
    columns.extend([
        figure("entries", "Entries", "count"),
        figure("per_second", "Per second", "1/s"),
        figure("time", "CPU time", "s"),
        figure("mean_time", "Mean", "s"),
        figure("blocked", "Blocked", "s"),
        figure("ready", "Ready without a CPU", "s"),
        figure("switches", "Switches", "count"),
    ]);
    let rows = found.rows.iter().map(|row| {
        let mut cells = key_cells(request, keys, row);
        let seconds = if by_time { found.bin.map(base::Nanos::seconds) } else { None };
        cells.extend(figures(request, row, seconds));
        cells
    });
    let mut total = missing(key_count);
    total.extend(figures(request, &found.total, None));
    Table {
        view: "kernel",
        result: request.options.result_name.clone(),
        rows: rows.collect(),
        columns,
        total,
        notes: notes(request, &found),
        title: request.title(&format!("entries into the kernel by {}", names(keys))),
        text_columns: text_columns(keys),
        page: if by_time { usize::MAX } else { 30 },
        empty: if request.everything() {
            "No entries into the kernel were counted: `fathom collect system-overview` counts them."
                .to_owned()
        } else {
            "No entries into the kernel match the filter.".to_owned()
        },
    }
}

fn key_columns(keys: &[Key]) -> Vec<Column> {
    let mut columns = Vec::new();
    for (key, column) in [
        (Key::Time, name("start", "Start")),
        (Key::Process, name("process", "Process")),
        (Key::Thread, name("thread", "Thread")),
        (Key::Cpu, name("cpu", "CPU")),
        (Key::Cause, name("cause", "Cause")),
    ] {
        if keys.contains(&key) {
            columns.push(column);
        }
    }
    if keys.contains(&Key::Cause) {
        columns.push(name("name", "Which"));
    }
    columns
}

fn text_columns(keys: &[Key]) -> Vec<TextColumn> {
    let has = |key| keys.contains(&key);
    let mut text_columns = Vec::new();
    if has(Key::Time) {
        text_columns.push(CellStyle::Start("start").titled("from"));
    }
    text_columns.extend([
        CellStyle::Count("entries").titled("entries"),
        CellStyle::Ratio("per_second").titled("per s"),
        CellStyle::Time("time").titled("CPU time"),
    ]);
    let both = has(Key::Time) && has(Key::Cause);
    if has(Key::Time) && !both {
        text_columns.push(CellStyle::Bar("entries").titled(""));
    }
    if both {
        // Names need the room.
    } else if has(Key::Cause) {
        text_columns.extend([
            CellStyle::Time("mean_time").titled("mean"),
            CellStyle::Time("blocked").titled("blocked"),
        ]);
    } else {
        text_columns.extend([
            CellStyle::Count("switches").titled("switches"),
            CellStyle::Time("ready").titled("no CPU"),
        ]);
    }
    for (key, style, label) in [
        (Key::Process, CellStyle::Text("process"), "process"),
        (Key::Thread, CellStyle::Text("thread"), "thread"),
        (Key::Cpu, CellStyle::Text("cpu"), "CPU"),
        (Key::Cause, CellStyle::Text("cause"), "cause"),
        (Key::Cause, CellStyle::Text("name"), "which"),
    ] {
        if has(key) {
            text_columns.push(style.titled(label));
        }
    }
    text_columns
}

fn key_cells(request: &Request<'_>, keys: &[Key], row: &EntryRow) -> Vec<Cell> {
    let threads = &request.profile.threads;
    let no_process = match request.profile {
        machine if observes_machine(machine) => "(idle)",
        // Then the machine's own counts are all that there is of others, and have everybody's.
        together if counts_together(together) => "(whole machine)",
        _ => "(others, idle)",
    };
    let mut cells = Vec::new();
    for column in key_columns(keys) {
        cells.push(match column.key {
            "start" => row.key.time.map_or(Cell::Missing, |time| Cell::Seconds(time.seconds())),
            "process" => match row.key.process {
                Some(Pid(0)) => Cell::text(no_process),
                Some(pid) => Cell::text(threads.process_label(pid)),
                None => Cell::Missing,
            },
            "thread" => match row.key.thread {
                Some((Pid(0), _)) => Cell::text(no_process),
                Some((pid, tid)) => match threads.find(pid, tid) {
                    Some(thread) => Cell::text(threads.get(thread).label()),
                    None if tid == Tid(0) => {
                        Cell::text(format!("(all of {})", threads.process_label(pid)))
                    }
                    None => Cell::text(format!("({tid})")),
                },
                None => Cell::Missing,
            },
            "cpu" => row.key.cpu.map_or(Cell::Missing, |cpu| Cell::text(cpu.to_string())),
            "cause" => {
                row.key.cause.as_ref().map_or(Cell::Missing, |(cause, _)| Cell::text(cause.name()))
            }
            _ => row.key.cause.as_ref().map_or(Cell::Missing, |(_, name)| Cell::text(name.clone())),
        });
    }
    cells
}

fn figures(request: &Request<'_>, row: &EntryRow, bin: Option<f64>) -> [Cell; 7] {
    let length = bin.unwrap_or_else(|| match request.selection.time() {
        Some((start, end)) => (end.min(request.profile.elapsed()) - start).seconds(),
        None => request.profile.elapsed().seconds(),
    });
    let rate = match length {
        length if length > 0.0 => Metric::counted(row.count as f64 / length, "1/s"),
        _ => Metric::unavailable("1/s", "the recording has no length"),
    };
    // What is no entry has no time in the kernel of its own.
    let is_entry = row.key.cause.as_ref().is_none_or(|(cause, _)| cause.is_entry());
    let time = if is_entry {
        entry_time(request.profile, row)
    } else {
        Metric::unavailable("s", "no entry into the kernel")
    };
    let each = |value: Option<f64>| value.map(|value| value / row.count.max(1) as f64);
    let mean = Metric {
        value: each(time.value),
        low: each(time.low),
        high: each(time.high),
        ..time.clone()
    };
    let is_wait = row.key.cause.as_ref().is_some_and(|(cause, _)| *cause == KernelCause::RunQueue);
    let is_fault =
        row.key.cause.as_ref().is_some_and(|(cause, _)| *cause == KernelCause::PageFault);
    let blocked = if is_wait { row.ready } else { row.blocked };
    let blocked = match row.untimed {
        untimed if is_fault && untimed > 0 => Metric::unavailable("s", "counted, not timed"),
        _ => waited(blocked, row.timeless),
    };
    [
        Cell::metric(Metric::counted(row.count as f64, "count")),
        Cell::metric(rate),
        Cell::metric(time),
        Cell::metric(mean),
        Cell::metric(blocked),
        Cell::metric(waited(row.ready, row.timeless)),
        Cell::metric(Metric::counted(row.switches as f64, "count")),
    ]
}

fn notes(request: &Request<'_>, found: &EntryTable) -> Vec<String> {
    let mut notes = Vec::new();
    if found.rows.is_empty() {
        return notes;
    }
    // Where faults are not timed, they are what has no time.
    let times = if found.total.timeless > 0 {
        "Counted, not timed."
    } else if found.total.untimed > 0 {
        "CPU time excludes interrupts inside an entry and is by the kernel's own clock. Page faults that were too \
         many to time are sampled instead, and their time off the CPU is unknown. Faults in the kernel are also in \
         the time of their system call, but only once in the total."
    } else {
        "CPU time is by the kernel's own clock. It excludes other entries inside: interrupts, and page faults in \
         system calls."
    };
    notes.push(format!(
        "{times} The total has entries only, no switches, waits for a CPU, TLB flushes or memory events."
    ));
    if only_of_machine(request.profile) {
        notes.push(
            "These are counts of the whole machine: the program's own cannot be separated here."
                .to_owned(),
        );
    }
    if counts_together(request.profile) {
        notes.push(
            "perf counted the program as a whole: threads, kinds of calls and their time are unknown. `-g process` \
             adds the counts of the machine."
                .to_owned(),
        );
    }
    if let Some(bin) = found.bin {
        notes.push(format!("In steps of {}.", text::seconds(bin.seconds())));
    }
    let lost = request.profile.recording.lost(LostSource::KernelEntries);
    if lost > 0 {
        notes.push(format!(
            "{lost} entries were lost: the table in the kernel was full, or an entry came while \
                another of its kind was counted."
        ));
    }
    notes
}
