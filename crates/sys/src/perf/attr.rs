//! `struct perf_event_attr`, built from named choices instead of bit positions.
//!
//! What not: opening events (`event`).

/// Software events (`enum perf_sw_ids`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum SoftwareEvent {
    /// High-resolution timer that runs while the thread runs, per CPU.
    CpuClock = 0,
    /// CPU time of the thread.
    TaskClock = 1,
    /// Context switches.
    ContextSwitches = 3,
    /// Migrations to another CPU.
    Migrations = 4,
    /// Minor page faults.
    MinorFaults = 5,
    /// Major page faults.
    MajorFaults = 6,
    /// Counts nothing: carries mapping and task records only.
    Dummy = 9,
}

/// Bits of `sample_type` (`enum perf_event_sample_format`), in the order in which the fields stand in a record
/// where that differs from the bit order: see `collect::perf::record`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
#[expect(missing_docs, reason = "named after the kernel's constants")]
pub enum SampleField {
    Ip = 1 << 0,
    Tid = 1 << 1,
    Time = 1 << 2,
    Addr = 1 << 3,
    Callchain = 1 << 5,
    Cpu = 1 << 7,
    Period = 1 << 8,
    Raw = 1 << 10,
    BranchStack = 1 << 11,
    RegsUser = 1 << 12,
    StackUser = 1 << 13,
    Weight = 1 << 14,
    DataSource = 1 << 15,
    Identifier = 1 << 16,
    /// Linux 5.11.
    DataPageSize = 1 << 22,
}

/// Single-bit flags of the attribute's bit field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[expect(missing_docs, reason = "named after the kernel's fields")]
pub enum Flag {
    Disabled = 0,
    Inherit = 1,
    ExcludeKernel = 5,
    ExcludeHv = 6,
    ExcludeIdle = 7,
    Mmap = 8,
    Comm = 9,
    Freq = 10,
    EnableOnExec = 12,
    Task = 13,
    Watermark = 14,
    SampleIdAll = 18,
    ExcludeCallchainUser = 22,
    Mmap2 = 23,
    CommExec = 24,
    UseClockid = 25,
    ContextSwitch = 26,
}

/// `perf_event_attr.type` of the kernel's names for what most PMUs count (`enum perf_hw_id`).
pub const PERF_TYPE_HARDWARE: u32 = 0;
/// `perf_event_attr.type` of [`SoftwareEvent`].
pub const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FORMAT_TOTAL_TIME_ENABLED: u64 = 1;
const PERF_FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const PERF_FORMAT_GROUP: u64 = 1 << 3;
const PERF_FORMAT_LOST: u64 = 1 << 4;

/// The kernel's `struct perf_event_attr` as of PERF_ATTR_SIZE_VER5 (Linux 4.8): the newest size whose fields are
/// used here, so that older kernels accept it too.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period_or_frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Attr>() == 112, "PERF_ATTR_SIZE_VER5");

impl Attr {
    /// A software event, counting only.
    #[must_use]
    pub fn software(event: SoftwareEvent) -> Attr {
        Attr { kind: PERF_TYPE_SOFTWARE, size: 112, config: event as u64, ..Attr::default() }
    }

    /// An event of any PMU, counting only: its number below `/sys/bus/event_source/devices`, and the first words of its
    /// configuration. A read gives the counts of its whole group (`super::GroupCounts`).
    #[must_use]
    pub fn of_pmu(number: u32, config: [u64; 3]) -> Attr {
        let read_format =
            PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        let [config, config1, config2] = config;
        Attr { kind: number, size: 112, config, config1, config2, read_format, ..Attr::default() }
    }

    /// The number of its PMU.
    #[must_use]
    pub fn pmu(&self) -> u32 {
        self.kind
    }

    /// The first word of its configuration.
    #[must_use]
    pub fn config(&self) -> u64 {
        self.config
    }

    /// The fields of every sampling event of a recording (parsed by `collect::perf::record`). The calibration of a
    /// sample's cost uses the same, so that it measures what a recording does.
    #[must_use]
    pub fn recording(event: SoftwareEvent, stack_bytes: u32) -> Attr {
        Attr::software(event)
            .fields(&[
                SampleField::Identifier,
                SampleField::Ip,
                SampleField::Tid,
                SampleField::Time,
                SampleField::Addr,
                SampleField::Cpu,
                SampleField::Period,
                SampleField::Callchain,
                SampleField::Raw,
            ])
            .user_stack(stack_bytes)
            .monotonic()
            .flags(&[Flag::ExcludeCallchainUser])
    }

    /// An event of a PMU that writes a trace instead of samples. Its records say who ran when, and which part of the trace is there; the
    /// reader wakes when `bytes` of it are.
    #[must_use]
    pub fn traced(pmu: u32, config: [u64; 3], bytes: u32) -> Attr {
        let fields =
            [SampleField::Identifier, SampleField::Tid, SampleField::Time, SampleField::Cpu];
        let attr = Attr::software(SoftwareEvent::Dummy).fields(&fields).monotonic();
        let attr = attr.flags(&[Flag::Inherit, Flag::SampleIdAll, Flag::ContextSwitch]);
        Attr { aux_watermark: bytes, ..attr }.of_event(pmu, config)
    }

    /// Whether it is [`Attr::traced`].
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.aux_watermark != 0
    }

    /// The same for a tracepoint instead, by its number in tracefs.
    #[must_use]
    pub fn of_tracepoint(mut self, id: u64) -> Attr {
        (self.kind, self.config) = (PERF_TYPE_TRACEPOINT, id);
        self
    }

    /// The same for an event of any PMU instead ([`Attr::of_pmu`]); a read gives its count and the times with it
    /// ([`super::Event::read_timed`]).
    #[must_use]
    pub fn of_event(mut self, pmu: u32, config: [u64; 3]) -> Attr {
        (self.kind, self.size) = (pmu, 112);
        [self.config, self.config1, self.config2] = config;
        self.read_format |= PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
        self
    }

    /// Each sample carries the last branches of the program, as many as the hardware keeps.
    #[must_use]
    pub fn branches(mut self) -> Attr {
        /// PERF_SAMPLE_BRANCH_USER and PERF_SAMPLE_BRANCH_ANY.
        const ALL_OF_PROGRAM: u64 = 1 | 1 << 3;
        self.branch_sample_type = ALL_OF_PROGRAM;
        self.fields(&[SampleField::BranchStack])
    }

    /// Each sample carries the access of an instruction that retired: its latency and where its data came from. The instruction
    /// is exact (`precise_ip` 2) where `precise`.
    #[must_use]
    pub fn accesses(mut self, precise: bool) -> Attr {
        /// Two bits from bit 15 on.
        const PRECISE_IP: u32 = 15;
        self.flags |= u64::from(precise) << (PRECISE_IP + 1);
        self.fields(&[SampleField::Weight, SampleField::DataSource])
    }

    /// Each sample carries the size of the page of its address.
    #[must_use]
    pub fn page_sizes(self) -> Attr {
        self.fields(&[SampleField::DataPageSize])
    }

    /// Whether [`Attr::page_sizes`] was asked for.
    #[must_use]
    pub fn has_page_sizes(&self) -> bool {
        self.sample_type & SampleField::DataPageSize as u64 != 0
    }

    /// Whether [`Attr::accesses`] was asked for.
    #[must_use]
    pub fn has_accesses(&self) -> bool {
        self.sample_type & SampleField::DataSource as u64 != 0
    }

    /// Whether [`Attr::branches`] was asked for.
    #[must_use]
    pub fn has_branches(&self) -> bool {
        self.branch_sample_type != 0
    }

    /// Sets single-bit flags.
    #[must_use]
    pub fn flags(mut self, flags: &[Flag]) -> Attr {
        for flag in flags {
            self.flags |= 1 << *flag as u32;
        }
        self
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn has(&self, flag: Flag) -> bool {
        self.flags >> flag as u32 & 1 == 1
    }

    /// One record per `period` events (nanoseconds for the clocks).
    #[must_use]
    pub fn period(mut self, period: u64) -> Attr {
        self.sample_period_or_frequency = period;
        self
    }

    /// The kernel adapts the period so that about `hertz` records come per second.
    #[must_use]
    pub fn frequency(mut self, hertz: u64) -> Attr {
        self.sample_period_or_frequency = hertz;
        self.flags(&[Flag::Freq])
    }

    /// Fields of a sample record.
    #[must_use]
    pub fn fields(mut self, fields: &[SampleField]) -> Attr {
        for field in fields {
            self.sample_type |= *field as u64;
        }
        self
    }

    /// Copies [`super::SAMPLED_REGISTERS`] and `bytes` (a multiple of 8, below 65,528) of user stack.
    #[must_use]
    pub fn user_stack(mut self, bytes: u32) -> Attr {
        self.sample_regs_user = super::SAMPLED_REGISTERS;
        self.sample_stack_user = bytes & !7;
        self.fields(&[SampleField::RegsUser, SampleField::StackUser])
    }

    /// Each sample carries all general registers, [`super::ALL_REGISTERS`], instead of [`super::SAMPLED_REGISTERS`].
    #[must_use]
    pub fn all_registers(mut self) -> Attr {
        self.sample_regs_user = super::ALL_REGISTERS;
        self
    }

    /// Wakes the reader when `bytes` are waiting in the ring.
    #[must_use]
    pub fn watermark(mut self, bytes: u32) -> Attr {
        self.wakeup = bytes;
        self.flags(&[Flag::Watermark])
    }

    /// Reading the event also tells how many of its records did not fit (PERF_FORMAT_LOST, Linux 6.0).
    #[must_use]
    pub fn count_lost(mut self) -> Attr {
        self.read_format |= PERF_FORMAT_LOST;
        self
    }

    /// Whether [`Attr::count_lost`] was asked for.
    #[must_use]
    pub(super) fn counts_lost(&self) -> bool {
        self.read_format & PERF_FORMAT_LOST != 0
    }

    /// Words that a read of the event gives: its count, and what else was asked for.
    pub(super) fn read_words(&self) -> usize {
        1 + self.read_format.count_ones() as usize
    }

    /// Time stamps from CLOCK_MONOTONIC instead of the scheduler's clock.
    #[must_use]
    pub fn monotonic(mut self) -> Attr {
        self.clockid = libc::CLOCK_MONOTONIC;
        self.flags(&[Flag::UseClockid])
    }
}
