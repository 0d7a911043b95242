//! `accesses`: traced memory accesses per instruction, or per key.

use std::collections::BTreeMap;

use analysis::Key;
use analysis::TracedCode;
use analysis::accesses::{AccessRow, Accesses, Pattern, accesses_of_objects, coverage};
use analysis::types::{TypeId, UsedBytes};
use base::Bytes;
use facts::{Evidence, Metric};

use super::Request;
use super::columns::{
    cells_of_key, cells_of_objects, columns_of_objects, figure, missing, name, names, of_keys,
    of_objects, short_columns,
};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

pub(crate) fn accesses(request: &Request<'_>, code: &TracedCode) -> Table {
    let profile = request.profile;
    let keys = request.options.group.as_slice();
    let grouping = request.grouping(code, keys);
    let by_object = request.by_object();
    let without = request.without_objects();
    let found = if without.is_some() {
        Accesses::default()
    } else if by_object {
        accesses_of_objects(&grouping).0
    } else {
        analysis::accesses::accesses(profile, code, request.selection, keys)
    };
    let by_site = keys.is_empty() && !by_object;
    // A site is shown by its function, file, line and module.
    let place_keys = if keys.is_empty() { &[Key::Function] } else { keys };
    let mut columns = of_objects(keys);
    columns.extend(of_keys(place_keys));
    if by_site {
        columns.push(name("offset", "Offset"));
    }
    let key_columns = columns.len();
    columns.extend([
        name("kind", "Kind"),
        figure("access_bytes", "Bytes", "bytes"),
        figure("accesses", "Accesses", "count"),
        figure("access_percent", "Share", "percent"),
        name("stride", "Stride"),
        figure("stride_bytes", "Stride", "bytes"),
        figure("stride_percent", "Stride share", "percent"),
        figure("lines_per_burst", "Lines per burst", "count"),
        figure("line_use_percent", "Bytes used", "percent"),
    ]);
    let by_type = keys.contains(&Key::Type);
    let used = if by_type { used_bytes(request, code) } else { BTreeMap::new() };
    if by_type {
        columns.push(figure("type_bytes_used", "Bytes used of a value", "bytes"));
        columns.push(figure("type_bytes", "Bytes of a value", "bytes"));
    }
    let mut rows = Vec::with_capacity(found.rows.len());
    for row in &found.rows {
        let mut cells = cells_of_objects(request, keys, &row.key);
        cells.extend(cells_of_key(profile, place_keys, &row.key, row.place, None));
        cells.extend(row.site.map(|site| Cell::text(site.offset.to_string())));
        cells.extend(figures(row));
        if by_type {
            cells.extend(used_cells(row, &used));
        }
        rows.push(cells);
    }
    let mut total = missing(key_columns + 2);
    total.extend(total_cells(request, &found));
    total.extend(missing(columns.len() - total.len()));
    let mut shown = vec![
        CellStyle::Percent("access_percent").titled("share %"),
        CellStyle::Text("kind").titled("kind"),
        CellStyle::Bytes("access_bytes").titled("size"),
        CellStyle::Figure("stride").titled("stride"),
        CellStyle::Count("lines_per_burst").titled("lines"),
        CellStyle::Count("line_use_percent").titled("used %"),
    ];
    if by_type {
        shown.push(CellStyle::Bytes("type_bytes_used").titled("touched"));
        shown.push(CellStyle::Bytes("type_bytes").titled("of"));
    }
    shown.extend(columns_of_objects(keys));
    shown.extend(short_columns(place_keys, keys));
    let by = match keys {
        [] => "instruction".to_owned(),
        keys => names(keys),
    };
    let table = Table {
        view: "accesses",
        result: request.options.result_name.clone(),
        columns,
        rows,
        total,
        notes: notes(&found),
        title: request.title(&format!("memory accesses by {by}")) + &coverage_line(request),
        text_columns: shown,
        page: 25,
        empty: if let Some(why) = without {
            why
        } else if request.everything() {
            "No memory accesses were traced.".to_owned()
        } else {
            "No traced memory accesses match the filter.".to_owned()
        },
    };
    table.limited(request.options.limit)
}

fn figures(row: &AccessRow) -> [Cell; 9] {
    [
        Cell::text(row.kind.map_or("mixed", |kind| kind.name())),
        Cell::metric(row.bytes.clone()),
        Cell::metric(row.accesses.clone()),
        Cell::metric(row.share.clone()),
        Cell::text(stride(row.pattern)),
        Cell::metric(row.stride.clone()),
        Cell::metric(row.stride_share.clone()),
        Cell::metric(row.lines.clone()),
        Cell::metric(row.line_use.clone()),
    ]
}

/// How much of the values of each type the traced accesses touch.
fn used_bytes(request: &Request<'_>, code: &TracedCode) -> BTreeMap<TypeId, UsedBytes> {
    let sites = analysis::accesses::accesses(request.profile, code, request.selection, &[]);
    let sites = sites.rows.iter().filter_map(|row| row.site.as_ref());
    request.profile.types.used_bytes(sites)
}

fn used_cells(row: &AccessRow, used: &BTreeMap<TypeId, UsedBytes>) -> [Cell; 2] {
    let found = row.key.value_type.and_then(|of| used.get(&of));
    let metric = |bytes: Option<Bytes>| match bytes {
        Some(Bytes(bytes)) => {
            Metric { evidence: Some(Evidence::Traced), ..Metric::counted(bytes as f64, "bytes") }
        }
        None => Metric::unavailable("bytes", "no type is known"),
    };
    [found.map(|found| found.used), found.map(|found| found.of)].map(metric).map(Cell::metric)
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

/// Accesses and their share: of all bursts, when nothing is filtered out.
fn total_cells(request: &Request<'_>, found: &Accesses) -> Vec<Cell> {
    if !request.everything() || found.total == 0 {
        return missing(2);
    }
    let traced = |value, unit| Metric {
        evidence: Some(Evidence::Traced),
        samples: found.bursts,
        ..Metric::counted(value, unit)
    };
    [traced(found.total as f64, "count"), traced(100.0, "percent")].map(Cell::metric).into()
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
