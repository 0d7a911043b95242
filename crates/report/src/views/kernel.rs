//! `kernel`: entries into the kernel per cause, process, thread, CPU or bin of time.

use analysis::kernel::{
    EntryKey, EntryRow, EntryTable, counts_together, entry_table, entry_time, observes_machine,
    only_of_machine, waited,
};
use analysis::{Key, Profile};
use base::{Pid, ThreadId, Tid};
use facts::{KernelCause, LostSource, Metric};

use super::Request;
use super::columns::names;
use super::list::{COUNT, Columns, Figure, SECONDS, Style, Unit};
use crate::table::{Cell, CellStyle, Table};
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
    let has = |key| keys.contains(&key);
    let mut columns: Columns<'_, EntryRow> = Columns::new();
    for (key, column, label, style, heading, cell) in NAMES {
        if has(key) {
            columns.name(column, label, style, heading, move |row| cell(request, &row.key));
        }
    }
    columns.end_of_names();
    columns.figures(FIGURES, |row| {
        figures(request, row, row.key.time.and(found.bin).map(base::Nanos::seconds))
    });
    columns.show(&["start", "entries", "per_second", "time"]);
    match (by_time, has(Key::Cause)) {
        // Names need the room.
        (true, true) => {}
        (false, true) => columns.show(&["mean_time", "blocked"]),
        (_, false) => {
            if by_time {
                columns.text.push(CellStyle::Bar("entries").titled(""));
            }
            columns.show(&["switches", "ready"]);
        }
    }
    columns.show(&["process", "thread", "cpu", "cause", "name"]);
    let what = format!("entries into the kernel by {}", names(keys));
    Table {
        total: columns.total(Some(&found.total)),
        notes: notes(request, &found),
        page: if by_time { usize::MAX } else { 30 },
        empty: if request.everything() {
            "No entries into the kernel were counted: `fathom collect system-overview` counts them."
                .to_owned()
        } else {
            "No entries into the kernel match the filter.".to_owned()
        },
        ..columns.table(request, "kernel", &what, &found.rows)
    }
}

const FIGURES: [Figure; 7] = [
    ("entries", "Entries", COUNT, "entries"),
    ("per_second", "Per second", Unit("1/s", CellStyle::Ratio), "per s"),
    ("time", "CPU time", SECONDS, "CPU time"),
    ("mean_time", "Mean", SECONDS, "mean"),
    ("blocked", "Blocked", SECONDS, "blocked"),
    ("ready", "Ready without a CPU", SECONDS, "no CPU"),
    ("switches", "Switches", COUNT, "switches"),
];

/// A column of the name of a row: of which key, its own key, its label, its style and heading in text, and its cell.
type Name =
    (Key, &'static str, &'static str, Style, &'static str, fn(&Request<'_>, &EntryKey) -> Cell);

const NAMES: [Name; 6] = [
    (Key::Time, "start", "Start", CellStyle::Start, "from", |_, key| {
        key.time.map_or(Cell::Missing, |time| Cell::Seconds(time.seconds()))
    }),
    (Key::Process, "process", "Process", CellStyle::Text, "process", |request, key| {
        match key.process {
            Some(Pid(0)) => Cell::text(no_process(request.profile)),
            Some(pid) => Cell::text(request.profile.threads.process_label(pid)),
            None => Cell::Missing,
        }
    }),
    (Key::Thread, "thread", "Thread", CellStyle::Text, "thread", |request, key| {
        let threads = &request.profile.threads;
        match key.thread {
            Some(ThreadId { pid: Pid(0), .. }) => Cell::text(no_process(request.profile)),
            Some(ThreadId { pid, tid }) => Cell::text(match threads.find(pid, tid) {
                Some(thread) => threads.get(thread).label(),
                None if tid == Tid(0) => format!("(all of {})", threads.process_label(pid)),
                None => format!("({tid})"),
            }),
            None => Cell::Missing,
        }
    }),
    (Key::Cpu, "cpu", "CPU", CellStyle::Text, "CPU", |_, key| {
        key.cpu.map_or(Cell::Missing, |cpu| Cell::text(cpu.to_string()))
    }),
    (Key::Cause, "cause", "Cause", CellStyle::Text, "cause", |_, key| {
        key.cause.as_ref().map_or(Cell::Missing, |(cause, _)| Cell::text(cause.name()))
    }),
    (Key::Cause, "name", "Which", CellStyle::Text, "which", |_, key| {
        key.cause.as_ref().map_or(Cell::Missing, |(_, name)| Cell::text(name.clone()))
    }),
];

/// What is in no process.
fn no_process(profile: &Profile<'_>) -> &'static str {
    if observes_machine(profile) {
        "(idle)"
    } else if counts_together(profile) {
        // Then the machine's own counts are all that there is of others, and have everybody's.
        "(whole machine)"
    } else {
        "(others, idle)"
    }
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
    let mean = time.each("s", |time| time / row.count.max(1) as f64);
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
