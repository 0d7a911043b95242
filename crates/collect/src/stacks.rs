//! The stack tree: call chains stored once, however many samples share them.
//!
//! What not: unwinding (`address_space`).

use std::collections::HashMap;

use base::{CodeAddress, IndexMap, StackId, Tid};
use facts::{Fact, Sink, SinkError, StackNode};

/// Most nodes (about 60 bytes each). Beyond, only the innermost frame of a new chain is kept, so that memory stays
/// bounded. Only very deep, very varied recursion gets there.
const MAX_NODES: usize = 400_000;

/// Threads whose last chain is kept; beyond, all are dropped.
const MAX_THREADS: usize = 1024;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    parent: Option<StackId>,
    code: CodeAddress,
    truncated: bool,
}

/// A frame of a chain with its node, outermost first.
type KnownFrame = (CodeAddress, StackId);

/// All call chains seen so far.
#[derive(Default)]
pub struct StackTree {
    nodes: IndexMap<Key, StackId>,
    /// The last chain of each thread: consecutive samples mostly share their callers, which then need no look-up.
    last: HashMap<Tid, (bool, Vec<KnownFrame>)>,
}

impl StackTree {
    /// The id of a chain of `thread` given innermost first; new nodes are announced to `sink`, parents first.
    /// `complete` says whether its last frame is really the outermost one.
    pub fn intern(
        &mut self,
        thread: Tid,
        frames: &[CodeAddress],
        complete: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<StackId>, SinkError> {
        let full = self.nodes.len() >= MAX_NODES;
        let (frames, complete) =
            if full { (&frames[..frames.len().min(1)], false) } else { (frames, complete) };
        if self.last.len() > MAX_THREADS {
            self.last.clear();
        }
        let (last_complete, last) = self.last.entry(thread).or_default();
        let same = |(known, frame): &(&KnownFrame, &CodeAddress)| known.0 == **frame;
        let shared = if *last_complete == complete {
            last.iter().zip(frames.iter().rev()).take_while(same).count()
        } else {
            0
        };
        last.truncate(shared);
        *last_complete = complete;
        for frame in frames.iter().rev().skip(shared) {
            let parent = last.last().map(|(_, id)| *id);
            let truncated = parent.is_none() && !complete;
            let key = Key { parent, code: *frame, truncated };
            let next = StackId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
            let id = match self.nodes.entry(key) {
                std::collections::hash_map::Entry::Occupied(known) => *known.get(),
                std::collections::hash_map::Entry::Vacant(free) => {
                    let CodeAddress { module, offset } = *frame;
                    let node = StackNode { id: next, parent, module, offset, truncated };
                    sink.push(Fact::StackNode(node))?;
                    *free.insert(next)
                }
            };
            last.push((*frame, id));
        }
        Ok(last.last().map(|(_, id)| *id))
    }
}

#[cfg(test)]
mod tests {
    use base::{FileOffset, ModuleId};

    use super::*;

    #[test]
    fn chains_share_their_callers() {
        let mut tree = StackTree::default();
        let mut facts = Vec::new();
        let frame = |offset| CodeAddress::new(ModuleId(0), FileOffset(offset));
        let first = tree.intern(Tid(1), &[frame(3), frame(2), frame(1)], true, &mut facts).unwrap();
        let second =
            tree.intern(Tid(1), &[frame(4), frame(2), frame(1)], true, &mut facts).unwrap();
        let again = tree.intern(Tid(1), &[frame(3), frame(2), frame(1)], true, &mut facts).unwrap();
        assert_eq!(
            (first, second, again, facts.len()),
            (Some(StackId(2)), Some(StackId(3)), first, 4)
        );
        let elsewhere =
            tree.intern(Tid(2), &[frame(4), frame(2), frame(1)], true, &mut facts).unwrap();
        let shorter = tree.intern(Tid(1), &[frame(2), frame(1)], true, &mut facts).unwrap();
        assert_eq!((elsewhere, shorter, facts.len()), (second, Some(StackId(1)), 4));
        assert_eq!(tree.intern(Tid(1), &[], true, &mut facts).unwrap(), None);
    }

    #[test]
    fn a_cut_chain_says_so_at_its_outermost_node() {
        let mut facts = Vec::new();
        let chain = [2, 1].map(|offset| CodeAddress::new(ModuleId(0), FileOffset(offset)));
        StackTree::default().intern(Tid(1), &chain, false, &mut facts).unwrap();
        let truncated: Vec<bool> = facts
            .iter()
            .map(|fact| matches!(fact, Fact::StackNode(StackNode { truncated: true, .. })))
            .collect();
        assert_eq!(truncated, [true, false]);
    }
}
