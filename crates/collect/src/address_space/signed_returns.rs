//! Unwind tables of aarch64 without the marks of signed return addresses.
//!
//! What for: compilers mark in `.eh_frame` from where on a return address is signed (pointer authentication,
//! `-mbranch-protection`). framehop 0.16 does not know these marks, and takes a function that has one for a function without a
//! table. Here nothing needs them, because a signature is stripped from every return address (`aarch64`); so each becomes an
//! instruction that does nothing. What not: `.debug_frame`. The bytes are untrusted: what does not parse stays as it is.
//!
//! Sources: DWARF 5, 6.4 and 7.24; LSB 5.0 core, 10.6 (`.eh_frame`); DWARF for the Arm 64-bit Architecture, 4.2.

use std::collections::HashMap;

/// DW_CFA_AARCH64_negate_ra_state_with_pc and DW_CFA_AARCH64_negate_ra_state.
const MARKS: [u8; 2] = [0x2c, 0x2d];
const NOP: u8 = 0;
/// DW_EH_PE_absptr, where an augmentation says nothing else.
const ABSOLUTE: u8 = 0;

/// The table with instructions that do nothing in place of the marks; `None` if there is no mark.
pub fn without_marks(table: &[u8]) -> Option<Vec<u8>> {
    let mut marks = Vec::new();
    let mut common = HashMap::new();
    let mut bytes = Bytes { table, at: 0 };
    while let Some((id_at, end)) = entry(&mut bytes) {
        find_marks(table, id_at, end, &mut common, &mut marks);
        bytes.at = end;
    }
    if marks.is_empty() {
        return None;
    }
    let mut changed = table.to_vec();
    marks.into_iter().for_each(|at| changed[at] = NOP);
    Some(changed)
}

/// What functions share that refer to one entry.
#[derive(Clone, Copy)]
struct Common {
    /// Bytes of an address.
    address: usize,
    /// Whether each has augmentation data.
    augmented: bool,
}

#[derive(Clone, Copy)]
struct Bytes<'a> {
    table: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count).filter(|at| *at <= self.table.len())?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.table.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn number<const SIZE: usize>(&mut self) -> Option<u64> {
        let found = self.table.get(self.at..)?.first_chunk::<SIZE>()?;
        self.at += SIZE;
        let mut word = [0; 8];
        word[..SIZE].copy_from_slice(found);
        Some(u64::from_le_bytes(word))
    }

    /// A LEB128 number; of a signed one only the length is right.
    fn leb(&mut self) -> Option<usize> {
        let mut value = 0usize;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn block(&mut self) -> Option<()> {
        let length = self.leb()?;
        self.skip(length)
    }
}

/// Where the id of the next entry lies, and where the entry ends.
fn entry(bytes: &mut Bytes<'_>) -> Option<(usize, usize)> {
    let length = match bytes.number::<4>()? {
        0 => return None,
        0xffff_ffff => bytes.number::<8>()?,
        length => length,
    };
    let id_at = bytes.at;
    let end = id_at.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.table.len()).then_some((id_at, end))
}

fn find_marks(
    table: &[u8],
    id_at: usize,
    end: usize,
    common: &mut HashMap<usize, Common>,
    marks: &mut Vec<usize>,
) -> Option<()> {
    let mut bytes = Bytes { table: &table[..end], at: id_at };
    let back = usize::try_from(bytes.number::<4>()?).ok()?;
    let shared = match back {
        0 => {
            let shared = read_common(&mut bytes)?;
            // By where its id lies: entries begin with a length of 4 bytes, or 12.
            common.insert(id_at, shared);
            shared
        }
        _ => {
            let at = id_at.checked_sub(back)?;
            let found = [4, 12].iter().find_map(|length| common.get(&(at + length)));
            let shared = *found?;
            bytes.skip(2 * shared.address)?;
            if shared.augmented {
                bytes.block()?;
            }
            shared
        }
    };
    while bytes.at < end {
        let at = bytes.at;
        if instruction(&mut bytes, shared.address)? {
            marks.push(at);
        }
    }
    Some(())
}

fn read_common(bytes: &mut Bytes<'_>) -> Option<Common> {
    let version = bytes.byte()?;
    let text = bytes.at;
    while bytes.byte()? != 0 {}
    let augmentation = bytes.table.get(text..bytes.at - 1)?;
    bytes.leb()?; // code alignment
    bytes.leb()?; // data alignment
    match version {
        1 => drop(bytes.byte()?),
        _ => drop(bytes.leb()?),
    }
    let Some(kinds) = augmentation.strip_prefix(b"z") else {
        return Some(Common { address: size_of_pointer(ABSOLUTE)?, augmented: false });
    };
    let length = bytes.leb()?;
    let after = bytes.at.checked_add(length)?;
    let mut encoding = ABSOLUTE;
    for kind in kinds {
        match kind {
            b'R' => encoding = bytes.byte()?,
            b'L' => drop(bytes.byte()?),
            b'P' => {
                let size = bytes.byte().and_then(size_of_pointer)?;
                bytes.skip(size)?;
            }
            _ => {}
        }
    }
    bytes.at = after;
    Some(Common { address: size_of_pointer(encoding)?, augmented: true })
}

/// DW_EH_PE_*: the low four bits are the format.
fn size_of_pointer(encoding: u8) -> Option<usize> {
    match encoding & 0xf {
        0x0 | 0x4 | 0xc => Some(8),
        0x2 | 0xa => Some(2),
        0x3 | 0xb => Some(4),
        _ => None,
    }
}

/// Passes one call frame instruction; whether it is a mark.
fn instruction(bytes: &mut Bytes<'_>, address: usize) -> Option<bool> {
    let code = bytes.byte()?;
    match code {
        0x40..=0x7f | 0xc0..=0xff | 0x00 | 0x0a | 0x0b => {}
        0x80..=0xbf | 0x06..=0x08 | 0x0d | 0x0e | 0x13 | 0x2e => drop(bytes.leb()?),
        0x01 => bytes.skip(address)?,
        0x02 => bytes.skip(1)?,
        0x03 => bytes.skip(2)?,
        0x04 => bytes.skip(4)?,
        0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 | 0x2f => {
            bytes.leb()?;
            bytes.leb()?;
        }
        0x0f => bytes.block()?,
        0x10 | 0x16 => {
            bytes.leb()?;
            bytes.block()?;
        }
        _ if MARKS.contains(&code) => return Some(true),
        _ => return None,
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A common entry `zR` with 4-byte addresses, a function with marks, one without.
    fn table() -> Vec<u8> {
        let mut table =
            vec![16, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0];
        let function = |table: &mut Vec<u8>, instructions: &[u8]| {
            let id_at = table.len() as u32 + 4;
            table.extend((13 + instructions.len() as u32).to_le_bytes());
            table.extend(id_at.to_le_bytes());
            table.extend([0x2d; 8]);
            table.push(0);
            table.extend(instructions);
        };
        // advance, mark, advance, def_cfa_offset 0x2d, offset x29, offset_extended 0x2d 0x2d, advance1 0x2d, mark, expression
        function(
            &mut table,
            &[
                0x41, 0x2d, 0x41, 0x0e, 0x2d, 0x9d, 0x2d, 5, 0x2d, 0x2d, 2, 0x2d, 0x2d, 0x10, 1, 1,
                0x2d,
            ],
        );
        function(&mut table, &[0x41, 0x0e, 0x2d]);
        table.extend([0; 4]);
        table
    }

    #[test]
    fn only_marks_become_instructions_that_do_nothing() {
        let table = table();
        let changed = without_marks(&table).expect("it has marks");
        let different: Vec<usize> =
            (0..table.len()).filter(|at| table[*at] != changed[*at]).collect();
        // Behind lengths, ids, addresses and augmentation of the common entry and the first function.
        assert_eq!(different, [20 + 17 + 1, 20 + 17 + 12]);
        assert!(different.iter().all(|at| table[*at] == 0x2d && changed[*at] == 0));
        assert_eq!(without_marks(&changed), None);
        assert_eq!(without_marks(&[]), None);
    }

    #[test]
    fn no_bytes_panic() {
        let table = table();
        for end in 0..table.len() {
            let _ = without_marks(&table[..end]);
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut absurd = table.clone();
                absurd[end] = value;
                let _ = without_marks(&absurd);
            }
        }
    }
}
