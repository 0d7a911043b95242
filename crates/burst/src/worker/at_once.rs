//! The count window of a trace in the same visit: the thread goes on from one copy of its code to the other.
//!
//! What for: a visit of the window's own takes two more stops, and as much of our CPU time as the trace's. What not: windows in
//! code that was never counted: it is translated first, while the program runs.

use base::{Nanos, Pid, ThreadId};
use facts::BurstFlavour;
use sys::process;

use super::Worker;
use crate::run::{Meters, Ran, run};
use crate::visit::{Visit, elapsed};

impl Worker {
    /// Runs the count window of a thread that stands still behind its trace, and lets it go. Returns when the window began
    /// and what it found, where there was one.
    pub(super) fn count_at_once(
        &mut self,
        pid: Pid,
        visit: Visit<'_>,
        undisturbed: bool,
    ) -> Option<(Nanos, Ran)> {
        const COUNT: BurstFlavour = BurstFlavour::Count;
        let (at, since) = (visit.native.instruction_pointer(), visit.since);
        let allowance = self.allowance(COUNT);
        let may_run = visit.check_registers().is_ok();
        let tid = visit.tid;
        let program = self.programs.get_mut(&pid);
        let reads = program.as_ref().and_then(|program| program.odometers.reads(tid));
        let ready = program
            .and_then(|program| {
                (may_run && program.leads_on(COUNT, at, undisturbed)).then_some(program)
            })
            .and_then(|program| program.ready(COUNT));
        let Some((cache, code)) = ready else {
            self.cost.stand_still += visit.leave(0);
            return None;
        };
        let time = process::monotonic() - self.start;
        let thread = ThreadId::new(pid, visit.tid);
        let clock = || self.picker.used(thread);
        let meters = Meters { clock: &clock, faults: &|| None, reads };
        let ran = run(visit, cache, code, &allowance, &meters, &mut self.next_block);
        if ran.is_err() {
            self.cost.stand_still += elapsed(since);
        }
        ran.ok().map(|(ran, _)| (time, ran))
    }
}
