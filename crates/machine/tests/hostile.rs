//! Descriptions that are damaged, contradictory or absurd: fields are left out, problems are named, nothing panics.

use facts::host::NumaNode;
use machine::cpuid::CpuidDump;
use machine::{Snapshot, describe, fingerprint, free_blocks, has_core_counters, placement};

fn snapshot(files: &[(&str, &str)]) -> Snapshot {
    let files = files.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned()));
    Snapshot { files: files.collect(), ..Snapshot::default() }
}

#[test]
fn nothing_at_all() {
    let (host, problems) = describe(&Snapshot::default());
    assert_eq!((host.logical_cpus, host.cores, host.caches.len(), host.tsc_hz), (0, 0, 0, None));
    assert!(
        problems.iter().any(|problem| problem.contains("size of the memory is unknown")),
        "{problems:?}"
    );
    assert_eq!(placement(&Snapshot::default(), &[0, 1]), []);
    assert_eq!(fingerprint(&host).len(), 16);
}

#[test]
fn absurd_numbers_are_named_and_left_out() {
    let (host, problems) = describe(&snapshot(&[
        ("/sys/devices/system/cpu/online", "0-1"),
        ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-4294967295"),
        ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/size", "99999999999999999999K"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/type", "Data"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/level", "1"),
        ("/sys/devices/system/cpu/cpu1/cache/index0/size", "32K"),
        ("/sys/devices/system/cpu/cpu1/cache/index0/type", "Data"),
        ("/sys/devices/system/cpu/cpu1/cache/index0/level", "-7"),
        ("/sys/devices/system/node/node0/cpulist", "0-1,77"),
        ("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 99999999999999999 kB"),
        ("/sys/devices/system/node/node0/distance", "10 20 x"),
        ("/sys/kernel/mm/hugepages/hugepages-huge/nr_hugepages", "1"),
        ("/proc/meminfo", "MemTotal: many kB"),
        ("/proc/self/status", "Cpus_allowed_list: 1-0"),
        ("/proc/self/cgroup", "0::/../../etc\n1:cpu:/a"),
        ("/sys/fs/cgroup/cpu.max", "-5 0"),
    ]));
    assert_eq!((host.logical_cpus, host.cores, host.memory_bytes, host.cpu_quota), (2, 2, 0, None));
    assert_eq!(host.caches, []);
    assert_eq!(host.allowed_cpus, [0, 1]);
    assert_eq!(
        host.numa_nodes,
        [NumaNode { id: 0, cpus: vec![0, 1], memory_bytes: 0, distances: vec![] }]
    );
    for word in [
        "4294967295",
        "index0",
        "node0/meminfo",
        "node0/distance",
        "hugepages-huge",
        "MemTotal",
        "1-0",
        "\"-5\"",
    ] {
        assert!(problems.iter().any(|problem| problem.contains(word)), "{word} in {problems:#?}");
    }
}

#[test]
fn quotas_of_both_cgroup_versions_and_all_ancestors() {
    let quota = |files: &[(&str, &str)]| describe(&snapshot(files)).0.cpu_quota;
    let version_2 = [
        ("/proc/self/cgroup", "0::/a/b\n"),
        ("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
        ("/sys/fs/cgroup/cpu.max", "400000 100000\n"),
    ];
    assert_eq!(quota(&version_2), Some(1.5));
    let version_1 = [
        ("/proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/docker/1\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
    ];
    assert_eq!(quota(&version_1), Some(0.5));
    assert_eq!(
        quota(&[("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/cpu.max", "max 100000")]),
        None
    );
}

#[test]
fn surroundings_are_recognised_by_their_signs() {
    let container = |path: &str, content: &str| describe(&snapshot(&[(path, content)])).0.container;
    assert_eq!(container("/.dockerenv", "").as_deref(), Some("Docker (/.dockerenv)"));
    assert_eq!(container("/run/.containerenv", "").as_deref(), Some("Podman (/run/.containerenv)"));
    assert_eq!(
        container("/proc/1/cgroup", "0::/kubepods/x").as_deref(),
        Some("Kubernetes (/proc/1/cgroup)")
    );
    assert_eq!(container("/proc/1/cgroup", "0::/init.scope"), None);
    let devices = [
        "cpu",
        "uncore_imc_0",
        "software",
        "tracepoint",
        "breakpoint",
        "msr",
        "power",
        "cstate_core",
        "kprobe",
        "uprobe",
        "ibs_op",
    ];
    let files: Vec<(String, &str)> = devices
        .iter()
        .map(|name| (format!("/sys/bus/event_source/devices/{name}/type"), "4"))
        .collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    let pmu = describe(&snapshot(&files)).0.pmu;
    assert_eq!(pmu, ["cpu", "ibs_op", "uncore_imc_0"]);
    assert!(has_core_counters(&pmu) && !has_core_counters(&pmu[1..]));
    assert!(has_core_counters(&["armv8_pmuv3_0".to_owned()]));
}

#[test]
fn hybrid_cores_are_counted_by_type_and_threads_fill_cores_first() {
    let mut files = vec![
        ("/sys/devices/system/cpu/online".to_owned(), "0-5"),
        ("/sys/devices/cpu_core/cpus".to_owned(), "0-3"),
        ("/sys/devices/cpu_atom/cpus".to_owned(), "4-5"),
    ];
    for (cpu, siblings) in ["0-1", "0-1", "2-3", "2-3", "4", "5"].iter().enumerate() {
        files.push((
            format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"),
            siblings,
        ));
        files.push((format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), "0"));
    }
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    let snapshot = snapshot(&files);
    let (host, _) = describe(&snapshot);
    assert_eq!((host.logical_cpus, host.cores, host.sockets), (6, 4, 1));
    assert_eq!(host.core_types, [("performance".to_owned(), 2), ("efficiency".to_owned(), 2)]);
    let order: Vec<u32> = placement(&snapshot, &[0, 1, 2, 3, 5]).iter().map(|cpu| cpu.0).collect();
    assert_eq!(order, [0, 2, 5, 1, 3]);
}

#[test]
fn a_text_without_paths_is_no_snapshot() {
    let error = Snapshot::from_text("hello\n== /x\n").expect_err("no path before it");
    assert_eq!(
        error.to_string(),
        "line 1 of the snapshot belongs to no file: it must begin with \"== /path\""
    );
    let text = "== /a\n1\n2\n== /b\n";
    assert_eq!(Snapshot::from_text(text).expect("well formed").to_text(), "== /a\n1\n2\n== /b\n\n");
}

#[test]
fn the_second_level_tlb_is_what_the_cpu_says_if_that_can_be() {
    let vendor = |words: [u32; 3]| [0x18, words[0], words[2], words[1]];
    let intel = vendor([0x756e_6547, 0x4965_6e69, 0x6c65_746e]);
    let amd = vendor([0x6874_7541, 0x6974_6e65, 0x444d_4163]);
    let tlb = |first: [u32; 4], leaf: u32, described: [u32; 4]| {
        let dump = CpuidDump::collect(|asked, _| match asked {
            0 => Some(first),
            0x8000_0000 => Some([0x8000_001f, 0, 0, 0]),
            _ if asked == leaf => Some(described),
            _ => Some([0; 4]),
        });
        dump.second_level_tlb()
    };
    // Zen 4: 3072 entries. Without an associativity there is none.
    assert_eq!(tlb(amd, 0x8000_0006, [0, 0x6c00_0000 | 512, 0, 0]), Some(3072));
    assert_eq!(tlb(amd, 0x8000_0006, [0, 0x0c00_0000, 0, 0]), None);
    // Unified, second level, 4 KiB pages, 12 ways of 128 sets; then one of the first level, and absurd numbers.
    assert_eq!(tlb(intel, 0x18, [0, 12 << 16 | 1, 128, 2 << 5 | 3]), Some(1536));
    assert_eq!(tlb(intel, 0x18, [0, 12 << 16 | 1, 128, 1 << 5 | 3]), None);
    assert_eq!(tlb(intel, 0x18, [0, 0xffff_0001, u32::MAX, 2 << 5 | 3]), None);
}

#[test]
fn free_blocks_are_summed_over_zones_or_unknown() {
    let zones = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 \n\
                 Node 0, zone   Normal   2502   5407   2111   1805   1896    408    210     59     24     37      3 \n";
    // Orders 9 and 10 of 4 KiB: 1 + 2 x 3 + 37 + 2 x 3.
    assert_eq!(free_blocks(zones, 4096, 2 << 20), Some(50));
    // Pages of 64 KiB: order 5 and on.
    assert_eq!(free_blocks("Node 0, zone Normal 9 9 9 9 9 2 1", 65_536, 2 << 20), Some(4));
    for unknown in
        ["", "Node 0", "Node 0, zone Normal x", "Node 0, zone Normal -1", "garbage\nmore"]
    {
        assert_eq!(free_blocks(unknown, 4096, 2 << 20), None, "{unknown}");
    }
    assert_eq!(free_blocks("Node 0, zone Normal 1", 4096, 0), None);
    let most = format!("Node 0, zone Normal {}", "18446744073709551615 ".repeat(80));
    assert_eq!(free_blocks(&most, u64::MAX, 1), None);
}

#[test]
fn modules_and_devices_of_any_kind() {
    let edac = |module: &str, file: &str| format!("/sys/devices/system/edac/mc/{module}/{file}");
    let (size, place) = ("size", "dimm_location");
    let paths = [
        edac("mc0/dimm0", size),
        edac("mc0/dimm0", place),
        edac("mc0/dimm3", size),
        edac("mc0/dimm3", place),
        edac("mc1/rank0", size),
        edac("mc1/rank0", place),
    ];
    let of = |contents: [&str; 6]| {
        let files: Vec<(&str, &str)> = paths.iter().map(String::as_str).zip(contents).collect();
        let host = describe(&snapshot(&files)).0;
        let filled = host.memory_slots.iter().filter(|slot| slot.bytes > 0).count();
        (filled, host.memory_channels)
    };
    let (first, second) = ("channel 0 slot 0", "channel 0 slot 1");
    assert_eq!(of(["16384", first, "16384", second, "8", "csrow 1 channel 3"]), (3, Some(2)));
    assert_eq!(of(["0", first, "16384", second, "0", ""]), (1, Some(1)));
    // Where one is not known, their number is not.
    assert_eq!(of(["16384", first, "16384", "slot 1", "8", first]), (3, None));
    assert_eq!(of(["-1", "", "99999999999999999999", "", "1", "channel"]), (1, None));
    let table = |lines: &str| {
        let files = [("/sys/firmware/dmi/tables/DMI", lines)];
        let (host, problems) = describe(&snapshot(&files));
        let peak = host.theoretical_bandwidth().map(|peak| (peak.gb_per_s, peak.channels));
        (host.memory_slots.len(), peak, problems.iter().any(|one| one.contains("no memory slot")))
    };
    let slots = "P0 CHANNEL A1\tBANK 0\tDDR5\t68719476736\t4800\t5600\t64\n\
                 P0 CHANNEL A2\tBANK 0\tDDR5\t68719476736\t4800\t5600\t64\n\
                 P0 CHANNEL B1\tBANK 0\tDDR5\t68719476736\t4800\t5600\t64\n\
                 P0 CHANNEL C1\tBANK 0\t\t0\t\t\t\n";
    assert_eq!(table(slots), (4, Some((2.0 * 38.4, Some(2))), false));
    // Without a speed there is no peak; nor of memory that keeps its data.
    assert_eq!(table("A\tB\tDDR4\t1\t\t\t64"), (1, None, false));
    assert_eq!(table("A\tB\tpersistent memory\t1\t2666\t\t64"), (1, None, false));
    assert_eq!(table("nonsense\n\t\t\t\t\t\t"), (0, None, true));
    let dax = |file: &str| format!("/sys/bus/dax/devices/dax0.0/{file}");
    let (bytes, node) = (dax("size"), dax("target_node"));
    let host = |size: &str, target: &str| describe(&snapshot(&[(&bytes, size), (&node, target)])).0;
    assert_eq!(host("4096", "-1").dax_devices[0].memory_node, None);
    assert_eq!(host("many", "2").dax_devices, []);
}
