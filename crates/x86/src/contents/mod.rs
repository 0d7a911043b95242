//! The memory contents with which straight-line code takes the path that its records show.
//!
//! What for: no-miss time. Code that is timed alone loads its pointers and indices from memory that was not recorded.
//! If all of them were equal, loads would wait for stores that go elsewhere in the program. [`contents`] follows
//! registers through the instructions as expressions over loaded bytes (`value`). Where a record has the register's
//! value, it searches for bytes that give this value. What not: running code; memory that affects no address.
//!
//! Assumptions:
//! * The first value that is found for a byte is kept. A later store of the program between two records is not
//!   followed.
//! * A recorded register that no content explains gets its value nevertheless (`steered`).
//! * A store through an unknown address does not touch the memory in question.
//! * Of several loads in one expression one is solved for; the others keep their values.
//! * Where an expression mixes bits (a hash), a value that is nearly right does: it leads to another slot, as a rule.

mod formula;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use base::RemoteAddr;
use iced_x86::{Mnemonic, OpKind};

use self::formula::{Formula, Operand, formulas};
use self::value::{Cell, Operation, Value};
use crate::evaluate::{State, resolve};
use crate::instruction::Instruction;
use crate::operand::{Access, Kind, LINE_BYTES, Location, Occurrence};
use crate::pointers::{self, Derived};
use crate::register::Gpr;
use crate::roots::{Source, sources};
use crate::unroll::Part;

/// Bytes of memory by address.
pub type Contents = BTreeMap<RemoteAddr, u8>;

/// What memory holds before a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FirstContents {
    /// The bytes that matter.
    pub held: Contents,
    /// What the path loads into registers and then overwrites.
    pub overwritten: Contents,
    /// The lines that it touches, as far as their addresses are known, by address / [`LINE_BYTES`](crate::LINE_BYTES).
    pub lines: BTreeSet<u64>,
}

/// Code that stores these bytes, so that a path begins alike each time. It uses rax and rcx.
#[must_use]
pub fn restored(contents: &Contents) -> Vec<u8> {
    let mut code = Vec::new();
    let mut left = contents.iter().peekable();
    while let Some((first, byte)) = left.next() {
        let (mut value, mut bytes) = ([*byte, 0, 0, 0, 0, 0, 0, 0], 1);
        while bytes < value.len()
            && let Some((_, byte)) =
                left.next_if(|(at, _)| at.0 == first.0.wrapping_add(bytes as u64))
        {
            value[bytes] = *byte;
            bytes += 1;
        }
        let mut done = 0;
        while done < bytes {
            // The largest of 8, 4, 2 and 1 that fits.
            let piece = 1 << (bytes - done).ilog2();
            let mut part = [0; 8];
            part[..piece].copy_from_slice(&value[done..done + piece]);
            code.extend([0x48, 0xb8]); // mov rax, imm64
            code.extend(first.0.wrapping_add(done as u64).to_le_bytes());
            code.extend([0x48, 0xb9]); // mov rcx, imm64
            code.extend(part);
            code.extend(match piece {
                8 => &[0x48, 0x89, 8][..], // mov [rax], rcx; likewise ecx, cx, cl
                4 => &[0x89, 8],
                2 => &[0x66, 0x89, 8],
                _ => &[0x88, 8],
            });
            done += piece;
        }
    }
    code
}

/// Most bytes of a store whose bytes are all remembered: a zmm register.
const WIDEST: u64 = 64;

const LINE: u64 = LINE_BYTES as u64;

/// Values that are tried for a load where none is found by going back through the expression: one of 64 slots of a table is
/// hit with near certainty, and of a large table a slot that is near.
const TRIED: u64 = 256;

/// A recorded register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedRegister {
    /// The register.
    pub register: Gpr,
    /// The index of the instruction in its block before which it was recorded.
    pub at: usize,
    /// Its value.
    pub value: u64,
}

/// The memory contents with which each register on `path` has its recorded value; the records of a part are next to
/// it. `start` is the state before the path. Each word that is not in the answer holds `word`.
#[must_use]
pub fn contents<'a, C: ?Sized + 'a>(
    path: impl Iterator<Item = (&'a Part<'a, C>, &'a [RecordedRegister])>,
    start: &State,
    word: u64,
) -> FirstContents {
    let mut world = World {
        general: start.general.map(|value| Some(Value::Known(value))),
        state: start.clone(),
        chosen: Contents::new(),
        stored: BTreeMap::new(),
        stores: Vec::new(),
        loads: Vec::new(),
        lines: BTreeSet::new(),
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
    let loaded =
        world.loads.iter().flat_map(|cell| cell.addresses().zip(world.held(*cell).to_le_bytes()));
    let loaded: Contents = loaded.chain(world.chosen.clone()).collect();
    let over = world.stores.iter().flat_map(|(at, bytes)| {
        loaded.range(RemoteAddr(*at)..RemoteAddr(at.saturating_add(u64::from(*bytes))))
    });
    let overwritten = over.map(|(at, byte)| (*at, *byte)).collect();
    FirstContents { held: world.chosen, overwritten, lines: world.lines }
}

/// `None`: unknown.
type Registers = [Option<Value>; Gpr::COUNT];

/// Registers and memory before an instruction.
struct World {
    general: Registers,
    /// The values from which addresses are computed.
    state: State,
    chosen: Contents,
    /// Stores since the start, by address: their length, and the value of a register that was stored whole.
    stored: BTreeMap<u64, (u32, Option<Value>)>,
    /// The address and length of every store.
    stores: Vec<(u64, u32)>,
    /// What was loaded into registers before the path stored there.
    loads: Vec<Cell>,
    lines: BTreeSet<u64>,
    word: u64,
}

impl World {
    /// Takes a recorded value: solves the register's expression for a load in it, unless its bytes are chosen
    /// already.
    fn see(&mut self, seen: &RecordedRegister) {
        if let Some(value) = self.general[seen.register.number()].clone() {
            self.solve(&value, seen);
        }
        self.general[seen.register.number()] = Some(Value::Known(seen.value));
    }

    fn solve(&mut self, value: &Value, seen: &RecordedRegister) {
        let mut open = Vec::new();
        value.cells(&mut |cell| open.push(cell));
        // What an earlier record has determined stays.
        open.retain(|cell| !self.is_chosen(*cell));
        let gives = |(cell, guess): &(Cell, u64)| {
            let held = |one: Cell| if one == *cell { *guess } else { self.held(one) };
            open.contains(cell) && value.when(&held) == seen.value
        };
        let guesses = value.guesses(seen.value, &|cell| self.held(cell));
        let found = guesses.into_iter().find(gives);
        let Some((solved, bytes)) = found.or_else(|| self.nearest(value, &open, seen.value)) else {
            return;
        };
        self.choose(solved, bytes);
        // The solution holds only as long as these keep their values.
        for cell in open {
            self.choose(cell, self.held(cell));
        }
    }

    /// Of [`TRIED`] values for one of these loads, the one that brings `value` nearest to `target`; `None` where none is nearer
    /// than what the load holds, and where going back would have found what there is.
    fn nearest(&self, value: &Value, open: &[Cell], target: u64) -> Option<(Cell, u64)> {
        if !value.is_mixed() {
            return None;
        }
        let distance = |of: &Cell, tried: u64| {
            let held = |one: Cell| if one == *of { tried } else { self.held(one) };
            value.when(&held).abs_diff(target)
        };
        let tries = open.iter().flat_map(|cell| {
            let tried = (0..TRIED).map(|number| cell.widened(scattered(number)));
            tried.map(move |tried| (*cell, tried))
        });
        let best = tries.min_by_key(|(cell, tried)| distance(cell, *tried))?;
        let (cell, tried) = best;
        (distance(&cell, tried) < distance(&cell, self.held(cell))).then_some(best)
    }

    fn execute(&mut self, instruction: &Instruction) {
        let (raw, accesses) = (&instruction.raw, instruction.accesses());
        // Before the registers change: an operand is addressed by the values before its
        // instruction.
        let addresses: Vec<Option<u64>> = accesses.iter().map(|one| self.address(one)).collect();
        let before = self.general.clone();
        for (access, address) in accesses.iter().zip(&addresses) {
            let Some(address) = *address else { continue };
            let last = address.saturating_add(u64::from(access.bytes).saturating_sub(1));
            self.lines.extend(address / LINE..=last / LINE);
            let to_register = !instruction.registers().changed.is_empty();
            let first = to_register && self.stores_over(address, access.bytes).is_empty();
            if access.kind == Kind::Read && access.bytes <= 8 && first {
                self.loads.push(Cell { address, bytes: access.bytes, signed: false });
            }
        }
        for register in instruction.registers().changed.iter() {
            self.general[register.number()] = None;
        }
        let at = |access: usize| addresses.get(access).copied().flatten();
        let derived = pointers::derived(raw, accesses);
        if derived.is_empty() {
            let loads = match accesses {
                [access] if access.kind == Kind::Read => at(0).map(|at| (at, access.bytes)),
                _ => None,
            };
            for formula in formulas(raw) {
                self.general[formula.to.number()] = self.computed(&formula, &before, loads);
            }
        }
        for (to, derived) in derived {
            self.general[to.number()] = match derived {
                Derived::Sum { terms, constant } => self.sum(&before, &terms, constant),
                Derived::Loaded { access } => {
                    at(access).and_then(|address| self.load(address, 8, false))
                }
            };
        }
        if let Some((to, bytes)) = signed_load(raw, accesses) {
            self.general[to.number()] = at(0).and_then(|address| self.load(address, bytes, true));
        }
        let whole = stored_register(raw).and_then(|register| before[register.number()].clone());
        for (access, address) in accesses.iter().zip(&addresses) {
            if let (Kind::Write | Kind::ReadWrite, Some(address)) = (access.kind, address) {
                self.store(*address, access.bytes, whole.clone().filter(|_| access.bytes == 8));
            }
        }
    }

    /// The address of an access that happens once; `None` if it needs a register whose value is unknown.
    fn address(&mut self, access: &Access) -> Option<u64> {
        let (Location::One(address), Occurrence::Always) = (&access.place, access.when) else {
            return None;
        };
        for source in sources(access) {
            if let Source::General(register) = source {
                let value = self.value(self.general[register.number()].as_ref()?);
                self.state.set(register, value);
            }
        }
        Some(resolve(address, &self.state))
    }

    fn sum(&self, before: &Registers, terms: &[(Gpr, i64)], constant: i64) -> Option<Value> {
        let known = |value: i64| Value::Known(value.cast_unsigned());
        terms.iter().try_fold(known(constant), |sum, (register, times)| {
            let one = self.folded(before[register.number()].clone()?);
            let term = match times {
                1 => one,
                _ => Value::made(Operation::Times, one, known(*times))?,
            };
            match sum {
                Value::Known(0) => Some(term),
                sum => Value::made(Operation::Plus, term, sum),
            }
        })
    }

    /// `loads`: the address from which the instruction loads, and the number of bytes.
    fn computed(
        &self,
        formula: &Formula,
        before: &Registers,
        loads: Option<(u64, u32)>,
    ) -> Option<Value> {
        let value = |operand: Operand| match operand {
            Operand::Constant(value) => Some(Value::Known(value)),
            Operand::Register(register, bits) => {
                lowest(self.folded(before[register.number()].clone()?), bits)
            }
            Operand::Loaded => loads.and_then(|(address, bytes)| self.load(address, bytes, false)),
        };
        let (a, b) = (value(formula.a)?, value(formula.b)?);
        let same = formula.operation == Operation::Plus && matches!(b, Value::Known(0));
        let made = if same { a } else { Value::made(formula.operation, a, b)? };
        lowest(made, formula.bits)
    }

    /// The content of memory at an address; `None` if the path stored it and its value is unknown.
    fn load(&self, address: u64, bytes: u32, signed: bool) -> Option<Value> {
        match self.stores_over(address, bytes).as_slice() {
            [] if bytes <= 8 => Some(self.folded(Value::Loaded(Cell { address, bytes, signed }))),
            [start] if *start == address && bytes == 8 => self.stored.get(start)?.1.clone(),
            _ => None,
        }
    }

    fn store(&mut self, address: u64, bytes: u32, value: Option<Value>) {
        for start in self.stores_over(address, bytes) {
            self.stored.remove(&start);
        }
        self.stored.insert(address, (bytes, value));
        self.stores.push((address, bytes));
    }

    /// Addresses of stores that overlap these bytes.
    fn stores_over(&self, address: u64, bytes: u32) -> Vec<u64> {
        let near = address.saturating_sub(WIDEST)..address.saturating_add(u64::from(bytes));
        let stores = self.stored.range(near);
        let over =
            stores.filter(|(start, (bytes, _))| start.saturating_add(u64::from(*bytes)) > address);
        over.map(|(start, _)| *start).collect()
    }

    /// The constant, if the bytes of all its loads are chosen; else the value unchanged.
    fn folded(&self, value: Value) -> Value {
        let mut open = false;
        value.cells(&mut |cell| open |= !self.is_chosen(cell));
        if open { value } else { Value::Known(self.value(&value)) }
    }

    fn value(&self, value: &Value) -> u64 {
        value.when(&|cell| self.held(cell))
    }

    /// The current value of its bytes, extended.
    fn held(&self, cell: Cell) -> u64 {
        let mut value = [0; 8];
        for (byte, address) in value.iter_mut().zip(cell.addresses()) {
            let default = self.word.to_le_bytes()[(address.0 % 8) as usize];
            *byte = self.chosen.get(&address).copied().unwrap_or(default);
        }
        cell.widened(u64::from_le_bytes(value))
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

/// Bits of a number, mixed (Steele et al., "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, SplitMix64).
fn scattered(number: u64) -> u64 {
    let x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The lowest bits of a value that may have others.
fn lowest(value: Value, bits: u32) -> Option<Value> {
    let fits = match &value {
        Value::Known(value) => bits < 64 && value >> bits == 0,
        Value::Loaded(cell) => !cell.signed && 8 * cell.bytes <= bits,
        Value::Made(_) => false,
    };
    if fits || bits >= 64 {
        return Some(value);
    }
    Value::made(Operation::And, value, Value::Known((1 << bits) - 1))
}

/// The register that a load of fewer than 8 bytes sets with sign extension, and the number of bytes.
fn signed_load(raw: &iced_x86::Instruction, accesses: &[Access]) -> Option<(Gpr, u32)> {
    let [access] = accesses else { return None };
    let loads = matches!(raw.mnemonic(), Mnemonic::Movsx | Mnemonic::Movsxd)
        && raw.op0_kind() == OpKind::Register
        && raw.op0_register().is_gpr64()
        && raw.op1_kind() == OpKind::Memory;
    let to = Gpr::from_iced(raw.op0_register()).filter(|_| loads)?;
    Some((to, access.bytes))
}

/// The register whose 8 bytes a plain `mov` or `push` stores.
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

    fn seen(register: Gpr, at: usize, value: u64) -> RecordedRegister {
        RecordedRegister { register, at, value }
    }

    /// Of these instructions once for each record, from registers that all hold `WORD` but rdi and rdx, which hold `AT`.
    fn found(bytes: &[u8], records: &[&[RecordedRegister]]) -> Vec<(u64, u8)> {
        let code = CodeBytes { start: RemoteAddr(0x1000), bytes };
        let block = read_block(&mut Reader::new(), &code, code.start, &Limits::SUPER);
        let part = Part { block: &block, code: &code, executed: block.instructions.len() };
        let mut start = State { general: [WORD; 16], ..State::default() };
        start.set(Gpr::RDI, AT);
        start.set(Gpr::RDX, AT);
        let path = records.iter().map(|record| (&part, *record));
        contents(path, &start, WORD).held.into_iter().map(|(at, byte)| (at.0 - AT, byte)).collect()
    }

    fn bytes_of(value: u64) -> Vec<(u64, u8)> {
        (0..).zip(value.to_le_bytes()).collect()
    }

    #[test]
    fn each_index_is_where_it_was_loaded_from() {
        // movzx eax, byte [rdi]; add rdi, 1; add dword [rax * 4 + 0x10000000], 1
        let count = [0xf, 0xb6, 7, 0x48, 0x83, 0xc7, 1, 0x83, 4, 0x85, 0, 0, 0, 0x10, 1];
        let records = [[seen(Gpr::RAX, 1, 7)], [seen(Gpr::RAX, 1, 9)]];
        let records: Vec<&[RecordedRegister]> =
            records.iter().map(<[RecordedRegister; 1]>::as_slice).collect();
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
            let found = contents(path.into_iter(), &start, WORD);
            assert_eq!((found.held, found.overwritten), Default::default(), "{address:#x}");
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

    /// A table of 64 slots by the upper bits of a product: no 4 bytes can be found backwards, but some that are tried hit.
    #[test]
    fn a_slot_of_a_hash_is_found_by_trying() {
        // movsxd rax, dword [rdi]; imul rax, rbx; shr rax, 58; add rdi, 4; inc dword [rdx + rax * 4]
        let insert = [
            0x48, 0x63, 7, 0x48, 0xf, 0xaf, 0xc3, 0x48, 0xc1, 0xe8, 58, 0x48, 0x83, 0xc7, 4, 0xff,
            4, 0x82,
        ];
        let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &insert };
        let block = read_block(&mut Reader::new(), &code, code.start, &Limits::SUPER);
        let part = Part { block: &block, code: &code, executed: block.instructions.len() };
        let mut start = State { general: [WORD; 16], ..State::default() };
        start.set(Gpr::RDI, AT);
        start.set(Gpr::RDX, AT + 0x1000);
        start.set(Gpr::RBX, 0x9e37_79b9_7f4a_7c15);
        let slots = [3, 60, 3, 17];
        let records = slots.map(|slot| [seen(Gpr::RAX, 4, slot)]);
        let path = records.iter().map(|record| (&part, &record[..]));
        let FirstContents { held, .. } = contents(path, &start, WORD);
        let keys: Vec<u8> = held.into_values().collect();
        let hashed = keys.chunks(4).map(|key| {
            let key = i32::from_le_bytes(key.try_into().expect("four bytes"));
            i64::from(key).cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58
        });
        assert_eq!(hashed.collect::<Vec<u64>>(), slots);
    }

    #[test]
    fn what_the_path_overwrites_is_known() {
        // mov rcx, [rdx]; mov byte [rcx], 1; add rcx, 1; mov [rdx], rcx
        let push = [0x48, 0x8b, 0xa, 0xc6, 1, 1, 0x48, 0x83, 0xc1, 1, 0x48, 0x89, 0xa];
        let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &push };
        let block = read_block(&mut Reader::new(), &code, code.start, &Limits::SUPER);
        let part = Part { block: &block, code: &code, executed: block.instructions.len() };
        let mut start = State { general: [WORD; 16], ..State::default() };
        start.set(Gpr::RDX, AT);
        let record = [seen(Gpr::RCX, 1, 0x7f11_2233_4455)];
        let found = contents([(&part, &record[..])].into_iter(), &start, WORD);
        assert_eq!(found.overwritten, found.held);
        assert_eq!(found.held.len(), 8);
        let bytes = [(5, 1), (6, 2), (7, 3), (9, 4)].map(|(at, byte)| (RemoteAddr(at), byte));
        let lines = crate::disassemble(&restored(&bytes.into()), base::FileOffset(0));
        let lines: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let expected = [
            "mov rax, 5",
            "mov rcx, 0x201",
            "mov [rax], cx",
            "mov rax, 7",
            "mov rcx, 3",
            "mov [rax], cl",
            "mov rax, 9",
            "mov rcx, 4",
            "mov [rax], cl",
        ];
        assert_eq!(lines, expected);
    }

    /// A counter in memory that no record has: each pass has to find what the first one found.
    #[test]
    fn what_the_path_loads_and_overwrites_is_restored() {
        // mov rcx, [rdx]; add rcx, 1; mov [rdx], rcx
        let count = [0x48, 0x8b, 0xa, 0x48, 0x83, 0xc1, 1, 0x48, 0x89, 0xa];
        let code = CodeBytes { start: RemoteAddr(0x1000), bytes: &count };
        let block = read_block(&mut Reader::new(), &code, code.start, &Limits::SUPER);
        let part = Part { block: &block, code: &code, executed: block.instructions.len() };
        let mut start = State { general: [WORD; 16], ..State::default() };
        start.set(Gpr::RDX, AT + 60);
        let found = contents([(&part, &[][..]); 2].into_iter(), &start, WORD);
        let bytes = found.overwritten.keys().map(|at| at.0 - AT).collect::<Vec<u64>>();
        assert_eq!((found.held.len(), bytes), (0, (60..68).collect()));
        assert_eq!(found.lines, [AT / 64, AT / 64 + 1].into());
    }

    #[test]
    fn what_the_path_itself_stored_is_not_solved_for() {
        // mov [rdx + 8], rdi; mov rax, [rdx + 8]; mov rcx, [rax]; mov rbx, [rcx]
        let spilled = [0x48, 0x89, 0x7a, 8, 0x48, 0x8b, 0x42, 8, 0x48, 0x8b, 8, 0x48, 0x8b, 0x19];
        let record = [seen(Gpr::RAX, 2, AT), seen(Gpr::RCX, 3, 0x7f55_0000_0000)];
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
