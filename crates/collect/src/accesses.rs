//! What the hardware said about a sampled memory access.
//!
//! What for: `perf_mem_data_src` and the weight of a sample, which the kernel fills alike for PEBS, IBS and (by `perf script
//! --itrace`) SPE; and the registers of IBS where a sample has only these. What not: the sample's other parts (`perf::record`, crate
//! `import`).
//!
//! Sources: include/uapi/linux/perf_event.h (union perf_mem_data_src) and how kernels fill it: arch/x86/events/intel/ds.c,
//! arch/x86/events/amd/ibs.c. Registers of IBS: AMD64 APM 2, 13.3; PPR for family 19h, IBS_OP_DATA2 and 3.

use base::{Bytes, RemoteAddr};
use facts::{AccessKind, DataSource, MemorySample, Privilege, Snoop, Translation};

use crate::recorder::Moment;

/// PERF_SAMPLE_WEIGHT or PERF_SAMPLE_WEIGHT_STRUCT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weight {
    /// Of PERF_SAMPLE_WEIGHT.
    Whole(u64),
    /// `var1_dw`, `var2_w`.
    Parts(u32, u16),
}

/// The parts of a sample that tell of its access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleParts<'a> {
    /// `perf_mem_data_src`.
    pub data_source: Option<u64>,
    /// Of the data.
    pub address: Option<u64>,
    /// What the access cost.
    pub weight: Option<Weight>,
    /// Bytes of the page of the address.
    pub page: Option<u64>,
    /// PERF_SAMPLE_RAW.
    pub raw: &'a [u8],
}

/// An access, without who made it. The fields are those of [`MemorySample`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each field is that of the same name of MemorySample")]
pub struct Access {
    pub kind: AccessKind,
    pub address: Option<RemoteAddr>,
    pub latency: Option<u32>,
    pub instruction_latency: Option<u32>,
    pub from: Option<DataSource>,
    pub snoop: Option<Snoop>,
    pub translation: Option<Translation>,
    pub locked: Option<bool>,
    pub page: Option<Bytes>,
}

impl Access {
    /// As a fact. The recorder knows its stack.
    #[must_use]
    pub fn sample(&self, at: Moment, event: u32, weight: u64) -> MemorySample {
        MemorySample {
            time: at.time,
            pid: at.pid,
            tid: at.tid,
            cpu: at.cpu,
            stack: None,
            privilege: Privilege::User,
            event,
            weight,
            access: self.kind,
            address: self.address,
            latency: self.latency,
            instruction_latency: self.instruction_latency,
            from: self.from,
            snoop: self.snoop,
            translation: self.translation,
            locked: self.locked,
            page: self.page,
        }
    }
}

/// The access of a sample; `None` where it has none. `is_ibs`: its raw part has the registers of IBS.
#[must_use]
pub fn access(parts: &SampleParts<'_>, is_ibs: bool) -> Option<Access> {
    let described = parts.data_source.and_then(|word| of_source(word, parts));
    described.or_else(|| of_ibs(parts.raw).filter(|_| is_ibs))
}

/// `count` bits of a word from bit `from` on.
fn bits(word: u64, from: u32, count: u32) -> u64 {
    word >> from & ((1 << count) - 1)
}

fn of_source(word: u64, parts: &SampleParts<'_>) -> Option<Access> {
    // PERF_MEM_OP_LOAD, _STORE, _PFETCH.
    let operation = bits(word, 0, 5);
    let kind = match (operation & 2 != 0, operation & 4 != 0, operation & 8 != 0) {
        (true, true, _) => AccessKind::LoadStore,
        (true, false, _) => AccessKind::Load,
        (false, true, _) => AccessKind::Store,
        (false, false, true) => AccessKind::Prefetch,
        _ => return None,
    };
    // A weight of 0 is one that was not measured.
    let (latency, instruction) = match parts.weight {
        Some(Weight::Whole(weight)) => (u32::try_from(weight).unwrap_or(u32::MAX), 0),
        Some(Weight::Parts(latency, instruction)) => (latency, u32::from(instruction)),
        None => (0, 0),
    };
    Some(Access {
        kind,
        address: parts.address.filter(|address| *address != 0).map(RemoteAddr),
        latency: Some(latency).filter(|cycles| *cycles > 0),
        instruction_latency: Some(instruction).filter(|cycles| *cycles > 0),
        from: source(word),
        snoop: snoop(word),
        translation: translation(bits(word, 26, 7)),
        locked: match bits(word, 24, 2) {
            0 => Some(false),
            locked => (locked & 2 != 0).then_some(true),
        },
        page: parts.page.filter(|bytes| bytes.is_power_of_two()).map(Bytes),
    })
}

/// `mem_lvl_num` with `mem_remote` and `mem_hops` (since Linux 4.14), else `mem_lvl`.
fn source(word: u64) -> Option<DataSource> {
    let level = bits(word, 5, 14);
    let has = |bit: u64| level & bit != 0;
    // PERF_MEM_LVL_HIT is 2, _MISS is 4.
    if has(4) && !has(2) {
        return match () {
            // L3, or any of another node.
            () if has(0x40 | 0x400 | 0x800) => Some(DataSource::BeyondL3),
            () if has(0x20) => Some(DataSource::BeyondL2),
            () if has(0x8) => Some(DataSource::BeyondL1),
            () => None,
        };
    }
    // Hops: 1 is another core of the same node.
    let remote = bits(word, 37, 1) == 1 && bits(word, 43, 3) != 1;
    let near = bits(word, 37, 1) == 1 && !remote;
    let cache = |own| match (remote, near) {
        (true, _) => Some(DataSource::RemoteCache),
        (_, true) => Some(DataSource::L3),
        _ => own,
    };
    match bits(word, 33, 4) {
        1 => cache(Some(DataSource::L1)),
        2 => cache(Some(DataSource::L2)),
        // Memory of another node whose line is shared has the number of L3: ds.c, pebs_data_source[0x0b].
        3 if has(0x100 | 0x200) => Some(DataSource::RemoteDram),
        3 => cache(Some(DataSource::L3)),
        4 | 6 => cache(Some(DataSource::L4)),
        5 | 0xc => Some(DataSource::FillBuffer),
        8 => Some(DataSource::Uncached),
        9 => Some(DataSource::Cxl),
        0xa => Some(DataSource::Device),
        0xb => cache(None),
        0xd if remote => Some(DataSource::RemoteDram),
        0xd => Some(DataSource::Dram),
        0xe => Some(DataSource::Persistent),
        _ => by_bits(level),
    }
}

/// `PERF_MEM_LVL_*`.
fn by_bits(level: u64) -> Option<DataSource> {
    let names = [
        (0x8, DataSource::L1),
        (0x10, DataSource::FillBuffer),
        (0x20, DataSource::L2),
        (0x40, DataSource::L3),
        (0x80, DataSource::Dram),
        (0x100 | 0x200, DataSource::RemoteDram),
        (0x400 | 0x800, DataSource::RemoteCache),
        (0x1000, DataSource::Device),
        (0x2000, DataSource::Uncached),
    ];
    names.into_iter().find(|(bits, _)| level & bits != 0).map(|(_, source)| source)
}

/// `mem_snoop` and `mem_snoopx`.
fn snoop(word: u64) -> Option<Snoop> {
    let (snoop, further) = (bits(word, 19, 5), bits(word, 38, 2));
    match () {
        () if snoop & 0x10 != 0 => Some(Snoop::Modified),
        () if further & 2 != 0 => Some(Snoop::Peer),
        () if snoop & 4 != 0 || further & 1 != 0 => Some(Snoop::Hit),
        () if snoop & 8 != 0 => Some(Snoop::Miss),
        () if snoop & 2 != 0 => Some(Snoop::None),
        () => None,
    }
}

/// `mem_dtlb`.
fn translation(tlb: u64) -> Option<Translation> {
    let has = |bit: u64| tlb & bit != 0;
    match () {
        () if has(0x40) => Some(Translation::Fault),
        // Missed, or the walker was asked.
        () if has(4) || has(0x20) && !has(2) => Some(Translation::Walk),
        () if !has(2) => None,
        () if has(8) && has(0x10) => Some(Translation::Hit),
        () if has(8) => Some(Translation::L1),
        () if has(0x10) => Some(Translation::L2),
        () => Some(Translation::Hit),
    }
}

/// Capabilities, then IbsOpCtl, IbsOpRip, IbsOpData, IbsOpData2, IbsOpData3, IbsDcLinAd and more.
fn of_ibs(raw: &[u8]) -> Option<Access> {
    /// IBS_CAPS_ZEN4: more sources of data.
    const MORE_SOURCES: u32 = 1 << 11;
    let capabilities = u32::from_le_bytes(*raw.first_chunk()?);
    let register = |number: usize| {
        let bytes = raw.get(4 + 8 * number..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let (retired, source, access) = (register(2)?, register(3)?, register(4)?);
    let has = |bit: u32| access >> bit & 1 == 1;
    let (loads, stores, prefetches) = (has(0), has(1), has(21));
    let kind = match (loads, stores) {
        (true, true) => AccessKind::LoadStore,
        (true, false) if prefetches => AccessKind::Prefetch,
        (true, false) => AccessKind::Load,
        (false, true) => AccessKind::Store,
        (false, false) => return None,
    };
    let (missed_l1, missed_l2, waits_for_other) = (has(7), has(20), has(16));
    let number = bits(source, 0, 3) | bits(source, 6, 2) << 3;
    let remote = bits(source, 4, 1) == 1;
    let beyond = match (number, capabilities & MORE_SOURCES != 0) {
        (1, _) => Some(DataSource::L3),
        // A cache of another core complex: in one node, or of either.
        (2, true) => Some(DataSource::L3),
        (2, false) | (5, true) => Some(DataSource::RemoteCache),
        (3, _) if remote => Some(DataSource::RemoteDram),
        (3, _) => Some(DataSource::Dram),
        (6, true) => Some(DataSource::Persistent),
        (7, _) => Some(DataSource::Device),
        (8, true) => Some(DataSource::Cxl),
        _ => None,
    };
    // The source is of loads only. Erratum 1293 of Zen 3: L2Miss of an op that waits for another's line says nothing.
    let beyond = beyond.filter(|_| loads && !stores);
    let from = match () {
        () if !missed_l1 => Some(DataSource::L1),
        () if waits_for_other => Some(beyond.unwrap_or(DataSource::FillBuffer)),
        () if !missed_l2 => Some(DataSource::L2),
        () => Some(beyond.unwrap_or(DataSource::BeyondL2)),
    };
    let from_cache = matches!(from, Some(DataSource::L3 | DataSource::RemoteCache));
    let latency = bits(access, 32, 16) as u32;
    Some(Access {
        kind,
        address: register(5).filter(|_| has(17)).map(RemoteAddr),
        // Of loads that miss L1: until the data came.
        latency: Some(latency).filter(|cycles| *cycles > 0 && missed_l1 && loads),
        instruction_latency: Some(bits(retired, 16, 16) as u32).filter(|cycles| *cycles > 0),
        from: if has(14) { Some(DataSource::Uncached) } else { from },
        snoop: (from_cache && bits(source, 5, 1) == 1).then_some(Snoop::Modified),
        translation: match (has(17), has(2), has(3)) {
            (false, ..) => None,
            (_, false, _) => Some(Translation::L1),
            (_, true, false) => Some(Translation::L2),
            (_, true, true) => Some(Translation::Walk),
        },
        locked: Some(has(15)),
        page: None,
    })
}

#[cfg(test)]
#[path = "accesses_tests.rs"]
mod tests;
