//! How many huge pages would hold so many bytes.
//!
//! Formula: bytes / page size, rounded up. What not: gaps. The allocator cannot place blocks without gaps, so it needs some
//! more pages.

use base::Bytes;
use facts::Metric;

/// Sizes of huge pages of x86-64: 2 MiB and 1 GiB.
pub const HUGE_PAGES: [Bytes; 2] = [Bytes(2 << 20), Bytes(1 << 30)];

/// Pages of each of [`HUGE_PAGES`] that would hold these bytes.
#[must_use]
pub fn huge_pages(bytes: &Metric) -> [Metric; 2] {
    HUGE_PAGES.map(|page| bytes.each("count", |bytes| (bytes / page.0 as f64).ceil()))
}
