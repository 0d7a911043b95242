//! Threads that run and wait: recordings written by hand, with answers that follow from them.

use analysis::threading::{Reason, State, WokenBy, by_waker, strips, threading, verdicts};
use analysis::{Filter, Profile, Selection};
use base::StackId;
use facts::{Recording, SamplingMethod, WaitKind};
use testkit::recording::RecordingBuilder;

const LOCK: u64 = 0x4_0100;

/// A program of `main` and workers, one second long, with stacks to wait at.
struct Program {
    builder: RecordingBuilder,
    lock: Option<StackId>,
    barrier: Option<StackId>,
    sleep: Option<StackId>,
    spin: Option<StackId>,
    work: Option<StackId>,
}

fn program(workers: i32) -> Program {
    let mut builder = RecordingBuilder::new();
    builder.recording.run.elapsed_ns = 1_000_000_000;
    builder.recording.run.collector.method = SamplingMethod::PerfEvents;
    let kernel = builder.kernel();
    let (exe, libc) = (builder.file("/home/user/solver"), builder.file("/usr/lib/libc.so.6"));
    let gomp = builder.file("/usr/lib/libgomp.so.1.0.0");
    let schedule = builder.code(kernel, 1, &[("schedule", "", 0)]);
    let futex = builder.code(kernel, 2, &[("futex_do_wait", "", 0)]);
    let timer = builder.code(kernel, 3, &[("do_nanosleep", "", 0)]);
    let mutex = builder.code(libc, 1, &[("___pthread_mutex_lock", "", 0)]);
    let nanosleep = builder.code(libc, 2, &[("__GI___clock_nanosleep", "", 0)]);
    let join = builder.code(libc, 3, &[("__pthread_clockjoin_ex", "", 0)]);
    let nameless = builder.unnamed(gomp, 0x1f00);
    let work = builder.code(exe, 1, &[("work", "solver.c", 10)]);
    let main = builder.code(exe, 2, &[("main", "solver.c", 50)]);
    let stack = |builder: &mut RecordingBuilder, frames: &[_]| builder.stack(frames);
    let lock = stack(&mut builder, &[schedule, futex, mutex, work]);
    let barrier = stack(&mut builder, &[schedule, futex, nameless, work]);
    let sleep = stack(&mut builder, &[schedule, timer, nanosleep, work]);
    let join = stack(&mut builder, &[schedule, futex, join, main]);
    let (spin, work) = (stack(&mut builder, &[nameless, work]), stack(&mut builder, &[work]));
    builder.thread(1, 1, "main", 0.0, 1.0);
    for worker in 0..workers {
        builder.thread(1, 2 + worker, &format!("worker-{worker}"), 0.0, 1.0);
    }
    let blocked = WaitKind::Blocked;
    builder.waits((1, 1), blocked, (join, Some(0x7f00)), (0.0, 1.0), (1, 1.0));
    builder.wait_object(1, LOCK, "queue_lock", "/home/user/solver");
    Program { builder, lock, barrier, sleep, spin, work }
}

fn sentences(recording: &Recording, cpus: f64) -> Vec<(&'static str, String)> {
    let profile = Profile::new(recording);
    let found = threading(&profile, &Selection::default());
    let verdicts = verdicts(&profile, &found, Some(cpus));
    verdicts.into_iter().map(|verdict| (verdict.id, verdict.sentence)).collect()
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6 * expected.abs().max(1.0), "{value}, not {expected}");
}

/// Worker 0 runs for 0.5 s, waits for the lock for 0.3 s and sleeps for 0.1 s; worker 1 is preempted for 0.4 s.
fn two_workers() -> Program {
    let mut program = program(2);
    let Program { builder, lock, sleep, work, .. } = &mut program;
    let second = (0.0, 1.0);
    builder.ran((1, 2), second, 0.5, 0.0).ran((1, 3), second, 0.6, 0.4);
    builder.waits((1, 2), WaitKind::Blocked, (*lock, Some(LOCK)), second, (300, 0.3));
    builder.waits((1, 2), WaitKind::Blocked, (*sleep, Some(0)), second, (10, 0.1));
    builder.waits((1, 3), WaitKind::Preempted, (None, None), second, (100, 0.4));
    builder.at_once(second, &[0.1, 0.7, 0.2]);
    builder.samples(1, 2, *work, 500).rewind(0.0).samples(1, 3, *work, 600);
    program
}

#[test]
fn parts_add_up_to_the_life_of_a_thread() {
    let recording = two_workers().builder.build();
    let profile = Profile::new(&recording);
    let found = threading(&profile, &Selection::default());
    let first = &found.threads[1];
    near(first.running, 0.5e9);
    near(first.waiting[Reason::Lock as usize], 0.3e9);
    near(first.waiting[Reason::Sleep as usize], 0.1e9);
    near(first.unknown, 0.1e9);
    near(found.threads[2].ready, 0.4e9);
    near(found.threads[0].waiting[Reason::Join as usize], 1e9);
    for split in found.threads.iter().chain([&found.total()]) {
        near(split.running + split.ready + split.waited() + split.unknown, split.lived);
    }
    let lock = found.places.iter().find(|(place, _)| place.reason == Reason::Lock).unwrap();
    let caller = profile.stacks.function_of(lock.0.caller.unwrap());
    assert_eq!((caller.name.as_str(), lock.1.seen), ("work", 300));
}

#[test]
fn waits_without_a_stack_are_divided_like_those_with_one() {
    let Program { mut builder, lock, sleep, .. } = program(1);
    let (blocked, second) = (WaitKind::Blocked, (0.0, 1.0));
    builder.ran((1, 2), second, 0.1, 0.0);
    // Two thirds of the waits of some microseconds that have a stack are for the lock; all of those of some milliseconds.
    builder.waits((1, 2), blocked, (lock, Some(LOCK)), second, (2, 10e-6));
    builder.waits((1, 2), blocked, (sleep, None), second, (1, 5e-6));
    builder.waits((1, 2), blocked, (None, None), second, (3000, 0.015));
    builder.waits((1, 2), blocked, (lock, Some(LOCK)), second, (10, 0.08));
    builder.waits((1, 2), blocked, (None, None), second, (100, 0.8));
    // None of this length has one.
    builder.waits((1, 2), blocked, (None, None), second, (1, 0.000_9));
    let recording = builder.build();
    let profile = Profile::new(&recording);
    let found = threading(&profile, &Selection::default());
    let waiting = found.threads[1].waiting;
    near(waiting[Reason::Lock as usize], 1e9 * (0.015_015 * 2.0 / 3.0 + 0.88));
    near(waiting[Reason::Sleep as usize], 1e9 * 0.015_015 / 3.0);
    near(waiting[Reason::Unknown as usize], 0.000_9e9);
    assert!(!found.threads[1].exact && found.threads[0].exact);
}

#[test]
fn time_in_the_run_queue_beyond_preemptions_is_taken_off_the_waits() {
    let Program { mut builder, lock, sleep, .. } = program(1);
    let (blocked, second) = (WaitKind::Blocked, (0.0, 1.0));
    builder.ran((1, 2), second, 0.1, 0.3);
    builder.waits((1, 2), WaitKind::Preempted, (None, None), second, (1, 0.1));
    builder.waits((1, 2), blocked, (lock, Some(LOCK)), second, (1, 0.6));
    builder.waits((1, 2), blocked, (sleep, None), second, (1, 0.2));
    let recording = builder.build();
    let found = threading(&Profile::new(&recording), &Selection::default());
    let split = &found.threads[1];
    near(split.ready, 0.3e9);
    near(split.waiting[Reason::Lock as usize], 0.45e9);
    near(split.waiting[Reason::Sleep as usize], 0.15e9);
    near(split.running + split.ready + split.waited(), split.lived);
}

#[test]
fn a_time_range_takes_its_share_of_every_row() {
    let recording = two_workers().builder.build();
    let profile = Profile::new(&recording);
    let half = [Filter::Time { start: 0.25, end: 0.75 }, Filter::Thread("worker-0".to_owned())];
    let selection = Selection::resolve(&profile, &half).unwrap();
    let found = threading(&profile, &selection);
    near(found.total().lived, 0.5e9);
    near(found.total().running, 0.25e9);
    near(found.threads[1].waiting[Reason::Lock as usize], 0.15e9);
    near(found.at_once.values().sum(), 0.5e9);
    let strips = strips(&profile, &selection, &found, 5);
    assert_eq!((strips.count(), strips.strips.len()), (5, 1));
    for bin in &strips.strips[0].bins {
        near(bin[State::Running as usize], 0.05e9);
        near(bin[State::Lock as usize], 0.03e9);
    }
}

#[test]
fn nameless_code_of_an_openmp_library_spins() {
    let Program { mut builder, spin, work, .. } = program(1);
    builder.ran((1, 2), (0.0, 1.0), 1.0, 0.0);
    builder.samples(1, 2, spin, 250).samples(1, 2, work, 750);
    let recording = builder.build();
    let profile = Profile::new(&recording);
    let found = threading(&profile, &Selection::default());
    near(found.threads[1].spinning, 0.25e9);
    near(found.threads[1].useful(), 0.75e9);
    let strips = strips(&profile, &Selection::default(), &found, 2);
    let spun = |bin: usize| strips.strips[1].bins[bin][State::Spinning as usize];
    // Together what the thread's row says, wherever the sample on the boundary counts.
    near(spun(0) + spun(1), 0.25e9);
}

#[test]
fn the_lock_and_its_caller_are_named() {
    let found = sentences(&two_workers().builder.build(), 2.0);
    let lock = found.iter().find(|(id, _)| *id == "contended").unwrap();
    assert_eq!(lock.1, "threads wait 15 % of their time for the lock queue_lock, called from work");
}

#[test]
fn threads_that_all_run_are_limited_elsewhere() {
    let Program { mut builder, work, .. } = program(2);
    for tid in [2, 3] {
        builder.ran((1, tid), (0.0, 1.0), 1.0, 0.0).rewind(0.0).samples(1, tid, work, 1000);
    }
    builder.at_once((0.0, 1.0), &[0.0, 0.0, 1.0]);
    let found = sentences(&builder.build(), 2.0);
    assert_eq!(
        found,
        [(
            "balanced",
            "balanced, no waits: 2 threads ran 100 % of the time, the busiest 1.00 times the mean. The limit is \
             elsewhere: check memory bandwidth (`fathom run`)"
                .to_owned()
        )]
    );
}

#[test]
fn the_thread_that_others_wait_for_is_named() {
    let Program { mut builder, barrier, .. } = program(4);
    for (tid, ran) in [(2, 0.25), (3, 0.25), (4, 0.25), (5, 1.0)] {
        builder.ran((1, tid), (0.0, 1.0), ran, 0.0);
        if ran < 1.0 {
            let place = (barrier, Some(0x7f10));
            builder.waits((1, tid), WaitKind::Blocked, place, (0.0, 1.0), (20, 1.0 - ran));
        }
    }
    let found = sentences(&builder.build(), 4.0);
    assert_eq!(found[0].0, "imbalanced");
    assert!(found[0].1.contains("worker-3 (5) does 2.29 times the mean of 4 threads"), "{found:?}");
}

#[test]
fn more_threads_than_cpus_are_oversubscribed() {
    let Program { mut builder, .. } = program(4);
    for tid in 2..6 {
        builder.ran((1, tid), (0.0, 1.0), 0.5, 0.5);
        builder.waits((1, tid), WaitKind::Preempted, (None, None), (0.0, 1.0), (100, 0.5));
    }
    builder.at_once((0.0, 1.0), &[0.0, 0.0, 1.0]);
    let found = sentences(&builder.build(), 2.0);
    let expected =
        "oversubscribed: 4 threads compete for 2 CPUs; each waits 50 % of its time for one";
    assert_eq!(found, [("oversubscribed", expected.to_owned())]);
}

#[test]
fn threads_without_a_cpu_do_not_work_in_turn() {
    let Program { mut builder, .. } = program(2);
    for tid in 2..4 {
        builder.ran((1, tid), (0.0, 1.0), 0.5, 0.5);
        builder.waits((1, tid), WaitKind::Preempted, (None, None), (0.0, 1.0), (100, 0.5));
    }
    builder.at_once((0.0, 1.0), &[0.0, 1.0]);
    let found = sentences(&builder.build(), 2.0);
    let expected = "crowded out: 2 threads waited 50 % of the time for a CPU, although there are 2: other programs had them, \
                    and may have caused other waits and the low concurrency";
    assert_eq!(found, [("crowded-out", expected.to_owned())]);
}

#[test]
fn one_thread_alone_is_single_threaded() {
    let Program { mut builder, work, .. } = program(0);
    builder.recording.waits.clear();
    builder.ran((1, 1), (0.0, 1.0), 1.0, 0.0).samples(1, 1, work, 1000);
    builder.at_once((0.0, 1.0), &[0.0, 1.0]);
    let found = sentences(&builder.build(), 8.0);
    assert_eq!(found[0].0, "single-threaded");
}

#[test]
fn waits_without_a_record_are_not_called_balanced() {
    let Program { mut builder, .. } = program(1);
    builder.ran((1, 2), (0.0, 1.0), 0.5, 0.0);
    builder.waits((1, 2), WaitKind::Blocked, (None, None), (0.0, 1.0), (50, 0.5));
    let found = sentences(&builder.build(), 2.0);
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["unexplained"]);
}

#[test]
fn nothing_and_nonsense_make_no_figures_of_nothing() {
    let empty = Recording::default();
    let profile = Profile::new(&empty);
    let found = threading(&profile, &Selection::default());
    assert!(verdicts(&profile, &found, None).is_empty());
    assert_eq!(strips(&profile, &Selection::default(), &found, 10).strips, []);
    let Program { mut builder, lock, .. } = program(1);
    let wait = (lock, Some(u64::MAX));
    builder.waits((1, 2), WaitKind::Blocked, wait, (1e9, 1e9), (u64::MAX, 1e9));
    builder.waits((9, 9), WaitKind::Blocked, (Some(StackId(999)), None), (0.5, 0.0), (0, 0.0));
    builder.ran((1, 2), (0.0, 0.0), 1e9, 1e9);
    let recording = builder.build();
    let profile = Profile::new(&recording);
    let found = threading(&profile, &Selection::default());
    let total = found.total();
    assert!(total.running.is_finite() && total.waited().is_finite() && total.unknown >= 0.0);
    let _ =
        (verdicts(&profile, &found, Some(0.0)), strips(&profile, &Selection::default(), &found, 7));
}

#[test]
fn time_at_a_place_is_divided_by_who_ended_the_waits_there() {
    let Program { mut builder, lock, sleep, work, .. } = program(2);
    let (blocked, second, at) = (WaitKind::Blocked, (0.0, 1.0), (lock, Some(LOCK)));
    builder.ran((1, 2), second, 0.1, 0.0);
    builder.waits((1, 2), blocked, at, second, (400, 0.4));
    builder.waits((1, 2), blocked, (sleep, Some(0)), second, (10, 0.1));
    builder.waits((1, 2), blocked, (None, None), second, (1, 0.2));
    // A thread that is not known is of others, and so is what nobody of the program was seen to end.
    builder.woken((1, 2), at, second, Some((3, work)), (200, 0.24));
    builder.woken((1, 2), at, second, Some((1, None)), (100, 0.12));
    builder.woken((1, 2), at, second, Some((99, work)), (20, 0.01));
    let recording = builder.build();
    let profile = Profile::new(&recording);
    let found = threading(&profile, &Selection::default());
    let rows = by_waker(&profile, &Selection::default(), &found);
    let of = |reason, wanted: &dyn Fn(&WokenBy) -> bool| {
        let mut rows = rows.iter().filter(|row| row.place.reason == reason && wanted(&row.by));
        let row = rows.next().unwrap_or_else(|| panic!("no {reason:?}"));
        assert!(rows.next().is_none());
        row.sum
    };
    let by = |name: &'static str| {
        let profile = &profile;
        move |waker: &WokenBy| match waker {
            WokenBy::Thread(thread, _) => profile.threads.get(*thread).name == name,
            _ => false,
        }
    };
    let worker = of(Reason::Lock, &by("worker-1"));
    near(worker.time, 0.24e9);
    near(worker.waits, 200.0);
    near(of(Reason::Lock, &by("main")).time, 0.12e9);
    near(of(Reason::Lock, &|waker| *waker == WokenBy::Others).time, 0.04e9);
    near(of(Reason::Sleep, &|waker| *waker == WokenBy::Others).time, 0.1e9);
    near(of(Reason::Unknown, &|waker| *waker == WokenBy::Others).time, 0.2e9);
    // It did not end before the recording did.
    near(of(Reason::Join, &|waker| *waker == WokenBy::Unseen).time, 1e9);
    let functions = rows.iter().filter_map(|row| match row.by {
        WokenBy::Thread(_, place) => Some(&profile.stacks.function_of(place?).name),
        _ => None,
    });
    assert!(functions.into_iter().any(|name| name == "work"));
    let all: f64 = rows.iter().map(|row| row.sum.time).sum();
    near(all, found.places.values().map(|sum| sum.time).sum());
}
