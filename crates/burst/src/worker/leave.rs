//! The end of tracing: removes our mappings from every process.
//!
//! What not: releasing threads that stop late (`visit::Watch`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Pid;

use super::Worker;
use crate::picker::{blocks_harmlessly, may_be_stopped};
use crate::tracer::lock;
use crate::visit::{Blocked, Visit, Watch};

/// How long we try to find threads in a state in which our mappings can be removed.
const LEAVING: Duration = Duration::from_millis(500);

impl Worker {
    /// Removes our mappings from every process.
    pub(super) fn leave(&mut self, watch: &Watch) {
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
