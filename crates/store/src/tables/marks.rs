//! The tables of what the program and the user marked: moments, pauses, regions of code.
//!
//! What not: their invariants (`verify/marks`).

row!(Mark = "marks", since 11, Always {
    time: "time_ns", Rising;
    kind: "kind";
    name: "name", Opaque;
    pid: "pid";
});

row!(MarkedRegion = "marked_regions", since 11, Names {
    id: "id", Rising;
    name: "name", Opaque;
    domain: "domain";
});

row!(MarkedPass = "marked_passes", since 11, Bulk {
    time: "time_ns", Rising;
    span: "span_ns";
    region: "region";
    pid: "pid";
    tid: "tid";
    depth: "depth";
    passes: "passes";
    inside: "inside_ns";
    own: "own_ns";
});

row!(MarkedLength = "marked_lengths", since 11, Names {
    region: "region";
    pid: "pid";
    least: "least_ns";
    most: "most_ns";
    passes: "passes";
});
