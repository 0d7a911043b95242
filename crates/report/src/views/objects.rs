//! `objects`: memory objects with their accesses and the cost of these, or parts of them and the code that uses them.

mod figures;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use analysis::memory::{ExecutedAccesses, Memory};
use analysis::objects::{
    NOT_COLLECTED, ObjectId, ObjectKind, ObjectPages, ObjectRow, ObjectTable, object_table,
};
use analysis::stalls::StallRow;
use analysis::{Key, RowKey, TracedCode};
use facts::{Evidence, Metric};

use super::Request;
use super::columns::{columns_of_objects, names, short_columns};
use super::list::Columns;
use crate::table::{CellStyle, Table};
use crate::text;

pub(crate) use self::figures::{extent, object_bytes};

/// Objects whose first touch the text tells, and threads of each.
const FIRST_TOUCHED: usize = 5;
const FIRST_THREADS: usize = 3;

pub(crate) fn objects(request: &Request<'_>, code: &TracedCode) -> Table {
    let keys = with_object(&request.options.group);
    if super::sampled::answers(request) {
        return super::sampled::objects(request, code, &keys);
    }
    let grouping = request.grouping(code, &keys);
    let memory = request.memory(&grouping);
    let shared = || request.prepared.shared(request.selection);
    let accesses = request.prepared.accesses(&grouping);
    let unrecorded = request.prepared.estimated_shares(&grouping);
    let stalls = request.prepared.stalls();
    let found = object_table(&grouping, accesses, &memory, stalls, shared, unrecorded);
    let rows = if request.objects().any() { sorted(&found, &keys) } else { Vec::new() };
    let of_object = traffic_by_object(&found);
    let mut columns =
        Columns::by(request, &keys, None, |(key, row): &(RowKey, &ObjectRow)| (key, row.place()));
    figures::add(&mut columns, request, &found, &of_object);
    show(&mut columns, request, &found, &keys, &rows);
    let what = format!("memory objects{}", by(&keys));
    let mut table = Table {
        notes: match rows.is_empty() {
            true => Vec::new(),
            false => {
                let notes = notes(request, &found, &memory).into_iter();
                notes.chain(first_touch(request, &found, &keys, &rows)).collect()
            }
        },
        empty: if !request.objects().any() {
            format!("n/a: {NOT_COLLECTED}.")
        } else {
            "No traced memory accesses match the filter.".to_owned()
        },
        ..columns.table(request, "objects", &what, &rows)
    };
    set_total(request, &found, &memory, &mut table);
    table
}

/// Every row is of an object, whether or not that was typed.
pub(super) fn with_object(keys: &[Key]) -> Vec<Key> {
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
fn traffic_by_object(found: &ObjectTable) -> BTreeMap<ObjectId, f64> {
    let mut sums = BTreeMap::new();
    for (key, row) in &found.rows {
        if let Some(object) = key.object {
            *sums.entry(object).or_default() += row.traffic();
        }
    }
    sums
}

fn show(
    columns: &mut Columns<'_, (RowKey, &ObjectRow)>,
    request: &Request<'_>,
    found: &ObjectTable,
    keys: &[Key],
    rows: &[(RowKey, &ObjectRow)],
) {
    let alone = keys == [Key::Object];
    match (&found.stalls, alone) {
        (Ok(_), true) => columns.show(&["stall_time", "stall_percent", "dram_percent"]),
        (Ok(_), false) => {
            columns.show(&["stall_time", "stall_percent", "access_percent", "dram_percent"]);
        }
        (Err(_), _) => columns.show(&["access_percent", "dram_percent"]),
    }
    if !alone {
        columns.show(&["object_percent"]);
    } else if found.stalls.is_err() {
        columns.show(&["loads", "stores"]);
    }
    columns.show(&["latency"]);
    if keys.contains(&Key::Field) || keys.contains(&Key::Type) {
        columns.show(&["type_bytes_used", "type_bytes"]);
    } else {
        columns.show(&["stride"]);
    }
    if rows.iter().any(|(_, row)| row.sharing.is_some()) {
        columns.show(&["sharing"]);
    }
    // Where all rows would be alike, the columns are in JSON only.
    if alone {
        let huge = |pages: &ObjectPages| pages.huge.value > Some(0.0);
        let many = |pages: &ObjectPages| pages.nodes.as_ref().is_ok_and(|nodes| nodes.len() > 1);
        let huge = found.pages.values().any(huge);
        if huge {
            columns.show(&["huge_pages"]);
        }
        if found.pages.values().any(many) {
            if found.stalls.is_ok() {
                columns.show(&["remote_percent"]);
            }
            columns.show(&["numa_node"]);
        }
        // A line has no room for all; how many blocks there were is the least of it.
        if !huge {
            columns.show(&["blocks"]);
        }
        columns.show(&["object_bytes"]);
    }
    let object = columns_of_objects(keys);
    let mut code = short_columns(keys, &request.options.group);
    // Two names and a path do not fit; the function's place is in JSON.
    code.retain(|one| one.style != CellStyle::SourceLine || keys.contains(&Key::SourceLine));
    columns.text.extend(match keys.first() {
        Some(Key::Function | Key::SourceLine | Key::Module) => [code, object].concat(),
        _ => [object, code].concat(),
    });
}

/// What the whole program did, when nothing is filtered out.
fn set_total(request: &Request<'_>, found: &ObjectTable, memory: &Memory<'_>, table: &mut Table) {
    if !request.everything() || !request.objects().any() || found.accesses.total == 0 {
        return;
    }
    let traced = |value, unit| Metric {
        evidence: Some(Evidence::Traced),
        samples: found.accesses.bursts,
        ..Metric::counted(value, unit)
    };
    let ExecutedAccesses { loads, stores } = memory.executed();
    table.set_total("accesses", traced(found.accesses.total as f64, "count"));
    table.set_total("access_percent", traced(100.0, "percent"));
    table.set_total("loads", loads);
    table.set_total("stores", stores);
    // What waited for any data.
    let Ok(stalls) = &found.stalls else { return };
    let mut all = StallRow::default();
    for row in found.rows.values().filter_map(|row| row.stall.as_ref()).chain([&stalls.lost]) {
        all.stood.merge(&row.stood);
        all.excess += row.excess;
    }
    let scale = request.profile.cpu_scale();
    for (key, unit) in [("stall_time", "s"), ("stall_percent", "percent")] {
        table.set_total(key, all.metric(&scale, unit, &request.prepared.stalls().totals.among));
    }
}

/// How time is attributed to objects, and what does not fit.
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

/// Which of several threads touched the first objects first: it decides on which NUMA node they are.
fn first_touch(
    request: &Request<'_>,
    found: &ObjectTable,
    keys: &[Key],
    rows: &[(RowKey, &ObjectRow)],
) -> Option<String> {
    let threads = &request.profile.threads;
    if keys != [Key::Object] || threads.all().len() < 2 {
        return None;
    }
    // Smaller ones share their pages with others, and a stack is its thread's own.
    let page = request.profile.recording.run.host.page_bytes as f64;
    let has_pages = |id: &ObjectId| {
        let object = request.objects().get(*id);
        object.kind.is_named() && object.kind != ObjectKind::Stack && object.bytes >= page
    };
    let objects = rows.iter().filter_map(|(key, _)| key.object).filter(has_pages);
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for id in objects.take(FIRST_TOUCHED) {
        let name = &request.objects().get(id).name;
        let Some(touches) = found.first_touches.get(&id) else {
            unknown.push(name.clone());
            continue;
        };
        let by = touches.iter().take(FIRST_THREADS).map(|touch| {
            let thread = threads.get(touch.thread).label();
            let function = figures::first_function(request, touch);
            let function = function.map_or_else(String::new, |name| format!(" in {name}"));
            let [value, low, high] = [touch.share.value, touch.share.low, touch.share.high]
                .map(|part| text::percent(part.unwrap_or(0.0)));
            format!("by {thread}{function}, {value} % ({low} to {high})")
        });
        known.push(format!("{name} {}", by.collect::<Vec<_>>().join(" and ")));
    }
    if !unknown.is_empty() {
        known.push(format!("unknown of {}: {}", unknown.join(", "), found.no_first_touch));
    }
    (!known.is_empty()).then(|| format!("First touch, by page faults: {}.", known.join("; ")))
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
