//! Random orders of runs that are compared with each other (`scale`, `try`).
//!
//! What for: drift of the machine, and what one run leaves to the next, then affect all alike.
//! What not: cryptography; the numbers are predictable.

/// Random orders; the seed is not 0, and one that is fixed repeats a sweep as it was.
pub struct Order(pub u64);

impl Order {
    /// All positions below `count`, by Fisher and Yates (Durstenfeld, CACM 7 (1964) 420).
    pub fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            // Xorshift64 (Marsaglia, J. Stat. Software 8 (2003) 14).
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            order.swap(last, (self.0 % (last as u64 + 1)) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_have_every_position_once() {
        let mut order = Order(1);
        let first = order.shuffled(6);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        assert!((0..8).any(|_| order.shuffled(6) != first));
    }
}
