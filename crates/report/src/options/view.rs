//! The list of all views: help texts, the page and the documents take their names and what each is for from here.
//!
//! What not: which groupings a view has (`Options::check`).

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
    Callers = "callers": "functions and who calls them, as a tree";
    Callees = "callees": "functions and what they call, as a tree";
    Source = "source": "time per line beside the source text";
    Faults = "faults": "page faults per function, line, module, thread, process or call stack";
    Timeline = "timeline": "CPU time, page faults and memory over time";
    Threads = "threads": "threads with their lifetimes and CPU time";
    Accesses = "accesses": "traced memory accesses per instruction, function, line or module: pattern, cache lines";
    Bandwidth = "bandwidth": "traffic with memory over time, or per function, line, module or thread";
    Latency = "latency": "how long loads take, as a histogram or per function, line or module";
    Reuse = "reuse": "miss ratio by cache size, size to block for and TLB reach per function, line or module";
    WorkingSet = "working-set": "memory pages touched by bursts, over time";
    Sharing = "sharing": "cache lines that threads take from each other: false and true sharing";
    Roofline = "roofline": "floating-point operations and bytes per function, line or module";
    Allocations = "allocations": "heap blocks per function, line, module, thread, process, call stack, call, size, who freed, or over time: bytes, peak, leaks";
    Waits = "waits": "what threads waited for and where: locks, barriers, I/O, sleep";
    Kernel = "kernel": "entries into the kernel per cause, process, thread, CPU or over time: count and time";
    Findings = "findings": "what is slow for a known reason, where, what to do, and what it would gain";
    Objects = "objects": "loads, stores, traffic, latency and strides per memory object, and by function, line, cache line, offset or field in it";
    Pace = "pace": "loops: iterations per second as the program runs, time of an iteration, trip count, by which register";
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
                | View::Roofline
                | View::Findings
                | View::Objects
        )
    }

    /// Whether a filter on memory objects makes sense.
    pub(super) fn has_objects(self) -> bool {
        matches!(self, View::Objects | View::Accesses)
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
