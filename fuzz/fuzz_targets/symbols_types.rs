#![no_main]
//! Any bytes as a module's file: types of accesses, followed through code that the same bytes make up.

use std::hint::black_box;

use base::{Bytes, FileOffset};
use libfuzzer_sys::fuzz_target;
use symbols::types::{Decoder, Operand, Register, Step, Successor, Written, typed_accesses};
use symbols::{Elf, LinkAddress, ModuleImage};

/// Instructions of four bytes, whose meaning is drawn from them.
struct MadeUp;

impl Decoder for MadeUp {
    fn step(&mut self, bytes: &[u8], address: LinkAddress) -> Option<Step> {
        let [kind, registers, displacement, size] = *bytes.first_chunk()?;
        let (to, from) = (Register(registers & 15), Register(registers >> 4));
        let displacement = i64::from(displacement.cast_signed());
        let target = LinkAddress(address.0.wrapping_add_signed(displacement * 4));
        let operand = Operand {
            base: (size & 64 == 0).then_some(from),
            index: (size & 128 == 0).then_some((to, 1 << (size & 3))),
            displacement,
            step: 0,
            bytes: Bytes(1 << (size & 7)),
        };
        let written = match kind >> 6 {
            0 => Written::Loaded(0),
            1 => Written::Sum(vec![(from, 1), (to, i64::from(kind & 63))], displacement),
            _ => Written::Sum(vec![(from, -1)], 0),
        };
        let onward = match kind & 15 {
            0 => Successor::Jump(target),
            1 => Successor::Branch(target),
            2 => Successor::Call(Some(target)),
            3 => Successor::Indirect,
            4 => Successor::Away,
            _ => Successor::Next,
        };
        let operands = vec![Some(operand)];
        Some(Step {
            length: 4,
            onward,
            operands,
            changed: vec![to],
            written: vec![(to, written)],
            stored: (kind & 32 == 0).then_some((0, from)),
        })
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(elf) = Elf::parse(bytes) else { return };
    let image = ModuleImage::new(elf, None, None);
    let offsets: Vec<_> = (0..bytes.len() as u64).step_by(4).map(FileOffset).collect();
    for one in typed_accesses(&image, &offsets, &mut MadeUp, &mut || true) {
        assert!(one.field_offset.0 + one.field_bytes.0 <= one.type_bytes.0, "{one:?}");
        black_box(one);
    }
});
