//! Which loops a sample's stack lies in, and the CPU time of each loop.
//!
//! What not: registers (`pairs`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use base::{CodeAddress, StackId, ThreadId};
use facts::{Recording, StackNode};

use super::code::{Code, LoopId};
use super::estimate::seconds;
use super::trip_counts::Link;

/// As deep as the unwinder goes.
const MOST_FRAMES: usize = 2048;

/// The loops of one stack.
#[derive(Default, Debug)]
pub(super) struct EnclosingLoops {
    /// With the innermost frame's first; each once.
    pub loops: Vec<LoopId>,
    /// Which of them lie directly in one another.
    pub links: Vec<Link>,
    /// The frames in them.
    places: Vec<(LoopId, CodeAddress)>,
    /// Whether its outermost frames are not known.
    pub truncated: bool,
}

/// The loops of all stacks, each worked out once.
pub(super) struct Stacks<'a> {
    code: &'a Code,
    nodes: HashMap<StackId, &'a StackNode>,
    known: HashMap<StackId, Rc<EnclosingLoops>>,
}

impl<'a> Stacks<'a> {
    pub(super) fn new(recording: &'a Recording, code: &'a Code) -> Stacks<'a> {
        let nodes = recording.stack_nodes.iter().map(|node| (node.id, node)).collect();
        Stacks { code, nodes, known: HashMap::new() }
    }

    pub(super) fn around(&mut self, stack: StackId) -> Rc<EnclosingLoops> {
        if let Some(known) = self.known.get(&stack) {
            return Rc::clone(known);
        }
        let mut around = EnclosingLoops::default();
        let (mut at, mut depth) = (Some(stack), 0);
        let mut below: Option<LoopId> = None;
        while let Some(node) = at.and_then(|id| self.nodes.get(&id)) {
            let loops = self.code.around_byte(node.module, node.offset);
            let call = below.zip(loops.first());
            let call = call.map(|(inner, outer)| (inner, *outer, Some(node.offset)));
            let nest = loops.windows(2).map(|pair| (pair[0], pair[1], None));
            let link = |(inner, outer, call)| Link { inner, outer, call };
            around.links.extend(nest.chain(call).map(link));
            below = loops.last().copied();
            for one in loops {
                around.places.push((one, node.code_address()));
                if !around.loops.contains(&one) {
                    around.loops.push(one);
                }
            }
            around.truncated |= node.truncated;
            // A parent comes first, so its id is smaller; a damaged file may say otherwise.
            at = node.parent.filter(|parent| *parent < node.id);
            depth += 1;
            if depth > MOST_FRAMES {
                around.truncated = true;
                break;
            }
        }
        let around = Rc::new(around);
        self.known.insert(stack, Rc::clone(&around));
        around
    }
}

/// CPU time of a loop and the addresses in it that samples saw.
#[derive(Default)]
pub(super) struct Time {
    pub seconds: f64,
    pub samples: u64,
    pub places: BTreeSet<CodeAddress>,
    /// Of it, with a frame in another loop further out.
    pub within: BTreeMap<LoopId, f64>,
    /// Samples that another one of their thread follows, and those of them that it follows in this loop.
    pub followed: u64,
    pub stays: u64,
}

/// The CPU time of each loop: samples with a frame in it.
pub(super) fn times(recording: &Recording, stacks: &mut Stacks<'_>) -> BTreeMap<LoopId, Time> {
    let mut by_stack: BTreeMap<StackId, (f64, u64)> = BTreeMap::new();
    for sample in &recording.samples {
        if let Some(stack) = sample.stack {
            let sum = by_stack.entry(stack).or_default();
            *sum = (sum.0 + seconds(sample.weight), sum.1 + 1);
        }
    }
    let mut by_loop: BTreeMap<LoopId, Time> = BTreeMap::new();
    for (stack, (spent, samples)) in by_stack {
        let around = stacks.around(stack);
        for (at, one) in around.loops.iter().enumerate() {
            let time = by_loop.entry(*one).or_default();
            time.seconds += spent;
            time.samples += samples;
            for outer in &around.loops[at + 1..] {
                *time.within.entry(*outer).or_default() += spent;
            }
        }
        for (one, place) in &around.places {
            by_loop.entry(*one).or_default().places.insert(*place);
        }
    }
    let mut before: HashMap<ThreadId, StackId> = HashMap::new();
    for sample in &recording.samples {
        let Some(stack) = sample.stack else { continue };
        let Some(before) = before.insert(ThreadId::new(sample.pid, sample.tid), stack) else {
            continue;
        };
        let (now, before) = (stacks.around(stack), stacks.around(before));
        for one in &before.loops {
            let time = by_loop.entry(*one).or_default();
            time.followed += 1;
            time.stays += u64::from(now.loops.contains(one));
        }
    }
    by_loop
}
