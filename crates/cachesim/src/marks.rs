//! A byte per way that tells most lines apart, 16 ways in one comparison.
//!
//! What not: certainty. Ways with equal marks are candidates; their entries decide. Marks of ways that hold no line are
//! leftovers.
//! Assumption: the compiler makes one vector comparison of `any`, as it does for x86-64 without further features; the
//! position takes more, and only searches that find something need it.

/// Ways whose marks lie together.
pub const LANES: usize = 16;

const LOW_BITS: u128 = u128::from_le_bytes([1; LANES]);
const HIGH_BITS: u128 = u128::from_le_bytes([0x80; LANES]);

/// Marks of up to 16 ways.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
pub struct Marks([u8; LANES]);

/// A byte that differs for most lines of a set (Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4).
#[inline]
pub fn mark(line: u64) -> u8 {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Marks {
    /// Whether a way has the mark.
    #[inline]
    pub fn any(&self, mark: u8) -> bool {
        self.0.iter().fold(false, |found, one| found | (*one == mark))
    }

    /// The ways that may have the mark, lowest first; all that have it are among them.
    #[inline]
    pub fn candidates(&self, mark: u8) -> impl Iterator<Item = usize> {
        // Bytes that are equal become zero. Those above a zero byte may be found falsely.
        let differs = u128::from_le_bytes(self.0) ^ (LOW_BITS * u128::from(mark));
        let mut equal = differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS;
        std::iter::from_fn(move || {
            let way = (equal != 0).then(|| equal.trailing_zeros() as usize / 8);
            equal &= equal.wrapping_sub(1);
            way
        })
    }

    /// Gives a way below 16 its mark.
    #[inline]
    pub fn put(&mut self, way: usize, mark: u8) {
        self.0[way % LANES] = mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_have_it_are_candidates() {
        for step in 0..2000usize {
            let marks = Marks(std::array::from_fn(|way| (step * (way + 1) / 7 % 5) as u8));
            for sought in 0..6 {
                let found: Vec<usize> = marks.candidates(sought).collect();
                let has = |way: &usize| marks.0[*way] == sought;
                assert_eq!(marks.any(sought), (0..LANES).any(|way| has(&way)));
                assert!((0..LANES).filter(has).all(|way| found.contains(&way)));
                assert!(!marks.any(sought) || found.first().is_some_and(has));
            }
        }
    }
}
