//! Why a thread waited, from the names of the functions on its stack; and whether a function only waits while it runs.
//!
//! What not: times. Assumptions: names are those of glibc 2.17 to 2.41 (`nptl/`, `sysdeps/`), libgomp (`config/linux/bar.c`,
//! `mutex.c`, `wait.h`), LLVM's libomp (`kmp_barrier.cpp`, `kmp_wait_release.h`), MPI 4.1 (appendix A) and Linux 4.x to 6.x
//! (`kernel/futex/`, `fs/`, `net/`). A name that is not here makes a wait [`Reason::Other`], never another reason.

use std::collections::BTreeMap;

use base::RemoteAddr;

use crate::stack::{Code, CodeModule, FunctionId, LocationId, NodeIndex, Stacks};

/// Why a thread did not run, or ran without getting further.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// A mutex, read-write lock or semaphore that another thread holds.
    Lock,
    /// A condition variable.
    Condition,
    /// A barrier, or an OpenMP thread that has nothing to do.
    Barrier,
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
    pub const ALL: [Reason; 12] = [
        Reason::Lock,
        Reason::Condition,
        Reason::Barrier,
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

/// Functions of OpenMP libraries in which a thread spins: it uses a CPU and gets no further.
const SPINNING: [&str; 19] = [
    "gomp_barrier_wait_end",
    "gomp_barrier_wait",
    "gomp_team_barrier_wait",
    "gomp_team_barrier_wait_end",
    "gomp_team_barrier_wait_final",
    "gomp_thread_start",
    "do_spin",
    "do_wait",
    "futex_wait",
    "cpu_relax",
    "GOMP_barrier",
    "GOMP_parallel_end",
    "kmp_hardware_timestamp",
    "kmp_yield",
    "kmp_x86_pause",
    "kmp_tas_lock",
    "kmp_acquire_tas_lock",
    "kmp_acquire_ticket_lock",
    "kmp_acquire_queuing_lock",
];

/// How libraries of OpenMP runtimes are called: GNU, LLVM, Intel.
const OPENMP_LIBRARIES: [&str; 3] = ["libgomp", "libomp", "libiomp5"];
/// How libraries are called that run in a call of MPI: Open MPI with its plugins and event loop, PMIx, MPICH and Intel MPI, and the
/// networks' own (UCX, libfabric, PSM2, verbs).
const MPI_LIBRARIES: [&str; 16] = [
    "libmpi",
    "libmpich",
    "libopen-pal",
    "libopen-rte",
    "mca_",
    "libmca",
    "libpmix",
    "libevent",
    "libucp",
    "libuct",
    "libucs",
    "libfabric",
    "libpsm2",
    "libibverbs",
    "libmlx",
    "libhwloc",
];
/// Functions that copy: a call of MPI that moves data does not wait meanwhile.
const COPYING: [&str; 4] = ["memcpy", "memmove", "convertor", "dt_copy"];
/// Libraries that programs wait in: the caller is who called them.
const WAITING_LIBRARIES: [&str; 4] = ["libc.so", "libc-", "libpthread", "ld-linux"];

/// Without leading underscores, the version after `@`, and what compilers append (`.part.0`, `.constprop.0`).
fn bare(name: &str) -> &str {
    let name = name.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
    let name = name.strip_prefix("libc_").unwrap_or(name);
    let name = name.split(['@', '.']).next().unwrap_or(name);
    name.trim_end_matches("64").trim_end_matches("_compat")
}

fn in_library(stacks: &Stacks, place: LocationId, libraries: &[&str]) -> bool {
    is_one_of(stacks.module_of(place), libraries)
}

fn is_one_of(module: &CodeModule, libraries: &[&str]) -> bool {
    libraries.iter().any(|library| module.name.starts_with(library))
}

fn is_kernel(stacks: &Stacks, place: LocationId) -> bool {
    stacks.module_of(place).code == Code::Kernel
}

/// Why a thread with this stack waited.
pub(super) fn reason(stacks: &Stacks, leaf: Option<NodeIndex>) -> Reason {
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

/// Whether a thread whose innermost function in the program is this one spins. OpenMP libraries mostly come without names of their
/// own functions. Nameless code of theirs counts, because all that they do for long is to wait.
fn spins(stacks: &Stacks, function: FunctionId) -> bool {
    let function = &stacks.functions[function.index()];
    let openmp = is_one_of(&stacks.modules[function.module.index()], &OPENMP_LIBRARIES);
    let nameless = function.name.starts_with('[');
    let bare = bare(&function.name);
    // `do_wait` and its like mean nothing outside of these libraries.
    bare == "pthread_spin_lock"
        || openmp && (nameless || SPINNING.contains(&bare) || bare.contains("wait"))
}

/// Whether a function is one that programs call MPI by: of C, and as Fortran compilers write it.
fn is_mpi_call(name: &str) -> bool {
    let name = name.strip_prefix(['P', 'p']).unwrap_or(name);
    name.starts_with("MPI_") || name.starts_with("mpi_") && name.ends_with('_')
}

/// Whether a thread with this stack is in a call of MPI and copies nothing: such a call asks again and again whether other ranks
/// have come. Code of the program that MPI calls, as the operation of a reduction, does not wait.
fn waits_in_mpi(stacks: &Stacks, stack: Option<NodeIndex>) -> bool {
    let mut frames = stacks.frames(stack).skip_while(|place| is_kernel(stacks, *place)).peekable();
    let name = |place| stacks.function_of(place).name.as_str();
    let copies = |place| COPYING.iter().any(|word| name(place).contains(word));
    if frames.peek().is_none_or(|first| copies(*first)) {
        return false;
    }
    let own = |place: &LocationId| {
        let module = stacks.module_of(*place);
        in_library(stacks, *place, &MPI_LIBRARIES)
            || in_library(stacks, *place, &WAITING_LIBRARIES)
            || module.name.starts_with("[vdso")
    };
    frames.take_while(|place| own(place)).any(|place| is_mpi_call(name(place)))
}

/// Which stacks spin. Samples share few innermost functions, and names are compared once for each of these.
pub(crate) struct SpinTable<'a> {
    stacks: &'a Stacks,
    known: BTreeMap<FunctionId, bool>,
    in_mpi: BTreeMap<NodeIndex, bool>,
}

impl<'a> SpinTable<'a> {
    pub(crate) const fn new(stacks: &'a Stacks) -> SpinTable<'a> {
        SpinTable { stacks, known: BTreeMap::new(), in_mpi: BTreeMap::new() }
    }

    pub(crate) fn spins(&mut self, stack: Option<NodeIndex>) -> bool {
        self.spins_at(self.stacks.innermost_user(stack)) || self.waits_in_mpi(stack)
    }

    /// Whether a thread with this innermost place in the program spins, outside of MPI.
    pub(crate) fn spins_at(&mut self, place: LocationId) -> bool {
        self.function_spins(self.stacks.places[place.index()].function)
    }

    pub(crate) fn function_spins(&mut self, function: FunctionId) -> bool {
        let stacks = self.stacks;
        *self.known.entry(function).or_insert_with(|| spins(stacks, function))
    }

    pub(crate) fn waits_in_mpi(&mut self, stack: Option<NodeIndex>) -> bool {
        let stacks = self.stacks;
        stack.is_some_and(|node| {
            *self.in_mpi.entry(node).or_insert_with(|| waits_in_mpi(stacks, stack))
        })
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
    fn calls_of_mpi_are_those_of_c_and_of_fortran() {
        for name in ["MPI_Barrier", "PMPI_Wait", "mpi_allreduce_", "pmpi_recv_"] {
            assert!(is_mpi_call(name), "{name}");
        }
        for name in ["MPIR_Barrier", "mpi_setup", "my_MPI_Barrier", "opal_progress", "P", ""] {
            assert!(!is_mpi_call(name), "{name}");
        }
    }

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
