//! The code cache of one process: where translated blocks are, how they are linked, and what a stop in them means.
//!
//! What for: native address -> entry ([`Cache::enter`]). What not: when threads run in the cache (`run`).
//!
//! ```text
//! links        exits that lead to blocks, and the table of indirect targets
//! ahead        which blocks are translated before a thread comes to them
//! native       the way back: any stop -> native registers
//! last_record  the end of what was recorded
//! counts       the counters of flavour Count
//! written      the words to which a trace stored
//! ```
//!
//! Blocks are never moved or freed. When the program's code changes, or a region is full, the whole cache is emptied
//! ([`Cache::clear`]). That happens only while no thread is in it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::{BlockId, RemoteAddr};
use facts::BurstFlavour;
use sys::process;
use tracee::random::Random;
use x86::translate::{
    Common, Exit, Flavour, Parts, RecordLayout, Site, States, Witness, WrittenWord, area, translate,
};
use x86::{Block, End, Flow, Gpr, Limits, Reader, Vectors, read_block};

use crate::code_map::CodeMap;
use crate::drain::Layouts;
use crate::native_addresses::NativeAddresses;
use crate::refused::Refused;
use crate::space::{Region, Space};

mod ahead;
mod counts;
mod last_record;
mod links;
mod native;
mod written;

pub use counts::Counts;
pub use last_record::iterations;
pub use native::Native;

/// Less than the 2 GiB that a rel32 reaches, so that the copy still reaches data next to far code.
pub const REACH: u64 = 1 << 30;
/// Both parts of a translation are shorter than this (a superblock has at most 2 KiB).
const LARGEST_BLOCK: usize = 64 << 10;

/// A translated block.
pub struct CachedBlock {
    /// The block.
    pub start: RemoteAddr,
    parts: Parts,
    length: usize,
    region: usize,
    entry: usize,
    table: std::ops::Range<usize>,
    chain: usize,
    witness: Option<Witness>,
    /// Exits that are linked to it.
    linked: Vec<u32>,
    exits: std::ops::Range<usize>,
    states: States,
    /// A window counted it.
    ran: bool,
    /// Where basic blocks begin in it.
    basic_blocks: Vec<RemoteAddr>,
    /// Words to which it stores.
    written: Vec<WrittenWord>,
    /// What its records hold.
    pub layout: Arc<RecordLayout>,
}

impl CachedBlock {
    /// Where the table enters.
    fn table_entry(&self) -> RemoteAddr {
        self.parts.address(self.table.start)
    }

    /// The offset of an address in its copy.
    fn offset(&self, address: RemoteAddr) -> Option<usize> {
        self.parts.offset(address, self.length)
    }
}

/// Instructions of a block that lie together, for the result.
pub struct Piece {
    /// Address of the first byte.
    pub address: RemoteAddr,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

/// A block that the result does not have yet.
pub struct NewBlock {
    /// Its id.
    pub id: BlockId,
    /// Its code.
    pub pieces: Vec<Piece>,
    /// What its records hold.
    pub record: String,
}

struct CachedExit {
    block: u32,
    exit: Exit,
}

/// The cache of one process and flavour.
pub struct Cache {
    /// The memory.
    pub space: Space,
    of: BurstFlavour,
    random: Random,
    blocks: Vec<CachedBlock>,
    /// Per region, blocks by rising address.
    in_region: Vec<Vec<u32>>,
    by_start: HashMap<RemoteAddr, u32>,
    exits: Vec<CachedExit>,
    /// Exits whose target has no block yet.
    waiting: HashMap<RemoteAddr, Vec<u32>>,
    /// Where calls return to, and from which block: reached by no direct jump, but sooner or later.
    returns: HashMap<RemoteAddr, u32>,
    /// Targets that were refused; a thread that comes there finds out anew.
    hopeless: HashSet<RemoteAddr>,
    /// The last block in the chain of a table entry.
    chains: HashMap<u16, u32>,
    reader: Reader,
    layouts: Layouts,
    /// A thread came to code without a block in the last burst, or in this one.
    pub meets_new_code: bool,
    /// How many blocks the last window entered in which all count.
    pub entered_before: usize,
    /// How many blocks windows counted so far.
    ran: usize,
    /// Native addresses of the copies, for samplers.
    native_addresses: NativeAddresses,
    /// New since they were last taken.
    new_blocks: Vec<NewBlock>,
}

impl Cache {
    /// A cache in shared memory that is ready.
    #[must_use]
    pub fn new(space: Space, of: BurstFlavour, native_addresses: NativeAddresses) -> Cache {
        let mut cache = Cache {
            space,
            of,
            random: Random::new(process::monotonic().0),
            blocks: Vec::new(),
            in_region: Vec::new(),
            by_start: HashMap::new(),
            exits: Vec::new(),
            waiting: HashMap::new(),
            returns: HashMap::new(),
            hopeless: HashSet::new(),
            chains: HashMap::new(),
            reader: Reader::of_processor(Vectors::of_this_processor()),
            layouts: Layouts::default(),
            meets_new_code: true,
            entered_before: 0,
            ran: 0,
            native_addresses,
            new_blocks: Vec::new(),
        };
        cache.clear();
        (0..area::TABLE_ENTRIES).for_each(|bucket| cache.empty_bucket(bucket as u16));
        cache
    }

    /// Forgets all blocks. No thread may be in them.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.by_start.clear();
        self.exits.clear();
        self.waiting.clear();
        self.returns.clear();
        self.hopeless.clear();
        std::mem::take(&mut self.chains).keys().for_each(|bucket| self.empty_bucket(*bucket));
        self.ran = 0;
        // Records of former blocks may still be on their way.
        self.layouts = Layouts::default();
        for number in 0..self.space.regions().len() {
            if let Some(region) = self.space.region_mut(number) {
                region.clear();
            }
        }
        self.in_region.iter_mut().for_each(Vec::clear);
    }

    /// Blocks translated since the last time.
    pub fn take_new_blocks(&mut self) -> Vec<NewBlock> {
        std::mem::take(&mut self.new_blocks)
    }

    /// The record layouts of its blocks, for the decoder.
    #[must_use]
    pub fn layouts(&self) -> Layouts {
        Arc::clone(&self.layouts)
    }

    /// A block by the number in its records.
    #[must_use]
    pub fn block(&self, number: u32) -> Option<&CachedBlock> {
        self.blocks.get(number as usize)
    }

    /// The register that holds the record pointer.
    #[must_use]
    pub fn reserved(&self) -> Option<Gpr> {
        reserved(self.of)
    }

    /// Whether this address has a block.
    #[must_use]
    pub fn has(&self, native: RemoteAddr) -> bool {
        self.by_start.contains_key(&native)
    }

    /// The entry for a thread whose native address is `native`; translates the block if needed.
    pub fn enter(
        &mut self,
        code: &CodeMap,
        native: RemoteAddr,
        next_id: &mut u32,
    ) -> Result<RemoteAddr, Refused> {
        let number = match self.by_start.get(&native) {
            Some(number) => *number,
            None => self.add(code, native, next_id)?,
        };
        let block = self.block(number).ok_or(Refused::NoRoom)?;
        Ok(block.parts.address(block.entry))
    }

    /// An entry through which a thread at `native` leaves at once.
    pub fn way_out(&self, native: RemoteAddr) -> RemoteAddr {
        self.space.set_slot(area::TARGET, native.0);
        let out = |region: &Region| RemoteAddr(region.at.0 + region.common.exit as u64);
        self.space.regions().first().map_or(native, out)
    }

    fn add(
        &mut self,
        code: &CodeMap,
        native: RemoteAddr,
        next_id: &mut u32,
    ) -> Result<u32, Refused> {
        if code.in_sequence(native) {
            return Err(Refused::RestartableSequence);
        }
        if !code.holds(native) {
            return Err(Refused::JitCode);
        }
        // A timed load or a counter describes the whole block: so blocks are short.
        let limits = match self.of {
            BurstFlavour::Trace => Limits::SUPER,
            BurstFlavour::Count | BurstFlavour::Timed | BurstFlavour::Sparse => Limits::BASIC,
        };
        let block = read_block(&mut self.reader, code, native, &limits);
        if block.instructions.is_empty() {
            return Err(match block.end {
                End::Refused { why, .. } => Refused::Instruction(why),
                _ => Refused::JitCode,
            });
        }
        let region = self.region_for(native)?;
        let number = u32::try_from(self.blocks.len()).map_err(|_| Refused::NoRoom)?;
        if self.of == BurstFlavour::Count && self.blocks.len() >= area::COUNTER_COUNT {
            return Err(Refused::NoRoom);
        }
        let first = &self.space.regions()[region];
        let next = first.next();
        let [at, cold] = next.map(|offset| first.at.offset(offset as u64));
        let common = Common {
            exit: RemoteAddr(first.at.0 + first.common.exit as u64),
            miss: RemoteAddr(first.at.0 + first.common.miss as u64),
        };
        let first_exit = u32::try_from(self.exits.len()).map_err(|_| Refused::NoRoom)?;
        let flavour = match self.of {
            BurstFlavour::Trace => Flavour::Trace,
            BurstFlavour::Count | BurstFlavour::Sparse => Flavour::Count,
            // Each time the cache was emptied, another load of the block is timed.
            BurstFlavour::Timed => Flavour::Timed { pick: self.random.number() as u32 },
        };
        let witness = code.witness(native);
        let site = Site {
            at,
            cold,
            block: number,
            first_exit,
            flavour,
            common,
            reserved: RESERVED,
            witness,
        };
        let made = translate(&block, code, &site).map_err(Refused::Instruction)?;
        let (hot, behind) = made.bytes.split_at(made.parts.split);
        let bytes = [hot.len(), behind.len()];
        if !first.has_room(bytes) {
            return Err(Refused::NoRoom);
        }
        for (offset, code) in next.into_iter().zip([hot, behind]) {
            self.space.memory().write(first.offset + offset, code);
        }
        if let Some(region) = self.space.region_mut(region) {
            region.used = [next[0] + bytes[0], next[1] + bytes[1]];
        }
        let id = BlockId(*next_id);
        *next_id += 1;
        self.note_new(id, &block, code, &made.record);
        let calls =
            |one: &&x86::Instruction| matches!(one.flow(), Flow::Call(_) | Flow::IndirectCall);
        let calls = block.instructions.iter().filter(calls);
        self.returns.extend(calls.map(|one| (one.next_address(), number)));
        let layout = Arc::new(made.record);
        if let Ok(mut layouts) = self.layouts.write() {
            layouts.push((id, Arc::clone(&layout)));
        }
        let length = made.bytes.len();
        self.native_addresses.add(self.space.pid(), &made.parts, length, &made.states);
        self.in_region.resize_with(self.space.regions().len(), Vec::new);
        self.in_region[region].push(number);
        self.blocks.push(CachedBlock {
            start: native,
            parts: made.parts,
            length,
            region,
            entry: made.entry,
            table: made.table,
            chain: made.chain,
            witness,
            linked: Vec::new(),
            exits: self.exits.len()..self.exits.len() + made.exits.len(),
            states: made.states,
            ran: false,
            basic_blocks: basic_blocks(&block),
            written: made.written,
            layout,
        });
        if self.of == BurstFlavour::Count {
            self.start_counter(number);
        }
        self.by_start.insert(native, number);
        self.link(number, made.exits);
        self.put_into_table(number);
        Ok(number)
    }

    /// A region near the code, with room for a block.
    fn region_for(&self, native: RemoteAddr) -> Result<usize, Refused> {
        let near = self
            .space
            .regions()
            .iter()
            .position(|region| region.at.0.abs_diff(native.0) <= REACH)
            .ok_or(Refused::NoRoom)?;
        let has_room = self.space.regions()[near].has_room([LARGEST_BLOCK; 2]);
        if has_room { Ok(near) } else { Err(Refused::NoRoom) }
    }

    /// Whether some code cannot be translated for lack of a region near it.
    #[must_use]
    pub fn needs_region(&self, native: RemoteAddr) -> bool {
        let far = |region: &Region| region.at.0.abs_diff(native.0) > REACH;
        self.space.may_have_more_regions() && self.space.regions().iter().all(far)
    }

    /// Whether a region has no room for another block.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.space.regions().iter().any(|region| !region.has_room([LARGEST_BLOCK; 2]))
            || self.of == BurstFlavour::Count && self.blocks.len() + 64 > area::COUNTER_COUNT
    }

    fn note_new(&mut self, id: BlockId, block: &Block, code: &CodeMap, layout: &RecordLayout) {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut next = None;
        for instruction in &block.instructions {
            if next != Some(instruction.address()) {
                pieces.push(Piece { address: instruction.address(), bytes: Vec::new() });
            }
            let mut at = instruction.address();
            let mut left = instruction.length();
            while left > 0 {
                let bytes = x86::CodeSource::bytes_at(code, at);
                let taken = bytes.len().min(left);
                let (Some(piece), 1..) = (pieces.last_mut(), taken) else { break };
                piece.bytes.extend(&bytes[..taken]);
                at = RemoteAddr(at.0 + taken as u64);
                left -= taken;
            }
            next = Some(instruction.next_address());
        }
        self.new_blocks.push(NewBlock { id, pieces, record: layout.to_string() });
    }
}

/// Holds the record pointer.
const RESERVED: Gpr = Gpr::R15;

/// The register that holds the record pointer in code of a flavour.
#[must_use]
pub fn reserved(of: BurstFlavour) -> Option<Gpr> {
    (of != BurstFlavour::Count).then_some(RESERVED)
}

/// The start of a block, and the code after each branch in it.
fn basic_blocks(block: &Block) -> Vec<RemoteAddr> {
    let behind = block.instructions.windows(2).filter(|pair| pair[0].flow() != Flow::Next);
    let starts = behind.map(|pair| pair[1].address());
    std::iter::once(block.start).chain(starts).collect()
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
