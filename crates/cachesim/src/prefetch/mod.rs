//! Hardware prefetchers, as far as they change which lines come into caches.
//!
//! Assumptions of all: they watch the misses of L1 and fetch one line into L2 (and into the last level, as inclusion has
//! it), in time, and never over the border of a 4 KiB page, since the next page's physical address is not known (Intel
//! 64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching"). Real ones run further ahead
//! and throttle; without time in the model that would change only what is fetched in vain at the ends of streams.
//! Hazard: with unknown cold lines, a line that was prefetched first counts as present, so known hits in L2 are too
//! many where the true caches would have missed late.

mod stride;

use crate::access::SiteId;
use crate::config::Prefetch;

use self::stride::Strides;

const PAGE_BITS: u32 = 12;

/// A prefetcher with its memory.
#[derive(Clone, Debug)]
pub(crate) enum Prefetcher {
    Off,
    /// Every miss fetches the next line as well: the simplest of Intel's ("DCU prefetcher", "adjacent line").
    NextLine,
    Stride(Strides),
}

impl Prefetcher {
    pub fn new(kind: Prefetch) -> Prefetcher {
        match kind {
            Prefetch::None => Prefetcher::Off,
            Prefetch::NextLine => Prefetcher::NextLine,
            Prefetch::Stride => Prefetcher::Stride(Strides::default()),
        }
    }

    /// Begins anew.
    pub fn forget(&mut self) {
        if let Prefetcher::Stride(strides) = self {
            *strides = Strides::default();
        }
    }

    /// A line that L1 missed; which one to fetch besides. Lines have `1 << shift` bytes.
    #[inline]
    pub fn missed(&mut self, line: u64, site: SiteId, shift: u32) -> Option<u64> {
        let next = match self {
            Prefetcher::Off => return None,
            Prefetcher::NextLine => line.wrapping_add(1),
            Prefetcher::Stride(strides) => strides.missed(line, site)?,
        };
        let page = |line: u64| line >> (PAGE_BITS - shift);
        (next != line && page(next) == page(line)).then_some(next)
    }
}
