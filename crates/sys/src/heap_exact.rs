//! Layout of the heap's shared memory for recording every block: a process's region, and events. It follows the slots of `heap`.
//!
//! What for: crate `agent` unwinds by rules that the collector writes, names stacks by nodes of a tree that the agent
//! writes, and reports each block in 32 bytes. Both take the layout from here. What not: reading or writing.
//! Assumption: as in `heap`, neither side trusts what it reads.
//!
//! ```text
//! region      0                  word: nodes taken so far; may exceed NODES
//!             RULES_AT           RULES x (return address, rule); the address is 0 while the place is free
//!             NODES_AT           NODES x (return address, parent): nodes 0 and 1 are the roots of whole and of cut stacks
//!             INDEX_AT           INDEX x 32-bit number of a node; 0 while the place is free
//! rule        bits 0..2 kind, 3 caller's rbp was saved, 8..24 CFA from the base in words, signed,
//!             32..48 where rbp was saved, in words from the CFA, signed, 48..64 generation
//! event       length | kind << 16 | call << 24 | node << 32, time, address, bytes
//!             more than 32 bytes: likewise, then ip, sp, bp, the address without rule | generation << 48, stack bytes
//! ```
//! CFA: the stack pointer before the call pushed the return address (DWARF 5, 6.4). A rule gives the caller's
//! registers from those after a return: `rsp` is the CFA, and the return address is below it. A child of `fork` has
//! an empty region of its own. Unloading a library raises the generation: older rules no longer apply.

use super::heap;

/// Processes that have a region; blocks of others are recorded with a copied stack each.
pub const REGIONS: usize = 64;
/// Where the rules begin in a region.
pub const RULES_AT: usize = 4096;
/// Places for rules, a power of two.
pub const RULES: usize = 1 << 16;
/// Where the nodes begin in a region.
pub const NODES_AT: usize = RULES_AT + 16 * RULES;
/// Places for nodes.
pub const NODES: usize = 1 << 19;
/// Where the index of the nodes begins in a region.
pub const INDEX_AT: usize = NODES_AT + 16 * NODES;
/// Places of the index, a power of two.
pub const INDEX: usize = 2 * NODES;
/// Bytes of a region.
pub const REGION_BYTES: usize = INDEX_AT + 4 * INDEX;
/// Bytes of it all with regions. The file is sparse.
pub const TOTAL_BYTES: usize = heap::TOTAL_BYTES + REGIONS * REGION_BYTES;

/// Most places that are probed for a rule or node.
pub const MOST_PROBES: usize = 32;

/// Node: the root of stacks that were unwound to their end.
pub const ROOT: u32 = 0;
/// Node: the root of stacks that were not.
pub const CUT_ROOT: u32 = 1;
/// The first node that has a return address.
pub const FIRST_NODE: u32 = 2;
/// Node of an event that carries a copy of its stack instead.
pub const NO_NODE: u32 = u32::MAX;
/// Lower return addresses do not exist: a node with one stands for a generation (page 0 is never code).
pub const FIRST_ADDRESS: u64 = 4096;

/// Kind of a rule: the CFA is this far above the stack pointer.
pub const RULE_BY_SP: u64 = 1;
/// Kind of a rule: the CFA is this far above rbp.
pub const RULE_BY_BP: u64 = 2;
/// Kind of a rule: there is no caller.
pub const RULE_END: u64 = 3;
/// Kind of a rule: this is no code; the stack is cut before it.
pub const RULE_CUT: u64 = 4;
/// Kind of a rule: the CFA is the word at rbp plus the first offset; rbp was saved at rbp plus the second.
pub const RULE_BY_WORD: u64 = 5;
/// Bits of the kind.
pub const RULE_KIND: u64 = 7;
/// Bit of a rule: rbp was saved; else it is unchanged.
pub const RULE_SAVED: u64 = 8;

/// Kind of an event: a block was allocated.
pub const EVENT_ALLOCATED: u32 = 1;
/// Kind of an event: likewise, and it is large.
pub const EVENT_LARGE: u32 = 2;
/// Kind of an event: likewise, and it was drawn at random.
pub const EVENT_DRAWN: u32 = 3;
/// Kind of an event: a block was freed.
pub const EVENT_FREED: u32 = 4;
/// Bytes of an event.
pub const EVENT_BYTES: usize = 32;
/// Bytes of an event with a stack, without the stack.
pub const EVENT_STACK_BYTES: usize = 64;

/// Where the search for a return address begins among the rules.
#[must_use]
pub fn rule_place(address: u64) -> usize {
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize % RULES
}
