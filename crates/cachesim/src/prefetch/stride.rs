//! A prefetcher that learns how far apart the misses of each instruction are (Intel's "IP-based stride prefetcher").
//!
//! Assumptions: it keeps one distance per site, for as many sites as there are; it counts in lines, not bytes; two
//! equal distances in a row convince it. Real tables hold some 24 to 64 instructions.

use crate::access::SiteId;

/// What it knows of a site.
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
        // Downwards is a large distance up: line numbers wrap.
        let distance = line.wrapping_sub(last);
        let convinced = distance == seen.distance && distance != 0;
        seen.distance = distance;
        convinced.then(|| line.wrapping_add(distance))
    }
}
