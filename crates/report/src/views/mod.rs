//! One module per view: from analysis to [`Table`].

mod accesses;
mod allocations;
mod bandwidth;
pub(crate) mod by_region;
mod calls;
mod columns;
mod cross_check;
mod events;
mod faults;
mod findings;
mod flushes;
mod hotspots;
mod kernel;
mod latency;
mod list;
mod nodes;
mod objects;
mod pace;
mod regions;
mod reuse;
mod roofline;
mod sampled;
mod sharing;
mod source;
pub(crate) mod thread_states;
mod thread_timeline;
mod threads;
mod timeline;
mod uarch;
mod waits;

pub(crate) use accesses::accesses;
pub(crate) use allocations::allocations;
pub(crate) use bandwidth::bandwidth;
pub(crate) use by_region::by_region;
pub(crate) use calls::{callees, callers};
pub(crate) use cross_check::{cross_check, disagreements};
pub(crate) use events::events;
pub(crate) use faults::faults;
pub(crate) use findings::findings;
pub(crate) use flushes::flushes;
pub(crate) use hotspots::hotspots;
pub(crate) use kernel::kernel;
pub(crate) use latency::latency;
pub(crate) use nodes::nodes;
pub(crate) use objects::{extent, object_bytes, objects};
pub(crate) use pace::pace;
pub(crate) use regions::regions;
pub(crate) use reuse::{reuse, working_set};
pub(crate) use roofline::roofline;
pub(crate) use sampled::sampled_loads;
pub(crate) use sharing::sharing;
pub(crate) use source::source;
pub(crate) use threads::threads;
pub(crate) use timeline::timeline;
pub(crate) use uarch::uarch;
pub(crate) use waits::waits;

use analysis::memory::Memory;
use analysis::objects::{Grouping, NOT_COLLECTED, Objects, Pieces};
use analysis::{Filter, Key, Profile, Selection, TracedCode};
use base::Nanos;
use facts::{Mark, MarkKind};

use crate::table::{Cell, Table};
use crate::{Options, Prepared, View, text};

/// By which keys a view needs the accesses of the whole recording, if it does.
pub(crate) fn keys_of_accesses(options: &Options) -> Option<Vec<Key>> {
    let group = &options.group;
    let keys = match options.view {
        View::Objects => objects::with_object(group),
        View::Reuse => reuse::keys_of_reuse(group).to_vec(),
        View::Accesses => group.clone(),
        _ => return None,
    };
    // Those by site are known from the findings; regions have selections of their own, and parts of objects are looked up anew.
    let other = |key| matches!(key, &Key::Region | &Key::CacheLine | &Key::Offset);
    let here = options.filters.is_empty() && !keys.is_empty() && !keys.iter().any(other);
    here.then_some(keys)
}

/// Whether objects are to be distinguished.
pub(crate) fn by_object(selection: &Selection, keys: &[Key]) -> bool {
    selection.chooses_objects() || keys.iter().any(|key| Key::OF_OBJECTS.contains(key))
}

/// What a view is made from.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) prepared: &'a Prepared<'a>,
    /// Of `prepared`.
    pub(crate) profile: &'a Profile<'a>,
    pub(crate) selection: &'a Selection,
    pub(crate) options: &'a Options,
    pub(crate) sources: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

impl<'a> Request<'a> {
    /// The recording's memory objects.
    fn objects(&self) -> &'a Objects {
        self.prepared.objects()
    }

    /// Accesses by these keys.
    fn grouping(&self, code: &'a TracedCode, keys: &'a [Key]) -> Grouping<'a> {
        let Request { profile, selection, .. } = *self;
        Grouping { profile, code, objects: self.objects(), selection, keys }
    }

    /// What bursts show of memory, with objects as finely divided as the grouping is.
    fn memory(&self, grouping: &Grouping<'a>) -> Memory<'a> {
        match grouping.pieces() {
            Pieces::Whole => self.prepared.memory_of(self.selection),
            pieces => Memory::with_objects(self.profile, grouping.code, self.objects(), pieces)
                .selected(self.selection),
        }
    }

    /// Whether rows or filters are on memory objects.
    fn by_object(&self) -> bool {
        by_object(self.selection, &self.options.group)
    }

    /// What to say where rows are by object, and no objects were recorded.
    fn without_objects(&self) -> Option<String> {
        (self.by_object() && !self.objects().any()).then(|| format!("n/a: {NOT_COLLECTED}."))
    }

    /// `r000ma: what, where filter`.
    fn title(&self, what: &str) -> String {
        let filters: Vec<String> = self.options.filters.iter().map(describe).collect();
        let filters =
            if filters.is_empty() { String::new() } else { format!(", {}", filters.join(", ")) };
        // Unlike the summary, views show what was recorded.
        let runs = match self.profile.recording.run.runs.len() {
            0 | 1 => String::new(),
            runs => format!(", {runs} runs together"),
        };
        format!("{}: {what}{runs}{filters}", self.options.result_name)
    }

    /// Whether nothing is filtered out.
    fn everything(&self) -> bool {
        !self.selection.chooses_anything()
    }

    /// Where nothing is filtered out, totals of CPU time are without doubt.
    fn set_whole_time(&self, table: &mut Table) {
        let scale = self.profile.cpu_scale();
        for (time, percent) in [("cpu_time", "self_percent"), ("total_time", "total_percent")] {
            let is_known = table.column(time).is_some_and(|at| table.total[at] != Cell::Missing);
            if self.everything() && is_known {
                table.set_total(time, scale.whole_quantity());
                table.set_total(percent, scale.whole_percent());
            }
        }
    }

    /// What to say when a table is empty.
    fn empty(&self, what: &str) -> String {
        if self.everything() {
            format!("There are {}.", self.profile.why_no_samples())
        } else {
            format!("No {what} match the filter.")
        }
    }

    /// When nothing was observed.
    fn pause_note(&self) -> Option<String> {
        let span = |(start, end): &(Nanos, Nanos)| {
            format!("{} to {}", text::seconds(start.seconds()), text::seconds(end.seconds()))
        };
        let said = listed(self.profile.pauses().all().iter().map(span))?;
        Some(format!("The collection was paused, and nothing observed, from {said}."))
    }

    /// Moments that the user or the program named.
    fn marks_note(&self) -> Option<String> {
        let marks = self.profile.recording.marks.iter();
        let said = |mark: &Mark| format!("{} at {}", mark.name, text::seconds(mark.time.seconds()));
        let named = marks.filter(|mark| mark.kind == MarkKind::Mark);
        Some(format!("Marks: {}.", listed(named.map(said))?))
    }

    /// These remarks, and those of every view over time.
    fn over_time_notes(&self, notes: Vec<String>) -> Vec<String> {
        notes.into_iter().chain(self.pause_note()).chain(self.marks_note()).collect()
    }

    /// What a filter on regions takes in that is in none.
    pub(crate) fn regions_note(&self) -> Option<String> {
        let share = self.selection.between_short_passes()? * 100.0;
        Some(format!(
            "{} % of the selected time lies between passes of the region that are too short to be distinguished from it.",
            text::percent(share)
        ))
    }

    /// Remarks on sampled figures.
    fn sampling_notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        let run = &self.profile.recording.run;
        notes.extend(run.collector.fallback_reason.clone());
        let lost = self.profile.lost_samples();
        if lost > 0 {
            let taken = self.profile.whole().records();
            notes.push(format!("{lost} samples were lost, {taken} were kept."));
        }
        notes
    }
}

/// Some of them, and how many more there are.
fn listed(all: impl Iterator<Item = String>) -> Option<String> {
    const SHOWN: usize = 10;
    let mut all: Vec<String> = all.collect();
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    (!all.is_empty()).then(|| all.join(", ") + &more)
}

fn describe(filter: &Filter) -> String {
    match filter {
        Filter::Time { start, end } => format!("time {start}..{end} s"),
        Filter::Function(value)
        | Filter::Module(value)
        | Filter::SourceFile(value)
        | Filter::Thread(value)
        | Filter::Object(value)
        | Filter::BandwidthDomain(value)
        | Filter::Region(value)
        | Filter::Process(value) => format!("{} {value}", filter.name()),
    }
}
