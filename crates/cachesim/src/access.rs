//! The input: single accesses, and loops whose addresses advance by constants.
//!
//! What not: their origin. `x86` derives them from code and recorded register values.

use base::RemoteAddr;

/// An instruction's access, as the caller numbers them. Numbers should be dense from 0: tallies are kept in an array up
/// to the largest number seen, about 2.3 kB each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SiteId(pub u32);

/// The effect of an access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Load and store of the same bytes.
    ReadWrite,
    /// `movntdqa`. From ordinary (write-back) memory it is a load like others (Intel SDM vol. 1, 12.10.3), and so it is
    /// here.
    StreamingRead,
    /// `movnt*`: written to memory, bypassing the caches; a copy in a cache is removed (Intel SDM vol. 1, 10.4.6.2).
    StreamingWrite,
    /// A software prefetch into all levels, whatever its hint says.
    Prefetch,
    /// `clflush`, `clflushopt`: removes the line from all caches.
    Flush,
    /// `clwb`: the line stays where it is, clean. That is what the instruction is for; a processor may also remove the line (Intel
    /// SDM vol. 2, CLWB), and for one that does, the caller says [`Kind::Flush`].
    WriteBack,
}

impl Kind {
    /// Whether the cached line becomes dirty.
    pub fn stores(self) -> bool {
        matches!(self, Kind::Write | Kind::ReadWrite)
    }

    /// Whether the line enters the caches, or is used there.
    pub(crate) fn enters(self) -> bool {
        !matches!(self, Kind::StreamingWrite | Kind::Flush | Kind::WriteBack)
    }
}

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Its first byte.
    pub address: RemoteAddr,
    /// Number of bytes. All lines that they lie in are touched, lowest first, each with an outcome of its own; none
    /// for 0 bytes.
    pub bytes: u32,
    /// What it does.
    pub kind: Kind,
    /// The site that it belongs to.
    pub site: SiteId,
}

/// One access of a loop's body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LoopAccess {
    /// Its first byte in the first iteration.
    pub start: RemoteAddr,
    /// Bytes from one iteration to the next; addresses wrap around.
    pub stride: i64,
    /// As in [`Access`].
    pub bytes: u32,
    /// As in [`Access`].
    pub kind: Kind,
    /// As in [`Access`].
    pub site: SiteId,
}

impl LoopAccess {
    /// The same access, from an iteration on.
    pub(crate) fn from(&self, iteration: u64) -> LoopAccess {
        LoopAccess { start: self.at(iteration).address, ..*self }
    }

    /// The access of an iteration, counted from 0.
    #[must_use]
    pub fn at(&self, iteration: u64) -> Access {
        let way = (self.stride as u64).wrapping_mul(iteration);
        let address = RemoteAddr(self.start.0.wrapping_add(way));
        Access { address, bytes: self.bytes, kind: self.kind, site: self.site }
    }
}

/// A run of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopRun<'a> {
    /// The body's accesses in program order.
    pub accesses: &'a [LoopAccess],
    /// Number of complete runs of the body.
    pub iterations: u64,
    /// Number of the body's accesses that run once more after that; all if there are fewer.
    pub partial: usize,
}

/// The lines of an access: the first, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub first: u64,
    pub lines: u64,
}

impl Span {
    /// Lines of `1 << shift` bytes. Line numbers wrap around as addresses do.
    #[inline]
    pub fn of(access: &Access, shift: u32) -> Span {
        let first = access.address.0 >> shift;
        if access.bytes == 0 {
            return Span { first, lines: 0 };
        }
        let offset = access.address.0 & ((1 << shift) - 1);
        Span { first, lines: ((offset + u64::from(access.bytes) - 1) >> shift) + 1 }
    }

    /// The line numbers.
    #[inline]
    pub fn iter(self, shift: u32) -> impl Iterator<Item = u64> {
        let last_line = u64::MAX >> shift;
        (0..self.lines).map(move |number| self.first.wrapping_add(number) & last_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_lines_and_wrap() {
        let span = |address: u64, bytes: u32| {
            let site = SiteId(0);
            let access = Access { address: RemoteAddr(address), bytes, kind: Kind::Read, site };
            Span::of(&access, 6).iter(6).collect::<Vec<u64>>()
        };
        assert_eq!(span(64, 64), [1]);
        assert_eq!(span(127, 2), [1, 2]);
        assert_eq!(span(1, 128), [0, 1, 2]);
        assert_eq!(span(9, 0), [0u64; 0]);
        assert_eq!(span(u64::MAX, 2), [u64::MAX >> 6, 0]);
    }
}
