//! The lives of processes and threads: starts, forks, new programs, names and ends.
//!
//! What for: several sources report the same steps, in different orders; here each becomes a fact once. What not:
//! finding threads (`session`, the samplers).

use base::{Nanos, Pid, ThreadId, Tid};
use facts::{Fact, SinkError, ThreadEvent, ThreadEventKind};

use super::Recorder;
use crate::address_space::AddressSpace;

/// A second source may report the start of a short-lived thread up to this long after its end.
const LATE: Nanos = Nanos(10_000_000_000);

/// Most ends remembered.
const ENDS: usize = 100_000;

impl Recorder<'_> {
    fn forget_space(&mut self, pid: Pid) {
        /// Most former address spaces: enough for what ends within a round of a session.
        const MOST_FORMER: usize = 32;
        if let Some(space) = self.spaces.remove(&pid) {
            self.former_spaces.push_back((pid, space));
            if self.former_spaces.len() > MOST_FORMER {
                self.former_spaces.pop_front();
            }
        }
    }

    /// A thread was born, or is there as we come.
    pub fn thread_started(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        name: &str,
    ) -> Result<(), SinkError> {
        let ended = self.ends.get(&ThreadId::new(pid, tid)).is_some_and(|end| time <= *end);
        if ended || self.threads.contains_key(&ThreadId::new(pid, tid)) {
            return Ok(());
        }
        self.threads.insert(ThreadId::new(pid, tid), (name.to_owned(), time));
        if let Some(regions) = &mut self.regions {
            regions.thread_began(time, pid, tid);
        }
        self.spaces.entry(pid).or_default();
        self.processes_seen.insert(pid);
        self.thread_event(time, pid, tid, ThreadEventKind::Start, name)
    }

    /// A thread was born by `creator`, whose name it carries until it takes another.
    pub fn thread_created(
        &mut self,
        time: Nanos,
        creator: ThreadId,
        pid: Pid,
        tid: Tid,
    ) -> Result<(), SinkError> {
        let name = self.threads.get(&creator).map(|(name, _)| name.clone()).unwrap_or_default();
        self.thread_started(time, pid, tid, &name)
    }

    /// `parent` forked `child`: the child begins with a copy of its address space.
    pub fn process_forked(&mut self, parent: Pid, child: Pid) {
        if let Some(space) = self.spaces.get(&parent) {
            let copy = space.clone();
            self.spaces.insert(child, copy);
        }
    }

    /// The process executes another program: its old mappings are gone.
    pub fn executed(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        name: &str,
    ) -> Result<(), SinkError> {
        self.forget_space(pid);
        if let Some(regions) = &mut self.regions {
            regions.executed(time, pid, self.sink)?;
        }
        self.spaces.insert(pid, AddressSpace::default());
        // When a whole machine is observed, a process may appear after our list of processes and before its first
        // record.
        if self.processes_seen.insert(pid) {
            self.thread_event(time, pid, Tid(pid.0), ThreadEventKind::Start, name)?;
        }
        // The thread that executes becomes the main thread, and the kernel has reported the ends of all others. A
        // thread that remains came from a second source: its start is a guess, or later than this event.
        let (own, first) = (ThreadId::new(pid, tid), ThreadId::first(pid));
        let others = self
            .threads
            .range(ThreadId::all_of(pid))
            .filter(|(other, (_, since))| **other != own && **other != first && *since <= time);
        for id in others.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.threads.remove(&id);
            self.thread_event(time, pid, id.tid, ThreadEventKind::Exit, "")?;
        }
        if own != first {
            self.threads.remove(&own);
        }
        let first = self.threads.entry(first).or_insert((String::new(), time));
        name.clone_into(&mut first.0);
        self.thread_event(time, pid, tid, ThreadEventKind::Exec, name)
    }

    /// The thread changed its name.
    pub fn renamed(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        name: &str,
    ) -> Result<(), SinkError> {
        self.thread_started(time, pid, tid, name)?;
        self.threads.entry(ThreadId::new(pid, tid)).or_insert((String::new(), time)).0 =
            name.to_owned();
        self.thread_event(time, pid, tid, ThreadEventKind::Rename, name)
    }

    /// The thread ended; with its last thread the process is forgotten.
    pub fn thread_ended(&mut self, time: Nanos, pid: Pid, tid: Tid) -> Result<(), SinkError> {
        if self.threads.remove(&ThreadId::new(pid, tid)).is_none() {
            return Ok(());
        }
        self.stack_tops.remove(&tid);
        if self.threads.range(ThreadId::all_of(pid)).next().is_none() {
            self.forget_space(pid);
            self.regions.iter_mut().for_each(|regions| regions.ended(pid));
        }
        self.regions.iter_mut().for_each(|regions| regions.thread_ended(pid, tid));
        if self.ends.len() >= ENDS {
            self.ends.retain(|_, end| *end + LATE >= time);
        }
        self.ends.insert(ThreadId::new(pid, tid), time);
        self.thread_event(time, pid, tid, ThreadEventKind::Exit, "")
    }

    /// When a thread ended, as far as that is known.
    #[must_use]
    pub fn end_of(&self, pid: Pid, tid: Tid) -> Option<Nanos> {
        self.ends
            .get(&ThreadId::new(pid, tid))
            .copied()
            .filter(|_| !self.threads.contains_key(&ThreadId::new(pid, tid)))
    }

    fn thread_event(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        kind: ThreadEventKind,
        name: &str,
    ) -> Result<(), SinkError> {
        self.sink.push(Fact::ThreadEvent(ThreadEvent {
            time,
            pid,
            tid,
            kind,
            name: name.to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_reported_after_the_end_is_none() {
        let mut facts: Vec<Fact> = Vec::new();
        let mut recorder = Recorder::new(&mut facts);
        let (pid, tid) = (Pid(7), Tid(8));
        recorder.thread_started(Nanos(10), pid, tid, "short").unwrap();
        recorder.thread_ended(Nanos(20), pid, tid).unwrap();
        recorder.thread_started(Nanos(5), pid, tid, "short").unwrap();
        recorder.thread_started(Nanos(20), pid, tid, "short").unwrap();
        // The kernel reuses the id.
        recorder.thread_started(Nanos(30), pid, tid, "next").unwrap();
        let times = facts.iter().map(|fact| match fact {
            Fact::ThreadEvent(event) => event.time.0,
            _ => 0,
        });
        assert_eq!(times.collect::<Vec<_>>(), [10, 20, 30]);
    }
}
