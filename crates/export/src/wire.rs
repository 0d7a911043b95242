//! Protobuf's wire format, as far as pprof, Perfetto and OTLP need it.
//!
//! What for: writing messages, and reading the fields of one that somebody else wrote. What not: messages (`pprof`, `perfetto`,
//! `otlp`). Source: https://protobuf.dev/programming-guides/encoding

use std::collections::HashMap;
use std::io::Write;

use flate2::write::GzEncoder;

/// Texts that are referred to by their position; the first is empty, as pprof and OTLP demand.
pub(crate) struct Texts {
    list: Vec<String>,
    known: HashMap<String, u64>,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts { list: vec![String::new()], known: HashMap::from([(String::new(), 0)]) }
    }
}

impl Texts {
    pub(crate) fn id(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.known.get(text) {
            return known;
        }
        let id = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.known.insert(text.to_owned(), id);
        id
    }

    pub(crate) fn list(&self) -> &[String] {
        &self.list
    }
}

/// Compresses by gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
    // A vector takes everything.
    let _ = packed.write_all(bytes);
    packed.finish().unwrap_or_default()
}

/// A message while it grows.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// A field of a message that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers, up to the first that is none.
pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while let Some(field) = next_field(&mut bytes) {
        found.extend(field.1.map(|value| (field.0, value)));
    }
    found
}

/// The next field; of a kind that nobody asks for without its value.
fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Option<Field<'a>>)> {
    let tag = varint(bytes)?;
    let value = match tag & 7 {
        FIXED64 => take(bytes, 8).map(|_| None)?,
        FIXED32 => take(bytes, 4).map(|_| None)?,
        VARINT => Some(Field::Number(varint(bytes)?)),
        BYTES => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            Some(Field::Bytes(take(bytes, length)?))
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let first = take(bytes, 1)?[0];
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

impl Message {
    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn number(mut self, field: u64, value: u64) -> Message {
        self.raw(field << 3 | VARINT);
        self.raw(value);
        self
    }

    pub(crate) fn double(self, field: u64, value: f64) -> Message {
        self.fixed(field, value.to_bits())
    }

    /// Eight bytes, whatever the number is.
    pub(crate) fn fixed(mut self, field: u64, value: u64) -> Message {
        self.raw(field << 3 | FIXED64);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn text(self, field: u64, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    pub(crate) fn message(self, field: u64, message: Message) -> Message {
        self.bytes(field, &message.0)
    }

    /// Numbers in one field.
    pub(crate) fn packed(self, field: u64, values: impl Iterator<Item = u64>) -> Message {
        let mut inner = Message::default();
        values.for_each(|value| inner.raw(value));
        self.message(field, inner)
    }

    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.raw(field << 3 | BYTES);
        self.raw(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        assert_eq!(Message::default().number(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        let text = Message::default().text(2, "testing").into_bytes();
        assert_eq!(text, *b"\x12\x07testing");
        let packed = Message::default().packed(6, [3, 270, 86942].into_iter()).into_bytes();
        assert_eq!(packed, [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
    }

    #[test]
    fn what_was_written_is_read_and_what_is_cut_off_ends_it() {
        let message = Message::default().number(1, 150).double(2, 0.5).text(3, "testing");
        let bytes = message.number(20, u64::MAX).into_bytes();
        let all =
            [(1, Field::Number(150)), (3, Field::Bytes(b"testing")), (20, Field::Number(u64::MAX))];
        assert_eq!(fields(&bytes), all);
        for length in 0..bytes.len() {
            let found = fields(&bytes[..length]);
            assert_eq!(found, all[..found.len()], "{length}");
            assert!(found.len() < all.len());
        }
        // A length beyond the end, a number of eleven bytes, a group.
        for wrong in [&[0x0a, 0xff, 0xff, 0x03, 1][..], &[0x08; 12], &[0xff; 12], &[0x0b]] {
            assert!(fields(wrong).len() <= 6, "{wrong:?}");
        }
    }
}
