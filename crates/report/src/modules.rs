//! Memory modules, tiers and devices in the text of `fathom machine`, and why the measured bandwidth is less than theirs.
//!
//! What not: which modules there are (`machine`).

use std::collections::BTreeMap;

use base::Bytes;
use facts::host::{Calibration, Host};

use crate::text::{number, percent};

/// Shares of the theoretical bandwidth that any memory loses, percent: refresh (tRFC over tREFI: 3 to 10 % since DDR4, JESD79-4
/// and -5), turning the bus between reads and writes, and rows that must be opened (Jacob, Ng, Wang: "Memory Systems", 2008, 11).
const ALWAYS_LOST: &str =
    "10 to 25 % of it are lost anywhere: refresh, turns between reads and writes, opening of rows";

fn plural(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// How many slots are filled, and with what.
pub(crate) fn modules(host: &Host) -> String {
    let slots = &host.memory_slots;
    if slots.is_empty() {
        return "not known: the firmware's table of them is missing, or only root may read it (`sudo fathom machine`)".to_owned();
    }
    let mut kinds: BTreeMap<(String, u64, Option<u32>), usize> = BTreeMap::new();
    for slot in slots.iter().filter(|slot| slot.bytes > 0) {
        *kinds.entry((slot.kind.clone(), slot.bytes, slot.mega_transfers)).or_default() += 1;
    }
    let one = |((kind, bytes, speed), count): (&(String, u64, Option<u32>), &usize)| {
        let kind = if kind.is_empty() { "an unknown kind" } else { kind };
        let speed = speed.map_or(String::new(), |speed| format!(", {speed} MT/s"));
        format!("{count} of {} {kind}{speed}", Bytes(*bytes))
    };
    let filled: usize = kinds.values().sum();
    let channels = host
        .memory_channels
        .map_or(String::new(), |channels| format!("; on {}", plural(channels as usize, "channel")));
    let what: Vec<String> = kinds.iter().map(one).collect();
    let what = if what.is_empty() { "none".to_owned() } else { what.join(", ") };
    format!("{filled} of {} filled: {what}{channels}", plural(slots.len(), "slot"))
}

/// Nodes of other kinds of memory, and memory as a device. Nothing where there is neither.
pub(crate) fn tiers(host: &Host) -> Option<String> {
    let of_nodes = host.memory_tiers.iter().map(|tier| {
        let number = tier.tier.map_or(String::new(), |number| format!(", tier {number}"));
        format!("node {}: {}{number}", tier.node, tier.kind)
    });
    let devices = host.dax_devices.iter().filter(|device| !device.system_ram);
    let devices = devices.map(|device| {
        let next = device.node.map_or(String::new(), |node| format!(", next to node {node}"));
        format!("{}: {} as a device{next}", device.name, Bytes(device.bytes))
    });
    let all: Vec<String> = of_nodes.chain(devices).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// What the modules could deliver, the measured share of it, and where the rest is. `None` where modules or their speed are not
/// known.
pub(crate) fn theoretical(host: &Host, calibration: &Calibration) -> Option<String> {
    let theory = host.theoretical_bandwidth()?;
    let how = match theory.channels {
        Some(channels) => plural(channels as usize, "channel"),
        None => format!(
            "{}, if each has a channel of its own",
            plural(theory.modules as usize, "module")
        ),
    };
    let at_most = if theory.channels.is_some() { "" } else { "at most " };
    let text = format!("{at_most}{} GB/s with {how}", number(theory.gb_per_s));
    let Some(peak) = calibration.peak().and_then(|peak| peak.rate.value) else { return Some(text) };
    let share = 100.0 * peak / theory.gb_per_s;
    if share > 100.0 {
        return Some(format!(
            "{text}: less than was measured, so the firmware does not describe the modules that this machine uses"
        ));
    }
    let slower = host.memory_slots.iter().find(|slot| slot.mega_transfers < slot.rated);
    let slower = slower.and_then(|slot| {
        let (runs, rated) = (slot.mega_transfers?, slot.rated?);
        Some(format!("modules run at {runs} MT/s and could at {rated}"))
    });
    let fewer = host.usable_cpus().is_some_and(|cpus| cpus < f64::from(host.logical_cpus));
    let said = |holds: bool, why: &str| holds.then(|| why.to_owned());
    let reasons = [
        said(host.hypervisor.is_some(), "a virtual machine shares the memory with others"),
        said(fewer, "not all CPUs of the machine are allowed here"),
        said(calibration.disturbed, "other programs had the CPUs while it was measured"),
        said(theory.channels.is_none(), "modules may share channels"),
        slower,
        Some(ALWAYS_LOST.to_owned()),
    ];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    Some(format!("{text}; the peak is {} % of it: {}", percent(share), reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use facts::host::{DaxDevice, MemorySlot, MemoryTier};
    use facts::{Evidence, Metric};

    use super::*;

    fn slot(gib: u64) -> MemorySlot {
        let (mega_transfers, rated, width_bits) = (Some(4800), Some(5600), Some(64));
        let kind = "DDR5".to_owned();
        MemorySlot {
            kind,
            bytes: gib << 30,
            mega_transfers,
            rated,
            width_bits,
            ..MemorySlot::default()
        }
    }

    fn host() -> Host {
        let memory_slots = vec![slot(32), slot(32), slot(0), slot(0)];
        Host { memory_slots, memory_channels: Some(2), logical_cpus: 2, ..Host::default() }
    }

    fn measured(peak: f64) -> Calibration {
        let rate = Metric::with_interval(Evidence::Calibrated, peak, "GB/s", (peak, peak), 9);
        Calibration { dram_bandwidth_peak: Some(rate), ..Calibration::default() }
    }

    #[test]
    fn modules_and_what_they_could_deliver() {
        assert_eq!(
            modules(&host()),
            "2 of 4 slots filled: 2 of 32 GiB DDR5, 4800 MT/s; on 2 channels"
        );
        let text = theoretical(&host(), &measured(61.4)).expect("known");
        assert!(text.starts_with("76.8 GB/s with 2 channels; the peak is 79.9 % of it: modules run at 4800 MT/s and could at 5600; 10 to 25 %"), "{text}");
        let unknown = Host { memory_channels: None, hypervisor: Some("KVM".to_owned()), ..host() };
        let text = theoretical(&unknown, &measured(61.4)).expect("known");
        assert!(text.starts_with("at most 76.8 GB/s with 2 modules, if each"), "{text}");
        assert!(
            text.contains("a virtual machine shares") && text.contains("may share channels"),
            "{text}"
        );
        let more = theoretical(&host(), &measured(100.0)).expect("known");
        assert!(more.contains("less than was measured"), "{more}");
        assert_eq!(theoretical(&Host::default(), &measured(61.4)), None);
        assert!(modules(&Host::default()).starts_with("not known: "));
    }

    #[test]
    fn tiers_have_names() {
        assert_eq!(tiers(&host()), None);
        let kind = "dax0.0 as system RAM".to_owned();
        let memory_tiers = vec![MemoryTier { node: 2, tier: Some(22), kind }];
        let name = "dax1.0".to_owned();
        let device = DaxDevice { name, bytes: 64 << 30, node: Some(1), ..DaxDevice::default() };
        let host = Host { memory_tiers, dax_devices: vec![device], ..host() };
        let expected =
            "node 2: dax0.0 as system RAM, tier 22; dax1.0: 64 GiB as a device, next to node 1";
        assert_eq!(tiers(&host).as_deref(), Some(expected));
    }
}
