//! The tables of counted events.
//!
//! What not: their invariants (`verify/events`).

row!(CountedEvent = "counted_events", since 11, Always {
    id: "id", Rising;
    name: "name", Opaque;
    group: "group";
    kernel: "kernel";
    socket: "socket";
    bytes_per_thousand: "bytes_per_thousand";
    link: "link", Opaque;
});

row!(EventCount = "event_counts", since 11, Always {
    time: "time_ns", Rising;
    event: "event";
    count: "count";
    enabled: "enabled_ns";
    running: "running_ns";
});

row!(EventSample = "event_samples", since 12, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    cpu: "cpu";
    stack: "stack";
    privilege: "privilege";
    event: "event";
    weight: "weight";
});
