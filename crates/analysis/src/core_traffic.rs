//! What cores read from memory, between two bounds, by events of the cores: an estimate for where nothing counts memory controllers,
//! as in a virtual machine whose host lends it only the PMU of its cores.
//!
//! What for: a rate over time and for the run. What not: what is written, because no event of a core tells when a cache writes a line
//! back; devices; opening the events.
//!
//! ```text
//!   Intel   LONGEST_LAT_CACHE.MISS x 64 B   <= lines read <=   OFFCORE_REQUESTS.ALL_REQUESTS x 64 B
//!   AMD     fills of L1 from DRAM x 64 B    <= lines read <=   the same and prefetches of L2 that missed L3
//!   Arm     LL_CACHE_MISS_RD x 64 B         <= lines read <=   BUS_ACCESS_RD x 64 B
//! ```
//! Sources: Intel's perfmon, `info_memory_l3_cache_fill_bw` and `info_memory_l3_cache_access_bw` of the top-down metrics, and the
//! descriptions of the events: the first leaves out prefetches by L3 itself, the second counts all that cores ask beyond L2. AMD's
//! Processor Programming References, "LsAnyFillsFromSys", "L2PfMissL2L3", "L2FillRspSrc". Arm's Technical Reference Manuals: a bus access moves
//! at most a line. Assumption: a line that missed came from memory, not from a cache of another socket.

use base::Nanos;
use estimate::Estimate;
use facts::{Evidence, Metric, Recording};

use crate::counted::Readings;
use crate::machine_traffic::DomainTraffic;
use crate::uarch::in_each_pmu;

/// What a processor's cores count: what is surely read, and what is read at most; and whether the latter is the best value.
struct Known {
    least: &'static [&'static str],
    most: &'static [&'static str],
    most_is_best: bool,
}

const KNOWN: [Known; 5] = [
    Known {
        least: &["longest_lat_cache.miss"],
        most: &["offcore_requests.all_requests"],
        most_is_best: false,
    },
    // Zen 5 tells what filled L2, prefetches included.
    Known {
        least: &["l2_fill_rsp_src.dram_io_near", "l2_fill_rsp_src.dram_io_far"],
        most: &["l2_fill_rsp_src.dram_io_near", "l2_fill_rsp_src.dram_io_far"],
        most_is_best: true,
    },
    Known {
        least: &["ls_any_fills_from_sys.dram_io_near", "ls_any_fills_from_sys.dram_io_far"],
        most: &[
            "ls_any_fills_from_sys.dram_io_near",
            "ls_any_fills_from_sys.dram_io_far",
            "l2_pf_miss_l2_l3.all",
        ],
        most_is_best: true,
    },
    Known {
        least: &["ls_any_fills_from_sys.mem_io_local", "ls_any_fills_from_sys.mem_io_remote"],
        most: &[
            "ls_any_fills_from_sys.mem_io_local",
            "ls_any_fills_from_sys.mem_io_remote",
            "l2_pf_miss_l2_l3",
        ],
        most_is_best: true,
    },
    Known { least: &["ll_cache_miss_rd"], most: &["bus_access_rd"], most_is_best: false },
];
const LINE: f64 = x86::LINE_BYTES as f64;
const GIGA: f64 = 1e9;
const NOTE: &str = "estimated from misses of the cores: no memory controller was counted";
const NO_WRITES: &str = "no event of a core tells when a cache writes a line back";

/// Names of the events to count: of each processor, those that must be there and those that give the upper end besides.
pub fn events() -> impl Iterator<Item = (&'static [&'static str], Vec<&'static str>)> {
    KNOWN.iter().map(|known| {
        let besides = known.most.iter().filter(|name| !known.least.contains(name));
        (known.least, besides.copied().collect())
    })
}

/// Reads between two readings.
#[derive(Clone, PartialEq, Debug)]
pub struct CoreReads {
    /// From the reading before.
    pub start: Nanos,
    /// To this one.
    pub end: Nanos,
    /// GB/s.
    pub read: Metric,
}

/// Events of a recording that bound what was read.
pub struct CoreTraffic<'a> {
    recording: &'a Recording,
    readings: Readings,
    least: Vec<u32>,
    most: Option<Vec<u32>>,
    most_is_best: bool,
}

impl<'a> CoreTraffic<'a> {
    /// `None` where they were not counted.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Option<CoreTraffic<'a>> {
        let readings = Readings::new(recording);
        let events = recording.counted_events.iter().filter(|event| event.socket.is_none());
        let read = events.filter(|event| readings.has(event));
        let events: Vec<(u32, String)> = read.map(|one| (one.id, one.name.clone())).collect();
        // Of each kind of cores.
        let all = |names: &[&str]| -> Option<Vec<u32>> {
            let of = |name: &&str| {
                Some(in_each_pmu(events.iter().cloned(), &[*name])).filter(|ids| !ids.is_empty())
            };
            Some(names.iter().map(of).collect::<Option<Vec<_>>>()?.concat())
        };
        let (known, least) = KNOWN.iter().find_map(|known| Some((known, all(known.least)?)))?;
        let most = all(known.most);
        let most_is_best = known.most_is_best && most.is_some();
        Some(CoreTraffic { recording, readings, least, most, most_is_best })
    }

    /// The run as a bandwidth domain of which only reads are known.
    #[must_use]
    pub fn domain(&self) -> DomainTraffic {
        let length = Nanos(self.recording.run.elapsed_ns);
        let observed = self.recording.pauses().observed(Nanos(0), length).seconds().max(1e-9);
        let unknown = |unit| Metric::unavailable(unit, NO_WRITES);
        DomainTraffic {
            by_cores: true,
            socket: None,
            link: None,
            read: self.whole().times(LINE / GIGA / observed, "GB/s"),
            write: unknown("GB/s"),
            total: unknown("GB/s"),
            observed_max: unknown("GB/s"),
            limit: unknown("GB/s"),
            limit_percent: unknown("percent"),
            bytes: unknown("bytes"),
        }
    }

    /// Lines of the run.
    fn whole(&self) -> Metric {
        let least = match self.sum(&self.least) {
            Err(why) => return Metric::unavailable("count", &why),
            Ok(least) => least,
        };
        let most = self.most.as_deref().and_then(|ids| self.sum(ids).ok());
        let best = most.as_ref().filter(|_| self.most_is_best).unwrap_or(&least).point();
        let low = least.known_interval().map(|(low, _)| low);
        let high = most.and_then(|most| most.known_interval()).map(|(_, high)| high.max(best));
        between("count", best, (low, high), self.recording.event_counts.len() as u64)
    }

    fn sum(&self, ids: &[u32]) -> Result<Estimate, String> {
        let events = ids.iter().filter_map(|id| self.recording.counted_events.get(*id as usize));
        let all = events.map(|event| self.readings.estimate(event));
        let all = all.collect::<Result<Vec<_>, String>>()?;
        let sum = all.into_iter().reduce(|sum, one| sum.with(&one, |sum, one| sum + one));
        sum.ok_or_else(|| "it was not counted".to_owned())
    }

    /// Between each two readings; none where the readings tell nothing.
    #[must_use]
    pub fn over_time(&self) -> Vec<CoreReads> {
        if self.sum(&self.least).is_err() {
            return Vec::new();
        }
        let counts = &self.recording.event_counts;
        let first = self.least.first().copied();
        let mut start = Nanos(0);
        let mut found = Vec::new();
        for at in counts.iter().filter(|count| Some(count.event) == first).map(|count| count.time) {
            // Surely, scaled, and at most: unknown where a counter was there for a part of the time.
            let sum = |ids: &[u32]| {
                let of = counts.iter().filter(|one| one.time == at && ids.contains(&one.event));
                of.filter(|one| one.running > Nanos(0)).fold((0.0, 0.0, true), |sum, one| {
                    let scale = one.enabled.0 as f64 / one.running.0 as f64;
                    let count = one.count as f64;
                    (sum.0 + count, sum.1 + count * scale, sum.2 && one.enabled == one.running)
                })
            };
            let seconds = (at - start).seconds();
            let (surely, scaled, _) = sum(&self.least);
            let most = self.most.as_deref().map(sum);
            let best = most.filter(|_| self.most_is_best).map_or(scaled, |(_, most, _)| most);
            let high = most.filter(|(.., whole)| *whole).map(|(_, most, _)| most.max(best));
            if seconds > 0.0 {
                let read = between("count", best, (Some(surely), high), 1);
                let read = read.times(LINE / GIGA / seconds, "GB/s");
                found.push(CoreReads { start, end: at, read });
            }
            start = at;
        }
        found
    }
}

fn between(
    unit: &str,
    value: f64,
    (low, high): (Option<f64>, Option<f64>),
    samples: u64,
) -> Metric {
    let evidence = Some(Evidence::Estimated);
    Metric { low, high, evidence, samples, ..Metric::counted(value, unit) }.noted(NOTE)
}

#[cfg(test)]
mod tests {
    use facts::{CountedEvent, EventCount};

    use super::*;

    /// Events, each with its counts in 100 ms, and the part of the time with a counter, percent.
    fn recording(events: &[(&str, &[u64], u64)]) -> Recording {
        let mut recording = Recording::default();
        recording.run.elapsed_ns = 200_000_000;
        for (id, (name, counts, part)) in (0..).zip(events) {
            let name = (*name).to_owned();
            recording.counted_events.push(CountedEvent { id, name, ..CountedEvent::default() });
            for (step, count) in (1..).zip(*counts) {
                recording.event_counts.push(EventCount {
                    time: Nanos(step * 100_000_000),
                    event: id,
                    count: *count,
                    enabled: Nanos(100),
                    running: Nanos(*part),
                });
            }
        }
        recording
    }

    fn ends(metric: &Metric) -> [Option<f64>; 3] {
        [metric.value, metric.low, metric.high].map(|end| end.map(|end| (end * 1e3).round() / 1e3))
    }

    /// 1 and 2 GB/s of lines that missed; the cores asked for twice as much.
    #[test]
    fn intel_reads_lie_between_misses_and_requests() {
        let lines = 1_562_500;
        let counted = recording(&[
            ("cycles", &[7, 7], 100),
            ("LONGEST_LAT_CACHE.MISS", &[lines, 2 * lines], 100),
            ("offcore_requests.all_requests:u", &[2 * lines, 4 * lines], 100),
        ]);
        let traffic = CoreTraffic::new(&counted).expect("it was counted");
        let domain = traffic.domain();
        assert_eq!(ends(&domain.read), [1.5, 1.5, 3.0].map(Some));
        assert_eq!(domain.read.evidence, Some(Evidence::Estimated));
        assert_eq!((domain.write.value, domain.write.note.as_deref()), (None, Some(NO_WRITES)));
        let steps: Vec<_> = traffic.over_time().iter().map(|one| ends(&one.read)).collect();
        assert_eq!(steps, [[1.0, 1.0, 2.0].map(Some), [2.0, 2.0, 4.0].map(Some)]);
        assert!(CoreTraffic::new(&Recording::default()).is_none());
        assert!(
            CoreTraffic::new(&recording(&[("offcore_requests.all_requests", &[1], 100)])).is_none()
        );
    }

    /// A virtual machine's PMU that takes all events and counts none.
    #[test]
    fn zeros_of_a_pmu_that_does_not_count_are_no_bandwidth() {
        let mut counted = recording(&[
            ("cycles", &[0, 0], 100),
            ("longest_lat_cache.miss", &[0, 0], 100),
            ("offcore_requests.all_requests", &[0, 0], 100),
        ]);
        for count in &mut counted.event_counts {
            (count.enabled, count.running) = (Nanos(100_000_000), Nanos(100_000_000));
        }
        let traffic = CoreTraffic::new(&counted).expect("it was counted");
        let read = traffic.domain().read;
        assert_eq!((ends(&read), read.unit.as_str()), ([None; 3], "GB/s"));
        let why = read.note.expect("a reason");
        assert!(why.starts_with("this PMU does not count"), "{why}");
        assert_eq!(traffic.over_time(), []);
    }

    /// Both kinds of cores of a hybrid, without the event of the upper end.
    #[test]
    fn without_an_upper_end_it_is_at_least_so_much() {
        let lines = 1_562_500;
        let counted = recording(&[
            ("cpu_core/longest_lat_cache.miss/", &[lines, lines], 100),
            ("cpu_atom/longest_lat_cache.miss/", &[lines, lines], 100),
        ]);
        let read = CoreTraffic::new(&counted).expect("it was counted").domain().read;
        assert_eq!(ends(&read), [Some(2.0), Some(2.0), None]);
    }

    /// AMD: fills, and prefetches of L2 besides. Half of the time without a counter: what was seen is sure.
    #[test]
    fn amd_reads_include_prefetches_and_turns_widen_the_interval() {
        let lines = 781_250;
        let of = |part, counts: [u64; 2]| {
            let counted = recording(&[
                ("ls_any_fills_from_sys.dram_io_near", &counts, part),
                ("ls_any_fills_from_sys.dram_io_far", &[0, 0], part),
                ("l2_pf_miss_l2_l3.all", &counts, part),
            ]);
            let traffic = CoreTraffic::new(&counted).expect("it was counted");
            (traffic.domain().read, traffic.over_time().remove(0).read)
        };
        let (read, step) = of(100, [lines, lines]);
        assert_eq!(
            (ends(&read), ends(&step)),
            ([1.0, 0.5, 1.0].map(Some), [1.0, 0.5, 1.0].map(Some))
        );
        let (read, step) = of(50, [lines, 2 * lines]);
        assert_eq!(ends(&step), [Some(2.0), Some(0.5), None]);
        assert_eq!(ends(&read)[0], Some(3.0));
        assert!(read.low < Some(1.5) && read.high > Some(3.0), "{read:?}");
    }
}
