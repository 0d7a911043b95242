//! Translated blocks decoded again: their memory accesses, how addresses follow from records, and their arithmetic.
//!
//! What for: a [`Block`] carries its machine code and, as text, the layout of its records. Both are decoded here, once.
//! What not: records.
//! Assumption: the block may be damaged or hostile. It is used only if its code decodes to exactly the instructions of its pieces
//! and every value that an address needs is in its record; otherwise it is counted as unusable.

use std::collections::{HashMap, HashSet};

use base::{BlockId, BurstId, CodeAddress, FileOffset, IndexMap, Pid, RemoteAddr};
use facts::{Block, BurstFlavour, CodePiece, Recording};
use x86::translate::{RecordLayout, RecordedValue};
use x86::{
    Access, CodeBytes, Flops, Gpr, Kept, Reader, Source, State, evaluate, find_roots, keep,
    read_pieces, self_loop, sources,
};

use super::address::Form;
use super::chain::{Chains, UnrecordedPath};
use super::selection::too_many;
use super::unrecorded::{UnrecordedBlock, by_start, targets, ways_through};
use crate::stack::index;

index!(/// A memory access of an instruction.
    SiteIndex);

/// A memory access of an instruction, in whatever block and process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The instruction.
    pub instruction: CodeAddress,
    /// Which of its accesses, from 0.
    pub number: usize,
    /// What it does.
    pub access: Access,
}

impl Site {
    /// What distinguishes it from other sites.
    #[must_use]
    pub const fn name(&self) -> SiteName {
        SiteName { instruction: self.instruction, number: self.number }
    }
}

/// Names a [`Site`]: its instruction, and which of its accesses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiteName {
    /// The instruction.
    pub instruction: CodeAddress,
    /// Which of its accesses, from 0.
    pub number: usize,
}

index!(/// An instruction with floating-point operations.
    ArithmeticIndex);

/// An instruction with floating-point operations, in whatever block and process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arithmetic {
    pub(crate) address: CodeAddress,
    pub(crate) flops: Flops,
}

index!(/// An instruction that waits for flushes.
    FenceIndex);

/// A fence in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracedFence {
    pub(crate) fence: FenceIndex,
    /// Position of the instruction in the block.
    pub(crate) instruction: usize,
    /// It is an access that others cannot interrupt: of interest only where something waits for it.
    pub(crate) locked: bool,
}

/// An instruction that waits for flushes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) address: CodeAddress,
    /// As of [`TracedFence`].
    pub(crate) locked: bool,
}

/// One of them in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracedArithmetic {
    pub(crate) arithmetic: ArithmeticIndex,
    /// Position of the instruction in the block.
    pub(crate) instruction: usize,
}

/// One access of a block.
#[derive(Debug)]
pub(crate) struct TracedAccess {
    pub(crate) site: SiteIndex,
    /// Its position among the accesses of the block.
    pub(crate) number: usize,
    /// Position of its instruction in the block.
    pub(crate) instruction: usize,
    /// A call or jump, and no `ret`, lies between it and the access before.
    pub(crate) entered: bool,
    pub(crate) form: Form,
}

/// A block whose records can be read.
#[derive(Debug)]
pub(crate) struct TracedBlock {
    pub(crate) pid: Pid,
    /// Values of a record.
    pub(crate) values: usize,
    /// Instructions executed, by way out.
    pub(crate) ways: Vec<usize>,
    /// Cycles that these take at most, one after the other (`x86::Instruction::slowest_cycles`), by way out; infinite where
    /// one repeats.
    pub(crate) slowest: Vec<f64>,
    /// Its loop can be summarised: a record may represent many iterations.
    pub(crate) loops: bool,
    /// Its last instruction is `ret`.
    pub(crate) returns: bool,
    /// It ends with a call or an indirect jump of the function that has its last access.
    pub(crate) leads_on: bool,
    pub(crate) accesses: Vec<TracedAccess>,
    pub(crate) arithmetic: Vec<TracedArithmetic>,
    pub(crate) fences: Vec<TracedFence>,
    pub(crate) chains: Chains,
    /// Where it begins, and where its code leads.
    pub(crate) start: RemoteAddr,
    targets: Vec<RemoteAddr>,
    /// How it comes to others through blocks without records.
    pub(crate) behind: Vec<UnrecordedPath>,
}

/// The load of a block that is timed.
#[derive(Debug)]
pub(crate) struct TimedLoad {
    pub(crate) site: SiteIndex,
    /// Which value of a record holds the time stamps.
    pub(crate) stamps: usize,
    /// The registers of its address, with the value of a record that holds each; `None` where one is not recorded.
    registers: Option<Vec<(Gpr, usize)>>,
}

impl TimedLoad {
    /// `None` when the layout has no place for its stamps.
    fn new(
        site: SiteIndex,
        access: &Access,
        layout: &RecordLayout,
        stamps: usize,
    ) -> Option<TimedLoad> {
        let word = |register: Gpr| {
            let holds = |value: &&RecordedValue| value.root.source == Source::General(register);
            layout.values.iter().find(holds)?.word.checked_sub(1)
        };
        let registers = sources(access).into_iter().filter_map(|source| match source {
            Source::General(register) => Some(word(register).map(|word| (register, word))),
            Source::FsBase => None,
            _ => Some(None),
        });
        Some(TimedLoad { site, stamps: stamps.checked_sub(1)?, registers: registers.collect() })
    }

    /// Where it loaded from, by the values of a record.
    pub(crate) fn address(
        &self,
        sites: &[Site],
        values: &[u64],
        fs_base: RemoteAddr,
    ) -> Option<RemoteAddr> {
        let mut state = State { fs_base: fs_base.0, ..State::default() };
        for (register, word) in self.registers.as_ref()? {
            state.set(*register, *values.get(*word)?);
        }
        let touched = evaluate(&[sites.get(self.site.index())?.access], &state);
        touched.first().map(|touched| touched.address)
    }
}

/// A block whose executions were counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedBlock {
    pub(crate) instructions: usize,
    /// Lines that it accesses at most; infinite where an instruction repeats an access.
    pub(crate) accesses: f64,
    /// Where it begins.
    pub(crate) start: Option<CodeAddress>,
}

fn most_accesses(block: &x86::Block) -> f64 {
    let most = |access: &x86::Access| match (&access.when, &access.place) {
        (x86::Occurrence::Repeated(_), _) => f64::INFINITY,
        (_, x86::Location::Lanes(lanes)) => f64::from(lanes.lanes),
        _ => 1.0,
    };
    block.instructions.iter().flat_map(x86::Instruction::accesses).map(most).sum()
}

/// A loop that was timed with registers for what it loads again and again.
#[derive(Debug)]
pub(crate) struct KeptLoop {
    pub(crate) kept: Kept,
    /// Where its instructions lie.
    pub(crate) places: Vec<CodeAddress>,
}

/// The code that bursts ran.
#[derive(Debug, Default)]
pub struct TracedCode {
    pub(crate) blocks: IndexMap<BlockId, TracedBlock>,
    /// The blocks whose executions were counted.
    pub(crate) counted: IndexMap<BlockId, CountedBlock>,
    /// The load of the blocks that time one.
    pub(crate) timed: IndexMap<BlockId, TimedLoad>,
    /// The loops of `no_reload_times`.
    pub(crate) kept: IndexMap<BlockId, KeptLoop>,
    pub(crate) sites: Vec<Site>,
    pub(crate) arithmetic: Vec<Arithmetic>,
    /// Instructions that wait for flushes.
    pub(crate) fences: Vec<Fence>,
    /// The code after each flush, store and fence, where samples with skid stand.
    pub(crate) behind_stores: HashMap<CodeAddress, CodeAddress>,
    /// Blocks for addresses whose code or layout cannot be used.
    pub(crate) unusable_blocks: u64,
    /// Bursts that are not looked at, because the others are work enough: evenly spread.
    pub(crate) left_out: HashSet<BurstId>,
    unrecorded: Vec<UnrecordedBlock>,
}

impl TracedCode {
    /// Reads all blocks.
    #[must_use]
    pub fn read(recording: &Recording) -> TracedCode {
        let mut code = TracedCode::default();
        let mut known = KnownInstructions::default();
        let mut reader = Reader::new();
        for block in &recording.blocks {
            let usable = match block.flavour {
                BurstFlavour::Count | BurstFlavour::Sparse => {
                    instructions(&block.pieces, &mut reader).map(|(decoded, places)| {
                        let instructions = decoded.instructions.len();
                        let start = places.first().copied();
                        let accesses = most_accesses(&decoded);
                        let counted = CountedBlock { instructions, accesses, start };
                        code.counted.entry(block.id).or_insert(counted);
                    })
                }
                BurstFlavour::Trace => {
                    code.read_one(block, &mut reader, &mut known).map(|traced| {
                        code.blocks.entry(block.id).or_insert(traced);
                    })
                }
                BurstFlavour::Timed => code.read_timed(block, &mut reader, &mut known),
            };
            code.unusable_blocks += u64::from(usable.is_none());
        }
        let unrecorded = by_start(&code.unrecorded);
        for block in code.blocks.values_mut() {
            block.behind = ways_through(&unrecorded, (block.pid, block.start), &block.targets);
        }
        let kept: HashSet<BlockId> =
            recording.no_reload_times.iter().map(|one| one.block).collect();
        for block in recording.blocks.iter().filter(|block| kept.contains(&block.id)) {
            let Some((decoded, places)) = instructions(&block.pieces, &mut reader) else {
                continue;
            };
            if let Some(kept) = keep(&decoded).filter(|_| code.blocks.contains_key(&block.id)) {
                code.kept.insert(block.id, KeptLoop { kept, places });
            }
        }
        code.left_out = too_many(recording, &code);
        code
    }

    /// Where the instructions lie whose accesses are known, that compute or fence, and where counted blocks begin.
    pub fn addresses(&self) -> impl Iterator<Item = CodeAddress> + '_ {
        let sites = self.sites.iter().map(|site| site.instruction);
        let arithmetic = self.arithmetic.iter().map(|one| one.address);
        let counted = self.counted.values().filter_map(|block| block.start);
        sites.chain(arithmetic).chain(self.fences.iter().map(|one| one.address)).chain(counted)
    }

    fn read_timed(
        &mut self,
        block: &Block,
        reader: &mut Reader,
        known: &mut KnownInstructions,
    ) -> Option<()> {
        let layout: RecordLayout = block.record.parse().ok()?;
        // A block without a load has nothing to time.
        let Some((access, word)) = layout.timed else { return Some(()) };
        let (decoded, places) = instructions(&block.pieces, reader)?;
        let mut before = 0;
        let found = decoded.instructions.iter().zip(places).find_map(|(one, place)| {
            let accesses = one.accesses();
            let own =
                accesses.get(access.checked_sub(before)?).map(|own| (place, access - before, *own));
            before += accesses.len();
            own
        });
        let (instruction, number, access) = found?;
        let site = self.site(known, Site { instruction, number, access });
        let load = TimedLoad::new(site, &access, &layout, word)?;
        self.timed.entry(block.id).or_insert(load);
        Some(())
    }

    fn site(&mut self, known: &mut KnownInstructions, site: Site) -> SiteIndex {
        *known.sites.entry(site.name()).or_insert_with(|| {
            self.sites.push(site);
            SiteIndex::new(self.sites.len() - 1)
        })
    }

    fn read_one(
        &mut self,
        block: &Block,
        reader: &mut Reader,
        known: &mut KnownInstructions,
    ) -> Option<TracedBlock> {
        let layout: RecordLayout = block.record.parse().ok()?;
        let (decoded, places) = instructions(&block.pieces, reader)?;
        if layout.words == 0 {
            self.unrecorded.push(UnrecordedBlock::new(block.pid, &decoded));
        }
        let roots = find_roots(&decoded);
        let back = layout.iterations.is_some().then(|| self_loop(&decoded, &roots)).flatten();
        if layout.iterations.is_some() && !back.as_ref().is_some_and(|one| one.is_summarisable()) {
            return None;
        }
        let forms: Option<Vec<Form>> = roots
            .accesses
            .iter()
            .map(|access| Form::new(access, &roots, &layout, back.as_ref()))
            .collect();
        let returns_in = |from: usize, to: usize| {
            let between = decoded.instructions.get(from..to).unwrap_or_default();
            between.iter().any(|one| matches!(one.flow(), x86::Flow::Return))
        };
        let enters_in = |from: usize, to: usize| {
            let between = decoded.instructions.get(from..to).unwrap_or_default();
            between.iter().any(|one| matches!(one.flow(), x86::Flow::Jump(_) | x86::Flow::Call(_)))
        };
        let mut accesses: Vec<TracedAccess> = Vec::new();
        let mut number = 0;
        for (form, rooted) in forms?.into_iter().zip(&roots.accesses) {
            let before = accesses.last().map(|last: &TracedAccess| last.instruction);
            number = if before == Some(rooted.instruction) { number + 1 } else { 0 };
            let (instruction, access) = (places[rooted.instruction], rooted.access);
            let site = self.site(known, Site { instruction, number, access });
            let (number, instruction) = (accesses.len(), rooted.instruction);
            let from = before.unwrap_or(0);
            let entered = enters_in(from, instruction) && !returns_in(from, instruction);
            accesses.push(TracedAccess { site, number, instruction, entered, form });
        }
        let leaves = matches!(
            decoded.end,
            x86::End::Call { .. } | x86::End::IndirectCall { .. } | x86::End::IndirectJump
        );
        let last = accesses.last().map(|last| last.instruction);
        let leads_on =
            last.is_some_and(|last| leaves && !returns_in(last, decoded.instructions.len()));
        let arithmetic = self.arithmetic(&decoded, &places, known);
        let fences = self.fences(&decoded, &places, known);
        Some(TracedBlock {
            pid: block.pid,
            values: layout.words.saturating_sub(1),
            slowest: slowest(&decoded, &layout.ways),
            ways: layout.ways,
            loops: back.is_some(),
            returns: decoded.end == x86::End::Return,
            leads_on,
            accesses,
            arithmetic,
            fences,
            chains: Chains::of(&decoded),
            start: decoded.start,
            targets: targets(&decoded),
            behind: Vec::new(),
        })
    }

    /// Also notes what follows stores and flushes.
    fn fences(
        &mut self,
        block: &x86::Block,
        places: &[CodeAddress],
        known: &mut KnownInstructions,
    ) -> Vec<TracedFence> {
        let mut found = Vec::new();
        for (position, instruction) in block.instructions.iter().enumerate() {
            let locked = instruction.is_locked();
            let fences = instruction.is_store_fence() || locked;
            let stores = |one: &Access| is_flush(one.kind) || is_store(one.kind);
            if !fences && !instruction.accesses().iter().any(stores) {
                continue;
            }
            let address = places[position];
            let next = address.offset.0.saturating_add(instruction.length() as u64);
            let next = CodeAddress::new(address.module, FileOffset(next));
            self.behind_stores.insert(next, address);
            if fences {
                let fence = *known.fences.entry(address).or_insert_with(|| {
                    self.fences.push(Fence { address, locked });
                    FenceIndex::new(self.fences.len() - 1)
                });
                found.push(TracedFence { fence, instruction: position, locked });
            }
        }
        found
    }

    fn arithmetic(
        &mut self,
        block: &x86::Block,
        places: &[CodeAddress],
        known: &mut KnownInstructions,
    ) -> Vec<TracedArithmetic> {
        let mut found = Vec::new();
        for (position, instruction) in block.instructions.iter().enumerate() {
            let Some(flops) = instruction.flops() else { continue };
            let address = places[position];
            let arithmetic = *known.arithmetic.entry(address).or_insert_with(|| {
                self.arithmetic.push(Arithmetic { address, flops });
                ArithmeticIndex::new(self.arithmetic.len() - 1)
            });
            found.push(TracedArithmetic { arithmetic, instruction: position });
        }
        found
    }
}

/// Whether an access is one for which fences wait.
pub(crate) fn is_flush(kind: x86::Kind) -> bool {
    flushes_line(kind) || kind == x86::Kind::StreamingWrite
}

/// Whether it flushes a line.
pub(crate) fn flushes_line(kind: x86::Kind) -> bool {
    matches!(kind, x86::Kind::Flush | x86::Kind::WriteBack)
}

/// Whether an access makes a line dirty.
pub(crate) fn is_store(kind: x86::Kind) -> bool {
    matches!(kind, x86::Kind::Write | x86::Kind::ReadWrite)
}

fn slowest(block: &x86::Block, ways: &[usize]) -> Vec<f64> {
    let cycles = |one: &x86::Instruction| one.slowest_cycles().map_or(f64::INFINITY, f64::from);
    let until = |way: &usize| block.instructions.iter().take(*way).map(cycles).sum();
    ways.iter().map(until).collect()
}

/// Instructions that came up before: blocks overlap.
#[derive(Default)]
struct KnownInstructions {
    sites: HashMap<SiteName, SiteIndex>,
    arithmetic: HashMap<CodeAddress, ArithmeticIndex>,
    fences: HashMap<CodeAddress, FenceIndex>,
}

/// The instructions of `pieces`, and the address of each; `None` when they are not what the pieces hold.
pub(crate) fn instructions(
    pieces: &[CodePiece],
    reader: &mut Reader,
) -> Option<(x86::Block, Vec<CodeAddress>)> {
    let code: Vec<CodeBytes<'_>> = pieces
        .iter()
        .map(|piece| CodeBytes { start: piece.address, bytes: &piece.bytes })
        .collect();
    let block = read_pieces(reader, &code)?;
    let mut places = Vec::new();
    let mut pieces = pieces.iter();
    let mut piece = pieces.next()?;
    let mut at = 0;
    for instruction in &block.instructions {
        while at >= piece.bytes.len() {
            (piece, at) = (pieces.next()?, 0);
        }
        let offset = FileOffset(piece.offset.0.checked_add(at as u64)?);
        places.push(CodeAddress::new(piece.module, offset));
        at += instruction.length();
    }
    Some((block, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a block with a value for rdi and one for rsp: whether each access follows a call or jump, and whether it leads on.
    fn ends(code: &[u8]) -> (Vec<bool>, bool) {
        let mut builder = testkit::recording::RecordingBuilder::new();
        let module = builder.file("/program");
        let layout = "words 3; values rdi@0:1 rsp@0:2; ways 9";
        let block = builder.block(1, module, 0x2000, code, layout);
        let recording = builder.build();
        let code = TracedCode::read(&recording);
        let block = code.blocks.get(&block).expect("a block that can be read");
        (block.accesses.iter().map(|access| access.entered).collect(), block.leads_on)
    }

    #[test]
    fn a_function_that_goes_on_in_another_is_known() {
        // mov rax,[rdi]; ret
        assert_eq!(ends(&[0x48, 0x8b, 0x07, 0xc3]), (vec![false, false], false));
        // mov rax,[rdi]; jmp +0; mov rax,[rdi]; jmp rax
        let jumps = [0x48, 0x8b, 0x07, 0xeb, 0x00, 0x48, 0x8b, 0x07, 0xff, 0xe0];
        assert_eq!(ends(&jumps), (vec![false, true], true));
        // mov rax,[rdi]; jmp rax
        assert_eq!(ends(&[0x48, 0x8b, 0x07, 0xff, 0xe0]), (vec![false], true));
        // mov rax,[rdi]; call rax
        assert!(ends(&[0x48, 0x8b, 0x07, 0xff, 0xd0]).1);
    }
}
