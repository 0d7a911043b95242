//! Scripts of switches, and the windows that follow from them.

use super::*;

const PID: Pid = Pid(7);
const ONE: Tid = Tid(7);
const TWO: Tid = Tid(8);
const MS: u64 = 1_000_000;

fn track(script: impl FnOnce(&mut SwitchTracker, &mut Recorder<'_>), end: u64) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut recorder = Recorder::new(&mut facts);
    let mut tracker = SwitchTracker::new(true);
    script(&mut tracker, &mut recorder);
    tracker.finish(Nanos(end), &mut recorder).unwrap();
    drop(recorder);
    facts
}

fn waits(facts: &[Fact]) -> Vec<(i32, WaitKind, u64, u64, u64, Option<u64>)> {
    let row = |fact: &Fact| match fact {
        Fact::Wait(wait) => Some((
            wait.tid.0,
            wait.kind,
            wait.time.0,
            wait.waits,
            wait.waited.0,
            wait.object.map(|object| object.0),
        )),
        _ => None,
    };
    facts.iter().filter_map(row).collect()
}

fn ran(facts: &[Fact], tid: Tid) -> u64 {
    let row = |fact: &Fact| match fact {
        Fact::ThreadTime(row) if row.tid == tid => row.running.0,
        _ => 0,
    };
    facts.iter().map(row).sum()
}

#[test]
fn running_and_waiting_add_up_to_the_time_that_was() {
    let facts = track(
        |tracker, recorder| {
            tracker.launched(PID);
            let mut switch = |time, tid, to| {
                tracker.switched(Nanos(time), PID, tid, to, recorder).unwrap();
            };
            switch(4 * MS, ONE, Switch::Blocked);
            switch(5 * MS, ONE, Switch::In);
            switch(6 * MS, ONE, Switch::Preempted);
            switch(36 * MS, ONE, Switch::In);
        },
        50 * MS,
    );
    let expected = [
        (7, WaitKind::Preempted, 6 * MS, 1, 30 * MS, None),
        (7, WaitKind::Blocked, 0, 1, MS, None),
    ];
    let mut found = waits(&facts);
    found.sort_by_key(|wait| std::cmp::Reverse(wait.4));
    assert_eq!(found, expected);
    assert_eq!(ran(&facts, ONE), 19 * MS);
    let at_once: u64 = facts
        .iter()
        .map(|fact| if let Fact::Concurrency(row) = fact { row.duration.0 } else { 0 })
        .sum();
    assert_eq!(at_once, 50 * MS);
}

#[test]
fn short_waits_at_one_object_are_one_row_and_keep_their_sum() {
    let facts = track(
        |tracker, recorder| {
            tracker.launched(PID);
            for turn in 0..100 {
                let time = turn * 50_000;
                tracker.leaves_with(PID, ONE, Some(StackId(3)), Some(RemoteAddr(0x40)));
                let mut switch = |time, to| {
                    tracker.switched(Nanos(time), PID, ONE, to, recorder).unwrap();
                };
                switch(time + 10_000, Switch::Blocked);
                switch(time + 40_000 + turn, Switch::In);
            }
        },
        5 * MS,
    );
    let sum = 100 * 30_000 + (0..100).sum::<u64>();
    assert_eq!(waits(&facts), [(7, WaitKind::Blocked, 0, 100, sum, Some(0x40))]);
    assert_eq!(ran(&facts, ONE), 5 * MS - sum);
}

#[test]
fn a_thread_is_ready_from_its_birth_and_gone_with_its_end() {
    let facts = track(
        |tracker, recorder| {
            tracker.launched(PID);
            tracker.born(Nanos(MS), PID, TWO, recorder).unwrap();
            tracker.switched(Nanos(3 * MS), PID, TWO, Switch::In, recorder).unwrap();
            tracker.ended(Nanos(7 * MS), PID, TWO, recorder).unwrap();
        },
        9 * MS,
    );
    assert_eq!(waits(&facts), [(8, WaitKind::Preempted, 0, 1, 2 * MS, None)]);
    assert_eq!((ran(&facts, ONE), ran(&facts, TWO)), (9 * MS, 4 * MS));
}

#[test]
fn time_of_lost_records_is_unknown() {
    let facts = track(
        |tracker, recorder| {
            tracker.launched(PID);
            tracker.switched(Nanos(2 * MS), PID, ONE, Switch::Blocked, recorder).unwrap();
            tracker.lost(Nanos(3 * MS), recorder).unwrap();
            tracker.switched(Nanos(5 * MS), PID, ONE, Switch::In, recorder).unwrap();
            // The switch between these two is missing too, and no record says so.
            tracker.switched(Nanos(8 * MS), PID, ONE, Switch::In, recorder).unwrap();
        },
        9 * MS,
    );
    assert_eq!(waits(&facts), []);
    assert_eq!(ran(&facts, ONE), 3 * MS);
}

#[test]
fn who_still_waits_at_the_end_has_waited_until_then() {
    let facts = track(
        |tracker, _| {
            tracker.found(PID, ONE, false);
            tracker.found(PID, TWO, true);
        },
        30 * MS,
    );
    assert_eq!(waits(&facts), [(7, WaitKind::Blocked, 0, 1, 30 * MS, None)]);
    assert_eq!(ran(&facts, TWO), 30 * MS);
}

#[test]
fn a_wait_is_ended_by_who_woke_its_thread_since_it_began() {
    let waker = |tid| Some(Waker { pid: PID, tid, stack: Some(StackId(5)) });
    let facts = track(
        |tracker, recorder| {
            tracker.launched(PID);
            let mut turn = |wait: (u64, u64), wake: (u64, Option<Waker>, u64)| {
                tracker.leaves_with(PID, ONE, Some(StackId(3)), Some(RemoteAddr(0x40)));
                let mut switch = |time, to, wakes: &[(u64, Option<Waker>, u64)]| {
                    for (time, waker, weight) in wakes {
                        tracker.wakes(Nanos(*time), ONE, *waker, *weight);
                    }
                    tracker.switched(Nanos(time), PID, ONE, to, recorder).unwrap();
                };
                let early: &[_] = if wake.0 < wait.0 { &[wake] } else { &[] };
                let late: &[_] = if wake.0 < wait.0 { &[] } else { &[wake] };
                switch(wait.0, Switch::Blocked, early);
                switch(wait.1, Switch::In, late);
            };
            turn((1_000, 3_000), (2_500, waker(TWO), 1));
            turn((5_000, 8_000), (7_000, waker(TWO), 4));
            turn((10_000, 11_000), (10_500, None, 1));
            // It was awake still as somebody woke it.
            turn((20_000, 30_000), (19_000, waker(TWO), 1));
            // As long as a window.
            turn((40_000, 40 * MS), (39 * MS, waker(ONE), 1));
        },
        50 * MS,
    );
    let row = |fact: &Fact| match fact {
        Fact::Wake(wake) => {
            assert_eq!((wake.stack, wake.object), (Some(StackId(3)), Some(RemoteAddr(0x40))));
            let waker = wake.waker.map(|waker| waker.tid.0);
            Some((waker, wake.time.0, wake.wakes, wake.waited.0, wake.seen))
        }
        _ => None,
    };
    let mut wakes: Vec<_> = facts.iter().filter_map(row).collect();
    wakes.sort_unstable();
    let expected = [
        (None, 0, 1, 1_000, 1),
        (Some(7), 40_000, 1, 40 * MS - 40_000, 1),
        (Some(8), 0, 5, 14_000, 2),
    ];
    assert_eq!(wakes, expected);
}
