//! The tables of what the hardware recorded with samples: memory accesses, and loops in branch stacks.
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

row!(BranchLoop = "branch_loops", since 11, Names {
    pid: "pid";
    branch: "branch";
    head: "head";
    taken: "taken";
    stacks: "stacks";
    decided: "decided";
    starts: "starts";
    decided_squares: "decided_squares";
    products: "products";
    starts_squares: "starts_squares";
});
