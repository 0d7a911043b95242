//! A sandboxed process with a place for a block, its copy, the area of its thread, and data; and random registers and
//! memory for it.

use base::RemoteAddr;
use sys::sandbox::{Piece, Registers, Sandbox, StateComponent, component};
use x86::translate::{
    Common, CommonCode, Flavour, NativeRip, Site, State as CopyState, Translation, Witness, area,
    common_code,
};
use x86::{Gpr, State};

use super::Random;

pub const DATA: Piece = Piece { address: RemoteAddr(0x1000_0000), bytes: 0x2_0000 };
// At odd places: unaligned loads from the data make addresses like 0x30000000, and neither code nor area may be data.
pub const CODE: Piece = Piece { address: RemoteAddr(0x2345_0000), bytes: 0x1_0000 };
pub const COPY: Piece = Piece { address: RemoteAddr(0x2456_0000), bytes: 0x1_0000 };
pub const RECORD_BYTES: usize = 0x1_0000;
pub const AREA: Piece =
    Piece { address: RemoteAddr(0x3567_8000), bytes: area::TABLE_END as usize + RECORD_BYTES };
pub const RECORDS: RemoteAddr = RemoteAddr(AREA.address.0 + area::TABLE_END as u64);
/// The middle of the data, where most pointers point.
pub const MIDDLE: u64 = DATA.address.0 + DATA.bytes as u64 / 2;
/// Where copies of blocks lie; the shared code lies at the start.
pub const COPY_AT: RemoteAddr = RemoteAddr(COPY.address.0 + 0x1000);
/// Where their cold parts lie.
pub const COLD_AT: RemoteAddr = RemoteAddr(COPY.address.0 + 0x8000);
pub const STATUS_FLAGS: u64 = 0x8d5;
/// Where the witness of all copies is, in the area, and its word.
pub const WITNESS: area::Displacement = 0xf00;
pub const WORD: u32 = 0x9abc_def1;

pub struct Machine {
    pub sandbox: Sandbox,
    pub common: CommonCode,
    /// Registers at the start, whose extended state is valid for this processor.
    pub extended: Vec<u8>,
    reserved: Option<Gpr>,
}

fn range(piece: Piece) -> std::ops::Range<usize> {
    let start = [DATA, CODE, COPY, AREA].iter().take_while(|one| one.address < piece.address);
    let start: usize = start.map(|one| one.bytes).sum();
    start..start + piece.bytes
}

impl Machine {
    pub fn start(reserved: Option<Gpr>) -> Machine {
        let mut sandbox = Sandbox::start(&[DATA, CODE, COPY, AREA]).unwrap();
        let common = common_code(COPY.address, reserved);
        let extended = sandbox.extended().unwrap();
        let copy = &mut sandbox.memory()[range(COPY)];
        copy[..common.bytes.len()].copy_from_slice(&common.bytes);
        let miss = COPY.address.offset(common.miss as u64).0;
        let area = &mut sandbox.memory()[range(AREA)];
        for entry in 0..area::TABLE_ENTRIES {
            let at = area::TABLE as usize + 8 * entry;
            area[at..at + 8].copy_from_slice(&miss.to_le_bytes());
        }
        let mut machine = Machine { sandbox, common, extended, reserved };
        machine.set_slot(WITNESS, WORD.into());
        machine
    }

    /// Where the shared code's system call lies.
    pub fn system_call(&self) -> RemoteAddr {
        let bytes = &self.common.bytes;
        let at = bytes.windows(2).position(|two| two == [0x0f, 0x05]).unwrap();
        COPY.address.offset(at as u64)
    }

    pub fn reserved(&self) -> Option<Gpr> {
        self.reserved
    }

    pub fn site(&self, flavour: Flavour) -> Site {
        let common = Common {
            exit: COPY.address.offset(self.common.exit as u64),
            miss: COPY.address.offset(self.common.miss as u64),
        };
        let reserved = self.reserved.unwrap_or(Gpr::R15);
        let at = AREA.address.offset(WITNESS as u64);
        let witness = Some(Witness { at, word: WORD });
        Site {
            at: COPY_AT,
            cold: COLD_AT,
            block: 7,
            first_exit: 20,
            flavour,
            common,
            reserved,
            witness,
        }
    }

    pub fn part(&mut self, piece: Piece) -> &mut [u8] {
        &mut self.sandbox.memory()[range(piece)]
    }

    pub fn reset(&mut self, pristine: &[u8], extended: &[u8]) {
        self.part(DATA).copy_from_slice(pristine);
        self.sandbox.set_extended(extended).unwrap();
    }

    pub fn slot(&mut self, slot: area::Displacement) -> u64 {
        let bytes = &self.part(AREA)[slot as usize..slot as usize + 8];
        u64::from_le_bytes(bytes.try_into().unwrap())
    }

    pub fn set_slot(&mut self, slot: area::Displacement, value: u64) {
        self.part(AREA)[slot as usize..slot as usize + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// A word of the records.
    pub fn record_word(&mut self, word: usize) -> u64 {
        self.slot(area::TABLE_END + 8 * word as i32)
    }

    /// Puts a copy where it belongs.
    pub fn place(&mut self, translation: &Translation) {
        let Translation { bytes, parts, .. } = translation;
        let (hot, cold) = bytes.split_at(parts.split);
        for (at, bytes) in [(parts.hot, hot), (parts.cold, cold)] {
            let at = (at.0 - COPY.address.0) as usize;
            self.part(COPY)[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Prepares a thread in native state `native` to enter the copy; `through_table`: by its table entry.
    pub fn enter(&mut self, native: &Registers, translation: &Translation, through_table: bool) {
        self.place(translation);
        self.part(AREA)[area::TABLE_END as usize..].fill(0xee);
        let limit = RECORDS.0 + RECORD_BYTES as u64 - 0x8000;
        self.set_slot(area::LIMIT, limit);
        self.set_slot(area::NEGATIVE_LIMIT, limit.wrapping_neg());
        self.set_slot(area::COUNTERS + 8 * 7, 1000);
        let mut registers = *native;
        registers.gs_base = AREA.address;
        if let Some(reserved) = self.reserved {
            self.set_slot(area::RESERVED, native.general[reserved.number()]);
            registers.general[reserved.number()] = RECORDS.0;
        }
        let offset = if through_table { translation.table.start } else { translation.entry };
        if through_table {
            self.set_slot(area::SPILL, native.general[Gpr::RCX.number()]);
            self.set_slot(area::SPILL + 8, native.general[Gpr::RAX.number()]);
            registers.general[Gpr::RCX.number()] = native.rip.0;
            registers.general[Gpr::RAX.number()] = 0x5555;
        }
        registers.rip = translation.parts.address(offset);
        self.sandbox.set_registers(&registers).unwrap();
    }

    /// The native registers that a stop in the copy stands for.
    pub fn native(&mut self, stopped: &Registers, state: &CopyState) -> Registers {
        let mut native = *stopped;
        for (register, slot) in state.saved.iter() {
            native.general[register.number()] = self.slot(slot);
        }
        native.rip = match state.rip {
            NativeRip::Known(address) => address,
            NativeRip::Register(register, more) => {
                RemoteAddr(stopped.general[register.number()].wrapping_add(more))
            }
            NativeRip::Slot(slot) => RemoteAddr(self.slot(slot)),
        };
        native.gs_base = RemoteAddr(0);
        native
    }

    /// Where the record pointer is.
    pub fn pointer(&mut self, stopped: &Registers, state: &CopyState) -> u64 {
        match self.reserved {
            Some(reserved) if !state.pointer_in_slot => stopped.general[reserved.number()],
            _ => self.slot(area::POINTER),
        }
    }

    /// What the evaluator needs of the machine's state.
    pub fn state(&self, registers: &Registers, with_vectors: bool) -> State {
        let mut state = State {
            general: registers.general,
            fs_base: registers.fs_base.0,
            gs_base: 0,
            direction_down: registers.flags & 0x400 != 0,
            ..State::default()
        };
        if !with_vectors {
            return state;
        }
        let image = self.sandbox.extended().unwrap();
        let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
        let mut copy = |number: usize, from: usize, at: usize, bytes: usize| {
            state.vectors[number][from..from + bytes].copy_from_slice(&image[at..at + bytes]);
        };
        for number in 0..16 {
            copy(number, 0, 160 + 16 * number, 16);
            if let Some(StateComponent { offset: at, .. }) = component(2) {
                copy(number, 16, at + 16 * number, 16);
            }
            if let Some(StateComponent { offset: at, .. }) = component(6) {
                copy(number, 32, at + 32 * number, 32);
            }
            if let Some(StateComponent { offset: at, .. }) = component(7) {
                copy(16 + number, 0, at + 64 * number, 64);
            }
        }
        if let Some(StateComponent { offset: at, .. }) = component(5) {
            (0..8).for_each(|number| state.masks[number] = word(at + 8 * number));
        }
        // mm registers lie in the x87 registers by their place on the stack, which MMX instructions reset.
        let top = usize::from(image[3] >> 3 & 7);
        (0..8).for_each(|number| state.mmx[number] = word(32 + 16 * ((number + 8 - top) % 8)));
        state
    }
}

/// Registers with which many operands are in reach: bases point to the data, indices are small.
pub fn registers(
    random: &mut Random,
    start: RemoteAddr,
    bases: &[Gpr],
    indices: &[Gpr],
) -> Registers {
    let mut registers = Registers { rip: start, ..Registers::default() };
    for register in Gpr::all() {
        let value = &mut registers.general[register.number()];
        // Now and then a base is none, so that the block faults.
        *value = match random.below(40) {
            1.. if bases.contains(&register) && register != Gpr::RSP => pointer(random),
            _ if register == Gpr::RSP => MIDDLE + 64 * random.below(64) as u64,
            _ if indices.contains(&register) => random.below(40) as u64,
            0..24 => pointer(random),
            24..34 => random.below(40) as u64,
            34..36 => 0,
            _ => random.next(),
        };
    }
    registers.flags = 0x202 | random.next() & STATUS_FLAGS;
    registers.fs_base = RemoteAddr(MIDDLE);
    registers
}

fn pointer(random: &mut Random) -> u64 {
    let step = [1, 8, 8, 64][random.below(4)];
    MIDDLE - 0x4000 + (random.below(0x8000) as u64 & !(step - 1))
}

/// Memory full of pointers, small numbers and noise.
pub fn memory(random: &mut Random) -> Vec<u8> {
    let mut word = || match random.below(8) {
        0..4 => pointer(random),
        4..6 => random.below(100) as u64,
        _ => random.next(),
    };
    (0..DATA.bytes / 8).flat_map(|_| word().to_le_bytes()).collect()
}

/// Vector and mask registers; half of the time with small numbers, which serve as indices of gathers.
pub fn extended(random: &mut Random, image: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    let small = random.below(2) == 0;
    let mut fill = |at: usize, bytes: usize| {
        for word in image[at..at + bytes].chunks_exact_mut(4) {
            let value = if small { random.below(1000) as u32 } else { random.next() as u32 };
            word.copy_from_slice(&value.to_le_bytes());
        }
    };
    fill(160, 256);
    let mut present = 0b11u8;
    for number in [2, 5, 6, 7] {
        if let Some(StateComponent { offset, bytes }) = component(number) {
            fill(offset, bytes);
            present |= 1 << number;
        }
    }
    // XSTATE_BV: these components are not in their initial state.
    image[512] |= present;
    image
}

/// The image without what may differ: the address of the last x87 instruction, and which components the processor took
/// for unused.
pub fn comparable(image: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    image[8..16].fill(0);
    image[512..576].fill(0);
    image
}
