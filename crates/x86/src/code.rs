//! The source of the bytes of code.
//!
//! What for: one small interface between a reader of blocks and the owner of the bytes (a mapped file, a copy of a
//! process's memory, a test). What not: reading anything. Assumption: the bytes do not change while a block is read.
//! The caller must know whether they are still what the CPU executes.

use base::RemoteAddr;

/// Longest instruction, in bytes (Intel SDM vol. 2, 2.3.11; longer ones raise #GP).
pub const LONGEST_INSTRUCTION: usize = 15;

/// Bytes of code by address.
pub trait CodeSource {
    /// The contiguous bytes from `address` on; empty where there is no code.
    fn bytes_at(&self, address: RemoteAddr) -> &[u8];
}

/// Contiguous bytes at an address.
#[derive(Clone, Copy, Debug)]
pub struct CodeBytes<'a> {
    /// Address of the first byte.
    pub start: RemoteAddr,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl CodeSource for CodeBytes<'_> {
    fn bytes_at(&self, address: RemoteAddr) -> &[u8] {
        let offset =
            address.distance_from(self.start).and_then(|offset| usize::try_from(offset).ok());
        offset.and_then(|offset| self.bytes.get(offset..)).unwrap_or(&[])
    }
}

impl CodeSource for [CodeBytes<'_>] {
    fn bytes_at(&self, address: RemoteAddr) -> &[u8] {
        self.iter()
            .map(|piece| piece.bytes_at(address))
            .find(|bytes| !bytes.is_empty())
            .unwrap_or(&[])
    }
}

/// Up to fifteen bytes from `address` on, also across two adjacent pieces.
pub(crate) struct Window {
    bytes: [u8; LONGEST_INSTRUCTION],
    length: usize,
}

impl Window {
    pub(crate) fn read<C: CodeSource + ?Sized>(code: &C, address: RemoteAddr) -> Window {
        let mut window = Window { bytes: [0; LONGEST_INSTRUCTION], length: 0 };
        while window.length < LONGEST_INSTRUCTION {
            // The address space ends at 2^64; code does not continue at 0.
            let Some(next) = address.0.checked_add(window.length as u64) else { break };
            let found = code.bytes_at(RemoteAddr(next));
            let room = usize::try_from(u64::MAX - next).unwrap_or(usize::MAX).saturating_add(1);
            let taken = found.len().min(LONGEST_INSTRUCTION - window.length).min(room);
            if taken == 0 {
                break;
            }
            window.bytes[window.length..window.length + taken].copy_from_slice(&found[..taken]);
            window.length += taken;
        }
        window
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_crosses_pieces_that_touch_and_stops_at_a_hole() {
        let pieces = [
            CodeBytes { start: RemoteAddr(0x1000), bytes: &[1, 2] },
            CodeBytes { start: RemoteAddr(0x1002), bytes: &[3] },
            CodeBytes { start: RemoteAddr(0x1004), bytes: &[9] },
        ];
        assert_eq!(Window::read(&pieces[..], RemoteAddr(0x1001)).bytes(), [2, 3]);
        assert_eq!(Window::read(&pieces[..], RemoteAddr(0xfff)).bytes(), []);
    }

    #[test]
    fn a_window_ends_with_the_address_space() {
        let piece = CodeBytes { start: RemoteAddr(u64::MAX - 1), bytes: &[1, 2, 3] };
        assert_eq!(Window::read(&piece, RemoteAddr(u64::MAX)).bytes(), [2]);
    }
}
