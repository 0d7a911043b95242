//! Processes: starting one under our control, waiting, signals, resource use, clocks.
//!
//! What for: the handful of process calls that std does not offer in the form a profiler needs.
//! What not: ptrace (`sys::trace`), policy (who is started when).

mod affinity;
mod launch;
mod memory_policy;
mod next_touch;
mod open_file;
mod pages;
mod peer;
mod poll;
mod repeat;
mod signal;
mod usage;

pub use affinity::Affinity;
pub use launch::{Launch, LaunchError, Suspended};
pub use memory_policy::{MemoryPolicy, set_memory_policy};
pub use next_touch::{next_touch_works, no_next_touch};
pub use open_file::is_never_cut_short;
pub use pages::{PageMap, nodes_of};
pub use peer::{Peer, peer};
pub use poll::{ProcessFd, poll_readable, wait_for_data};
pub use repeat::{OneRun, Runs};
pub use signal::{
    Received, Signal, SignalFd, StopFor, Terminal, kill, kill_group, own_group, stop_self,
};
pub use usage::{
    Usage, Waited, be_modest, be_punctual, be_unimportant, children_usage, glibc_version,
    has_room_for, lock, monotonic, own_usage, page_size, raise_file_limit, share_memory,
    terminal_columns, thread_cpu_time, timer_cost, try_wait, user_id,
};
