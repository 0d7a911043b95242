//! A recording prepared for many views.
//!
//! What for: the work that all views share (stacks, sums of samples, decoded bursts, objects, bursts in the cache model) is done
//! once, when the first view needs it, and a server answers each question from it. What not: a cache of views.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use analysis::findings::{Figures, Findings, findings};
use analysis::memory::{Memory, Replayed};
use analysis::objects::{Objects, Pieces};
use analysis::sharing::{SharedLines, sharing};
use analysis::stalls::Stalls;
use analysis::{Profile, Selection, TracedCode};
use facts::Recording;

/// What views are made of. Shared by the threads that make them.
pub struct Prepared<'a> {
    pub(crate) profile: Profile<'a>,
    pub(crate) code: TracedCode,
    objects: OnceLock<Objects>,
    replayed: OnceLock<Arc<Replayed>>,
    shared: OnceLock<SharedLines>,
    judged: OnceLock<Findings>,
    /// Findings will be asked for.
    judges: bool,
}

impl<'a> Prepared<'a> {
    /// For all views. Linear in the size of the recording.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Prepared<'a> {
        Prepared::with(recording, TracedCode::read(recording), true)
    }

    pub(crate) fn with(recording: &'a Recording, code: TracedCode, judges: bool) -> Prepared<'a> {
        let profile = Profile::with_addresses(recording, code.addresses());
        let (objects, replayed) = (OnceLock::new(), OnceLock::new());
        let (shared, judged) = (OnceLock::new(), OnceLock::new());
        Prepared { profile, code, objects, replayed, shared, judged, judges }
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

    /// The memory figures of its bursts, by whole object.
    pub(crate) fn memory(&self) -> Memory<'_> {
        Memory::of(&self.profile, &self.code, Arc::clone(self.replayed()))
    }

    fn replayed(&self) -> &Arc<Replayed> {
        let Prepared { profile, code, .. } = self;
        let new =
            || Arc::new(Replayed::new(profile, code, self.objects(), Pieces::Whole, self.judges));
        self.replayed.get_or_init(new)
    }

    /// The same of a selection.
    pub(crate) fn memory_of(&self, selection: &Selection) -> Memory<'_> {
        self.memory().selected(selection)
    }

    /// What its clock samples waited for.
    pub(crate) fn stalls(&self) -> &Stalls {
        self.replayed().stalls()
    }

    /// Lines that threads share in the selection; of the whole recording they are looked for once.
    pub(crate) fn shared(&self, selection: &Selection) -> Cow<'_, SharedLines> {
        let find = || sharing(&self.profile, &self.code, selection);
        match selection.chooses_anything() {
            true => Cow::Owned(find()),
            false => Cow::Borrowed(self.shared.get_or_init(|| match self.judges {
                true => self.memory().shared_lines().cloned().unwrap_or_else(find),
                false => find(),
            })),
        }
    }

    /// Its findings, from these figures of the whole recording.
    pub(crate) fn judged(&self, figures: impl FnOnce() -> Figures) -> &Findings {
        self.judged.get_or_init(|| findings(&figures()))
    }
}
