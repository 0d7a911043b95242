//! Marked regions as a filter: when each thread was in one of them; and as a grouping: which one was the innermost.
//!
//! What for: a region is a set of spans of time for each thread, so what another thread did meanwhile does not count. Rows of many
//! short passes are taken whole; [`InRegions::between_short_passes`] says how much of the time that is. What not: figures of regions (`marked`).

use std::collections::BTreeSet;

use base::Nanos;
use facts::MarkedPass;

use super::{Filter, MOST_BETWEEN, listing, name_matches};
use crate::error::AnalysisError;
use crate::profile::Profile;
use crate::threads::ThreadIndex;

/// Spans of time that do not touch, in order: start and end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Spans(Vec<(Nanos, Nanos)>);

impl Spans {
    fn new(mut spans: Vec<(Nanos, Nanos)>) -> Spans {
        spans.sort_unstable();
        let mut apart: Vec<(Nanos, Nanos)> = Vec::new();
        for (start, end) in spans {
            match apart.last_mut() {
                Some((_, last)) if start <= *last => *last = end.max(*last),
                _ => apart.push((start, end)),
            }
        }
        Spans(apart)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, time: Nanos) -> bool {
        let next = self.0.partition_point(|(start, _)| *start <= time);
        next > 0 && time < self.0[next - 1].1
    }

    /// Those that both have.
    fn and(&self, other: &Spans) -> Spans {
        Spans(self.0.iter().flat_map(|(from, to)| other.within(*from, *to)).collect())
    }

    /// The parts of them that lie in a span.
    pub(super) fn within(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = (Nanos, Nanos)> {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let within = self.0[first..].iter().take_while(move |(start, _)| *start < to);
        within.map(move |(start, end)| ((*start).max(from), (*end).min(to)))
    }
}

/// When threads were in the chosen regions.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct InRegions {
    of_threads: Vec<Spans>,
    /// In which any thread was in one.
    any: Spans,
    /// Of the time of rows of several passes what no pass took.
    between: Nanos,
}

impl InRegions {
    /// A name is that of a region: the whole of it, or a pattern with `*`.
    pub(super) fn resolve(
        profile: &Profile<'_>,
        filters: &[&Filter],
    ) -> Result<InRegions, AnalysisError> {
        let recording = profile.recording;
        let regions = &recording.marked_regions;
        let mut chosen = vec![false; regions.len()];
        for filter in filters {
            let Filter::Region(wanted) = filter else { continue };
            let found: Vec<bool> = regions
                .iter()
                .map(|region| region.name == *wanted || name_matches(&region.name, wanted))
                .collect();
            if !found.contains(&true) {
                let known = regions.iter().map(|region| region.name.clone()).collect();
                return Err(listing(filter.name(), wanted, known));
            }
            chosen.iter_mut().zip(found).for_each(|(before, now)| *before |= now);
        }
        let mut spans = vec![Vec::new(); profile.threads.all().len()];
        let mut between = Nanos(0);
        for pass in &recording.marked_passes {
            let is_chosen = chosen.get(pass.region as usize).copied().unwrap_or(false);
            let Some(thread) = profile.threads.find(pass.pid, pass.tid).filter(|_| is_chosen)
            else {
                continue;
            };
            spans[thread.index()].push((pass.time, pass.time + pass.span));
            if pass.passes > 1 {
                between += pass.span - pass.inside;
            }
        }
        Ok(InRegions::new(spans, between))
    }

    fn new(spans: Vec<Vec<(Nanos, Nanos)>>, between: Nanos) -> InRegions {
        let any = Spans::new(spans.iter().flatten().copied().collect());
        InRegions { of_threads: spans.into_iter().map(Spans::new).collect(), any, between }
    }

    /// Where both let a thread in.
    pub(super) fn and(&self, other: &InRegions) -> InRegions {
        let of_threads: Vec<Spans> = self
            .of_threads
            .iter()
            .zip(&other.of_threads)
            .map(|(one, other)| one.and(other))
            .collect();
        let any = Spans::new(of_threads.iter().flat_map(|spans| &spans.0).copied().collect());
        InRegions { of_threads, any, between: self.between }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.any.is_empty()
    }

    pub(super) fn of(&self, thread: ThreadIndex) -> &Spans {
        &self.of_threads[thread.index()]
    }

    pub(super) fn any(&self) -> &Spans {
        &self.any
    }

    /// Of all threads.
    fn time(&self) -> Nanos {
        let all = self.of_threads.iter().flat_map(|spans| &spans.0);
        all.fold(Nanos(0), |sum, (start, end)| sum + (*end - *start))
    }

    /// Several as one.
    fn together(regions: &[(String, InRegions)]) -> InRegions {
        let threads = regions.first().map_or(0, |(_, first)| first.of_threads.len());
        let of_thread = |at: usize| {
            regions.iter().flat_map(|(_, one)| one.of_threads[at].0.iter().copied()).collect()
        };
        let between = regions.iter().fold(Nanos(0), |sum, (_, one)| sum + one.between);
        InRegions::new((0..threads).map(of_thread).collect(), between)
    }

    /// From the first begin to the last end.
    pub(super) fn hull(&self) -> (Nanos, Nanos) {
        let start = self.any.0.first().map_or(Nanos(0), |(start, _)| *start);
        (start, self.any.0.last().map_or(start, |(_, end)| *end))
    }

    /// Of the time of all threads in the regions, the share that lies between the short passes of a row.
    pub(super) fn between_short_passes(&self) -> Option<f64> {
        let share = || self.between.0 as f64 / self.time().0.max(1) as f64;
        (self.between > Nanos(0)).then(|| share().min(1.0))
    }
}

/// The time of all threads by the innermost region that they are in.
#[derive(Default)]
pub(super) struct Innermost {
    /// By name, those with most time first.
    pub(super) regions: Vec<(String, InRegions)>,
    /// In none.
    pub(super) outside: InRegions,
    /// Regions whose passes are too short to be distinguished from what is around them; their time is that of the region around.
    pub(super) too_short: Vec<String>,
}

impl Innermost {
    /// Of at most so many regions; the others are one together.
    pub(super) fn new(profile: &Profile<'_>, most: usize) -> Innermost {
        let recording = profile.recording;
        let mut names: Vec<&str> = Vec::new();
        let named = recording.marked_regions.iter().map(|region| {
            let known = names.iter().position(|name| *name == region.name);
            known.unwrap_or_else(|| {
                names.push(&region.name);
                names.len() - 1
            })
        });
        let named: Vec<usize> = named.collect();
        let passes = || {
            let known = |pass: &MarkedPass| named.get(pass.region as usize).copied();
            recording.marked_passes.iter().filter_map(move |pass| Some((known(pass)?, pass)))
        };
        let mut sums = vec![(Nanos(0), Nanos(0)); names.len()];
        for (name, pass) in passes() {
            sums[name].0 += pass.span;
            if pass.passes > 1 {
                sums[name].1 += pass.span.saturating_sub(pass.inside);
            }
        }
        let is_short = |name: usize| sums[name].1.0 as f64 > MOST_BETWEEN * sums[name].0.0 as f64;
        let mut of_threads = vec![Vec::new(); profile.threads.all().len()];
        for (name, pass) in passes().filter(|(name, _)| !is_short(*name)) {
            if let Some(thread) = profile.threads.find(pass.pid, pass.tid) {
                of_threads[thread.index()].push((
                    pass.time,
                    pass.time + pass.span,
                    pass.depth,
                    name,
                ));
            }
        }
        let nothing = || vec![Vec::new(); of_threads.len()];
        let mut spans = vec![nothing(); names.len()];
        let mut outside = nothing();
        // A sample may be as late as the end.
        let end = profile.elapsed() + Nanos(1);
        for (thread, passes) in of_threads.iter().enumerate() {
            let mut last = Nanos(0);
            for (from, to, name) in innermost(passes) {
                spans[name][thread].push((from, to));
                outside[thread].push((last, from));
                last = to;
            }
            outside[thread].push((last, end.max(last)));
            outside[thread].retain(|(from, to)| from < to);
        }
        let found = spans.into_iter().enumerate().zip(&names);
        let found = found
            .map(|((at, spans), name)| ((*name).to_owned(), InRegions::new(spans, sums[at].1)));
        let mut regions: Vec<_> = found.filter(|(_, found)| !found.is_empty()).collect();
        regions.sort_by_key(|(_, found)| std::cmp::Reverse(found.time()));
        if regions.len() > most {
            let others = regions.split_off(most.saturating_sub(1));
            regions.push(("(other regions)".to_owned(), InRegions::together(&others)));
        }
        let too_short = (0..names.len()).filter(|name| is_short(*name));
        let too_short = too_short.map(|name| names[name].to_owned()).collect();
        Innermost { regions, outside: InRegions::new(outside, Nanos(0)), too_short }
    }
}

/// A pass: begin, end, how many regions are around it, and which region it is of.
type Pass = (Nanos, Nanos, u32, usize);

/// Which region is the innermost, from when to when, in order. Rows of several passes may overlap.
fn innermost(passes: &[Pass]) -> Vec<(Nanos, Nanos, usize)> {
    let moments = passes.iter().enumerate();
    let moments = moments.flat_map(|(at, pass)| [(pass.0, true, at), (pass.1, false, at)]);
    let mut moments: Vec<(Nanos, bool, usize)> = moments.collect();
    moments.sort_unstable();
    // Deepest last; of equals the one that began last.
    let mut within: BTreeSet<(u32, Nanos, usize)> = BTreeSet::new();
    let mut found: Vec<(Nanos, Nanos, usize)> = Vec::new();
    let mut last = Nanos(0);
    for (time, begins, at) in moments {
        if let Some((_, _, deepest)) = within.last().filter(|_| last < time) {
            found.push((last, time, passes[*deepest].3));
        }
        let entry = (passes[at].2, passes[at].0, at);
        // An empty pass ends before it begins.
        match begins {
            true if passes[at].1 > time => drop(within.insert(entry)),
            true => {}
            false => drop(within.remove(&entry)),
        }
        last = time;
    }
    found
}

#[cfg(test)]
mod tests {
    use base::{Pid, Tid};
    use facts::{MarkedPass, MarkedRegion, Privilege, Recording, Sample};

    use crate::{Filter, Profile, Selection, ThreadIndex};

    use super::*;

    fn pass(region: u32, tid: i32, time: u64, span: u64, passes: u64, inside: u64) -> MarkedPass {
        MarkedPass {
            region,
            pid: Pid(1),
            tid: Tid(tid),
            time: Nanos(time),
            span: Nanos(span),
            passes,
            inside: Nanos(inside),
            ..MarkedPass::default()
        }
    }

    /// Two threads with a sample every nanosecond from 1 to 100.
    fn recording() -> Recording {
        let sample = |at: u64| Sample {
            time: Nanos(at / 2 + 1),
            pid: Pid(1),
            tid: Tid(1 + (at % 2) as i32),
            cpu: None,
            weight: Nanos(1),
            stack: None,
            privilege: Privilege::User,
        };
        let region = |id, name: &str| MarkedRegion { id, name: name.to_owned(), domain: None };
        let mut recording = Recording {
            samples: (0..200).map(sample).collect(),
            marked_regions: vec![region(0, "solve"), region(1, "tiny"), region(2, "atoms")],
            marked_passes: vec![
                pass(0, 1, 10, 20, 1, 20),
                // In itself.
                pass(0, 1, 12, 2, 1, 2),
                pass(0, 2, 25, 15, 1, 15),
                pass(0, 1, 60, 10, 0, 10),
                pass(1, 2, 50, 40, 9, 30),
                pass(2, 2, 95, 5, 9, 1),
            ],
            ..Recording::default()
        };
        recording.run.elapsed_ns = 100;
        recording
    }

    fn chosen(profile: &Profile<'_>, filters: &[Filter]) -> Selection {
        Selection::resolve(profile, filters).expect("it is there")
    }

    fn region(name: &str) -> Filter {
        Filter::Region(name.to_owned())
    }

    #[test]
    fn a_thread_counts_while_it_is_in_the_region() {
        let recording = recording();
        let profile = Profile::new(&recording);
        let solve = chosen(&profile, &[region("solve")]);
        let [first, second] = [0, 1].map(ThreadIndex::new);
        let counts = |thread, times: [u64; 4]| times.map(|at| solve.has(thread, Nanos(at)));
        assert_eq!(counts(first, [9, 10, 29, 30]), [false, true, true, false]);
        assert_eq!(counts(second, [10, 25, 39, 60]), [false, true, true, false]);
        let amount = |selection: &Selection| {
            profile.cells(selection).iter().map(|cell| cell.weight.amount()).sum::<u64>()
        };
        assert_eq!(amount(&solve), 20 + 15 + 10);
        assert_eq!(solve.time(), Some((Nanos(10), Nanos(70))));
        // Wall time in which any thread was in it: 10 to 40 and 60 to 70.
        assert_eq!(solve.observed(&profile), Nanos(40));
        assert_eq!(solve.share(first, Nanos(20), Nanos(20)), 0.5);
        assert!(solve.chooses_threads() && solve.between_short_passes().is_none());
        let both = chosen(&profile, &[region("solve"), region("tiny")]);
        assert_eq!(amount(&both), 20 + 15 + 10 + 40);
    }

    #[test]
    fn other_filters_narrow_it() {
        let recording = recording();
        let profile = Profile::new(&recording);
        let time = Filter::Time { start: 15.5e-9, end: 27.5e-9 };
        let narrow = chosen(&profile, &[region("so*"), time]);
        assert_eq!(narrow.time(), Some((Nanos(15), Nanos(27))));
        let amount: u64 = profile.cells(&narrow).iter().map(|cell| cell.weight.amount()).sum();
        assert_eq!(amount, 12 + 2);
        let thread = Filter::Thread("2".to_owned());
        let one = chosen(&profile, &[region("solve"), thread]);
        let amount: u64 = profile.cells(&one).iter().map(|cell| cell.weight.amount()).sum();
        assert_eq!(amount, 15);
    }

    #[test]
    fn what_lies_between_short_passes_is_said() {
        let recording = recording();
        let profile = Profile::new(&recording);
        let tiny = chosen(&profile, &[region("tiny")]);
        assert_eq!(tiny.between_short_passes(), Some(0.25));
        let error = Selection::resolve(&profile, &[region("other")]).expect_err("no such region");
        assert!(error.to_string().contains("solve"), "{error}");
        let error = Selection::resolve(&profile, &[region("atoms")]).expect_err("mostly others");
        assert!(error.to_string().contains("80 % of the time"), "{error}");
    }

    #[test]
    fn the_innermost_region_has_the_time_and_nothing_is_lost() {
        let mut recording = recording();
        for (at, pass) in recording.marked_passes.iter_mut().enumerate() {
            pass.depth = u32::from(at == 1);
        }
        // `solve` from 12 to 14 is `tiny` now, within `solve`.
        recording.marked_passes[1].region = 1;
        let profile = Profile::new(&recording);
        let amount = |selection: &Selection| {
            profile.cells(selection).iter().map(|cell| cell.weight.amount()).sum::<u64>()
        };
        let by_region = |selection: &Selection, most| {
            let found = selection.by_region(&profile, most);
            let named = found
                .parts
                .iter()
                .map(|(name, part)| (name.clone().unwrap_or_default(), amount(part)));
            (named.collect::<Vec<_>>(), found.too_short)
        };
        let all = Selection::default();
        let (parts, too_short) = by_region(&all, 9);
        let named = |name: &str, amount| (name.to_owned(), amount);
        // `atoms`, most of whose time lies between its passes, is a part of what is around it.
        let outside = 200 - (18 + 15 + 10) - (2 + 40);
        assert_eq!(parts, [named("solve", 43), named("tiny", 42), named("", outside)]);
        assert_eq!(too_short, ["atoms"]);
        let (parts, _) = by_region(&all, 1);
        assert_eq!(parts, [named("(other regions)", 85), named("", outside)]);
        // A filter has regions within: of `solve` those 2 ns are in `tiny`.
        let tiny = recording.marked_regions[1].name.clone();
        let solve = chosen(&profile, &[region("solve")]);
        let (parts, _) = by_region(&solve, 9);
        assert_eq!(parts, [named("solve", 43), named(&tiny, 2)]);
        let first = chosen(&profile, &[Filter::Time { start: 0.0, end: 13.5e-9 }]);
        let (parts, _) = by_region(&first, 9);
        assert_eq!(parts.iter().map(|(_, amount)| amount).sum::<u64>(), amount(&first));
    }
}
