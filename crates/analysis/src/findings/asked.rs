//! What rules need to know of all traced accesses, in whatever function.
//!
//! What for: these questions are answered in the pass of the cache model ([`Asking`]), so that records are decoded once for all.
//! What not: what rules conclude, and questions that only some recordings raise (`figures::traced`).

use facts::Burst;

use super::reread::{self, Stored};
use super::steps::{self, Steps};
use crate::accesses::{self, Accesses, Rows, Walked, summed};
use crate::objects::UnitRows;
use crate::profile::Profile;
use crate::selection::Selection;
use crate::sharing::{self, BurstLines, SharedLines, compared};
use crate::traced::{Tool, TracedCode, stream, traced_bursts};

/// The answers.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) accesses: Accesses,
    /// One for each site.
    pub(super) steps: Vec<Steps>,
    pub(super) stored: Vec<Stored>,
    pub(crate) shared: SharedLines,
}

/// The questions.
pub(crate) struct Asking<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    rows: Rows,
}

/// Who looks at records.
pub(crate) type Asker<'q> = (
    (accesses::Walker<'q>, Option<sharing::Watcher<'q>>),
    (steps::Watcher<'q>, reread::Watcher<'q>),
);

/// What was seen until now, in the order of bursts.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) walked: Walked,
    lines: Vec<BurstLines>,
    steps: steps::SiteSteps,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(profile: &'a Profile<'a>, code: &'a TracedCode) -> Asking<'a> {
        let rows = Rows::new(profile, code, &Selection::default(), &[]);
        Asking { profile, code, rows }
    }

    /// Asks nothing else.
    pub(crate) fn alone(self) -> Asked {
        let recording = self.profile.recording;
        let bursts: Vec<_> = traced_bursts(recording, self.code).collect();
        let mut answers = Answers::default();
        let take = |_: &Burst, of| answers.take(of);
        let (damage, askers) = stream(recording, self.code, &bursts, || self.asker(), take);
        let stored = askers.into_iter().map(stored).collect();
        answers.walked.damage = damage;
        self.asked(answers, stored)
    }

    pub(crate) fn asker(&self) -> Asker<'_> {
        let rows = UnitRows::of_sites(&[&self.rows.row_of_site]);
        let several = self.profile.threads.all().len() > 1;
        let sharing = several.then(|| sharing::Watcher::new(self.code, &self.rows.row_of_site));
        let accesses = accesses::Walker::new(rows, &|_| true);
        let steps = steps::Watcher::new(self.code);
        ((accesses, sharing), (steps, reread::Watcher::new(self.code)))
    }

    /// From what was seen, and what each CPU saw of stored lines.
    pub(crate) fn asked(self, answers: Answers, stored: Vec<Vec<Stored>>) -> Asked {
        let Asking { profile, code, rows } = self;
        let shared = compared(profile, &rows, answers.lines);
        Asked {
            accesses: summed(profile, code, rows.heads, &answers.walked),
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
        let (accesses, ways) = of_rows;
        ways.into_iter().for_each(|rows| self.walked.add(accesses, rows));
        self.lines.extend(lines);
        self.steps.add(steps);
    }
}
