//! Threads and processes, with their names and lifetimes.
//!
//! Assumption: a process does not reuse a thread id within one recording; if it does, both lifetimes appear as one thread.
//! What not: what threads did (`threading`).

use std::collections::{BTreeMap, HashMap};

use base::{Nanos, Pid, ThreadId, Tid};
use facts::{Pauses, Recording, ThreadEventKind};

crate::stack::index!(/// A thread of [`ThreadTable`].
    ThreadIndex);

/// One thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its process.
    pub pid: Pid,
    /// Its id.
    pub tid: Tid,
    /// The last name it had; empty when it was never reported.
    pub name: String,
    /// When it was seen first.
    pub start: Nanos,
    /// When it ended, or the end of the recording.
    pub end: Nanos,
    /// Whether its start was recorded. Without it `start` is only the first observation.
    pub start_known: bool,
}

impl Thread {
    /// `name (tid)`.
    #[must_use]
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            format!("({})", self.tid)
        } else {
            format!("{} ({})", self.name, self.tid)
        }
    }
}

type ThreadsByTid = BTreeMap<ThreadId, (Thread, bool)>;

/// Notes that a thread was there at `time`; the flag says whether it has ended.
fn seen(found: &mut ThreadsByTid, pid: Pid, tid: Tid, time: Nanos) -> (&mut Thread, &mut bool) {
    let new = || {
        let thread =
            Thread { pid, tid, name: String::new(), start: time, end: time, start_known: false };
        (thread, false)
    };
    let (thread, ended) = found.entry(ThreadId::new(pid, tid)).or_insert_with(new);
    thread.start = thread.start.min(time);
    thread.end = thread.end.max(time);
    (thread, ended)
}

/// All threads, in the order of process and thread id.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ThreadTable {
    threads: Vec<Thread>,
    ids: HashMap<ThreadId, ThreadIndex>,
}

impl ThreadTable {
    /// From thread events, samples and faults.
    #[must_use]
    pub fn new(recording: &Recording) -> ThreadTable {
        let recording_end = Nanos(recording.run.elapsed_ns);
        let mut found = ThreadsByTid::new();
        for event in &recording.thread_events {
            let (thread, ended) = seen(&mut found, event.pid, event.tid, event.time);
            match event.kind {
                ThreadEventKind::Start => {
                    thread.start_known = true;
                    *ended = false;
                }
                ThreadEventKind::Exit => *ended = true,
                ThreadEventKind::Exec | ThreadEventKind::Rename => {}
            }
            if !event.name.is_empty() {
                thread.name.clone_from(&event.name);
            }
        }
        for sample in &recording.samples {
            seen(&mut found, sample.pid, sample.tid, sample.time);
        }
        for fault in &recording.faults {
            seen(&mut found, fault.pid, fault.tid, fault.time);
        }
        let close = |(mut thread, ended): (Thread, bool)| {
            if !ended {
                thread.end = thread.end.max(recording_end);
            }
            thread
        };
        let threads: Vec<Thread> = found.into_values().map(close).collect();
        let index = |(at, thread): (usize, &Thread)| {
            (ThreadId::new(thread.pid, thread.tid), ThreadIndex::new(at))
        };
        let ids = threads.iter().enumerate().map(index).collect();
        ThreadTable { threads, ids }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Thread] {
        &self.threads
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, index: ThreadIndex) -> &Thread {
        &self.threads[index.index()]
    }

    /// Where a thread is in [`ThreadTable::all`]. Every thread of a sample, fault or event has a place.
    #[must_use]
    pub fn find(&self, pid: Pid, tid: Tid) -> Option<ThreadIndex> {
        self.ids.get(&ThreadId::new(pid, tid)).copied()
    }

    /// `name (pid)`, the name being that of its first thread.
    #[must_use]
    pub fn process_label(&self, pid: Pid) -> String {
        let name = self.process_name(pid);
        if name.is_empty() { format!("({pid})") } else { format!("{name} ({pid})") }
    }

    /// The name of a process's first thread, or empty.
    #[must_use]
    pub fn process_name(&self, pid: Pid) -> &str {
        self.find(pid, Tid(pid.0)).map_or("", |index| &self.get(index).name)
    }

    /// How many processes.
    #[must_use]
    pub fn process_count(&self) -> usize {
        let mut pids: Vec<Pid> = self.threads.iter().map(|thread| thread.pid).collect();
        pids.dedup();
        pids.len()
    }

    /// Time that all threads lived while they were observed, summed; `None` when the recording does not know their lives.
    #[must_use]
    pub fn lifetime(&self, pauses: &Pauses) -> Option<Nanos> {
        let known =
            !self.threads.is_empty() && self.threads.iter().all(|thread| thread.start_known);
        known.then(|| {
            let lived = |one: &Thread| pauses.observed(one.start, one.end);
            self.threads.iter().fold(Nanos(0), |sum, thread| sum + lived(thread))
        })
    }
}
