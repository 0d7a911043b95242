//! What tests look for among the facts of an import.
//!
//! What not: files to import (`common`).

use facts::{Fact, Sample, StackNode};

/// The clock samples.
pub fn samples(facts: &[Fact]) -> Vec<Sample> {
    let sample = |fact: &Fact| match fact {
        Fact::Sample(sample) => Some(*sample),
        _ => None,
    };
    facts.iter().filter_map(sample).collect()
}

/// The nodes of their stacks.
pub fn stack_nodes(facts: &[Fact]) -> Vec<&StackNode> {
    facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::StackNode(node) => Some(node),
            _ => None,
        })
        .collect()
}
