//! Every burst's records, decoded once for all tools that need them.
//!
//! What for: a [`Tool`] gets each execution of a block with the addresses of its accesses; several tools share one pass, because a
//! pair of tools is a tool. Bursts are independent, so several CPUs process them, each with tools of its own. Results are handed
//! over in the order of bursts, so they do not depend on the number of CPUs. What not: sums.
//! Assumption: a record that does not fit its block, names an unknown block, or claims more than a core can do in the burst's
//! time, is left out and counted. So the time of bursts bounds the work, whatever a file claims.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base::{BlockId, BurstId};
use facts::{Burst, BurstFlavour, Record, Recording, decode_records};

use super::address::Touch;
use super::chain::Chase;
use super::code::{TracedAccess, TracedBlock, TracedCode};
use crate::parallel;

/// Iterations that no core exceeds in a nanosecond: one taken branch per cycle and thread (Fog, The microarchitecture of
/// Intel, AMD and VIA CPUs, 3), of which the newest cores can do two, at 4 GHz.
const ITERATIONS_PER_NANO: u64 = 8;
/// Bytes that no repeated string instruction exceeds in a nanosecond: a line per cycle at 8 GHz.
const BYTES_PER_NANO: u64 = 512;
/// Longer bursts are none: the longest that can be asked for takes 100 ms, and stopping it may take as long again.
const LONGEST_NANOS: u64 = 200_000_000;

/// A reader of the records of bursts, in their order.
pub(crate) trait Tool {
    /// What it says of one burst.
    type OfBurst: Send;
    /// Whether it asks which accesses chase.
    const CHASES: bool = false;
    /// A burst begins, by its position in the recording.
    fn begin(&mut self, burst: &Burst, number: usize);
    /// A block was executed, or a loop of one block.
    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>);
    /// The burst is over.
    fn end(&mut self, burst: &Burst) -> Self::OfBurst;
}

impl<A: Tool, B: Tool> Tool for (A, B) {
    type OfBurst = (A::OfBurst, B::OfBurst);
    const CHASES: bool = A::CHASES || B::CHASES;

    fn begin(&mut self, burst: &Burst, number: usize) {
        self.0.begin(burst, number);
        self.1.begin(burst, number);
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        self.0.execute(block, execution);
        self.1.execute(block, execution);
    }

    fn end(&mut self, burst: &Burst) -> Self::OfBurst {
        (self.0.end(burst), self.1.end(burst))
    }
}

impl<T: Tool> Tool for Option<T> {
    type OfBurst = Option<T::OfBurst>;
    const CHASES: bool = T::CHASES;

    fn begin(&mut self, burst: &Burst, number: usize) {
        self.iter_mut().for_each(|tool| tool.begin(burst, number));
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        self.iter_mut().for_each(|tool| tool.execute(block, execution));
    }

    fn end(&mut self, burst: &Burst) -> Self::OfBurst {
        self.as_mut().map(|tool| tool.end(burst))
    }
}

impl<T: Tool> Tool for Vec<T> {
    type OfBurst = Vec<T::OfBurst>;
    const CHASES: bool = T::CHASES;

    fn begin(&mut self, burst: &Burst, number: usize) {
        self.iter_mut().for_each(|tool| tool.begin(burst, number));
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        self.iter_mut().for_each(|tool| tool.execute(block, execution));
    }

    fn end(&mut self, burst: &Burst) -> Self::OfBurst {
        self.iter_mut().map(|tool| tool.end(burst)).collect()
    }
}

/// One execution of a block, or one run of a loop.
pub(crate) struct Execution<'a> {
    block: BlockId,
    way: u32,
    iterations: u64,
    /// Instructions executed in the last iteration.
    executed: usize,
    /// The addresses of all accesses, and where those of each end.
    touches: &'a [Touch],
    ends: &'a [usize],
    /// Which accesses chase, in their order; empty where no tool asks.
    chases: &'a [bool],
}

impl Execution<'_> {
    /// Which block.
    pub(crate) fn block(&self) -> BlockId {
        self.block
    }

    /// The exit that was taken; 0 is its end.
    pub(crate) fn way(&self) -> u32 {
        self.way
    }

    /// How often the block was entered.
    pub(crate) fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Cycles that all iterations take at most, with their data in the first level.
    pub(crate) fn slowest(&self, block: &TracedBlock) -> f64 {
        let of = |way: usize| block.slowest.get(way).copied().unwrap_or(f64::INFINITY);
        let whole = self.iterations.saturating_sub(1);
        // Infinity times nothing is no number.
        let before = if whole > 0 { whole as f64 * of(0) } else { 0.0 };
        before + of(self.way as usize)
    }

    /// How many of the block's instructions ran in the last iteration; in those before, all did.
    pub(crate) fn executed(&self) -> usize {
        self.executed
    }

    /// How often an instruction of the block ran, by its position.
    pub(crate) fn times(&self, instruction: usize) -> u64 {
        let cut = u64::from(instruction >= self.executed);
        self.iterations.saturating_sub(cut)
    }

    /// Whether an access of the block stands at the end of a chain of loads that has grown since it ran before; for tools
    /// that ask.
    pub(crate) fn chases(&self, access: &TracedAccess) -> bool {
        self.chases.get(access.number).is_some_and(|chases| *chases)
    }

    /// The addresses of one access of the block, over all iterations. Of a repeated string whose counter says more than fits
    /// into the burst only the first: it was interrupted at an unknown point.
    pub(crate) fn touches(&self, access: &TracedAccess) -> impl Iterator<Item = Touch> {
        let from = access.number.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.touches[from..self.ends[access.number]].iter().copied()
    }
}

/// What could not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Damage {
    /// Records of unknown blocks, that do not fit theirs, or that claim more than fits into the burst.
    pub(crate) records: u64,
    /// Pieces of records that do not decode to their end.
    pub(crate) pieces: u64,
}

/// The encoded records of each burst, in order.
pub(crate) fn pieces_by_burst(recording: &Recording) -> HashMap<BurstId, Vec<&[u8]>> {
    let mut pieces: HashMap<BurstId, Vec<&[u8]>> = HashMap::new();
    for records in &recording.records {
        pieces.entry(records.burst).or_default().push(&records.bytes);
    }
    pieces
}

/// The bursts that recorded addresses and are looked at, in the order of the recording.
pub(crate) fn traced_bursts<'a>(
    recording: &'a Recording,
    code: &'a TracedCode,
) -> impl Iterator<Item = &'a Burst> {
    let looked_at = |burst: &&Burst| !code.left_out.contains(&burst.id);
    all_traced(recording).filter(looked_at)
}

pub(super) fn all_traced(recording: &Recording) -> impl Iterator<Item = &Burst> {
    let traced = |burst: &&Burst| burst.flavour == BurstFlavour::Trace && !burst.records_lost;
    recording.bursts.iter().filter(traced)
}

/// Goes through all bursts that are looked at, in the order of the recording, with one tool that keeps what it wants to know.
pub(crate) fn in_order(
    recording: &Recording,
    code: &TracedCode,
    tool: &mut impl Tool<OfBurst = ()>,
) -> Damage {
    let reader = Reader::new(recording, code);
    let mut memory = Memory::new(code);
    let mut damage = Damage::default();
    for burst in traced_bursts(recording, code) {
        damage.add(reader.read(burst, tool, &mut memory));
        tool.end(burst);
    }
    damage
}

/// Goes through these bursts with tools for each CPU. `take` gets what they say of each burst, in this order. Returns the tools as well,
/// for sums that are the same in any order.
pub(crate) fn stream<'a, T: Tool + Send>(
    recording: &'a Recording,
    code: &TracedCode,
    bursts: &[&'a Burst],
    tool: impl Fn() -> T + Sync,
    take: impl FnMut(&'a Burst, T::OfBurst) + Send,
) -> (Damage, Vec<T>) {
    let reader = Reader::new(recording, code);
    let next = AtomicUsize::new(0);
    let queue = Queue { next: 0, early: BTreeMap::new(), damage: Damage::default(), take };
    let queue = Mutex::new(queue);
    let tools = parallel::on_all_cpus(bursts.len(), || {
        let (mut tool, mut memory) = (tool(), Memory::new(code));
        while let position = next.fetch_add(1, Relaxed)
            && let Some(burst) = bursts.get(position)
        {
            let damage = reader.read(burst, &mut tool, &mut memory);
            let of = (damage, tool.end(burst));
            // Who panicked with the queue in hand takes all others along.
            let Ok(mut queue) = queue.lock() else { break };
            queue.early.insert(position, of);
            queue.hand_over(bursts);
        }
        tool
    });
    let damage = queue.into_inner().map_or_else(|_| Damage::default(), |queue| queue.damage);
    (damage, tools)
}

/// What is said of bursts before the turn of these has come.
struct Queue<Item, F> {
    next: usize,
    early: BTreeMap<usize, (Damage, Item)>,
    damage: Damage,
    take: F,
}

impl<Item, F> Queue<Item, F> {
    fn hand_over<'a>(&mut self, bursts: &[&'a Burst])
    where
        F: FnMut(&'a Burst, Item),
    {
        while let Some((damage, of)) = self.early.remove(&self.next) {
            self.damage.add(damage);
            (self.take)(bursts[self.next], of);
            self.next += 1;
        }
    }
}

/// Kept for its memory, and for what is known of chains of loads.
pub(super) struct Memory {
    touches: Vec<Touch>,
    ends: Vec<usize>,
    chases: Vec<bool>,
    chase: Chase,
}

/// Decodes the records of bursts.
pub(super) struct Reader<'a> {
    code: &'a TracedCode,
    pub(super) pieces: HashMap<BurstId, Vec<&'a [u8]>>,
    numbers: HashMap<BurstId, usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(recording: &'a Recording, code: &'a TracedCode) -> Reader<'a> {
        let numbers = recording.bursts.iter().enumerate().map(|(number, one)| (one.id, number));
        Reader { code, pieces: pieces_by_burst(recording), numbers: numbers.collect() }
    }

    /// All of a burst but its end.
    pub(super) fn read<T: Tool>(&self, burst: &Burst, tool: &mut T, memory: &mut Memory) -> Damage {
        let mut damage = Damage::default();
        tool.begin(burst, self.numbers.get(&burst.id).copied().unwrap_or(0));
        memory.chase.begin();
        let nanos = burst.elapsed.0.min(LONGEST_NANOS);
        let mut iterations_left = nanos * ITERATIONS_PER_NANO;
        for piece in self.pieces.get(&burst.id).map_or(&[][..], Vec::as_slice) {
            let decoded = decode_records(piece, |record| {
                let block = self.code.blocks.get(&record.block);
                let block = block.filter(|block| block.pid == burst.pid);
                let left = iterations_left.checked_sub(record.iterations);
                let fits = || {
                    let block = block?;
                    Some((block, left?, executed(block, record)?))
                };
                match fits() {
                    Some((block, left, executed)) => {
                        iterations_left = left;
                        let most_bytes = nanos * BYTES_PER_NANO;
                        if T::CHASES {
                            memory.follow(self.code, record.block, block);
                        }
                        let execution =
                            memory.execution(block, record, executed, (burst, most_bytes));
                        tool.execute(block, &execution);
                    }
                    None => damage.records += 1,
                }
            });
            damage.pieces += u64::from(decoded.is_err());
        }
        damage
    }
}

/// How many instructions ran in the last iteration; `None` when the record cannot be one of this block.
fn executed(block: &TracedBlock, record: &Record<'_>) -> Option<usize> {
    let executed = *block.ways.get(record.way as usize)?;
    // A loop that was stopped in its first iteration has completed none.
    let fits = record.values.len() == block.values && (record.iterations == 1 || block.loops);
    fits.then_some(executed)
}

impl Memory {
    pub(super) fn new(code: &TracedCode) -> Memory {
        let chase = Chase::new(code.sites.len());
        Memory { touches: Vec::new(), ends: Vec::new(), chases: Vec::new(), chase }
    }

    /// Which accesses of a block chase.
    fn follow(&mut self, code: &TracedCode, id: BlockId, block: &TracedBlock) {
        let Memory { chases, chase, .. } = self;
        chase.enter(code, block);
        chases.clear();
        let accesses = block.accesses.iter().zip(&block.chains.accesses);
        chases.extend(accesses.map(|(access, depth)| chase.grows(access.site, depth)));
        chase.leave(id, block);
    }

    /// With the addresses of all accesses.
    fn execution(
        &mut self,
        block: &TracedBlock,
        record: &Record<'_>,
        executed: usize,
        (burst, most_bytes): (&Burst, u64),
    ) -> Execution<'_> {
        self.touches.clear();
        self.ends.clear();
        let Record { block: id, way, iterations, .. } = *record;
        for access in &block.accesses {
            let times = iterations.saturating_sub(u64::from(access.instruction >= executed));
            access.form.touches(record, burst.fs_base.0, times, |touch| {
                self.touches.push(match touch {
                    Touch::Run { start, count, bytes, .. }
                        if count > times && count.saturating_mul(u64::from(bytes)) > most_bytes =>
                    {
                        Touch::AtLeast { start, bytes }
                    }
                    touch => touch,
                });
            });
            self.ends.push(self.touches.len());
        }
        let Memory { touches, ends, chases, .. } = self;
        Execution { block: id, way, iterations, executed, touches, ends, chases }
    }
}

impl Damage {
    fn add(&mut self, more: Damage) {
        self.records += more.records;
        self.pieces += more.pieces;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its number, and how many accesses it had.
    #[derive(Default)]
    struct Counts(usize, u64);

    impl Tool for Counts {
        type OfBurst = (usize, u64);

        fn begin(&mut self, _: &Burst, number: usize) {
            *self = Counts(number, 0);
        }

        fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
            let touches = block.accesses.iter().flat_map(|access| execution.touches(access));
            self.1 += touches.map(Touch::count).sum::<u64>();
        }

        fn end(&mut self, _: &Burst) -> (usize, u64) {
            (self.0, self.1)
        }
    }

    /// Bursts of very different lengths, the longest first: those behind it are done long before.
    #[test]
    fn bursts_are_handed_over_in_order_and_two_tools_see_the_same() {
        let mut builder = testkit::recording::RecordingBuilder::new();
        let module = builder.file("/program");
        // mov [rax],rbx
        let layout = "words 2; values rax@0:1; ways 1";
        let block = builder.block(1, module, 0x2000, &[0x48, 0x89, 0x18], layout);
        let executions = [3000, 1, 200, 5, 0, 70, 1, 900, 2, 40, 3, 1];
        for count in executions {
            builder.burst(1, 1, &vec![(block, 1, vec![0x1000]); count]);
        }
        let recording = builder.build();
        let code = TracedCode::read(&recording);
        let bursts: Vec<&Burst> = traced_bursts(&recording, &code).collect();
        let expected: Vec<(usize, u64)> =
            executions.iter().map(|count| *count as u64).enumerate().collect();
        for cpus in [1, 2, 7] {
            parallel::use_cpus(cpus);
            let mut seen = Vec::new();
            let tools = || (Counts::default(), Some(Counts::default()));
            let (damage, tools) = stream(&recording, &code, &bursts, tools, |_, (one, other)| {
                assert_eq!(Some(one), other);
                seen.push(one);
            });
            assert_eq!((damage, tools.len()), (Damage::default(), cpus));
            assert_eq!(seen, expected);
        }
    }
}
