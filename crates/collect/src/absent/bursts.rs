//! Bursts where there are none: in place of `bursts` on architectures whose code Fathom does not translate.
//!
//! What for: the same interface, of which nothing but the reason can ever exist. What not: a reason of this machine or
//! program; where code is translated, `burst` has these.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use base::{Nanos, Pid, RemoteAddr};
use facts::{SinkError, TimedLoadOverhead};

use crate::recorder::Recorder;

/// What a tracer would do; `burst::Options` explains the fields.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "those of `burst::Options`")]
pub struct BurstOptions {
    pub overhead: f64,
    pub interval: Option<Duration>,
    pub longest: Duration,
    pub rationed: bool,
}

/// The cost of bursts.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "those of `burst::Cost`")]
pub struct Cost {
    pub stand_still: Nanos,
    pub inside: Nanos,
    pub slowdown: Nanos,
    pub tracer: Nanos,
    pub consumer: Nanos,
    pub stop: Option<Nanos>,
    pub execution: Option<Nanos>,
    pub pages: Pages,
}

/// Pages of translated code.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "those of `burst::Cost`")]
pub struct Pages {
    pub populated: u64,
    pub touched: u64,
    pub resident: u64,
}

/// Native addresses of translated code.
#[derive(Clone, Copy)]
pub struct NativeAddresses(Infallible);

impl NativeAddresses {
    /// The native address for one in translated code.
    #[must_use]
    pub fn native(&self, _: Pid, _: RemoteAddr) -> Option<RemoteAddr> {
        match self.0 {}
    }
}

/// Whether a mapping of this name (`/proc/PID/maps`) is ours.
#[must_use]
pub fn is_our_mapping(name: &str) -> bool {
    name.starts_with("/memfd:fathom")
}

/// A running tracer.
pub struct Bursts(Infallible);

impl Bursts {
    /// Says why there are no bursts.
    pub fn start(_: BurstOptions, _: Nanos) -> io::Result<Bursts> {
        let why = facts::host::no_bursts_on(std::env::consts::ARCH);
        Err(io::Error::new(io::ErrorKind::Unsupported, why.unwrap_or("no bursts are taken here")))
    }

    /// The native addresses of translated code.
    #[must_use]
    pub fn native_addresses(&self) -> NativeAddresses {
        match self.0 {}
    }

    /// Takes no bursts from now on, or takes them again.
    pub fn pause(&self, _: bool) {
        match self.0 {}
    }

    /// Runs `wait` while no thread is traced.
    pub fn undisturbed(&self, _: impl FnOnce()) {
        match self.0 {}
    }

    /// Passes on new observations.
    pub fn look(&self, _: &mut Recorder<'_>) -> Result<(), SinkError> {
        match self.0 {}
    }

    /// Ends tracing.
    pub fn stop(&mut self, _: &mut Recorder<'_>) -> Result<Cost, SinkError> {
        match self.0 {}
    }
}

/// There are no timed loads.
#[must_use]
pub fn timed_load_overhead() -> Option<TimedLoadOverhead> {
    None
}
