//! `latency`, `objects` and `sharing` from memory accesses that the hardware sampled, `pace` from its branch stacks.
//!
//! What for: the same views, with the same keys and words, of recordings that have such samples and no bursts. Latencies are in
//! cycles: a recording does not tell the clock of its cores at each load. What not: figures that need every access of a stretch
//! (strides, reuse, traffic).

use analysis::memory::Latency;
use analysis::objects::{Grouping, Objects};
use analysis::sampled::{
    SampledAccesses, SampledLevels, SampledLoop, SampledRow, has_sampled_accesses, sampled_loops,
};
use analysis::{Key, Profile, Selection, TracedCode};
use facts::{Metric, NoteSubject};

use super::Request;
use super::columns::{columns_next_to_objects, names};
use super::latency::{bounds, steps_table};
use super::list::{BYTES, Columns, PERCENT, PERCENT_ALONE, Unit};
use super::objects::object_bytes;
use super::sharing::{Use, columns, cure};
use crate::table::{Cell, CellStyle, Table};

const CYCLES: Unit = Unit("cycles", CellStyle::Figure);

/// Whether the views are of samples.
pub(super) fn answers(request: &Request<'_>) -> bool {
    request.profile.recording.bursts.is_empty() && has_sampled_accesses(request.profile)
}

fn selected<'a>(request: &Request<'a>) -> SampledAccesses<'a> {
    SampledAccesses::new(request.profile, request.selection, request.objects())
}

/// The first screen's sentence: `130 cycles on average, 17.1 % from memory`.
pub(crate) fn sampled_loads(profile: &Profile<'_>) -> Option<String> {
    // Next to bursts, `cross-check` has them.
    if !has_sampled_accesses(profile) || !profile.recording.bursts.is_empty() {
        return None;
    }
    // No object is chosen: none need be known.
    let objects = Objects::new(profile);
    let accesses = SampledAccesses::new(profile, &Selection::default(), &objects);
    let levels = accesses.levels();
    let mut says = Vec::new();
    if let Ok(latency) = accesses.latency() {
        let bounds = bounds(&latency.mean);
        let mean = latency.mean.value.unwrap_or(0.0);
        says.push(format!("{mean:.0} cycles on average{bounds}"));
    }
    let named = [
        ("from L1", &levels.l1),
        ("from memory", &levels.dram),
        ("from remote memory", &levels.remote_dram),
        ("of lines modified by another core (HITM)", &levels.modified),
    ];
    for (what, share) in named {
        if let Some(share) = share.value.filter(|share| *share > 0.0) {
            says.push(format!("{} % {what}", crate::text::percent(share)));
        }
    }
    (!says.is_empty()).then(|| says.join(", "))
}

/// What the reader must know of the samples.
fn notes(request: &Request<'_>, accesses: &SampledAccesses<'_>) -> Vec<String> {
    let mut notes = vec![format!("{} memory accesses that the hardware sampled", accesses.count())];
    let sampled = |note: &&String| NoteSubject::SampledLoads.has(note);
    notes.extend(request.profile.recording.run.notes.iter().filter(sampled).cloned());
    notes.extend(request.sampling_notes());
    notes
}

fn empty(request: &Request<'_>) -> String {
    match request.everything() {
        true => "No sampled load has a latency.".to_owned(),
        false => "No sampled memory accesses match the filter.".to_owned(),
    }
}

pub(super) fn latency(request: &Request<'_>, code: &TracedCode) -> Table {
    let keys = request.options.group.as_slice();
    if keys.is_empty() {
        return histogram(request);
    }
    let title = format!("latency of sampled loads, cycles, by {}", names(keys));
    let shown =
        ["load_time_percent", "latency", "latency_p95", "l1", "l3", "dram", "remote", "modified"];
    rows(request, code, ("latency", &title), keys, &shown)
}

pub(super) fn objects(request: &Request<'_>, code: &TracedCode, keys: &[Key]) -> Table {
    let by = if keys == [Key::Object] { String::new() } else { format!(" by {}", names(keys)) };
    let title = format!("memory objects{by}, sampled accesses");
    let shown =
        ["load_time_percent", "accesses", "latency", "dram", "remote", "modified", "object_bytes"];
    rows(request, code, ("objects", &title), keys, &shown)
}

fn rows(
    request: &Request<'_>,
    code: &TracedCode,
    (view, title): (&'static str, &str),
    keys: &[Key],
    shown: &[&str],
) -> Table {
    let accesses = selected(request);
    let without = request.without_objects();
    let found = match without {
        Some(_) => Vec::new(),
        None => {
            let Request { profile, selection, .. } = *request;
            let objects = request.objects();
            accesses.rows(&Grouping { profile, code, objects, selection, keys })
        }
    };
    let mut columns = Columns::by(request, keys, None, |row: &SampledRow| (&row.key, row.place));
    columns.name("accesses", "Sampled accesses", CellStyle::Number, "samples", |row| {
        Cell::Number(row.loads.saturating_add(row.stores))
    });
    columns.name("sampled_loads", "Sampled loads", CellStyle::Number, "", |row| {
        Cell::Number(row.loads)
    });
    columns.name("sampled_stores", "Sampled stores", CellStyle::Number, "", |row| {
        Cell::Number(row.stores)
    });
    columns.figure("load_percent", "Share of loads", PERCENT, "", |row| &row.load_share);
    columns.figure("store_percent", "Share of stores", PERCENT, "", |row| &row.store_share);
    columns.figure("load_time_percent", "Share of load time", PERCENT, "load time %", |row| {
        &row.time_share
    });
    let mut latency = |key, label, heading, part: fn(&Latency) -> &Metric| {
        columns.cell(key, label, CYCLES, heading, move |row| match &row.latency {
            Ok(latency) => Cell::metric(part(latency).clone()),
            Err(why) => Cell::metric(Metric::unavailable("cycles", why)),
        });
    };
    latency("latency", "Mean latency", "mean", |latency| &latency.mean);
    latency("latency_p50", "Median", "", |latency| &latency.p50);
    latency("latency_p95", "95 %", "95 %", |latency| &latency.p95);
    latency("latency_p99", "99 %", "", |latency| &latency.p99);
    let mut level = |key, label, heading, part: fn(&SampledLevels) -> &Metric| {
        columns.figure(key, label, PERCENT_ALONE, heading, move |row| part(&row.levels));
    };
    level("l1", "Loads from L1", "L1 %", |levels| &levels.l1);
    level("fill_buffer", "Loads of lines on their way", "", |levels| &levels.fill_buffer);
    level("l2", "Loads from L2", "", |levels| &levels.l2);
    level("l3", "Loads from L3", "L3 %", |levels| &levels.l3);
    level("remote_cache", "Loads from a remote cache", "", |levels| &levels.remote_cache);
    level("dram", "Loads from memory", "DRAM %", |levels| &levels.dram);
    level("remote", "Loads from remote memory", "remote %", |levels| &levels.remote_dram);
    level("modified", "Loads of modified lines (HITM)", "HITM %", |levels| &levels.modified);
    level("page_walks", "Loads after a page walk", "", |levels| &levels.page_walks);
    level("huge_pages", "Loads in huge pages", "", |levels| &levels.huge_pages);
    if keys.contains(&Key::Object) {
        columns.cell("object_bytes", "Bytes", BYTES, "size", |row| {
            let object = row.key.object.map(|id| request.objects().get(id));
            object.map_or(Cell::Missing, |one| Cell::metric(object_bytes(one)))
        });
    }
    columns.show(shown);
    columns.text.extend(columns_next_to_objects(keys));
    Table {
        notes: notes(request, &accesses),
        empty: without.unwrap_or_else(|| empty(request)),
        ..columns.table(request, view, title, &found)
    }
}

fn histogram(request: &Request<'_>) -> Table {
    let accesses = selected(request);
    let found = accesses.latency();
    let steps = found.as_ref().map_or(&[][..], |found| &found.histogram);
    let mut notes = notes(request, &accesses);
    if let Ok(found) = &found {
        let one = |what: &str, metric: &Metric| {
            let bounds = bounds(metric);
            format!("{what} {:.0} cycles{bounds}", metric.value.unwrap_or(0.0))
        };
        let figures = [
            ("mean", &found.mean),
            ("median", &found.p50),
            ("95 %", &found.p95),
            ("99 %", &found.p99),
        ];
        notes.insert(0, figures.map(|(what, metric)| one(what, metric)).join(", "));
        if let Some(covered) = found.covered.value.filter(|covered| *covered < 95.0) {
            notes.push(format!("of {covered:.0} % of the sampled loads, those with a latency"));
        }
    }
    let levels = accesses.levels();
    let named = [
        ("L1", &levels.l1),
        ("a line on its way", &levels.fill_buffer),
        ("L2", &levels.l2),
        ("L3", &levels.l3),
        ("a remote cache", &levels.remote_cache),
        ("memory", &levels.dram),
        ("of these remote", &levels.remote_dram),
    ];
    let named: Vec<String> = named
        .iter()
        .filter_map(|(what, share)| Some((what, share.value.filter(|share| *share > 0.0)?)))
        .map(|(what, share)| format!("{what} {} %", crate::text::percent(share)))
        .collect();
    if !named.is_empty() {
        notes.push(format!("loads from: {}", named.join(", ")));
    }
    let labels = ("From, cycles", "To, cycles");
    Table {
        notes,
        empty: empty(request),
        ..steps_table(request, "latency of sampled loads, cycles", labels, ("from", "to"), steps)
    }
}

/// `pace` of branch stacks: how often loops go round, without their time.
pub(super) fn loops(request: &Request<'_>) -> Table {
    let found = sampled_loops(request.profile, request.selection);
    let mut columns = Columns::new();
    columns.place(request, |one: &SampledLoop| one.place);
    columns.name("branches", "Branches back in stacks", CellStyle::Number, "branches", |one| {
        Cell::Number(one.taken)
    });
    columns.figure("branch_percent", "Share of branches back", PERCENT, "branches %", |one| {
        &one.share
    });
    let trips = Unit("count", CellStyle::Measure);
    columns.figure("trip_count", "Trip count", trips, "trips", |one| &one.trip_count);
    columns.show(&["branch_percent", "branches", "trip_count"]);
    columns.text.extend([
        CellStyle::Function("function", None).titled("function"),
        CellStyle::SourceLine.titled("loop at"),
        CellStyle::Text("module").titled("module"),
    ]);
    let mut notes = vec![
        "From branch stacks that the hardware recorded. Trip count: iterations of a run that has more than one; an \
         iteration is one of the machine code."
            .to_owned(),
    ];
    for one in &found {
        if let Some(why) = one.trip_count.note.as_ref().filter(|_| one.trip_count.value.is_none()) {
            let note = format!("A loop without a trip count: {why}.");
            // The numbers differ from loop to loop: the first is the most frequent one's.
            if notes.len() == 1 {
                notes.push(note);
            }
        }
    }
    Table {
        notes,
        empty: "No branch in the stacks goes back within a function.".to_owned(),
        ..columns.table(request, "pace", "loops in branch stacks", &found)
    }
}

pub(super) fn sharing(request: &Request<'_>) -> Table {
    let found = selected(request).shared_lines();
    let uses = found.lines.iter().flat_map(|line| {
        line.threads.iter().map(|thread| Use {
            pid: line.pid,
            tid: thread.tid,
            address: line.address,
            time: line.time,
            sharing: line.sharing,
            read: thread.read,
            written: thread.written,
            figures: [thread.modified, thread.reads, thread.writes].map(Cell::Number),
            remote: Cell::Number(thread.remote),
            place: thread.place,
        })
    });
    let uses: Vec<Use> = uses.collect();
    let samples = Unit("", CellStyle::Number);
    let mut columns = columns(
        request,
        [
            ("conflicts", "Sampled conflicts", samples, "conflicts"),
            ("sampled_loads", "Sampled loads", samples, ""),
            ("sampled_stores", "Sampled stores", samples, ""),
        ],
    );
    columns.figures([("remote_conflicts", "Of these with another node", samples, "")], |one| {
        [one.remote.clone()]
    });
    let mut notes = Vec::new();
    if let Some((line, sharing)) = found.lines.first().and_then(|one| Some((one, one.sharing?))) {
        notes.push(format!(
            "{} threads use the line {}: {}.",
            line.threads.len(),
            line.address,
            cure(sharing)
        ));
    }
    notes.push(match found.tells_modified {
        true => format!(
            "of {} sampled accesses with an address. A line counts if a load met a modified copy of it in another core \
             (HITM): a conflict. Bytes are the first of each access; the same 8 bytes count as the same.",
            found.samples
        ),
        false => format!(
            "of {} sampled accesses with an address, which do not tell of other caches. A line counts if several threads \
             use it and one writes. Bytes are the first of each access; the same 8 bytes count as the same.",
            found.samples
        ),
    });
    Table {
        notes,
        empty: "No sampled access met a line that another thread had written.".to_owned(),
        ..columns.table(request, "sharing", "cache lines shared by threads, sampled", &uses)
    }
}
