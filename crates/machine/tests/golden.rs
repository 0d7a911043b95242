//! A stored snapshot (`show --snapshot`) of a 2-CPU Firecracker machine on Emerald Rapids, whole, against its
//! description. It claims 300 MiB of L3 and has no PMU.

use machine::cpuid::CpuidDump;
use machine::{Snapshot, describe};

/// Leaves as this machine answered them: vendor, version, hypervisor, invariant time-stamp counter.
fn cpuid(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    let ascii = |text: &[u8; 4]| u32::from_le_bytes(*text);
    Some(match (leaf, subleaf) {
        (0, _) => [1, ascii(b"Genu"), ascii(b"ntel"), ascii(b"ineI")],
        (1, _) => [0x000c_06f2, 0, 1 << 31, 0],
        (0x4000_0000, _) => {
            [0x4000_0001, ascii(b"KVMK"), ascii(b"VMKV"), u32::from_le_bytes(*b"M\0\0\0")]
        }
        (0x8000_0000, _) => [0x8000_0007, 0, 0, 0],
        (0x8000_0007, _) => [0, 0, 0, 1 << 8],
        _ => [0; 4],
    })
}

#[test]
fn a_stored_snapshot_gives_the_stored_description() {
    let directory =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/firecracker-emerald-rapids");
    let text =
        std::fs::read_to_string(format!("{directory}.snapshot")).expect("part of the repository");
    let mut snapshot = Snapshot::from_text(&text).expect("written by to_text");
    snapshot.cpuid = CpuidDump::collect(cpuid);
    snapshot.architecture = "x86_64".to_owned();
    snapshot.page_bytes = 4096;
    snapshot.measured_tsc_hz = Some(2.1e9);
    let (host, problems) = describe(&snapshot);
    assert_eq!(problems, Vec::<String>::new());
    let description = serde_json::to_string_pretty(&host).expect("plain data") + "\n";
    testkit::golden::check(format!("{directory}.json"), &description);
}
