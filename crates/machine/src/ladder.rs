//! Reading cache sizes out of a latency ladder: what a program gets, not what CPUID claims.
//!
//! A ladder is the latency of a random pointer chase over growing sizes. It consists of plateaus (the data fit a
//! level), joined by rises. In virtual machines the last level is shared with strangers or cut into slices
//! (Intel CAT): its claimed size may be twenty times the size available, and its rise is long and soft. Then this module
//! gives a wide interval, not a guess.
//!
//! Method. A plateau is a maximal run of points between neighbours of which the latency grows by less than
//! `FLAT` per doubling of the size; a single first point counts too. Neighbouring plateaus closer than
//! `SAME_LEVEL` are one. The last plateau is memory, provided that the chase outgrew the caches claimed or that
//! there is one plateau more than levels. The others are levels: in order when the numbers agree, else each goes to
//! the level whose claimed size lies closest, and a level without a plateau is only bounded. The latency of a level, and of
//! memory, is the median of its plateau: the largest sizes have page walks in it.
//!
//! For a level the sizes given are: value, the largest size within `NEAR` of the plateau's latency; low, the
//! plateau's last point; high, the first size beyond the geometric mean of this latency and the next plateau's,
//! or beyond `FAR` times this latency.

use facts::host::{Cache, CacheKind, EffectiveCache, LatencyPoint};
use facts::{Evidence, Metric};

/// Largest growth of the latency per doubling of the size on a plateau (a factor). Measured plateaus grow by up
/// to 17 % per doubling (TLB misses), rises by 40 % and more.
const FLAT: f64 = 1.25;
/// Plateaus whose latencies differ by less than this factor are one level: real levels differ by 2.5 and more.
const SAME_LEVEL: f64 = 1.5;
/// A chase "stays near" a level's latency up to this factor of it.
const NEAR: f64 = 1.25;
/// Beyond this factor of a level's latency a chase has certainly left it.
const FAR: f64 = 2.0;
/// A chase must be larger than the largest cache claimed by this factor to be sure that it left it.
const OUTGROWN: f64 = 1.3;

/// What a ladder shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reading {
    /// The cache levels.
    pub caches: Vec<EffectiveCache>,
    /// Latency of memory: the median of the farthest plateau.
    pub memory: Option<Metric>,
    /// What to know before quoting it.
    pub notes: Vec<String>,
}

/// Size and latency of one usable point.
#[derive(Clone, Copy)]
struct Point {
    bytes: f64,
    latency: f64,
    samples: u64,
}

/// First and last index of a plateau.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Plateau {
    first: usize,
    last: usize,
}

/// Reads one ladder (all points of the same page size, in any order). `claimed` are the caches as the system
/// describes them.
#[must_use]
pub fn read(points: &[LatencyPoint], claimed: &[Cache]) -> Reading {
    let mut reading = Reading::default();
    let ladder = usable(points);
    let Some(largest) = ladder.last() else {
        reading.notes.push("the latency ladder has no usable point".to_owned());
        return reading;
    };
    let plateaus = plateaus(&ladder);
    let levels = claimed_levels(claimed);
    let has_memory = plateaus.len() > levels.len() || largest.bytes >= outgrows(claimed);
    if has_memory {
        reading.memory = plateaus.last().map(|farthest| plateau_latency(&ladder, *farthest));
    } else {
        reading.notes.push(format!(
            "a chase of {:.0} MB is not beyond the caches this machine claims: the latency of memory is unknown",
            largest.bytes / 1e6
        ));
    }
    let caches = &plateaus[..plateaus.len() - usize::from(has_memory)];
    reading.caches = match assign(caches, &levels, &ladder) {
        Some(assigned) => assigned
            .iter()
            .map(|(level, position)| effective(*level, *position, &plateaus, &ladder))
            .collect(),
        None => {
            reading.notes.push(format!(
                "the ladder shows {} cache levels where the system claims {}",
                caches.len(),
                levels.len()
            ));
            let numbered = caches.iter().zip(1..);
            numbered
                .map(|(plateau, level)| {
                    effective(level, LadderPosition::On(*plateau), &plateaus, &ladder)
                })
                .collect()
        }
    };
    reading
}

/// Bytes from which on a chase is larger than the caches claimed.
#[must_use]
pub fn outgrows(claimed: &[Cache]) -> f64 {
    claimed_levels(claimed).last().map_or(0.0, |(_, bytes)| OUTGROWN * bytes)
}

/// Points with sane numbers, by ascending size, one per size.
fn usable(points: &[LatencyPoint]) -> Vec<Point> {
    let mut ladder: Vec<Point> = points
        .iter()
        .filter_map(|point| {
            let latency =
                point.latency.value.filter(|latency| latency.is_finite() && *latency > 0.0)?;
            (point.bytes > 0).then_some(Point {
                bytes: point.bytes as f64,
                latency,
                samples: point.latency.samples,
            })
        })
        .collect();
    ladder.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    ladder.dedup_by_key(|point| point.bytes);
    ladder
}

/// Data and unified levels with the size that one CPU sees at most, nearest first.
fn claimed_levels(claimed: &[Cache]) -> Vec<(u32, f64)> {
    let mut levels: Vec<(u32, f64)> = Vec::new();
    let data =
        claimed.iter().filter(|cache| cache.kind != CacheKind::Instruction && cache.bytes > 0);
    for cache in data {
        match levels.iter_mut().find(|(level, _)| *level == cache.level) {
            Some((_, bytes)) => *bytes = bytes.max(cache.bytes as f64),
            None => levels.push((cache.level, cache.bytes as f64)),
        }
    }
    levels.sort_by_key(|(level, _)| *level);
    levels
}

/// Finds the plateaus, nearest first. The last point always belongs to one, so that there is a farthest level.
fn plateaus(ladder: &[Point]) -> Vec<Plateau> {
    let flat = |a: &Point, b: &Point| {
        (b.latency / a.latency).ln() < FLAT.ln() * (b.bytes / a.bytes).log2()
    };
    let mut found: Vec<Plateau> = Vec::new();
    let mut first = 0;
    for index in 1..=ladder.len() {
        if index < ladder.len() && flat(&ladder[index - 1], &ladder[index]) {
            continue;
        }
        let run = Plateau { first, last: index - 1 };
        // A single point inside a rise is not a level; at the ends it is, because its plateau may lie outside the
        // ladder.
        if run.last > run.first || run.first == 0 || run.last == ladder.len() - 1 {
            found.push(run);
        }
        first = index;
    }
    let mut merged: Vec<Plateau> = Vec::new();
    for plateau in found {
        match merged.last_mut() {
            Some(previous)
                if latency(ladder, plateau) < SAME_LEVEL * latency(ladder, *previous) =>
            {
                previous.last = plateau.last;
            }
            _ => merged.push(plateau),
        }
    }
    merged
}

/// Median latency of a plateau.
fn latency(ladder: &[Point], plateau: Plateau) -> f64 {
    let mut values: Vec<f64> =
        ladder[plateau.first..=plateau.last].iter().map(|point| point.latency).collect();
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Median latency of a plateau, between its least and its greatest.
fn plateau_latency(ladder: &[Point], plateau: Plateau) -> Metric {
    let own = latency(ladder, plateau);
    let members = &ladder[plateau.first..=plateau.last];
    let samples = members.iter().map(|point| point.samples).sum();
    let spread = members
        .iter()
        .fold((own, own), |(low, high), point| (low.min(point.latency), high.max(point.latency)));
    Metric::with_interval(Evidence::Calibrated, own, "ns", spread, samples)
}

/// Where a level shows on the ladder.
#[derive(Clone, Copy)]
enum LadderPosition {
    /// As a plateau.
    On(Plateau),
    /// Only as a rise: before the plateau with this index (in the list of all), after the one before it.
    Before(usize),
}

/// Gives the plateaus to the claimed levels; `None` when there are more plateaus than levels.
fn assign(
    caches: &[Plateau],
    levels: &[(u32, f64)],
    ladder: &[Point],
) -> Option<Vec<(u32, LadderPosition)>> {
    if caches.len() > levels.len() {
        return None;
    }
    let choice = closest_levels(caches, levels, ladder);
    let mut positions = Vec::new();
    for (index, (level, _)) in levels.iter().enumerate() {
        match choice.iter().position(|chosen| *chosen == index) {
            Some(plateau) => positions.push((*level, LadderPosition::On(caches[plateau]))),
            None => {
                let behind = choice.iter().filter(|chosen| **chosen < index).count();
                positions.push((*level, LadderPosition::Before(behind)));
            }
        }
    }
    Some(positions)
}

/// The ascending choice of levels that brings the plateaus' ends closest to the claimed sizes (in octaves). There
/// are at most a few levels: trying all choices costs nothing.
fn closest_levels(caches: &[Plateau], levels: &[(u32, f64)], ladder: &[Point]) -> Vec<usize> {
    // Bounds the choices to 256; no machine has that many levels, but a hostile description may.
    let levels = &levels[..levels.len().min(8)];
    let mut best = (f64::INFINITY, (0..caches.len()).collect::<Vec<usize>>());
    for subset in 0_u32..1 << levels.len() {
        let choice: Vec<usize> =
            (0..levels.len()).filter(|index| subset >> index & 1 == 1).collect();
        if choice.len() != caches.len() {
            continue;
        }
        let distance: f64 = caches
            .iter()
            .zip(&choice)
            .map(|(plateau, index)| (ladder[plateau.last].bytes / levels[*index].1).log2().abs())
            .sum();
        if distance < best.0 {
            best = (distance, choice);
        }
    }
    best.1
}

/// Size and latency of one level.
fn effective(
    level: u32,
    position: LadderPosition,
    plateaus: &[Plateau],
    ladder: &[Point],
) -> EffectiveCache {
    match position {
        LadderPosition::On(plateau) => on_plateau(level, plateau, plateaus, ladder),
        LadderPosition::Before(index) => on_rise(level, index, plateaus, ladder),
    }
}

fn on_plateau(
    level: u32,
    plateau: Plateau,
    plateaus: &[Plateau],
    ladder: &[Point],
) -> EffectiveCache {
    let own = latency(ladder, plateau);
    let latency_metric = plateau_latency(ladder, plateau);
    let samples = latency_metric.samples;
    let low = ladder[plateau.last].bytes;
    let after = &ladder[plateau.last + 1..];
    let near = after.iter().take_while(|point| point.latency <= NEAR * own).last();
    let value = near.map_or(low, |point| point.bytes);
    let next = plateaus.iter().find(|other| other.first > plateau.last);
    let bytes = match next {
        Some(next) => {
            // The geometric mean: latencies of levels differ by factors. The next plateau may be memory, far above: then `FAR`
            // bounds it.
            let middle = (own * latency(ladder, *next)).sqrt().min(FAR * own);
            let beyond = after
                .iter()
                .find(|point| point.latency > middle)
                .map_or(value, |point| point.bytes);
            Metric::with_interval(
                Evidence::Calibrated,
                value,
                "bytes",
                (low, beyond.max(value)),
                samples,
            )
        }
        None => Metric::with_interval(Evidence::Calibrated, value, "bytes", (low, low), samples)
            .noted("the chase never left this level: it may be larger"),
    };
    EffectiveCache { level, bytes, latency: latency_metric }
}

/// A level without a plateau: it lies somewhere on the rise.
fn on_rise(level: u32, index: usize, plateaus: &[Plateau], ladder: &[Point]) -> EffectiveCache {
    let unknown = "no plateau of its own: the latency rises steadily here, as it does when others share the cache";
    let no_latency = Metric::unavailable("ns", unknown);
    let (Some(before), Some(after)) =
        (index.checked_sub(1).and_then(|i| plateaus.get(i)), plateaus.get(index))
    else {
        return EffectiveCache {
            level,
            bytes: Metric::unavailable("bytes", unknown),
            latency: no_latency,
        };
    };
    let rise = &ladder[before.last..=after.first];
    let middle = (latency(ladder, *before) * latency(ladder, *after)).sqrt();
    let crossing = rise.windows(2).find(|pair| pair[1].latency > middle);
    let value = crossing.map_or(ladder[before.last].bytes, |pair| {
        // Between two points the latency rises about as a power of the size, so both are interpolated by their logarithms.
        let share = ((middle / pair[0].latency).ln() / (pair[1].latency / pair[0].latency).ln())
            .clamp(0.0, 1.0);
        pair[0].bytes * (pair[1].bytes / pair[0].bytes).powf(share)
    });
    let interval = (ladder[before.last].bytes, ladder[after.first].bytes);
    let samples = rise.iter().map(|point| point.samples).sum();
    let bytes = Metric::with_interval(Evidence::Calibrated, value, "bytes", interval, samples)
        .noted(unknown);
    EffectiveCache { level, bytes, latency: no_latency }
}
