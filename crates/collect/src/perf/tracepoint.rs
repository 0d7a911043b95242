//! Tracepoints of the kernel: their number, their fields, their records.
//!
//! What for: any tracepoint as a perf event, counted or sampled, its fields read by the offsets that the running kernel
//! tells. What not: which tracepoints, and what they mean.
//!
//! ```text
//!   let found = Tracepoint::find("sched", "sched_switch")?;
//!   let next = found.field("next_pid")?;
//!   let event = sys::perf::open(&found.sampling(), OpenTarget { tid: ALL_THREADS, cpu: Some(cpu) })?;
//!   ... ring.drain(|record| if let Some(sample) = parse_sample(record) { next.u64(sample.raw) });
//! ```
//! Sources: `Documentation/trace/events.rst` for `format`; `linux/perf_event.h` for the sample:
//! `header | identifier | ip | pid tid | time | cpu 0 | size:u32, bytes`.
//! Assumption: offsets and sizes come from outside; a read beyond a record is `None`.

use base::{CpuId, Nanos, Pid, RemoteAddr, Tid};
use sys::perf::{Attr, SampleField, TraceFs};

/// As [`sys::perf::OpenTarget`]'s thread: whoever runs on the CPU. The kernel allows it to root, to CAP_PERFMON, and
/// from `kernel.perf_event_paranoid` 0 down.
pub const ALL_THREADS: Tid = Tid(-1);

/// Why a tracepoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TracepointError {
    /// The list of tracepoints cannot be read.
    #[error(
        "the kernel's tracepoints cannot be read ({0}): run as root, or `sudo mount -t tracefs -o mode=755 tracefs \
         /sys/kernel/tracing`"
    )]
    NoTraceFs(std::io::Error),
    /// It is not in this kernel.
    #[error("this kernel has no tracepoint {category}:{name}")]
    Missing {
        /// The group that it would be in.
        category: String,
        /// Its name.
        name: String,
    },
    /// Its description is not what the documentation says.
    #[error("the kernel's description of tracepoint {category}:{name} cannot be understood")]
    Malformed {
        /// Its group.
        category: String,
        /// Its name.
        name: String,
    },
}

/// A field of a tracepoint's record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    name: String,
    offset: usize,
    size: usize,
    signed: bool,
}

impl Field {
    /// Its value in a record, extended to 64 bits; `None` when the record ends before it or it is no integer of 1, 2, 4
    /// or 8 bytes.
    #[must_use]
    pub fn u64(&self, raw: &[u8]) -> Option<u64> {
        let bytes = self.bytes(raw)?;
        let mut word = [0u8; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let value = u64::from_le_bytes(word);
        let unused = match bytes.len() {
            1 | 2 | 4 | 8 => 64 - 8 * bytes.len() as u32,
            _ => return None,
        };
        // Shifting up and down again copies the sign bit.
        Some(if self.signed { ((value << unused) as i64 >> unused) as u64 } else { value })
    }

    /// Its bytes in a record.
    #[must_use]
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..self.offset.checked_add(self.size)?)
    }
}

/// A tracepoint of the running kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracepoint {
    /// Its number, as `perf_event_attr.config` takes it.
    pub id: u64,
    fields: Vec<Field>,
}

impl Tracepoint {
    /// Looks it up.
    ///
    /// # Errors
    /// When tracepoints cannot be listed here, or this kernel has no such one.
    pub fn find(category: &str, name: &str) -> Result<Tracepoint, TracepointError> {
        let files = TraceFs::open().map_err(TracepointError::NoTraceFs)?;
        let (category, name) = (category.to_owned(), name.to_owned());
        let Ok(text) = files.read(&format!("events/{category}/{name}/format")) else {
            return Err(TracepointError::Missing { category, name });
        };
        parse_format(&text).ok_or(TracepointError::Malformed { category, name })
    }

    /// The field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// One record, as [`parse_sample`] reads it, for each passage.
    #[must_use]
    pub fn sampling(&self) -> Attr {
        Attr::tracepoint(self.id).period(1).monotonic().fields(&[
            SampleField::Identifier,
            SampleField::Ip,
            SampleField::Tid,
            SampleField::Time,
            SampleField::Cpu,
            SampleField::Raw,
        ])
    }
}

/// A passage through a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracepointSample<'a> {
    /// Which event ([`sys::perf::Event::id`]).
    pub identifier: u64,
    /// Where in the kernel.
    pub ip: RemoteAddr,
    /// The process that ran.
    pub pid: Pid,
    /// The thread that ran.
    pub tid: Tid,
    /// When, CLOCK_MONOTONIC.
    pub time: Nanos,
    /// On which CPU.
    pub cpu: CpuId,
    /// The tracepoint's record, for [`Field::u64`].
    pub raw: &'a [u8],
}

/// Reads a whole record of a ring, header included. `None`: of another kind, or malformed.
#[must_use]
pub fn parse_sample(bytes: &[u8]) -> Option<TracepointSample<'_>> {
    const SAMPLE: u32 = 9; // PERF_RECORD_SAMPLE
    let half = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    if half(0)? != SAMPLE {
        return None;
    }
    let size = usize::try_from(half(48)?).ok()?;
    Some(TracepointSample {
        identifier: word(8)?,
        ip: RemoteAddr(word(16)?),
        pid: Pid(half(24)? as i32),
        tid: Tid(half(28)? as i32),
        time: Nanos(word(32)?),
        cpu: CpuId(half(40)?),
        raw: bytes.get(52..52usize.checked_add(size)?)?,
    })
}

fn parse_format(text: &str) -> Option<Tracepoint> {
    let mut id = None;
    let mut fields = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(number) = line.strip_prefix("ID:") {
            id = Some(number.trim().parse().ok()?);
        } else if let Some(field) = line.strip_prefix("field:") {
            fields.push(parse_field(field)?);
        }
    }
    Some(Tracepoint { id: id?, fields })
}

/// `char prev_comm[16]; offset:8; size:16; signed:0;`, parted by tabs.
fn parse_field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?;
    let name = declared.split(['[', ']']).next()?.split([' ', '*']).next_back()?;
    let (mut offset, mut size, mut signed) = (None, None, None);
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once(':')?;
        let value: usize = value.parse().ok()?;
        match key {
            "offset" => offset = Some(value),
            "size" => size = Some(value),
            "signed" => signed = Some(value != 0),
            _ => {}
        }
    }
    Some(Field { name: name.to_owned(), offset: offset?, size: size?, signed: signed? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:void * where;\toffset:32;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"prev_pid=%d\", REC->prev_pid\n";

    #[test]
    fn a_description_gives_number_and_fields() {
        let found = parse_format(SWITCH).expect("well-formed");
        assert_eq!(found.id, 372);
        let names: Vec<&str> = found.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["common_pid", "prev_comm", "prev_pid", "where"]);
        let mut raw = [0u8; 40];
        raw[24..28].copy_from_slice(&(-7i32).to_le_bytes());
        raw[32..].copy_from_slice(&0xffff_ffff_8100_0000u64.to_le_bytes());
        let value = |name| found.field(name).and_then(|field| field.u64(&raw));
        assert_eq!(value("prev_pid"), Some(-7i64 as u64));
        assert_eq!(value("where"), Some(0xffff_ffff_8100_0000));
        assert_eq!(value("prev_comm"), None, "no integer");
        assert_eq!(value("next_pid"), None, "no such field");
    }

    #[test]
    fn a_hostile_description_or_record_reads_as_nothing() {
        assert_eq!(parse_format("ID: x"), None);
        assert_eq!(parse_format(""), None);
        assert_eq!(parse_format("ID: 1\n field:int a; offset:99999999999999999999; size:4;"), None);
        let far = "ID: 1\nfield:int a; offset:18446744073709551615; size:4; signed:0;";
        let field = parse_format(far).and_then(|found| found.field("a").cloned());
        assert_eq!(field.expect("parsed").u64(&[0; 64]), None);
        let found = parse_format(SWITCH).expect("well-formed");
        assert_eq!(found.field("prev_pid").and_then(|field| field.u64(&[0; 26])), None);
    }

    #[test]
    fn a_record_longer_than_its_bytes_is_none() {
        let mut record = vec![0u8; 64];
        record[0] = 9;
        record[24] = 5;
        record[28] = 6;
        record[48] = 12;
        record[52] = 0xab;
        let sample = parse_sample(&record).expect("fits");
        assert_eq!((sample.pid, sample.tid), (Pid(5), Tid(6)));
        assert_eq!((sample.raw.len(), sample.raw[0]), (12, 0xab));
        record[48] = 13;
        assert_eq!(parse_sample(&record), None);
        for end in 0..record.len() {
            let _ = parse_sample(&record[..end]);
        }
        record[0] = 2;
        assert_eq!(parse_sample(&record), None);
    }

    /// Known answer: `getppid` is called 1000 times, and the kernel says so, each time with its number.
    #[test]
    fn every_passage_is_seen_with_its_fields() {
        use sys::perf::{Counting, OpenTarget, Ring};
        let found = match Tracepoint::find("raw_syscalls", "sys_enter") {
            Ok(found) => found,
            Err(error) => return testkit::programs::skip(&error.to_string()),
        };
        let own = OpenTarget { tid: Tid(0), cpu: None };
        let event =
            match sys::perf::open(&found.sampling().flags(&[sys::perf::Flag::Disabled]), own) {
                Ok(event) => event,
                Err(error) => {
                    return testkit::programs::skip(&format!("tracepoints are refused: {error}"));
                }
            };
        let mut ring = Ring::map(&event, 128).expect("a ring of 512 KiB");
        event.set(Counting::On).expect("our own event");
        for _ in 0..1000 {
            let _ = std::os::unix::process::parent_id();
        }
        event.set(Counting::Off).expect("our own event");
        let number = found.field("id").expect("sys_enter has an id").clone();
        let mut seen = 0;
        ring.drain(|record| {
            let sample = parse_sample(record).expect("only samples");
            // asm/unistd_64.h; asm-generic/unistd.h
            let getppid = if cfg!(target_arch = "x86_64") { 110 } else { 173 };
            seen += u32::from(number.u64(sample.raw) == Some(getppid));
        });
        assert_eq!(seen, 1000);
    }
}
