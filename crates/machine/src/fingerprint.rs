//! Whether a stored calibration still belongs to this machine.
//!
//! What not: storing it (`calibrate::cache`).

use facts::host::Host;

/// Memory in eighths of the power of two below it: what a kernel reserves, and what a balloon takes, moves the
/// total by some per cent between boots of the same machine; another set of modules moves it further.
fn rough(bytes: u64) -> (u32, u64) {
    let power = bytes.max(1).ilog2();
    (power, (bytes >> power.saturating_sub(3)) & 7)
}

/// A digest of everything that would change what a calibration measures: CPU, topology, caches, total memory,
/// nodes, CPUs allowed, quota, kernel, hypervisor, transparent huge pages. 16 hexadecimal digits (FNV-1a, 64 bits;
/// Fowler, Noll, Vo): enough to notice a change, no protection against forgery.
///
/// Left out on purpose: container signs, hugetlb pools (what is timed uses none), the measured clock rate, which
/// differs in its last digits from run to run,
/// and the nodes' memory, which grows while a virtual machine with hotplugged memory runs.
#[must_use]
pub fn fingerprint(host: &Host) -> String {
    let nodes: Vec<_> = host.numa_nodes.iter().map(|node| (node.id, &node.cpus)).collect();
    let text = format!(
        "{:?}",
        (
            (&host.cpu, &host.vendor, &host.family_model_stepping, &host.architecture, &host.simd),
            (host.logical_cpus, host.cores, host.sockets, &host.core_types, &host.caches),
            (rough(host.memory_bytes), nodes, host.page_bytes, &host.huge_pages.transparent),
            (&host.kernel, &host.hypervisor, host.cpu_quota, &host.allowed_cpus),
        )
    );
    let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{digest:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host {
            cpu: "X".into(),
            allowed_cpus: vec![0, 1],
            memory_bytes: 24 << 30,
            ..Host::default()
        }
    }

    #[test]
    fn what_matters_changes_it_and_what_does_not_does_not() {
        let before = fingerprint(&host());
        assert_eq!(before.len(), 16);
        let same = Host {
            memory_bytes: (25 << 30) - (20 << 20),
            container: Some("Docker".into()),
            tsc_hz: Some(2.1e9),
            ..host()
        };
        assert_eq!(fingerprint(&same), before);
        let others = [
            Host { allowed_cpus: vec![0], ..host() },
            Host { kernel: "6.1".into(), ..host() },
            Host { cpu_quota: Some(1.5), ..host() },
            Host { memory_bytes: 16 << 30, ..host() },
        ];
        for other in others {
            assert_ne!(fingerprint(&other), before, "{other:?}");
        }
    }
}
