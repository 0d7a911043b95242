//! `timeline`: CPU time, page faults and memory per bin of time.

use analysis::faults::fault_scales;
use analysis::timeline::Bin;
use analysis::{Key, PAUSED};
use base::Nanos;
use facts::Metric;

use super::Request;
use super::list::{BYTES, COUNT, Columns, SECONDS};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

/// Bins without `--limit`: about what fits a screen.
const BINS: usize = 50;
/// A step with less than one part in so many of its length observed has no figures.
const LEAST_OBSERVED: u64 = 10;

pub(crate) fn timeline(request: &Request<'_>) -> Table {
    let profile = request.profile;
    if analysis::threading::was_recorded(profile) {
        return super::thread_timeline::thread_timeline(request);
    }
    let per_thread = request.options.group.contains(&Key::Thread);
    let most = request.options.limit.unwrap_or(BINS);
    let found = analysis::timeline::timeline(profile, request.selection, most, per_thread);
    let (time, faults) = (profile.cpu_scale(), fault_scales(profile.recording).all);
    let mut columns = Columns::new();
    columns.name("start", "Start", CellStyle::Start, "from", |bin: &Bin| {
        Cell::Seconds(bin.start.seconds())
    });
    columns.name("end", "End", CellStyle::Start, "", |bin| Cell::Seconds(bin.end.seconds()));
    if per_thread {
        columns.name("thread", "Thread", CellStyle::Text, "thread", |bin| {
            let label = |thread| Cell::text(profile.threads.get(thread).label());
            bin.thread.map_or(Cell::Missing, label)
        });
    }
    columns.end_of_names();
    let seen = |bin: &Bin, metric: Metric| {
        // What was seen in a small part of a step says nothing of it.
        let length = (bin.end - bin.start).0;
        Cell::metric(match bin.observed > Nanos(0) && bin.observed.0 >= length / LEAST_OBSERVED {
            true => metric,
            false => Metric::unavailable(&metric.unit, PAUSED),
        })
    };
    columns.cell("cpu_time", "CPU time", SECONDS, "CPU time", |bin| {
        let mut all = bin.user;
        all.merge(&bin.kernel);
        seen(bin, time.quantity(&all))
    });
    columns.cell("user_time", "User time", SECONDS, "", |bin| seen(bin, time.quantity(&bin.user)));
    columns.cell("kernel_time", "Kernel time", SECONDS, "in kernel", |bin| {
        seen(bin, time.quantity(&bin.kernel))
    });
    columns.cell("page_faults", "Page faults", COUNT, "faults", |bin| {
        seen(bin, faults.quantity(&bin.faults.all))
    });
    if !per_thread {
        columns.cell("resident", "Resident memory", BYTES, "resident", |bin| {
            Cell::metric(match bin.resident_bytes {
                Some(bytes) => Metric::counted(bytes as f64, "bytes"),
                None if bin.observed == Nanos(0) => Metric::unavailable("bytes", PAUSED),
                None => Metric::unavailable("bytes", "the program's memory was not polled"),
            })
        });
    }
    columns.show(&["start", "thread", "cpu_time"]);
    columns.text.push(CellStyle::Bar("cpu_time").titled(""));
    columns.show(&["kernel_time", "page_faults", "resident"]);
    let mut sum = Bin { observed: profile.observed(), ..Bin::default() };
    for bin in &found.bins {
        sum.user.merge(&bin.user);
        sum.kernel.merge(&bin.kernel);
        sum.faults.all.merge(&bin.faults.all);
        sum.resident_bytes = sum.resident_bytes.max(bin.resident_bytes);
    }
    let width = text::seconds(found.width.seconds());
    let what = format!("over time, in steps of {width}");
    Table {
        total: columns.total(Some(&sum)),
        notes: request.over_time_notes(request.sampling_notes()),
        page: usize::MAX,
        empty: "The recording has no length: there is nothing to show over time.".to_owned(),
        ..columns.table(request, "timeline", &what, &found.bins)
    }
}
