//! Protobuf's wire format, as far as pprof and Perfetto need it: written, never read.
//!
//! What not: messages (`pprof`, `perfetto`). Source: https://protobuf.dev/programming-guides/encoding

/// A message while it grows.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

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

    pub(crate) fn double(mut self, field: u64, value: f64) -> Message {
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

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
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
}
