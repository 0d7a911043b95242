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
