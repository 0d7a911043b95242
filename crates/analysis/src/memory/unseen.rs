//! Code without a burst.
//!
//! What for: samples show that it has time, but its work is unknown. Each of its regions behaves like one with bursts, drawn at
//! random: it is one more region, not one more second. With k of these, one more lies outside their span with probability
//! 2 / (k + 1) (order statistics: H. A. David, H. N. Nagaraja, "Order Statistics", 3rd ed. 2003, 7.1). Then it is *unlike* them.
//! It does up to [`UNLIKE`] times as much as one of them, or as little, each factor with equal probability. Any part of its work
//! may be of one kind (loads that hit in L1, say). Half of the time it does what none of the others does.
//! What not: regions with bursts (`strata`).

use std::collections::BTreeMap;

use estimate::parameters::{LEAST_PART, UNLIKE};
use estimate::{Draws, Estimate, REPLICATES};
use facts::{Evidence, Metric};

use super::code_regions::CodeRegion;
use super::expansion::Expansion;
use super::quantity::Quantity;

/// More regions are merged into one: each has little time.
const MOST: usize = 64;
/// Random numbers of their own.
const SEED: u64 = 0x0075_6e73_6565_6e00;

/// Regions with bursts: what each of their observations represents per second.
pub(super) type RegionWeights = BTreeMap<CodeRegion, Vec<(usize, f64)>>;

/// What regions without bursts may have done, if they are unlike all others.
#[derive(Debug)]
pub(super) struct Unseen {
    /// Seconds of them.
    seconds: Estimate,
    /// What they do more.
    more: Expansion,
    /// Seconds of the busiest core, of what no other place does.
    anything: Estimate,
    /// Share of their work that is of one kind, 0 to 1.
    part: Estimate,
}

impl Unseen {
    /// None.
    pub(super) fn none(like: Expansion) -> Unseen {
        let none = || Estimate::exactly(0.0);
        Unseen { seconds: none(), more: like, anything: none(), part: none() }
    }

    /// Adds what regions without bursts, of these seconds each, do like others; `more` represents nothing yet.
    pub(super) fn new(
        places: impl Iterator<Item = f64>,
        seen: &RegionWeights,
        expansion: &mut Expansion,
        mut more: Expansion,
    ) -> Unseen {
        let seen: Vec<&[(usize, f64)]> = seen.values().map(Vec::as_slice).collect();
        let count = seen.len() as f64;
        let mut times: Vec<f64> = places.collect();
        let unseen: f64 = times.iter().sum();
        // The best value: such regions do what the mean region does.
        for (observation, part) in seen.iter().flat_map(|observations| observations.iter()) {
            expansion.stand(*observation, unseen / count * part, std::iter::empty());
        }
        let outside = 2.0 / (count + 1.0);
        times.sort_by(|a, b| b.total_cmp(a));
        // Many small regions together vary little: they draw once, as one.
        let rest: f64 = times.split_off(times.len().min(MOST)).iter().sum();
        times.push(rest);
        let mut draws = Draws::new(SEED);
        let part = draws.unknown().into_iter().map(|place| f64::midpoint(place, 1.0)).collect();
        let (mut unlike, mut anything) = (vec![0.0; REPLICATES], vec![0.0; REPLICATES]);
        for seconds in times.into_iter().filter(|seconds| *seconds > 0.0) {
            let (which, luck, scale) = (draws.even(), draws.even(), draws.even());
            for replicate in 0..REPLICATES {
                let observations = seen[(which[replicate] * count) as usize];
                let (luck, scale) = (luck[replicate], scale[replicate]);
                let (to, factor) = match luck < outside {
                    // Evenly on a logarithmic scale, from 1 / UNLIKE to UNLIKE.
                    true => (&mut more, UNLIKE.value.powf(2.0 * scale - 1.0)),
                    false => (&mut *expansion, 1.0),
                };
                for (observation, part) in observations {
                    to.stand_in(*observation, replicate, seconds * factor * part);
                }
                if luck < outside {
                    unlike[replicate] += seconds;
                }
                if luck < outside / 2.0 {
                    anything[replicate] += seconds * LEAST_PART.value.powf(scale);
                }
            }
        }
        Unseen {
            seconds: Estimate::new(0.0, unlike),
            more,
            anything: Estimate::new(0.0, anything),
            part: Estimate::new(0.5, part),
        }
    }

    /// A total with theirs: no more than `most` per second.
    pub(super) fn amount(&self, expansion: &Expansion, quantity: &Quantity, most: f64) -> Estimate {
        let more = self.more.total(quantity).min(&(self.seconds.clone() * most));
        expansion.total(quantity) + &more
    }

    /// The same for the whole program, with what no other region does.
    pub(super) fn total(&self, expansion: &Expansion, quantity: &Quantity, most: f64) -> Estimate {
        self.amount(expansion, quantity, most) + &(self.anything.clone() * most)
    }

    /// A part of a whole, percent, where any part of what they do may be of it.
    pub(super) fn percent(
        &self,
        expansion: &Expansion,
        (part, whole): (&Quantity, &Quantity),
        evidence: Evidence,
        nothing: &str,
    ) -> Metric {
        let (part, theirs) = (expansion.total(part), self.more.total(whole));
        let share = self.share(part, expansion.total(whole), &theirs);
        share.map_or_else(
            || Metric::unavailable("percent", nothing),
            |share| expansion.shown(share, "percent", evidence),
        )
    }

    /// The same of time, of which they have what samples say.
    pub(super) fn percent_of_time(&self, part: Estimate, time: Estimate) -> Option<Estimate> {
        self.share(part, time, &self.seconds)
    }

    fn share(&self, part: Estimate, whole: Estimate, theirs: &Estimate) -> Option<Estimate> {
        let any = whole.point() > 0.0;
        let part = part + &(self.part.clone() * theirs);
        let share = part / &(whole + theirs) * 100.0;
        // Of nothing there is no share: what is not a number stays none.
        any.then(|| share.map(|share| share.clamp(0.0, 100.0)))
    }
}
