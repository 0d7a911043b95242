//! The words of memory to which a block stores, as far as one value of its record tells where they are.
//!
//! What for: counters, positions and sizes of the program are such words (`burst::odometers`). What not: all accesses
//! (`evaluate`): indexed stores go through data, and other sizes are no numbers.

use base::RemoteAddr;

use super::RecordLayout;
use crate::block::Block;
use crate::operand::{AddressWidth, Kind, Location, Occurrence, Segment};
use crate::roots::{BlockRoots, RootedAccess, Source, Value};

/// A store of 4 or 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WrittenWord {
    /// Bytes.
    pub bytes: u8,
    /// Its address, or what is added to a value of the record.
    pub displacement: u64,
    /// The word of the record with that value.
    pub word: Option<usize>,
}

impl WrittenWord {
    /// Where it is. Of a loop, in the first iteration; `None` if the record is too short.
    #[must_use]
    pub fn address(&self, record: &[u64]) -> Option<RemoteAddr> {
        let base = self.word.map_or(Some(0), |word| record.get(word).copied())?;
        Some(RemoteAddr(base.wrapping_add(self.displacement)))
    }
}

/// All of a block, in the order of execution.
pub(super) fn written(
    block: &Block,
    roots: &BlockRoots,
    layout: &RecordLayout,
) -> Vec<WrittenWord> {
    // What calls and pushes leave on the stack is no number of the program's.
    let pushes =
        |at: usize| block.instructions.get(at).is_none_or(|one| one.raw.is_stack_instruction());
    let mut all: Vec<WrittenWord> = Vec::new();
    for access in roots.accesses.iter().filter(|access| !pushes(access.instruction)) {
        let found = written_word(access, layout).filter(|found| !all.contains(found));
        all.extend(found);
    }
    all
}

fn written_word(
    RootedAccess { access, inputs, .. }: &RootedAccess,
    layout: &RecordLayout,
) -> Option<WrittenWord> {
    let Location::One(address) = &access.place else { return None };
    let is_store = matches!(access.kind, Kind::Write | Kind::ReadWrite);
    let is_plain = access.when == Occurrence::Always
        && !access.line
        && address.index.is_none()
        && address.extra.is_none()
        && address.segment == Segment::Flat
        && address.width == AddressWidth::Bits64;
    let bytes = u8::try_from(access.bytes).ok().filter(|bytes| matches!(bytes, 4 | 8))?;
    if !is_store || !is_plain {
        return None;
    }
    let displacement = address.displacement;
    let Some(base) = address.base else {
        return Some(WrittenWord { bytes, displacement, word: None });
    };
    let input = inputs.iter().find(|input| input.source == Source::General(base))?;
    match input.value {
        Value::Constant(value) => {
            Some(WrittenWord { bytes, displacement: displacement.wrapping_add(value), word: None })
        }
        Value::Root { root, displacement: more } => {
            let value = layout.values.iter().find(|value| value.root == root)?;
            let displacement = displacement.wrapping_add(more);
            Some(WrittenWord { bytes, displacement, word: Some(value.word) })
        }
    }
}
