//! Arithmetic against memory traffic: the data of a roofline plot.
//!
//! What for: per row the floating-point operations and the bytes that its loads and stores move between core and first-level
//! cache, exact for the time of bursts, and their ratio, the *arithmetic intensity*; and the roof that bounds a row, given what
//! the machine reaches (`memory::roofs`).
//! What not: bytes from further levels and native seconds. Both come from elsewhere: a row turns them into an intensity and a rate.
//!
//! `x86::Flops` defines what counts; masked instructions count with all lanes, so a row with such is an upper bound. Instruction
//! fetches and page walks have no bytes here; prefetches and flushes move none to the core. The operations of an instruction
//! belong to its own function and line, which may differ from those of the load that it waits for: intensity by function is more
//! reliable than by line.

use base::IndexMap;
use facts::{Burst, Evidence, Metric};
use x86::{Kind, Precision};

use crate::accesses::is_chosen;
use crate::code_keys::CodeKeys;
use crate::hotspots::RowKey;
use crate::memory::{Limit, Mix};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::traced::{Execution, Tool, Touch, TracedBlock, TracedCode, stream, traced_bursts};
use estimate::interval::{ratio_interval, ratio_of_sums};

/// What a row did in one burst, or in all.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Work {
    /// By scalar and by vector instructions.
    double: [u64; 2],
    single: [u64; 2],
    /// Half precision and x87.
    other: u64,
    masked: u64,
    loads: u64,
    stores: u64,
    bytes: u64,
    /// Accesses of unknown number or size.
    partial: bool,
}

impl Work {
    fn flops(&self) -> u64 {
        let [scalar, vector] = [0, 1].map(|at| self.double[at].saturating_add(self.single[at]));
        scalar.saturating_add(vector).saturating_add(self.other)
    }

    fn doubles(&self) -> u64 {
        self.double[0].saturating_add(self.double[1])
    }

    fn vectors(&self) -> u64 {
        self.double[1].saturating_add(self.single[1])
    }

    fn add(&mut self, more: &Work) {
        let kinds = self.double.iter_mut().chain(&mut self.single);
        for (sum, more) in kinds.zip(more.double.into_iter().chain(more.single)).chain([
            (&mut self.other, more.other),
            (&mut self.masked, more.masked),
            (&mut self.loads, more.loads),
            (&mut self.stores, more.stores),
            (&mut self.bytes, more.bytes),
        ]) {
            *sum = sum.saturating_add(more);
        }
        self.partial |= more.partial;
    }
}

/// Code that is shown together.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkRow {
    /// What it is.
    pub key: RowKey,
    /// A place in it.
    pub place: LocationId,
    /// Floating-point operations in all chosen bursts.
    pub flops: Metric,
    /// Share of those of all bursts, percent.
    pub share: Metric,
    /// Share of them in double precision, percent.
    pub double: Metric,
    /// Share of them by vector instructions, percent.
    pub vector: Metric,
    /// The same kinds as parts; `None` where some have no measured peak: half precision and x87.
    pub mix: Option<Mix>,
    /// Accesses that read, and that write; read-modify-write counts as both.
    pub loads: Metric,
    /// See above.
    pub stores: Metric,
    /// Bytes that these move.
    pub bytes: Metric,
    /// Operations per byte.
    pub intensity: Metric,
}

impl WorkRow {
    /// Operations per byte of a level, given the bytes that the same executions had from it.
    #[must_use]
    pub fn intensity_of(&self, bytes: &Metric) -> Metric {
        quotient(&self.flops, bytes, 1.0, "FLOP/byte")
    }

    /// Operations per second, given the seconds that the same executions take natively.
    #[must_use]
    pub fn rate(&self, native_seconds: &Metric) -> Metric {
        quotient(&self.flops, native_seconds, 1e-9, "GFLOP/s")
    }
}

/// a / b × factor, with the widest interval that both allow.
fn quotient(a: &Metric, b: &Metric, factor: f64, unit: &str) -> Metric {
    let Some((a_value, b_value)) = a.value.zip(b.value).filter(|(_, b)| *b > 0.0) else {
        return Metric::unavailable(unit, b.note.as_deref().unwrap_or("the divisor is 0"));
    };
    let low = a.low.zip(b.high).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b * factor);
    let high = a.high.zip(b.low).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b * factor);
    Metric {
        low,
        high,
        evidence: Some(Evidence::Estimated),
        samples: a.samples.min(b.samples),
        note: a.note.clone().or_else(|| b.note.clone()),
        ..Metric::counted(a_value / b_value * factor, unit)
    }
}

/// What decides the roof of a level over some code.
#[derive(Clone, PartialEq, Debug)]
pub struct LevelRoof {
    /// The level.
    pub limit: Limit,
    /// The code's operations per byte that comes from it or through it.
    pub intensity: Metric,
    /// The bandwidth that it delivers to such code.
    pub bandwidth: Metric,
}

/// The lowest of the roofs over some code, GFLOP/s: of its arithmetic, and of each level. Levels without an intensity or a
/// bandwidth do not bound.
#[must_use]
pub fn lowest_roof(
    arithmetic: Option<(Limit, Metric)>,
    levels: &[LevelRoof],
) -> Option<(Limit, Metric)> {
    let times = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a * b);
    let of_level = levels.iter().filter_map(|LevelRoof { limit, intensity, bandwidth }| {
        let value = times(intensity.value, bandwidth.value)?;
        let roof = Metric {
            low: times(intensity.low, bandwidth.low),
            high: times(intensity.high, bandwidth.high),
            evidence: Some(Evidence::Estimated),
            samples: intensity.samples,
            ..Metric::counted(value, "GFLOP/s")
        };
        Some((*limit, roof))
    });
    let all: Vec<(Limit, Metric)> = arithmetic.into_iter().chain(of_level).collect();
    // No end of the lowest is above that of another roof.
    let low: Option<Vec<f64>> = all.iter().map(|(_, one)| one.low).collect();
    let low = low.and_then(|ends| ends.into_iter().reduce(f64::min));
    let high = all.iter().filter_map(|(_, one)| one.high).reduce(f64::min);
    let value = |roof: &Metric| roof.value.unwrap_or(f64::INFINITY);
    let lowest = all.iter().min_by(|a, b| value(&a.1).total_cmp(&value(&b.1)))?;
    Some((lowest.0, Metric { low, high, ..lowest.1.clone() }))
}

/// All rows, most operations first.
#[derive(Clone, PartialEq, Debug)]
pub struct Roofline {
    /// The rows: those with operations.
    pub rows: Vec<WorkRow>,
    /// Operations of all bursts, chosen or not.
    pub flops: u64,
    /// Bursts whose records were read.
    pub bursts: u64,
}

/// Sums up the chosen bursts by `keys`, of which those on code count. `profile` must know the addresses of `code`
/// ([`Profile::with_addresses`]).
#[must_use]
pub fn roofline(
    profile: &Profile<'_>,
    code: &TracedCode,
    selection: &Selection,
    keys: &CodeKeys<'_>,
) -> Roofline {
    let mut rows = Rows::default();
    let sites = code.sites.iter().map(|site| site.instruction);
    let arithmetic = code.arithmetic.iter().map(|one| one.address);
    let mut find = |address| {
        let (key, place) = keys.at(address);
        selection.has_place(place).then(|| rows.find(key, place))
    };
    let row_of_site: Vec<Option<usize>> = sites.map(&mut find).collect();
    let row_of_arithmetic: Vec<Option<usize>> = arithmetic.map(&mut find).collect();
    let chosen = |burst: &Burst| is_chosen(profile, selection, burst);
    let worker = || Worker {
        code,
        row_of_site: &row_of_site,
        row_of_arithmetic: &row_of_arithmetic,
        chosen: &chosen,
        active: false,
        at_hand: vec![Work::default(); rows.heads.len()],
        flops: 0,
    };
    let traced: Vec<_> = traced_bursts(profile.recording, code).collect();
    let (mut bursts, mut totals) = (vec![Vec::new(); rows.heads.len()], Vec::new());
    stream(profile.recording, code, &traced, worker, |_, (flops, of_rows)| {
        totals.push(flops);
        for (row, work) in of_rows {
            bursts[row].push((work, flops));
        }
    });
    let all = totals.iter().fold(0u64, |sum, one| sum.saturating_add(*one));
    let squares: f64 = totals.iter().map(|one| (*one as f64).powi(2)).sum();
    let whole = WholeTotals { flops: all, squares, bursts: totals.len() };
    let mut found: Vec<(u64, WorkRow)> = Vec::new();
    for ((key, place), bursts) in rows.heads.into_iter().zip(&bursts) {
        let mut sum = Work::default();
        bursts.iter().for_each(|(work, _)| sum.add(work));
        if sum.flops() > 0 {
            found.push((sum.flops(), row(key, place, &sum, bursts, &whole)));
        }
    }
    // Rows are in the order in which their code came up first: the sort is stable, so equal ones stay so.
    found.sort_by_key(|(flops, _)| std::cmp::Reverse(*flops));
    let rows = found.into_iter().map(|(_, row)| row).collect();
    Roofline { rows, flops: all, bursts: totals.len() as u64 }
}

#[derive(Default)]
struct Rows {
    heads: Vec<(RowKey, LocationId)>,
    known: IndexMap<RowKey, usize>,
}

impl Rows {
    fn find(&mut self, key: RowKey, place: LocationId) -> usize {
        let new = self.heads.len();
        let row = *self.known.entry(key).or_insert(new);
        if row == new {
            self.heads.push((key, place));
        }
        row
    }
}

/// What shares are of.
struct WholeTotals {
    flops: u64,
    squares: f64,
    bursts: usize,
}

struct Worker<'a> {
    code: &'a TracedCode,
    row_of_site: &'a [Option<usize>],
    row_of_arithmetic: &'a [Option<usize>],
    chosen: &'a (dyn Fn(&Burst) -> bool + Sync),
    active: bool,
    /// Of each row, in the burst at hand.
    at_hand: Vec<Work>,
    flops: u64,
}

impl Tool for Worker<'_> {
    /// All operations, and what rows did.
    type OfBurst = (u64, Vec<(usize, Work)>);

    fn begin(&mut self, burst: &Burst, _: usize) {
        self.active = (self.chosen)(burst);
        self.flops = 0;
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for one in &block.arithmetic {
            let flops = self.code.arithmetic[one.arithmetic.index()].flops;
            let count = execution.times(one.instruction).saturating_mul(flops.operations.into());
            self.flops = self.flops.saturating_add(count);
            let row = self.row_of_arithmetic[one.arithmetic.index()];
            let Some(row) = row.filter(|_| self.active) else { continue };
            let work = &mut self.at_hand[row];
            let vector = usize::from(flops.vector);
            let sum = match flops.precision {
                Precision::Double => &mut work.double[vector],
                Precision::Single => &mut work.single[vector],
                Precision::Half | Precision::Extended => &mut work.other,
            };
            *sum = sum.saturating_add(count);
            if flops.masked {
                work.masked = work.masked.saturating_add(count);
            }
        }
        if !self.active {
            return;
        }
        for access in &block.accesses {
            let site = access.site.index();
            let Some(row) = self.row_of_site[site] else { continue };
            let (loads, stores) = match self.code.sites[site].access.kind {
                Kind::Read | Kind::StreamingRead => (1, 0),
                Kind::Write | Kind::StreamingWrite => (0, 1),
                Kind::ReadWrite => (1, 1),
                _ => continue,
            };
            execution.touches(access).for_each(|touch| {
                let (count, bytes, partial) = match touch {
                    Touch::Run { count, bytes, .. } => (count, bytes, false),
                    Touch::AtLeast { bytes, .. } => (1, bytes, true),
                    Touch::Unknown { count } => (count, self.code.sites[site].access.bytes, true),
                };
                let work = &mut self.at_hand[row];
                let moved = count.saturating_mul(u64::from(bytes) * (loads + stores));
                work.loads = work.loads.saturating_add(count * loads);
                work.stores = work.stores.saturating_add(count * stores);
                work.bytes = work.bytes.saturating_add(moved);
                work.partial |= partial;
            });
        }
    }

    fn end(&mut self, _: &Burst) -> (u64, Vec<(usize, Work)>) {
        let works = self.at_hand.iter_mut().map(std::mem::take).enumerate();
        (self.flops, works.filter(|(_, work)| *work != Work::default()).collect())
    }
}

fn row(
    key: RowKey,
    place: LocationId,
    sum: &Work,
    bursts: &[(Work, u64)],
    whole: &WholeTotals,
) -> WorkRow {
    let samples = bursts.len() as u64;
    let exact = |value: u64, unit: &str| Metric {
        evidence: Some(Evidence::Traced),
        samples,
        ..Metric::counted(value as f64, unit)
    };
    let partial = |metric: Metric| match sum.partial {
        false => metric,
        true => Metric { high: None, ..metric }.noted("at least: some accesses are not recorded"),
    };
    let flops = exact(sum.flops(), "count");
    let flops = match sum.masked {
        0 => flops,
        masked => {
            let low = (sum.flops() - masked) as f64;
            Metric { low: Some(low), ..flops }.noted("at most: masks may switch lanes off")
        }
    };
    let pairs: Vec<(f64, f64)> =
        bursts.iter().map(|(work, _)| (work.flops() as f64, work.bytes as f64)).collect();
    let part = |of: fn(&Work) -> u64| {
        let pairs = bursts.iter().map(|(work, _)| (of(work) as f64, work.flops() as f64));
        ratio(&pairs.collect::<Vec<_>>(), 100.0, "percent")
    };
    let parts = |of: [u64; 2]| of.map(|count| count as f64 / sum.flops().max(1) as f64);
    WorkRow {
        key,
        place,
        share: share(sum.flops(), bursts, whole),
        double: part(Work::doubles),
        vector: part(Work::vectors),
        mix: (sum.other == 0).then(|| Mix { double: parts(sum.double), single: parts(sum.single) }),
        loads: partial(exact(sum.loads, "count")),
        stores: partial(exact(sum.stores, "count")),
        bytes: partial(exact(sum.bytes, "bytes")),
        intensity: intensity(sum, &pairs),
        flops,
    }
}

fn intensity(sum: &Work, pairs: &[(f64, f64)]) -> Metric {
    if sum.bytes == 0 {
        return Metric::unavailable("FLOP/byte", "its code moves no bytes");
    }
    let metric = ratio(pairs, 1.0, "FLOP/byte");
    if sum.masked > 0 || sum.partial {
        return Metric { low: None, ..metric }
            .noted("at most: lanes may be switched off, or accesses not recorded");
    }
    metric
}

/// A ratio of sums over bursts.
fn ratio(pairs: &[(f64, f64)], factor: f64, unit: &str) -> Metric {
    let Some((value, interval)) = ratio_of_sums(pairs) else {
        return Metric::unavailable(unit, "the divisor is 0");
    };
    let metric = Metric {
        low: interval.map(|interval| interval.0 * factor),
        high: interval.map(|interval| interval.1 * factor),
        evidence: Some(Evidence::Traced),
        samples: pairs.len() as u64,
        ..Metric::counted(value * factor, unit)
    };
    match interval {
        Some(_) => metric,
        None => metric.noted("of one burst: no interval can be stated"),
    }
}

/// The row's operations among all: a ratio of sums over bursts, those without the row included.
fn share(flops: u64, bursts: &[(Work, u64)], whole: &WholeTotals) -> Metric {
    let total = whole.flops.max(1) as f64;
    let ratio = flops as f64 / total;
    let mut residuals = ratio * ratio * whole.squares;
    for (work, of) in bursts {
        let (part, of) = (work.flops() as f64, *of as f64);
        residuals += (part - ratio * of).powi(2) - (ratio * of).powi(2);
    }
    let interval = ratio_interval(ratio, total, residuals, whole.bursts);
    let metric = Metric {
        low: interval.map(|interval| interval.0 * 100.0),
        high: interval.map(|interval| interval.1 * 100.0),
        evidence: Some(Evidence::Traced),
        samples: whole.bursts as u64,
        ..Metric::counted(ratio * 100.0, "percent")
    };
    match interval {
        Some(_) => metric,
        None => metric.noted("of one burst: no interval can be stated"),
    }
}
