//! The recency order of a set's ways: the LRU stack.
//!
//! Assumption: real caches approximate LRU; depths are told from the true order whatever the policy is.
//!
//! Up to 16 ways the order is a list of 4-bit way numbers in a word, most recent lowest, so that moving a way to the
//! front costs a few shifts and a victim is one. This is the simulator's innermost operation. Above (20-way
//! last levels, fully associative TLBs) it is a ring of bytes and the position at which it begins: a line that
//! makes room only moves the beginning.
//!
//! Ways that never held a line stand at the end, the lowest last, so that the oldest way is always the one to fill.
//! Hazard: above the list's length the word holds leftovers. A way is found by its lowest occurrence, which is right
//! because each way of the set stands once below the length.

/// The longest order that fits a word.
pub const NARROW: usize = 16;

const LOW_BITS: u64 = 0x1111_1111_1111_1111;
const HIGH_BITS: u64 = 0x8888_8888_8888_8888;

/// The order of a set of up to 16 ways that holds no line.
pub fn empty_narrow(ways: usize) -> u64 {
    (0..ways as u64).fold(0, |order, way| (order << 4) | way)
}

/// Moves the oldest of the ways to the front, and tells which it is.
#[inline]
pub fn renew_narrow(order: &mut u64, ways: usize) -> usize {
    let oldest = at_narrow(*order, ways - 1);
    *order = (*order << 4) | oldest as u64;
    oldest
}

/// Moves a way to the front, and tells where it was.
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

/// [`empty_narrow`] for a ring that begins at 0.
pub fn empty_wide(ring: &mut [u8]) {
    let ways = ring.len();
    ring.iter_mut().enumerate().for_each(|(at, way)| *way = (ways - 1 - at) as u8);
}

/// [`renew_narrow`] for a ring.
#[inline]
pub fn renew_wide(ring: &[u8], first: &mut u64) -> usize {
    *first = first.checked_sub(1).unwrap_or(ring.len() as u64 - 1);
    usize::from(ring[*first as usize])
}

/// [`promote_narrow`] for a ring.
#[inline]
pub fn promote_wide(ring: &mut [u8], first: u64, way: usize) -> u8 {
    let (mut moved, way) = (way as u8, way as u8);
    let (newer, older) = ring.split_at_mut(first as usize);
    // The ways newer than it move back by one.
    for (depth, at) in (0..).zip(older.iter_mut().chain(newer)) {
        std::mem::swap(at, &mut moved);
        if moved == way {
            return depth;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both orders of sets of the same ways.
    struct Both {
        narrow: u64,
        ring: Vec<u8>,
        first: u64,
    }

    impl Both {
        fn new(ways: usize) -> Both {
            let mut ring = vec![0; ways];
            empty_wide(&mut ring);
            Both { narrow: empty_narrow(ways), ring, first: 0 }
        }

        fn renew(&mut self) -> usize {
            let way = renew_narrow(&mut self.narrow, self.ring.len());
            assert_eq!(way, renew_wide(&self.ring, &mut self.first));
            way
        }

        fn promote(&mut self, way: usize) -> u8 {
            let depth = promote_narrow(&mut self.narrow, way);
            assert_eq!(depth, promote_wide(&mut self.ring, self.first, way));
            depth
        }

        fn check(&self) {
            let ways = self.ring.len();
            for depth in 0..ways {
                let way = self.ring[(self.first as usize + depth) % ways];
                assert_eq!(at_narrow(self.narrow, depth), usize::from(way));
            }
        }
    }

    #[test]
    fn both_orders_agree() {
        for ways in 1..=NARROW {
            let mut both = Both::new(ways);
            for step in 0..1000usize {
                if step % 3 == 0 {
                    both.renew();
                } else {
                    both.promote(step * step / 7 % ways);
                }
                both.check();
            }
        }
    }

    #[test]
    fn ways_are_filled_lowest_first_whatever_is_touched_meanwhile() {
        let mut both = Both::new(5);
        assert_eq!([both.renew(), both.renew()], [0, 1]);
        assert_eq!(both.promote(0), 1);
        assert_eq!(both.promote(0), 0);
        assert_eq!([both.renew(), both.renew(), both.renew()], [2, 3, 4]);
        assert_eq!([both.renew(), both.renew()], [1, 0]);
    }
}
