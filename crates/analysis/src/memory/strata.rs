//! From bursts to totals of the whole program: stratified ratio estimates.
//!
//! What for: a burst is a look at a random moment of the program's CPU time. What it saw in a place of the code per second of
//! native time there is multiplied by the CPU time that the samples give to that place: what bursts did in one place is a
//! *stratum*. Samples are many and bursts few, so this is closer to the truth than bursts alone, and functions to which
//! bursts do not come show up as time that nothing is known about. Of a loop with a pace a burst's seconds are its
//! iterations, by the pace: so its total is that of its iterations, each as bursts saw it.
//! Bursts begin at random moments, but many end with a number of records: where code is quick they are short. So each counts
//! for the same time, however long it was; of a loop with a pace, each iteration counts alike.
//! What not: what a burst saw.
//!
//! Source: W. G. Cochran, "Sampling Techniques" (3rd ed., Wiley 1977), 5.2 (stratified totals), 5.4 (their degrees of
//! freedom, after Satterthwaite), 6.10 (separate ratio estimate), 6.11 (combined ratio estimate).
//!
//! The scatter of bursts is that of a systematic sample in time ([`variance_in_order`]).
//!
//! Assumptions: bursts of one place are spread over its time as that is; time in the kernel does nothing that is counted
//! here (it copies and clears memory: that traffic is left out).

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Nanos;
use facts::{Evidence, Metric, Privilege, Sample};

use super::bandwidth::Quantity;
use super::beside::running_beside;
use super::bins::Bins;
use super::places::{Place, Places};
use crate::interval::{Z_95, student_between, variance_in_order};
use crate::profile::{Cell, Profile};
use crate::stack::NodeIndex;
use crate::weight::Weight;

/// With fewer bursts, a place shares a stratum with others; and a loop with a pace, in which the time of bursts does not
/// matter.
const FEWEST: usize = 4;
const FEWEST_OF_LOOP: usize = 2;
/// With fewer bursts in all, nothing is said.
pub(crate) const FEWEST_IN_ALL: usize = 3;
/// The stratum of places with few bursts or none.
const REST: usize = 0;
/// With fewer places that have bursts, these tell nothing of others.
const FEWEST_PLACES: usize = 3;
/// Up to this share of CPU time in functions without a burst, these are not mentioned.
pub(crate) const FEW_UNSEEN: f64 = 0.05;
/// Seconds that a burst counts for. It stands beside loops with a pace, of which longer bursts count for more.
const EVEN: f64 = 100e-6;
/// Seconds: a burst that left our code at once tells little.
pub(super) const SHORTEST: f64 = 1e-6;
/// Bursts that speak for a moment: the nearest in time.
const NEAREST: usize = 7;

/// What a burst saw in one place, for estimates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Look {
    /// Which burst.
    pub(crate) burst: usize,
    /// When.
    pub(crate) time: Nanos,
    /// Where.
    pub(crate) place: Place,
    /// Native seconds of the program's own time.
    pub(crate) seconds: f64,
    /// The same of all that the burst did, in whatever places.
    pub(crate) of_burst: f64,
}

/// A sum over the program's CPU time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Total {
    /// The sum.
    pub(crate) value: f64,
    /// Half of its 95 % interval, from the scatter of bursts and samples.
    pub(crate) half: f64,
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
    places: Arc<Places>,
    stratum_of: BTreeMap<Place, usize>,
    shares: Vec<Share>,
    /// Of strata that are loops with a pace: by how much their number of iterations may be off, relative.
    relative: Vec<Option<f64>>,
    /// Whether the shares are of the whole run, as those iterations are.
    is_whole: bool,
    /// Bursts of each stratum, in the order of time.
    bursts: Vec<Vec<usize>>,
    /// All bursts, in the order of time.
    in_order: Vec<usize>,
    looks: Vec<Look>,
    /// Threads that run at the time of each burst; `None` where nobody sampled them.
    running: Option<Vec<f64>>,
    /// Seconds per nanosecond of sample weight.
    scale: f64,
    all_samples: f64,
    /// How many bursts these are.
    distinct: usize,
    /// CPU time of each place, seconds.
    seconds_in: BTreeMap<Place, f64>,
    /// CPU time of each place to which no burst came, seconds; and of all of them.
    unseen_places: BTreeMap<Place, f64>,
    pub(crate) unseen_seconds: f64,
    /// CPU time in the program, seconds.
    pub(crate) seconds: f64,
}

impl Strata {
    /// Sorts bursts and samples.
    pub(crate) fn new(profile: &Profile<'_>, places: Arc<Places>, looks: Vec<Look>) -> Strata {
        let cells = profile.stack_cells().iter().filter(|cell| !cell.kernel);
        let in_order = (0..looks.len()).collect();
        let time = cells.map(|cell| (cell.stack, &cell.weight));
        let mut strata = Strata::sorted(profile, places, looks, in_order, time);
        strata.is_whole = true;
        let moments = strata.looks.iter().map(|look| look.time);
        strata.running = running_beside(profile.recording, moments, strata.scale);
        strata
    }

    /// The same for a part of the CPU time, for which bursts speak that were taken in it, and no others.
    pub(crate) fn of_part(
        &self,
        profile: &Profile<'_>,
        cells: &[Cell],
        chosen: impl Fn(usize) -> bool,
    ) -> Strata {
        let in_order = (0..self.looks.len()).filter(|burst| chosen(*burst)).collect();
        let cells = cells.iter().filter(|cell| !cell.kernel);
        let time = cells.map(|cell| (cell.stack, &cell.weight));
        let places = Arc::clone(&self.places);
        let strata = Strata::sorted(profile, places, self.looks.clone(), in_order, time);
        Strata { running: self.running.clone(), ..strata }
    }

    /// Of all these looks some; what they speak for are times of stacks.
    fn sorted<'w>(
        profile: &Profile<'_>,
        places: Arc<Places>,
        looks: Vec<Look>,
        in_order: Vec<usize>,
        time: impl Iterator<Item = (Option<NodeIndex>, &'w Weight)>,
    ) -> Strata {
        let mut by_place: BTreeMap<Place, usize> = BTreeMap::new();
        let seen = in_order.iter().map(|look| looks[*look].place);
        seen.for_each(|place| *by_place.entry(place).or_default() += 1);
        let (mut stratum_of, mut relative) = (BTreeMap::new(), vec![None]);
        let mut has_own = |place: Place, count: usize| {
            let paced = places.paced(place).map(|paced| paced.relative);
            let enough = count >= if paced.is_some() { FEWEST_OF_LOOP } else { FEWEST };
            if enough {
                stratum_of.insert(place, relative.len());
                relative.push(paced);
            }
            enough
        };
        // A loop with few bursts shares a stratum with the rest of its function.
        let is_function = |(place, _): &(Place, usize)| matches!(place, Place::Function(_));
        let mut functions: BTreeMap<Place, usize> =
            by_place.iter().map(|(place, count)| (*place, *count)).filter(is_function).collect();
        let mut joined = Vec::new();
        for (place, function) in places.loops() {
            let count = by_place.get(&place).copied().unwrap_or(0);
            if !has_own(place, count) {
                *functions.entry(function).or_default() += count;
                joined.push((place, function));
            }
        }
        for (function, count) in functions {
            has_own(function, count);
        }
        for (place, function) in joined {
            if let Some(stratum) = stratum_of.get(&function).copied() {
                stratum_of.insert(place, stratum);
                by_place.entry(place).or_default();
            }
        }
        let mut distinct: Vec<usize> = in_order.iter().map(|look| looks[*look].burst).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut strata = Strata {
            places,
            shares: vec![Share::default(); relative.len()],
            bursts: vec![Vec::new(); relative.len()],
            relative,
            is_whole: false,
            distinct: distinct.len(),
            in_order,
            stratum_of,
            looks,
            running: None,
            scale: 0.0,
            all_samples: 0.0,
            seconds_in: BTreeMap::new(),
            unseen_places: BTreeMap::new(),
            unseen_seconds: 0.0,
            seconds: 0.0,
        };
        strata.in_order.sort_by_key(|index| strata.looks[*index].time);
        for index in &strata.in_order {
            let stratum = strata.stratum(strata.looks[*index].place);
            strata.bursts[stratum].push(*index);
        }
        strata.add_time(profile, &by_place, time);
        strata
    }

    fn add_time<'w>(
        &mut self,
        profile: &Profile<'_>,
        seen: &BTreeMap<Place, usize>,
        time: impl Iterator<Item = (Option<NodeIndex>, &'w Weight)>,
    ) {
        let scale = profile.cpu_scale();
        let whole = scale.whole_quantity().value.unwrap_or(0.0);
        let amount = profile.whole().amount() as f64;
        if amount <= 0.0 {
            // Without samples bursts alone say where the time went.
            let seconds = profile.counted_cpu_seconds().unwrap_or(0.0);
            let looks = self.looks.len().max(1) as f64;
            for (share, bursts) in self.shares.iter_mut().zip(&self.bursts) {
                let samples = bursts.len() as f64;
                *share = Share { seconds: seconds * samples / looks, samples };
            }
            let chosen = self.in_order.len() as f64;
            (self.seconds, self.all_samples) = (seconds * (chosen / looks), chosen.max(1.0));
            return;
        }
        self.scale = whole / amount;
        for (stack, weight) in time {
            let place = self.places.of_stack(profile, stack);
            let seconds = weight.amount() as f64 * self.scale;
            let stratum = self.stratum(place);
            self.shares[stratum].seconds += seconds;
            self.shares[stratum].samples += weight.effective_records();
            self.seconds += seconds;
            self.all_samples += weight.effective_records();
            *self.seconds_in.entry(place).or_default() += seconds;
            if !seen.contains_key(&place) {
                self.unseen_seconds += seconds;
                *self.unseen_places.entry(place).or_default() += seconds;
            }
        }
    }

    fn stratum(&self, place: Place) -> usize {
        self.stratum_of.get(&place).copied().unwrap_or(REST)
    }

    /// Half of the 95 % interval of how much a stratum's share did at its rate, as a part of it. The iterations of a loop are
    /// known for the whole run; of a part of it samples tell which part.
    fn scatter(&self, stratum: usize, share: &Share, samples: f64, is_whole: bool) -> f64 {
        match self.relative[stratum] {
            Some(relative) if is_whole => relative,
            Some(relative) => relative.hypot(share.scatter(samples)),
            None => share.scatter(samples),
        }
    }

    /// Native seconds of a burst in a place.
    pub(crate) fn seconds_of(&self, burst: usize) -> f64 {
        self.looks[burst].seconds
    }

    /// Threads of the program that run their own code while a burst is taken.
    pub(crate) fn running_beside(&self, burst: usize) -> Option<f64> {
        self.running.as_ref().map(|running| running[burst])
    }

    /// When a burst was.
    pub(crate) fn time_of(&self, burst: usize) -> Nanos {
        self.looks[burst].time
    }

    /// How many bursts speak.
    pub(crate) fn bursts(&self) -> usize {
        self.distinct
    }

    /// Share of the CPU time that is of places to which no burst came, 0..1.
    pub(crate) fn unseen(&self) -> f64 {
        (self.unseen_seconds / self.seconds.max(1e-9)).min(1.0)
    }

    /// A total of everything, over `per`, with what bursts leave open: functions without a burst differ from those with one
    /// as these do from each other ([`Strata::of_unseen`]), or, where these are few, may have done anything from nothing to
    /// `most` per second. What no burst saw at all may still fill 3 / bursts of the time (J. A. Hanley, A. Lippman-Hand, "If
    /// nothing goes wrong, is everything all right?", JAMA 249 (1983) 1743-1745); it is not known when functions without a
    /// burst are more than [`FEW_UNSEEN`] of the time.
    pub(crate) fn opened(
        &self,
        quantity: &Quantity,
        (per, unit): (f64, &str),
        evidence: Evidence,
        most: f64,
    ) -> Metric {
        let total = quantity.metric(self, per, unit, evidence);
        let Some(value) = total.value else { return total };
        if value == 0.0 && self.unseen() > FEW_UNSEEN {
            let percent = self.unseen() * 100.0;
            return Metric::unavailable(
                &total.unit,
                &format!(
                    "none in the bursts, and no burst began in functions with {percent:.0} % of the CPU time"
                ),
            );
        }
        let missed =
            if value == 0.0 { 3.0 / self.bursts().max(3) as f64 * self.seconds } else { 0.0 };
        let guessed = value * self.unseen();
        let above = (self.unseen_seconds.max(missed) * (most / per) - guessed).max(0.0);
        let spread =
            self.of_unseen(&quantity.likely).filter(|_| value > 0.0).map(|half| half / per);
        let low = total.low.map(|low| (low - spread.unwrap_or(guessed).min(guessed)).max(0.0));
        Metric {
            low,
            high: total.high.map(|high| high + spread.unwrap_or(above).min(above)),
            ..total
        }
    }

    /// Half of the 95 % interval of what functions without a burst did, beside the mean rate of all: their rates are taken for
    /// further ones of a population of which those with bursts are a sample, in which each second counts alike. `None` where
    /// few have bursts.
    pub(crate) fn of_unseen(&self, values: &[f64]) -> Option<f64> {
        let mut seen: BTreeMap<Place, (f64, f64)> = BTreeMap::new();
        for index in &self.in_order {
            let (look, weight) = (&self.looks[*index], self.weight(*index));
            let sums = seen.entry(look.place).or_default();
            *sums = (sums.0 + weight * values[*index], sums.1 + weight * look.seconds);
        }
        let rates = seen
            .iter()
            .filter(|(_, sums)| sums.1 > 0.0)
            .filter_map(|(place, sums)| Some((sums.0 / sums.1, *self.seconds_in.get(place)?)));
        let rates: Vec<(f64, f64)> = rates.collect();
        let time: f64 = rates.iter().map(|(_, time)| time).sum();
        if rates.len() < FEWEST_PLACES || time <= 0.0 {
            return None;
        }
        let mean = rates.iter().map(|(rate, time)| rate * time).sum::<f64>() / time;
        let squares =
            rates.iter().map(|(rate, time)| time * (rate - mean).powi(2)).sum::<f64>() / time;
        // As many as there would be if all had the same time (Kish, Survey Sampling, 1965, 11.7).
        let places = time * time / rates.iter().map(|(_, time)| time * time).sum::<f64>();
        let degrees = (places - 1.0).max(1.0);
        let variance = squares * places / degrees;
        let own: f64 = self.unseen_places.values().map(|time| time * time).sum();
        let of_mean = self.unseen_seconds * self.unseen_seconds / places;
        Some(student_between(degrees) * (variance * (own + of_mean)).sqrt())
    }

    /// The bursts of a stratum in the order of time; those of all for a stratum without any.
    fn speaking_for(&self, stratum: usize) -> &[usize] {
        match self.bursts[stratum].as_slice() {
            [] => &self.in_order,
            some => some,
        }
    }

    /// Sum over all CPU time of a quantity that is `values[i]` in burst i.
    pub(crate) fn total(&self, values: &[f64]) -> Total {
        self.total_of(values, &self.shares, self.is_whole)
    }

    /// The same over CPU time in the program: of one thread.
    pub(crate) fn total_of_cells(
        &self,
        profile: &Profile<'_>,
        cells: &[Cell],
        values: &[f64],
    ) -> Total {
        let mut shares = vec![Share::default(); self.shares.len()];
        for cell in cells.iter().filter(|cell| !cell.kernel) {
            let place = self.places.of_stack(profile, cell.stack);
            let share = &mut shares[self.stratum(place)];
            share.seconds += cell.weight.amount() as f64 * self.scale;
            share.samples += cell.weight.effective_records();
        }
        self.total_of(values, &shares, false)
    }

    fn total_of(&self, values: &[f64], shares: &[Share], is_whole: bool) -> Total {
        let part = |(stratum, share): (usize, &Share)| {
            let scatter = self.scatter(stratum, share, self.all_samples, is_whole);
            (*share, scatter, self.speaking_for(stratum))
        };
        self.sum(values, (0..).zip(shares).map(part))
    }

    /// Sum over shares of CPU time, each with its scatter and the bursts that speak for it.
    fn sum<'a>(
        &self,
        values: &[f64],
        parts: impl Iterator<Item = (Share, f64, &'a [usize])>,
    ) -> Total {
        // Most of the rows of a long table store nothing, or touch no memory.
        if values.iter().all(|value| *value == 0.0) {
            return Total { value: 0.0, half: 0.0 };
        }
        let mut total = Sum::default();
        for (share, scatter, bursts) in parts.filter(|(share, ..)| share.seconds > 0.0) {
            let Some((rate, error)) = self.rate(values, bursts) else { continue };
            total.add(&share, scatter, rate, error);
        }
        total.finish()
    }

    /// A ratio of two totals of the same bursts, with its interval; `None` where the second is nothing.
    pub(crate) fn ratio(&self, part: &[f64], whole: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
        let of = self.total(whole).value;
        if of <= 0.0 {
            return None;
        }
        let ratio = self.total(part).value / of;
        let residual = |(part, whole): (&f64, &f64)| part - ratio * whole;
        let residuals: Vec<f64> = part.iter().zip(whole).map(residual).collect();
        let half = self.total(&residuals).half / of;
        Some((ratio, Some(((ratio - half).max(0.0), ratio + half))))
    }

    /// What a burst counts for in a place, by how much it saw there.
    fn weight(&self, index: usize) -> f64 {
        let look = &self.looks[index];
        match self.places.paced(look.place) {
            Some(_) => 1.0,
            None => EVEN / look.of_burst.max(SHORTEST),
        }
    }

    /// Quantity per second, and its standard error, squared, with the degrees of freedom; one burst says nothing about
    /// others.
    fn rate(&self, values: &[f64], bursts: &[usize]) -> Option<(f64, Option<(f64, f64)>)> {
        let weighted = |index: &usize| self.weight(*index) * self.looks[*index].seconds;
        let seconds: f64 = bursts.iter().map(weighted).sum();
        if seconds <= 0.0 {
            return None;
        }
        let amount = |index: &usize| self.weight(*index) * values[*index];
        let rate = bursts.iter().map(amount).sum::<f64>() / seconds;
        let residual = |index: &usize| amount(index) - rate * weighted(index);
        let residuals: Vec<f64> = bursts.iter().map(residual).collect();
        let error = variance_in_order(&residuals);
        Some((rate, error.map(|(variance, degrees)| (variance / (seconds * seconds), degrees))))
    }

    /// The same per bin of time: bursts near in time speak for a bin. `chosen`: samples of what these strata are of.
    pub(crate) fn over_time(
        &self,
        profile: &Profile<'_>,
        bins: &Bins,
        values: &[&[f64]],
        chosen: impl Fn(&Sample) -> bool,
    ) -> Vec<Vec<Total>> {
        let mut shares = vec![vec![Share::default(); self.shares.len()]; bins.count()];
        if self.scale <= 0.0 {
            // Without samples bursts alone say when it was, as they say where.
            for look in self.in_order.iter().map(|burst| &self.looks[*burst]) {
                let Some(bin) = bins.index(look.time) else { continue };
                let share = &mut shares[bin][self.stratum(look.place)];
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
        let middle = |bin: usize| bins.start(bin) + Nanos(bins.width.0 / 2);
        let of_bin = |(bin, shares): (usize, Vec<Share>)| {
            let samples: f64 = shares.iter().map(|share| share.samples).sum();
            let near = |(stratum, share): (usize, &Share)| {
                if share.seconds > 0.0 { self.nearest(stratum, middle(bin)) } else { Vec::new() }
            };
            let bursts: Vec<Vec<usize>> = shares.iter().enumerate().map(near).collect();
            let part = |((stratum, share), bursts): ((usize, &Share), &'_ Vec<usize>)| {
                let scatter = self.scatter(stratum, share, samples, false);
                (*share, scatter, bursts.clone())
            };
            let parts: Vec<_> = shares.iter().enumerate().zip(&bursts).map(part).collect();
            let parts =
                || parts.iter().map(|(share, scatter, of)| (*share, *scatter, of.as_slice()));
            values.iter().map(|values| self.sum(values, parts())).collect()
        };
        shares.into_iter().enumerate().map(of_bin).collect()
    }

    /// The bursts of a stratum that are nearest to a moment. They are in the order of time, so no more than as many on
    /// either side come into question.
    fn nearest(&self, stratum: usize, time: Nanos) -> Vec<usize> {
        let all = self.speaking_for(stratum);
        // Code that no burst saw: those that are near in time are of other code, and tell no more of this moment than all
        // do. Few of them, at a high rate, would fill all of its time with bandwidth that the total does not have.
        if stratum == REST && self.unseen() > FEW_UNSEEN {
            return all.to_vec();
        }
        let behind = all.partition_point(|index| self.looks[*index].time < time);
        let around = behind.saturating_sub(NEAREST)..all.len().min(behind + NEAREST);
        let mut bursts = all[around].to_vec();
        bursts.sort_by_key(|index| self.looks[*index].time.0.abs_diff(time.0));
        bursts.truncate(NEAREST);
        bursts.sort_by_key(|index| self.looks[*index].time);
        bursts
    }
}

/// A sum over strata, and what is needed for its interval.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: f64,
    /// Of the bursts, and the sum of the strata's own, squared and over their degrees of freedom.
    variance: f64,
    per_degree: f64,
    /// Half intervals that come to it, squared: of the samples, and of strata with one burst.
    others: f64,
}

impl Sum {
    /// Adds a stratum with its rate, and its standard error, squared, with the degrees of freedom.
    fn add(&mut self, share: &Share, scatter: f64, rate: f64, error: Option<(f64, f64)>) {
        self.value += share.seconds * rate;
        self.others += (share.seconds * rate * scatter).powi(2);
        let Some((variance, degrees)) = error else {
            self.others += (share.seconds * rate).powi(2);
            return;
        };
        let variance = variance * share.seconds * share.seconds;
        self.variance += variance;
        self.per_degree += variance * variance / degrees;
    }

    /// Together strata have more degrees of freedom than each has, and no fewer than the smallest.
    fn finish(&self) -> Total {
        let degrees = self.variance * self.variance / self.per_degree;
        let of_bursts = if self.variance > 0.0 { student_between(degrees) } else { 0.0 };
        let half = (of_bursts * of_bursts * self.variance + self.others).sqrt();
        Total { value: self.value, half }
    }
}
