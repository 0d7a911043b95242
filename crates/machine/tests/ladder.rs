//! Ladders of real and synthetic machines against what is known about them.

use facts::host::{Cache, CacheKind, LatencyPoint};
use facts::{Evidence, Metric};
use machine::ladder::{Reading, read};

const KIB: f64 = 1024.0;

fn ladder(points: &[(f64, f64)]) -> Vec<LatencyPoint> {
    let point = |(kib, latency): &(f64, f64)| LatencyPoint {
        bytes: (kib * KIB) as u64,
        page_bytes: 2 << 20,
        latency: Metric::with_interval(
            Evidence::Calibrated,
            *latency,
            "ns",
            (*latency, *latency),
            7,
        ),
    };
    points.iter().map(point).collect()
}

fn claimed(sizes: &[(u32, f64)]) -> Vec<Cache> {
    let cache = |(level, kib): &(u32, f64)| Cache {
        level: *level,
        kind: if *level == 1 { CacheKind::Data } else { CacheKind::Unified },
        bytes: (kib * KIB) as u64,
        line_bytes: 64,
        ways: Some(8),
        shared_by: 1,
        instances: 1,
    };
    sizes.iter().map(cache).collect()
}

/// `L1 48 [32..64] KiB 1.7 ns; ...`
fn shown(reading: &Reading) -> String {
    let size =
        |bytes: Option<f64>| bytes.map_or("?".to_owned(), |bytes| format!("{:.0}", bytes / KIB));
    let mut parts: Vec<String> = reading
        .caches
        .iter()
        .map(|cache| {
            let bytes = &cache.bytes;
            let latency = cache.latency.value.map_or("?".to_owned(), |ns| format!("{ns:.1}"));
            format!(
                "L{} {} [{}..{}] KiB {latency} ns",
                cache.level,
                size(bytes.value),
                size(bytes.low),
                size(bytes.high)
            )
        })
        .collect();
    let memory = reading.memory.as_ref().and_then(|memory| memory.value);
    parts.push(memory.map_or("memory ?".to_owned(), |ns| format!("memory {ns:.0} ns")));
    parts.join("; ")
}

/// Emerald Rapids VM (2 CPUs, Firecracker) that claims 300 MiB of L3 and gets about 16, 2 MB pages.
const EMERALD_RAPIDS_VM: [(f64, f64); 34] = [
    (4.0, 1.66),
    (6.0, 1.66),
    (8.0, 1.68),
    (12.0, 1.67),
    (16.0, 1.68),
    (24.0, 1.66),
    (32.0, 1.68),
    (48.0, 1.97),
    (64.0, 5.37),
    (96.0, 5.47),
    (128.0, 5.43),
    (192.0, 5.37),
    (256.0, 5.30),
    (384.0, 5.38),
    (512.0, 5.98),
    (768.0, 6.57),
    (1024.0, 6.86),
    (1536.0, 7.99),
    (2048.0, 16.68),
    (3072.0, 34.15),
    (4096.0, 34.86),
    (6144.0, 35.41),
    (8192.0, 36.71),
    (12288.0, 37.86),
    (16384.0, 49.06),
    (24576.0, 65.73),
    (32768.0, 122.55),
    (49152.0, 127.88),
    (65536.0, 123.96),
    (98304.0, 131.34),
    (131072.0, 129.28),
    (196608.0, 130.83),
    (262144.0, 133.03),
    (524288.0, 140.88),
];

#[test]
fn a_vm_that_claims_twenty_times_the_cache_it_gets() {
    let reading =
        read(&ladder(&EMERALD_RAPIDS_VM), &claimed(&[(1, 48.0), (2, 2048.0), (3, 307_200.0)]));
    assert_eq!(
        shown(&reading),
        "L1 48 [32..64] KiB 1.7 ns; L2 1024 [1024..2048] KiB 5.4 ns; \
         L3 12288 [12288..32768] KiB 35.4 ns; memory 130 ns"
    );
    assert_eq!(reading.notes, Vec::<String>::new());
}

/// shared/research/peers-measured.md: Zen 3 VM, a coarse ladder, 2 MB pages. L3 has no plateau.
const ZEN_3_VM: [(f64, f64); 9] = [
    (16.0, 1.4),
    (64.0, 4.3),
    (256.0, 5.9),
    (1024.0, 15.9),
    (4096.0, 54.0),
    (16384.0, 143.0),
    (65536.0, 151.0),
    (262_144.0, 172.0),
    (524_288.0, 207.0),
];

#[test]
fn a_level_without_a_plateau_is_bounded_not_guessed() {
    let reading = read(&ladder(&ZEN_3_VM), &claimed(&[(1, 32.0), (2, 512.0), (3, 32768.0)]));
    assert_eq!(
        shown(&reading),
        "L1 16 [16..64] KiB 1.4 ns; L2 256 [256..1024] KiB 5.1 ns; L3 2000 [256..16384] KiB ? ns; memory 162 ns"
    );
    assert!(
        reading.caches[2]
            .latency
            .note
            .as_deref()
            .is_some_and(|note| note.contains("rises steadily"))
    );
}

#[test]
fn a_coarse_ladder_on_small_pages_bounds_what_it_cannot_separate() {
    let points = [
        (16.0, 1.5),
        (64.0, 4.0),
        (256.0, 7.3),
        (1024.0, 16.4),
        (4096.0, 123.0),
        (16384.0, 158.0),
        (65536.0, 210.0),
        (262_144.0, 287.0),
        (524_288.0, 304.0),
    ];
    let reading = read(&ladder(&points), &claimed(&[(1, 32.0), (2, 512.0), (3, 32768.0)]));
    assert_eq!(
        shown(&reading),
        "L1 16 [16..64] KiB 1.5 ns; L2 1081 [16..4096] KiB ? ns; L3 1081 [16..4096] KiB ? ns; memory 210 ns"
    );
}

/// Sizes doubling from 4 KiB to 512 MiB, latency by the level that holds them.
fn synthetic(levels: &[(f64, f64)], memory: f64) -> Vec<LatencyPoint> {
    let sizes = (2..=19).flat_map(|power| [f64::from(1 << power), f64::from(3 << power) / 2.0]);
    let latency = |kib: f64| {
        levels.iter().find(|(size, _)| kib <= *size).map_or(memory, |(_, latency)| *latency)
    };
    ladder(&sizes.map(|kib| (kib, latency(kib))).collect::<Vec<_>>())
}

#[test]
fn sharp_steps_give_the_sizes_exactly() {
    let levels = [(32.0, 1.0), (1024.0, 4.0), (32768.0, 15.0)];
    let reading = read(
        &synthetic(&levels, 90.0),
        &claimed(
            &levels
                .map(|(size, _)| size)
                .into_iter()
                .zip(1..)
                .map(|(size, level)| (level, size))
                .collect::<Vec<_>>(),
        ),
    );
    assert_eq!(
        shown(&reading),
        "L1 32 [32..48] KiB 1.0 ns; L2 1024 [1024..1536] KiB 4.0 ns; L3 32768 [32768..49152] KiB 15.0 ns; memory 90 ns"
    );
}

#[test]
fn a_chase_that_fits_the_last_level_does_not_invent_memory() {
    let levels = [(48.0, 1.0), (2048.0, 5.0), (1_048_576.0, 30.0)];
    let reading =
        read(&synthetic(&levels, 90.0), &claimed(&[(1, 48.0), (2, 2048.0), (3, 1_048_576.0)]));
    assert!(shown(&reading).ends_with("; memory ?"), "{}", shown(&reading));
    assert_eq!(reading.notes.len(), 1);
    assert!(
        reading.caches[2].bytes.note.as_deref().is_some_and(|note| note.contains("may be larger"))
    );
}

#[test]
fn more_plateaus_than_claimed_levels_are_all_shown() {
    let levels = [(64.0, 1.0), (1024.0, 4.0), (8192.0, 12.0), (65536.0, 40.0)];
    let reading = read(&synthetic(&levels, 150.0), &claimed(&[(1, 64.0), (2, 1024.0)]));
    assert_eq!(reading.caches.iter().map(|cache| cache.level).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(reading.notes, ["the ladder shows 4 cache levels where the system claims 2"]);
}

#[test]
fn nonsense_gives_nothing_and_does_not_panic() {
    assert!(read(&[], &[]).caches.is_empty());
    let points = [
        (0.0, 1.0),
        (4.0, f64::NAN),
        (8.0, -1.0),
        (16.0, f64::INFINITY),
        (1e300, 3.0),
        (32.0, 1e-300),
    ];
    for count in 0..=points.len() {
        for caches in [vec![], claimed(&[(1, 32.0)]), claimed(&[(3, 0.0), (1, 1e30), (2, 1.0)])] {
            let _ = read(&ladder(&points[..count]), &caches);
        }
    }
}
