//! A result for other viewers: folded stacks, pprof, OTLP, speedscope, Firefox Profiler, Perfetto, CSV, a flame graph as SVG.
//!
//! What for: from a recording to bytes; [`Exported`] has the stacks with their figures, and each format is a module.
//! What not: files (cli); tables of a view, which `fathom report --format csv` writes.
//!
//! The sum of each figure over all stacks is the report's total; of allocated bytes only where all were counted, else it is an
//! estimate of that total. A figure that Fathom estimates says so in its name, because none of these formats has room for an
//! interval.

#![forbid(unsafe_code)]

mod csv;
mod firefox;
mod flame;
mod folded;
mod otlp;
mod perfetto;
mod pprof;
mod speedscope;
mod stacks;
mod wire;

pub use otlp::OtlpAnswer;
pub use stacks::{Exported, Figure, Frame, Origin, Sample};

impl Exported {
    /// One line per stack: `outermost;...;innermost AMOUNT`.
    #[must_use]
    pub fn folded(&self, figure: usize) -> String {
        folded::folded(self, figure)
    }

    /// pprof: a protobuf message, compressed by gzip.
    #[must_use]
    pub fn pprof(&self) -> Vec<u8> {
        pprof::pprof(self)
    }

    /// OTLP: a request that a receiver of OpenTelemetry takes, a protobuf message. `attributes`: of what was profiled, by
    /// OpenTelemetry's names; they replace those that the result knows.
    #[must_use]
    pub fn otlp(&self, attributes: &[(String, String)]) -> Vec<u8> {
        otlp::otlp(self, attributes)
    }

    /// JSON of speedscope, with a profile for each figure.
    #[must_use]
    pub fn speedscope(&self) -> String {
        speedscope::speedscope(self)
    }

    /// JSON of the Firefox Profiler: samples at their times, and counters.
    #[must_use]
    pub fn firefox(&self) -> String {
        firefox::firefox(self)
    }

    /// A table with a row per stack and a column per figure.
    #[must_use]
    pub fn csv(&self) -> String {
        csv::csv(self)
    }

    /// A trace of Perfetto with counters over time.
    #[must_use]
    pub fn perfetto(&self) -> Vec<u8> {
        perfetto::perfetto(self)
    }

    /// A flame graph that needs no network and no script.
    #[must_use]
    pub fn svg(&self, figure: usize) -> String {
        flame::svg(self, figure)
    }
}

/// Bytes compressed by gzip.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    wire::gzip(bytes)
}
