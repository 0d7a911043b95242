//! Samples of counted events: the code that runs when a counter has counted so many.
//!
//! What for: which of the wanted events are there, what each counted between two readings and for how long it had a counter. What not:
//! opening them and their rings (`events`), counting without samples (`crate::counting`).
//!
//! Where more events are wanted than there are counters, they take turns: samples come only while an event has one. Readings say
//! what share of the time that was.

use base::Nanos;
use facts::{CountedEvent, Fact, NoteSubject, SinkError};
use sys::perf::Event;

use crate::counting::{self, Carried, Choice, SampleRate, Shown, Totals};
use crate::recorder::Recorder;

/// What is sampled, in the order of its numbers.
pub struct CountedEvents {
    choices: Vec<Choice>,
    /// A thread's event of each CPU was to count for all of the thread's time, and had a counter only where the thread was.
    cpus: Vec<u64>,
    kernel: bool,
    /// Counts and times until the last reading.
    before: Vec<Totals>,
    shown: Vec<Shown>,
    last: Nanos,
    notes: Vec<String>,
}

impl CountedEvents {
    /// `opened`: on how many CPUs an event is open for each thread, where it could be opened (1 where it counts a CPU). Also returns the
    /// new number of each event.
    pub(super) fn new(
        wanted: &[Choice],
        opened: impl Fn(u32) -> Option<u64>,
        kernel: bool,
    ) -> (CountedEvents, Vec<Option<u32>>) {
        let (mut choices, mut numbers, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        let mut cpus = Vec::new();
        for (at, choice) in (0_u32..).zip(wanted) {
            let found = opened(at);
            numbers.push(found.map(|_| u32::try_from(choices.len()).unwrap_or(u32::MAX)));
            match found {
                Some(on) => {
                    choices.push(choice.clone());
                    cpus.push(on.max(1));
                }
                None => refused.push(choice.name.as_str()),
            }
        }
        let mut notes = Vec::new();
        if !refused.is_empty() {
            notes.push(NoteSubject::CountedEvents.note(format!(
                "not sampled: {}; no PMU here has them, this user may not, or another tool has the counters",
                refused.join(", ")
            )));
        }
        let before = vec![Totals::default(); choices.len()];
        let shown = Vec::new();
        (CountedEvents { choices, cpus, kernel, before, shown, last: Nanos(0), notes }, numbers)
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.choices.len()
    }

    /// Whether the kernel gives the period of the next sample with a sample (see `super::weight`).
    pub(super) fn announces_next(&self, event: u32) -> bool {
        self.choices.get(event as usize).is_some_and(Choice::is_of_kernel_at_adapted_rate)
    }

    /// Whether its samples have the registers of IBS.
    pub(super) fn is_ibs(&self, event: u32) -> bool {
        self.choices.get(event as usize).is_some_and(|one| one.carries == Carried::IbsAccess)
    }

    /// The names of those that write a trace.
    pub(super) fn traced(&self) -> String {
        let traced = self.choices.iter().filter(|one| one.carries == Carried::SpeAccess);
        traced.map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// How many occurrences a sample at a fixed period stands for.
    pub(super) fn period(&self, event: u32) -> u64 {
        match self.choices.get(event as usize).and_then(|one| one.sampled) {
            Some(SampleRate::Period(period)) => period,
            _ => 1,
        }
    }

    /// Names the events, before any sample of them.
    pub(super) fn announce(&self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        (0_u32..).zip(&self.choices).try_for_each(|(id, choice)| {
            let (name, kernel) = (choice.name.clone(), self.kernel);
            let event = CountedEvent { id, name, group: id, kernel, ..CountedEvent::default() };
            recorder.push(Fact::CountedEvent(event))
        })
    }

    /// Reads the counters if that is due; at the end in any case.
    pub(super) fn read(
        &mut self,
        now: Nanos,
        ends: bool,
        events: &[(u32, Event)],
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        if self.choices.is_empty() || !ends && now.0 - self.last.0 < counting::pause(now).0 {
            return Ok(());
        }
        self.last = now;
        let mut totals = vec![Totals::default(); self.choices.len()];
        self.shown.resize(events.len(), Shown::default());
        for ((number, event), shown) in events.iter().zip(&mut self.shown) {
            if let Some(sum) = totals.get_mut(*number as usize) {
                sum.add(shown.now(event));
            }
        }
        totals.iter_mut().zip(&self.cpus).for_each(|(sum, cpus)| sum.in_turn(*cpus));
        let all = (0_u32..).zip(totals).zip(&mut self.before);
        // What writes a trace has no count: a read gives 0.
        let of = |event: u32| self.choices.get(event as usize).map(|one| one.carries);
        for ((event, sum), before) in
            all.filter(|((event, _), _)| of(*event) != Some(Carried::SpeAccess))
        {
            if let Some(count) = before.advance(sum, now, event) {
                recorder.push(Fact::EventCount(count))?;
            }
        }
        Ok(())
    }

    /// What the reader must know.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}
