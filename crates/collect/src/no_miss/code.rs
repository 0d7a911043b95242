//! A recorded block as code that can be copied, and the registers that a record of it holds.
//!
//! What for: the pieces that are timed without their misses. What not: which pieces are timed together (`paths`,
//! `mod`), and how (`timing`).

use std::collections::BTreeMap;

use base::RemoteAddr;
use facts::{Block, GENERAL_REGISTERS, SampledFrame, decode_registers};
use sys::no_miss::{StartState, UNKNOWN_STACK};
use x86::translate::{RecordLayout, RecordedValue};
use x86::{CodeBytes, Kind, Part, Reader, RecordedRegister, Source, read_pieces};

/// The number of rsp in machine code (SDM vol. 2, 2.2.1.2).
const RSP: usize = 4;

/// A block and its bytes.
pub(super) struct Code<'a> {
    pub(super) block: x86::Block,
    bytes: Vec<CodeBytes<'a>>,
    layout: RecordLayout,
    /// Registers that the block does not change, at a clock sample in it: records hold no factor, mask or limit.
    constants: [Option<u64>; GENERAL_REGISTERS],
}

/// The registers of the last clock sample at each address of the program's code.
#[derive(Debug, Default)]
pub(super) struct SampledStates(BTreeMap<RemoteAddr, [Option<u64>; GENERAL_REGISTERS]>);

impl SampledStates {
    /// From pieces that were encoded here.
    pub(super) fn decoded<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> SampledStates {
        let mut states = SampledStates::default();
        for bytes in pieces {
            // What comes before damage counts.
            let _ = decode_registers(bytes, |state| {
                if state.place.frame == SampledFrame::Own {
                    let registers = std::array::from_fn(|number| state.register(number));
                    states.0.insert(state.place.address, registers);
                }
            });
        }
        states
    }

    /// What these registers of a block held, where it does not change them.
    fn constants(&self, block: &x86::Block) -> [Option<u64>; GENERAL_REGISTERS] {
        let mut constants = [None; GENERAL_REGISTERS];
        let all = block.instructions.iter();
        for registers in all.clone().filter_map(|one| self.0.get(&one.address())) {
            for (constant, register) in constants.iter_mut().zip(registers) {
                *constant = constant.or(*register);
            }
        }
        for changed in all.flat_map(|one| one.registers().changed.iter()) {
            constants[changed.number()] = None;
        }
        constants
    }
}

impl<'a> Code<'a> {
    /// `None` if its code cannot be read.
    pub(super) fn read(block: &'a Block, reader: &mut Reader) -> Option<Code<'a>> {
        let piece = |piece: &'a facts::CodePiece| CodeBytes {
            start: piece.address,
            bytes: piece.bytes.as_slice(),
        };
        let bytes: Vec<CodeBytes<'a>> = block.pieces.iter().map(piece).collect();
        let decoded = read_pieces(reader, &bytes)?;
        let layout = block.record.parse().ok()?;
        let constants = [None; GENERAL_REGISTERS];
        Some(Code { block: decoded, bytes, layout, constants })
    }

    /// With what samples tell of its registers.
    pub(super) fn with(self, sampled: &SampledStates) -> Code<'a> {
        Code { constants: sampled.constants(&self.block), ..self }
    }

    /// Its first instructions.
    pub(super) fn part(&self, executed: usize) -> Part<'_, [CodeBytes<'a>]> {
        Part { block: &self.block, code: &self.bytes, executed }
    }

    /// The number of its loads if it also stores, else 0.
    pub(super) fn loads_if_it_stores(&self) -> usize {
        let all = self.block.instructions.iter().flat_map(x86::Instruction::accesses);
        let of = |kind: Kind| all.clone().filter(move |one| one.kind == kind).count();
        let both = of(Kind::ReadWrite);
        if of(Kind::Write) + both > 0 { of(Kind::Read) + both } else { 0 }
    }

    /// The registers that a record holds, anywhere in the block.
    pub(super) fn seen(&self, values: &[u64]) -> Vec<RecordedRegister> {
        let one = |value: &RecordedValue| {
            let Source::General(register) = value.root.source else { return None };
            let value_of_word = *values.get(value.word.saturating_sub(1))?;
            Some(RecordedRegister { register, at: value.root.at, value: value_of_word })
        };
        self.layout.values.iter().filter_map(one).collect()
    }

    /// The registers at its start, by the values of a record, or of a sample; `unknown` where neither holds one. Values that appear later
    /// in the block follow from memory.
    pub(super) fn start(&self, values: &[u64], unknown: u64) -> StartState {
        let mut state = StartState { general: [unknown; 16], ..StartState::default() };
        // Otherwise what the code pushes would overwrite what it reads through other registers whose value is
        // unknown.
        state.general[RSP] = UNKNOWN_STACK;
        for (register, constant) in state.general.iter_mut().zip(self.constants) {
            *register = constant.unwrap_or(*register);
        }
        for value in self.layout.values.iter().filter(|value| value.root.at == 0) {
            // Word 0 is the header, which a record does not have here.
            let first = value.word.saturating_sub(1);
            let Some(words) = values.get(first..first + value.words) else { continue };
            match value.root.source {
                Source::General(register) => state.general[register.number()] = words[0],
                Source::Vector(register) => {
                    let place = &mut state.vectors[register.number()];
                    for (bytes, word) in place.chunks_exact_mut(8).zip(words) {
                        bytes.copy_from_slice(&word.to_le_bytes());
                    }
                }
                Source::Mask(register) => state.masks[register.number()] = words[0],
                Source::FsBase | Source::GsBase | Source::Mmx(_) | Source::Direction => {}
            }
        }
        state
    }
}
