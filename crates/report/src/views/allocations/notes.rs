//! Notes under the tables of heap blocks: huge pages, possible leaks, limits of the figures.

use analysis::Key;
use analysis::heap::{HUGE_PAGES, HeapRow, HeapTable, heap_sums, huge_pages, is_exact};
use analysis::summary::huge_page_share;
use facts::{HeapTotal, LostSource, Metric, Recording, Target};

use super::Request;
use crate::text;

/// Rows that are named as candidates for leaks.
const MOST_LEAKS: usize = 3;

/// Remarks on blocks by code.
pub(super) fn of_code(request: &Request<'_>, keys: &[Key], found: &HeapTable) -> Vec<String> {
    let recording = request.profile.recording;
    let sums = heap_sums(recording);
    let Some(bytes) = sums.bytes.value else { return Vec::new() };
    let mut notes =
        vec![format!("In total {} were allocated (counted at every call).", text::bytes(bytes))];
    let is_part = !request.everything();
    match &found.total {
        Some(row) if is_part => notes.extend(pages("the selected blocks", &row.bytes, &row.peak)),
        _ => notes.extend(pages("all of it", &sums.bytes, &sums.peak)),
    }
    notes.extend(of_mappings(request));
    if let Some(share) = huge_page_share(request.profile).value {
        let share = text::percent(share);
        notes.push(format!(
            "{share} % of the program's anonymous memory was in huge pages already."
        ));
    }
    notes.extend(leaks(request, keys, found));
    notes.extend(of_every_block(request, keys));
    notes.extend(of_processes(request));
    notes
}

/// What a filter on time means where every free was recorded.
pub(super) fn of_freeing_time(request: &Request<'_>) -> Option<String> {
    request.selection.time().map(|_| {
        "The filter on time selects frees by when they were summed up, about once a second. Blocks that were not \
         freed are left out."
            .to_owned()
    })
}

/// What holds for every table of blocks: what was not seen.
pub(super) fn of_processes(request: &Request<'_>) -> Vec<String> {
    let recording = request.profile.recording;
    let mut notes = Vec::new();
    let sum = |of: fn(&HeapTotal) -> u64| recording.heap_totals.iter().map(of).sum::<u64>();
    let inherited = sum(|total| total.inherited.0);
    if inherited > 0 {
        notes.push(format!(
            "{inherited} bytes were live when processes were forked. In the child, neither they nor their frees \
             are in any row."
        ));
    }
    let unknown = sum(|total| total.unknown_frees);
    if unknown > 0 {
        notes.push(match recording.run.target {
            Some(Target::Attached { .. }) => {
                format!("{unknown} frees were of blocks from before the attach.")
            }
            _ => format!("{unknown} frees were of blocks whose allocation was not observed."),
        });
    }
    let forgotten = sum(|total| total.forgotten);
    if forgotten > 0 {
        notes.push(format!(
            "The sizes of {forgotten} blocks were not kept, because memory ran out: live bytes are \
                too high."
        ));
    }
    let lost = recording.lost(LostSource::Allocations);
    if lost > 0 {
        notes.push(format!(
            "{lost} records of blocks were lost: rows are too low, the total is not."
        ));
    }
    notes
}

/// How many huge pages hold so many bytes, and the most that was live of them.
fn pages(what: &str, bytes: &Metric, peak: &Metric) -> Option<String> {
    let values = |metric: &Metric| {
        let [small, large] = huge_pages(metric);
        small.value.zip(large.value)
    };
    let (all, peak) = (values(bytes)?, values(peak)?);
    Some(format!(
        "Huge pages: {what} would fill {:.0} pages of 2 MB or {:.0} of 1 GB; the peak {:.0} of 2 MB or {:.0} of 1 \
         GB.",
        all.0, all.1, peak.0, peak.1
    ))
}

/// The same of what the program maps itself.
fn of_mappings(request: &Request<'_>) -> Option<String> {
    let mapped = request.objects().most_mapped(request.profile.recording);
    let bytes = mapped.value.filter(|bytes| *bytes >= HUGE_PAGES[0].0 as f64)?;
    let [small, large] = huge_pages(&mapped).map(|pages| pages.value.unwrap_or(0.0));
    let least = mapped.note.map_or(String::new(), |why| format!(" ({why})"));
    Some(format!(
        "Besides, the program mapped {} itself at once{least}: {small:.0} huge pages of 2 MB or {large:.0} of 1 GB.",
        text::bytes(bytes)
    ))
}

/// Code none of whose blocks was freed.
fn leaks(request: &Request<'_>, keys: &[Key], found: &HeapTable) -> Option<String> {
    let names_code = keys.iter().any(|key| matches!(key, Key::Function | Key::CallStack));
    if !names_code || !is_exact(request.profile.recording) {
        return None;
    }
    let stacks = &request.profile.stacks;
    let never_freed = |row: &&HeapRow| {
        row.live_blocks.value == row.allocations.value
            && row.live.value > Some(0.0)
            && row.place != stacks.innermost(None)
    };
    let mut rows: Vec<&HeapRow> = found.rows.iter().filter(never_freed).collect();
    rows.sort_by(|a, b| b.live.value.unwrap_or(0.0).total_cmp(&a.live.value.unwrap_or(0.0)));
    let shown: Vec<String> = rows
        .iter()
        .take(MOST_LEAKS)
        .map(|row| {
            let name = &stacks.function_of(row.place).name;
            let [bytes, blocks] =
                [&row.live, &row.live_blocks].map(|metric| metric.value.unwrap_or(0.0));
            format!("{name} ({bytes:.0} bytes in {blocks:.0} blocks)")
        })
        .collect();
    let others = match rows.len().saturating_sub(MOST_LEAKS) {
        0 => String::new(),
        others => format!(" and {others} more rows"),
    };
    (!shown.is_empty())
        .then(|| format!("Never freed, by intention or as a leak: {}{others}.", shown.join(", ")))
}

/// How figures of a recording with every block differ, and their limits.
fn of_every_block(request: &Request<'_>, keys: &[Key]) -> Vec<String> {
    let recording = request.profile.recording;
    if !is_exact(recording) {
        return Vec::new();
    }
    let mut notes = vec![
        "Every block was recorded. Peak: the part of a row that was live at its process's peak. Temporary: freed \
         by the thread that allocated it, before its next allocation."
            .to_owned(),
    ];
    notes.extend(nameless(recording));
    notes.extend(of_threads(request, keys));
    if request.selection.time().is_some() {
        notes.push(
            "The filter on time selects by when blocks were summed up, about once a second."
                .to_owned(),
        );
    }
    notes
}

/// Limits of sums per process for threads.
pub(super) fn of_threads(request: &Request<'_>, keys: &[Key]) -> Option<String> {
    let profile = request.profile;
    if !is_exact(profile.recording) {
        return None;
    }
    let has_part = profile.recording.heap_totals.iter().any(|total| {
        let selection = request.selection;
        let mut threads = profile.threads.all().iter().filter(|thread| thread.pid == total.pid);
        let chooses = |thread: &analysis::Thread| {
            let index = profile.threads.find(thread.pid, thread.tid);
            index.is_some_and(|index| selection.has_thread(index))
        };
        !selection.has_whole_process(profile, total.pid) && threads.any(chooses)
    });
    let what = if has_part {
        "a process of which the filter selects only some threads has no rows"
    } else if keys.contains(&Key::Thread) {
        "threads are not distinguished"
    } else {
        return None;
    };
    Some(format!("Where every block is recorded, sums are of whole processes: {what}."))
}

/// The row of blocks whose stack has no name.
fn nameless(recording: &Recording) -> Option<String> {
    let nameless = recording.heap_stacks.iter().filter(|sum| sum.stack.is_none());
    let blocks = nameless.fold(0, |sum: u64, row| sum.saturating_add(row.allocations));
    (blocks > 0).then(|| {
        format!(
            "{blocks} blocks are in a row without a name: their call stacks could not be unwound, or exceeded the \
             room of the recording."
        )
    })
}
