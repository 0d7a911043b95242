//! A recording made ready for many views.
//!
//! What for: the work that all views share (stacks, sums of samples, decoded bursts, objects) is done once, and a server
//! answers each question from it. What not: a cache of views.

use std::sync::Arc;

use analysis::objects::Objects;
use analysis::{Profile, TracedCode};
use facts::Recording;

/// What views are made of. Shared by the threads that make them.
pub struct Prepared<'a> {
    pub(crate) profile: Arc<Profile<'a>>,
    pub(crate) code: Arc<TracedCode>,
    pub(crate) objects: Arc<Objects>,
}

impl<'a> Prepared<'a> {
    /// For all views. Linear in the size of the recording.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Prepared<'a> {
        Prepared::with(recording, TracedCode::read(recording))
    }

    pub(crate) fn with(recording: &'a Recording, code: TracedCode) -> Prepared<'a> {
        let profile = Profile::with_addresses(recording, code.addresses());
        let objects = Arc::new(Objects::new(&profile));
        Prepared { profile: Arc::new(profile), code: Arc::new(code), objects }
    }

    /// The recording.
    #[must_use]
    pub fn recording(&self) -> &'a Recording {
        self.profile.recording
    }
}
