//! `regions`: what the program marks in its own code, and how long its passes take.
//!
//! What not: memory regions (`objects`).

use analysis::marked::{Region, regions as found_regions};
use analysis::{Filter, Selection, parallel};
use facts::{Metric, NoteSubject};

use super::Request;
use super::list::{BYTES, COUNT, Columns, SECONDS, Unit};
use crate::table::{Cell, CellStyle, Table};

const RATE: Unit = Unit("GB/s", CellStyle::Measure);
/// Traffic is estimated of so many regions, those with most time of their own: each takes a pass over all samples.
const WITH_TRAFFIC: usize = 40;
/// From this share of a region's time on that lies between its passes, it is not said whose accesses they were.
const BETWEEN: f64 = 0.05;
const TOO_SHORT: &str = "its passes are too short to say which accesses are in them";
const TOO_MANY: &str = "estimated for the regions with most time: filter by this one";

pub(super) const EMPTY: &str = "The program marked no regions. With include/fathom.h: fathom_begin(\"name\"); ... fathom_end(); tasks of ITT and \
     ranges of NVTX count, too. A process that is attached to, and a static program, have none.";

/// A region with its traffic.
struct Row {
    of: Region,
    /// Bytes, and per second of the time in which a thread was in it.
    traffic: [Metric; 2],
    /// That began in it; `None` where none were taken.
    bursts: Option<u64>,
}

pub(crate) fn regions(request: &Request<'_>) -> Table {
    let found = found_regions(request.profile, request.selection);
    let found: Vec<(usize, Region)> = found.into_iter().enumerate().collect();
    let rows = parallel::each(&found, |(at, region)| with_traffic(request, region, *at));
    let mut columns: Columns<'_, Row> = Columns::new();
    columns
        .name("region", "Region", CellStyle::Text, "region", |row| Cell::text(row.of.name.clone()));
    columns.name("domain", "Domain", CellStyle::Text, "domain", |row| {
        Cell::text_or_missing(row.of.domain.as_deref())
    });
    columns.end_of_names();
    columns.cell("threads", "Threads", COUNT, "threads", |row| count(row.of.threads));
    columns.cell("passes", "Passes", COUNT, "passes", |row| count(row.of.passes));
    columns.cell("open", "Still open at the end", COUNT, "", |row| count(row.of.open));
    columns.figure("time", "Time", SECONDS, "time", |row| &row.of.time);
    columns.figure("own_time", "Own time", SECONDS, "own", |row| &row.of.own_time);
    columns.figure("cpu_time", "CPU time", SECONDS, "CPU time", |row| &row.of.cpu_time);
    columns.figure("shortest", "Shortest pass", SECONDS, "shortest", |row| &row.of.lengths[0]);
    columns.figure("median", "Median of passes", SECONDS, "median", |row| &row.of.lengths[1]);
    columns.figure("p95", "95th percentile", SECONDS, "p95", |row| &row.of.lengths[2]);
    columns.figure("longest", "Longest pass", SECONDS, "longest", |row| &row.of.lengths[3]);
    columns.figure("dram_traffic", "Traffic with memory", BYTES, "DRAM", |row| &row.traffic[0]);
    columns.figure("bandwidth", "DRAM bandwidth", RATE, "DRAM GB/s", |row| &row.traffic[1]);
    columns
        .cell("bursts", "Bursts", COUNT, "bursts", |row| row.bursts.map_or(Cell::Missing, count));
    columns.show(&["time", "own_time", "cpu_time", "passes", "median", "p95", "longest"]);
    if rows.iter().any(|row| row.bursts.is_some()) {
        columns.show(&["bandwidth"]);
    }
    columns.show(&["region"]);
    if rows.iter().any(|row| row.of.domain.is_some()) {
        columns.show(&["domain"]);
    }
    let found: Vec<&Region> = rows.iter().map(|row| &row.of).collect();
    Table {
        notes: notes(request, &found),
        empty: EMPTY.to_owned(),
        ..columns.table(request, "regions", "regions of the program", &rows)
    }
}

/// The region's traffic is that of the bursts that began in it, expanded to its samples: as with a filter on it.
fn with_traffic(request: &Request<'_>, region: &Region, at: usize) -> Row {
    let unavailable = |why: &str| ["bytes", "GB/s"].map(|unit| Metric::unavailable(unit, why));
    let wanted = || {
        let others = request.options.filters.iter();
        let others = others.filter(|filter| !matches!(filter, Filter::Region(_))).cloned();
        let this = Filter::Region(region.name.clone());
        let all: Vec<Filter> = others.chain([this]).collect();
        Selection::resolve(request.profile, &all).map_err(|_| TOO_SHORT)
    };
    let found = if at < WITH_TRAFFIC { wanted() } else { Err(TOO_MANY) };
    let selection = match found {
        Ok(selection) => selection,
        Err(why) => return Row { of: region.clone(), traffic: unavailable(why), bursts: None },
    };
    let memory = request.prepared.memory_of(&selection);
    let bursts = memory.bursts();
    let traffic = match selection.between_short_passes() {
        Some(share) if share > BETWEEN && bursts.is_some() => unavailable(TOO_SHORT),
        _ => memory.moved(),
    };
    Row { of: region.clone(), traffic, bursts }
}

fn count(count: u64) -> Cell {
    Cell::metric(Metric::counted(count as f64, "count"))
}

fn notes(request: &Request<'_>, found: &[&Region]) -> Vec<String> {
    let open: Vec<&str> =
        found.iter().filter(|one| one.open > 0).map(|one| one.name.as_str()).collect();
    let open = (!open.is_empty()).then(|| {
        format!("The recording ended in these regions: {}. Their last pass is in the times, not in the lengths.", open.join(", "))
    });
    let regions = request.profile.recording.run.notes.iter();
    let regions = regions.filter(|note| NoteSubject::MarkedRegions.has(note)).cloned();
    open.into_iter().chain(regions).chain(request.pause_note()).collect()
}
