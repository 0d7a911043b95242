//! The end of a session: releases the program, stops the sources in an order in which each can still report to the
//! next, and compares the counts with /proc and getrusage.
//!
//! What not: deciding that it ends (`watch`).

use base::Nanos;
use facts::{Counter, CounterKind, ExitKind, Fact, OneRun, OwnCost, ResourceUse, SinkError};
use sys::process::{self, Runs, Waited};
use tracee::status::FaultCounts;

use super::{End, Outcome, Session};
use crate::launched::LaunchedProgram;
use crate::perf::Totals;
use crate::proc_status::{fault_counts, process_cpu_time, process_is_alive};
use crate::recorder::Recorder;
use crate::source::Source;

impl Session<'_> {
    /// Stops everything; `watched` says why the observation ended.
    pub(super) fn finish(
        mut self,
        mut recorder: Recorder<'_>,
        watched: Result<End, SinkError>,
        usage_before: process::Usage,
        startup: Nanos,
    ) -> Outcome {
        let runs = self.program.as_ref().and_then(LaunchedProgram::runs);
        runs.into_iter().for_each(Runs::end);
        // First, because it releases the program.
        let bursts = self.bursts.take().map(|mut bursts| bursts.stop(&mut recorder)).transpose();
        let (bursts, unwritten) = match bursts {
            Ok(cost) => (cost, Ok(())),
            Err(error) => (None, Err(error)),
        };
        if let Some(heap) = &mut self.heap {
            heap.stop();
        }
        let announced = self.announce_runs(&mut recorder);
        let stopped = self.source.stop(&mut recorder).and(unwritten).and(announced);
        if let (Source::Ptrace(sampler), Some(program)) = (&mut self.source, &mut self.program)
            && let Some(change) = sampler.take_main_change()
        {
            program.note(change);
        }
        let stopped_at = process::monotonic() - self.start;
        // Our own end is not time of a program that ended before. But another process of it may have continued: that
        // time was recorded.
        let runs = self.runs();
        let ended = self.ended.filter(|_| recorder.processes_seen() == runs.len().max(1));
        let usage = process::own_usage();
        // What we do after the end costs the program nothing.
        let (elapsed, usage_then) = ended.unwrap_or((stopped_at, usage));
        let machine = self.watches_machine();
        // What the kernel says of the program alone is not of the machine.
        let program = self.program.as_ref().and_then(LaunchedProgram::ended).filter(|_| !machine);
        let taken = program.map(|(_, usage)| usage.minor_faults);
        let own = (usage_then.cpu() - usage_before.cpu()).0;
        let delay = match &self.source {
            Source::Perf(sampler) => sampler.delay(),
            Source::Ptrace(_) | Source::Proc => None,
        };
        let mut own_cost = OwnCost {
            cpu_time_ns: own,
            displaced_ns: program.zip(delay).map(|((_, its), delay)| {
                (((its.user_ns + its.system_ns) as f64 * delay) as u64).min(own)
            }),
            peak_resident_bytes: usage.peak_resident_bytes,
            startup_ns: startup.0,
            burst_stand_still_ns: bursts.map(|cost| cost.stand_still.0),
            burst_time_ns: bursts.map(|cost| cost.inside.0),
            burst_slowdown_ns: bursts.map(|cost| cost.slowdown.0),
            consumer_cpu_ns: bursts.map(|cost| cost.consumer.0),
            burst_faults: None,
            burst_toll_ns: bursts.and_then(|cost| cost.stop).map(|cost| cost.0),
            burst_resident_bytes: bursts.map(|cost| cost.pages.resident),
            fault_watching_ns: match &self.source {
                Source::Perf(sampler) => Some(sampler.fault_watching(taken).0),
                Source::Ptrace(_) | Source::Proc => None,
            },
            switch_watching_ns: match &self.source {
                Source::Perf(sampler) => Some(sampler.switch_watching().0),
                Source::Ptrace(_) | Source::Proc => None,
            },
        };
        let (exit, resource_use) = match self.program.as_ref().and_then(LaunchedProgram::ended) {
            // The kernel's account has the pauses in it, inseparably.
            Some((exit, usage)) => {
                (*exit, Some(usage.clone()).filter(|_| !recorder.has_paused() && !machine))
            }
            None if matches!(watched, Ok(End::ProgramEnded)) => (ExitKind::Unknown, None),
            None => (ExitKind::StillRunning, None),
        };
        let totals = match recorder.has_paused() {
            true => Totals::default(),
            false => self.totals_from_proc(resource_use.as_ref(), recorder.processes_seen()),
        };
        let note = self.marks_note();
        self.notes.extend(note);
        let counted = match self.source {
            Source::Perf(sampler) => {
                stopped.and_then(|()| sampler.finish(elapsed, &mut self.notes, &mut recorder))
            }
            Source::Ptrace(_) | Source::Proc => stopped.map(|()| Totals::default()),
        };
        let counted = counted.and_then(|counted| {
            let kernel = self.kernel.take();
            let ended = kernel.map(|kernel| kernel.finish(elapsed, &mut recorder)).transpose()?;
            if let Some((notes, faults)) = ended {
                self.notes.extend(notes);
                *own_cost.fault_watching_ns.get_or_insert(0) += faults.0;
            }
            let ended = self.counting.take();
            let ended = ended.map(|counting| counting.finish(elapsed, &mut recorder));
            self.notes.extend(ended.transpose()?.unwrap_or_default());
            let notes =
                self.heap.take().map(|heap| heap.finish(elapsed, self.start, &mut recorder));
            self.notes.extend(notes.transpose()?.unwrap_or_default());
            let marked = self.marked.take();
            let notes = marked
                .map(|marked| marked.finish(elapsed, self.start, &mut recorder))
                .transpose()?;
            self.notes.extend(notes.unwrap_or_default());
            recorder.finish_regions(elapsed)?;
            Ok(counted)
        });
        let is_left = |pid: &base::Pid| !machine && *pid != self.pid && process_is_alive(*pid);
        let left = recorder.processes().filter(is_left).count();
        if left > 0 && matches!(watched, Ok(End::ProgramEnded)) {
            self.notes.push(format!(
                "{left} {} started by the program still ran when it ended; the recording ends there",
                if left == 1 { "process" } else { "processes" }
            ));
        }
        if let (Some(cost), Ok(counted)) = (bursts, &counted) {
            // The kernel populates pages itself, which perf events do not count.
            let populated = if counted.minor_faults.is_none() { cost.pages.populated } else { 0 };
            own_cost.burst_faults = Some((populated, populated + cost.pages.touched));
        }
        let closed = counted.and_then(|counted| {
            push_totals(believable(counted, totals, &mut self.notes), &mut recorder)
        });
        let closed = closed.and_then(|()| self.checks.finish(&mut recorder));
        let closed = closed.and_then(|()| recorder.flush());
        let stopped_by = match &watched {
            Ok(End::ProgramEnded) => None,
            Ok(End::Interrupted) => Some("interrupted".to_owned()),
            Ok(End::Duration) => Some("duration".to_owned()),
            Err(_) => Some("write error".to_owned()),
        };
        Outcome {
            elapsed,
            end: self.start + elapsed,
            exit,
            runs,
            stopped_by,
            collector: self.collector,
            own_cost,
            resource_use,
            notes: std::mem::take(&mut self.notes),
            still_runs: left > 0 || !matches!(watched, Ok(End::ProgramEnded)),
            program: self.program.filter(|program| program.ended().is_none()),
            files: recorder.take_files(),
            sink_error: watched.err().or(closed.err()),
        }
    }

    /// The runs of the program, where more than one was asked for.
    fn runs(&self) -> Vec<OneRun> {
        let runs = self.program.as_ref().and_then(LaunchedProgram::runs).map(Runs::begun);
        let one = |run: process::OneRun| OneRun {
            pid: run.pid.0,
            start_ns: run.start.saturating_sub(self.start).0,
            elapsed_ns: run.end.map(|(end, _)| (end - run.start).0),
            exit: match run.end {
                Some((_, Waited::Exited(code, _))) => ExitKind::Code(code),
                Some((_, Waited::Killed(signal, _))) => ExitKind::Signal(signal),
                Some(_) => ExitKind::Unknown,
                None => ExitKind::StillRunning,
            },
        };
        runs.into_iter().flatten().map(one).collect()
    }

    /// The counts of /proc and getrusage, for totals that the source does not have. For a program that still runs
    /// only one process's own counts are available: with several processes they would be a part, and a part is not a
    /// total.
    fn totals_from_proc(&self, resource_use: Option<&ResourceUse>, processes: usize) -> Totals {
        if let Some(usage) = resource_use {
            return Totals {
                task_clock: Some(usage.user_ns + usage.system_ns),
                minor_faults: Some(usage.minor_faults),
                major_faults: Some(usage.major_faults),
                context_switches: Some(usage.voluntary_switches + usage.involuntary_switches),
                migrations: None,
            };
        }
        if processes > 1 || self.watches_machine() {
            return Totals::default();
        }
        let (faults_before, time_before) = match &self.attached {
            Some(attached) => (attached.faults_before, attached.time_before),
            None => (Some(FaultCounts::default()), Some(Nanos(0))),
        };
        let difference =
            |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let faults = fault_counts(self.pid);
        Totals {
            task_clock: difference(
                process_cpu_time(self.pid).map(|t| t.0),
                time_before.map(|t| t.0),
            ),
            minor_faults: difference(faults.map(|f| f.minor), faults_before.map(|f| f.minor)),
            major_faults: difference(faults.map(|f| f.major), faults_before.map(|f| f.major)),
            context_switches: None,
            migrations: None,
        }
    }
}

/// The source's totals with gaps filled. If getrusage shows that the kernel hid a part of the program, the totals of
/// getrusage instead.
///
/// The kernel hides an executable that may not be read and a set-uid child. It also hides switches between threads,
/// whose time counts for the next thread but before that thread's perf events begin (`finish_task_switch` in
/// kernel/sched/core.c), and a process before its events are inherited and after they are removed.
fn believable(counted: Totals, other: Totals, notes: &mut Vec<String>) -> Totals {
    const WORTH_TELLING_NS: u64 = 10_000_000;
    if let (Some(seen), Some(used)) = (counted.task_clock, other.task_clock)
        && seen < used - used / 10
        && used - seen > WORTH_TELLING_NS
    {
        let switches =
            other.context_switches.map_or(String::new(), |count| format!(" (here {count})"));
        notes.push(format!(
            "the kernel showed only {:.2} s of the program's {:.2} s of CPU time: not shown are switches between \
             threads{switches}, the start and the end of processes, and programs that this user may not observe (not \
             readable, or set-uid)",
            Nanos(seen).seconds(),
            Nanos(used).seconds()
        ));
        return Totals { task_clock: Some(used), ..counted.or(other) };
    }
    counted.or(other)
}

fn push_totals(totals: Totals, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
    for (kind, value) in [
        (CounterKind::TaskClock, totals.task_clock),
        (CounterKind::MinorFaults, totals.minor_faults),
        (CounterKind::MajorFaults, totals.major_faults),
        (CounterKind::ContextSwitches, totals.context_switches),
        (CounterKind::Migrations, totals.migrations),
    ] {
        if let Some(value) = value {
            recorder.push(Fact::Counter(Counter { kind, value }))?;
        }
    }
    Ok(())
}
