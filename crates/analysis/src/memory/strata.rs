//! From bursts to totals of the whole program: stratified ratio estimates.
//!
//! What for: a burst is an observation at a random moment of the program's CPU time. Its amounts in a code region, per second of
//! native time there, are multiplied by the CPU time that samples attribute to that region: a region is a *stratum*. Samples are
//! many and bursts few, so this is more accurate than bursts alone, and functions without a burst show up as time of which
//! nothing is known. In a loop with a pace, a burst's seconds are its iterations divided by the pace; so the loop's total is that
//! of its iterations, each as in bursts.
//! What not: the amounts of a burst; totals and their scatter (`expansion`).
//!
//! Source: W. G. Cochran, "Sampling Techniques" (3rd ed., Wiley 1977), 5.2 (stratified totals), 6.10 (separate ratio estimate).
//!
//! Assumptions: bursts of a region are spread over its time evenly. Time in the kernel does nothing that is counted here (it copies
//! and zeroes memory: that traffic is left out).

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Nanos;
use estimate::interval::Z_95;
use estimate::{Bounds, Estimate};
use facts::{Evidence, Metric, Privilege, Sample};

use super::bins::Bins;
use super::code_regions::{CodeRegion, CodeRegions};
use super::concurrency::concurrency;
use super::expansion::{Chances, Expansion, Lots, Stratum};
use super::native::Speed;
use super::quantity::Quantity;
use super::represented::represented;
use super::unseen::{RegionWeights, Unseen};
use crate::profile::{Cell, Profile};
use crate::stack::NodeIndex;
use crate::traced::SiteIndex;
use crate::weight::Weight;

/// With fewer bursts in total there is no figure.
pub(crate) const FEWEST_IN_ALL: usize = 3;
/// The stratum of regions without bursts.
const UNSEEN: usize = 0;
/// Up to this share of CPU time in functions without a burst, these are not mentioned.
pub(crate) const FEW_UNSEEN: f64 = 0.05;
/// Number of bursts that represent a moment: the nearest in time.
const NEAREST: usize = 7;

/// One burst in one region, for estimates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Observation {
    /// Which burst.
    pub(crate) burst: usize,
    /// When.
    pub(crate) time: Nanos,
    /// Where.
    pub(crate) place: CodeRegion,
    /// Native seconds of the program's own time.
    pub(crate) seconds: f64,
    /// How these are uncertain.
    pub(crate) speed: Speed,
}

/// CPU time of one stratum.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    seconds: f64,
    samples: f64,
}

impl Share {
    /// Half of the 95 % interval of its seconds, as a part of them: its samples are a binomial share of all.
    fn scatter(&self, all_samples: f64) -> f64 {
        let p = (self.samples / all_samples.max(1.0)).min(1.0);
        Z_95 * ((1.0 - p) / self.samples.max(1.0)).sqrt()
    }
}

/// Strata with their CPU time and bursts.
#[derive(Debug)]
pub(crate) struct Strata {
    places: Arc<CodeRegions>,
    stratum_of: BTreeMap<CodeRegion, usize>,
    shares: Vec<Share>,
    /// For strata that are loops with a pace: relative error of their number of iterations.
    relative: Vec<Option<f64>>,
    /// Observations of each stratum, in the order of time.
    observations_of: Vec<Vec<usize>>,
    /// All observations, in the order of time.
    in_order: Vec<usize>,
    observations: Vec<Observation>,
    /// What the moment of each observation represents.
    weights: Arc<[f64]>,
    chances: Arc<Chances>,
    expansion: Expansion,
    /// Threads that run at the time of each burst; `None` without samples.
    running: Option<Vec<f64>>,
    /// Native seconds per nanosecond of sample weight.
    scale: f64,
    all_samples: f64,
    /// Half of the interval of its native time, as a part of that. Where nothing tells it, half of the time in bursts and windows:
    /// the program did less there than natively.
    disturbed: f64,
    /// How many bursts these are.
    distinct: usize,
    /// What regions without bursts may do in addition.
    unlike: Unseen,
    /// CPU time of each region without bursts, seconds; and of all of them.
    unseen_places: BTreeMap<CodeRegion, f64>,
    pub(crate) unseen_seconds: f64,
    /// Native time in the program, seconds.
    pub(crate) seconds: f64,
}

impl Strata {
    /// Sorts bursts and samples.
    pub(crate) fn new(
        profile: &Profile<'_>,
        places: Arc<CodeRegions>,
        observations: Vec<Observation>,
        off: &[Vec<f64>],
    ) -> Strata {
        let cells = profile.stack_cells().iter().filter(|cell| !cell.kernel);
        let in_order = (0..observations.len()).collect();
        let time = cells.map(|cell| (cell.stack, &cell.weight));
        let speeds = observations.iter().map(|one| (one.place, one.speed));
        let chances = Arc::new(Chances::new(speeds, off));
        let weights = weights(profile, &observations).into();
        let mut strata = Strata::sorted(
            profile,
            (places, chances, weights),
            observations,
            (in_order, true),
            time,
        );
        let moments = strata.observations.iter().map(|observation| observation.time);
        let scale = strata.scale / strata.places.undisturbed.share();
        strata.running = concurrency(profile.recording, moments, scale);
        strata
    }

    /// The same for a part of the CPU time, for which bursts speak that were taken in it, and no others.
    pub(crate) fn of_part(
        &self,
        profile: &Profile<'_>,
        cells: &[Cell],
        chosen: impl Fn(usize) -> bool,
    ) -> Strata {
        let in_order = (0..self.observations.len()).filter(|burst| chosen(*burst)).collect();
        let cells = cells.iter().filter(|cell| !cell.kernel);
        let time = cells.map(|cell| (cell.stack, &cell.weight));
        let of = (Arc::clone(&self.places), Arc::clone(&self.chances), Arc::clone(&self.weights));
        let strata =
            Strata::sorted(profile, of, self.observations.clone(), (in_order, false), time);
        Strata { running: self.running.clone(), ..strata }
    }

    /// Some of these observations; they represent times of stacks.
    fn sorted<'w>(
        profile: &Profile<'_>,
        (places, chances, weights): (Arc<CodeRegions>, Arc<Chances>, Arc<[f64]>),
        observations: Vec<Observation>,
        (in_order, is_whole): (Vec<usize>, bool),
        time: impl Iterator<Item = (Option<NodeIndex>, &'w Weight)>,
    ) -> Strata {
        let (mut stratum_of, mut relative) = (BTreeMap::new(), vec![None]);
        for observation in &in_order {
            let place = observations[*observation].place;
            stratum_of.entry(place).or_insert_with(|| {
                relative.push(places.paced(place).map(|paced| paced.relative));
                relative.len() - 1
            });
        }
        let mut distinct: Vec<usize> =
            in_order.iter().map(|observation| observations[*observation].burst).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut strata = Strata {
            places,
            shares: vec![Share::default(); relative.len()],
            observations_of: vec![Vec::new(); relative.len()],
            relative,
            expansion: Expansion::new(Arc::clone(&chances), distinct.len()),
            unlike: Unseen::none(Expansion::new(Arc::clone(&chances), 0)),
            chances,
            distinct: distinct.len(),
            in_order,
            stratum_of,
            observations,
            weights,
            running: None,
            scale: 0.0,
            all_samples: 0.0,
            disturbed: 0.0,
            unseen_places: BTreeMap::new(),
            unseen_seconds: 0.0,
            seconds: 0.0,
        };
        strata.in_order.sort_by_key(|index| strata.observations[*index].time);
        for index in &strata.in_order {
            let stratum = strata.stratum(strata.observations[*index].place);
            strata.observations_of[stratum].push(*index);
        }
        strata.add_time(profile, time);
        let mut expansion = strata.expand(&strata.shares, is_whole);
        strata.unlike = strata.unseen_places(&mut expansion);
        strata.expansion = expansion;
        strata
    }

    fn add_time<'w>(
        &mut self,
        profile: &Profile<'_>,
        time: impl Iterator<Item = (Option<NodeIndex>, &'w Weight)>,
    ) {
        let whole = profile.cpu_scale().whole_quantity().value.unwrap_or(0.0);
        let in_bursts = Nanos(profile.recording.run.own_cost.burst_time_ns.unwrap_or(0)).seconds();
        let undisturbed = self.places.undisturbed;
        let unknown = || if whole > 0.0 { (in_bursts / 2.0 / whole).min(0.5) } else { 0.0 };
        self.disturbed = undisturbed.relative().unwrap_or_else(unknown);
        if profile.whole().amount() == 0 {
            // Without samples bursts alone say where the time went.
            let seconds = profile.counted_cpu_seconds().unwrap_or(0.0);
            let observations = self.observations.len().max(1) as f64;
            for (share, bursts) in self.shares.iter_mut().zip(&self.observations_of) {
                let samples = bursts.len() as f64;
                *share = Share { seconds: seconds * samples / observations, samples };
            }
            let chosen = self.in_order.len() as f64;
            (self.seconds, self.all_samples) = (seconds * (chosen / observations), chosen.max(1.0));
            return;
        }
        self.scale = profile.seconds_per_weight() * undisturbed.share();
        for (stack, weight) in time {
            let place = self.places.of_stack(profile, stack);
            let seconds = weight.amount() as f64 * self.scale;
            let stratum = self.stratum(place);
            self.shares[stratum].seconds += seconds;
            self.shares[stratum].samples += weight.effective_records();
            self.seconds += seconds;
            self.all_samples += weight.effective_records();
            if stratum == UNSEEN {
                self.unseen_seconds += seconds;
                *self.unseen_places.entry(place).or_default() += seconds;
            }
        }
    }

    fn stratum(&self, place: CodeRegion) -> usize {
        self.stratum_of.get(&place).copied().unwrap_or(UNSEEN)
    }

    /// Half of the 95 % interval of how much a stratum's share did at its rate, as a part of it. The iterations of a loop are
    /// known for the whole run; of a part of it samples tell which part.
    fn scatter(&self, stratum: usize, share: &Share, samples: f64, is_whole: bool) -> f64 {
        let known = match self.relative[stratum] {
            Some(relative) if is_whole => relative,
            Some(relative) => relative.hypot(share.scatter(samples)),
            None => share.scatter(samples),
        };
        known.hypot(self.disturbed)
    }

    /// CPU time in the program, seconds: with what bursts and windows took.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.seconds / self.places.undisturbed.share()
    }

    /// Native seconds of a burst in a place.
    pub(crate) fn seconds_of(&self, burst: usize) -> f64 {
        self.observations[burst].seconds
    }

    /// The same, as far as they are known.
    pub(super) fn native(&self, burst: usize) -> Estimate {
        self.chances.native(burst, self.seconds_of(burst))
    }

    /// An amount of a burst.
    pub(super) fn drawn(&self, burst: usize, amount: Bounds) -> Estimate {
        self.chances.drawn(burst, amount)
    }

    /// Where a site is.
    pub(super) fn region_of(&self, site: SiteIndex) -> Option<CodeRegion> {
        self.places.of_site(site)
    }

    /// Threads of the program that run their own code while a burst is taken.
    pub(crate) fn concurrency(&self, burst: usize) -> Option<f64> {
        self.running.as_ref().map(|running| running[burst])
    }

    /// When a burst was.
    pub(crate) fn time_of(&self, burst: usize) -> Nanos {
        self.observations[burst].time
    }

    /// How many bursts speak.
    pub(crate) fn bursts(&self) -> usize {
        self.distinct
    }

    /// Share of the CPU time that is of places to which no burst came, 0..1.
    pub(crate) fn unseen(&self) -> f64 {
        (self.unseen_seconds / self.seconds.max(1e-9)).min(1.0)
    }

    /// What observations represent.
    pub(crate) fn expansion(&self) -> &Expansion {
        &self.expansion
    }

    /// A total of everything, over `per`, with what bursts leave open: a place without bursts may do what none of the others
    /// does, up to `most` per second. What no burst saw at all may still fill 3 / bursts of the time (J. A. Hanley,
    /// A. Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249 (1983) 1743-1745); it is not known when functions without a burst are more than [`FEW_UNSEEN`] of the time.
    pub(crate) fn opened(
        &self,
        quantity: &Quantity,
        (per, unit): (f64, &str),
        evidence: Evidence,
        most: f64,
    ) -> Metric {
        let total = self.unlike.total(&self.expansion, quantity, most) / per;
        if total.point() > 0.0 {
            return self.expansion.shown(total, unit, evidence);
        }
        if self.unseen() > FEW_UNSEEN {
            let percent = self.unseen() * 100.0;
            return Metric::unavailable(
                unit,
                &format!(
                    "none in the bursts, and no burst began in functions with {percent:.0} % of the CPU time"
                ),
            );
        }
        let missed = 3.0 / self.bursts().max(3) as f64 * self.seconds;
        let interval = (0.0, missed * most / per);
        Metric::with_interval(evidence, 0.0, unit, interval, self.bursts() as u64)
    }

    /// The total of an amount, with what code without bursts may have of it, up to `most` per second.
    pub(crate) fn amount(
        &self,
        quantity: &Quantity,
        unit: &str,
        evidence: Evidence,
        most: f64,
    ) -> Metric {
        let total = self.unlike.amount(&self.expansion, quantity, most);
        self.expansion.shown(total, unit, evidence)
    }

    /// A part of a whole, percent.
    pub(crate) fn percent(&self, part: &Quantity, whole: &Quantity, nothing: &str) -> Metric {
        self.unlike.percent(&self.expansion, (part, whole), Evidence::Simulated, nothing)
    }

    /// A part of native time, percent.
    pub(super) fn percent_of_time(&self, part: &[Estimate], time: &Quantity) -> Option<Estimate> {
        self.unlike.percent_of_time(self.expansion.drawn(part), self.expansion.time(time))
    }

    /// The looks of a stratum in the order of time; all of them for one without any.
    fn speaking_for(&self, stratum: usize) -> &[usize] {
        match self.observations_of[stratum].as_slice() {
            [] => &self.in_order,
            some => some,
        }
    }

    /// What observations represent over these times of strata, without regions that have none.
    fn expand(&self, shares: &[Share], is_whole: bool) -> Expansion {
        let mut lots = Lots::default();
        let mut expansion = Expansion::new(Arc::clone(&self.chances), self.distinct);
        for (stratum, share) in shares.iter().enumerate().filter(|(at, _)| *at != UNSEEN) {
            let scatter = self.scatter(stratum, share, self.all_samples, is_whole);
            let observations = self.speaking_for(stratum);
            let (seed, seconds, weights) = (stratum as u64, share.seconds, &*self.weights);
            let part = Stratum { seed, seconds, scatter, observations, weights };
            expansion.add(&part, &mut lots, |observation| self.seconds_of(observation));
        }
        expansion
    }

    /// The same over CPU time in the program: of one thread.
    pub(crate) fn expansion_of_cells(&self, profile: &Profile<'_>, cells: &[Cell]) -> Expansion {
        let mut shares = vec![Share::default(); self.shares.len()];
        for cell in cells.iter().filter(|cell| !cell.kernel) {
            let place = self.places.of_stack(profile, cell.stack);
            let share = &mut shares[self.stratum(place)];
            share.seconds += cell.weight.amount() as f64 * self.scale;
            share.samples += cell.weight.effective_records();
        }
        let mut expansion = self.expand(&shares, false);
        self.add_mean(&mut expansion, shares[UNSEEN].seconds);
        expansion
    }

    /// Some observations alone, in the order of time, which represent their own seconds: each second counts alike.
    pub(crate) fn expansion_of(&self, observations: &[usize]) -> Expansion {
        let mut expansion = Expansion::new(Arc::clone(&self.chances), observations.len());
        let seconds =
            observations.iter().map(|observation| self.observations[*observation].seconds).sum();
        let (seed, scatter, weights) = (u64::from(u32::MAX), 0.0, &[][..]);
        let part = Stratum { seed, seconds, scatter, observations, weights };
        expansion.add(&part, &mut Lots::default(), |observation| self.seconds_of(observation));
        expansion
    }

    /// Work of regions without a burst, if they are like others and if they are not.
    fn unseen_places(&self, expansion: &mut Expansion) -> Unseen {
        let more = Expansion::new(Arc::clone(&self.chances), self.distinct);
        let mut sums: BTreeMap<CodeRegion, f64> = BTreeMap::new();
        let mut seen = RegionWeights::new();
        for observation in &self.in_order {
            let Observation { place, seconds, .. } = self.observations[*observation];
            if seconds > 0.0 {
                *sums.entry(place).or_default() += seconds;
                seen.entry(place).or_default().push((*observation, 1.0));
            }
        }
        for (place, observations) in &mut seen {
            observations.iter_mut().for_each(|(_, weight)| *weight /= sums[place]);
        }
        if seen.is_empty() {
            return Unseen::none(more);
        }
        Unseen::new(self.unseen_places.values().copied(), &seen, expansion, more)
    }

    /// What the mean of all observations represents in a second.
    pub(crate) fn mean_second(&self) -> Expansion {
        let mut expansion = Expansion::new(Arc::clone(&self.chances), self.distinct);
        self.add_mean(&mut expansion, 1.0);
        expansion
    }

    /// Time of which the mean of all looks speaks.
    fn add_mean(&self, expansion: &mut Expansion, seconds: f64) {
        let (seed, scatter, observations) = (UNSEEN as u64, 0.0, self.in_order.as_slice());
        let part = Stratum { seed, seconds, scatter, observations, weights: &[] };
        expansion.add(&part, &mut Lots::default(), |observation| self.seconds_of(observation));
    }

    /// Expansions per bin of time, with the seconds of code that no burst saw. Looks near in time speak for a bin, and for that code
    /// the mean of all ([`Strata::mean_second`]): those that are near are of other code, and few of them, at a high rate, would fill
    /// all of its time with bandwidth that the total does not have. `chosen`: samples of what these strata are of.
    pub(crate) fn over_time(
        &self,
        profile: &Profile<'_>,
        bins: &Bins,
        chosen: impl Fn(&Sample) -> bool,
        mut each: impl FnMut(&Expansion, f64),
    ) {
        let mut shares = vec![vec![Share::default(); self.shares.len()]; bins.count()];
        if self.scale <= 0.0 {
            // Without samples bursts alone say when it was, as they say where.
            for observation in self.in_order.iter().map(|burst| &self.observations[*burst]) {
                let Some(bin) = bins.index(observation.time) else { continue };
                let share = &mut shares[bin][self.stratum(observation.place)];
                share.seconds += self.seconds / self.in_order.len() as f64;
                share.samples += 1.0;
            }
        }
        let user = |sample: &&Sample| sample.privilege != Privilege::Kernel && chosen(sample);
        let stratum_of = |stack| self.stratum(self.places.of_stack(profile, stack));
        let of_nodes = profile.stacks.of_each_node(stratum_of);
        let without_stack = stratum_of(None);
        for sample in profile.recording.samples.iter().filter(user) {
            let Some(bin) = bins.index(sample.time) else { continue };
            let stack = sample.stack.and_then(|id| profile.stacks.find(id));
            let stratum = stack.map_or(without_stack, |node| of_nodes[node.index()]);
            let share = &mut shares[bin][stratum];
            share.seconds += sample.weight.0 as f64 * self.scale;
            share.samples += 1.0;
        }
        let mut lots = Lots::default();
        for (bin, shares) in shares.iter().enumerate() {
            let middle = bins.start(bin) + Nanos(bins.width.0 / 2);
            let samples: f64 = shares.iter().map(|share| share.samples).sum();
            let mut expansion = Expansion::new(Arc::clone(&self.chances), self.distinct);
            let seen = |(at, one): &(usize, &Share)| *at != UNSEEN && one.seconds > 0.0;
            for (stratum, share) in shares.iter().enumerate().filter(seen) {
                let observations = self.nearest(stratum, middle);
                let scatter = self.scatter(stratum, share, samples, false);
                let (seed, seconds, observations) = (stratum as u64, share.seconds, &*observations);
                let part = Stratum { seed, seconds, scatter, observations, weights: &[] };
                expansion.add(&part, &mut lots, |observation| self.seconds_of(observation));
            }
            each(&expansion, shares[UNSEEN].seconds);
        }
    }

    /// The looks of a stratum that are nearest to a moment. They are in the order of time, so no more than as many on
    /// either side come into question.
    fn nearest(&self, stratum: usize, time: Nanos) -> Vec<usize> {
        let all = self.speaking_for(stratum);
        let behind = all.partition_point(|index| self.observations[*index].time < time);
        let around = behind.saturating_sub(NEAREST)..all.len().min(behind + NEAREST);
        let mut observations = all[around].to_vec();
        observations.sort_by_key(|index| self.observations[*index].time.0.abs_diff(time.0));
        observations.truncate(NEAREST);
        observations.sort_by_key(|index| self.observations[*index].time);
        observations
    }
}

/// What the moment of each observation represents: all of a burst share one.
fn weights(profile: &Profile<'_>, observations: &[Observation]) -> Vec<f64> {
    let bursts: BTreeMap<usize, Nanos> =
        observations.iter().map(|one| (one.burst, one.time)).collect();
    let moments: Vec<Nanos> = bursts.values().copied().collect();
    let represented = represented(profile, &moments);
    let of_burst: BTreeMap<usize, f64> = bursts.into_keys().zip(represented).collect();
    observations.iter().map(|one| of_burst[&one.burst]).collect()
}
