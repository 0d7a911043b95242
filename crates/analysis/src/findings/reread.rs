//! Which stored lines are read again in the same burst.
//!
//! What for: a non-temporal store saves the fetch of its line, but a read soon after has to fetch it: then nothing is saved.
//! What not: lines that are read before they are stored to; these are not fetched for the store alone.
//!
//! One line of each page is followed, at an offset that differs from page to page, so that a stream of gigabytes costs little.
//! Assumptions: what a burst of some milliseconds reads again would have stayed in a cache until then. With a buffer larger than
//! that, too much counts as read again, and the rule does not fire. Stores near the end of a burst are read later.

use std::collections::hash_map::Entry;

use base::IndexMap;
use facts::Burst;
use x86::Kind;

use crate::traced::{Execution, SiteIndex, Tool, Touch, TracedBlock, TracedCode};

const LINE: u64 = x86::LINE_BYTES as u64;
const PAGE: u64 = 4096;
/// At most so many steps of a run with long steps are looked at: enough to follow one line in 64.
const LONGEST: u64 = 1 << 16;

/// Lines that a site stored to before the burst read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stored {
    pub(super) lines: u64,
    /// Those of them that are read later in the burst.
    pub(super) read_again: u64,
}

/// What several tools saw of each site.
pub(super) fn together(sites: usize, tools: Vec<Vec<Stored>>) -> Vec<Stored> {
    tools.into_iter().fold(vec![Stored::default(); sites], |mut all, one| {
        for (sum, more) in all.iter_mut().zip(one) {
            sum.lines += more.lines;
            sum.read_again += more.read_again;
        }
        all
    })
}

pub(crate) struct Watcher<'a> {
    code: &'a TracedCode,
    pub(super) stored: Vec<Stored>,
    /// Lines of this burst: who stored to them, until they are read.
    lines: IndexMap<u64, Option<SiteIndex>>,
}

impl Tool for Watcher<'_> {
    type OfBurst = ();

    fn begin(&mut self, _: &Burst, _: usize) {
        self.lines.clear();
    }

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            let writes = match self.code.sites[access.site.index()].access.kind {
                Kind::Write => true,
                Kind::Read | Kind::ReadWrite => false,
                _ => continue,
            };
            execution.touches(access).for_each(|touch| {
                for_followed(touch, |line| self.touch(line, access.site, writes));
            });
        }
    }

    fn end(&mut self, _: &Burst) {}
}

impl<'a> Watcher<'a> {
    pub(super) fn new(code: &'a TracedCode) -> Watcher<'a> {
        let stored = vec![Stored::default(); code.sites.len()];
        Watcher { code, stored, lines: IndexMap::default() }
    }

    fn touch(&mut self, line: u64, site: SiteIndex, writes: bool) {
        match self.lines.entry(line) {
            Entry::Vacant(place) => {
                place.insert(writes.then_some(site));
                self.stored[site.index()].lines += u64::from(writes);
            }
            Entry::Occupied(mut known) if !writes => {
                if let Some(by) = known.get_mut().take() {
                    self.stored[by.index()].read_again += 1;
                }
            }
            Entry::Occupied(_) => {}
        }
    }
}

/// The line of a page that is followed (Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4).
fn followed(page: u64) -> u64 {
    page.wrapping_mul(PAGE / LINE).wrapping_add(page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

fn for_followed(touch: Touch, mut take: impl FnMut(u64)) {
    let Touch::Run { start, stride, count, bytes } = touch else { return };
    let way = stride.unsigned_abs();
    let last = u64::from(bytes.max(1)) - 1;
    if way <= LINE {
        let span = way.saturating_mul(count.saturating_sub(1));
        let low = if stride < 0 { start.saturating_sub(span) } else { start };
        let high = low.saturating_add(span).saturating_add(last);
        let lines = low / LINE..=high / LINE;
        let pages = (low / PAGE..=high / PAGE).take(LONGEST as usize);
        pages.map(followed).filter(|line| lines.contains(line)).for_each(take);
        return;
    }
    for step in 0..count.min(LONGEST) {
        let address = start.wrapping_add(stride.cast_unsigned().wrapping_mul(step));
        let line = address / LINE;
        if followed(address / PAGE) == line {
            take(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_each_page_is_followed_wherever_a_run_goes() {
        let count = |touch| {
            let mut lines = std::collections::HashSet::new();
            for_followed(touch, |line| assert!(lines.insert(line), "once each"));
            lines.len()
        };
        let run = |start, stride, count| Touch::Run { start, stride, count, bytes: 8 };
        assert_eq!(count(run(0x10_0000, 8, 512 * 100)), 100);
        assert_eq!(count(run(0x10_0000 + 8 * (512 * 100 - 1), -8, 512 * 100)), 100);
        assert_eq!(
            count(run(0x10_0000, 128, 32 * 1000)) + count(run(0x10_0040, 128, 32 * 1000)),
            1000
        );
        // By columns about one step in 64 meets one.
        let met = count(run(0x10_0000, 4096, 6400));
        assert!((50..200).contains(&met), "{met}");
        assert_eq!(count(Touch::Unknown { count: 9 }), 0);
        count(run(u64::MAX - 5, 64, 1000));
        count(run(5, -64, 1000));
    }
}
