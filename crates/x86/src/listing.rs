//! Text of accesses, roots and ends: one line each, stable, for golden tests and for people.
//!
//! What not: disassembly (`assembly`). Notation: `read 8 [fs:rax+rcx*8-0x10]`; `narrow` marks 32-bit addresses;
//! displacements are signed where that is shorter.

use std::fmt::{self, Write as _};

use crate::block::End;
use crate::operand::{
    Access, Address, AddressWidth, ExtraTerm, Kind, LaneMask, Location, Occurrence, Segment,
};
use crate::roots::{Advance, Root, Source, Value};

/// `+0x10`, `-0x8`; empty for 0 unless `alone`.
fn displacement(value: u64, alone: bool) -> String {
    let signed = value.cast_signed();
    match signed {
        _ if alone => format!("{value:#x}"),
        0 => String::new(),
        1.. => format!("+{signed:#x}"),
        _ => format!("-{:#x}", signed.unsigned_abs()),
    }
}

fn terms(address: &Address, index: Option<String>) -> String {
    let mut terms: Vec<String> = Vec::new();
    terms.extend(address.base.map(|base| base.to_string()));
    terms.extend(address.index.map(|index| format!("{}*{}", index.register, index.scale)));
    terms.extend(index);
    terms.extend(address.extra.map(|extra| match extra {
        ExtraTerm::LowByte(register) => format!("lowbyte({register})"),
        ExtraTerm::BitString { register, operand_bytes } => {
            format!("bits{}({register})", u32::from(operand_bytes) * 8)
        }
    }));
    let segment = match address.segment {
        Segment::Flat => "",
        Segment::Fs => "fs:",
        Segment::Gs => "gs:",
    };
    let narrow = match address.width {
        AddressWidth::Bits64 => "",
        AddressWidth::Bits32 => "narrow ",
    };
    // In 32 bits, a large displacement is a small negative one.
    let signed = match address.width {
        AddressWidth::Bits32 if !terms.is_empty() => {
            i64::from(address.displacement as i32).cast_unsigned()
        }
        _ => address.displacement,
    };
    let displacement = displacement(signed, terms.is_empty());
    format!("[{segment}{narrow}{}{displacement}]", terms.join("+"))
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&terms(self, None))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::One(address) => address.fmt(out),
            Location::Lanes(lanes) => {
                let bits = u32::from(lanes.index_bytes) * 8;
                let index = format!("{}.i{bits}x{}*{}", lanes.index, lanes.lanes, lanes.scale);
                out.write_str(&terms(&lanes.common, Some(index)))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::ReadWrite => "read-write",
            Kind::StreamingRead => "streaming-read",
            Kind::StreamingWrite => "streaming-write",
            Kind::Prefetch => "prefetch",
            Kind::PrefetchWrite => "prefetch-write",
            Kind::Flush => "flush",
            Kind::WriteBack => "write-back",
            Kind::Demote => "demote",
        })
    }
}

impl fmt::Display for LaneMask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneMask::Mask(mask) => mask.fmt(out),
            LaneMask::VectorSigns(vector) => write!(out, "signs({vector})"),
            LaneMask::MmxSigns(register) => write!(out, "signs(mm{})", register.number()),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.kind, self.bytes, self.place)?;
        match self.when {
            Occurrence::Always => {}
            Occurrence::Masked(masked) => {
                write!(out, " if {}:{}x{}", masked.mask, masked.lanes, masked.element_bytes)?;
            }
            Occurrence::Packed(masked) => {
                write!(
                    out,
                    " packed by {}:{}x{}",
                    masked.mask, masked.lanes, masked.element_bytes
                )?;
            }
            Occurrence::Repeated(repeat) => {
                let most = if repeat.may_stop { "at most " } else { "" };
                write!(out, " {most}{} times", repeat.counter)?;
            }
        }
        out.write_str(if self.locked { " locked" } else { "" })?;
        out.write_str(if self.line { " line" } else { "" })
    }
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::FallThrough(next) => write!(out, "falls through to {next}"),
            End::Jump(target) => write!(out, "jumps to {target}"),
            End::Conditional { taken, not_taken } => write!(out, "jumps to {taken} or {not_taken}"),
            End::Call { target, return_to } => write!(out, "calls {target}, back at {return_to}"),
            End::IndirectJump => out.write_str("jumps indirectly"),
            End::IndirectCall { return_to } => write!(out, "calls indirectly, back at {return_to}"),
            End::Return => out.write_str("returns"),
            End::Refused { at, why } => write!(out, "refused at {at}: {why:?}"),
            End::MissingBytes(at) => write!(out, "bytes missing at {at}"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::General(register) => register.fmt(out),
            Source::FsBase => out.write_str("fsbase"),
            Source::GsBase => out.write_str("gsbase"),
            Source::Vector(register) => register.fmt(out),
            Source::Mask(register) => register.fmt(out),
            Source::Mmx(register) => write!(out, "mm{}", register.number()),
            Source::Direction => out.write_str("df"),
        }
    }
}

/// `rax@0`: the value of rax before instruction 0.
impl fmt::Display for Root {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}@{}", self.source, self.at)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Constant(value) => write!(out, "{value:#x}"),
            Value::Root { root, displacement: more } => {
                root.fmt(out)?;
                out.write_str(&displacement(*more, false))
            }
        }
    }
}

impl fmt::Display for Advance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advance::Constant(0) => out.write_str("stays"),
            Advance::Constant(step) => out.write_str(&displacement(*step, false)),
            Advance::Irregular => out.write_str("irregular"),
        }
    }
}

/// The whole block as text: one line per instruction, its accesses below it, then roots, flags and the end.
#[must_use]
pub fn listing(block: &crate::Block) -> String {
    let mut text = String::new();
    let roots = crate::find_roots(block);
    for (number, instruction) in block.instructions.iter().enumerate() {
        let flags = instruction.flags();
        let maybe = if flags.conditional { "?" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{number} {} {} len={} flags: reads {} writes {}{maybe} undefined {}{maybe} kills {}",
            instruction.address(),
            instruction.mnemonic(),
            instruction.length(),
            flags.read,
            flags.written,
            flags.undefined,
            instruction.registers().killed,
        );
        for access in roots.accesses.iter().filter(|access| access.instruction == number) {
            let inputs: Vec<String> = access
                .inputs
                .iter()
                .map(|input| format!("{}={}", input.source, input.value))
                .collect();
            let _ = writeln!(text, "    {}  <- {}", access.access, or_dash(&inputs.join(" ")));
        }
    }
    let _ = writeln!(text, "end: {}", block.end);
    let names: Vec<String> = roots.roots.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "roots: {}", or_dash(&names.join(" ")));
    let live = crate::live_at_start(&block.instructions);
    let dead = crate::GprSet::ALL.without(live.registers);
    let _ = writeln!(text, "at start: flags alive {}; registers dead {dead}", live.flags);
    if let Some(found) = crate::self_loop(block, &roots) {
        let advances: Vec<String> = roots
            .roots
            .iter()
            .zip(&found.advances)
            .map(|(root, advance)| format!("{} {advance}", root.source))
            .collect();
        let summary = if found.is_summarisable() { "summarisable" } else { "not summarisable" };
        let _ =
            writeln!(text, "loop {:?}: {summary}; {}", found.back, or_dash(&advances.join(", ")));
    }
    text
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}
