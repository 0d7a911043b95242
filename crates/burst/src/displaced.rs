//! How much of our own CPU time the program pays for.
//!
//! What for: where a CPU is idle our work costs the program nothing; where all CPUs are busy, the program waits for all of it.
//! So it is measured: while we use a CPU that a thread of the program wants, the kernel counts that thread as waiting
//! for a CPU. What not: how often bursts begin (`budget`); what a neighbour on a shared core or cache costs.
//!
//! Assumption: the program waits for us before it waits for others. Where other programs use the CPUs too, or it has more
//! threads than there are CPUs, all our work counts.

/// Of what was seen at earlier turns this part counts on: some ten turns.
const KEPT: f64 = 0.9;

/// Waits for a CPU, of the program's threads or of ours, and our CPU time, in the last turns.
#[derive(Debug, Default)]
pub struct Displaced {
    waited: f64,
    ours: f64,
}

impl Displaced {
    /// Adds a turn: how long threads waited for a CPU, and what we used meanwhile, in the same unit.
    pub fn note(&mut self, waited: f64, ours: f64) {
        self.waited = self.waited * KEPT + waited;
        self.ours = self.ours * KEPT + ours;
    }

    /// The part of our CPU time that the program waited for. All of it as long as nothing is known.
    #[must_use]
    pub fn part(&self) -> f64 {
        if self.ours > 0.0 { (self.waited / self.ours).clamp(0.0, 1.0) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_pays_for_what_it_waits_for() {
        let mut displaced = Displaced::default();
        assert_eq!(displaced.part(), 1.0);
        displaced.note(0.25, 1.0);
        assert_eq!(displaced.part(), 0.25);
        displaced.note(100.0, 1.0);
        assert_eq!(displaced.part(), 1.0, "it also waits for others");
        (0..100).for_each(|_| displaced.note(0.0, 1.0));
        assert!(displaced.part() < 0.01);
    }
}
