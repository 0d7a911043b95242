//! What events counted between the samples of a perf.data file.
//!
//! What for: a sample of an event stands for its period. Where samples read a whole group (`perf record -e '{cycles,instructions}:S'`),
//! it stands for what each member counted since the reading before. Readings with the time that a counter was there become
//! stretches of the recording. What not: which events those are (`events`), figures (`analysis`).
//!
//! Readings are of one counter each: of one CPU, and of one thread where threads inherit their events (Linux 6.12 and later;
//! tools/perf/util/session.c, `deliver_sample_value`). A value below the one before is of a new counter.

use std::collections::HashMap;

use base::Nanos;
use facts::EventCount;

use super::sample::Counters;

/// Between two stretches.
const STRETCH: Nanos = Nanos(90_000_000);

/// A value and the times with it.
type Reading = [u64; 3];

/// All counters of a file.
#[derive(Default)]
pub(super) struct Counts {
    /// The number of the counted event of each id, and whether threads inherit it.
    events: HashMap<u64, (u32, bool)>,
    before: HashMap<(u64, i32), Reading>,
    sums: Vec<Reading>,
    begun: Nanos,
}

impl Counts {
    /// `events`: the ids of each counted event, and whether threads inherit it.
    pub(super) fn of<'a>(events: impl Iterator<Item = (&'a [u64], bool)>) -> Counts {
        let mut counts = Counts::default();
        for (event, (ids, inherits)) in (0_u32..).zip(events) {
            counts.events.extend(ids.iter().map(|id| (*id, (event, inherits))));
            counts.sums.push([0; 3]);
        }
        counts
    }

    /// What each event counted since the reading before.
    pub(super) fn take(&mut self, tid: i32, read: &Counters) -> Vec<(u32, u64)> {
        let mut counted = Vec::with_capacity(read.counts.len());
        for (id, value) in &read.counts {
            let Some((event, inherits)) = id.and_then(|id| self.events.get(&id)) else { continue };
            let counter = (id.unwrap_or(0), if *inherits { tid } else { 0 });
            let now = [*value, read.enabled.unwrap_or(0), read.running.unwrap_or(0)];
            let before = self.before.insert(counter, now).unwrap_or_default();
            let anew = now[0] < before[0] || now[1] < before[1];
            let before = if anew { [0; 3] } else { before };
            let more: Reading = std::array::from_fn(|part| now[part].saturating_sub(before[part]));
            if more[0] > 0 {
                counted.push((*event, more[0]));
            }
            if read.enabled.is_some() && read.running.is_some() {
                let sum = &mut self.sums[*event as usize];
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
            }
        }
        counted
    }

    /// The stretches up to now, if that is due.
    pub(super) fn due(&mut self, now: Nanos) -> Vec<EventCount> {
        if now.0.saturating_sub(self.begun.0) < STRETCH.0 { Vec::new() } else { self.rest(now) }
    }

    /// Those since the last.
    pub(super) fn rest(&mut self, now: Nanos) -> Vec<EventCount> {
        self.begun = now;
        let stretch = |(event, sum): (u32, &mut Reading)| {
            let [count, enabled, running] = std::mem::take(sum);
            let (enabled, running) = (Nanos(enabled), Nanos(running.min(enabled)));
            (enabled > Nanos(0)).then_some(EventCount { time: now, event, count, enabled, running })
        };
        (0..).zip(&mut self.sums).filter_map(stretch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: [(u64, u64); 2], enabled: u64, running: u64) -> Counters {
        let counts = values.map(|(id, value)| (Some(id), value)).to_vec();
        Counters { grouped: true, enabled: Some(enabled), running: Some(running), counts }
    }

    #[test]
    fn readings_of_a_counter_are_differences() {
        let mut counts = Counts::of([(&[7_u64, 8][..], false), (&[9][..], false)].into_iter());
        assert_eq!(counts.take(1, &read([(7, 100), (9, 40)], 10, 5)), [(0, 100), (1, 40)]);
        // Another CPU's counter of the first event, and the second without a change.
        assert_eq!(counts.take(1, &read([(8, 30), (9, 40)], 14, 7)), [(0, 30)]);
        assert_eq!(counts.take(2, &read([(7, 150), (9, 41)], 20, 9)), [(0, 50), (1, 1)]);
        // A counter that begins again, and an id that nobody has.
        assert_eq!(counts.take(2, &read([(7, 3), (1, 1)], 2, 2)), [(0, 3)]);
        assert!(counts.due(Nanos(5)).is_empty());
        let row = |event, count, enabled, running| EventCount {
            time: STRETCH,
            event,
            count,
            enabled: Nanos(enabled),
            running: Nanos(running),
        };
        assert_eq!(counts.due(STRETCH), [row(0, 183, 36, 18), row(1, 41, 20, 9)]);
        assert!(counts.rest(STRETCH).is_empty());
    }

    #[test]
    fn inherited_counters_are_one_per_thread() {
        let mut counts = Counts::of([(&[7_u64][..], true), (&[9][..], true)].into_iter());
        assert_eq!(counts.take(1, &read([(7, 100), (9, 40)], 1, 1)), [(0, 100), (1, 40)]);
        assert_eq!(counts.take(2, &read([(7, 110), (9, 41)], 1, 1)), [(0, 110), (1, 41)]);
        assert_eq!(counts.take(1, &read([(7, 120), (9, 42)], 2, 2)), [(0, 20), (1, 2)]);
    }
}
