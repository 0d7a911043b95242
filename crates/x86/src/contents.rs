//! What memory must hold so that code in a row goes where its records say it went.
//!
//! What for: the core floor. Code that is timed alone loads its pointers and indices from memory that nobody recorded; were
//! they all alike, loads would wait for stores that lie elsewhere in the program. [`contents`] follows registers through
//! the instructions as far as they are a load times a factor plus something known, and where a record tells the register,
//! it solves for the loaded bytes. What not: running code; memory that leads to no address.
//!
//! Assumptions:
//! * What is told first of a byte holds. What the program wrote there later, between two records, is not followed.
//! * A store through an address that is not known touches nothing that matters.
//! * A sum that fits into 32 bits before its load is solved for fits afterwards, too.

use std::collections::BTreeMap;

use base::RemoteAddr;
use iced_x86::{Mnemonic, OpKind, Register};

use crate::evaluate::{State, resolve};
use crate::floor::Part;
use crate::instruction::Instruction;
use crate::operand::{Access, Kind, Place, When};
use crate::pointers::{self, Derived};
use crate::register::Gpr;
use crate::roots::{Source, sources};

/// Bytes of memory by address.
pub type Contents = BTreeMap<RemoteAddr, u8>;

/// Most bytes of a store that is remembered whole: a zmm register.
const WIDEST: u64 = 64;

/// A recorded register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Which.
    pub register: Gpr,
    /// In front of which instruction of its block.
    pub at: usize,
    /// What it held.
    pub value: u64,
}

/// What the memory behind `path` must hold for each register to be as it was seen; where a part has records, they stand
/// beside it. `start` is in front of it all, and each word that is not in the answer holds `word`.
#[must_use]
pub fn contents<'a, C: ?Sized + 'a>(
    path: impl Iterator<Item = (&'a Part<'a, C>, &'a [Seen])>,
    start: &State,
    word: u64,
) -> Contents {
    let known = |value: u64| Some(Sum { term: None, rest: value });
    let mut world = World {
        general: start.general.map(known),
        state: start.clone(),
        chosen: Contents::new(),
        stored: BTreeMap::new(),
        word,
    };
    for (part, seen) in path {
        for (number, instruction) in part.block.instructions.iter().take(part.executed).enumerate()
        {
            for one in seen.iter().filter(|one| one.at == number) {
                world.see(one);
            }
            world.execute(instruction);
        }
    }
    world.chosen
}

/// Bytes that are loaded into a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell {
    address: u64,
    /// 1 to 8.
    bytes: u32,
    /// Extended by its sign, else by zeros.
    signed: bool,
}

/// A loaded value times a factor, or nothing, plus a constant; modulo 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sum {
    term: Option<(Cell, i64)>,
    rest: u64,
}

/// Registers and memory in front of an instruction.
struct World {
    /// `None`: not known.
    general: [Option<Sum>; Gpr::COUNT],
    /// Where addresses are computed.
    state: State,
    chosen: Contents,
    /// Stored since the start: its length by its address, and the value of a register that was stored whole.
    stored: BTreeMap<u64, (u32, Option<Sum>)>,
    word: u64,
}

impl World {
    /// A register holds this: the load behind it is solved for, unless its bytes are chosen already.
    fn see(&mut self, seen: &Seen) {
        let Some(sum) = self.general[seen.register.number()] else { return };
        let Some((cell, factor)) = self.folded(sum).term else { return };
        let whole = seen.value.wrapping_sub(sum.rest).cast_signed();
        let loaded = whole.checked_div(factor).filter(|_| whole.checked_rem(factor) == Some(0));
        if let Some(loaded) =
            loaded.filter(|loaded| cell.widened(loaded.cast_unsigned()) == *loaded)
        {
            self.choose(cell, loaded.cast_unsigned());
        }
    }

    fn execute(&mut self, instruction: &Instruction) {
        let (raw, accesses) = (&instruction.raw, instruction.accesses());
        let addresses: Vec<Option<u64>> = accesses.iter().map(|one| self.address(one)).collect();
        let before = self.general;
        for register in instruction.registers().changed.iter() {
            self.general[register.number()] = None;
        }
        let at = |access: usize| addresses.get(access).copied().flatten();
        for (to, derived) in pointers::derived(raw, accesses) {
            self.general[to.number()] = match derived {
                Derived::Sum { terms, constant } => self.sum(&before, &terms, constant),
                Derived::Loaded { access } => {
                    at(access).and_then(|address| self.load(address, 8, false))
                }
            };
        }
        if let Some((to, bytes, signed)) = narrow_load(raw, accesses) {
            self.general[to.number()] = at(0).and_then(|address| self.load(address, bytes, signed));
        }
        if let Some((to, from, below)) = extended(raw) {
            let fits = |sum: &Sum| self.value(*sum) < below;
            self.general[to.number()] = before[from.number()].filter(fits);
        }
        let whole = stored_register(raw).and_then(|register| before[register.number()]);
        for (access, address) in accesses.iter().zip(&addresses) {
            if let (Kind::Write | Kind::ReadWrite, Some(address)) = (access.kind, address) {
                self.store(*address, access.bytes, whole.filter(|_| access.bytes == 8));
            }
        }
    }

    /// Where an access lies that happens once; `None` where a register that it takes is not known.
    fn address(&mut self, access: &Access) -> Option<u64> {
        let (Place::One(address), When::Always) = (&access.place, access.when) else { return None };
        for source in sources(access) {
            if let Source::General(register) = source {
                let value = self.value(self.general[register.number()]?);
                self.state.set(register, value);
            }
        }
        Some(resolve(address, &self.state))
    }

    fn sum(
        &mut self,
        before: &[Option<Sum>; Gpr::COUNT],
        terms: &[(Gpr, i64)],
        constant: i64,
    ) -> Option<Sum> {
        let mut all = Sum { term: None, rest: constant.cast_unsigned() };
        for (register, times) in terms {
            let one = self.folded(before[register.number()]?);
            all.rest = all.rest.wrapping_add(one.rest.wrapping_mul(times.cast_unsigned()));
            let Some((cell, factor)) = one.term else { continue };
            let term = (cell, factor.wrapping_mul(*times));
            all.term = Some(match all.term {
                None => term,
                Some((same, factor)) if same == cell => (cell, factor.wrapping_add(term.1)),
                // One of the two stays open: preferably one that can be solved for whatever is seen.
                Some(other) => {
                    let (open, closed) = if term.1 == 1 { (term, other) } else { (other, term) };
                    self.choose(closed.0, self.held(closed.0));
                    all.rest = all.rest.wrapping_add(self.product(closed));
                    open
                }
            });
        }
        Some(all)
    }

    /// What memory holds there; `None` where it is what the path stored, and that is not known.
    fn load(&self, address: u64, bytes: u32, signed: bool) -> Option<Sum> {
        match self.stores_over(address, bytes).as_slice() {
            [] => {
                let cell = Cell { address, bytes, signed };
                Some(self.folded(Sum { term: Some((cell, 1)), rest: 0 }))
            }
            [start] if *start == address && bytes == 8 => self.stored.get(start)?.1,
            _ => None,
        }
    }

    fn store(&mut self, address: u64, bytes: u32, value: Option<Sum>) {
        for start in self.stores_over(address, bytes) {
            self.stored.remove(&start);
        }
        self.stored.insert(address, (bytes, value));
    }

    /// Begins of stores that share a byte with these.
    fn stores_over(&self, address: u64, bytes: u32) -> Vec<u64> {
        let near = address.saturating_sub(WIDEST)..address.saturating_add(u64::from(bytes));
        let stores = self.stored.range(near);
        let over =
            stores.filter(|(start, (bytes, _))| start.saturating_add(u64::from(*bytes)) > address);
        over.map(|(start, _)| *start).collect()
    }

    /// Without a term whose bytes are chosen.
    fn folded(&self, sum: Sum) -> Sum {
        match sum.term {
            Some((cell, _)) if self.is_chosen(cell) => Sum { term: None, rest: self.value(sum) },
            _ => sum,
        }
    }

    fn value(&self, sum: Sum) -> u64 {
        sum.rest.wrapping_add(sum.term.map_or(0, |term| self.product(term)))
    }

    fn product(&self, (cell, factor): (Cell, i64)) -> u64 {
        self.held(cell).wrapping_mul(factor.cast_unsigned())
    }

    /// The value of its bytes, extended.
    fn held(&self, cell: Cell) -> u64 {
        let mut value = [0; 8];
        for (byte, address) in value.iter_mut().zip(cell.addresses()) {
            let default = self.word.to_le_bytes()[(address.0 % 8) as usize];
            *byte = self.chosen.get(&address).copied().unwrap_or(default);
        }
        cell.widened(u64::from_le_bytes(value)).cast_unsigned()
    }

    fn is_chosen(&self, cell: Cell) -> bool {
        cell.addresses().any(|address| self.chosen.contains_key(&address))
    }

    fn choose(&mut self, cell: Cell, value: u64) {
        for (address, byte) in cell.addresses().zip(value.to_le_bytes()) {
            self.chosen.entry(address).or_insert(byte);
        }
    }
}

impl Cell {
    fn addresses(self) -> impl Iterator<Item = RemoteAddr> {
        (0..u64::from(self.bytes)).map(move |byte| RemoteAddr(self.address.wrapping_add(byte)))
    }

    /// The lowest bytes of `value`, extended as the load does.
    fn widened(self, value: u64) -> i64 {
        let unused = 64u32.saturating_sub(8 * self.bytes);
        let high = value << unused;
        if self.signed { high.cast_signed() >> unused } else { (high >> unused).cast_signed() }
    }
}

/// A load of fewer than 8 bytes that sets a whole register: which, how many bytes, and whether their sign is extended.
fn narrow_load(raw: &iced_x86::Instruction, accesses: &[Access]) -> Option<(Gpr, u32, bool)> {
    let [access] = accesses else { return None };
    let of_register = raw.op_count() == 2 && raw.op0_kind() == OpKind::Register;
    if !of_register || raw.op1_kind() != OpKind::Memory {
        return None;
    }
    let to = raw.op0_register();
    let (whole, half) = (to.is_gpr64(), to.is_gpr32());
    let signed = match raw.mnemonic() {
        Mnemonic::Mov if half => false,
        Mnemonic::Movzx if whole || half => false,
        Mnemonic::Movsx | Mnemonic::Movsxd if whole => true,
        _ => return None,
    };
    Some((Gpr::from_iced(to)?, access.bytes, signed))
}

/// The register that becomes the same as another one, when that is below a limit: `mov` of 32 bits, `movsxd`, `cdqe`.
fn extended(raw: &iced_x86::Instruction) -> Option<(Gpr, Gpr, u64)> {
    if raw.mnemonic() == Mnemonic::Cdqe {
        return Some((Gpr::RAX, Gpr::RAX, 1 << 31));
    }
    let register = |operand| match raw.op_count() == 2 && raw.op_kind(operand) == OpKind::Register {
        true => raw.op_register(operand),
        false => Register::None,
    };
    let (to, from) = (register(0), register(1));
    let below = match raw.mnemonic() {
        Mnemonic::Mov if to.is_gpr32() && from.is_gpr32() => 1 << 32,
        Mnemonic::Movsxd if to.is_gpr64() && from.is_gpr32() => 1 << 31,
        _ => return None,
    };
    Some((Gpr::from_iced(to)?, Gpr::from_iced(from)?, below))
}

/// The register of which all 8 bytes are stored by a plain `mov` or `push`.
fn stored_register(raw: &iced_x86::Instruction) -> Option<Gpr> {
    match raw.mnemonic() {
        Mnemonic::Push => pointers::whole_register(raw, 0),
        _ => pointers::stored(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeBytes, Limits, Reader, read_block};

    const WORD: u64 = 0x1234_5600;
    const AT: u64 = 0x7f00_0000_1000;

    fn seen(register: Gpr, at: usize, value: u64) -> Seen {
        Seen { register, at, value }
    }

    /// Of these instructions once for each record, from registers that all hold `WORD` but rdi and rdx, which hold `AT`.
    fn found(bytes: &[u8], records: &[&[Seen]]) -> Vec<(u64, u8)> {
        let code = CodeBytes { start: RemoteAddr(0x1000), bytes };
        let block = read_block(&mut Reader::new(), &code, code.start, &Limits::SUPER);
        let part = Part { block: &block, code: &code, executed: block.instructions.len() };
        let mut start = State { general: [WORD; 16], ..State::default() };
        start.set(Gpr::RDI, AT);
        start.set(Gpr::RDX, AT);
        let path = records.iter().map(|record| (&part, *record));
        contents(path, &start, WORD).into_iter().map(|(at, byte)| (at.0 - AT, byte)).collect()
    }

    fn bytes_of(value: u64) -> Vec<(u64, u8)> {
        (0..).zip(value.to_le_bytes()).collect()
    }

    #[test]
    fn each_index_is_where_it_was_loaded_from() {
        // movzx eax, byte [rdi]; add rdi, 1; add dword [rax * 4 + 0x10000000], 1
        let count = [0xf, 0xb6, 7, 0x48, 0x83, 0xc7, 1, 0x83, 4, 0x85, 0, 0, 0, 0x10, 1];
        let records = [[seen(Gpr::RAX, 1, 7)], [seen(Gpr::RAX, 1, 9)]];
        let records: Vec<&[Seen]> = records.iter().map(<[Seen; 1]>::as_slice).collect();
        assert_eq!(found(&count, &records), [(0, 7), (1, 9)]);
        // No byte holds 256.
        assert_eq!(found(&count, &[&[seen(Gpr::RAX, 1, 256)]]), []);
    }

    #[test]
    fn a_pointer_is_what_is_left_when_its_index_is_taken_off() {
        // mov rcx, [rdx]; add rcx, rax; mov byte [rcx], 1; inc rax
        let brighten = [0x48, 0x8b, 0xa, 0x48, 1, 0xc1, 0xc6, 1, 1, 0x48, 0xff, 0xc0];
        let first = [seen(Gpr::RCX, 2, 0x7f11_2233_4455)];
        // The second agrees with the first, and could not change it.
        let second = [seen(Gpr::RCX, 2, 0x7f11_2233_4456)];
        let expected = bytes_of(0x7f11_2233_4455 - WORD);
        assert_eq!(found(&brighten, &[&first, &second]), expected);
    }

    #[test]
    fn addresses_may_be_the_last_ones() {
        // mov [rdx], rdi; mov rax, [rdx]; mov rcx, [rax]
        let bytes = [0x48, 0x89, 0x3a, 0x48, 0x8b, 2, 0x48, 0x8b, 8];
        let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &bytes };
        let block = read_block(&mut Reader::new(), &code, code.start, &Limits::SUPER);
        let part = Part { block: &block, code: &code, executed: block.instructions.len() };
        for address in [u64::MAX, u64::MAX - 3, u64::MAX - 8, 0, 3] {
            let mut start = State { general: [WORD; 16], ..State::default() };
            start.set(Gpr::RDX, address);
            let path = [(&part, &[][..]), (&part, &[][..])];
            assert!(contents(path.into_iter(), &start, WORD).is_empty(), "{address:#x}");
        }
    }

    #[test]
    fn a_factor_is_divided_by_where_that_is_possible() {
        // movsxd rax, dword [rdi]; shl rax, 4; mov rcx, [rbx + rax]
        let scaled = [0x48, 0x63, 7, 0x48, 0xc1, 0xe0, 4, 0x48, 0x8b, 0xc, 3];
        let of = |value: i64| found(&scaled, &[&[seen(Gpr::RAX, 2, value.cast_unsigned())]]);
        assert_eq!(of(0x30), [(0, 3), (1, 0), (2, 0), (3, 0)]);
        assert_eq!(of(-0x30), [(0, 0xfd), (1, 0xff), (2, 0xff), (3, 0xff)]);
        assert_eq!(of(0x31), []);
    }

    #[test]
    fn what_the_path_itself_stored_is_not_solved_for() {
        // mov [rdx + 8], rdi; mov rax, [rdx + 8]; mov rcx, [rax]; mov rbx, [rcx]
        let spilled = [0x48, 0x89, 0x7a, 8, 0x48, 0x8b, 0x42, 8, 0x48, 0x8b, 8, 0x48, 0x8b, 0x19];
        let record = [seen(Gpr::RAX, 2, 5), seen(Gpr::RCX, 3, 0x7f55_0000_0000)];
        assert_eq!(found(&spilled, &[&record]), bytes_of(0x7f55_0000_0000));
    }

    #[test]
    fn of_two_open_loads_one_is_solved_for() {
        // mov rax, [rdi]; mov ecx, [rdi + 8]; lea rsi, [rax + rcx * 8]; mov rbx, [rsi]
        let both = [0x48, 0x8b, 7, 0x8b, 0x4f, 8, 0x48, 0x8d, 0x34, 0xc8, 0x48, 0x8b, 0x1e];
        let mut expected = bytes_of(0x7f55_0000_0000 - 8 * WORD);
        expected.extend((8..).zip(WORD.to_le_bytes()).take(4));
        assert_eq!(found(&both, &[&[seen(Gpr::RSI, 3, 0x7f55_0000_0000)]]), expected);
    }
}
