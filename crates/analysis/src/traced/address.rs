//! Addresses of one access from the recorded words of its block.
//!
//! What for: nearly all addresses are a sum of recorded words times small factors: a few nanoseconds per record. Gathers, masks,
//! repeated strings, `xlat`, bit strings and 32-bit addresses go through `x86::evaluate`.
//! What not: which block a record belongs to, and whether it has all its words (`code`, `walk`).
//!
//! Assumptions: the base of fs is the burst's, gs is not used and the direction flag is clear (a translated block requires both,
//! `x86::translate`). In a summarised loop, iteration i has the words of the first iteration plus i times the advance of each
//! (`x86::self_loop`).

use facts::Record;
use x86::translate::RecordLayout;
use x86::{
    AddressWidth, Advance, BlockRoots, Input, LINE_BYTES, Location, Occurrence, RootedAccess,
    SelfLoop, Source, State, Times, Value, evaluate,
};

use super::run::Run;

/// Iterations of an access that is evaluated one by one; the addresses of further ones are unknown.
const MOST_EVALUATED: u64 = 256;

/// Some addresses of one access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    /// `count` times `bytes` bytes, from `start` on every `stride` bytes; `count` is at least 1.
    Run { start: u64, stride: i64, count: u64, bytes: u32 },
    /// At least one access at this address; how many follow depends on data.
    AtLeast { start: u64, bytes: u32 },
    /// The number of accesses at unknown addresses.
    Unknown { count: u64 },
}

impl Touch {
    /// How many accesses these are, as far as is known.
    pub(crate) fn count(self) -> u64 {
        match self {
            Touch::Run { count, .. } | Touch::Unknown { count } => count,
            Touch::AtLeast { .. } => 1,
        }
    }

    /// Those whose addresses are known.
    pub(crate) fn run(self) -> Option<Run> {
        match self {
            Touch::Run { start, stride, count, bytes } => Some(Run { start, stride, count, bytes }),
            Touch::AtLeast { start, bytes } => Some(Run { start, stride: 0, count: 1, bytes }),
            Touch::Unknown { .. } => None,
        }
    }
}

/// How the addresses of an access follow from a record.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    Linear(Linear),
    General(Box<General>),
}

/// constant + base of fs if `fs` + Σ factor × word, modulo 2^64.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    constant: u64,
    fs: bool,
    terms: Vec<(usize, u64)>,
    /// From one iteration to the next.
    stride: i64,
    bytes: u32,
    line: bool,
}

/// Where the registers of an access come from.
#[derive(Clone, Debug)]
pub(crate) struct General {
    access: x86::Access,
    inputs: Vec<(Source, Origin)>,
}

#[derive(Clone, Copy, Debug)]
enum Origin {
    Constant(u64),
    FsBase,
    Clear,
    /// Words of the record, plus `displacement`, plus `advance` per iteration.
    Words {
        first: usize,
        words: usize,
        displacement: u64,
        advance: u64,
    },
}

impl Form {
    /// `None` when the record lacks a value that the address needs, or the loop is none that can be summarised.
    pub(crate) fn new(
        access: &RootedAccess,
        roots: &BlockRoots,
        layout: &RecordLayout,
        back: Option<&SelfLoop>,
    ) -> Option<Form> {
        let origin = |input: &Input| origin(input, roots, layout, back);
        let inputs: Option<Vec<(Source, Origin)>> =
            access.inputs.iter().map(|input| Some((input.source, origin(input)?))).collect();
        let inputs = inputs?;
        Some(match linear(&access.access, &inputs) {
            Some(form) => Form::Linear(form),
            None => Form::General(Box::new(General { access: access.access, inputs })),
        })
    }

    /// Gives the addresses of `iterations` iterations to `take`, those of one access in order.
    pub(crate) fn touches(
        &self,
        record: &Record<'_>,
        fs_base: u64,
        iterations: u64,
        mut take: impl FnMut(Touch),
    ) {
        match self {
            Form::Linear(form) if iterations > 0 => {
                take(form.touch(record.values, fs_base, iterations));
            }
            Form::Linear(_) => {}
            Form::General(form) => form.touches(record.values, fs_base, iterations, &mut take),
        }
    }
}

impl Linear {
    fn touch(&self, words: &[u64], fs_base: u64, count: u64) -> Touch {
        let mut sum = self.constant;
        if self.fs {
            sum = sum.wrapping_add(fs_base);
        }
        for (word, factor) in &self.terms {
            sum = sum.wrapping_add(words[*word].wrapping_mul(*factor));
        }
        let start = if self.line { sum & !u64::from(LINE_BYTES - 1) } else { sum };
        Touch::Run { start, stride: self.stride, count, bytes: self.bytes }
    }
}

fn origin(
    input: &Input,
    roots: &BlockRoots,
    layout: &RecordLayout,
    back: Option<&SelfLoop>,
) -> Option<Origin> {
    let (root, displacement) = match input.value {
        Value::Constant(value) => return Some(Origin::Constant(value)),
        Value::Root { root, displacement } => (root, displacement),
    };
    match root.source {
        Source::FsBase => return Some(Origin::FsBase),
        Source::Direction => return Some(Origin::Clear),
        Source::GsBase => return None,
        _ => {}
    }
    let value = layout.values.iter().find(|value| value.root == root)?;
    let position = roots.roots.iter().position(|known| *known == root)?;
    let advance = match back {
        None => 0,
        Some(back) => match back.advances.get(position)? {
            Advance::Constant(advance) => *advance,
            Advance::Irregular => return None,
        },
    };
    // Word 0 of a record is its header, which its values do not hold.
    let first = value.word.checked_sub(1)?;
    Some(Origin::Words { first, words: value.words, displacement, advance })
}

fn linear(access: &x86::Access, inputs: &[(Source, Origin)]) -> Option<Linear> {
    let (Location::One(address), Occurrence::Always) = (&access.place, access.when) else {
        return None;
    };
    if address.extra.is_some() || address.width != AddressWidth::Bits64 {
        return None;
    }
    let mut form = Linear {
        constant: address.displacement,
        fs: false,
        terms: Vec::new(),
        stride: 0,
        bytes: access.bytes,
        line: access.line,
    };
    let mut stride = 0u64;
    for (source, origin) in inputs {
        let factor = match source {
            Source::FsBase => {
                form.fs = true;
                continue;
            }
            Source::General(register) => {
                let base = u64::from(address.base == Some(*register));
                let index = address.index.filter(|index| index.register == *register);
                base + index.map_or(0, |index| u64::from(index.scale))
            }
            _ => return None,
        };
        match *origin {
            Origin::Constant(value) => {
                form.constant = form.constant.wrapping_add(value.wrapping_mul(factor));
            }
            Origin::Words { first, displacement, advance, .. } => {
                form.constant = form.constant.wrapping_add(displacement.wrapping_mul(factor));
                form.terms.push((first, factor));
                stride = stride.wrapping_add(advance.wrapping_mul(factor));
            }
            Origin::FsBase | Origin::Clear => return None,
        }
    }
    form.stride = stride.cast_signed();
    // The line of an address that moves within lines is no progression.
    let moves_within = form.line && !stride.is_multiple_of(u64::from(LINE_BYTES));
    (!moves_within).then_some(form)
}

impl General {
    fn touches(&self, words: &[u64], fs_base: u64, iterations: u64, take: &mut impl FnMut(Touch)) {
        let mut per_iteration = 0;
        for iteration in 0..iterations.min(MOST_EVALUATED) {
            let state = self.state(words, fs_base, iteration);
            per_iteration = 0;
            for touched in evaluate(&[self.access], &state) {
                let (start, bytes) = (touched.address.0, touched.bytes);
                let touch = match touched.times {
                    Times::Once => Touch::Run { start, stride: 0, count: 1, bytes },
                    Times::Run { count, stride, exact: true } => {
                        Touch::Run { start, stride, count, bytes }
                    }
                    Times::Run { exact: false, .. } => Touch::AtLeast { start, bytes },
                };
                per_iteration += match touch {
                    Touch::Run { count, .. } => count,
                    _ => 1,
                };
                take(touch);
            }
        }
        let rest = iterations.saturating_sub(MOST_EVALUATED);
        if rest > 0 && per_iteration > 0 {
            take(Touch::Unknown { count: rest.saturating_mul(per_iteration) });
        }
    }

    fn state(&self, words: &[u64], fs_base: u64, iteration: u64) -> State {
        let mut state = State { fs_base, ..State::default() };
        for (source, origin) in &self.inputs {
            let (values, moved) = match *origin {
                Origin::Constant(value) => (&[][..], value),
                Origin::Words { first, words: count, displacement, advance } => {
                    let moved = displacement.wrapping_add(advance.wrapping_mul(iteration));
                    (&words[first..first + count], moved)
                }
                Origin::FsBase | Origin::Clear => continue,
            };
            let first = values.first().copied().unwrap_or(0);
            match source {
                Source::General(register) => state.set(*register, first.wrapping_add(moved)),
                Source::Vector(register) => {
                    let bytes = state.vectors[register.number()].chunks_exact_mut(8);
                    for (bytes, value) in bytes.zip(values) {
                        bytes.copy_from_slice(&value.to_le_bytes());
                    }
                }
                Source::Mask(register) => state.masks[register.number()] = first,
                Source::Mmx(register) => state.mmx[register.number() % 8] = first,
                Source::FsBase | Source::GsBase | Source::Direction => {}
            }
        }
        state
    }
}
