//! Threads: their parts of the work, waits, lines that they share.

use analysis::findings::{
    Figures, Rounds, Severity, SharedFigure, ThreadTime, WaitFigures, findings,
};
use base::Pid;
use facts::Metric;

use crate::{NOTHING, about, ids, place, quiet, share, waits_of};

pub fn shared(different_bytes: bool, waits: f64) -> SharedFigure {
    SharedFigure {
        different_bytes,
        conflicts: about(1e8, "count/s"),
        time: about(2.0, "s"),
        waits: share(waits),
        place: place("count"),
        threads: 2,
    }
}

#[test]
fn shared_lines_cost_what_their_code_waits() {
    let with = |line| Figures { shared: Ok(vec![line]), running: 2.0, ..quiet() };
    let found = findings(&with(shared(true, 80.0))).found;
    assert_eq!((found[0].id, found[0].severity), ("false-sharing", Severity::High));
    assert_eq!(ids(&with(shared(false, 80.0))), ["true-sharing"]);
    // Where nobody waits it is said, without a gain.
    let found = findings(&with(shared(true, 0.0))).found;
    assert_eq!((found[0].severity, found[0].gain.value), (Severity::Info, None));
    let rare = SharedFigure { conflicts: about(1e5, "count/s"), ..shared(true, 80.0) };
    assert_eq!(ids(&with(rare)), NOTHING);
}

pub fn thread(number: u32, cpu: f64, life: (f64, f64)) -> ThreadTime {
    let cpu = about(cpu, "s");
    let (label, main) = (format!("worker ({number})"), number == 0);
    ThreadTime { label, pid: Pid(7), main, cpu, alike: true, place: place("solve"), life }
}

pub fn with_threads(threads: &[ThreadTime]) -> Figures {
    let cpu = threads.iter().filter_map(|thread| thread.cpu.value).sum();
    let running = f64::max(cpu, 1.0);
    let cpu_time = Metric::counted(cpu, "s");
    Figures { threads: Ok(threads.to_vec()), cpu_time, running, ..quiet() }
}

#[test]
fn unequal_threads_that_live_together() {
    let whole = (0.0, 1.0);
    let main = thread(0, 0.0, whole);
    let unequal = [main.clone(), thread(1, 0.9, whole), thread(2, 0.2, (0.0, 0.2))];
    assert_eq!(ids(&with_threads(&unequal)), ["load-imbalance"]);
    // Which function the others wait for.
    assert_eq!(findings(&with_threads(&unequal)).found[0].place, place("solve"));
    // Somebody else had the CPU meanwhile.
    assert_eq!(ids(&Figures { displaced: 0.6, ..with_threads(&unequal) }), NOTHING);
    let equal = [main.clone(), thread(1, 0.9, whole), thread(2, 0.85, whole)];
    assert_eq!(ids(&with_threads(&equal)), NOTHING);
    // It made the data before the other began.
    let prepared = [thread(1, 0.9, whole), thread(2, 0.5, (0.4, 1.0))];
    assert_eq!(ids(&with_threads(&prepared)), NOTHING);
    let prepared_and_worked = [thread(1, 0.9, whole), thread(2, 0.1, (0.4, 1.0))];
    assert_eq!(ids(&with_threads(&prepared_and_worked)), ["load-imbalance"]);
    let in_turn = [main.clone(), thread(1, 0.7, (0.0, 0.7)), thread(2, 0.2, (0.8, 1.0))];
    assert_eq!(ids(&with_threads(&in_turn)), NOTHING);
    assert_eq!(ids(&with_threads(&[main.clone(), thread(1, 0.9, whole)])), NOTHING);
    let elsewhere = ThreadTime { pid: Pid(8), ..thread(2, 0.2, whole) };
    assert_eq!(ids(&with_threads(&[main.clone(), thread(1, 0.9, whole), elsewhere])), NOTHING);
    // One that writes a log now and then has no part of the work.
    let other = ThreadTime { alike: false, ..thread(2, 0.2, whole) };
    assert_eq!(ids(&with_threads(&[main, thread(1, 0.9, whole), other])), NOTHING);
}

#[test]
fn unequal_threads_that_are_started_anew_for_each_step() {
    let rounds = |threads, last, others| Rounds {
        rounds: 20,
        threads,
        last: about(last, "s"),
        others: about(others, "s"),
        place: place("draw"),
    };
    let with = |one| Figures { rounds: vec![one], ..quiet() };
    let found = findings(&with(rounds(2, 0.9, 0.1))).found;
    assert_eq!((found[0].id, found[0].gain.value), ("load-imbalance", Some(0.4)));
    let title = "In 20 rounds of 2 threads, one thread has 1.8 times the mean work";
    assert_eq!(found[0].title, title);
    assert_eq!(ids(&with(rounds(2, 0.5, 0.48))), NOTHING);
    assert_eq!(ids(&with(rounds(3, 0.33, 0.64))), NOTHING);
    assert_eq!(ids(&with(rounds(5, 0.9, 0.1))), NOTHING);
}

#[test]
fn more_threads_than_cpus() {
    let whole = (0.0, 1.0);
    let eight: Vec<ThreadTime> = (1..=8).map(|number| thread(number, 0.48, whole)).collect();
    assert_eq!(ids(&with_threads(&eight)), ["oversubscribed"]);
    assert_eq!(ids(&with_threads(&eight[..4])), NOTHING);
    // Teams that come and go, too shortly for samples to tell what each did; next to two that stay.
    let team = |runnable: f64, displaced| {
        let member = |number: u32| {
            let start = f64::from(number) / 100.0;
            thread(number + 3, 0.02, (start, start + 0.01))
        };
        let stay = [thread(1, 1.0, whole), thread(2, 1.0, whole)];
        let threads: Vec<ThreadTime> = stay.into_iter().chain((0..100).map(member)).collect();
        Figures {
            runnable: Metric { low: Some(runnable - 1.0), ..about(runnable, "count") },
            displaced,
            ..with_threads(&threads)
        }
    };
    let found = findings(&team(15.0, 0.0)).found;
    let title = "15 threads are runnable at a time on 4 CPUs";
    assert_eq!((found[0].id, found[0].title.as_str()), ("oversubscribed", title));
    assert_eq!(ids(&team(8.0, 0.0)), NOTHING);
    // Eight that start together, and wait for the last of them at the end of each step.
    let steps: Vec<ThreadTime> = (1..=8).map(|number| thread(number, 0.3, whole)).collect();
    let queue = |runnable: f64| {
        let runnable = Metric { low: Some(runnable - 1.0), ..about(runnable, "count") };
        Figures { runnable, ..with_threads(&steps) }
    };
    assert_eq!(ids(&queue(7.0)), ["oversubscribed"]);
    assert_eq!(ids(&queue(5.0)), NOTHING);
    assert_eq!(ids(&team(15.0, 2.0)), NOTHING);
    // Their lives are long because others have the CPUs.
    let other_percent = Metric::counted(50.0, "percent");
    assert_eq!(ids(&Figures { other_percent, ..with_threads(&eight) }), NOTHING);
    // A thread per request, of which two at a time would do: they pile up because others have the CPUs.
    let crowded = |threads: &[ThreadTime]| Figures {
        other_percent: Metric::counted(50.0, "percent"),
        cpu_time: Metric::counted(2.0, "s"),
        displaced: 2.0,
        ..with_threads(threads)
    };
    let requests: Vec<ThreadTime> = (1..=50)
        .map(|number| {
            let start = f64::from(number) * 0.018;
            thread(number, 0.04, (start, (start + 0.4).min(1.0)))
        })
        .collect();
    assert_eq!(ids(&crowded(&requests)), NOTHING);
    // A pool is too large whatever others do.
    let pool: Vec<ThreadTime> = (1..=20).map(|number| thread(number, 0.1, whole)).collect();
    assert_eq!(ids(&crowded(&pool)), ["oversubscribed"]);
    let in_turn: Vec<ThreadTime> = (0..8)
        .map(|number| {
            thread(number + 1, 0.48, (f64::from(number) / 8.0, f64::from(number + 1) / 8.0))
        })
        .collect();
    assert_eq!(ids(&with_threads(&in_turn)), NOTHING);
    let quota = Figures { usable_cpus: Some(1.5), quota: Some(1.5), ..with_threads(&eight[..3]) };
    let found = findings(&quota).found;
    assert!(found[0].title.contains("quota of 1.5"), "{}", found[0].title);
}

pub fn waiting(lock: f64, barriers: f64, io: f64) -> Figures {
    Figures { waits: Ok(waits_of(lock, barriers, io)), running: 4.0, ..quiet() }
}

#[test]
fn a_lock_is_named_with_its_caller() {
    let found = findings(&waiting(1.2, 0.0, 0.0)).found;
    assert_eq!((found[0].id, found[0].severity), ("lock-contention", Severity::High));
    let title = "Threads wait 30 % of their time for the lock queue, most of it in push";
    assert_eq!(found[0].title, title);
    assert_eq!(found[0].place.object.as_deref(), Some("queue"));
    // 1.2 s over four threads, of which half may come back as other waits.
    let gain = &found[0].gain;
    assert_eq!((gain.value, gain.low, gain.high), (Some(0.3), Some(0.15), Some(0.3)));
    assert_eq!(ids(&waiting(0.2, 0.0, 0.0)), NOTHING);
    // On one CPU nobody would run instead.
    let alone = Figures { usable_cpus: Some(1.0), ..waiting(3.0, 0.0, 0.0) };
    assert_eq!(ids(&alone), NOTHING);
}

#[test]
fn barriers_count_beyond_what_uneven_threads_explain() {
    let found = findings(&waiting(0.0, 1.0, 0.0)).found;
    assert_eq!((found[0].id, found[0].gain.value), ("barrier-waits", Some(0.25)));
    assert_eq!(ids(&waiting(0.0, 0.2, 0.0)), NOTHING);
    // Others had the CPU of whom the rest waited for.
    assert_eq!(ids(&Figures { displaced: 0.2, ..waiting(0.0, 1.0, 0.0) }), NOTHING);
    // One of two computes for 0.9 s, the other for 0.1 s and waits for it.
    let whole = (0.0, 1.0);
    let uneven = with_threads(&[thread(1, 0.9, whole), thread(2, 0.1, whole)]);
    let waits = WaitFigures { workers: 2.0, lived: 2.0, useful: 1.0, ..waits_of(0.0, 0.8, 0.0) };
    assert_eq!(ids(&Figures { waits: Ok(waits), ..uneven }), ["load-imbalance"]);
}
