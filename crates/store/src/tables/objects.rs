//! The tables of memory objects: regions, their ends, variables, types of accesses, assignments, and pages.
//!
//! What not: their invariants (`verify/objects`).

row!(Region = "regions", since 5, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    start: "start_address", Rising;
    bytes: "bytes";
    kind: "kind";
    name: "name";
    file_offset: "file_offset";
    page: "page_bytes";
    stack: "stack";
});

row!(RegionEnd = "region_ends", since 5, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    start: "start_address", Rising;
    bytes: "bytes";
});

row!(Global = "globals", since 5, Names {
    time: "time_ns", Rising;
    pid: "pid";
    module: "module";
    start: "start_address", Rising;
    bytes: "bytes";
    name: "name";
});

row!(AccessType = "access_types", since 5, Names {
    module: "module";
    offset: "module_offset";
    access: "access";
    variable: "variable";
    type_name: "type";
    type_bytes: "type_bytes";
    field: "field";
    field_offset: "field_offset";
    field_bytes: "field_bytes";
});

row!(Assignment = "assignments", since 8, Names {
    module: "module";
    file: "file";
    line: "line";
    variable: "variable";
});

row!(Page = "pages", since 5, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    address: "address", Rising;
    stands_for: "stands_for";
    huge: "huge";
    node: "node";
});
