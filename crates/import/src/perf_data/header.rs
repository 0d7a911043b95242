//! Whether the sizes that a perf.data file states about itself are possible.
//!
//! What for: the parser (crate `linux-perf-data`) reserves memory for as many events and ids as the file claims; a claim of
//! four billion ends the process. Here each claim is compared with the bytes that are there. What not: the meaning of
//! anything.
//!
//! Source: Linux, tools/perf/Documentation/perf.data-file-format.txt.

use std::io::{self, Read, Seek, SeekFrom};

use super::records::{self, Traces};

/// A feature section: the descriptions of events.
const EVENT_DESCRIPTIONS: u32 = 12;
/// A feature section of simpleperf, whose files have lists of ids next to the attributes.
const SIMPLEPERF_META_INFO: u32 = 129;
/// Most bytes of all feature sections together: those of real files have some KiB, with build-ids some hundred.
const MOST_FEATURES: u64 = 256 << 20;
/// Smallest `perf_event_attr` (PERF_ATTR_SIZE_VER0).
const SMALLEST_ATTRIBUTE: u64 = 64;
/// Records of pipe mode that carry a feature, and an attribute.
const HEADER_ATTRIBUTE: u32 = 64;
const HEADER_FEATURE: u32 = 80;
/// Bytes of a header in pipe mode.
const PIPE_HEADER: u64 = 16;

/// How the records follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// `perf record -o FILE`.
    File,
    /// `perf record -o - > FILE`.
    Pipe,
}

/// Why a file is refused.
#[derive(Debug)]
pub(super) enum Refused {
    NotPerfData,
    Unreadable(io::Error),
    Damaged(String),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Refused::Damaged("it ends within its header".to_owned())
            }
            _ => Refused::Unreadable(error),
        }
    }
}

/// Numbers in the byte order of the file.
pub(super) struct Numbers<R> {
    pub(super) from: R,
    big_endian: bool,
}

/// What a sound file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Checked {
    pub(super) mode: Mode,
    pub(super) traces: Traces,
}

impl<R: Read> Numbers<R> {
    pub(super) fn u64(&mut self) -> Result<u64, Refused> {
        let mut bytes = [0; 8];
        self.from.read_exact(&mut bytes)?;
        Ok(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    pub(super) fn u32(&mut self) -> Result<u32, Refused> {
        let mut bytes = [0; 4];
        self.from.read_exact(&mut bytes)?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(super) fn u16(&mut self) -> Result<u16, Refused> {
        let mut bytes = [0; 2];
        self.from.read_exact(&mut bytes)?;
        Ok(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }
}

/// A part of the file.
#[derive(Clone, Copy)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn read(numbers: &mut Numbers<impl Read>) -> Result<Section, Refused> {
        Ok(Section { offset: numbers.u64()?, size: numbers.u64()? })
    }

    fn within(self, length: u64, what: &str) -> Result<Section, Refused> {
        match self.offset.checked_add(self.size) {
            Some(end) if end <= length => Ok(self),
            _ => Err(Refused::Damaged(format!("its {what} would end beyond the file"))),
        }
    }
}

/// Looks at the header and the sizes of the records of a file of `length` bytes.
pub(super) fn check(mut file: impl Read + Seek, length: u64) -> Result<Checked, Refused> {
    let mut magic = [0; 8];
    file.read_exact(&mut magic).map_err(|_| Refused::NotPerfData)?;
    let big_endian = match &magic {
        b"PERFILE2" => false,
        b"2ELIFREP" => true,
        _ => return Err(Refused::NotPerfData),
    };
    let mut numbers = Numbers { from: file, big_endian };
    if numbers.u64()? == PIPE_HEADER {
        pipe(&mut numbers)?;
        numbers.from.seek(SeekFrom::Start(PIPE_HEADER))?;
        let traces = records::look(&mut numbers, (PIPE_HEADER, length), length)?;
        return Ok(Checked { mode: Mode::Pipe, traces });
    }
    let data = header(&mut numbers, length)?;
    numbers.from.seek(SeekFrom::Start(data.offset))?;
    // perf writes the size at the end: a recording that was killed has none.
    let end = if data.size == 0 { length } else { data.offset + data.size };
    let traces = records::look(&mut numbers, (data.offset, end), length)?;
    Ok(Checked { mode: Mode::File, traces })
}

/// The header of file mode, after its size: where the records are.
fn header(numbers: &mut Numbers<impl Read + Seek>, length: u64) -> Result<Section, Refused> {
    let attribute = numbers.u64()?;
    let attributes = Section::read(numbers)?.within(length, "attributes")?;
    let data = Section::read(numbers)?.within(length, "data")?;
    let types = Section::read(numbers)?.within(length, "event types")?;
    if attribute < SMALLEST_ATTRIBUTE || attribute > length {
        return Err(Refused::Damaged(format!("an attribute would have {attribute} bytes")));
    }
    let mut features = Vec::new();
    for word in 0..4 {
        let bits = numbers.u64()?;
        features.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 64 + bit));
    }
    numbers.from.seek(SeekFrom::Start(data.offset + data.size))?;
    let mut sections = Vec::new();
    for feature in features {
        sections.push((feature, Section::read(numbers)?.within(length, "feature sections")?));
    }
    if sections.iter().map(|(_, section)| section.size).sum::<u64>() > MOST_FEATURES {
        return Err(Refused::Damaged("its feature sections are absurdly large".to_owned()));
    }
    if let Some((_, section)) = sections.iter().find(|(feature, _)| *feature == EVENT_DESCRIPTIONS)
    {
        let bytes = read(numbers, *section)?;
        described(&bytes, numbers.big_endian)?;
        return Ok(data);
    }
    if types.size != 0 {
        // Each is followed by the section of its ids.
        ids(numbers, types, attribute.saturating_add(16), length)?;
    } else if sections.iter().any(|(feature, _)| *feature == SIMPLEPERF_META_INFO) {
        // simpleperf keeps that section within the attribute.
        if attribute < SMALLEST_ATTRIBUTE + 16 {
            return Err(Refused::Damaged(format!("an attribute would have {attribute} bytes")));
        }
        ids(numbers, attributes, attribute, length)?;
    }
    Ok(data)
}

/// The sections of ids at the ends of entries.
fn ids(
    numbers: &mut Numbers<impl Read + Seek>,
    entries: Section,
    entry: u64,
    length: u64,
) -> Result<(), Refused> {
    for number in 0..entries.size / entry {
        let at = entries.offset + number * entry + entry - 16;
        numbers.from.seek(SeekFrom::Start(at))?;
        Section::read(numbers)?.within(length, "list of event ids")?;
    }
    Ok(())
}

fn read(numbers: &mut Numbers<impl Read + Seek>, section: Section) -> Result<Vec<u8>, Refused> {
    numbers.from.seek(SeekFrom::Start(section.offset))?;
    let mut bytes = vec![0; usize::try_from(section.size).unwrap_or(0)];
    numbers.from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The records before the first that is no header.
fn pipe(numbers: &mut Numbers<impl Read>) -> Result<(), Refused> {
    loop {
        let (Ok(kind), Ok(_), Ok(size)) = (numbers.u32(), numbers.u16(), numbers.u16()) else {
            return Ok(());
        };
        if kind != HEADER_ATTRIBUTE && kind != HEADER_FEATURE {
            return Ok(());
        }
        let size = usize::from(size).checked_sub(8);
        let size =
            size.ok_or_else(|| Refused::Damaged("a record is shorter than its head".to_owned()))?;
        let mut body = vec![0; size];
        numbers.from.read_exact(&mut body)?;
        let big_endian = numbers.big_endian;
        let mut head = Numbers { from: body.as_slice(), big_endian };
        // The parser looks at 32 of these 64 bits.
        if kind == HEADER_FEATURE && head.u64()? as u32 == EVENT_DESCRIPTIONS {
            described(head.from, big_endian)?;
        }
    }
}

/// `nr, attr_size, nr x { attr, nr_ids, string, ids }`.
fn described(bytes: &[u8], big_endian: bool) -> Result<(), Refused> {
    let short = || Refused::Damaged("its descriptions of events are cut off".to_owned());
    let mut numbers = Numbers { from: bytes, big_endian };
    let events = numbers.u32()?;
    let attribute = numbers.u32()? as usize;
    if (attribute as u64) < SMALLEST_ATTRIBUTE {
        return Err(short());
    }
    let skip = |numbers: &mut Numbers<&[u8]>, size: usize| {
        numbers.from = numbers.from.get(size..)?;
        Some(())
    };
    // Each step takes bytes away, so that a false number of events ends here.
    for _ in 0..events {
        skip(&mut numbers, attribute).ok_or_else(short)?;
        let ids = numbers.u32().map_err(|_| short())? as usize;
        let name = numbers.u32().map_err(|_| short())? as usize;
        let size = ids.checked_mul(8).and_then(|ids| ids.checked_add(name)).ok_or_else(short)?;
        skip(&mut numbers, size).ok_or_else(short)?;
    }
    Ok(())
}
