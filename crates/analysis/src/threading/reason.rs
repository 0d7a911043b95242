//! Why a thread waited, from the names of the functions on its stack.
//!
//! What not: times, and threads that run and only wait (`spins`). Assumptions: names are those of glibc 2.17 to 2.41 (`nptl/`,
//! `sysdeps/`), libgomp (`config/linux/bar.c`, `mutex.c`, `wait.h`), LLVM's libomp (`kmp_barrier.cpp`, `kmp_wait_release.h`) and
//! Linux 4.x to 6.x (`kernel/futex/`, `fs/`, `net/`). A name that is not here makes a wait [`Reason::Other`], never another reason.

use base::RemoteAddr;

use super::mpi::MpiTable;
use crate::stack::{Code, CodeModule, LocationId, NodeIndex, Stacks};

/// Why a thread did not run, or ran without getting further.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// A mutex, read-write lock or semaphore that another thread holds.
    Lock,
    /// A condition variable.
    Condition,
    /// A barrier, or an OpenMP thread that has nothing to do.
    Barrier,
    /// Another rank, in a call of MPI.
    Mpi,
    /// The end of another thread.
    Join,
    /// A futex that no known function waits at.
    Futex,
    /// Reading or writing a file, pipe, socket or disk.
    Io,
    /// Any of several descriptors (`poll`, `select`, `epoll_wait`).
    Poll,
    /// A time asked for.
    Sleep,
    /// The end of another process.
    Child,
    /// A page that is read in, or the lock of the address space.
    Fault,
    /// Something else.
    Other,
    /// No stack of such a wait was seen.
    Unknown,
}

impl Reason {
    /// All, in the order in which they are shown.
    pub const ALL: [Reason; 13] = [
        Reason::Lock,
        Reason::Condition,
        Reason::Barrier,
        Reason::Mpi,
        Reason::Join,
        Reason::Futex,
        Reason::Io,
        Reason::Poll,
        Reason::Sleep,
        Reason::Child,
        Reason::Fault,
        Reason::Other,
        Reason::Unknown,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::Lock => "lock",
            Reason::Condition => "condition",
            Reason::Barrier => "barrier",
            Reason::Mpi => "MPI",
            Reason::Join => "join",
            Reason::Futex => "futex",
            Reason::Io => "I/O",
            Reason::Poll => "poll",
            Reason::Sleep => "sleep",
            Reason::Child => "child",
            Reason::Fault => "page fault",
            Reason::Other => "other",
            Reason::Unknown => "unknown",
        }
    }

    /// Whether the first argument of the system call is the address of something that threads share: a futex. That of a
    /// join is in the other thread's own block, and tells a reader nothing.
    #[must_use]
    pub fn has_object(self) -> bool {
        matches!(self, Reason::Lock | Reason::Condition | Reason::Barrier | Reason::Futex)
    }

    /// What was waited for, from the address in [`facts::Wait::object`]. Waiters of a glibc condition variable take turns
    /// at two futexes of four bytes, side by side and aligned to eight (`__g_signals` of `pthread_cond_t`,
    /// sysdeps/nptl/bits/thread-shared-types.h): it is one object all the same.
    pub(super) fn object(self, address: Option<RemoteAddr>) -> Option<RemoteAddr> {
        let address = address.filter(|_| self.has_object())?;
        Some(if self == Reason::Condition { RemoteAddr(address.0 & !7) } else { address })
    }
}

/// Functions of the program's libraries that wait, without the underscores in front. The innermost that is here decides:
/// a condition variable that waits for its mutex waits for a lock.
const WAITING: [(&str, Reason); 57] = [
    ("lll_lock_wait", Reason::Lock),
    ("lll_lock_wait_private", Reason::Lock),
    ("pthread_mutex_lock", Reason::Lock),
    ("pthread_mutex_timedlock", Reason::Lock),
    ("pthread_mutex_clocklock", Reason::Lock),
    ("pthread_mutex_cond_lock", Reason::Lock),
    ("pthread_rwlock_rdlock", Reason::Lock),
    ("pthread_rwlock_wrlock", Reason::Lock),
    ("sem_wait", Reason::Lock),
    ("new_sem_wait", Reason::Lock),
    ("new_sem_wait_slow64", Reason::Lock),
    ("gomp_mutex_lock_slow", Reason::Lock),
    ("GOMP_critical_start", Reason::Lock),
    ("GOMP_critical_name_start", Reason::Lock),
    ("GOMP_ordered_start", Reason::Lock),
    ("omp_set_lock", Reason::Lock),
    ("kmpc_critical", Reason::Lock),
    ("kmpc_critical_with_hint", Reason::Lock),
    ("kmpc_set_lock", Reason::Lock),
    ("pthread_cond_wait", Reason::Condition),
    ("pthread_cond_timedwait", Reason::Condition),
    ("pthread_cond_clockwait", Reason::Condition),
    ("pthread_barrier_wait", Reason::Barrier),
    ("gomp_barrier_wait", Reason::Barrier),
    ("gomp_barrier_wait_end", Reason::Barrier),
    ("gomp_team_barrier_wait", Reason::Barrier),
    ("gomp_team_barrier_wait_end", Reason::Barrier),
    ("gomp_team_barrier_wait_final", Reason::Barrier),
    ("gomp_team_end", Reason::Barrier),
    ("GOMP_barrier", Reason::Barrier),
    ("GOMP_parallel_end", Reason::Barrier),
    ("GOMP_loop_end", Reason::Barrier),
    ("kmp_barrier", Reason::Barrier),
    ("kmp_join_barrier", Reason::Barrier),
    ("kmp_fork_barrier", Reason::Barrier),
    ("kmpc_barrier", Reason::Barrier),
    ("kmp_launch_thread", Reason::Barrier),
    ("pthread_join", Reason::Join),
    ("pthread_clockjoin_ex", Reason::Join),
    ("pthread_timedjoin_ex", Reason::Join),
    ("nanosleep", Reason::Sleep),
    ("clock_nanosleep", Reason::Sleep),
    ("usleep", Reason::Sleep),
    ("poll", Reason::Poll),
    ("ppoll", Reason::Poll),
    ("select", Reason::Poll),
    ("pselect", Reason::Poll),
    ("epoll_wait", Reason::Poll),
    ("epoll_pwait", Reason::Poll),
    ("read", Reason::Io),
    ("write", Reason::Io),
    ("recv", Reason::Io),
    ("recvfrom", Reason::Io),
    ("accept", Reason::Io),
    ("fsync", Reason::Io),
    ("waitpid", Reason::Child),
    ("wait4", Reason::Child),
];

/// Kernel functions that say it, by how their names begin; the innermost that is here decides. `futex` is last in effect:
/// the program's own functions say more.
const KERNEL_WAITING: [(&str, Reason); 36] = [
    ("futex_", Reason::Futex),
    ("__futex_wait", Reason::Futex),
    ("do_futex", Reason::Futex),
    ("io_schedule", Reason::Io),
    ("folio_wait", Reason::Io),
    ("wait_on_page", Reason::Io),
    ("submit_bio_wait", Reason::Io),
    ("jbd2_", Reason::Io),
    ("pipe_", Reason::Io),
    ("anon_pipe_", Reason::Io),
    ("eventfd_read", Reason::Io),
    ("unix_stream", Reason::Io),
    ("unix_dgram", Reason::Io),
    ("sk_wait_data", Reason::Io),
    ("sock_", Reason::Io),
    ("tcp_", Reason::Io),
    ("inet_", Reason::Io),
    ("n_tty_read", Reason::Io),
    ("vfs_read", Reason::Io),
    ("vfs_write", Reason::Io),
    ("vfs_fsync", Reason::Io),
    ("ksys_read", Reason::Io),
    ("ksys_write", Reason::Io),
    ("ep_poll", Reason::Poll),
    ("do_epoll_wait", Reason::Poll),
    ("do_poll", Reason::Poll),
    ("do_sys_poll", Reason::Poll),
    ("do_select", Reason::Poll),
    ("do_pselect", Reason::Poll),
    ("do_nanosleep", Reason::Sleep),
    ("hrtimer_nanosleep", Reason::Sleep),
    ("do_wait", Reason::Child),
    ("kernel_wait4", Reason::Child),
    ("kernel_waitid", Reason::Child),
    ("mmap_read_lock", Reason::Fault),
    ("lock_mm_and_find_vma", Reason::Fault),
];

/// How libraries of OpenMP runtimes are called: GNU, LLVM, Intel.
pub(super) const OPENMP_LIBRARIES: [&str; 3] = ["libgomp", "libomp", "libiomp5"];
/// Libraries that programs wait in: the caller is who called them.
pub(super) const WAITING_LIBRARIES: [&str; 4] = ["libc.so", "libc-", "libpthread", "ld-linux"];

/// Without leading underscores, the version after `@`, and what compilers append (`.part.0`, `.constprop.0`).
pub(super) fn bare(name: &str) -> &str {
    let name = name.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
    let name = name.strip_prefix("libc_").unwrap_or(name);
    let name = name.split(['@', '.']).next().unwrap_or(name);
    name.trim_end_matches("64").trim_end_matches("_compat")
}

pub(super) fn in_library(stacks: &Stacks, place: LocationId, libraries: &[&str]) -> bool {
    is_one_of(stacks.module_of(place), libraries)
}

pub(super) fn is_one_of(module: &CodeModule, libraries: &[&str]) -> bool {
    libraries.iter().any(|library| module.name.starts_with(library))
}

pub(super) fn is_kernel(stacks: &Stacks, place: LocationId) -> bool {
    stacks.module_of(place).code == Code::Kernel
}

/// Why a thread with this stack waited. In a call of MPI it waits for other ranks, unless it is for a lock of the library or a file.
pub(super) fn reason(stacks: &Stacks, mpi: &mut MpiTable<'_>, leaf: Option<NodeIndex>) -> Reason {
    let known = [Reason::Lock, Reason::Io, Reason::Fault, Reason::Unknown];
    match reason_outside_mpi(stacks, leaf) {
        reason if known.contains(&reason) || mpi.of(leaf).is_none() => reason,
        _ => Reason::Mpi,
    }
}

fn reason_outside_mpi(stacks: &Stacks, leaf: Option<NodeIndex>) -> Reason {
    if leaf.is_none() {
        return Reason::Unknown;
    }
    if stacks.in_page_fault(leaf) {
        return Reason::Fault;
    }
    let name = |place| stacks.function_of(place).name.as_str();
    let by_kernel =
        stacks.frames(leaf).take_while(|place| is_kernel(stacks, *place)).find_map(|place| {
            let begins = |(start, _): &&(&str, Reason)| name(place).starts_with(start);
            KERNEL_WAITING.iter().find(begins).map(|(_, reason)| *reason)
        });
    // Only a futex can be anything; a known system call is what it is.
    if let Some(reason) = by_kernel.filter(|reason| *reason != Reason::Futex) {
        return reason;
    }
    let user = || stacks.frames(leaf).skip_while(|place| is_kernel(stacks, *place));
    let by_user = user().find_map(|place| {
        let bare = bare(name(place));
        WAITING.iter().find(|(known, _)| *known == bare).map(|(_, reason)| *reason)
    });
    let in_openmp = || {
        let mut frames = user().filter(|place| !in_library(stacks, *place, &WAITING_LIBRARIES));
        frames.next().is_some_and(|place| in_library(stacks, place, &OPENMP_LIBRARIES))
    };
    match (by_user, by_kernel) {
        (Some(reason), _) => reason,
        _ if in_openmp() => Reason::Barrier,
        (None, Some(reason)) => reason,
        (None, None) => Reason::Other,
    }
}

/// The innermost frame that is the program's own, not that of a library it waits in.
pub(super) fn caller(stacks: &Stacks, leaf: Option<NodeIndex>) -> Option<LocationId> {
    stacks.frames(leaf).find(|place| {
        !is_kernel(stacks, *place)
            && !in_library(stacks, *place, &WAITING_LIBRARIES)
            && !in_library(stacks, *place, &OPENMP_LIBRARIES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_halves_of_a_condition_variable_are_one_object() {
        let [first, second] = [0x7ffe_0bae_7160, 0x7ffe_0bae_7164].map(|at| Some(RemoteAddr(at)));
        assert_eq!(Reason::Condition.object(second), first);
        assert_eq!(Reason::Lock.object(second), second);
        assert_eq!(Reason::Sleep.object(second), None);
    }

    #[test]
    fn names_are_bared_of_what_varies() {
        for (name, bared) in [
            ("___pthread_mutex_lock", "pthread_mutex_lock"),
            ("__GI___lll_lock_wait", "lll_lock_wait"),
            ("pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait"),
            ("gomp_team_barrier_wait_end.part.0", "gomp_team_barrier_wait_end"),
            ("__pthread_clockjoin_ex", "pthread_clockjoin_ex"),
            ("__GI___libc_read", "read"),
        ] {
            assert_eq!(bare(name), bared);
        }
    }
}
