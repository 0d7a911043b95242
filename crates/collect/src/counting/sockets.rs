//! Counts what memory controllers and links to other sockets move, of each socket, whatever runs there.
//!
//! What for: the traffic of the whole machine next to that of the program. A controller has a counter for each of its events, so nothing
//! takes turns unless others count there, too. What not: which events there are (`machine::traffic_events`), rates (`analysis`).
//!
//! Only users who may count the whole machine get them: for others that is a note, and nothing is missing that the program needs.

use base::{CpuId, Nanos};
use facts::{CountedEvent, Fact, NoteSubject, SinkError};
use sys::perf::{Attr, Counting as Switch, Event, Flag, OpenTarget, SoftwareEvent};

use super::{Shown, Totals};
use crate::perf::{ALL_THREADS, OpenError};
use crate::recorder::Recorder;

/// An event of one controller or link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerEvent {
    /// What it counts, for people; events of the same name are added up.
    pub name: String,
    /// The link; `None`: memory.
    pub link: Option<String>,
    /// The number of the PMU.
    pub pmu: u32,
    /// `config`, `config1`, `config2` of `perf_event_attr`.
    pub config: [u64; 3],
    /// Where it is opened: a CPU of each socket.
    pub cpus: Vec<CpuId>,
    /// What 1,000 occurrences move, bytes.
    pub bytes_per_thousand: u32,
}

/// What is counted of a socket.
struct SocketCount {
    name: String,
    link: Option<String>,
    socket: u32,
    bytes_per_thousand: u32,
    events: Vec<(Event, Shown)>,
    before: Totals,
}

/// All sockets.
#[derive(Default)]
pub(super) struct Sockets {
    counts: Vec<SocketCount>,
    pub(super) notes: Vec<String>,
}

impl Sockets {
    /// Opens all of memory and all of links; `None` of them where one may not be counted, because a part of the traffic would look like
    /// all of it.
    pub(super) fn open(wanted: &[ControllerEvent]) -> Sockets {
        let mut sockets = Sockets::default();
        let (links, memory) = wanted.iter().partition::<Vec<_>, _>(|one| one.link.is_some());
        for (what, of) in [("memory", memory), ("links between sockets", links)] {
            match open(&of) {
                Ok(counts) => sockets.counts.extend(counts),
                Err(error) => sockets.notes.push(NoteSubject::MachineTraffic.note(format!(
                    "the traffic of {what} was not counted for the whole machine: {error}; to enable: sudo sysctl \
                     kernel.perf_event_paranoid=0"
                ))),
            }
        }
        sockets
    }

    pub(super) fn announce(
        &self,
        first: u32,
        group: u32,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        (first..).zip(&self.counts).try_for_each(|(id, one)| {
            recorder.push(Fact::CountedEvent(CountedEvent {
                id,
                name: one.name.clone(),
                group,
                kernel: true,
                socket: Some(one.socket),
                bytes_per_thousand: Some(one.bytes_per_thousand),
                link: one.link.clone(),
            }))
        })
    }

    pub(super) fn read(
        &mut self,
        now: Nanos,
        first: u32,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        for (event, one) in (first..).zip(&mut self.counts) {
            let mut totals = Totals::default();
            one.events.iter_mut().for_each(|(event, shown)| totals.add(shown.now(event)));
            if let Some(count) = one.before.advance(totals, now, event) {
                recorder.push(Fact::EventCount(count))?;
            }
        }
        Ok(())
    }

    /// Counts or does not. A CPU may be offline by now.
    pub(super) fn set(&self, switch: Switch) {
        for (event, _) in self.counts.iter().flat_map(|one| &one.events) {
            let _ = event.set(switch);
        }
    }
}

fn open(wanted: &[&ControllerEvent]) -> Result<Vec<SocketCount>, OpenError> {
    let mut counts: Vec<SocketCount> = Vec::new();
    for one in wanted {
        for (socket, cpu) in (0_u32..).zip(&one.cpus) {
            // Such a PMU counts neither by thread nor by mode: it takes no exclusions.
            let attr = Attr::software(SoftwareEvent::Dummy)
                .of_event(one.pmu, one.config)
                .flags(&[Flag::Disabled]);
            let event = sys::perf::open(&attr, OpenTarget { tid: ALL_THREADS, cpu: Some(*cpu) })?;
            let same = |count: &&mut SocketCount| {
                (count.socket, &count.name, &count.link) == (socket, &one.name, &one.link)
                    && count.bytes_per_thousand == one.bytes_per_thousand
            };
            match counts.iter_mut().find(same) {
                Some(count) => count.events.push((event, Shown::default())),
                None => counts.push(SocketCount {
                    name: one.name.clone(),
                    link: one.link.clone(),
                    socket,
                    bytes_per_thousand: one.bytes_per_thousand,
                    events: vec![(event, Shown::default())],
                    before: Totals::default(),
                }),
            }
        }
    }
    counts.iter().flat_map(|one| &one.events).try_for_each(|(event, _)| event.set(Switch::On))?;
    Ok(counts)
}
