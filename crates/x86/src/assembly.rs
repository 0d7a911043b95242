//! Text of instructions for people, in Intel's notation.
//!
//! What not: meaning ([`crate::Instruction`]); only the lengths may be computed with. Assumption: the bytes may be
//! anything. Bytes that are no instruction are shown as `(bad)`, and decoding continues after them.

use base::FileOffset;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

/// One instruction as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextLine {
    /// Offset of its first byte.
    pub offset: FileOffset,
    /// Its text, for example `mov rax, [rdi+rcx*8]`.
    pub text: String,
}

/// The instructions of `bytes`, which lie at `start`. Targets of branches are shown as offsets. Other operands
/// relative to rip are shown as such, because code and data lie at different distances from their offsets in the
/// file.
#[must_use]
pub fn disassemble(bytes: &[u8], start: FileOffset) -> Vec<TextLine> {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_signed_immediate_operands(true);
    options.set_small_hex_numbers_in_decimal(true);
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(true);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    let decoder = Decoder::with_ip(64, bytes, start.0, DecoderOptions::NONE);
    let line = |instruction: iced_x86::Instruction| {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        TextLine { offset: FileOffset(instruction.ip()), text }
    };
    decoder.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_offsets_and_branches_name_them() {
        // mov rax,[rdi+rcx*8]; add rcx,1; mov rdx,[rip+0x20]; jne to the first; 06 c3 is none in 64-bit mode
        let bytes = b"\x48\x8b\x04\xcf\x48\x83\xc1\x01\x48\x8b\x15\x20\x00\x00\x00\x75\xef\x06\xc3";
        let lines = disassemble(bytes, FileOffset(0x1000));
        let lines: Vec<(u64, &str)> =
            lines.iter().map(|line| (line.offset.0, line.text.as_str())).collect();
        assert_eq!(
            lines,
            [
                (0x1000, "mov rax, [rdi+rcx*8]"),
                (0x1004, "add rcx, 1"),
                (0x1008, "mov rdx, [rip+0x20]"),
                (0x100f, "jne 0x1000"),
                (0x1011, "(bad)"),
            ]
        );
    }
}
