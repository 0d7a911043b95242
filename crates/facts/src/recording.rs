//! A whole recording in memory: what `store` opens and `analysis` reads.

use crate::{
    AccessType, Allocation, Block, Burst, BurstRefused, Concurrency, CoreFloor, Counter,
    CounterKind, Fact, Fault, Frame, Gauge, Global, HeapFree, HeapLifetime, HeapStack, HeapTotal,
    KernelEntry, Lost, LostSource, Mapping, Module, Page, Records, Region, RegionEnd, Release, Run,
    Sample, SizeClass, StackNode, ThreadEvent, ThreadTime, Wait, WaitObject, Wake,
};

/// All facts of one result directory, by kind, each in the order in which it was written.
#[derive(Clone, PartialEq, Debug, Default)]
#[expect(missing_docs, reason = "each field is named after the fact it holds")]
pub struct Recording {
    pub run: Run,
    pub modules: Vec<Module>,
    pub mappings: Vec<Mapping>,
    pub stack_nodes: Vec<StackNode>,
    pub samples: Vec<Sample>,
    pub faults: Vec<Fault>,
    pub thread_events: Vec<ThreadEvent>,
    pub lost: Vec<Lost>,
    pub counters: Vec<Counter>,
    pub gauges: Vec<Gauge>,
    pub frames: Vec<Frame>,
    pub blocks: Vec<Block>,
    pub bursts: Vec<Burst>,
    pub records: Vec<Records>,
    pub burst_refusals: Vec<BurstRefused>,
    pub core_floors: Vec<CoreFloor>,
    pub allocations: Vec<Allocation>,
    pub releases: Vec<Release>,
    pub heap_totals: Vec<HeapTotal>,
    pub size_classes: Vec<SizeClass>,
    pub regions: Vec<Region>,
    pub region_ends: Vec<RegionEnd>,
    pub globals: Vec<Global>,
    pub access_types: Vec<AccessType>,
    pub waits: Vec<Wait>,
    pub thread_times: Vec<ThreadTime>,
    pub concurrency: Vec<Concurrency>,
    pub wait_objects: Vec<WaitObject>,
    pub kernel_entries: Vec<KernelEntry>,
    pub heap_stacks: Vec<HeapStack>,
    pub heap_frees: Vec<HeapFree>,
    pub wakes: Vec<Wake>,
    pub pages: Vec<Page>,
    pub heap_lifetimes: Vec<HeapLifetime>,
}

impl Recording {
    /// Files one fact under its kind.
    pub fn add(&mut self, fact: Fact) {
        match fact {
            Fact::Module(fact) => self.modules.push(fact),
            Fact::Mapping(fact) => self.mappings.push(fact),
            Fact::StackNode(fact) => self.stack_nodes.push(fact),
            Fact::Sample(fact) => self.samples.push(fact),
            Fact::Fault(fact) => self.faults.push(fact),
            Fact::ThreadEvent(fact) => self.thread_events.push(fact),
            Fact::Lost(fact) => self.lost.push(fact),
            Fact::Counter(fact) => self.counters.push(fact),
            Fact::Gauge(fact) => self.gauges.push(fact),
            Fact::Frame(fact) => self.frames.push(fact),
            Fact::Block(fact) => self.blocks.push(fact),
            Fact::Burst(fact) => self.bursts.push(fact),
            Fact::Records(fact) => self.records.push(fact),
            Fact::BurstRefused(fact) => self.burst_refusals.push(fact),
            Fact::CoreFloor(fact) => self.core_floors.push(fact),
            Fact::Allocation(fact) => self.allocations.push(fact),
            Fact::Release(fact) => self.releases.push(fact),
            Fact::HeapTotal(fact) => fact.add_to(&mut self.heap_totals),
            Fact::SizeClass(fact) => self.size_classes.push(fact),
            Fact::Region(fact) => self.regions.push(fact),
            Fact::RegionEnd(fact) => self.region_ends.push(fact),
            Fact::Global(fact) => self.globals.push(fact),
            Fact::AccessType(fact) => self.access_types.push(fact),
            Fact::Wait(fact) => self.waits.push(fact),
            Fact::ThreadTime(fact) => self.thread_times.push(fact),
            Fact::Concurrency(fact) => self.concurrency.push(fact),
            Fact::WaitObject(fact) => self.wait_objects.push(fact),
            Fact::KernelEntry(fact) => self.kernel_entries.push(fact),
            Fact::HeapStack(fact) => self.heap_stacks.push(fact),
            Fact::HeapFree(fact) => self.heap_frees.push(fact),
            Fact::Wake(fact) => self.wakes.push(fact),
            Fact::Page(fact) => self.pages.push(fact),
            Fact::HeapLifetime(fact) => self.heap_lifetimes.push(fact),
        }
    }

    /// The exact total of `kind`, when it could be counted.
    #[must_use]
    pub fn counter(&self, kind: CounterKind) -> Option<u64> {
        self.counters.iter().rev().find(|counter| counter.kind == kind).map(|counter| counter.value)
    }

    /// How many records `source` lost.
    #[must_use]
    pub fn lost(&self, source: LostSource) -> u64 {
        self.lost.iter().filter(|lost| lost.source == source).map(|lost| lost.count).sum()
    }
}
