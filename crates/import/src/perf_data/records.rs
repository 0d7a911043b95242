//! A look at the records of a perf.data file before its parser sees them.
//!
//! What for: the parser reserves memory for as much of a hardware trace as a record claims, and keeps all that compressed records
//! become. Here the claims are compared with the bytes that are there, and what compressed records become with a limit. And how
//! much of hardware traces there is. What not: the meaning of records.
//!
//! Source: Linux, tools/perf/util/event.h and Documentation/perf.data-file-format.txt.

use std::io::{Read, Seek};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::header::{Numbers, Refused};

/// `PERF_RECORD_AUXTRACE_INFO`, `_AUXTRACE`, `_COMPRESSED`, `_COMPRESSED2`.
const TRACE_INFO: u32 = 70;
const TRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED_2: u32 = 83;
const HEAD: u64 = 8;
/// Records of samples shrink to a tenth or a thirtieth. More than this is made to fill the memory.
const MOST_EXPANSION: u64 = 100;
/// So much is no harm.
const HARMLESS: u64 = 64 << 20;
const PIECE: usize = 128 << 10;

/// What a file has of hardware traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Traces {
    pub(super) bytes: u64,
    /// `enum auxtrace_type`.
    kind: Option<u32>,
}

impl Traces {
    /// Whether `spe` reads them.
    pub(super) fn is_spe(self) -> bool {
        self.kind == Some(4)
    }

    /// `Intel PT`.
    pub(super) fn name(self) -> &'static str {
        match self.kind {
            Some(1) => "Intel PT",
            Some(2) => "Intel BTS",
            Some(3) => "CoreSight ETM",
            Some(4) => "Arm SPE",
            Some(5) => "the sampling facility of s390",
            Some(6) => "HiSilicon PTT",
            _ => "an unknown kind",
        }
    }
}

/// Looks at the records from here to `end`, in a file of `length` bytes. `at` is where they begin.
pub(super) fn look(
    numbers: &mut Numbers<impl Read + Seek>,
    (mut at, end): (u64, u64),
    length: u64,
) -> Result<Traces, Refused> {
    let mut found = Traces::default();
    let mut expanded = Expanded::new(length.saturating_mul(MOST_EXPANSION).max(HARMLESS));
    while at.saturating_add(HEAD) <= end {
        let (Ok(kind), Ok(_), Ok(size)) = (numbers.u32(), numbers.u16(), numbers.u16()) else {
            break;
        };
        // The parser ends there, too.
        let Some(mut body) = u64::from(size).checked_sub(HEAD) else { break };
        at = at.saturating_add(u64::from(size));
        match kind {
            TRACE if body >= 8 => {
                let claimed = numbers.u64()?;
                body -= 8;
                if claimed > end.saturating_sub(at) {
                    return Err(Refused::Damaged(format!(
                        "a hardware trace of {claimed} bytes would end beyond the file"
                    )));
                }
                found.bytes += claimed;
                at = at.saturating_add(claimed);
                body += claimed;
            }
            TRACE_INFO if body >= 8 => {
                found.kind = Some(numbers.u32()?);
                body -= 4;
            }
            COMPRESSED | COMPRESSED_2 => {
                let mut bytes = vec![0; body as usize];
                if numbers.from.read_exact(&mut bytes).is_err() {
                    break;
                }
                body = 0;
                let head = if kind == COMPRESSED_2 { 8 } else { 0 };
                expanded.add(bytes.get(head..).unwrap_or_default())?;
            }
            _ => {}
        }
        let Ok(body) = i64::try_from(body) else { break };
        if numbers.from.seek_relative(body).is_err() {
            break;
        }
    }
    Ok(found)
}

/// What compressed records become, counted.
struct Expanded {
    decoder: Option<Decoder<'static>>,
    piece: Vec<u8>,
    bytes: u64,
    limit: u64,
}

impl Expanded {
    fn new(limit: u64) -> Expanded {
        Expanded { decoder: None, piece: Vec::new(), bytes: 0, limit }
    }

    /// One stream goes through all records. What it cannot read, the parser reports.
    fn add(&mut self, compressed: &[u8]) -> Result<(), Refused> {
        if self.decoder.is_none() {
            self.decoder = Decoder::new().ok();
            self.piece.resize(PIECE, 0);
        }
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let mut input = InBuffer::around(compressed);
        loop {
            let mut output = OutBuffer::around(self.piece.as_mut_slice());
            let done = decoder.run(&mut input, &mut output);
            let written = output.pos();
            self.bytes += written as u64;
            if self.bytes > self.limit {
                return Err(Refused::Damaged(format!(
                    "its compressed records would become more than {} bytes",
                    self.limit
                )));
            }
            let all = input.pos() == compressed.len() && written < PIECE;
            if done.is_err() || all {
                return Ok(());
            }
        }
    }
}
