//! The main loop of a session: announces threads, reads sources, handles signals, until the session ends.
//!
//! What not: the end itself (`ending`).

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use base::{Nanos, Pid, Tid};
use facts::{NoteSubject, SinkError};
use sys::process::{self, Received, Runs, Signal, StopFor};

use super::{End, Session};
use crate::bursts::{Bursts, timed_load_overhead};
use crate::control::Control;
use crate::gauges::Gauges;
use crate::heap::Heap;
use crate::kernel::KernelTrace;
use crate::launched::LaunchedProgram;
use crate::polled_threads::PolledThreads;
use crate::ptrace_sampler::thread_name;
use crate::recorder::Recorder;
use crate::source::Source;

/// How often rings and gauges are read when nothing wakes us earlier.
const ROUND: Duration = Duration::from_millis(100);

/// At most this much is lost when we are killed.
const FLUSH_INTERVAL: Nanos = Nanos(1_000_000_000);

impl Session<'_> {
    /// Announces the threads that run already.
    pub(super) fn announce(
        &mut self,
        threads: &[Tid],
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        for tid in threads {
            recorder.thread_started(Nanos(0), self.pid, *tid, &thread_name(self.pid, *tid))?;
        }
        recorder.read_maps(Nanos(0), self.pid)
    }

    /// Starts bursts. They need threads without another tracer, so there are none where ptrace samples.
    pub(super) fn start_bursts(&mut self, recorder: &mut Recorder<'_>) {
        let Some(options) = self.options.bursts else { return };
        if matches!(self.source, Source::Ptrace(_)) {
            self.notes.push(
                "no memory accesses were traced: perf events are not allowed here, and sampling needs ptrace for itself"
                    .to_owned(),
            );
            return;
        }
        match Bursts::start(options, self.start) {
            Ok(bursts) => {
                recorder.follow_bursts(bursts.native_addresses());
                self.collector.timed_load_overhead_cycles = timed_load_overhead();
                self.bursts = Some(bursts);
            }
            Err(error) => self.notes.push(format!("no memory accesses were traced: {error}")),
        }
    }

    /// Announces the runs that began. No source reports their births, because the thread that starts them is not
    /// observed.
    pub(super) fn announce_runs(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let begun = self.program.as_ref().and_then(LaunchedProgram::runs).map(Runs::begun);
        for run in begun.iter().flatten().skip(self.announced) {
            let time = run.start.saturating_sub(self.start);
            recorder.thread_started(time, run.pid, Tid(run.pid.0), &self.name)?;
            self.announced += 1;
        }
        Ok(())
    }

    /// Names the events that take samples, and has those that are only counted come after them.
    fn announce_counted(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let first = self.source.announce_counted(recorder)?;
        self.counting = self.counting.take().map(|counting| counting.after(first));
        let wanted = self.options.events.iter().flatten().any(|event| event.sampled.is_some());
        if wanted && !matches!(self.source, Source::Perf(_)) {
            let why = "no event takes samples: that needs perf events, which are not used here";
            self.notes.push(NoteSubject::CountedEvents.note(why));
        }
        Ok(())
    }

    pub(super) fn watch(&mut self, recorder: &mut Recorder<'_>) -> Result<End, SinkError> {
        let mut gauges = Gauges::default();
        let polled = self.options.follow_waits && !matches!(self.source, Source::Perf(_));
        let mut polled = polled.then(PolledThreads::default);
        let mut last_flush = Nanos(0);
        self.announce_counted(recorder)?;
        loop {
            let kernel = self.kernel.as_ref().map(KernelTrace::due);
            let due = [recorder.regions_due(), self.source.due(), kernel];
            self.wait(due.into_iter().flatten().min());
            let now = process::monotonic() - self.start;
            self.answer(recorder)?;
            // Before the sources are read: that takes time which is not part of the program's life.
            let end = self.handle_signals().or_else(|| self.is_over(now));
            self.announce_runs(recorder)?;
            self.source.look(recorder)?;
            if matches!(self.source, Source::Proc) && !self.watches_machine() {
                self.follow_threads(now, recorder)?;
            }
            if let Some(bursts) = &self.bursts {
                bursts.look(recorder)?;
            }
            if let Some(heap) = &mut self.heap {
                heap.look(now, self.start, recorder)?;
            }
            if let Some(marked) = &mut self.marked {
                marked.look(now, self.start, recorder)?;
            }
            if let Some(kernel) = &mut self.kernel {
                kernel.look(now, recorder)?;
            }
            if let Some(counting) = &mut self.counting {
                counting.look(now, recorder)?;
            }
            // The time of the reading itself: reports of later calls come after it.
            let read = process::monotonic() - self.start;
            recorder
                .look_at_regions(read, self.heap.as_ref().map_or(read, Heap::reported_until))?;
            if self.is_paused {
                // What threads did meanwhile is not to be seen later either.
                polled = polled.map(|_| PolledThreads::default());
            } else {
                gauges.poll(now, recorder)?;
                if let Some(polled) = &mut polled {
                    polled.poll(now, recorder)?;
                }
            }
            if now - last_flush >= FLUSH_INTERVAL {
                last_flush = now;
                recorder.flush()?;
            }
            if let Some(end) = end.or_else(|| self.is_over(now)) {
                if !self.is_paused {
                    gauges.finish(now, recorder)?;
                }
                return Ok(end);
            }
        }
    }

    /// Whether a machine is observed, not a program.
    pub(super) fn watches_machine(&self) -> bool {
        self.pid == Pid(0)
    }

    fn is_over(&mut self, now: Nanos) -> Option<End> {
        if (self.program.is_some() || !self.watches_machine()) && self.program_ended() {
            self.ended
                .get_or_insert_with(|| (process::monotonic() - self.start, process::own_usage()));
            return Some(End::ProgramEnded);
        }
        let over = |duration: Duration| u128::from(now.0) >= duration.as_nanos();
        self.options.duration.is_some_and(over).then_some(End::Duration)
    }

    /// Sleeps until something happens or is due, at most one round.
    fn wait(&self, due: Option<Nanos>) {
        let now = process::monotonic() - self.start;
        let mut timeout = match &self.source {
            // Rounded up to the millisecond of poll(2), so that the wait does not end too early and spin.
            Source::Ptrace(sampler) => sampler.idle_time() + Duration::from_micros(999),
            _ => ROUND,
        };
        if let Some(heap) = &self.heap {
            timeout = timeout.min(heap.patience());
        }
        if let Some(duration) = self.options.duration {
            timeout = timeout.min(
                duration.saturating_sub(Duration::from_nanos(now.0)) + Duration::from_millis(1),
            );
        }
        if let Some(due) = due {
            let left = Duration::from_nanos(due.0.saturating_sub(now.0));
            timeout = timeout.min(left + Duration::from_micros(999));
        }
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![self.signals.as_fd()];
        descriptors.extend(self.program.as_ref().and_then(LaunchedProgram::descriptor));
        descriptors.extend(self.control.iter().flat_map(Control::descriptors));
        let ended = self.attached.as_ref().and_then(|attached| attached.ended.as_ref());
        descriptors.extend(ended.map(AsFd::as_fd));
        if let Source::Perf(sampler) = &self.source {
            descriptors.extend(sampler.descriptors());
        }
        // The only possible error is a lack of memory; then the loop is busy, but it still works.
        let _ = process::wait_for_data(&descriptors, timeout);
    }

    fn handle_signals(&mut self) -> Option<End> {
        while let Some(Received(signal)) = self.signals.next() {
            match (signal, &mut self.program) {
                (Signal::Interrupt, _) => return Some(End::Interrupted),
                // Somebody wants the whole command to end: the program gets the signal, and we end with it.
                (signal, Some(program)) => program.pass_on(signal),
                (Signal::Terminate | Signal::HangUp | Signal::Quit, None) => {
                    return Some(End::Interrupted);
                }
                (Signal::TerminalStop, None) => process::stop_self(StopFor::TerminalStop),
                _ => {}
            }
        }
        None
    }

    fn program_ended(&mut self) -> bool {
        if let Source::Ptrace(sampler) = &mut self.source {
            // The kernel reports the change to the tracer.
            let Some(change) = sampler.take_main_change() else { return false };
            if let Some(program) = &mut self.program {
                program.note(change);
            }
            return !matches!(change, process::Waited::Stopped(_));
        }
        match &mut self.program {
            Some(program) => {
                match &self.bursts {
                    Some(bursts) => bursts.undisturbed(|| program.look()),
                    None => program.look(),
                }
                program.ended().is_some()
            }
            None => self.attached_process_ended(),
        }
    }

    /// Whether the attached process has ended. Its main thread may end long before its last one.
    fn attached_process_ended(&self) -> bool {
        match self.attached.as_ref().and_then(|attached| attached.ended.as_ref()) {
            Some(fd) => process::poll_readable(&[fd.as_fd()], Duration::ZERO)
                .is_ok_and(|readable| readable == [true]),
            None => tracee::threads_of(self.pid)
                .map_or(true, |threads| threads.iter().all(|tid| tracee::status::has_ended(*tid))),
        }
    }

    /// Reads threads from `/proc` where no sampler reports births and deaths.
    fn follow_threads(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        for tid in tracee::threads_of(self.pid).unwrap_or_default() {
            recorder.thread_started(now, self.pid, tid, &thread_name(self.pid, tid))?;
        }
        Ok(())
    }
}
