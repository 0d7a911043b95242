//! The tables of the heap: recorded blocks, their ends, and counts.
//!
//! What not: their invariants (`verify/allocations`).

row!(Allocation = "allocations", since 4, Bulk {
    id: "id", Rising;
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    address: "address", Rising;
    size: "bytes";
    call: "call";
    stack: "stack";
    sample_every: "sample_every_bytes";
});

row!(Release = "releases", since 4, Bulk {
    time: "time_ns", Rising;
    allocation: "allocation", Rising;
    tid: "tid";
    stack: "stack";
});

row!(HeapTotal = "heap_totals", since 4, Always {
    pid: "pid";
    allocations: "allocations";
    allocated: "allocated_bytes";
    frees: "frees";
    freed: "freed_bytes";
    inherited: "inherited_bytes";
    peak: "peak_bytes";
    peak_doubt: "peak_doubt_bytes";
    unknown_frees: "unknown_frees";
    forgotten: "forgotten";
});

row!(SizeClass = "size_classes", since 4, Always {
    pid: "pid";
    largest: "largest_bytes";
    allocations: "allocations";
    allocated: "allocated_bytes";
});

row!(HeapStack = "heap_stacks", since 5, Names {
    time: "time_ns", Rising;
    pid: "pid";
    stack: "stack";
    call: "call";
    allocations: "allocations";
    allocated: "allocated_bytes";
    frees: "frees";
    freed: "freed_bytes";
    temporary: "temporary";
    lifetime: "lifetime_ns";
    largest: "largest_bytes";
    at_peak: "peak_bytes";
});

row!(HeapFree = "heap_frees", since 5, Names {
    time: "time_ns", Rising;
    pid: "pid";
    stack: "stack";
    free_stack: "free_stack";
    frees: "frees";
    freed: "freed_bytes";
});

row!(HeapLifetime = "heap_lifetimes", since 5, Names {
    time: "time_ns", Rising;
    pid: "pid";
    stack: "stack";
    call: "call";
    longest: "longest_ns";
    frees: "frees";
    freed: "freed_bytes";
    temporary: "temporary";
});
