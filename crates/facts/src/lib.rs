//! The vocabulary of what was observed: collectors produce facts, the store keeps them, analysis reads them.
//!
//! What for: collectors and analysis never meet; they share these plain types. So any finding can be recomputed from a file, on
//! another machine, in a test. [`every_kind_of_fact`] lists the kinds.
//! What not: opinions (the meaning of a fact is `analysis`), encoding (`store`), I/O.
//!
//! Times are [`base::Nanos`] since the start of the recording on CLOCK_MONOTONIC, unless stated otherwise.

#![forbid(unsafe_code)]

mod allocation;
mod branches;
mod burst;
mod counting;
pub mod host;
mod kernel;
mod kinds;
mod mark;
mod marked_region;
mod memory_sample;
mod metric;
mod note;
mod object;
mod observed;
mod recording;
mod records;
mod registers;
mod run;
mod threading;

pub use allocation::{
    Allocation, AllocationCall, HeapFree, HeapLifetime, HeapStack, HeapTotal, Release, SizeClass,
};
pub use branches::BranchLoop;
pub use burst::{
    Block, BranchResolution, Burst, BurstEnd, BurstFlavour, BurstRefused, CodePath, CodePiece,
    IterationTime, NativeAdvance, NativeCount, NoMissOutcome, NoMissTime, NoReloadTime, Records,
    WordAdvance,
};
pub use counting::{CountedEvent, EventCount, EventSample};
pub use kernel::{KernelCause, KernelEntry};
pub use mark::{Mark, MarkKind, Pauses};
pub use marked_region::{MarkedLength, MarkedPass, MarkedRegion};
pub use memory_sample::{AccessKind, DataSource, MemorySample, Snoop, Translation};
pub use metric::{Evidence, Metric};
pub use note::NoteSubject;
pub use object::{AccessType, Assignment, Global, Page, Region, RegionEnd, RegionKind};
pub use observed::{
    Counter, CounterKind, Fact, Fault, FaultKind, Frame, Gauge, GaugeKind, Lost, LostSource,
    Mapping, Module, ModuleKind, Privilege, Sample, Sink, SinkError, StackNode, ThreadEvent,
    ThreadEventKind,
};
pub use recording::Recording;
pub use records::{MAX_RECORD_VALUES, Record, RecordEncoder, RecordError, decode_records};
pub use registers::{
    GENERAL_REGISTERS, MAX_SLOTS, RegisterEncoder, RegisterError, SampleRegisters, SampledCode,
    SampledFrame, SampledPlace, SampledState, Slot, SlotBase, decode_registers,
};
pub use run::{
    Analysis, BranchReplay, CollectorInfo, EventUse, ExitKind, OneRun, OwnCost, Rank, ResourceUse,
    Run, RunState, SCHEMA_VERSION, SamplingMethod, Source, SourceEvent, Target, TimedLoadOverhead,
};
pub use threading::{Concurrency, ThreadTime, Wait, WaitKind, WaitObject, Wake, Waker};
