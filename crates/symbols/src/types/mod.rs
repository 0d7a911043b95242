//! Types of memory accesses, from debug information: which member of which structure an instruction touches.
//!
//! What for: `mov rax, [rbx+8]` at an address of the program becomes "`next` of `node`". The method is that of `perf
//! annotate --data-type` (Linux, tools/perf/util/annotate-data.c), with whole functions followed instead of single
//! blocks:
//! 1. `units` finds the function's debugging entry; `variables` reads its variables, including those of inlined
//!    functions, and `location` the place of each per code address;
//! 2. `flow` follows the values of registers through all instructions of the function: stack addresses from its
//!    entry, pointers from typed loads and variables, numbers as "a constant plus a multiple of a step" (`value`);
//! 3. `resolve` turns an access's address into the member there (`member`); `globals` knows fixed addresses.
//!
//! Nothing is guessed: an access that leaves its type, does not fit the member, or means different things by
//! different variables has no answer. A pointer to a number may point into an array of such numbers; one to a
//! structure points to one structure, unless the address has a part that grows by the structure's size.
//!
//! What not: decoding machine code, which the caller's [`Decoder`] does; split debug information; thread-local
//! variables; memory that is accessed through `char` pointers wider than a byte (mostly casts). Assumptions:
//! variables in registers hold what debug information says; code is x86-64 by the System V ABI (calls preserve rbx,
//! rbp, rsp, r12 to r15). The input is hostile: all reading is paid from a budget, tables are bounded.

mod flow;
mod function;
mod globals;
mod location;
mod member;
mod model;
mod names;
mod resolve;
mod units;
mod value;
mod variables;

use std::collections::BTreeMap;

use addr2line::gimli;
use base::{Bytes, FileOffset};

use self::model::Model;
use crate::ModuleImage;
use crate::budget::BudgetedReader;
use crate::elf::LinkAddress;

type Dwarf<'a> = gimli::Dwarf<BudgetedReader<'a>>;

/// A register by its number in debug information, 0..=15 (System V ABI, AMD64 supplement, figure 3.36).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Register(pub u8);

impl Register {
    /// How many are followed.
    pub const COUNT: usize = 16;
    /// What a function returns.
    pub const RAX: Register = Register(0);
    /// Stack pointer.
    pub const RSP: Register = Register(7);

    fn index(self) -> usize {
        usize::from(self.0) & (Register::COUNT - 1)
    }
}

/// Where control continues after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Successor {
    /// At the next instruction.
    Next,
    /// Elsewhere.
    Jump(LinkAddress),
    /// Elsewhere, or at the next instruction.
    Branch(LinkAddress),
    /// At the next instruction, after a call of this function if it is known.
    Call(Option<LinkAddress>),
    /// At an address from a register or memory.
    Indirect,
    /// Nowhere in this function.
    Away,
}

/// The address of an access: base + index x scale + displacement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Base register.
    pub base: Option<Register>,
    /// Index register and its factor.
    pub index: Option<(Register, u8)>,
    /// The displacement; for a RIP-relative operand, the link address.
    pub displacement: i64,
    /// An unknown multiple of this is added as well (the indices of a gather); 0 for nothing.
    pub step: u8,
    /// Bytes touched from there on.
    pub bytes: Bytes,
}

/// The new value of a register, from the values before the instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// The sum of the registers, each times its factor, and the constant.
    Sum(Vec<(Register, i64)>, i64),
    /// What this access of the instruction loads; it has 8 bytes.
    Loaded(usize),
}

/// One instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Bytes of code, at least 1.
    pub length: u64,
    /// The next instruction.
    pub onward: Successor,
    /// Its accesses by number; `None` for those whose address has another form.
    pub operands: Vec<Option<Operand>>,
    /// Registers that may change, without what a called function does.
    pub changed: Vec<Register>,
    /// Those of them with a known value.
    pub written: Vec<(Register, Written)>,
    /// This access stores all of this register and nothing else.
    pub stored: Option<(usize, Register)>,
}

/// Reads machine code.
pub trait Decoder {
    /// The instruction that `bytes` begin with, which is linked at `address`; `None` when it is none.
    fn step(&mut self, bytes: &[u8], address: LinkAddress) -> Option<Step>;
}

/// The type of an access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypedAccess {
    /// The instruction.
    pub offset: FileOffset,
    /// Which of its accesses.
    pub access: usize,
    /// The variable that leads there, where one does so directly.
    pub variable: Option<String>,
    /// The type: `node`, `double`, `node*`.
    pub type_name: String,
    /// Its size.
    pub type_bytes: Bytes,
    /// The member's path: `next`, `cells[].next`, `a|b` where it may be either; `None` for the whole or an unclear part.
    pub field: Option<String>,
    /// From the start of the type to the first byte that may be touched.
    pub field_offset: Bytes,
    /// Bytes of the member; of a whole array where the element is not known.
    pub field_bytes: Bytes,
}

/// The types of the accesses of the instructions at `offsets`, sorted by offset and access, each at most once.
/// Instructions without an answer are left out. `go_on` is called between functions; when it returns false, the rest
/// is left out too. Needs 1 MiB of stack.
pub fn typed_accesses(
    image: &ModuleImage<'_>,
    offsets: &[FileOffset],
    decoder: &mut dyn Decoder,
    go_on: &mut dyn FnMut() -> bool,
) -> Vec<TypedAccess> {
    let Some(dwarf) = image.dwarf_for_types() else { return Vec::new() };
    let elf = image.main();
    let model = Model::new(&dwarf);
    let mut wanted: BTreeMap<LinkAddress, FileOffset> = BTreeMap::new();
    wanted.extend(offsets.iter().filter_map(|offset| Some((elf.address_of(*offset)?, *offset))));
    let mut answers = Vec::new();
    while let Some((first, _)) = wanted.first_key_value() {
        if !go_on() {
            break;
        }
        let function = model.units.function_at(*first);
        let Some(function) = function else {
            wanted.pop_first();
            continue;
        };
        let mut mine = BTreeMap::new();
        for code in &function.ranges {
            mine.extend(wanted.range(code.begin..code.end).map(|(at, offset)| (*at, *offset)));
        }
        // A function that does not cover the address it was found by is damaged.
        mine.entry(*first).or_insert(wanted[first]);
        for at in mine.keys() {
            wanted.remove(at);
        }
        answers.extend(function::answers(&model, elf, &function, &mine, decoder));
    }
    answers.sort_by_key(|answer| (answer.offset, answer.access));
    answers.dedup_by_key(|answer| (answer.offset, answer.access));
    answers
}
