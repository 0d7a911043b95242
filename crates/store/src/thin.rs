//! Thinning: of every `n` successive samples of a thread one is kept, with the weight of all `n`.
//!
//! What for: a bounded result of an unbounded run with unbiased totals: the weights of the kept samples add up to
//! those of all. What not: when to thin (`writer`, `compact`).
//!
//! A fixed hash of thread and group number chooses the kept one. A fixed position would alias with a program whose
//! phases coincide with the sampling clock; a random number would make results irreproducible. Of each `n`
//! successive groups of bursts one keeps its records, completely. Hashes of their numbers choose it, so that the decision is the
//! same everywhere. Assumption: a thread's records come in its order of time.

use std::collections::BTreeMap;

use base::{BurstId, Nanos, Tid};
use facts::{Burst, EventSample, Fact, Fault, FaultKind, MemorySample, Sample, SampleRegisters};

/// A stream that is thinned by itself: minor and major faults separately, so that both totals stay right; accesses and counts by
/// event, whose weights do not add up to those of another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stream {
    Samples(Tid),
    Faults(Tid, bool),
    Accesses(Tid, u32),
    Counts(Tid, u32),
}

/// A sample or fault and its weight.
#[derive(Clone, Copy, Debug)]
enum Weighted {
    Sample(Sample),
    Fault(Fault),
    Access(MemorySample),
    Count(EventSample),
}

impl Weighted {
    fn stream(&self) -> Stream {
        match self {
            Weighted::Sample(sample) => Stream::Samples(sample.tid),
            Weighted::Fault(fault) => Stream::Faults(fault.tid, fault.kind == FaultKind::Major),
            Weighted::Access(sample) => Stream::Accesses(sample.tid, sample.event),
            Weighted::Count(sample) => Stream::Counts(sample.tid, sample.event),
        }
    }

    fn weight(&self) -> u64 {
        match self {
            Weighted::Sample(sample) => sample.weight.0,
            Weighted::Fault(fault) => fault.weight,
            Weighted::Access(sample) => sample.weight,
            Weighted::Count(sample) => sample.weight,
        }
    }

    fn with_weight(self, weight: u64) -> Fact {
        match self {
            Weighted::Sample(sample) => Fact::Sample(Sample { weight: Nanos(weight), ..sample }),
            Weighted::Fault(fault) => Fact::Fault(Fault { weight, ..fault }),
            Weighted::Access(sample) => Fact::MemorySample(MemorySample { weight, ..sample }),
            Weighted::Count(sample) => Fact::EventSample(EventSample { weight, ..sample }),
        }
    }
}

/// So many bursts of successive ids keep their records together: a trace, the two windows after it and timed loads are some four.
/// Larger groups would show fewer moments of the run.
const TOGETHER: u32 = 8;

#[derive(Debug)]
struct Group {
    number: u64,
    seen: u64,
    weight: u64,
    kept: Option<Weighted>,
}

/// Thins samples and faults by a fixed factor.
#[derive(Debug)]
pub struct Thinner {
    factor: u64,
    groups: BTreeMap<Stream, Group>,
    /// Pieces of registers seen.
    pieces: BTreeMap<Tid, u64>,
    dropped: u64,
}

impl Thinner {
    /// Keeps one of every `factor` records; 1 keeps all.
    pub fn new(factor: u64) -> Thinner {
        Thinner {
            factor: factor.max(1),
            groups: BTreeMap::new(),
            pieces: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// One of this many is kept.
    pub fn factor(&self) -> u64 {
        self.factor
    }

    /// Takes a sample; returns one when a group of `factor` is full.
    pub fn sample(&mut self, sample: Sample) -> Option<Fact> {
        self.take(Weighted::Sample(sample))
    }

    /// Takes a fault likewise.
    pub fn fault(&mut self, fault: Fault) -> Option<Fact> {
        self.take(Weighted::Fault(fault))
    }

    /// Takes a sampled access likewise.
    pub fn memory(&mut self, sample: MemorySample) -> Option<Fact> {
        self.take(Weighted::Access(sample))
    }

    /// Takes a sample of a counted event likewise.
    pub fn counted(&mut self, sample: EventSample) -> Option<Fact> {
        self.take(Weighted::Count(sample))
    }

    /// Takes a piece of a thread's registers; returns it if it is the one of `factor` that stays. Pieces stay whole,
    /// so that their samples remain neighbours.
    pub fn registers(&mut self, piece: SampleRegisters) -> Option<Fact> {
        let number = self.pieces.entry(piece.tid).or_default();
        let (group, position) = (*number / self.factor, *number % self.factor);
        *number += 1;
        let stays = draw(Stream::Samples(piece.tid), group) % self.factor == position;
        stays.then_some(Fact::SampleRegisters(piece))
    }

    fn take(&mut self, record: Weighted) -> Option<Fact> {
        if self.factor == 1 {
            return Some(record.with_weight(record.weight()));
        }
        let stream = record.stream();
        let group = self.groups.entry(stream).or_insert(Group {
            number: 0,
            seen: 0,
            weight: 0,
            kept: None,
        });
        // Until the chosen one arrives, keep the first: the group may end early.
        if group.seen == draw(stream, group.number) % self.factor || group.kept.is_none() {
            group.kept = Some(record);
        }
        group.seen += 1;
        group.weight = group.weight.saturating_add(record.weight());
        if group.seen < self.factor {
            return None;
        }
        self.dropped += group.seen - 1;
        let full = group.kept.take().map(|kept| kept.with_weight(group.weight));
        *group = Group { number: group.number + 1, seen: 0, weight: 0, kept: None };
        full
    }

    /// Ends all groups early, so that no weight is lost.
    pub fn drain(&mut self) -> Vec<Fact> {
        let groups = std::mem::take(&mut self.groups);
        let dropped: u64 = groups.values().map(|group| group.seen.saturating_sub(1)).sum();
        self.dropped += dropped;
        groups
            .into_values()
            .filter_map(|group| group.kept.map(|kept| kept.with_weight(group.weight)))
            .collect()
    }

    /// Records dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

/// Which bursts keep their records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptBursts {
    factor: u64,
}

impl KeptBursts {
    /// All.
    pub const ALL: KeptBursts = KeptBursts { factor: 1 };

    /// Half of these.
    pub fn halved(self) -> KeptBursts {
        KeptBursts { factor: self.factor.saturating_mul(2) }
    }

    /// One of this many keeps them.
    pub fn factor(self) -> u64 {
        self.factor
    }

    /// Whether this burst keeps its records. A burst outside a set is outside its half, too. A trace and the windows that follow it
    /// have successive ids and say little without each other, so neighbours stay together. Of each two groups one stays, of two that
    /// stay one again, and so on: that is even over the run.
    fn keeps(self, burst: BurstId) -> bool {
        let group = u64::from(burst.0 / TOGETHER);
        let stays = |level: u32| {
            let drawn = split_mix(u64::from(level), group >> (level + 1));
            (group >> level) & 1 == drawn & 1
        };
        // `factor` is a power of two.
        (0..self.factor.trailing_zeros()).all(stays)
    }

    /// What is left of a fact.
    pub fn fact(self, fact: Fact) -> Option<Fact> {
        match fact {
            Fact::Records(records) if !self.keeps(records.burst) => None,
            Fact::Burst(burst) if !self.keeps(burst.id) => Some(Fact::Burst(without(burst))),
            other => Some(other),
        }
    }
}

/// A burst whose records were not kept.
pub fn without(burst: Burst) -> Burst {
    Burst { records_lost: burst.records_lost || burst.records > 0, ..burst }
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014) over stream and group.
fn draw(stream: Stream, group: u64) -> u64 {
    let (tid, kind) = match stream {
        Stream::Samples(tid) => (tid, 0),
        Stream::Faults(tid, major) => (tid, 1 + u64::from(major)),
        Stream::Accesses(tid, event) => (tid, 3 + (u64::from(event) << 34)),
        // The events of a group are sampled together, and stay together.
        Stream::Counts(tid, _) => (tid, 1 << 34),
    };
    split_mix(u64::from(tid.0 as u32) << 2 | kind, group)
}

fn split_mix(seed: u64, step: u64) -> u64 {
    let mut z = seed.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use base::Pid;
    use facts::Privilege;

    use super::*;

    fn sample(tid: i32, time: u64, weight: u64) -> Sample {
        Sample {
            time: Nanos(time),
            pid: Pid(1),
            tid: Tid(tid),
            cpu: None,
            weight: Nanos(weight),
            stack: None,
            privilege: Privilege::User,
        }
    }

    fn weight(facts: &[Fact]) -> u64 {
        facts
            .iter()
            .map(|fact| match fact {
                Fact::Sample(sample) => sample.weight.0,
                _ => 0,
            })
            .sum()
    }

    #[test]
    fn weight_is_kept_exactly_and_one_of_n_remains() {
        let mut thinner = Thinner::new(8);
        let mut out = Vec::new();
        let mut put_in = 0;
        for time in 0..1003 {
            for tid in 1..=3 {
                let record = sample(tid, time, 1000 + time % 7);
                put_in += record.weight.0;
                out.extend(thinner.sample(record));
            }
        }
        assert_eq!(out.len(), 3 * (1003 / 8));
        out.extend(thinner.drain());
        assert_eq!(out.len(), 3 * 126);
        assert_eq!(weight(&out), put_in);
        assert_eq!(thinner.take_dropped(), 3 * (1003 - 126));
        assert_eq!(thinner.take_dropped(), 0);
    }

    #[test]
    fn the_kept_one_moves_within_its_group() {
        let mut thinner = Thinner::new(4);
        let kept: Vec<u64> = (0..4000)
            .filter_map(|time| thinner.sample(sample(5, time, 1)))
            .map(|fact| match fact {
                Fact::Sample(sample) => sample.time.0 % 4,
                _ => 9,
            })
            .collect();
        for place in 0..4 {
            let count = kept.iter().filter(|&&found| found == place).count();
            assert!((200..300).contains(&count), "place {place} kept {count} times of 1000");
        }
    }

    #[test]
    fn one_piece_of_registers_of_n_stays_and_halving_twice_leaves_a_quarter() {
        let piece = |time| SampleRegisters {
            time: Nanos(time),
            pid: Pid(1),
            tid: Tid(1),
            samples: 1,
            bytes: vec![],
        };
        let halve = |pieces: Vec<u64>| {
            let mut thinner = Thinner::new(2);
            let kept = pieces.into_iter().filter(|time| thinner.registers(piece(*time)).is_some());
            kept.collect::<Vec<u64>>()
        };
        let half = halve((0..100).collect());
        assert_eq!((half.len(), halve(half.clone()).len()), (50, 25));
        let evens = half.iter().filter(|time| **time % 2 == 0).count();
        assert!((15..35).contains(&evens), "{evens} of 50 at the same place");
    }

    #[test]
    fn neighbours_keep_their_records_together_and_halves_nest() {
        let half = KeptBursts::ALL.halved();
        let quarter = half.halved();
        let kept =
            |of: KeptBursts| (0..8000).filter(|id| of.keeps(BurstId(*id))).collect::<Vec<_>>();
        let [half, quarter] = [half, quarter].map(kept);
        assert_eq!((half.len(), quarter.len()), (4000, 2000));
        assert!(quarter.chunks(8).enumerate().all(|(at, ids)| ids[0] / 32 == at as u32));
        assert!(quarter.iter().all(|id| half.contains(id)));
        // A trace and the two windows after it.
        let whole = quarter.windows(3).filter(|ids| ids[2] == ids[0] + 2).count();
        assert!(3 * whole > 2 * quarter.len(), "{whole} of {}", quarter.len());
    }

    #[test]
    fn minor_and_major_faults_keep_their_own_totals() {
        let mut thinner = Thinner::new(4);
        let mut out = Vec::new();
        for time in 0..1000 {
            let kind = if time % 10 == 0 { FaultKind::Major } else { FaultKind::Minor };
            out.extend(thinner.fault(Fault {
                time: Nanos(time),
                pid: Pid(1),
                tid: Tid(1),
                address: base::RemoteAddr(time),
                stack: None,
                weight: 1,
                kind,
            }));
        }
        out.extend(thinner.drain());
        let total = |wanted| -> u64 {
            out.iter()
                .map(|fact| match fact {
                    Fact::Fault(fault) if fault.kind == wanted => fault.weight,
                    _ => 0,
                })
                .sum()
        };
        assert_eq!((total(FaultKind::Minor), total(FaultKind::Major)), (900, 100));
    }
}
