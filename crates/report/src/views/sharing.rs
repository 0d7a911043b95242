//! `sharing`: lines that threads take from each other, one row per line and thread.

use analysis::LocationId;
use analysis::sharing::{SharedLine, Sharing};
use base::{Bytes, Nanos, Pid, RemoteAddr, Tid};

use super::Request;
use super::list::{COUNT, Columns, Figure};
use crate::table::{Cell, CellStyle, Table};

pub(crate) fn sharing(request: &Request<'_>) -> Table {
    if super::sampled::answers(request) {
        return super::sampled::sharing(request);
    }
    let found = request.prepared.shared(request.selection);
    let uses = found.lines.iter().flat_map(|line| {
        line.threads.iter().map(|thread| Use {
            pid: line.pid,
            tid: thread.tid,
            address: line.address,
            time: line.time,
            sharing: Some(line.sharing),
            read: thread.read,
            written: thread.written,
            figures: [&line.conflicts, &thread.reads, &thread.writes]
                .map(|metric| Cell::metric(metric.clone())),
            remote: Cell::Missing,
            place: thread.place,
        })
    });
    let uses: Vec<Use> = uses.collect();
    let columns = columns(
        request,
        [
            ("conflicts_per_burst", "Conflicts per burst", COUNT, "conflicts"),
            ("reads_per_burst", "Reads per burst", COUNT, ""),
            ("writes_per_burst", "Writes per burst", COUNT, ""),
        ],
    );
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
        notes,
        empty: match found.pairs {
            0 => "No two bursts of different threads of a process are close enough in time to compare."
                .to_owned(),
            _ => "No shared line was observed.".to_owned(),
        },
        ..columns.table(request, "sharing", "cache lines shared by threads", &uses)
    }
}

/// A line and a thread that uses it.
pub(super) struct Use {
    pub(super) pid: Pid,
    pub(super) tid: Tid,
    pub(super) address: RemoteAddr,
    pub(super) time: Nanos,
    pub(super) sharing: Option<Sharing>,
    /// Bytes of the line, bit 0 for the first.
    pub(super) read: u64,
    pub(super) written: u64,
    /// Conflicts of the line, and the thread's reads and writes of it.
    pub(super) figures: [Cell; 3],
    /// Of its conflicts, those with a core of another node, where that is known.
    pub(super) remote: Cell,
    pub(super) place: LocationId,
}

/// The columns of lines and their threads, with those of [`Use::figures`].
pub(super) fn columns<'a>(request: &'a Request<'a>, figures: [Figure; 3]) -> Columns<'a, Use> {
    let [conflicts, reads, writes] = figures;
    let object =
        |one: &Use| object(request, one.pid, one.address, one.read | one.written, one.time);
    let mut columns = Columns::new();
    columns.name("line_address", "Line", CellStyle::Figure, "line", |one: &Use| {
        Cell::text(one.address.to_string())
    });
    columns.name("sharing", "Sharing", CellStyle::Text, "sharing", |one| {
        Cell::text_or_missing(one.sharing.map(Sharing::name))
    });
    columns.name("object", "Object", CellStyle::Text, "", move |one| {
        Cell::text_or_missing(object(one).map(|(name, _)| name))
    });
    columns.name("object_offset", "Offset in the object", CellStyle::Text, "", move |one| {
        object(one).map_or(Cell::Missing, |(_, offset)| Cell::text(offset.0.to_string()))
    });
    columns.figures([conflicts], |one| [one.figures[0].clone()]);
    columns.name("thread", "Thread", CellStyle::Text, "thread", |one| {
        let threads = &request.profile.threads;
        let known = threads.find(one.pid, one.tid);
        Cell::text(known.map_or_else(|| one.tid.to_string(), |known| threads.get(known).label()))
    });
    columns.name("bytes_read", "Bytes read", CellStyle::Figure, "reads bytes", |one| {
        Cell::text(ranges(one.read))
    });
    columns.name("bytes_written", "Bytes written", CellStyle::Figure, "writes bytes", |one| {
        Cell::text(ranges(one.written))
    });
    columns.figures([reads, writes], |one| [one.figures[1].clone(), one.figures[2].clone()]);
    columns.place(request, |one| one.place);
    columns.show(&[
        "line_address",
        "sharing",
        conflicts.0,
        "thread",
        "bytes_read",
        "bytes_written",
    ]);
    columns.text.push(CellStyle::Function("function", None).titled("function"));
    columns.text.push(CellStyle::SourceLine.titled("source"));
    columns
}

/// The object that a line is in at a time, and the offset of the first of these bytes of the line.
fn object<'a>(
    request: &Request<'a>,
    pid: Pid,
    address: RemoteAddr,
    bytes: u64,
    time: Nanos,
) -> Option<(&'a str, Bytes)> {
    if !request.objects().any() {
        return None;
    }
    let first = u64::from(bytes.trailing_zeros().min(63));
    let address = RemoteAddr(address.0.saturating_add(first));
    let (object, offset) = request.objects().at(pid, address, time);
    Some((&request.objects().get(object).name, offset))
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
    let object = line.threads.first().and_then(|thread| {
        object(request, line.pid, line.address, thread.read | thread.written, line.time)
    });
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
