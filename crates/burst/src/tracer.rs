//! The interface of the tracer: start it, set its processes, take its observations, stop it.
//!
//! What for: two threads of ours and what they share with the rest. `worker` traces, because ptrace binds to a
//! thread. The consumer decodes records at low priority with a bounded backlog. What not: tracing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{Nanos, Pid, RemoteAddr, Tid};
use facts::{Burst, BurstFlavour, Records, WordAdvance};
use sys::process;

use crate::cache::NewBlock;
use crate::drain::{Content, Raw, drain};
use crate::native_addresses::NativeAddresses;
use crate::refused::Refused;
use crate::schedule::BRIEF_BYTES;
use crate::space::RECORD_BYTES;
use crate::worker::{BATCH, Outlets, Worker};

/// What the tracer may do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Share of the program's time that bursts may cost, 0..1.
    pub overhead: f64,
    /// Mean time between bursts; `None` lets it follow from `overhead`.
    pub interval: Option<Duration>,
    /// Longest trace. Count windows are up to 5/3 as long, bursts of timed loads a third. A thread that has to wait
    /// for a CPU meanwhile may take up to three times as long by the wall clock.
    pub longest: Duration,
    /// A quota or an affinity limits us and the program to fewer CPUs than the machine has. Our CPU time is then
    /// taken from the program even if other CPUs are idle.
    pub rationed: bool,
}

/// What the tracer observed, in the process's own addresses.
pub enum Observation {
    /// Code was translated. Comes before the records that name it.
    Block(Pid, BurstFlavour, NewBlock),
    /// A burst took place.
    Burst(Burst),
    /// Records of a burst.
    Records(Records),
    /// A word of memory rose by so much. Comes after the burst that it names.
    WordAdvance(WordAdvance),
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

/// The cost of bursts so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Threads were stopped.
    pub stand_still: Nanos,
    /// Threads were in translated code.
    pub inside: Nanos,
    /// The part of `inside` that native code would not have taken: records times an estimate.
    pub slowdown: Nanos,
    /// CPU time of the tracer.
    pub tracer: Nanos,
    /// CPU time of the consumer.
    pub consumer: Nanos,
    /// CPU time that a thread needs to enter and leave translated code once. It is deducted from the CPU time of
    /// every burst. `None` until it is measured.
    pub stop: Option<Nanos>,
    /// Our pages in the program.
    pub pages: Pages,
}

/// What our own pages added to the kernel's account of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    /// Minor faults in which the kernel filled in our pages on our request: getrusage(2) counts them, perf events do
    /// not.
    pub populated: u64,
    /// Pages of translated code, and others that were not populated. Each may have taken one more minor fault, which
    /// both count. Often fewer, because the kernel maps pages around the one that faults (`do_fault_around` in
    /// mm/memory.c).
    pub touched: u64,
    /// Most bytes of ours that were resident in one process.
    pub resident: u64,
}

/// What the worker, the consumer and the owner of the tracer share.
#[derive(Default)]
pub struct Shared {
    /// Set when tracing must end.
    pub stop: AtomicBool,
    /// Set while no burst may begin.
    pub paused: AtomicBool,
    /// Processes of the program.
    pub processes: Mutex<Vec<Pid>>,
    /// Code that samples show, not looked at yet.
    pub code: Mutex<Vec<(Pid, RemoteAddr)>>,
    /// Held while a thread is traced: nothing else in this process may wait for the program, or it would take its
    /// stops. True while a thread that was asked to stop has not stopped yet.
    pub waiting: Mutex<bool>,
    /// CPU time of the consumer, nanoseconds.
    pub consumer_cpu: AtomicU64,
    /// Room for words of records, few of them and many, which goes back and forth: fresh memory costs more than what is done
    /// with the words.
    pub buffers: Mutex<[Vec<Vec<u64>>; 2]>,
    /// What it cost so far.
    pub cost: Mutex<Cost>,
}

impl Shared {
    /// A buffer for this many words of a burst.
    pub fn buffer(&self, words: usize) -> Vec<u64> {
        let are_many = usize::from(words > FEW_WORDS);
        let kept = lock(&self.buffers)[are_many].pop();
        kept.unwrap_or_else(|| Vec::with_capacity([FEW_WORDS, RECORD_BYTES / 8][are_many]))
    }

    /// Takes back the buffer of a burst whose words are no longer read.
    pub fn give_back(&self, raw: Raw) {
        if let Content::Words { words, .. } = raw.content {
            let are_many = usize::from(words.capacity() > FEW_WORDS);
            let kept = &mut lock(&self.buffers)[are_many];
            if kept.len() <= [2 * BATCH, BACKLOG][are_many] {
                kept.push(words);
            }
        }
    }
}

/// What a brief trace records at most.
const FEW_WORDS: usize = BRIEF_BYTES / 8;

/// A running tracer. Dropping it ends it, and removes from the program what was brought in.
pub struct Tracer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    observed: Receiver<Observation>,
    native_addresses: NativeAddresses,
}

/// Hand-overs that wait for the consumer: one long burst each, or a batch of short ones.
const BACKLOG: usize = 4;
impl Tracer {
    /// Starts tracing. `start` is that of the recording (CLOCK_MONOTONIC).
    pub fn start(options: Options, start: Nanos) -> std::io::Result<Tracer> {
        let shared = Arc::new(Shared::default());
        let (send, observed) = channel();
        let (send_raw, raw) = sync_channel::<Vec<(Burst, Raw)>>(BACKLOG);
        let consumer = {
            let (shared, send) = (Arc::clone(&shared), send.clone());
            std::thread::Builder::new()
                .name("consumer".to_owned())
                .spawn(move || consume(&raw, &send, &shared))?
        };
        let native_addresses = NativeAddresses::default();
        let outlets = Outlets { send, send_raw };
        let work =
            Worker::new(options, start, Arc::clone(&shared), outlets, native_addresses.clone());
        let tracer =
            std::thread::Builder::new().name("tracer".to_owned()).spawn(move || work.go())?;
        Ok(Tracer { shared, threads: vec![tracer, consumer], observed, native_addresses })
    }

    /// Sets the processes of the program.
    pub fn set_processes(&self, processes: Vec<Pid>) {
        if let Ok(mut known) = self.shared.processes.lock() {
            *known = processes;
        }
    }

    /// Adds code that samples show: it is translated before a thread comes there.
    pub fn note_code(&self, code: Vec<(Pid, RemoteAddr)>) {
        lock(&self.shared.code).extend(code);
    }

    /// Begins no bursts from now on, or begins them again. One that has begun ends by itself.
    pub fn pause(&self, paused: bool) {
        self.shared.paused.store(paused, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Runs `wait`, which waits for the program's end, while no thread is traced. Does nothing if a thread is about
    /// to stop.
    pub fn undisturbed(&self, wait: impl FnOnce()) {
        let stop_is_due = lock(&self.shared.waiting);
        if !*stop_is_due {
            wait();
        }
    }

    /// The native addresses of threads in translated code.
    #[must_use]
    pub fn native_addresses(&self) -> NativeAddresses {
        self.native_addresses.clone()
    }

    /// The observations since the last call.
    pub fn observed(&self) -> impl Iterator<Item = Observation> + '_ {
        self.observed.try_iter()
    }

    /// The cost so far.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.shared.cost.lock().map(|cost| *cost).unwrap_or_default()
    }

    /// Ends tracing. The last observations can still be taken.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // An error means that the tracer panicked. Its guards have released the program; the recording continues
            // without it.
            let _ = thread.join();
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn consume(raw: &Receiver<Vec<(Burst, Raw)>>, send: &Sender<Observation>, shared: &Shared) {
    process::be_unimportant();
    loop {
        match raw.recv_timeout(Duration::from_secs(1)) {
            Ok(bursts) => {
                for (burst, raw) in bursts {
                    deliver(burst, &raw, send);
                    shared.give_back(raw);
                }
                shared.consumer_cpu.store(process::thread_cpu_time().0, Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Decodes the output of a burst.
pub fn deliver(mut burst: Burst, raw: &Raw, send: &Sender<Observation>) {
    let drained = drain(raw);
    burst.records = drained.count;
    burst.records_lost = drained.damaged;
    let _ = send.send(Observation::Burst(burst));
    for records in drained.records {
        let _ = send.send(Observation::Records(records));
    }
}

/// A lock that ignores poisoning: a panic elsewhere leaves the guarded data consistent.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
