//! The pages of one Parquet column chunk, checked before the parquet crate decodes them.
//!
//! What for: the crate's own page reader allocates whatever size a page header claims (up to 2 GiB, and an
//! unbounded length for a text inside the header). This one reads only what Fathom writes (version 1 data pages and
//! dictionaries, zstd) and bounds every size by [`PAGE_LIMIT_BYTES`] before it allocates.
//! Source: parquet.thrift and Encodings.md of apache/parquet-format 2.11; the Thrift compact protocol
//! (thrift-compact-protocol.md).

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// No page that Fathom writes is larger: pages are cut at 1 MiB or 20,000 rows, whichever comes first, checked
/// after each batch of at most 1,024 texts, and a table is flushed at 2 MiB plus one row.
pub const PAGE_LIMIT_BYTES: usize = 8 << 20;

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// The fields of a Thrift `PageHeader` that matter here.
#[derive(Default, Debug, PartialEq, Eq)]
struct PageHeader {
    kind: Option<i64>,
    uncompressed: usize,
    compressed: usize,
    values: usize,
    encoding: i64,
    definition_encoding: i64,
    repetition_encoding: i64,
}

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;

/// A reader of the Thrift compact protocol over checked bytes.
struct Thrift<'a> {
    bytes: &'a [u8],
}

const THRIFT_TRUE: u8 = 1;
const THRIFT_FALSE: u8 = 2;
const THRIFT_I32: u8 = 5;
const THRIFT_STRUCT: u8 = 12;
/// Statistics are two levels deep; more is not ours.
const MAX_DEPTH: u32 = 6;

impl<'a> Thrift<'a> {
    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) =
            self.bytes.split_first().ok_or_else(|| damaged("a page header is cut off"))?;
        self.bytes = rest;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        // Ten groups of 7 bits hold any u64.
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number in a page header is too long"))
    }

    fn integer(&mut self) -> Result<i64> {
        let zigzag = self.varint()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    fn size(&mut self) -> Result<usize> {
        usize::try_from(self.integer()?).map_err(|_| damaged("a page has a negative size"))
    }

    /// The next field's id and type; `None` at the end of the struct.
    fn field(&mut self, before: i64) -> Result<Option<(i64, u8)>> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        // Short form: the high nibble is the distance from the previous field's id. 0 means that the id follows in
        // full.
        let id = if head >> 4 == 0 {
            self.integer()?
        } else {
            before.saturating_add(i64::from(head >> 4))
        };
        Ok(Some((id, head & 0xf)))
    }

    fn advance(&mut self, bytes: u64) -> Result<()> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.bytes = self
            .bytes
            .get(bytes..)
            .ok_or_else(|| damaged("a text in a page header is longer than the file"))?;
        Ok(())
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Result<()> {
        match kind {
            // A boolean's value is its type: it has no bytes. 3 is a byte; 4 to 6 are i16, i32 and i64, each a
            // varint; 7 is a double; 8 is binary.
            THRIFT_TRUE | THRIFT_FALSE => Ok(()),
            3 => self.advance(1),
            4..=6 => self.varint().map(drop),
            7 => self.advance(8),
            8 => {
                let bytes = self.varint()?;
                self.advance(bytes)
            }
            THRIFT_STRUCT if depth < MAX_DEPTH => {
                let mut last = 0;
                while let Some((id, kind)) = self.field(last)? {
                    self.skip(kind, depth + 1)?;
                    last = id;
                }
                Ok(())
            }
            _ => Err(damaged("a page header holds something that Fathom does not write")),
        }
    }

    fn page_header(&mut self) -> Result<PageHeader> {
        let mut header = PageHeader::default();
        let mut last = 0;
        while let Some((id, kind)) = self.field(last)? {
            match (id, kind) {
                (1, THRIFT_I32) => header.kind = Some(self.integer()?),
                (2, THRIFT_I32) => header.uncompressed = self.size()?,
                (3, THRIFT_I32) => header.compressed = self.size()?,
                (5 | 7, THRIFT_STRUCT) => self.page_kind_header(&mut header)?,
                (_, kind) => self.skip(kind, 0)?,
            }
            last = id;
        }
        Ok(header)
    }

    /// `DataPageHeader` and `DictionaryPageHeader` begin with the same two fields.
    fn page_kind_header(&mut self, header: &mut PageHeader) -> Result<()> {
        let mut last = 0;
        while let Some((id, kind)) = self.field(last)? {
            match (id, kind) {
                (1, THRIFT_I32) => header.values = self.size()?,
                (2, THRIFT_I32) => header.encoding = self.integer()?,
                (3, THRIFT_I32) => header.definition_encoding = self.integer()?,
                (4, THRIFT_I32) => header.repetition_encoding = self.integer()?,
                (_, kind) => self.skip(kind, 0)?,
            }
            last = id;
        }
        Ok(())
    }
}

/// The encodings Fathom writes, plus RLE for levels; anything else would reach code that nobody bounded.
fn encoding(number: i64) -> Result<Encoding> {
    match number {
        0 => Ok(Encoding::PLAIN),
        2 | 8 => Ok(Encoding::RLE_DICTIONARY),
        3 => Ok(Encoding::RLE),
        5 => Ok(Encoding::DELTA_BINARY_PACKED),
        other => Err(damaged(&format!("a page has encoding {other}, which Fathom does not write"))),
    }
}

/// Pages of a column chunk whose bytes are in memory.
pub struct CheckedPages {
    chunk: Vec<u8>,
    at: usize,
    values_left: usize,
    has_dictionary: bool,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl CheckedPages {
    /// `chunk` is the whole column chunk, which the footer says holds `values` values (nulls included).
    pub fn new(chunk: Vec<u8>, values: usize) -> Result<CheckedPages> {
        let decompressor = zstd::bulk::Decompressor::new()?;
        Ok(CheckedPages { chunk, at: 0, values_left: values, has_dictionary: false, decompressor })
    }

    fn next_page(&mut self) -> Result<Option<Page>> {
        if self.values_left == 0 {
            return Ok(None);
        }
        let mut thrift = Thrift { bytes: self.chunk.get(self.at..).unwrap_or_default() };
        let header = thrift.page_header()?;
        let body = thrift.bytes;
        if header.compressed > body.len() {
            return Err(damaged("a page is longer than its column"));
        }
        // Before decompression: a few bytes can expand to gigabytes.
        if header.uncompressed > PAGE_LIMIT_BYTES {
            return Err(damaged(&format!("a page claims {} bytes", header.uncompressed)));
        }
        let raw = self.decompressor.decompress(&body[..header.compressed], header.uncompressed)?;
        if raw.len() != header.uncompressed {
            return Err(damaged("a page has another size than its header says"));
        }
        self.at = self.chunk.len() - body.len() + header.compressed;
        let values =
            u32::try_from(header.values).map_err(|_| damaged("a page has too many values"))?;
        match header.kind {
            Some(DATA_PAGE) => self.data_page(&header, raw, values).map(Some),
            // Each entry of a dictionary takes at least 4 bytes in the types used here.
            Some(DICTIONARY_PAGE) if header.values <= raw.len() / 4 => {
                self.has_dictionary = true;
                Ok(Some(Page::DictionaryPage {
                    buf: raw.into(),
                    num_values: values,
                    encoding: Encoding::PLAIN,
                    is_sorted: false,
                }))
            }
            _ => Err(damaged("a page is of a kind that Fathom does not write")),
        }
    }

    fn data_page(&mut self, header: &PageHeader, raw: Vec<u8>, values: u32) -> Result<Page> {
        self.values_left =
            self.values_left.checked_sub(header.values).filter(|_| values > 0).ok_or_else(
                || damaged("the pages hold another number of values than the footer says"),
            )?;
        // 3 is RLE. BIT_PACKED (4) is deprecated for levels, and Fathom never wrote it.
        if (header.definition_encoding, header.repetition_encoding) != (3, 3) {
            return Err(damaged("a page's levels are not run-length encoded"));
        }
        let encoding = encoding(header.encoding)?;
        // The crate's decoder asserts it (parquet 60.1, column/reader/decoder.rs).
        if encoding == Encoding::RLE_DICTIONARY && !self.has_dictionary {
            return Err(damaged("a page needs a dictionary that is not there"));
        }
        Ok(Page::DataPage {
            buf: raw.into(),
            num_values: values,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.next_page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Err(damaged("pages are only read forwards"))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        Err(damaged("pages are only read forwards"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_header_as_the_format_says() {
        // type 0, uncompressed 100, compressed 80, data page header {values 7, encoding 8, levels 3, 3}
        let bytes = [
            0x15, 0, 0x15, 0xc8, 1, 0x15, 0xa0, 1, 0x2c, 0x15, 14, 0x15, 16, 0x15, 6, 0x15, 6, 0, 0,
        ];
        let header = Thrift { bytes: &bytes }.page_header().expect("a good header");
        let expected = PageHeader {
            kind: Some(DATA_PAGE),
            uncompressed: 100,
            compressed: 80,
            values: 7,
            encoding: 8,
            definition_encoding: 3,
            repetition_encoding: 3,
        };
        assert_eq!(header, expected);
        for length in 0..bytes.len() {
            assert!(Thrift { bytes: &bytes[..length] }.page_header().is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_page_that_claims_gigabytes_is_refused_unread() {
        // type 2, uncompressed 2^31 - 1, compressed 0
        let chunk = vec![0x15, 4, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0, 0];
        let error =
            CheckedPages::new(chunk, 1).and_then(|mut pages| pages.get_next_page().map(drop));
        assert_eq!(
            error.expect_err("too large").to_string(),
            "Parquet error: a page claims 2147483647 bytes"
        );
    }

    #[test]
    fn nested_structs_do_not_exhaust_the_stack() {
        assert!(Thrift { bytes: &[0x1c; 100_000] }.page_header().is_err());
    }
}
