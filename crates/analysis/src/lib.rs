//! From a recording to plain figures: where the time and the page faults went, with intervals.
//!
//! What for: one place that knows how samples become shares, times and counts. Everything is first summed by call stack, so
//! that a recording of 100,000 samples is summarised in milliseconds.
//! What not: no I/O, no clock, no text layout (that is `report`), no live process.
//!
//! Start with [`Profile::new`], narrow down with [`Selection::resolve`], then call one of the views:
//! [`hotspots`], [`calltree`], [`faults`], [`timeline`], [`summary`], [`accesses`], [`reuse`], [`sampled`], [`sharing`], [`roofline`], [`heap`],
//! [`threading`], [`kernel`], [`pace`], [`stalls`], [`uarch`], [`placement`], [`findings`].
//!
//! Assumptions: samples of a thread are a regular clock that does not run in step with the program. Stack nodes come parents
//! first. Data that contradict this (cycles, unknown ids, absurd depths) are dropped and counted in [`Problems`].

#![forbid(unsafe_code)]

pub mod access_points;
pub mod accesses;
pub mod assembly;
pub mod calltree;
mod code_keys;
pub mod compare;
pub mod core_limits;
pub mod core_traffic;
pub mod counted;
pub mod counted_code;
pub mod cross_check;
mod error;
pub mod faults;
mod figure;
pub mod findings;
mod flushes;
pub mod heap;
pub mod hotspots;
pub mod kernel;
pub mod machine_then;
pub mod machine_traffic;
pub mod marked;
pub mod memory;
pub mod moments;
pub mod objects;
mod overhead;
pub mod pace;
pub mod page_costs;
pub mod parallel;
pub mod placement;
mod profile;
pub mod remedies;
pub mod reuse;
pub mod roofline;
pub mod sampled;
pub mod scaling;
mod selection;
pub mod sharing;
mod stack;
pub mod stack_cells;
pub mod stalls;
pub mod summary;
mod thread_ends;
pub mod threading;
mod threads;
pub mod timeline;
mod traced;
pub mod trial;
pub mod types;
pub mod uarch;
mod weight;

pub use code_keys::{CodeKeys, InLoop};
pub use error::AnalysisError;
pub use figure::Figure;
pub use hotspots::{Key, RowKey};
pub use overhead::Overhead;
pub use pace::LoopName;
pub use profile::{Cell, PAUSED, Profile};
pub use selection::{
    Filter, RegionParts, Selection, bare_function_name, name_matches, name_of_node,
};
pub use stack::{
    CallPathId, CallPaths, Code, Function, FunctionId, LineId, Location, LocationId, ModuleIndex,
    NodeIndex, Problems, Stacks, is_page_fault_entry,
};
pub use thread_ends::count_thread_ends;
pub use threads::{Thread, ThreadIndex, ThreadTable};
pub use traced::{Site, SiteIndex, SiteName, TracedCode};
pub use types::SiteTypes;
pub use weight::{Scale, Weight};
