//! `timeline` of a recording that followed threads: a sketch of each over time, or figures per thread and bin.

use std::collections::BTreeMap;

use analysis::threading::{Bin, State, Strips, strips, threading};
use analysis::{Key, ThreadIndex};
use base::Nanos;
use facts::{Evidence, Metric};

use super::Request;
use super::list::Columns;
use super::thread_states::TIMES;
use crate::table::{Cell, CellStyle, Table};
use crate::text;

/// Bins without `--limit`: what fits a line next to a thread's name.
const BINS: usize = 50;
/// With more threads than this, threads of one name are one row.
const MANY: usize = 40;

/// How a state is drawn.
fn sign(state: State) -> char {
    match state {
        State::Running => '█',
        State::Spinning => '▓',
        State::Ready => '▒',
        State::Lock => 'L',
        State::Barrier => 'B',
        State::Io => 'D',
        State::Sleep => 's',
        State::Other => '·',
    }
}

const LEGEND: &str = "█ running  ▓ spinning  ▒ waiting for a CPU  L lock  B barrier or thread  D data (I/O, poll)  s sleep  \
                      · other; the state with most of the time in a step";

pub(crate) fn thread_timeline(request: &Request<'_>) -> Table {
    let most = request.options.limit.unwrap_or(BINS);
    let found = threading(request.profile, request.selection);
    let strips = strips(request.profile, request.selection, &found, most);
    if request.options.group.contains(&Key::Thread) {
        return figures(request, &strips);
    }
    sketch(request, &strips)
}

fn sketch(request: &Request<'_>, strips: &Strips) -> Table {
    let threads = &request.profile.threads;
    let many = strips.strips.len() > MANY;
    let mut rows: BTreeMap<(usize, String), (usize, Vec<Bin>)> = BTreeMap::new();
    for (at, strip) in strips.strips.iter().enumerate() {
        let thread = threads.get(strip.thread);
        let key = if many { (0, thread.name.clone()) } else { (at, thread.label()) };
        let (count, sum) =
            rows.entry(key).or_insert_with(|| (0, vec![Bin::default(); strip.bins.len()]));
        *count += 1;
        for (sum, bin) in sum.iter_mut().zip(&strip.bins) {
            for (sum, part) in sum.iter_mut().zip(bin) {
                *sum += part;
            }
        }
    }
    let named = |((_, label), (count, bins)): ((usize, String), (usize, Vec<Bin>))| {
        (if count > 1 { format!("{label} ({count} threads)") } else { label }, bins)
    };
    let rows: Vec<(String, Vec<Bin>)> = rows.into_iter().map(named).collect();
    let mut columns = Columns::new();
    columns.name("thread", "Thread", CellStyle::Text, "thread", |row: &(String, Vec<Bin>)| {
        Cell::text(row.0.clone())
    });
    columns.name("states", "States", CellStyle::Code, "over time", |(_, bins)| {
        Cell::Text(bins.iter().map(drawn).collect())
    });
    columns.show(&["thread", "states"]);
    Table {
        notes: request.over_time_notes(vec![
            LEGEND.to_owned(),
            "In figures: `fathom report timeline -g thread`.".to_owned(),
        ]),
        title: title(request, strips),
        page: usize::MAX,
        empty: "No thread was observed.".to_owned(),
        ..columns.table(request, "timeline", "", &rows)
    }
}

/// The state with most of the time; nothing where the thread was not there.
fn drawn(bin: &Bin) -> char {
    let most = State::ALL.into_iter().max_by(|a, b| bin[*a as usize].total_cmp(&bin[*b as usize]));
    most.filter(|state| bin[*state as usize] > 0.0).map_or(' ', sign)
}

fn title(request: &Request<'_>, strips: &Strips) -> String {
    let from = strips.start.seconds();
    let width = text::seconds(strips.width.seconds());
    let from = if from > 0.0 { format!(" from {} on", text::seconds(from)) } else { String::new() };
    request.title(&format!("threads over time{from}, in steps of {width}"))
}

fn figures(request: &Request<'_>, strips: &Strips) -> Table {
    let mut rows: Vec<(Nanos, ThreadIndex, &Bin)> = Vec::new();
    for bin in 0..strips.count() {
        let start = Nanos(strips.start.0 + bin as u64 * strips.width.0);
        let bins = strips.strips.iter().map(|strip| (start, strip.thread, &strip.bins[bin]));
        rows.extend(bins.filter(|(.., times)| times.iter().any(|time| *time != 0.0)));
    }
    let mut columns = Columns::new();
    columns.name("start", "Start", CellStyle::Start, "from", |row: &(Nanos, ThreadIndex, &Bin)| {
        Cell::Seconds(row.0.seconds())
    });
    columns.name("end", "End", CellStyle::Start, "", |(start, ..)| {
        Cell::Seconds(Nanos(start.0 + strips.width.0).min(strips.end).seconds())
    });
    columns.name("thread", "Thread", CellStyle::Text, "thread", |(_, thread, _)| {
        Cell::text(request.profile.threads.get(*thread).label())
    });
    columns.figures(TIMES, |(.., times)| {
        let mut times = **times;
        // As everywhere, spinning is a part of running.
        times[State::Running as usize] += times[State::Spinning as usize];
        times.map(|time| Cell::metric(spread(time)))
    });
    columns.show(&["start", "thread"]);
    columns.show(&TIMES.map(|(key, ..)| key));
    Table {
        notes: request.sampling_notes(),
        title: title(request, strips),
        page: usize::MAX,
        empty: "No thread was observed.".to_owned(),
        ..columns.table(request, "timeline", "", &rows)
    }
}

/// Windows of the collector and bins need not begin together, so what is in a bin is an estimate.
fn spread(nanos: f64) -> Metric {
    let counted = Metric::counted(nanos * 1e-9, "s");
    if nanos == 0.0 {
        return counted;
    }
    Metric { low: None, high: None, evidence: Some(Evidence::Estimated), ..counted }
}
