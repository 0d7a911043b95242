//! The cost of the branches that this machine's own predictor mispredicts, from the branches that bursts recorded.
//!
//! What for: records show where each branch went. Here we run code with the same branches, which takes each direction
//! from a list: once with a list that the predictor has not met, then repeatedly until it has learned the list. The
//! difference is the time of mispredicted branches. What not: a model of a predictor (`analysis`), which these times
//! correct.
//!
//! ```text
//! node: for each way out, in the order of the code
//!   e := [list]; list += e; e = 1: out by this way; e > 2: done      a chain: so each branch is known as late as the ones before
//! end of a block with several successors: the same; with many: jump to [list]
//! ```
//! A node is a block together with the calls that led to it. So returns, which the return stack predicts, need no
//! branch.
//!
//! Assumptions: a predictor distinguishes branches by their history and order, not by their address. Lists of some
//! thousand directions are learned in [`PASSES`] passes (AMD Zen 4: of lists of 5,000 to 14,000 directions with 700
//! to 1,300 mispredicted, 1 to 14 % of these were still mispredicted in the second pass, and none from the third on).
//! A list is forgotten by the time it is run again.

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, Nanos, RemoteAddr};
use facts::{Block, BranchReplay, BurstFlavour, Records, decode_records};
use sys::no_miss::{DATA_PAGES, MOST_CODE_BYTES, NoMissError, StartState, TimingProcess};
use x86::translate::RecordLayout;
use x86::{Flow, Reader};

use super::code::Code;

/// Address and size of the lists: five of the six pages of the timing process, in the first-level cache.
const DATA: u32 = 0x2000_0000;
const DATA_BYTES: usize = 5 * 4096;
const FIRST_LIST: usize = 0x100;
const MOST_OF_LIST: usize = (DATA_BYTES - FIRST_LIST) / 2 - 16;
/// An address for code without data.
const ANYWHERE: RemoteAddr = RemoteAddr(0x10_0000_0000);
/// Fewer directions give no useful time.
const FEWEST: usize = 400;
/// Most iterations in a row of one loop: further ones end in the same way.
const MOST_ROUNDS: u64 = 64;
/// Passes over a list.
const PASSES: usize = 6;
/// How many times each list is timed, with all others in between. The least time counts, because interrupts only add.
const ROUNDS: usize = 2;
/// At most this part of a list may be jump targets: an indirect jump costs more than a branch of the program.
const FEW: f64 = 0.02;
/// Most successors of a block that are reached by a branch each. A block may have more than two, because blocks
/// without accesses leave no records. Further ones are reached by an indirect jump.
const MOST_IN_TURN: usize = 4;
/// Most contexts, which are calls that led to a block.
const MOST_CONTEXTS: usize = 1 << 12;

/// A block with the calls that led to it.
type Node = usize;

/// The exits of a block.
struct Exits {
    /// Instructions up to the end of each way.
    ends: Vec<usize>,
    /// Ways out before the end, in the order of the code.
    exits: Vec<u32>,
    /// Calls (their address) and returns, with the instructions up to them.
    calls: Vec<(usize, Option<RemoteAddr>)>,
}

impl Exits {
    fn read(block: &Block, reader: &mut Reader) -> Option<Exits> {
        let traced = Some(block).filter(|block| block.flavour == BurstFlavour::Trace)?;
        let code = Code::read(traced, reader)?;
        let layout: RecordLayout = block.record.parse().ok()?;
        let ends = layout.ways;
        let mut exits: Vec<u32> = (1..u32::try_from(ends.len()).ok()?).collect();
        exits.sort_by_key(|way| ends[*way as usize]);
        let calls = code.block.instructions.iter().enumerate();
        let calls = calls.filter_map(|(at, one)| match one.flow() {
            Flow::Call(_) | Flow::IndirectCall => Some((at + 1, Some(one.address()))),
            Flow::Return => Some((at + 1, None)),
            _ => None,
        });
        Some(Exits { calls: calls.collect(), ends, exits })
    }
}

/// A way that was taken, and the record that shows it.
#[derive(Clone, Copy)]
struct Step {
    node: Node,
    way: u32,
    records: u64,
}

/// The successors of each node.
#[derive(Default)]
struct Graph {
    blocks: HashMap<BlockId, Option<Exits>>,
    nodes: Vec<BlockId>,
    by_block: HashMap<(BlockId, usize), Node>,
    contexts: HashMap<(usize, RemoteAddr), usize>,
    /// For each context, the one before its last call.
    callers: Vec<usize>,
    next: BTreeMap<(Node, u32), Vec<Node>>,
}

impl Graph {
    /// Follows a piece of records as far as its blocks are known.
    fn follow(&mut self, piece: &Records, blocks: &HashMap<BlockId, &Block>) -> Vec<Step> {
        let mut reader = Reader::new();
        let (mut steps, mut context, mut records, mut open) = (Vec::new(), 0, 0, true);
        let _ = decode_records(&piece.bytes, |record| {
            records += 1;
            let read = || Exits::read(blocks.get(&record.block)?, &mut reader);
            let Some(exits) = self.blocks.entry(record.block).or_insert_with(read) else {
                open = false;
                return;
            };
            if !open || steps.len() > MOST_OF_LIST || exits.ends.len() <= record.way as usize {
                open = false;
                return;
            }
            let executed = exits.ends[record.way as usize];
            let calls: Vec<_> =
                exits.calls.iter().filter(|(end, _)| *end <= executed).copied().collect();
            let rounds = record.iterations.clamp(1, MOST_ROUNDS) - 1;
            let ways = (0..rounds).map(|_| 0).chain([record.way]);
            for way in ways {
                let next = self.nodes.len();
                let node = *self.by_block.entry((record.block, context)).or_insert(next);
                if node == next {
                    self.nodes.push(record.block);
                }
                steps.push(Step { node, way, records });
            }
            for (_, call) in calls {
                context = self.after(context, call);
            }
        });
        for pair in steps.windows(2) {
            let next = self.next.entry((pair[0].node, pair[0].way)).or_default();
            if !next.contains(&pair[1].node) {
                next.push(pair[1].node);
            }
        }
        steps
    }

    /// The context after a call or a return.
    fn after(&mut self, context: usize, call: Option<RemoteAddr>) -> usize {
        if self.callers.is_empty() {
            self.callers.push(0);
        }
        let Some(call) = call else { return self.callers[context] };
        let next = self.callers.len();
        if next > MOST_CONTEXTS {
            return 0;
        }
        let found = *self.contexts.entry((context, call)).or_insert(next);
        if found == next {
            self.callers.push(context);
        }
        found
    }

    fn exits(&self, node: Node) -> &[u32] {
        let exits = self.blocks.get(&self.nodes[node]).and_then(Option::as_ref);
        exits.map_or(&[], |exits| &exits.exits)
    }

    /// The directions of these steps, the positions in the list that hold addresses, and the number of records.
    fn list(&self, steps: &[Step], at: impl Fn(Node) -> u64) -> List {
        let mut list = List::default();
        let Some(first) = steps.first() else { return list };
        list.bytes.extend(at(first.node).to_le_bytes());
        for pair in steps.windows(2) {
            let Step { node, way, records } = pair[0];
            let next = &self.next[&(node, way)];
            let exits = self.exits(node);
            if list.bytes.len() + 2 * exits.len() + 8 > MOST_OF_LIST {
                break;
            }
            for exit in exits {
                list.turn(*exit == way);
                if *exit == way {
                    break;
                }
            }
            if next.len() > MOST_IN_TURN {
                list.bytes.extend(at(pair[1].node).to_le_bytes());
                list.jumps += 1;
            } else if let Some((_, others)) = next.split_last() {
                for one in others {
                    list.turn(*one == pair[1].node);
                    if *one == pair[1].node {
                        break;
                    }
                }
            }
            list.records = records;
        }
        list.bytes.extend([0xff; 8]);
        list
    }

    /// The code, and the offsets of its nodes.
    fn code(&self) -> (Vec<u8>, Vec<usize>) {
        let mut out = Emitted::default();
        out.enter();
        for node in 0..self.nodes.len() {
            out.mark(Label::Node(node));
            for exit in self.exits(node) {
                out.turn(Label::Exit(node, *exit));
            }
            let ways: Vec<u32> = [0].into_iter().chain(self.exits(node).iter().copied()).collect();
            for way in ways {
                if way > 0 {
                    out.mark(Label::Exit(node, way));
                }
                let next = self.next.get(&(node, way)).map_or(&[][..], Vec::as_slice);
                match next.split_last() {
                    None => out.jump(Label::Done),
                    Some(_) if next.len() > MOST_IN_TURN => out.jump_to_list(),
                    Some((last, others)) => {
                        others.iter().for_each(|one| out.turn(Label::Node(*one)));
                        out.jump(Label::Node(*last));
                    }
                }
            }
        }
        out.mark(Label::Done);
        out.finish(self.nodes.len())
    }
}

/// Directions.
#[derive(Default)]
struct List {
    bytes: Vec<u8>,
    turns: usize,
    jumps: usize,
    records: u64,
}

impl List {
    fn turn(&mut self, taken: bool) {
        self.turns += 1;
        self.bytes.extend_from_slice(if taken { &[1] } else { &[2, 0] });
    }

    fn is_of_use(&self) -> bool {
        self.turns >= FEWEST && self.jumps as f64 <= FEW * self.turns as f64
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Label {
    Node(Node),
    Exit(Node, u32),
    Done,
}

/// Machine code (SDM vol. 2) with addresses that are filled in at the end.
#[derive(Default)]
struct Emitted {
    bytes: Vec<u8>,
    labels: HashMap<Label, usize>,
    open: Vec<(usize, Label)>,
}

impl Emitted {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn mark(&mut self, label: Label) {
        self.labels.insert(label, self.bytes.len());
    }

    fn to(&mut self, opcode: &[u8], label: Label) {
        self.put(opcode);
        self.open.push((self.bytes.len(), label));
        self.put(&[0; 4]);
    }

    fn jump(&mut self, label: Label) {
        self.to(&[0xe9], label);
    }

    /// Emits the start: brings the lists into the first-level cache, selects the list of this pass, and jumps to its
    /// first node.
    fn enter(&mut self) {
        self.put(&[0xbf]); // mov edi, DATA
        self.put(&DATA.to_le_bytes());
        self.put(&[0x48, 0x89, 0xfa, 0xb9]); // mov rdx, rdi; mov ecx, lines
        self.put(&((DATA_BYTES / 64) as u32).to_le_bytes());
        self.put(&[0x8a, 0x02, 0x48, 0x83, 0xc2, 64, 0xff, 0xc9, 0x75, 0xf6]); // mov al, [rdx]; add rdx, 64; dec ecx; jnz
        self.put(&[0x48, 0x8b, 0x17, 0x48, 0x8b, 0x32]); // mov rdx, [rdi]; mov rsi, [rdx]
        self.put(&[0x48, 0x83, 0xc2, 8, 0x48, 0x89, 0x17]); // add rdx, 8; mov [rdi], rdx
        self.put(&[0x0f, 0xae, 0xe8]); // lfence
        self.jump_to_list();
    }

    fn turn(&mut self, taken: Label) {
        self.put(&[0x0f, 0xb6, 0x06, 0x48, 0x01, 0xc6]); // movzx eax, byte [rsi]; add rsi, rax
        self.put(&[0x3c, 1]); // cmp al, 1
        self.to(&[0x0f, 0x84], taken);
        self.put(&[0x3c, 2]); // cmp al, 2
        self.to(&[0x0f, 0x87], Label::Done);
    }

    fn jump_to_list(&mut self) {
        self.put(&[0x48, 0x8b, 0x06, 0x48, 0x83, 0xc6, 8]); // mov rax, [rsi]; add rsi, 8
        self.put(&[0x48, 0x83, 0xf8, 0xff]); // cmp rax, -1
        self.to(&[0x0f, 0x84], Label::Done);
        self.put(&[0xff, 0xe0]); // jmp rax
    }

    fn finish(mut self, nodes: usize) -> (Vec<u8>, Vec<usize>) {
        for (at, label) in self.open {
            let end = self.labels.get(&label).copied().unwrap_or(self.bytes.len());
            let distance = end as i64 - (at as i64 + 4);
            self.bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        let at = |node| self.labels.get(&Label::Node(node)).copied().unwrap_or(self.bytes.len());
        let nodes = (0..nodes).map(at).collect();
        (self.bytes, nodes)
    }
}

/// The cost of the branches of these pieces, each the beginning of a burst, beyond their cost if all were predicted.
/// `tick` is a tick of the time-stamp counter in seconds. No work begins after `until`.
///
/// # Errors
/// The process in which code is timed cannot be created here.
pub(super) fn replay(
    pieces: &[&Records],
    blocks: &HashMap<BlockId, &Block>,
    (tick, until): (f64, Nanos),
) -> Result<Vec<BranchReplay>, NoMissError> {
    let (graph, followed, code, nodes) = fitting(pieces, blocks);
    let mut no_miss = TimingProcess::start(ANYWHERE, DATA_PAGES)?;
    let begin = TimingProcess::code_at(ANYWHERE).0;
    let at = |node: Node| begin + nodes[node] as u64;
    let lists = pieces.iter().zip(&followed);
    let lists = lists.map(|(piece, steps)| (piece.burst, graph.list(steps, at)));
    let lists: Vec<_> = lists.filter(|(_, list)| list.is_of_use()).collect();
    // A single list would follow itself, and be known in the first pass.
    if lists.len() < 2 {
        return Ok(Vec::new());
    }
    no_miss.load(&code, &StartState::default())?;
    let held = (0..DATA_BYTES as u64).map(|at| (RemoteAddr(u64::from(DATA) + at), 0));
    no_miss.hold(&held.collect())?;
    let mut lost = vec![u64::MAX; lists.len()];
    for _ in 0..ROUNDS {
        for (number, (_, list)) in lists.iter().enumerate() {
            if sys::process::monotonic() >= until {
                break;
            }
            // The list before it makes the predictor forget this one; the second pass meets it anew, the fastest later one
            // knows it.
            let before = &lists[number.checked_sub(1).unwrap_or(lists.len() - 1)].1;
            no_miss.refill(RemoteAddr(u64::from(DATA)), &image(before, list))?;
            let ticks = no_miss.time(0, 1, 1 + PASSES)?;
            let learnt = ticks[2..].iter().min().copied().unwrap_or(0);
            lost[number] = lost[number].min(ticks[1].saturating_sub(learnt));
        }
    }
    let replayed = lists.iter().zip(lost).filter(|(_, lost)| *lost < u64::MAX);
    let replayed = replayed.map(|((burst, list), lost)| BranchReplay {
        burst: burst.0,
        records: list.records,
        lost_ps: (lost as f64 * tick * 1e12) as u64,
    });
    Ok(replayed.collect())
}

/// The graph of as many pieces as fit, their steps, its code and the offsets of its nodes.
fn fitting(
    mut pieces: &[&Records],
    blocks: &HashMap<BlockId, &Block>,
) -> (Graph, Vec<Vec<Step>>, Vec<u8>, Vec<usize>) {
    loop {
        let mut graph = Graph::default();
        let steps = pieces.iter().map(|piece| graph.follow(piece, blocks)).collect();
        let (code, nodes) = graph.code();
        if code.len() <= MOST_CODE_BYTES {
            return (graph, steps, code, nodes);
        }
        pieces = &pieces[..pieces.len() / 2];
    }
}

/// The content of memory: one pass over the list in front, so that the code is in the caches, then passes over the
/// other.
fn image(before: &List, list: &List) -> Vec<u8> {
    let first = u64::from(DATA) + FIRST_LIST as u64;
    let second = first + before.bytes.len() as u64;
    let mut image = Vec::new();
    image.extend((u64::from(DATA) + 8).to_le_bytes());
    image.extend(first.to_le_bytes());
    (0..PASSES).for_each(|_| image.extend(second.to_le_bytes()));
    image.resize(FIRST_LIST, 0);
    image.extend(&before.bytes);
    image.extend(&list.bytes);
    image
}

#[cfg(test)]
mod tests {
    use base::{BurstId, FileOffset, ModuleId, Pid};
    use facts::{CodePiece, Record, RecordEncoder};

    use super::*;

    /// Two nops and a jump to a fixed place: its end leads anywhere.
    fn block(id: u32) -> Block {
        let (address, module) = (RemoteAddr(0x5555_5555_5000), ModuleId(0));
        let bytes = vec![0x90, 0x90, 0x74, 0x10];
        let piece = CodePiece { address, module, offset: FileOffset(0), bytes };
        let (pid, flavour, record) = (Pid(1), BurstFlavour::Trace, "words 1; ways 3".to_owned());
        Block { id: BlockId(id), pid, flavour, pieces: vec![piece], record }
    }

    /// Each piece: from block 0 to 1 or 2, and back.
    fn pieces(next: impl Fn(u64) -> u32) -> Vec<Records> {
        let piece = |number: u32| {
            let mut encoder = RecordEncoder::new();
            for at in 0..1500 {
                for block in [0, next(u64::from(number) * 1500 + at)] {
                    let block = BlockId(block);
                    encoder.push(&Record { block, way: 0, iterations: 1, values: &[] });
                }
            }
            Records { burst: BurstId(number), bytes: encoder.finish() }
        };
        (0..8).map(piece).collect()
    }

    #[test]
    fn a_list_has_the_directions_of_its_records() {
        let blocks = [block(0), block(1), block(2)];
        let by_id = blocks.iter().map(|block| (block.id, block)).collect();
        let mut graph = Graph::default();
        let pieces = pieces(|at| 1 + (at % 3 == 0) as u32);
        let steps = graph.follow(&pieces[0], &by_id);
        let list = graph.list(&steps, |node| 100 + node as u64);
        assert_eq!(list.bytes[..16], [100, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 2, 0, 1, 2, 0]);
        assert_eq!((list.jumps, list.turns, list.records), (0, 1500, 2999));
        assert!(list.is_of_use());
    }

    #[test]
    fn chance_is_missed_and_what_repeats_is_not() {
        let blocks = [block(0), block(1), block(2)];
        let by_id: HashMap<BlockId, &Block> =
            blocks.iter().map(|block| (block.id, block)).collect();
        let lost = |next: &dyn Fn(u64) -> u32| -> Option<u64> {
            let replayed =
                replay(&pieces(next).iter().collect::<Vec<_>>(), &by_id, (1e-9, Nanos(u64::MAX)))
                    .ok()?;
            assert_eq!(replayed.len(), 8);
            let mut all: Vec<u64> = replayed.iter().map(|one| one.lost_ps).collect();
            all.sort_unstable();
            Some(all[2])
        };
        let chance = |at: u64| 1 + (base::mixed(at) % 2) as u32;
        let Some((by_chance, same)) = lost(&chance).zip(lost(&|at| 1 + (at % 2) as u32)) else {
            return println!("skipped: no process for timing code alone");
        };
        // 750 of each are missed, of some ticks; and a few.
        if by_chance < 5 * same.max(1) {
            println!("skipped: the machine is too busy to time branches ({by_chance}, {same} ps)");
        }
        assert!(by_chance > same, "{by_chance} {same}");
    }
}
