//! A gimli reader whose work is bounded.
//!
//! What for: DWARF is a language of references. A hostile or damaged file of a few kilobytes can ask for hours of
//! work (thousands of units that share one endless range list), gigabytes of text (thousands of file names that share
//! one long directory) or a recursion deeper than the stack (nested inlined calls, one byte each). addr2line and
//! gimli follow them all. Every read goes through here and is paid from a budget in proportion to the file's size.
//! Reading ends with an error when the budget is used up or the stack grows too deep. What not: parsing.
//!
//! Assumption: the stack grows towards lower addresses (true on every Linux architecture that we know), and the
//! caller has [`STACK_LIMIT`] bytes of stack left.

use std::borrow::Cow;
use std::cell::Cell;

use addr2line::gimli::{EndianSlice, Error, LittleEndian, Reader, ReaderOffsetId, Result};

/// Reads allowed per byte of debug information over the life of a table. Looking up all addresses of a Rust program
/// with line tables takes about 4 (the test `a_whole_program_stays_far_below_its_budget` prints it); this leaves a
/// factor of eight.
const READS_PER_BYTE: u64 = 32;

/// Reads allowed in any case, so that small files never come near their limit.
const READS_AT_LEAST: u64 = 1 << 22;

/// Bytes of stack that parsing may use. Nested inlined calls take about a kilobyte per level in builds without
/// optimisation; real programs stay below a hundred levels.
const STACK_LIMIT: usize = 1 << 20;

/// The remaining reads, shared by all readers of one module.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    reads: Cell<u64>,
    lowest_stack: Cell<usize>,
    refused: Cell<Option<&'static str>>,
}

impl Budget {
    /// A budget for `bytes` of debug information.
    pub(crate) fn for_size(bytes: u64) -> Budget {
        let reads = bytes.saturating_mul(READS_PER_BYTE).saturating_add(READS_AT_LEAST);
        Budget { reads: Cell::new(reads), ..Budget::default() }
    }

    /// Sets the current stack position as the one from which depth is counted. Call it on entry.
    pub(crate) fn enter(&self) {
        self.lowest_stack.set(stack_position().saturating_sub(STACK_LIMIT));
    }

    /// The limit that was hit, once one was.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        self.refused.get()
    }

    /// Reads left.
    pub(crate) fn reads_left(&self) -> u64 {
        self.reads.get()
    }

    #[inline]
    fn charge(&self, reads: u64, at: ReaderOffsetId) -> Result<()> {
        match self.reads.get().checked_sub(reads) {
            Some(left) => {
                self.reads.set(left);
                Ok(())
            }
            None => self.refuse("more work than its size explains", at),
        }
    }

    #[inline]
    fn check_stack(&self, at: ReaderOffsetId) -> Result<()> {
        if stack_position() < self.lowest_stack.get() {
            return self.refuse("calls inlined into each other without end", at);
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self, reason: &'static str, at: ReaderOffsetId) -> Result<()> {
        self.refused.set(Some(reason));
        Err(Error::UnexpectedEof(at))
    }
}

#[inline]
fn stack_position() -> usize {
    let here = 0_u8;
    (&raw const here).addr()
}

/// The bytes of a section, and the budget that reading them is paid from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BudgetedReader<'a> {
    bytes: EndianSlice<'a, LittleEndian>,
    budget: &'a Budget,
}

impl<'a> BudgetedReader<'a> {
    pub(crate) fn new(bytes: &'a [u8], budget: &'a Budget) -> BudgetedReader<'a> {
        BudgetedReader { bytes: EndianSlice::new(bytes, LittleEndian), budget }
    }

    /// The remaining bytes, without paying: for names, which were paid for when their end was found.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.slice()
    }

    #[inline]
    fn charge(&self, reads: u64) -> Result<()> {
        self.budget.charge(reads, self.bytes.offset_id())
    }
}

impl Reader for BudgetedReader<'_> {
    type Endian = LittleEndian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        Reader::len(&self.bytes)
    }

    #[inline]
    fn empty(&mut self) {
        self.bytes.empty();
    }

    #[inline]
    fn truncate(&mut self, length: usize) -> Result<()> {
        self.bytes.truncate(length)
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        Reader::offset_from(&self.bytes, &base.bytes)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        self.bytes.offset_id()
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.bytes.lookup_offset_id(id)
    }

    #[inline]
    fn find(&self, byte: u8) -> Result<usize> {
        let found = Reader::find(&self.bytes, byte);
        // The search itself reads some 64 bytes at the cost of one of our reads.
        let searched = *found.as_ref().unwrap_or(&Reader::len(&self.bytes));
        self.charge(1 + searched as u64 / 64)?;
        found
    }

    #[inline]
    fn skip(&mut self, length: usize) -> Result<()> {
        self.charge(1)?;
        self.bytes.skip(length)
    }

    #[inline]
    fn split(&mut self, length: usize) -> Result<Self> {
        self.charge(1)?;
        let bytes = self.bytes.split(length)?;
        Ok(BudgetedReader { bytes, budget: self.budget })
    }

    // The three conversions are what file names are copied with: paid per byte.
    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.charge(1 + self.len() as u64)?;
        self.bytes.to_slice()
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.charge(1 + self.len() as u64)?;
        Reader::to_string(&self.bytes)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.charge(1 + self.len() as u64)?;
        Reader::to_string_lossy(&self.bytes)
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.charge(1)?;
        Reader::read_slice(&mut self.bytes, buffer)
    }

    // Every debugging entry starts with such a number, so each level of a recursion over entries passes here.
    #[inline]
    fn read_uleb128(&mut self) -> Result<u64> {
        self.charge(1)?;
        self.budget.check_stack(self.bytes.offset_id())?;
        self.bytes.read_uleb128()
    }

    #[inline]
    fn skip_leb128(&mut self) -> Result<()> {
        self.charge(1)?;
        self.bytes.skip_leb128()
    }

    #[inline]
    fn read_sleb128(&mut self) -> Result<i64> {
        self.charge(1)?;
        self.bytes.read_sleb128()
    }
}
