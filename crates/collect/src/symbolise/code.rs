//! Where traced code accesses memory, fences or computes, and where counted code begins: addresses that need a name in addition to
//! those of stacks.
//!
//! What not: what the accesses are (`analysis`). Assumption: the bytes are whole instructions; the rest of a piece
//! after an invalid one is left out.

use base::{CodeAddress, FileOffset, RemoteAddr};
use facts::{Block, BurstFlavour, CodePiece};
use x86::{CodeBytes, Reader};

/// Module and offset of each instruction of `blocks` that accesses memory, fences or has floating-point operations, and of the first
/// one of each block that counts; with repetitions.
#[must_use]
pub fn traced_addresses(blocks: &[Block]) -> Vec<CodeAddress> {
    let mut reader = Reader::new();
    let mut addresses = Vec::new();
    for piece in blocks.iter().flat_map(|block| &block.pieces) {
        of_piece(piece, &mut reader, &mut addresses);
    }
    let counts =
        |block: &&Block| matches!(block.flavour, BurstFlavour::Count | BurstFlavour::Sparse);
    let first =
        |block: &Block| block.pieces.first().map(|one| CodeAddress::new(one.module, one.offset));
    addresses.extend(blocks.iter().filter(counts).filter_map(first));
    addresses
}

fn of_piece(piece: &CodePiece, reader: &mut Reader, found: &mut Vec<CodeAddress>) {
    let code = CodeBytes { start: piece.address, bytes: &piece.bytes };
    let mut inside = 0u64;
    while inside < piece.bytes.len() as u64 {
        let Some(at) = piece.address.0.checked_add(inside) else { return };
        let Ok(instruction) = reader.instruction(&code, RemoteAddr(at)) else { return };
        let accesses = !instruction.accesses().is_empty() || instruction.is_store_fence();
        if accesses || instruction.flops().is_some() {
            let offset = FileOffset(piece.offset.0.saturating_add(inside));
            found.push(CodeAddress::new(piece.module, offset));
        }
        inside += instruction.length() as u64;
    }
}

#[cfg(test)]
mod tests {
    use base::{BlockId, ModuleId, Pid};

    use super::*;

    #[test]
    fn instructions_with_accesses_or_arithmetic_are_found_up_to_the_first_that_is_none() {
        // mov rax,[rdi]; inc rax; mulsd xmm0,xmm1; push rax; sfence; (06 is no instruction in 64-bit mode); push rax
        let bytes = vec![
            0x48, 0x8b, 0x07, 0x48, 0xff, 0xc0, 0xf2, 0x0f, 0x59, 0xc1, 0x50, 0x0f, 0xae, 0xf8,
            0x06, 0x50,
        ];
        let piece = |module| CodePiece {
            address: RemoteAddr(0x40_1000),
            module: ModuleId(module),
            offset: FileOffset(0x1000),
            bytes: bytes.clone(),
        };
        let block = |flavour| Block {
            id: BlockId(0),
            pid: Pid(1),
            flavour,
            pieces: vec![piece(1), piece(2)],
            record: String::new(),
        };
        let found = [1, 2].map(|module| {
            let at = |offset| CodeAddress::new(ModuleId(module), FileOffset(offset));
            [0x1000, 0x1006, 0x100a, 0x100b].map(at)
        });
        assert_eq!(traced_addresses(&[block(BurstFlavour::Trace)]), found.as_flattened());
        let counted = traced_addresses(&[block(BurstFlavour::Count)]);
        let start = CodeAddress::new(ModuleId(1), FileOffset(0x1000));
        assert_eq!(counted, [found.as_flattened(), &[start]].concat());
    }
}
