//! Addresses of one access over a run, and the lines that they are in.
//!
//! What for: the one place where starts, strides and counts become ends, lines and bytes of lines. What not: which site's they are.
//! Assumption: a file may claim anything. Addresses beyond the address space are reported, or wrap around.

/// Bytes of a line.
pub(crate) const LINE: u64 = x86::LINE_BYTES as u64;
/// No more steps of a run are looked at line by line.
const LONGEST: u64 = 1 << 24;

/// `count` times `bytes` bytes, from `start` on every `stride` bytes; `count` is at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) stride: i64,
    pub(crate) count: u64,
    pub(crate) bytes: u32,
}

impl Run {
    /// Where the lowest and the highest access begin; `None` when they leave the address space.
    pub(crate) fn ends(&self) -> Option<(u64, u64)> {
        let way = self.stride.unsigned_abs().checked_mul(self.count.checked_sub(1)?)?;
        match self.stride < 0 {
            true => Some((self.start.checked_sub(way)?, self.start)),
            false => Some((self.start, self.start.checked_add(way)?)),
        }
    }

    /// Where the access of an iteration begins.
    pub(crate) fn at(&self, iteration: u64) -> u64 {
        self.start.wrapping_add(self.stride.cast_unsigned().wrapping_mul(iteration))
    }

    /// Gives the lines with the iteration that touches each first, in order of address where the run stays within lines.
    pub(crate) fn for_lines(&self, mut take: impl FnMut(u64, u64)) {
        let Run { start, stride, count, bytes } = *self;
        let last = u64::from(bytes.max(1)) - 1;
        let each = stride.unsigned_abs();
        if each > LINE {
            for iteration in 0..count.min(LONGEST) {
                let address = self.at(iteration);
                take(address / LINE, iteration);
                if (address % LINE) + last >= LINE {
                    take(address.wrapping_add(last) / LINE, iteration);
                }
            }
            return;
        }
        let way = each.saturating_mul(count - 1);
        let low = if stride < 0 { start.wrapping_sub(way) } else { start };
        let high = low.saturating_add(way).saturating_add(last);
        for line in (low / LINE..=high / LINE).take(LONGEST as usize) {
            let iteration = (line * LINE).saturating_sub(low).checked_div(each).unwrap_or(0);
            take(line, if stride < 0 { (count - 1).saturating_sub(iteration) } else { iteration });
        }
    }
}

/// The lines of `bytes` bytes from `address` on, and of each the touched bytes, bit 0 for the first. What lies behind the end
/// of the address space is left out.
pub(crate) fn lines_of(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = address.saturating_add(bytes);
    let mut at = address;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (line, offset) = (at / LINE, at % LINE);
        let length = (LINE - offset).min(end - at);
        at = at.saturating_add(length);
        Some((line, (u64::MAX >> (LINE - length)) << offset))
    })
}
