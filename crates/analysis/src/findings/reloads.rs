//! Whether a loop could keep in registers what it loads again and again.
//!
//! What for: a loop was timed with registers for memory whose address stays the same, in symbols (`x86::keep`). Traces show
//! whether that would have been the same program: in each run of the loop in a burst, every such access has its one address, no
//! other access of the loop touches a byte of memory that changes, none stores to any of it, and no burst of another thread
//! stores there. What not: how long it took.
//! Assumption: what no burst recorded did not happen often enough to forbid it. A thread that rarely stores there is missed.

use std::collections::{BTreeMap, HashSet};

use base::{BlockId, Pid, ThreadId, Tid};
use facts::{Burst, Recording};
use x86::Kind;

use crate::traced::{
    Execution, KeptLoop, Tool, Touch, TracedAccess, TracedBlock, TracedCode, in_order,
};

/// More places than these are not compared with other threads' stores.
const MOST_PLACES: usize = 4096;
/// No access is longer (an XSAVE area aside, which is no place).
const LONGEST: u64 = 64;

/// Begin and end.
type Range = (u64, u64);

/// Those of these loops of which every run allows it.
pub(super) fn free(
    recording: &Recording,
    code: &TracedCode,
    mut asked: HashSet<BlockId>,
) -> HashSet<BlockId> {
    asked.retain(|block| code.kept.contains_key(block));
    if asked.is_empty() {
        return asked;
    }
    let mut runs = Runs {
        code,
        asked: &asked,
        hurt: HashSet::new(),
        held: HeldLocations::new(),
        run: None,
        burst: None,
    };
    in_order(recording, code, &mut runs);
    let Runs { hurt, held, .. } = runs;
    asked.retain(|block| !hurt.contains(block));
    let mut others = OtherStores { code, held: &held, hurt: HashSet::new(), burst: None };
    in_order(recording, code, &mut others);
    let hurt = others.hurt;
    asked.retain(|block| !hurt.contains(block));
    asked
}

/// Places by process, begin, and the loop that holds them: their ends, and the thread.
type HeldLocations = BTreeMap<(Pid, u64, BlockId), (u64, Tid)>;

/// A run of a loop, up to here.
struct Run {
    block: BlockId,
    /// Of each place, once it was touched.
    places: Vec<Option<Range>>,
}

struct Runs<'a> {
    code: &'a TracedCode,
    asked: &'a HashSet<BlockId>,
    hurt: HashSet<BlockId>,
    held: HeldLocations,
    run: Option<Run>,
    burst: Option<ThreadId>,
}

impl Tool for Runs<'_> {
    type OfBurst = ();

    fn begin(&mut self, burst: &Burst, _: usize) {
        self.run = None;
        self.burst = Some(ThreadId::new(burst.pid, burst.tid));
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        let id = execution.block();
        let before = self.run.take().filter(|run| run.block == id);
        if !self.asked.contains(&id) || self.hurt.contains(&id) {
            return;
        }
        let Some(kept) = self.code.kept.get(&id) else { return };
        let mut run = before.unwrap_or_else(|| Run { block: id, places: Vec::new() });
        if !run.goes_on((self.code, kept), block, execution) {
            self.hurt.insert(id);
            return;
        }
        self.hold(&run);
        self.run = Some(run).filter(|_| execution.way() == 0);
    }

    fn end(&mut self, _: &Burst) {
        self.run = None;
    }
}

impl Runs<'_> {
    fn hold(&mut self, run: &Run) {
        let Some(ThreadId { pid, tid }) = self.burst else { return };
        for (start, end) in run.places.iter().copied().flatten() {
            let key = (pid, start, run.block);
            let known = self.held.get(&key);
            // Two threads in turn on one place, or more places than are remembered.
            let full = known.is_none() && self.held.len() >= MOST_PLACES;
            if full || known.is_some_and(|(_, other)| *other != tid) {
                self.hurt.insert(run.block);
            } else {
                self.held.insert(key, (end, tid));
            }
        }
    }
}

impl Run {
    /// Whether it may go on in registers.
    fn goes_on(
        &mut self,
        (code, kept): (&TracedCode, &KeptLoop),
        block: &TracedBlock,
        execution: &Execution<'_>,
    ) -> bool {
        let place = |access: &TracedAccess| {
            let at = kept.kept.accesses().iter().find(|one| one.instruction == access.instruction);
            at.map(|one| one.place)
        };
        let kind = |access: &TracedAccess| code.sites[access.site.index()].access.kind;
        let own = |access: &&TracedAccess| place(access).is_some();
        let stored: HashSet<usize> = block
            .accesses
            .iter()
            .filter(|access| kind(access) != Kind::Read)
            .filter_map(place)
            .collect();
        let mut fits = true;
        for access in block.accesses.iter().filter(own) {
            let Some(number) = place(access) else { continue };
            execution.touches(access).for_each(|touch| fits &= self.stays(number, touch));
        }
        for access in block.accesses.iter().filter(|access| !own(access)) {
            let reads = kind(access) == Kind::Read;
            execution.touches(access).for_each(|touch| {
                let range = range(touch);
                let mut places = (0..).zip(&self.places);
                fits &= !places.any(|(number, place)| {
                    (!reads || stored.contains(&number))
                        && place.is_some_and(|place| overlap(place, range))
                });
            });
        }
        fits && self.apart(&stored)
    }

    /// Whether an access is where its place was before.
    fn stays(&mut self, number: usize, touch: Touch) -> bool {
        let Touch::Run { start, stride, count, bytes } = touch else { return false };
        let range = (start, start.saturating_add(u64::from(bytes)));
        if self.places.len() <= number {
            self.places.resize(number + 1, None);
        }
        let first = self.places[number].get_or_insert(range);
        *first == range && (count == 1 || stride == 0)
    }

    /// Whether places that change have no byte in common with others.
    fn apart(&self, stored: &HashSet<usize>) -> bool {
        let known: Vec<(usize, Range)> = (0..)
            .zip(&self.places)
            .filter_map(|(number, place)| Some((number, (*place)?)))
            .collect();
        let hurts = |(a, range): &(usize, Range), (b, other): &(usize, Range)| {
            a != b && overlap(*range, *other) && (stored.contains(a) || stored.contains(b))
        };
        !known.iter().any(|one| known.iter().any(|other| hurts(one, other)))
    }
}

/// Stores of threads to what loops of others hold.
struct OtherStores<'a> {
    code: &'a TracedCode,
    held: &'a HeldLocations,
    hurt: HashSet<BlockId>,
    burst: Option<ThreadId>,
}

impl Tool for OtherStores<'_> {
    type OfBurst = ();

    fn begin(&mut self, burst: &Burst, _: usize) {
        self.burst = Some(ThreadId::new(burst.pid, burst.tid));
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        let Some(ThreadId { pid, tid }) = self.burst else { return };
        for access in &block.accesses {
            let kind = self.code.sites[access.site.index()].access.kind;
            if !matches!(kind, Kind::Write | Kind::ReadWrite | Kind::StreamingWrite) {
                continue;
            }
            execution.touches(access).for_each(|touch| {
                let (start, end) = range(touch);
                let first = (pid, start.saturating_sub(LONGEST), BlockId(0));
                for ((_, from, holder), (to, owner)) in
                    self.held.range(first..(pid, end, BlockId(0)))
                {
                    if *owner != tid && overlap((*from, *to), (start, end)) {
                        self.hurt.insert(*holder);
                    }
                }
            });
        }
    }

    fn end(&mut self, _: &Burst) {}
}

fn overlap(a: Range, b: Range) -> bool {
    a.0 < b.1 && b.0 < a.1
}

/// From the lowest byte to the one after the highest; everything where that is unknown.
fn range(touch: Touch) -> Range {
    match touch {
        Touch::Run { start, stride, count, bytes } => {
            let way = stride.unsigned_abs().saturating_mul(count.saturating_sub(1));
            let low = if stride < 0 { start.saturating_sub(way) } else { start };
            (low, low.saturating_add(way).saturating_add(u64::from(bytes)))
        }
        Touch::AtLeast { .. } | Touch::Unknown { .. } => (0, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use base::Picos;
    use facts::NoReloadTime;
    use testkit::recording::RecordingBuilder;

    use super::*;

    const WRITER: u64 = 0x7fff_0000;
    const BUFFER: u64 = 0x6000_0000;

    /// A loop that appends bytes to a buffer: `(writer, position, buffer)` of its iterations; and where another thread stores.
    fn is_free(iterations: &[(u64, u64, u64)], other: Option<u64>) -> bool {
        let mut builder = RecordingBuilder::new();
        let module = builder.file("/program");
        // mov rdx,[rdi+8]; mov rcx,[rdi]; mov [rcx+rdx],al; add qword [rdi+8],1; jmp to the start
        let bytes = [
            0x48, 0x8b, 0x57, 8, 0x48, 0x8b, 0x0f, 0x88, 4, 0x11, 0x48, 0x83, 0x47, 8, 1, 0xeb,
            0xef,
        ];
        let layout = "words 4; values rdi@0:1 rdx@1:2 rcx@2:3; ways 5";
        let block = builder.block(1, module, 0x1000, &bytes, layout);
        // mov [rax],rbx
        let layout = "words 2; values rax@0:1; ways 1";
        let store = builder.block(1, module, 0x2000, &[0x48, 0x89, 0x18], layout);
        let one = |(writer, position, buffer): &(u64, u64, u64)| {
            (block, 1, vec![*writer, *position, *buffer])
        };
        builder.burst(1, 1, &iterations.iter().map(one).collect::<Vec<_>>());
        if let Some(at) = other {
            builder.burst(1, 2, &[(store, 1, vec![at])]);
        }
        let mut recording = builder.build();
        let [median, low, high] = [Picos(500); 3];
        recording.no_reload_times.push(NoReloadTime { block, repetitions: 9, median, low, high });
        let code = TracedCode::read(&recording);
        free(&recording, &code, HashSet::from([block])).contains(&block)
    }

    #[test]
    fn places_that_nothing_else_touches_may_be_kept() {
        let run = [0, 1, 2, 3].map(|position| (WRITER, position, BUFFER));
        assert!(is_free(&run, None));
        // Other addresses, and what the thread itself does elsewhere.
        assert!(is_free(&run, Some(WRITER + 16)));
        assert!(is_free(&run, Some(BUFFER)));
    }

    #[test]
    fn a_store_to_a_place_forbids_it() {
        // The buffer reaches into the position, for one byte.
        assert!(!is_free(&[(WRITER, 0, BUFFER), (WRITER, 3, WRITER + 12)], None));
        let run = [(WRITER, 0, BUFFER), (WRITER, 1, BUFFER)];
        // Another thread stores the position, or a part of the pointer.
        assert!(!is_free(&run, Some(WRITER + 8)));
        assert!(!is_free(&run, Some(WRITER - 7)));
    }

    #[test]
    fn a_place_that_moves_is_none() {
        assert!(!is_free(&[(WRITER, 0, BUFFER), (WRITER + 64, 0, BUFFER)], None));
    }
}
