//! Floating-point work of the program: per second, and per byte that moves.
//!
//! What for: the summary. What not: rows of code (`roofline`).

use estimate::Bounds;
use facts::{Evidence, Metric};

use super::quantity::Quantity;
use super::rows::NONE_SEEN;
use super::{Memory, any_line};

/// GFLOP/s of code in which no burst began, where no peak was measured.
const MOST_FLOPS: f64 = 100.0;

/// Floating-point work of the program.
#[derive(Clone, PartialEq, Debug)]
pub struct FloatingPointWork {
    /// GFLOP/s over elapsed time.
    pub rate: Metric,
    /// FLOP per byte that moved to or from memory.
    pub intensity: Metric,
}

impl Memory<'_> {
    /// Floating-point operations per second and per byte.
    #[must_use]
    pub fn arithmetic(&self) -> FloatingPointWork {
        let (unit, ratio) = ("GFLOP/s", "FLOP/byte");
        if let Err(why) = self.available() {
            return FloatingPointWork {
                rate: Metric::unavailable(unit, why),
                intensity: Metric::unavailable(ratio, why),
            };
        }
        let mut flops = Quantity::none(self.passed.bursts.len());
        for (number, burst) in self.passed.bursts.iter().enumerate() {
            flops.add(number, Bounds::exactly(burst.flops));
        }
        let elapsed = self.profile.observed().seconds().max(1e-9);
        let bytes = self.all.read.plus(&self.all.write);
        let per = (elapsed * 1e9, unit);
        let most = self.most_flops(&flops);
        let rate = self.strata.opened(&flops, per, Evidence::Estimated, most);
        // None seen is not none: then their ratio is not known either, or has the upper end that the rate has.
        let intensity = match (rate.value, rate.note.as_deref()) {
            (None, why) => Metric::unavailable(ratio, why.unwrap_or_default()),
            (Some(value), _) => {
                let whole = self.expansion().total(&bytes).map(any_line);
                let nothing = "no data moved to or from memory in the bursts";
                let (expansion, evidence) = (self.expansion(), Evidence::Estimated);
                let least = whole.interval().0;
                let found = expansion.ratio(&flops, &whole, (1.0, ratio), evidence, nothing);
                let most = rate.high.filter(|_| least > 0.0).map(|high| high * per.0 / least);
                let found = found.metric();
                match value > 0.0 || found.value.is_none() {
                    true => found,
                    false => Metric { high: most, ..found }.noted(NONE_SEEN),
                }
            }
        };
        FloatingPointWork { rate, intensity }
    }

    /// Operations per second that code without a burst does at most: those of the busiest burst of known time; where none did
    /// any, of the machine.
    fn most_flops(&self, flops: &Quantity) -> f64 {
        let rates = (0..).zip(&flops.0).map(|(at, flops)| flops.best / self.strata.seconds_of(at));
        // A burst whose thread's clock had not moved on has no rate: one without end would make the total no number.
        let busiest = rates.filter(|rate| rate.is_finite()).fold(0.0, f64::max);
        let calibration = self.profile.calibration();
        let peak = calibration.and_then(|found| found.flops_peak.as_ref()?.value);
        if busiest > 0.0 { busiest } else { peak.unwrap_or(MOST_FLOPS) * 1e9 }
    }
}
