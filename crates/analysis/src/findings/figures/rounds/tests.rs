//! Rounds of threads in recordings written by hand: who ends last, who works along, and threads that are none.

use base::StackId;
use testkit::recording::RecordingBuilder;

use super::{Rounds, Work, rounds};
use crate::Profile;

/// Ten steps of 100 ms each, in a process whose first thread is 1.
struct Program {
    builder: RecordingBuilder,
    draw: Option<StackId>,
    read: Option<StackId>,
}

fn program() -> Program {
    let mut builder = RecordingBuilder::new();
    builder.recording.run.elapsed_ns = 1_000_000_000;
    let exe = builder.file("/home/user/draw");
    let draw = builder.code(exe, 1, &[("draw", "draw.c", 10)]);
    let read = builder.code(exe, 2, &[("read_scene", "draw.c", 30)]);
    let (draw, read) = (builder.stack(&[draw]), builder.stack(&[read]));
    builder.thread(1, 1, "draw", 0.0, 1.0);
    Program { builder, draw, read }
}

impl Program {
    /// A thread that lives for this many milliseconds from there on, and computes all the time.
    fn lives(&mut self, tid: i32, start: u64, millis: u64) -> &mut Self {
        let (from, end) = (start as f64 * 1e-3, (start + millis) as f64 * 1e-3);
        self.builder.thread(1, tid, "draw", from, end);
        self.builder.rewind(from).samples(1, tid, self.draw, millis.saturating_sub(1));
        self
    }

    /// The first thread computes from there on.
    fn first(&mut self, stack: Option<StackId>, start: u64, millis: u64) -> &mut Self {
        self.builder.rewind(start as f64 * 1e-3).samples(1, 1, stack, millis.saturating_sub(1));
        self
    }

    fn rounds(self) -> Vec<Rounds> {
        let recording = self.builder.build();
        let profile = Profile::new(&recording);
        rounds(&profile, &Work::of_threads(&profile))
    }

    /// How many rounds of how many threads, and the parts of the last and the others of the time of both, percent.
    fn summary(self) -> Option<(usize, usize, i64, i64)> {
        let found = self.rounds().pop()?;
        let (last, others) = (found.last.value?, found.others.value?);
        let percent = |part: f64| (100.0 * part / (last + others)).round() as i64;
        Some((found.rounds, found.threads, percent(last), percent(others)))
    }
}

#[test]
fn two_threads_per_step_one_with_four_times_the_work() {
    let mut program = program();
    for step in 0..10 {
        // Now the one that is started first has more, now the other.
        let (one, two) = if step % 2 == 0 { (81, 21) } else { (21, 81) };
        let tid = 10 + 2 * step as i32;
        program.lives(tid, step * 100, one).lives(tid + 1, step * 100 + 1, two);
    }
    assert_eq!(program.summary(), Some((10, 2, 80, 20)));
}

#[test]
fn the_first_thread_works_along_and_goes_on_when_the_other_has_ended() {
    let mut program = program();
    for step in 0..10 {
        program.lives(10 + step as i32, step * 100, 21);
        program.first(program.draw, step * 100, 81);
    }
    assert_eq!(program.summary(), Some((10, 2, 80, 20)));
}

#[test]
fn the_first_thread_works_along_and_waits_for_the_other() {
    let mut program = program();
    for step in 0..10 {
        program.lives(10 + step as i32, step * 100, 99);
        program.first(program.draw, step * 100, 33);
    }
    assert_eq!(program.summary(), Some((10, 2, 75, 25)));
}

#[test]
fn of_a_short_thread_few_samples_fell_anywhere() {
    let mut program = program();
    let exe = program.builder.file("/home/user/draw");
    let shade = program.builder.code(exe, 3, &[("shade", "draw.c", 20)]);
    let shade = program.builder.stack(&[shade]);
    for step in 0..10u64 {
        let (tid, start) = (10 + step as i32, step * 100);
        // A sample or two each, of which a sixth in another function.
        let (from, end) = (start as f64 * 1e-3, (start + 99) as f64 * 1e-3);
        program.builder.thread(1, tid, "draw", from, end);
        let stack = if step % 6 == 5 { shade } else { program.draw };
        program.builder.rewind(from).samples(1, tid, stack, 2);
        program.first(program.draw, start, 3);
    }
    assert_eq!(program.summary(), Some((10, 2, 50, 50)));
}

#[test]
fn what_the_first_thread_does_between_two_steps_is_no_part_of_them() {
    let mut program = program();
    for step in 0..10 {
        let tid = 10 + 2 * step as i32;
        program.lives(tid, step * 100, 41).lives(tid + 1, step * 100, 41);
        program.first(program.read, step * 100 + 50, 41);
    }
    assert_eq!(program.summary(), Some((10, 2, 50, 50)));
}

#[test]
fn threads_for_requests_that_come_at_any_time_are_no_rounds() {
    let mut program = program();
    for request in 0..20 {
        let length = 10 + 37 * request % 60;
        program.lives(10 + request as i32, request * 49, length);
    }
    assert_eq!(program.summary(), None);
}

#[test]
fn a_thread_that_lives_all_the_time_and_does_something_else_hides_no_round() {
    let mut program = program();
    program.builder.thread(1, 2, "log", 0.0, 1.0).rewind(0.5).samples(1, 2, program.read, 3);
    for step in 0..10 {
        let tid = 10 + 2 * step as i32;
        program.lives(tid, step * 100, 81).lives(tid + 1, step * 100, 21);
    }
    assert_eq!(program.summary(), Some((10, 2, 80, 20)));
}
