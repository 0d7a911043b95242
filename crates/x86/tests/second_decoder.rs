//! Our accesses against a decoder by other hands, yaxpeax-x86: lengths, addresses of memory operands and their sizes, on
//! all code of some system libraries and on random bytes.
//!
//! yaxpeax names explicit operands only and no direction; so what is compared is: both agree on what is an instruction
//! and how long it is; each memory operand it names is the address of one of our accesses, with the same size. Where the
//! two differ, `KNOWN` says who is right and why; a difference that is not there fails the test.

mod common;

use std::collections::BTreeMap;

use base::RemoteAddr;
use common::Random;
use x86::{
    Access, AddressWidth, CodeBytes, LONGEST_INSTRUCTION, Location, NotRead, Occurrence, Reader,
    Refusal, Segment,
};
use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::long_mode::{InstDecoder, Instruction as Theirs, Operand, RegSpec};

/// A memory operand in terms that both sides have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Form {
    segment: Segment,
    base: Option<usize>,
    index: Option<(usize, u8)>,
    displacement: u64,
    narrow: bool,
}

fn ours(access: &Access) -> Form {
    let address = access.address();
    let index = match &access.place {
        Location::One(address) => address.index.map(|index| (index.register.number(), index.scale)),
        Location::Lanes(lanes) => Some((lanes.index.number(), lanes.scale)),
    };
    let narrow = address.width == AddressWidth::Bits32;
    let form = Form {
        segment: address.segment,
        base: address.base.map(x86::Gpr::number),
        index,
        displacement: address.displacement,
        narrow,
    };
    form.normal()
}

impl Form {
    /// 32-bit addresses have 32-bit displacements.
    fn normal(mut self) -> Form {
        if self.narrow {
            self.displacement &= 0xffff_ffff;
        }
        // `[rax*1]` and `[rax]` are the same address.
        if let (None, Some((register, 1)), true) = (self.base, self.index, true) {
            self.base = Some(register);
            self.index = None;
        }
        self
    }
}

fn theirs(operand: &Operand, segment: Segment, next: u64, prefix67: bool) -> Option<Form> {
    let displaced = |disp: i32| i64::from(disp).cast_unsigned();
    let (base, index, displacement) = match *operand {
        // The 32 bits of the encoding, which are sign-extended.
        Operand::AbsoluteU32 { addr } => (None, None, displaced(addr.cast_signed())),
        Operand::AbsoluteU64 { addr } => (None, None, addr),
        Operand::MemDeref { base } | Operand::MemDerefMasked { base, .. } => (Some(base), None, 0),
        Operand::Disp { base, disp } | Operand::DispMasked { base, disp, .. } => {
            (Some(base), None, displaced(disp))
        }
        Operand::MemIndexScale { index, scale }
        | Operand::MemIndexScaleMasked { index, scale, .. } => (None, Some((index, scale)), 0),
        Operand::MemIndexScaleDisp { index, scale, disp }
        | Operand::MemIndexScaleDispMasked { index, scale, disp, .. } => {
            (None, Some((index, scale)), displaced(disp))
        }
        Operand::MemBaseIndexScale { base, index, scale }
        | Operand::MemBaseIndexScaleMasked { base, index, scale, .. } => {
            (Some(base), Some((index, scale)), 0)
        }
        Operand::MemBaseIndexScaleDisp { base, index, scale, disp }
        | Operand::MemBaseIndexScaleDispMasked { base, index, scale, disp, .. } => {
            (Some(base), Some((index, scale)), displaced(disp))
        }
        _ => return None,
    };
    Some(form(base, index, displacement, segment, next, prefix67))
}

fn form(
    base: Option<RegSpec>,
    index: Option<(RegSpec, u8)>,
    displacement: u64,
    segment: Segment,
    next: u64,
    prefix67: bool,
) -> Form {
    let relative = base == Some(RegSpec::rip()) || base == Some(RegSpec::eip());
    let is_narrow = |register: RegSpec| register.width() == 4;
    let narrow = base.is_some_and(is_narrow)
        || base.is_none() && index.is_none() && prefix67
        || base.is_none() && index.is_some_and(|(register, _)| is_narrow(register));
    let number = |register: RegSpec| usize::from(register.num());
    let form = Form {
        segment,
        base: base.filter(|_| !relative).map(number),
        index: index.map(|(register, scale)| (number(register), scale)),
        displacement: if relative { displacement.wrapping_add(next) } else { displacement },
        narrow,
    };
    form.normal()
}

fn segment(instruction: &Theirs, operand: u8) -> Segment {
    match instruction.segment_override_for_op(operand) {
        Some(yaxpeax_x86::long_mode::Segment::FS) => Segment::Fs,
        Some(yaxpeax_x86::long_mode::Segment::GS) => Segment::Gs,
        _ => Segment::Flat,
    }
}

/// What differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    OnlyOurs,
    OnlyTheirs,
    Length,
    Operand,
    Size,
}

#[derive(Default)]
struct Tally {
    compared: u64,
    operands: u64,
    differences: BTreeMap<(Kind, String), (u64, String)>,
}

impl Tally {
    fn note(&mut self, kind: Kind, name: &str, bytes: &[u8], what: &str) {
        let example = || format!("{bytes:02x?} {what}");
        let entry =
            self.differences.entry((kind, name.to_owned())).or_insert_with(|| (0, example()));
        entry.0 += 1;
    }
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

    /// Compares the instruction at the start of `bytes`; gives its length, 1 where there is none.
    fn compare(&mut self, bytes: &[u8], address: RemoteAddr) -> usize {
        let bytes = &bytes[..bytes.len().min(LONGEST_INSTRUCTION)];
        if common::rex_before_rex(bytes) {
            return 1;
        }
        let code = CodeBytes { start: address, bytes };
        let mine = self.reader.instruction(&code, address);
        let other = self.other.decode_slice(bytes);
        match (mine, other) {
            (Ok(mine), Ok(other)) => {
                self.compare_both(&mine, &other, bytes);
                mine.length()
            }
            (Ok(mine), Err(error)) => {
                let length = mine.length();
                self.tally.note(
                    Kind::OnlyOurs,
                    &mine.mnemonic(),
                    &bytes[..length],
                    &error.to_string(),
                );
                length
            }
            (Err(NotRead::Refused(Refusal::Invalid)), Ok(other)) => {
                let name = other.opcode().to_string();
                self.tally.note(Kind::OnlyTheirs, &name, bytes, &other.to_string());
                1
            }
            // Refused for other reasons: no operands of ours to compare, and its length is the other's.
            (Err(NotRead::Refused(_)), Ok(other)) => other.len().to_const() as usize,
            _ => 1,
        }
    }

    fn compare_both(&mut self, mine: &x86::Instruction, other: &Theirs, bytes: &[u8]) {
        let bytes = &bytes[..mine.length()];
        let name = mine.mnemonic();
        self.tally.compared += 1;
        if other.len().to_const() != mine.length() as u64 {
            self.tally.note(Kind::Length, &name, bytes, &other.to_string());
            return;
        }
        for number in 0..other.operand_count() {
            let operand = other.operand(number);
            let next = mine.next_address().0;
            let prefix67 = other.prefixes.address_size();
            let form = theirs(&operand, segment(other, number), next, prefix67);
            let Some(form) = form else { continue };
            self.tally.operands += 1;
            self.compare_operand(mine, other, form, bytes);
        }
    }

    fn compare_operand(
        &mut self,
        mine: &x86::Instruction,
        other: &Theirs,
        form: Form,
        bytes: &[u8],
    ) {
        let name = mine.mnemonic();
        let what =
            format!("{other} {form:?} {:?}", mine.accesses().iter().map(ours).collect::<Vec<_>>());
        let Some(access) = mine.accesses().iter().find(|access| ours(access) == form) else {
            self.tally.note(Kind::Operand, &name, bytes, &what);
            return;
        };
        let size = other.mem_size().and_then(|size| size.bytes_size());
        let packed = matches!(access.when, Occurrence::Packed(_));
        if size.is_some_and(|size| u32::from(size) != access.bytes) && !packed {
            let what = format!("{other}: {size:?} for {access}");
            self.tally.note(Kind::Size, &name, bytes, &what);
        }
    }

    /// Fails with every difference that `KNOWN` does not explain.
    fn finish(&self) {
        let mut text = String::new();
        for ((kind, name), (count, example)) in &self.tally.differences {
            if !is_known(*kind, name) {
                text += &format!("{kind:?} {name}: {count} times, first {example}\n");
            }
        }
        println!("{} instructions, {} operands compared", self.tally.compared, self.tally.operands);
        assert!(text.is_empty(), "differences without explanation:\n{text}");
    }
}

/// What differs, in which instructions (`*` stands for any letters), and why it may. Where not said otherwise ours is
/// what the manual says (Intel SDM vol. 2, AMD APM vol. 3-5).
const KNOWN: &[(Kind, &[&str], &str)] = &[
    (
        Kind::OnlyOurs,
        &["v*gather*", "v*scatter*"],
        "AVX-512 forms, which OpenBLAS has: not in the other's tables",
    ),
    (
        Kind::OnlyOurs,
        &["vpsll?", "vpsrl?", "vpsra?", "vpsrldq", "vpslldq"],
        "AVX-512 shifts by a constant into registers 16..31: not in the other's tables",
    ),
    (
        Kind::OnlyOurs,
        &["v*ph", "v*sh", "vcvt*", "vmovsh"],
        "AVX512-FP16, AVX-NE-CONVERT and EVEX.b on conversions that round nothing: not in the other's tables",
    ),
    (
        Kind::OnlyOurs,
        &["vpdp*", "vpmadd52*", "vgf2p8*", "vpclmulqdq", "vsha512*", "vsm3*", "vsm4*"],
        "VEX forms of VNNI, IFMA, GFNI, VPCLMULQDQ, and SHA512, SM3, SM4: not in the other's tables",
    ),
    (
        Kind::OnlyOurs,
        &["aadd", "aand", "aor", "axor", "cmp*xadd"],
        "RAO-INT and CMPccXADD: too new for the other",
    ),
    (
        Kind::OnlyOurs,
        &[
            "vfm*p?",
            "vfm*s?",
            "vfnm*p?",
            "vfnm*s?",
            "vpermil2p*",
            "vprot?",
            "vpmac*",
            "vpmadc*",
            "vpcom*",
            "vpha*",
            "vphs*",
            "vpsh??",
            "vpperm",
            "vpcmov",
            "vfrcz*",
        ],
        "FMA4 and XOP of AMD: not in the other's tables",
    ),
    (
        Kind::OnlyOurs,
        &["k*"],
        "the other wants VEX.vvvv or VEX.L otherwise for some operations on mask registers",
    ),
    (
        Kind::OnlyOurs,
        &["reservednop", "serialize"],
        "reserved nops touch no memory; serialize is too new",
    ),
    (
        Kind::OnlyOurs,
        &["mov"],
        "moves of segment registers with REX.R, which counts for nothing there",
    ),
    (
        Kind::OnlyTheirs,
        &["xbegin", "xabort", "v*gather*", "vldmxcsr", "vstmxcsr", "rorx", "vpsllw"],
        "reserved ModRM forms, a gather without SIB or with one register twice, VEX.vvvv in use: all fault. Refused as \
         invalid, which is safe: the program runs it natively",
    ),
    (
        Kind::OnlyTheirs,
        &["v*"],
        "a mandatory prefix in front of VEX or EVEX, EVEX.b, .z, .aaa or .vvvv where reserved: faults",
    ),
    (
        Kind::OnlyTheirs,
        &["monitorx", "mwaitx", "rdpru"],
        "with a 66, F2 or F3 prefix, which may mean something else one day",
    ),
    (
        Kind::Operand,
        &["lea", "nop", "reservednop", "prefetchit?"],
        "a memory operand that is not accessed: no access of ours, and none by the processor",
    ),
    (
        Kind::Operand,
        &["pop"],
        "ours counts from rsp before the instruction, the other shows the encoding",
    ),
    (
        Kind::Operand,
        &["cmps?"],
        "the other swaps [rsi], which a segment prefix moves, and [rdi], which none does",
    ),
    (
        Kind::Size,
        &["bt", "bts", "btr", "btc"],
        "with an immediate the operand has 4 bytes without REX.W; the other says 8",
    ),
    (Kind::Size, &["cldemote"], "a nop to the other; acts on a line"),
    (
        Kind::Size,
        &["cvtdq2pd", "vcvtdq2pd", "cvtps2pi", "cvttps2pi", "vcvtph2ps", "vpmovsx*", "vpmovzx*"],
        "half as many elements as in the register are read; the other says a whole register",
    ),
    (
        Kind::Size,
        &["v*ss", "v*sd", "vinsertps", "vmovlps"],
        "scalar operands of 4 or 8 bytes; the other says 16 for these VEX forms",
    ),
    (
        Kind::Size,
        &["vpermilps", "vpermilpd", "vpshufd", "vpshufhw", "vpshuflw"],
        "256-bit forms read 32 bytes; the other says 16",
    ),
    (
        Kind::Size,
        &["movd"],
        "4 bytes without REX.W, also after a REX prefix without W or a segment prefix; the other says 8",
    ),
    (Kind::Size, &["movsxd"], "with 66 and no REX.W, 2 bytes (SDM; the other says 4)"),
];

fn is_known(kind: Kind, name: &str) -> bool {
    let matches = |pattern: &&str| common::matches_pattern(pattern.as_bytes(), name.as_bytes());
    KNOWN.iter().any(|(one, patterns, _)| *one == kind && patterns.iter().any(matches))
}

#[test]
fn system_libraries() {
    let mut both = Both::new();
    common::for_each_library(usize::MAX, |start, code| {
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
    let mut random = Random(5);
    let openings: &[&[u8]] = &[
        &[],
        &[0x0f],
        &[0x66, 0x0f],
        &[0xf3, 0x0f],
        &[0xf2, 0x0f],
        &[0x48],
        &[0x64],
        &[0x67],
        &[0xc5],
        &[0xc4],
        &[0x62],
    ];
    for _ in 0..2_000_000 {
        let mut bytes = openings[random.below(openings.len())].to_vec();
        bytes.extend(random.next().to_le_bytes());
        bytes.extend(random.next().to_le_bytes());
        both.compare(&bytes, RemoteAddr(0x40_0000));
    }
    both.finish();
}

#[test]
fn patterns() {
    assert!(
        common::matches_pattern(b"v*s?", b"vfmaddss")
            && common::matches_pattern(b"cmp*xadd", b"cmpbexadd")
    );
    assert!(
        !common::matches_pattern(b"v*ph", b"vaddps") && !common::matches_pattern(b"cmps?", b"cmps")
    );
}
