//! A trace of Perfetto: `TrackEvent`s with counters, in its protobuf format.
//!
//! What for: how much each thread ran, traffic with memory, and regions and marks of the program, over time. What not: stacks; other formats have them.
//! A counter keeps its value until the next one, so spans without an estimate are slices that say so.
//! Source: protos/perfetto/trace of https://github.com/google/perfetto

use std::collections::BTreeMap;

use facts::Metric;

use crate::stacks::{Exported, TimedPass};
use crate::wire::Message;

const SEQUENCE: u64 = 1;
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
/// Track of the whole recording; counters follow.
const RUN: u64 = 1;
const GAPS: u64 = 2;
const READ: u64 = 3;
const WRITE: u64 = 4;
const MARKS: u64 = 5;
const LANES: u64 = 6;

#[derive(Default)]
struct Trace(Message);

impl Trace {
    fn packet(&mut self, packet: Message) {
        let trace = std::mem::take(&mut self.0);
        self.0 = trace.message(1, packet.number(10, SEQUENCE));
    }

    fn track(&mut self, id: u64, name: &str, unit: Option<&str>) {
        let mut track = Message::default().number(1, id).text(2, name);
        if let Some(unit) = unit {
            track = track.message(8, Message::default().text(6, unit));
        }
        self.packet(Message::default().message(60, track));
    }

    fn event(&mut self, time: u64, event: Message) {
        self.packet(Message::default().number(8, time).message(11, event));
    }

    fn slice(&mut self, track: u64, (start, end): (u64, u64), name: &str) {
        let edge = |kind| Message::default().number(9, kind).number(11, track);
        self.event(start, edge(BEGIN).text(23, name));
        self.event(end, edge(END));
    }

    fn moment(&mut self, track: u64, time: u64, name: &str) {
        self.event(time, Message::default().number(9, INSTANT).number(11, track).text(23, name));
    }

    fn value(&mut self, track: u64, time: u64, value: f64) {
        let event = Message::default().number(9, COUNTER).number(11, track);
        self.event(time, event.double(44, value));
    }
}

/// A track for each thread with regions: its slices lie within each other as its regions do. Rows of many short passes of one
/// region may lie across those of another, so each such region has a track of its own.
fn regions(exported: &Exported, trace: &mut Trace) {
    let mut tracks: BTreeMap<(usize, Option<&str>), Vec<&TimedPass>> = BTreeMap::new();
    for pass in &exported.passes {
        let merged = (pass.passes > 1).then_some(pass.region.as_str());
        tracks.entry((pass.thread, merged)).or_default().push(pass);
    }
    for (at, ((thread, merged), passes)) in tracks.into_iter().enumerate() {
        let track = LANES + (exported.lanes.len() + at) as u64;
        let short = merged.map(|region| format!(", short passes of {region}")).unwrap_or_default();
        let name = format!("regions of {}{short}", exported.threads[thread].name);
        trace.track(track, &name, None);
        // The viewer closes what was opened last.
        let mut open: Vec<u64> = Vec::new();
        let edge = |kind| Message::default().number(9, kind).number(11, track);
        for pass in passes {
            while let Some(end) = open.pop_if(|end| *end <= pass.start.0) {
                trace.event(end, edge(END));
            }
            let end = open.last().map_or(pass.end.0, |around| pass.end.0.min(*around));
            let remark = pass.remark().map(|remark| format!(" ({remark})")).unwrap_or_default();
            trace.event(pass.start.0, edge(BEGIN).text(23, &(pass.region.clone() + &remark)));
            open.push(end);
        }
        open.into_iter().rev().for_each(|end| trace.event(end, edge(END)));
    }
}

pub(crate) fn perfetto(exported: &Exported) -> Vec<u8> {
    let mut trace = Trace::default();
    trace.track(RUN, &format!("fathom {}", exported.result), None);
    trace.slice(RUN, (0, exported.elapsed.0), "recording");
    for (at, lane) in exported.lanes.iter().enumerate() {
        let track = LANES + at as u64;
        trace.track(track, &format!("CPUs used by {}", lane.thread), Some("CPUs"));
        lane.busy.iter().for_each(|&(time, busy)| trace.value(track, time.0, busy));
    }
    if !exported.marks.is_empty() || !exported.pauses.is_empty() {
        trace.track(MARKS, "marks and pauses", None);
    }
    for (time, name) in &exported.marks {
        trace.moment(MARKS, time.0, name);
    }
    for (start, end) in &exported.pauses {
        trace.slice(MARKS, (start.0, end.0), "paused: nothing was observed");
    }
    regions(exported, &mut trace);
    if !exported.bandwidth.is_empty() {
        trace.track(READ, "estimated DRAM read", Some("GB/s"));
        trace.track(WRITE, "estimated DRAM write", Some("GB/s"));
        trace.track(GAPS, "DRAM traffic not estimated", None);
    }
    for bin in &exported.bandwidth {
        let mut known = |track, metric: &Metric| {
            metric.value.map(|value| trace.value(track, bin.start.0, value)).is_some()
        };
        let both = known(READ, &bin.read) & known(WRITE, &bin.write);
        if !both {
            trace.slice(GAPS, (bin.start.0, bin.end.0), "no estimate: the counter is the last one");
        }
    }
    trace.0.into_bytes()
}
