//! `timeline`: CPU time, page faults and memory per bin of time.

use analysis::Key;
use analysis::faults::fault_scales;
use analysis::timeline::Bin;
use analysis::{Scale, Weight};
use facts::Metric;

use super::Request;
use super::columns::{CPU_TIME, figure, missing, name};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

/// Bins without `--limit`: about what fits a screen.
const BINS: usize = 50;

pub(crate) fn timeline(request: &Request<'_>) -> Table {
    let profile = request.profile;
    if analysis::threading::was_recorded(profile) {
        return super::thread_timeline::thread_timeline(request);
    }
    let per_thread = request.options.group.contains(&Key::Thread);
    let most = request.options.limit.unwrap_or(BINS);
    let found = analysis::timeline::timeline(profile, request.selection, most, per_thread);
    let (time, faults) = (profile.cpu_scale(), fault_scales(profile.recording).all);
    let mut columns = vec![name("start", "Start"), name("end", "End")];
    if per_thread {
        columns.push(name("thread", "Thread"));
    }
    let names = columns.len();
    columns.extend([
        CPU_TIME,
        figure("user_time", "User time", "s"),
        figure("kernel_time", "Kernel time", "s"),
        figure("page_faults", "Page faults", "count"),
    ]);
    if !per_thread {
        columns.push(figure("resident", "Resident memory", "bytes"));
    }
    let mut sum = Bin::default();
    let mut rows = Vec::with_capacity(found.bins.len());
    for bin in &found.bins {
        let mut cells = vec![Cell::Seconds(bin.start.seconds()), Cell::Seconds(bin.end.seconds())];
        if per_thread {
            let label = bin.thread.map(|thread| profile.threads.get(thread).label());
            cells.push(Cell::text_or_missing(label.as_deref()));
        }
        cells.extend(figures(bin, &time, &faults, per_thread));
        rows.push(cells);
        sum.user.merge(&bin.user);
        sum.kernel.merge(&bin.kernel);
        sum.faults.all.merge(&bin.faults.all);
        sum.resident_bytes = sum.resident_bytes.max(bin.resident_bytes);
    }
    let mut total = missing(names);
    total.extend(figures(&sum, &time, &faults, per_thread));
    let mut shown = vec![CellStyle::Start("start").titled("from")];
    if per_thread {
        shown.push(CellStyle::Text("thread").titled("thread"));
    }
    shown.extend([
        CellStyle::Time("cpu_time").titled("CPU time"),
        CellStyle::Bar("cpu_time").titled(""),
        CellStyle::Time("kernel_time").titled("in kernel"),
        CellStyle::Count("page_faults").titled("faults"),
    ]);
    if !per_thread {
        shown.push(CellStyle::Bytes("resident").titled("resident"));
    }
    let width = text::seconds(found.width.seconds());
    Table {
        view: "timeline",
        result: request.options.result_name.clone(),
        columns,
        rows,
        total,
        notes: request.sampling_notes(),
        title: request.title(&format!("over time, in steps of {width}")),
        text_columns: shown,
        page: usize::MAX,
        empty: "The recording has no length: there is nothing to show over time.".to_owned(),
    }
}

fn figures(bin: &Bin, time: &Scale, faults: &Scale, per_thread: bool) -> Vec<Cell> {
    let mut all = Weight::default();
    all.merge(&bin.user);
    all.merge(&bin.kernel);
    let mut cells = vec![
        Cell::metric(time.quantity(&all)),
        Cell::metric(time.quantity(&bin.user)),
        Cell::metric(time.quantity(&bin.kernel)),
        Cell::metric(faults.quantity(&bin.faults.all)),
    ];
    if !per_thread {
        cells.push(Cell::metric(match bin.resident_bytes {
            Some(bytes) => Metric::counted(bytes as f64, "bytes"),
            None => Metric::unavailable("bytes", "the program's memory was not polled"),
        }));
    }
    cells
}
