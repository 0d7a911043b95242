//! Which lines fetched from DRAM a prefetcher runs ahead of.
//!
//! What for: a program that waits for lines in a row waits for the rate at which they come, and one that waits for others for the
//! time that each takes. What not: timing.
//!
//! A fetched line follows another one if the last line fetched from its page of 4 KiB is at most two lines away. Prefetchers of
//! streams keep one entry per page ("one forward or backward stream per 4K page", 32 of them: Intel optimization manual, data
//! prefetching to L2; the stream and region prefetchers of AMD's Software Optimization Guide for family 19h, 2.12, likewise stay in
//! a page), and fetch lines in pairs.

/// Pages that are remembered, as a power of two: twice as many, because they are found by a hash.
const PAGES: u32 = 6;
/// Bits of the offset in a page.
const PAGE: u32 = 12;
/// Lines in a row are no further apart, because prefetchers fetch pairs.
const NEAR: u64 = 2;
const NONE: u64 = u64::MAX;

/// The last line that was fetched from each of some pages.
#[derive(Clone, Debug)]
pub(crate) struct Streams([u64; 1 << PAGES]);

impl Streams {
    pub(crate) fn new() -> Streams {
        Streams([NONE; 1 << PAGES])
    }

    /// Notes a fetched line of `1 << shift` bytes; whether it follows another one.
    #[inline]
    pub(crate) fn follows(&mut self, line: u64, shift: u32) -> bool {
        let in_page = PAGE.saturating_sub(shift);
        let page = line >> in_page;
        let last = &mut self.0[(base::mixed(page) >> (64 - PAGES)) as usize];
        let before = std::mem::replace(last, line);
        before >> in_page == page && before.abs_diff(line) <= NEAR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_a_row_follow_one_another_within_a_page() {
        let mut streams = Streams::new();
        let mut followed = |lines: &mut dyn Iterator<Item = u64>| {
            lines.filter(|line| streams.follows(*line, 6)).count()
        };
        // The first line of each of four pages follows none.
        assert_eq!(followed(&mut (1000 * 64..1004 * 64)), 4 * 63);
        assert_eq!(followed(&mut (2000 * 64..2004 * 64).rev().step_by(2)), 4 * 31);
        // Two arrays that lie 64 MiB apart.
        let both = (0..64).flat_map(|at| [(1 << 30) + at, (1 << 30) + (1 << 20) + at]);
        assert_eq!(followed(&mut both.into_iter()), 2 * 63);
        // Columns of a matrix, each line in another page, and lines anywhere.
        assert_eq!(followed(&mut (0..1000).map(|row| row * 200)), 0);
        assert!(followed(&mut (0..1000).map(|at| base::mixed(at) % (1 << 20))) < 5);
    }
}
