//! Events written by hand, and the sums they must come to.

use super::*;

fn event(time: u64, kind: u32, slot: u32, address: u64, size: u64, node: u32) -> Event {
    Event { time, process: 0, slot, tid: Tid(1), address, size, kind, call: 0, node }
}

/// Sums of the sites that allocate.
fn sums(aggregator: &mut Aggregator) -> Vec<Sums> {
    let changes = aggregator.take().sites.into_iter();
    let asks = |site: &SiteId| aggregator.sites[site.0 as usize].call != CALL_FREE;
    changes.filter(|(site, _)| asks(site)).map(|(_, sums)| sums).collect()
}

use layout::{EVENT_ALLOCATED as NEW, EVENT_FREED as FREE};

#[test]
fn blocks_are_followed_to_their_end() {
    let mut aggregator = Aggregator::default();
    for event in [
        event(10, NEW, 0, 0x100, 8, 5),
        event(11, NEW, 0, 0x200, 100, 6),
        event(13, FREE, 0, 0x200, 0, 7),
        event(15, NEW, 0, 0x200, 2, 5),
        event(20, FREE, 1, 0x100, 0, 7),
    ] {
        aggregator.add(&event);
    }
    let changes = sums(&mut aggregator);
    let [first, second] = changes[..] else { panic!("{changes:?}") };
    assert_eq!((first.allocations, first.allocated, first.frees, first.live), (2, 10, 1, 2));
    // The peak was 108, with 8 of the first.
    assert_eq!((first.at_peak, second.at_peak), (8, 100));
    assert_eq!((first.lifetime, second.lifetime), (10, 2));
    assert_eq!((first.temporary, second.temporary), (0, 1));
    assert!(sums(&mut aggregator).is_empty());
}

#[test]
fn lifetimes_are_distinguished_by_their_digits() {
    let mut aggregator = Aggregator::default();
    // A stamp is two nanoseconds.
    aggregator.set_scale(2 << 32);
    for (address, lifetime) in (1..).zip([0, 1, 4, 7, 1 << 40]) {
        aggregator.add(&event(100, NEW, 0, 0x100 * address, 8, 5));
        if lifetime == 7 {
            // Another one in between: the block is not temporary.
            aggregator.add(&event(100, NEW, 0, 0x10, 8, 6));
        }
        aggregator.add(&event(100 + lifetime, FREE, 0, 0x100 * address, 0, 7));
    }
    let lived = aggregator.take().lived.into_iter();
    let lived: Vec<_> =
        lived.map(|part| (lifetime_class(part.part), part.blocks, part.bytes.0)).collect();
    assert_eq!(
        lived,
        [
            ((0, true), 1, 8),
            ((3, true), 1, 8),
            ((15, false), 1, 8),
            ((15, true), 1, 8),
            ((4 * (1 << 40) - 1, true), 1, 8),
        ]
    );
    assert!(aggregator.take().lived.is_empty());
}

#[test]
fn calls_of_one_stack_are_distinguished() {
    let mut aggregator = Aggregator::default();
    let calls = [heap::CALL_MALLOC, heap::CALL_ALIGNED, heap::CALL_PERSISTENT];
    for (address, call) in (1..).zip(calls) {
        let event = Event { call: call as u8, ..event(address, NEW, 0, 0x100 * address, 8, 5) };
        aggregator.add(&event);
    }
    let sites: Vec<u8> = aggregator.new_sites().iter().map(|site| site.call).collect();
    assert_eq!(sites, [0, 3, CALL_PERSISTENT]);
}

#[test]
fn two_threads_at_one_address_may_come_in_the_wrong_order() {
    let mut aggregator = Aggregator::default();
    for event in [
        // Freed by another thread before it was allocated, as it seems.
        event(9, FREE, 1, 0x100, 0, 7),
        event(10, NEW, 0, 0x100, 8, 5),
        // Allocated anew before it was freed.
        event(11, NEW, 0, 0x200, 16, 5),
        event(12, NEW, 1, 0x200, 32, 6),
        event(13, FREE, 0, 0x200, 0, 7),
    ] {
        aggregator.add(&event);
    }
    let changes = sums(&mut aggregator);
    let [first, second] = changes[..] else { panic!("{changes:?}") };
    assert_eq!((first.frees, first.freed, first.live), (2, 24, 0));
    assert_eq!((second.frees, second.live), (0, 32));
    assert!(aggregator.early.is_empty() && aggregator.displaced.is_empty());
}

#[test]
fn the_share_at_the_peak_is_of_the_last_peak() {
    let mut aggregator = Aggregator::default();
    aggregator.add(&event(1, NEW, 0, 0x100, 50, 5));
    aggregator.add(&event(2, NEW, 0, 0x200, 50, 6));
    assert_eq!(sums(&mut aggregator).iter().map(|sums| sums.at_peak).sum::<u64>(), 100);
    // A later and higher one, of which the first site is no part.
    aggregator.add(&event(3, FREE, 0, 0x100, 0, 7));
    aggregator.add(&event(4, NEW, 0, 0x300, 80, 6));
    let changes = sums(&mut aggregator);
    assert_eq!(changes.iter().map(|sums| sums.at_peak).collect::<Vec<_>>(), [0, 130]);
}
