//! Equal bins of time. What for: figures over time. What not: the figures.

use base::Nanos;

/// Equal bins of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bins {
    /// Length of one; of the last, at most.
    pub(crate) width: Nanos,
    /// Length of all.
    pub(crate) length: Nanos,
}

impl Bins {
    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.length.0.div_ceil(self.width.0.max(1)) as usize
    }

    /// Where one begins.
    pub(crate) fn start(&self, bin: usize) -> Nanos {
        Nanos(self.width.0.saturating_mul(bin as u64))
    }

    /// Where one ends.
    pub(crate) fn end(&self, bin: usize) -> Nanos {
        self.start(bin + 1).min(self.length)
    }

    /// The bin of a moment. Facts shortly after the end go into the last one.
    pub(super) fn index(&self, time: Nanos) -> Option<usize> {
        let last = self.count().checked_sub(1)?;
        Some(((time.0 / self.width.0.max(1)) as usize).min(last))
    }
}
