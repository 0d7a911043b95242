//! A number with its evidence: the only form in which a figure leaves this program.
//!
//! What not: how intervals are computed (`estimate`).

use serde::{Deserialize, Serialize};

/// How a number was obtained, from the strongest to the weakest claim about *this* run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// A kernel or hardware counter: exact.
    Counted,
    /// From the sampling clock or from sampled events: has a standard error.
    Sampled,
    /// rdtsc around real loads.
    Timed,
    /// Exact addresses, recorded in bursts.
    Traced,
    /// A cache model over traced addresses.
    Simulated,
    /// A combination; the glossary has the formula.
    Estimated,
    /// A property of the machine, measured before or after the run.
    Calibrated,
    /// What a model says of a machine, or a change, that was not measured.
    Modelled,
}

impl Evidence {
    /// The word used in JSON and text output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Counted => "counted",
            Evidence::Sampled => "sampled",
            Evidence::Timed => "timed",
            Evidence::Traced => "traced",
            Evidence::Simulated => "simulated",
            Evidence::Estimated => "estimated",
            Evidence::Calibrated => "calibrated",
            Evidence::Modelled => "modelled",
        }
    }
}

/// A measured, modelled or unavailable figure.
///
/// `value` is `None` if the figure is not available; `note` then says why. It is never 0 for "unknown". `low..=high`
/// is a 95 % interval; both are `None` if no interval is known (the note says why), and equal to the value for exact
/// counts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Metric {
    /// The best single figure, in `unit`.
    pub value: Option<f64>,
    /// `s`, `ns`, `bytes`, `GB/s`, `percent`, `count`, `FLOP/s`, `cycles` ...
    pub unit: String,
    /// Lower end of the 95 % interval.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
    /// How it came to be; `None` only when `value` is `None`.
    pub evidence: Option<Evidence>,
    /// Number of observations (1 for a counter read once).
    pub samples: u64,
    /// Number of observations that were lost.
    pub lost: u64,
    /// Why it is missing, or what to know before quoting it.
    pub note: Option<String>,
}

impl Metric {
    /// An exact count.
    #[must_use]
    pub fn counted(value: f64, unit: &str) -> Metric {
        Metric {
            value: Some(value),
            unit: unit.to_owned(),
            low: Some(value),
            high: Some(value),
            evidence: Some(Evidence::Counted),
            samples: 1,
            lost: 0,
            note: None,
        }
    }

    /// A figure with a 95 % interval.
    #[must_use]
    pub fn with_interval(
        evidence: Evidence,
        value: f64,
        unit: &str,
        interval: (f64, f64),
        samples: u64,
    ) -> Metric {
        Metric {
            value: Some(value),
            unit: unit.to_owned(),
            low: Some(interval.0),
            high: Some(interval.1),
            evidence: Some(evidence),
            samples,
            lost: 0,
            note: None,
        }
    }

    /// A figure that is not available here; `why` is shown to the user.
    #[must_use]
    pub fn unavailable(unit: &str, why: &str) -> Metric {
        Metric {
            value: None,
            unit: unit.to_owned(),
            low: None,
            high: None,
            evidence: None,
            samples: 0,
            lost: 0,
            note: Some(why.to_owned()),
        }
    }

    /// The metric times an exactly known factor, in another unit.
    #[must_use]
    pub fn times(&self, factor: f64, unit: &str) -> Metric {
        self.each(unit, |value| value * factor)
    }

    /// A function of the metric that only rises, in another unit.
    #[must_use]
    pub fn each(&self, unit: &str, of: impl Fn(f64) -> f64) -> Metric {
        let [value, low, high] = [self.value, self.low, self.high].map(|end| end.map(&of));
        Metric { value, low, high, unit: unit.to_owned(), ..self.clone() }
    }

    /// The same metric with a remark for the reader.
    #[must_use]
    pub fn noted(mut self, note: &str) -> Metric {
        self.note = Some(note.to_owned());
        self
    }

    /// The same metric with the number of lost observations.
    #[must_use]
    pub fn with_lost(mut self, lost: u64) -> Metric {
        self.lost = lost;
        self
    }
}
