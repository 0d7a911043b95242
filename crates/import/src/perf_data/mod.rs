//! perf.data files.
//!
//! What for: those of Linux perf and of Android's simpleperf. Reads a file twice with crate `linux-perf-data`, which sorts its records by time: first what its events count
//! ([`events`]), of which the head of each sample is enough; then the records into the recorder. Of hardware traces it reads those
//! of Arm SPE ([`spe`]): in the first reading, so that the second can put them between the records. What not:
//! other traces (Intel PT, CoreSight), tracepoints: the import says how much it left.

mod counts;
mod events;
mod header;
mod init_map;
mod machine;
mod names;
mod records;
mod sample;
mod spe;

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use base::{Bytes, CpuId, FileOffset, Nanos, Pid, RemoteAddr, ThreadId, Tid};
use collect::accesses::{SampleParts, access};
use collect::address_space::{CopiedStack, REGISTER_NUMBERS, Registers};
use collect::branches::Branches;
use collect::recorder::{Guest, Moment, NewMapping, Position, Recorder, Ticked};
use facts::{
    EventCount, Fact, FaultKind, LostSource, Module, ModuleKind, Region, RegionKind, Sink,
    SinkError,
};
use linux_perf_data::linux_perf_event_reader as reader;
use linux_perf_data::{PerfFile, PerfFileReader, PerfFileRecord, RawUserRecord, UserRecord};
use reader::{BranchSampleFormat, CpuMode, EventRecord, RawEventRecord, RecordType};

use self::counts::Counts;
use self::events::{Events, Meaning};
use self::header::{Checked, Mode, Refused};
use self::names::{GENERATED, Mapped, Names, NamingSink};
use self::sample::{Body, Head};
use self::spe::{Trace, Traced};
use crate::{ImportError, Imported};

/// `PERF_CONTEXT_*`: marks in a call chain, no addresses (include/uapi/linux/perf_event.h).
const CONTEXT_MAX: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
/// `PROT_EXEC`.
const PROT_EXEC: u32 = 4;
/// Longest call chain that is believed.
const MOST_FRAMES: usize = 1024;
/// The kernel's number for "this process" in records of the idle task.
const IDLE: i32 = 0;

/// Reads the file into `sink`.
///
/// # Errors
/// See [`ImportError`]. Facts may have been pushed before one is found.
pub fn perf_data(path: &Path, sink: &mut dyn Sink) -> Result<Imported, ImportError> {
    let Checked { mode, traces } = checked(path)?;
    let damaged = |why: String| ImportError::Damaged { path: path.to_owned(), why };
    let mut events = None;
    let mut trace = traces.is_spe().then(Trace::default);
    let mut mapped = Mapped::default();
    let first = each(path, mode, &mut |file, record| {
        if let Record::Kernel(_, record) | Record::Before(record) = &record {
            mapped.see(record);
        }
        if let Record::Before(_) = record {
            return Ok(());
        }
        let records = events.get_or_insert_with(|| {
            if let Some(trace) = &mut trace {
                trace.on(file.cpu_id().ok().flatten());
            }
            Events::of(file)
        });
        match (record, &mut trace) {
            (Record::Kernel(index, record), trace) => {
                records.see(index, &record);
                if let Some(trace) = trace {
                    trace.see(&record);
                }
            }
            (Record::OfPerf(record), Some(trace)) => match record.parse() {
                Ok(UserRecord::Auxtrace(part)) => trace.part(&part),
                _ => trace.about(&record),
            },
            (Record::OfPerf(_), None) | (Record::Before(_), _) => {}
        }
        Ok(())
    });
    let first = first.map_err(|failure| failure.into_error(path))?;
    let Some(mut events) = events else {
        return Err(damaged("it has no records".to_owned()));
    };
    if let Some(trace) = &mut trace {
        trace.sort();
        events.traced(trace.operations, trace.span());
    }
    let mut events =
        events.decided().map_err(|events| ImportError::NoTime { path: path.to_owned(), events })?;
    let mut imported = Imported::default();
    let known = machine::of(&first.file, events.first(), &mut imported);
    let names = Names::of(&first.file, mapped, &mut imported.notes);
    let interpreted = names.interpreted();
    let mut sink = NamingSink::new(sink, names);
    let mut recorder = Recorder::new(&mut sink);
    recorder.recorded_before(known);
    for event in events.counted() {
        recorder.push(Fact::CountedEvent(event))?;
    }
    let counts = Counts::of(events.ids_of_counted());
    let mut converter = Converter {
        events: &mut events,
        recorder: &mut recorder,
        taken: ImportCounts::default(),
        branches: Branches::default(),
        counts,
        trace,
        interpreted,
    };
    let second = each(path, mode, &mut |_, record| match record {
        Record::Kernel(index, record) => converter.take(index, &record),
        Record::Before(record) => converter.take(0, &record),
        Record::OfPerf(_) => Ok(()),
    });
    let second = second.and_then(|read| {
        converter.traced_until(u64::MAX).map_err(Failure::Sink)?;
        let rest = converter.counts.rest(converter.events.length());
        converter.push_counts(rest).map_err(Failure::Sink)?;
        Ok(read)
    });
    let Converter { taken, branches, trace, .. } = converter;
    second.map_err(|failure| failure.into_error(path))?;
    if branches.unusable > 0 {
        imported.notes.push(format!(
            "{} branch stacks have some kinds of branches only (`perf record -b` records all): they show no loops",
            branches.unusable
        ));
    }
    for one in branches.into_facts() {
        recorder.push(Fact::BranchLoop(one))?;
    }
    recorder.flush()?;
    imported.files = recorder.take_files();
    drop(recorder);
    let at_hand = |module: &Module| match module.kind {
        ModuleKind::Kernel => !imported.elsewhere.kernel,
        _ => !imported.elsewhere.files || imported.files.contains_key(&module.id),
    };
    if sink.name(at_hand)? {
        imported.notes.push(
            "functions have the names that simpleperf found on the recorded machine, without source lines".to_owned(),
        );
    }
    if let Some(events) = events.nothing() {
        return Err(ImportError::NoTime { path: path.to_owned(), events });
    }
    events.describe(&mut imported);
    imported.source.file = path.display().to_string();
    imported.kernel_samples = taken.kernel;
    imported.stack_bytes = taken.stack_bytes;
    if let (Some(trace), Some((_, name))) = (&trace, events.of_trace()) {
        imported.notes.extend(trace.notes(name));
    } else if traces.bytes > 0 {
        imported.notes.push(format!(
            "the file has {} of hardware traces ({}), which are not read",
            Bytes(traces.bytes),
            traces.name()
        ));
    }
    if first.unread > 0 {
        imported.notes.push(format!(
            "{} of mappings from before the recording (simpleperf's init_map) could not be read: their code has no names",
            Bytes(first.unread as u64)
        ));
    }
    if taken.broken > 0 {
        let plural = if taken.broken == 1 { "" } else { "s" };
        imported.notes.push(format!("{} record{plural} could not be read", taken.broken));
    }
    if let Some(why) = first.broke {
        imported
            .notes
            .push(format!("the file ends within its records: {why}; what comes before is here"));
    }
    if taken.in_guests > 0 {
        imported.notes.push(format!(
            "{} samples are of code in virtual machines: they count for the threads that ran these, and show as [guest kernel] or \
             [guest program], because the file does not tell what their addresses are",
            taken.in_guests
        ));
    }
    if taken.foreign_stacks > 0 {
        imported.notes.push(format!(
            "{} samples have copied stacks of another architecture, which are not unwound here: they show the innermost \
             function only",
            taken.foreign_stacks
        ));
    }
    Ok(imported)
}

fn checked(path: &Path) -> Result<Checked, ImportError> {
    let unreadable = |source| ImportError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        // It is read twice.
        let what =
            std::io::Error::other("it is no regular file; write the recording into one first");
        return Err(unreadable(what));
    }
    header::check(BufReader::new(file), about.len()).map_err(|refused| match refused {
        Refused::NotPerfData => ImportError::NotPerfData(path.to_owned()),
        Refused::Unreadable(error) => unreadable(error),
        Refused::Damaged(why) => ImportError::Damaged { path: path.to_owned(), why },
    })
}

/// What went through.
struct Read {
    file: PerfFile,
    /// Bytes of records from before the recording that are none.
    unread: usize,
    /// Why the records end before the file does.
    broke: Option<String>,
}

enum Failure {
    /// Nothing could be read.
    Damaged(String),
    Sink(SinkError),
}

impl Failure {
    fn into_error(self, path: &Path) -> ImportError {
        match self {
            Failure::Damaged(why) => ImportError::Damaged { path: path.to_owned(), why },
            Failure::Sink(error) => ImportError::Sink(error),
        }
    }
}

/// One of the file.
enum Record<'a> {
    /// With the number of its event.
    Kernel(usize, RawEventRecord<'a>),
    /// From before the recording.
    Before(RawEventRecord<'a>),
    OfPerf(RawUserRecord<'a>),
}

type Take<'a> = dyn FnMut(&PerfFile, Record<'_>) -> Result<(), SinkError> + 'a;

/// Calls `take` for each record, those of the kernel in order of time. Records before a damaged one count.
fn each(path: &Path, mode: Mode, take: &mut Take<'_>) -> Result<Read, Failure> {
    let read = AssertUnwindSafe(|| {
        let file = File::open(path).map_err(|error| Failure::Damaged(error.to_string()))?;
        let opened = match mode {
            Mode::File => PerfFileReader::parse_file(BufReader::new(file)),
            Mode::Pipe => PerfFileReader::parse_pipe(BufReader::new(file)),
        };
        let opened = opened.map_err(|error| Failure::Damaged(error.to_string()))?;
        let PerfFileReader { perf_file: mut file, record_iter: mut records } = opened;
        let events = file.event_attributes();
        if events.len() > 1 && events.iter().all(|event| event.ids().is_empty()) {
            let why = "it has several events, and no description of events (feature 12 of perf, `meta_info` of simpleperf) that says \
                       which of them a sample is of";
            return Err(Failure::Damaged(why.to_owned()));
        }
        let before = init_map::each(&file, |record| take(&file, Record::Before(record)));
        let unread = before.map_err(Failure::Sink)?;
        let mut any = false;
        let broke = loop {
            match records.next_record(&mut file) {
                Ok(None) => break None,
                Ok(Some(PerfFileRecord::EventRecord { record, attr_index })) => {
                    any = true;
                    take(&file, Record::Kernel(attr_index, record)).map_err(Failure::Sink)?;
                }
                Ok(Some(PerfFileRecord::UserRecord(record))) => {
                    take(&file, Record::OfPerf(record)).map_err(Failure::Sink)?;
                }
                Err(error) if any => break Some(error.to_string()),
                Err(error) => return Err(Failure::Damaged(error.to_string())),
            }
        };
        Ok(Read { file, unread, broke })
    });
    catch_unwind(read).unwrap_or_else(|_| {
        Err(Failure::Damaged("the parser of perf.data files failed on it".to_owned()))
    })
}

#[derive(Default)]
struct ImportCounts {
    kernel: bool,
    stack_bytes: u32,
    /// Records that contradict themselves.
    broken: u64,
    foreign_stacks: u64,
    /// Samples of code in virtual machines.
    in_guests: u64,
}

/// Records into the recorder.
struct Converter<'a, 's> {
    events: &'a mut Events,
    recorder: &'a mut Recorder<'s>,
    taken: ImportCounts,
    branches: Branches,
    counts: Counts,
    trace: Option<Trace>,
    /// Files that are code, although they are mapped as data.
    interpreted: HashSet<String>,
}

impl Converter<'_, '_> {
    fn take(&mut self, index: usize, raw: &RawEventRecord<'_>) -> Result<(), SinkError> {
        let time = self.events.since_start(raw.timestamp());
        // What happened before comes first; records without a time are of what ran before the recording.
        self.traced_until(raw.timestamp().unwrap_or(0))?;
        if let Some(trace) = &mut self.trace {
            trace.ran(raw);
        }
        if raw.record_type == RecordType::SAMPLE {
            let bytes = raw.data.as_slice();
            let Some((head, body)) = sample::whole(raw, &bytes) else {
                self.taken.broken += 1;
                return Ok(());
            };
            return self.sample((index, raw), &head, &body);
        }
        let Ok(record) = raw.parse() else {
            self.taken.broken += 1;
            return Ok(());
        };
        match record {
            EventRecord::Comm(named) => {
                let (pid, tid) = (Pid(named.pid), Tid(named.tid));
                let name = String::from_utf8_lossy(&named.name.as_slice()).into_owned();
                match named.is_execve {
                    true => self.recorder.executed(time, pid, tid, &name),
                    false => self.recorder.renamed(time, pid, tid, &name),
                }
            }
            EventRecord::Fork(born) => {
                let (pid, parent) = (Pid(born.pid), Pid(born.ppid));
                if pid != parent {
                    self.recorder.process_forked(parent, pid);
                }
                self.recorder.thread_created(
                    time,
                    ThreadId::new(parent, Tid(born.ptid)),
                    pid,
                    Tid(born.tid),
                )
            }
            EventRecord::Exit(gone) => {
                self.recorder.thread_ended(time, Pid(gone.pid), Tid(gone.tid))
            }
            EventRecord::Mmap(map) => {
                let range = (map.address, map.length, map.page_offset);
                let about = (map.cpu_mode, map.pid, map.is_executable);
                self.map(time, about, range, &map.path.as_slice())
            }
            EventRecord::Mmap2(map) => {
                let range = (map.address, map.length, map.page_offset);
                let is_generated = map.protection & GENERATED != 0;
                let is_code = is_generated || map.protection & PROT_EXEC != 0;
                let about = (map.cpu_mode, map.pid, is_code);
                // The file has what the function is called, not its code.
                let path = map.path.as_slice();
                self.map(time, about, range, if is_generated { b"//anon" } else { &path })
            }
            EventRecord::Lost(lost) => self.recorder.lost(time, LostSource::Samples, lost.count),
            _ if raw.record_type == RecordType::LOST_SAMPLES => {
                let count =
                    raw.data.as_slice().first_chunk::<8>().map(|bytes| u64::from_ne_bytes(*bytes));
                self.recorder.lost(time, LostSource::Samples, count.unwrap_or(1))
            }
            _ => Ok(()),
        }
    }

    fn map(
        &mut self,
        time: Nanos,
        (mode, pid, executable): (CpuMode, i32, bool),
        (start, length, offset): (u64, u64, u64),
        path: &[u8],
    ) -> Result<(), SinkError> {
        // The kernel's own are absolute addresses for us.
        if mode != CpuMode::User || pid < 0 {
            return Ok(());
        }
        let name = String::from_utf8_lossy(path);
        let (start, end) = (RemoteAddr(start), RemoteAddr(start.saturating_add(length)));
        let offset = FileOffset(offset);
        if !executable && !self.interpreted.contains(&*name) {
            return self.data(time, Pid(pid), (start, end, offset), &name);
        }
        self.recorder.mapped(time, Pid(pid), NewMapping { start, end, offset, name: &name })
    }

    /// Mapped data, which `perf record -d` announces.
    fn data(
        &mut self,
        time: Nanos,
        pid: Pid,
        (start, end, file_offset): (RemoteAddr, RemoteAddr, FileOffset),
        name: &str,
    ) -> Result<(), SinkError> {
        let kind = match name {
            "[heap]" => RegionKind::Break,
            "[stack]" => RegionKind::Stack,
            "//anon" => RegionKind::Anonymous,
            "/anon_hugepage" | "/anon_hugepage (deleted)" => RegionKind::Huge,
            _ if name.starts_with("/SYSV") || name.starts_with("/dev/shm/") => RegionKind::Shared,
            _ if name.starts_with('/') => RegionKind::File,
            // [vvar] and its like are no data of the program.
            _ => return Ok(()),
        };
        let bytes = Bytes(end.0.saturating_sub(start.0));
        if bytes == Bytes(0) {
            return Ok(());
        }
        let name = if kind == RegionKind::Anonymous { "" } else { name }.to_owned();
        let (tid, page, stack) = (None, None, None);
        let region = Region { time, pid, tid, start, bytes, kind, name, file_offset, page, stack };
        self.recorder.push(Fact::Region(region))
    }

    fn sample(
        &mut self,
        (index, raw): (usize, &RawEventRecord<'_>),
        sample: &Head,
        body: &Body<'_>,
    ) -> Result<(), SinkError> {
        let meaning = self.events.meaning(index, sample);
        let tells = self.events.tells_accesses(index);
        let parts = SampleParts {
            data_source: body.data_source,
            address: sample.address,
            weight: body.weight,
            page: body.page,
            raw: body.raw,
        };
        let access = tells.and_then(|is_ibs| access(&parts, is_ibs));
        let format = raw.parse_info.branch_sample_format;
        let are_callers = format.contains(BranchSampleFormat::CALL_STACK);
        let has_branches = body.branches.len() > 0 && !are_callers;
        let counted = self.counted(index, sample, body);
        if meaning.is_none() && access.is_none() && !has_branches && counted.is_empty() {
            return Ok(());
        }
        let (Some(pid), Some(tid)) = (sample.pid, sample.tid) else {
            self.taken.broken += 1;
            return Ok(());
        };
        // Nobody waits for the idle task.
        if pid == IDLE && tid == IDLE {
            return Ok(());
        }
        let (pid, tid) = (Pid(pid), Tid(tid));
        let time = self.events.since_start(sample.time);
        let cpu = sample.cpu.map(CpuId);
        let at = Moment { time, pid, tid, cpu };
        // A thread that was there before: its name came without an event, or never.
        self.recorder.thread_started(time, pid, tid, "")?;
        let ip = RemoteAddr(sample.ip.unwrap_or(0));
        let mode = CpuMode::from_misc(raw.misc);
        let guest = match mode {
            CpuMode::GuestKernel => Some(Guest::Kernel),
            CpuMode::GuestUser => Some(Guest::Program),
            _ => None,
        };
        self.taken.in_guests += u64::from(guest.is_some());
        // Their addresses are of the guest, too.
        if has_branches && guest.is_none() {
            self.loops(at, (index, raw), body)?;
        }
        let (mut kernel, mut chain) = chains(mode, body);
        let in_kernel = matches!(mode, CpuMode::Kernel | CpuMode::Hypervisor);
        if are_callers && guest.is_none() {
            call_chain_of_branches(body, &mut chain, ip, in_kernel);
        }
        if in_kernel && kernel.is_empty() {
            kernel.push(ip.0);
        }
        if !in_kernel && chain.is_empty() {
            chain.push(ip.0);
        }
        self.taken.kernel |= in_kernel;
        let stack = if guest.is_none() { self.copied(raw, body) } else { None };
        let user = stack.as_ref().map(|registers| CopiedStack { registers, bytes: body.stack });
        let position = Position { kernel: &kernel, ip, user, chain: &chain, guest };
        self.recorder.happened(at, &counted, position)?;
        let stretches = self.counts.due(time);
        self.push_counts(stretches)?;
        match meaning {
            Some((Meaning::Time, weight)) => {
                let seen = Ticked { weight: Nanos(weight), cpu_time: None, general: None };
                self.recorder.sampled(at, seen, position)?;
            }
            Some((Meaning::Faults(kind), weight)) => {
                let address = RemoteAddr(sample.address.unwrap_or(0));
                self.recorder.faulted(at, kind, address, weight, position)?;
            }
            None => {}
        }
        let Some(mut access) = access else { return Ok(()) };
        access.address = access.address.filter(|_| guest.is_none());
        // The hardware names the instruction; the chain begins where the interrupt came.
        let first = if in_kernel { kernel.first_mut() } else { chain.first_mut() };
        if let Some(first) = first.filter(|_| ip.0 != 0) {
            *first = ip.0;
        }
        let position = Position { kernel: &kernel, ip, user, chain: &chain, guest };
        let weight = self.events.accessed(index, sample);
        self.recorder.accessed(access.sample(at, number(index), weight), position)
    }

    /// What a sample counted: all members of a group that it reads, else its event's period.
    fn counted(&mut self, index: usize, sample: &Head, body: &Body<'_>) -> Vec<(u32, u64)> {
        let read = body.read.as_ref();
        let of_group = read.map(|read| self.counts.take(sample.tid.unwrap_or(0), read));
        let grouped = read.is_some_and(|read| read.grouped);
        match of_group.filter(|_| grouped) {
            Some(counts) => {
                self.events.counted_of_group(&counts);
                counts
            }
            None => self.events.counted_by(index, sample).into_iter().collect(),
        }
    }

    fn push_counts(&mut self, counts: Vec<EventCount>) -> Result<(), SinkError> {
        counts.into_iter().try_for_each(|count| self.recorder.push(Fact::EventCount(count)))
    }

    /// Accesses of the hardware trace before a moment.
    fn traced_until(&mut self, time: u64) -> Result<(), SinkError> {
        loop {
            let Some(trace) = &mut self.trace else { return Ok(()) };
            let Some(owned) = trace.take_until(time) else { return Ok(()) };
            let each = trace.each_stands_for();
            let Some((index, _)) = self.events.of_trace() else { return Ok(()) };
            let Traced { time, cpu, ip, in_kernel, access, .. } = owned.traced;
            let time = self.events.since_start(Some(time));
            let at = Moment { time, pid: owned.pid, tid: owned.tid, cpu: cpu.map(CpuId) };
            self.recorder.thread_started(time, at.pid, at.tid, "")?;
            self.taken.kernel |= in_kernel;
            let (kernel, chain): (&[u64], &[u64]) =
                if in_kernel { (&[ip], &[]) } else { (&[], &[ip]) };
            let position = Position { kernel, ip: RemoteAddr(ip), user: None, chain, guest: None };
            let weight = self.events.accessed(index, &Head::default()).saturating_mul(each);
            self.recorder.accessed(access.sample(at, number(index), weight), position)?;
        }
    }

    /// The loops of a branch stack.
    fn loops(
        &mut self,
        at: Moment,
        (index, raw): (usize, &RawEventRecord<'_>),
        body: &Body<'_>,
    ) -> Result<(), SinkError> {
        if !raw.parse_info.branch_sample_format.contains(BranchSampleFormat::ANY) {
            self.branches.unusable += 1;
            return Ok(());
        }
        self.events.branched(index);
        for back in self.branches.take(at.pid, body.branches.triples()) {
            let mut frame = |address: u64| {
                let (ip, chain) = (RemoteAddr(address), [address]);
                let position = Position { kernel: &[], ip, user: None, chain: &chain, guest: None };
                self.recorder.stack_of(at, position)
            };
            let frames = (frame(back.from)?, frame(back.to)?);
            self.branches.name(at.pid, back, frames);
        }
        Ok(())
    }

    /// Registers of a copied stack, where this machine can unwind it.
    fn copied(&mut self, raw: &RawEventRecord<'_>, body: &Body<'_>) -> Option<Registers> {
        let registers = body.registers.filter(|_| !body.stack.is_empty())?;
        if !self.events.is_of_this_architecture {
            self.taken.foreign_stacks += 1;
            return None;
        }
        let mask = raw.parse_info.sample_regs_user;
        let found = REGISTER_NUMBERS.map(|register| {
            let before = (mask & ((1 << register) - 1)).count_ones();
            registers.get(before as usize).filter(|_| mask >> register & 1 == 1)
        });
        let size = u32::try_from(body.stack.len()).unwrap_or(u32::MAX);
        self.taken.stack_bytes = self.taken.stack_bytes.max(size);
        let mut registers = [0; REGISTER_NUMBERS.len()];
        for (slot, found) in registers.iter_mut().zip(found) {
            *slot = found?;
        }
        Some(registers)
    }
}

/// The number of an event as facts have it.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The call chain within the kernel, and that of the program.
fn chains(mode: CpuMode, body: &Body<'_>) -> (Vec<u64>, Vec<u64>) {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let chain = body.chain;
    let mut into = match mode {
        CpuMode::User => Some(&mut user),
        CpuMode::Kernel | CpuMode::Hypervisor => Some(&mut kernel),
        _ => None,
    };
    for number in 0..chain.len().min(MOST_FRAMES) {
        match chain.get(number) {
            Some(CONTEXT_KERNEL) => into = Some(&mut kernel),
            Some(CONTEXT_USER) => into = Some(&mut user),
            // Of a guest or a hypervisor: no address space here knows them.
            Some(mark) if mark >= CONTEXT_MAX => into = None,
            Some(address) => {
                if let Some(into) = &mut into {
                    into.push(address);
                }
            }
            None => break,
        }
    }
    (kernel, user)
}

/// The program's call chain where the hardware keeps calls that did not return (LBR, `perf record --call-graph lbr`): they replace what
/// was found by frame pointers, except for the innermost frame. As in `perf` (`lbr_callchain_add_lbr_ip` of tools/perf/util/machine.c), whose
/// innermost frame is the beginning of the called function.
fn call_chain_of_branches(body: &Body<'_>, chain: &mut Vec<u64>, ip: RemoteAddr, in_kernel: bool) {
    let mut calls = body.branches.triples().take(MOST_FRAMES).peekable();
    let Some([_, entered, _]) = calls.peek().copied() else { return };
    chain.truncate(1);
    if chain.is_empty() {
        chain.push(if in_kernel || ip.0 == 0 { entered } else { ip.0 });
    }
    // Chains have return addresses, whose frame is that of the byte before.
    chain.extend(calls.map(|[from, ..]| from.saturating_add(1)));
}

/// What a fault event counts.
fn fault_kind(name: &str) -> Option<FaultKind> {
    match name.split(':').next()? {
        "page-faults" | "faults" | "minor-faults" => Some(FaultKind::Minor),
        "major-faults" => Some(FaultKind::Major),
        _ => None,
    }
}
