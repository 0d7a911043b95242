//! The table of memory accesses that the hardware sampled.
//!
//! What not: their invariants (`verify/events`, `verify/code`).

row!(MemorySample = "memory_samples", since 11, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    cpu: "cpu";
    stack: "stack";
    privilege: "privilege";
    event: "event";
    weight: "weight";
    access: "access";
    address: "address", Rising;
    latency: "latency_cycles";
    instruction_latency: "instruction_latency_cycles";
    from: "data_source";
    snoop: "snoop";
    translation: "translation";
    locked: "locked";
    page: "page_bytes";
});
