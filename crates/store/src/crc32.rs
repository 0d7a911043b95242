//! CRC-32 of a table's bytes, kept in the manifest, because the Parquet pages written here have no checksum of their
//! own.
//!
//! The polynomial and conventions are those of zlib and PNG (ISO 3309, reflected 0xEDB88320), so that `python3 -c
//! 'import zlib; ...'` gives the same number. Slicing by eight (Kounavis and Berry, 2008), because a checksum byte by
//! byte would slow the opening of a large result noticeably. What not: protection against deliberate changes.

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0_u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut slice = 1;
    while slice < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[slice - 1][byte];
            tables[slice][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        slice += 1;
    }
    tables
}

/// A running checksum.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// Of no bytes yet.
    pub fn new() -> Crc32 {
        Crc32(!0)
    }

    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut crc = self.0;
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            // The sum so far belongs to the first four bytes. Table n is for a byte that n more
            // bytes of the chunk follow.
            let word = u64::from_le_bytes(*chunk) ^ u64::from(crc);
            crc = (0..8).fold(0, |sum, slice| {
                sum ^ TABLES[7 - slice][(word >> (8 * slice)) as usize & 0xff]
            });
        }
        for byte in rest {
            crc = (crc >> 8) ^ TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize];
        }
        self.0 = crc;
    }

    /// The checksum of all bytes taken.
    pub fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Crc32;

    #[test]
    fn known_answers() {
        let crc = |bytes: &[u8]| {
            let mut crc = Crc32::new();
            crc.update(bytes);
            crc.value()
        };
        // The check value of the CRC catalogue, and zlib.crc32 of b"The quick ... dog".
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(b"The quick brown fox jumps over the lazy dog"), 0x414f_a339);
        assert_eq!(crc(b""), 0);
    }
}
