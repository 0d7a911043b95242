//! Answers that can be computed by hand.

mod common;

use base::RemoteAddr;
use cachesim::{
    Access, ColdLines, Config, Frames, Hierarchy, Kind, PageSize, SiteId, Tlb, TlbConfig,
    TlbGeometry,
};
use common::{after, geometry, plain, read, write};

fn reads(lines: &[u64]) -> Vec<Access> {
    lines.iter().map(|line| read(*line)).collect()
}

#[test]
fn first_touches_are_unknown_until_the_set_is_full() {
    let config = Config { cold: ColdLines::Unknown, ..plain(geometry(1, 2)) };
    let hierarchy = after(&config, &reads(&[10, 10, 11, 10, 12, 11]));
    let l1 = hierarchy.tallies()[0].l1;
    // 10 unknown, 10 again, 11 unknown, 10 one deep, 12 misses and pushes 11 out, so 11 misses.
    assert_eq!((l1.absent.unknown[0], l1.absent.unknown[1]), (1, 1));
    assert_eq!((l1.hits[0], l1.hits[1], l1.absent.misses), (1, 1, 2));
    assert_eq!(hierarchy.tallies()[0].fills, l1.absent);
}

#[test]
fn a_new_burst_knows_nothing() {
    let config = Config { cold: ColdLines::Unknown, ..plain(geometry(1, 2)) };
    let mut hierarchy = after(&config, &reads(&[10, 11]));
    hierarchy.forget();
    hierarchy.access(&read(10));
    assert_eq!(hierarchy.tallies()[0].l1.absent.unknown[0], 2);
}

#[test]
fn the_line_not_touched_for_longest_leaves() {
    let hits = |lines: &[u64]| {
        let hierarchy = after(&plain(geometry(1, 4)), &reads(lines));
        hierarchy.tallies()[0].l1.hits.iter().sum::<u64>()
    };
    // After 1 2 3 4 1 a fifth line pushes out 2.
    assert_eq!(hits(&[1, 2, 3, 4, 1, 5, 2]), 1);
    assert_eq!(hits(&[1, 2, 3, 4, 1, 5, 1]), 2);
}

#[test]
fn what_leaves_the_last_level_stays_in_the_first() {
    let config = Config { llc: Some(geometry(1, 2)), ..plain(geometry(2, 1)) };
    // L1: a line per set; even lines in set 0, odd ones in set 1. The last level has two lines in all: 3 pushes 0 out.
    let tally = after(&config, &reads(&[0, 1, 3, 5, 0])).tallies()[0];
    assert_eq!((tally.l1.hits[0], tally.fills.misses), (1, 4));
}

#[test]
fn dirty_lines_are_counted_once_and_by_their_first_store() {
    let later = |access: Access| Access { site: SiteId(1), ..access };
    let trace = [read(0), write(0), later(write(0)), read(1), later(write(0)), read(2)];
    let hierarchy = after(&plain(geometry(1, 1)), &trace);
    // Line 0 came twice from DRAM: dirtied by site 0, thrown out by line 1, dirtied by site 1.
    let [first, second] = [hierarchy.tallies()[0], hierarchy.tallies()[1]];
    assert_eq!((first.dirtied.misses, second.dirtied.misses), (1, 1));
    assert_eq!((first.fills.misses, second.fills.misses), (3, 1));
    assert_eq!((first.stores, second.stores), (1, 2));
}

#[test]
fn stores_past_the_caches_empty_them() {
    let past = Access { kind: Kind::StreamingWrite, bytes: 32, ..read(7) };
    let hierarchy = after(&plain(geometry(4, 2)), &[write(7), past, past, read(7)]);
    let tally = hierarchy.tallies()[0];
    assert_eq!((tally.streaming_stores, tally.streaming_bytes), (2, 64));
    assert_eq!((tally.l1.absent.misses, tally.dirtied.misses), (2, 1));
}

/// Two stores, a write-back, two more: two lines go to DRAM, both counted by the store that came first, and none is fetched again.
#[test]
fn a_line_that_was_written_back_stays_and_is_counted_again_when_stored_to() {
    let back = |line| Access { kind: Kind::WriteBack, bytes: 64, site: SiteId(1), ..read(line) };
    let config = Config { llc: Some(geometry(8, 2)), ..plain(geometry(4, 2)) };
    let trace = [write(7), write(7), back(7), back(7), write(7), write(7), back(7), read(7)];
    let hierarchy = after(&config, &trace);
    let [stores, backs] = [hierarchy.tallies()[0], hierarchy.tallies()[1]];
    assert_eq!((stores.dirtied.misses, stores.fills.misses, stores.l1.hits[0]), (2, 1, 4));
    assert_eq!(backs, cachesim::SiteTally::default());
    // A flush has it fetched again; of a line that is not there nothing happens.
    let flush = Access { kind: Kind::Flush, ..back(7) };
    let tally = after(&config, &[write(7), flush, back(7), flush, write(7), flush]).tallies()[0];
    assert_eq!((tally.dirtied.misses, tally.fills.misses), (2, 2));
}

#[test]
fn accesses_over_a_border_touch_both_lines() {
    let wide = Access { address: RemoteAddr(60), bytes: 8, ..read(0) };
    let tally = after(&plain(geometry(4, 2)), &[wide, read(1)]).tallies()[0];
    assert_eq!((tally.loads, tally.l1.absent.misses, tally.l1.hits[0]), (2, 2, 1));
}

#[test]
fn sizes_need_not_be_powers_of_two() {
    // 12 sets: lines 0 and 12 share a set of one way, 0 and 8 do not.
    let tally = after(&plain(geometry(12, 1)), &reads(&[0, 8, 0, 12, 0])).tallies()[0];
    assert_eq!((tally.l1.hits[0], tally.l1.absent.misses), (1, 4));
}

#[test]
fn huge_pages_need_fewer_translations() {
    let shape = |entries, ways| TlbGeometry { entries, ways };
    let config = TlbConfig {
        small: shape(64, 4),
        huge: Some(shape(32, 4)),
        second: Some(shape(1536, 12)),
        cold: ColdLines::Unknown,
    };
    let walk = |size| {
        let mut tlb = Tlb::new(&config).expect("it can be simulated");
        // 16 MiB, once a page, twice: 4096 small pages are more than both levels hold, 8 huge ones fit.
        for page in (0..4096u64).chain(0..4096) {
            let address = RemoteAddr((1 << 30) + page * 4096);
            tlb.access(&Access { address, ..read(0) }, size);
        }
        tlb.tallies()[0]
    };
    let small = walk(PageSize::Small);
    let hits = |level: &cachesim::LevelTally| level.hits.iter().sum::<u64>();
    assert_eq!((hits(&small.first), hits(&small.second)), (0, 0));
    let unknown = |level: &cachesim::LevelTally| level.absent.unknown.iter().sum::<u64>();
    assert_eq!((unknown(&small.first), small.first.absent.misses), (64, 8192 - 64));
    assert_eq!((unknown(&small.second), small.second.absent.misses), (1536, 8192 - 1536));
    let huge = walk(PageSize::Huge);
    assert_eq!((hits(&huge.first), unknown(&huge.first)), (8192 - 8, 8));
    assert_eq!((hits(&huge.second), huge.second.touches()), (0, 8));
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let refused = |config: Config| Hierarchy::new(&config).err().map(|error| error.to_string());
    let good = plain(geometry(4, 2));
    let bad = |change: fn(&mut Config)| {
        let mut config = good;
        change(&mut config);
        refused(config).unwrap_or_default()
    };
    assert_eq!(refused(good), None);
    assert_eq!(
        [
            bad(|config| config.l1.line_bytes = 48),
            bad(|config| config.l1.ways = 0),
            bad(|config| config.l1.bytes = base::Bytes(100)),
            bad(|config| {
                config.l2 = Some(cachesim::Geometry { line_bytes: 128, ..geometry(8, 8) });
            }),
        ],
        [
            "l1 has lines of 48 bytes; powers of two from 16 to 4096 can be simulated",
            "l1 has 0 ways; 1 to 128 can be simulated",
            "l1 has 100 B; sizes from one set, 128 B, to 4 GiB can be simulated",
            "l2 has lines of 128 bytes, l1 of 64: all levels must have the same",
        ]
    );
}

/// 128 lines 64 KiB apart, as in a column of a matrix, and an L2 of 1 MiB: by their addresses they fall into one of its 1024
/// sets, which has 16 ways. Where their pages lie anywhere, they fall into 16 sets, some 8 into each, and nearly all stay.
#[test]
fn lines_of_a_column_stay_in_an_l2_whose_pages_lie_anywhere() {
    let found = |frames| {
        let l2 = Some(geometry(1024, 16));
        let config = Config { l2, frames, ..plain(geometry(64, 8)) };
        let lines: Vec<Access> = (0..2).flat_map(|_| (0..128).map(|n| read(n * 1024))).collect();
        after(&config, &lines).tallies()[0].l2.hits.iter().sum::<u64>()
    };
    assert_eq!(found(Frames::AsAddressed), 0);
    assert_eq!(found(Frames::Scattered(PageSize::Huge)), 0);
    assert!(found(Frames::Scattered(PageSize::Small)) > 100);
}

/// Lines of a page stay side by side, and a huge page's further ones do.
#[test]
fn pages_are_moved_as_a_whole() {
    for (page, lines) in [(PageSize::Small, 64), (PageSize::Huge, 1 << 15)] {
        let frames = Frames::Scattered(page);
        let place = |line| frames.line(line, 6);
        assert_eq!(place(7 * lines + 5), place(7 * lines) + 5);
        assert_eq!(place(8 * lines - 1), place(7 * lines) + lines - 1);
        assert_ne!(place(8 * lines), place(8 * lines - 1) + 1);
    }
}
