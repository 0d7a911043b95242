//! `regions`: what the program marks in its own code, and how long its passes take.
//!
//! What not: memory regions (`objects`).

use analysis::marked::{Region, regions as found_regions};
use facts::{Metric, NoteSubject};

use super::Request;
use super::list::{COUNT, Columns, SECONDS};
use crate::table::{Cell, CellStyle, Table};

const EMPTY: &str = "The program marked no regions. With include/fathom.h: fathom_begin(\"name\"); ... fathom_end(); tasks of ITT and \
     ranges of NVTX count, too. A process that is attached to, and a static program, have none.";

pub(crate) fn regions(request: &Request<'_>) -> Table {
    let found = found_regions(request.profile, request.selection);
    let mut columns: Columns<'_, Region> = Columns::new();
    columns.name("region", "Region", CellStyle::Text, "region", |region| {
        Cell::text(region.name.clone())
    });
    columns.name("domain", "Domain", CellStyle::Text, "domain", |region| {
        Cell::text_or_missing(region.domain.as_deref())
    });
    columns.end_of_names();
    columns.cell("threads", "Threads", COUNT, "threads", |region| count(region.threads));
    columns.cell("passes", "Passes", COUNT, "passes", |region| count(region.passes));
    columns.cell("open", "Still open at the end", COUNT, "", |region| count(region.open));
    columns.figure("time", "Time", SECONDS, "time", |region| &region.time);
    columns.figure("own_time", "Own time", SECONDS, "own", |region| &region.own_time);
    columns.figure("cpu_time", "CPU time", SECONDS, "CPU time", |region| &region.cpu_time);
    columns.figure("shortest", "Shortest pass", SECONDS, "shortest", |one| &one.lengths[0]);
    columns.figure("median", "Median of passes", SECONDS, "median", |one| &one.lengths[1]);
    columns.figure("p95", "95th percentile", SECONDS, "p95", |one| &one.lengths[2]);
    columns.figure("longest", "Longest pass", SECONDS, "longest", |one| &one.lengths[3]);
    columns.show(&["time", "own_time", "cpu_time", "passes", "median", "p95", "longest", "region"]);
    if found.iter().any(|region| region.domain.is_some()) {
        columns.show(&["domain"]);
    }
    Table {
        notes: notes(request, &found),
        empty: EMPTY.to_owned(),
        ..columns.table(request, "regions", "regions of the program", &found)
    }
}

fn count(count: u64) -> Cell {
    Cell::metric(Metric::counted(count as f64, "count"))
}

fn notes(request: &Request<'_>, found: &[Region]) -> Vec<String> {
    let open: Vec<&str> =
        found.iter().filter(|one| one.open > 0).map(|one| one.name.as_str()).collect();
    let open = (!open.is_empty()).then(|| {
        format!("The recording ended in these regions: {}. Their last pass is in the times, not in the lengths.", open.join(", "))
    });
    let regions = request.profile.recording.run.notes.iter();
    let regions = regions.filter(|note| NoteSubject::MarkedRegions.has(note)).cloned();
    open.into_iter().chain(regions).chain(request.pause_note()).collect()
}
