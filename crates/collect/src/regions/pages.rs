//! Pages drawn at random from a process's memory, with what lies behind them.
//!
//! What for: which of a program's memory the kernel gave it in huge pages, and on which NUMA nodes, by address: so
//! that a report can say it per object. What not: which object an address belongs to (`analysis`).
//!
//! Which pages: all ranges get equally many; pages that a small range does not have go to larger ones. A range is
//! divided into stretches of equal length, and one page is drawn in each, so that no pattern of nodes or huge pages
//! can coincide with the draw. A reservation that was never touched gets its part too, without result.
//!
//! Cost: one system call for all nodes, and one per page: 2 ms for 2048 pages. At most a thousandth of the time,
//! unless [`FEWEST`] pages take longer.

use base::{Bytes, Nanos, Pid, RemoteAddr};
use facts::Page;
use sys::process::{PageMap, nodes_of, page_size, thread_cpu_time};

use super::known::Range;

/// Pages per look, over all processes.
pub const MOST: usize = 2048;
/// Age of a process at its first look: what a program sets up at its start mostly exists by then.
const FIRST: Nanos = Nanos(20_000_000);
/// Fewest pages of a look, however slow the machine: fewer tell nothing.
const FEWEST: usize = 128;
/// A look may take this part of the time until the next.
const SHARE: u64 = 1000;
/// Where the next look would be later than this, it has fewer pages instead.
const LATEST: Nanos = Nanos(2_000_000_000);

/// When to look at a process's pages, and at how many.
pub struct PageLooks {
    next: Option<Nanos>,
    most: usize,
}

impl Default for PageLooks {
    fn default() -> PageLooks {
        PageLooks { next: None, most: MOST }
    }
}

impl PageLooks {
    /// Draws pages if that is due: at the first look, and whenever the age of the process has doubled. `processes`
    /// share a look.
    pub fn draw(
        &mut self,
        pid: Pid,
        (began, now): (Nanos, Nanos),
        ranges: &[Range],
        processes: usize,
    ) -> Vec<Page> {
        if now < *self.next.get_or_insert(began + FIRST) {
            return Vec::new();
        }
        let start = thread_cpu_time();
        let pages = draw(pid, now, ranges, self.most / processes.max(1));
        let took = thread_cpu_time() - start;
        self.next = Some(now + (now - began).max(self.wait(took)));
        pages
    }

    /// The least time until the next look after one that took this much CPU time; where that is long, later looks are
    /// smaller.
    fn wait(&mut self, took: Nanos) -> Nanos {
        let wait = took.0.saturating_mul(SHARE);
        if wait > LATEST.0 {
            let affordable = self.most as u128 * u128::from(LATEST.0) / u128::from(wait);
            self.most = usize::try_from(affordable).unwrap_or(MOST).clamp(FEWEST, MOST);
        }
        Nanos(wait.min(LATEST.0))
    }
}

/// Draws at most so many pages.
pub fn draw(pid: Pid, time: Nanos, ranges: &[Range], most: usize) -> Vec<Page> {
    let stretches = stretches(ranges, most);
    let drawn: Vec<RemoteAddr> = stretches.iter().map(|one| one.page(time)).collect();
    let nodes = nodes_of(pid, &drawn).ok();
    let map = PageMap::open(pid).ok();
    let mut pages = Vec::new();
    for (at, (stretch, address)) in stretches.iter().zip(drawn).enumerate() {
        let node = nodes.as_ref().and_then(|nodes| *nodes.get(at)?);
        if nodes.is_some() && node.is_none() {
            continue;
        }
        let huge = map.as_ref().and_then(|map| map.is_huge(address).ok().flatten());
        if node.is_some() || huge.is_some() {
            pages.push(Page { time, pid, address, stands_for: stretch.bytes(), huge, node });
        }
    }
    pages
}

/// Consecutive pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    start: RemoteAddr,
    pages: u64,
}

impl Stretch {
    fn bytes(self) -> Bytes {
        Bytes(self.pages.saturating_mul(page_size() as u64))
    }

    /// One page of it, another one at each look. The finaliser of MurmurHash3 (Appleby, public domain) draws it:
    /// every bit of the address and the time changes the result.
    fn page(self, time: Nanos) -> RemoteAddr {
        let key = self.start.0 ^ time.0.rotate_left(32);
        let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        let number = (key ^ key >> 33) % self.pages.max(1);
        RemoteAddr(self.start.0 + number * page_size() as u64)
    }
}

/// At most so many, by address.
fn stretches(ranges: &[Range], most: usize) -> Vec<Stretch> {
    let page = page_size() as u64;
    let pages_of = |range: &Range| (range.end.0 - range.start.0) / page;
    // Pages of the kernel, which it maps into every process.
    let of_kernel = |range: &&Range| range.backing.name.starts_with("[v");
    let mut by_size: Vec<&Range> = ranges.iter().filter(|range| !of_kernel(range)).collect();
    by_size.sort_by_key(|range| (pages_of(range), range.start));
    let (mut left, mut stretches) = (most as u64, Vec::new());
    for (at, range) in by_size.iter().enumerate() {
        let pages = pages_of(range);
        let count = pages.min(left / (by_size.len() - at) as u64);
        left -= count;
        // Below 2^52 pages and 2^12 stretches.
        let first = |number: u64| pages * number / count;
        stretches.extend((0..count).map(|number| Stretch {
            start: RemoteAddr(range.start.0 + first(number) * page),
            pages: first(number + 1) - first(number),
        }));
    }
    stretches.sort_by_key(|stretch| stretch.start);
    stretches
}

#[cfg(test)]
mod tests {
    use base::FileOffset;
    use facts::RegionKind;

    use super::super::known::Backing;
    use super::*;

    fn range(first: u64, pages: u64, name: &str) -> Range {
        let page = page_size() as u64;
        Range {
            start: RemoteAddr(first * page),
            end: RemoteAddr((first + pages) * page),
            offset: FileOffset(0),
            backing: Backing { kind: RegionKind::Anonymous, name: name.into(), page: None },
        }
    }

    #[test]
    fn after_a_slow_look_later_ones_are_smaller() {
        let mut looks = PageLooks::default();
        let took = |millis: u64| Nanos(millis * 1_000_000);
        assert_eq!((looks.wait(took(1)), looks.most), (took(1000), MOST));
        assert_eq!((looks.wait(took(20)), looks.most), (LATEST, MOST / 10));
        assert_eq!((looks.wait(took(1000)), looks.most), (LATEST, FEWEST));
    }

    /// 10 pages go to 2 + 3 + 5: what is asked of the smallest is less than its part.
    #[test]
    fn small_ranges_leave_the_rest_to_large_ones() {
        let ranges =
            [range(1000, 50, ""), range(1, 2, ""), range(10, 3, ""), range(90, 9, "[vvar]")];
        let found = stretches(&ranges, 10);
        let page = page_size() as u64;
        let shown: Vec<(u64, u64)> =
            found.iter().map(|one| (one.start.0 / page, one.pages)).collect();
        let large = (0..5).map(|number| (1000 + 10 * number, 10));
        let small = [(1, 1), (2, 1), (10, 1), (11, 1), (12, 1)];
        assert_eq!(shown, small.into_iter().chain(large).collect::<Vec<_>>());
        assert!(stretches(&ranges, 0).is_empty());
        // Where there are more ranges than pages, the largest get them.
        assert_eq!(stretches(&ranges, 1).len(), 1);
        assert_eq!(stretches(&ranges, 1)[0].pages, 50);
    }

    #[test]
    fn each_page_of_a_stretch_is_drawn_as_often() {
        let stretch = Stretch { start: RemoteAddr(1 << 30), pages: 4 };
        let mut counts = [0u32; 4];
        for look in 0..4000u64 {
            let page = stretch.page(Nanos(look * 1_000_003));
            counts[((page.0 - stretch.start.0) / page_size() as u64) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    /// Of one's own memory, what was written to is there, and an untouched mapping is not.
    #[test]
    fn only_pages_with_memory_are_reported() {
        let page = page_size();
        let memory = vec![1u8; 64 * page];
        let start = (memory.as_ptr() as usize).next_multiple_of(page) as u64;
        let own = Pid(std::process::id().cast_signed());
        let written = range(start / page as u64, 60, "");
        let never = range(1, 5, "");
        let pages = draw(own, Nanos(5), &[written, never], 100);
        if pages.is_empty() {
            println!("skipped: the kernel tells neither nodes nor huge pages here");
            return;
        }
        assert_eq!(pages.len(), 60, "{pages:?}");
        assert!(pages.iter().all(|one| one.stands_for == Bytes(page as u64)));
        assert!(pages.iter().zip(&memory).all(|(one, byte)| one.time == Nanos(5) && *byte == 1));
    }
}
