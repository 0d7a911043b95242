//! `sharing`: lines that threads take from each other, one row per line and thread.

use analysis::sharing::{LineThread, SharedLine, Sharing};

use base::{Bytes, RemoteAddr};

use super::Request;
use super::columns::{cells_of_place, figure, missing, name, of_keys};
use crate::table::{Cell, CellStyle, Table, TextColumn};

pub(crate) fn sharing(request: &Request<'_>) -> Table {
    if super::sampled::answers(request) {
        return super::sampled::sharing(request);
    }
    let profile = request.profile;
    let found = request.prepared.shared(request.selection);
    let mut columns = vec![
        name("line_address", "Line"),
        name("sharing", "Sharing"),
        name("object", "Object"),
        name("object_offset", "Offset in the object"),
        figure("conflicts_per_burst", "Conflicts per burst", "count"),
        name("thread", "Thread"),
        name("bytes_read", "Bytes read"),
        name("bytes_written", "Bytes written"),
        figure("reads_per_burst", "Reads per burst", "count"),
        figure("writes_per_burst", "Writes per burst", "count"),
    ];
    columns.extend(of_keys(&[analysis::Key::Function]));
    let mut rows = Vec::new();
    for line in &found.lines {
        for thread in &line.threads {
            let mut cells = cells(request, line, thread);
            cells.extend(cells_of_place(profile, thread.place));
            rows.push(cells);
        }
    }
    let mut notes = Vec::new();
    if let Some(line) = found.lines.first() {
        notes.push(conclusion(request, line));
    }
    let pairs =
        if found.pairs == 1 { "1 pair".to_owned() } else { format!("{} pairs", found.pairs) };
    notes.push(format!(
        "{pairs} of bursts of two threads, at most 250 ms apart, were compared. A line counts when both threads \
         return to it every 20 µs. Conflicts: how often it can move between cores in a burst."
    ));
    Table {
        view: "sharing",
        result: request.options.result_name.clone(),
        total: missing(columns.len()),
        columns,
        rows,
        notes,
        title: request.title("cache lines shared by threads"),
        text_columns: text_columns(CellStyle::Count("conflicts_per_burst")),
        page: 25,
        empty: match found.pairs {
            0 => "No two bursts of different threads of a process are close enough in time to compare."
                .to_owned(),
            _ => "No shared line was observed.".to_owned(),
        },
    }
}

/// The columns of lines and their threads, with how conflicts of a line are shown.
pub(super) fn text_columns(conflicts: CellStyle) -> Vec<TextColumn> {
    vec![
        CellStyle::Figure("line_address").titled("line"),
        CellStyle::Text("sharing").titled("sharing"),
        conflicts.titled("conflicts"),
        CellStyle::Text("thread").titled("thread"),
        CellStyle::Figure("bytes_read").titled("reads bytes"),
        CellStyle::Figure("bytes_written").titled("writes bytes"),
        CellStyle::Function("function", None).titled("function"),
        CellStyle::SourceLine.titled("source"),
    ]
}

fn cells(request: &Request<'_>, line: &SharedLine, thread: &LineThread) -> Vec<Cell> {
    let object = object(request, line, thread);
    vec![
        Cell::text(line.address.to_string()),
        Cell::text(line.sharing.name()),
        Cell::text_or_missing(object.as_ref().map(|(name, _)| *name)),
        object.map_or(Cell::Missing, |(_, offset)| Cell::text(offset.0.to_string())),
        Cell::metric(line.conflicts.clone()),
        Cell::text(label(request, line, thread)),
        Cell::text(ranges(thread.read)),
        Cell::text(ranges(thread.written)),
        Cell::metric(thread.reads.clone()),
        Cell::metric(thread.writes.clone()),
    ]
}

/// The object that a thread uses in a line, and the offset of the first byte that it uses.
fn object<'a>(
    request: &'a Request<'_>,
    line: &SharedLine,
    thread: &LineThread,
) -> Option<(&'a str, Bytes)> {
    if !request.objects().any() {
        return None;
    }
    let first = u64::from((thread.read | thread.written).trailing_zeros().min(63));
    let address = RemoteAddr(line.address.0.saturating_add(first));
    let (object, offset) = request.objects().at(line.pid, address, line.time);
    Some((&request.objects().get(object).name, offset))
}

fn label(request: &Request<'_>, line: &SharedLine, thread: &LineThread) -> String {
    let threads = &request.profile.threads;
    let known = threads.find(line.pid, thread.tid);
    known.map_or_else(|| thread.tid.to_string(), |known| threads.get(known).label())
}

fn conclusion(request: &Request<'_>, line: &SharedLine) -> String {
    let functions: Vec<&str> = line
        .threads
        .iter()
        .map(|thread| request.profile.stacks.function_of(thread.place).name.as_str())
        .collect();
    let mut functions: Vec<&str> = functions.into_iter().take(2).collect();
    functions.dedup();
    let cure = cure(line.sharing);
    let object = line.threads.first().and_then(|thread| object(request, line, thread));
    let of = object.map_or(String::new(), |(name, _)| format!(" of {name}"));
    format!(
        "{} threads in {} share the line {}{of}: {cure}.",
        line.threads.len(),
        functions.join(" and "),
        line.address
    )
}

/// What would end the conflicts.
pub(super) fn cure(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::False => "they use different bytes: 64 bytes apart they would not conflict",
        Sharing::True => "they use the same bytes: share less often, or keep a copy per thread",
        Sharing::Both => "some use the same bytes, others different bytes",
    }
}

/// `0-7,16-23`; `-` for none.
pub(super) fn ranges(mask: u64) -> String {
    let is_set = |bit: u32| bit < 64 && mask >> bit & 1 == 1;
    let mut ranges = Vec::new();
    let mut bit = 0;
    while bit < 64 {
        if is_set(bit) {
            let first = bit;
            while is_set(bit) {
                bit += 1;
            }
            ranges.push(match bit - 1 {
                last if last == first => first.to_string(),
                last => format!("{first}-{last}"),
            });
        }
        bit += 1;
    }
    if ranges.is_empty() { "-".to_owned() } else { ranges.join(",") }
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn bytes_of_a_line_are_ranges() {
        assert_eq!(ranges(0), "-");
        assert_eq!(ranges(0xff), "0-7");
        assert_eq!(ranges(0x8000_0000_00ff_0001), "0,16-23,63");
        assert_eq!(ranges(u64::MAX), "0-63");
    }
}
