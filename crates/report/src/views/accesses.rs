//! `accesses`: traced memory accesses per instruction, or per key.

use std::collections::BTreeMap;

use analysis::Key;
use analysis::TracedCode;
use analysis::accesses::{AccessRow, Accesses, Pattern, coverage};
use analysis::types::{TypeId, UsedBytes};
use base::Bytes;
use facts::{Evidence, Metric};

use super::Request;
use super::columns::{columns_of_objects, names, short_columns};
use super::list::{BYTES, COUNT, Columns, PERCENT, PERCENT_ALONE};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

pub(crate) fn accesses(request: &Request<'_>, code: &TracedCode) -> Table {
    let keys = request.options.group.as_slice();
    let grouping = request.grouping(code, keys);
    let by_object = request.by_object();
    let without = request.without_objects();
    let found = if without.is_some() {
        Accesses::default()
    } else {
        request.prepared.accesses(&grouping).0
    };
    let by_site = keys.is_empty() && !by_object;
    // A site is shown by its function, file, line and module.
    let place_keys = if keys.is_empty() { &[Key::Function] } else { keys };
    let by_type = keys.contains(&Key::Type);
    let used = if by_type { used_bytes(request, code) } else { BTreeMap::new() };
    let mut columns =
        Columns::by(request, place_keys, None, |row: &AccessRow| (&row.key, row.place));
    if by_site {
        columns.name("offset", "Offset", CellStyle::Figure, "", |row| {
            row.site
                .as_ref()
                .map_or(Cell::Missing, |site| Cell::text(site.instruction.offset.to_string()))
        });
    }
    columns.name("kind", "Kind", CellStyle::Text, "kind", |row| {
        Cell::text(row.kind.map_or("mixed", |kind| kind.name()))
    });
    columns.figure("access_bytes", "Bytes", BYTES, "size", |row| &row.bytes);
    columns.figure("accesses", "Accesses", COUNT, "", |row| &row.accesses);
    columns.figure("access_percent", "Share", PERCENT, "share %", |row| &row.share);
    columns.name("stride", "Stride", CellStyle::Figure, "stride", |row| {
        Cell::text(stride(row.pattern))
    });
    columns.figure("stride_bytes", "Stride", BYTES, "", |row| &row.stride);
    columns.figure("stride_percent", "Stride share", PERCENT, "", |row| &row.stride_share);
    columns.figure("lines_per_burst", "Lines per burst", COUNT, "lines", |row| &row.lines);
    columns.figure("line_use_percent", "Bytes used", PERCENT_ALONE, "used %", |row| &row.line_use);
    columns.show(&["access_percent", "kind", "access_bytes", "stride", "lines_per_burst"]);
    columns.show(&["line_use_percent"]);
    if by_type {
        let of_type = |row: &AccessRow| used.get(&row.key.value_type?);
        columns.cell("type_bytes_used", "Bytes used of a value", BYTES, "touched", move |row| {
            bytes_of_type(of_type(row).map(|found| found.used))
        });
        columns.cell("type_bytes", "Bytes of a value", BYTES, "of", move |row| {
            bytes_of_type(of_type(row).map(|found| found.of))
        });
        columns.show(&["type_bytes_used", "type_bytes"]);
    }
    columns.text.extend(columns_of_objects(keys));
    columns.text.extend(short_columns(place_keys, keys));
    let by = match keys {
        [] => "instruction".to_owned(),
        keys => names(keys),
    };
    let mut table = Table {
        notes: notes(&found),
        empty: if let Some(why) = without {
            why
        } else if request.everything() {
            "No memory accesses were traced.".to_owned()
        } else {
            "No traced memory accesses match the filter.".to_owned()
        },
        ..columns.table(request, "accesses", &format!("memory accesses by {by}"), &found.rows)
    };
    table.title += &coverage_line(request);
    if request.everything() && found.total > 0 {
        let traced = |value, unit| Metric {
            evidence: Some(Evidence::Traced),
            samples: found.bursts,
            ..Metric::counted(value, unit)
        };
        table.set_total("accesses", traced(found.total as f64, "count"));
        table.set_total("access_percent", traced(100.0, "percent"));
    }
    table
}

/// How much of the values of each type the traced accesses touch.
fn used_bytes(request: &Request<'_>, code: &TracedCode) -> BTreeMap<TypeId, UsedBytes> {
    let (sites, _) = request.prepared.accesses(&request.grouping(code, &[]));
    let sites = sites.rows.iter().filter_map(|row| row.site.as_ref());
    request.profile.types.used_bytes(sites)
}

fn bytes_of_type(bytes: Option<Bytes>) -> Cell {
    Cell::metric(match bytes {
        Some(Bytes(bytes)) => {
            Metric { evidence: Some(Evidence::Traced), ..Metric::counted(bytes as f64, "bytes") }
        }
        None => Metric::unavailable("bytes", "no type is known"),
    })
}

pub(super) fn stride(pattern: Pattern) -> String {
    match pattern {
        Pattern::Unknown => "seen once".to_owned(),
        Pattern::Constant => "constant".to_owned(),
        Pattern::Unit => "unit".to_owned(),
        Pattern::Strided(distance) => format!("{distance:+}"),
        Pattern::Irregular => "irregular".to_owned(),
        Pattern::PointerChase => "pointer chase".to_owned(),
        Pattern::Runs(distance) => format!("~{distance:+}"),
    }
}

fn coverage_line(request: &Request<'_>) -> String {
    let coverage = coverage(request.profile.recording);
    if coverage.traced.value.is_none() {
        return String::new();
    }
    let refused = coverage.refused.iter().map(|(reason, share)| (reason.as_str(), share));
    format!("\ncoverage: {}", text::coverage(&coverage.traced, refused))
}

fn notes(found: &Accesses) -> Vec<String> {
    let mut notes = Vec::new();
    if found.bursts > 0 {
        notes.push(format!(
            "{} accesses in {} bursts. Lines and used bytes are medians over bursts: what one burst touches.",
            text::count(found.total as f64),
            found.bursts
        ));
    }
    let mut noted = |count: u64, what: &str| {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    };
    noted(
        found.lost_bursts,
        "more bursts have no records here: the consumer was late, or the result had reached its size limit.",
    );
    noted(
        found.unusable_blocks,
        "blocks of code could not be decoded again: their accesses are missing.",
    );
    noted(found.unusable_records, "records of these or of unknown blocks were not used.");
    noted(
        found.damaged_pieces,
        "pieces of records were damaged: the records after the damage are missing.",
    );
    notes
}
