//! What limits the program, and how surely.
//!
//! What for: in each replicate of the sample one thing limits. How many replicates agree is the probability of the verdict. So
//! what the figures have in common counts once, and no interval is compared with a threshold. What not: the figures (`bound`,
//! `function`, `level_rates`); sentences (`report`).
//!
//! In a replicate the first of these limits that holds:
//! * the bandwidth of memory: the program moves at least [`NEAR_PEAK`] of the bandwidth reachable with as many threads; or memory
//!   takes [`BOUND_PERCENT`] of the time, most of it in code that does;
//! * the bandwidth of a level of cache, likewise, where memory takes [`SOME_PERCENT`];
//! * latency, or page walks ([`translation_dominates`]), where memory takes [`BOUND_PERCENT`], most of it in code that moves less
//!   than [`NOT_NEAR`] of what as many threads reach;
//! * with more, bandwidth where [`IN_A_ROW`] of memory's time is for lines in a row: prefetchers run ahead of these, and what is left
//!   to wait for is the rate at which they come. Latency where the same share is for others, and between these it may be either;
//! * else the core.
//!
//! Where none of them is probable, memory and instructions may each have a good part ([`MIXED`]): that is known, then, and said.

use estimate::Estimate;

use super::Memory;
use super::bound::{Bound, NEAR_PEAK, NOT_NEAR, WHY_BEYOND, Waits};
use super::work::BurstWork;
use crate::page_costs::latencies;
use crate::profile::Profile;

/// From this share on the program is memory-bound, percent.
pub const BOUND_PERCENT: f64 = 40.0;
/// A level of cache that is used up to its limit limits from this share on.
const SOME_PERCENT: f64 = 25.0;
/// Between these two, memory and instructions both have a part that is worth work. Less than the first is seldom worth it; the
/// second leaves the instructions a third.
const MIXED: (f64, f64) = (20.0, 65.0);
/// A verdict of this probability is one, and of this a probable one.
const SURE: f64 = 0.95;
const PROBABLE: f64 = 0.8;
/// From this share of memory's time on, it is all of one kind: what is left is at most a fourth of it.
const IN_A_ROW: f64 = 0.8;
/// Share of memory's time that page walks must explain to be its reason.
const WALKS_MATTER: f64 = 0.1;

/// What limits the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The rate at which memory delivers.
    Bandwidth,
    /// The rate at which this level of cache does.
    CacheBandwidth(u32),
    /// The time that single loads take.
    Latency,
    /// Address translation.
    Tlb,
    /// Its own instructions.
    Core,
}

impl Class {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Bandwidth | Class::CacheBandwidth(_) => "bandwidth-bound",
            Class::Latency => "latency-bound",
            Class::Tlb => "tlb-bound",
            Class::Core => "core-bound",
        }
    }

    /// For `bandwidth-bound`: the level whose bandwidth limits.
    #[must_use]
    pub fn level(self) -> Option<&'static str> {
        match self {
            Class::Bandwidth => Some("DRAM"),
            Class::CacheBandwidth(level) => Some(if level == 2 { "L2" } else { "L3" }),
            Class::Latency | Class::Tlb | Class::Core => None,
        }
    }
}

/// How surely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certainty {
    /// 95 %, at least.
    Is,
    /// 80 %, at least.
    Probably,
    /// That both memory and instructions have a good part.
    Mixed,
    /// The evidence does not decide.
    Undecided,
}

impl Certainty {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Certainty::Is => "is",
            Certainty::Probably => "probably",
            Certainty::Mixed => "mixed",
            Certainty::Undecided => "undecided",
        }
    }

    fn of(probability: f64) -> Option<Certainty> {
        match probability {
            SURE.. => Some(Certainty::Is),
            PROBABLE.. => Some(Certainty::Probably),
            _ => None,
        }
    }
}

/// What limits the program.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// `None`: that is not known, or is only known to be memory, or both.
    pub class: Option<Class>,
    /// How surely.
    pub certainty: Certainty,
    /// Why, or why not.
    pub why: String,
}

impl Verdict {
    /// None, and why.
    #[must_use]
    pub fn undecided(why: String) -> Verdict {
        Verdict { class: None, certainty: Certainty::Undecided, why }
    }
}

impl Memory<'_> {
    /// What limits the program.
    #[must_use]
    pub fn verdict(&self, bound: &Result<Bound, String>) -> Verdict {
        if let Err(why) = self.available() {
            return Verdict::undecided(why.to_owned());
        }
        let of_reach = self.of_reach();
        let unknown = of_reach.note.as_deref().unwrap_or_default();
        if of_reach.value.is_none() && unknown == WHY_BEYOND {
            return Verdict::undecided(unknown.to_owned());
        }
        // Of a rate that nothing is known of, neither bandwidth nor latency can be said.
        let open = || Estimate::exactly(50.0 * (NOT_NEAR + NEAR_PEAK));
        let rate = of_reach.drawn(0).unwrap_or_else(open);
        let near = self.near_level();
        let bandwidth = || {
            if of_reach.value.is_none() {
                return unknown.to_owned();
            }
            let reached = self.reach().value.unwrap_or(0.0);
            let (low, _) = rate.interval();
            let (rate, percent) = (rate.point() / 100.0 * reached, rate.point());
            // More than the machine can is no figure, but what is sure may be near.
            if percent > 100.0 {
                return format!(
                    "at least {low:.0} % of the {reached:.1} GB/s that this many threads reach on this machine"
                );
            }
            format!(
                "{rate:.1} GB/s while it runs, {percent:.0} % of what this many threads reach on this machine"
            )
        };
        let bound = match bound {
            Ok(bound) => bound,
            Err(why) => {
                let memory = Certainty::of(rate.probability(is_near))
                    .map(|certainty| (Class::Bandwidth, certainty, bandwidth()));
                let cache = || {
                    let near = near?;
                    let certainty = Certainty::of(near.of_reach.probability(is_near))?;
                    Some((Class::CacheBandwidth(near.level), certainty, near.why))
                };
                let found = memory.or_else(cache);
                return found.map_or_else(
                    || Verdict::undecided(why.clone()),
                    |(class, certainty, why)| Verdict { class: Some(class), certainty, why },
                );
            }
        };
        let (share, far) = (&bound.share, Estimate::exactly(0.0));
        let cache = near.as_ref().map_or(&far, |near| &near.of_reach);
        let (limit, certainty) = decided([&rate, cache, share], bound.waits);
        let (low, high) = share.interval();
        let range = format!("memory takes between {low:.0} and {high:.0} % of its time");
        let Some(limit) = limit else {
            let why = format!("{range}; a longer run or --repeat narrows that");
            return Verdict { class: None, certainty, why };
        };
        let (class, why) = match limit {
            Limit::Bandwidth if rate.probability(is_near) >= 0.5 => (Class::Bandwidth, bandwidth()),
            Limit::Bandwidth if bound.waits.near_peak > 0.5 => {
                let part = bound.waits.near_peak * 100.0;
                let why = format!(
                    "{:.0} % of its time exceeds its no-miss time, {part:.0} % of that in code that moves nearly as much as \
                    this many threads can on this machine",
                    share.point()
                );
                (Class::Bandwidth, why)
            }
            Limit::Bandwidth => {
                let part = bound.waits.in_a_row * 100.0;
                let why = format!(
                    "{range}, {part:.0} % of that for lines in a row, which prefetchers run ahead of: what is left is the rate \
                     at which they come; {}",
                    bandwidth()
                );
                (Class::Bandwidth, why)
            }
            Limit::Cache => near.map_or((Class::Latency, range), |near| {
                (Class::CacheBandwidth(near.level), near.why)
            }),
            Limit::Memory => {
                let why =
                    format!("{range}, and it may be its latency or its bandwidth: {}", bandwidth());
                return Verdict { class: None, certainty, why };
            }
            Limit::Latency => self.waits_for_loads(share.point()),
            Limit::Core => {
                (Class::Core, format!("{:.0} % of its time is no-miss time", 100.0 - share.point()))
            }
        };
        Verdict { class: Some(class), certainty, why }
    }

    /// For a program that waits for memory for so much of its time, percent.
    fn waits_for_loads(&self, share: f64) -> (Class, String) {
        let why = format!("{share:.0} % of its time exceeds its no-miss time");
        let seconds = share / 100.0 * self.strata.seconds;
        match self.walk_share(seconds).filter(|_| !self.is_chase()) {
            Some(walks) if walks > 0.5 => {
                let walks = (walks * 100.0).min(100.0);
                let why = format!("{why}; {walks:.0} % of the loads that miss L2 need a page walk");
                let class = match translation_dominates(self.profile) {
                    true => Class::Tlb,
                    false => Class::Latency,
                };
                (class, why)
            }
            _ => (Class::Latency, why),
        }
    }

    /// Page walks per load that goes beyond the second level of cache; `None` where walks explain little of the seconds that
    /// memory takes.
    fn walk_share(&self, memory_seconds: f64) -> Option<f64> {
        let (walks, far) = self.walks_and_far_loads();
        let (walks, far) =
            (self.expansion().total(&walks).point(), self.expansion().total(&far).point());
        // At most, each walk takes an access to memory.
        let explained = walks * self.latencies()[2] * 1e-9;
        (far >= 1.0 && explained >= WALKS_MATTER * memory_seconds).then(|| walks / far)
    }

    /// Whether most loads wait for the one before: then the walk is but a part of each wait.
    fn is_chase(&self) -> bool {
        let chased: f64 = self.passed.bursts.iter().map(|burst| burst.chased).sum();
        let loads =
            |burst: &BurstWork| burst.sites.iter().map(|site| site.loads as f64).sum::<f64>();
        chased > 0.5 * self.passed.bursts.iter().map(loads).sum::<f64>()
    }
}

/// Whether translation is more than half of what a load far from the caches takes here: it takes twice as long in small pages
/// as in large ones. Elsewhere walks are a part of the latency, however many there are. On an AMD Zen 4 virtual machine,
/// where walks take 34 of 193 ns, large pages made a walk down columns slower (4.0 to 4.4 s), and a compressor whose loads
/// nearly all need a walk by 5 % quicker.
fn translation_dominates(profile: &Profile<'_>) -> bool {
    let far = profile.calibration().and_then(|known| latencies(known, None));
    far.is_some_and(|[small, large]| {
        small.value.zip(large.value).is_some_and(|(small, large)| small >= 2.0 * large)
    })
}

/// What limits in one replicate.
#[derive(Clone, Copy)]
enum Limit {
    Bandwidth,
    Cache,
    Latency,
    /// Latency or bandwidth.
    Memory,
    Core,
}

fn is_near(rate: f64) -> bool {
    rate >= NEAR_PEAK * 100.0
}

/// From the bandwidth of memory and of a cache, percent of the bandwidth reachable with as many threads, and memory's share of the
/// time. None is probable: it may still be surely memory, or both.
fn decided(figures: [&Estimate; 3], memory: Waits) -> (Option<Limit>, Certainty) {
    let limit = |[rate, cache, share]: [f64; 3]| {
        let waits = share >= BOUND_PERCENT;
        let may_be_near = rate >= NOT_NEAR * 100.0 || memory.perhaps_near > 0.5;
        match () {
            () if is_near(rate) || waits && memory.near_peak > 0.5 => Limit::Bandwidth,
            () if is_near(cache) && share >= SOME_PERCENT => Limit::Cache,
            () if waits && may_be_near && memory.in_a_row >= IN_A_ROW => Limit::Bandwidth,
            () if waits && may_be_near && memory.in_a_row > 1.0 - IN_A_ROW => Limit::Memory,
            () if waits => Limit::Latency,
            () => Limit::Core,
        }
    };
    let limits = Estimate::of(figures, |all| f64::from(limit(all) as u8));
    let probability = |one: Limit| limits.probability(|of| of == f64::from(one as u8));
    let all = [Limit::Bandwidth, Limit::Cache, Limit::Latency, Limit::Memory, Limit::Core];
    for one in all {
        if let Some(certainty) = Certainty::of(probability(one)) {
            return (Some(one), certainty);
        }
    }
    let is_both = figures[2].probability(|share| (MIXED.0..=MIXED.1).contains(&share)) >= SURE;
    let of_memory = Certainty::of(1.0 - probability(Limit::Core));
    match (is_both, of_memory) {
        (true, _) => (None, Certainty::Mixed),
        (false, Some(certainty)) => (None, certainty),
        (false, None) => (None, Certainty::Undecided),
    }
}

#[cfg(test)]
mod tests {
    use estimate::Draws;

    use super::*;

    /// Normal, with this half of its 95 % interval.
    fn about(point: f64, half: f64, seed: u64) -> Estimate {
        let normal = Draws::new(seed).normal();
        Estimate::new(point, normal.iter().map(|z| point + z / 1.96 * half).collect())
    }

    #[test]
    fn a_verdict_is_as_sure_as_its_replicates_agree() {
        let of =
            |rate: (f64, f64), share: (f64, f64), [near_peak, perhaps_near, in_a_row]: [f64; 3]| {
                let (rate, share) = (about(rate.0, rate.1, 1), about(share.0, share.1, 2));
                let waits = Waits { near_peak, perhaps_near, in_a_row };
                let (limit, certainty) = decided([&rate, &Estimate::exactly(0.0), &share], waits);
                (limit.map(|limit| limit as u8), certainty)
            };
        let [bandwidth, latency, memory, core] =
            [Limit::Bandwidth, Limit::Latency, Limit::Memory, Limit::Core]
                .map(|one| Some(one as u8));
        let some = [0.0, 0.0, 0.5];
        for (rate, share, waits, expected) in [
            ((5.0, 1.0), (80.0, 15.0), some, (latency, Certainty::Is)),
            ((5.0, 1.0), (55.0, 25.0), some, (latency, Certainty::Probably)),
            ((5.0, 1.0), (10.0, 20.0), some, (core, Certainty::Is)),
            // 26 to 67 % is not probably anything.
            ((5.0, 1.0), (46.0, 20.0), some, (None, Certainty::Mixed)),
            ((5.0, 1.0), (40.0, 35.0), some, (None, Certainty::Undecided)),
            ((50.0, 5.0), (80.0, 15.0), some, (memory, Certainty::Is)),
            ((90.0, 10.0), (10.0, 5.0), some, (bandwidth, Certainty::Is)),
            // One of two phases is at the limit.
            ((50.0, 5.0), (60.0, 10.0), [0.9, 0.9, 0.5], (bandwidth, Certainty::Is)),
            // Latency or bandwidth, which of them is open.
            ((35.0, 10.0), (80.0, 15.0), some, (None, Certainty::Is)),
            // One of two phases may be; its lines come in a row, or hardly any do.
            ((20.0, 5.0), (60.0, 10.0), [0.0, 0.9, 0.5], (memory, Certainty::Is)),
            ((20.0, 5.0), (60.0, 10.0), [0.0, 0.9, 0.9], (bandwidth, Certainty::Is)),
            ((20.0, 5.0), (60.0, 10.0), [0.0, 0.9, 0.1], (latency, Certainty::Is)),
        ] {
            assert_eq!(of(rate, share, waits), expected, "{rate:?} {share:?} {waits:?}");
        }
    }
}
