//! One sample of a perf.data file, all of its parts.
//!
//! What for: crate `linux-perf-event-reader` leaves out branch stacks, weights and the source of data, and takes the two formats
//! of PERF_SAMPLE_READ for each other. What not: what the parts mean (`accesses`, `branches`). Each size is compared with the
//! bytes that are there. Some words are there only if bits say so that the reader drops: lost counts in PERF_SAMPLE_READ
//! (PERF_FORMAT_LOST, Linux 6.0) and counters of branches (PERF_SAMPLE_BRANCH_COUNTERS, 6.8). The reading that ends where the
//! record ends is right.
//!
//! Source of the order: include/uapi/linux/perf_event.h, PERF_RECORD_SAMPLE.

use collect::accesses::Weight;
use linux_perf_data::linux_perf_event_reader as reader;
use reader::{BranchSampleFormat, Endianness, RawEventRecord, ReadFormat, SampleFormat};

/// The fields at the beginning of each sample, up to its period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Head {
    pub(super) ip: Option<u64>,
    pub(super) pid: Option<i32>,
    pub(super) tid: Option<i32>,
    pub(super) time: Option<u64>,
    pub(super) address: Option<u64>,
    pub(super) cpu: Option<u32>,
    pub(super) period: Option<u64>,
}

/// The rest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Body<'a> {
    /// Words of the call chain, marks included.
    pub(super) chain: Words<'a>,
    pub(super) raw: &'a [u8],
    /// `from`, `to` and flags of each branch, the latest first.
    pub(super) branches: Words<'a>,
    /// Registers of the program, those of the mask.
    pub(super) registers: Option<Words<'a>>,
    pub(super) stack: &'a [u8],
    pub(super) weight: Option<Weight>,
    pub(super) data_source: Option<u64>,
    pub(super) page: Option<u64>,
    pub(super) read: Option<Counters>,
}

/// PERF_SAMPLE_READ: what counters had counted then.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Counters {
    /// Of a whole group, not of the sampled event alone.
    pub(super) grouped: bool,
    /// For how long they were to count, nanoseconds.
    pub(super) enabled: Option<u64>,
    /// For how long they were there.
    pub(super) running: Option<u64>,
    /// The id of each event, and its count.
    pub(super) counts: Vec<(Option<u64>, u64)>,
}

/// Words in the byte order of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Words<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Words<'a> {
    /// Three at a time.
    pub(super) fn triples(self) -> impl Iterator<Item = [u64; 3]> + use<'a> {
        (0..self.len() / 3)
            .map(move |at| [0, 1, 2].map(|part| self.get(3 * at + part).unwrap_or(0)))
    }

    pub(super) fn len(self) -> usize {
        self.bytes.len() / 8
    }

    pub(super) fn get(self, at: usize) -> Option<u64> {
        let start = at.checked_mul(8)?;
        let bytes = self.bytes.get(start..start.checked_add(8)?)?.first_chunk::<8>()?;
        Some(if self.big_endian { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) })
    }
}

/// Reads from the front.
struct ByteReader<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> ByteReader<'a> {
    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(count).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.first_chunk::<8>()?;
        Some(if self.big_endian { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) })
    }

    /// Two numbers of 32 bits.
    fn pair(&mut self) -> Option<(u32, u32)> {
        let mut half = || {
            let bytes = self.take(4)?.first_chunk::<4>()?;
            let (big, little) = (u32::from_be_bytes(*bytes), u32::from_le_bytes(*bytes));
            Some(if self.big_endian { big } else { little })
        };
        Some((half()?, half()?))
    }

    fn words(&mut self, count: u64) -> Option<Words<'a>> {
        let bytes = self.take(count.checked_mul(8)?)?;
        Some(Words { bytes, big_endian: self.big_endian })
    }

    /// A value with its times, or the number of values, the times, and the values: PERF_SAMPLE_READ.
    fn counters(&mut self, format: ReadFormat, lost: bool) -> Option<Counters> {
        let grouped = format.contains(ReadFormat::GROUP);
        let first = self.word()?;
        let mut word_if = |wanted| if wanted { self.word().map(Some) } else { Some(None) };
        let enabled = word_if(format.contains(ReadFormat::TOTAL_TIME_ENABLED))?;
        let running = word_if(format.contains(ReadFormat::TOTAL_TIME_RUNNING))?;
        let has_id = format.contains(ReadFormat::ID);
        let after = usize::from(has_id) + usize::from(lost);
        let counts = if grouped {
            let each = after + 1;
            let words = self.words(first.checked_mul(each as u64)?)?;
            let one = |at: usize| {
                Some((words.get(at * each + 1).filter(|_| has_id), words.get(at * each)?))
            };
            (0..words.len() / each).filter_map(one).collect()
        } else {
            let words = self.words(after as u64)?;
            vec![(words.get(0).filter(|_| has_id), first)]
        };
        Some(Counters { grouped, enabled, running, counts })
    }

    fn registers(&mut self, mask: u64) -> Option<Option<Words<'a>>> {
        // No registers of a thread of the kernel.
        if self.word()? == 0 {
            return Some(None);
        }
        self.words(u64::from(mask.count_ones())).map(Some)
    }
}

/// The head alone, which is cheap.
pub(super) fn head(raw: &RawEventRecord<'_>, bytes: &[u8]) -> Option<Head> {
    begin(raw, &mut rest(raw, bytes))
}

/// The parts of a format that the reader does not report.
#[derive(Clone, Copy)]
struct HiddenFields {
    lost: bool,
    counters: bool,
}

/// All of a sample; `None` when it contradicts itself.
pub(super) fn whole<'a>(raw: &RawEventRecord<'_>, bytes: &'a [u8]) -> Option<(Head, Body<'a>)> {
    let mut first = None;
    for (lost, counters) in [(false, false), (true, false), (false, true), (true, true)] {
        let Some((head, body, left)) = with(raw, bytes, HiddenFields { lost, counters }) else {
            continue;
        };
        if left == 0 {
            return Some((head, body));
        }
        first = first.or(Some((head, body)));
    }
    first
}

/// The same, and how many bytes are left behind it.
fn with<'a>(
    raw: &RawEventRecord<'_>,
    bytes: &'a [u8],
    further: HiddenFields,
) -> Option<(Head, Body<'a>, usize)> {
    let about = &raw.parse_info;
    let has = |bit: SampleFormat| about.sample_format.contains(bit);
    let mut rest = rest(raw, bytes);
    let head = begin(raw, &mut rest)?;
    let mut body = Body::default();
    if has(SampleFormat::READ) {
        body.read = Some(rest.counters(about.read_format, further.lost)?);
    }
    if has(SampleFormat::CALLCHAIN) {
        let count = rest.word()?;
        body.chain = rest.words(count)?;
    }
    if has(SampleFormat::RAW) {
        // Its size is of 32 bits, and with it a multiple of 8.
        let bytes = rest.take(4)?.first_chunk::<4>()?;
        let big = rest.big_endian;
        let size = if big { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) };
        body.raw = rest.take(u64::from(size))?;
    }
    if has(SampleFormat::BRANCH_STACK) {
        let count = rest.word()?;
        if about.branch_sample_format.contains(BranchSampleFormat::HW_INDEX) {
            rest.word()?;
        }
        body.branches = rest.words(count.checked_mul(3)?)?;
        if further.counters {
            rest.words(count)?;
        }
    }
    if has(SampleFormat::REGS_USER) {
        body.registers = rest.registers(about.sample_regs_user)?;
    }
    if has(SampleFormat::STACK_USER) {
        let size = rest.word()?;
        let copied = rest.take(size)?;
        if size > 0 {
            // So much of it was there.
            let filled = usize::try_from(rest.word()?).unwrap_or(usize::MAX);
            body.stack = copied.get(..filled).unwrap_or(copied);
        }
    }
    let parts = has(SampleFormat::WEIGHT_STRUCT);
    if parts || has(SampleFormat::WEIGHT) {
        let word = rest.word()?;
        body.weight = Some(match parts {
            true => Weight::Parts(word as u32, (word >> 32) as u16),
            false => Weight::Whole(word),
        });
    }
    if has(SampleFormat::DATA_SRC) {
        body.data_source = Some(rest.word()?);
    }
    if has(SampleFormat::TRANSACTION) {
        rest.word()?;
    }
    if has(SampleFormat::REGS_INTR) {
        rest.registers(about.sample_regs_intr)?;
    }
    for ignored in [SampleFormat::PHYS_ADDR, SampleFormat::CGROUP] {
        if has(ignored) {
            rest.word()?;
        }
    }
    if has(SampleFormat::DATA_PAGE_SIZE) {
        body.page = Some(rest.word()?);
    }
    if has(SampleFormat::CODE_PAGE_SIZE) {
        rest.word()?;
    }
    if has(SampleFormat::AUX) {
        let size = rest.word()?;
        rest.take(size)?;
    }
    Some((head, body, rest.bytes.len()))
}

fn rest<'a>(raw: &RawEventRecord<'_>, bytes: &'a [u8]) -> ByteReader<'a> {
    ByteReader { bytes, big_endian: raw.parse_info.endian == Endianness::BigEndian }
}

fn begin(raw: &RawEventRecord<'_>, rest: &mut ByteReader<'_>) -> Option<Head> {
    let has = |bit: SampleFormat| raw.parse_info.sample_format.contains(bit);
    let mut head = Head::default();
    if has(SampleFormat::IDENTIFIER) {
        rest.word()?;
    }
    if has(SampleFormat::IP) {
        head.ip = Some(rest.word()?);
    }
    if has(SampleFormat::TID) {
        let (pid, tid) = rest.pair()?;
        (head.pid, head.tid) = (Some(pid as i32), Some(tid as i32));
    }
    if has(SampleFormat::TIME) {
        head.time = Some(rest.word()?);
    }
    if has(SampleFormat::ADDR) {
        head.address = Some(rest.word()?);
    }
    for ignored in [SampleFormat::ID, SampleFormat::STREAM_ID] {
        if has(ignored) {
            rest.word()?;
        }
    }
    if has(SampleFormat::CPU) {
        head.cpu = Some(rest.pair()?.0);
    }
    if has(SampleFormat::PERIOD) {
        head.period = Some(rest.word()?);
    }
    Some(head)
}
