//! What rules need to know of all traced accesses, in whatever function.
//!
//! What for: these questions are answered in the pass of the cache model ([`Asking`]), so that records are decoded once for all.
//! What not: what rules conclude, and questions that only some recordings raise (`figures::traced`).

use std::collections::HashMap;

use facts::Burst;

use super::reread::{self, Stored};
use super::steps::{self, Steps};
use crate::accesses::{self, Accesses, ByKeys, GroupedAccesses, Walked, is_by_object};
use crate::hotspots::Key;
use crate::objects::Objects;
use crate::profile::Profile;
use crate::selection::Selection;
use crate::sharing::{self, BurstLines, SharedLines, compared};
use crate::traced::{Tool, TracedCode, stream, traced_bursts};

/// The answers.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) accesses: Accesses,
    /// By the keys of tables that go along.
    pub(crate) tables: HashMap<Vec<Key>, GroupedAccesses>,
    /// One for each site.
    pub(super) steps: Vec<Steps>,
    pub(super) stored: Vec<Stored>,
    pub(crate) shared: SharedLines,
}

/// The questions.
pub(crate) struct Asking<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    keys: &'a [Vec<Key>],
    by_keys: ByKeys<'a>,
}

/// Who looks at records.
pub(crate) type Asker<'q> = (
    (Vec<accesses::Walker<'q>>, Option<sharing::Watcher<'q>>),
    (steps::Watcher<'q>, reread::Watcher<'q>),
);

/// What was seen until now, in the order of bursts.
#[derive(Default)]
pub(crate) struct Answers {
    /// In each way of grouping.
    pub(crate) walked: Vec<Walked>,
    lines: Vec<BurstLines>,
    steps: steps::SiteSteps,
}

impl<'a> Asking<'a> {
    /// `tables`: accesses by these keys too, from the same pass; those by objects only with these. `whole` chooses nothing.
    pub(crate) fn new(
        (profile, code): (&'a Profile<'a>, &'a TracedCode),
        whole: &'a Selection,
        tables: (Option<&'a Objects>, &'a [Vec<Key>]),
    ) -> Asking<'a> {
        let by_keys = ByKeys::all((profile, code), whole, tables);
        Asking { profile, code, keys: tables.1, by_keys }
    }

    /// Asks nothing else.
    pub(crate) fn alone(self) -> Asked {
        let recording = self.profile.recording;
        let bursts: Vec<_> = traced_bursts(recording, self.code).collect();
        let mut answers = Answers::default();
        let take = |_: &Burst, of| answers.take(of);
        let (damage, askers) = stream(recording, self.code, &bursts, || self.asker(), take);
        let stored = askers.into_iter().map(stored).collect();
        answers.walked.iter_mut().for_each(|walked| walked.damage = damage);
        self.asked(answers, stored)
    }

    pub(crate) fn asker(&self) -> Asker<'_> {
        let several = self.profile.threads.all().len() > 1;
        let by_site = &self.by_keys.by_site().row_of_site;
        let sharing = several.then(|| sharing::Watcher::new(self.code, by_site));
        let rows = self.by_keys.rows().into_iter();
        let accesses = rows.map(|rows| accesses::Walker::new(rows, &|_| true)).collect();
        let steps = steps::Watcher::new(self.code);
        ((accesses, sharing), (steps, reread::Watcher::new(self.code)))
    }

    /// From what was seen, and what each CPU saw of stored lines.
    pub(crate) fn asked(self, answers: Answers, stored: Vec<Vec<Stored>>) -> Asked {
        let Asking { profile, code, keys, by_keys } = self;
        let shared = compared(profile, by_keys.by_site(), answers.lines);
        let (of_sites, of_objects) = by_keys.summed(answers.walked);
        let mut of_sites = of_sites.into_iter().map(|found| (found, Vec::new()));
        let mut of_objects = of_objects.into_iter();
        let (accesses, _) = of_sites.next().unwrap_or_default();
        let table = |keys: &Vec<Key>| match is_by_object(keys) {
            true => Some((keys.clone(), of_objects.next()?)),
            false => Some((keys.clone(), of_sites.next()?)),
        };
        Asked {
            accesses,
            tables: keys.iter().filter_map(table).collect(),
            steps: answers.steps.of_sites(code.sites.len()),
            stored: reread::together(code.sites.len(), stored),
            shared,
        }
    }
}

/// What a CPU saw of stored lines.
pub(crate) fn stored((_, (_, lines)): Asker<'_>) -> Vec<Stored> {
    lines.stored
}

impl Answers {
    pub(crate) fn take(&mut self, ((of_rows, lines), (steps, ())): <Asker<'_> as Tool>::OfBurst) {
        accesses::add_burst(&mut self.walked, of_rows);
        self.lines.extend(lines);
        self.steps.add(steps);
    }
}
