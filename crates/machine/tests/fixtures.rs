//! Stored trees of real machines against what their makers say about them (the names of the files tell: sockets,
//! nodes, cores, threads). The trees are not part of the repository: `FATHOM_FIXTURES`, else `../shared/fixtures`
//! next to the checkout; without them these tests print `skipped:` and pass.

use std::collections::BTreeMap;
use std::process::Command;

use facts::host::{CacheKind, Host};
use machine::cpuid::{CpuidDump, CpuidLeaf};
use machine::{Snapshot, Source, describe};

/// Reads the text files below `directory` of an archive (an empty one stands for its first directory) into memory:
/// unpacking 60,000 small files takes minutes. `None`, with the reason printed, where that cannot be done.
fn unpack(archive: &str, directory: &str) -> Option<BTreeMap<String, String>> {
    let file = testkit::fixtures::fixture(archive)?;
    let program = if archive.ends_with("xz") { "xz" } else { "bzip2" };
    let output = Command::new(program).arg("-dc").arg(&file).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        println!("skipped: {program} cannot unpack {}", file.display());
        return None;
    };
    Some(regular_files(&output.stdout, directory))
}

/// The regular files of a tar archive (POSIX ustar, with GNU long names): 512-byte headers with the name at 0, the
/// size in octal at 124, the type at 156 and a name prefix at 345, each followed by the content in whole blocks.
fn regular_files(tar: &[u8], directory: &str) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let mut files = BTreeMap::new();
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
        match header[156] {
            b'L' => long_name = Some(text(content)),
            b'0' | 0 => {
                if let Some(path) = name.trim_start_matches("./").strip_prefix(&root) {
                    files.insert(format!("/{path}"), String::from_utf8_lossy(content).into_owned());
                }
            }
            _ => {}
        }
        rest = &body[size.next_multiple_of(512)..];
    }
    files
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
