//! `threads`: lifetimes and CPU time of threads.

use analysis::faults::fault_scales;
use analysis::threading::{ThreadSplit, Threading, threading, was_recorded};
use analysis::{Key, Profile, Thread, Weight};
use facts::{Evidence, Metric};

use super::Request;
use super::columns::time_cells;
use super::list::{COUNT, Columns, OWN, PERCENT, SECONDS};
use super::thread_states::{self, COUNTS, TIMES};
use crate::table::{Cell, CellStyle, Table};

pub(crate) fn threads(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let (scale, fault_scale) = (profile.cpu_scale(), fault_scales(profile.recording).all);
    let states = was_recorded(profile).then(|| threading(profile, request.selection));
    let row = |(at, thread)| Row {
        thread: Some(thread),
        split: states.as_ref().map(|states| &states.threads[at]),
        ..Row::default()
    };
    let mut rows: Vec<Row<'_>> = profile.threads.all().iter().enumerate().map(row).collect();
    for cell in profile.cells(request.selection) {
        if profile.stacks.frames(cell.stack).any(|place| request.selection.has_place(place)) {
            let row = &mut rows[cell.thread.index()];
            row.time.merge(&cell.weight);
            if cell.kernel {
                row.kernel.merge(&cell.weight);
            }
        }
    }
    let faults = analysis::faults::fault_table(profile, request.selection, &[Key::Thread]);
    for row in &faults.rows {
        if let Some(thread) = row.key.thread {
            rows[thread.index()].faults.merge(&row.all);
        }
    }
    rows.retain(|row| {
        let index = row.thread.and_then(|thread| profile.threads.find(thread.pid, thread.tid));
        index.is_some_and(|index| request.selection.has_thread(index))
    });
    rows.sort_by_key(|row| std::cmp::Reverse(row.time.amount()));
    let split = states.as_ref().map(Threading::total);
    let mut all = Row { split: split.as_ref(), ..Row::default() };
    for row in &rows {
        all.time.merge(&row.time);
        all.kernel.merge(&row.kernel);
        all.faults.merge(&row.faults);
    }
    let mut columns = Columns::new();
    let mut name = |key, label, style, heading, cell: fn(&Request<'_>, &Thread) -> Cell| {
        columns.name(key, label, style, heading, move |row: &Row<'_>| {
            row.thread.map_or(Cell::Missing, |thread| cell(request, thread))
        });
    };
    name("thread", "Thread", CellStyle::Text, "thread", |_, thread| Cell::text(thread.label()));
    name("process", "Process", CellStyle::Text, "", |request, thread| {
        Cell::text(request.profile.threads.process_label(thread.pid))
    });
    name("start", "Start", CellStyle::Start, "from", |_, one| Cell::Seconds(one.start.seconds()));
    name("end", "End", CellStyle::Start, "to", |_, one| Cell::Seconds(one.end.seconds()));
    columns.end_of_names();
    let [(time, time_label, ..), (share, share_label, ..)] = OWN;
    let own = [(time, time_label, SECONDS, "CPU time"), (share, share_label, PERCENT, "share %")];
    columns.figures(own, |row| time_cells(&scale, &row.time));
    columns.cell("kernel_time", "Kernel time", SECONDS, "in kernel", |row| {
        Cell::metric(scale.quantity(&row.kernel))
    });
    columns.cell("running_percent", "Running", PERCENT, "running %", |row| {
        let running = |thread| Cell::metric(running(profile, &scale.quantity(&row.time), thread));
        row.thread.map_or(Cell::Missing, running)
    });
    columns.cell("page_faults", "Page faults", COUNT, "faults", |row| {
        Cell::metric(fault_scale.quantity(&row.faults))
    });
    if states.is_some() {
        columns.figures(TIMES, move |row| {
            row.split.map_or(TIMES.map(|_| Cell::Missing), thread_states::times)
        });
        columns.figures(COUNTS, move |row| {
            row.split.map_or(COUNTS.map(|_| Cell::Missing), thread_states::counts)
        });
    }
    columns.show(&["thread"]);
    // Where switches were followed, what threads did is shown, and the rest is in JSON.
    if states.is_some() {
        columns.show(&TIMES.map(|(key, ..)| key));
    } else {
        columns.show(&["start", "end", "cpu_time", "self_percent", "running_percent"]);
        columns.show(&["kernel_time", "page_faults"]);
    }
    let mut table = Table {
        total: columns.total(Some(&all)),
        notes: request.sampling_notes(),
        page: 40,
        empty: "No thread was observed.".to_owned(),
        ..columns.table(request, "threads", "threads", &rows)
    };
    request.set_whole_time(&mut table);
    table
}

/// A thread, or all: then which one, and how much of its life it ran, is nothing.
#[derive(Default)]
struct Row<'a> {
    thread: Option<&'a Thread>,
    time: Weight,
    kernel: Weight,
    faults: Weight,
    split: Option<&'a ThreadSplit>,
}

/// CPU time in percent of the thread's life.
fn running(profile: &Profile<'_>, cpu: &Metric, thread: &Thread) -> Metric {
    let lived = profile.observed_in(thread.start, thread.end).seconds();
    let (Some(value), true, true) = (cpu.value, lived > 0.0, thread.start_known) else {
        return Metric::unavailable("percent", "the thread's lifetime or CPU time is not known");
    };
    let percent = |seconds: f64| (seconds / lived * 100.0).min(100.0);
    let interval = (percent(cpu.low.unwrap_or(value)), percent(cpu.high.unwrap_or(value)));
    Metric::with_interval(Evidence::Sampled, percent(value), "percent", interval, cpu.samples)
        .with_lost(cpu.lost)
}
