//! What is simulated: sizes, the state at the start, and the check that they are possible.
//!
//! What not: a machine's real configuration (`analysis` reads it from the recording).

use base::Bytes;
use thiserror::Error;

use crate::tlb::PageSize;

/// More ways than any cache has; fully associative TLBs have up to 128 entries.
pub(crate) const MAX_WAYS: u32 = 128;
/// 4 GiB of lines of 64 bytes; their tags take 0.7 GB.
pub(crate) const MAX_LINES: u64 = 1 << 26;

/// Size and shape of a level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// Its size. A rest beyond whole sets is not used, so a measured size may be given as it is.
    pub bytes: Bytes,
    /// Lines per set, 1..=128.
    pub ways: u32,
    /// Bytes of a line, a power of two in 16..=4096; the same in all levels.
    pub line_bytes: u32,
}

impl Geometry {
    /// Number of sets; any number, not only powers of two. A line belongs to set (line number) mod (sets).
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.bytes.0 / (u64::from(self.ways) * u64::from(self.line_bytes)).max(1)
    }

    /// A table of this many entries instead of lines.
    pub(crate) fn of_entries(entries: u32, ways: u32) -> Geometry {
        let line_bytes = 4096;
        Geometry { bytes: Bytes(u64::from(entries) * u64::from(line_bytes)), ways, line_bytes }
    }

    pub(crate) fn check(&self, level: &'static str) -> Result<(), ConfigError> {
        let Geometry { bytes, ways, line_bytes } = *self;
        if !line_bytes.is_power_of_two() || !(16..=4096).contains(&line_bytes) {
            return Err(ConfigError::LineBytes { level, line_bytes });
        }
        if !(1..=MAX_WAYS).contains(&ways) {
            return Err(ConfigError::Ways { level, ways });
        }
        if self.sets() == 0 || bytes.0 / u64::from(line_bytes) > MAX_LINES {
            let least = Bytes(u64::from(ways) * u64::from(line_bytes));
            let most = Bytes(MAX_LINES * u64::from(line_bytes));
            return Err(ConfigError::Size { level, bytes, least, most });
        }
        Ok(())
    }
}

/// What the first touch of a line means while its set is not full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ColdLines {
    /// A miss: the caches were empty at the start.
    Miss,
    /// Unknown: the caches had contents of before.
    #[default]
    Unknown,
}

/// How pages are placed in physical memory. It matters for caches that select sets by more address bits than a page
/// offset has.
///
/// Assumption of `Scattered`: the physical page of a virtual one is random and does not change, as on a system that
/// has run for a while and hands out free pages as they come. A fixed hash of the page number stands for it, so that
/// results are reproducible. With it a power-of-two stride does not fall into a few sets of a cache that has more
/// sets than a page has lines. Source: Kessler and Hill, "Page placement algorithms for large real-indexed caches",
/// ACM Trans. Computer Systems 10(4), 1992.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Frames {
    /// At their virtual addresses.
    #[default]
    AsAddressed,
    /// At random, in pieces of this size.
    Scattered(PageSize),
}

impl Frames {
    /// The line number by which the set is chosen, for lines of `1 << shift` bytes: the one in physical memory.
    #[inline]
    #[must_use]
    pub fn line(self, line: u64, shift: u32) -> u64 {
        let Frames::Scattered(page) = self else { return line };
        let bits = page.shift() - shift;
        // The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), from which 43 bits are taken: physical
        // addresses have up to 52, and products of line numbers in `sets` must stay below 2^64.
        let mut frame = (line >> bits).wrapping_add(0x9e37_79b9_7f4a_7c15);
        frame = (frame ^ (frame >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        frame = (frame ^ (frame >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        frame ^= frame >> 31;
        (frame >> (21 + bits)) << bits | (line & ((1 << bits) - 1))
    }
}

/// A cache hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// First level of data.
    pub l1: Geometry,
    /// Second level.
    pub l2: Option<Geometry>,
    /// Last level.
    pub llc: Option<Geometry>,
    /// The state at the start.
    pub cold: ColdLines,
    /// Where its pages lie.
    pub frames: Frames,
}

impl Config {
    /// Checks that this can be simulated.
    ///
    /// # Errors
    /// The first property that cannot be.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.l1.check("l1")?;
        for (level, geometry) in [("l2", self.l2), ("llc", self.llc)] {
            let Some(geometry) = geometry else { continue };
            geometry.check(level)?;
            if geometry.line_bytes != self.l1.line_bytes {
                let (one, other) = (self.l1.line_bytes, geometry.line_bytes);
                return Err(ConfigError::LinesDiffer { level, one, other });
            }
        }
        Ok(())
    }
}

/// Why a configuration cannot be simulated. Sizes come from the system or a measurement: use others, or leave the level
/// out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConfigError {
    /// Odd lines.
    #[error(
        "{level} has lines of {line_bytes} bytes; powers of two from 16 to 4096 can be simulated"
    )]
    LineBytes {
        /// Where.
        level: &'static str,
        /// How long.
        line_bytes: u32,
    },
    /// Lines of different sizes.
    #[error("{level} has lines of {other} bytes, l1 of {one}: all levels must have the same")]
    LinesDiffer {
        /// Where.
        level: &'static str,
        /// Bytes of a line of l1.
        one: u32,
        /// Bytes of a line of the other level.
        other: u32,
    },
    /// No ways, or too many.
    #[error("{level} has {ways} ways; 1 to {MAX_WAYS} can be simulated")]
    Ways {
        /// Where.
        level: &'static str,
        /// How many.
        ways: u32,
    },
    /// Less than a set, or too large.
    #[error("{level} has {bytes}; sizes from one set, {least}, to {most} can be simulated")]
    Size {
        /// Where.
        level: &'static str,
        /// How large.
        bytes: Bytes,
        /// One set.
        least: Bytes,
        /// The limit.
        most: Bytes,
    },
    /// Entries of a TLB that are not whole sets.
    #[error("{level} has {entries} entries in {ways} ways: these are not whole sets")]
    Entries {
        /// Where.
        level: &'static str,
        /// How many.
        entries: u32,
        /// Per set.
        ways: u32,
    },
}
