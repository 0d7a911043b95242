//! The list of all kinds of fact. Everything that must name each kind is generated from it.
//!
//! What for: a new kind is a type, a line here, and a row of its table (`Row`, in `store/src/tables`); the compiler reports a
//! missing one. What not: the meaning of a kind (its type says it), its storage.
//! Hazard: the position of a line is the tag of the kind's rows in the journal. Append only; a test of the store compares
//! the tags with the page about the format.

/// Hands the list to the macro `$with`, one line per kind of fact:
///
/// ```text
/// TYPE in FIELD OF Recording [at FIELD OF THE TYPE THAT SAYS WHEN IT HAPPENED];
/// ```
#[macro_export]
macro_rules! every_kind_of_fact {
    ($with:ident) => {
        $with! {
            Module in modules;
            Mapping in mappings at time;
            StackNode in stack_nodes;
            Sample in samples at time;
            Fault in faults at time;
            ThreadEvent in thread_events at time;
            Lost in lost at time;
            Counter in counters;
            Gauge in gauges at time;
            Frame in frames;
            Block in blocks;
            Burst in bursts at time;
            Records in records;
            BurstRefused in burst_refusals at time;
            NoMissTime in no_miss_times;
            Allocation in allocations at time;
            Release in releases at time;
            HeapTotal in heap_totals;
            SizeClass in size_classes;
            Region in regions at time;
            RegionEnd in region_ends at time;
            Global in globals at time;
            AccessType in access_types;
            Wait in waits at time;
            ThreadTime in thread_times at time;
            Concurrency in concurrency at time;
            WaitObject in wait_objects;
            KernelEntry in kernel_entries at time;
            HeapStack in heap_stacks at time;
            HeapFree in heap_frees at time;
            Wake in wakes at time;
            Page in pages at time;
            HeapLifetime in heap_lifetimes at time;
            NativeAdvance in native_advances;
            NoReloadTime in no_reload_times;
            SampleRegisters in sample_registers at time;
            SampledCode in sampled_code;
            Assignment in assignments;
            MemorySample in memory_samples at time;
            BranchLoop in branch_loops;
            CountedEvent in counted_events;
            EventCount in event_counts at time;
            Mark in marks at time;
            MarkedRegion in marked_regions;
            MarkedPass in marked_passes at time;
            MarkedLength in marked_lengths;
            EventSample in event_samples at time;
            NativeCount in native_counts;
            WordAdvance in word_advances;
        }
    };
}
