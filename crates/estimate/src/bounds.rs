//! The range of a number that nobody sampled.
//!
//! What for: a line that a burst touched first was in the cache or was not; the trace does not show which. Such a number has a best
//! value and hard ends. What not: a 95 % interval. It becomes part of one when its replicates are drawn (`Draws::unknown`).

/// A value with ends that it cannot pass.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bounds {
    /// The best single value.
    pub best: f64,
    /// No less.
    pub low: f64,
    /// No more.
    pub high: f64,
}

impl Bounds {
    /// Known.
    #[must_use]
    pub const fn exactly(value: f64) -> Bounds {
        Bounds { best: value, low: value, high: value }
    }

    /// Of two that are high together.
    #[inline]
    #[must_use]
    pub fn plus(self, other: Bounds) -> Bounds {
        Bounds {
            best: self.best + other.best,
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }

    /// By a factor from 0 on.
    #[must_use]
    pub fn times(self, factor: f64) -> Bounds {
        self.each(|one| one * factor)
    }

    /// Less a value, and no less than nothing.
    #[must_use]
    pub fn less(self, value: f64) -> Bounds {
        self.each(|one| (one - value).max(0.0))
    }

    /// Each part by a function that does not fall.
    #[must_use]
    pub fn each(self, part: impl Fn(f64) -> f64) -> Bounds {
        Bounds { best: part(self.best), low: part(self.low), high: part(self.high) }
    }

    /// What a measurement of a positive value, with its interval, says together with these bounds, which it does not depend on: the part of
    /// the interval between the ends, and the mean of the best values, each weighted as a mean of measurements is, by the square of
    /// how well it is known as a ratio (Cochran 1954, "The combination of estimates from different experiments", Biometrics 10). Where
    /// the two contradict each other, the measurement.
    #[must_use]
    pub fn with_measured(self, measured: Bounds) -> Bounds {
        let (low, high) = (self.low.max(measured.low), self.high.min(measured.high));
        if low > high {
            return measured;
        }
        /// Nothing is known better, as a logarithm.
        const LEAST: f64 = 1e-3;
        let weight = |one: &Bounds| (one.high / one.low).ln().max(LEAST).powi(-2);
        let (own, its) = (weight(&self), weight(&measured));
        let best = ((own * self.best.ln() + its * measured.best.ln()) / (own + its)).exp();
        // An end of nothing tells no ratio.
        let best = if best.is_nan() { measured.best } else { best };
        Bounds { best: best.clamp(low, high), low, high }
    }

    /// The value at position `place` of the unknown: -1 is the low end, 0 the best value, 1 the high end.
    #[inline]
    #[must_use]
    pub fn at(self, place: f64) -> f64 {
        let (end, part) = if place < 0.0 { (self.low, -place) } else { (self.high, place) };
        // Ends may be infinite, and the part of them nothing.
        if part == 0.0 || end == self.best {
            self.best
        } else {
            self.best + (end - self.best) * part
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_better_weighs_more() {
        let own = Bounds { best: 1.0, low: 0.5, high: 2.0 };
        let of = |best, low, high| own.with_measured(Bounds { best, low, high });
        let sharp = of(1.2, 1.19, 1.21);
        assert!((sharp.best - 1.2).abs() < 0.001 && (sharp.low, sharp.high) == (1.19, 1.21));
        let vague = of(4.0, 0.01, 1600.0);
        assert!((vague.best - 1.0).abs() < 0.02 && (vague.low, vague.high) == (0.5, 2.0));
        // Each known as well: the geometric mean, between the ends that both allow.
        let alike = of(1.5, 0.75, 3.0);
        assert!(
            (alike.best - 1.5f64.sqrt()).abs() < 1e-9 && (alike.low, alike.high) == (0.75, 2.0)
        );
        assert_eq!(of(4.0, 3.0, 5.0), Bounds { best: 4.0, low: 3.0, high: 5.0 }, "a contradiction");
        let nothing = Bounds::exactly(0.0).with_measured(Bounds { best: 0.0, low: 0.0, high: 1.0 });
        assert_eq!(nothing, Bounds::exactly(0.0));
    }
}
