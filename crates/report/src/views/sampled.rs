//! `latency`, `objects` and `sharing` from memory accesses that the hardware sampled, `pace` from its branch stacks.
//!
//! What for: the same views, with the same keys and words, of recordings that have such samples and no bursts. Latencies are in
//! cycles: a recording does not tell the clock of its cores at each load. What not: figures that need every access of a stretch
//! (strides, reuse, traffic).

use analysis::memory::Latency;
use analysis::objects::{Grouping, Objects};
use analysis::sampled::{
    SampledAccesses, SampledLine, SampledLoop, SampledRow, SampledThread, has_sampled_accesses,
    sampled_loops,
};
use analysis::{Key, Profile, Selection, TracedCode};
use base::RemoteAddr;
use facts::Metric;

use super::Request;
use super::columns::{
    cells_of_key, cells_of_objects, cells_of_place, columns_next_to_objects, figure, missing, name,
    names, of_keys, of_objects,
};
use super::objects::object_bytes;
use super::sharing::{cure, ranges, text_columns};
use crate::table::{Cell, CellStyle, Column, Table};

/// Whether the views are of samples.
pub(super) fn answers(request: &Request<'_>) -> bool {
    request.profile.recording.bursts.is_empty() && has_sampled_accesses(request.profile)
}

fn selected<'a>(request: &Request<'a>) -> SampledAccesses<'a> {
    SampledAccesses::new(request.profile, request.selection, request.objects())
}

/// The first screen's sentence: `130 cycles on average, 17.1 % from memory`.
pub(crate) fn sampled_loads(profile: &Profile<'_>) -> Option<String> {
    if !has_sampled_accesses(profile) {
        return None;
    }
    // No object is chosen: none need be known.
    let objects = Objects::new(profile);
    let accesses = SampledAccesses::new(profile, &Selection::default(), &objects);
    let levels = accesses.levels();
    let mut says = Vec::new();
    if let Ok(latency) = accesses.latency() {
        let bounds = latency.mean.low.zip(latency.mean.high);
        let bounds =
            bounds.map_or(String::new(), |(low, high)| format!(" ({low:.0} to {high:.0})"));
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
    let sampled = |note: &&String| note.contains("cycles or more");
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
    let shown = [
        CellStyle::Percent("load_time_percent").titled("load time %"),
        CellStyle::Figure("latency").titled("mean"),
        CellStyle::Figure("latency_p95").titled("95 %"),
        CellStyle::Count("l1").titled("L1 %"),
        CellStyle::Count("l3").titled("L3 %"),
        CellStyle::Count("dram").titled("DRAM %"),
        CellStyle::Count("remote").titled("remote %"),
        CellStyle::Count("modified").titled("HITM %"),
    ];
    rows(request, code, ("latency", &title), keys, &shown)
}

pub(super) fn objects(request: &Request<'_>, code: &TracedCode, keys: &[Key]) -> Table {
    let by = if keys == [Key::Object] { String::new() } else { format!(" by {}", names(keys)) };
    let title = format!("memory objects{by}, sampled accesses");
    let shown = [
        CellStyle::Percent("load_time_percent").titled("load time %"),
        CellStyle::Number("accesses").titled("samples"),
        CellStyle::Figure("latency").titled("mean"),
        CellStyle::Count("dram").titled("DRAM %"),
        CellStyle::Count("remote").titled("remote %"),
        CellStyle::Count("modified").titled("HITM %"),
        CellStyle::Bytes("object_bytes").titled("size"),
    ];
    rows(request, code, ("objects", &title), keys, &shown)
}

fn columns(keys: &[Key]) -> Vec<Column> {
    let mut columns = of_objects(keys);
    columns.extend(of_keys(keys));
    columns.extend([
        name("accesses", "Sampled accesses"),
        name("sampled_loads", "Sampled loads"),
        name("sampled_stores", "Sampled stores"),
        figure("load_percent", "Share of loads", "percent"),
        figure("store_percent", "Share of stores", "percent"),
        figure("load_time_percent", "Share of load time", "percent"),
        figure("latency", "Mean latency", "cycles"),
        figure("latency_p50", "Median", "cycles"),
        figure("latency_p95", "95 %", "cycles"),
        figure("latency_p99", "99 %", "cycles"),
        figure("l1", "Loads from L1", "percent"),
        figure("fill_buffer", "Loads of lines on their way", "percent"),
        figure("l2", "Loads from L2", "percent"),
        figure("l3", "Loads from L3", "percent"),
        figure("remote_cache", "Loads from a remote cache", "percent"),
        figure("dram", "Loads from memory", "percent"),
        figure("remote", "Loads from remote memory", "percent"),
        figure("modified", "Loads of modified lines (HITM)", "percent"),
        figure("page_walks", "Loads after a page walk", "percent"),
    ]);
    if keys.contains(&Key::Object) {
        columns.push(figure("object_bytes", "Bytes", "bytes"));
    }
    columns
}

fn rows(
    request: &Request<'_>,
    code: &TracedCode,
    (view, title): (&'static str, &str),
    keys: &[Key],
    shown: &[crate::table::TextColumn],
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
    let cells = |row: &SampledRow| {
        let mut cells = cells_of_objects(request, keys, &row.key);
        cells.extend(cells_of_key(request.profile, keys, &row.key, row.place, None));
        cells.extend([
            Cell::Number(row.loads.saturating_add(row.stores)),
            Cell::Number(row.loads),
            Cell::Number(row.stores),
        ]);
        let unknown = |why: &String| Metric::unavailable("cycles", why);
        let of = |part: fn(&Latency) -> &Metric| match &row.latency {
            Ok(latency) => part(latency).clone(),
            Err(why) => unknown(why),
        };
        let levels = &row.levels;
        let figures = [
            row.load_share.clone(),
            row.store_share.clone(),
            row.time_share.clone(),
            of(|latency| &latency.mean),
            of(|latency| &latency.p50),
            of(|latency| &latency.p95),
            of(|latency| &latency.p99),
            levels.l1.clone(),
            levels.fill_buffer.clone(),
            levels.l2.clone(),
            levels.l3.clone(),
            levels.remote_cache.clone(),
            levels.dram.clone(),
            levels.remote_dram.clone(),
            levels.modified.clone(),
            levels.page_walks.clone(),
        ];
        cells.extend(figures.map(Cell::metric));
        if keys.contains(&Key::Object) {
            let object = row.key.object.map(|id| request.objects().get(id));
            cells.push(object.map_or(Cell::Missing, |one| Cell::metric(object_bytes(one))));
        }
        cells
    };
    let columns = columns(keys);
    let mut text_columns = shown.to_vec();
    text_columns.extend(columns_next_to_objects(keys));
    let table = Table {
        view,
        result: request.options.result_name.clone(),
        rows: found.iter().map(cells).collect(),
        total: missing(columns.len()),
        columns,
        notes: notes(request, &accesses),
        title: request.title(title),
        text_columns,
        page: 25,
        empty: without.unwrap_or_else(|| empty(request)),
    };
    table.limited(request.options.limit)
}

fn histogram(request: &Request<'_>) -> Table {
    let accesses = selected(request);
    let found = accesses.latency();
    let steps = found.as_ref().map_or(&[][..], |found| &found.histogram);
    let row = |(from, to, share): &(f64, f64, Metric)| {
        let to = if to.is_finite() { Cell::text(format!("{to:.0}")) } else { Cell::Missing };
        vec![Cell::text(format!("{from:.0}")), to, Cell::metric(share.clone())]
    };
    let mut notes = notes(request, &accesses);
    if let Ok(found) = &found {
        let one = |what: &str, metric: &Metric| {
            let bounds = metric.low.zip(metric.high);
            let bounds =
                bounds.map_or(String::new(), |(low, high)| format!(" ({low:.0} to {high:.0})"));
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
    let table = Table {
        view: "latency",
        result: request.options.result_name.clone(),
        columns: vec![
            name("from", "From, cycles"),
            name("to", "To, cycles"),
            figure("load_percent", "Share of loads", "percent"),
        ],
        rows: steps.iter().map(row).collect(),
        total: missing(3),
        notes,
        title: request.title("latency of sampled loads, cycles"),
        text_columns: vec![
            CellStyle::Figure("from").titled("from"),
            CellStyle::Figure("to").titled("to"),
            CellStyle::Percent("load_percent").titled("loads %"),
            CellStyle::Bar("load_percent").titled(""),
        ],
        page: usize::MAX,
        empty: empty(request),
    };
    table.limited(request.options.limit)
}

/// `pace` of branch stacks: how often loops go round, without their time.
pub(super) fn loops(request: &Request<'_>) -> Table {
    let found = sampled_loops(request.profile, request.selection);
    let mut columns = of_keys(&[Key::Function]);
    columns.extend([
        name("branches", "Branches back in stacks"),
        figure("branch_percent", "Share of branches back", "percent"),
        figure("trip_count", "Trip count", "count"),
    ]);
    let cells = |one: &SampledLoop| {
        let mut cells = cells_of_place(request.profile, one.place);
        cells.extend([
            Cell::Number(one.taken),
            Cell::metric(one.share.clone()),
            Cell::metric(one.trip_count.clone()),
        ]);
        cells
    };
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
    let table = Table {
        view: "pace",
        result: request.options.result_name.clone(),
        rows: found.iter().map(cells).collect(),
        total: missing(columns.len()),
        columns,
        notes,
        title: request.title("loops in branch stacks"),
        text_columns: vec![
            CellStyle::Percent("branch_percent").titled("branches %"),
            CellStyle::Number("branches").titled("branches"),
            CellStyle::Measure("trip_count").titled("trips"),
            CellStyle::Function("function", None).titled("function"),
            CellStyle::SourceLine.titled("loop at"),
            CellStyle::Text("module").titled("module"),
        ],
        page: 25,
        empty: "No branch in the stacks goes back within a function.".to_owned(),
    };
    table.limited(request.options.limit)
}

pub(super) fn sharing(request: &Request<'_>) -> Table {
    let found = selected(request).shared_lines();
    let mut columns = vec![
        name("line_address", "Line"),
        name("sharing", "Sharing"),
        name("object", "Object"),
        name("object_offset", "Offset in the object"),
        name("conflicts", "Sampled conflicts"),
        name("thread", "Thread"),
        name("bytes_read", "Bytes read"),
        name("bytes_written", "Bytes written"),
        name("sampled_loads", "Sampled loads"),
        name("sampled_stores", "Sampled stores"),
    ];
    columns.extend(of_keys(&[Key::Function]));
    let pairs = found.lines.iter().flat_map(|line| line.threads.iter().map(move |one| (line, one)));
    let rows: Vec<Vec<Cell>> = pairs.map(|(line, thread)| of_line(request, line, thread)).collect();
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
    let table = Table {
        view: "sharing",
        result: request.options.result_name.clone(),
        total: missing(columns.len()),
        columns,
        rows,
        notes,
        title: request.title("cache lines shared by threads, sampled"),
        text_columns: text_columns(CellStyle::Number("conflicts")),
        page: 25,
        empty: "No sampled access met a line that another thread had written.".to_owned(),
    };
    table.limited(request.options.limit)
}

fn of_line(request: &Request<'_>, line: &SampledLine, thread: &SampledThread) -> Vec<Cell> {
    let first = u64::from((thread.read | thread.written).trailing_zeros().min(63));
    let address = RemoteAddr(line.address.0.saturating_add(first));
    let object = request.objects().any().then(|| {
        let (object, offset) = request.objects().at(line.pid, address, line.time);
        (request.objects().get(object).name.as_str(), offset)
    });
    let threads = &request.profile.threads;
    let known = threads.find(line.pid, thread.tid);
    let mut cells = vec![
        Cell::text(line.address.to_string()),
        Cell::text_or_missing(line.sharing.map(analysis::sharing::Sharing::name)),
        Cell::text_or_missing(object.map(|(name, _)| name)),
        object.map_or(Cell::Missing, |(_, offset)| Cell::text(offset.0.to_string())),
        Cell::Number(thread.modified),
        Cell::text(known.map_or_else(|| thread.tid.to_string(), |one| threads.get(one).label())),
        Cell::text(ranges(thread.read)),
        Cell::text(ranges(thread.written)),
        Cell::Number(thread.reads),
        Cell::Number(thread.writes),
    ];
    cells.extend(cells_of_place(request.profile, thread.place));
    cells
}
