//! Memory modules, their channels, and memory that is not a processor's own: DAX devices and tiers.
//!
//! What not: the bytes of the firmware's table (`smbios`); what the modules could deliver (`Host::theoretical_bandwidth`).

use std::collections::BTreeSet;

use facts::host::{DaxDevice, MemorySlot, MemoryTier, NumaNode};

use crate::snapshot::{
    DAX_DEVICES, DAX_SYSTEM_RAM, EDAC_DIRECTORY, MODULE_TABLE, NODE_DIRECTORY, TIER_DIRECTORY,
};
use crate::{Snapshot, text};

/// Between the fields of a slot in a snapshot.
const SEPARATOR: char = '\t';
/// Memory whose firmware promises so many times as much bandwidth as that of the nodes with CPUs is another kind.
const MUCH: f64 = 1.5;

/// A slot as one line of a snapshot.
pub(crate) fn line(slot: &MemorySlot) -> String {
    let MemorySlot { slot, bank, kind, bytes, mega_transfers, rated, width_bits } = slot;
    let number = |value: &Option<u32>| value.map_or(String::new(), |value| value.to_string());
    let words = [slot, bank, kind].map(|word| word.replace([SEPARATOR, '\n'], " "));
    let numbers = [bytes.to_string(), number(mega_transfers), number(rated), number(width_bits)];
    words.into_iter().chain(numbers).collect::<Vec<_>>().join(&SEPARATOR.to_string())
}

fn from_line(line: &str) -> Option<MemorySlot> {
    let mut words = line.split(SEPARATOR);
    let mut next = || words.next().map(|word| word.trim().to_owned());
    let (slot, bank, kind) = (next()?, next()?, next()?);
    let bytes = next()?.parse().ok()?;
    let [mega_transfers, rated, width_bits] =
        [next()?, next()?, next()?].map(|word| word.parse().ok());
    Some(MemorySlot { slot, bank, kind, bytes, mega_transfers, rated, width_bits })
}

/// The slots for memory modules, by the firmware, else by the kernel's drivers of memory controllers; and how many channels the
/// filled ones use, where that is known.
pub(crate) fn slots(
    snapshot: &Snapshot,
    problems: &mut Vec<String>,
) -> (Vec<MemorySlot>, Option<u32>) {
    let (by_kernel, channels) = edac(snapshot);
    let table = snapshot.read(MODULE_TABLE).unwrap_or_default();
    let mut slots = Vec::new();
    for line in table.lines() {
        match from_line(line) {
            Some(slot) => slots.push(slot),
            None => {
                problems.push(format!("{MODULE_TABLE} has a line that is no memory slot: left out"))
            }
        }
    }
    let channels = channels.or_else(|| named_channels(&slots));
    if slots.is_empty() { (by_kernel, channels) } else { (slots, channels) }
}

/// From `/sys/devices/system/edac/mc/mc0/dimm3/{dimm_label,dimm_location,dimm_mem_type,size}`
/// (Documentation/admin-guide/ras.rst): "channel 1 slot 0", megabytes.
fn edac(snapshot: &Snapshot) -> (Vec<MemorySlot>, Option<u32>) {
    let (mut slots, mut channels) = (Vec::new(), BTreeSet::new());
    let mut all_known = true;
    for controller in snapshot.names_below(EDAC_DIRECTORY) {
        let directory = format!("{EDAC_DIRECTORY}/{controller}");
        for module in snapshot.names_below(&directory) {
            let said = |file: &str| {
                Some(snapshot.read(&format!("{directory}/{module}/{file}"))?.trim().to_owned())
            };
            let megabytes = said("size").and_then(|size| size.parse::<u64>().ok());
            let Some(megabytes) = megabytes.filter(|size| *size < 1 << 40) else { continue };
            let place = said("dimm_location").unwrap_or_default();
            if megabytes > 0 {
                // "branch 0 channel 1 slot 0", or "csrow 2 channel 1": rows share their channel.
                let words: Vec<&str> = place.split_whitespace().collect();
                let number = |name: &str| {
                    let at = words.iter().position(|word| *word == name)?;
                    words.get(at + 1)?.parse::<u32>().ok()
                };
                match number("channel") {
                    Some(channel) => {
                        channels.insert((controller.to_owned(), number("branch"), channel));
                    }
                    None => all_known = false,
                }
            }
            let kind = said("dimm_mem_type").unwrap_or_default();
            slots.push(MemorySlot {
                slot: said("dimm_label").unwrap_or_default(),
                bank: format!("{controller} {place}"),
                kind: kind.rsplit('-').next().unwrap_or_default().to_owned(),
                bytes: megabytes << 20,
                mega_transfers: None,
                rated: None,
                width_bits: None,
            });
        }
    }
    let count = u32::try_from(channels.len()).ok().filter(|count| *count > 0 && all_known);
    (slots, count)
}

/// Where each filled slot's name, or that of its bank, has the channel in it: "P0 CHANNEL A", "Node1_Channel2_Dimm0".
fn named_channels(slots: &[MemorySlot]) -> Option<u32> {
    let channel = |slot: &MemorySlot| {
        [&slot.bank, &slot.slot].into_iter().find_map(|name| {
            let name = name.to_ascii_lowercase();
            let at = name.find("channel")?;
            let after = name[at + "channel".len()..].trim_start_matches([' ', '_', '-', ':']);
            let own: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
            // "CHANNEL A1" is the first slot of channel A.
            let own = match own.chars().next()? {
                letter if letter.is_ascii_alphabetic() => letter.to_string(),
                _ => own,
            };
            Some((name[..at].to_owned(), own))
        })
    };
    let filled = slots.iter().filter(|slot| slot.bytes > 0);
    let names: Option<BTreeSet<_>> = filled.map(channel).collect();
    names.and_then(|names| u32::try_from(names.len()).ok()).filter(|count| *count > 0)
}

/// Memory that programs map as a device, or that the kernel uses as a node of its own.
pub(crate) fn dax_devices(snapshot: &Snapshot) -> Vec<DaxDevice> {
    let system_ram: Vec<&str> =
        snapshot.read(DAX_SYSTEM_RAM).unwrap_or_default().split_whitespace().collect();
    let one = |name: &&str| {
        let number = |file: &str| {
            snapshot.read(&format!("{DAX_DEVICES}/{name}/{file}"))?.trim().parse::<u64>().ok()
        };
        let node = |file: &str| number(file).and_then(|node| u32::try_from(node).ok());
        Some(DaxDevice {
            bytes: number("size")?,
            // -1 where the firmware does not say.
            node: node("numa_node"),
            memory_node: node("target_node"),
            system_ram: system_ram.contains(name),
            name: (*name).to_owned(),
        })
    };
    snapshot.names_below(DAX_DEVICES).iter().filter_map(one).collect()
}

/// Nodes whose memory is of another kind than that of the nodes with CPUs, with the kernel's tiers where it has several.
pub(crate) fn tiers(
    snapshot: &Snapshot,
    nodes: &[NumaNode],
    devices: &[DaxDevice],
) -> Vec<MemoryTier> {
    let mut of_kernel: Vec<(u32, Vec<u32>)> = Vec::new();
    for name in snapshot.names_below(TIER_DIRECTORY) {
        let number = name.strip_prefix("memory_tier").and_then(|number| number.parse().ok());
        let list =
            snapshot.read(&format!("{TIER_DIRECTORY}/{name}/nodelist")).map(text::number_list);
        if let (Some(number), Some(Ok(nodes))) = (number, list) {
            of_kernel.push((number, nodes));
        }
    }
    // What the firmware promises (HMAT), MB/s, to the CPUs next to it; class 0 has initiators besides CPUs
    // (Documentation/admin-guide/mm/numaperf.rst).
    let promised = |node: &NumaNode| {
        let of_class = |class: &str| {
            let path =
                format!("{NODE_DIRECTORY}/node{}/{class}/initiators/read_bandwidth", node.id);
            snapshot.read(&path)?.trim().parse::<f64>().ok().filter(|rate| *rate > 0.0)
        };
        of_class("access1").or_else(|| of_class("access0"))
    };
    let own = nodes.iter().filter(|node| !node.cpus.is_empty()).filter_map(promised);
    let own = own.min_by(f64::total_cmp);
    let several = of_kernel.len() > 1;
    let with_memory = nodes.iter().filter(|node| node.memory_bytes > 0);
    let tier = |node: &NumaNode| {
        let tier = of_kernel.iter().find(|(_, nodes)| nodes.contains(&node.id));
        let tier = tier.map(|(number, _)| *number).filter(|_| several);
        let is_its = |device: &&DaxDevice| device.system_ram && device.memory_node == Some(node.id);
        let from = devices.iter().find(is_its);
        let kind = match (from, promised(node), own) {
            (Some(device), ..) => format!("{} as system RAM", device.name),
            (None, Some(rate), Some(own)) if rate >= MUCH * own => {
                "high-bandwidth memory".to_owned()
            }
            (None, Some(rate), Some(own)) if rate * MUCH <= own => "slow memory".to_owned(),
            _ if node.cpus.is_empty() => "memory without CPUs".to_owned(),
            _ => "memory of its CPUs".to_owned(),
        };
        (several || node.cpus.is_empty() || from.is_some()).then_some(MemoryTier {
            node: node.id,
            tier,
            kind,
        })
    };
    with_memory.filter_map(tier).collect()
}
