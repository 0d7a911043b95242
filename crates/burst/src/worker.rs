//! The thread that traces: when a burst is, in which thread, and what becomes of it.
//!
//! What for: the loop around bursts. What not: how a burst goes (`run`), how often one may be (`budget`), which thread is
//! chosen (`picker`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, SyncSender};
use std::time::{Duration, Instant};

use base::{BurstId, Nanos, Pid, RemoteAddr, Tid};
use facts::{Burst, BurstFlavour};
use sys::process;
use tracee::random::Random;

use crate::budget::Budget;
use crate::drain::{Raw, count_records};
use crate::picker::{Picker, blocks_harmlessly, may_be_stopped};
use crate::program::{Program, cookie};
use crate::refused::Refused;
use crate::run::{Allowance, Ran, run};
use crate::space::{RECORD_BYTES, RECORDS};
use crate::tracer::{Cost, Observation, Options, Shared, lock};
use crate::visit::{Blocked, Visit, Watch, elapsed};
use crate::whereabouts::Whereabouts;

/// What a record costs the thread that makes it: between 1 and 2.5 on the machine of `bench/results` (burst_inside).
const NANOS_PER_RECORD: u64 = 2;
/// Blocks translated between bursts at most: about a millisecond.
const BLOCKS_BETWEEN: usize = 100;
/// A process that may not be traced is looked at again after this: a vfork's child may execute another program.
const EXAMINE_AGAIN: Duration = Duration::from_secs(1);
/// How long we try to find threads in a state in which our mappings can be taken out.
const LEAVING: Duration = Duration::from_millis(500);
const LATE_PAUSE: Duration = Duration::from_micros(500);
const FLAVOUR: BurstFlavour = BurstFlavour::Trace;

/// Why there was no burst, and where the thread was, if that is known.
type NoBurst = (Refused, Option<RemoteAddr>);

/// The state of the tracing thread.
pub struct Worker {
    options: Options,
    shared: Arc<Shared>,
    send: Sender<Observation>,
    send_raw: SyncSender<(Burst, Raw)>,
    programs: HashMap<Pid, Program>,
    untraceable: HashMap<Pid, (Refused, Instant)>,
    picker: Picker,
    random: Random,
    began: Instant,
    next_block: u32,
    next_burst: u32,
    cost: Cost,
    budget: Budget,
    whereabouts: Whereabouts,
}

impl Worker {
    /// Prepares; nothing is traced yet.
    #[must_use]
    pub fn new(
        options: Options,
        shared: Arc<Shared>,
        send: Sender<Observation>,
        send_raw: SyncSender<(Burst, Raw)>,
        whereabouts: Whereabouts,
    ) -> Worker {
        let mut random = Random::new(process::monotonic().0);
        Worker {
            options,
            shared,
            send,
            send_raw,
            programs: HashMap::new(),
            untraceable: HashMap::new(),
            picker: Picker::new(random),
            random: Random::new(random.number()),
            began: Instant::now(),
            next_block: 0,
            next_burst: 0,
            cost: Cost::default(),
            budget: Budget::default(),
            whereabouts,
        }
    }

    /// Traces until told to stop.
    pub fn go(mut self) {
        // Its alarm belongs to this very thread.
        let Ok(watch) = Watch::new() else { return };
        while !watch.has_abandoned() {
            // A thread that stops late must not stand still for long; but it may take hours until it does.
            while watch.is_waiting() && !self.shared.stop.load(Ordering::Relaxed) {
                std::thread::park_timeout(LATE_PAUSE);
                self.release_late(&watch);
            }
            std::thread::park_timeout(self.interval());
            if self.shared.stop.load(Ordering::Relaxed) {
                self.leave(&watch);
                return;
            }
            let processes = lock(&self.shared.processes).clone();
            self.programs.retain(|pid, _| processes.contains(pid));
            self.untraceable.retain(|_, (_, since)| since.elapsed() < EXAMINE_AGAIN);
            if let Some((pid, tid)) = self.picker.pick(&processes) {
                self.attempt(pid, tid, &watch);
            }
            self.cost.tracer = process::thread_cpu_time();
            self.cost.consumer = Nanos(self.shared.consumer_cpu.load(Ordering::Relaxed));
            self.budget.note(&self.cost);
            *lock(&self.shared.cost) = self.cost;
        }
    }

    /// Uniform between half and one and a half of the mean, so that nothing in the program can keep step with us.
    fn interval(&mut self) -> Duration {
        let mean = self.budget.mean_interval(&self.options);
        Duration::from_nanos(self.random.around(Nanos(mean.as_nanos() as u64)).0)
    }

    fn attempt(&mut self, pid: Pid, tid: Tid, watch: &Watch) {
        let Err((reason, at)) = self.burst(pid, tid, watch) else { return };
        // Not a matter of what can be traced: the thread was not running its own code at this moment.
        if reason != Refused::NotRunning {
            let time = process::monotonic() - self.options.start;
            let _ = self.send.send(Observation::Refused { time, pid, tid, at, reason });
        }
    }

    fn burst(&mut self, pid: Pid, tid: Tid, watch: &Watch) -> Result<(), NoBurst> {
        let nowhere = |refused| (refused, None);
        self.know(pid).map_err(nowhere)?;
        let Some(program) = self.programs.get_mut(&pid) else { return Ok(()) };
        program.refused(FLAVOUR).map_err(nowhere)?;
        program.refresh();
        may_be_stopped(pid, tid).map_err(nowhere)?;
        let shared = Arc::clone(&self.shared);
        let mut waiting = lock(&shared.waiting);
        let result = self.visit(pid, tid, watch);
        *waiting = watch.is_waiting();
        result
    }

    fn visit(&mut self, pid: Pid, tid: Tid, watch: &Watch) -> Result<(), NoBurst> {
        let visit =
            Visit::begin(tid, watch, Blocked::LeaveAlone).map_err(|refused| (refused, None))?;
        let at = visit.native.instruction_pointer();
        let here = |refused| (refused, Some(at));
        let Some(program) = self.programs.get_mut(&pid) else { return Ok(()) };
        if let Err(refused) = visit.check() {
            self.cost.stand_still += visit.leave(0);
            return Err(here(refused));
        }
        if program.is_another() {
            self.cost.stand_still += visit.leave(0);
            self.programs.remove(&pid);
            return Ok(());
        }
        if program.needs_set_up(FLAVOUR, at) {
            let stood_still = program.set_up(visit, FLAVOUR, cookie(pid, self.began));
            self.cost.stand_still += stood_still;
            return Ok(());
        }
        self.run(pid, visit).map_err(here)
    }

    /// Makes sure that we know the process.
    fn know(&mut self, pid: Pid) -> Result<(), Refused> {
        let Entry::Vacant(place) = self.programs.entry(pid) else { return Ok(()) };
        if let Some((refused, _)) = self.untraceable.get(&pid) {
            return Err(*refused);
        }
        match Program::examine(pid, self.whereabouts.clone()) {
            Ok(program) => place.insert(program),
            Err(refused) => {
                self.untraceable.insert(pid, (refused, Instant::now()));
                return Err(refused);
            }
        };
        Ok(())
    }

    fn run(&mut self, pid: Pid, visit: Visit<'_>) -> Result<(), Refused> {
        let tid = visit.tid;
        let (at, asked) = (visit.native.instruction_pointer(), visit.asked);
        let Some(program) = self.programs.get_mut(&pid) else { return Ok(()) };
        let Some((cache, code)) = program.ready(FLAVOUR) else { return Ok(()) };
        let allowance =
            Allowance { time: self.options.longest, bytes: RECORD_BYTES / 2, misses: 64, ahead: 4 };
        let time = process::monotonic() - self.options.start;
        let used = self.picker.used((pid, tid));
        let ran = run(visit, cache, code, &allowance, &mut self.next_block);
        let used_after = self.picker.used((pid, tid));
        if ran.is_err() {
            self.cost.stand_still += elapsed(asked);
        }
        // The thread runs natively again: this costs it nothing.
        cache.translate_waiting(code, BLOCKS_BETWEEN, &mut self.next_block);
        for block in cache.take_new_blocks() {
            let _ = self.send.send(Observation::Block(pid, FLAVOUR, block));
        }
        let missing = match &ran {
            Ok(ran) => ran.missing,
            Err(refused) => Some((at, *refused)),
        };
        if let Some((at, why)) = missing {
            program.note_missing(at, why);
        }
        let ran = ran?;
        let cpu_time = used.zip(used_after).map(|(before, after)| after - before);
        self.publish(pid, tid, time, cpu_time, &ran);
        Ok(())
    }

    fn publish(&mut self, pid: Pid, tid: Tid, time: Nanos, cpu_time: Option<Nanos>, ran: &Ran) {
        let id = BurstId(self.next_burst);
        self.next_burst += 1;
        let mut burst = Burst {
            id,
            time,
            pid,
            tid,
            flavour: FLAVOUR,
            end: ran.end,
            elapsed: ran.elapsed,
            cpu_time,
            stand_still: ran.stand_still,
            stops: ran.stops,
            fs_base: ran.fs_base,
            records: 0,
            records_lost: false,
        };
        self.cost.stand_still += ran.stand_still;
        self.cost.inside += ran.elapsed;
        let raw = self.programs.get_mut(&pid).and_then(|program| {
            let (cache, _) = program.ready(FLAVOUR)?;
            let words = cache.space.memory().words(RECORDS, ran.words);
            Some(Raw { burst: id, words, layouts: cache.layouts() })
        });
        // Loops that are summarised have few records and no slow-down.
        let records = raw.as_ref().map_or(0, count_records);
        let slowdown = Nanos(records * NANOS_PER_RECORD).min(ran.elapsed);
        self.cost.slowdown += slowdown;
        let sent = raw.is_some_and(|raw| self.send_raw.try_send((burst.clone(), raw)).is_ok());
        if !sent {
            burst.records_lost = true;
            burst.records = records;
            let _ = self.send.send(Observation::Burst(burst));
        }
    }

    fn release_late(&mut self, watch: &Watch) {
        let mut waiting = lock(&self.shared.waiting);
        watch.release();
        *waiting = watch.is_waiting();
    }

    /// Takes our mappings out of every process.
    fn leave(&mut self, watch: &Watch) {
        let deadline = Instant::now() + LEAVING;
        let shared = Arc::clone(&self.shared);
        loop {
            self.release_late(watch);
            for (pid, program) in &mut self.programs {
                if !program.is_there() {
                    continue;
                }
                for tid in tracee::threads_of(*pid).unwrap_or_default() {
                    let mut waiting = lock(&shared.waiting);
                    let blocked = match blocks_harmlessly(*pid, tid) {
                        true => Blocked::InFrontOfCall,
                        false if may_be_stopped(*pid, tid).is_ok() => Blocked::LeaveAlone,
                        false => continue,
                    };
                    let visit = Visit::begin(tid, watch, blocked);
                    let fit = visit.ok().filter(|visit| visit.check().is_ok());
                    let done =
                        fit.is_some_and(|visit| program.is_another() || program.remove(visit));
                    *waiting = watch.is_waiting();
                    if watch.has_abandoned() {
                        return;
                    }
                    if done {
                        break;
                    }
                }
            }
            self.programs.retain(|pid, program| program.is_there() && !gone(*pid));
            if self.programs.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn gone(pid: Pid) -> bool {
    tracee::threads_of(pid).map_or(true, |threads| threads.is_empty())
}
