//! Units of time and size.
//!
//! What not: other units, which a `Metric` carries as text (`facts`).

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Nanoseconds: an instant when counted from the start of the recording (CLOCK_MONOTONIC), else a duration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The same time in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// A duration from seconds; negative and NaN become zero.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Nanos {
        // `as` saturates and maps NaN to 0.
        Nanos((seconds * 1e9) as u64)
    }

    /// `self - other`, or zero when `other` is later.
    #[must_use]
    pub fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    /// Saturates at zero: clocks of different CPUs may disagree by some nanoseconds.
    fn sub(self, other: Nanos) -> Nanos {
        self.saturating_sub(other)
    }
}

/// Picoseconds: what one iteration of a loop takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Picos(pub u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    /// Binary units with at most one decimal: `48 KiB`, `2 MiB`, `22.5 GiB`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(out, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = UNITS[0];
        for next in &UNITS[1..] {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        if (value - value.round()).abs() < 0.05 {
            write!(out, "{value:.0} {unit}")
        } else {
            write!(out, "{value:.1} {unit}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_binary_units() {
        let shown: Vec<String> =
            [0, 1023, 1024, 49152, 2 << 20, 24_159_191_040].map(|n| Bytes(n).to_string()).into();
        assert_eq!(shown, ["0 B", "1023 B", "1 KiB", "48 KiB", "2 MiB", "22.5 GiB"]);
    }

    #[test]
    fn time_never_goes_negative() {
        assert_eq!(Nanos(1) - Nanos(2), Nanos(0));
        assert_eq!(Nanos::from_seconds(f64::NAN), Nanos(0));
        assert_eq!(Nanos::from_seconds(1.5), Nanos(1_500_000_000));
    }
}
