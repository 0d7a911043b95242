//! Answers that can be computed by hand.

mod common;

use base::RemoteAddr;
use cachesim::{
    Access, ColdLines, Config, ConfigError, Frames, Hierarchy, Inclusion, Kind, PageSize, Prefetch,
    Replacement, SiteId, Thread, Tlb, TlbConfig, TlbGeometry,
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
    hierarchy.access(Thread(0), &read(10));
    assert_eq!(hierarchy.tallies()[0].l1.absent.unknown[0], 2);
}

#[test]
fn policies_choose_their_victims() {
    let hits = |replacement, lines: &[u64]| {
        let config = Config { replacement, ..plain(geometry(1, 4)) };
        after(&config, &reads(lines)).tallies()[0].l1.hits.iter().sum::<u64>()
    };
    // After 1 2 3 4 1 a fifth line pushes out 2 (the oldest) by LRU, and 3 (the other half) by the tree.
    assert_eq!(hits(Replacement::Lru, &[1, 2, 3, 4, 1, 5, 2]), 1);
    assert_eq!(hits(Replacement::TreePlru, &[1, 2, 3, 4, 1, 5, 2]), 2);
    assert_eq!(hits(Replacement::TreePlru, &[1, 2, 3, 4, 1, 5, 3]), 1);
}

#[test]
fn random_victims_are_spread_evenly() {
    // One line more than ways, round and round. One line is missing at any time; when its turn comes, one of the four
    // lines whose turn is 1, 2, 3 or 4 steps later has to go. So a miss every 2.5 steps, where LRU would always miss.
    let rounds: Vec<u64> = (0..50_000).map(|step| step % 5).collect();
    let config = Config { replacement: Replacement::Random, ..plain(geometry(1, 4)) };
    let hierarchy = after(&config, &reads(&rounds));
    let misses = hierarchy.tallies()[0].l1.absent.misses;
    assert!((19_700..20_300).contains(&misses), "{misses}");
}

#[test]
fn the_last_level_has_its_part() {
    let config =
        |inclusion| Config { llc: Some(geometry(1, 2)), inclusion, ..plain(geometry(2, 1)) };
    // L1: a line per set; even lines in set 0, odd ones in set 1. The last level has two lines in all.
    let trace = reads(&[0, 1, 3, 5, 0]);
    let tally = |inclusion| after(&config(inclusion), &trace).tallies()[0];
    // 3 pushes 0 out of the last level: inclusion takes it out of L1 too.
    assert_eq!(tally(Inclusion::Inclusive).l1.hits[0], 0);
    assert_eq!(tally(Inclusion::Inclusive).fills.misses, 5);
    assert_eq!(tally(Inclusion::NonInclusive).l1.hits[0], 1);
    // As a victim cache it has what L1 threw out: 1 and 3, and gives 1 back.
    let hierarchy = after(&config(Inclusion::Victim), &reads(&[0, 1, 3, 5, 1, 0]));
    let tally = hierarchy.tallies()[0];
    assert_eq!((tally.llc.hits[1], tally.l1.hits[0], tally.fills.misses), (1, 1, 4));
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
    assert_eq!(hierarchy.traffic().written_lines, 2);
}

#[test]
fn stores_past_the_caches_empty_them() {
    let past = Access { kind: Kind::StreamingWrite, bytes: 32, ..read(7) };
    let hierarchy = after(&plain(geometry(4, 2)), &[write(7), past, past, read(7)]);
    let tally = hierarchy.tallies()[0];
    assert_eq!((tally.streaming_stores, tally.streaming_bytes), (2, 64));
    assert_eq!((tally.l1.absent.misses, hierarchy.traffic().written_lines), (2, 1));
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
fn two_cores_share_and_take_away() {
    let config = Config { cores: 2, llc: Some(geometry(8, 4)), ..plain(geometry(4, 2)) };
    let mut hierarchy = Hierarchy::new(&config).expect("it can be simulated");
    let by = |site: u32, access: Access| Access { site: SiteId(site), ..access };
    let (one, two) = (Thread(0), Thread(1));
    hierarchy.access(one, &by(0, write(3)));
    // The other core has the newer version and gives it.
    hierarchy.access(two, &by(1, read(3)));
    // Both have it: a store takes it away from the other, a second one finds it alone.
    hierarchy.access(one, &by(2, write(3)));
    hierarchy.access(one, &by(2, write(3)));
    hierarchy.access(two, &by(3, read(3)));
    let tallies = hierarchy.tallies();
    assert_eq!(tallies[1].remote, 1);
    assert_eq!((tallies[2].invalidations, tallies[2].l1.hits[0]), (1, 2));
    assert_eq!((tallies[3].remote, tallies[3].l1.absent.misses), (1, 1));
    let dirtied: u64 = tallies.iter().map(|tally| tally.dirtied.misses).sum();
    assert_eq!(dirtied, 1);
    let contended: Vec<_> = hierarchy.contended_lines().collect();
    assert_eq!(contended, [(RemoteAddr(192), 1)]);
}

#[test]
fn prefetchers_fetch_into_l2() {
    let tally = |prefetch, lines: &[u64]| {
        let l2 = Some(geometry(16, 8));
        let config = Config { l2, prefetch, ..plain(geometry(4, 1)) };
        after(&config, &reads(lines)).tallies()[0]
    };
    // 0 fetches 1 and so on; 63 is the last line of its page, so that 64 has to be asked for.
    let next = tally(Prefetch::NextLine, &[0, 1, 2, 63, 64]);
    assert_eq!((next.l2.absent.misses, next.l2.hits.iter().sum::<u64>()), (3, 2));
    // 0 1 2 3, 63 (its next line is in the next page), 64 65.
    assert_eq!((next.fills.misses, next.prefetched), (7, 4 - 1 + 1));
    // 0, 5 and 10 convince it: 15 and 20 are there when asked for.
    let stride = tally(Prefetch::Stride, &[0, 5, 10, 15, 20]);
    assert_eq!((stride.l2.absent.misses, stride.l2.hits.iter().sum::<u64>()), (3, 2));
    assert_eq!((stride.fills.misses, stride.prefetched), (6, 3));
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
            bad(|config| config.cores = 0),
            bad(|config| {
                config.l2 = Some(cachesim::Geometry { line_bytes: 128, ..geometry(8, 8) });
            }),
            bad(|config| {
                config.llc = Some(geometry(1, 64));
                config.replacement = Replacement::TreePlru;
            }),
        ],
        [
            "l1 has lines of 48 bytes; powers of two from 16 to 4096 can be simulated",
            "l1 has 0 ways; 1 to 128 can be simulated",
            "l1 has 100 B; sizes from one set, 128 B, to 4 GiB can be simulated",
            "0 cores were asked for; 1 to 64 can be simulated",
            "l2 has lines of 128 bytes, l1 of 64: all levels must have the same",
            "llc has 64 ways; tree replacement goes up to 32",
        ]
    );
    let error: ConfigError = Hierarchy::new(&Config { cores: 65, ..good }).expect_err("too many");
    assert_eq!(error, ConfigError::Cores { cores: 65 });
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
