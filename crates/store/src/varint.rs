//! Rows as bytes for the journal: small, quick to make, and self-contained per frame.
//!
//! ```text
//! row     = tag:u8 (the table) cells
//! number  = varint(zigzag(value - previous value of this column in this frame))
//! null    = a nullable cell starts with one byte: 0 nothing follows, 1 the value follows
//! bool    = 0 | 1          word = its position, one byte          text, bytes = varint(length) bytes
//! varint  = LEB128: 7 bits per byte, lowest first, high bit set on all but the last
//! ```
//! Differences make ids and times short; they restart at 0 with every frame, so that a frame can be read alone.
//! Assumption: the bytes come from anywhere. Decoding checks every length before it uses it.

use facts::Fact;

use crate::schema::{
    Cell, Column, ColumnKind, MAX_BLOB_BYTES, MAX_COLUMNS, MAX_TEXT_BYTES, RowError, RowSink,
    RowSource,
};
use crate::table::{Table, put};

/// The value last seen in each column of each table.
type Previous = [[u64; MAX_COLUMNS]; Table::ALL.len()];

/// Before the first row of a frame.
const NOTHING: Previous = [[0; MAX_COLUMNS]; Table::ALL.len()];

/// Collects the rows of one frame.
#[derive(Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    previous: Previous,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { bytes: Vec::new(), previous: NOTHING }
    }
}

impl Encoder {
    /// Appends a fact.
    pub fn push(&mut self, fact: &Fact) {
        let table = Table::of(fact);
        self.bytes.push(table as u8);
        let previous = &mut self.previous[table as usize];
        let columns = table.columns();
        put(fact, &mut RowEncoder { bytes: &mut self.bytes, previous, columns, at: 0 });
    }

    /// The encoded rows.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Starts the next frame.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.previous = NOTHING;
    }
}

struct RowEncoder<'a> {
    bytes: &'a mut Vec<u8>,
    previous: &'a mut [u64; MAX_COLUMNS],
    columns: &'static [Column],
    at: usize,
}

impl RowEncoder<'_> {
    fn number(&mut self, value: u64) {
        // Modulo 2^64, so that any two values have a difference; zigzag makes small negative ones
        // short.
        let difference = value.wrapping_sub(self.previous[self.at]) as i64;
        self.previous[self.at] = value;
        put_varint(self.bytes, ((difference << 1) ^ (difference >> 63)) as u64);
    }

    fn piece(&mut self, bytes: &[u8]) {
        put_varint(self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }
}

impl RowSink for RowEncoder<'_> {
    #[inline]
    fn cell(&mut self, cell: Cell<'_>) {
        if self.columns[self.at].nullable {
            self.bytes.push(u8::from(cell != Cell::Null));
        }
        match cell {
            Cell::Null => {}
            Cell::U64(value) => self.number(value),
            Cell::U32(value) => self.number(u64::from(value)),
            // Sign-extended, so that differences of small negative pids stay small.
            Cell::I32(value) => self.number(i64::from(value) as u64),
            Cell::Bool(value) => self.bytes.push(u8::from(value)),
            Cell::Word(position) => self.bytes.push(position),
            Cell::Text(text) => self.piece(text.as_bytes()),
            Cell::Bytes(bytes) => self.piece(bytes),
        }
        self.at += 1;
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads the rows of one frame.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    previous: Previous,
}

impl<'a> Decoder<'a> {
    /// A reader of the uncompressed content of a frame.
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, previous: NOTHING }
    }

    /// The next fact, or `None` at the end.
    pub fn next_fact(&mut self) -> Result<Option<Fact>, RowError> {
        let Some((&tag, rest)) = self.bytes.split_first() else { return Ok(None) };
        self.bytes = rest;
        let table = Table::from_tag(tag).ok_or(RowError::UnknownTag(tag))?;
        let previous = &mut self.previous[table as usize];
        let columns = table.columns();
        table.take(&mut RowDecoder { bytes: &mut self.bytes, previous, columns, at: 0 }).map(Some)
    }
}

struct RowDecoder<'a, 'b> {
    bytes: &'b mut &'a [u8],
    previous: &'b mut [u64; MAX_COLUMNS],
    columns: &'static [Column],
    at: usize,
}

impl<'a> RowDecoder<'a, '_> {
    fn byte(&mut self) -> Result<u8, RowError> {
        let (&byte, rest) = self.bytes.split_first().ok_or(RowError::Truncated)?;
        *self.bytes = rest;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, RowError> {
        let mut value = 0_u64;
        // Ten bytes of 7 bits hold any u64.
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            // Bits beyond the 64th fall off: such bytes come from no writer of ours, any value will do.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.out_of_range())
    }

    fn number(&mut self) -> Result<u64, RowError> {
        let zigzag = self.varint()?;
        let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        let value = self.previous[self.at].wrapping_add(difference);
        self.previous[self.at] = value;
        Ok(value)
    }

    /// A length of at most `most`, else `long`, and so many bytes.
    fn piece(&mut self, most: usize, long: fn(u64) -> RowError) -> Result<&'a [u8], RowError> {
        let claimed = self.varint()?;
        let bytes = usize::try_from(claimed).ok().filter(|&bytes| bytes <= most);
        let bytes = bytes.ok_or_else(|| long(claimed))?;
        let (piece, rest) = self.bytes.split_at_checked(bytes).ok_or(RowError::Truncated)?;
        *self.bytes = rest;
        Ok(piece)
    }

    fn value(&mut self, kind: ColumnKind) -> Result<Cell<'a>, RowError> {
        Ok(match kind {
            ColumnKind::U64 => Cell::U64(self.number()?),
            ColumnKind::U32 => {
                Cell::U32(u32::try_from(self.number()?).map_err(|_| self.out_of_range())?)
            }
            ColumnKind::I32 => {
                Cell::I32(i32::try_from(self.number()? as i64).map_err(|_| self.out_of_range())?)
            }
            ColumnKind::Bool => Cell::Bool(self.byte()? != 0),
            ColumnKind::Word(_) => Cell::Word(self.byte()?),
            ColumnKind::Text => {
                let text = self.piece(MAX_TEXT_BYTES, |bytes| RowError::LongText { bytes })?;
                Cell::Text(std::str::from_utf8(text).map_err(|_| RowError::NotUtf8)?)
            }
            ColumnKind::Bytes => {
                Cell::Bytes(self.piece(MAX_BLOB_BYTES, |bytes| RowError::LongBytes { bytes })?)
            }
        })
    }
}

impl RowSource for RowDecoder<'_, '_> {
    #[inline]
    fn cell(&mut self) -> Result<Cell<'_>, RowError> {
        let column = self.columns[self.at];
        let cell = if column.nullable && self.byte()? == 0 {
            Cell::Null
        } else {
            self.value(column.kind)?
        };
        self.at += 1;
        Ok(cell)
    }

    fn column(&self) -> usize {
        self.at.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use base::{Nanos, Pid, RemoteAddr, Tid};
    use facts::{Fault, FaultKind, Lost};

    use super::*;

    fn fault(time: u64, pid: i32, address: u64) -> Fact {
        Fact::Fault(Fault {
            time: Nanos(time),
            pid: Pid(pid),
            tid: Tid(i32::MIN),
            address: RemoteAddr(address),
            stack: None,
            weight: u64::MAX,
            kind: FaultKind::Major,
        })
    }

    #[test]
    fn extreme_values_come_back() {
        let facts =
            [fault(0, -1, u64::MAX), fault(u64::MAX, i32::MAX, 0), fault(1, i32::MIN, 1 << 63)];
        let mut encoder = Encoder::default();
        facts.iter().for_each(|fact| encoder.push(fact));
        let mut decoder = Decoder::new(encoder.bytes());
        for fact in &facts {
            assert_eq!(decoder.next_fact().as_ref(), Ok(&Some(fact.clone())));
        }
        assert_eq!(decoder.next_fact(), Ok(None));
    }

    #[test]
    fn bytes_are_as_documented() {
        let mut encoder = Encoder::default();
        let lost = |time, count| {
            Fact::Lost(Lost { time: Nanos(time), source: facts::LostSource::Events, count })
        };
        encoder.push(&lost(100, 1));
        encoder.push(&lost(99, 1));
        assert_eq!(encoder.bytes(), [6, 0xc8, 0x01, 2, 2, 6, 1, 2, 0]);
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert_eq!(Decoder::new(&[99]).next_fact(), Err(RowError::UnknownTag(99)));
        assert_eq!(Decoder::new(&[3, 0x80]).next_fact(), Err(RowError::Truncated));
        assert_eq!(Decoder::new(&[7, 200, 0]).next_fact(), Err(RowError::OutOfRange { column: 0 }));
        // A module whose path claims 4 GiB: kind file, no pid.
        let long = [0, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x10];
        assert_eq!(Decoder::new(&long).next_fact(), Err(RowError::LongText { bytes: 1 << 32 }));
        assert_eq!(Decoder::new(&[0, 0, 0, 0, 1, 0xff, 0]).next_fact(), Err(RowError::NotUtf8));
    }
}
