//! The traced memory accesses: how many, how wide, in which pattern, over how many cache lines.
//!
//! What for: bursts recorded the addresses of all accesses of a thread for a short time. Each access of an instruction
//! (a *site*) becomes a row, or the sites of a function, line or module together. What not: hit levels and latencies (a cache
//! model over the same addresses), and rates: time in a burst is not native time.
//!
//! Patterns, by the strides between successive addresses of a site in one burst:
//! * a stride that makes up at least half of all decides: 0 is *constant* (also where a chain of loads gives the address, as for
//!   a field that a pointer on the stack leads to), the access's own size up or down is *unit*, any other is *strided*;
//! * without one, if half of the strides equal the one before, the site goes in *runs* whose stride changes;
//! * otherwise it is *irregular*;
//! * a site is a *pointer chase* (`chain`) if no prefetcher follows its strides, and most of its addresses are at the end of a
//!   chain of at least four loads, each of which gave the address of the next; also where the chain has a constant stride. So
//!   is a site with half of its accesses in the first lines of blocks that such chains lead to, as the keys of a node do.
//!
//! Figures over bursts: a count of lines is the median over the bursts in which the row occurs, because sums over bursts would
//! mix reuse within a burst with reuse between bursts. Shares are of all accesses of all bursts. Bursts are the independent
//! observations of their intervals; accesses within a burst are not.
//!
//! Assumptions: bursts sample the running time of threads evenly; where they could not begin is in [`coverage`].

mod coverage;
mod lines;
mod strides;
mod walk;

use std::sync::Mutex;

use base::IndexMap;
use facts::{Burst, Evidence, Metric};
use x86::{Access, Kind};

use self::strides::{Distance, Dominant, Runs, Strides};
use self::walk::{RowSums, Share, walk};
use crate::hotspots::{Key, RowKey};
use crate::objects::{First, Grouping, NewUnit, Objects, Part, UnitRows};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::traced::{Damage, Site, SiteIndex, TracedCode};
use estimate::interval::{median, median_interval, ratio_interval};

pub use self::coverage::{Coverage, coverage};
pub(crate) use self::walk::{Walked, Walker, add_burst};

/// How the addresses of a row follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// No site was seen twice in a burst.
    Unknown,
    /// The same address.
    Constant,
    /// Neighbours, upwards or downwards.
    Unit,
    /// A constant number of bytes apart; negative downwards.
    Strided(i64),
    /// No frequent distance.
    Irregular,
    /// Each address comes from the load before, and no prefetcher foresees it.
    PointerChase,
    /// In runs of different strides: the median stride.
    Runs(i64),
}

impl Pattern {
    /// Bytes from one access to the next, where that is the same for a while.
    #[must_use]
    pub fn stride(self) -> Option<i64> {
        match self {
            Pattern::Strided(stride) | Pattern::Runs(stride) => Some(stride),
            _ => None,
        }
    }
}

/// Sites that are shown together.
#[derive(Clone, PartialEq, Debug)]
pub struct AccessRow {
    /// What it is.
    pub key: RowKey,
    /// Without grouping: the site.
    pub site: Option<Site>,
    /// The place in it with the most accesses.
    pub place: LocationId,
    /// What all its sites do; `None` when they differ.
    pub kind: Option<AccessKind>,
    /// Bytes of one access; a mean where they differ.
    pub bytes: Metric,
    /// Accesses in all chosen bursts, iterations of summarised loops included.
    pub accesses: Metric,
    /// Share of all traced accesses, percent.
    pub share: Metric,
    /// The pattern.
    pub pattern: Pattern,
    /// The dominant distance, bytes.
    pub stride: Metric,
    /// Its share of all distances, percent.
    pub stride_share: Metric,
    /// Distinct lines per burst.
    pub lines: Metric,
    /// Share of the bytes of these lines that was touched, percent.
    pub line_use: Metric,
}

/// What an access does, as far as a reader cares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AccessKind {
    /// The kind.
    pub kind: Kind,
    /// Atomic.
    pub locked: bool,
}

impl AccessKind {
    fn of(access: &Access) -> AccessKind {
        AccessKind { kind: access.kind, locked: access.locked }
    }

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.kind {
            Kind::ReadWrite if self.locked => "atomic",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::ReadWrite => "read+write",
            Kind::StreamingRead => "streaming read",
            Kind::StreamingWrite => "streaming write",
            Kind::Prefetch => "prefetch",
            Kind::PrefetchWrite => "prefetch to write",
            Kind::Flush => "flush",
            Kind::WriteBack => "write back",
            Kind::Demote => "demote",
        }
    }
}

/// All rows, most accesses first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Accesses {
    /// The rows.
    pub rows: Vec<AccessRow>,
    /// Accesses of all bursts, chosen or not.
    pub total: u64,
    /// Bursts whose records were read.
    pub bursts: u64,
    /// Bursts for addresses whose records were not kept.
    pub lost_bursts: u64,
    /// What could not be used: blocks, records of such and unknown blocks, pieces of records that do not decode.
    pub unusable_blocks: u64,
    /// See above.
    pub unusable_records: u64,
    /// See above.
    pub damaged_pieces: u64,
}

/// Accesses by some keys, and with objects which sites each row is of.
pub type GroupedAccesses = (Accesses, Vec<(RowKey, SiteIndex)>);

/// Sums up the chosen bursts. Rows are sites when `keys` is empty; of keys those on code count.
/// `profile` must know the addresses of `code` ([`Profile::with_addresses`]).
#[must_use]
pub fn accesses(
    profile: &Profile<'_>,
    code: &TracedCode,
    selection: &Selection,
    keys: &[Key],
) -> Accesses {
    let rows = vec![Rows::new(profile, code, selection, keys)];
    let by = ByKeys { profile, code, of_sites: rows, of_objects: Vec::new() };
    by.walked(selection).0.pop().unwrap_or_default()
}

/// Share of the bytes of the lines that the sites of each row touch together, percent.
pub(crate) fn line_uses(
    profile: &Profile<'_>,
    code: &TracedCode,
    row_of_site: &[Option<usize>],
    rows: usize,
) -> Vec<Metric> {
    let of_sites = || vec![UnitRows::of_sites(&[row_of_site])];
    let walked = walk(profile.recording, code, of_sites, &|_| true).pop();
    let mut sums = walked.unwrap_or_default().rows;
    sums.resize_with(rows, RowSums::default);
    sums.iter().map(line_use).collect()
}

/// The same with rows by object too.
#[must_use]
pub fn accesses_of_objects(grouping: &Grouping<'_>) -> GroupedAccesses {
    let Grouping { profile, code, selection, .. } = *grouping;
    let of_objects = vec![(*grouping, ObjectRows::default())];
    let by = ByKeys { profile, code, of_sites: Vec::new(), of_objects };
    by.walked(selection).1.pop().unwrap_or_default()
}

/// Accesses by several keys, from one pass over the bursts: by sites, and by objects, whose pieces are alike.
pub(crate) struct ByKeys<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    of_sites: Vec<Rows>,
    of_objects: Vec<(Grouping<'a>, ObjectRows)>,
}

impl<'a> ByKeys<'a> {
    /// Of all bursts, by site and by each of these keys: by whole objects where they are on these.
    pub(crate) fn all(
        (profile, code): (&'a Profile<'a>, &'a TracedCode),
        whole: &'a Selection,
        (objects, keys): (Option<&'a Objects>, &'a [Vec<Key>]),
    ) -> ByKeys<'a> {
        let rows = |keys| Rows::new(profile, code, whole, keys);
        let mut by = ByKeys { profile, code, of_sites: vec![rows(&[])], of_objects: Vec::new() };
        for keys in keys {
            match objects.filter(|_| is_by_object(keys)) {
                Some(objects) => {
                    let grouping = Grouping { profile, code, objects, selection: whole, keys };
                    by.of_objects.push((grouping, ObjectRows::default()));
                }
                None => by.of_sites.push(rows(keys)),
            }
        }
        by
    }

    /// The rows of sites themselves.
    pub(crate) fn by_site(&self) -> &Rows {
        &self.of_sites[0]
    }

    /// For tools that keep sums by row.
    pub(crate) fn rows(&self) -> Vec<UnitRows<'_>> {
        let by_site: Vec<&[Option<usize>]> =
            self.of_sites.iter().map(|rows| rows.row_of_site.as_slice()).collect();
        let by_site = (!by_site.is_empty()).then(|| UnitRows::of_sites(&by_site));
        let by_object = self.of_objects.first().map(|(first, _)| {
            let ways = self.of_objects.iter().map(|(grouping, rows)| rows.row_of(grouping));
            let objects = (first.objects, first.pieces());
            UnitRows::of_objects(self.code.sites.len(), objects, ways.collect())
        });
        by_site.into_iter().chain(by_object).collect()
    }

    fn walked(self, selection: &Selection) -> (Vec<Accesses>, Vec<GroupedAccesses>) {
        let chosen = |burst: &Burst| is_chosen(self.profile, selection, burst);
        let walked = walk(self.profile.recording, self.code, || self.rows(), &chosen);
        self.summed(walked)
    }

    /// From what walkers of its rows saw: by sites, and by objects.
    pub(crate) fn summed(self, mut walked: Vec<Walked>) -> (Vec<Accesses>, Vec<GroupedAccesses>) {
        let ByKeys { profile, code, of_sites, of_objects } = self;
        // Without any burst, none came up.
        walked.resize_with(of_sites.len() + of_objects.len(), Walked::default);
        let mut walked = walked.into_iter();
        let by_site = of_sites.into_iter().zip(walked.by_ref());
        let by_site = by_site.map(|(rows, walked)| summed(profile, code, rows.heads, &walked));
        let by_site = by_site.collect();
        let by_object = of_objects.into_iter().zip(walked);
        let by_object = by_object.map(|((grouping, rows), mut walked)| {
            let OrderedRows { heads, order, users } = rows.in_order(&grouping);
            walked.rows = ordered(walked.rows, &order);
            (summed(profile, code, heads, &walked), users)
        });
        (by_site, by_object.collect())
    }
}

/// Whether these rows are of objects.
pub(crate) fn is_by_object(keys: &[Key]) -> bool {
    keys.contains(&Key::Object)
}

/// The rows that sites and parts of objects belong to, as they come up in several bursts at a time.
#[derive(Default)]
pub(crate) struct ObjectRows(Mutex<KnownRows>);

#[derive(Default)]
struct KnownRows {
    rows: IndexMap<RowKey, usize>,
    units: IndexMap<(SiteIndex, Part), (First, RowKey, usize)>,
}

/// The same, in the order in which they come up in the recording.
pub(crate) struct OrderedRows {
    pub(crate) heads: Vec<Head>,
    /// The number of each until now.
    pub(crate) order: Vec<usize>,
    /// Which sites each row is of.
    users: Vec<(RowKey, SiteIndex)>,
}

impl ObjectRows {
    /// For a pass over bursts, which fills in rows as it meets them.
    pub(crate) fn of<'a>(&'a self, grouping: &'a Grouping<'a>) -> UnitRows<'a> {
        let objects = (grouping.objects, grouping.pieces());
        UnitRows::of_objects(grouping.code.sites.len(), objects, vec![self.row_of(grouping)])
    }

    fn row_of<'a>(&'a self, grouping: &'a Grouping<'a>) -> Box<NewUnit<'a>> {
        Box::new(|site, part, first| {
            let key = grouping.row(site, part)?;
            let mut known = self.0.lock().ok()?;
            let new = known.rows.len();
            let row = *known.rows.entry(key).or_insert(new);
            let unit = known.units.entry((site, part)).or_insert((first, key, row));
            unit.0 = unit.0.min(first);
            Some(row)
        })
    }

    pub(crate) fn in_order(self, grouping: &Grouping<'_>) -> OrderedRows {
        let known = self.0.into_inner().unwrap_or_default();
        let mut units: Vec<_> = known.units.into_iter().collect();
        units.sort_unstable_by_key(|(_, (first, ..))| *first);
        let mut number = vec![None; known.rows.len()];
        let mut rows = OrderedRows { heads: Vec::new(), order: Vec::new(), users: Vec::new() };
        for ((site, _), (_, key, row)) in units {
            rows.users.push((key, site));
            let kind = Some(AccessKind::of(&grouping.code.sites[site.index()].access));
            let at = *number[row].get_or_insert_with(|| {
                rows.heads.push(Head { key, site: None, place: grouping.place(site), kind });
                rows.order.push(row);
                rows.heads.len() - 1
            });
            if rows.heads[at].kind != kind {
                rows.heads[at].kind = None;
            }
        }
        rows
    }
}

/// The sums of each row, in another order; the default for a row without any.
pub(crate) fn ordered<T: Default>(mut sums: Vec<T>, order: &[usize]) -> Vec<T> {
    let take = |row: &usize| sums.get_mut(*row).map(std::mem::take).unwrap_or_default();
    order.iter().map(take).collect()
}

/// The rows in order, of sums over the bursts that are asked for.
pub(crate) fn summed(
    profile: &Profile<'_>,
    code: &TracedCode,
    heads: Vec<Head>,
    walked: &Walked,
) -> Accesses {
    let recording = profile.recording;
    let Damage { records: unusable_records, pieces: damaged_pieces } = walked.damage;
    let squares: f64 = walked.totals.iter().map(|total| (*total as f64).powi(2)).sum();
    let all = AllBursts { accesses: walked.accesses, squares, count: walked.totals.len() };
    let mut found: Vec<AccessRow> = heads
        .into_iter()
        .zip(&walked.rows)
        .filter(|(_, sums)| sums.accesses > 0)
        .map(|(head, sums)| row(head, sums, &all))
        .collect();
    // Rows are in the order in which their code came up first: the sort is stable, so equal ones stay so.
    found.sort_by(|a, b| {
        b.accesses.value.partial_cmp(&a.accesses.value).unwrap_or(std::cmp::Ordering::Equal)
    });
    let traced = |burst: &&Burst| burst.flavour == facts::BurstFlavour::Trace;
    let lost = recording.bursts.iter().filter(traced).filter(|burst| burst.records_lost).count();
    Accesses {
        rows: found,
        total: walked.accesses,
        bursts: walked.totals.len() as u64,
        lost_bursts: lost as u64,
        unusable_blocks: code.unusable_blocks,
        unusable_records,
        damaged_pieces,
    }
}

/// Whether a burst is asked for.
pub(crate) fn is_chosen(profile: &Profile<'_>, selection: &Selection, burst: &Burst) -> bool {
    let thread = profile.threads.find(burst.pid, burst.tid);
    selection.may_have(thread, burst.time)
}

/// What a row is, before anything is counted.
pub(crate) struct Head {
    pub(crate) key: RowKey,
    pub(crate) site: Option<Site>,
    pub(crate) place: LocationId,
    kind: Option<AccessKind>,
}

/// The rows that sites belong to.
pub(crate) struct Rows {
    pub(crate) heads: Vec<Head>,
    /// `None` for sites that are not asked for.
    pub(crate) row_of_site: Vec<Option<usize>>,
}

impl Rows {
    pub(crate) fn new(
        profile: &Profile<'_>,
        code: &TracedCode,
        selection: &Selection,
        keys: &[Key],
    ) -> Rows {
        let mut rows = Rows { heads: Vec::new(), row_of_site: Vec::new() };
        let mut known: IndexMap<RowKey, usize> = IndexMap::default();
        for site in &code.sites {
            let place = profile.stacks.place_at(site.instruction);
            let kind = AccessKind::of(&site.access);
            let row = selection.has_place(place).then(|| {
                let key =
                    RowKey::at(keys, &profile.stacks, place).with_site(keys, &profile.types, site);
                let new = rows.heads.len();
                let row = if keys.is_empty() { new } else { *known.entry(key).or_insert(new) };
                if row == new {
                    let site = keys.is_empty().then_some(*site);
                    rows.heads.push(Head { key, site, place, kind: Some(kind) });
                } else if rows.heads[row].kind != Some(kind) {
                    rows.heads[row].kind = None;
                }
                row
            });
            rows.row_of_site.push(row);
        }
        rows
    }
}

/// What shares are of.
struct AllBursts {
    accesses: u64,
    squares: f64,
    count: usize,
}

fn row(head: Head, sums: &RowSums, all: &AllBursts) -> AccessRow {
    let (pattern, stride, stride_share) = pattern(sums);
    AccessRow {
        key: head.key,
        site: head.site,
        place: head.place,
        kind: head.kind,
        bytes: bytes(sums),
        accesses: count(sums),
        share: share(sums, all),
        pattern,
        stride,
        stride_share,
        lines: over_bursts(sums, "count", |one| (one.lines.low as f64, one.lines.high as f64)),
        line_use: line_use(sums),
    }
}

fn line_use(sums: &RowSums) -> Metric {
    over_bursts(sums, "percent", |one| one.used_percent)
}

fn traced(value: f64, unit: &str, interval: Option<(f64, f64)>, samples: u64) -> Metric {
    Metric {
        low: interval.map(|interval| interval.0),
        high: interval.map(|interval| interval.1),
        evidence: Some(Evidence::Traced),
        samples,
        ..Metric::counted(value, unit)
    }
}

fn exact(value: f64, unit: &str, samples: u64) -> Metric {
    traced(value, unit, Some((value, value)), samples)
}

fn bytes(sums: &RowSums) -> Metric {
    let known = sums.accesses.max(1);
    if sums.smallest == sums.largest {
        return exact(f64::from(sums.largest), "bytes", sums.accesses);
    }
    let mean = sums.bytes as f64 / known as f64;
    let note = format!("a mean: from {} to {} bytes", sums.smallest, sums.largest);
    traced(mean, "bytes", None, sums.accesses).noted(&note)
}

fn count(sums: &RowSums) -> Metric {
    let value = sums.accesses as f64;
    if sums.at_least {
        let at_least = Metric { low: Some(value), ..traced(value, "count", None, sums.accesses) };
        return at_least.noted("at least: the repetitions of a repeated compare are not recorded");
    }
    exact(value, "count", sums.accesses)
}

/// The row's accesses among all: a ratio of sums over bursts.
fn share(sums: &RowSums, all: &AllBursts) -> Metric {
    let total = all.accesses.max(1) as f64;
    let ratio = sums.accesses as f64 / total;
    let mut residuals = ratio * ratio * all.squares;
    for one in &sums.bursts {
        let (part, of) = (one.accesses as f64, one.of as f64);
        residuals += (part - ratio * of).powi(2) - (ratio * of).powi(2);
    }
    let interval = ratio_interval(ratio, total, residuals, all.count);
    let percent = interval.map(|(low, high)| (low * 100.0, high * 100.0));
    let metric = traced(ratio * 100.0, "percent", percent, all.count as u64);
    match interval {
        Some(_) => metric,
        None => metric.noted("of one burst: no interval can be stated"),
    }
}

/// Longer strides no prefetcher follows: "up to 2K bytes" (Intel 64 and IA-32 Architectures Optimization Reference Manual,
/// data prefetching to L1: the IP-based stride prefetcher), and the others stay in a page.
const PREFETCHED: u64 = 2048;
const NONE_FREQUENT: &str = "no stride has half of the accesses";
const CHASED: &str = "each address comes from the load before";
const CHANGES: &str = "it differs between runs: the median, and the range of nine tenths";
const NOT_TWICE: &str = "no instruction of it ran twice in a burst";

/// The pattern, the dominant distance and its share.
fn pattern(sums: &RowSums) -> (Pattern, Metric, Metric) {
    let strides: &Strides = &sums.strides;
    let total = strides.total();
    if total == 0 {
        let missing = |unit| Metric::unavailable(unit, NOT_TWICE);
        return (Pattern::Unknown, missing("bytes"), missing("percent"));
    }
    let dominant = strides.dominant();
    let percent = |count: u64| count as f64 / total as f64 * 100.0;
    let (low, high) = dominant.map_or((0, strides.dropped()), |dominant| dominant.count);
    let share = traced(percent(low), "percent", Some((percent(low), percent(high))), total);
    let regular = dominant.filter(|_| low.saturating_mul(2) >= total);
    let far =
        |one: Dominant| matches!(one.kind, Distance::Other(way) if way.unsigned_abs() > PREFETCHED);
    let stays = regular.is_some_and(|one| one.kind == Distance::Same);
    let most = |part: u64| part.saturating_mul(2) >= sums.accesses;
    if (most(sums.led) && !stays) || (regular.is_none_or(far) && most(sums.chased)) {
        return (Pattern::PointerChase, Metric::unavailable("bytes", CHASED), share);
    }
    let Some(regular) = regular else {
        return strides.runs().map_or_else(
            || (Pattern::Irregular, Metric::unavailable("bytes", NONE_FREQUENT), share),
            |runs| in_runs(runs, total),
        );
    };
    let (pattern, stride) = match regular.kind {
        Distance::Same => (Pattern::Constant, exact(0.0, "bytes", total)),
        Distance::Unit => (Pattern::Unit, Metric { samples: total, ..bytes(sums) }),
        Distance::Other(distance) => {
            (Pattern::Strided(distance), exact(distance as f64, "bytes", total))
        }
    };
    (pattern, stride, share)
}

/// Pattern, stride and its share of a site that goes in runs.
fn in_runs(runs: Runs, total: u64) -> (Pattern, Metric, Metric) {
    let Runs { typical, shortest, longest, count } = runs;
    let ends = (shortest.min(longest) as f64, shortest.max(longest) as f64);
    let stride = traced(typical as f64, "bytes", Some(ends), total);
    let percent = count as f64 / total.max(1) as f64 * 100.0;
    let share = traced(percent, "percent", Some((percent, percent)), total);
    (Pattern::Runs(typical), stride.noted(CHANGES), share)
}

/// The median over bursts of a figure that is itself known between two bounds.
fn over_bursts(sums: &RowSums, unit: &str, figure: impl Fn(&Share) -> (f64, f64)) -> Metric {
    let sorted = |part: fn((f64, f64)) -> f64| {
        let mut values: Vec<f64> = sums.bursts.iter().map(|one| part(figure(one))).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (lows, highs) = (sorted(|bounds| bounds.0), sorted(|bounds| bounds.1));
    let (Some(low), Some(high)) = (median(&lows), median(&highs)) else {
        return Metric::unavailable(unit, "no burst has an access of it");
    };
    let interval = median_interval(&lows).zip(median_interval(&highs));
    let interval = interval.map(|(lows, highs)| (lows.0, highs.1));
    let bursts = sums.bursts.len();
    let metric = traced((low + high) / 2.0, unit, interval, bursts as u64);
    if sums.bursts.iter().any(|one| one.partial) {
        // What is missing can only add.
        let metric = Metric { high: None, ..metric };
        return metric.noted("at least: some addresses are not recorded");
    }
    match interval {
        Some(_) => metric,
        None => metric.noted(&format!("median of {bursts} bursts: too few for an interval")),
    }
}
