//! What the whole machine moves to and from memory, by the counters of its memory controllers.
//!
//! What for: rates per socket and over time, next to those of the program alone (`memory::bandwidth`): what is more belongs to other programs,
//! the kernel, devices. What not: which counters there are (`machine::memory_events`), opening them (`collect::counting`).
//!
//! A reading covers the time since the one before. Of a bin of time that begins or ends within a reading, the part that overlaps is
//! counted as if the rate had been constant; the interval is between what surely is in it and what may be.

use base::Nanos;
use facts::{CountedEvent, Evidence, Metric, Recording};

/// Names of the counts of both directions: `machine::memory_events::Direction`.
const DIRECTIONS: [&str; 2] = ["memory reads", "memory writes"];
const GIGA: f64 = 1e9;
/// Readings in a row whose mean can be the observed maximum.
const STEADY: usize = 3;

/// Between two readings of a socket, in a direction.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Reading {
    start: Nanos,
    end: Nanos,
    bytes: f64,
}

/// What a socket moves, or all in total.
#[derive(Clone, PartialEq, Debug)]
pub struct SocketTraffic {
    /// From 0; `None`: all.
    pub socket: Option<u32>,
    /// GB/s read.
    pub read: Metric,
    /// GB/s written.
    pub write: Metric,
    /// GB/s, both.
    pub total: Metric,
    /// Largest rate over three readings in a row, GB/s.
    pub observed_max: Metric,
    /// Bytes, both.
    pub bytes: Metric,
}

/// Traffic of a machine.
pub struct MachineTraffic<'a> {
    recording: &'a Recording,
    /// Events that count it, with their direction.
    events: Vec<(&'a CountedEvent, usize)>,
    /// Their readings, in order.
    readings: Vec<Vec<Reading>>,
}

impl<'a> MachineTraffic<'a> {
    /// `None` where it was not counted.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Option<MachineTraffic<'a>> {
        let event = |event: &'a CountedEvent| {
            let direction = DIRECTIONS.iter().position(|name| *name == event.name)?;
            event.socket.and(event.bytes_per_thousand)?;
            Some((event, direction))
        };
        let events: Vec<_> = recording.counted_events.iter().filter_map(event).collect();
        let readings: Vec<Vec<Reading>> =
            events.iter().map(|(event, _)| readings(recording, event)).collect();
        let any = readings.iter().any(|readings| !readings.is_empty());
        any.then_some(MachineTraffic { recording, events, readings })
    }

    /// From when to when each reading is.
    #[must_use]
    pub fn steps(&self) -> Vec<(Nanos, Nanos)> {
        let longest = self.readings.iter().max_by_key(|readings| readings.len());
        longest.into_iter().flatten().map(|one| (one.start, one.end)).collect()
    }

    /// GB/s read and written by all sockets between two moments.
    #[must_use]
    pub fn rates(&self, start: Nanos, end: Nanos) -> [Metric; 2] {
        let seconds = (end.0.saturating_sub(start.0)) as f64 / GIGA;
        [0, 1].map(|direction| {
            let (mut bytes, mut least, mut most, mut number) = (0.0, 0.0, 0.0, 0);
            let of =
                self.events.iter().zip(&self.readings).filter(|((_, way), _)| *way == direction);
            for reading in of.flat_map(|(_, readings)| overlapping(readings, start, end)) {
                let (from, to) = (reading.start.max(start), reading.end.min(end));
                number += 1;
                let length = (reading.end.0 - reading.start.0) as f64;
                bytes += reading.bytes * (to.0 - from.0) as f64 / length;
                most += reading.bytes;
                if start <= reading.start && reading.end <= end {
                    least += reading.bytes;
                }
            }
            if number == 0 || seconds <= 0.0 {
                return Metric::unavailable("GB/s", "no counter was read then");
            }
            let rate = |bytes: f64| bytes / GIGA / seconds;
            if least == most {
                return Metric::counted(rate(bytes), "GB/s");
            }
            let interval = (rate(least), rate(most));
            Metric::with_interval(Evidence::Estimated, rate(bytes), "GB/s", interval, number)
        })
    }

    /// All sockets together, then each.
    #[must_use]
    pub fn sockets(&self) -> Vec<SocketTraffic> {
        let mut sockets: Vec<u32> = self.events.iter().filter_map(|(one, _)| one.socket).collect();
        sockets.sort_unstable();
        sockets.dedup();
        let all = std::iter::once(None).chain(sockets.into_iter().map(Some));
        all.map(|socket| self.socket(socket)).collect()
    }

    fn of(&self, wanted: impl Fn(Option<u32>, usize) -> bool) -> impl Iterator<Item = &Reading> {
        let events = self.events.iter().zip(&self.readings);
        let chosen = events.filter(move |((event, way), _)| wanted(event.socket, *way));
        chosen.flat_map(|(_, readings)| readings)
    }

    fn socket(&self, socket: Option<u32>) -> SocketTraffic {
        let is_of = |one: Option<u32>| socket.is_none() || one == socket;
        let steps = self.steps();
        let length = Nanos(self.recording.run.elapsed_ns);
        let observed = self.recording.pauses().observed(Nanos(0), length).seconds().max(1e-9);
        let sum = |way: usize| -> f64 {
            self.of(|one, direction| is_of(one) && direction == way).map(|one| one.bytes).sum()
        };
        let (read, written) = (sum(0), sum(1));
        let rate = |bytes: f64| Metric::counted(bytes / GIGA / observed, "GB/s");
        // Steps follow one another, so a reading lies within one at most: the last that begins no later.
        let mut within = vec![0.0; steps.len()];
        for one in self.of(|one, _| is_of(one)) {
            let at = steps.partition_point(|(start, _)| *start <= one.start).checked_sub(1);
            if let Some(at) = at.filter(|at| one.end <= steps[*at].1) {
                within[at] += one.bytes;
            }
        }
        let width = STEADY.min(steps.len().max(1));
        let most = steps.windows(width).zip(within.windows(width)).map(|(steps, bytes)| {
            let length: u64 = steps.iter().map(|(start, end)| end.0 - start.0).sum();
            bytes.iter().sum::<f64>() / (length.max(1) as f64)
        });
        SocketTraffic {
            socket,
            read: rate(read),
            write: rate(written),
            total: rate(read + written),
            observed_max: match most.fold(f64::NAN, f64::max) {
                most if most.is_nan() => Metric::unavailable("GB/s", "no counter was read"),
                most => Metric::counted(most, "GB/s"),
            },
            bytes: Metric::counted(read + written, "bytes"),
        }
    }
}

/// Those of an event's readings that have time between two moments.
fn overlapping(readings: &[Reading], start: Nanos, end: Nanos) -> impl Iterator<Item = &Reading> {
    let first = readings.partition_point(|one| one.end <= start);
    readings[first..].iter().take_while(move |one| one.start < end).filter(move |_| start < end)
}

fn readings(recording: &Recording, event: &CountedEvent) -> Vec<Reading> {
    let bytes = f64::from(event.bytes_per_thousand.unwrap_or(0)) / 1000.0;
    let mut start = Nanos(0);
    let mut readings = Vec::new();
    let of_event = recording.event_counts.iter().filter(|count| count.event == event.id);
    for count in of_event.filter(|count| count.running > Nanos(0)) {
        let end = count.time.max(start);
        let scale = count.enabled.0 as f64 / count.running.0 as f64;
        if end > start {
            readings.push(Reading { start, end, bytes: count.count as f64 * bytes * scale });
        }
        start = end;
    }
    readings
}

#[cfg(test)]
mod tests {
    use facts::EventCount;

    use super::*;

    /// Two sockets; each reads 100 MB and writes half of that in each 100 ms, and 200 MB in the third.
    fn recording() -> Recording {
        let mut recording = Recording::default();
        recording.run.elapsed_ns = 500_000_000;
        for (id, (socket, name)) in (0..).zip([
            (0, DIRECTIONS[0]),
            (1, DIRECTIONS[0]),
            (0, DIRECTIONS[1]),
            (1, DIRECTIONS[1]),
        ]) {
            recording.counted_events.push(CountedEvent {
                id,
                name: name.to_owned(),
                socket: Some(socket),
                bytes_per_thousand: Some(64_000),
                ..CountedEvent::default()
            });
            for step in 1..=5_u64 {
                let lines = if step == 3 { 3_125_000 } else { 1_562_500 };
                recording.event_counts.push(EventCount {
                    time: Nanos(step * 100_000_000),
                    event: id,
                    count: if id < 2 { lines } else { lines / 2 },
                    enabled: Nanos(100),
                    running: Nanos(100),
                });
            }
        }
        recording
    }

    #[test]
    fn sockets_and_the_machine() {
        let recording = recording();
        let traffic = MachineTraffic::new(&recording).expect("it was counted");
        let sockets = traffic.sockets();
        let of = |one: &SocketTraffic| {
            [&one.read, &one.write, &one.total, &one.observed_max, &one.bytes]
                .map(|metric| (metric.value.expect("a value") * 1000.0).round() / 1000.0)
        };
        assert_eq!(
            sockets.iter().map(|one| one.socket).collect::<Vec<_>>(),
            [None, Some(0), Some(1)]
        );
        assert_eq!(of(&sockets[0]), [2.4, 1.2, 3.6, 4.0, 1.8e9]);
        assert_eq!(of(&sockets[1]), [1.2, 0.6, 1.8, 2.0, 0.9e9]);
        assert!(MachineTraffic::new(&Recording::default()).is_none());
    }

    #[test]
    fn a_bin_within_readings_lies_between_what_is_sure_and_what_may_be() {
        let recording = recording();
        let traffic = MachineTraffic::new(&recording).expect("it was counted");
        let exact = traffic.rates(Nanos(200_000_000), Nanos(300_000_000));
        assert_eq!(exact, [4.0, 2.0].map(|rate| Metric::counted(rate, "GB/s")));
        let [read, _] = traffic.rates(Nanos(150_000_000), Nanos(350_000_000));
        let rounded = |rate: Option<f64>| rate.map(|rate| (rate * 1000.0).round() / 1000.0);
        let ends = (rounded(read.value), rounded(read.low), rounded(read.high));
        assert_eq!(ends, (Some(3.0), Some(2.0), Some(4.0)));
        let [late, _] = traffic.rates(Nanos(600_000_000), Nanos(700_000_000));
        assert!(late.value.is_none());
    }
}
