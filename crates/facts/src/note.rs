//! Subjects of notes. A view repeats the notes of its subject, and must not miss one because its sentence was reworded.
//!
//! What not: notes without a subject, which only the summary shows. A note is stored as plain text, its subject in front,
//! so that a result needs no other column for it.

use std::fmt::Display;

/// What a note is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoteSubject {
    /// Events that `event-config` asks for.
    CountedEvents,
    /// Events of the top-down tree.
    TopDown,
    /// What the whole machine moves to and from memory.
    MachineTraffic,
    /// Regions that the program marks.
    MarkedRegions,
    /// Loads that the hardware sampled.
    SampledLoads,
    /// What was left out to keep the size limit of the result.
    SizeLimit,
}

impl NoteSubject {
    /// Every subject.
    pub const ALL: [Self; 6] = [
        Self::CountedEvents,
        Self::TopDown,
        Self::MachineTraffic,
        Self::MarkedRegions,
        Self::SampledLoads,
        Self::SizeLimit,
    ];

    const fn words(self) -> &'static str {
        match self {
            Self::CountedEvents => "counted events",
            Self::TopDown => "top-down",
            Self::MachineTraffic => "machine traffic",
            Self::MarkedRegions => "marked regions",
            Self::SampledLoads => "sampled loads",
            Self::SizeLimit => "size limit",
        }
    }

    /// A note about this subject.
    #[must_use]
    pub fn note(self, text: impl Display) -> String {
        format!("{}: {text}", self.words())
    }

    /// Whether [`Self::note`] of this subject made the note.
    #[must_use]
    pub fn has(self, note: &str) -> bool {
        note.strip_prefix(self.words()).is_some_and(|rest| rest.starts_with(": "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_of_the_subject_that_made_it_only() {
        let note = NoteSubject::TopDown.note("no PMU");
        assert_eq!(note, "top-down: no PMU");
        assert!(NoteSubject::TopDown.has(&note) && !NoteSubject::CountedEvents.has(&note));
        assert!(!NoteSubject::TopDown.has("top-down events were not counted"));
    }
}
