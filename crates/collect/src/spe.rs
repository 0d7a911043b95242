//! The packets of Arm's Statistical Profiling Extension, as operations.
//!
//! What for: bytes of the buffer that the hardware filled, one sampled operation after the other, and what a reader must know of what is
//! missing. What not: where the bytes come from (`perf::traces`, crate `import`), branches.
//!
//! Latency is from issue until completion, which is what PEBS counts: total latency less issue latency. `perf` shows the total.
//!
//! Sources: Arm Architecture Reference Manual (DDI 0487), chapter "Statistical Profiling Extension Sample Record Specification";
//! Linux, tools/perf/util/arm-spe-decoder/arm-spe-pkt-decoder.{h,c}, arm-spe-decoder.c, and arm-spe.c for the numbers of data
//! sources.

use base::{Bytes, RemoteAddr};
use facts::{AccessKind, DataSource, Snoop, Translation};

use crate::accesses::Access;

/// Bits of the events packet.
mod event {
    pub(super) const L1_ACCESS: u64 = 1 << 2;
    pub(super) const L1_REFILL: u64 = 1 << 3;
    pub(super) const TLB_ACCESS: u64 = 1 << 4;
    pub(super) const TLB_WALK: u64 = 1 << 5;
    pub(super) const LAST_LEVEL_ACCESS: u64 = 1 << 8;
    pub(super) const LAST_LEVEL_MISS: u64 = 1 << 9;
    pub(super) const L2_ACCESS: u64 = 1 << 19;
    pub(super) const L2_MISS: u64 = 1 << 20;
    pub(super) const MODIFIED: u64 = 1 << 21;
    pub(super) const RECENTLY_FETCHED: u64 = 1 << 22;
    pub(super) const SNOOPED: u64 = 1 << 23;
}

/// Cores of Arm whose data sources mean what `source` says, by the part number of their main ID registers: Neoverse N1, V1, N2,
/// Cortex-X1C, X3, Neoverse V2, Cortex-A720, X925, A725. Source: tools/perf/util/arm-spe.c, `common_ds_encoding_cpus`.
const KNOWN_SOURCES: [u64; 9] = [0xd0c, 0xd40, 0xd49, 0xd4c, 0xd4e, 0xd4f, 0xd81, 0xd85, 0xd87];
/// The implementer of that register: Arm.
const ARM: u64 = 0x41;

/// One packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packet {
    Padding,
    End,
    Time(u64),
    Address(u8, u64),
    Cycles(u8, u64),
    Context(u64),
    Operation(u8, u64),
    Events(u64),
    Source(u64),
}

/// An operation that the hardware sampled: what its packets say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operation {
    /// Ticks of the generic timer.
    pub time: Option<u64>,
    /// The thread, where the kernel writes it there.
    pub context: Option<u64>,
    /// Address of the instruction.
    pub ip: u64,
    /// Whether above EL0.
    pub in_kernel: bool,
    /// Class and byte of the operation packet.
    class: Option<(u8, u64)>,
    address: Option<u64>,
    events: u64,
    source: Option<u64>,
    /// From dispatch to completion, and to issue.
    total: Option<u64>,
    issue: Option<u64>,
    any: bool,
}

/// Operations from bytes.
pub struct Operations<'a> {
    bytes: &'a [u8],
    /// Where the next packet begins.
    at: usize,
    /// Where the first byte was within the trace, for packets that align.
    offset: u64,
    /// Bytes that are no packet.
    pub bad: u64,
}

impl<'a> Operations<'a> {
    /// `offset`: where the first byte is within the trace.
    #[must_use]
    pub fn new(bytes: &'a [u8], offset: u64) -> Operations<'a> {
        Operations { bytes, at: 0, offset, bad: 0 }
    }

    /// Bytes up to here.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.at as u64
    }

    /// The packet here and the bytes that it has; `None` where there is none.
    fn packet(&self) -> Option<(Packet, usize)> {
        let bytes = self.bytes.get(self.at..)?;
        let (first, second) = (*bytes.first()?, bytes.get(1).copied());
        // Bits 5:4 are the logarithm of the payload's size.
        let payload = |head: usize| {
            let size = 1_usize << (bytes[head - 1] >> 4 & 3);
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes.get(head..head + size)?);
            Some((u64::from_le_bytes(word), head + size))
        };
        let of = |packet: fn(u64) -> Packet| payload(1).map(|(word, size)| (packet(word), size));
        match first {
            0 => return Some((Packet::Padding, 1)),
            1 => return Some((Packet::End, 1)),
            0x71 => return of(Packet::Time),
            _ if first & 0xcf == 0x42 => return of(Packet::Events),
            _ if first & 0xcf == 0x43 => return of(Packet::Source),
            _ if first & 0xfc == 0x64 => return of(Packet::Context),
            _ if first & 0xfc == 0x48 => {
                let (word, size) = payload(1)?;
                return Some((Packet::Operation(first & 3, word), size));
            }
            _ => {}
        }
        // A head of two bytes has two more bits of the index.
        let (head, more) = if first & 0xfc == 0x20 { (2, (first & 3) << 3) } else { (1, 0) };
        let last = if head == 2 { second? } else { first };
        if head == 2 && last == 0 {
            let alignment = 1_u64 << ((first & 0xf) + 1);
            let here = self.offset.wrapping_add(self.at as u64);
            return Some((Packet::Padding, (alignment - here % alignment) as usize));
        }
        let (word, size) = payload(head)?;
        match last & 0xf8 {
            0xb0 => Some((Packet::Address(more | last & 7, word), size)),
            0x98 => Some((Packet::Cycles(more | last & 7, word), size)),
            _ => None,
        }
    }
}

impl Iterator for Operations<'_> {
    type Item = Operation;

    /// Its packets up to the time or the end; what a bad byte cuts off is no operation.
    fn next(&mut self) -> Option<Operation> {
        let mut operation = Operation::default();
        while self.at < self.bytes.len() {
            let Some((packet, size)) = self.packet() else {
                self.bad += 1;
                self.at += 1;
                operation = Operation::default();
                continue;
            };
            self.at += size;
            let is_last = operation.add(packet);
            if is_last && operation.any {
                return Some(operation);
            }
            if is_last {
                operation = Operation::default();
            }
        }
        None
    }
}

impl Operation {
    /// Whether the operation is complete.
    fn add(&mut self, packet: Packet) -> bool {
        let any = self.any;
        self.any = true;
        match packet {
            Packet::Padding => self.any = any,
            Packet::End => {
                self.any = any;
                return true;
            }
            Packet::Time(ticks) => {
                self.any = any;
                self.time = Some(ticks);
                return true;
            }
            Packet::Address(0, word) => {
                // Bits 62:61 are the exception level, 63 the security state; instead of the address's top byte.
                self.in_kernel = word >> 61 & 3 != 0;
                self.ip = topped(word, self.in_kernel);
            }
            // Bits 63:56 may be a tag.
            Packet::Address(2, word) => self.address = Some(topped(word, word >> 52 & 0xf == 0xf)),
            Packet::Cycles(0, cycles) => self.total = Some(cycles),
            Packet::Cycles(1, cycles) => self.issue = Some(cycles),
            Packet::Context(number) => self.context = Some(number),
            Packet::Operation(class, word) => self.class = Some((class, word)),
            Packet::Events(bits) => self.events = bits,
            Packet::Source(number) => self.source = Some(number),
            Packet::Address(..) | Packet::Cycles(..) => {}
        }
        false
    }

    /// Whether a counter of 12 or of 16 bits was at its end: the operation took so long or longer.
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        matches!(self.total, Some(0xfff | 0xffff))
    }

    /// Its access to memory. `midr`: the main ID register of its CPU, where known.
    #[must_use]
    pub fn access(&self, midr: Option<u64>) -> Option<Access> {
        let (1, word) = self.class? else { return None };
        let is_store = word & 1 == 1;
        // Bits 7:5 and 1 tell an atomic or exclusive operation, of which bit 2 is atomic: it reads and writes.
        let is_atomic = word & 0xe2 == 0x02 && word & 4 != 0;
        let kind = match (is_atomic, is_store) {
            (true, _) => AccessKind::LoadStore,
            (_, true) => AccessKind::Store,
            (_, false) => AccessKind::Load,
        };
        let cycles = |number: u64| u32::try_from(number).ok().filter(|cycles| *cycles > 0);
        let known = midr.is_some_and(|midr| {
            midr >> 24 & 0xff == ARM && KNOWN_SOURCES.contains(&(midr >> 4 & 0xfff))
        });
        // The cores say nothing of where a store went.
        let source = self.source.filter(|_| known && !is_store).and_then(source);
        let (from, snoop) = source.unwrap_or_else(|| (self.level(), self.snoop()));
        Some(Access {
            kind,
            address: self.address.filter(|address| *address != 0).map(RemoteAddr),
            latency: self.total.zip(self.issue).and_then(|(total, issue)| {
                cycles(total.saturating_sub(issue)).filter(|_| !is_store)
            }),
            instruction_latency: self.total.and_then(cycles),
            from,
            snoop,
            translation: match () {
                () if self.has(event::TLB_WALK) => Some(Translation::Walk),
                () if self.has(event::TLB_ACCESS) => Some(Translation::Hit),
                () => None,
            },
            locked: Some(is_atomic),
            page: None,
        })
    }

    fn has(&self, bits: u64) -> bool {
        self.events & bits != 0
    }

    /// The level by events: each says of one level whether the access came there, and whether it missed.
    fn level(&self) -> Option<DataSource> {
        match () {
            () if self.has(event::RECENTLY_FETCHED) => Some(DataSource::FillBuffer),
            () if self.has(event::LAST_LEVEL_MISS) => Some(DataSource::BeyondL3),
            () if self.has(event::LAST_LEVEL_ACCESS) => Some(DataSource::L3),
            () if self.has(event::L2_MISS) => Some(DataSource::BeyondL2),
            () if self.has(event::L2_ACCESS) => Some(DataSource::L2),
            () if self.has(event::L1_REFILL) => Some(DataSource::BeyondL1),
            () if self.has(event::L1_ACCESS) => Some(DataSource::L1),
            () => None,
        }
    }

    fn snoop(&self) -> Option<Snoop> {
        match (self.has(event::SNOOPED), self.has(event::MODIFIED)) {
            (true, true) => Some(Snoop::Modified),
            (true, false) => Some(Snoop::Hit),
            (false, _) => None,
        }
    }
}

/// What a trace does not have, or has wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Missing {
    /// Accesses whose thread or time nobody tells.
    pub unowned: u64,
    /// Accesses whose counter was at its end.
    pub saturated: u64,
    /// Bytes that are no packets.
    pub bad_bytes: u64,
    /// Bytes that no record of the kernel announced.
    pub unannounced: u64,
    full: u64,
    gaps: u64,
    collisions: u64,
}

impl Missing {
    /// The flags of a PERF_RECORD_AUX (include/uapi/linux/perf_event.h). Whether the buffer was full, after which the kernel samples no
    /// more.
    pub fn flagged(&mut self, flags: u64) -> bool {
        let is = |bit: u64| flags & bit != 0;
        self.full += u64::from(is(1));
        self.gaps += u64::from(is(4));
        self.collisions += u64::from(is(8));
        is(1)
    }

    /// In words, of the event that was traced.
    #[must_use]
    pub fn notes(&self, event: &str) -> Vec<String> {
        let said = [
            (
                self.unowned,
                format!(
                    "{} accesses of {event} are left out: nothing tells their thread or their time",
                    self.unowned
                ),
            ),
            (
                self.saturated,
                format!(
                    "{} accesses of {event} took longer than the hardware can count: their latencies are too low",
                    self.saturated
                ),
            ),
            (
                self.full,
                format!(
                    "the buffer of {event} was full {} times: what the hardware sampled until it was emptied is missing",
                    self.full
                ),
            ),
            (self.gaps, format!("the hardware lost samples of {event} {} times", self.gaps)),
            (
                self.collisions,
                format!(
                    "{} parts of {event} have collisions: an operation was still under way when the next was to be sampled, which \
                     is missing",
                    self.collisions
                ),
            ),
            (
                self.unannounced,
                format!(
                    "{} of {event} are left out: the records that announce them were lost",
                    Bytes(self.unannounced)
                ),
            ),
            (
                self.bad_bytes,
                format!("{} of {event} are no packets of Arm SPE", Bytes(self.bad_bytes)),
            ),
        ];
        said.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note).collect()
    }
}

/// 56 bits of an address with the byte that stands above them.
fn topped(word: u64, high: bool) -> u64 {
    let top = 0xff << 56;
    if high { word | top } else { word & !top }
}

/// `ARM_SPE_NV_*` of tools/perf/util/arm-spe-decoder/arm-spe-decoder.h. Where another cache gave the line, the cores do not say
/// whether it was modified; where it came from another socket, not from what there.
fn source(number: u64) -> Option<(Option<DataSource>, Option<Snoop>)> {
    let peer = Some(Snoop::Peer);
    match number {
        0x0 => Some((Some(DataSource::L1), None)),
        0x8 => Some((Some(DataSource::L2), None)),
        // A core of the same cluster, that cluster's cache, another cluster.
        0x9 | 0xa | 0xc => Some((Some(DataSource::L3), peer)),
        0xb => Some((Some(DataSource::L3), None)),
        0xd => Some((Some(DataSource::RemoteCache), peer)),
        0xe => Some((Some(DataSource::Dram), None)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "spe_tests.rs"]
mod tests;
