//! perf_event_open. (In work.)
