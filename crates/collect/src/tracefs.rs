//! The kernel's descriptions of its tracepoints (Documentation/trace/events.rst).
//!
//! What for: a tracepoint's number and layout. What not: mounting the file system where it is missing. By default
//! only root may read it.

/// Its mount points: the current one and the former one.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// A file of a tracepoint, `id` or `format`; `event` is `GROUP/NAME`.
pub fn event_file(event: &str, file: &str) -> Option<String> {
    ROOTS
        .into_iter()
        .find_map(|root| std::fs::read_to_string(format!("{root}/{event}/{file}")).ok())
}
