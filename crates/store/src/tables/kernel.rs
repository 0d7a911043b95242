//! The table of entries into the kernel.
//!
//! What not: their invariants (`verify/kernel`).

row!(KernelEntry = "kernel_entries", since 5, Bulk {
    time: "time_ns", Rising;
    length: "length_ns";
    pid: "pid";
    tid: "tid";
    cpu: "cpu";
    cause: "cause";
    name: "name";
    count: "count";
    own: "own_ns";
    waited: "waited_ns";
});
