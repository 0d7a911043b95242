//! Stored trees of real machines against what their makers say about them (the names of the files tell: sockets,
//! nodes, cores, threads). The trees are not part of the repository: `FATHOM_FIXTURES`, else `../shared/fixtures`
//! next to the checkout; without them these tests print `skipped:` and pass.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use facts::host::{CacheKind, Host};
use machine::cpuid::{CpuidDump, CpuidLeaf};
use machine::{Snapshot, Source, describe};

/// The files of an archive below one directory, in memory: unpacking 60,000 small files takes minutes. Links have where they lead
/// to, from the root.
#[derive(Default)]
struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
}

impl Source for Tree {
    fn read(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(path)?).into_owned())
    }
    fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let link = || {
            let (at, target) = self.links.iter().find(|(at, _)| {
                path.strip_prefix(at.as_str()).is_some_and(|rest| rest.starts_with('/'))
            })?;
            self.files.get(&format!("{target}{}", &path[at.len()..]))
        };
        self.files.get(path).or_else(link).cloned()
    }
    fn list(&self, directory: &str) -> Vec<String> {
        let prefix = format!("{directory}/");
        let paths = self.files.keys().chain(self.links.keys());
        let below = paths.filter_map(|path| path.strip_prefix(&prefix)?.split('/').next());
        let names: BTreeSet<_> = below.collect();
        names.into_iter().map(str::to_owned).collect()
    }
}

/// Where a link at `path` leads that says `target`, which is relative.
fn resolved(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Reads the text files below `directory` of an archive (an empty one stands for its first directory); `None`,
/// with the reason printed, where that cannot be done.
fn unpack(archive: &str, directory: &str) -> Option<Tree> {
    let file = testkit::fixtures::fixture(archive)?;
    let program = if archive.ends_with("xz") { "xz" } else { "bzip2" };
    let output = Command::new(program).arg("-dc").arg(&file).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        println!("skipped: {program} cannot unpack {}", file.display());
        return None;
    };
    Some(tree(&output.stdout, directory))
}

/// The regular files and links of a tar archive (POSIX ustar, with GNU long names): 512-byte headers with the name at 0, the
/// size in octal at 124, the type at 156 and a name prefix at 345, each followed by the content in whole blocks.
fn tree(tar: &[u8], directory: &str) -> Tree {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let mut found = Tree::default();
    let mut root = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let mut long_name: Option<String> = None;
    let mut rest = tar;
    while rest.len() > 512 && rest[0] != 0 {
        let (header, body) = rest.split_at(512);
        let size =
            u64::from_str_radix(text(&header[124..136]).trim(), 8).expect("octal size") as usize;
        let content = &body[..size];
        let prefix =
            if &header[257..263] == b"ustar\0" { text(&header[345..500]) } else { String::new() };
        let short = [prefix, text(&header[..100])]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>();
        let name = long_name.take().unwrap_or_else(|| short.join("/"));
        if root.is_empty() {
            root = format!(
                "{}/",
                name.trim_start_matches("./").split('/').next().expect("a directory")
            );
        }
        let path = name.trim_start_matches("./").strip_prefix(&root).map(|path| format!("/{path}"));
        match (header[156], path) {
            (b'L', _) => long_name = Some(text(content)),
            (b'0' | 0, Some(path)) => drop(found.files.insert(path, content.to_vec())),
            (b'2', Some(path)) => {
                let target = resolved(&path, &text(&header[157..257]));
                found.links.insert(path, target);
            }
            _ => {}
        }
        rest = &body[size.next_multiple_of(512)..];
    }
    found
}

fn size(bytes: u64) -> String {
    base::Bytes(bytes).to_string().replace("iB", "").replace(' ', "")
}

/// One line per machine: `20 CPUs 14 cores 1 socket | L1d 6x48K/2 ... | nodes: CPUs, memory, first distances`.
fn summary(host: &Host) -> String {
    let caches: Vec<String> = host
        .caches
        .iter()
        .map(|cache| {
            let kind = match cache.kind {
                CacheKind::Data => "d",
                CacheKind::Instruction => "i",
                CacheKind::Unified => "",
            };
            format!(
                "L{}{kind} {}x{}/{}",
                cache.level,
                cache.instances,
                size(cache.bytes),
                cache.shared_by
            )
        })
        .collect();
    let nodes: Vec<String> = host
        .numa_nodes
        .iter()
        .map(|node| format!("{}:{}cpu,{}", node.id, node.cpus.len(), size(node.memory_bytes)))
        .collect();
    let first = host.numa_nodes.first().map(|node| node.distances.clone()).unwrap_or_default();
    format!(
        "{} CPUs {} cores {} sockets | {} | {} | {first:?}",
        host.logical_cpus,
        host.cores,
        host.sockets,
        caches.join(" "),
        nodes.join(" "),
    )
}

/// (archive, directory in it, summary). Where the name of the file tells, it agrees with the summary.
const MACHINES: &[(&str, &str, &str)] = &include!("machines.in");

#[test]
fn stored_machines_are_what_their_names_say() {
    let mut differing = Vec::new();
    for (archive, directory, expected) in MACHINES {
        let Some(tree) = unpack(archive, directory) else { return };
        let (host, problems) = describe(&Snapshot::take(&tree));
        let found = summary(&host);
        if found != *expected {
            differing.push(format!(
                "    (\"{archive}\", \"{directory}\", \"{found}\"),\n// {problems:?}\n"
            ));
        }
    }
    assert!(differing.is_empty(), "these differ:\n{}", differing.join(""));
}

#[test]
fn details_of_special_machines() {
    let Some(tree) = unpack("topo-hwloc/nvidia-dgx-gb10.tar.bz2", "") else { return };
    let (host, _) = describe(&Snapshot::take(&tree));
    assert_eq!(host.core_types, [("Cortex-X925".to_owned(), 10), ("Cortex-A725".to_owned(), 10)]);
    assert_eq!(
        (host.vendor.as_str(), host.simd.as_slice()),
        ("Arm", ["neon".to_owned(), "sve".to_owned()].as_slice())
    );

    let Some(tree) = unpack("topo-sysfs-nri/test-data-sample2.tar.xz", "sample2") else { return };
    let (host, _) = describe(&Snapshot::take(&tree));
    let without_cpus: Vec<u32> =
        host.numa_nodes.iter().filter(|node| node.cpus.is_empty()).map(|node| node.id).collect();
    assert_eq!(without_cpus, [4, 5, 6, 7], "persistent memory as nodes without CPUs");

    let Some(tree) = unpack("topo-hwloc/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2", "") else {
        return;
    };
    let (host, _) = describe(&Snapshot::take(&tree));
    assert_eq!(host.cpu, "13th Gen Intel(R) Core(TM) i7-1370P");
    assert_eq!(host.huge_pages.pools.len(), 2);
    assert_eq!(host.core_types, [], "this tree lacks /sys/devices/cpu_core: not guessed");
}

/// A CPUID dump of hwloc: `mask eax ebx ecx edx => eax ebx ecx edx`.
fn cpuid_dump(text: &str) -> CpuidDump {
    let entry = |line: &str| {
        let (asked, answered) = line.split_once(" => ")?;
        let hexadecimal = |text: &str| -> Option<Vec<u32>> {
            text.split_whitespace().map(|word| u32::from_str_radix(word, 16).ok()).collect()
        };
        let (asked, answered) = (hexadecimal(asked)?, hexadecimal(answered)?);
        let registers = <[u32; 4]>::try_from(answered).ok()?;
        Some(CpuidLeaf { leaf: *asked.get(1)?, subleaf: *asked.get(3)?, registers })
    };
    CpuidDump { leaves: text.lines().filter_map(entry).collect() }
}

#[test]
fn cpuid_of_stored_cpus_is_decoded_as_hwloc_does() {
    // CPUModel, CPUFamilyNumber/CPUModelNumber/CPUStepping and the caches of pu0 in the .xml next to each archive.
    let expected = [
        (
            "Intel-Skylake-2xXeon6140",
            "Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz 6/85/4 32K 32K 1M 24.8M",
        ),
        (
            "Intel-RaptorLake-Corei7-1370P",
            "13th Gen Intel(R) Core(TM) i7-1370P 6/186/2 48K 32K 1.2M 24M",
        ),
        ("AMD-19h-Zen3-2xEpyc-7763", "AMD EPYC 7763 64-Core Processor 25/1/1 32K 32K 512K 32M"),
        ("AMD-17h-Zen-2xEpyc-7451", "AMD EPYC 7451 24-Core Processor 23/1/2 32K 64K 512K 8M"),
    ];
    for (name, text) in expected {
        let Some(tree) = unpack(&format!("topo-hwloc/{name}.tar.bz2"), "") else { return };
        let dump = cpuid_dump(&tree.read("/pu0").expect("first CPU"));
        let signature = dump.signature().expect("leaf 1");
        let caches: Vec<String> = dump.caches().iter().map(|cache| size(cache.bytes)).collect();
        let brand = dump.brand().expect("brand string");
        assert_eq!(format!("{brand} {signature} {}", caches.join(" ")), text);
        assert!(dump.tsc_is_invariant() && dump.hypervisor().is_none());
    }
}

/// A machine of two sockets with 24 slots, of which 8 have 4 GiB of DDR3-1600; and one with high-bandwidth and persistent memory.
#[test]
fn modules_and_tiers_of_stored_machines() {
    let archive = "topo-hwloc/32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2";
    let Some(tree) = unpack(archive, "") else { return };
    let (host, _) = describe(&Snapshot::take(&tree));
    let filled: Vec<_> = host.memory_slots.iter().filter(|slot| slot.bytes > 0).collect();
    let names: Vec<&str> = filled.iter().map(|slot| slot.slot.as_str()).collect();
    let expected = ["DIMM_A1", "DIMM_A2", "DIMM_A3", "DIMM_A4"];
    assert_eq!((host.memory_slots.len(), &names[..4]), (24, &expected[..]));
    assert!(filled.iter().all(|slot| {
        slot.kind == "DDR3" && slot.bytes == 4 << 30 && slot.mega_transfers == Some(1600)
    }));
    // The names of these slots do not tell their channels.
    let peak = host.theoretical_bandwidth().expect("all is known");
    assert_eq!((peak.channels, peak.modules), (None, 8));
    assert!((peak.gb_per_s - 8.0 * 12.8).abs() < 1e-9);
    // Bug reports have no serial numbers in them.
    assert!(!Snapshot::take(&tree).to_text().contains("484AE61F"));
    let again = Snapshot::from_text(&Snapshot::take(&tree).to_text()).expect("our own text");
    assert_eq!(describe(&again).0.memory_slots, host.memory_slots);

    let Some(tree) = unpack("topo-hwloc/fakememinitiators-1np2c+1npp+gi.tar.bz2", "") else {
        return;
    };
    let (host, _) = describe(&Snapshot::take(&tree));
    let devices: Vec<_> =
        host.dax_devices.iter().map(|one| (one.name.as_str(), one.memory_node)).collect();
    assert_eq!(devices, [("dax0.0", Some(7)), ("dax1.0", Some(10))]);
    assert!(host.dax_devices.iter().all(|one| one.system_ram && one.bytes == 799_063_146_496));
    let tiers: Vec<String> =
        host.memory_tiers.iter().map(|tier| format!("{}: {}", tier.node, tier.kind)).collect();
    assert!(tiers.contains(&"7: dax0.0 as system RAM".to_owned()), "{tiers:?}");

    let Some(tree) = unpack("topo-hwloc/fakeheteromemtiers.tar.bz2", "") else { return };
    let (host, _) = describe(&Snapshot::take(&tree));
    let tiers: Vec<String> =
        host.memory_tiers.iter().map(|tier| format!("{}: {}", tier.node, tier.kind)).collect();
    let expected = [
        "2: dax3.0 as system RAM",
        "4: dax1.0 as system RAM",
        "6: dax5.0 as system RAM",
        "8: dax7.0 as system RAM",
        "9: dax8.0 as system RAM",
    ];
    assert_eq!(tiers, expected);
}
