//! Clocks, resource use and waiting.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use base::{Nanos, Pid};

/// getrusage(2) in our units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// User CPU time.
    pub user: Nanos,
    /// System CPU time.
    pub system: Nanos,
    /// Minor faults.
    pub minor_faults: u64,
    /// Major faults.
    pub major_faults: u64,
    /// Largest resident size of a single process, bytes.
    pub peak_resident_bytes: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

impl Usage {
    pub(crate) fn from_kernel(usage: &libc::rusage) -> Usage {
        let time = |value: &libc::timeval| {
            Nanos(
                u64::try_from(value.tv_sec).unwrap_or(0) * 1_000_000_000
                    + u64::try_from(value.tv_usec).unwrap_or(0) * 1000,
            )
        };
        let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
        Usage {
            user: time(&usage.ru_utime),
            system: time(&usage.ru_stime),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            peak_resident_bytes: count(usage.ru_maxrss) * 1024, // the kernel tells KiB
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
        }
    }

    /// User plus system time.
    #[must_use]
    pub fn cpu(&self) -> Nanos {
        self.user + self.system
    }
}

/// The answer of waiting for a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// It still runs.
    Running,
    /// It was stopped by this signal (job control) and still exists.
    Stopped(i32),
    /// It exited with this code.
    Exited(i32, Usage),
    /// It was killed by this signal.
    Killed(i32, Usage),
}

/// wait4(2) without blocking.
pub fn try_wait(pid: Pid) -> io::Result<Waited> {
    let mut status = 0;
    // Safety: plain data, all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // Safety: both out-pointers are live.
    let got = unsafe {
        libc::wait4(pid.0, &raw mut status, libc::WNOHANG | libc::WUNTRACED, &raw mut usage)
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    if got == 0 {
        return Ok(Waited::Running);
    }
    Ok(Waited::from_status(status, Usage::from_kernel(&usage)))
}

impl Waited {
    /// Reads a wait status word.
    pub(crate) fn from_status(status: libc::c_int, usage: Usage) -> Waited {
        if libc::WIFEXITED(status) {
            Waited::Exited(libc::WEXITSTATUS(status), usage)
        } else if libc::WIFSIGNALED(status) {
            Waited::Killed(libc::WTERMSIG(status), usage)
        } else if libc::WIFSTOPPED(status) {
            Waited::Stopped(libc::WSTOPSIG(status))
        } else {
            Waited::Running
        }
    }
}

/// Whether two processes run in the same memory (kcmp(2), KCMP_VM); `None` where the kernel does not tell, as under the
/// system call filters of many containers.
#[must_use]
pub fn share_memory(one: Pid, other: Pid) -> Option<bool> {
    const KCMP_VM: libc::c_long = 1; // include/uapi/linux/kcmp.h
    // Safety: integers only.
    match unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_VM, 0, 0) } {
        0 => Some(true),
        1.. => Some(false),
        _ => None,
    }
}

/// Lowers the calling thread's priority as far as it goes (setpriority(2) acts on a thread on Linux).
pub fn be_unimportant() {
    set_priority(19);
}

/// Lowers the priority of the calling thread, and of processes that it starts: where all CPUs are busy it gets a third of what
/// another thread gets.
pub fn be_modest() {
    set_priority(5);
}

fn set_priority(nice: libc::c_int) {
    // Safety: integers only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, nice) };
}

/// The calling thread wakes up when it asked to, and not up to 50 us later (PR_SET_TIMERSLACK, prctl(2)). And it runs
/// at once, in place of a thread that computes, not when that one waits next: with the shortest slice, 0.1 ms
/// (sched_setattr(2); `sched_runtime` of a normal thread since Linux 6.12, ignored before; PREEMPT_SHORT in
/// kernel/sched/features.h).
pub fn be_punctual() {
    /// `struct sched_attr`, its first version (include/uapi/linux/sched/types.h).
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const SHORTEST: u64 = 100_000;
    let mut its = Attributes::default();
    let size = size_of::<Attributes>();
    // Safety: integers only, and a live structure of the size that is passed.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut its, size, 0) == 0 {
            its.runtime = SHORTEST;
            // A kernel that refuses it leaves the slice as it was.
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const its, 0);
        }
    }
}

/// Resource use of this process (all threads).
#[must_use]
pub fn own_usage() -> Usage {
    usage_of(libc::RUSAGE_SELF)
}

/// Resource use of the children that ended and were waited for, with theirs.
#[must_use]
pub fn children_usage() -> Usage {
    usage_of(libc::RUSAGE_CHILDREN)
}

fn usage_of(whom: libc::c_int) -> Usage {
    // Safety: plain data, all zeroes is valid; the call fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // Safety: a live out-pointer.
    unsafe { libc::getrusage(whom, &raw mut usage) };
    Usage::from_kernel(&usage)
}

/// Takes a file for this process alone until it is closed (flock(2)); whether nobody else has it.
///
/// # Errors
/// Those of the file system that does not lock.
pub fn lock(file: &std::fs::File) -> io::Result<bool> {
    // Safety: a live descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

/// CLOCK_MONOTONIC: the clock of all time stamps.
#[must_use]
pub fn monotonic() -> Nanos {
    clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread: against the wall clock it tells whether the thread was stopped in between.
#[must_use]
pub fn thread_cpu_time() -> Nanos {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(id: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Safety: a live out-pointer. These clocks always exist on Linux.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    Nanos(
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
            + u64::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// The cost of setting a timer that is due before any other of the CPU, and of cancelling it: the kernel must program
/// the hardware both times. The difference to a timer that is due late, as a median; takes some 0.3 ms. 0 if timers
/// are not available.
#[must_use]
pub fn timer_cost() -> Nanos {
    const TRIES: usize = 15;
    // Safety: integers only.
    let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    if descriptor < 0 {
        return Nanos(0);
    }
    // Safety: a fresh descriptor that nobody else has.
    let timer = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let set = |seconds, nanos| {
        let at = libc::timespec { tv_sec: seconds, tv_nsec: nanos };
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = libc::itimerspec { it_value: at, it_interval: none };
        // Safety: our own timer, a live structure.
        unsafe {
            libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut())
        };
    };
    let both = |seconds, nanos| {
        let began = monotonic();
        set(seconds, nanos);
        set(0, 0);
        monotonic() - began
    };
    // Due before the shortest tick of any kernel, 1 ms, and later than this takes.
    let mut costs: [Nanos; TRIES] = std::array::from_fn(|_| both(0, 200_000) - both(1000, 0));
    costs.sort_unstable();
    costs[TRIES / 2]
}

/// Bytes of a base page.
#[must_use]
pub fn page_size() -> usize {
    // Safety: integers only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

/// Version of the GNU C library that this program runs with; `None` for another one.
#[cfg(target_env = "gnu")]
#[must_use]
pub fn glibc_version() -> Option<(u32, u32)> {
    // Safety: a static string that ends with NUL.
    let text = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let (major, minor) = text.to_str().ok()?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

/// Effective user id; 0 is root.
#[must_use]
pub fn user_id() -> u32 {
    // Safety: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether so many bytes of address space are hardly missed in a process that has a limit of it (RLIMIT_AS, `ulimit -v`): a
/// program that fits into its limit alone must fit with us in it.
#[must_use]
pub fn has_room_for(pid: Pid, bytes: u64) -> bool {
    const HARDLY: u64 = 64;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // Safety: the kernel fills a live structure; without a new limit it changes none.
    let got = unsafe { libc::prlimit(pid.0, libc::RLIMIT_AS, std::ptr::null(), &raw mut limit) };
    // Who may trace a process may read its limits.
    got == 0 && (limit.rlim_cur == libc::RLIM_INFINITY || bytes <= limit.rlim_cur / HARDLY)
}

/// Raises the soft limit of open files to the hard one: one event per CPU and thread needs many.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // Safety: a live structure for both calls. Failure leaves the limit as it was, which is no harm.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0
            && limit.rlim_cur < limit.rlim_max
        {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Columns of the terminal on standard output, when it is one.
#[must_use]
pub fn terminal_columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // Safety: the kernel fills a live structure of this type.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
