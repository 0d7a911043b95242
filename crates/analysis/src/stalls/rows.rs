//! Stall time by object, code, part and type: sums of what samples waited for.
//!
//! What not: which samples those are (`Stalls`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{NodeId, Pid, RemoteAddr};
use facts::{Evidence, Metric};

use super::{Data, Stalls, Waited};
use crate::hotspots::RowKey;
use crate::objects::{Grouping, ObjectId, Part, Window};
use crate::placement::ONE_NODE;
use crate::stack::{LocationId, NO_STACK};
use crate::traced::{Site, SiteName};
use crate::weight::{Scale, Weight};
use estimate::interval::wilson;

/// The time that waited for one row's data.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StallRow {
    /// All samples after its accesses.
    pub stood: Weight,
    /// The part beyond what stands at any instruction, ns.
    pub excess: f64,
    /// Samples whose CPU and whose page's node are known, and those of them on different nodes.
    pub placed: Weight,
    /// Those of them on different nodes.
    pub remote: Weight,
    /// A place of its code.
    pub place: Option<LocationId>,
}

impl StallRow {
    /// Seconds, or percent of the CPU time. `among` is [`StallTotals::among`](super::StallTotals): it may belong to any row.
    #[must_use]
    pub fn metric(&self, scale: &Scale, unit: &str, among: &Weight) -> Metric {
        let of = |weight: &Weight| match unit {
            "s" => scale.quantity(weight),
            _ => scale.percent(weight),
        };
        let all = of(&self.stood);
        let mut most = self.stood;
        most.merge(among);
        let beyond = match self.stood.amount() {
            0 => 0.0,
            amount => (self.excess / amount as f64).clamp(0.0, 1.0),
        };
        let times = |value: Option<f64>| value.map(|value| value * beyond);
        Metric {
            value: times(all.value),
            low: times(all.low),
            high: of(&most).high,
            evidence: all.value.map(|_| Evidence::Sampled),
            ..all
        }
    }

    /// Share of the time with a known page that waited for another node's memory, percent.
    #[must_use]
    pub fn remote_percent(&self, nodes: usize) -> Metric {
        let unavailable = |why| Metric::unavailable("percent", why);
        if nodes < 2 {
            return unavailable(ONE_NODE);
        }
        if self.placed.is_empty() {
            return unavailable("the NUMA nodes of the pages that it waited for are unknown");
        }
        let share = self.remote.amount() as f64 / self.placed.amount() as f64;
        let (low, high) = wilson(share, self.placed.effective_records());
        let interval = (low * 100.0, high * 100.0);
        let samples = self.placed.records();
        Metric::with_interval(Evidence::Sampled, share * 100.0, "percent", interval, samples)
    }
}

/// All rows.
#[derive(Default)]
pub struct StallRows {
    /// By key.
    pub rows: BTreeMap<RowKey, StallRow>,
    /// Accesses of which it is not known what they touch.
    pub lost: StallRow,
    /// Accesses whose address was lost, and whose object is known from bursts alone.
    pub by_bursts: StallRow,
    /// Chases and gathers whose object is that of their next address, or of their base.
    pub by_neighbour: StallRow,
    /// Addresses of sites that bursts saw too, and those of them in another object than bursts saw.
    pub compared: StallRow,
    /// Those of them in another object than bursts saw.
    pub disagree: StallRow,
}

/// Which objects bursts saw each site use.
pub type ObjectsOfSites = BTreeMap<SiteName, BTreeSet<ObjectId>>;

/// Sums up by the keys of the grouping. `seen` is what bursts say.
#[must_use]
pub fn stall_rows(grouping: &Grouping<'_>, stalls: &Stalls, seen: &ObjectsOfSites) -> StallRows {
    let nodes = Nodes::read(grouping);
    let mut found = StallRows::default();
    let selection = grouping.selection;
    let selected = |one: &&Waited| selection.has(one.who.thread, one.who.time);
    for one in stalls.waited.iter().filter(selected) {
        let Waited { who, site: SiteName { instruction, number }, access, .. } = *one;
        // The access's own line, if bursts have it; else that of the instruction after it.
        let traced = grouping.profile.stacks.place_at(instruction);
        let place = if traced == NO_STACK { who.at } else { traced };
        let Some(part) = found.part(grouping, seen.get(&one.site), one) else {
            if selection.has_place(place) && !selection.chooses_objects() {
                found.lost.add(one);
            }
            continue;
        };
        let Some(key) = grouping.key(place, part) else { continue };
        let site = Site { instruction, number, access };
        let key = key.with_site(grouping.keys, &grouping.profile.types, &site);
        let row = found.rows.entry(key).or_default();
        row.add(one);
        if let Some(remote) = nodes.is_remote(one) {
            row.placed.add(one.weight);
            if remote {
                row.remote.add(one.weight);
            }
        }
    }
    found
}

impl StallRow {
    fn add(&mut self, one: &Waited) {
        self.stood.add(one.weight);
        self.excess += one.excess;
        self.place = self.place.or(Some(one.who.at));
    }
}

impl StallRows {
    /// The part of an object that was waited for, as far as that is known.
    fn part(
        &mut self,
        grouping: &Grouping<'_>,
        seen: Option<&BTreeSet<ObjectId>>,
        one: &Waited,
    ) -> Option<Part> {
        let window = Window { start: one.who.time, end: one.who.time };
        let part =
            |address| grouping.objects.part(one.who.pid, address, window, grouping.pieces()).0;
        // One object, and a thing with a name.
        let only = seen.filter(|seen| seen.len() == 1).and_then(BTreeSet::first).copied();
        let only = only.filter(|object| grouping.objects.get(*object).kind.is_named());
        match (one.data, only) {
            (Data::Address(address), _) => {
                let part = part(address);
                if let Some(seen) = seen {
                    self.compared.add(one);
                    if !seen.contains(&part.object) {
                        self.disagree.add(one);
                    }
                }
                Some(part)
            }
            (_, Some(object)) => {
                self.by_bursts.add(one);
                Some(Part::whole(object))
            }
            (Data::Base(address) | Data::NextTurn(address), None) => {
                let part = part(address);
                let named = grouping.objects.get(part.object).kind.is_named();
                named.then(|| {
                    self.by_neighbour.add(one);
                    Part { piece: None, ..part }
                })
            }
            (Data::Lost, None) => None,
        }
    }
}

/// On which NUMA node pages and CPUs are.
struct Nodes {
    pages: HashMap<(Pid, u64), NodeId>,
    page: u64,
    cpus: HashMap<u32, NodeId>,
}

impl Nodes {
    fn read(grouping: &Grouping<'_>) -> Nodes {
        let recording = grouping.profile.recording;
        let host = &recording.run.host;
        let page = host.page_bytes.max(1);
        let cpus = host.numa_nodes.iter();
        let cpus = cpus.flat_map(|node| node.cpus.iter().map(|cpu| (*cpu, NodeId(node.id))));
        let pages = recording.pages.iter();
        let pages = pages.filter_map(|one| Some(((one.pid, one.address.0 / page), one.node?)));
        Nodes { pages: pages.collect(), page, cpus: cpus.collect() }
    }

    /// Whether a sample waited for memory of another node than that of its CPU; `None` where that is not known.
    fn is_remote(&self, one: &Waited) -> Option<bool> {
        let Data::Address(RemoteAddr(address)) = one.data else { return None };
        let page = self.pages.get(&(one.who.pid, address / self.page))?;
        let own = self.cpus.get(&one.who.cpu?.0)?;
        Some(page != own)
    }
}
