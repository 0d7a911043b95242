//! Assembles instructions of the kernel's BPF virtual machine.
//!
//! What for: the few short programs of `programs.rs`, without a compiler at build or run time. What not: all
//! instructions; checking the programs, which the kernel's verifier does.
//!
//! Source: `Documentation/bpf/standardization/instruction-set.rst`: a word is `opcode:8 | destination:4 | source:4 |
//! offset:16 | immediate:32`, lowest bits first.

use sys::bpf::Map;

/// A register. 0 holds results; 1 to 5 hold arguments and are lost in calls; 6 to 9 are preserved; 10 points to the
/// end of the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reg {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// Bytes of a load or store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// 4 bytes.
    Half,
    /// 8 bytes.
    Word,
}

/// The condition of a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Always.
    Always,
    /// Register equals the number.
    Equal(Reg, i32),
    /// It does not.
    NotEqual(Reg, i32),
    /// The register, signed, is above the number.
    Above(Reg, i32),
    /// Two registers are equal.
    Same(Reg, Reg),
}

/// Kernel functions that programs may call (`include/uapi/linux/bpf.h`, `___BPF_FUNC_MAPPER`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    GetCurrentPidTgid = 14,
}

/// A target of jumps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    words: Vec<u64>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, opcode: u8, to: Reg, from: Reg, offset: i16, immediate: i32) {
        self.words.push(
            u64::from(opcode)
                | (to as u64) << 8
                | (from as u64) << 12
                | u64::from(offset as u16) << 16
                | u64::from(immediate as u32) << 32,
        );
    }

    /// `to = from`
    pub fn copy(&mut self, to: Reg, from: Reg) {
        self.push(0xbf, to, from, 0, 0);
    }

    /// `to = number`
    pub fn set(&mut self, to: Reg, number: i32) {
        self.push(0xb7, to, Reg::R0, 0, number);
    }

    /// `to += number`
    pub fn add(&mut self, to: Reg, number: i32) {
        self.push(0x07, to, Reg::R0, 0, number);
    }

    /// `to += from`
    pub fn add_reg(&mut self, to: Reg, from: Reg) {
        self.push(0x0f, to, from, 0, 0);
    }

    /// `to -= from`
    pub fn subtract(&mut self, to: Reg, from: Reg) {
        self.push(0x1f, to, from, 0, 0);
    }

    /// `to &= number`
    pub fn and(&mut self, to: Reg, number: i32) {
        self.push(0x57, to, Reg::R0, 0, number);
    }

    /// `to |= number`
    pub fn or(&mut self, to: Reg, number: i32) {
        self.push(0x47, to, Reg::R0, 0, number);
    }

    /// `to = to & 0xffff_ffff`
    pub fn low_half(&mut self, to: Reg) {
        self.push(0xbc, to, to, 0, 0);
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) {
        self.push(if width == Width::Half { 0x61 } else { 0x79 }, to, from, offset, 0);
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) {
        self.push(if width == Width::Half { 0x63 } else { 0x7b }, to, from, offset, 0);
    }

    /// `*(to + offset) = number`
    pub fn store_number(&mut self, width: Width, to: Reg, offset: i16, number: i32) {
        self.push(if width == Width::Half { 0x62 } else { 0x7a }, to, Reg::R0, offset, number);
    }

    /// `*(to + offset) += from`, eight bytes, atomic with respect to interrupts
    pub fn add_to(&mut self, to: Reg, offset: i16, from: Reg) {
        self.push(0xdb, to, from, offset, 0);
    }

    /// `R0 = helper(R1 ...)`
    pub fn call(&mut self, helper: Helper) {
        self.push(0x85, Reg::R0, Reg::R0, 0, helper as i32);
    }

    /// `to = map`
    pub fn load_map(&mut self, to: Reg, map: &Map) {
        const MAP_BY_DESCRIPTOR: Reg = Reg::R1; // BPF_PSEUDO_MAP_FD
        self.push(0x18, to, MAP_BY_DESCRIPTOR, 0, map.number());
        self.words.push(0);
    }

    /// Ends the program.
    pub fn exit(&mut self) {
        self.set(Reg::R0, 0);
        self.push(0x95, Reg::R0, Reg::R0, 0, 0);
    }

    /// A label whose place is not known yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.words.len());
    }

    /// Jumps to a label.
    pub fn jump(&mut self, condition: Condition, label: Label) {
        self.jumps.push((self.words.len(), label));
        match condition {
            Condition::Always => self.push(0x05, Reg::R0, Reg::R0, 0, 0),
            Condition::Equal(reg, number) => self.push(0x15, reg, Reg::R0, 0, number),
            Condition::NotEqual(reg, number) => self.push(0x55, reg, Reg::R0, 0, number),
            Condition::Above(reg, number) => self.push(0x65, reg, Reg::R0, 0, number),
            Condition::Same(one, other) => self.push(0x1d, one, other, 0, 0),
        }
    }

    /// The finished words. A jump to a label without a place goes to the next word.
    #[must_use]
    pub fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].unwrap_or(at + 1);
            // Counted from the word after the jump; programs have some hundred words.
            let distance = (target as i64 - at as i64 - 1) as i16;
            self.words[at] |= u64::from(distance as u16) << 16;
        }
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_manual() {
        let mut code = Assembler::default();
        let out = code.label();
        code.copy(Reg::R6, Reg::R1);
        code.jump(Condition::Equal(Reg::R0, 0), out);
        code.store(Width::Word, Reg::R10, -16, Reg::R0);
        code.call(Helper::KtimeGetNs);
        code.place(out);
        code.exit();
        let expected: [u64; 6] = [
            0x0000_0000_0000_16bf,
            0x0000_0000_0002_0015,
            0x0000_0000_fff0_0a7b,
            0x0000_0005_0000_0085,
            0x0000_0000_0000_00b7,
            0x0000_0000_0000_0095,
        ];
        assert_eq!(code.finish(), expected);
    }
}
