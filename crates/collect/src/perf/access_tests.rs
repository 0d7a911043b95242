//! Memory accesses that PEBS and IBS sample, on the simulated kernel: from the open to facts.
//!
//! What for: stores, operations that are no accesses, the sizes of pages, what is lost and throttled of them. What not: what words and
//! registers say (`crate::accesses`), loads with their latency (`super`).

use sys::perf::Flag;

use super::*;

const STORES: u64 = 0x2cd;
const IBS: u32 = 11;
/// `cnt_ctl`: operations are counted.
const OPERATIONS: u64 = 1 << 19;
/// Parts of `perf_mem_data_src` (include/uapi/linux/perf_event.h).
const LOAD: u64 = 2;
const STORE: u64 = 4;
const HIT: u64 = 2 << 5;
const MISS: u64 = 4 << 5;
const L1: u64 = 8 << 5 | 1 << 33;
const DRAM: u64 = 0x80 << 5 | 0xd << 33;
const HEAP: u64 = 0x7f00_0000;

fn stores() -> Choice {
    Choice { carries: Carried::Access { leader: None }, ..choice("cpu/mem-stores/", STORES) }
}

fn operations() -> Choice {
    Choice { pmu: IBS, carries: Carried::IbsAccess, ..choice("ibs_op/cnt_ctl=1/", OPERATIONS) }
}

/// What follows a sample's stack: weight, source of the data, size of the page.
type Described = [u64; 3];

/// A sample of event `id` at an address.
fn accessed(id: u64, time: u64, address: u64, described: &[u64]) -> Vec<u64> {
    let mut words = sample(id, time, 0, 0x40_1010, 1000);
    words[4] = address;
    words.extend(described);
    words
}

type Found = (AccessKind, Option<u64>, Option<u32>, Option<DataSource>, Option<u64>);

fn found(facts: &[Fact]) -> Vec<Found> {
    let one = |fact: &Fact| match fact {
        Fact::MemorySample(one) => Some((
            one.access,
            one.address.map(|address| address.0),
            one.latency,
            one.from,
            one.page.map(|page| page.0),
        )),
        _ => None,
    };
    facts.iter().filter_map(one).collect()
}

/// The kernel as it answers `perf_event_open` on cores with PEBS: exact accesses only (`precise_ip`).
#[test]
fn stores_of_pebs_have_their_page_and_no_latency() {
    let described: [(u64, Described); 3] = [
        (HEAP, [0, STORE | HIT | L1, 4096]),
        // As ds.c says it of a store that missed L1; the page is a huge one.
        (HEAP + 64, [0, STORE | MISS | L1, 2 << 20]),
        // The page was gone when the kernel looked.
        (HEAP + 128, [0, STORE | HIT | L1, 0]),
    ];
    let (facts, notes) = recorded(accept, &[0], vec![stores()], |start| {
        let id = id_of(RAW, STORES, 0);
        for (at, (address, words)) in (1..).zip(described) {
            on_event(1, |ring| ring.record(9, &accessed(id, start + at, address, &words)));
        }
    });
    assert_eq!(notes, [""; 0]);
    let store = |address, from, page| (AccessKind::Store, Some(address), None, Some(from), page);
    assert_eq!(
        found(&facts),
        [
            store(HEAP, DataSource::L1, Some(4096)),
            store(HEAP + 64, DataSource::BeyondL1, Some(2 << 20)),
            store(HEAP + 128, DataSource::L1, None),
        ]
    );
    assert_eq!(counted(&facts).len(), 3);
}

/// Linux before 5.11 refuses the field: the samples have all the rest.
#[test]
fn a_kernel_without_sizes_of_pages_gives_the_accesses() {
    let kernel: FakeOpen = |attr, target| match attr.has_page_sizes() {
        true => refuse(EINVAL),
        false => accept(attr, target),
    };
    let (facts, notes) = recorded(kernel, &[0], vec![stores()], |start| {
        let id = id_of(RAW, STORES, 0);
        let words = accessed(id, start + 1, HEAP, &[0, STORE | HIT | L1]);
        on_event(1, |ring| ring.record(9, &words));
    });
    assert_eq!(notes, [""; 0]);
    assert_eq!(found(&facts), [(AccessKind::Store, Some(HEAP), None, Some(DataSource::L1), None)]);
}

/// IBS takes no exclusions (`perf_ibs_init`), and samples operations that are no accesses, too: these are counted, and no accesses.
#[test]
fn operations_of_ibs_are_accesses_where_they_load_or_store() {
    let kernel: FakeOpen = |attr, target| {
        let excludes = [Flag::ExcludeKernel, Flag::ExcludeHv, Flag::ExcludeIdle];
        let wrong = attr.pmu() == IBS && excludes.into_iter().any(|flag| attr.has(flag));
        if wrong { refuse(EINVAL) } else { accept(attr, target) }
    };
    let (facts, notes) = recorded(kernel, &[0], vec![operations()], |start| {
        let id = id_of(IBS, OPERATIONS, 0);
        let write = |at, address, described: Described| {
            let words = accessed(id, start + at, address, &described);
            on_event(1, |ring| ring.record(9, &words));
        };
        write(1, HEAP, [310, LOAD | HIT | DRAM, 4096]);
        // PERF_MEM_OP_NA: arithmetic.
        write(2, 0, [0, 1, 0]);
        write(3, HEAP + 8, [0, STORE | HIT | L1, 4096]);
    });
    assert_eq!(notes, [""; 0]);
    assert_eq!(names(&facts), [(0, "ibs_op/cnt_ctl=1/")]);
    assert_eq!(
        found(&facts),
        [
            (AccessKind::Load, Some(HEAP), Some(310), Some(DataSource::Dram), Some(4096)),
            (AccessKind::Store, Some(HEAP + 8), None, Some(DataSource::L1), Some(4096)),
        ]
    );
    assert_eq!(counted(&facts).len(), 3);
}

/// A user who may not use IBS (`perf_ibs_init` wants the right to count the kernel): said, and time is sampled all the same.
#[test]
fn ibs_that_this_user_may_not_use_is_named() {
    let kernel: FakeOpen = |attr, target| match attr.pmu() {
        IBS => refuse(13),
        _ => accept(attr, target),
    };
    let (facts, notes) = recorded(kernel, &[0], vec![operations()], |start| {
        on_event(1, |ring| ring.record(9, &sample(1, start + 1, 0, 0x40_1010, 1_003_009)));
    });
    assert_eq!(facts.iter().filter(|fact| matches!(fact, Fact::Sample(_))).count(), 1);
    assert_eq!(found(&facts), []);
    assert!(notes[0].contains("not sampled: ibs_op/cnt_ctl=1/"), "{notes:?}");
}

#[test]
fn lost_and_throttled_accesses_are_said() {
    for (choice, pmu, config) in [(stores(), RAW, STORES), (operations(), IBS, OPERATIONS)] {
        let (facts, notes) = recorded(accept, &[0], vec![choice], |start| {
            let id = id_of(pmu, config, 0);
            on_event(1, |ring| {
                // PERF_RECORD_LOST: id and number; PERF_RECORD_THROTTLE: time, id, stream id.
                ring.record(2, &[&[id, 5][..], &identity(id, start + 1)].concat());
                ring.record(5, &[&[start + 2, id, id][..], &identity(id, start + 2)].concat());
                let words = accessed(id, start + 3, HEAP, &[0, STORE | HIT | L1, 4096]);
                ring.record(9, &words);
                // Cut off before its page: dropped, and counted.
                ring.record(9, &accessed(id, start + 4, HEAP, &[0, STORE | HIT | L1]));
            });
        });
        assert_eq!(found(&facts).len(), 1);
        assert_eq!(lost(&facts), [(LostSource::Samples, 5), (LostSource::Events, 1)]);
        assert!(notes[0].starts_with("the kernel stopped sampling 1 time"), "{notes:?}");
    }
}
