//! Filters: which samples and which frames a view looks at.
//!
//! Filters on thread, process, region and time select *samples*; filters on function, module and source file select *frames*. So
//! `function=main` asks how much time was spent in `main` itself and below it, and does not hide the callees of `main` from the
//! totals. Filters of one kind widen (either matches), filters of different kinds narrow. What not: groupings.

mod names;
mod no_match;
mod regions;

use std::collections::BTreeSet;

use base::{Nanos, NodeId, Pid};

pub use self::names::{bare_function_name, name_matches};
use self::names::{file_matches, function_matches};
use self::no_match::{listing, no_match};
use self::regions::{InRegions, Innermost};
use crate::error::AnalysisError;
use crate::objects::{Object, ObjectId, Objects};
use crate::profile::Profile;
use crate::stack::LocationId;
use crate::threads::{Thread, ThreadIndex};

/// A region more than this part of whose time lies between its passes cannot be selected.
const MOST_BETWEEN: f64 = 0.5;

/// One condition.
#[derive(Clone, PartialEq, Debug)]
pub enum Filter {
    /// Frames of this function: its whole name, its name without parameters and template arguments (and without
    /// namespaces), or a pattern with `*`.
    Function(String),
    /// Frames of this module: its path, the last part of it, or a pattern with `*`.
    Module(String),
    /// Frames whose code is in this file: its path, the end of it, or a pattern with `*`.
    SourceFile(String),
    /// Samples of this thread: name, id, `name (id)`, or a pattern with `*`.
    Thread(String),
    /// Samples of this process: name of its first thread, id, `name (id)`, or a pattern with `*`.
    Process(String),
    /// Accesses to this memory object: its whole name, a word of it, or a pattern with `*`.
    Object(String),
    /// Accesses to memory of this NUMA node: `node 1`, its number, or a pattern with `*`.
    BandwidthDomain(String),
    /// Samples of threads while they are in this region that the program marks: its name, or a pattern with `*`.
    Region(String),
    /// Samples in this time, seconds from the start of the recording; the end is not included.
    Time {
        /// From.
        start: f64,
        /// To.
        end: f64,
    },
}

impl Filter {
    /// Names of all filters as typed, with an example each.
    pub const NAMES: [(&'static str, &'static str); 9] = [
        ("function", "function=main"),
        ("module", "module=libc.so.6"),
        ("source-file", "source-file=triad.c"),
        ("thread", "thread=1234"),
        ("process", "process=triad"),
        ("object", "object=build_tree"),
        ("bandwidth-domain", "bandwidth-domain=1"),
        ("region", "region=solve"),
        ("time", "time=0.5..2"),
    ];

    /// The region that it asks for, if it does.
    fn region(&self) -> Option<&str> {
        match self {
            Filter::Region(name) => Some(name),
            _ => None,
        }
    }

    /// Its name as typed.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Filter::Function(_) => "function",
            Filter::Module(_) => "module",
            Filter::SourceFile(_) => "source-file",
            Filter::Thread(_) => "thread",
            Filter::Process(_) => "process",
            Filter::Object(_) => "object",
            Filter::BandwidthDomain(_) => "bandwidth-domain",
            Filter::Region(_) => "region",
            Filter::Time { .. } => "time",
        }
    }
}

/// A selection, divided by region.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RegionParts {
    /// Each region by its name, those with most time first; then, without a name, what is in none. Together they are the whole.
    pub parts: Vec<(Option<String>, Selection)>,
    /// Regions whose passes are too short to be distinguished from what is around them, and which are a part of that.
    pub too_short: Vec<String>,
}

/// A NUMA node as a bandwidth domain: `node 1`.
#[must_use]
pub fn name_of_node(node: Option<NodeId>) -> String {
    node.map_or_else(|| "unknown node".to_owned(), |node| format!("node {}", node.0))
}

/// Filters applied to a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selection {
    threads: Option<Vec<bool>>,
    time: Option<(Nanos, Nanos)>,
    places: Option<Vec<bool>>,
    objects: Option<Vec<bool>>,
    nodes: Option<BTreeSet<Option<NodeId>>>,
    regions: Option<InRegions>,
}

impl Selection {
    /// Checks the filters against the recording. A name that matches nothing is an error that lists what exists,
    /// unless the recording has nothing to match.
    /// Filters on objects are for [`Selection::choose_objects`].
    pub fn resolve(profile: &Profile<'_>, filters: &[Filter]) -> Result<Selection, AnalysisError> {
        let mut selection = Selection::default();
        for (name, _) in Filter::NAMES {
            let alike: Vec<&Filter> =
                filters.iter().filter(|filter| filter.name() == name).collect();
            if alike.is_empty() {
                continue;
            }
            match alike[0] {
                Filter::Object(_) => {}
                Filter::BandwidthDomain(_) => selection.add_nodes(profile, &alike)?,
                Filter::Time { .. } => selection.add_times(profile, &alike)?,
                Filter::Region(_) => {
                    let regions = InRegions::resolve(profile, &alike)?;
                    let between = regions.between_short_passes().unwrap_or(0.0);
                    if between > MOST_BETWEEN {
                        let names: Vec<&str> =
                            alike.iter().filter_map(|one| one.region()).collect();
                        let between = (between * 100.0).round() as u64;
                        return Err(AnalysisError::RegionTooShort {
                            name: names.join("', '"),
                            between,
                        });
                    }
                    selection.regions = Some(regions);
                }
                Filter::Thread(_) | Filter::Process(_) => selection.add_threads(profile, &alike)?,
                _ => selection.add_places(profile, &alike)?,
            }
        }
        selection.bound_by_regions();
        Ok(selection)
    }

    /// Where a span is asked for, it is the one that has all of them.
    fn bound_by_regions(&mut self) {
        let Some(regions) = &self.regions else { return };
        let (from, to) = regions.hull();
        let (start, end) = self.time.unwrap_or((from, to));
        let start = start.max(from);
        self.time = Some((start, end.min(to).max(start)));
    }

    /// This selection, divided by the innermost region that each thread is in. At most `most` regions are distinguished.
    #[must_use]
    pub fn by_region(&self, profile: &Profile<'_>, most: usize) -> RegionParts {
        let Innermost { regions, outside, too_short } = Innermost::new(profile, most);
        let regions = regions.into_iter().map(|(name, regions)| (Some(name), regions));
        let part = |(name, regions): (Option<String>, InRegions)| {
            let regions =
                self.regions.as_ref().map_or_else(|| regions.clone(), |own| regions.and(own));
            let mut part = Selection { regions: Some(regions), ..self.clone() };
            part.bound_by_regions();
            let (start, end) = part.time.unwrap_or_default();
            (start < end).then_some((name, part))
        };
        let parts = regions.chain([(None, outside)]).filter_map(part).collect();
        RegionParts { parts, too_short }
    }

    /// Applies the filters on objects, likewise.
    ///
    /// # Errors
    /// When a name matches nothing.
    pub fn choose_objects(
        &mut self,
        objects: &Objects,
        filters: &[Filter],
    ) -> Result<(), AnalysisError> {
        for filter in filters {
            let Filter::Object(wanted) = filter else { continue };
            let all = objects.all();
            let matches = |object: &Object| {
                name_matches(&object.name, wanted)
                    || object.name.split(' ').any(|word| name_matches(word, wanted))
            };
            let found: Vec<bool> = all.iter().map(matches).collect();
            if objects.any() && !found.contains(&true) {
                let mut known: Vec<&Object> = all.iter().collect();
                known.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
                let known = known.into_iter().map(|object| object.name.clone()).collect();
                return Err(listing(filter.name(), wanted, known));
            }
            let either =
                |before: &Vec<bool>| before.iter().zip(&found).map(|(a, b)| *a || *b).collect();
            self.objects = Some(self.objects.as_ref().map_or_else(|| found.clone(), either));
        }
        Ok(())
    }

    /// Whether a filter on objects is set.
    #[must_use]
    pub fn chooses_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// Whether accesses to this object count.
    #[must_use]
    pub fn has_object(&self, object: ObjectId) -> bool {
        self.objects.as_ref().is_none_or(|chosen| chosen[object.index()])
    }

    /// Whether a filter on NUMA nodes is set.
    #[must_use]
    pub fn chooses_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    /// Whether accesses to memory of this node count; `None`: of memory whose node is not known.
    #[must_use]
    pub fn has_node(&self, node: Option<NodeId>) -> bool {
        self.nodes.as_ref().is_none_or(|chosen| chosen.contains(&node))
    }

    /// Whether samples of this thread count, at some time.
    #[must_use]
    pub fn has_thread(&self, thread: ThreadIndex) -> bool {
        self.threads.as_ref().is_none_or(|chosen| chosen[thread.index()])
            && self.regions.as_ref().is_none_or(|regions| !regions.of(thread).is_empty())
    }

    /// Whether what this thread did at this time counts.
    #[must_use]
    pub fn has(&self, thread: ThreadIndex, time: Nanos) -> bool {
        self.has_thread(thread) && self.has_time(time) && self.in_region(thread, time)
    }

    /// Whether regions let in what this thread did at this time.
    pub(crate) fn in_region(&self, thread: ThreadIndex, time: Nanos) -> bool {
        self.regions.as_ref().is_none_or(|regions| regions.of(thread).has(time))
    }

    /// The same as `has` of a thread that may be unknown.
    pub(crate) fn may_have(&self, thread: Option<ThreadIndex>, time: Nanos) -> bool {
        match thread {
            Some(thread) => self.has(thread, time),
            None => !self.chooses_threads() && self.has_time(time),
        }
    }

    /// Whether all threads of a process count: what a filter on processes chooses.
    #[must_use]
    pub fn has_whole_process(&self, profile: &Profile<'_>, pid: Pid) -> bool {
        // What is counted of a process is not known of a part of its time.
        if self.regions.is_some() {
            return false;
        }
        let Some(chosen) = &self.threads else { return true };
        let of_it = profile.threads.all().iter().zip(chosen);
        let mut of_it = of_it.filter(|(thread, _)| thread.pid == pid).peekable();
        of_it.peek().is_some() && of_it.all(|(_, chosen)| *chosen)
    }

    /// Whether not all threads count at all of the selected time.
    #[must_use]
    pub fn chooses_threads(&self) -> bool {
        self.threads.is_some() || self.regions.is_some()
    }

    /// Whether the selected span of time has this one; [`Selection::has`] knows more.
    #[must_use]
    pub fn has_time(&self, time: Nanos) -> bool {
        self.time.is_none_or(|(start, end)| start <= time && time < end)
    }

    /// Whether this frame was asked for.
    #[must_use]
    pub fn has_place(&self, place: LocationId) -> bool {
        self.places.as_ref().is_none_or(|chosen| chosen[place.index()])
    }

    /// The chosen time range; of regions from the first begin to the last end.
    #[must_use]
    pub fn time(&self) -> Option<(Nanos, Nanos)> {
        self.time
    }

    /// The parts of a span of a thread's time that are selected, where the thread is.
    pub(crate) fn parts(&self, thread: ThreadIndex, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos)> {
        let (start, end) = self.time.unwrap_or((from, to));
        let (from, to) = (from.max(start), to.min(end));
        match &self.regions {
            Some(regions) => regions.of(thread).within(from, to).collect(),
            None => vec![(from, to)],
        }
    }

    /// The share of `[time, time + span)` of a selected thread that is selected.
    pub(crate) fn share(&self, thread: ThreadIndex, time: Nanos, span: Nanos) -> f64 {
        if self.time.is_none() {
            return 1.0;
        }
        if span.0 == 0 {
            return f64::from(u8::from(self.has(thread, time)));
        }
        let parts = self.parts(thread, time, time + span).into_iter();
        parts.map(|(from, to)| (to - from).0 as f64).sum::<f64>() / span.0 as f64
    }

    /// The same of a span that is no thread's own; of regions the time in which any thread was in one.
    pub(crate) fn share_of_all(&self, time: Nanos, span: Nanos) -> f64 {
        let Some((start, end)) = self.time else { return 1.0 };
        if span.0 == 0 {
            return f64::from(u8::from(self.has_time(time)));
        }
        let (from, to) = (time.max(start), (time + span).min(end));
        let taken = match &self.regions {
            Some(regions) => {
                regions.any().within(from, to).fold(Nanos(0), |sum, (from, to)| sum + (to - from))
            }
            None => to - from,
        };
        taken.0 as f64 / span.0 as f64
    }

    /// Whether a filter on marked regions is set.
    #[must_use]
    pub fn chooses_regions(&self) -> bool {
        self.regions.is_some()
    }

    /// How much of the selected time was observed. Of regions the time in which any thread was in one.
    #[must_use]
    pub fn observed(&self, profile: &Profile<'_>) -> Nanos {
        self.observed_in(profile, Nanos(0), profile.elapsed())
    }

    /// The same of a part of the recording.
    pub(crate) fn observed_in(&self, profile: &Profile<'_>, from: Nanos, to: Nanos) -> Nanos {
        let (start, end) = self.time.unwrap_or((from, to));
        let (from, to) = (from.max(start), to.min(end));
        let Some(regions) = &self.regions else { return profile.observed_in(from, to) };
        let within = regions.any().within(from, to);
        within.fold(Nanos(0), |sum, (from, to)| sum + profile.observed_in(from, to))
    }

    /// Of the time of the chosen regions, the share that lies between passes so short that several make a row.
    #[must_use]
    pub fn between_short_passes(&self) -> Option<f64> {
        self.regions.as_ref()?.between_short_passes()
    }

    /// Whether a filter on frames is set.
    #[must_use]
    pub fn chooses_places(&self) -> bool {
        self.places.is_some()
    }

    /// Whether any filter is set.
    #[must_use]
    pub fn chooses_anything(&self) -> bool {
        *self != Selection::default()
    }

    fn add_times(
        &mut self,
        profile: &Profile<'_>,
        filters: &[&Filter],
    ) -> Result<(), AnalysisError> {
        let elapsed = profile.elapsed().seconds();
        for filter in filters {
            let Filter::Time { start, end } = filter else { continue };
            if elapsed > 0.0 && *start > elapsed {
                return Err(AnalysisError::TimeOutside {
                    start: start.to_string(),
                    end: end.to_string(),
                    elapsed: format!("{elapsed:.3}"),
                });
            }
            let (start, end) = (Nanos::from_seconds(*start), Nanos::from_seconds(*end));
            // Several ranges become the range that spans them.
            self.time = Some(self.time.map_or((start, end), |(a, b)| (a.min(start), b.max(end))));
        }
        Ok(())
    }

    fn add_nodes(
        &mut self,
        profile: &Profile<'_>,
        filters: &[&Filter],
    ) -> Result<(), AnalysisError> {
        let nodes = profile.recording.run.host.memory_nodes().map(|node| Some(NodeId(node.id)));
        let known: Vec<(Option<NodeId>, String)> =
            nodes.chain([None]).map(|node| (node, name_of_node(node))).collect();
        let chosen = self.nodes.insert(BTreeSet::new());
        for filter in filters {
            let Filter::BandwidthDomain(wanted) = filter else { continue };
            let is_it = |name: &str| {
                name_matches(name, wanted) || name.strip_prefix("node ") == Some(wanted.as_str())
            };
            let before = chosen.len();
            chosen.extend(known.iter().filter(|(_, name)| is_it(name)).map(|(node, _)| *node));
            if chosen.len() == before {
                let known = known.into_iter().map(|(_, name)| name).collect();
                return Err(listing(filter.name(), wanted, known));
            }
        }
        Ok(())
    }

    fn add_threads(
        &mut self,
        profile: &Profile<'_>,
        filters: &[&Filter],
    ) -> Result<(), AnalysisError> {
        let threads = profile.threads.all();
        let mut chosen = vec![false; threads.len()];
        for filter in filters {
            let mut any = threads.is_empty();
            for (at, thread) in threads.iter().enumerate() {
                if thread_matches(profile, thread, filter) {
                    chosen[at] = true;
                    any = true;
                }
            }
            if !any {
                return Err(no_match(profile, filter));
            }
        }
        let both = |before: &Vec<bool>| before.iter().zip(&chosen).map(|(a, b)| *a && *b).collect();
        self.threads = Some(self.threads.as_ref().map_or_else(|| chosen.clone(), both));
        Ok(())
    }

    fn add_places(
        &mut self,
        profile: &Profile<'_>,
        filters: &[&Filter],
    ) -> Result<(), AnalysisError> {
        let stacks = &profile.stacks;
        let mut chosen = vec![false; stacks.places.len()];
        for filter in filters {
            let functions: Vec<bool> = stacks
                .functions
                .iter()
                .map(|function| match filter {
                    Filter::Function(wanted) => function_matches(&function.name, wanted),
                    Filter::Module(wanted) => {
                        let module = &stacks.modules[function.module.index()];
                        module.name == *wanted || name_matches(&module.path, wanted)
                    }
                    Filter::SourceFile(wanted) => {
                        function.file.as_deref().is_some_and(|file| file_matches(file, wanted))
                    }
                    _ => false,
                })
                .collect();
            let mut any = profile.whole().is_empty() && profile.recording.faults.is_empty();
            for (at, place) in stacks.places.iter().enumerate() {
                if functions[place.function.index()] {
                    chosen[at] = true;
                    any = true;
                }
            }
            if !any {
                return Err(no_match(profile, filter));
            }
        }
        let both = |before: &Vec<bool>| before.iter().zip(&chosen).map(|(a, b)| *a && *b).collect();
        self.places = Some(self.places.as_ref().map_or_else(|| chosen.clone(), both));
        Ok(())
    }
}

fn thread_matches(profile: &Profile<'_>, thread: &Thread, filter: &Filter) -> bool {
    match filter {
        Filter::Thread(wanted) => {
            name_matches(&thread.name, wanted)
                || thread.tid.to_string() == *wanted
                || thread.label() == *wanted
        }
        Filter::Process(wanted) => {
            name_matches(profile.threads.process_name(thread.pid), wanted)
                || thread.pid.to_string() == *wanted
                || profile.threads.process_label(thread.pid) == *wanted
        }
        _ => false,
    }
}
