//! Sampled addresses: what may be waited for at each, worked out once.
//!
//! What not: registers, objects.

use std::collections::{BTreeMap, HashMap};

use base::{CodeAddress, FileOffset, ModuleId, RemoteAddr};
use facts::Recording;
use facts::host::SampleDistance;
use x86::{CodeBytes, FARTHEST, Occurrence, Surroundings, Suspect, WaitKind};

/// A distance with a smaller share of the calibration's samples is left out: another one is at least three times as likely.
const LEAST_PERCENT: f64 = 25.0;
/// Where nothing was calibrated: the sample is at the instruction that waits, or at the next one.
const POSSIBLE: [u8; 2] = [0, 1];

/// An address with samples.
#[derive(Default)]
pub(super) struct SampledAddress {
    /// What may be waited for; `None` where it is not known what ran before.
    pub(super) suspects: Option<Vec<Suspect>>,
    /// The share of its time that exceeds the usual time of an instruction of the block.
    pub(super) beyond: f64,
    /// There are accesses in its block.
    pub(super) near_access: bool,
}

/// For each kind of wait, the skid of its samples in instructions.
pub(super) struct Distances(BTreeMap<WaitKind, Vec<u8>>);

impl Distances {
    /// Those that were calibrated.
    pub(super) fn read(recording: &Recording) -> Distances {
        let calibration = recording.run.calibration.as_ref();
        let calibrated = calibration.map_or(&[][..], |found| &found.sample_distances);
        let of = |distance: &SampleDistance| {
            let kind = WaitKind::ALL.into_iter().find(|kind| kind.name() == distance.kind)?;
            let usual = (0..=FARTHEST).zip(&distance.percent);
            let usual =
                usual.filter(|(_, share)| share.value.is_some_and(|share| share >= LEAST_PERCENT));
            let usual: Vec<u8> = usual.map(|(distance, _)| distance).collect();
            (!usual.is_empty()).then_some((kind, usual))
        };
        Distances(calibrated.iter().filter_map(of).collect())
    }

    /// The kinds that were not.
    pub(super) fn unknown(&self) -> Vec<WaitKind> {
        WaitKind::ALL.into_iter().filter(|kind| !self.0.contains_key(kind)).collect()
    }

    /// What a sample at an address waits for, if it waits.
    fn suspects(&self, surroundings: &Surroundings, offset: FileOffset) -> Option<Vec<Suspect>> {
        let mut found = surroundings.suspects(RemoteAddr(offset.0), FARTHEST)?;
        found.retain(|suspect| {
            let usual = self.0.get(&suspect.kind).map_or(&POSSIBLE[..], Vec::as_slice);
            let access = suspect.access.map(|(_, access)| access.when);
            // A repeated one is interrupted between two turns.
            let repeats = suspect.distance == 0 && matches!(access, Some(Occurrence::Repeated(_)));
            repeats || usual.contains(&suspect.distance)
        });
        Some(found)
    }
}

/// All places, from the CPU time that stands at each.
pub(super) fn places(
    recording: &Recording,
    distances: &Distances,
    weights: &BTreeMap<CodeAddress, u64>,
) -> HashMap<CodeAddress, SampledAddress> {
    let mut found = HashMap::new();
    let mut rest = weights.iter().peekable();
    while let Some((first, _)) = rest.peek().copied() {
        let own: BTreeMap<FileOffset, u64> =
            std::iter::from_fn(|| rest.next_if(|(other, _)| other.module == first.module))
                .map(|(at, weight)| (at.offset, *weight))
                .collect();
        let surroundings = surroundings(recording, first.module, own.keys());
        // Long blocks have samples everywhere: what is found of an instruction serves all of its block.
        let mut known: BTreeMap<FileOffset, Option<Vec<Suspect>>> = BTreeMap::new();
        let mut block: Vec<FileOffset> = Vec::new();
        for offset in own.keys() {
            if !block.contains(offset) {
                let around = surroundings.block(RemoteAddr(offset.0));
                block = around.into_iter().map(|at| FileOffset(at.0)).collect();
            }
            for at in block.iter().chain([offset]) {
                let find = || distances.suspects(&surroundings, *at);
                known.entry(*at).or_insert_with(find);
            }
            let (beyond, near_access) = beyond(&block, &known, &own, *offset);
            let suspects = known[offset].clone();
            let address = CodeAddress::new(first.module, *offset);
            found.insert(address, SampledAddress { suspects, beyond, near_access });
        }
    }
    found
}

/// Code of a module: it is known to begin where functions do, and where samples stand.
fn surroundings<'a>(
    recording: &Recording,
    module: ModuleId,
    sampled: impl Iterator<Item = &'a FileOffset>,
) -> Surroundings {
    let pieces = recording.sampled_code.iter().filter(|piece| piece.module == module);
    let code: Vec<CodeBytes<'_>> = pieces
        .map(|piece| CodeBytes { start: RemoteAddr(piece.offset.0), bytes: &piece.bytes })
        .collect();
    let starts = code.iter().map(|piece| piece.start);
    Surroundings::read(&code, starts.chain(sampled.map(|offset| RemoteAddr(offset.0))))
}

/// Share of the time at an address beyond the mean time at those instructions of its block at which nothing is waited for;
/// where there are none, beyond the least. And whether the block has others.
fn beyond(
    block: &[FileOffset],
    suspects: &BTreeMap<FileOffset, Option<Vec<Suspect>>>,
    weights: &BTreeMap<FileOffset, u64>,
    at: FileOffset,
) -> (f64, bool) {
    let weight = |at: &FileOffset| weights.get(at).copied().unwrap_or(0);
    let suspects = |at: &FileOffset| suspects.get(at)?.as_ref();
    let is_free = |at: &&FileOffset| suspects(at).is_some_and(Vec::is_empty);
    let waits = |at: &FileOffset| {
        suspects(at).is_some_and(|suspects| suspects.iter().any(|one| one.access.is_some()))
    };
    let free: Vec<u64> = block.iter().filter(is_free).map(weight).collect();
    let usual = match free.is_empty() {
        true => block.iter().map(weight).min().unwrap_or(0) as f64,
        false => free.iter().sum::<u64>() as f64 / free.len() as f64,
    };
    let beyond = match weight(&at) {
        0 => 0.0,
        own => (1.0 - usual / own as f64).max(0.0),
    };
    (beyond, block.iter().any(waits))
}
