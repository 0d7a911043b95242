//! Ids: each says which table or kernel name space it points into.

use std::fmt;
use std::ops::RangeInclusive;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

id!(
    /// A process (the kernel's thread-group id), as seen from our pid name space.
    Pid(i32)
);
id!(
    /// A thread (the kernel's pid of the task), as seen from our pid name space.
    Tid(i32)
);
id!(
    /// A logical CPU, numbered as in `/sys/devices/system/cpu`.
    CpuId(u32)
);
id!(
    /// A NUMA node, numbered as in `/sys/devices/system/node`.
    NodeId(u32)
);
id!(
    /// A row of the result's module table.
    ModuleId(u32)
);
id!(
    /// A node of the result's stack tree: the frame itself and, through its parents, its callers.
    StackId(u32)
);
id!(
    /// A row of the result's table of translated blocks.
    BlockId(u32)
);
id!(
    /// A row of the result's table of bursts.
    BurstId(u32)
);
id!(
    /// A row of the result's table of recorded heap blocks.
    AllocationId(u32)
);

/// A thread and its process. A thread's id is used again after its end, so the process is part of its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ThreadId {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
}

impl ThreadId {
    /// The thread `tid` of `pid`.
    #[must_use]
    pub const fn new(pid: Pid, tid: Tid) -> ThreadId {
        ThreadId { pid, tid }
    }

    /// The first thread of a process: its id is the process's.
    #[must_use]
    pub const fn first(pid: Pid) -> ThreadId {
        ThreadId::new(pid, Tid(pid.0))
    }

    /// All that a process may have.
    #[must_use]
    pub const fn all_of(pid: Pid) -> RangeInclusive<ThreadId> {
        ThreadId::new(pid, Tid(i32::MIN))..=ThreadId::new(pid, Tid(i32::MAX))
    }
}
