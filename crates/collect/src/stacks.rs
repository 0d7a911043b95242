//! The stack tree: call chains stored once, however many samples share them.

use std::collections::HashMap;

use base::{FileOffset, ModuleId, StackId};
use facts::{Fact, Sink, SinkError, StackNode};

/// Beyond this many nodes only the innermost frame of a new chain is kept, so that memory stays bounded
/// (about 60 bytes a node). A program gets there only with very deep, very varied recursion.
const MAX_NODES: usize = 400_000;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    parent: Option<StackId>,
    module: ModuleId,
    offset: FileOffset,
    truncated: bool,
}

/// All call chains seen so far.
#[derive(Default)]
pub struct StackTree {
    nodes: HashMap<Key, StackId>,
}

impl StackTree {
    /// The id of a chain given innermost first; new nodes are announced to `sink`, parents first.
    /// `complete` says whether its last frame is really the outermost one.
    pub fn intern(
        &mut self,
        frames: &[(ModuleId, FileOffset)],
        complete: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<StackId>, SinkError> {
        let full = self.nodes.len() >= MAX_NODES;
        let (frames, complete) =
            if full { (&frames[..frames.len().min(1)], false) } else { (frames, complete) };
        let mut parent = None;
        for (module, offset) in frames.iter().rev() {
            let truncated = parent.is_none() && !complete;
            let key = Key { parent, module: *module, offset: *offset, truncated };
            let next = StackId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
            let id = match self.nodes.entry(key) {
                std::collections::hash_map::Entry::Occupied(known) => *known.get(),
                std::collections::hash_map::Entry::Vacant(free) => {
                    let node =
                        StackNode { id: next, parent, module: *module, offset: *offset, truncated };
                    sink.push(Fact::StackNode(node))?;
                    *free.insert(next)
                }
            };
            parent = Some(id);
        }
        Ok(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_share_their_callers() {
        let mut tree = StackTree::default();
        let mut facts = Vec::new();
        let frame = |offset| (ModuleId(0), FileOffset(offset));
        let first = tree.intern(&[frame(3), frame(2), frame(1)], true, &mut facts).unwrap();
        let second = tree.intern(&[frame(4), frame(2), frame(1)], true, &mut facts).unwrap();
        let again = tree.intern(&[frame(3), frame(2), frame(1)], true, &mut facts).unwrap();
        assert_eq!(
            (first, second, again, facts.len()),
            (Some(StackId(2)), Some(StackId(3)), first, 4)
        );
        assert_eq!(tree.intern(&[], true, &mut facts).unwrap(), None);
    }

    #[test]
    fn a_cut_chain_says_so_at_its_outermost_node() {
        let mut facts = Vec::new();
        let chain = [(ModuleId(0), FileOffset(2)), (ModuleId(0), FileOffset(1))];
        StackTree::default().intern(&chain, false, &mut facts).unwrap();
        let truncated: Vec<bool> = facts
            .iter()
            .map(|fact| matches!(fact, Fact::StackNode(StackNode { truncated: true, .. })))
            .collect();
        assert_eq!(truncated, [true, false]);
    }
}
