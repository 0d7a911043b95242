//! When a burst is, and what it may cost.
//!
//! What for: bursts at random times, as often as the allowed overhead permits: the cost of each (the thread's
//! stand-still, its estimated slow-down, our CPU time) is measured, and the time to the next one follows from it.
//! What not: how a burst goes (`run`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::{BurstId, Nanos, Pid, RemoteAddr, Tid};
use facts::{Burst, BurstEnd, BurstFlavour, Records};
use sys::process;
use sys::trace::{self, Alarm};

use crate::cache::NewBlock;
use crate::drain::{Raw, drain};
use crate::picker::{Picker, blocks_harmlessly, may_be_stopped};
use crate::program::{Program, cookie};
use crate::refused::Refused;
use crate::run::{Allowance, Ran, run};
use crate::space::RECORD_BYTES;
use crate::visit::{Blocked, Stubborn, Visit};
use crate::whereabouts::Whereabouts;

/// What the tracer may do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Start of the recording (CLOCK_MONOTONIC).
    pub start: Nanos,
    /// Share of the program's time that bursts may cost, 0..1.
    pub overhead: f64,
    /// Mean time between bursts; `None` lets it follow from `overhead`.
    pub interval: Option<Duration>,
    /// Longest burst.
    pub longest: Duration,
    /// The program that we started: its exit code is waited for by others.
    pub launched: Option<Pid>,
}

/// What the tracer observed, in the process's own addresses.
pub enum Observation {
    /// Code was translated. Comes before the records that name it.
    Block(Pid, BurstFlavour, NewBlock),
    /// A burst took place.
    Burst(Burst),
    /// Records of a burst.
    Records(Records),
    /// A burst could not begin.
    Refused {
        /// When.
        time: Nanos,
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// Where it was, if that is known.
        at: Option<RemoteAddr>,
        /// Why.
        reason: Refused,
    },
}

/// What bursts cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Threads stood still.
    pub stand_still: Nanos,
    /// Threads were in translated code.
    pub inside: Nanos,
    /// Of that, what natively would not have been spent: records times an estimate.
    pub slowdown: Nanos,
    /// CPU time of the tracer.
    pub tracer: Nanos,
    /// CPU time of the consumer.
    pub consumer: Nanos,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    processes: Mutex<Vec<Pid>>,
    /// Held while a thread is traced: whoever else in this process waits for the program must not take its stops. True
    /// while a thread that was asked to stop has not stopped yet.
    waiting: Mutex<bool>,
    consumer_cpu: AtomicU64,
    cost: Mutex<Cost>,
}

/// A running tracer. Dropping it ends it, and takes out of the program what was brought in.
pub struct Tracer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    observed: Receiver<Observation>,
    whereabouts: Whereabouts,
}

/// What a record costs the thread that makes it, measured on the machine of `bench/results`: see `bench/burst_inside.py`.
const NANOS_PER_RECORD: u64 = 2;
/// Blocks translated between bursts at most: about a millisecond.
const BLOCKS_BETWEEN: usize = 100;
/// Bursts whose words wait for the consumer.
const BACKLOG: usize = 4;
/// Time between bursts is never below this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);
/// Until the cost of bursts is known.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);
/// How long we try to find threads in a state in which our mappings can be taken out.
const LEAVING: Duration = Duration::from_millis(500);

impl Tracer {
    /// Starts tracing.
    pub fn start(options: Options) -> std::io::Result<Tracer> {
        let shared = Arc::new(Shared::default());
        let (send, observed) = channel();
        let (send_raw, raw) = sync_channel::<(Burst, Raw)>(BACKLOG);
        let consumer = {
            let (shared, send) = (Arc::clone(&shared), send.clone());
            std::thread::Builder::new()
                .name("consumer".to_owned())
                .spawn(move || consume(&raw, &send, &shared))?
        };
        let whereabouts = Whereabouts::default();
        let work = Worker::new(options, Arc::clone(&shared), send, send_raw, whereabouts.clone());
        let tracer =
            std::thread::Builder::new().name("tracer".to_owned()).spawn(move || work.go())?;
        Ok(Tracer { shared, threads: vec![tracer, consumer], observed, whereabouts })
    }

    /// Tells which processes there are.
    pub fn set_processes(&self, processes: Vec<Pid>) {
        if let Ok(mut known) = self.shared.processes.lock() {
            *known = processes;
        }
    }

    /// Does something that waits for the program's end, while no thread is traced; not now, if one is about to stop.
    pub fn undisturbed(&self, wait: impl FnOnce()) {
        let stop_is_due = lock(&self.shared.waiting);
        if !*stop_is_due {
            wait();
        }
    }

    /// Where threads in translated code natively are.
    #[must_use]
    pub fn whereabouts(&self) -> Whereabouts {
        self.whereabouts.clone()
    }

    /// What was observed since.
    pub fn observed(&self) -> impl Iterator<Item = Observation> + '_ {
        self.observed.try_iter()
    }

    /// What it cost so far.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.shared.cost.lock().map(|cost| *cost).unwrap_or_default()
    }

    /// Ends tracing; what was observed last can be fetched afterwards.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A panic of the tracer has let the program go (its guards ran); the recording goes on without it.
            let _ = thread.join();
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn consume(raw: &Receiver<(Burst, Raw)>, send: &Sender<Observation>, shared: &Shared) {
    process::be_unimportant();
    loop {
        match raw.recv_timeout(Duration::from_secs(1)) {
            Ok((mut burst, raw)) => {
                let drained = drain(&raw);
                burst.records = drained.count;
                let _ = send.send(Observation::Burst(burst));
                for records in drained.records {
                    let _ = send.send(Observation::Records(records));
                }
                shared.consumer_cpu.store(process::thread_cpu_time().0, Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

struct Worker {
    options: Options,
    shared: Arc<Shared>,
    send: Sender<Observation>,
    send_raw: SyncSender<(Burst, Raw)>,
    programs: HashMap<Pid, Result<Program, Refused>>,
    picker: Picker,
    stubborn: Stubborn,
    began: Instant,
    next_block: u32,
    next_burst: u32,
    cost: Cost,
    /// Cost of a burst, smoothed, in nanoseconds.
    usual_cost: Option<f64>,
    /// A thread would not stop: only our end lets it go.
    abandoned: bool,
    whereabouts: Whereabouts,
}

impl Worker {
    fn new(
        options: Options,
        shared: Arc<Shared>,
        send: Sender<Observation>,
        send_raw: SyncSender<(Burst, Raw)>,
        whereabouts: Whereabouts,
    ) -> Worker {
        Worker {
            options,
            shared,
            send,
            send_raw,
            programs: HashMap::new(),
            picker: Picker::new(process::monotonic().0),
            stubborn: Stubborn::default(),
            began: Instant::now(),
            next_block: 0,
            next_burst: 0,
            cost: Cost::default(),
            usual_cost: None,
            abandoned: false,
            whereabouts,
        }
    }

    fn go(mut self) {
        // The alarm belongs to this very thread.
        let Ok(alarm) = Alarm::new() else { return };
        while !self.shared.stop.load(Ordering::Relaxed) && !self.abandoned {
            let interval = self.interval();
            std::thread::park_timeout(interval);
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let processes =
                self.shared.processes.lock().map(|known| known.clone()).unwrap_or_default();
            self.programs.retain(|pid, _| processes.contains(pid));
            self.release_stubborn(&alarm);
            if let Some((pid, tid)) = self.picker.pick(&processes) {
                self.attempt(pid, tid, &alarm);
            }
            self.account();
        }
        if !self.abandoned {
            self.leave(&alarm);
        }
    }

    /// Uniform between half and one and a half of the mean, so that nothing in the program can keep step with us.
    fn interval(&mut self) -> Duration {
        let mean = self.options.interval.unwrap_or_else(|| match self.usual_cost {
            Some(cost) => Duration::from_nanos((cost / self.options.overhead.max(1e-4)) as u64)
                .clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL),
            None => FIRST_INTERVAL,
        });
        let half = mean / 2;
        let random = self.picker.random() % (mean.as_nanos() as u64).max(1);
        half + Duration::from_nanos(random)
    }

    fn now(&self) -> Nanos {
        process::monotonic() - self.options.start
    }

    fn attempt(&mut self, pid: Pid, tid: Tid, alarm: &Alarm) {
        if let Err((reason, at)) = self.try_burst(pid, tid, alarm) {
            // Not a matter of what can be traced: the thread was not running its own code at this moment.
            if reason != Refused::NotRunning {
                let time = self.now();
                let _ = self.send.send(Observation::Refused { time, pid, tid, at, reason });
            }
            if self.options.launched.is_none_or(|launched| launched.0 != tid.0) {
                trace::reap(tid);
            }
        }
    }

    fn try_burst(
        &mut self,
        pid: Pid,
        tid: Tid,
        alarm: &Alarm,
    ) -> Result<(), (Refused, Option<RemoteAddr>)> {
        let nowhere = |refused| (refused, None);
        let flavour = BurstFlavour::Trace;
        let began = self.began;
        let program = self
            .programs
            .entry(pid)
            .or_insert_with(|| Program::examine(pid, self.whereabouts.clone()));
        let program = program.as_mut().map_err(|refused| nowhere(*refused))?;
        program.refused(flavour).map_err(nowhere)?;
        program.refresh();
        may_be_stopped(pid, tid).map_err(nowhere)?;
        let shared = Arc::clone(&self.shared);
        let mut waiting = lock(&shared.waiting);
        let visit = Visit::begin(tid, alarm, Blocked::LeaveAlone, &mut self.stubborn);
        *waiting = !self.stubborn.is_empty();
        let visit = visit.map_err(nowhere)?;
        let at = visit.native.instruction_pointer();
        let here = |refused| (refused, Some(at));
        visit.check().map_err(here)?;
        if program.is_another() {
            drop(visit);
            self.programs.remove(&pid);
            return Err(nowhere(Refused::NotRunning));
        }
        if program.needs_set_up(flavour, at) {
            let cost = program.set_up(visit, flavour, cookie(pid, began));
            self.cost.stand_still = self.cost.stand_still + cost;
            return Ok(());
        }
        let Some((cache, code)) = program.ready(flavour) else { return Ok(()) };
        let allowance =
            Allowance { time: self.options.longest, bytes: RECORD_BYTES, misses: 64, ahead: 4 };
        let time = process::monotonic() - self.options.start;
        let used = self.picker.used((pid, tid));
        let ran = run(visit, cache, code, &allowance, &mut self.next_block);
        // The thread runs natively again: this costs it nothing.
        cache.translate_waiting(code, BLOCKS_BETWEEN, &mut self.next_block);
        let new_blocks = cache.take_new_blocks();
        for block in new_blocks {
            let _ = self.send.send(Observation::Block(pid, flavour, block));
        }
        let missing = match &ran {
            Ok(ran) => ran.missing,
            Err(refused) => Some((at, *refused)),
        };
        if let Some((at, why)) = missing {
            if std::env::var_os("DBG").is_some() {
                eprintln!(
                    "missing {at} {why:?} stops {:?}",
                    ran.as_ref().map(|r| (r.end, r.stops, r.elapsed, r.stand_still)).ok()
                );
            }
            program.note_missing(at, why);
        }
        let ran = ran.map_err(here)?;
        let used_after = self.picker.used((pid, tid));
        let cpu_time = used.zip(used_after).map(|(before, after)| after - before);
        self.took_place(pid, tid, time, cpu_time, &ran);
        Ok(())
    }

    fn took_place(&mut self, pid: Pid, tid: Tid, time: Nanos, cpu_time: Option<Nanos>, ran: &Ran) {
        self.abandoned |= ran.abandoned;
        let flavour = BurstFlavour::Trace;
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
            cpu_time,
            stand_still: ran.stand_still,
            stops: ran.stops,
            fs_base: ran.fs_base,
            records: 0,
            records_lost: false,
        };
        if ran.end == BurstEnd::Gone && self.options.launched.is_none_or(|own| own.0 != tid.0) {
            trace::reap(tid);
        }
        self.cost.stand_still = self.cost.stand_still + ran.stand_still;
        self.cost.inside = self.cost.inside + ran.elapsed;
        let estimate = Nanos((ran.words as u64 / 2) * NANOS_PER_RECORD).min(ran.elapsed);
        self.cost.slowdown = self.cost.slowdown + estimate;
        let raw = self.programs.get_mut(&pid).and_then(|program| {
            let (cache, _) = program.as_mut().ok()?.ready(flavour)?;
            let words = cache.space.memory().words(crate::space::RECORDS, ran.words);
            Some(Raw { burst: id, words, layouts: cache.layouts() })
        });
        let sent = raw.is_some_and(|raw| self.send_raw.try_send((burst.clone(), raw)).is_ok());
        if !sent {
            burst.records_lost = true;
            let _ = self.send.send(Observation::Burst(burst));
        }
    }

    /// Adds up what it cost since the last time, for the next interval and for the result.
    fn account(&mut self) {
        let before = self.shared.cost.lock().map(|cost| *cost).unwrap_or_default();
        self.cost.tracer = process::thread_cpu_time();
        self.cost.consumer = Nanos(self.shared.consumer_cpu.load(Ordering::Relaxed));
        let total =
            |cost: &Cost| (cost.stand_still + cost.slowdown + cost.tracer + cost.consumer).0 as f64;
        let spent = total(&self.cost) - total(&before);
        // Follows a change within some ten bursts.
        let usual = self.usual_cost.map_or(spent, |usual| usual + (spent - usual) / 8.0);
        self.usual_cost = Some(usual.max(10_000.0));
        if let Ok(mut cost) = self.shared.cost.lock() {
            *cost = self.cost;
        }
    }

    fn release_stubborn(&mut self, alarm: &Alarm) {
        let mut waiting = lock(&self.shared.waiting);
        self.stubborn.release(alarm);
        *waiting = !self.stubborn.is_empty();
    }

    /// Takes our mappings out of every process.
    fn leave(&mut self, alarm: &Alarm) {
        let deadline = Instant::now() + LEAVING;
        let shared = Arc::clone(&self.shared);
        loop {
            for (pid, program) in &mut self.programs {
                let Ok(program) = program else { continue };
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
                    let visit = Visit::begin(tid, alarm, blocked, &mut self.stubborn);
                    *waiting = !self.stubborn.is_empty();
                    let Ok(visit) = visit else { continue };
                    if program.is_another() || program.remove(visit) {
                        break;
                    }
                }
            }
            self.programs.retain(|pid, program| {
                program.as_ref().is_ok_and(Program::is_there) && !gone(*pid)
            });
            if self.programs.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A panic elsewhere leaves what a lock guards as it is, which is all that matters here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone(pid: Pid) -> bool {
    tracee::threads_of(pid).map_or(true, |threads| threads.is_empty())
}
