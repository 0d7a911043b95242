//! A prefetcher that learns the stride between the misses of each instruction (Intel's "IP-based stride prefetcher").
//!
//! Assumptions: it keeps one stride per site, for any number of sites; real tables hold some 24 to 64 instructions.
//! It counts in lines, not bytes. Two equal strides in a row make it prefetch.

use crate::access::SiteId;

/// Its state of a site.
#[derive(Clone, Copy, Debug, Default)]
struct StrideEntry {
    /// `None` before the first miss.
    last: Option<u64>,
    distance: u64,
}

/// One entry per site.
#[derive(Clone, Debug, Default)]
pub struct Strides(Vec<StrideEntry>);

impl Strides {
    /// A miss of a site; the line to fetch.
    pub fn missed(&mut self, line: u64, site: SiteId) -> Option<u64> {
        let site = site.0 as usize;
        if site >= self.0.len() {
            self.0.resize(site + 1, StrideEntry::default());
        }
        let seen = &mut self.0[site];
        let last = seen.last.replace(line)?;
        // A negative stride is a large positive one: line numbers wrap.
        let distance = line.wrapping_sub(last);
        let convinced = distance == seen.distance && distance != 0;
        seen.distance = distance;
        convinced.then(|| line.wrapping_add(distance))
    }
}
