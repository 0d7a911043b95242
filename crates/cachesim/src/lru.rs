//! The replacement policy: least recently used (LRU). The order of a set's ways by their last touch, the *LRU stack*.
//!
//! What not: which lines are in the ways (`sets`).
//!
//! Assumption: real caches approximate LRU; depths come from the true order.
//!
//! With up to 16 ways the order is a list of 4-bit way numbers in a word, most recent lowest, so that moving a way to
//! the front and finding a victim cost a few shifts. This is the simulator's innermost operation. Above (20-way last
//! levels, fully associative TLBs) it is a ring of bytes and the position of its start: an eviction only moves the
//! start. Ways that never held a line are at the end, the lowest last, so that the oldest way is always the one to
//! fill.

/// A set's ways by recency. `ways` is the same number in all calls, from 1 to the most that the order holds.
pub trait Order: Copy + Default + std::fmt::Debug {
    /// The order of a set that holds no line.
    fn empty(ways: usize) -> Self;
    /// The most recent way.
    fn newest(&self) -> usize;
    /// The ways, most recent first.
    fn ways(&self, ways: usize) -> impl Iterator<Item = usize>;
    /// Moves the oldest way to the front, and returns it.
    fn renew(&mut self, ways: usize) -> usize;
    /// Moves a way to the front, and returns its earlier depth.
    fn promote(&mut self, way: usize, ways: usize) -> u8;
}

/// Up to 16 ways.
///
/// Hazard: above the list's length the word holds leftovers. A way is found by its lowest occurrence, which is right
/// because each way of the set stands once below the length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nibbles(u64);

/// Up to N ways, a power of two.
#[derive(Clone, Copy, Debug)]
pub struct Ring<const N: usize> {
    ways: [u8; N],
    /// The position of the most recent way; older ones follow, around the end.
    first: usize,
}

const LOW_BITS: u64 = 0x1111_1111_1111_1111;
const HIGH_BITS: u64 = 0x8888_8888_8888_8888;

impl Order for Nibbles {
    fn empty(ways: usize) -> Nibbles {
        Nibbles((0..ways as u64).fold(0, |order, way| (order << 4) | way))
    }

    #[inline]
    fn newest(&self) -> usize {
        (self.0 & 15) as usize
    }

    fn ways(&self, ways: usize) -> impl Iterator<Item = usize> {
        let order = self.0;
        (0..ways).map(move |depth| ((order >> (4 * depth)) & 15) as usize)
    }

    #[inline]
    fn renew(&mut self, ways: usize) -> usize {
        let oldest = (self.0 >> (4 * (ways - 1))) & 15;
        self.0 = (self.0 << 4) | oldest;
        oldest as usize
    }

    #[inline]
    fn promote(&mut self, way: usize, _: usize) -> u8 {
        // The lowest nibble that is zero; borrows affect only higher nibbles.
        let differs = self.0 ^ (LOW_BITS * way as u64);
        let zero = differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS;
        // The mark is the highest bit of its nibble: bits 0 and 1 of the position go.
        let at = zero.trailing_zeros() & 0x3c;
        let newer = (1u64 << at) - 1;
        let older = !((newer << 4) | 15);
        self.0 = (self.0 & older) | ((self.0 & newer) << 4) | way as u64;
        (at / 4) as u8
    }
}

impl<const N: usize> Default for Ring<N> {
    fn default() -> Ring<N> {
        Ring { ways: [0; N], first: 0 }
    }
}

impl<const N: usize> Order for Ring<N> {
    fn empty(ways: usize) -> Ring<N> {
        Ring { ways: std::array::from_fn(|at| (ways - 1).saturating_sub(at) as u8), first: 0 }
    }

    #[inline]
    fn newest(&self) -> usize {
        usize::from(self.ways[self.first % N])
    }

    fn ways(&self, ways: usize) -> impl Iterator<Item = usize> {
        let (late, early) = self.ways[..ways].split_at(self.first);
        early.iter().chain(late).map(|way| usize::from(*way))
    }

    #[inline]
    fn renew(&mut self, ways: usize) -> usize {
        self.first = if self.first == 0 { ways - 1 } else { self.first - 1 };
        self.newest()
    }

    #[inline]
    fn promote(&mut self, way: usize, ways: usize) -> u8 {
        let (mut moved, mut at, mut depth) = (way as u8, self.first, 0);
        // The ways newer than it move back by one.
        loop {
            std::mem::swap(&mut self.ways[at % N], &mut moved);
            if usize::from(moved) == way || usize::from(depth) == ways {
                return depth;
            }
            at = if at + 1 == ways { 0 } else { at + 1 };
            depth += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both orders of sets of the same ways.
    struct Both {
        ways: usize,
        nibbles: Nibbles,
        ring: Ring<32>,
    }

    impl Both {
        fn new(ways: usize) -> Both {
            Both { ways, nibbles: Nibbles::empty(ways), ring: Ring::empty(ways) }
        }

        fn renew(&mut self) -> usize {
            let way = self.nibbles.renew(self.ways);
            assert_eq!(way, self.ring.renew(self.ways));
            self.check();
            way
        }

        fn promote(&mut self, way: usize) -> u8 {
            let depth = self.nibbles.promote(way, self.ways);
            assert_eq!(depth, self.ring.promote(way, self.ways));
            self.check();
            depth
        }

        fn check(&self) {
            assert_eq!(self.nibbles.newest(), self.ring.newest());
            assert!(self.nibbles.ways(self.ways).eq(self.ring.ways(self.ways)));
        }
    }

    #[test]
    fn both_orders_agree() {
        for ways in 1..=16 {
            let mut both = Both::new(ways);
            for step in 0..1000usize {
                if step % 3 == 0 {
                    both.renew();
                } else {
                    both.promote(step * step / 7 % ways);
                }
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
