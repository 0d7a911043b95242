//! Records of bursts in few bytes.
//!
//! What for: a burst records hundreds of thousands of register values. The values of a block resemble those of its
//! last record, so differences are stored. Each encoded piece can be decoded by itself. What not: the meaning of the
//! values ([`Block::record`](crate::Block)).
//!
//! ```text
//! piece   = record*
//! record  = head:varint [block:varint values:varint] [way:varint] [iterations:varint] value*
//! head    = form << 2 | 2 if iterations follow (else 1) | 1 if a way follows (else 0)
//! form    = the number of a pair (block, number of values) in order of first use in this piece;
//!           block and number follow in the record that uses the pair first
//! value   = varint(zigzag(value - value of the form's last record)), modulo 2^64, from 0
//! varint  = LEB128: 7 bits per byte, lowest first, high bit set on all but the last
//! ```
//! Cost, records of 3 values over 50 blocks (`cargo run --release -p facts --example record_bench`; VM with 2 CPUs,
//! Xeon): 13 ns to encode one, 17 ns to decode it, 8 bytes.
//! Assumption: the bytes to decode may come from anywhere. Their number bounds work and memory: a value takes at
//! least a byte.

use base::{BlockId, IndexMap};

/// Most values of a record: 256 instructions with two vectors each. More are not encoded.
pub const MAX_RECORD_VALUES: usize = 4096;

/// One execution of a translated block, or one run of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The block.
    pub block: BlockId,
    /// The way by which it was left; 0 is its end.
    pub way: u32,
    /// How often its instructions ran: iterations of a summarised loop, executions of a counted block, else 1.
    pub iterations: u64,
    /// The recorded values, in the order of words of the block's layout; at most [`MAX_RECORD_VALUES`].
    pub values: &'a [u64],
}

const HAS_WAY: u64 = 1;
const HAS_ITERATIONS: u64 = 2;

/// The position of a form's last values.
#[derive(Clone, Copy, Debug)]
struct Form {
    block: BlockId,
    start: usize,
    values: usize,
}

/// Encodes records into one piece.
#[derive(Debug, Default)]
pub struct RecordEncoder {
    bytes: Vec<u8>,
    forms: IndexMap<u64, (usize, Form)>,
    last: Vec<u64>,
}

impl RecordEncoder {
    /// An empty one.
    #[must_use]
    pub fn new() -> RecordEncoder {
        RecordEncoder::default()
    }

    /// Adds a record. Values beyond [`MAX_RECORD_VALUES`] are left out; no block has so many.
    pub fn push(&mut self, record: &Record<'_>) {
        let values = &record.values[..record.values.len().min(MAX_RECORD_VALUES)];
        let number = self.forms.len();
        // The number of values is part of the key: the decoder must know it before the values.
        let key = u64::from(record.block.0) << 32 | values.len() as u64;
        let new = Form { block: record.block, start: self.last.len(), values: values.len() };
        let (known, form) = *self.forms.entry(key).or_insert((number, new));
        let way = if record.way == 0 { 0 } else { HAS_WAY };
        let iterations = if record.iterations == 1 { 0 } else { HAS_ITERATIONS };
        put(&mut self.bytes, (known as u64) << 2 | iterations | way);
        if known == number {
            put(&mut self.bytes, u64::from(record.block.0));
            put(&mut self.bytes, values.len() as u64);
            self.last.resize(form.start + form.values, 0);
        }
        if way != 0 {
            put(&mut self.bytes, u64::from(record.way));
        }
        if iterations != 0 {
            put(&mut self.bytes, record.iterations);
        }
        for (last, &value) in self.last[form.start..].iter_mut().zip(values) {
            let difference = value.wrapping_sub(*last).cast_signed();
            // Zigzag: small negative differences become small numbers too.
            put(&mut self.bytes, (difference << 1 ^ difference >> 63).cast_unsigned());
            *last = value;
        }
    }

    /// Bytes so far.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The encoded records.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Why bytes are not records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// They end inside a record.
    #[error("the records end inside one")]
    Truncated,
    /// A number of more than 64 bits.
    #[error("a number in a record is longer than 64 bits")]
    LongNumber,
    /// A number that its field cannot hold.
    #[error("a record holds the number {0} where at most 32 bits are possible")]
    Wide(u64),
    /// A form that no record before has used.
    #[error("a record uses form {form} of {known}")]
    UnknownForm {
        /// Its number.
        form: u64,
        /// How many there are.
        known: usize,
    },
    /// More values than [`MAX_RECORD_VALUES`].
    #[error("a record claims {0} values, more than {MAX_RECORD_VALUES}")]
    ManyValues(u64),
}

/// Calls `take` with every record of an encoded piece, in order. Before an error, it gets the records in front of the
/// error.
///
/// # Errors
/// [`RecordError`]: no [`RecordEncoder`] made these bytes.
pub fn decode_records(bytes: &[u8], mut take: impl FnMut(&Record<'_>)) -> Result<(), RecordError> {
    let mut input = Input { bytes };
    let mut forms: Vec<Form> = Vec::new();
    let mut last: Vec<u64> = Vec::new();
    while !input.bytes.is_empty() {
        let head = input.number()?;
        let number = head >> 2;
        if number == forms.len() as u64 {
            let form = input.form(last.len())?;
            last.resize(form.start + form.values, 0);
            forms.push(form);
        }
        let known = forms.len();
        let form = usize::try_from(number).ok().and_then(|number| forms.get(number));
        let form = *form.ok_or(RecordError::UnknownForm { form: number, known })?;
        let way = if head & HAS_WAY == 0 { 0 } else { input.narrow()? };
        let iterations = if head & HAS_ITERATIONS == 0 { 1 } else { input.number()? };
        let values = &mut last[form.start..form.start + form.values];
        for value in &mut *values {
            let zigzag = input.number()?;
            *value = value.wrapping_add(zigzag >> 1 ^ (zigzag & 1).wrapping_neg());
        }
        take(&Record { block: form.block, way, iterations, values });
    }
    Ok(())
}

struct Input<'a> {
    bytes: &'a [u8],
}

impl Input<'_> {
    /// Most take one byte.
    #[inline]
    fn number(&mut self) -> Result<u64, RecordError> {
        match self.bytes {
            [byte, rest @ ..] if byte & 0x80 == 0 => {
                self.bytes = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, RecordError> {
        let mut value = 0;
        for (at, &byte) in self.bytes.iter().enumerate() {
            // The tenth byte holds the 64th bit.
            if at == 9 && byte > 1 {
                return Err(RecordError::LongNumber);
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[at + 1..];
                return Ok(value);
            }
        }
        Err(RecordError::Truncated)
    }

    fn narrow(&mut self) -> Result<u32, RecordError> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| RecordError::Wide(number))
    }

    /// A form whose values begin at `start`. Refuses more values than there are bytes left, before it allocates
    /// memory for them.
    fn form(&mut self, start: usize) -> Result<Form, RecordError> {
        let block = BlockId(self.narrow()?);
        let claimed = self.number()?;
        let values = usize::try_from(claimed).ok().filter(|&values| values <= MAX_RECORD_VALUES);
        let values = values.ok_or(RecordError::ManyValues(claimed))?;
        // Each value takes a byte at least, so a larger claim cannot be true.
        if values > self.bytes.len() {
            return Err(RecordError::Truncated);
        }
        Ok(Form { block, start, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Owned = (u32, u32, u64, Vec<u64>);

    fn encode(records: &[Owned]) -> Vec<u8> {
        let mut encoder = RecordEncoder::new();
        for (block, way, iterations, values) in records {
            let (block, way, iterations) = (BlockId(*block), *way, *iterations);
            encoder.push(&Record { block, way, iterations, values });
        }
        assert_eq!(encoder.size(), encoder.bytes.len());
        encoder.finish()
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Owned>, RecordError> {
        let mut found = Vec::new();
        decode_records(bytes, |record| {
            let Record { block, way, iterations, values } = record;
            found.push((block.0, *way, *iterations, values.to_vec()));
        })?;
        Ok(found)
    }

    #[test]
    fn records_come_back() {
        let records = vec![
            (7, 0, 1, vec![0x7f00_1234_5678, 0, u64::MAX]),
            (u32::MAX, u32::MAX, u64::MAX, vec![]),
            (7, 0, 1, vec![0x7f00_1234_5680, u64::MAX, 0]),
            (7, 1, 0, vec![1 << 63, 1, 0x8000_0000]),
            // The same block with another number of values has a history of its own.
            (7, 0, 1_000_000, vec![5]),
            (7, 0, 1, vec![0, 0, 0]),
            (0, 2, 1, vec![1; MAX_RECORD_VALUES]),
        ];
        assert_eq!(decode(&encode(&records)), Ok(records));
    }

    #[test]
    fn bytes_are_as_documented() {
        let records = vec![(9, 0, 1, vec![100, 0]), (9, 0, 3, vec![99, 1]), (9, 1, 1, vec![99, 1])];
        let bytes = [0, 9, 2, 0xc8, 1, 0, 2, 3, 1, 2, 1, 1, 0, 0];
        assert_eq!(encode(&records), bytes);
        assert_eq!(decode(&bytes), Ok(records));
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert_eq!(decode(&[]), Ok(vec![]));
        assert_eq!(decode(&[0x80]), Err(RecordError::Truncated));
        assert_eq!(decode(&[8]), Err(RecordError::UnknownForm { form: 2, known: 0 }));
        assert_eq!(decode(&[0xff; 11]), Err(RecordError::LongNumber));
        let wide = [0, 0x80, 0x80, 0x80, 0x80, 0x10];
        assert_eq!(decode(&wide), Err(RecordError::Wide(1 << 32)));
        assert_eq!(decode(&[0, 1, 0x81, 0x20]), Err(RecordError::ManyValues(4097)));
        // Four thousand values in no bytes: refused before memory is taken.
        assert_eq!(decode(&[0, 1, 0x80, 0x20]), Err(RecordError::Truncated));
    }

    #[test]
    fn every_cut_is_an_error_or_fewer_records() {
        let records: Vec<Owned> =
            (0..40).map(|n| (n % 3, n % 2, u64::from(n), vec![u64::from(n) << n; 2])).collect();
        let bytes = encode(&records);
        for end in 0..bytes.len() {
            match decode(&bytes[..end]) {
                Ok(found) => assert!(records.starts_with(&found), "cut at {end}"),
                Err(error) => assert_eq!(error, RecordError::Truncated, "cut at {end}"),
            }
        }
    }
}
