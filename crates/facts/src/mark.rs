//! Marks that the user or the program set during the recording, and pauses of the collection.
//!
//! What not: regions of the program (`marked_region`).

use base::{Nanos, Pid};

use crate::Recording;

/// What was said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MarkKind {
    /// A name for this moment.
    #[default]
    Mark,
    /// From now on nothing is observed.
    Pause,
    /// From now on everything is observed again.
    Resume,
}

/// Something that was said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// When. A pause begins before the sources are switched off, and ends after they were switched on.
    pub time: Nanos,
    /// What.
    pub kind: MarkKind,
    /// The name of a mark; empty for the others.
    pub name: String,
    /// The process that said it, where it was the program itself.
    pub pid: Option<Pid>,
}

/// The stretches of a recording in which nothing was observed, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pauses(Vec<(Nanos, Nanos)>);

impl Pauses {
    /// Those that these marks, in order of time, make of a recording of this length.
    #[must_use]
    pub fn new(marks: &[Mark], end: Nanos) -> Pauses {
        let mut pauses = Vec::new();
        let mut since = None;
        for mark in marks {
            match mark.kind {
                MarkKind::Mark => {}
                MarkKind::Pause => since = since.or(Some(mark.time)),
                MarkKind::Resume => pauses.extend(since.take().map(|since| (since, mark.time))),
            }
        }
        pauses.extend(since.map(|since| (since, end)));
        Pauses(pauses)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them: start and end.
    #[must_use]
    pub fn all(&self) -> &[(Nanos, Nanos)] {
        &self.0
    }

    /// How much of a stretch of time was observed.
    #[must_use]
    pub fn observed(&self, from: Nanos, to: Nanos) -> Nanos {
        // Pauses may be many, stretches of time (bins, threads) too.
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let within = self.0[first..].iter().take_while(|(start, _)| *start < to);
        let paused = within.map(|(start, end)| (*end).min(to) - (*start).max(from));
        (to - from) - paused.fold(Nanos(0), |sum, one| sum + one)
    }
}

impl Recording {
    /// When nothing was observed.
    #[must_use]
    pub fn pauses(&self) -> Pauses {
        Pauses::new(&self.marks, Nanos(self.run.elapsed_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_begin_once_and_end_with_the_recording() {
        let at = |time, kind| Mark { time: Nanos(time), kind, ..Mark::default() };
        let marks = [
            at(0, MarkKind::Resume),
            at(10, MarkKind::Pause),
            at(12, MarkKind::Mark),
            at(15, MarkKind::Pause),
            at(20, MarkKind::Resume),
            at(40, MarkKind::Pause),
        ];
        let pauses = Pauses::new(&marks, Nanos(50));
        assert_eq!(pauses.all(), [(Nanos(10), Nanos(20)), (Nanos(40), Nanos(50))]);
        let observed = |from, to| pauses.observed(Nanos(from), Nanos(to)).0;
        assert_eq!(observed(0, 50), 30);
        assert_eq!((observed(0, 10), observed(10, 20), observed(12, 18)), (10, 0, 0));
        assert_eq!((observed(15, 45), observed(20, 40)), (20, 20));
        assert_eq!(observed(50, 50), 0);
    }
}
