//! A recording prepared for many views.
//!
//! What for: the work that all views share (stacks, sums of samples, decoded bursts, objects, bursts in the cache model) is done
//! once, when the first view needs it, and a server answers each question from it. What not: a cache of views.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use analysis::accesses::{GroupedAccesses, accesses, accesses_of_objects};
use analysis::findings::{Figures, Findings, findings};
use analysis::memory::{Memory, Replayed};
use analysis::objects::{Grouping, ObjectId, Objects, Pieces, estimated_shares};
use analysis::placement::{RecordedNodes, recorded_nodes};
use analysis::reuse::{Reuse, TlbSizes, cache_sizes, reuse};
use analysis::sharing::{SharedLines, sharing};
use analysis::stalls::Stalls;
use analysis::{Key, Profile, Selection, TracedCode};
use facts::{Metric, Recording};

use crate::Options;
use crate::views::{by_object, keys_of_accesses};

/// What views are made of. Shared by the threads that make them.
pub struct Prepared<'a> {
    pub(crate) profile: Profile<'a>,
    pub(crate) code: TracedCode,
    objects: OnceLock<Objects>,
    replayed: OnceLock<Arc<Replayed>>,
    shared: OnceLock<SharedLines>,
    judged: OnceLock<Findings>,
    /// The keys of tables of accesses that will be asked for.
    tables: OnceLock<Vec<Vec<Key>>>,
    reuse: OnceLock<Reuse>,
    unrecorded: OnceLock<BTreeMap<ObjectId, Metric>>,
    recorded_nodes: OnceLock<Result<RecordedNodes, &'static str>>,
    /// Findings will be asked for.
    judges: bool,
}

impl<'a> Prepared<'a> {
    /// For all views. Linear in the size of the recording.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Prepared<'a> {
        Prepared::with(recording, true, true)
    }

    pub(crate) fn with(recording: &'a Recording, traced: bool, judges: bool) -> Prepared<'a> {
        let (profile, code) = match traced {
            true => Profile::with_code(recording),
            false => (Profile::new(recording), TracedCode::default()),
        };
        let (objects, replayed) = (OnceLock::new(), OnceLock::new());
        let (shared, judged) = (OnceLock::new(), OnceLock::new());
        let (tables, reuse, unrecorded) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let recorded_nodes = OnceLock::new();
        Prepared {
            profile,
            code,
            objects,
            replayed,
            shared,
            judged,
            tables,
            reuse,
            unrecorded,
            recorded_nodes,
            judges,
        }
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
        let judges = self.judges.then(|| self.tables());
        let new = || Arc::new(Replayed::new(profile, code, self.objects(), Pieces::Whole, judges));
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
                true => self.memory().known_shared().map_or_else(find, Clone::clone),
                false => find(),
            })),
        }
    }

    /// Its findings, from these figures of the whole recording.
    pub(crate) fn judged(&self, figures: impl FnOnce() -> Figures) -> &Findings {
        self.judged.get_or_init(|| findings(&figures()))
    }

    /// These views will be asked for: the pass over the bursts that all of them need gives their accesses, too. Of no use after it.
    pub fn expect(&self, views: &[Options]) {
        let mut keys: Vec<Vec<Key>> = Vec::new();
        for asked in views.iter().filter_map(keys_of_accesses) {
            if !keys.contains(&asked) {
                keys.push(asked);
            }
        }
        _ = self.tables.set(keys);
    }

    fn tables(&self) -> &[Vec<Key>] {
        self.tables.get().map_or(&[], Vec::as_slice)
    }

    /// Accesses by the keys of a grouping.
    pub(crate) fn accesses(&self, grouping: &Grouping<'_>) -> GroupedAccesses {
        let everything = !grouping.selection.chooses_anything();
        let asks = grouping.keys.is_empty() || self.tables().iter().any(|one| one == grouping.keys);
        let known = (everything && asks && self.judges).then(|| self.memory());
        let found = known.and_then(|memory| memory.known_by(grouping.keys));
        found.unwrap_or_else(|| {
            let Grouping { profile, code, selection, keys, .. } = *grouping;
            match by_object(selection, keys) {
                true => accesses_of_objects(grouping),
                false => (accesses(profile, code, selection, keys), Vec::new()),
            }
        })
    }

    /// Shares of accesses by objects of which blocks were drawn; of the whole recording they are counted once.
    pub(crate) fn estimated_shares(&self, grouping: &Grouping<'_>) -> BTreeMap<ObjectId, Metric> {
        let find = || estimated_shares(grouping);
        match grouping.selection.chooses_anything() {
            true => find(),
            false => self.unrecorded.get_or_init(find).clone(),
        }
    }

    /// Its accesses by NUMA node, looked up once; `Err`: why there are none.
    pub(crate) fn recorded_nodes(&self) -> Result<&RecordedNodes, &'static str> {
        let find = || recorded_nodes(&self.profile, &self.code);
        self.recorded_nodes.get_or_init(find).as_ref().map_err(|why| *why)
    }

    /// Reuse by function, with the footprint of each burst; of the whole recording it is looked for once.
    pub(crate) fn reuse(&self, selection: &Selection) -> Cow<'_, Reuse> {
        let run = &self.profile.recording.run;
        let (caches, tlb) = (cache_sizes(run), TlbSizes::of(&run.host));
        let keys = [Key::Function];
        let find = || reuse(&self.profile, &self.code, selection, &keys, &caches, tlb);
        match selection.chooses_anything() {
            true => Cow::Owned(find()),
            false => Cow::Borrowed(self.reuse.get_or_init(find)),
        }
    }
}
