//! The list of all views: help texts, the page and the documents take each name and purpose from here.
//!
//! What not: which groupings a view has (`Options::check`).

use analysis::Key;

use crate::ReportError;

macro_rules! views {
    ($($(#[$default:meta])? $view:ident = $name:literal: $says:literal;)+) => {
        /// A view.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum View {
            $(#[doc = $says] $(#[$default])? $view),+
        }

        impl View {
            /// All views, with what each is for in a few words.
            pub const ALL: [(View, &'static str); [$($name),+].len()] = [$((View::$view, $says)),+];

            /// Its name as typed.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(View::$view => $name),+
                }
            }
        }
    };
}

views! {
    #[default]
    Summary = "summary": "the whole recording on one page";
    Hotspots = "hotspots": "self and total time per function, line, module, thread, process or call stack";
    Callers = "callers": "functions with their callers, as a tree";
    Callees = "callees": "functions with their callees, as a tree";
    Source = "source": "time per source line, with the text";
    Faults = "faults": "page faults per function, line, module, thread, process or call stack";
    Timeline = "timeline": "CPU time, page faults and memory over time";
    Threads = "threads": "threads: lifetime, CPU time";
    Accesses = "accesses": "traced memory accesses per instruction, function, line or module: pattern, cache lines";
    Bandwidth = "bandwidth": "DRAM traffic over time, or per function, line, module or thread";
    Latency = "latency": "load latency, as a histogram or per function, line or module";
    Reuse = "reuse": "miss ratio by cache size, block size and TLB reach, per function, line or module";
    WorkingSet = "working-set": "pages that bursts touch, over time";
    Sharing = "sharing": "cache lines shared by threads: false and true sharing";
    Flushes = "flushes": "flushed cache lines and fences per function, line, module or object: rate, time, those for nothing";
    Roofline = "roofline": "floating-point operations and bytes per function, line, module or loop, under the machine's roofs";
    Allocations = "allocations": "heap blocks per function, line, module, thread, process, call stack, call, size or free stack, or over time: bytes, peak, leaks";
    Waits = "waits": "waits of threads, by reason and place: locks, barriers, I/O, sleep";
    Kernel = "kernel": "kernel entries per cause, process, thread or CPU, or over time: count and time";
    Findings = "findings": "known reasons for slowness: place, advice, predicted saving";
    Objects = "objects": "loads, stores, traffic, latency and strides per memory object; by function, line, cache line, offset or field";
    Nodes = "nodes": "what if: accesses to other NUMA nodes on another machine, as it is and with memory placed otherwise; \
                by object";
    Pace = "pace": "loops: native iterations per second, time per iteration, trip count, and the register that \
                shows it";
    Regions = "regions": "regions that the program marks in its code: passes, times, lengths of passes, traffic with memory";
    Events = "events": "events of the hardware and the kernel that were counted (knob event-config)";
    CrossCheck = "cross-check": "where bursts and counters or sampled accesses disagree, figure by figure";
    Uarch = "uarch": "top-down tree of counted events: which part of the pipeline slots and cycles went where, and what to look at next";
}

impl View {
    /// Whether it needs the records of bursts decoded.
    #[must_use]
    pub fn is_traced(self) -> bool {
        matches!(
            self,
            View::Summary
                | View::Accesses
                | View::Bandwidth
                | View::Latency
                | View::Reuse
                | View::WorkingSet
                | View::Sharing
                | View::Flushes
                | View::Roofline
                | View::Findings
                | View::Objects
                | View::Nodes
                | View::Regions
                | View::CrossCheck
        )
    }

    /// Whether a limit is one on steps of time.
    pub(crate) fn is_over_time(self, group: &[Key]) -> bool {
        self == View::Timeline || self == View::Kernel && group.contains(&Key::Time)
    }

    /// Whether a filter on memory objects makes sense.
    pub(super) fn has_objects(self) -> bool {
        matches!(self, View::Objects | View::Accesses | View::Flushes)
    }

    /// The view of this name.
    ///
    /// # Errors
    /// Lists the views when there is none.
    pub fn parse(name: &str) -> Result<View, ReportError> {
        if let Some((view, _)) = View::ALL.iter().find(|(view, _)| view.name() == name) {
            return Ok(*view);
        }
        let possible = View::ALL.map(|(view, _)| view.name()).join(", ");
        let name = name.to_owned();
        Err(ReportError::UnknownView { name, possible })
    }
}
