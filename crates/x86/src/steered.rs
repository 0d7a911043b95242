//! Registers of straight-line code, brought to the values that a record says.
//!
//! What for: code that is timed alone computes its addresses from memory that was not recorded. Where no content of memory
//! gives the recorded address ([`contents`](crate::contents)), an addition before the access does ([`shifted`]). What has to be added shows a
//! run in which each recorded register is noted and then set ([`noted`]). What not: where that is, and running it (`collect`).
//!
//! An addition keeps what the register waits for, which a move of a constant would not; it changes no flag. So a load that
//! waits for another one still does. It costs a cycle or nothing, which the same code with twice as many shows ([`Shift::twice`]).
//!
//! Encodings: SDM vol. 2, MOV, LEA, BSWAP.

use base::RemoteAddr;

use crate::register::Gpr;

/// Instructions that change a register by a constant; machine code for any address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shift {
    /// As few as possible.
    pub once: Vec<u8>,
    /// Twice as many: what they cost more is what the others cost, or more.
    pub twice: Vec<u8>,
}

/// Instructions at `at` that store a register at `place`, then set it to `value`. `None`: `place` is out of reach.
#[must_use]
pub fn noted(register: Gpr, value: u64, place: RemoteAddr, at: RemoteAddr) -> Option<Vec<u8>> {
    const STORE_BYTES: u64 = 7;
    let next = at.0.wrapping_add(STORE_BYTES);
    let distance = i32::try_from(place.0.wrapping_sub(next).cast_signed()).ok()?;
    let (low, high) = halves(register);
    // mov [rip + disp32], register
    let mut bytes = vec![0x48 | high << 2, 0x89, low << 3 | 5];
    bytes.extend(distance.to_le_bytes());
    // mov register, imm64
    bytes.extend([0x48 | high, 0xb8 | low]);
    bytes.extend(value.to_le_bytes());
    Some(bytes)
}

/// What brings a register from one value to another; `None` for a few distances of more than 2 GiB, of which there is none in 2^7.
#[must_use]
pub fn shifted(register: Gpr, from: u64, to: u64) -> Option<Shift> {
    let to_near = to.wrapping_sub(from).cast_signed();
    let between = match i32::try_from(to_near) {
        Ok(distance) => from.wrapping_add_signed(i64::from(distance / 2)),
        Err(_) => to.wrapping_add(1 << 40),
    };
    let twice = [path(register, from, between)?, path(register, between, to)?].concat();
    Some(Shift { once: path(register, from, to)?, twice })
}

fn path(register: Gpr, from: u64, to: u64) -> Option<Vec<u8>> {
    if let Ok(distance) = i32::try_from(to.wrapping_sub(from).cast_signed()) {
        return Some(added(register, distance));
    }
    // The upper half first: with its bytes in reverse order it is the lower one. What it becomes is the wanted one, or one more
    // or less, such that an addition to the lower half leads to the rest.
    let reversed = from.swap_bytes();
    let first = |upper: u32| (upper.swap_bytes().wrapping_sub(reversed as u32)).cast_signed();
    let then = |first: i32| reversed.wrapping_add_signed(first.into()).swap_bytes();
    let upper = (to >> 32) as u32;
    let ways = [upper, upper.wrapping_add(1), upper.wrapping_sub(1)].map(first);
    let rest = |first: &i32| i32::try_from(to.wrapping_sub(then(*first)).cast_signed()).ok();
    let (first, rest) = ways.iter().find_map(|first| Some((*first, rest(first)?)))?;
    let swap = swapped(register);
    Some([&swap[..], &added(register, first), &swap, &added(register, rest)].concat())
}

/// lea register, [register + disp32]
fn added(register: Gpr, distance: i32) -> Vec<u8> {
    let (low, high) = halves(register);
    let mut bytes = vec![0x48 | high << 2 | high, 0x8d, 0x80 | low << 3 | low];
    // rsp and r12 as a base need a SIB byte (SDM vol. 2, table 2-2).
    bytes.extend((low == 4).then_some(0x24));
    bytes.extend(distance.to_le_bytes());
    bytes
}

/// bswap register
fn swapped(register: Gpr) -> [u8; 3] {
    let (low, high) = halves(register);
    [0x48 | high, 0x0f, 0xc8 | low]
}

/// The lower three bits of its number, and the fourth, which goes into the REX prefix.
fn halves(register: Gpr) -> (u8, u8) {
    let number = register.number() as u8;
    (number & 7, number >> 3)
}

#[cfg(test)]
mod tests {
    use base::FileOffset;

    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        crate::disassemble(bytes, FileOffset(0)).into_iter().map(|line| line.text).collect()
    }

    /// What the instructions of a [`Shift`] do.
    fn run(shift: &[u8], from: u64) -> u64 {
        lines(shift).iter().fold(from, |value, line| {
            if line.starts_with("bswap") {
                return value.swap_bytes();
            }
            let operand = line.split(['[', ']']).nth(1).expect(line);
            let (sign, number) = match operand.split_once(['+', '-']) {
                Some((_, number)) => (if operand.contains('-') { -1 } else { 1 }, number),
                None => (0, "0"),
            };
            let number = match number.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16),
                None => number.parse(),
            };
            value.wrapping_add_signed(sign * number.expect(line))
        })
    }

    #[test]
    fn a_register_comes_to_any_value_from_any() {
        let mut values =
            vec![0, 1, u64::MAX, 0x7f12_3456_7890, 0x5555_5555_4321, 0x1234_5600, 1 << 63];
        values.extend((0..60).map(|seed| base::mixed(seed) >> (seed % 48)));
        let mut missed = 0;
        for from in &values {
            for to in &values {
                let Some(shift) = shifted(Gpr::RBX, *from, *to) else {
                    missed += 1;
                    continue;
                };
                for bytes in [&shift.once, &shift.twice] {
                    assert_eq!(run(bytes, *from), *to, "{from:#x} {to:#x} {:?}", lines(bytes));
                }
            }
        }
        assert!(missed * 128 < values.len() * values.len(), "{missed}");
    }

    #[test]
    fn instructions_are_those_that_are_meant() {
        for number in 0..Gpr::COUNT {
            let register = Gpr::from_number(number).expect("a register");
            let name = format!("{register}");
            let near = lines(&shifted(register, 0x100, 0x180).expect("near").once);
            assert_eq!(near, [format!("lea {name}, [{name}+0x80]")]);
            let far = lines(&shifted(register, 0, 1 << 40).expect("far").once);
            assert_eq!(far[0], format!("bswap {name}"));
            let note = noted(register, 0x7f12_3456_7890, RemoteAddr(0x2000), RemoteAddr(0x1000));
            let note = lines(&note.expect("near"));
            assert!(note[0].ends_with(&format!("], {name}")), "{note:?}");
            assert_eq!(note[1], format!("mov {name}, 0x7f1234567890"));
        }
        assert_eq!(noted(Gpr::RBX, 0, RemoteAddr(1 << 40), RemoteAddr(0)), None);
    }
}
