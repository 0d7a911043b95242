//! Which row code belongs to, where rows are by function, source line, module or loop.
//!
//! What for: instructions of bursts and samples of time come to the same rows. What not: rows by thread, object or call stack.
//!
//! A loop is one of the machine code, with at least 0.5 % of the CPU time (`pace`); code of others belongs to the loop around
//! them. A loop has what is inlined into it, and not what it calls.

use std::collections::HashMap;

use base::CodeAddress;

use crate::hotspots::{Key, RowKey};
use crate::pace::{LoopName, LoopsInCode};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::{Code, FunctionId, LocationId};
use crate::weight::Weight;

/// Where code is among the loops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InLoop {
    /// In this loop, and in none of the loops inside of it.
    Loop(u32),
    /// In this function as compiled, outside of its loops.
    Outside(FunctionId),
}

/// How code is grouped.
pub struct CodeKeys<'a> {
    profile: &'a Profile<'a>,
    /// What by.
    pub keys: &'a [Key],
    loops: Option<&'a LoopsInCode>,
}

impl<'a> CodeKeys<'a> {
    /// No keys mean [`Key::Function`].
    #[must_use]
    pub fn new(profile: &'a Profile<'a>, keys: &'a [Key]) -> CodeKeys<'a> {
        let keys = if keys.is_empty() { &[Key::Function] } else { keys };
        let by_loop = keys.contains(&Key::Loop);
        let loops = by_loop.then(|| profile.loops());
        CodeKeys { profile, keys, loops }
    }

    /// The row of a traced instruction.
    pub(crate) fn at(&self, address: CodeAddress) -> (RowKey, LocationId) {
        let stacks = &self.profile.stacks;
        let place = stacks.place_at(address);
        let compiled = || stacks.compiled_at(address);
        (self.key(place, address, compiled), place)
    }

    fn key(
        &self,
        place: LocationId,
        address: CodeAddress,
        compiled: impl Fn() -> FunctionId,
    ) -> RowKey {
        let stacks = &self.profile.stacks;
        let key = RowKey::at(self.keys, stacks, place);
        let in_loop = self.loops.as_ref().map(|loops| match loops.around(address, |_| true) {
            Some(at) => InLoop::Loop(at as u32),
            None => InLoop::Outside(compiled()),
        });
        RowKey { in_loop, ..key }
    }

    /// Samples of the selection in the rows' own code, without what it calls and without the kernel.
    #[must_use]
    pub fn self_times(&self, selection: &Selection) -> HashMap<RowKey, Weight> {
        let stacks = &self.profile.stacks;
        let mut of_node: Vec<Option<RowKey>> = stacks.of_each_node(|_| None);
        for node in &self.profile.recording.stack_nodes {
            let Some(at) = stacks.find(node.id) else { continue };
            let place = stacks.innermost(Some(at));
            if stacks.module_of(place).code == Code::User && selection.has_place(place) {
                let compiled = || stacks.compiled_user(Some(at));
                of_node[at.index()] = Some(self.key(place, node.code_address(), compiled));
            }
        }
        let mut times: HashMap<RowKey, Weight> = HashMap::new();
        for cell in self.profile.cells(selection) {
            let key = cell.stack.and_then(|node| of_node[node.index()]);
            if let Some(key) = key {
                times.entry(key).or_default().merge(&cell.weight);
            }
        }
        times
    }

    /// The loop of a row by loop; `None` of code outside of loops.
    #[must_use]
    pub fn loop_of(&self, key: &RowKey) -> Option<&LoopName> {
        match (key.in_loop?, &self.loops) {
            (InLoop::Loop(at), Some(loops)) => Some(&loops.loops.get(at as usize)?.name),
            _ => None,
        }
    }
}
