//! Memory's share of the time, from clock samples alone.
//!
//! What for: a sample after a load waits for it, or is there by chance. Of the samples after the loads of a site, at most the
//! number of loads times the latency of an L1 hit is core time; and samples where no access can be waited for are not memory's.
//! What not: loops timed without their memory (`core_time`), the other estimate.
//!
//! ```text
//! (sum over sites (W - N x quick) - B) / T  <=  memory's share  <=  1 - (samples where nothing can be waited for) / T
//! ```
//! W: time of samples after the accesses of a site; N: executions of these, from bursts; B: cost of mispredicted branches,
//! at most: what comes behind one waits for it, and may be a load; T: CPU time of the program's code.
//! Where no burst has N, no part of W is certain to be memory's. All of it without the samples of threads that spin.
//!
//! Assumption: a load that hits takes no more samples than [`QUICK`] times its latency, whatever else the core does; [`LOCKED`]
//! times for a locked access.

use std::collections::{BTreeMap, HashMap};

use estimate::Bounds;
use estimate::interval::{Z_95, wilson};

use super::Memory;
use super::quantity::Quantity;
use crate::traced::{SiteIndex, SiteName};
use crate::weight::Weight;

/// In latencies of the first level: a load that takes its value from a store in flight takes up to twice as long (A. Fog, The
/// microarchitecture of Intel, AMD and VIA CPUs, "Store forwarding").
const QUICK: f64 = 2.0;
/// An atomic access takes 18 to 20 cycles where its line is in the first level (A. Fog, Instruction tables, `LOCK ADD`), a
/// load 4 or 5.
const LOCKED: f64 = 5.0;
/// Nanoseconds of a hit in the first level, where the machine was not measured: 5 cycles at 3.3 GHz.
const USUAL_FIRST: f64 = 1.5;
/// Fewer samples give no estimate.
const FEWEST: f64 = 30.0;

/// Shares of the program's time, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Waited {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) samples: u64,
}

impl Memory<'_> {
    /// Memory's share by samples; `None` with too few of them, or for a part of the run.
    pub(super) fn waited(&self) -> Option<Waited> {
        let stalls = &self.replayed.stalls;
        let totals = &stalls.totals;
        let all = totals.examined.amount() as f64;
        let samples = totals.examined.effective_records();
        if self.bursts.is_some() || stalls.missing().is_some() || samples < FEWEST {
            return None;
        }
        let calibration = self.profile.calibration();
        let first = calibration.and_then(|found| found.cache_latency(1)).unwrap_or(USUAL_FIRST);
        let executed = self.executed_by_site();
        let mut stood: BTreeMap<SiteName, (Weight, bool)> = BTreeMap::new();
        for one in &stalls.waited {
            let (weight, locked) = stood.entry(one.site).or_default();
            weight.add(one.weight);
            *locked |= one.access.locked;
        }
        let mut surely = 0.0;
        for (site, (weight, locked)) in &stood {
            let Some(times) = executed.get(site) else { continue };
            let quick = times * first * if *locked { LOCKED } else { QUICK };
            let least = weight.amount() as f64 * (1.0 - Z_95 / weight.effective_records().sqrt());
            surely += (least - quick).max(0.0);
        }
        // Behind a mispredicted branch the first load waits for the refill of the front end, too.
        let missed = self.mispredicted();
        surely = (surely - missed.high.or(missed.value).unwrap_or(0.0) * 1e9).max(0.0);
        let may = totals.waiting.amount().saturating_add(totals.among.amount()) as f64;
        // Of samples without registers, or in code that is not known, anything may be.
        let own = self.profile.whole_of_program() * (1.0 - self.spinning());
        let known = all / own.max(all);
        let (_, high) = wilson((may / all).min(1.0), samples);
        Some(Waited {
            low: surely / all * known,
            high: 1.0 - (1.0 - high) * known,
            samples: totals.examined.records(),
        })
    }

    /// How often accesses ran in the whole run, at most, by where they are.
    fn executed_by_site(&self) -> HashMap<SiteName, f64> {
        let most = |site: &SiteIndex| {
            let mut times = Quantity::none(self.passed.bursts.len());
            for (at, _, work) in self.works_of(*site) {
                times.add(at, Bounds::exactly(work.loads.max(work.stores) as f64));
            }
            (self.code.sites[site.index()].name(), self.expansion().total(&times).interval().1)
        };
        self.passed.sites.keys().map(most).collect()
    }
}
