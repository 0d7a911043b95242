//! CPU time of threads after their last sample.
//!
//! What for: the sampling clock of a thread starts with the thread, so its samples represent full periods of its own, and CPU time
//! after the last of them is in no sample. For a thread that lives for seconds that is negligible. For threads that live for a
//! few periods it is a good part, and for those shorter than a period all of it: long-lived threads would seem to have had their
//! time. What not: where in the program that time was. The thread's other samples represent it; where there are none, those of
//! threads with similarly short lifetimes.
//!
//! The difference between samples and counted CPU time is distributed over the threads, each up to the time after its last sample
//! and at most a period. Samples weigh more by that.
//!
//! Assumptions: threads run rather than wait after their last sample, or wait alike.

use std::collections::HashMap;

use base::{Nanos, Pid, ThreadId};
use facts::{Recording, SamplingMethod};

use crate::profile::counted_cpu;
use crate::threads::ThreadTable;

/// A smaller share of the CPU time than this may be missing for other reasons.
const LEAST: f64 = 0.02;
/// From this part on a note reports it.
const MUCH: f64 = 0.05;

/// A thread and its samples.
#[derive(Clone, Copy, Default)]
struct Clock {
    weight: f64,
    last: Option<Nanos>,
    /// What may have been after the last.
    rest: f64,
}

/// Lets samples represent what threads ran after their last one. Once per recording.
pub fn count_thread_ends(recording: &mut Recording) {
    // Of most recordings next to nothing is missing, and their millions of samples need not be gone through.
    let found = missing(recording).filter(|(missing, all)| *missing >= LEAST * all);
    let Some((missing, all)) = found else { return };
    let clocks = clocks(recording);
    let most: f64 = clocks.values().map(|clock| clock.rest).sum();
    let known = missing.min(most);
    if known < LEAST * all {
        return;
    }
    let part = known / most;
    // Of threads without a sample, by process, and what those with samples have to take it in proportion to.
    let mut unsampled: HashMap<Pid, (f64, f64)> = HashMap::new();
    for (thread, clock) in &clocks {
        let (without, with) = unsampled.entry(thread.pid).or_default();
        *(if clock.weight > 0.0 { with } else { without }) += clock.rest * part;
    }
    for sample in &mut recording.samples {
        let Some(clock) = clocks.get(&ThreadId::new(sample.pid, sample.tid)) else { continue };
        let (without, with) = unsampled.get(&sample.pid).copied().unwrap_or_default();
        let rest = clock.rest * part;
        let of_unsampled = if with > 0.0 { without * rest / with } else { 0.0 };
        let times = 1.0 + (rest + of_unsampled) / clock.weight.max(1.0);
        sample.weight = Nanos((sample.weight.0 as f64 * times).round() as u64);
    }
    if known >= MUCH * all {
        recording.run.notes.push(format!(
            "{:.0} % of the CPU time is between the last samples of threads and their ends, or of threads too \
             short for a sample. It is attributed to where samples of such threads fell. -k sampling-interval=0.2 \
             takes more samples.",
            known / all * 100.0
        ));
    }
}

/// Nanoseconds that the samples lack, and all that were counted; `None` where the samples are no clocks of threads, or
/// some were lost.
fn missing(recording: &Recording) -> Option<(f64, f64)> {
    let collector = &recording.run.collector;
    if collector.method != SamplingMethod::PerfEvents || !collector.kernel_samples {
        return None;
    }
    let all = counted_cpu(recording)?.0 as f64;
    let sampled: f64 = recording.samples.iter().map(|sample| sample.weight.0 as f64).sum();
    let lost = recording.lost(facts::LostSource::Samples) > 0;
    (sampled > 0.0 && !lost).then_some((all - sampled, all))
}

fn clocks(recording: &Recording) -> HashMap<ThreadId, Clock> {
    let period =
        recording.samples.iter().map(|sample| sample.weight.0).filter(|one| *one > 0).min();
    let mut clocks: HashMap<ThreadId, Clock> = HashMap::new();
    for sample in &recording.samples {
        let clock = clocks.entry(ThreadId::new(sample.pid, sample.tid)).or_default();
        clock.weight += sample.weight.0 as f64;
        clock.last = clock.last.max(Some(sample.time));
    }
    for thread in ThreadTable::new(recording).all() {
        let clock = clocks.entry(ThreadId::new(thread.pid, thread.tid)).or_default();
        let behind = thread.end.0.saturating_sub(clock.last.unwrap_or(thread.start).0);
        clock.rest = behind.min(period.unwrap_or(0)) as f64;
    }
    clocks
}

#[cfg(test)]
mod tests {
    use base::Tid;

    use super::*;
    use facts::{Privilege, ResourceUse, Sample, ThreadEvent, ThreadEventKind};

    const PERIOD: u64 = 2_000_000;

    fn event(tid: i32, time: u64, kind: ThreadEventKind) -> ThreadEvent {
        ThreadEvent { time: Nanos(time), pid: Pid(1), tid: Tid(tid), kind, name: String::new() }
    }

    /// A thread that stays for ten periods, and others one after the other, each for this many nanoseconds.
    fn recorded(lives: &[u64], counted: u64) -> Recording {
        let mut recording = Recording::default();
        recording.run.elapsed_ns = 10 * PERIOD;
        recording.run.collector.method = SamplingMethod::PerfEvents;
        recording.run.collector.kernel_samples = true;
        let usage = ResourceUse { user_ns: counted, ..ResourceUse::default() };
        recording.run.resource_use = Some(usage);
        let mut run = |tid, start: u64, end: u64| {
            recording.thread_events.push(event(tid, start, ThreadEventKind::Start));
            recording.thread_events.push(event(tid, end, ThreadEventKind::Exit));
            for number in 1..=(end - start) / PERIOD {
                recording.samples.push(Sample {
                    time: Nanos(start + number * PERIOD),
                    pid: Pid(1),
                    tid: Tid(tid),
                    cpu: None,
                    weight: Nanos(PERIOD),
                    stack: None,
                    privilege: Privilege::User,
                });
            }
        };
        run(1, 0, 10 * PERIOD);
        let mut begin = 0;
        for (tid, life) in (2..).zip(lives) {
            run(tid, begin, begin + life);
            begin += life;
        }
        recording
    }

    fn weight_of(recording: &Recording, of: impl Fn(i32) -> bool) -> u64 {
        let samples = recording.samples.iter().filter(|sample| of(sample.tid.0));
        samples.map(|sample| sample.weight.0).sum()
    }

    #[test]
    fn threads_that_come_and_go_have_the_time_behind_their_last_sample() {
        // Of 1.75 periods each, of which a sample has one; one of half a period, of which none has anything.
        let lives = [PERIOD / 4 * 7, PERIOD / 4 * 7, PERIOD / 2];
        let mut recording = recorded(&lives, 14 * PERIOD);
        count_thread_ends(&mut recording);
        assert_eq!(weight_of(&recording, |tid| tid == 1), 10 * PERIOD);
        assert_eq!(weight_of(&recording, |tid| tid > 1), 4 * PERIOD);
        assert!(recording.run.notes[0].starts_with("14 % of the CPU time"), "{:?}", recording.run);
        // They waited for half of what they might have run.
        let mut recording = recorded(&lives, 13 * PERIOD);
        count_thread_ends(&mut recording);
        assert_eq!(weight_of(&recording, |tid| tid == 1), 10 * PERIOD);
        assert_eq!(weight_of(&recording, |tid| tid > 1), 3 * PERIOD);
    }

    #[test]
    fn what_else_is_missing_is_not_theirs() {
        // More than they can have run stays where it was: with all.
        let mut recording = recorded(&[PERIOD / 4 * 7], 20 * PERIOD);
        count_thread_ends(&mut recording);
        assert_eq!(weight_of(&recording, |tid| tid > 1), PERIOD / 4 * 7);
        for counted in [0, 11 * PERIOD] {
            let mut recording = recorded(&[PERIOD], counted);
            count_thread_ends(&mut recording);
            assert_eq!(weight_of(&recording, |_| true), 11 * PERIOD);
        }
        // Nobody's clock.
        let mut recording = recorded(&[PERIOD / 4 * 7], 12 * PERIOD);
        recording.run.collector.method = SamplingMethod::Ptrace;
        count_thread_ends(&mut recording);
        assert_eq!(weight_of(&recording, |_| true), 11 * PERIOD);
    }
}
