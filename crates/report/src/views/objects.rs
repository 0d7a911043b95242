//! `objects`: memory objects with their accesses and the cost of these, or parts of them and the code that uses them.

mod figures;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use analysis::memory::Memory;
use analysis::objects::{
    NOT_COLLECTED, ObjectKind, ObjectPages, ObjectRow, ObjectTable, object_table,
};
use analysis::stalls::StallRow;
use analysis::{Key, RowKey, TracedCode, parallel};
use facts::{Evidence, Metric};

use self::figures::{FIGURES, figures};
use super::Request;
use super::columns::{
    cells_of_key, cells_of_objects, columns_of_objects, figure, missing, name, names, of_keys,
    of_objects, short_columns,
};
use crate::table::{Cell, CellStyle, Column, Table, TextColumn};
use crate::text;

pub(crate) use self::figures::{extent, object_bytes};

pub(crate) fn objects(request: &Request<'_>, code: &TracedCode) -> Table {
    let keys = with_object(&request.options.group);
    if super::sampled::answers(request) {
        return super::sampled::objects(request, code, &keys);
    }
    let grouping = request.grouping(code, &keys);
    let memory = request.memory(&grouping);
    let shared = || request.prepared.shared(request.selection);
    let found = object_table(&grouping, &memory, request.prepared.stalls(), shared);
    let rows = if request.objects().any() { sorted(&found, &keys) } else { Vec::new() };
    let by_code = of_keys(&keys);
    let mut columns: Vec<Column> = of_objects(&keys);
    columns.extend(by_code);
    let of_key = columns.len();
    columns.extend(FIGURES.map(|(key, label, unit)| match unit {
        Some(unit) => figure(key, label, unit),
        None => name(key, label),
    }));
    columns.push(name("allocation_stack", "Allocated by"));
    let of_object = traffic_by_object(&found);
    let cells = |(key, row): &(RowKey, &ObjectRow)| {
        let mut cells = cells_of_objects(request, &keys, key);
        cells.extend(cells_of_key(request.profile, &keys, key, row.place(), None));
        let whole = key.object.and_then(|object| of_object.get(&object)).copied().unwrap_or(0.0);
        cells.extend(figures(request, &found, key, row, whole));
        cells
    };
    Table {
        view: "objects",
        result: request.options.result_name.clone(),
        rows: parallel::each(&rows, cells),
        total: total(request, &found, &memory, of_key, columns.len()),
        columns,
        notes: if rows.is_empty() { Vec::new() } else { notes(request, &found, &memory) },
        title: request.title(&format!("memory objects{}", by(&keys))),
        text_columns: shown(request, &found, &keys, &rows),
        page: 25,
        empty: if !request.objects().any() {
            format!("n/a: {NOT_COLLECTED}.")
        } else {
            "No traced memory accesses match the filter.".to_owned()
        },
    }
}

/// Every row is of an object, whether or not that was typed.
fn with_object(keys: &[Key]) -> Vec<Key> {
    let mut keys = keys.to_vec();
    if !keys.contains(&Key::Object) {
        keys.insert(0, Key::Object);
    }
    keys
}

fn by(keys: &[Key]) -> String {
    if keys == [Key::Object] { String::new() } else { format!(" by {}", names(keys)) }
}

/// Most time first, then most traffic, then most accesses; with several keys the rows of what the first says stay together.
fn sorted<'a>(found: &'a ObjectTable, keys: &[Key]) -> Vec<(RowKey, &'a ObjectRow)> {
    let first = |key: &RowKey| match keys.first() {
        Some(Key::Object) | None => RowKey { object: key.object, ..RowKey::default() },
        Some(Key::Function) => RowKey { function: key.function, ..RowKey::default() },
        Some(Key::SourceLine) => RowKey { line: key.line, ..RowKey::default() },
        Some(Key::Module) => RowKey { module: key.module, ..RowKey::default() },
        Some(_) => RowKey {
            piece: key.piece,
            value_type: key.value_type,
            field: key.field,
            ..RowKey::default()
        },
    };
    let mut sums: BTreeMap<RowKey, [f64; 4]> = BTreeMap::new();
    for (key, row) in &found.rows {
        let sum = sums.entry(first(key)).or_default();
        sum.iter_mut().zip(row.weight()).for_each(|(sum, more)| *sum += more);
    }
    let mut rows: Vec<(RowKey, &ObjectRow)> =
        found.rows.iter().map(|(key, row)| (*key, row)).collect();
    let falling = |a: [f64; 4], b: [f64; 4]| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
    rows.sort_by(|(a, one), (b, other)| {
        falling(sums[&first(a)], sums[&first(b)])
            .then_with(|| first(a).cmp(&first(b)))
            .then_with(|| falling(one.weight(), other.weight()))
    });
    rows
}

/// Bytes moved of each object, over all its rows.
fn traffic_by_object(found: &ObjectTable) -> BTreeMap<analysis::objects::ObjectId, f64> {
    let mut sums = BTreeMap::new();
    for (key, row) in &found.rows {
        if let Some(object) = key.object {
            *sums.entry(object).or_default() += row.traffic();
        }
    }
    sums
}

fn shown(
    request: &Request<'_>,
    found: &ObjectTable,
    keys: &[Key],
    rows: &[(RowKey, &ObjectRow)],
) -> Vec<TextColumn> {
    let alone = keys == [Key::Object];
    let mut shown = Vec::new();
    if found.stalls.is_ok() {
        shown.extend([
            CellStyle::Time("stall_time").titled("time"),
            CellStyle::Count("stall_percent").titled("time %"),
        ]);
    }
    shown.push(CellStyle::Count("dram_percent").titled("DRAM %"));
    if found.stalls.is_err() || !alone {
        shown.insert(shown.len() - 1, CellStyle::Count("access_percent").titled("share %"));
    }
    if !alone {
        shown.push(CellStyle::Count("object_percent").titled("of object"));
    } else if found.stalls.is_err() {
        shown.push(CellStyle::Count("loads").titled("loads"));
        shown.push(CellStyle::Count("stores").titled("stores"));
    }
    shown.push(CellStyle::Figure("latency").titled("ns"));
    if keys.contains(&Key::Field) || keys.contains(&Key::Type) {
        shown.push(CellStyle::Bytes("type_bytes_used").titled("used"));
        shown.push(CellStyle::Bytes("type_bytes").titled("of"));
    } else {
        shown.push(CellStyle::Figure("stride").titled("stride"));
    }
    if rows.iter().any(|(_, row)| row.sharing.is_some()) {
        shown.push(CellStyle::Text("sharing").titled("sharing"));
    }
    // Where all rows would be alike, the columns are in JSON only.
    if alone {
        let huge = |pages: &ObjectPages| pages.huge.value > Some(0.0);
        let many = |pages: &ObjectPages| pages.nodes.as_ref().is_ok_and(|nodes| nodes.len() > 1);
        let huge = found.pages.values().any(huge);
        if huge {
            shown.push(CellStyle::Count("huge_pages").titled("huge %"));
        }
        if found.pages.values().any(many) {
            if found.stalls.is_ok() {
                shown.push(CellStyle::Count("remote_percent").titled("remote %"));
            }
            shown.push(CellStyle::Figure("numa_node").titled("node"));
        }
        // A line has no room for all; how many blocks there were is the least of it.
        if !huge {
            shown.push(CellStyle::Count("blocks").titled("blocks"));
        }
        shown.push(CellStyle::Bytes("object_bytes").titled("size"));
    }
    let object = columns_of_objects(keys);
    let mut code = short_columns(keys, &request.options.group);
    // Two names and a path do not fit; the function's place is in JSON.
    code.retain(|one| one.style != CellStyle::SourceLine || keys.contains(&Key::SourceLine));
    match keys.first() {
        Some(Key::Function | Key::SourceLine | Key::Module) => {
            shown.extend(code);
            shown.extend(object);
        }
        _ => {
            shown.extend(object);
            shown.extend(code);
        }
    }
    shown
}

/// What the whole program did, when nothing is filtered out.
fn total(
    request: &Request<'_>,
    found: &ObjectTable,
    memory: &Memory<'_>,
    of_key: usize,
    columns: usize,
) -> Vec<Cell> {
    let mut total = missing(of_key);
    if request.everything() && request.objects().any() && found.accesses.total > 0 {
        let traced = |value, unit| Metric {
            evidence: Some(Evidence::Traced),
            samples: found.accesses.bursts,
            ..Metric::counted(value, unit)
        };
        let (loads, stores) = memory.executed();
        total.extend(waited(request, found));
        total.extend(
            [traced(found.accesses.total as f64, "count"), traced(100.0, "percent"), loads, stores]
                .map(Cell::metric),
        );
    }
    total.extend(missing(columns - total.len()));
    total
}

/// What waited for any data: time, share of the CPU time, and nothing of nodes.
fn waited(request: &Request<'_>, found: &ObjectTable) -> [Cell; 3] {
    if found.stalls.is_err() {
        return [Cell::Missing, Cell::Missing, Cell::Missing];
    }
    let mut all = StallRow::default();
    let lost = found.stalls.as_ref().ok().map(|found| &found.lost);
    for row in found.rows.values().filter_map(|row| row.stall.as_ref()).chain(lost) {
        all.stood.merge(&row.stood);
        all.excess += row.excess;
    }
    let scale = request.profile.cpu_scale();
    let [time, share] = ["s", "percent"].map(|unit| {
        Cell::metric(all.metric(&scale, unit, &request.prepared.stalls().totals.among))
    });
    [time, share, Cell::Missing]
}

/// How the time came to objects, and what does not fit.
fn notes_of_stalls(request: &Request<'_>, found: &ObjectTable) -> Vec<String> {
    let stalls = request.prepared.stalls();
    let rows = match &found.stalls {
        Ok(rows) => rows,
        Err(why) => return vec![format!("time waited for objects: n/a, {why}")],
    };
    let scale = request.profile.cpu_scale();
    let share = |row: &StallRow| scale.share(&row.stood) * 100.0;
    let mut notes = Vec::new();
    let mut say = |row: &StallRow, says: &str| {
        // Less than a thousandth of the time changes no figure that is shown.
        if share(row) >= 0.1 {
            notes.push(format!("{} % of the CPU time {says}", text::percent(share(row))));
        }
    };
    say(&rows.lost, "waits for data whose address was overwritten: it is in no object here.");
    say(&rows.by_bursts, "waits for data whose address was overwritten: by its object in bursts.");
    say(
        &rows.by_neighbour,
        "waits in pointer chases and gathers: by the object of the next address, or of the base.",
    );
    say(
        &rows.disagree,
        "waits, by its addresses, for another object than bursts recorded at the same instruction.",
    );
    let part = |weight: &analysis::Weight| scale.share(weight) * 100.0;
    if part(&stalls.totals.shared) >= 0.1 {
        notes.push(format!(
            "{} % of the CPU time may have waited for one of several accesses: shared equally among them.",
            text::percent(part(&stalls.totals.shared))
        ));
    }
    // From a twentieth on it is more than what sampling leaves open.
    if part(&stalls.totals.among) >= 5.0 {
        notes.push(format!(
            "{} % of the CPU time is among accesses, at instructions that wait for none: core time, or waits that \
             the clock cannot attribute. The upper end of each row's interval includes it.",
            text::percent(part(&stalls.totals.among))
        ));
    }
    if part(&stalls.totals.unknown) >= 1.0 {
        notes.push(format!(
            "for {} % of the CPU time the instructions before are unknown: it may be waits for objects, too.",
            text::percent(part(&stalls.totals.unknown))
        ));
    }
    if !stalls.uncalibrated.is_empty() {
        let kinds: Vec<&str> = stalls.uncalibrated.iter().map(|kind| kind.name()).collect();
        notes.push(format!(
            "the skid of samples was not measured on this machine for: {}; an instruction and the one before it \
             share their time there (fathom machine --refresh).",
            kinds.join(", ")
        ));
    }
    notes
}

fn notes(request: &Request<'_>, found: &ObjectTable, memory: &Memory<'_>) -> Vec<String> {
    let mut notes = notes_of_stalls(request, found);
    let shares = found.shares(|id| request.objects().get(id).kind);
    let of = |named: bool| -> f64 {
        shares.iter().filter(|(kind, _)| kind.is_named() == named).map(|(_, share)| share).sum()
    };
    let rest: Vec<String> = shares
        .iter()
        .filter(|(kind, share)| !kind.is_named() && **share > 0.0)
        .map(|(kind, share)| {
            let what = match kind {
                ObjectKind::SmallBlocks => "in heap memory without a record of its own",
                ObjectKind::Unseen => "in memory whose mapping was not observed",
                _ => "at addresses that no record covers",
            };
            format!("{} % {what}", text::percent(*share))
        })
        .collect();
    if found.accesses.total > 0 && request.everything() {
        let rest = if rest.is_empty() { String::new() } else { format!("; {}", rest.join(", ")) };
        notes.push(format!(
            "{} % of all traced accesses are to named objects{rest}.",
            text::percent(of(true))
        ));
    }
    if let Some(why) = &found.missing {
        notes.push(format!("loads, stores, traffic and latency: n/a, {why}"));
    }
    let by_type = request.options.group.iter().any(|key| matches!(key, Key::Type | Key::Field));
    if by_type && request.profile.recording.access_types.is_empty() {
        notes.push(
            "no types are known: the program has no debug information (compile with -g), or it was not read".to_owned(),
        );
    }
    notes.extend(memory.notes.iter().cloned());
    notes
}
