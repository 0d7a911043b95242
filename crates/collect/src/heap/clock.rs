//! Times of exact events: the processor's time-stamp counter where the kernel itself uses it as its clock, else
//! nanoseconds.
//!
//! What for: reading the counter takes a third of the time of a system clock, and each block has two times. The
//! kernel uses it only where it runs at a constant speed and alike on all CPUs (linux/arch/x86/kernel/tsc.c,
//! clocksource "tsc"). What not: absolute accuracy. The scale is measured against CLOCK_MONOTONIC over the whole run
//! so far.

use base::Nanos;
use sys::kernels::read_tsc;

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Converts stamps to CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Counter and clock at the start; `None` where stamps are nanoseconds.
    began: Option<(u64, Nanos)>,
    nanos_per_tick: f64,
}

impl Clock {
    /// Starts the clock.
    pub fn start() -> Clock {
        let is_clock = std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|name| name.trim() == "tsc");
        let began = if is_clock { both(read_tsc) } else { None };
        Clock { began, nanos_per_tick: 0.3 }
    }

    /// Whether stamps are ticks.
    pub fn has_ticks(&self) -> bool {
        self.began.is_some()
    }

    /// The current stamp.
    pub fn stamp(&self) -> u64 {
        let ticks = self.began.and_then(|_| read_tsc());
        ticks.unwrap_or_else(|| sys::process::monotonic().0)
    }

    /// Measures the scale again.
    pub fn adjust(&mut self) {
        let Some(((ticks, time), now)) = self.began.zip(both(read_tsc)) else { return };
        let (ticks, time) = (now.0.saturating_sub(ticks), now.1 - time);
        // In a shorter time the cost of reading both clocks would matter.
        if time.0 > 100_000 && ticks > 0 {
            self.nanos_per_tick = time.0 as f64 / ticks as f64;
        }
    }

    /// The CLOCK_MONOTONIC time of a stamp.
    pub fn time(&self, stamp: u64) -> Nanos {
        match self.began {
            Some((ticks, time)) => {
                Nanos(time.0.saturating_add(self.length(stamp.saturating_sub(ticks)).0))
            }
            None => Nanos(stamp),
        }
    }

    /// The length of this many units of a stamp.
    pub fn length(&self, units: u64) -> Nanos {
        match self.began {
            // `as` saturates.
            Some(_) => Nanos((units as f64 * self.nanos_per_tick) as u64),
            None => Nanos(units),
        }
    }
}

/// Counter and clock at one moment: of three readings the one that took least time, because we may be interrupted in
/// between.
pub(crate) fn both(counter: impl Fn() -> Option<u64>) -> Option<(u64, Nanos)> {
    let read = |_| {
        let before = counter()?;
        let time = sys::process::monotonic();
        let passed = counter()?.saturating_sub(before);
        Some((passed, before + passed / 2, time))
    };
    (0..3).filter_map(read).min().map(|(_, ticks, time)| (ticks, time))
}
