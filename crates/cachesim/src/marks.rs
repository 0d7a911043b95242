//! A byte per way that distinguishes most lines: one vector comparison tests many ways.
//!
//! What not: certainty. Ways with equal marks are candidates; their entries decide. Marks of ways without a line are
//! stale. Assumption: the compiler vectorises `any`, as it does for plain x86-64. Finding the position costs more,
//! and only searches that find something need it.

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Marks of N ways, a multiple of 8.
#[derive(Clone, Copy, Debug)]
pub struct Marks<const N: usize>([u8; N]);

/// A byte that differs for most lines of a set (Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4).
#[inline]
pub fn mark(line: u64) -> u8 {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl<const N: usize> Default for Marks<N> {
    fn default() -> Marks<N> {
        Marks([0; N])
    }
}

impl<const N: usize> Marks<N> {
    /// Whether a way has the mark.
    #[inline]
    pub fn any(&self, mark: u8) -> bool {
        self.0.iter().fold(false, |found, one| found | (*one == mark))
    }

    /// The lowest way that has the mark and is the one sought.
    #[inline]
    pub fn find(&self, mark: u8, is_sought: impl Fn(usize) -> bool) -> Option<usize> {
        for (bytes, first) in self.0.as_chunks::<8>().0.iter().zip((0..).step_by(8)) {
            // Equal bytes become zero. A byte above a zero byte may be a false match, which the caller checks.
            let differs = u64::from_le_bytes(*bytes) ^ (LOW_BITS * u64::from(mark));
            let mut equal = differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS;
            while equal != 0 {
                let way = first + equal.trailing_zeros() as usize / 8;
                if is_sought(way) {
                    return Some(way);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    /// Gives a way below N its mark.
    #[inline]
    pub fn put(&mut self, way: usize, mark: u8) {
        self.0[way % N] = mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_have_it_are_found() {
        for step in 0..2000usize {
            let marks: Marks<16> =
                Marks(std::array::from_fn(|way| (step * (way + 1) / 7 % 5) as u8));
            for sought in 0..6 {
                let has = |way: usize| marks.0[way] == sought;
                let all: Vec<usize> = (0..16).filter(|way| has(*way)).collect();
                assert_eq!(marks.any(sought), !all.is_empty());
                assert_eq!(marks.find(sought, has), all.first().copied());
                for way in &all {
                    assert_eq!(marks.find(sought, |found| found == *way), Some(*way));
                }
            }
        }
    }
}
