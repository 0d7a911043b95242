//! perf_event_open(2), and the operations on its file descriptor.
//!
//! What not: the ring (`ring`).

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use base::{CpuId, Nanos, Tid};

use super::Attr;

/// Which thread on which CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenTarget {
    /// The thread; its later children too when the attribute says inherit.
    pub tid: Tid,
    /// One CPU only (needed for inherited events with a ring), or any.
    pub cpu: Option<CpuId>,
}

/// A test's replacement for the kernel.
pub type FakeOpen = fn(&Attr, OpenTarget) -> io::Result<OwnedFd>;

thread_local! {
    static MADE_UP: Cell<u64> = const { Cell::new(0) };
    static FAKE: RefCell<Option<FakeOpen>> = const { RefCell::new(None) };
    static SWITCHED: RefCell<Vec<(u64, Counting)>> = const { RefCell::new(Vec::new()) };
}

/// Makes [`open`] on this thread call `answer` instead of the kernel (`None`: the kernel again). For tests of paths
/// that a machine cannot take by itself: no PMU, no permission. Ids of events are then numbers from 1, in the order of opening; a read
/// takes what stands in the file at its position, and a ring is the beginning of the file.
pub fn fake_open(answer: Option<FakeOpen>) {
    MADE_UP.set(0);
    FAKE.with(|fake| *fake.borrow_mut() = answer);
}

/// How events of [`fake_open`] were switched on this thread since the last call, by their ids.
#[must_use]
pub fn fake_switched() -> Vec<(u64, Counting)> {
    SWITCHED.take()
}

/// An open event.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
    /// A test's, with its id: it cannot be switched.
    made_up: Option<u64>,
    counts_lost: bool,
    read_words: usize,
}

impl Event {
    fn new(fd: OwnedFd, attr: &Attr) -> Event {
        Event { fd, made_up: None, counts_lost: attr.counts_lost(), read_words: attr.read_words() }
    }
}

/// perf_event_open(2), close-on-exec.
pub fn open(attr: &Attr, target: OpenTarget) -> io::Result<Event> {
    open_in_group(attr, target, None)
}

/// The same in the group of `leader`: both are counted at the same times, or neither is.
pub fn open_in_group(attr: &Attr, target: OpenTarget, leader: Option<&Event>) -> io::Result<Event> {
    if let Some(answer) = FAKE.with(|fake| *fake.borrow()) {
        let fd = answer(attr, target)?;
        MADE_UP.set(MADE_UP.get() + 1);
        return Ok(Event { made_up: Some(MADE_UP.get()), ..Event::new(fd, attr) });
    }
    let cpu = target.cpu.map_or(-1, |cpu| i32::try_from(cpu.0).unwrap_or(i32::MAX));
    let group = leader.map_or(-1, |leader| leader.fd.as_raw_fd());
    // Safety: `attr` is a live, fully initialised structure whose `size` field tells its real size; the call
    // reads it and keeps no pointer.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            target.tid.0,
            cpu,
            group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // Safety: a descriptor that the kernel just gave to us and nobody else knows.
    Ok(Event::new(unsafe { OwnedFd::from_raw_fd(fd) }, attr))
}

/// The count, the times enabled and running, and the number of lost records.
const MOST_READ_WORDS: usize = 4;

const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// [`open`] with lost records counted, where the kernel can.
pub fn open_counting_lost(attr: &Attr, target: OpenTarget) -> io::Result<Event> {
    match open(&attr.count_lost(), target) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(attr, target),
        result => result,
    }
}

// _IO('$', n): linux/perf_event.h. libc has no names for them.
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;
const IOC_SET_BPF: libc::c_ulong = 0x4004_2408;

/// What a group has counted so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupCounts {
    /// Time for which the group was to be counted.
    pub enabled: Nanos,
    /// The part of it in which the event had a counter.
    pub running: Nanos,
    /// Counts in the order in which the members were opened, the leader first.
    pub counts: Vec<u64>,
}

/// Whether an event counts at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// Count and sample.
    On,
    /// Do not count.
    Off,
}

impl Event {
    /// Switches the event and everything inherited from it; of the leader of a group, the whole group.
    pub fn set(&self, counting: Counting) -> io::Result<()> {
        if let Some(id) = self.made_up {
            SWITCHED.with_borrow_mut(|switched| switched.push((id, counting)));
            return Ok(());
        }
        let request = match counting {
            Counting::On => IOC_ENABLE,
            Counting::Off => IOC_DISABLE,
        };
        // Safety: these requests take an integer argument and touch no memory of ours.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, 0) })
    }

    /// Sends this event's records to the ring of `other`, which must be on the same CPU.
    pub fn send_records_to(&self, other: &Event) -> io::Result<()> {
        if self.made_up.is_some() {
            return Ok(());
        }
        // Safety: takes a file descriptor as integer.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_SET_OUTPUT, other.fd.as_raw_fd()) })
    }

    /// Has a program of bpf(2) run instead of each record; its result says whether the record is written too.
    pub(crate) fn run_instead_of_record(&self, program: &OwnedFd) -> io::Result<()> {
        // Safety: takes a file descriptor as integer.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_SET_BPF, program.as_raw_fd()) })
    }

    /// The id in this event's records (PERF_SAMPLE_IDENTIFIER), including those of inherited copies.
    pub fn id(&self) -> io::Result<u64> {
        if let Some(id) = self.made_up {
            return Ok(id);
        }
        let mut id = 0u64;
        // Safety: writes eight bytes to a live u64.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_ID, &raw mut id) })?;
        Ok(id)
    }

    /// The count so far, inherited copies included (alive and dead).
    pub fn read(&self) -> io::Result<u64> {
        self.read_words().map(|words| words[0])
    }

    /// The count so far, the time for which it was to be counted, and the part of that with a counter, nanoseconds; of
    /// [`Attr::of_event`], inherited copies included.
    pub fn read_timed(&self) -> io::Result<[u64; 3]> {
        self.read_words().map(|[count, enabled, running, _]| [count, enabled, running])
    }

    /// Number of records of this event and its inherited copies that did not fit into the ring, reported there or
    /// not; `None` where the kernel does not count them.
    #[must_use]
    pub fn lost(&self) -> Option<u64> {
        if !self.counts_lost {
            return None;
        }
        self.read_words().ok().map(|words| words[self.read_words - 1])
    }

    /// The counts of the group that this event, of [`Attr::of_pmu`], leads; inherited copies included. Fewer or more than
    /// `members` counts are an error.
    pub fn read_group(&self, members: usize) -> io::Result<GroupCounts> {
        /// How many counts follow, time enabled, time running (`perf_event_open(2)`, "Reading results").
        const HEAD: usize = 3;
        let mut words = vec![0u64; HEAD + members];
        let size = words.len() * 8;
        // Safety: the kernel writes at most `size` bytes, which `words` has.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), size) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        if usize::try_from(got) != Ok(size) || words[0] != members as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let counts = words.split_off(HEAD);
        Ok(GroupCounts { enabled: Nanos(words[1]), running: Nanos(words[2]), counts })
    }

    /// The count first, the number of lost records last (`enum perf_event_read_format`).
    fn read_words(&self) -> io::Result<[u64; MOST_READ_WORDS]> {
        let mut words = [0u64; MOST_READ_WORDS];
        let size = self.read_words.min(MOST_READ_WORDS) * 8;
        // Safety: the kernel writes at most `size` bytes, and there is room for them.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), size) };
        if usize::try_from(got) == Ok(size) { Ok(words) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
