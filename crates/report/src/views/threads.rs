//! `threads`: lifetimes and CPU time of threads.

use analysis::faults::fault_scales;
use analysis::threading::{threading, was_recorded};
use analysis::{Key, Weight};
use facts::{Evidence, Metric};

use super::columns::{CPU_TIME, SELF_PERCENT, figure, missing, name, time_cells, total_cells};
use super::{Request, thread_states};
use crate::table::{Cell, CellStyle, Table, TextColumn};

pub(crate) fn threads(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let threads = profile.threads.all();
    let (scale, fault_scale) = (profile.cpu_scale(), fault_scales(profile.recording).all);
    let mut times = vec![(Weight::default(), Weight::default(), Weight::default()); threads.len()];
    for cell in profile.cells(request.selection) {
        if profile.stacks.frames(cell.stack).any(|place| request.selection.has_place(place)) {
            let times = &mut times[cell.thread.index()];
            times.0.merge(&cell.weight);
            if cell.kernel {
                times.1.merge(&cell.weight);
            }
        }
    }
    let faults = analysis::faults::fault_table(profile, request.selection, &[Key::Thread]);
    for row in &faults.rows {
        if let Some(thread) = row.key.thread {
            times[thread.index()].2.merge(&row.all);
        }
    }
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.retain(|&at| {
        let index = profile.threads.find(threads[at].pid, threads[at].tid);
        index.is_some_and(|index| request.selection.has_thread(index))
    });
    order.sort_by_key(|&at| (std::cmp::Reverse(times[at].0.amount()), at));
    let states = was_recorded(profile).then(|| threading(profile, request.selection));
    let mut columns = vec![
        name("thread", "Thread"),
        name("process", "Process"),
        name("start", "Start"),
        name("end", "End"),
        CPU_TIME,
        SELF_PERCENT,
        figure("kernel_time", "Kernel time", "s"),
        figure("running_percent", "Running", "percent"),
        figure("page_faults", "Page faults", "count"),
    ];
    columns.extend(states.iter().flat_map(|_| thread_states::columns()));
    let mut sums = (Weight::default(), Weight::default(), Weight::default());
    let mut rows = Vec::with_capacity(order.len());
    for at in order {
        let (thread, (all, kernel, faulted)) = (&threads[at], &times[at]);
        sums.0.merge(all);
        sums.1.merge(kernel);
        sums.2.merge(faulted);
        let mut cells = vec![
            Cell::text(thread.label()),
            Cell::text(profile.threads.process_label(thread.pid)),
            Cell::Seconds(thread.start.seconds()),
            Cell::Seconds(thread.end.seconds()),
        ];
        cells.extend(time_cells(&scale, all));
        cells.push(Cell::metric(scale.quantity(kernel)));
        let lived = (thread.end - thread.start).seconds();
        cells.push(Cell::metric(running(&scale.quantity(all), lived, thread.start_known)));
        cells.push(Cell::metric(fault_scale.quantity(faulted)));
        cells.extend(states.iter().flat_map(|states| thread_states::cells(&states.threads[at])));
        rows.push(cells);
    }
    let mut total = missing(4);
    total.extend(total_cells(&scale, &sums.0, request.everything()));
    total.push(Cell::metric(scale.quantity(&sums.1)));
    total.push(Cell::Missing);
    total.push(Cell::metric(fault_scale.quantity(&sums.2)));
    total.extend(states.iter().flat_map(|states| thread_states::cells(&states.total())));
    Table {
        view: "threads",
        result: request.options.result_name.clone(),
        columns,
        rows,
        total,
        notes: request.sampling_notes(),
        title: request.title("threads"),
        text_columns: text_columns(states.is_some()),
        page: 40,
        empty: "No thread was observed.".to_owned(),
    }
}

/// Where switches were followed, what threads did is shown, and the rest is in JSON.
fn text_columns(followed: bool) -> Vec<TextColumn> {
    let mut text_columns = vec![CellStyle::Text("thread").titled("thread")];
    if followed {
        text_columns.extend(thread_states::TEXT_COLUMNS);
        return text_columns;
    }
    text_columns.extend([
        CellStyle::Start("start").titled("from"),
        CellStyle::Start("end").titled("to"),
        CellStyle::Time("cpu_time").titled("CPU time"),
        CellStyle::Percent("self_percent").titled("share %"),
        CellStyle::Percent("running_percent").titled("running %"),
        CellStyle::Time("kernel_time").titled("in kernel"),
        CellStyle::Count("page_faults").titled("faults"),
    ]);
    text_columns
}

/// CPU time in percent of the thread's life.
fn running(cpu: &Metric, lived: f64, start_known: bool) -> Metric {
    let (Some(value), true, true) = (cpu.value, lived > 0.0, start_known) else {
        return Metric::unavailable("percent", "the thread's lifetime or CPU time is not known");
    };
    let percent = |seconds: f64| (seconds / lived * 100.0).min(100.0);
    let interval = (percent(cpu.low.unwrap_or(value)), percent(cpu.high.unwrap_or(value)));
    Metric::with_interval(Evidence::Sampled, percent(value), "percent", interval, cpu.samples)
        .with_lost(cpu.lost)
}
