//! The content of a copy's records, decided before any code is written.
//!
//! What for: the [`RecordLayout`] for the reader of records, and when and how the code stores each value. What not:
//! which values suffice (`roots`), writing the code (`record`, `summary`, `timed`).

use iced_x86::EncodingKind;

use super::written::{WrittenWord, written};
use super::{Iterations, RecordLayout, RecordedValue};
use crate::block::Block;
use crate::instruction::{Flow, Instruction};
use crate::operand::{Kind, LaneMask, Location, Occurrence};
use crate::register::{Gpr, VectorRegister};
use crate::roots::{BackEdge, Input, Root, RootedAccess, Source, Value};
use crate::roots::{find_roots, general_in_front, self_loop, sources};

/// Bytes of a word of a record.
pub(super) const WORD: usize = 8;

/// How a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    General(Gpr),
    /// The lowest `bytes` (16, 32, 64); `legacy`: the program accesses it with SSE, so AVX may be missing.
    Vector {
        register: VectorRegister,
        bytes: usize,
        legacy: bool,
    },
    /// `wide`: all 64 bits (AVX512BW), else the lower 16 (AVX512F).
    Mask {
        number: usize,
        wide: bool,
    },
    Mmx {
        number: usize,
    },
}

/// One value of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Store {
    /// Stored before this instruction.
    pub(super) at: usize,
    pub(super) form: Form,
    pub(super) word: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) layout: RecordLayout,
    /// One for each value of the layout.
    pub(super) stores: Vec<Store>,
    /// The block is written as a summarised loop.
    pub(super) back: Option<BackEdge>,
    /// `Timed`: the instruction whose load is timed.
    pub(super) timed: Option<usize>,
    /// `Trace`: words to which the block stores.
    pub(super) written: Vec<WrittenWord>,
}

impl Plan {
    fn new(block: &Block, has_record: bool) -> Plan {
        let words = usize::from(has_record);
        let side_exits = block.side_exits().map(|number| number + 1);
        let ways = std::iter::once(block.instructions.len()).chain(side_exits);
        let ways = if has_record { ways.collect() } else { Vec::new() };
        Plan { layout: RecordLayout { words, ways, ..RecordLayout::default() }, ..Plan::default() }
    }

    fn add(&mut self, root: Root, at: usize, form: Form) -> usize {
        let words = match form {
            Form::Vector { bytes, .. } => bytes / WORD,
            _ => 1,
        };
        let word = self.add_words(words);
        self.layout.values.push(RecordedValue { root, word, words });
        self.stores.push(Store { at, form, word });
        word
    }

    fn add_words(&mut self, words: usize) -> usize {
        let word = self.layout.words;
        self.layout.words += words;
        word
    }

    /// The word of a general register's value at the start; added if no address needs it.
    fn start_word(&mut self, register: Gpr) -> usize {
        let root = Root { source: Source::General(register), at: 0 };
        let known = self.layout.values.iter().find(|value| value.root == root);
        match known.map(|value| value.word) {
            Some(word) => word,
            None => self.add(root, 0, Form::General(register)),
        }
    }
}

/// Flavour `Trace`.
pub(super) fn trace(block: &Block, reserved: Gpr) -> Plan {
    let roots = find_roots(block);
    // How often a fence runs has to be known too.
    let fences = block.instructions.iter().any(Instruction::is_store_fence);
    let mut plan = Plan::new(block, fences || !roots.accesses.is_empty());
    for root in &roots.roots {
        let users = || roots.accesses.iter().filter(|access| uses(access, *root));
        if let Some((at, form)) = form(block, *root, users) {
            plan.add(*root, at, form);
        }
    }
    // A loop's record is written before the loop, and so before any check at a side exit.
    let too_early = |store: &Store| block.side_exits().any(|exit| exit < store.at);
    let summarisable = self_loop(block, &roots)
        .filter(|found| found.is_summarisable() && !plan.stores.iter().any(too_early));
    if let Some(found) = summarisable {
        summarise(&mut plan, block, reserved, found.back);
    }
    if plan.back.is_some() {
        // The record is complete before the first iteration, whose values determine those of all
        // others.
        plan.stores.iter_mut().for_each(|store| store.at = 0);
    }
    plan.written = written(block, &roots, &plan.layout);
    plan
}

fn uses(access: &RootedAccess, root: Root) -> bool {
    let is = |input: &Input| matches!(input.value, Value::Root { root: one, .. } if one == root);
    access.inputs.iter().any(is)
}

/// When and how a root is stored; `None` for values that are known without: the base of fs, and the direction flag,
/// which is clear.
fn form<'a, I: Iterator<Item = &'a RootedAccess>>(
    block: &Block,
    root: Root,
    users: impl Fn() -> I,
) -> Option<(usize, Form)> {
    // Not before the program's own instruction: the processor may lack the extension, and the program may check for
    // it before.
    let first_user = || users().map(|user| user.instruction).min().unwrap_or(root.at);
    match root.source {
        Source::General(register) => Some((root.at, Form::General(register))),
        Source::Vector(register) => {
            let needed = users().map(|user| vector_bytes(user, register)).max().unwrap_or(64);
            let legacy = users().any(|user| is_legacy(block, user.instruction));
            // Registers 16..31 have only EVEX forms; those of 16 and 32 bytes need AVX512VL, which the processor may
            // lack.
            let bytes = if register.number() >= 16 { 64 } else { needed };
            Some((first_user(), Form::Vector { register, bytes, legacy }))
        }
        Source::Mask(mask) => {
            // More than 16 lanes are bytes or words, which need AVX512BW.
            let wide = users().any(|user| mask_lanes(user) > 16);
            Some((first_user(), Form::Mask { number: mask.number(), wide }))
        }
        Source::Mmx(register) => {
            // Any MMX instruction resets the x87 stack (SDM vol. 1, 9.5.1).
            Some((first_user(), Form::Mmx { number: register.number() }))
        }
        Source::FsBase | Source::GsBase | Source::Direction => None,
    }
}

/// The bytes of a vector register that an access reads, rounded up to a size that can be stored.
fn vector_bytes(user: &RootedAccess, register: VectorRegister) -> usize {
    let mut bytes = 0;
    if let Location::Lanes(lanes) = &user.access.place
        && lanes.index == register
    {
        bytes = usize::from(lanes.index_bytes) * usize::from(lanes.lanes);
    }
    if let Occurrence::Masked(masked) | Occurrence::Packed(masked) = user.access.when
        && masked.mask == LaneMask::VectorSigns(register)
    {
        bytes = bytes.max(usize::from(masked.element_bytes) * usize::from(masked.lanes));
    }
    bytes.next_power_of_two().clamp(16, 64)
}

fn mask_lanes(user: &RootedAccess) -> u8 {
    match user.access.when {
        Occurrence::Masked(masked) | Occurrence::Packed(masked) => masked.lanes,
        Occurrence::Always | Occurrence::Repeated(_) => 0,
    }
}

fn is_legacy(block: &Block, instruction: usize) -> bool {
    let raw = block.instructions.get(instruction).map(|one| &one.raw);
    raw.is_some_and(|raw| raw.code().encoding() == EncodingKind::Legacy)
}

/// Whether `instruction` reads or changes any part of `register`.
pub(super) fn touches(instruction: &Instruction, register: Gpr) -> bool {
    let effect = instruction.registers();
    effect.read.contains(register) || effect.changed.contains(register)
}

/// Makes the plan that of a summarised loop, if its iterations can be counted.
fn summarise(plan: &mut Plan, block: &Block, reserved: Gpr, back: BackEdge) {
    // Without accesses there is no record, so the iterations need no count.
    if plan.layout.words == 0 {
        plan.back = Some(back);
        return;
    }
    if let Some(counter) = counter(block, &plan.layout) {
        let start = plan.start_word(counter.register);
        let end = plan.add_words(1);
        let Counter { register, stride, narrow, advanced } = counter;
        plan.layout.iterations =
            Some(Iterations::Counter { register, start, end, stride, narrow, advanced });
    } else if !block.instructions.iter().any(|one| touches(one, reserved)) {
        plan.layout.iterations = Some(Iterations::Word(plan.add_words(1)));
    } else {
        return;
    }
    plan.back = Some(back);
}

struct Counter {
    register: Gpr,
    stride: u64,
    narrow: bool,
    advanced: Vec<u64>,
}

/// A register that counts iterations. One that is recorded in any case costs no word.
fn counter(block: &Block, layout: &RecordLayout) -> Option<Counter> {
    let recorded = |register: &Gpr| {
        let root = Root { source: Source::General(*register), at: 0 };
        layout.values.iter().any(|value| value.root == root)
    };
    let mut registers: Vec<Gpr> = Gpr::all().collect();
    registers.sort_by_key(|register| !recorded(register));
    let values = general_in_front(block);
    // 64 bits first: they stay unambiguous for longer.
    let wide = registers.iter().find_map(|register| wide_counter(&values, *register));
    wide.or_else(|| registers.iter().find_map(|register| narrow_counter(block, *register)))
}

/// With a stride of odd x 2^k, the count is known modulo 2^(64-k), or for 32 bits 2^(32-k). At 10^10 iterations a
/// second these limits keep a wide counter unambiguous for 100 s, and a narrow one for 50 ms, far longer than a burst
/// in which a loop runs that fast.
const MOST_TRAILING_ZEROS_WIDE: u32 = 24;
const MOST_TRAILING_ZEROS_NARROW: u32 = 3;

/// Keeps the difference of two advances within a displacement, by which side exits correct a counter.
const FARTHEST: u64 = 1 << 30;

fn wide_counter(values: &[[Value; Gpr::COUNT]], register: Gpr) -> Option<Counter> {
    let start = Root { source: Source::General(register), at: 0 };
    let displacement = |general: &[Value; Gpr::COUNT]| match general[register.number()] {
        Value::Root { root, displacement } if root == start => Some(displacement),
        _ => None,
    };
    let mut advanced: Vec<u64> = values.iter().map(displacement).collect::<Option<_>>()?;
    // The last entry is the value after the block.
    let stride = advanced.pop()?;
    let near = |value: &u64| value.cast_signed().unsigned_abs() <= FARTHEST;
    let counts = stride != 0
        && stride.trailing_zeros() <= MOST_TRAILING_ZEROS_WIDE
        && advanced.iter().chain([&stride]).all(near);
    counts.then_some(Counter { register, stride, narrow: false, advanced })
}

fn narrow_counter(block: &Block, register: Gpr) -> Option<Counter> {
    let mut advanced = Vec::new();
    let mut sum = 0u32;
    for instruction in &block.instructions {
        advanced.push(u64::from(sum));
        if instruction.registers().changed.contains(register) {
            sum = sum.wrapping_add(crate::effect::narrow_step(&instruction.raw, register)?);
        }
    }
    let counts = sum != 0 && sum.trailing_zeros() <= MOST_TRAILING_ZEROS_NARROW;
    counts.then_some(Counter { register, stride: u64::from(sum), narrow: true, advanced })
}

/// Flavour `Timed`: a record of the timed load only.
pub(super) fn timed(block: &Block, pick: u32) -> Plan {
    let loads: Vec<usize> = (0..block.instructions.len())
        .filter(|number| is_plain_load(&block.instructions[*number]))
        .collect();
    let chosen = loads.get(pick as usize % loads.len().max(1));
    let mut plan = Plan::new(block, chosen.is_some());
    let Some(&number) = chosen else { return plan };
    let before: usize = block.instructions[..number].iter().map(|one| one.accesses().len()).sum();
    // A plain load needs general registers, and perhaps the base of fs, which is known without a
    // word.
    for source in sources(&block.instructions[number].accesses()[0]) {
        let root = Root { source, at: number };
        let known = plan.layout.values.iter().any(|value| value.root == root);
        if let (Source::General(register), false) = (source, known) {
            plan.add(root, number, Form::General(register));
        }
    }
    let word = plan.add_words(1);
    plan.layout.timed = Some((before, word));
    plan.timed = Some(number);
    plan
}

/// A single load of up to a cache line and nothing else, so that the time belongs to it.
fn is_plain_load(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic as M;
    let stack_or_string = matches!(instruction.raw.mnemonic(), M::Pop | M::Leave)
        || instruction.raw.is_string_instruction();
    let [access] = instruction.accesses() else { return false };
    instruction.flow() == Flow::Next
        && !stack_or_string
        && matches!(access.kind, Kind::Read | Kind::StreamingRead)
        && matches!(access.place, Location::One(_))
        && access.when == Occurrence::Always
        && access.bytes <= crate::operand::LINE_BYTES
}
