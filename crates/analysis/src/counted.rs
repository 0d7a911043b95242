//! What counters of the hardware and the kernel counted, as whole numbers of the run.
//!
//! What for: a count with its interval where counters took turns, and the reason where there is none. What not: opening events
//! (`collect::counting`), what an event means.
//!
//! Formula and its source: `estimate::interval::scaled_count`.

use estimate::interval::{CountedStretch, scaled_count};
use facts::{CountedEvent, Evidence, Metric, Recording};

use crate::weight::Weight;

/// A PMU that shows none of these in so much time of a running program does not count.
const NEVER_ZERO: [&str; 2] = ["cycles", "instructions"];
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
const DEAD: &str =
    "this PMU does not count: it shows 0 cycles or instructions for a program that ran";

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

/// All counted events, in the order in which they were asked for.
#[must_use]
pub fn counted(recording: &Recording) -> Vec<Counted<'_>> {
    let stretches = stretches(recording);
    let mut sampled = vec![Weight::default(); recording.counted_events.len()];
    for sample in &recording.event_samples {
        if let Some(of) = sampled.get_mut(sample.event as usize) {
            of.add(sample.weight);
        }
    }
    let dead = recording.counted_events.iter().zip(&stretches).any(is_dead);
    let events = recording.counted_events.iter().zip(stretches.iter().zip(&sampled));
    let one = |(event, (stretches, sampled)): (_, (&Stretches, &Weight))| {
        if stretches.is_empty() && !sampled.is_empty() {
            of_samples(event, sampled)
        } else {
            whole(event, stretches, dead)
        }
    };
    events.map(one).collect()
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
pub(crate) fn stretches(recording: &Recording) -> Vec<Stretches> {
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
    stretches
}

/// Whether it shows that its PMU does not count.
fn is_dead((event, stretches): (&CountedEvent, &Stretches)) -> bool {
    let sum = CountedStretch::sum(stretches);
    NEVER_ZERO.contains(&event.name.as_str()) && sum.count == 0.0 && sum.running >= LONG_ENOUGH_NS
}

/// `dead`: a PMU of the recording does not count, so that a 0 says nothing.
fn whole<'a>(event: &'a CountedEvent, stretches: &[CountedStretch], dead: bool) -> Counted<'a> {
    let unit = if event.name.ends_with("-clock") { "ns" } else { "count" };
    let CountedStretch { enabled, running, .. } = CountedStretch::sum(stretches);
    let readings = stretches.len() as u64;
    if enabled == 0.0 {
        let why = "nothing ran while it was counted";
        let none = |unit| Metric::unavailable(unit, why);
        return Counted { event, count: none(unit), share: none("percent") };
    }
    let share = Metric::counted(running / enabled * 100.0, "percent");
    let count = match scaled_count(stretches) {
        None => Metric::unavailable(
            unit,
            "no counter was free for it: another tool, the host of a virtual machine or the NMI watchdog has them",
        ),
        Some((0.0, _))
            if dead && event.socket.is_none() && !OF_KERNEL.contains(&event.name.as_str()) =>
        {
            Metric::unavailable(unit, DEAD)
        }
        Some((count, _)) if running == enabled => Metric::counted(count, unit),
        Some((count, Some(interval))) => {
            Metric::with_interval(Evidence::Estimated, count, unit, interval, readings)
                .noted("it had a counter for a part of the time, and is scaled to all of it")
        }
        Some((count, None)) => Metric {
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
