//! Tables of `likwid-perfctr -O` (CSV).
//!
//! What for: the counts of each group of events become counted events; what memory controllers counted becomes the traffic of sockets.
//! A group that was measured for a part of the run (`-T`) had a counter for that part. What not: likwid's own metrics, which views compute
//! anew; when something happened: each group has one count.
//!
//! Source: `printOutput`, `printcsv` and `getResults` in src/applications/likwid.lua of likwid 5. A table's lines are padded with commas;
//! other lines are the program's own output, which the file may have, too. Where likwid could not count, it writes `-` or `nan`
//! (`perfmon_getResult`); hardware threads that do not read a socket's counters have 0. So a cell without a number is a part that is
//! missing: its event then has no sum. Everything in it is an allegation: sizes are bounded, and numbers are finite or none.

use std::collections::HashMap;
use std::path::Path;

use base::Nanos;
use facts::{CountedEvent, EventCount, EventUse, Fact, Sink, SourceEvent};

use crate::{ImportError, Imported};

/// Larger files are none.
const MOST_BYTES: u64 = 64 << 20;
const MOST_EVENTS: usize = 10_000;
const MOST_THREADS: usize = 1 << 16;
/// Events that a note names.
const MOST_NAMED: usize = 8;
/// Between two counts of a run in nanoseconds; longer ones are no run's.
const LONGEST_SECONDS: f64 = 1e9;
/// What likwid calls processors (src/topology.c), and vendor and `family/model/stepping` of one of them.
const CPUS: [(&str, &str, &str); 8] = [
    ("Skylake SP", "GenuineIntel", "6/85/4"),
    ("Cascadelake SP", "GenuineIntel", "6/85/7"),
    ("Icelake SP", "GenuineIntel", "6/106/6"),
    ("SapphireRapids", "GenuineIntel", "6/143/8"),
    ("EmeraldRapids", "GenuineIntel", "6/207/2"),
    ("GraniteRapids", "GenuineIntel", "6/173/1"),
    ("(Zen3)", "AuthenticAMD", "25/1/1"),
    ("(Zen4)", "AuthenticAMD", "25/17/1"),
];
/// Counters of memory controllers, and their events by direction (`machine::traffic_events`).
const CONTROLLERS: &str = "MBOX";
const TRAFFIC: [(&str, &str); 2] =
    [("CAS_COUNT_RD", "memory reads"), ("CAS_COUNT_WR", "memory writes")];
const LINES_PER_THOUSAND: u32 = 64_000;

/// An event of a group.
struct Event {
    name: String,
    counter: String,
    /// By hardware thread; `None` where the cell has no number.
    counts: Vec<Option<u64>>,
}

impl Event {
    fn of_core(&self) -> bool {
        self.counter.starts_with("PMC") || self.counter.starts_with("FIXC")
    }

    fn of_controller(&self) -> bool {
        self.counter.starts_with(CONTROLLERS)
    }
}

/// A group that was measured, of the whole run or in a region of the marker API.
#[derive(Default)]
struct Group {
    number: u32,
    region: Option<String>,
    /// What likwid calls its hardware threads.
    threads: Vec<String>,
    seconds: f64,
    events: Vec<Event>,
}

/// What a line belongs to.
#[derive(PartialEq)]
enum Part {
    Nothing,
    Info,
    Counts,
    Metrics,
}

/// Reads the file into `sink`.
///
/// # Errors
/// `NotPerfData` where it has no table of likwid; else see [`ImportError`].
pub(crate) fn likwid(path: &Path, sink: &mut dyn Sink) -> Result<Imported, ImportError> {
    let unreadable = |source| ImportError::Unreadable { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > MOST_BYTES {
        return Err(ImportError::NotPerfData(path.to_owned()));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let mut imported = Imported::default();
    let groups = groups(&String::from_utf8_lossy(&bytes), &mut imported);
    if groups.is_empty() {
        return Err(ImportError::NotPerfData(path.to_owned()));
    }
    let damaged = |why: &str| ImportError::Damaged { path: path.to_owned(), why: why.to_owned() };
    let mut events = groups.iter().flat_map(|group| &group.events);
    if events.all(|event| event.counts.iter().all(Option::is_none)) {
        return Err(damaged("its tables have no event with a count"));
    }
    if groups.iter().any(|group| group.seconds <= 0.0) {
        return Err(damaged("a group has no 'Runtime (RDTSC) [s]'"));
    }
    if let Some(missing) = push(&groups, &mut imported, sink)? {
        return Err(damaged(&format!("no event has all its counts: {missing}")));
    }
    imported.source.file = path.display().to_string();
    imported.source.tool = "likwid-perfctr".to_owned();
    Ok(imported)
}

/// Fields of a line, without its padding.
fn fields(line: &str) -> Vec<&str> {
    line.trim_end_matches(['\r', ',']).split(',').map(str::trim).collect()
}

fn groups(text: &str, imported: &mut Imported) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut part = Part::Nothing;
    let mut events = 0;
    for line in text.lines() {
        let fields = fields(line);
        match (fields.as_slice(), &part) {
            (["STRUCT", "Info", ..], _) => part = Part::Info,
            (["TABLE", rest @ ..], _) => part = table(rest, &mut groups),
            (["CPU name:", rest @ ..], Part::Info) => imported.machine.cpu = rest.join(", "),
            (["CPU type:", name, ..], Part::Info) => {
                let known = CPUS.iter().find(|(known, ..)| name.contains(known));
                imported.machine.cpu_id =
                    known.map(|(_, vendor, id)| ((*vendor).to_owned(), (*id).to_owned()));
            }
            (["Event", "Counter", threads @ ..], Part::Counts) => {
                // A table has one head.
                if let Some(group) = groups.last_mut().filter(|group| group.threads.is_empty()) {
                    let threads = threads.iter().take(MOST_THREADS);
                    group.threads = threads.map(|name| (*name).to_owned()).collect();
                }
            }
            (
                ["Runtime (RDTSC) [s]" | "RDTSC Runtime [s]", values @ ..],
                Part::Counts | Part::Metrics,
            ) => {
                // The longest of all threads; `TSC` is the name of its counter.
                let values = values.iter().filter_map(|value| seconds(value));
                if let Some(group) = groups.last_mut() {
                    group.seconds = values.fold(group.seconds, f64::max);
                }
            }
            ([name, counter, values @ ..], Part::Counts) if !name.is_empty() => {
                let Some(group) = groups.last_mut().filter(|_| events < MOST_EVENTS) else {
                    continue;
                };
                let all = group.threads.len();
                if all == 0 {
                    continue;
                }
                let mut counts: Vec<Option<u64>> =
                    values.iter().take(all).map(|value| count(value)).collect();
                counts.resize(all, None);
                // Without a number it may be a line of the program.
                if counts.iter().any(Option::is_some) || is_counter(counter) {
                    events += 1;
                    let (name, counter) = ((*name).to_owned(), (*counter).to_owned());
                    group.events.push(Event { name, counter, counts });
                }
            }
            _ => {}
        }
    }
    if events == MOST_EVENTS {
        imported.notes.push(format!("only the first {MOST_EVENTS} events of the file were read"));
    }
    groups
}

/// `Group 1 Raw,MEM,9` or `Region NAME,Group 1 Metric,MEM,9`. Statistics over threads say nothing more.
fn table(fields: &[&str], groups: &mut Vec<Group>) -> Part {
    let (region, title) = match fields {
        [region, title, ..] if region.starts_with("Region ") => {
            (region.strip_prefix("Region "), *title)
        }
        [title, ..] => (None, *title),
        [] => return Part::Nothing,
    };
    let number = |kind| title.strip_prefix("Group ")?.strip_suffix(kind)?.parse::<u32>().ok();
    match (number(" Raw"), number(" Metric")) {
        (Some(number), _) => {
            groups.push(Group { number, region: region.map(str::to_owned), ..Group::default() });
            Part::Counts
        }
        (_, Some(_)) if !groups.is_empty() => Part::Metrics,
        _ => Part::Nothing,
    }
}

/// `PMC0`, `MBOX3C1:EDGEDETECT`.
fn is_counter(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or_default();
    let part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(part)
        && name.bytes().any(|byte| byte.is_ascii_digit())
}

fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= LONGEST_SECONDS)
}

/// `1234` or `1.234e+09`; `-` and `nan` where the thread does not count it.
fn count(text: &str) -> Option<u64> {
    let count: f64 = text.parse().ok()?;
    (0.0..u64::MAX as f64).contains(&count).then(|| text.parse().unwrap_or(count.round() as u64))
}

/// Each event once, with what each of its groups counted; groups of one region ran one after the other. Returns what is missing where
/// no event has all its counts.
fn push(
    groups: &[Group],
    imported: &mut Imported,
    sink: &mut dyn Sink,
) -> Result<Option<String>, ImportError> {
    let mut regions: Vec<Option<&str>> = Vec::new();
    for group in groups {
        if !regions.contains(&group.region.as_deref()) {
            regions.push(group.region.as_deref());
        }
    }
    let mut id = 0;
    let mut elapsed: f64 = 0.0;
    let mut readings: Vec<EventCount> = Vec::new();
    let mut missing = Vec::new();
    for region in &regions {
        let of_region: Vec<&Group> =
            groups.iter().filter(|group| group.region.as_deref() == *region).collect();
        elapsed = elapsed.max(of_region.iter().map(|group| group.seconds).sum());
        let counted = counted(&of_region, *region, &mut missing);
        for counted in counted.into_iter().filter(|one| one.counts.iter().any(Option::is_some)) {
            let events = &mut imported.source.events;
            if counted.socket.is_none() && events.iter().all(|one| one.name != counted.name) {
                let (name, used_as) = (counted.name.clone(), EventUse::Counts);
                events.push(SourceEvent { name, samples: 0, used_as });
            }
            let event = CountedEvent {
                id,
                name: counted.name,
                group: counted.group,
                kernel: false,
                socket: counted.socket,
                bytes_per_thousand: counted.socket.map(|_| LINES_PER_THOUSAND),
                link: None,
            };
            sink.push(Fact::CountedEvent(event))?;
            let mut end = 0.0;
            for (group, count) in of_region.iter().zip(counted.counts) {
                end += group.seconds;
                let nanos = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
                let threads = if counted.socket.is_some() { 1 } else { group.threads.len().max(1) };
                let enabled = nanos(group.seconds * threads as f64);
                let running = if count.is_some() { enabled } else { Nanos(0) };
                let count = count.unwrap_or(0);
                let fact = EventCount { time: nanos(end), event: id, count, enabled, running };
                readings.push(fact);
            }
            id += 1;
        }
    }
    let named = missing.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let named = match missing.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    };
    if id == 0 {
        return Ok(Some(named));
    }
    if !missing.is_empty() {
        imported.notes.push(format!(
            "likwid has no number of {named}: these events have no count of that group, because a sum of the others would be too small"
        ));
    }
    readings.sort_by_key(|one| one.time);
    for reading in readings {
        sink.push(Fact::EventCount(reading))?;
    }
    imported.elapsed = Nanos((elapsed * 1e9).round() as u64);
    imported.notes.push(
        "likwid counted all that ran on its hardware threads, not the program alone; it writes counts of more than 12 digits with 7".to_owned(),
    );
    if regions.iter().any(Option::is_some) {
        imported.notes.push(
            "events of a region of likwid's marker API have the region in their names; how often threads passed a region was not imported"
                .to_owned(),
        );
    }
    Ok(None)
}

/// An event with its count in each group; `None` where the group does not have it, or not all of it.
struct Counted {
    name: String,
    group: u32,
    socket: Option<u32>,
    counts: Vec<Option<u64>>,
}

/// `missing` gets what events lack.
fn counted(groups: &[&Group], region: Option<&str>, missing: &mut Vec<String>) -> Vec<Counted> {
    let mut found: Vec<Counted> = Vec::new();
    let mut known: HashMap<(String, Option<u32>), usize> = HashMap::new();
    let mut add = |name: String, socket, at: usize, group: &Group, count: Option<u64>| {
        let index = *known.entry((name.clone(), socket)).or_insert_with(|| {
            found.push(Counted {
                name,
                group: group.number,
                socket,
                counts: vec![None; groups.len()],
            });
            found.len() - 1
        });
        found[index].counts[at] = count;
    };
    for (at, group) in groups.iter().enumerate() {
        // One hardware thread of each socket reads the socket's controllers; the others have nothing of them.
        let reads = |thread: &usize| {
            let mut events = group.events.iter().filter(|event| event.of_controller());
            events.any(|event| event.counts.get(*thread).is_some_and(|count| *count > Some(0)))
        };
        let readers: Vec<usize> = (0..group.threads.len()).filter(reads).collect();
        for rows in by_name(&group.events) {
            let name = &rows[0].name;
            // Channels of one kind add up; two counters of a core that count the same do not.
            let whole = |row: &&&Event| row.counts.iter().all(Option::is_some);
            let first =
                if rows[0].of_core() { rows.iter().find(whole).or(rows.first()) } else { None };
            let parts = first.map_or(rows.as_slice(), std::slice::from_ref);
            let sum = sum(parts.iter().flat_map(|row| row.counts.iter().copied()));
            let name_here = match region {
                None => name.clone(),
                Some(region) => format!("{name}, region {region}"),
            };
            if sum.is_none() {
                missing.push(format!("{name_here} ({})", places(parts, group)));
            }
            add(name_here, None, at, group, sum);
            let traffic = TRAFFIC.iter().find(|(known, _)| known == name);
            let Some((_, traffic)) =
                traffic.filter(|_| region.is_none() && rows[0].of_controller())
            else {
                continue;
            };
            for (socket, thread) in (0_u32..).zip(&readers) {
                // Views add sockets up: none has a count where one lacks a part.
                let of_thread = |row: &&Event| row.counts.get(*thread).copied().flatten();
                let sum = sum.and_then(|_| self::sum(rows.iter().map(of_thread)));
                add((*traffic).to_owned(), Some(socket), at, group, sum);
            }
        }
    }
    found
}

/// Rows of one event together, in the order of the table.
fn by_name(events: &[Event]) -> Vec<Vec<&Event>> {
    let mut rows: Vec<Vec<&Event>> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for event in events {
        let index = *known.entry(&event.name).or_insert_with(|| {
            rows.push(Vec::new());
            rows.len() - 1
        });
        rows[index].push(event);
    }
    rows
}

/// `None` where a part is missing.
fn sum(mut parts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    parts.try_fold(0_u64, |sum, one| Some(sum.saturating_add(one?)))
}

/// The first cells without a number: `MBOX1C1`, or `FIXC0 on HWThread 3` where other threads have one.
fn places(rows: &[&Event], group: &Group) -> String {
    let lacking = rows.iter().filter_map(|row| {
        let thread = row.counts.iter().position(Option::is_none)?;
        let counter = &row.counter;
        let none_has = row.counts.iter().all(Option::is_none);
        Some(if none_has {
            counter.clone()
        } else {
            format!("{counter} on {}", group.threads[thread])
        })
    });
    let mut named: Vec<String> = lacking.take(MOST_NAMED).collect();
    named.dedup();
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_SOCKETS: &str = include_str!("../tests/likwid/mem.csv");

    fn imported(name: &str, text: &str) -> (Result<Imported, ImportError>, Vec<Fact>) {
        let path =
            std::env::temp_dir().join(format!("fathom-likwid-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a file can be written");
        let mut facts = Vec::new();
        let result = likwid(&path, &mut facts);
        let _ = std::fs::remove_file(&path);
        (result, facts)
    }

    /// The count, and whether it had a counter.
    type Reading = (u64, bool);
    /// Name, socket, readings.
    type Row<R> = (String, Option<u32>, R);

    fn events(facts: &[Fact]) -> Vec<Row<Vec<Reading>>> {
        let mut found = Vec::new();
        for fact in facts {
            match fact {
                Fact::CountedEvent(event) => {
                    found.push((event.name.clone(), event.socket, Vec::new()))
                }
                Fact::EventCount(count) => {
                    let of = &mut found[count.event as usize].2;
                    of.push((count.count, count.running > Nanos(0)));
                }
                other => panic!("{other:?}"),
            }
        }
        found
    }

    /// Two groups that took turns on two sockets, with the program's own lines between.
    #[test]
    fn groups_that_took_turns_and_the_traffic_of_sockets() {
        let (result, facts) = imported("mem", TWO_SOCKETS);
        let imported = result.expect("a file of likwid");
        assert_eq!(imported.elapsed, Nanos(3_000_000_000));
        assert_eq!(imported.machine.cpu, "Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz");
        let id = ("GenuineIntel".to_owned(), "6/106/6".to_owned());
        assert_eq!(imported.machine.cpu_id, Some(id));
        let found = events(&facts);
        let expected = [
            ("INSTR_RETIRED_ANY", None, [(30_000_000_000, true), (6_000_000, true)]),
            ("CPU_CLK_UNHALTED_CORE", None, [(16_000_000_000, true), (0, false)]),
            ("CAS_COUNT_RD", None, [(1_500_000_300, true), (0, false)]),
            ("memory reads", Some(0), [(1_000_000_200, true), (0, false)]),
            ("memory reads", Some(1), [(500_000_100, true), (0, false)]),
            ("CAS_COUNT_WR", None, [(280_000_000, true), (0, false)]),
            ("memory writes", Some(0), [(250_000_000, true), (0, false)]),
            ("memory writes", Some(1), [(30_000_000, true), (0, false)]),
            ("L1D_REPLACEMENT", None, [(0, false), (42, true)]),
        ];
        let expected = expected.map(|(name, socket, counts): (&str, _, [Reading; 2])| {
            (name.to_owned(), socket, counts.to_vec())
        });
        assert_eq!(found, expected);
        let names: Vec<&str> = imported.source.events.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "INSTR_RETIRED_ANY",
                "CPU_CLK_UNHALTED_CORE",
                "CAS_COUNT_RD",
                "CAS_COUNT_WR",
                "L1D_REPLACEMENT"
            ]
        );
    }

    #[test]
    fn regions_have_events_of_their_own() {
        let text = "TABLE,Region solve,Group 1 Raw,CLOCK,2,,\nRegion Info,HWThread 0,HWThread 1,\nRDTSC Runtime [s],0.25,0.5\n\
                    call count,3,3\nEvent,Counter,HWThread 0,HWThread 1\nINSTR_RETIRED_ANY,FIXC0,60,40\nPWR_PKG_ENERGY,PWR0,nan,nan\n";
        let (result, facts) = imported("region", text);
        let imported = result.expect("a file of likwid");
        assert_eq!(imported.elapsed, Nanos(500_000_000));
        assert_eq!(
            events(&facts),
            [("INSTR_RETIRED_ANY, region solve".to_owned(), None, vec![(100, true)])]
        );
        assert!(imported.notes.iter().any(|note| note.contains("region")), "{:?}", imported.notes);
    }

    /// A thread without a number, a channel that could not be counted, a second counter of the same event, and a line of the program.
    #[test]
    fn events_with_a_missing_part_have_no_sum() {
        let text = "TABLE,Group 1 Raw,MEM,5,\nEvent,Counter,HWThread 0,HWThread 36\nRuntime (RDTSC) [s],TSC,1.0,1.0\n\
                    INSTR_RETIRED_ANY,FIXC0,100,-\nCAS_COUNT_RD,MBOX0C0,1000,500\nCAS_COUNT_RD,MBOX1C0,-,-\nCAS_COUNT_WR,MBOX0C1,20,10\n\
                    CAS_COUNT_WR,MBOX1C1,30,nan\nL1D_REPLACEMENT,PMC0,7\nL1D_REPLACEMENT,PMC1,7,8\nresidual,after ten steps,-,-\n";
        let (result, facts) = imported("missing", text);
        let imported = result.expect("one event is whole");
        let expected = [("L1D_REPLACEMENT".to_owned(), None, vec![(15, true)])];
        assert_eq!(events(&facts), expected);
        let note = "likwid has no number of INSTR_RETIRED_ANY (FIXC0 on HWThread 36), CAS_COUNT_RD (MBOX1C0), CAS_COUNT_WR (MBOX1C1 on \
                    HWThread 36): these events have no count of that group, because a sum of the others would be too small";
        assert_eq!(imported.notes[0], note);
        let none = "TABLE,Group 1 Raw,X,1,\nEvent,Counter,HWThread 0,HWThread 1\nRuntime (RDTSC) [s],TSC,1.0,1.0\nA,PMC0,1,-\n";
        let error = super::tests::imported("none", none).0.err().map(|error| error.to_string());
        let why = error.unwrap_or_default();
        assert!(why.ends_with("no event has all its counts: A (PMC0 on HWThread 1)"), "{why}");
    }

    #[test]
    fn broken_tables_are_refused() {
        let of = |text: &str| imported("broken", text).0.err().map(|error| error.to_string());
        let why = |text: &str| of(text).unwrap_or_default();
        assert!(why("").contains("is no perf.data file"), "{}", why(""));
        assert!(why("TABLE,Group x Raw,MEM\n").contains("is no perf.data file"));
        let head = "TABLE,Group 1 Raw,MEM,1\nEvent,Counter,HWThread 0\n";
        assert!(why(head).contains("no event with a count"));
        let hostile =
            format!("{head}A,PMC0,-5\nB,PMC1,inf\nC,PMC2,1e400\nD,PMC3,99999999999999999999999\n");
        assert!(why(&hostile).contains("no event with a count"));
        assert!(why(&format!("{head}A,PMC0,5\n")).contains("Runtime"));
        // Rows before the head have no threads; a second head changes nothing.
        let early = "TABLE,Group 1 Raw,MEM,1\nA,PMC0,5\nEvent,Counter,HWThread 0\nRuntime (RDTSC) [s],TSC,1.0\n";
        assert!(why(early).contains("no event with a count"), "{}", why(early));
        let again =
            format!("{head}A,PMC0,5\nB,PMC1,-\nEvent,Counter\nRuntime (RDTSC) [s],TSC,1.0\n");
        assert_eq!(of(&again), None);
        let more = "TABLE,Group 1 Raw,MEM,1\nEvent,Counter,HWThread 0,HWThread 1\nA,PMC0,5,-\nEvent,Counter,HWThread 0\n\
                    Runtime (RDTSC) [s],TSC,1.0\n";
        assert!(why(more).ends_with("A (PMC0 on HWThread 1)"), "{}", why(more));
        let endless = format!("{head}A,PMC0,5\nRuntime (RDTSC) [s],TSC,1e300\n");
        assert!(why(&endless).contains("Runtime"));
    }
}
