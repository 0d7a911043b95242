//! Decodes raw CPUID registers of x86 CPUs.
//!
//! Source: Intel SDM vol. 2A "CPUID"; AMD APM vol. 3 appendix E; hypervisor leaves 0x4000_0000 and 0x4000_0010
//! as in the kernel's `arch/x86/include/asm/{kvm_para,hypervisor}.h` and VMware's KB 1009458.
//! What not: the instruction (`sys`). Hazard: in a virtual machine the hypervisor chooses all of these values.

use std::fmt;

use facts::host::{Cache, CacheKind};

/// One answer of the CPU: registers EAX, EBX, ECX, EDX.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuidLeaf {
    /// EAX before.
    pub leaf: u32,
    /// ECX before.
    pub subleaf: u32,
    /// EAX, EBX, ECX, EDX after.
    pub registers: [u32; 4],
}

/// The numbers by which a vendor names a CPU design.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSignature {
    /// With the extended family.
    pub family: u32,
    /// With the extended model.
    pub model: u32,
    /// Revision of the model.
    pub stepping: u32,
}

impl fmt::Display for CpuSignature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.family, self.model, self.stepping)
    }
}

/// The answers of one CPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuidDump {
    /// In any order.
    pub leaves: Vec<CpuidLeaf>,
}

/// Leaves that are enumerated by subleaf (cache descriptions of Intel and AMD).
const INTEL_CACHES: u32 = 4;
const AMD_CACHES: u32 = 0x8000_001d;
/// Intel's TLBs, by subleaf.
const INTEL_TLBS: u32 = 0x18;
/// Second-level caches and TLBs of AMD's CPUs.
const AMD_SECOND_LEVEL: u32 = 0x8000_0006;
/// No CPU has more descriptions of TLBs.
const MOST_TLBS: u32 = 16;
/// Second-level TLBs have been so large; a hypervisor may say anything.
const TLB_ENTRIES: std::ops::RangeInclusive<u32> = 128..=65_536;
/// No CPU has more cache descriptions; a lying hypervisor could repeat one without end.
const MOST_CACHES: u32 = 16;

const HYPERVISORS: [(&[u8; 12], &str); 11] = [
    (b"KVMKVMKVM\0\0\0", "KVM"),
    (b"Linux KVM Hv", "KVM"),
    (b"Microsoft Hv", "Hyper-V"),
    (b"VMwareVMware", "VMware"),
    (b"XenVMMXenVMM", "Xen"),
    (b"TCGTCGTCGTCG", "QEMU (emulated)"),
    (b"bhyve bhyve ", "bhyve"),
    (b"VBoxVBoxVBox", "VirtualBox"),
    (b"ACRNACRNACRN", "ACRN"),
    (b" lrpepyh  vr", "Parallels"),
    (b"QNXQVMBSQG\0\0", "QNX"),
];

impl CpuidDump {
    /// Asks for the leaves that this module decodes. `read` answers (leaf, subleaf); `None` where there is no
    /// CPUID. Respects the highest leaf of each range: asking beyond it answers nonsense.
    #[must_use]
    pub fn collect(mut read: impl FnMut(u32, u32) -> Option<[u32; 4]>) -> CpuidDump {
        let mut dump = CpuidDump::default();
        let mut ask = |dump: &mut CpuidDump, leaf, subleaf| {
            let registers = read(leaf, subleaf)?;
            dump.leaves.push(CpuidLeaf { leaf, subleaf, registers });
            Some(registers)
        };
        for base in [0, 0x4000_0000, 0x8000_0000_u32] {
            if base == 0x4000_0000 && !dump.has_hypervisor() {
                continue;
            }
            let Some([highest, ..]) = ask(&mut dump, base, 0) else { return dump };
            for offset in [1, 2, 3, 4, 6, 7, 8, 0x10, 0x15, 0x16, 0x1a] {
                let leaf = base + offset;
                // Leaf 4 needs subleaves, below.
                if leaf <= highest && leaf != INTEL_CACHES {
                    ask(&mut dump, leaf, 0);
                }
            }
            if base == 0 && INTEL_TLBS <= highest {
                // The first answer says how many there are.
                let last =
                    ask(&mut dump, INTEL_TLBS, 0).map_or(0, |[last, ..]| last.min(MOST_TLBS));
                for subleaf in 1..=last {
                    ask(&mut dump, INTEL_TLBS, subleaf);
                }
            }
            for leaf in [INTEL_CACHES, AMD_CACHES] {
                if leaf & 0x8000_0000 == base && leaf <= highest && base != 0x4000_0000 {
                    for subleaf in 0..MOST_CACHES {
                        match ask(&mut dump, leaf, subleaf) {
                            Some([eax, ..]) if eax & 31 != 0 => {}
                            _ => break,
                        }
                    }
                }
            }
        }
        dump
    }

    /// Translations of 4 KiB pages for data that the second-level TLB holds. `None` where the CPU does not say.
    #[must_use]
    pub fn second_level_tlb(&self) -> Option<u32> {
        let intel = || {
            let described = self.leaves.iter().filter(|entry| entry.leaf == INTEL_TLBS);
            let entries = described.filter_map(|entry| {
                let [_, ebx, sets, edx] = entry.registers;
                // Type: 1 data, 3 unified; then the level. EBX: the lowest bit is 4 KiB pages, the upper half the ways.
                let of_data = matches!(edx & 0x1f, 1 | 3) && edx >> 5 & 7 == 2 && ebx & 1 == 1;
                of_data.then(|| (ebx >> 16).checked_mul(sets)).flatten()
            });
            entries.max()
        };
        let amd = || {
            let [_, ebx, ..] = self.get(AMD_SECOND_LEVEL, 0)?;
            // With a 0 as associativity there is none.
            (ebx >> 28 != 0).then_some(ebx >> 16 & 0xfff)
        };
        let entries = match self.vendor()?.as_str() {
            "AuthenticAMD" | "HygonGenuine" => amd(),
            _ => intel(),
        };
        entries.filter(|entries| TLB_ENTRIES.contains(entries))
    }

    /// The registers of one leaf.
    #[must_use]
    pub fn get(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let found = self.leaves.iter().find(|entry| (entry.leaf, entry.subleaf) == (leaf, subleaf));
        found.map(|entry| entry.registers)
    }

    /// `GenuineIntel`, `AuthenticAMD`, ...
    #[must_use]
    pub fn vendor(&self) -> Option<String> {
        let [_, ebx, ecx, edx] = self.get(0, 0)?;
        // In this order (SDM vol. 2A, CPUID, leaf 0); hypervisors use ebx, ecx, edx.
        readable(&[ebx, edx, ecx])
    }

    /// The brand string, blanks tidied.
    #[must_use]
    pub fn brand(&self) -> Option<String> {
        let mut words = Vec::new();
        for leaf in 0x8000_0002..=0x8000_0004 {
            words.extend(self.get(leaf, 0)?);
        }
        readable(&words)
    }

    /// Family, model and stepping as the vendors print them: the extended family counts only for family 15, the
    /// extended model for families 6 and 15 (SDM vol. 2A, CPUID leaf 1).
    #[must_use]
    pub fn signature(&self) -> Option<CpuSignature> {
        let [eax, ..] = self.get(1, 0)?;
        let (family, model, stepping) = (eax >> 8 & 15, eax >> 4 & 15, eax & 15);
        let extended_model = if family == 6 || family == 15 { (eax >> 16 & 15) << 4 } else { 0 };
        let extended_family = if family == 15 { eax >> 20 & 255 } else { 0 };
        let (family, model) = (family + extended_family, model + extended_model);
        Some(CpuSignature { family, model, stepping })
    }

    fn has_hypervisor(&self) -> bool {
        self.get(1, 0).is_some_and(|[_, _, ecx, _]| ecx >> 31 == 1)
    }

    /// The hypervisor's name; its signature when unknown; `None` on bare metal (leaf 1, ECX bit 31).
    #[must_use]
    pub fn hypervisor(&self) -> Option<String> {
        if !self.has_hypervisor() {
            return None;
        }
        let Some([_, ebx, ecx, edx]) = self.get(0x4000_0000, 0) else {
            return Some("unknown hypervisor".to_owned());
        };
        let mut signature = [0_u8; 12];
        for (bytes, word) in signature.chunks_exact_mut(4).zip([ebx, ecx, edx]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let known = HYPERVISORS.iter().find(|(bytes, _)| **bytes == signature);
        Some(match known {
            Some((_, name)) => (*name).to_owned(),
            None => readable(&[ebx, ecx, edx]).unwrap_or_else(|| "unknown hypervisor".to_owned()),
        })
    }

    /// Whether the time-stamp counter runs at one rate in all power states (leaf 0x8000_0007, EDX bit 8).
    #[must_use]
    pub fn tsc_is_invariant(&self) -> bool {
        self.get(0x8000_0007, 0).is_some_and(|[.., edx]| edx >> 8 & 1 == 1)
    }

    /// Rate of the time-stamp counter, Hz, where stated exactly: crystal times ratio (leaf 0x15), or the
    /// hypervisor's kHz (leaf 0x4000_0010). Leaf 0x16 is rounded to MHz and therefore not used.
    #[must_use]
    pub fn tsc_hz(&self) -> Option<f64> {
        if let Some([denominator, numerator, crystal_hz, _]) = self.get(0x15, 0)
            && denominator != 0
            && numerator != 0
            && crystal_hz != 0
        {
            let ratio = f64::from(numerator) / f64::from(denominator);
            return plausible_hz(f64::from(crystal_hz) * ratio);
        }
        let [khz, ..] = self.get(0x4000_0010, 0)?;
        plausible_hz(f64::from(khz) * 1e3)
    }

    /// Whether the CPU says that its cores are of different types (leaf 7, EDX bit 15).
    #[must_use]
    pub fn is_hybrid(&self) -> bool {
        self.get(7, 0).is_some_and(|[.., edx]| edx >> 15 & 1 == 1)
    }

    /// The caches seen by this CPU, with `instances` 1 each: how many there are only the topology tells.
    /// `shared_by` is the number of CPU ids reserved for sharers, an upper bound (leaf 4, EAX bits 25-14).
    #[must_use]
    pub fn caches(&self) -> Vec<Cache> {
        let leaf = if self.get(AMD_CACHES, 0).is_some_and(|[eax, ..]| eax & 31 != 0) {
            AMD_CACHES
        } else {
            INTEL_CACHES
        };
        (0..MOST_CACHES)
            .map_while(|subleaf| self.get(leaf, subleaf))
            .map_while(|registers| (registers[0] & 31 != 0).then_some(registers))
            .filter_map(cache)
            .collect()
    }
}

/// One description of leaf 4 or 0x8000_001D, which share their layout.
fn cache([eax, ebx, ecx, _]: [u32; 4]) -> Option<Cache> {
    let kind = match eax & 31 {
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        3 => CacheKind::Unified,
        _ => return None,
    };
    // Each field is one less than its number (SDM vol. 2A, CPUID, leaf 4).
    let ways = (ebx >> 22) + 1;
    let partitions = (ebx >> 12 & 0x3ff) + 1;
    let line_bytes = (ebx & 0xfff) + 1;
    let sets = u64::from(ecx) + 1;
    let bytes = u64::from(ways) * u64::from(partitions) * u64::from(line_bytes);
    let fully_associative = eax >> 9 & 1 == 1;
    Some(Cache {
        level: eax >> 5 & 7,
        kind,
        bytes: bytes.checked_mul(sets)?,
        line_bytes,
        ways: (!fully_associative).then_some(ways),
        shared_by: (eax >> 14 & 0xfff) + 1,
        instances: 1,
    })
}

/// Registers as the text they hold; `None` when there is nothing printable.
fn readable(words: &[u32]) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text: String = bytes
        .iter()
        .filter(|byte| (32..127).contains(*byte))
        .map(|byte| char::from(*byte))
        .collect();
    let tidy = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!tidy.is_empty()).then_some(tidy)
}

/// Clocks between 1 MHz and 100 GHz are believed.
fn plausible_hz(hz: f64) -> Option<f64> {
    (1e6..1e11).contains(&hz).then_some(hz)
}
