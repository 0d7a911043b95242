//! A recording made ready for many views.
//!
//! What for: the work that all views share (stacks, sums of samples, decoded bursts, objects, bursts in the cache model) is
//! done once, when the first view needs it, and a server answers each question from it. What not: a cache of views.

use std::sync::OnceLock;

use analysis::findings::{Figures, Findings, findings};
use analysis::memory::{Memory, Replayed};
use analysis::objects::{Objects, Pieces};
use analysis::{Profile, TracedCode};
use facts::Recording;

/// What views are made of. Shared by the threads that make them.
pub struct Prepared<'a> {
    pub(crate) profile: Profile<'a>,
    pub(crate) code: TracedCode,
    objects: OnceLock<Objects>,
    replayed: OnceLock<Replayed>,
    judged: OnceLock<Findings>,
}

impl<'a> Prepared<'a> {
    /// For all views. Linear in the size of the recording.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Prepared<'a> {
        Prepared::with(recording, TracedCode::read(recording))
    }

    pub(crate) fn with(recording: &'a Recording, code: TracedCode) -> Prepared<'a> {
        let profile = Profile::with_addresses(recording, code.addresses());
        let (objects, replayed, judged) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Prepared { profile, code, objects, replayed, judged }
    }

    /// The recording.
    #[must_use]
    pub fn recording(&self) -> &'a Recording {
        self.profile.recording
    }

    /// Its memory objects.
    pub(crate) fn objects(&self) -> &Objects {
        self.objects.get_or_init(|| Objects::new(&self.profile))
    }

    /// What its bursts tell of memory, with whole objects told apart.
    pub(crate) fn memory(&self) -> Memory<'_> {
        let objects = self.objects();
        let replayed = self
            .replayed
            .get_or_init(|| Replayed::new(&self.profile, &self.code, objects, Pieces::Whole));
        Memory::of(&self.profile, &self.code, objects, replayed)
    }

    /// Its findings, from these figures of the whole recording.
    pub(crate) fn judged(&self, figures: impl FnOnce() -> Figures) -> &Findings {
        self.judged.get_or_init(|| findings(&figures()))
    }
}
