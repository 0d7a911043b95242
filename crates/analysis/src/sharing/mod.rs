//! Lines that threads take from each other: false sharing, and true sharing.
//!
//! What for: a line that one thread writes while others use it moves between their cores at every turn. If they use different
//! bytes of it (*false sharing*), the remedy is to separate these; if they use the same bytes (*true sharing*), it is to share
//! less often. What not: how often the line really moved (that depends on timing), and which object is there.
//!
//! The rule: two bursts of different threads of one process, at most 250 ms apart. Samples show that one of these threads ran both
//! before and after the other's burst, so they at least took turns. Both returned to the line often enough to matter (`burst`),
//! and at least one of them wrote to it. Overlapping bytes, written by one thread, are true sharing; disjoint ones are false
//! sharing.
//!
//! Assumptions: an address means the same in both bursts: the memory was not freed and reallocated to the other thread in between
//! (250 ms is short, but an allocator that passes a line between threads would show). Lines outside bursts are not known to be
//! unshared.

mod burst;

use std::cell::LazyCell;
use std::collections::BTreeMap;

use base::{Nanos, Pid, RemoteAddr, ThreadId, Tid};
use facts::{Burst, Evidence, Metric};

use self::burst::{LineUse, lines_of_bursts};
use crate::accesses::{Rows, is_chosen};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::traced::{SiteIndex, TracedCode};
use estimate::interval::{median, median_interval};

pub(crate) use self::burst::{BurstLines, Watcher};

/// Bursts so near each other can be of one time.
const NEAR: Nanos = Nanos(250_000_000);

/// A burst of less than this part of the usual length is too short to compare, unless it filled its buffer.
const SHORT: f64 = 0.5;

/// How threads share a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Different bytes.
    False,
    /// The same bytes.
    True,
    /// Some threads the same bytes, others different ones.
    Both,
}

impl Sharing {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sharing::False => "false",
            Sharing::True => "true",
            Sharing::Both => "true and false",
        }
    }
}

/// What one thread does to a shared line.
#[derive(Clone, PartialEq, Debug)]
pub struct LineThread {
    /// The thread.
    pub tid: Tid,
    /// Bytes that it reads, bit 0 for the first of the line.
    pub read: u64,
    /// Bytes that it writes.
    pub written: u64,
    /// Visits per burst that read.
    pub reads: Metric,
    /// Visits per burst that write.
    pub writes: Metric,
    /// The code with most of the visits.
    pub place: LocationId,
}

/// A line that threads share.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedLine {
    /// The process.
    pub pid: Pid,
    /// Address of its first byte.
    pub address: RemoteAddr,
    /// When it was seen to be shared first.
    pub time: Nanos,
    /// How.
    pub sharing: Sharing,
    /// Turns that are possible in the time of a burst: the smaller of one thread's writing visits and the other's visits.
    pub conflicts: Metric,
    /// Who, most visits first.
    pub threads: Vec<LineThread>,
}

/// The whole of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SharedLines {
    /// Most conflicts first.
    pub lines: Vec<SharedLine>,
    /// Pairs of bursts that could be compared.
    pub pairs: u64,
    /// Nanoseconds of the burst that conflicts are of: the usual length.
    pub usual_length: f64,
}

/// What is known of a line of a process.
#[derive(Default)]
struct SharedLineUse {
    /// Time of the first pair.
    time: Option<Nanos>,
    /// Of each pair of bursts.
    conflicts: Vec<f64>,
    overlaps: bool,
    disjoint: bool,
    /// Bursts of each thread that are in a pair, by number.
    bursts: BTreeMap<Tid, Vec<usize>>,
}

/// Compares the chosen bursts. `profile` must know the addresses of `code` ([`Profile::with_addresses`]).
#[must_use]
pub fn sharing(profile: &Profile<'_>, code: &TracedCode, selection: &Selection) -> SharedLines {
    let rows = Rows::new(profile, code, selection, &[]);
    let chosen = |burst: &Burst| is_chosen(profile, selection, burst);
    let bursts = lines_of_bursts(profile.recording, code, &rows.row_of_site, &chosen);
    compared(profile, &rows, bursts)
}

/// Compares these bursts.
pub(crate) fn compared(
    profile: &Profile<'_>,
    rows: &Rows,
    mut bursts: Vec<BurstLines>,
) -> SharedLines {
    bursts.sort_by_key(|burst| burst.time);
    let usual = leave_out_short_ones(&mut bursts);
    // Of most programs no two bursts are near enough to ask who ran when.
    let activity = LazyCell::new(|| activity(profile, &bursts));
    let mut pairs = 0;
    let mut found: BTreeMap<(Pid, u64), SharedLineUse> = BTreeMap::new();
    for (first, one) in bursts.iter().enumerate() {
        let near = bursts.iter().enumerate().skip(first + 1);
        for (second, other) in near.take_while(|(_, other)| other.time - one.time <= NEAR) {
            if one.pid == other.pid && one.tid != other.tid && took_turns(&activity, one, other) {
                pairs += 1;
                compare((first, one), (second, other), usual, &mut found);
            }
        }
    }
    let mut lines: Vec<SharedLine> =
        found.into_iter().map(|(key, found)| line(key, &found, &bursts, rows)).collect();
    // Of equal ones, that with the lower address comes first: the sort is stable.
    lines.sort_by(|a, b| {
        b.conflicts.value.partial_cmp(&a.conflicts.value).unwrap_or(std::cmp::Ordering::Equal)
    });
    SharedLines { lines, pairs, usual_length: usual }
}

/// When each thread of these bursts was seen running: samples and bursts.
fn activity(profile: &Profile<'_>, of: &[BurstLines]) -> BTreeMap<ThreadId, Vec<Nanos>> {
    let recording = profile.recording;
    let mut times: BTreeMap<ThreadId, Vec<Nanos>> =
        of.iter().map(|burst| (ThreadId::new(burst.pid, burst.tid), Vec::new())).collect();
    let samples = recording.samples.iter().map(|one| (one.pid, one.tid, one.time));
    let bursts = recording.bursts.iter().map(|one| (one.pid, one.tid, one.time));
    for (pid, tid, time) in samples.chain(bursts) {
        if let Some(times) = times.get_mut(&ThreadId::new(pid, tid)) {
            times.push(time);
        }
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

/// Whether the earlier burst's thread also ran after the later burst, or the later one's before the earlier burst.
fn took_turns(
    activity: &BTreeMap<ThreadId, Vec<Nanos>>,
    earlier: &BurstLines,
    later: &BurstLines,
) -> bool {
    let between = |burst: &BurstLines, from: Nanos, to: Nanos| {
        activity.get(&ThreadId::new(burst.pid, burst.tid)).is_some_and(|times| {
            let at = times.partition_point(|time| *time < from);
            times.get(at).is_some_and(|time| *time <= to)
        })
    };
    between(earlier, later.time, later.time + NEAR)
        || between(later, earlier.time - NEAR, earlier.time)
}

/// A burst that ended early, in code that could not be translated or at a wait, has few visits because it was short. One that
/// filled its buffer tells what happens in as long as the others are: the usual length, nanoseconds.
fn leave_out_short_ones(bursts: &mut Vec<BurstLines>) -> f64 {
    let mut lengths: Vec<f64> = bursts.iter().map(|burst| burst.length.0 as f64).collect();
    lengths.sort_by(f64::total_cmp);
    let Some(usual) = median(&lengths) else { return 0.0 };
    bursts.retain(|burst| burst.full || burst.length.0 as f64 >= SHORT * usual);
    usual
}

/// What visits of a burst are in a burst of the usual length, if its own was another only because its buffer was full.
fn in_usual_length(visits: u64, burst: &BurstLines, usual: f64) -> f64 {
    let times = if burst.full { usual / (burst.length.0 as f64).max(1.0) } else { 1.0 };
    visits as f64 * times.max(1.0)
}

fn compare(
    (first, one): (usize, &BurstLines),
    (second, other): (usize, &BurstLines),
    usual: f64,
    found: &mut BTreeMap<(Pid, u64), SharedLineUse>,
) {
    for (line, mine) in &one.lines {
        let Some(theirs) = other.lines.get(line) else { continue };
        let of_mine = |visits| in_usual_length(visits, one, usual);
        let of_theirs = |visits| in_usual_length(visits, other, usual);
        let taken = of_mine(mine.writes).min(of_theirs(theirs.visits));
        let conflicts = taken.max(of_theirs(theirs.writes).min(of_mine(mine.visits)));
        if conflicts <= 0.0 {
            continue;
        }
        let found = found.entry((one.pid, *line)).or_default();
        found.time.get_or_insert(one.time);
        found.conflicts.push(conflicts);
        let overlap = mine.written & (theirs.read | theirs.written) | theirs.written & mine.read;
        found.overlaps |= overlap != 0;
        found.disjoint |= overlap == 0;
        for (tid, burst) in [(one.tid, first), (other.tid, second)] {
            let bursts = found.bursts.entry(tid).or_default();
            if !bursts.contains(&burst) {
                bursts.push(burst);
            }
        }
    }
}

fn line(
    (pid, line): (Pid, u64),
    found: &SharedLineUse,
    bursts: &[BurstLines],
    rows: &Rows,
) -> SharedLine {
    let mut threads: Vec<(u64, LineThread)> = found
        .bursts
        .iter()
        .map(|(tid, numbers)| {
            let uses: Vec<&LineUse> =
                numbers.iter().filter_map(|number| bursts[*number].lines.get(&line)).collect();
            let visits = uses.iter().fold(0u64, |sum, one| sum.saturating_add(one.visits));
            (visits, thread(*tid, &uses, rows))
        })
        .collect();
    threads.sort_by_key(|(visits, _)| std::cmp::Reverse(*visits));
    SharedLine {
        pid,
        address: RemoteAddr(line * u64::from(x86::LINE_BYTES)),
        time: found.time.unwrap_or_default(),
        sharing: match (found.overlaps, found.disjoint) {
            (true, true) => Sharing::Both,
            (true, false) => Sharing::True,
            _ => Sharing::False,
        },
        conflicts: over(found.conflicts.clone(), "pairs of bursts"),
        threads: threads.into_iter().map(|(_, thread)| thread).collect(),
    }
}

fn thread(tid: Tid, uses: &[&LineUse], rows: &Rows) -> LineThread {
    let mut visits: BTreeMap<SiteIndex, u64> = BTreeMap::new();
    for (site, count) in uses.iter().flat_map(|one| &one.sites) {
        let sum = visits.entry(*site).or_default();
        *sum = sum.saturating_add(*count);
    }
    let heaviest =
        visits.into_iter().max_by_key(|(site, count)| (*count, std::cmp::Reverse(*site)));
    let row = heaviest.and_then(|(site, _)| rows.row_of_site[site.index()]).unwrap_or(0);
    LineThread {
        tid,
        read: uses.iter().fold(0, |all, one| all | one.read),
        written: uses.iter().fold(0, |all, one| all | one.written),
        reads: over(uses.iter().map(|one| one.reads as f64).collect(), "bursts"),
        writes: over(uses.iter().map(|one| one.writes as f64).collect(), "bursts"),
        place: rows.heads[row].place,
    }
}

/// The median, with its interval by order statistics.
fn over(mut values: Vec<f64>, of: &str) -> Metric {
    values.sort_by(f64::total_cmp);
    let Some(value) = median(&values) else {
        return Metric::unavailable("count", "no burst has an access of it");
    };
    let interval = median_interval(&values);
    let metric = Metric {
        low: interval.map(|interval| interval.0),
        high: interval.map(|interval| interval.1),
        evidence: Some(Evidence::Traced),
        samples: values.len() as u64,
        ..Metric::counted(value, "count")
    };
    match interval {
        Some(_) => metric,
        None => metric.noted(&format!("median of {} {of}: too few for an interval", values.len())),
    }
}
