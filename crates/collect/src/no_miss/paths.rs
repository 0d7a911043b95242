//! Stretches of what bursts ran, drawn at random.
//!
//! What for: code that is no hot loop of one block: loops with calls and branches, and code between loops. What not:
//! loops that are timed themselves; they end a path.
//!
//! Each instruction outside those loops has the same probability to be drawn, so paths represent all such
//! instructions. A path begins with the next block that does not follow itself, and ends when it returns there after
//! [`ENOUGH`] instructions; or both after [`MOST`]. So loops of several blocks are mostly whole, and chains in the
//! inner loop of a nest are as long as in the program.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};

use base::{BlockId, BurstId};
use facts::{Block, BurstFlavour, Record, Records, decode_records};
use tracee::random::Random;
use x86::Reader;
use x86::translate::RecordLayout;

use super::code::{Code, SampledStates};

/// After this many instructions a path ends when it returns to its first block.
const ENOUGH: usize = 512;
/// Most instructions of a path: twice as many, of 5 bytes each, fit into a first-level instruction cache of 32 KiB.
pub(super) const MOST: usize = 2048;

/// A block on a path, the number of its instructions that ran, and the values of its record; iterations of a loop
/// after the first one have none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) block: BlockId,
    pub(super) executed: usize,
    pub(super) values: Vec<u64>,
}

/// A path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Path {
    pub(super) burst: BurstId,
    pub(super) steps: Vec<Step>,
}

impl Path {
    /// The code of its blocks; `None` when one cannot be read.
    pub(super) fn codes<'a>(
        &self,
        blocks: &HashMap<BlockId, &'a Block>,
        sampled: &SampledStates,
    ) -> Option<HashMap<BlockId, Code<'a>>> {
        let mut reader = Reader::new();
        let mut codes = HashMap::new();
        for step in &self.steps {
            if let Entry::Vacant(place) = codes.entry(step.block) {
                let code = Code::read(blocks.get(&step.block)?, &mut reader)?;
                place.insert(code.with(sampled));
            }
        }
        Some(codes)
    }
}

/// The number of instructions of a path.
pub(super) fn instructions(steps: &[Step]) -> usize {
    steps.iter().map(|step| step.executed).sum()
}

/// Draws `number` paths from each piece.
pub(super) fn draw(
    pieces: &[Records],
    blocks: &HashMap<BlockId, &Block>,
    loops: &HashSet<BlockId>,
    number: usize,
    random: &mut Random,
) -> Vec<Path> {
    let traced = blocks.values().filter(|block| block.flavour == BurstFlavour::Trace);
    let ways = traced
        .filter(|block| !loops.contains(&block.id))
        .filter_map(|block| Some((block.id, block.record.parse::<RecordLayout>().ok()?.ways)));
    let ways: HashMap<BlockId, Vec<usize>> = ways.collect();
    let mut paths = Vec::new();
    for piece in pieces {
        let mut all = 0;
        let _ =
            decode_records(&piece.bytes, |record| all = length(&ways, record).saturating_add(all));
        let mut begins: Vec<u64> =
            (0..number).filter_map(|_| random.number().checked_rem(all)).collect();
        begins.sort_unstable_by_key(|begin| std::cmp::Reverse(*begin));
        let mut walk = Walk {
            ways: &ways,
            burst: piece.burst,
            begins,
            passed: 0,
            drawn: None,
            last: None,
            open: None,
            so_far: 0,
            paths: &mut paths,
        };
        let _ = decode_records(&piece.bytes, |record| walk.pass(record));
        walk.close();
    }
    paths
}

/// Instructions of a record outside the loops that are timed themselves.
fn length(ways: &HashMap<BlockId, Vec<usize>>, record: &Record<'_>) -> u64 {
    steps(ways, record).map_or(0, |(whole, times, last)| {
        (whole as u64).saturating_mul(times).saturating_add(last as u64)
    })
}

/// Instructions of a whole iteration, the number of whole iterations, and the instructions of the last one.
fn steps(ways: &HashMap<BlockId, Vec<usize>>, record: &Record<'_>) -> Option<(usize, u64, usize)> {
    let ways = ways.get(&record.block)?;
    Some((*ways.first()?, record.iterations.saturating_sub(1), *ways.get(record.way as usize)?))
}

/// One pass over a piece.
struct Walk<'a> {
    ways: &'a HashMap<BlockId, Vec<usize>>,
    burst: BurstId,
    /// The starts of paths, in instructions; the next one last.
    begins: Vec<u64>,
    passed: u64,
    /// Instructions since one was drawn whose path has not begun.
    drawn: Option<usize>,
    last: Option<BlockId>,
    open: Option<Path>,
    /// Instructions of the open path so far.
    so_far: usize,
    paths: &'a mut Vec<Path>,
}

impl Walk<'_> {
    fn pass(&mut self, record: &Record<'_>) {
        let follows_itself = self.last.replace(record.block) == Some(record.block);
        let Some((whole, times, last)) = steps(self.ways, record) else { return self.close() };
        let so_far = self.so_far;
        let ends = |path: &Path| {
            let back = path.steps.first().is_some_and(|first| first.block == record.block);
            so_far >= MOST || (so_far >= ENOUGH && back && !follows_itself)
        };
        if self.open.as_ref().is_some_and(ends) {
            self.close();
        }
        let length = length(self.ways, record);
        self.passed = self.passed.saturating_add(length);
        while self.begins.pop_if(|begin| *begin < self.passed).is_some() {
            self.drawn = self.drawn.or(Some(0)).filter(|_| self.open.is_none());
        }
        let waited = self.drawn.filter(|waited| follows_itself && *waited < MOST);
        if let Some(waited) = waited {
            self.drawn = Some(waited.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)));
        } else if self.drawn.take().is_some() {
            self.open = Some(Path { burst: self.burst, steps: Vec::new() });
        }
        let Some(path) = &mut self.open else { return };
        let block = record.block;
        let room = MOST.saturating_sub(self.so_far) / whole.max(1);
        let times = usize::try_from(times).unwrap_or(usize::MAX).min(room);
        let mut values = record.values.to_vec();
        for executed in std::iter::repeat_n(whole, times).chain([last]) {
            path.steps.push(Step { block, executed, values: std::mem::take(&mut values) });
        }
        self.so_far += times * whole + last;
    }

    fn close(&mut self) {
        let so_far = std::mem::take(&mut self.so_far);
        self.paths.extend(self.open.take().filter(|_| so_far > 0));
    }
}

#[cfg(test)]
mod tests {
    use base::{FileOffset, ModuleId, Pid, RemoteAddr};
    use facts::{CodePiece, RecordEncoder};

    use super::*;

    fn block(id: u32, record: &str) -> Block {
        let (address, module) = (RemoteAddr(0x5555_5555_5000), ModuleId(0));
        let bytes = vec![0x90; 600];
        let piece = CodePiece { address, module, offset: FileOffset(0), bytes };
        let (pid, flavour) = (Pid(1), BurstFlavour::Trace);
        Block { id: BlockId(id), pid, flavour, pieces: vec![piece], record: record.to_owned() }
    }

    fn drawn(blocks: &[Block], loops: &[u32], ran: &[(u32, u32, u64)]) -> Vec<Vec<(u32, usize)>> {
        let mut encoder = RecordEncoder::new();
        for (id, way, iterations) in ran {
            let (block, iterations) = (BlockId(*id), *iterations);
            encoder.push(&Record { block, way: *way, iterations, values: &[] });
        }
        let piece = Records { burst: BurstId(7), bytes: encoder.finish() };
        let by_id = blocks.iter().map(|block| (block.id, block)).collect();
        let loops = loops.iter().copied().map(BlockId).collect();
        let paths = draw(&[piece], &by_id, &loops, 1, &mut Random::new(3));
        assert!(paths.iter().all(|path| path.burst == BurstId(7)));
        let plain = |step: &Step| (step.block.0, step.executed);
        paths.iter().map(|path| path.steps.iter().map(plain).collect()).collect()
    }

    #[test]
    fn a_path_ends_where_it_began_or_at_a_measured_loop() {
        let blocks = [
            block(0, "words 1; ways 300 5"),
            block(1, "words 1; ways 200"),
            block(2, "words 1; ways 3"),
        ];
        let lap = [(0, 0, 1), (1, 0, 1)].repeat(50);
        let paths = drawn(&blocks, &[], &lap);
        assert!(
            paths == [vec![(0, 300), (1, 200), (0, 300), (1, 200)]]
                || paths == [vec![(1, 200), (0, 300), (1, 200), (0, 300)]]
                || paths[0].len() < 4,
            "{paths:?}"
        );
        // The loop is measured: what stands between two of its runs is the whole path.
        let between = [(2, 0, 100), (0, 1, 1)].repeat(9);
        assert_eq!(drawn(&blocks, &[2], &between), [vec![(0, 5)]]);
        // Nothing else ran.
        assert!(drawn(&blocks, &[0, 1, 2], &lap).is_empty());
    }

    /// A row of ten iterations, each with a record, between two rows; and one that does not end.
    #[test]
    fn a_path_begins_and_ends_between_runs_of_a_loop() {
        let blocks = [block(0, "words 2; ways 50 50"), block(1, "words 1; ways 20")];
        let row = [&[(0, 0, 1); 9][..], &[(0, 1, 1), (1, 0, 1)]].concat();
        let paths = drawn(&blocks, &[], &row.repeat(40));
        let whole: Vec<_> = [vec![(0, 50); 10], vec![(1, 20)]].concat();
        let turned: Vec<_> = [vec![(1, 20)], vec![(0, 50); 10]].concat();
        assert!(paths == [whole] || paths == [turned], "{paths:?}");
        let paths = drawn(&blocks, &[], &[(0, 0, 1); 2000]);
        assert!(paths.iter().flatten().all(|step| *step == (0, 50)), "{paths:?}");
        assert!(paths[0].len() <= MOST.div_ceil(50), "{paths:?}");
    }

    #[test]
    fn a_long_loop_without_a_time_is_cut() {
        let blocks = [block(0, "words 2; ways 100 40; iterations 1")];
        let paths = drawn(&blocks, &[], &[(0, 1, 1_000_000)]);
        let mut expected = vec![(0, 100); MOST / 100];
        expected.push((0, 40));
        assert_eq!(paths, [expected]);
    }
}
