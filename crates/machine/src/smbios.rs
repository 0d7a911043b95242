//! Memory modules in the firmware's table (SMBIOS structures of type 17, "Memory Device"; DMTF DSP0134 3.7, 7.18).
//!
//! What for: how many modules a machine has, of which kind and speed. What not: reading the table; which channel of the processor a
//! slot is wired to, which only names of slots and EDAC tell (`modules`). Assumption: the bytes may be anything. Serial numbers
//! are not taken over: a snapshot may go into a bug report.

use facts::host::MemorySlot;

const MEMORY_DEVICE: u8 = 17;
const END_OF_TABLE: u8 = 127;
/// Type, length, handle.
const HEADER: usize = 4;
/// No machine has so many slots.
const MOST_SLOTS: usize = 1024;
/// Characters of a name that are kept.
const LONGEST_NAME: usize = 64;

/// The slots that a table describes, empty ones too, in its order. What is cut off or makes no sense is left out.
#[must_use]
pub fn memory_slots(table: &[u8]) -> Vec<MemorySlot> {
    let mut slots = Vec::new();
    let mut rest = table;
    while let Some((structure, strings, after)) = split(rest) {
        match structure[0] {
            END_OF_TABLE => break,
            MEMORY_DEVICE if slots.len() < MOST_SLOTS => slots.extend(slot(structure, strings)),
            _ => {}
        }
        rest = after;
    }
    slots
}

/// The first structure, its strings, and what follows. The strings end with two zero bytes, also where there are none.
fn split(table: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let length = usize::from(*table.get(1)?);
    if length < HEADER || table.len() < length {
        return None;
    }
    let (structure, rest) = table.split_at(length);
    let end = rest.windows(2).position(|pair| pair == [0, 0]).unwrap_or(rest.len());
    let after = rest.get(end + 2..).unwrap_or_default();
    Some((structure, &rest[..end], after))
}

fn slot(structure: &[u8], strings: &[u8]) -> Option<MemorySlot> {
    let byte = |at: usize| structure.get(at).copied();
    let word = |at: usize| Some(u16::from_le_bytes([byte(at)?, byte(at + 1)?]));
    let double = |at: usize| Some(u32::from(word(at)?) | u32::from(word(at + 2)?) << 16);
    let known =
        |value: Option<u16>| value.filter(|value| *value != 0 && *value != 0xffff).map(u32::from);
    // 0xffff: the 32 bits of a later version have it.
    let speed = |at: usize, extended: usize| match word(at)? {
        0 => None,
        0xffff => double(extended).map(|speed| speed & 0x7fff_ffff).filter(|speed| *speed > 0),
        speed => Some(u32::from(speed)),
    };
    let bytes = match word(0x0c)? {
        0 | 0xffff => 0,
        0x7fff => u64::from(double(0x1c)? & 0x7fff_ffff) << 20,
        size if size & 0x8000 != 0 => u64::from(size & 0x7fff) << 10,
        size => u64::from(size) << 20,
    };
    let rated = speed(0x15, 0x54);
    Some(MemorySlot {
        slot: name(strings, byte(0x10)?),
        bank: name(strings, byte(0x11)?),
        kind: kind(byte(0x12)?, byte(0x28)).to_owned(),
        bytes,
        mega_transfers: speed(0x20, 0x58).or(rated),
        rated,
        width_bits: known(word(0x0a)).filter(|bits| *bits <= 1024),
    })
}

/// Strings are numbered from 1; 0 is none.
fn name(strings: &[u8], number: u8) -> String {
    let index = usize::from(number).checked_sub(1);
    let bytes = index.and_then(|index| strings.split(|byte| *byte == 0).nth(index));
    let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let text = text.chars().map(|one| if one.is_control() { ' ' } else { one });
    text.take(LONGEST_NAME).collect::<String>().trim().to_owned()
}

/// Table 79 of the standard; memory that keeps its data is named by its technology (table 82), which came later.
fn kind(code: u8, technology: Option<u8>) -> &'static str {
    match technology {
        Some(4..=6) => return "NVDIMM",
        Some(7) => return "persistent memory",
        _ => {}
    }
    match code {
        0x12 => "DDR",
        0x13 => "DDR2",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x1f => "persistent memory",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure with its strings.
    fn structure(kind: u8, fields: &[(usize, &[u8])], length: u8, strings: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(length)];
        bytes[..2].copy_from_slice(&[kind, length]);
        for (at, value) in fields {
            bytes[*at..at + value.len()].copy_from_slice(value);
        }
        for text in strings {
            bytes.extend(text.bytes().chain([0]));
        }
        bytes.extend(if strings.is_empty() { &[0, 0][..] } else { &[0] });
        bytes
    }

    fn module(size: [u8; 2], speeds: [[u8; 2]; 2], kind: u8) -> Vec<u8> {
        let fields: [(usize, &[u8]); 7] = [
            (0x0a, &[64, 0]),
            (0x0c, &size),
            (0x10, &[1, 2]),
            (0x12, &[kind]),
            (0x15, &speeds[0]),
            (0x1c, &[0, 0, 2, 0]),
            (0x20, &speeds[1]),
        ];
        structure(17, &fields, 0x5c, &["P0 CHANNEL A\n", "BANK 0"])
    }

    #[test]
    fn modules_and_empty_slots_are_found_among_others() {
        let mut table = structure(0, &[], 24, &["a maker", "1.0"]);
        table.extend(structure(16, &[], 23, &[]));
        // 64 GiB would be 0x7fff and the later field: 2 x 65536 MiB; rated 5600, runs at 4800.
        table.extend(module([0xff, 0x7f], [[0xe0, 0x15], [0xc0, 0x12]], 0x22));
        table.extend(module([0, 0], [[0, 0], [0, 0]], 2));
        table.extend(structure(127, &[], 4, &[]));
        table.extend(module([0, 0x40], [[0, 0], [0, 0]], 0x1a));
        let found = memory_slots(&table);
        assert_eq!(found.len(), 2, "{found:?}");
        let expected = MemorySlot {
            slot: "P0 CHANNEL A".to_owned(),
            bank: "BANK 0".to_owned(),
            kind: "DDR5".to_owned(),
            bytes: 128 << 30,
            mega_transfers: Some(4800),
            rated: Some(5600),
            width_bits: Some(64),
        };
        assert_eq!(found[0], expected);
        assert_eq!(
            (found[1].bytes, found[1].kind.as_str(), found[1].mega_transfers),
            (0, "", None)
        );
    }

    /// Every byte set to every value, and every length.
    #[test]
    fn damage_never_panics_nor_makes_slots_without_bytes() {
        let table = module([0, 0x40], [[0x40, 6], [0x40, 6]], 0x18);
        for length in 0..table.len() {
            assert!(memory_slots(&table[..length]).len() <= 1);
        }
        for at in 0..table.len() {
            for value in 0..=255 {
                let mut damaged = table.clone();
                damaged[at] = value;
                assert!(memory_slots(&damaged).len() <= table.len() / HEADER);
            }
        }
        assert_eq!(memory_slots(&[17; 4096]), [], "too short for a slot");
        assert_eq!(memory_slots(&[]), []);
        // A structure that claims no length cannot be passed.
        assert_eq!(memory_slots(&[17, 0, 0, 0, 0, 0]), []);
        let many = module([0, 0x40], [[0, 0], [0, 0]], 0x18).repeat(2000);
        assert_eq!(memory_slots(&many).len(), MOST_SLOTS);
    }
}
