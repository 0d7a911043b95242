//! The tracing thread: it decides when a burst begins, begins it, and publishes its records.
//!
//! What for: the loop around bursts. What not: one burst (`run`), the rate of bursts (`budget`), the choice of a
//! thread (`picker`).

mod approach;
mod at_once;
mod behind;
mod leave;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, SyncSender};
use std::time::{Duration, Instant};

use base::{BurstId, CpuId, Nanos, Pid, RemoteAddr, ThreadId, Tid};
use facts::{Burst, BurstEnd, BurstFlavour};
use sys::kernels::read_tsc;
use sys::process;
use tracee::random::Random;

use crate::budget::Budget;
use crate::displaced::Displaced;
use crate::drain::{Content, Raw};
use crate::native_addresses::NativeAddresses;
use crate::picker::{Clock, Picker, Schedstat};
use crate::placement::{Placement, Side};
use crate::program::{Program, cookie};
use crate::refused::Refused;
use crate::run::{Allowance, Meters, Ran, run};
use crate::schedule::{Length, allowance, is_slow, slowdown};
use crate::space::RECORDS;
use crate::stop_cost::StopCost;
use crate::tracer::{Cost, Observation, Options, Shared, deliver, lock};
use crate::visit::{Blocked, Visit, Watch, elapsed};
pub use behind::BATCH;
use behind::BLOCKS_BETWEEN;

/// A process that may not be traced is looked at again after this: a vfork's child may execute another program.
const EXAMINE_AGAIN: Duration = Duration::from_secs(1);
/// The bursts of a pair are this part of the mean interval apart.
const PAIR: f64 = 0.25;
/// A thread that is not running its own code is tried so often, with a pause of this mean: random, so that a thread
/// whose waits have a period is not always met in the same part of it.
const TRIES: usize = 8;
const AGAIN: Nanos = Nanos(250_000);
const LATE_PAUSE: Duration = Duration::from_micros(500);
/// A pause of the recording may last for hours; whoever ends it wakes us.
const LONGEST_PARK: Duration = Duration::from_secs(60);
/// A thread that has a CPU and does not stop within this time is in the kernel: it fills a huge page, for example.
const IN_KERNEL: Duration = Duration::from_millis(1);
/// A CPU that is idle for this part of the time is free: a program of one thread leaves the other of two idle, except for
/// what we use of it.
const FREE: f64 = 0.75;
/// Who waits for a CPU for this part of the time that it has one has no free one: another program uses it.
const CROWDED: f64 = 0.5;
/// At first we take it that we had a CPU for so long without a wait.
const UNDISTURBED: Nanos = Nanos(1_000_000);
/// Visits until a flavour's first burst: the cache is mapped, then populated, then used. All three happen in one
/// turn: otherwise a short process would pay for its cache and end without a burst.
const VISITS: usize = 3;

/// Of code that samples show: basic blocks translated before a burst at most, half a millisecond.
const SEEN_BEFORE: usize = 300;
/// So many addresses of it wait for that in a process at most; the latest count.
const MOST_SEEN: usize = 1 << 12;

/// Why there was no burst, and where the thread was, if that is known.
type NoBurst = (Refused, Option<RemoteAddr>);

/// Where observations go.
pub struct Outlets {
    /// To the owner of the tracer.
    pub send: Sender<Observation>,
    /// To the consumer, which decodes first.
    pub send_raw: SyncSender<Vec<(Burst, Raw)>>,
}

/// The state of the tracing thread.
pub struct Worker {
    options: Options,
    /// Start of the recording.
    start: Nanos,
    shared: Arc<Shared>,
    outlets: Outlets,
    programs: HashMap<Pid, Program>,
    untraceable: HashMap<Pid, (Refused, Instant)>,
    picker: Picker,
    random: Random,
    began: Instant,
    next_block: u32,
    next_burst: u32,
    /// Bursts for which the consumer was not woken yet.
    pending: Vec<(Burst, Raw)>,
    cost: Cost,
    budget: Budget,
    displaced: Displaced,
    /// Our own clock, its last reading, and how long we waited for a CPU in the last turns.
    own: Option<(Clock, Schedstat)>,
    own_waits: Displaced,
    /// CPUs that we may use.
    cpus: f64,
    /// The time of the last pick and our CPU time then.
    picked: (Nanos, Nanos),
    native_addresses: NativeAddresses,
    placement: Option<Placement>,
    /// The CPU of the thread that was last examined.
    cpu: Option<CpuId>,
    length: Length,
    stop_cost: StopCost,
    /// Code that samples show, by process.
    code: HashMap<Pid, Vec<RemoteAddr>>,
    /// The last trace was slowed down by what it recorded.
    is_slowed: bool,
    /// Its count window followed in the same visit.
    is_counted: bool,
    /// Nothing of ours was in the process when its turn began.
    is_first: bool,
    /// A moment, and the time-stamp counter then.
    ticks: Option<(Instant, u64)>,
    /// The pause before the last turn was that of a pair.
    paired: bool,
}

impl Worker {
    /// Creates the worker; nothing is traced yet.
    #[must_use]
    pub fn new(
        options: Options,
        start: Nanos,
        shared: Arc<Shared>,
        outlets: Outlets,
        native_addresses: NativeAddresses,
    ) -> Worker {
        let mut random = Random::new(process::monotonic().0);
        let mut own_waits = Displaced::default();
        own_waits.note(0.0, UNDISTURBED.seconds());
        Worker {
            options,
            start,
            shared,
            outlets,
            programs: HashMap::new(),
            untraceable: HashMap::new(),
            picker: Picker::new(random),
            random: Random::new(random.number()),
            began: Instant::now(),
            next_block: 0,
            next_burst: 0,
            pending: Vec::new(),
            cost: Cost::default(),
            budget: Budget::default(),
            displaced: Displaced::default(),
            own: None,
            own_waits,
            cpus: std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64),
            picked: (process::monotonic(), process::own_usage().cpu()),
            native_addresses,
            placement: None,
            cpu: None,
            length: Length::Long,
            stop_cost: StopCost::default(),
            code: HashMap::new(),
            is_slowed: false,
            is_counted: false,
            is_first: false,
            ticks: read_tsc().map(|now| (Instant::now(), now)),
            paired: false,
        }
    }

    /// Traces until it is asked to stop.
    pub fn go(mut self) {
        // Created here, because its alarm belongs to the calling thread.
        let Ok(watch) = Watch::new() else { return };
        process::be_punctual();
        self.placement = Placement::new();
        self.own = Clock::own().and_then(|clock| clock.read().map(|now| (clock, now)));
        while !watch.has_abandoned() {
            // A thread that stops late must not stay stopped for long, but it may take hours until it stops.
            while watch.is_waiting() && !self.shared.stop.load(Ordering::Relaxed) {
                std::thread::park_timeout(LATE_PAUSE);
                self.release_late(&watch);
            }
            self.sleep_while_paused();
            let pause = self.pause();
            // Take our place by the CPU of the next thread and sleep there: a sleeping thread runs at once when its timer
            // expires.
            self.cpu = self.picker.foresee().or(self.cpu);
            self.pin();
            std::thread::park_timeout(pause);
            if self.shared.stop.load(Ordering::Relaxed) {
                self.hand_over();
                self.leave(&watch);
                return;
            }
            let processes = lock(&self.shared.processes).clone();
            self.programs.retain(|pid, _| processes.contains(pid));
            self.untraceable.retain(|_, (_, since)| since.elapsed() < EXAMINE_AGAIN);
            self.native_addresses.keep(&processes);
            for (pid, at) in std::mem::take(&mut *lock(&self.shared.code)) {
                let seen = self.code.entry(pid).or_default();
                if seen.len() >= MOST_SEEN {
                    seen.clear();
                }
                seen.push(at);
            }
            self.code.retain(|pid, _| processes.contains(pid));
            let picked = self.picker.pick(&processes);
            self.note_displaced();
            if let Some(thread) = picked {
                self.pay_for(thread, |worker| worker.turn(thread, &watch));
            }
            self.count_own();
            *lock(&self.shared.cost) = self.cost;
        }
    }

    /// Nothing is to be seen: the time does not count for the rate of bursts.
    fn sleep_while_paused(&mut self) {
        let began = Instant::now();
        let is_paused = |shared: &Shared| {
            shared.paused.load(Ordering::Relaxed) && !shared.stop.load(Ordering::Relaxed)
        };
        while is_paused(&self.shared) {
            std::thread::park_timeout(LONGEST_PARK);
        }
        self.began += began.elapsed();
        if self.shared.stop.load(Ordering::Relaxed) {
            // Whoever asks us to stop wakes us once.
            std::thread::current().unpark();
        }
    }

    /// A pause: uniform between half and one and a half of the mean, so that nothing in the program can keep step
    /// with us. The pause inside a pair of bursts is short, and the pause after the pair longer by as much.
    fn pause(&mut self) -> Duration {
        let next = self.budget.next(&self.options, elapsed(self.began));
        let is_long = (self.random.number() as f64) < next.long * u64::MAX as f64;
        self.length = match is_long {
            true => Length::Long,
            false => Length::Brief,
        };
        let mean = next.interval;
        let paired = std::mem::take(&mut self.paired);
        let part = if self.picker.is_pair_due() {
            self.paired = true;
            PAIR
        } else if paired {
            2.0 - PAIR
        } else {
            1.0
        };
        Duration::from_nanos(self.random.around(Nanos(mean.mul_f64(part).as_nanos() as u64)).0)
    }

    /// Charges a turn. A turn that stops no thread is charged to the next one that does: it tells nothing about the
    /// cost of bursts.
    fn pay_for(&mut self, thread: ThreadId, turn: impl FnOnce(&mut Worker)) {
        let (was_there, before) = (self.is_there(thread.pid), self.spent());
        let part = self.part();
        let stood_still = self.cost.stand_still;
        self.is_first = !was_there;
        turn(self);
        self.count_own();
        if !was_there && self.is_there(thread.pid) {
            let (its, own) = self.spent();
            self.budget.note_process(its - before.0, own - before.1, part);
        } else if self.cost.stand_still > stood_still {
            self.budget.note(&self.cost, self.length, part);
        }
    }

    /// The part of our CPU time that the program pays for, unless it stands still meanwhile.
    fn part(&self) -> f64 {
        if self.options.rationed { 1.0 } else { self.displaced.part() }
    }

    /// Whether the program leaves us a CPU, and others do.
    fn has_free_cpu(&self) -> bool {
        let is_left = self.picker.demand() + FREE <= self.cpus;
        !self.options.rationed && is_left && self.own_waits.part() < CROWDED
    }

    fn note_displaced(&mut self) {
        let now = (process::monotonic(), process::own_usage().cpu());
        let (time, own) = (now.0 - self.picked.0, now.1 - self.picked.1);
        self.picked = now;
        self.displaced.note(self.picker.waiting() * time.seconds(), own.seconds());
        if let Some((clock, before)) = &mut self.own
            && let Some(now) = clock.read()
        {
            // On a thread's CPU we wait for that thread. Then what was seen before fades, until we try another CPU again.
            let is_off = |(placement, cpu): (&Placement, _)| placement.is(cpu, Side::Other);
            let is_off = self.placement.as_ref().zip(self.cpu).is_some_and(is_off);
            let waited = if is_off { now.waited - before.waited } else { Nanos(0) };
            self.own_waits.note(waited.seconds(), (now.used - before.used).seconds());
            *before = now;
        }
    }

    /// Brings our own CPU time up to date.
    fn count_own(&mut self) {
        self.cost.tracer = process::thread_cpu_time();
        self.cost.consumer = Nanos(self.shared.consumer_cpu.load(Ordering::Relaxed));
    }

    /// Whether anything of ours is in a process.
    fn is_there(&self, pid: Pid) -> bool {
        self.programs.get(&pid).is_some_and(Program::is_there)
    }

    /// Time that the program spent, and we without the consumer.
    fn spent(&self) -> (Nanos, Nanos) {
        (self.cost.stand_still + self.cost.slowdown, process::thread_cpu_time())
    }

    /// The bursts of one thread. Count windows and timed loads only add to traces: if they are refused, no reason is
    /// recorded, because the traces record it.
    fn turn(&mut self, thread: ThreadId, watch: &Watch) {
        // The thread still exists: whatever follows, the program has not ended at this time.
        let time = process::monotonic() - self.start;
        if self.programs.get_mut(&thread.pid).is_some_and(|program| program.schedule.explores()) {
            let _ = self.tried(thread, BurstFlavour::Count, watch);
            return;
        }
        if self.length == Length::Brief {
            match self.tried(thread, BurstFlavour::Trace, watch) {
                // A count window gives the native speed of the code: a trace that was slowed down does not.
                Ok(true) if self.is_slowed && !self.is_counted => {
                    let _ = self.tried(thread, BurstFlavour::Count, watch);
                }
                Ok(_) => {}
                Err((reason, at)) => self.tell_refused(time, thread, at, reason),
            }
            return;
        }
        if self.next_flavour(thread.pid) == BurstFlavour::Timed {
            let _ = self.visits(thread, BurstFlavour::Timed, watch);
            if let Some(program) = self.programs.get_mut(&thread.pid) {
                program.schedule.note_timed();
            }
            return;
        }
        match self.tried(thread, BurstFlavour::Trace, watch) {
            Ok(true) => {
                let program = self.programs.get_mut(&thread.pid);
                // At once: the thread still does the same as in the trace.
                let is_slowed = self.is_slowed;
                let is_due = program.is_some_and(|program| program.schedule.note_trace(is_slowed));
                if is_due && !self.is_counted {
                    let _ = self.tried(thread, BurstFlavour::Count, watch);
                }
            }
            Ok(false) => {}
            Err((reason, at)) => self.tell_refused(time, thread, at, reason),
        }
    }

    /// A burst. A thread that does not run its own code at this moment is asked again soon: the next choice would be
    /// as likely to find it, or another one, in the kernel.
    fn tried(
        &mut self,
        thread: ThreadId,
        flavour: BurstFlavour,
        watch: &Watch,
    ) -> Result<bool, NoBurst> {
        for _ in 0..TRIES - 1 {
            match self.visits(thread, flavour, watch) {
                Err((Refused::NotRunning, _)) if self.may_go_on(watch) => {}
                result => return result,
            }
            std::thread::park_timeout(Duration::from_nanos(self.random.around(AGAIN).0));
        }
        self.visits(thread, flavour, watch)
    }

    fn may_go_on(&self, watch: &Watch) -> bool {
        !watch.has_abandoned() && !self.shared.stop.load(Ordering::Relaxed)
    }

    fn tell_refused(
        &self,
        time: Nanos,
        ThreadId { pid, tid }: ThreadId,
        at: Option<RemoteAddr>,
        reason: Refused,
    ) {
        // This is no limit of tracing: the thread was not running its own code at this moment.
        if reason == Refused::NotRunning {
            return;
        }
        let _ = self.outlets.send.send(Observation::Refused { time, pid, tid, at, reason });
    }

    fn next_flavour(&self, pid: Pid) -> BurstFlavour {
        let program = self.programs.get(&pid);
        program.map_or(BurstFlavour::Trace, |program| program.schedule.next())
    }

    /// A burst, with the visits that must precede the first of its flavour. False if there was none.
    fn visits(
        &mut self,
        thread: ThreadId,
        flavour: BurstFlavour,
        watch: &Watch,
    ) -> Result<bool, NoBurst> {
        for _ in 0..VISITS {
            if !self.may_go_on(watch) {
                return Ok(false);
            }
            if self.burst(thread, flavour, watch)? {
                return Ok(true);
            }
            if !self.is_there(thread.pid) {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Whether a burst took place, and not only a visit that must precede it.
    fn burst(
        &mut self,
        thread: ThreadId,
        flavour: BurstFlavour,
        watch: &Watch,
    ) -> Result<bool, NoBurst> {
        let nowhere = |refused| (refused, None);
        self.know(thread.pid).map_err(nowhere)?;
        let Some(program) = self.programs.get_mut(&thread.pid) else { return Ok(false) };
        program.refused(flavour).map_err(nowhere)?;
        if !program.is_there() {
            let used = self.picker.used(thread).unwrap_or_default();
            if !self.budget.pays_for_set_up(&self.options, elapsed(self.began), used) {
                return Ok(false);
            }
        }
        program.refresh();
        if let Some(seen) = self.code.get_mut(&thread.pid) {
            program.prepare_seen(seen, SEEN_BEFORE, &mut self.next_block);
        }
        if flavour != BurstFlavour::Trace {
            program.prepare(flavour, BLOCKS_BETWEEN, &mut self.next_block);
        }
        let sets_up = program.expects_set_up(flavour);
        self.approach(thread, sets_up).map_err(nowhere)?;
        let shared = Arc::clone(&self.shared);
        let mut waiting = lock(&shared.waiting);
        let result = self.visit(thread, flavour, watch);
        *waiting = watch.is_waiting();
        drop(waiting);
        if let Some(program) = self.programs.get_mut(&thread.pid) {
            for advance in program.odometers.take_advances() {
                let _ = self.outlets.send.send(Observation::WordAdvance(advance));
            }
            if let Ok(true) = result {
                program.odometers.watch(thread.pid, thread.tid);
            }
        }
        result
    }

    fn visit(
        &mut self,
        thread: ThreadId,
        flavour: BurstFlavour,
        watch: &Watch,
    ) -> Result<bool, NoBurst> {
        let began = process::thread_cpu_time();
        if let Some(program) = self.programs.get_mut(&thread.pid) {
            program.look_ahead(flavour);
        }
        let visit = self.begin(thread, watch).map_err(|refused| (refused, None))?;
        self.picker.note_stops(thread, 1);
        let at = visit.native.instruction_pointer();
        let here = |refused| (refused, Some(at));
        let Some(program) = self.programs.get_mut(&thread.pid) else { return Ok(false) };
        program.odometers.note_stop(thread.pid, thread.tid, visit.used);
        if let Err(refused) = visit.check() {
            self.cost.stand_still += visit.leave(0);
            return Err(here(refused));
        }
        if program.is_another_for(flavour) {
            self.cost.stand_still += visit.leave(0);
            self.programs.remove(&thread.pid);
            return Ok(false);
        }
        if program.needs_set_up(flavour, at) {
            let stood_still =
                program.set_up(visit, &mut self.placement, flavour, cookie(thread.pid, self.began));
            self.cost.stand_still += stood_still;
            program.note_pages(flavour, &mut self.cost.pages);
            // The first turn of a process is charged as a whole, elsewhere.
            if !self.is_first {
                let own = process::thread_cpu_time() - began;
                self.budget.note_set_up(stood_still, own, self.part());
            }
            return Ok(false);
        }
        if !program.is_as_compared() {
            self.cost.stand_still += visit.leave(0);
            return Ok(false);
        }
        self.run(thread.pid, visit, flavour).map_err(here)
    }

    /// Stops a thread in its own code. A thread that waits for a CPU stops only when it gets one; until then it is
    /// not stopped because of us. Its clock counts that wait when it ends (sched_info_arrive in
    /// kernel/sched/stats.h), perhaps with a part from before our request. A thread that took much longer came out of
    /// the kernel: we do not want to trace the code after a page fault.
    fn begin<'w>(&mut self, thread: ThreadId, watch: &'w Watch) -> Result<Visit<'w>, Refused> {
        let before = self.picker.read(thread);
        let mut visit = Visit::begin(thread.tid, watch, Blocked::LeaveAlone)?;
        let now = self.picker.read(thread);
        visit.used = now.as_ref().map(|now| now.used);
        let waited = before.zip(now).map_or(Nanos(0), |(before, now)| now.waited - before.waited);
        let waited = Duration::from_nanos(waited.min(elapsed(visit.asked)).0);
        visit.since = visit.since.max(visit.asked + waited);
        if visit.since.duration_since(visit.asked).saturating_sub(waited) > IN_KERNEL {
            self.cost.stand_still += visit.leave(0);
            return Err(Refused::NotRunning);
        }
        Ok(visit)
    }

    /// Makes sure that the process is known and examined.
    fn know(&mut self, pid: Pid) -> Result<(), Refused> {
        let Entry::Vacant(place) = self.programs.entry(pid) else { return Ok(()) };
        if let Some((refused, _)) = self.untraceable.get(&pid) {
            return Err(*refused);
        }
        match Program::examine(pid, self.native_addresses.clone()) {
            Ok(program) => place.insert(program),
            Err(refused) => {
                self.untraceable.insert(pid, (refused, Instant::now()));
                return Err(refused);
            }
        };
        Ok(())
    }

    fn run(&mut self, pid: Pid, visit: Visit<'_>, flavour: BurstFlavour) -> Result<bool, Refused> {
        let tid = visit.tid;
        let (at, since) = (visit.native.instruction_pointer(), visit.since);
        let mut allowance = self.allowance(flavour);
        let Some(program) = self.programs.get_mut(&pid) else { return Ok(false) };
        let reads = program.odometers.reads(tid).filter(|_| flavour == BurstFlavour::Count);
        let Some((cache, code)) = program.ready(flavour) else { return Ok(false) };
        let is_empty = self.length == Length::Brief && self.stop_cost.is_due();
        if is_empty {
            allowance = Allowance { misses: 0, listens: false, is_empty, ..allowance };
        }
        allowance.stays = flavour == BurstFlavour::Trace && !is_empty;
        let time = process::monotonic() - self.start;
        let clock = || self.picker.used(ThreadId::new(pid, tid));
        let counts_faults = flavour == BurstFlavour::Trace;
        let faults =
            || counts_faults.then(|| self.picker.faults(ThreadId::new(pid, tid))).flatten();
        let meters = Meters { clock: &clock, faults: &faults, reads };
        let ran = run(visit, cache, code, &allowance, &meters, &mut self.next_block);
        if ran.is_err() {
            self.cost.stand_still += elapsed(since);
        }
        let mut counted = None;
        let ran = ran.map(|(ran, visit)| {
            let undisturbed = ran.in_calls == Nanos(0);
            counted = visit.and_then(|visit| self.count_at_once(pid, visit, undisturbed));
            ran
        });
        self.is_counted = counted.is_some();
        // The thread runs natively again: what follows costs it nothing, elsewhere.
        if self.length == Length::Long {
            self.placement.iter_mut().for_each(Placement::unpin);
        }
        if is_empty {
            self.is_slowed = false;
            self.note_empty(since, ran);
            return Ok(true);
        }
        let missing = match &ran {
            Ok(ran) => ran.missing,
            Err(refused) => Some((at, *refused)),
        };
        let thread = ThreadId::new(pid, tid);
        self.note_missing(pid, missing);
        self.send_blocks(pid, flavour);
        let ran = ran.map(|ran| self.publish_all(thread, flavour, time, ran));
        self.look_behind(pid, flavour);
        if let Some((time, ran)) = counted {
            self.note_missing(pid, ran.missing);
            self.send_blocks(pid, BurstFlavour::Count);
            self.publish_all(thread, BurstFlavour::Count, time, ran);
            self.look_behind(pid, BurstFlavour::Count);
        }
        ran.map(|()| true)
    }

    fn allowance(&self, flavour: BurstFlavour) -> Allowance {
        let listens = self.has_free_cpu();
        let tick = self.ticks.map_or(0.0, |(began, at)| {
            elapsed(began).0 as f64 / read_tsc().unwrap_or(0).saturating_sub(at).max(1) as f64
        });
        let listens = listens && tick > 0.0;
        Allowance { listens, tick, ..allowance(flavour, self.options.longest, self.length) }
    }

    fn note_missing(&mut self, pid: Pid, missing: Option<(RemoteAddr, Refused)>) {
        if let Some((program, (at, why))) = self.programs.get_mut(&pid).zip(missing) {
            program.note_missing(at, why);
        }
    }

    fn note_empty(&mut self, since: Instant, ran: Result<Ran, Refused>) {
        let stood_still = ran.as_ref().map_or_else(|_| elapsed(since), |ran| ran.stand_still);
        self.cost.stand_still += stood_still;
        if let Some(took) =
            ran.ok().filter(|ran| ran.missing.is_none()).and_then(|ran| ran.cpu_time)
        {
            self.stop_cost.note(took);
            self.cost.stop = Some(self.stop_cost.median());
        }
    }

    /// Publishes a burst; of several windows each.
    fn publish_all(
        &mut self,
        ThreadId { pid, tid }: ThreadId,
        flavour: BurstFlavour,
        time: Nanos,
        mut ran: Ran,
    ) {
        let mut begin = time;
        for window in std::mem::take(&mut ran.before) {
            let next = begin + window.elapsed;
            self.publish(pid, tid, flavour, begin, window);
            begin = next;
        }
        if let Some(program) = self.programs.get_mut(&pid) {
            program.schedule.note_end(flavour, ran.end, ran.entries + ran.answers);
        }
        self.publish(pid, tid, flavour, begin, ran);
    }

    fn publish(&mut self, pid: Pid, tid: Tid, flavour: BurstFlavour, time: Nanos, ran: Ran) {
        let id = BurstId(self.next_burst);
        self.next_burst += 1;
        let mut burst = Burst {
            id,
            time,
            pid,
            tid,
            flavour,
            end: ran.end,
            elapsed: ran.elapsed,
            cpu_time: ran
                .cpu_time
                .map(|cpu_time| self.stop_cost.deduct_from(cpu_time, ran.entries)),
            stand_still: ran.stand_still,
            stops: ran.stops,
            fs_base: ran.fs_base,
            records: 0,
            records_lost: false,
            entries: Some(ran.entries),
            in_calls: Some(ran.in_calls),
            faults: ran.faults,
            answers: Some(ran.answers),
        };
        // The first stop was counted when the visit began.
        self.picker.note_stops(ThreadId::new(pid, tid), ran.stops - 1);
        self.cost.stand_still += ran.stand_still;
        self.cost.inside += burst.in_code();
        let Some(program) = self.programs.get_mut(&pid) else { return };
        let Some((cache, _)) = program.ready(flavour) else { return };
        let mut written = HashSet::new();
        let content = match flavour {
            BurstFlavour::Count | BurstFlavour::Sparse => {
                Content::Counts(ran.counts.unwrap_or_else(|| cache.take_counts()))
            }
            BurstFlavour::Trace | BurstFlavour::Timed => {
                let mut words = self.shared.buffer(ran.words);
                cache.space.memory().copy_words(RECORDS, ran.words, &mut words);
                if flavour == BurstFlavour::Trace {
                    written = cache.written(&words);
                }
                Content::Words { words, layouts: cache.layouts() }
            }
        };
        let tally = content.tally();
        if let Some(read) = ran.read {
            program.odometers.note_window(tid, id, read);
        }
        if flavour == BurstFlavour::Trace {
            program.note_recent(&tally.blocks);
            program.odometers.note_trace(tid, written);
        }
        let slowdown = slowdown(flavour, &tally, burst.cpu_time.unwrap_or(burst.in_code()));
        if flavour == BurstFlavour::Trace {
            // New code stops the thread again and again, so the trace was slowed down by more than its records. Where it ended for
            // that, a window tells at less cost what runs there.
            let ran = burst.in_code();
            self.is_slowed = burst.end == BurstEnd::Untranslated
                || is_slow(slowdown, ran - burst.stand_still.min(ran));
        }
        self.cost.slowdown += slowdown;
        let raw = Raw { burst: id, content };
        if matches!(raw.content, Content::Counts(_)) {
            // A few numbers, decoded here: not worth waiting for the consumer, which may lag behind.
            deliver(burst, &raw, &self.outlets.send);
            return;
        }
        burst.records = tally.records;
        self.pending.push((burst, raw));
    }

    fn release_late(&mut self, watch: &Watch) {
        let mut waiting = lock(&self.shared.waiting);
        watch.release();
        *waiting = watch.is_waiting();
    }
}
