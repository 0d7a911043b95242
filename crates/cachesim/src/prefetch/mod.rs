//! Hardware prefetchers, as far as they change which lines are in caches.
//!
//! What not: when a prefetch arrives. Assumptions of all: they watch the misses of L1 and fetch one line into L2 (and
//! into the last level, depending on inclusion), in time, and never across a 4 KiB page border, because the next
//! page's physical address is unknown (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Data
//! Prefetching"). Real ones run further ahead and throttle. In a model without time, that would only change what is
//! fetched needlessly at the ends of streams.
//!
//! Hazard: with unknown cold lines, a line that was prefetched first counts as present. So there are too many known
//! hits in L2 where the true caches would have missed late.

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

    /// Resets it.
    pub fn forget(&mut self) {
        if let Prefetcher::Stride(strides) = self {
            *strides = Strides::default();
        }
    }

    /// Notes a line that L1 missed; returns the line to prefetch. Lines have `1 << shift` bytes.
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
