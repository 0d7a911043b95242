//! Lines that threads take from each other, from sampled accesses.
//!
//! What for: a load that hit a modified line of another core (HITM) shows that the line moved. Its neighbours in the samples show
//! who wrote, and where in the line. What not: lines of which no sample met a modified copy, unless the hardware does not
//! report that: then a line counts that several threads used and one wrote.
//!
//! Samples have the first byte of an access, not its size: two accesses are to the same bytes if they begin in the same word of
//! 8 bytes. That is an assumption of the choice between false and true sharing.

use std::collections::{BTreeMap, BTreeSet};

use base::{Nanos, Pid, RemoteAddr, Tid};
use facts::{AccessKind, DataSource, Snoop};

use super::{SampledAccesses, Selected};
use crate::sharing::Sharing;
use crate::stack::LocationId;

const LINE: u64 = x86::LINE_BYTES as u64;
/// Samples do not tell the size of an access; most are of 8 bytes or fewer and aligned.
const WORD: u64 = 8;

/// What one thread does to a line.
#[derive(Clone, PartialEq, Debug)]
pub struct SampledThread {
    /// The thread.
    pub tid: Tid,
    /// First bytes of its reads, bit 0 for the first of the line.
    pub read: u64,
    /// First bytes of its writes.
    pub written: u64,
    /// Samples of reads.
    pub reads: u64,
    /// Samples of writes.
    pub writes: u64,
    /// Samples of its reads that met a modified line of another core.
    pub modified: u64,
    /// Of these, another node's core.
    pub remote: u64,
    /// The code with most of the samples.
    pub place: LocationId,
}

/// A line that threads share.
#[derive(Clone, PartialEq, Debug)]
pub struct SampledLine {
    /// The process.
    pub pid: Pid,
    /// Address of its first byte.
    pub address: RemoteAddr,
    /// The first sample of it.
    pub time: Nanos,
    /// How; `None` where no write was sampled, or only one thread.
    pub sharing: Option<Sharing>,
    /// Samples of reads that met a modified line of another core.
    pub modified: u64,
    /// Who, most samples first.
    pub threads: Vec<SampledThread>,
}

/// All of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SampledLines {
    /// Most modified ones first, then most samples.
    pub lines: Vec<SampledLine>,
    /// Whether the samples tell of modified lines at all.
    pub tells_modified: bool,
    /// Samples with an address.
    pub samples: u64,
}

#[derive(Default)]
struct OfThread {
    read: u64,
    written: u64,
    reads: u64,
    writes: u64,
    modified: u64,
    remote: u64,
    places: BTreeMap<LocationId, u64>,
}

impl SampledAccesses<'_> {
    /// Lines of user space that several threads use.
    #[must_use]
    pub fn shared_lines(&self) -> SampledLines {
        let mut lines: BTreeMap<(Pid, u64), (Nanos, BTreeMap<Tid, OfThread>)> = BTreeMap::new();
        let mut found = SampledLines::default();
        for seen in &self.seen {
            let Some(address) = seen.sample.address else { continue };
            found.samples += 1;
            found.tells_modified |= seen.sample.snoop.is_some_and(|snoop| snoop != Snoop::Peer);
            let (_, threads) = lines
                .entry((seen.sample.pid, address.0 / LINE))
                .or_insert((seen.sample.time, BTreeMap::new()));
            threads.entry(seen.sample.tid).or_default().add(seen, 1 << (address.0 % LINE));
        }
        for ((pid, number), (time, threads)) in lines {
            let modified = threads.values().map(|one| one.modified).sum();
            let written = threads.values().any(|one| one.writes > 0);
            let shared = modified > 0 || !found.tells_modified && written && threads.len() > 1;
            if shared {
                let sharing = sharing(&threads);
                let mut threads: Vec<SampledThread> =
                    threads.into_iter().map(|(tid, of)| of.done(tid)).collect();
                threads.sort_by_key(|one| std::cmp::Reverse(one.reads + one.writes));
                let address = RemoteAddr(number * LINE);
                found.lines.push(SampledLine { pid, address, time, sharing, modified, threads });
            }
        }
        let samples =
            |line: &SampledLine| line.threads.iter().map(|one| one.reads + one.writes).sum::<u64>();
        found.lines.sort_by_key(|line| std::cmp::Reverse((line.modified, samples(line))));
        found
    }
}

impl OfThread {
    fn add(&mut self, seen: &Selected<'_>, byte: u64) {
        *self.places.entry(seen.place).or_default() += 1;
        let kind = seen.sample.access;
        if matches!(kind, AccessKind::Store | AccessKind::LoadStore) {
            self.written |= byte;
            self.writes += 1;
        }
        if kind != AccessKind::Store {
            self.read |= byte;
            self.reads += 1;
            let modified = seen.sample.snoop == Some(Snoop::Modified);
            self.modified += u64::from(modified);
            let is_far =
                matches!(seen.sample.from, Some(DataSource::RemoteCache | DataSource::RemoteDram));
            self.remote += u64::from(modified && is_far);
        }
    }

    fn done(self, tid: Tid) -> SampledThread {
        let OfThread { read, written, reads, writes, modified, remote, places } = self;
        let most =
            places.into_iter().max_by_key(|(place, count)| (*count, std::cmp::Reverse(*place)));
        let place = most.map_or(crate::stack::NO_STACK, |(place, _)| place);
        SampledThread { tid, read, written, reads, writes, modified, remote, place }
    }
}

/// Each thread's writes against what the others use.
fn sharing(threads: &BTreeMap<Tid, OfThread>) -> Option<Sharing> {
    let words = |bytes: u64| -> BTreeSet<u64> {
        (0..LINE).filter(|byte| bytes >> byte & 1 == 1).map(|byte| byte / WORD).collect()
    };
    let (mut same, mut different) = (false, false);
    for (tid, writer) in threads {
        let written = words(writer.written);
        for (_, other) in threads.iter().filter(|(other, _)| *other != tid) {
            if written.is_empty() {
                continue;
            }
            let overlap = !written.is_disjoint(&words(other.read | other.written));
            same |= overlap;
            different |= !overlap;
        }
    }
    match (same, different) {
        (true, true) => Some(Sharing::Both),
        (true, false) => Some(Sharing::True),
        (false, true) => Some(Sharing::False),
        (false, false) => None,
    }
}
