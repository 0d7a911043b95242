//! Small recordings written by hand, for tests of analysis and reports.
//!
//! What for: a test says who ran where and how often; ids, times and the order of facts come out right by
//! themselves. What not: nothing is invented; what a test does not add is not there.

use base::{
    BlockId, BurstId, CodeAddress, CpuId, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, StackId,
    Tid,
};
use facts::{
    Block, Burst, BurstEnd, BurstFlavour, BurstRefused, CodePiece, Concurrency, Counter,
    CounterKind, Fault, FaultKind, Frame, Gauge, GaugeKind, Lost, LostSource, Module, ModuleKind,
    Privilege, Record, RecordEncoder, Recording, Records, Sample, StackNode, ThreadEvent,
    ThreadEventKind, ThreadTime, Wait, WaitKind, WaitObject, Wake, Waker,
};

/// Time between two samples of a thread, as with the default rate of 1 kHz.
pub const PERIOD: Nanos = Nanos(1_000_000);

/// A record of a burst: the block, iterations, and values.
pub type BurstRecord = (BlockId, u64, Vec<u64>);

/// Where modules lie in processes: an instruction's address is this plus its offset.
pub const CODE_BASE: u64 = 0x40_0000;

/// Builds a [`Recording`]. All of it belongs to one process unless a method takes another thread.
#[derive(Default)]
pub struct RecordingBuilder {
    /// What was built so far; tests may reach in.
    pub recording: Recording,
    time: u64,
}

impl RecordingBuilder {
    /// An empty recording.
    #[must_use]
    pub fn new() -> RecordingBuilder {
        RecordingBuilder::default()
    }

    /// Adds a module.
    pub fn module(&mut self, kind: ModuleKind, path: &str) -> ModuleId {
        let id = ModuleId(self.recording.modules.len() as u32);
        self.recording.modules.push(Module { id, kind, path: path.to_owned(), build_id: None });
        id
    }

    /// Adds an ELF file.
    pub fn file(&mut self, path: &str) -> ModuleId {
        self.module(ModuleKind::File, path)
    }

    /// Adds the kernel.
    pub fn kernel(&mut self) -> ModuleId {
        self.module(ModuleKind::Kernel, "[kernel]")
    }

    /// An address that symbolisation found nothing for.
    #[must_use]
    pub fn unnamed(&self, module: ModuleId, offset: u64) -> CodeAddress {
        CodeAddress::new(module, FileOffset(offset))
    }

    /// An address with its functions, innermost first: all but the last are inlined. An empty file or line 0 is
    /// stored as unknown.
    pub fn code(
        &mut self,
        module: ModuleId,
        offset: u64,
        functions: &[(&str, &str, u32)],
    ) -> CodeAddress {
        for (depth, (function, file, line)) in functions.iter().enumerate() {
            self.recording.frames.push(Frame {
                module,
                offset: FileOffset(offset),
                depth: depth as u32,
                function: (*function).to_owned(),
                file: (!file.is_empty()).then(|| (*file).to_owned()),
                line: (*line > 0).then_some(*line),
                inlined: depth + 1 < functions.len(),
            });
        }
        self.unnamed(module, offset)
    }

    /// A stack, innermost frame first; nodes are shared with earlier stacks.
    pub fn stack(&mut self, innermost_first: &[CodeAddress]) -> Option<StackId> {
        let mut parent = None;
        for address in innermost_first.iter().rev() {
            let same = |node: &&StackNode| (node.parent, node.code_address()) == (parent, *address);
            let known = self.recording.stack_nodes.iter().find(same).map(|node| node.id);
            parent = Some(known.unwrap_or_else(|| {
                let id = StackId(self.recording.stack_nodes.len() as u32);
                let CodeAddress { module, offset } = *address;
                self.recording.stack_nodes.push(StackNode {
                    id,
                    parent,
                    module,
                    offset,
                    truncated: false,
                });
                id
            }));
        }
        parent
    }

    /// A thread that lives from `start` to `end`, in seconds.
    pub fn thread(&mut self, pid: i32, tid: i32, name: &str, start: f64, end: f64) -> &mut Self {
        for (time, kind, name) in
            [(start, ThreadEventKind::Start, name), (end, ThreadEventKind::Exit, "")]
        {
            self.recording.thread_events.push(ThreadEvent {
                time: Nanos::from_seconds(time),
                pid: Pid(pid),
                tid: Tid(tid),
                kind,
                name: name.to_owned(),
            });
        }
        self
    }

    /// `count` samples of a thread in the program, one [`PERIOD`] after the other.
    pub fn samples(&mut self, pid: i32, tid: i32, stack: Option<StackId>, count: u64) -> &mut Self {
        self.ticks(pid, tid, stack, count, Privilege::User)
    }

    /// `count` samples of a thread in the kernel.
    pub fn kernel_samples(
        &mut self,
        pid: i32,
        tid: i32,
        stack: Option<StackId>,
        count: u64,
    ) -> &mut Self {
        self.ticks(pid, tid, stack, count, Privilege::Kernel)
    }

    fn ticks(
        &mut self,
        pid: i32,
        tid: i32,
        stack: Option<StackId>,
        count: u64,
        privilege: Privilege,
    ) -> &mut Self {
        for _ in 0..count {
            self.time += PERIOD.0;
            self.recording.samples.push(Sample {
                time: Nanos(self.time),
                pid: Pid(pid),
                tid: Tid(tid),
                cpu: Some(CpuId(0)),
                weight: PERIOD,
                stack,
                privilege,
            });
        }
        self
    }

    /// The time of the next sample is one [`PERIOD`] after this, in seconds.
    pub fn rewind(&mut self, seconds: f64) -> &mut Self {
        self.time = Nanos::from_seconds(seconds).0;
        self
    }

    /// `records` fault records that stand for `weight` faults each, 10 µs apart from `start` seconds on.
    pub fn faults(
        &mut self,
        pid_and_tid: (i32, i32),
        stack: Option<StackId>,
        kind: FaultKind,
        records: u64,
        weight: u64,
        start: f64,
    ) -> &mut Self {
        let (pid, tid) = (Pid(pid_and_tid.0), Tid(pid_and_tid.1));
        for record in 0..records {
            let time = Nanos(Nanos::from_seconds(start).0 + record * 10_000);
            let address = RemoteAddr(0x7f00_0000_0000 + record * 4096);
            self.recording.faults.push(Fault { time, pid, tid, address, stack, weight, kind });
        }
        self
    }

    /// An exact total.
    pub fn counter(&mut self, kind: CounterKind, value: u64) -> &mut Self {
        self.recording.counters.push(Counter { kind, value });
        self
    }

    /// A polled level at `time` seconds.
    pub fn gauge(&mut self, time: f64, pid: i32, kind: GaugeKind, value: u64) -> &mut Self {
        self.recording.gauges.push(Gauge {
            time: Nanos::from_seconds(time),
            pid: Pid(pid),
            kind,
            value,
        });
        self
    }

    /// A block of process `pid` that records addresses: `code` at `offset` of a module, and what its records hold, as
    /// `x86::translate::RecordLayout` writes it.
    pub fn block(
        &mut self,
        pid: i32,
        module: ModuleId,
        offset: u64,
        code: &[u8],
        record: &str,
    ) -> BlockId {
        let id = BlockId(self.recording.blocks.len() as u32);
        let piece = CodePiece {
            address: RemoteAddr(CODE_BASE + offset),
            module,
            offset: FileOffset(offset),
            bytes: code.to_vec(),
        };
        self.recording.blocks.push(Block {
            id,
            pid: Pid(pid),
            flavour: BurstFlavour::Trace,
            pieces: vec![piece],
            record: record.to_owned(),
        });
        id
    }

    /// A burst of a thread with these records, 100 ms after the one before and 3 ms long.
    pub fn burst(&mut self, pid: i32, tid: i32, records: &[BurstRecord]) -> BurstId {
        let number = self.recording.bursts.len() as u32;
        let mut encoder = RecordEncoder::new();
        for (block, iterations, values) in records {
            encoder.push(&Record { block: *block, way: 0, iterations: *iterations, values });
        }
        let burst = BurstId(number);
        self.recording.records.push(Records { burst, bytes: encoder.finish() });
        self.recording.bursts.push(Burst {
            id: burst,
            time: Nanos(u64::from(number) * 100_000_000),
            pid: Pid(pid),
            tid: Tid(tid),
            flavour: BurstFlavour::Trace,
            end: BurstEnd::Time,
            elapsed: Nanos(3_000_000),
            cpu_time: Some(Nanos(3_000_000)),
            stand_still: Nanos(70_000),
            stops: 2,
            fs_base: RemoteAddr(0x7f00_1000_0000),
            records: records.len() as u64,
            records_lost: false,
            entries: None,
            in_calls: None,
            faults: None,
            answers: None,
        });
        burst
    }

    /// `count` bursts that could not begin.
    pub fn bursts_refused(&mut self, pid: i32, tid: i32, reason: &str, count: u64) -> &mut Self {
        for number in 0..count {
            self.recording.burst_refusals.push(BurstRefused {
                time: Nanos(number * 100_000_000),
                pid: Pid(pid),
                tid: Tid(tid),
                at: None,
                reason: reason.to_owned(),
            });
        }
        self
    }

    /// Waits of a thread at `stack`, from `start` on over `span` seconds, that took `waited` seconds together.
    pub fn waits(
        &mut self,
        pid_and_tid: (i32, i32),
        kind: WaitKind,
        place: (Option<StackId>, Option<u64>),
        (start, span): (f64, f64),
        (waits, waited): (u64, f64),
    ) -> &mut Self {
        self.recording.waits.push(Wait {
            time: Nanos::from_seconds(start),
            span: Nanos::from_seconds(span),
            pid: Pid(pid_and_tid.0),
            tid: Tid(pid_and_tid.1),
            kind,
            waits,
            waited: Nanos::from_seconds(waited),
            object: place.1.map(RemoteAddr),
            stack: place.0,
        });
        self
    }

    /// Who ended waits of a thread at a place, that took `waited` seconds together: a thread of the same process where it
    /// was, or nobody of the program.
    pub fn woken(
        &mut self,
        pid_and_tid: (i32, i32),
        place: (Option<StackId>, Option<u64>),
        (start, span): (f64, f64),
        waker: Option<(i32, Option<StackId>)>,
        (wakes, waited): (u64, f64),
    ) -> &mut Self {
        let pid = Pid(pid_and_tid.0);
        self.recording.wakes.push(Wake {
            time: Nanos::from_seconds(start),
            span: Nanos::from_seconds(span),
            pid,
            tid: Tid(pid_and_tid.1),
            object: place.1.map(RemoteAddr),
            stack: place.0,
            waker: waker.map(|(tid, stack)| Waker { pid, tid: Tid(tid), stack }),
            wakes,
            waited: Nanos::from_seconds(waited),
            seen: wakes,
        });
        self
    }

    /// How long a thread ran within a window, and waited for a CPU, in seconds.
    pub fn ran(
        &mut self,
        pid_and_tid: (i32, i32),
        (start, span): (f64, f64),
        running: f64,
        queued: f64,
    ) -> &mut Self {
        self.recording.thread_times.push(ThreadTime {
            time: Nanos::from_seconds(start),
            span: Nanos::from_seconds(span),
            pid: Pid(pid_and_tid.0),
            tid: Tid(pid_and_tid.1),
            running: Nanos::from_seconds(running),
            queued: Some(Nanos::from_seconds(queued)),
        });
        self
    }

    /// For how many seconds of a window 0, 1, 2 ... threads ran at once.
    pub fn at_once(&mut self, (start, span): (f64, f64), seconds: &[f64]) -> &mut Self {
        for (running, seconds) in (0..).zip(seconds) {
            self.recording.concurrency.push(Concurrency {
                time: Nanos::from_seconds(start),
                span: Nanos::from_seconds(span),
                running,
                duration: Nanos::from_seconds(*seconds),
            });
        }
        self
    }

    /// The name of a variable.
    pub fn wait_object(&mut self, pid: i32, address: u64, name: &str, module: &str) -> &mut Self {
        self.recording.wait_objects.push(WaitObject {
            pid: Pid(pid),
            address: RemoteAddr(address),
            name: name.to_owned(),
            module: module.to_owned(),
        });
        self
    }

    /// A loss.
    pub fn lost(&mut self, source: LostSource, count: u64) -> &mut Self {
        self.recording.lost.push(Lost { time: Nanos(self.time), source, count });
        self
    }

    /// The recording.
    #[must_use]
    pub fn build(self) -> Recording {
        self.recording
    }
}
