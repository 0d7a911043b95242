//! What an instruction takes with all data in the first level, by paths that were timed.
//!
//! What for: seconds per instruction outside of loops with a no-miss time, by the function in which bursts began. Paths are there by the
//! instructions that ran (`collect::no_miss`), so each counts alike. What not: loops that are timed themselves, and
//! branches (`core_time`).
//!
//! How far the mean of a function's paths is off by chance is each function's own ([`estimate::ratios`]); what its repetitions leave
//! open, and paths that could not be timed, are off in all alike. Those that could not be timed may all be as quick as the
//! quickest, or as slow as the slowest. A function without enough paths is one further path of all.
//!
//! Assumption: what repetitions of one path leave open, on the median, is off in all paths alike: that of a single path tells more
//! about the machine's other work.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::BurstId;
use estimate::Bounds;
use estimate::interval::median;
use estimate::ratios::{Ratio, Term, by_group};
use facts::{Burst, NoMissOutcome, NoMissTime};

use super::core_time::seconds;
use super::work::BurstWork;
use crate::profile::Profile;
use crate::stack::FunctionId;
use crate::traced::{Execution, Tool, TracedBlock, TracedCode, stream};

/// Fewer paths say nothing about others.
const FEWEST_PATHS: usize = 3;
/// Random numbers of paths, and of functions without any.
const SEED: u64 = 0x0070_6174_6873;

/// Seconds of an instruction.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PathPace {
    /// The mean of paths.
    mean: Ratio,
    /// What is off in all functions alike, over the mean.
    common: Bounds,
    /// The quickest path and the slowest.
    ends: (f64, f64),
}

impl PathPace {
    /// Of the quickest path.
    pub(super) fn quickest(&self) -> f64 {
        self.ends.0
    }

    /// In a replicate, where what is off in all alike stands at this place between its ends; `None`: the best value.
    pub(super) fn at(&self, place: f64, replicate: Option<usize>) -> f64 {
        let (quickest, slowest) = self.ends;
        self.mean.at(replicate).clamp(quickest, slowest) * self.common.at(place)
    }
}

/// Of functions in which bursts began.
#[derive(Debug, Default)]
pub(super) struct PathPaces {
    paces: HashMap<FunctionId, PathPace>,
    /// Seconds by which a mispredicted branch costs more than one that waits for nothing.
    resolutions: BTreeMap<FunctionId, Ratio>,
}

impl PathPaces {
    pub(super) fn read(profile: &Profile<'_>, code: &TracedCode, works: &[BurstWork]) -> PathPaces {
        let recording = profile.recording;
        let began = PathOrigins::read(profile, code, works);
        let of_works = || works.iter().map(|work| work.function);
        let mut paths: BTreeMap<FunctionId, Vec<Option<Bounds>>> =
            of_works().map(|function| (function, Vec::new())).collect();
        let mut waits: BTreeMap<FunctionId, Vec<Term>> =
            of_works().map(|function| (function, Vec::new())).collect();
        for (observation, one) in recording.no_miss_times.iter().enumerate() {
            let Some((function, pace)) = began.pace(one) else { continue };
            paths.entry(function).or_default().push(pace);
            let Some(resolution) = one.resolution else { continue };
            let (upper, lower) = (resolution.time.0 as f64 * 1e-12, f64::from(resolution.blocks));
            waits.entry(function).or_default().push(Term { observation, upper, lower });
        }
        let is_enough = |_, terms: &[Term]| terms.len() >= FEWEST_PATHS;
        PathPaces { paces: paces(&paths), resolutions: by_group(&waits, is_enough, SEED | 1) }
    }

    pub(super) fn of(&self, burst: &BurstWork) -> Option<&PathPace> {
        self.paces.get(&burst.function)
    }

    /// What branches of a burst wait for, where that was measured.
    pub(super) fn resolution(&self, burst: &BurstWork) -> Option<&Ratio> {
        self.resolutions.get(&burst.function)
    }
}

/// Of functions with these paths.
fn paces(paths: &BTreeMap<FunctionId, Vec<Option<Bounds>>>) -> HashMap<FunctionId, PathPace> {
    let mut number = 0..;
    let mut terms = |paths: &Vec<Option<Bounds>>| {
        let timed = paths.iter().flatten().zip(&mut number);
        let term = |(path, observation): (&Bounds, usize)| Term {
            observation,
            upper: path.best,
            lower: 1.0,
        };
        timed.map(term).collect::<Vec<Term>>()
    };
    let terms = paths.iter().map(|(function, paths)| (*function, terms(paths))).collect();
    let of_all = together(&paths.values().flatten().copied().collect::<Vec<_>>());
    let own: HashMap<FunctionId, (Bounds, (f64, f64))> =
        paths.iter().filter_map(|(function, paths)| Some((*function, together(paths)?))).collect();
    let is_enough = |function: Option<FunctionId>, _: &[Term]| match function {
        Some(function) => own.contains_key(&function),
        None => of_all.is_some(),
    };
    let of = |(function, mean)| {
        let (common, ends) = own.get(&function).copied().or(of_all)?;
        Some((function, PathPace { mean, common, ends }))
    };
    by_group(&terms, is_enough, SEED).into_iter().filter_map(of).collect()
}

/// What is off in all paths alike, over their mean, and the quickest and the slowest. `None` where too few could be timed.
fn together(paths: &[Option<Bounds>]) -> Option<(Bounds, (f64, f64))> {
    let timed: Vec<Bounds> = paths.iter().copied().flatten().collect();
    let part = timed.len() as f64 / paths.len().max(1) as f64;
    if timed.len() < FEWEST_PATHS {
        return None;
    }
    let ratio = |of: fn(&Bounds) -> f64| {
        let mut ratios: Vec<f64> = timed.iter().map(of).collect();
        ratios.sort_by(f64::total_cmp);
        median(&ratios).filter(|ratio| ratio.is_finite()).unwrap_or(1.0)
    };
    let mean = timed.iter().map(|path| path.best).sum::<f64>() / timed.len() as f64;
    if mean <= 0.0 {
        return None;
    }
    let ends = |(low, high): (f64, f64), one: &Bounds| (low.min(one.best), high.max(one.best));
    let (quickest, slowest) = timed.iter().fold((f64::INFINITY, 0.0f64), ends);
    let with_others = |others: f64| mean * part + others * (1.0 - part);
    let low = with_others(quickest) * ratio(|path| path.low / path.best);
    let high = with_others(slowest) * ratio(|path| path.high / path.best);
    let common = Bounds { best: 1.0, low: low / mean, high: high / mean };
    Some((common, (quickest, slowest)))
}

/// In which function the bursts of paths began.
struct PathOrigins {
    by_burst: HashMap<BurstId, FunctionId>,
}

impl PathOrigins {
    fn read(profile: &Profile<'_>, code: &TracedCode, works: &[BurstWork]) -> PathOrigins {
        let recording = profile.recording;
        let paths = recording.no_miss_times.iter().filter_map(|one| one.path);
        let bursts: HashSet<BurstId> = paths.map(|path| path.burst).collect();
        // Those that the pass left out are looked at here.
        let id = |work: &BurstWork| Some((recording.bursts.get(work.burst)?.id, work.function));
        // Where a burst came first, it began.
        let mut by_burst: HashMap<BurstId, FunctionId> =
            works.iter().rev().filter_map(id).collect();
        let unknown =
            |burst: &&Burst| bursts.contains(&burst.id) && !by_burst.contains_key(&burst.id);
        let bursts: Vec<&Burst> = recording.bursts.iter().filter(unknown).collect();
        let first = || First { profile, code, function: None };
        stream(recording, code, &bursts, first, |burst, function| {
            by_burst.extend(function.map(|function| (burst.id, function)));
        });
        PathOrigins { by_burst }
    }

    /// What an instruction of the path took, and in which function its burst began.
    fn pace(&self, one: &NoMissTime) -> Option<(FunctionId, Option<Bounds>)> {
        let path = one.path.filter(|path| path.instructions > 0)?;
        let each = |time: f64| time / path.instructions as f64;
        let pace = match &one.outcome {
            NoMissOutcome::Measured(time) => Some(seconds(time).each(each)),
            NoMissOutcome::Refused(_) => None,
        };
        Some((*self.by_burst.get(&path.burst)?, pace))
    }
}

/// The function of the first block of a burst.
struct First<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    function: Option<FunctionId>,
}

impl Tool for First<'_> {
    type OfBurst = Option<FunctionId>;

    fn begin(&mut self, _: &Burst, _: usize) {
        self.function = None;
    }

    fn execute(&mut self, block: &TracedBlock, _: &Execution<'_>) {
        if self.function.is_none() {
            self.function = super::pass::began_in(self.profile, self.code, block);
        }
    }

    fn end(&mut self, _: &Burst) -> Option<FunctionId> {
        self.function
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(time: f64) -> Option<Bounds> {
        Some(Bounds::exactly(time))
    }

    fn of(paths: &[Option<Bounds>]) -> Option<(f64, f64, f64)> {
        together(paths).map(|(common, _)| (common.best, common.low, common.high))
    }

    #[test]
    fn paths_stand_for_what_was_not_timed() {
        assert_eq!(of(&[path(1.0), path(3.0)]), None, "too few");
        assert_eq!(of(&[path(2.0), path(2.0), path(2.0)]), Some((1.0, 1.0, 1.0)));
        // A third could not be timed.
        let some = [path(1.0), path(1.0), path(4.0), path(4.0), None, None];
        let (_, low, high) = of(&some).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(2.5 * low, 2.0) && near(2.5 * high, 3.0), "{low} {high}");
    }

    #[test]
    fn functions_are_off_by_themselves_and_no_further_than_their_paths() {
        let [one, other, without] = [1, 2, 3].map(FunctionId::new);
        let nine: Vec<_> = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 2.0, 1.0, 3.0].map(path).to_vec();
        let paths = BTreeMap::from([(one, nine.clone()), (other, nine), (without, Vec::new())]);
        let found = paces(&paths);
        let drawn = |function: FunctionId| -> Vec<f64> {
            (0..estimate::REPLICATES).map(|at| found[&function].at(0.0, Some(at))).collect()
        };
        assert!((found[&one].at(0.0, None) - 2.0).abs() < 1e-9);
        assert_ne!(drawn(one), drawn(other));
        let spread = |function| {
            let values = drawn(function);
            assert!(values.iter().all(|one| (1.0..=3.0).contains(one)));
            (values.iter().map(|one| (one - 2.0).powi(2)).sum::<f64>() / 256.0).sqrt()
        };
        // 0.87 of a path, 0.29 of the mean of nine.
        assert!((0.2..0.5).contains(&spread(one)), "{}", spread(one));
        assert!(spread(without) > 1.5 * spread(one), "{}", spread(without));
    }
}
