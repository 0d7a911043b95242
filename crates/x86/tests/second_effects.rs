//! What instructions read and change, against the behaviour tables of yaxpeax-x86: direction of each memory operand,
//! implicit stack traffic, general-purpose registers that change, flags. Same code and same rule as in
//! `second_decoder`: a difference that `KNOWN` does not explain fails.

mod common;

use std::collections::BTreeMap;

use base::RemoteAddr;
use common::Random;
use x86::{CodeBytes, Flags, Gpr, GprSet, Kind, LONGEST_INSTRUCTION, Occurrence, Reader};
use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::long_mode::{
    InstDecoder, Instruction as Theirs, Operand, RegSpec, register_class,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Difference {
    Reads,
    Writes,
    Changes,
    Needs,
    FlagsRead,
    FlagsWritten,
}

#[derive(Default)]
struct Tally {
    compared: u64,
    complex: u64,
    differences: BTreeMap<(Difference, String), (u64, String)>,
}

fn gpr(register: RegSpec) -> Option<Gpr> {
    let class = register.class();
    let number = usize::from(register.num());
    match class {
        register_class::Q | register_class::D | register_class::W | register_class::RB => {
            Gpr::from_number(number)
        }
        // ah, ch, dh, bh are 4..8 here.
        register_class::B => Gpr::from_number(number % 4),
        _ => None,
    }
}

/// What an instruction does.
#[derive(Default)]
struct Effects {
    /// Memory operands read.
    reads: usize,
    /// Memory operands written.
    writes: usize,
    /// Registers changed.
    changed: GprSet,
    /// Registers read, for addresses too.
    needed: GprSet,
}

fn address_registers(operand: &Operand) -> Vec<RegSpec> {
    match *operand {
        Operand::MemDeref { base }
        | Operand::Disp { base, .. }
        | Operand::MemDerefMasked { base, .. }
        | Operand::DispMasked { base, .. } => vec![base],
        Operand::MemIndexScale { index, .. }
        | Operand::MemIndexScaleDisp { index, .. }
        | Operand::MemIndexScaleMasked { index, .. }
        | Operand::MemIndexScaleDispMasked { index, .. } => vec![index],
        Operand::MemBaseIndexScale { base, index, .. }
        | Operand::MemBaseIndexScaleDisp { base, index, .. }
        | Operand::MemBaseIndexScaleMasked { base, index, .. }
        | Operand::MemBaseIndexScaleDispMasked { base, index, .. } => vec![base, index],
        _ => Vec::new(),
    }
}

fn theirs(other: &Theirs) -> Option<Effects> {
    let operands = other.behavior().all_operands().ok()?;
    let mut effects = Effects::default();
    for (operand, access) in operands.iter() {
        match operand {
            Operand::Register { reg } => {
                if let Some(register) = gpr(reg).filter(|_| access.is_write()) {
                    effects.changed.insert(register);
                }
                if let Some(register) = gpr(reg).filter(|_| access.is_read()) {
                    effects.needed.insert(register);
                }
            }
            _ if operand.is_memory() => {
                effects.reads += usize::from(access.is_read());
                effects.writes += usize::from(access.is_write());
                for register in address_registers(&operand).into_iter().filter_map(gpr) {
                    effects.needed.insert(register);
                }
            }
            _ => {}
        }
    }
    Some(effects)
}

fn ours(mine: &x86::Instruction) -> (usize, usize) {
    let count = |kinds: &[Kind]| {
        mine.accesses().iter().filter(|access| kinds.contains(&access.kind)).count()
    };
    let reads = count(&[Kind::Read, Kind::ReadWrite, Kind::StreamingRead]);
    let writes = count(&[Kind::Write, Kind::ReadWrite, Kind::StreamingWrite]);
    (reads, writes)
}

struct Both {
    reader: Reader,
    other: InstDecoder,
    tally: Tally,
}

impl Both {
    fn new() -> Both {
        Both { reader: Reader::new(), other: InstDecoder::default(), tally: Tally::default() }
    }

    fn compare(&mut self, bytes: &[u8], address: RemoteAddr) -> usize {
        let bytes = &bytes[..bytes.len().min(LONGEST_INSTRUCTION)];
        let code = CodeBytes { start: address, bytes };
        let Ok(mine) = self.reader.instruction(&code, address) else { return 1 };
        let Ok(other) = self.other.decode_slice(bytes) else { return mine.length() };
        if common::rex_before_rex(bytes) || other.len().to_const() != mine.length() as u64 {
            return mine.length();
        }
        self.tally.compared += 1;
        match theirs(&other) {
            Some(found) => self.compare_operands(&mine, &other, found, &bytes[..mine.length()]),
            None => self.tally.complex += 1,
        }
        self.compare_flags(&mine, &other, &bytes[..mine.length()]);
        mine.length()
    }

    fn compare_operands(
        &mut self,
        mine: &x86::Instruction,
        other: &Theirs,
        effects: Effects,
        bytes: &[u8],
    ) {
        let Effects { reads, writes, changed, needed } = effects;
        let (my_reads, my_writes) = ours(mine);
        if my_reads != reads {
            self.note(
                Difference::Reads,
                mine,
                bytes,
                format!("{other}: {my_reads}, other {reads}"),
            );
        }
        if my_writes != writes {
            self.note(
                Difference::Writes,
                mine,
                bytes,
                format!("{other}: {my_writes}, other {writes}"),
            );
        }
        let my_changed = mine.registers().changed;
        if my_changed != changed {
            let text = format!("{other}: {my_changed}, other {changed}");
            self.note(Difference::Changes, mine, bytes, text);
        }
        // One-sided: to take a register for needed that is not costs a scratch register, the reverse a wrong program.
        let missing = needed.without(mine.registers().read);
        if !missing.is_empty() {
            let text = format!("{other}: {}, other also {missing}", mine.registers().read);
            self.note(Difference::Needs, mine, bytes, text);
        }
    }

    fn compare_flags(&mut self, mine: &x86::Instruction, other: &Theirs, bytes: &[u8]) {
        let flags = mine.flags();
        let access = other.behavior().flags_access();
        let (reads, writes) = access.map_or((false, false), |one| (one.is_read(), one.is_write()));
        let my_read = flags.read != Flags::NONE;
        let my_write = flags.written.union(flags.undefined) != Flags::NONE;
        if my_read != reads {
            self.note(
                Difference::FlagsRead,
                mine,
                bytes,
                format!("{other}: {my_read}, other {reads}"),
            );
        }
        if my_write != writes {
            let text = format!("{other}: {my_write}, other {writes}");
            self.note(Difference::FlagsWritten, mine, bytes, text);
        }
    }

    fn note(&mut self, kind: Difference, mine: &x86::Instruction, bytes: &[u8], what: String) {
        let repeated =
            mine.accesses().iter().any(|access| matches!(access.when, Occurrence::Repeated(_)));
        let name = if repeated { format!("rep {}", mine.mnemonic()) } else { mine.mnemonic() };
        let entry = self.tally.differences.entry((kind, name));
        entry.or_insert_with(|| (0, format!("{bytes:02x?} {what}"))).0 += 1;
    }

    fn finish(&self) {
        let mut text = String::new();
        for ((kind, name), (count, example)) in &self.tally.differences {
            if !is_known(*kind, name) {
                text += &format!("{kind:?} {name}: {count} times, first {example}\n");
            }
        }
        println!(
            "{} instructions, {} too complex for the other",
            self.tally.compared, self.tally.complex
        );
        assert!(text.is_empty(), "differences without explanation:\n{text}");
    }
}

/// What differs, in which instructions (patterns as in `second_decoder`), and why it may. Ours is what the Intel SDM vol.
/// 2 says on the instruction's page.
const KNOWN: &[(Difference, &[&str], &str)] = &[
    (
        Difference::Reads,
        &["lods?", "movs?", "cmps?", "scas?", "stos?", "rep *"],
        "the other lists operands of string instructions twice, as explicit and as implicit ones",
    ),
    (
        Difference::Writes,
        &["lods?", "movs?", "cmps?", "scas?", "stos?", "rep *"],
        "the same; and it takes both operands of cmps for written",
    ),
    (
        Difference::Changes,
        &["lods?", "movs?", "cmps?", "scas?", "stos?", "rep *"],
        "rsi, rdi and rcx move; the other does not list it",
    ),
    (
        Difference::Needs,
        &["mov", "movzx", "movsx", "movsxd", "movmskp?", "pmovmskb", "*cvt*2si", "imul"],
        "the other takes the destination for read in these; imul here is the form with three operands",
    ),
    (
        Difference::Needs,
        &["bsf", "bsr", "tzcnt", "lzcnt"],
        "may keep the destination: with us not a read, but never a kill either, which keeps it alive as well",
    ),
    (
        Difference::Needs,
        &["xor", "sub"],
        "of a register with itself: the result does not depend on it",
    ),
    (Difference::Needs, &["leave"], "sets rsp from rbp"),
    (Difference::Needs, &["lods?", "rep lods?"], "do not use rdi"),
    (Difference::Needs, &["nop", "reservednop"], "compute nothing"),
    (Difference::Changes, &["j?cxz"], "jrcxz only looks at rcx"),
    (
        Difference::Changes,
        &["rdssp?"],
        "the other reads the bytes as a nop; they are one where shadow stacks are off",
    ),
    (
        Difference::Reads,
        &["enter"],
        "reads frame pointers of outer levels; the other has no nesting",
    ),
    (Difference::Writes, &["enter"], "pushes rbp and frame pointers; the other has no nesting"),
    (Difference::Reads, &["lea"], "computes an address and reads nothing"),
    (
        Difference::Reads,
        &["mov", "movs?", "*movhp?", "*movlp?", "maskmov*"],
        "stores: the other has one entry for both directions of these opcodes",
    ),
    (Difference::Reads, &["prefetch*"], "a hint is no read with us but a kind of its own"),
    (Difference::Writes, &["pswapd"], "3DNow: reads memory and writes its register"),
    (
        Difference::FlagsRead,
        &["clc", "cld", "stc", "std", "xadd", "loop"],
        "do not look at any flag",
    ),
    (
        Difference::FlagsRead,
        &["cmps?", "rep cmps?", "movs?", "stos?", "lods?", "scas?"],
        "look at the direction flag",
    ),
    (
        Difference::FlagsRead,
        &["j*", "lahf", "pushf*"],
        "look at flags; missing in the other's tables",
    ),
    (
        Difference::FlagsRead,
        &["rcl", "rcr"],
        "by a multiple of 9 or 17 after masking, 8 and 16 bits: nothing moves",
    ),
    (
        Difference::FlagsWritten,
        &["rcl", "rcr", "rol", "ror", "sal", "shl", "shr", "sar", "shld", "shrd"],
        "by a constant that masks to 0: no flag changes",
    ),
    (Difference::FlagsWritten, &["loop*"], "loops change rcx and no flag"),
    (
        Difference::FlagsWritten,
        &["popf*", "sahf", "scas?", "rep scas?", "xtest", "testui", "tpause", "umwait", "mcommit"],
        "set flags; missing in the other's tables",
    ),
];

fn is_known(kind: Difference, name: &str) -> bool {
    let matches = |pattern: &&str| common::matches_pattern(pattern.as_bytes(), name.as_bytes());
    KNOWN.iter().any(|(one, patterns, _)| *one == kind && patterns.iter().any(matches))
}

#[test]
fn system_libraries() {
    let mut both = Both::new();
    common::for_each_library(common::FEW_MEGABYTES, |start, code| {
        let mut at = 0;
        while at < code.len() {
            at += both.compare(&code[at..], RemoteAddr(start.0.wrapping_add(at as u64)));
        }
    });
    both.finish();
}

#[test]
fn random_bytes() {
    let mut both = Both::new();
    let mut random = Random(6);
    let openings: &[&[u8]] =
        &[&[], &[0x0f], &[0x66, 0x0f], &[0xf3, 0x0f], &[0xf2], &[0x48], &[0x66]];
    for _ in 0..1_000_000 {
        let mut bytes = openings[random.below(openings.len())].to_vec();
        bytes.extend(random.next().to_le_bytes());
        bytes.extend(random.next().to_le_bytes());
        both.compare(&bytes, RemoteAddr(0x40_0000));
    }
    both.finish();
}
