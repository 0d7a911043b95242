//! Which loops a sample's stack lies in, and the CPU time of each loop.
//!
//! What not: registers (`pairs`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use ::estimate::parameters::STEADY_CALLEE;
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

/// For which callee each loop that calls several was met last.
pub(super) type Met = HashMap<LoopId, LoopId>;

/// The loops of all stacks, each worked out once.
pub(super) struct Stacks<'a> {
    code: &'a Code,
    nodes: HashMap<StackId, &'a StackNode>,
    known: HashMap<StackId, Rc<EnclosingLoops>>,
    /// Functions that calls by a pointer led to, where that are several.
    callees: HashMap<CodeAddress, BTreeSet<usize>>,
    /// The loops around these calls.
    shared: HashSet<LoopId>,
    /// Calls of several functions in turn.
    mixed: HashSet<CodeAddress>,
}

impl<'a> Stacks<'a> {
    pub(super) fn new(recording: &'a Recording, code: &'a Code) -> Stacks<'a> {
        let nodes: HashMap<StackId, &StackNode> =
            recording.stack_nodes.iter().map(|node| (node.id, node)).collect();
        let mut callees: HashMap<CodeAddress, BTreeSet<usize>> = HashMap::new();
        for node in nodes.values() {
            let caller = node.parent.and_then(|parent| nodes.get(&parent));
            if let (Some(caller), Some(callee)) =
                (caller, code.functions.function(node.module, node.offset))
            {
                callees.entry(caller.code_address()).or_default().insert(callee);
            }
        }
        callees.retain(|at, callees| callees.len() > 1 && code.calls_by_pointer(*at));
        let around =
            |at: &CodeAddress| code.functions.around_byte(at.module, at.offset).first().copied();
        let shared = callees.keys().filter_map(around).collect();
        let mut stacks =
            Stacks { code, nodes, known: HashMap::new(), callees, shared, mixed: HashSet::new() };
        stacks.keep_steady(recording);
        stacks
    }

    /// A loop that calls now this function and now that one, as objects of several classes have it, is one loop: only those count
    /// that call one for long.
    fn keep_steady(&mut self, recording: &Recording) {
        if self.shared.is_empty() {
            return;
        }
        let mut last: HashMap<(ThreadId, LoopId), LoopId> = HashMap::new();
        let mut changes: HashMap<LoopId, (u64, u64)> = HashMap::new();
        for sample in &recording.samples {
            let Some(stack) = sample.stack else { continue };
            let thread = ThreadId::new(sample.pid, sample.tid);
            for one in self.around(stack).loops.iter().filter(|one| one.callee.is_some()) {
                if let Some(before) = last.insert((thread, one.whole()), *one) {
                    let counts = changes.entry(one.whole()).or_default();
                    *counts = (counts.0 + 1, counts.1 + u64::from(before != *one));
                }
            }
        }
        let is_steady = |one: &LoopId| {
            let rarely = |(samples, changes): &(u64, u64)| {
                *changes as f64 * STEADY_CALLEE.value <= *samples as f64
            };
            changes.get(one).is_none_or(rarely)
        };
        self.shared.retain(is_steady);
        let (code, shared) = (self.code, &self.shared);
        let is_kept = |at: &CodeAddress| {
            code.functions
                .around_byte(at.module, at.offset)
                .first()
                .is_some_and(|one| shared.contains(one))
        };
        self.mixed = self.callees.keys().copied().filter(|at| !is_kept(at)).collect();
        self.callees.retain(|at, _| is_kept(at));
        self.known.clear();
    }

    /// A loop as the last sample of its thread that shows it met it: for which callee, if it calls several.
    pub(super) fn as_met(&self, one: LoopId, met: &mut Met) -> LoopId {
        if !self.shared.contains(&one.whole()) {
            return one;
        }
        match one.callee {
            Some(_) => *met.entry(one.whole()).insert_entry(one).get(),
            None => met.get(&one).copied().unwrap_or(one),
        }
    }

    pub(super) fn around(&mut self, stack: StackId) -> Rc<EnclosingLoops> {
        if let Some(known) = self.known.get(&stack) {
            return Rc::clone(known);
        }
        let mut around = EnclosingLoops::default();
        let (mut at, mut depth) = (Some(stack), 0);
        let mut below: Option<LoopId> = None;
        let mut callee: Option<usize> = None;
        while let Some(node) = at.and_then(|id| self.nodes.get(&id)) {
            let mut loops = self.code.functions.around_byte(node.module, node.offset);
            if let Some(caller) = loops.first_mut()
                && self.callees.contains_key(&node.code_address())
            {
                caller.callee = callee;
            }
            callee = self.code.functions.function(node.module, node.offset);
            let is_one = !self.mixed.contains(&node.code_address());
            let call = below.zip(loops.first()).filter(|_| is_one);
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

/// CPU time in seconds, and samples.
type Spent = (f64, u64);

/// The CPU time of each loop: samples with a frame in it.
pub(super) fn times(recording: &Recording, stacks: &mut Stacks<'_>) -> BTreeMap<LoopId, Time> {
    let mut by_stack: BTreeMap<(StackId, Rc<Vec<LoopId>>), Spent> = BTreeMap::new();
    let mut followed: HashMap<LoopId, (u64, u64)> = HashMap::new();
    let mut threads: HashMap<ThreadId, (Met, Rc<Vec<LoopId>>)> = HashMap::new();
    let mut plain: HashMap<StackId, Rc<Vec<LoopId>>> = HashMap::new();
    for sample in &recording.samples {
        let Some(stack) = sample.stack else { continue };
        let around = stacks.around(stack);
        let (met, before) = threads.entry(ThreadId::new(sample.pid, sample.tid)).or_default();
        let is_shared = around.loops.iter().any(|one| stacks.shared.contains(&one.whole()));
        let loops = if is_shared {
            Rc::new(around.loops.iter().map(|one| stacks.as_met(*one, met)).collect())
        } else {
            Rc::clone(plain.entry(stack).or_insert_with(|| Rc::new(around.loops.clone())))
        };
        for one in before.iter() {
            let counts = followed.entry(*one).or_default();
            *counts = (counts.0 + 1, counts.1 + u64::from(loops.contains(one)));
        }
        *before = Rc::clone(&loops);
        let sum = by_stack.entry((stack, loops)).or_default();
        *sum = (sum.0 + seconds(sample.weight), sum.1 + 1);
    }
    let mut by_loop: BTreeMap<LoopId, Time> = BTreeMap::new();
    for ((stack, loops), (spent, samples)) in by_stack {
        for (at, one) in loops.iter().enumerate() {
            let time = by_loop.entry(*one).or_default();
            time.seconds += spent;
            time.samples += samples;
            for outer in &loops[at + 1..] {
                *time.within.entry(*outer).or_default() += spent;
            }
        }
        for (one, place) in &stacks.around(stack).places {
            if let Some(time) = by_loop.get_mut(one) {
                time.places.insert(*place);
            }
        }
    }
    for (one, (followed, stays)) in followed {
        let time = by_loop.entry(one).or_default();
        (time.followed, time.stays) = (followed, stays);
    }
    by_loop
}
