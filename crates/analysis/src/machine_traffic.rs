//! What the whole machine moves to and from memory and between its sockets, by the counters of memory controllers and links.
//!
//! What for: rates per socket and link and over time, next to those of the program alone (`memory::bandwidth`): what is more belongs to other programs,
//! the kernel, devices. What not: which counters there are (`machine::traffic_events`), opening them (`collect::counting`).
//!
//! A reading covers the time since the one before. Of a bin of time that begins or ends within a reading, the part that overlaps is
//! counted as if the rate had been constant; the interval is between what surely is in it and what may be.

use base::Nanos;
use estimate::interval::scaled_count;
use facts::{CountedEvent, Evidence, Metric, Recording};

use crate::counted::Readings;

/// Names of the counts of memory in both directions, of links in both, and of what a link could have carried in one:
/// `machine::traffic_events::Traffic`.
const NAMES: [&str; 5] =
    ["memory reads", "memory writes", "link sent", "link received", "link limit"];
const READ: usize = 0;
const WRITTEN: usize = 1;
const SENT: usize = 2;
const RECEIVED: usize = 3;
const LIMIT: usize = 4;
const GIGA: f64 = 1e9;
/// Readings in a row whose mean can be the observed maximum.
const STEADY: usize = 3;

/// AMD's links have 16 lanes. The fastest that each processor's firmware offers, GT/s, by `family/model`: Rome and Milan (ROCm
/// documentation, "MI100 microarchitecture": up to 18 GT/s between the processors), Genoa and Bergamo (Lenovo Press LP1852, "Configuring
/// AMD xGMI Links": up to 32).
const FASTEST_XGMI: [(&str, f64); 5] =
    [("23/49", 18.0), ("25/0", 18.0), ("25/1", 18.0), ("25/17", 32.0), ("25/160", 32.0)];
const XGMI_LANES: f64 = 16.0;
const UP_TO: &str = "up to this with all lanes at full speed: no counter tells the lanes and the speed that the firmware set";

/// Between two readings of a socket, in a direction.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Reading {
    start: Nanos,
    end: Nanos,
    bytes: f64,
}

/// What moves in a bandwidth domain: memory of all sockets, of one, or a link of one.
#[derive(Clone, PartialEq, Debug)]
pub struct DomainTraffic {
    /// Of memory, estimated from what the cores counted (`core_traffic`): reads alone are known.
    pub by_cores: bool,
    /// From 0; `None`: all.
    pub socket: Option<u32>,
    /// `UPI 0`, `QPI 1`, `xGMI 3`; `None`: memory.
    pub link: Option<String>,
    /// GB/s read, or received by the socket.
    pub read: Metric,
    /// GB/s written, or sent by the socket.
    pub write: Metric,
    /// GB/s, both.
    pub total: Metric,
    /// Largest rate over three readings in a row, GB/s: of memory in both directions together, of a link in one.
    pub observed_max: Metric,
    /// What a link carries at most in one direction, GB/s.
    pub limit: Metric,
    /// Share of the limit that the busier direction used, percent.
    pub limit_percent: Metric,
    /// Bytes, both.
    pub bytes: Metric,
}

/// An event that counts traffic.
struct Counter<'a> {
    event: &'a CountedEvent,
    /// Of [`NAMES`].
    way: usize,
    /// In order.
    readings: Vec<Reading>,
    /// Bytes of the run, with their interval.
    bytes: Option<(f64, Option<(f64, f64)>)>,
}

/// Traffic of a machine.
pub struct MachineTraffic<'a> {
    recording: &'a Recording,
    counters: Vec<Counter<'a>>,
}

impl<'a> MachineTraffic<'a> {
    /// `None` where it was not counted.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Option<MachineTraffic<'a>> {
        let read = Readings::new(recording);
        let counter = |event: &'a CountedEvent| {
            let way = NAMES.iter().position(|name| *name == event.name)?;
            let factor = f64::from(event.socket.and(event.bytes_per_thousand)?) / 1000.0;
            let scaled = read.of(event).ok().and_then(scaled_count);
            let bytes = scaled.map(|(count, interval)| {
                (count * factor, interval.map(|(low, high)| (low * factor, high * factor)))
            });
            Some(Counter { event, way, readings: readings(recording, event, factor), bytes })
        };
        let counters: Vec<_> = recording.counted_events.iter().filter_map(counter).collect();
        let any = counters.iter().any(|counter| !counter.readings.is_empty());
        any.then_some(MachineTraffic { recording, counters })
    }

    /// From when to when each reading is.
    #[must_use]
    pub fn steps(&self) -> Vec<(Nanos, Nanos)> {
        let readings = self.counters.iter().map(|counter| &counter.readings);
        let longest = readings.max_by_key(|readings| readings.len());
        longest.into_iter().flatten().map(|one| (one.start, one.end)).collect()
    }

    /// Whether memory was counted, and whether links were.
    #[must_use]
    pub fn has(&self) -> [bool; 2] {
        [READ, SENT].map(|way| self.counters.iter().any(|counter| counter.way == way))
    }

    /// GB/s that all sockets read and wrote, and sent to others, between two moments.
    #[must_use]
    pub fn rates(&self, start: Nanos, end: Nanos) -> [Metric; 3] {
        let seconds = (end.0.saturating_sub(start.0)) as f64 / GIGA;
        [READ, WRITTEN, SENT].map(|way| {
            let (mut bytes, mut least, mut most, mut number) = (0.0, 0.0, 0.0, 0);
            let of = self.counters.iter().filter(|counter| counter.way == way);
            for reading in of.flat_map(|counter| overlapping(&counter.readings, start, end)) {
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

    /// Memory of all sockets together, then of each, then the links of each.
    #[must_use]
    pub fn domains(&self) -> Vec<DomainTraffic> {
        let mut found: Vec<(Option<String>, Option<u32>)> =
            self.counters.iter().map(|one| (one.event.link.clone(), one.event.socket)).collect();
        // Links by socket, then name.
        found.sort_by(|(a, of_a), (b, of_b)| (a.is_some(), of_a, a).cmp(&(b.is_some(), of_b, b)));
        found.dedup();
        let all = self.has()[0].then_some((None, None));
        all.into_iter().chain(found).map(|(link, socket)| self.domain(link, socket)).collect()
    }

    fn of<'b>(
        &'b self,
        link: Option<&'b str>,
        socket: Option<u32>,
        ways: &'b [usize],
    ) -> impl Iterator<Item = &'b Counter<'a>> {
        self.counters.iter().filter(move |one| {
            let event = one.event;
            ways.contains(&one.way)
                && event.link.as_deref() == link
                && (socket.is_none() || event.socket == socket)
        })
    }

    fn domain(&self, link: Option<String>, socket: Option<u32>) -> DomainTraffic {
        let name = link.as_deref();
        let length = Nanos(self.recording.run.elapsed_ns);
        let observed = self.recording.pauses().observed(Nanos(0), length).seconds().max(1e-9);
        let bytes = |ways: &[usize]| sum(self.of(name, socket, ways));
        let rate = |ways: &[usize]| bytes(ways).times(1.0 / GIGA / observed, "GB/s");
        let most = |ways: &[usize]| self.most(self.of(name, socket, ways));
        let unknown = |why| Metric::unavailable("GB/s", why);
        if name.is_none() {
            let why =
                "`fathom machine` and `reachable` of `report bandwidth` say what memory delivers";
            return DomainTraffic {
                by_cores: false,
                read: rate(&[READ]),
                write: rate(&[WRITTEN]),
                total: rate(&[READ, WRITTEN]),
                observed_max: most(&[READ, WRITTEN]).map_or_else(
                    || unknown("no counter was read"),
                    |most| Metric::counted(most, "GB/s"),
                ),
                limit: unknown(why),
                limit_percent: Metric::unavailable("percent", why),
                bytes: bytes(&[READ, WRITTEN]),
                link,
                socket,
            };
        }
        let (read, write) = (rate(&[RECEIVED]), rate(&[SENT]));
        let busier = if read.value > write.value { &read } else { &write };
        let observed_max = most(&[RECEIVED]).into_iter().chain(most(&[SENT])).reduce(f64::max);
        let limit = match (self.of(name, socket, &[LIMIT]).next(), self.fastest(name)) {
            (Some(_), _) => rate(&[LIMIT]),
            // What it was observed to carry it can carry.
            (None, Some(most)) => {
                let ends = (observed_max.unwrap_or(0.0).min(most), most);
                Metric::with_interval(Evidence::Modelled, most, "GB/s", ends, 1).noted(UP_TO)
            }
            (None, None) => unknown("nothing public tells the clock of this kind of link"),
        };
        DomainTraffic {
            by_cores: false,
            total: match read.value.and(write.value) {
                Some(_) => rate(&[RECEIVED, SENT]),
                None => unknown("one direction of this kind of link is not counted"),
            },
            observed_max: observed_max.map_or_else(
                || unknown("no counter was read"),
                |most| Metric::counted(most, "GB/s"),
            ),
            limit_percent: share(busier, &limit),
            bytes: bytes(&[RECEIVED, SENT]),
            read,
            write,
            limit,
            link,
            socket,
        }
    }

    /// GB/s that a link without a counter of its clock carries at most in one direction.
    fn fastest(&self, link: Option<&str>) -> Option<f64> {
        link.filter(|link| link.starts_with("xGMI"))?;
        let cpu = &self.recording.run.host.family_model_stepping;
        let is_of = |model: &str| cpu.strip_prefix(model).is_some_and(|rest| rest.starts_with('/'));
        let (_, speed) = FASTEST_XGMI.iter().find(|(model, _)| is_of(model))?;
        Some(XGMI_LANES * speed / 8.0)
    }

    /// Largest GB/s over [`STEADY`] readings in a row.
    fn most<'b>(&self, counters: impl Iterator<Item = &'b Counter<'a>>) -> Option<f64>
    where
        'a: 'b,
    {
        let steps = self.steps();
        let mut counters = counters.peekable();
        counters.peek()?;
        // Steps follow one another, so a reading lies within one at most: the last that begins no later.
        let mut within = vec![0.0; steps.len()];
        for one in counters.flat_map(|counter| &counter.readings) {
            let at = steps.partition_point(|(start, _)| *start <= one.start).checked_sub(1);
            if let Some(at) = at.filter(|at| one.end <= steps[*at].1) {
                within[at] += one.bytes;
            }
        }
        let width = STEADY.min(steps.len().max(1));
        let rates = steps.windows(width).zip(within.windows(width)).map(|(steps, bytes)| {
            let length: u64 = steps.iter().map(|(start, end)| end.0 - start.0).sum();
            bytes.iter().sum::<f64>() / (length.max(1) as f64)
        });
        rates.reduce(f64::max)
    }
}

/// Bytes of these events. Where some took turns with events of others, the ends of their intervals are added up: no less than 95 %.
fn sum<'a, 'b: 'a>(counters: impl Iterator<Item = &'a Counter<'b>>) -> Metric {
    let (mut value, mut ends, mut number) = (0.0, Some((0.0, 0.0)), 0);
    for one in counters {
        let Some((bytes, interval)) = one.bytes else {
            return Metric::unavailable("bytes", "no counter was free for it");
        };
        value += bytes;
        number += one.readings.len() as u64;
        ends = ends.zip(interval).map(|((low, high), own)| (low + own.0, high + own.1));
    }
    match ends {
        _ if number == 0 => Metric::unavailable("bytes", "this processor does not count it"),
        Some((low, high)) if low == high => Metric::counted(value, "bytes"),
        Some(ends) => Metric::with_interval(Evidence::Estimated, value, "bytes", ends, number),
        None => Metric {
            low: None,
            high: None,
            evidence: Some(Evidence::Estimated),
            ..Metric::counted(value, "bytes")
        },
    }
}

/// Percent of the limit.
fn share(rate: &Metric, limit: &Metric) -> Metric {
    let (Some(value), Some(most)) = (rate.value, limit.value.filter(|limit| *limit > 0.0)) else {
        let why = [rate, limit].into_iter().find_map(|one| one.note.as_deref());
        return Metric::unavailable("percent", why.unwrap_or("the clock of the link stood"));
    };
    let percent = |rate: Option<f64>, limit: Option<f64>| {
        Some(rate? / limit.filter(|one| *one > 0.0)? * 100.0)
    };
    // Of a limit that nothing counted the share is the model's, too.
    let modelled = limit.evidence == Some(Evidence::Modelled);
    Metric {
        unit: "percent".to_owned(),
        value: Some(value / most * 100.0),
        low: percent(rate.low, limit.high),
        high: percent(rate.high, limit.low)
            .map(|high| if modelled { high.min(100.0) } else { high }),
        evidence: if modelled { limit.evidence } else { rate.evidence },
        note: rate.note.clone().or_else(|| limit.note.clone().filter(|_| modelled)),
        ..rate.clone()
    }
}

/// Those of an event's readings that have time between two moments.
fn overlapping(readings: &[Reading], start: Nanos, end: Nanos) -> impl Iterator<Item = &Reading> {
    let first = readings.partition_point(|one| one.end <= start);
    readings[first..].iter().take_while(move |one| one.start < end).filter(move |_| start < end)
}

/// `bytes`: of an occurrence.
fn readings(recording: &Recording, event: &CountedEvent, bytes: f64) -> Vec<Reading> {
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

    /// Events of sockets with their readings in each 100 ms.
    fn recording(events: &[(u32, usize, Option<&str>, [u64; 5])]) -> Recording {
        let mut recording = Recording::default();
        recording.run.elapsed_ns = 500_000_000;
        for (id, (socket, way, link, counts)) in (0..).zip(events) {
            recording.counted_events.push(CountedEvent {
                id,
                name: NAMES[*way].to_owned(),
                socket: Some(*socket),
                bytes_per_thousand: Some(64_000),
                link: link.map(str::to_owned),
                ..CountedEvent::default()
            });
            for (step, count) in (1..).zip(counts) {
                recording.event_counts.push(EventCount {
                    time: Nanos(step * 100_000_000),
                    event: id,
                    count: *count,
                    enabled: Nanos(100),
                    running: Nanos(100),
                });
            }
        }
        recording
    }

    /// Two sockets; each reads 100 MB and writes half of that in each 100 ms, and 200 MB in the third.
    fn of_memory() -> Recording {
        let [reads, writes] =
            [1_562_500, 781_250].map(|lines| [lines, lines, 2 * lines, lines, lines]);
        recording(&[
            (0, READ, None, reads),
            (1, READ, None, reads),
            (0, WRITTEN, None, writes),
            (1, WRITTEN, None, writes),
        ])
    }

    fn rounded(metric: &Metric) -> Option<f64> {
        metric.value.map(|value| (value * 1000.0).round() / 1000.0)
    }

    #[test]
    fn sockets_and_the_machine() {
        let recording = of_memory();
        let traffic = MachineTraffic::new(&recording).expect("it was counted");
        let sockets = traffic.domains();
        let of = |one: &DomainTraffic| {
            [&one.read, &one.write, &one.total, &one.observed_max, &one.bytes, &one.limit]
                .map(rounded)
        };
        assert_eq!(
            sockets.iter().map(|one| one.socket).collect::<Vec<_>>(),
            [None, Some(0), Some(1)]
        );
        let expected = |figures: [f64; 5]| [figures.map(Some).as_slice(), &[None]].concat();
        assert_eq!(of(&sockets[0]).to_vec(), expected([2.4, 1.2, 3.6, 4.0, 1.8e9]));
        assert_eq!(of(&sockets[1]).to_vec(), expected([1.2, 0.6, 1.8, 2.0, 0.9e9]));
        assert!(MachineTraffic::new(&Recording::default()).is_none());
    }

    /// A link that sends 100 MB in each 100 ms, 400 MB in the last two, of 500 MB that it can; and one without clock and without what it
    /// receives.
    #[test]
    fn links_with_and_without_limit() {
        let lines = |megabytes: [u64; 5]| megabytes.map(|one| one * 15_625);
        let recording = recording(&[
            (0, SENT, Some("UPI 0"), lines([100, 100, 100, 400, 400])),
            (0, RECEIVED, Some("UPI 0"), lines([50; 5])),
            (0, LIMIT, Some("UPI 0"), lines([500; 5])),
            (1, SENT, Some("xGMI 2"), lines([10; 5])),
        ]);
        let traffic = MachineTraffic::new(&recording).expect("it was counted");
        assert_eq!(traffic.has(), [false, true]);
        let of = |one: &DomainTraffic| {
            [&one.read, &one.write, &one.total, &one.observed_max, &one.limit, &one.limit_percent]
                .map(rounded)
        };
        let links = traffic.domains();
        let names: Vec<_> = links.iter().map(|one| (one.link.as_deref(), one.socket)).collect();
        assert_eq!(names, [(Some("UPI 0"), Some(0)), (Some("xGMI 2"), Some(1))]);
        assert_eq!(of(&links[0]), [0.5, 2.2, 2.7, 3.0, 5.0, 44.0].map(Some));
        assert_eq!(of(&links[1]), [None, Some(0.1), None, Some(0.1), None, None]);
        let why = links[1].limit_percent.note.as_deref();
        assert_eq!(why, Some("nothing public tells the clock of this kind of link"));
        let [read, _, sent] = traffic.rates(Nanos(300_000_000), Nanos(400_000_000));
        assert_eq!((rounded(&read), rounded(&sent)), (None, Some(4.1)));
    }

    /// Genoa sends 10 GB/s at most: the limit lies between that and 16 lanes at 32 GT/s.
    #[test]
    fn a_link_without_a_clock_has_a_limit_that_is_not_exact() {
        let megabytes = [500, 500, 500, 1000, 1000].map(|one: u64| one * 15_625);
        let mut recording = recording(&[(0, SENT, Some("xGMI 2"), megabytes)]);
        recording.run.host.family_model_stepping = "25/17/1".to_owned();
        let traffic = MachineTraffic::new(&recording).expect("it was counted");
        let link = traffic.domains().remove(0);
        let ends = |one: &Metric| {
            [one.value, one.low, one.high].map(|end| end.map(|end| (end * 10.0).round() / 10.0))
        };
        assert_eq!(ends(&link.limit), [64.0, 8.3, 64.0].map(Some));
        assert_eq!(link.limit.evidence, Some(Evidence::Modelled));
        // 7 GB/s of 64, or of what it was observed to carry.
        assert_eq!(ends(&link.limit_percent), [10.9, 10.9, 84.0].map(Some));
        assert_eq!(link.limit_percent.note.as_deref(), Some(UP_TO));
        // Model 1 is not model 17.
        recording.run.host.family_model_stepping = "26/2/1".to_owned();
        let traffic = MachineTraffic::new(&recording).expect("it was counted");
        assert!(traffic.domains().remove(0).limit.value.is_none());
    }

    /// Others count there, too: half of the time is scaled to all of it, and no longer exact.
    #[test]
    fn a_counter_that_took_turns_is_estimated() {
        let mut recording = of_memory();
        recording.event_counts.iter_mut().for_each(|count| count.running = Nanos(50));
        let traffic = MachineTraffic::new(&recording).expect("it was counted");
        let read = traffic.domains().remove(0).read;
        assert_eq!((rounded(&read), read.evidence), (Some(4.8), Some(Evidence::Estimated)));
        assert!(read.low < read.value && read.value < read.high, "{read:?}");
    }

    #[test]
    fn a_bin_within_readings_lies_between_what_is_sure_and_what_may_be() {
        let recording = of_memory();
        let traffic = MachineTraffic::new(&recording).expect("it was counted");
        let [read, write, sent] = traffic.rates(Nanos(200_000_000), Nanos(300_000_000));
        assert_eq!([read, write], [4.0, 2.0].map(|rate| Metric::counted(rate, "GB/s")));
        assert!(sent.value.is_none());
        let [read, ..] = traffic.rates(Nanos(150_000_000), Nanos(350_000_000));
        let rounded = |rate: Option<f64>| rate.map(|rate| (rate * 1000.0).round() / 1000.0);
        let ends = (rounded(read.value), rounded(read.low), rounded(read.high));
        assert_eq!(ends, (Some(3.0), Some(2.0), Some(4.0)));
        let [late, ..] = traffic.rates(Nanos(600_000_000), Nanos(700_000_000));
        assert!(late.value.is_none());
    }
}
