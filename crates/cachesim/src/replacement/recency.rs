//! The recency order of a set's ways: the LRU stack.
//!
//! Assumption: real caches approximate LRU; depths are told from the true order whatever the policy is.
//!
//! Up to 16 ways the order is a list of 4-bit way numbers in a word, most recent lowest, so that moving a way to the
//! front costs a few shifts and a victim is one. This is the simulator's innermost operation. Above (20-way
//! last levels, fully associative TLBs) it is a list of bytes.
//! Hazard: above the list's length the word holds leftovers. A way is found by its lowest occurrence, which is right
//! because each way of the set stands once below the length.

/// The longest order that fits a word.
pub const NARROW: usize = 16;

const LOW_BITS: u64 = 0x1111_1111_1111_1111;
const HIGH_BITS: u64 = 0x8888_8888_8888_8888;

/// Puts a way that is not in the order to its front.
#[inline]
pub fn push_narrow(order: &mut u64, way: usize) {
    *order = (*order << 4) | way as u64;
}

/// Moves a way that is in the order to its front, and tells where it was.
#[inline]
pub fn promote_narrow(order: &mut u64, way: usize) -> u8 {
    // The lowest nibble that is zero; borrows disturb only nibbles above it.
    let differs = *order ^ (LOW_BITS * way as u64);
    let zero = differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS;
    let at = zero.trailing_zeros() & !3;
    let newer = (1u64 << at) - 1;
    let older = !((newer << 4) | 15);
    *order = (*order & older) | ((*order & newer) << 4) | way as u64;
    (at / 4) as u8
}

/// The way at a depth below the order's length.
#[inline]
pub fn at_narrow(order: u64, depth: usize) -> usize {
    ((order >> (4 * depth)) & 15) as usize
}

/// [`push_narrow`] for a list of bytes of which the first `length` are in use.
pub fn push_wide(order: &mut [u8], length: usize, way: usize) {
    order.copy_within(..length, 1);
    order[0] = way as u8;
}

/// [`promote_narrow`] for a list of bytes.
pub fn promote_wide(order: &mut [u8], way: usize) -> u8 {
    let at = order.iter().position(|one| usize::from(*one) == way).unwrap_or(0);
    order.copy_within(..at, 1);
    order[0] = way as u8;
    at as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_agree() {
        let (mut narrow, mut wide) = (0xffff_ffff_ffff_ffff, [0u8; NARROW]);
        for way in 0..NARROW {
            push_narrow(&mut narrow, way);
            push_wide(&mut wide, way, way);
        }
        for step in 0..1000usize {
            let way = step * step / 7 % NARROW;
            assert_eq!(promote_narrow(&mut narrow, way), promote_wide(&mut wide, way));
            for (depth, way) in wide.iter().enumerate() {
                assert_eq!(at_narrow(narrow, depth), usize::from(*way));
            }
        }
    }

    #[test]
    fn leftovers_above_the_length_do_not_matter() {
        let mut order = 0;
        push_narrow(&mut order, 0);
        push_narrow(&mut order, 1);
        assert_eq!(promote_narrow(&mut order, 0), 1);
        assert_eq!([at_narrow(order, 0), at_narrow(order, 1)], [0, 1]);
    }
}
