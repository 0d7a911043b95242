//! This process's region of the shared memory: rules for the caller of a piece of code, and names for call chains.
//!
//! What for: a rule is found by a return address, a node by its caller's node and a return address; nodes are created
//! here. What not: unwinding (`walk`), making rules (the collector does, from the unwind tables).
//!
//! Assumption: the collector or the program may have written anything here. A wrong rule leads to a wrong stack and
//! no further, because each address is checked before it is read. The collector checks node numbers.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::heap_exact as layout;

/// A mapped region.
#[derive(Clone, Copy)]
pub struct Region(*mut u8);

/// A number for the generation `generation` as two return addresses that no code has.
fn marks(generation: u64) -> [usize; 2] {
    const RANGE: u64 = layout::FIRST_ADDRESS - 1;
    [1 + (generation % RANGE) as usize, 1 + (generation / RANGE % RANGE) as usize]
}

impl Region {
    /// The region at `start`, of which all bytes are mapped for the life of the process; none for null.
    pub fn at(start: *mut u8) -> Option<Region> {
        (!start.is_null()).then_some(Region(start))
    }

    fn word(self, at: usize) -> &'static AtomicU64 {
        // Safety: callers stay inside of the region, and every table in it is aligned to 8 bytes.
        unsafe { AtomicU64::from_ptr(self.0.add(at).cast()) }
    }

    /// The rule for a return address, if it is of this generation.
    #[inline(always)]
    pub fn rule(self, address: usize, generation: u64) -> Option<u64> {
        let first = layout::rule_place(address as u64);
        for probe in 0..layout::MOST_PROBES {
            let at = layout::RULES_AT + 16 * ((first + probe) % layout::RULES);
            match self.word(at).load(Ordering::Acquire) {
                0 => return None,
                key if key == address as u64 => {
                    let rule = self.word(at + 8).load(Ordering::Relaxed);
                    return (rule >> 48 == generation & 0xffff).then_some(rule);
                }
                _ => {}
            }
        }
        None
    }

    /// The root of whole or of cut stacks in a generation; `None` when the tree is full.
    pub fn root(self, cut: bool, generation: u64) -> Option<u32> {
        let root = if cut { layout::CUT_ROOT } else { layout::ROOT };
        if generation == 0 {
            return Some(root);
        }
        let [low, high] = marks(generation);
        self.child(root, low).and_then(|node| self.child(node, high))
    }

    /// The node of a frame under its caller's node, created if needed; `None` if the tree is full.
    #[inline(always)]
    pub fn child(self, parent: u32, address: usize) -> Option<u32> {
        let mixed = (address as u64 ^ u64::from(parent) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let first = (mixed ^ mixed.rotate_left(29).wrapping_mul(0xD6E8_FEB8_6659_FD93)) >> 44;
        let mut mine = None;
        for probe in 0..layout::MOST_PROBES {
            let at = layout::INDEX_AT + 4 * ((first as usize + probe) % layout::INDEX);
            // Safety: inside of the index, which is aligned.
            let entry = unsafe { AtomicU32::from_ptr(self.0.add(at).cast()) };
            let mut found = entry.load(Ordering::Acquire);
            if found == 0 {
                let number = match mine {
                    Some(number) => number,
                    None => self.new_node(parent, address)?,
                };
                mine = Some(number);
                match entry.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Some(number),
                    // If the other thread entered the same frame, our number stays unused: threads rarely collide
                    // here.
                    Err(other) => found = other,
                }
            }
            if self.is(found, parent, address) {
                return Some(found);
            }
        }
        None
    }

    #[inline(always)]
    fn is(self, node: u32, parent: u32, address: usize) -> bool {
        if node as usize >= layout::NODES {
            return false;
        }
        let at = layout::NODES_AT + 16 * node as usize;
        self.word(at).load(Ordering::Relaxed) == address as u64
            && self.word(at + 8).load(Ordering::Relaxed) == u64::from(parent)
    }

    #[cold]
    fn new_node(self, parent: u32, address: usize) -> Option<u32> {
        let taken = self.word(0);
        // Looked at first, so that the count does not grow without end.
        if taken.load(Ordering::Relaxed) >= (layout::NODES - layout::FIRST_NODE as usize) as u64 {
            return None;
        }
        let number = taken.fetch_add(1, Ordering::Relaxed) as usize + layout::FIRST_NODE as usize;
        if number >= layout::NODES {
            return None;
        }
        let at = layout::NODES_AT + 16 * number;
        self.word(at + 8).store(u64::from(parent), Ordering::Relaxed);
        self.word(at).store(address as u64, Ordering::Relaxed);
        Some(number as u32)
    }
}
