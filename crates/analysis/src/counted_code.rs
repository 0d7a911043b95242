//! Counted events by code: how often each happened in a function, a source line, a module, a thread, on a CPU.
//!
//! What for: a sample of an event stands for so many of it, at one place. Their sum over the samples of a row is its count,
//! scaled to the whole count where that was counted too. What not: what events mean, the top-down tree (`uarch`), time.
//!
//! Random errors. An event whose counter takes samples of its own has as many in a row as chance gives: the replicates are those of a
//! Poisson count (`estimate::poisson_replicates`). Where each sample reads a whole group, the counts of its events go together:
//! each replicate weighs each sample with 0 or 2, the same for all events, so that what they have in common cancels in their
//! ratio. Its variance is that of a sum over a Poisson number of samples, with Student's tails.
//! Hazard of groups: what happened between two samples counts for the place of the second. That is right on average only for
//! code that runs for longer than a period.

use std::collections::BTreeMap;

use base::mixed;
use estimate::{Draws, Estimate, REPLICATES, poisson_replicates};
use facts::{CountedEvent, Evidence, Metric, Recording};

use crate::counted::Readings;
use crate::hotspots::{Key, RowKey};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::{CallPaths, LocationId};
use crate::weight::Weight;

/// What a row has of an event.
#[derive(Clone, PartialEq, Debug, Default)]
struct Part {
    weight: Weight,
    /// Of an event of a group: the sum over samples with random signs, in each replicate.
    signed: Vec<f32>,
}

/// Counted events of a piece of code.
#[derive(Clone, PartialEq, Debug)]
pub struct CountedRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it with the most samples.
    pub place: LocationId,
    /// By the number of the event.
    parts: Vec<Part>,
    places: BTreeMap<LocationId, u64>,
    /// Sets its random numbers apart from those of other rows.
    seed: u64,
}

impl CountedRow {
    fn new(key: RowKey, events: usize, seed: u64) -> CountedRow {
        let parts = vec![Part::default(); events];
        CountedRow { key, place: crate::stack::NO_STACK, parts, places: BTreeMap::new(), seed }
    }

    /// Number of samples of an event.
    #[must_use]
    pub fn samples(&self, event: usize) -> u64 {
        self.parts.get(event).map_or(0, |part| part.weight.records())
    }
}

/// All of them.
pub struct CountedCode<'a> {
    pub(crate) recording: &'a Recording,
    events: &'a [CountedEvent],
    /// Whether the event's samples come with those of others.
    grouped: Vec<bool>,
    /// Over all samples, and the count where that was counted as well.
    wholes: Vec<(Weight, Option<Estimate>)>,
    /// Most samples first.
    pub rows: Vec<CountedRow>,
    /// Of rows by call stack.
    pub paths: Option<CallPaths>,
}

impl<'a> CountedCode<'a> {
    /// The selected samples by `keys`; without keys in one row.
    #[must_use]
    pub fn new(profile: &'a Profile<'a>, selection: &Selection, keys: &[Key]) -> CountedCode<'a> {
        let recording = profile.recording;
        let events = recording.counted_events.as_slice();
        let mut wholes: Vec<Weight> = vec![Weight::default(); events.len()];
        for sample in &recording.event_samples {
            if let Some(whole) = wholes.get_mut(sample.event as usize) {
                whole.add(sample.weight);
            }
        }
        let sampled = |at: usize| !wholes[at].is_empty();
        let grouped: Vec<bool> = (0..events.len())
            .map(|at| {
                let alike = |other: usize| other != at && events[other].group == events[at].group;
                sampled(at) && (0..events.len()).any(|other| alike(other) && sampled(other))
            })
            .collect();
        let stacks = &profile.stacks;
        let paths = keys.contains(&Key::CallStack).then(|| stacks.call_paths());
        let mut rows: BTreeMap<RowKey, CountedRow> = BTreeMap::new();
        for sample in &recording.event_samples {
            let at = sample.event as usize;
            let Some(thread) = profile.threads.find(sample.pid, sample.tid) else { continue };
            let stack = sample.stack.and_then(|id| stacks.find(id));
            let place = stacks.innermost(stack);
            let chosen = selection.has(thread, sample.time) && selection.has_place(place);
            if at >= events.len() || !chosen {
                continue;
            }
            let key = RowKey {
                stack: paths.as_ref().map(|paths| paths.of(stack)),
                cpu: sample.cpu.filter(|_| keys.contains(&Key::Cpu)),
                ..RowKey::at(keys, stacks, place)
            };
            let key = key.with_thread_of(RowKey::of_thread(keys, profile, thread));
            let seed = rows.len() as u64;
            let row = rows.entry(key).or_insert_with(|| CountedRow::new(key, events.len(), seed));
            *row.places.entry(place).or_default() += 1;
            let part = &mut row.parts[at];
            part.weight.add(sample.weight);
            if grouped[at] {
                let group = u64::from(events[at].group) << 32 | u64::from(sample.tid.0 as u32);
                add_signed(&mut part.signed, sample.weight as f32, mixed(sample.time.0) ^ group);
            }
        }
        let mut rows: Vec<CountedRow> = rows.into_values().collect();
        for row in &mut rows {
            let most = row
                .places
                .iter()
                .max_by_key(|(place, count)| (**count, std::cmp::Reverse(**place)));
            row.place = most.map_or(row.place, |(place, _)| *place);
        }
        let samples = |row: &CountedRow| row.places.values().sum::<u64>();
        rows.sort_by_key(|row| (std::cmp::Reverse(samples(row)), row.key));
        let readings = Readings::new(recording);
        let whole = |(event, weight)| (weight, readings.estimate(event).ok());
        let wholes = events.iter().zip(wholes).map(whole).collect();
        CountedCode { recording, events, grouped, wholes, rows, paths }
    }

    /// The events that have samples, by number.
    pub fn sampled(&self) -> impl Iterator<Item = (usize, &'a CountedEvent)> {
        let events = self.events.iter().enumerate();
        events.filter(|(at, _)| !self.wholes[*at].0.is_empty())
    }

    /// How often an event happened in a row.
    ///
    /// # Errors
    /// Says why that is not known.
    pub fn estimate(&self, row: &CountedRow, event: usize) -> Result<Estimate, String> {
        let (part, (whole, counted)) = (&row.parts[event], &self.wholes[event]);
        if whole.is_empty() {
            return Err(format!("{} was not sampled", self.events[event].name));
        }
        let amount = part.weight.amount() as f64;
        let records = part.weight.effective_records();
        let replicates = if self.grouped[event] {
            // All events of the group share them.
            let group = self.events[event].group;
            let of_group = self.events.iter().zip(&row.parts).filter(|(one, _)| one.group == group);
            let most = of_group.map(|(_, part)| part.weight.records()).max().unwrap_or(0);
            let mut draws = Draws::new(mixed(row.seed << 16 | u64::from(group)));
            let tails = draws.tails((most as f64 - 1.0).max(1.0));
            let signed =
                part.signed.iter().map(|sum| f64::from(*sum)).chain(std::iter::repeat(0.0));
            tails.iter().zip(signed).map(|(tail, sum)| (amount + tail * sum).max(0.0)).collect()
        } else {
            let mut draws = Draws::new(mixed(row.seed << 16 | event as u64));
            let each = if records > 0.0 {
                amount / records
            } else {
                whole.amount() as f64 / whole.effective_records()
            };
            poisson_replicates(records, &draws.normal()).iter().map(|count| count * each).collect()
        };
        let of_samples = Estimate::new(amount, replicates);
        Ok(match counted {
            Some(counted) => of_samples * counted / whole.amount() as f64,
            None => of_samples,
        })
    }

    /// The same as a figure.
    #[must_use]
    pub fn count(&self, row: &CountedRow, event: usize) -> Metric {
        match self.estimate(row, event) {
            Err(why) => Metric::unavailable("count", &why),
            Ok(count) => sampled_metric(&count, "count", row.samples(event)),
        }
    }

    /// The part of all samples of the event, percent.
    #[must_use]
    pub fn percent(&self, row: &CountedRow, event: usize) -> Metric {
        let (part, whole) = (&row.parts[event].weight, &self.wholes[event].0);
        if whole.is_empty() {
            return Metric::unavailable("percent", "the event was not sampled");
        }
        let share = part.amount() as f64 / whole.amount() as f64;
        let (low, high) = estimate::interval::wilson(share, whole.effective_records());
        let interval = (low * 100.0, high * 100.0);
        Metric::with_interval(Evidence::Sampled, share * 100.0, "percent", interval, part.records())
    }
}

/// A figure from samples with the interval of its replicates.
pub(crate) fn sampled_metric(count: &Estimate, unit: &'static str, samples: u64) -> Metric {
    Metric::with_interval(Evidence::Sampled, count.point(), unit, count.interval(), samples)
}

/// Adds a weight with a random sign in each replicate.
fn add_signed(sums: &mut Vec<f32>, weight: f32, seed: u64) {
    sums.resize(REPLICATES, 0.0);
    for (block, part) in sums.chunks_mut(64).enumerate() {
        let signs = mixed(seed ^ mixed(block as u64));
        for (bit, sum) in part.iter_mut().enumerate() {
            *sum += if signs >> bit & 1 == 1 { weight } else { -weight };
        }
    }
}
