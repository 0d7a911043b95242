//! Lines that threads share, by the code that shares them.
//!
//! What for: a row of counters fills several lines, and threads take each of them from each other: the cost is their sum.
//! What not: which lines are shared (`crate::sharing`), and whether that matters (`findings::sharing`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use base::{Nanos, RemoteAddr, Tid};
use facts::Metric;

use super::{NamedLocation, SharedFigure, Traced};
use crate::figure::Figure;
use crate::findings::NotJudged;
use crate::objects::{Objects, Window};
use crate::profile::Profile;
use crate::sharing::{SharedLine, SharedLines, Sharing};
use crate::stack::{FunctionId, LocationId};
use crate::traced::{TracedCode, traced_bursts};
use crate::weight::Weight;

/// Whether different bytes are used, in which functions, by which threads.
type Sharers = (bool, BTreeSet<FunctionId>, BTreeSet<Tid>);

pub(super) fn shared<'s>(
    (profile, code, objects): (&Profile<'_>, &TracedCode, &Objects),
    traced: &Result<Traced, NotJudged>,
    lines: impl FnOnce() -> Cow<'s, SharedLines>,
) -> Result<Vec<SharedFigure>, NotJudged> {
    if profile.threads.all().len() < 2 {
        return Ok(Vec::new());
    }
    let found = lines();
    if found.pairs == 0 {
        return Err(
            "no two bursts of different threads are close enough in time to compare: run for longer, or take more \
             bursts with -k burst-interval"
                .into(),
        );
    }
    let (bursts, nanos) = traced_bursts(profile.recording, code)
        .fold((0u64, 0u64), |(n, sum), burst| (n + 1, sum.saturating_add(burst.in_code().0)));
    let length = (nanos as f64 / bursts.max(1) as f64).max(found.usual_length).max(1.0) * 1e-9;
    let mut groups: BTreeMap<Sharers, Vec<&SharedLine>> = BTreeMap::new();
    for line in found.lines.iter().filter(|line| !line.threads.is_empty()) {
        groups.entry(sharers(profile, line)).or_default().push(line);
    }
    let mut figures: Vec<SharedFigure> = groups
        .iter()
        .map(|(sharers, lines)| {
            // The line with the most conflicts comes first.
            let (line, place) = (lines[0], lines[0].threads[0].place);
            let time = time_of(profile, sharers);
            SharedFigure {
                different_bytes: sharers.0,
                conflicts: per_second(lines, length),
                time: profile.cpu_scale().quantity(&time),
                waits: waits(profile, traced, place),
                place: NamedLocation {
                    object: Some(line_name(objects, line, lines.len())),
                    ..NamedLocation::of(profile, place)
                },
                threads: line.threads.len(),
            }
        })
        .collect();
    let most = |figure: &SharedFigure| figure.conflicts.value.unwrap_or(0.0);
    figures.sort_by(|a, b| most(b).total_cmp(&most(a)));
    Ok(figures)
}

fn sharers(profile: &Profile<'_>, line: &SharedLine) -> Sharers {
    let function = |place: LocationId| profile.stacks.places[place.index()].function;
    (
        line.sharing == Sharing::False,
        line.threads.iter().map(|thread| function(thread.place)).collect(),
        line.threads.iter().map(|thread| thread.tid).collect(),
    )
}

/// Samples of these threads in these functions.
fn time_of(profile: &Profile<'_>, (_, functions, tids): &Sharers) -> Weight {
    let mut time = Weight::default();
    for cell in profile.all_cells().iter().filter(|cell| !cell.kernel) {
        let place = profile.stacks.innermost(cell.stack);
        let function = profile.stacks.places[place.index()].function;
        if functions.contains(&function) && tids.contains(&profile.threads.get(cell.thread).tid) {
            time.merge(&cell.weight);
        }
    }
    time
}

/// The sum over all lines: a thread that waits for one does not ask for the next.
fn per_second(lines: &[&SharedLine], length: f64) -> Metric {
    let sum = |end: fn(&Metric) -> Option<f64>| {
        let conflicts: Option<f64> = lines.iter().map(|line| end(&line.conflicts)).sum();
        conflicts.map(|conflicts| conflicts / length)
    };
    Metric {
        value: sum(|metric| metric.value),
        low: sum(|metric| metric.low),
        high: sum(|metric| metric.high),
        unit: "count/s".to_owned(),
        ..lines[0].conflicts.clone()
    }
}

/// `counters, line 0x7f00 and 2 more`; of unrecorded memory only the address.
fn line_name(objects: &Objects, line: &SharedLine, lines: usize) -> String {
    // The first byte that is used: a line may begin in front of the object.
    let used = line.threads.iter().fold(0, |used, thread| used | thread.read | thread.written);
    let first = u64::from(used.trailing_zeros().min(63));
    let window = Window { start: line.time, end: line.time + Nanos(1) };
    let at = RemoteAddr(line.address.0.saturating_add(first));
    let object = objects.get(objects.locate(line.pid, at, window).0.object);
    let name = if object.kind.is_named() { format!("{}, ", object.name) } else { String::new() };
    let more = if lines > 1 { format!(" and {} more", lines - 1) } else { String::new() };
    format!("{name}line {}{more}", line.address)
}

/// The waits of the function of a place.
fn waits(profile: &Profile<'_>, traced: &Result<Traced, NotJudged>, place: LocationId) -> Figure {
    let id = Some(profile.stacks.places[place.index()].function);
    let known = traced.as_ref().ok();
    let function = known.and_then(|traced| traced.functions.iter().find(|one| one.place.id == id));
    function.map_or_else(
        || Metric::unavailable("percent", "too few bursts began in it").into(),
        |function| function.waits.clone(),
    )
}
