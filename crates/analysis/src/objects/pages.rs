//! The pages behind the memory of objects: huge pages, and NUMA nodes.
//!
//! What for: shares of each object's memory, from pages drawn at random in snapshots of the program. An object has the pages of the
//! last snapshot in which it had any: what the kernel gave it by then. What not: memory that was never touched, which has no
//! page; objects of less than a page, unless one begins on it.
//!
//! Interval: Wilson's with the effective number of draws (Kish: a page represents the stretch it was drawn from). The pages of one
//! huge page are alike, so only as many draws count as there are huge pages among them.
//! Assumption: a huge page has 2 MiB, as on x86-64 and on AArch64 with base pages of 4 KiB.

use std::collections::{BTreeMap, BTreeSet};

use base::{Nanos, NodeId, Pid};
use facts::{Evidence, Metric, Page};

use super::{ObjectId, Objects};
use crate::profile::Profile;
use estimate::interval::{effective_count, wilson};

/// Bytes of a huge page.
pub const HUGE_PAGE: u64 = 2 << 20;
/// Why a result has no pages at all.
const NO_LOOK: &str = "its pages were not sampled: the program ended within milliseconds, reading them was not \
                permitted, or the result is of an earlier version";
const NOT_DRAWN: &str = "none of its pages was sampled: it is small, or has no resident memory";
const NOT_REPORTED: &str = "this kernel does not report it: Linux 6.7 and later do";
const NO_NODES: &str =
    "the kernel does not report it: it has no NUMA support, or does not permit the call";

/// The pages behind the memory of an object.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectPages {
    /// Share of its memory in huge pages, percent.
    pub huge: Metric,
    /// Share of its memory on each NUMA node, percent, largest first; or why that is unknown.
    pub nodes: Result<Vec<(NodeId, Metric)>, String>,
}

impl ObjectPages {
    /// Of an object of which no page was drawn.
    #[must_use]
    pub fn unknown(profile: &Profile<'_>) -> ObjectPages {
        let why = if profile.recording.pages.is_empty() { NO_LOOK } else { NOT_DRAWN };
        ObjectPages { huge: Metric::unavailable("percent", why), nodes: Err(why.to_owned()) }
    }
}

/// Of each object that pages were drawn of.
pub(super) fn object_pages(
    profile: &Profile<'_>,
    objects: &Objects,
) -> BTreeMap<ObjectId, ObjectPages> {
    let mut drawn: BTreeMap<(ObjectId, Pid), Vec<&Page>> = BTreeMap::new();
    for page in &profile.recording.pages {
        let object = objects.at(page.pid, page.address, page.time).0;
        drawn.entry((object, page.pid)).or_default().push(page);
    }
    let mut last: BTreeMap<ObjectId, Vec<&Page>> = BTreeMap::new();
    for ((object, _), mut pages) in drawn {
        let snapshot = pages.iter().map(|page| page.time).max();
        pages.retain(|page| Some(page.time) == snapshot);
        last.entry(object).or_default().extend(pages);
    }
    last.into_iter().map(|(object, pages)| (object, of_pages(&pages))).collect()
}

fn of_pages(pages: &[&Page]) -> ObjectPages {
    let known: Vec<&Page> = pages.iter().copied().filter(|page| page.huge.is_some()).collect();
    let huge = match known.is_empty() {
        true => Metric::unavailable("percent", NOT_REPORTED),
        false => {
            let areas: BTreeSet<(Pid, u64)> =
                known.iter().map(|page| (page.pid, page.address.0 / HUGE_PAGE)).collect();
            share(&known, areas.len(), |page| page.huge == Some(true))
        }
    };
    let placed: Vec<&Page> = pages.iter().copied().filter(|page| page.node.is_some()).collect();
    let nodes: BTreeSet<NodeId> = placed.iter().filter_map(|page| page.node).collect();
    let mut nodes: Vec<(NodeId, Metric)> = nodes
        .into_iter()
        .map(|node| (node, share(&placed, placed.len(), |page| page.node == Some(node))))
        .collect();
    nodes.sort_by(|(_, a), (_, b)| b.value.unwrap_or(0.0).total_cmp(&a.value.unwrap_or(0.0)));
    let nodes = if nodes.is_empty() { Err(NO_NODES.to_owned()) } else { Ok(nodes) };
    ObjectPages { huge, nodes }
}

/// The share of the chosen pages, by what they represent, percent; they count as at most `most` independent ones.
fn share(pages: &[&Page], most: usize, chosen: impl Fn(&Page) -> bool) -> Metric {
    let weight = |page: &&&Page| page.stands_for.0 as f64;
    let all: f64 = pages.iter().map(|page| weight(&page)).sum();
    let squares: f64 = pages.iter().map(|page| weight(&page).powi(2)).sum();
    let part: f64 = pages.iter().filter(|page| chosen(page)).map(|page| weight(&page)).sum();
    let share = part / all.max(1.0);
    let (low, high) = wilson(share, effective_count(all, squares).min(most as f64));
    let interval = (low * 100.0, high * 100.0);
    let snapshot = pages.iter().map(|page| page.time).max().unwrap_or(Nanos(0));
    let (value, count) = (share * 100.0, pages.len() as u64);
    Metric::with_interval(Evidence::Sampled, value, "percent", interval, count)
        .noted(&format!("of its memory {:.1} s after the start", snapshot.seconds()))
}

#[cfg(test)]
mod tests {
    use base::{Bytes, RemoteAddr};

    use super::*;

    fn page(time: u64, address: u64, huge: Option<bool>, node: Option<u32>) -> Page {
        let (address, stands_for) = (RemoteAddr(address), Bytes(4096));
        Page { time: Nanos(time), pid: Pid(1), address, stands_for, huge, node: node.map(NodeId) }
    }

    #[test]
    fn a_page_counts_as_much_as_it_stands_for() {
        let one = page(9, 0, Some(true), Some(0));
        let other =
            Page { stands_for: Bytes(3 * 4096), ..page(9, HUGE_PAGE, Some(false), Some(2)) };
        let found = of_pages(&[&one, &other]);
        assert_eq!((found.huge.value, found.huge.samples), (Some(25.0), 2));
        assert_eq!(found.huge.evidence, Some(Evidence::Sampled));
        let nodes = found.nodes.expect("both have a node");
        assert_eq!(nodes[0].0, NodeId(2));
        assert_eq!((nodes[0].1.value, nodes[1].1.value), (Some(75.0), Some(25.0)));
    }

    /// 512 pages of one huge page count as one observation of huge pages, but as 512 of their nodes.
    #[test]
    fn pages_of_one_huge_page_are_one_draw() {
        let pages: Vec<Page> =
            (0..512).map(|number| page(9, number * 4096, Some(true), Some(0))).collect();
        let found = of_pages(&pages.iter().collect::<Vec<_>>());
        assert_eq!((found.huge.value, found.huge.high), (Some(100.0), Some(100.0)));
        assert!(found.huge.low.is_some_and(|low| low < 50.0), "{:?}", found.huge);
        let nodes = found.nodes.expect("all have a node");
        assert!(nodes[0].1.low.is_some_and(|low| low > 99.0), "{nodes:?}");
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_not_available() {
        let found = of_pages(&[&page(9, 0, None, None)]);
        assert_eq!(found.huge, Metric::unavailable("percent", NOT_REPORTED));
        assert_eq!(found.nodes, Err(NO_NODES.to_owned()));
    }
}
