//! One traced process: its code, its code cache, and how the cache gets into the process.
//!
//! What for: the state of a process between bursts. What not: which thread is traced and when (`worker`, `picker`).

use std::time::Instant;

use base::{Nanos, Pid, RemoteAddr, Tid, mixed};
use facts::BurstFlavour;
use sys::process;
use tracee::status::{FaultCounts, ThreadFile, field, status_of, threads_in};
use x86::translate::area::COUNTER_COUNT;

use crate::cache::{Cache, REACH, reserved};
use crate::code_map::{CodeMap, Places};
use crate::native_addresses::NativeAddresses;
use crate::odometers::Odometers;
use crate::placement::Placement;
use crate::refused::Refused;
use crate::remote_call::{CallError, RemoteCalls, are_filtered};
use crate::schedule::Schedule;
use crate::space::{Faults, REGION_BYTES, Space};
use crate::tracer::Pages;
use crate::visit::{Visit, elapsed, signal_of};

/// Basic blocks translated around a sample.
const PER_SAMPLE: usize = 32;

/// A process as far as bursts are concerned.
pub struct Program {
    /// The process.
    pub pid: Pid,
    /// Its code.
    pub code: CodeMap,
    /// Its page faults are in this file; and how many there were when its code was compared.
    stat: Option<ThreadFile>,
    faults: Option<FaultCounts>,
    stages: [Stage; 3],
    /// A thread reached code that was in no mapping when we last read them.
    outdated: bool,
    /// A thread reached code that is out of reach of every region of the cache.
    far: Option<RemoteAddr>,
    /// Free places for what the next visit brings in.
    places: Option<Places>,
    /// Basic blocks of the last burst that traced.
    recent: Vec<RemoteAddr>,
    /// The caches of traces and windows when the first one was last prepared.
    prepared: [(usize, usize); 2],
    /// What the next burst is for.
    pub schedule: Schedule,
    /// Its words that rise.
    pub odometers: Odometers,
    native_addresses: NativeAddresses,
}

/// The progress of one flavour's cache.
enum Stage {
    Nothing,
    Opened(Space),
    Ready(Box<Cache>),
    /// There will be no cache.
    Refused(Refused),
}

impl Stage {
    /// Whether its memory is no longer where we left it in the process.
    fn is_elsewhere(&self, pid: Pid) -> bool {
        match self {
            Stage::Opened(space) => !space.is_in(pid),
            Stage::Ready(cache) => !cache.space.is_in(pid),
            Stage::Nothing | Stage::Refused(_) => false,
        }
    }
}

impl Program {
    /// Examines a process without changing it.
    pub fn examine(pid: Pid, native_addresses: NativeAddresses) -> Result<Program, Refused> {
        may_be_traced(pid)?;
        let stat = ThreadFile::of_process(pid, "stat");
        let now = stat.as_ref().and_then(ThreadFile::read);
        let code = CodeMap::read(pid, !is_alone(now.as_deref()));
        let stages = [Stage::Nothing, Stage::Nothing, Stage::Nothing];
        let (recent, schedule) = (Vec::new(), Schedule::default());
        Ok(Program {
            pid,
            code,
            stat,
            faults: None,
            stages,
            outdated: false,
            far: None,
            places: None,
            recent,
            prepared: Default::default(),
            schedule,
            odometers: Odometers::default(),
            native_addresses,
        })
    }

    fn stage(&mut self, flavour: BurstFlavour) -> &mut Stage {
        &mut self.stages[stage_of(flavour)]
    }

    /// The cache and the process's code, once the cache is ready.
    pub fn ready(&mut self, flavour: BurstFlavour) -> Option<(&mut Cache, &CodeMap)> {
        match &mut self.stages[stage_of(flavour)] {
            Stage::Ready(cache) => Some((cache, &self.code)),
            _ => None,
        }
    }

    /// Why there will be no cache, if so.
    pub fn refused(&mut self, flavour: BurstFlavour) -> Result<(), Refused> {
        let pid = self.pid;
        match self.stage(flavour) {
            nothing @ Stage::Nothing if !process::has_room_for(pid, Space::MOST_BYTES) => {
                *nothing = Stage::Refused(Refused::NoRoom);
                Err(Refused::NoRoom)
            }
            Stage::Refused(refused) => Err(*refused),
            _ => Ok(()),
        }
    }

    /// Compares the code that was translated with the process's current code, and empties the cache if they differ.
    /// The process runs meanwhile, but no thread of it is in translated code.
    pub fn refresh(&mut self) {
        let stat = self.stat_now();
        self.faults = stat.as_deref().and_then(FaultCounts::parse);
        // Once there were several threads, it stays so: most programs that end them start them again.
        let changeable = self.code.is_changeable() || !is_alone(stat.as_deref());
        let mut unchanged = changeable == self.code.is_changeable() && self.code.is_unchanged();
        if !unchanged {
            self.code = CodeMap::read(self.pid, changeable);
        } else if std::mem::take(&mut self.outdated) {
            unchanged = self.code.update();
        }
        for stage in &mut self.stages {
            if let Stage::Ready(cache) = stage
                && (!unchanged || cache.is_full())
            {
                cache.clear();
            }
        }
    }

    fn stat_now(&self) -> Option<String> {
        self.stat.as_ref()?.read()
    }

    /// Whether the code is still as [`Program::refresh`] found it, while the thread that is to run it stands still. It ran
    /// meanwhile, and may have loaded another library where one was. But what is mapped anew is not run without a page fault;
    /// pages that are mapped in advance count as faults, too (`mm_account_fault`, mm/memory.c). So code is compared again only
    /// where there was one.
    pub fn is_as_compared(&mut self) -> bool {
        let stat = self.stat_now();
        if !self.code.is_changeable() && !is_alone(stat.as_deref()) {
            return false;
        }
        let faults = stat.as_deref().and_then(FaultCounts::parse);
        (faults.is_some() && faults == self.faults) || self.code.is_unchanged()
    }

    /// Notes the blocks that a trace recorded.
    pub fn note_recent(&mut self, blocks: &[u32]) {
        if let Stage::Ready(cache) = self.stage(BurstFlavour::Trace) {
            self.recent = cache.basic_blocks(blocks);
        }
    }

    /// Translates the code of the last trace, for a count window or timed loads: at most `most` blocks, with those
    /// that they lead to. No thread of the process is in translated code.
    pub fn prepare(&mut self, flavour: BurstFlavour, most: usize, next_id: &mut u32) {
        let Stage::Ready(cache) = &mut self.stages[stage_of(flavour)] else { return };
        // Empty the cache, so that another load of each block is timed than last time: a short run would otherwise
        // time one of many.
        if flavour == BurstFlavour::Timed {
            cache.clear();
        }
        cache.translate_all(&self.code, &self.recent, most, next_id);
        cache.translate_waiting(&self.code, most, next_id);
    }

    /// Translates for traces where windows came to, at most `most` blocks. No thread of the process is in translated code.
    pub fn prepare_traces(&mut self, most: usize, next_id: &mut u32) {
        let [traces, counts, _] = &mut self.stages;
        if let (Stage::Ready(traces), Stage::Ready(counts)) = (traces, counts) {
            let sizes = [traces.size(), counts.size()];
            if sizes == self.prepared {
                return;
            }
            traces.translate_reached(&self.code, &counts.came_to(), most, next_id);
            let after = [traces.size(), counts.size()];
            if after[0].0 - sizes[0].0 < most {
                self.prepared = after;
            }
        }
    }

    /// Translates for windows what samples show, at most `most` blocks, and no more than half of what there is room for: a full cache
    /// is emptied. No thread of the process is in translated code.
    pub fn prepare_seen(&mut self, seen: &mut Vec<RemoteAddr>, most: usize, next_id: &mut u32) {
        let Stage::Ready(cache) = &mut self.stages[stage_of(BurstFlavour::Count)] else { return };
        let most = (cache.size().0 + most).min(COUNTER_COUNT / 2);
        while cache.size().0 < most
            && let Some(at) = seen.pop()
        {
            cache.translate_ahead(&self.code, at, PER_SAMPLE, next_id);
        }
    }

    /// Notes what kept a thread from going on in translated code.
    pub fn note_missing(&mut self, at: RemoteAddr, why: Refused) {
        match why {
            Refused::JitCode => self.outdated = true,
            Refused::NoRoom if self.code.holds(at) => self.far = Some(at),
            _ => {}
        }
    }

    /// Before a visit, while the process runs: finds free places for what the visit will bring in, wherever the
    /// thread is by then.
    pub fn look_ahead(&mut self, flavour: BurstFlavour) {
        self.places = self.expects_set_up(flavour).then(|| Places::of(self.pid));
    }

    /// Whether a visit will first bring in something, wherever the thread is by then.
    pub fn expects_set_up(&mut self, flavour: BurstFlavour) -> bool {
        let far = self.far.unwrap_or_default();
        self.needs_set_up(flavour, far)
    }

    /// Whether a visit must first bring in a region of code.
    #[must_use]
    pub fn needs_set_up(&mut self, flavour: BurstFlavour, at: RemoteAddr) -> bool {
        let far = self.far;
        match self.ready(flavour) {
            None => true,
            Some((cache, code)) => {
                let needs = |at: RemoteAddr| code.holds(at) && cache.needs_region(at);
                cache.space.needs_populating() || needs(at) || far.is_some_and(needs)
            }
        }
    }

    /// Whether a stopped thread that comes from code of another flavour can go on in that of this one at once.
    ///
    /// `undisturbed`: it made no call meanwhile. Then nobody has changed the code of a process of one thread.
    pub fn leads_on(&mut self, flavour: BurstFlavour, at: RemoteAddr, undisturbed: bool) -> bool {
        let is_known =
            self.ready(flavour).is_some_and(|(cache, code)| cache.has(at) && code.is_there(at));
        is_known
            && !self.needs_set_up(flavour, at)
            && (undisturbed && !self.code.is_changeable()
                || !self.is_another_for(flavour) && self.is_as_compared())
    }

    /// Whether the process has executed another program since: then nothing of ours is in it.
    #[must_use]
    pub fn is_another(&self) -> bool {
        self.stages.iter().any(|stage| stage.is_elsewhere(self.pid))
    }

    /// The same before a burst, for the memory of its flavour alone.
    #[must_use]
    pub fn is_another_for(&self, flavour: BurstFlavour) -> bool {
        match &self.stages[stage_of(flavour)] {
            ready @ Stage::Ready(_) => ready.is_elsewhere(self.pid),
            _ => self.is_another(),
        }
    }

    /// Brings the cache, or a region of it near the wanted code, into the process. Releases the thread; returns how
    /// long it was stopped.
    pub fn set_up(
        &mut self,
        visit: Visit<'_>,
        placement: &mut Option<Placement>,
        flavour: BurstFlavour,
        cookie: u64,
    ) -> Nanos {
        // The program may have limited its address space since that was looked at, and executed itself.
        if self.refused(flavour).is_err() {
            return visit.leave(0);
        }
        let populating =
            self.ready(flavour).is_some_and(|(cache, _)| cache.space.needs_populating());
        // Try once: if it fails, the code stays without a region.
        let far = if populating { None } else { self.far.take() };
        let code = far.unwrap_or(visit.native.instruction_pointer());
        // Mappings change, so a place found earlier is used only if they are still the same.
        let ahead = self.places.take().filter(Places::hold);
        let places = ahead.unwrap_or_else(|| Places::of(self.pid));
        let size = match self.stage(flavour) {
            Stage::Ready(_) => REGION_BYTES as u64,
            _ => Space::CODE_BYTES,
        };
        let (Some(cave), Some(at)) = (places.cave(), places.gap_near(code, size, REACH)) else {
            // Memory that is already in the process stays until the end; only the first visit makes it.
            if matches!(self.stage(flavour), Stage::Nothing) {
                *self.stage(flavour) = Stage::Refused(Refused::NoRoom);
            }
            return visit.leave(0);
        };
        let since = visit.since;
        let made = match RemoteCalls::begin(visit.tid, &visit.native, cave, &visit.watch.alarm) {
            Ok(calls) => self.advance(&calls, flavour, at, cookie),
            Err(_) => Err(CallError::Trace),
        };
        end(visit, &made);
        let stood_still = elapsed(since);
        // The rest takes long and the thread does not wait for it: leave its CPU.
        placement.iter_mut().for_each(Placement::unpin);
        match self.stage(flavour) {
            Stage::Opened(space) => space.fill_region(),
            Stage::Ready(cache) => cache.space.fill_region(),
            Stage::Nothing | Stage::Refused(_) => {}
        }
        match made {
            Ok(()) => self.fill(flavour),
            // If a further region cannot be mapped, the others stay in use.
            Err(CallError::Refused | CallError::Trace)
                if !matches!(self.stage(flavour), Stage::Ready(_)) =>
            {
                *self.stage(flavour) = Stage::Refused(Refused::NoRoom);
            }
            Err(_) => {}
        }
        stood_still
    }

    fn advance(
        &mut self,
        calls: &RemoteCalls<'_>,
        flavour: BurstFlavour,
        at: RemoteAddr,
        cookie: u64,
    ) -> Result<(), CallError> {
        let reserved = reserved(flavour);
        let pid = self.pid;
        let stage = self.stage(flavour);
        if let Stage::Nothing = stage {
            *stage = Stage::Opened(Space::open(pid, flavour, calls, cookie)?);
        }
        match stage {
            Stage::Opened(space) => match space.map(calls, at, reserved) {
                // What the program has so far must not stay in it.
                Err(CallError::Refused) => space.remove(calls).and(Err(CallError::Refused)),
                done => done,
            },
            Stage::Ready(cache) if cache.space.needs_populating() => cache.space.populate(calls),
            Stage::Ready(cache) => cache.space.map_region(calls, at, reserved).map(|_| ()),
            Stage::Nothing | Stage::Refused(_) => Ok(()),
        }
    }

    /// Fills new memory while the program runs, because that takes long.
    fn fill(&mut self, of: BurstFlavour) {
        let stage = self.stage(of);
        if !matches!(stage, Stage::Opened(space) if space.is_ready()) {
            return;
        }
        let Stage::Opened(space) = std::mem::replace(stage, Stage::Nothing) else { return };
        space.make_pages();
        let native_addresses = self.native_addresses.clone();
        *self.stage(of) = Stage::Ready(Box::new(Cache::new(space, of, native_addresses)));
    }

    /// Adds the pages of a flavour that the kernel has newly counted for the process.
    pub fn note_pages(&mut self, flavour: BurstFlavour, pages: &mut Pages) {
        if let Stage::Ready(cache) = self.stage(flavour) {
            let Faults { populating, touched } = cache.space.new_faults();
            pages.populated += populating;
            pages.touched += touched;
        }
        let resident = self.stages.iter().map(|stage| match stage {
            Stage::Ready(cache) => cache.space.resident_bytes(),
            Stage::Nothing | Stage::Opened(_) | Stage::Refused(_) => 0,
        });
        pages.resident = pages.resident.max(resident.sum());
    }

    /// Whether anything of ours is in the process.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Opened(_) | Stage::Ready(_)))
    }

    /// Removes everything of ours from the process; `true` when nothing is left.
    pub fn remove(&mut self, visit: Visit<'_>) -> bool {
        let Some(cave) = Places::of(self.pid).cave() else {
            visit.leave(0);
            return false;
        };
        let removed = match RemoteCalls::begin(visit.tid, &visit.native, cave, &visit.watch.alarm) {
            Ok(calls) => self.remove_all(&calls),
            Err(_) => Err(CallError::Trace),
        };
        end(visit, &removed);
        removed.is_ok()
    }

    fn remove_all(&mut self, calls: &RemoteCalls<'_>) -> Result<(), CallError> {
        for stage in &mut self.stages {
            match stage {
                Stage::Opened(space) => space.remove(calls)?,
                Stage::Ready(cache) => cache.space.remove(calls)?,
                Stage::Nothing | Stage::Refused(_) => {}
            }
            *stage = Stage::Refused(Refused::NotRunning);
        }
        Ok(())
    }
}

/// Whether this `stat` is of a process of one thread. Then no other can begin within a burst: that takes a system call.
fn is_alone(stat: Option<&str>) -> bool {
    stat.and_then(threads_in) == Some(1)
}

/// Releases a thread that made calls for us, however these ended.
pub fn end(visit: Visit<'_>, made: &Result<(), CallError>) {
    match made {
        Ok(()) | Err(CallError::Refused | CallError::Trace) => {
            visit.leave(0);
        }
        Err(CallError::Stopped(stop)) => {
            visit.leave(signal_of(*stop));
        }
        Err(CallError::Gone) => visit.forget(),
        Err(CallError::Lost) => visit.abandon(),
    }
}

/// The index of the cache that a flavour uses: a flavour that runs another one's blocks shares its cache.
fn stage_of(flavour: BurstFlavour) -> usize {
    flavour.of_blocks() as usize
}

/// What in `/proc/PID/status` forbids tracing a process.
pub fn may_be_traced(pid: Pid) -> Result<(), Refused> {
    let status = status_of(pid, Tid(pid.0));
    if status.is_empty() {
        return Err(Refused::NotRunning);
    }
    if field(&status, "x86_Thread_features:").is_some_and(|text| text.contains("shstk")) {
        return Err(Refused::ShadowStack);
    }
    if are_filtered(&status) {
        return Err(Refused::SystemCallFilter);
    }
    let parent = field(&status, "PPid:").and_then(|text| text.parse().ok()).map(Pid);
    if let Some(parent) = parent
        && share_memory(pid, parent)
    {
        return Err(Refused::BorrowedMemory);
    }
    Ok(())
}

/// Whether a process runs in its parent's memory, as a vfork's child does. Where the kernel does not say, equal
/// mappings count as the same memory; the child of a fork is examined again when it has changed its own.
fn share_memory(pid: Pid, parent: Pid) -> bool {
    process::share_memory(pid, parent).unwrap_or_else(|| {
        let maps = tracee::maps::read(pid);
        !maps.is_empty() && maps == tracee::maps::read(parent)
    })
}

/// A number that no other mapping holds by chance: time and process id, mixed.
#[must_use]
pub fn cookie(pid: Pid, began: Instant) -> u64 {
    mixed(elapsed(began).0 ^ u64::from(pid.0.unsigned_abs()) << 40) | 1
}
