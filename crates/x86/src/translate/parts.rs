//! The two parts of a copy: what runs each time, and what runs seldom.
//!
//! What for: a program of much code runs some hundred blocks over and over. Where stubs and table entries lie between them, a block
//! takes five times the cache lines and pages of its own instructions. So they lie apart ([`Parts`]). What not: which code is in
//! which part (`writer`).

use base::RemoteAddr;

/// Where a copy lies. Offsets count through both parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// Address of the first byte.
    pub hot: RemoteAddr,
    /// Address of the byte at offset `split`.
    pub cold: RemoteAddr,
    /// Bytes of the hot part.
    pub split: usize,
}

impl Parts {
    /// The address of the byte at an offset. Of the byte behind a piece of code ask for its last byte, and add 1: at `split` the cold
    /// part begins.
    #[must_use]
    pub fn address(&self, offset: usize) -> RemoteAddr {
        match offset.checked_sub(self.split) {
            None => RemoteAddr(self.hot.0.wrapping_add(offset as u64)),
            Some(behind) => RemoteAddr(self.cold.0.wrapping_add(behind as u64)),
        }
    }

    /// The offset of the byte at an address, of a copy of so many bytes.
    #[must_use]
    pub fn offset(&self, address: RemoteAddr, bytes: usize) -> Option<usize> {
        let within = |start: RemoteAddr, bytes: usize| {
            usize::try_from(address.0.checked_sub(start.0)?).ok().filter(|at| *at < bytes)
        };
        let cold = || within(self.cold, bytes.saturating_sub(self.split));
        within(self.hot, self.split.min(bytes)).or_else(|| Some(self.split + cold()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_count_through_both_parts() {
        let parts = Parts { hot: RemoteAddr(0x1000), cold: RemoteAddr(0x8000), split: 16 };
        let pairs = [(0, 0x1000), (15, 0x100f), (16, 0x8000), (20, 0x8004)];
        for (offset, address) in pairs {
            assert_eq!(parts.address(offset), RemoteAddr(address));
            assert_eq!(parts.offset(RemoteAddr(address), 21), Some(offset));
        }
        for address in [0xfff, 0x1010, 0x7fff, 0x8005] {
            assert_eq!(parts.offset(RemoteAddr(address), 21), None);
        }
    }
}
