//! Regions that the program marks in its code: how often, how long, and how much CPU time in them.
//!
//! What for: the program's own calls count passes and sum their times, so both are exact. CPU time is that of the samples that
//! fall into a pass. A row of several short passes says which part of its span they took, and a sample in the span counts by
//! that part: at a sample per millisecond most short passes have none of their own. What not: which code ran in a region
//! (`--filter`).

use std::collections::BTreeMap;

use base::{Nanos, ThreadId};
use facts::{Evidence, MarkedPass, Metric};

use crate::profile::Profile;
use crate::selection::Selection;
use crate::weight::Weight;

/// A region of the selected threads and time.
#[derive(Clone, PartialEq, Debug)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// The library or part of the program that it belongs to, where the program says so.
    pub domain: Option<String>,
    /// How many threads passed it.
    pub threads: u64,
    /// Passes that ended.
    pub passes: u64,
    /// Passes that the recording's end cut off.
    pub open: u64,
    /// Time in all of them, seconds.
    pub time: Metric,
    /// The part of it that is not in a nested region.
    pub own_time: Metric,
    /// CPU time of its threads in them.
    pub cpu_time: Metric,
    /// How long a pass takes: the shortest, the median, the 95th percentile, the longest.
    pub lengths: [Metric; 4],
}

/// The regions, the ones with most time of their own first.
#[must_use]
pub fn regions(profile: &Profile<'_>, selection: &Selection) -> Vec<Region> {
    let recording = profile.recording;
    let whole = !selection.chooses_threads() && selection.time().is_none();
    let mut found = Vec::new();
    let mut passes: BTreeMap<u32, Vec<&MarkedPass>> = BTreeMap::new();
    for pass in recording.marked_passes.iter().filter(|pass| is_selected(profile, selection, pass))
    {
        passes.entry(pass.region).or_default().push(pass);
    }
    for (region, of) in (0_u32..).zip(&recording.marked_regions) {
        let Some(passes) = passes.get(&region) else { continue };
        // Of a pass with a pause in it, what was observed; with it goes what it had within.
        let observed = |pass: &MarkedPass, part: Nanos| {
            let seen = profile.observed_in(pass.time, pass.time + pass.span);
            part.seconds() * if pass.span.0 > 0 { seen.0 as f64 / pass.span.0 as f64 } else { 1.0 }
        };
        let sum = |part: fn(&MarkedPass) -> Nanos| {
            let sum = passes.iter().map(|pass| observed(pass, part(pass))).sum();
            Metric::counted(sum, "s")
        };
        let mut threads: Vec<ThreadId> =
            passes.iter().map(|pass| ThreadId::new(pass.pid, pass.tid)).collect();
        threads.sort_unstable();
        threads.dedup();
        found.push(Region {
            name: of.name.clone(),
            domain: of.domain.clone(),
            threads: threads.len() as u64,
            passes: passes.iter().fold(0, |sum, pass| sum.saturating_add(pass.passes)),
            open: passes.iter().filter(|pass| pass.passes == 0).count() as u64,
            time: sum(|pass| pass.inside),
            own_time: sum(|pass| pass.own),
            cpu_time: cpu_time(profile, passes),
            lengths: if whole { lengths(profile, region) } else { unknown_lengths(PART) },
        });
    }
    let own = |region: &Region| region.own_time.value.unwrap_or(0.0);
    found.sort_by(|a, b| own(b).total_cmp(&own(a)));
    found
}

/// Names of all regions that were passed, those with most time first.
#[must_use]
pub fn regions_by_time(profile: &Profile<'_>) -> Vec<String> {
    let recording = profile.recording;
    let mut times = vec![None; recording.marked_regions.len()];
    for pass in &recording.marked_passes {
        if let Some(time) = times.get_mut(pass.region as usize) {
            *time = Some(time.unwrap_or_default() + pass.inside);
        }
    }
    let passed = recording.marked_regions.iter().zip(times);
    let mut passed: Vec<(Nanos, &str)> =
        passed.filter_map(|(region, time)| Some((time?, region.name.as_str()))).collect();
    passed.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let mut names: Vec<String> = Vec::new();
    for (_, name) in passed {
        // Of two domains.
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// A pass belongs to the selected time with its begin.
fn is_selected(profile: &Profile<'_>, selection: &Selection, pass: &MarkedPass) -> bool {
    selection.may_have(profile.threads.find(pass.pid, pass.tid), pass.time)
}

/// CPU time of the samples in these passes, in order of time.
fn cpu_time(profile: &Profile<'_>, passes: &[&MarkedPass]) -> Metric {
    if profile.whole().is_empty() {
        return Metric::unavailable("s", profile.why_no_samples());
    }
    let mut of_threads: BTreeMap<ThreadId, Stretches> = BTreeMap::new();
    for pass in passes {
        of_threads.entry(ThreadId::new(pass.pid, pass.tid)).or_default().0.push(pass);
    }
    of_threads.values_mut().for_each(Stretches::sort);
    let mut sum = Weight::default();
    let mut in_batches = false;
    for sample in &profile.recording.samples {
        let Some(stretches) = of_threads.get(&ThreadId::new(sample.pid, sample.tid)) else {
            continue;
        };
        // Its stack is of that moment; a filter on the region takes the same samples.
        let part = stretches.part_at(sample.time);
        if part > 0.0 {
            in_batches |= part < 1.0;
            sum.add((sample.weight.0 as f64 * part) as u64);
        }
    }
    let metric = profile.cpu_scale().quantity(&sum);
    match in_batches {
        true => Metric { evidence: Some(Evidence::Estimated), ..metric }
            .noted("samples among short passes count by the part of the time that these take"),
        false => metric,
    }
}

/// The passes of one thread through one region.
#[derive(Default)]
struct Stretches<'a>(Vec<&'a MarkedPass>, Vec<Nanos>);

impl Stretches<'_> {
    fn sort(&mut self) {
        self.0.sort_by_key(|pass| pass.time);
        // A region may lie in itself: up to here, some pass that began before lasts.
        let mut last = Nanos(0);
        let ends = self.0.iter().map(|pass| {
            last = last.max(pass.time + pass.span);
            last
        });
        self.1 = ends.collect();
    }

    /// Probability that the thread is in the region at a time.
    fn part_at(&self, time: Nanos) -> f64 {
        let next = self.0.partition_point(|pass| pass.time <= time);
        let mut part: f64 = 0.0;
        for at in (0..next).rev() {
            if self.1[at] <= time {
                break;
            }
            let pass = self.0[at];
            if time < pass.time + pass.span {
                let inside = pass.inside.0 as f64 / pass.span.0.max(1) as f64;
                part = part.max(if pass.passes <= 1 { 1.0 } else { inside });
            }
        }
        part
    }
}

const NO_LENGTHS: &str = "the recording was not closed: lengths of passes are counted at its end";
const PART: &str = "lengths of passes are known for the whole recording only";

fn unknown_lengths(why: &str) -> [Metric; 4] {
    [(); 4].map(|()| Metric::unavailable("s", why))
}

/// The shortest, the median, the 95th percentile and the longest pass.
fn lengths(profile: &Profile<'_>, region: u32) -> [Metric; 4] {
    // Processes count by the same classes; the first and the last of each are cut to what it saw.
    let mut classes: Vec<_> =
        profile.recording.marked_lengths.iter().filter(|one| one.region == region).collect();
    classes.sort_by_key(|one| (one.least, one.most));
    let all = classes.iter().fold(0_u64, |sum, one| sum.saturating_add(one.passes));
    let (Some(first), Some(most)) = (classes.first(), classes.iter().map(|one| one.most).max())
    else {
        return unknown_lengths(NO_LENGTHS);
    };
    let quantile = |part: f64| {
        let rank = ((all as f64 * part).ceil() as u64).max(1);
        let mut seen = 0_u64;
        let class = classes.iter().find(|one| {
            seen = seen.saturating_add(one.passes);
            seen >= rank
        });
        let (low, high) = class.map_or((Nanos(0), most), |one| (one.least, one.most));
        let (low, high) = (low.seconds(), high.seconds());
        Metric::with_interval(Evidence::Counted, f64::midpoint(low, high), "s", (low, high), all)
    };
    let exactly = |time: Nanos| Metric::counted(time.seconds(), "s");
    [exactly(first.least), quantile(0.5), quantile(0.95), exactly(most)]
}

#[cfg(test)]
mod tests {
    use base::{Pid, Tid};
    use facts::{MarkedLength, MarkedRegion, Privilege, Recording, Sample};

    use super::*;

    const MS: u64 = 1_000_000;

    fn pass(time: u64, span: u64, passes: u64, inside: u64) -> MarkedPass {
        let (time, span, inside) = (Nanos(time * MS), Nanos(span * MS), Nanos(inside * MS));
        let (pid, tid) = (Pid(1), Tid(1));
        MarkedPass { time, span, pid, tid, passes, inside, own: inside, ..MarkedPass::default() }
    }

    /// A thread that runs for 100 ms, with a sample each.
    fn recording(passes: Vec<MarkedPass>) -> Recording {
        let sample = |ms: u64| Sample {
            time: Nanos((ms + 1) * MS),
            pid: Pid(1),
            tid: Tid(1),
            cpu: None,
            weight: Nanos(MS),
            stack: None,
            privilege: Privilege::User,
        };
        let mut recording = Recording {
            samples: (0..100).map(sample).collect(),
            marked_regions: vec![MarkedRegion { name: "a".to_owned(), ..MarkedRegion::default() }],
            marked_passes: passes,
            ..Recording::default()
        };
        recording.run.elapsed_ns = 100 * MS;
        recording
    }

    fn only(recording: &Recording) -> Region {
        let profile = Profile::new(recording);
        let mut found = regions(&profile, &Selection::default());
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    fn milliseconds(metric: &Metric) -> f64 {
        (metric.value.expect("a value") * 1e6).round() / 1e3
    }

    #[test]
    fn samples_belong_to_the_pass_that_they_fall_into() {
        // A region in itself, and one that was open at the end.
        let region =
            only(&recording(vec![pass(10, 20, 1, 20), pass(12, 2, 1, 2), pass(90, 10, 0, 10)]));
        assert_eq!((region.passes, region.open, region.threads), (2, 1, 1));
        assert_eq!(milliseconds(&region.time), 32.0);
        assert_eq!(milliseconds(&region.cpu_time), 30.0);
        assert_eq!(region.cpu_time.evidence, Some(Evidence::Sampled));
    }

    #[test]
    fn samples_among_short_passes_count_by_their_part() {
        let region = only(&recording(vec![pass(0, 40, 1000, 10), pass(40, 20, 500, 20)]));
        // A quarter of the samples at 1 to 39 ms, all at 40 to 59 ms.
        assert_eq!(milliseconds(&region.cpu_time), 29.75);
        assert_eq!(region.cpu_time.evidence, Some(Evidence::Estimated));
        assert_eq!(region.passes, 1500);
    }

    #[test]
    fn lengths_are_quantiles_of_what_was_counted() {
        let length = |least: u64, most: u64, passes| {
            let (least, most) = (Nanos(least), Nanos(most));
            MarkedLength { region: 0, pid: Pid(1), least, most, passes }
        };
        let mut recording = recording(vec![pass(0, 1, 100, 1)]);
        recording.marked_lengths = vec![length(5, 7, 10), length(8, 9, 50), length(100, 120, 40)];
        let [shortest, median, p95, longest] = only(&recording).lengths;
        let nanos = |value: Option<f64>| value.map(|seconds| (seconds * 1e9).round());
        assert_eq!((nanos(shortest.value), nanos(longest.value)), (Some(5.0), Some(120.0)));
        assert_eq!((nanos(median.low), nanos(median.high)), (Some(8.0), Some(9.0)));
        assert_eq!((nanos(p95.low), nanos(p95.high)), (Some(100.0), Some(120.0)));
        recording.marked_lengths.clear();
        let [shortest, ..] = only(&recording).lengths;
        assert_eq!(shortest.value, None);
    }

    #[test]
    fn a_pause_is_no_time_in_a_region() {
        use facts::{Mark, MarkKind};
        let mark = |ms: u64, kind| Mark { time: Nanos(ms * MS), kind, ..Mark::default() };
        let mut recording = recording(vec![pass(10, 20, 1, 20)]);
        recording.marks = vec![mark(15, MarkKind::Pause), mark(25, MarkKind::Resume)];
        assert_eq!(milliseconds(&only(&recording).time), 10.0);
    }
}
