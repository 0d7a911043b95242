//! Entries into the kernel, counted and timed where they happen.
//!
//! What for: `collect system-overview`. Programs at the kernel's tracepoints add up count and time per thread, cause
//! and CPU (`programs.rs`). Ten times a second the sums are read, and their growth becomes [`KernelEntry`] facts. No
//! entry is handed over by itself, so none is lost, except where the table has no room; those are counted. Where
//! programs are refused, perf counts entries of the program as a whole (`totals.rs`), and `/proc` those of the
//! machine (`counts.rs`). What not: call stacks and addresses of faults (the sampler has them), the meaning of the
//! figures.
//!
//! A page fault has a tracepoint at its start only. Its end is where the kernel counts it, as a software event of
//! perf (`mm_account_fault`, mm/memory.c), at which a program may run too. Where that is refused, and where faults
//! come in storms (`storms.rs`), they are counted at their start and their time is sampled. Programs at the start and
//! end of kernel functions (fentry, kprobe) are not available in every kernel. No entry's time includes the
//! processor's own way into and out of the kernel, some 100 ns.
//!
//! Assumption: thread numbers are those of the first pid name space. In another one the programs would see other
//! numbers than we do, so they are not used there.

mod assembler;
mod counts;
mod names;
mod programs;
mod storms;
mod system_calls;
mod tables;
mod totals;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::CStr;

use base::{CpuId, Nanos, Pid, ThreadId, Tid};
use facts::{Fact, KernelCause, KernelEntry, LostSource, SinkError};
use sys::bpf::{AttachError, Map, MapKind, Program};
use sys::perf::{Attr, Counting, Event, Flag, OpenTarget, SoftwareEvent};

use crate::perf::ALL_THREADS;
use crate::proc_status::in_first_pid_name_space;
use crate::ptrace_sampler::thread_name;
use crate::recorder::Recorder;
use counts::{Counts, Growth};
use names::Names;
use programs::{Faults, Work, program};
use storms::Storms;
use tables::{CPU_BYTES, KEY_BYTES, SLOT_BYTES, Tables, VALUE_BYTES, cause};
use totals::Totals;
pub use totals::Watched;

/// Room for (thread, cause, CPU) keys; 6 MB of kernel memory.
const ENTRIES: u32 = 1 << 16;
/// Most threads that wait for a CPU at the same time.
const READY: u32 = 1 << 14;
/// Most slots of threads; 7 MB.
const SLOTS_MOST: u32 = 1 << 16;
/// The first reading is early: a storm of page faults may begin with the program.
const FIRST_LOOK: Nanos = Nanos(20_000_000);
/// Length of the first bins, and the number of facts after which it doubles: the size of a result then grows with the
/// logarithm of the time.
const BIN: Nanos = Nanos(100_000_000);
const FACTS_PER_WIDTH: u64 = 200_000;

/// The tracepoints and their work. Interrupts of the processor exist on x86 only.
const TRACEPOINTS: [(&CStr, Work); 11] = [
    (c"sched_switch", Work::Switches),
    (c"sched_wakeup", Work::Wakes),
    (c"sched_wakeup_new", Work::Wakes),
    (c"irq_handler_entry", Work::InterruptBegins),
    (c"irq_handler_exit", Work::InterruptEnds(None)),
    (c"softirq_entry", Work::SoftBegins),
    (c"softirq_exit", Work::SoftEnds),
    (c"tlb_flush", Work::Counts(cause::TLB_FLUSH)),
    (c"sched_process_exit", Work::CallEnds),
    (c"sys_exit", Work::CallEnds),
    // Attached last: a begin whose end was not observed yet would be taken for the begin of the next call.
    (c"sys_enter", Work::CallBegins),
];

/// Why the kernel does not run our programs.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// bpf(2) is refused.
    #[error(
        "the kernel takes no tracing programs from this user ({0}): run as root, or give CAP_BPF and CAP_PERFMON"
    )]
    Maps(std::io::Error),
    /// A program was not accepted.
    #[error("the kernel does not accept the program at {at}: {error}")]
    Program {
        /// Its tracepoint.
        at: String,
        /// What the kernel said.
        error: AttachError,
    },
    /// We are in another pid name space.
    #[error(
        "in this container processes have other numbers than the kernel's tracing programs see: run outside of it"
    )]
    NameSpace,
}

type Key = [u8; KEY_BYTES];

/// Tries whether programs may run at the kernel's tracepoints here. Takes some ten milliseconds.
///
/// # Errors
/// Why not.
pub fn try_here(cpus: &[CpuId]) -> Result<(), TraceError> {
    Programs::start(cpus, &mut Vec::new()).map(|_| ())
}

/// The programs, and their counts at the last reading.
struct Programs {
    tables: Tables,
    running: Vec<Program>,
    /// Ends of page faults, where programs may run at them.
    fault_ends: Vec<Event>,
    /// Decides whether they are observed at present.
    storms: Storms,
    before: HashMap<Key, [u64; 3]>,
    announced: HashSet<ThreadId>,
}

/// The recording of entries into the kernel.
pub struct KernelTrace {
    programs: Option<Programs>,
    counts: Counts,
    totals: Option<Totals>,
    names: Names,
    whole_machine: bool,
    /// Entries of processes that were not known to belong to the program when they were read.
    held: Vec<KernelEntry>,
    last: Nanos,
    width: Nanos,
    pushed: u64,
    fault_watching: Nanos,
    /// Notes for the reader.
    notes: Vec<String>,
}

impl KernelTrace {
    /// Starts recording. With `watched`, of one program: entries of processes that the recorder does not know are
    /// summed as process 0. Without, every process by itself.
    #[must_use]
    pub fn start(cpus: &[CpuId], watched: Option<&Watched>) -> KernelTrace {
        let mut notes = Vec::new();
        let (mut programs, mut totals) = (None, None);
        match Programs::start(cpus, &mut notes) {
            Ok(started) => programs = Some(started),
            Err(error) => {
                totals = watched.and_then(Totals::open);
                let program = match totals {
                    Some(_) => "for the program as a whole, counted by perf, and ",
                    None => "",
                };
                notes.push(format!(
                    "entries into the kernel are known {program}for the whole machine and without their time only, from \
                     /proc: {error}"
                ));
            }
        }
        KernelTrace {
            counts: Counts::start(programs.is_none()),
            totals,
            whole_machine: watched.is_none(),
            programs,
            names: Names::new(),
            held: Vec::new(),
            last: Nanos(0),
            width: BIN,
            pushed: 0,
            fault_watching: Nanos(0),
            notes,
        }
    }

    /// Sets time zero of the recording: earlier counts do not belong to it.
    pub fn begin(&mut self) {
        if let Some(programs) = &mut self.programs {
            let _ = programs.grown();
        }
        let _ = self.counts.grown();
        let _ = self.totals.as_mut().map(Totals::grown);
    }

    /// Takes the counts since the last call, when a bin is full.
    pub fn look(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        if now < self.due() { Ok(()) } else { self.take(now, recorder) }
    }

    /// When the next reading is due.
    #[must_use]
    pub fn due(&self) -> Nanos {
        if self.last == Nanos(0) { FIRST_LOOK } else { self.last + self.width }
    }

    /// Ends recording and takes the rest. Returns notes, and an estimate of how much longer the program's page faults
    /// took because of the observation.
    pub fn finish(
        mut self,
        now: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(Vec<String>, Nanos), SinkError> {
        self.take(now, recorder)?;
        let held = std::mem::take(&mut self.held);
        self.pass_on(held, recorder)?;
        if let Some(programs) = &self.programs {
            recorder.lost(now, LostSource::KernelEntries, programs.lost())?;
        }
        Ok((self.notes, self.fault_watching))
    }

    fn take(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let length = now - self.last;
        self.last = now;
        let held = std::mem::take(&mut self.held);
        self.pass_on(held, recorder)?;
        let machine = self.counts.grown().into_iter().map(|growth| (Pid(0), growth));
        let program = self.totals.iter_mut().flat_map(|totals| {
            let pid = totals.pid;
            totals.grown().into_iter().map(move |growth| (pid, growth))
        });
        for (pid, Growth { cause, cpu, name, count }) in machine.chain(program).collect::<Vec<_>>()
        {
            let (tid, own, waited) = (Tid(0), None, Nanos(0));
            let entry =
                KernelEntry { time: now, length, pid, tid, cpu, cause, name, count, own, waited };
            self.push(entry, recorder)?;
        }
        let Some(programs) = &mut self.programs else { return Ok(()) };
        let mut fresh = Vec::new();
        let times_faults = programs.times_faults();
        for (key, [count, own, waited]) in programs.grown() {
            let word =
                |at: usize| u32::from_le_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
            let Some((cause, name)) = self.names.of(word(8)) else { continue };
            let timed = cause.is_entry() && (cause != KernelCause::PageFault || times_faults);
            fresh.push(KernelEntry {
                time: now,
                length,
                pid: Pid(word(4) as i32),
                tid: Tid(word(0) as i32),
                cpu: Some(CpuId(word(12))),
                cause,
                name,
                count,
                own: timed.then_some(Nanos(own)),
                waited: Nanos(waited),
            });
        }
        programs.watch_or_count(length, &fresh);
        if self.whole_machine {
            // They began at some time in this bin; the sampler, which is one reading late, may report their end in
            // it.
            programs.announce(now - length, &fresh, recorder)?;
            fresh.into_iter().try_for_each(|entry| self.push(entry, recorder))
        } else {
            // The sampler reports births; its records are one reading late.
            self.held = fresh;
            Ok(())
        }
    }

    fn pass_on(
        &mut self,
        entries: Vec<KernelEntry>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let mut others: BTreeMap<(KernelCause, String, Option<CpuId>), KernelEntry> =
            BTreeMap::new();
        for entry in entries {
            if recorder.has_seen(entry.pid) {
                self.push(entry, recorder)?;
                continue;
            }
            let key = (entry.cause, entry.name.clone(), entry.cpu);
            match others.get_mut(&key) {
                Some(sum) => {
                    sum.count += entry.count;
                    sum.own = sum.own.zip(entry.own).map(|(sum, own)| sum + own);
                    sum.waited += entry.waited;
                }
                None => {
                    others.insert(key, KernelEntry { pid: Pid(0), tid: Tid(0), ..entry });
                }
            }
        }
        others.into_values().try_for_each(|entry| self.push(entry, recorder))
    }

    fn push(&mut self, entry: KernelEntry, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.pushed += 1;
        if self.programs.is_some() && entry.cause == KernelCause::PageFault && entry.pid != Pid(0) {
            self.fault_watching += storms::cost(&entry);
        }
        if self.pushed.is_multiple_of(FACTS_PER_WIDTH) {
            self.width = self.width + self.width;
        }
        recorder.push(Fact::KernelEntry(entry))
    }
}

impl Programs {
    fn start(cpus: &[CpuId], notes: &mut Vec<String>) -> Result<Programs, TraceError> {
        if !in_first_pid_name_space() {
            return Err(TraceError::NameSpace);
        }
        let tables = Programs::tables(cpus).map_err(TraceError::Maps)?;
        let mut programs = Programs {
            tables,
            running: Vec::new(),
            fault_ends: Vec::new(),
            storms: Storms::default(),
            before: HashMap::new(),
            announced: HashSet::new(),
        };
        for (vector, name) in names::VECTORS.iter().enumerate() {
            let vector = Work::InterruptEnds(Some(vector as u32));
            // Other architectures, and kernels without one of the interrupts, have no such tracepoint.
            let begins = programs.watch_vector(name, "entry", Work::InterruptBegins);
            let ends = begins.and_then(|()| programs.watch_vector(name, "exit", vector));
            if let Err(error) = ends
                && cfg!(target_arch = "x86_64")
                && error.error.raw_os_error() != Some(2)
            {
                notes.push(format!("interrupts of the kind {name} are not seen: {error}"));
            }
        }
        let faults = match programs.watch_fault_ends(cpus) {
            Ok(()) => Faults::Timed,
            Err(error) => {
                notes.push(format!("the time of page faults is sampled, not counted: {error}"));
                Faults::Counted
            }
        };
        let faults = [
            (c"page_fault_user", Work::FaultInProgram(faults)),
            (c"page_fault_kernel", Work::FaultInKernel(faults)),
        ];
        for (name, work) in faults.into_iter().chain(TRACEPOINTS) {
            match Program::attach(name, &program(work, &programs.tables)) {
                Ok(program) => programs.running.push(program),
                Err(error) if matches!(work, Work::CallBegins | Work::CallEnds) => {
                    let at = name.to_string_lossy().into_owned();
                    return Err(TraceError::Program { at, error });
                }
                Err(error)
                    if matches!(work, Work::FaultInProgram(_) | Work::FaultInKernel(_))
                        && !cfg!(target_arch = "x86_64")
                        && error.error.raw_os_error() == Some(2) =>
                {
                    let note = "page faults have no rows by cause: unavailable on aarch64, whose kernel has no tracepoint of them";
                    if !notes.iter().any(|known| known == note) {
                        notes.push(note.to_owned());
                    }
                }
                Err(error) => notes.push(format!(
                    "the kernel's tracepoint {} is not watched: {error}",
                    name.to_string_lossy()
                )),
            }
        }
        Ok(programs)
    }

    fn tables(cpus: &[CpuId]) -> std::io::Result<Tables> {
        let highest: u32 = std::fs::read_to_string("/proc/sys/kernel/pid_max")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(SLOTS_MOST);
        let slot_count = highest.clamp(1, SLOTS_MOST).next_power_of_two();
        let cpu_count = cpus.iter().map(|cpu| cpu.0 + 1).max().unwrap_or(1);
        let (array, hash) = (MapKind::Array, MapKind::Hash);
        Ok(Tables {
            entries: Map::new(hash, KEY_BYTES, VALUE_BYTES, ENTRIES)?,
            slots: Map::new(array, 4, SLOT_BYTES, slot_count + cpu_count)?,
            slot_count,
            cpus: Map::new(array, 4, CPU_BYTES, cpu_count)?,
            ready: Map::new(hash, 8, 8, READY)?,
            mode: Map::new(array, 4, 8, 1)?,
            lost: Map::new(array, 4, 8, 1)?,
        })
    }

    /// The kernel counts each fault that it has handled as minor or as major.
    fn watch_fault_ends(&mut self, cpus: &[CpuId]) -> Result<(), AttachError> {
        let refused = |error| AttachError { error, log: String::new() };
        let mut ends = Vec::new();
        for event in [SoftwareEvent::MinorFaults, SoftwareEvent::MajorFaults] {
            let attr = Attr::software(event).period(1).flags(&[Flag::Disabled]);
            for cpu in cpus {
                let target = OpenTarget { tid: ALL_THREADS, cpu: Some(*cpu) };
                ends.push(sys::perf::open(&attr, target).map_err(refused)?);
            }
        }
        let program = program(Work::FaultEnds, &self.tables);
        self.running.push(Program::attach_to_events(&ends, &program)?);
        ends.iter().try_for_each(|event| event.set(Counting::On)).map_err(refused)?;
        self.fault_ends = ends;
        Ok(())
    }

    fn watch_vector(&mut self, name: &str, end: &str, work: Work) -> Result<(), AttachError> {
        let name = std::ffi::CString::new(format!("{}_{end}", name.replace(' ', "_")));
        let name = name.map_err(|error| AttachError { error: error.into(), log: String::new() })?;
        self.running.push(Program::attach(&name, &program(work, &self.tables))?);
        Ok(())
    }

    fn times_faults(&self) -> bool {
        !self.fault_ends.is_empty() && !self.storms.is_counting()
    }

    /// Observes the ends of faults while there are few. A fault that began before is not counted twice, because its
    /// thread's slot has no begin.
    fn watch_or_count(&mut self, length: Nanos, entries: &[KernelEntry]) {
        let was_counting = self.storms.is_counting();
        self.storms.seen(length, entries);
        let counts = self.storms.is_counting();
        if self.fault_ends.is_empty() || counts == was_counting {
            return;
        }
        // The map and the events are ours, so no error is expected; at worst ends of faults are still reported, or
        // still not.
        let watch = |to| self.fault_ends.iter().for_each(|event| drop(event.set(to)));
        let set_mode = || drop(self.tables.mode.set(&[0; 4], &u64::from(counts).to_le_bytes()));
        // Ends must be reported as long as faults are timed.
        if counts {
            set_mode();
            watch(Counting::Off);
        } else {
            watch(Counting::On);
            set_mode();
        }
    }

    /// The growth of every entry since the last call.
    fn grown(&mut self) -> Vec<(Key, [u64; 3])> {
        let mut grown = Vec::new();
        let mut idle = Vec::new();
        let before = &mut self.before;
        let read = self.tables.entries.read_all(|key, value| {
            let (Some(key), words) = (key.first_chunk::<KEY_BYTES>(), value.as_chunks::<8>().0)
            else {
                return;
            };
            let &[count, own, waited] = words else { return };
            let now = [count, own, waited].map(u64::from_le_bytes);
            let old = before.insert(*key, now).unwrap_or([0; 3]);
            // A key that was removed and came again begins at 0; a key that is read while it moves may come twice.
            let growth = std::array::from_fn(|at| now[at].saturating_sub(old[at]));
            if growth == [0; 3] { idle.push(*key) } else { grown.push((*key, growth)) }
        });
        // A table that was read before gives no error; what it withheld comes with the next reading.
        if read.is_ok() && self.before.len() > ENTRIES as usize / 4 * 3 {
            self.forget_the_dead(&idle);
        }
        grown
    }

    /// Makes room: removes keys that did not grow, of threads that have ended.
    fn forget_the_dead(&mut self, idle: &[Key]) {
        let mut gone: HashMap<[u8; 4], bool> = HashMap::new();
        for key in idle {
            let tid = [key[0], key[1], key[2], key[3]];
            let number = u32::from_le_bytes(tid);
            let is_gone = *gone.entry(tid).or_insert_with(|| {
                number != 0 && !std::path::Path::new(&format!("/proc/{number}")).exists()
            });
            if is_gone && self.tables.entries.delete(key).is_ok() {
                self.before.remove(key);
            }
        }
    }

    /// Announces threads that the recorder does not know, because its sampler gets no births.
    fn announce(
        &mut self,
        now: Nanos,
        entries: &[KernelEntry],
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        for entry in entries {
            if entry.pid.0 > 0 && self.announced.insert(ThreadId::new(entry.pid, entry.tid)) {
                let name = thread_name(entry.pid, entry.tid);
                // A thread that has ended has no name, and would never end in the recording.
                if !name.is_empty() {
                    recorder.thread_started(now, entry.pid, entry.tid, &name)?;
                }
            }
        }
        Ok(())
    }

    /// Entries without room, and programs that did not run because they were running already.
    fn lost(&self) -> u64 {
        let full = self.tables.lost.lookup(&[0; 4]).ok().flatten();
        let full =
            full.and_then(|value| value.first_chunk().copied()).map_or(0, u64::from_le_bytes);
        full + self.running.iter().map(Program::missed).sum::<u64>()
    }
}
