//! What counters of the hardware and the kernel counted, as whole numbers of the run.
//!
//! What for: a count with its interval where counters took turns, and the reason where there is none. All figures take counts from
//! [`Readings`], so that a 0 of a PMU that does not count is in none of them. What not: opening events (`collect::counting`), what an
//! event means.
//!
//! Formula and its source: `estimate::interval::scaled_count`.

use estimate::interval::{CountedStretch, scaled_count};
use estimate::{Estimate, scaled_estimate};
use facts::{CountedEvent, Evidence, Metric, Recording, Target};

use crate::uarch::{never_zero, plain};
use crate::weight::Weight;

/// A shorter run may really have none: 10 ms are some ten million cycles.
const LONG_ENOUGH_NS: f64 = 10e6;

/// What the kernel itself counts, also where no PMU does.
const OF_KERNEL: [&str; 8] = [
    "page-faults",
    "minor-faults",
    "major-faults",
    "faults",
    "context-switches",
    "cpu-migrations",
    "cpu-clock",
    "task-clock",
];

/// Why readings of an event tell nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoCount {
    /// It never had a counter.
    NoCounter,
    /// It reads 0, as all events of this PMU do.
    PmuDoesNotCount,
}

impl NoCount {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            NoCount::NoCounter => {
                "no counter was free for it: another tool, the host of a virtual machine or the NMI watchdog has them"
            }
            NoCount::PmuDoesNotCount => {
                "this PMU does not count: it shows 0 cycles, instructions or loads for a program that ran"
            }
        }
    }
}

/// An event of the whole run.
#[derive(Clone, PartialEq, Debug)]
pub struct Counted<'a> {
    /// What.
    pub event: &'a CountedEvent,
    /// How often.
    pub count: Metric,
    /// Share of the time in which it had a counter.
    pub share: Metric,
}

/// PMUs that count whatever runs on the machine: `machine::pmu`.
const OF_MACHINE: [&str; 9] =
    ["uncore", "amd_l3", "amd_df", "amd_umc", "power", "cstate_", "arm_cmn", "arm_dsu", "arm_dmc"];

/// Where an event was counted, in words.
#[must_use]
pub fn counted_in(recording: &Recording, event: &CountedEvent) -> &'static str {
    let (pmu, _) = plain(&event.name);
    let is_machine = recording.run.target == Some(Target::Machine) || event.socket.is_some();
    if is_machine || OF_MACHINE.iter().any(|known| pmu.starts_with(known)) {
        "machine"
    } else if event.kernel {
        "program and kernel"
    } else {
        "program"
    }
}

/// All counted events, in the order in which they were asked for.
#[must_use]
pub fn counted(recording: &Recording) -> Vec<Counted<'_>> {
    let readings = Readings::new(recording);
    let mut sampled = vec![Weight::default(); recording.counted_events.len()];
    for sample in &recording.event_samples {
        if let Some(of) = sampled.get_mut(sample.event as usize) {
            of.add(sample.weight);
        }
    }
    let one = |(event, sampled): (_, &Weight)| {
        if !readings.has(event) && !sampled.is_empty() {
            of_samples(event, sampled)
        } else {
            whole(event, &readings)
        }
    };
    recording.counted_events.iter().zip(&sampled).map(one).collect()
}

/// The sum of an event that only samples know.
fn of_samples<'a>(event: &'a CountedEvent, sampled: &Weight) -> Counted<'a> {
    let (count, interval) = sampled.poisson_total(1.0);
    let count =
        Metric::with_interval(Evidence::Sampled, count, "count", interval, sampled.records());
    let why = "the recording does not say for how long it had a counter";
    Counted { event, count, share: Metric::unavailable("percent", why) }
}

/// Between two readings of an event: count, time to be counted, time with a counter.
type Stretches = Vec<CountedStretch>;

/// The readings of each event.
pub(crate) struct Readings {
    stretches: Vec<Stretches>,
    /// A PMU of the recording does not count.
    dead: bool,
}

impl Readings {
    pub(crate) fn new(recording: &Recording) -> Readings {
        let mut stretches = vec![Vec::new(); recording.counted_events.len()];
        for one in &recording.event_counts {
            if let Some(of) = stretches.get_mut(one.event as usize) {
                of.push(CountedStretch {
                    count: one.count as f64,
                    enabled: one.enabled.0 as f64,
                    running: one.running.0 as f64,
                });
            }
        }
        let dead = recording.counted_events.iter().zip(&stretches).any(is_dead);
        Readings { stretches, dead }
    }

    /// Whether it was read; events of samples only have no readings.
    pub(crate) fn has(&self, event: &CountedEvent) -> bool {
        self.stretches.get(event.id as usize).is_some_and(|stretches| !stretches.is_empty())
    }

    /// The readings of an event that had a counter.
    ///
    /// # Errors
    /// Says why they tell nothing.
    pub(crate) fn of(&self, event: &CountedEvent) -> Result<&[CountedStretch], NoCount> {
        let stretches = self.all(event);
        let CountedStretch { count, running, .. } = CountedStretch::sum(stretches);
        if running <= 0.0 {
            return Err(NoCount::NoCounter);
        }
        if count == 0.0 && self.dead && is_of_pmu(event) {
            return Err(NoCount::PmuDoesNotCount);
        }
        Ok(stretches)
    }

    fn all(&self, event: &CountedEvent) -> &[CountedStretch] {
        self.stretches.get(event.id as usize).map_or(&[], Vec::as_slice)
    }

    /// The whole count.
    ///
    /// # Errors
    /// Says why it is not known.
    pub(crate) fn estimate(&self, event: &CountedEvent) -> Result<Estimate, String> {
        let none = || format!("no counter was free for {}", event.name);
        match self.of(event) {
            Ok(stretches) => scaled_estimate(stretches, u64::from(event.group)).ok_or_else(none),
            Err(NoCount::NoCounter) => Err(none()),
            Err(NoCount::PmuDoesNotCount) => Err(NoCount::PmuDoesNotCount.reason().to_owned()),
        }
    }
}

/// Whether a PMU counts it for the program, not the kernel or a memory controller.
fn is_of_pmu(event: &CountedEvent) -> bool {
    event.socket.is_none() && !OF_KERNEL.contains(&plain(&event.name).1.as_str())
}

/// Whether it shows that its PMU does not count. PMUs outside of the cores have events of the same names.
fn is_dead((event, stretches): (&CountedEvent, &Stretches)) -> bool {
    let CountedStretch { count, running, .. } = CountedStretch::sum(stretches);
    let (pmu, _) = plain(&event.name);
    let is_of_cores = pmu.is_empty() || pmu.starts_with("cpu") || pmu.starts_with("armv");
    count == 0.0 && running >= LONG_ENOUGH_NS && is_of_cores && never_zero(&event.name)
}

fn whole<'a>(event: &'a CountedEvent, readings: &Readings) -> Counted<'a> {
    let unit = if event.name.ends_with("-clock") { "ns" } else { "count" };
    let stretches = readings.all(event);
    let CountedStretch { enabled, running, .. } = CountedStretch::sum(stretches);
    if enabled == 0.0 {
        let why = "nothing ran while it was counted";
        let none = |unit| Metric::unavailable(unit, why);
        return Counted { event, count: none(unit), share: none("percent") };
    }
    let share = Metric::counted(running / enabled * 100.0, "percent");
    let count = match readings.of(event).map(scaled_count) {
        Err(why) => Metric::unavailable(unit, why.reason()),
        Ok(None) => Metric::unavailable(unit, NoCount::NoCounter.reason()),
        Ok(Some((count, _))) if running == enabled => Metric::counted(count, unit),
        Ok(Some((count, Some(interval)))) => Metric::with_interval(
            Evidence::Estimated,
            count,
            unit,
            interval,
            stretches.len() as u64,
        )
        .noted("it had a counter for a part of the time, and is scaled to all of it"),
        Ok(Some((count, None))) => Metric {
            low: None,
            high: None,
            evidence: Some(Evidence::Estimated),
            ..Metric::counted(count, unit)
        }
        .noted(
            "it had a counter for a part of the time, in one reading: its interval is not known",
        ),
    };
    Counted { event, count, share }
}

#[cfg(test)]
mod tests {
    use base::Nanos;
    use facts::EventCount;

    use super::*;

    fn of(name: &str, readings: &[(u64, u64, u64)]) -> (Metric, Metric) {
        let event = CountedEvent { name: name.to_owned(), ..CountedEvent::default() };
        let reading = |(count, enabled, running): &(u64, u64, u64)| EventCount {
            count: *count,
            enabled: Nanos(*enabled),
            running: Nanos(*running),
            ..EventCount::default()
        };
        let recording = Recording {
            counted_events: vec![event],
            event_counts: readings.iter().map(reading).collect(),
            ..Recording::default()
        };
        let Counted { count, share, .. } = counted(&recording).remove(0);
        (count, share)
    }

    #[test]
    fn a_counter_of_its_own_is_exact() {
        let (count, share) = of("page-faults", &[(3, 10, 10), (4, 10, 10)]);
        assert_eq!(count, Metric::counted(7.0, "count"));
        assert_eq!(share.value, Some(100.0));
        assert_eq!(of("task-clock", &[(3, 10, 10)]).0, Metric::counted(3.0, "ns"));
    }

    #[test]
    fn one_that_takes_turns_has_an_interval() {
        let (count, share) = of("cycles", &[(10, 10, 5), (12, 10, 5), (10, 10, 5)]);
        assert_eq!((count.value, count.evidence), (Some(64.0), Some(Evidence::Estimated)));
        assert!(count.low > Some(32.0) && count.low < Some(64.0) && count.high > Some(64.0));
        assert_eq!(share.value, Some(50.0));
        let (short, _) = of("cycles", &[(10, 10, 5)]);
        assert_eq!((short.value, short.low, short.high), (Some(20.0), None, None));
    }

    #[test]
    fn a_count_that_cannot_be_is_not_shown() {
        let none = |name, readings: &[(u64, u64, u64)]| {
            let (count, _) = of(name, readings);
            (count.value, count.note.expect("a reason"))
        };
        let (value, why) = none("cycles", &[(0, 10, 0)]);
        assert!(value.is_none() && why.starts_with("no counter was free"), "{why}");
        let (value, why) = none("cycles", &[(0, 20_000_000, 20_000_000)]);
        assert!(value.is_none() && why.starts_with("this PMU does not count"), "{why}");
        let (value, why) = none("cycles", &[]);
        assert!(value.is_none() && why.starts_with("nothing ran"), "{why}");
        assert_eq!(of("major-faults", &[(0, 20_000_000, 20_000_000)]).0.value, Some(0.0));
    }

    /// A virtual machine's PMU that takes all events: misses of 0 are none either, faults are the kernel's.
    #[test]
    fn other_zeros_of_a_pmu_that_does_not_count_are_none() {
        let mut recording = Recording::default();
        for (id, name) in (0..).zip(["cycles", "cache-misses", "page-faults"]) {
            let name = name.to_owned();
            recording.counted_events.push(CountedEvent { id, name, ..CountedEvent::default() });
            recording.event_counts.push(EventCount {
                time: Nanos(20_000_000),
                event: id,
                count: 0,
                enabled: Nanos(20_000_000),
                running: Nanos(20_000_000),
            });
        }
        let values = |recording: &Recording| -> Vec<Option<f64>> {
            counted(recording).iter().map(|one| one.count.value).collect()
        };
        assert_eq!(values(&recording), [None, None, Some(0.0)]);
        recording.event_counts[0].count = 1;
        assert_eq!(values(&recording), [Some(1.0), Some(0.0), Some(0.0)]);
    }
}
