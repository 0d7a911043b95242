//! The section `init_map` of simpleperf: records of what was mapped, and of names, before the recording.
//!
//! What for: newer versions keep these there, and the parser of perf.data files does not read them. What not: their meaning.
//!
//! Source: system/extras/simpleperf/record_file_format.h of Android; record_file_reader.cpp, `ReadInitMapFeature`.

use facts::SinkError;
use linux_perf_data::linux_perf_event_reader::{
    Endianness, RawData, RawEventRecord, RecordParseInfo, RecordType,
};
use linux_perf_data::{Feature, PerfFile};

const INIT_MAP: Feature = Feature(134);

/// Calls `take` for each record, and says of how many bytes it could make none.
pub(super) fn each<'a>(
    file: &'a PerfFile,
    mut take: impl FnMut(RawEventRecord<'a>) -> Result<(), SinkError>,
) -> Result<usize, SinkError> {
    let mut rest = file.feature_section_data(INIT_MAP).unwrap_or_default();
    let Some(event) = file.event_attributes().first() else { return Ok(rest.len()) };
    let about = RecordParseInfo::new(&event.attr, file.endian());
    let mut unread = 0;
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let (kind, misc, size) = fields(*head, file.endian());
        let Some(body) = usize::from(size).checked_sub(head.len()) else { break };
        let Some((body, after)) = after.split_at_checked(body) else { break };
        rest = after;
        match RecordType(kind) {
            kind @ (RecordType::MMAP | RecordType::MMAP2 | RecordType::COMM) => {
                take(RawEventRecord::new(kind, misc, RawData::Single(body), about))?;
            }
            _ => unread += usize::from(size),
        }
    }
    Ok(unread + rest.len())
}

/// `perf_event_header`.
fn fields([a, b, c, d, e, f, g, h]: [u8; 8], endian: Endianness) -> (u32, u16, u16) {
    let (kind, misc, size) = ([a, b, c, d], [e, f], [g, h]);
    match endian {
        Endianness::LittleEndian => {
            (u32::from_le_bytes(kind), u16::from_le_bytes(misc), u16::from_le_bytes(size))
        }
        Endianness::BigEndian => {
            (u32::from_be_bytes(kind), u16::from_be_bytes(misc), u16::from_be_bytes(size))
        }
    }
}
