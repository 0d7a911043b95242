//! The function that allocated a block, with C++'s `new` distinguished from the `malloc` that it calls.

use facts::AllocationCall;

use crate::hotspots::Key;
use crate::stack::{NodeIndex, Stacks};

/// How a block was asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AskedBy {
    /// By a function of a library.
    Call(AllocationCall),
    /// By C++'s `operator new`, of whatever kind.
    New,
}

impl AskedBy {
    /// By the call and the innermost frame outside the agent: a function that called `malloc` for its caller.
    fn of(stacks: &Stacks, stack: Option<NodeIndex>, call: AllocationCall) -> AskedBy {
        let place = stacks.innermost(stack);
        if is_new(&stacks.function_of(place).name) { AskedBy::New } else { AskedBy::Call(call) }
    }

    /// The part of a row's key.
    pub(super) fn key(
        keys: &[Key],
        stacks: &Stacks,
        stack: Option<NodeIndex>,
        call: AllocationCall,
    ) -> Option<AskedBy> {
        keys.contains(&Key::Call).then(|| AskedBy::of(stacks, stack, call))
    }

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AskedBy::New => "new",
            AskedBy::Call(AllocationCall::Malloc) => "malloc",
            AskedBy::Call(AllocationCall::Calloc) => "calloc",
            AskedBy::Call(AllocationCall::Realloc) => "realloc",
            AskedBy::Call(AllocationCall::Aligned) => "aligned",
            AskedBy::Call(AllocationCall::Persistent) => "persistent",
        }
    }
}

/// Whether a function is one of C++'s `operator new` and `operator new[]`.
fn is_new(function: &str) -> bool {
    function.starts_with("operator new")
}
