//! Loops whose accesses advance by constants, without simulating every access.
//!
//! What for: bursts of streaming loops are summarised as (start, stride, iterations) and hold millions of accesses.
//! The counts are exactly those of simulating access by access; nothing is approximated. What not: streams through
//! many times the last level, of which most lines are not even looked up; that is an estimate (`jump`).
//!
//! Why it is exact: the lines of an access change only now and then (with 8-byte steps, each 8th iteration). Between
//! two *changes* of any access the iterations touch the same lines in the same order.
//!
//! * *Steady*: simulate an iteration with these lines, and then one more. If all touches of the second hit L1, and no
//!   line was removed from L1 meanwhile, further iterations do the same. A depth is the number of distinct lines of
//!   the set touched since the line's last touch, which is at most one iteration ago. The effect of hits on the
//!   recency order and on dirty lines is the same after each iteration. So these iterations are
//!   counted, not simulated. If any touch missed, all are simulated.
//! * *Calm*: if, in addition, no two accesses have different lines in one L1 set, then every line is its set's most
//!   recent one. A repeated touch has depth 0 and changes nothing, and this stays so while other accesses move on to
//!   lines in unused sets. Then only changed accesses are simulated, each at its change. Calm ends when two lines
//!   meet in a set, or a line is removed from L1.
//!
//! * *Restless*: where some accesses are at another line in each iteration, every iteration is one with a change. Then to look for
//!   what does not change costs more than its hits, and all accesses are simulated.
//!
//! Accesses that remove lines (stores that bypass the caches, flushes) or clean them (write-backs) are simulated at their changes
//! too. Repeated, they find nothing to do, unless another access inserts or dirties the line: that is not calm. Stores: the
//! simulated touch at a change makes the line dirty; repeated ones find it dirty.

use crate::access::{Access, Kind, LoopAccess, LoopRun, SiteId, Span};
use crate::hierarchy::Hierarchy;
use crate::levels::Touched;

/// What the driver needs of a hierarchy of levels.
pub(crate) trait Levels {
    /// Bytes of a line of an access are `1 << shift`.
    fn shift(&self, access: usize) -> u32;
    /// Lines in different first-level sets do not disturb each other there.
    fn first_level_set(&self, access: usize, line: u64) -> u64;
    /// One line of an access.
    fn touch(&mut self, access: usize, line: u64, kind: Kind, site: SiteId) -> Touched;
    /// Hits in the first level that were not simulated.
    fn add_hits(&mut self, site: SiteId, depth: u8, count: u64);
    /// How often something but a touch changed the first level.
    fn removals(&self) -> u64;
}

impl Levels for Hierarchy {
    fn shift(&self, _: usize) -> u32 {
        self.caches.shift
    }

    fn first_level_set(&self, _: usize, line: u64) -> u64 {
        self.caches.l1.set_of(line)
    }

    #[inline]
    fn touch(&mut self, _: usize, line: u64, kind: Kind, site: SiteId) -> Touched {
        let (caches, tally) = self.with_tally(site);
        caches.touch(line, kind, tally)
    }

    fn add_hits(&mut self, site: SiteId, depth: u8, count: u64) {
        self.with_tally(site).1.l1.add_hits(depth, count);
    }

    fn removals(&self) -> u64 {
        self.caches.l1.removals()
    }
}

impl Hierarchy {
    /// Simulates a run of a loop; the same as [`Hierarchy::access`] for each of its accesses, only faster.
    pub fn run(&mut self, run: &LoopRun<'_>) {
        for (index, access) in run.accesses.iter().enumerate() {
            let more = u64::from(index < run.partial);
            let (_, tally) = self.with_tally(access.site);
            tally.count(&access.at(0), run.iterations.saturating_add(more));
        }
        let done = self.run_ahead(run);
        if done == 0 {
            return drive(self, run);
        }
        let rest: Vec<LoopAccess> = run.accesses.iter().map(|access| access.from(done)).collect();
        let rest = LoopRun { accesses: &rest, iterations: run.iterations - done, ..*run };
        drive(self, &rest);
    }
}

/// The position of an access of the body.
struct Cursor {
    access: LoopAccess,
    shift: u32,
    span: Span,
    /// The sets of its first and last line.
    sets: (u64, u64),
    /// The last iteration before which its lines were others.
    moved: u64,
    /// The first iteration in which its lines are others than now.
    next: u64,
    /// The first iteration whose touches are neither simulated nor counted.
    settled: u64,
}

impl Cursor {
    fn new<L: Levels>(levels: &L, index: usize, access: &LoopAccess) -> Cursor {
        let shift = levels.shift(index);
        let span = Span { first: 0, lines: 0 };
        Cursor { access: *access, shift, span, sets: (0, 0), moved: 0, next: 0, settled: 0 }
    }

    /// Its lines in an iteration.
    #[inline]
    fn move_to<L: Levels>(&mut self, levels: &L, index: usize, iteration: u64) {
        let access = self.access.at(iteration);
        self.span = Span::of(&access, self.shift);
        let first = levels.first_level_set(index, self.span.first);
        let one = self.span.lines <= 1;
        let last = if one { first } else { levels.first_level_set(index, self.last()) };
        self.sets = (first, last);
        self.moved = iteration;
        self.next = iteration.saturating_add(unchanged(&access, self.access.stride, self.shift));
    }

    fn last(&self) -> u64 {
        let last_line = u64::MAX >> self.shift;
        self.span.first.wrapping_add(self.span.lines.saturating_sub(1)) & last_line
    }

    /// Whether touches of the two can affect each other in L1. Both have at most two lines.
    fn conflicts(&self, other: &Cursor) -> bool {
        let mine = [(self.span.first, self.sets.0), (self.last(), self.sets.1)];
        let theirs = [(other.span.first, other.sets.0), (other.last(), other.sets.1)];
        let (mine_enters, theirs_enters) = (self.access.kind.enters(), other.access.kind.enters());
        mine.iter().any(|(line, set)| {
            theirs.iter().any(|(their_line, their_set)| {
                // A small and a huge page may have one number.
                if line == their_line && self.shift == other.shift {
                    mine_enters != theirs_enters
                } else {
                    set == their_set && mine_enters && theirs_enters
                }
            })
        })
    }

    /// Whether its own lines affect each other, or are too many to compare.
    fn conflicts_with_itself(&self) -> bool {
        self.span.lines > 2 || (self.span.lines == 2 && self.sets.0 == self.sets.1)
    }
}

/// Number of iterations until the lines of an access change; at least 1.
#[inline]
fn unchanged(access: &Access, stride: i64, shift: u32) -> u64 {
    let line_bytes = 1u64 << shift;
    let step = stride.unsigned_abs();
    if step == 0 || access.bytes == 0 {
        return u64::MAX;
    }
    if step >= line_bytes {
        return 1;
    }
    // Offsets within a line are below 2^32: the short division is the fast one.
    let mask = (line_bytes - 1) as u32;
    let first = access.address.0 as u32 & mask;
    let last = first.wrapping_add(access.bytes - 1) & mask;
    // The end that is nearer to its line's border crosses it first.
    let room = if stride > 0 { mask - first.max(last) } else { first.min(last) };
    u64::from(room / step as u32) + 1
}

pub(crate) fn drive<L: Levels>(levels: &mut L, run: &LoopRun<'_>) {
    if run.iterations > 0 && !run.accesses.is_empty() {
        let mut driver = Driver::new(levels, run);
        match driver.is_restless() {
            true => driver.restless(run.iterations),
            false => driver.iterations(run.iterations),
        }
    }
    for (index, access) in run.accesses.iter().take(run.partial).enumerate() {
        let (access, shift) = (access.at(run.iterations), levels.shift(index));
        for line in Span::of(&access, shift).iter(shift) {
            levels.touch(index, line, access.kind, access.site);
        }
    }
}

/// Up to this many cursors are compared pairwise; more, by their sets.
const FEW: usize = 2;

/// Of so many accesses one that is always at another line decides what is done with all of them.
const RESTLESS: usize = 4;

/// Finds lines in one set, in one pass over all cursors, none of which removes lines.
#[derive(Default)]
struct Meetings {
    places: Vec<Meeting>,
    round: u64,
}

/// The line that a set has in this round.
#[derive(Clone, Copy, Default)]
struct Meeting {
    round: u64,
    set: u64,
    line: u64,
    shift: u32,
}

impl Meetings {
    /// Whether all lines have a set of their own: what [`Cursor::conflicts`] says of all pairs.
    fn none(&mut self, cursors: &[Cursor]) -> bool {
        // Two lines each; half empty, so that searches are short and end.
        self.places.resize((4 * cursors.len()).next_power_of_two(), Meeting::default());
        // Entries of earlier rounds count as free, so that nothing needs to be cleared.
        self.round += 1;
        let mut alone = |set: u64, line: u64, shift: u32| {
            let (mask, round) = (self.places.len() - 1, self.round);
            let mut at = set as usize & mask;
            while self.places[at].round == round {
                let other = &self.places[at];
                if other.set == set {
                    return other.line == line && other.shift == shift;
                }
                at = (at + 1) & mask;
            }
            self.places[at] = Meeting { round, set, line, shift };
            true
        };
        cursors.iter().all(|cursor| {
            let (shift, sets) = (cursor.shift, cursor.sets);
            !cursor.conflicts_with_itself()
                && alone(sets.0, cursor.span.first, shift)
                && (cursor.span.lines <= 1 || alone(sets.1, cursor.last(), shift))
        })
    }
}

struct Driver<'a, L: Levels> {
    levels: &'a mut L,
    cursors: Vec<Cursor>,
    meetings: Meetings,
    /// Some access removes or cleans lines.
    removes: bool,
    /// Depths of a steady iteration: site and depth of each line touched.
    steady: Vec<(SiteId, u8)>,
}

impl<'a, L: Levels> Driver<'a, L> {
    fn new(levels: &'a mut L, run: &LoopRun<'_>) -> Driver<'a, L> {
        let accesses = run.accesses.iter().enumerate();
        let cursors = accesses.map(|(index, access)| Cursor::new(levels, index, access)).collect();
        let removes = run.accesses.iter().any(|access| !access.kind.enters());
        let meetings = Meetings::default();
        Driver { levels, cursors, meetings, removes, steady: Vec::new() }
    }

    /// All iterations, of which each changes the lines of some accesses.
    fn restless(&mut self, iterations: u64) {
        for now in 0..iterations {
            for index in 0..self.cursors.len() {
                let cursor = &mut self.cursors[index];
                if cursor.next <= now {
                    cursor.move_to(self.levels, index, now);
                }
                self.touch(index, false);
            }
        }
    }

    /// Whether so many accesses are always at another line that it is restless.
    fn is_restless(&self) -> bool {
        let moves = |cursor: &&Cursor| cursor.access.stride.unsigned_abs() >> cursor.shift > 0;
        self.cursors.iter().filter(moves).count() * RESTLESS >= self.cursors.len()
    }

    /// Invariant at the head of the loop: all iterations before `now` are done, and either something changes in
    /// iteration `now` or it is not calm.
    fn iterations(&mut self, iterations: u64) {
        let (mut now, mut calm) = (0, false);
        while now < iterations {
            let free = self.move_all(now, calm);
            calm = if calm && free {
                self.changed_only(now)
            } else {
                self.settle_all(now);
                let removals = self.levels.removals();
                self.whole_iteration();
                self.cursors.iter_mut().for_each(|cursor| cursor.settled = now + 1);
                free && removals == self.levels.removals()
            };
            let next = self.cursors.iter().map(|cursor| cursor.next).min();
            let next = next.unwrap_or(iterations).min(iterations);
            // What calm iterations touch is counted when its line changes (`settle`).
            if !calm {
                self.repeat(next - now - 1);
                self.cursors.iter_mut().for_each(|cursor| cursor.settled = next);
            }
            now = next;
        }
        self.settle_all(iterations);
    }

    /// Moves the cursors whose lines change. Returns whether no two accesses affect each other now; if they did not
    /// before (`was_free`), only the moved ones are compared.
    fn move_all(&mut self, now: u64, was_free: bool) -> bool {
        for (index, cursor) in self.cursors.iter_mut().enumerate() {
            if cursor.next <= now {
                // What it touched before is counted with the lines it had.
                settle(self.levels, cursor, now);
                cursor.move_to(self.levels, index, now);
            }
        }
        let moved = |cursor: &Cursor| !was_free || cursor.moved == now;
        let compared = self.cursors.iter().filter(|cursor| moved(cursor)).count();
        if compared > FEW && !self.removes {
            return self.meetings.none(&self.cursors);
        }
        let disturbs = |(index, cursor): (usize, &Cursor)| {
            let others = self.cursors.iter().enumerate().filter(|(other, _)| *other != index);
            moved(cursor)
                && (cursor.conflicts_with_itself()
                    || others.into_iter().any(|(_, other)| cursor.conflicts(other)))
        };
        !self.cursors.iter().enumerate().any(disturbs)
    }

    /// Simulates the accesses that change in iteration `now`. Returns whether it is calm afterwards; once a touch has
    /// ended the calm, the rest of the iteration is simulated.
    fn changed_only(&mut self, now: u64) -> bool {
        let removals = self.levels.removals();
        let mut calm = true;
        for index in 0..self.cursors.len() {
            if calm && self.cursors[index].moved != now {
                continue;
            }
            settle(self.levels, &mut self.cursors[index], now);
            self.touch(index, false);
            self.cursors[index].settled = now + 1;
            calm = calm && removals == self.levels.removals();
        }
        if !calm {
            self.settle_all(now + 1);
        }
        calm
    }

    /// `count` iterations in which nothing changes, the same as the one before.
    fn repeat(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        let removals = self.levels.removals();
        self.steady.clear();
        let mut steady = true;
        for index in 0..self.cursors.len() {
            steady &= self.touch(index, true);
        }
        if steady && removals == self.levels.removals() {
            // The iteration that was just simulated is one of them.
            for (site, depth) in &self.steady {
                self.levels.add_hits(*site, *depth, count - 1);
            }
        } else {
            (1..count).for_each(|_| self.whole_iteration());
        }
    }

    fn whole_iteration(&mut self) {
        for index in 0..self.cursors.len() {
            self.touch(index, false);
        }
    }

    /// Simulates one access, and notes its hits if wanted. Returns whether all lines hit.
    #[inline]
    fn touch(&mut self, index: usize, note: bool) -> bool {
        let Cursor { access, shift, span, .. } = &self.cursors[index];
        let mut none_missed = true;
        for line in span.iter(*shift) {
            match self.levels.touch(index, line, access.kind, access.site) {
                Touched::Hit(depth) if note => self.steady.push((access.site, depth)),
                Touched::Missed => none_missed = false,
                Touched::Hit(_) | Touched::NotEntered => {}
            }
        }
        none_missed
    }

    fn settle_all(&mut self, until: u64) {
        for cursor in &mut self.cursors {
            settle(self.levels, cursor, until);
        }
    }
}

/// Counts the touches before iteration `until` that were not simulated: hits on the most recent line.
#[inline]
fn settle<L: Levels>(levels: &mut L, cursor: &mut Cursor, until: u64) {
    let count = (until - cursor.settled).saturating_mul(cursor.span.lines);
    if count > 0 && cursor.access.kind.enters() {
        levels.add_hits(cursor.access.site, 0, count);
    }
    cursor.settled = until;
}
