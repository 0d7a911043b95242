//! What an instruction takes natively in each region of the code, by all windows.
//!
//! What for: native seconds of an instruction, with what is off in all regions alike (the cost of counting, of which windows miss the same
//! everywhere) and what is off by chance: windows scatter, and few windows say little ([`estimate::ratios`]). Windows
//! begin at random moments of the program, so all of them together spend in a region the share of the time that samples find there. An
//! instruction there takes that share of their native time, over the region's instructions in them; where no sample fell, as
//! long as the mean. A single window is not divided: one in which a region did not run tells as much of it as the others. Each window
//! counts as much as its moment represents. What not: native time of a single window (`windows`); of bursts (`native`).
//!
//! A region without windows is like one more of those that have some: its pace is drawn around the mean of all, by the scatter of
//! regions, each in proportion to its time, and what is known of that before ([`PACES_APART`]). No instruction takes less than
//! [`quickest`](super::core_time::quickest).
//!
//! Assumption: regions without windows are off independently of each other.

use std::collections::BTreeMap;

use estimate::parameters::{PACES_APART, SPEED_OFF};
use estimate::ratios::{Term, off};
use estimate::{Bounds, Draws};

use super::code_regions::{CodeRegion, CodeRegions};
use super::native::Speed;
use super::windows::Pair;

/// So many regions' worth is known of their scatter before.
const BEFORE: f64 = 3.0;
/// Of more windows, those that follow each other are one observation.
const MOST_OBSERVATIONS: usize = 256;
/// Random numbers of windows, of groups of these, and of regions without any.
const SEED: u64 = 0x0070_6163_6500;

/// Native seconds of an instruction, by region.
#[derive(Debug, Default)]
pub(super) struct NativePaces {
    each: BTreeMap<CodeRegion, Each>,
    anywhere: Option<(f64, Bounds)>,
    /// Of each region that is off by chance, the number of its logarithms in `off`.
    number: BTreeMap<CodeRegion, usize>,
    off: Vec<Vec<f64>>,
}

/// What windows say of a region.
#[derive(Clone, Debug)]
struct Each {
    windows: usize,
    /// Instructions in all of them.
    count: f64,
    /// Native time of these, as far as it is off in all regions alike.
    seconds: Bounds,
}

impl NativePaces {
    /// From windows with their weights and native times; of `regions` not all have windows.
    pub(super) fn new(
        windows: &[(&Pair, f64, Bounds)],
        places: &CodeRegions,
        regions: impl Iterator<Item = CodeRegion>,
        quickest: f64,
    ) -> NativePaces {
        let mut paces = NativePaces::default();
        for (place, each, off) in each(windows, places) {
            paces.each.insert(place, each);
            paces.number.insert(place, paces.off.len());
            paces.off.push(off);
        }
        let anywhere = anywhere(paces.each.values());
        let Some(Anywhere { pace, deviation, freedom }) = anywhere else { return paces };
        let mut draws = Draws::new(SEED | 2);
        for place in regions {
            if paces.number.contains_key(&place) {
                continue;
            }
            paces.number.insert(place, paces.off.len());
            let least = (quickest / pace.best).max(f64::MIN_POSITIVE).ln();
            let numbers = draws.normal().into_iter().zip(draws.tails(freedom));
            paces.off.push(numbers.map(|(z, tail)| (z * tail * deviation).max(least)).collect());
        }
        paces.anywhere = Some((pace.best, pace.times(1.0 / pace.best)));
        paces
    }

    /// Whether windows tell a region, at least so many.
    pub(super) fn tells(&self, place: CodeRegion, windows: usize) -> bool {
        self.each.get(&place).is_some_and(|each| each.windows >= windows)
    }

    /// Whether they tell what any region takes.
    pub(super) fn tells_all(&self) -> bool {
        self.anywhere.is_some()
    }

    /// Of a region with windows.
    pub(super) fn of(&self, place: CodeRegion) -> Option<(f64, Speed)> {
        let each = self.each.get(&place)?;
        let seconds = each.seconds;
        Some((seconds.best / each.count, self.speed(place, seconds.times(1.0 / seconds.best))))
    }

    /// Of one without.
    pub(super) fn anywhere(&self, place: CodeRegion) -> Option<(f64, Speed)> {
        let (pace, off) = self.anywhere?;
        Some((pace, self.speed(place, off)))
    }

    fn speed(&self, place: CodeRegion, time: Bounds) -> Speed {
        // What is off in windows, and how far they tell the speed, have nothing to do with each other.
        let off = (1.0 + SPEED_OFF.value).ln();
        let (low, high) = ((-time.high.ln().hypot(off)).exp(), time.low.ln().hypot(off).exp());
        Speed { off: self.number.get(&place).copied(), ..Speed::between(1.0, low, high) }
    }

    /// Logarithms of native times over their best value, by [`Speed::off`].
    pub(super) fn into_off(self) -> Vec<Vec<f64>> {
        self.off
    }
}

/// Of each region, with by which part its native time is off besides, in each replicate.
fn each(
    windows: &[(&Pair, f64, Bounds)],
    places: &CodeRegions,
) -> Vec<(CodeRegion, Each, Vec<f64>)> {
    let mut in_order: Vec<&(&Pair, f64, Bounds)> = windows.iter().collect();
    in_order.sort_by_key(|(pair, ..)| pair.time);
    let batch = in_order.len().div_ceil(MOST_OBSERVATIONS).max(1);
    let mut seconds = Bounds::exactly(0.0);
    let mut observed: Vec<(f64, BTreeMap<CodeRegion, f64>)> = Vec::new();
    let mut found: BTreeMap<CodeRegion, Each> = BTreeMap::new();
    for windows in in_order.chunks(batch) {
        let (mut native, mut counts) = (0.0, BTreeMap::new());
        for (pair, weight, time) in windows {
            let time = time.times(*weight);
            seconds = seconds.plus(time);
            native += time.best;
            for (place, count) in pair.by_place.iter().filter(|(_, count)| **count > 0.0) {
                *counts.entry(*place).or_default() += weight * count;
                let none = || Each { windows: 0, count: 0.0, seconds: Bounds::exactly(0.0) };
                let each = found.entry(*place).or_insert_with(none);
                each.windows += 1;
                each.count += weight * count;
            }
        }
        observed.push((native, counts));
    }
    let all: f64 = found.values().map(|each| each.count).sum();
    let all_sampled = places.all_sampled();
    for (place, each) in &mut found {
        // Where no sample fell it is like the others: half a sample over three instructions would be microseconds each.
        let sampled = places.sampled(*place).map(|own| own / all_sampled);
        each.seconds = seconds.times(sampled.unwrap_or(each.count / all));
    }
    let terms = |(place, each): (&CodeRegion, &Each)| -> Vec<Term> {
        let share = each.seconds.best / seconds.best;
        let term = |(observation, (native, counts)): (usize, &(f64, BTreeMap<_, _>))| Term {
            observation,
            upper: native * share,
            lower: counts.get(place).copied().unwrap_or(0.0),
        };
        observed.iter().enumerate().map(term).collect()
    };
    let off = off(&found.iter().map(terms).collect::<Vec<_>>(), SEED);
    let of = |((place, each), off): ((CodeRegion, Each), Option<Vec<f64>>)| {
        (each.seconds.low > 0.0).then_some((place, each, off?))
    };
    found.into_iter().zip(off).filter_map(of).collect()
}

/// Native seconds of an instruction in one more region.
struct Anywhere {
    /// The time of all regions over their instructions, as far as it is off in all alike.
    pace: Bounds,
    /// Of its logarithm.
    deviation: f64,
    freedom: f64,
}

fn anywhere<'e>(regions: impl Iterator<Item = &'e Each> + Clone) -> Option<Anywhere> {
    let weight = |each: &Each| each.seconds.best;
    let mean_of = |of: &dyn Fn(&Each) -> f64| -> f64 {
        let all: f64 = regions.clone().map(weight).sum();
        regions.clone().map(|each| weight(each) * of(each)).sum::<f64>() / all
    };
    let seconds = regions.clone().map(|each| each.seconds).reduce(Bounds::plus)?;
    // Regions of equal weight that would tell as much (Kish, Survey Sampling, 1965, 11.2).
    let squares: f64 = regions.clone().map(|each| weight(each).powi(2)).sum();
    let count = seconds.best.powi(2) / squares;
    let logarithm = |each: &Each| (each.seconds.best / each.count).ln();
    let mean = mean_of(&logarithm);
    let squares = mean_of(&|each| (logarithm(each) - mean).powi(2)) * count;
    let freedom = BEFORE + count - 1.0;
    let variance = (BEFORE * PACES_APART.value.powi(2) + squares) / freedom;
    let pace = seconds.times(1.0 / regions.map(|each| each.count).sum::<f64>());
    Some(Anywhere { pace, deviation: (variance * (1.0 + 1.0 / count)).sqrt(), freedom })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(nanos: f64, seconds: f64) -> Each {
        Each {
            windows: 3,
            count: seconds / nanos * 1e9,
            seconds: Bounds { best: seconds, low: seconds * 2.0 / 3.0, high: seconds * 4.0 / 3.0 },
        }
    }

    /// Regions of 1 ns and 4 ns per instruction, of 1 s each: one more is between, or beyond.
    #[test]
    fn a_region_without_windows_is_like_the_others() {
        let two = [each(1.0, 1.0), each(4.0, 1.0)];
        let Anywhere { pace, deviation, freedom } = anywhere(two.iter()).unwrap();
        assert!((pace.best / 1.6e-9 - 1.0).abs() < 1e-9, "{pace:?}");
        assert!((pace.high / pace.best - 4.0 / 3.0).abs() < 1e-9, "{pace:?}");
        assert!(deviation > 1.0 && (freedom - 4.0).abs() < 1e-9, "{deviation} {freedom}");
        let alike = vec![each(2.0, 1.0); 100];
        let Anywhere { pace, deviation, .. } = anywhere(alike.iter()).unwrap();
        assert!((pace.best / 2e-9 - 1.0).abs() < 1e-9 && deviation < 0.2, "{deviation}");
        // One region alone: what is known before.
        let one = anywhere([each(1.0, 100.0)].iter()).unwrap();
        assert!((one.deviation - 2.0f64.sqrt()).abs() < 1e-9, "{}", one.deviation);
        assert!(anywhere([].iter()).is_none());
    }
}
