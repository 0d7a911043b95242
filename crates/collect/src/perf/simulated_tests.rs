//! The sampler on a simulated kernel: what it answers to opens, the records that it writes into rings, what reads give.
//!
//! What for: a PMU's samples, lost records, throttling, counters that take turns or that another tool has, CPUs that are offline: none of
//! which this machine can show. What not: counting without samples (`crate::counting::tests`).
//!
//! Layouts: include/uapi/linux/perf_event.h, `enum perf_event_type`, `perf_event_mmap_page`, `enum perf_event_read_format`. Each event is
//! a file: its beginning is the ring, and reads go on from [`READS`].

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use base::{CpuId, Nanos, Tid};
use facts::{
    AccessKind, CountedEvent, DataSource, EventCount, EventSample, Fact, Lost, LostSource,
    MemorySample, Sample,
};
use sys::perf::{Attr, FakeOpen, OpenTarget};

use super::events::libc_errno::{EBUSY, EINVAL, ENODEV, ENOENT, EOPNOTSUPP};
use super::{PerfSampler, Settings};
use crate::counting::{Carried, Choice, SampleRate, Scope};
use crate::recorder::Recorder;

/// Behind the largest ring.
const READS: u64 = 16 << 20;
/// `data_head` of the control page.
const DATA_HEAD: u64 = 1024;
const RAW: u32 = 4;
const PID: u64 = 700;

/// An open event of the kernel.
struct Simulated {
    pmu: u32,
    config: u64,
    cpu: Option<CpuId>,
    file: File,
    head: u64,
    reads: u64,
}

thread_local! {
    static EVENTS: RefCell<Vec<Simulated>> = const { RefCell::new(Vec::new()) };
}

fn accept(attr: &Attr, target: OpenTarget) -> io::Result<OwnedFd> {
    EVENTS.with_borrow_mut(|events| {
        let name =
            format!("fathom-simulated-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(format!("{name}-{}", events.len()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        std::fs::remove_file(&path)?;
        file.set_len(READS)?;
        // The position belongs to both descriptors.
        file.seek(SeekFrom::Start(READS))?;
        let (pmu, config) = (attr.pmu(), attr.config());
        let kept = file.try_clone()?;
        events.push(Simulated { pmu, config, cpu: target.cpu, file: kept, head: 0, reads: READS });
        Ok(file.into())
    })
}

fn refuse(number: i32) -> io::Result<OwnedFd> {
    Err(io::Error::from_raw_os_error(number))
}

/// The number of the event in the order of opening, from 1: its id.
fn id_of(pmu: u32, config: u64, cpu: u32) -> u64 {
    EVENTS.with_borrow(|events| {
        let found = events
            .iter()
            .position(|one| (one.pmu, one.config, one.cpu) == (pmu, config, Some(CpuId(cpu))));
        found.expect("the event is open") as u64 + 1
    })
}

/// The first event of a CPU, which owns its ring.
fn clock_on(cpu: u32) -> u64 {
    EVENTS.with_borrow(|events| {
        let of = |one: &Simulated| one.cpu == Some(CpuId(cpu));
        events.iter().position(of).expect("a clock") as u64 + 1
    })
}

impl Simulated {
    /// Writes a record into the ring.
    fn record(&mut self, kind: u32, words: &[u64]) {
        let page = sys::process::page_size() as u64;
        let size = (8 + 8 * words.len()) as u64;
        let header = u64::from(kind) | size << 48;
        for word in std::iter::once(&header).chain(words) {
            self.file
                .write_all_at(&word.to_le_bytes(), page + self.head)
                .expect("room in the ring");
            self.head += 8;
        }
        self.file.write_all_at(&self.head.to_le_bytes(), DATA_HEAD).expect("a control page");
    }

    /// What the next read gives: count, time enabled, time running, lost records.
    fn next_read(&mut self, words: [u64; 4]) {
        for word in words {
            self.file.write_all_at(&word.to_le_bytes(), self.reads).expect("room");
            self.reads += 8;
        }
    }
}

fn on_event<T>(id: u64, change: impl FnOnce(&mut Simulated) -> T) -> T {
    EVENTS.with_borrow_mut(|events| change(&mut events[id as usize - 1]))
}

/// The fields of a sample of event `id`, without kernel, registers and stack.
fn sample(id: u64, time: u64, cpu: u64, ip: u64, period: u64) -> Vec<u64> {
    vec![id, ip, PID << 32 | PID, time, 0, cpu, period, 0, 4, 0, 0]
}

/// The end of records that are no samples.
fn identity(id: u64, time: u64) -> [u64; 4] {
    [PID << 32 | PID, time, 0, id]
}

fn choice(name: &str, config: u64) -> Choice {
    Choice {
        name: name.to_owned(),
        pmu: RAW,
        config: [config, 0, 0],
        only_in_kernel: false,
        scope: Scope::default(),
        sampled: Some(SampleRate::Period(1000)),
        carries: Carried::Nothing,
    }
}

/// The facts and notes of a sampler that opens events on this kernel, and whose rings are then written by `write`, which gets the time
/// of the beginning.
fn recorded(
    kernel: FakeOpen,
    cpus: &[u32],
    counted: Vec<Choice>,
    write: impl FnOnce(u64),
) -> (Vec<Fact>, Vec<String>) {
    let mut write = Some(write);
    recorded_in_turns(kernel, cpus, counted, 1, |start, _| {
        write.take().expect("one turn")(start);
    })
}

/// The same with several readings.
fn recorded_in_turns(
    kernel: FakeOpen,
    cpus: &[u32],
    counted: Vec<Choice>,
    turns: u32,
    mut write: impl FnMut(u64, u32),
) -> (Vec<Fact>, Vec<String>) {
    EVENTS.take();
    sys::perf::fake_open(Some(kernel));
    let settings = Settings {
        period: Nanos(1_003_009),
        echoes: true,
        stack_bytes: 8192,
        fault_rate: 1000,
        cpus: cpus.iter().map(|cpu| CpuId(*cpu)).collect(),
        wait_stack_rate: None,
        start_paused: false,
        wakes: None,
        counted,
    };
    let sampler = PerfSampler::on_running(&[Tid(PID as i32)], &settings);
    sys::perf::fake_open(None);
    let mut sampler = sampler.unwrap_or_else(|error| panic!("{error}"));
    let (mut facts, mut notes) = (Vec::new(), Vec::new());
    let mut recorder = Recorder::new(&mut facts);
    let start = sys::process::monotonic();
    sampler.begin(start);
    sampler.announce_counted(&mut recorder).expect("a sink that takes all");
    for turn in 0..turns {
        write(start.0, turn);
        sampler.look(&mut recorder).expect("a sink that takes all");
        if turn + 1 < turns {
            let now = sys::process::monotonic() - start;
            let read = sampler.counted.read(now, true, &sampler.events.counted, &mut recorder);
            read.expect("a sink that takes all");
        }
    }
    let end = sys::process::monotonic() - start;
    sampler.finish(end, &mut notes, &mut recorder).expect("a sink that takes all");
    drop(recorder);
    (facts, notes)
}

fn counted(facts: &[Fact]) -> Vec<EventSample> {
    let one = |fact: &Fact| match fact {
        Fact::EventSample(sample) => Some(*sample),
        _ => None,
    };
    facts.iter().filter_map(one).collect()
}

fn names(facts: &[Fact]) -> Vec<(u32, &str)> {
    let one = |fact: &'_ Fact| match fact {
        Fact::CountedEvent(CountedEvent { id, name, .. }) => Some((*id, name.clone())),
        _ => None,
    };
    let found: Vec<(u32, String)> = facts.iter().filter_map(one).collect();
    found.into_iter().map(|(id, name)| (id, &*name.leak())).collect()
}

fn readings(facts: &[Fact]) -> Vec<(u32, u64, u64, u64)> {
    let one = |fact: &Fact| match fact {
        Fact::EventCount(EventCount { event, count, enabled, running, .. }) => {
            Some((*event, *count, enabled.0, running.0))
        }
        _ => None,
    };
    facts.iter().filter_map(one).collect()
}

fn lost(facts: &[Fact]) -> Vec<(LostSource, u64)> {
    let one = |fact: &Fact| match fact {
        Fact::Lost(Lost { source, count, .. }) => Some((*source, *count)),
        _ => None,
    };
    facts.iter().filter_map(one).collect()
}

const CYCLES: u64 = 0x3c;
const STALLS: u64 = 0xa3;

#[test]
fn samples_of_a_pmu_and_of_the_clock_come_by_their_ids() {
    let events = vec![choice("cycles", CYCLES), choice("stalls", STALLS)];
    let (facts, notes) = recorded(accept, &[0], events, |start| {
        let (clock, cycles, stalls) = (1, id_of(RAW, CYCLES, 0), id_of(RAW, STALLS, 0));
        on_event(clock, |ring| {
            ring.record(9, &sample(cycles, start + 10, 0, 0x40_1000, 1000));
            ring.record(9, &sample(clock, start + 20, 0, 0x40_1000, 1_003_009));
            ring.record(9, &sample(stalls, start + 30, 0, 0x40_2000, 1000));
            // Of nobody: dropped, and counted.
            ring.record(9, &sample(99, start + 40, 0, 0x40_2000, 1000));
        });
    });
    assert_eq!(names(&facts), [(0, "cycles"), (1, "stalls")]);
    let found: Vec<_> =
        counted(&facts).iter().map(|one| (one.time.0, one.event, one.weight)).collect();
    assert_eq!(found, [(10, 0, 1000), (30, 1, 1000)]);
    let clock = facts.iter().filter(|fact| matches!(fact, Fact::Sample(Sample { .. }))).count();
    assert_eq!((clock, lost(&facts)), (1, vec![(LostSource::Events, 1)]));
    assert_eq!(notes, [""; 0]);
}

/// The last events of the software's first counter are the echoes of the last CPU.
#[test]
fn echoes_are_no_samples_and_have_an_owner() {
    const SOFTWARE: u32 = 1;
    let (facts, notes) = recorded(accept, &[0], Vec::new(), |start| {
        let is_clock = |one: &Simulated| (one.pmu, one.config) == (SOFTWARE, 0);
        let ids = EVENTS.with_borrow(|events| {
            (1u64..)
                .zip(events)
                .filter(|(_, one)| is_clock(one))
                .map(|(id, _)| id)
                .collect::<Vec<_>>()
        });
        let [clock, _slow, _cpu, near, far] = ids[..] else { panic!("{ids:?}") };
        on_event(clock, |ring| {
            ring.record(9, &sample(clock, start + 10, 0, 0x40_1000, 1_003_009));
            ring.record(9, &sample(near, start + 20, 0, 0x40_1000, 10_030_090));
            ring.record(9, &sample(far, start + 30, 0, 0x40_1000, 10_030_090));
        });
    });
    let samples = facts.iter().filter(|fact| matches!(fact, Fact::Sample(Sample { .. }))).count();
    assert_eq!((samples, lost(&facts)), (1, vec![]));
    assert_eq!(notes, [""; 0]);
}

#[test]
fn counters_that_take_turns_say_for_how_long_they_were_there() {
    let events = vec![choice("cycles", CYCLES), choice("stalls", STALLS)];
    let (facts, _) = recorded(accept, &[0, 1], events, |_| {
        for (cpu, count) in [(0, 500), (1, 300)] {
            on_event(id_of(RAW, CYCLES, cpu), |event| event.next_read([count, 100, 40, 0]));
            // Another tool has all counters: none was ever free.
            on_event(id_of(RAW, STALLS, cpu), |event| event.next_read([0, 100, 0, 0]));
        }
    });
    // A thread's events of two CPUs are enabled at the same times. The last reading fails, as that of a thread that has ended may.
    assert_eq!(readings(&facts), [(0, 800, 100, 80), (1, 0, 100, 0)]);
}

#[test]
fn an_event_that_cannot_be_opened_is_named_and_the_others_are_sampled() {
    let kernel: FakeOpen = |attr, target| match (attr.pmu(), attr.config()) {
        (RAW, CYCLES) => accept(attr, target),
        (RAW, STALLS) => refuse(EBUSY),
        (RAW, 1) => refuse(ENOENT),
        (RAW, _) => refuse(EINVAL),
        _ => accept(attr, target),
    };
    let wanted = [("taken", STALLS), ("cycles", CYCLES), ("no-such", 1), ("wrong", 2)];
    let wanted = wanted.into_iter().map(|(name, config)| choice(name, config)).collect();
    let (facts, notes) = recorded(kernel, &[0], wanted, |start| {
        let cycles = id_of(RAW, CYCLES, 0);
        on_event(1, |ring| ring.record(9, &sample(cycles, start + 10, 0, 0x40_1000, 1000)));
    });
    assert_eq!(names(&facts), [(0, "cycles")]);
    assert_eq!(counted(&facts).iter().map(|one| one.event).collect::<Vec<_>>(), [0]);
    assert_eq!(
        notes,
        [
            "counted events: not sampled: taken, no-such, wrong; no PMU here has them, this user may not, or another tool has \
             the counters"
        ]
    );
}

#[test]
fn losses_and_throttling_are_said() {
    let (facts, notes) = recorded(accept, &[0], vec![choice("cycles", CYCLES)], |start| {
        let cycles = id_of(RAW, CYCLES, 0);
        on_event(1, |ring| {
            // PERF_RECORD_LOST: id and number; PERF_RECORD_THROTTLE, PERF_RECORD_UNTHROTTLE: time, id, stream id.
            ring.record(2, &[&[cycles, 7][..], &identity(cycles, start + 5)].concat());
            for (kind, time) in [(5, start + 6), (6, start + 8), (5, start + 9)] {
                let words = [time, cycles, cycles];
                ring.record(kind, &[&words[..], &identity(cycles, time)].concat());
            }
            ring.record(9, &sample(cycles, start + 10, 0, 0x40_1000, 1000));
        });
        // More than the ring reported: the rest was lost after the last record.
        on_event(cycles, |event| {
            event.next_read([9000, 100, 100, 10]);
            event.next_read([9000, 100, 100, 10]);
            event.next_read([9000, 100, 100, 10]);
        });
    });
    assert_eq!(lost(&facts), [(LostSource::Samples, 7), (LostSource::Samples, 3)]);
    assert_eq!(readings(&facts), [(0, 9000, 100, 100)]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("the kernel stopped sampling 2 times"), "{}", notes[0]);
}

#[test]
fn a_cpu_that_is_offline_is_left_out() {
    let kernel: FakeOpen = |attr, target| match target.cpu {
        Some(CpuId(1)) => refuse(ENODEV),
        _ => accept(attr, target),
    };
    let events = vec![choice("cycles", CYCLES)];
    let (facts, notes) = recorded(kernel, &[0, 1, 2], events, |start| {
        let cycles = id_of(RAW, CYCLES, 2);
        on_event(clock_on(2), |ring| {
            ring.record(9, &sample(cycles, start + 10, 2, 0x40_1000, 1000))
        });
    });
    assert_eq!(counted(&facts).iter().map(|one| one.cpu).collect::<Vec<_>>(), [Some(CpuId(2))]);
    assert!(notes.is_empty(), "{notes:?}");
}

/// CPU 1 goes offline after the first reading and CPU 2 comes: what CPU 1 saw stays, its counts too where they can no longer be read,
/// and the note says that CPU 2 was not seen.
#[test]
fn cpus_may_go_and_come_during_a_recording() {
    let lists = ["0-1", "0,2"].map(str::to_owned).to_vec();
    crate::online_cpus::MADE_UP.set(lists);
    let events = vec![choice("cycles", CYCLES)];
    let (facts, notes) = recorded_in_turns(accept, &[0, 1], events, 2, |start, turn| {
        let (gone, stays) = (id_of(RAW, CYCLES, 1), id_of(RAW, CYCLES, 0));
        let at = start + 10 + u64::from(turn);
        match turn {
            0 => {
                on_event(clock_on(1), |ring| ring.record(9, &sample(gone, at, 1, 0x40_1000, 1000)));
                on_event(gone, |event| event.next_read([300, 100, 40, 0]));
                on_event(stays, |event| event.next_read([500, 100, 60, 0]));
            }
            _ => {
                on_event(clock_on(0), |ring| {
                    ring.record(9, &sample(stays, at, 0, 0x40_1000, 1000))
                });
                on_event(stays, |event| event.next_read([900, 300, 260, 0]));
            }
        }
    });
    let seen: Vec<_> = counted(&facts).iter().map(|one| one.cpu.map(|cpu| cpu.0)).collect();
    assert_eq!(seen, [Some(1), Some(0)]);
    assert_eq!(readings(&facts), [(0, 800, 100, 100), (0, 400, 100, 100)]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("(0-1 were online at the beginning, 0,2 at the end)"), "{notes:?}");
}

/// PERF_SAMPLE_BRANCH_STACK follows the bytes of a tracepoint: a loop of four rounds that comes from outside, three times.
#[test]
fn branches_before_a_sample_are_loops() {
    let events = vec![Choice { carries: Carried::Branches, ..choice("cycles", CYCLES) }];
    let (facts, _) = recorded(accept, &[0], events, |start| {
        let cycles = id_of(RAW, CYCLES, 0);
        let (back, outside) = ([0x40_1040, 0x40_1000, 0], [0x40_0500, 0x40_1000, 0]);
        let stack = [back, back, back, outside, back, back, back, outside].concat();
        for at in 1..=3 {
            let whole = sample(cycles, start + at, 0, 0x40_1010, 1000);
            let (head, rest) = whole.split_at(9);
            let words = [head, &[8], &stack, rest].concat();
            on_event(1, |ring| ring.record(9, &words));
        }
    });
    let loops: Vec<_> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::BranchLoop(one) => Some((one.taken, one.stacks, one.decided, one.starts)),
            _ => None,
        })
        .collect();
    // The branch before the oldest is not in the stack; it came from outside.
    assert_eq!(loops, [(18, 3, 18, 6)]);
    assert_eq!(counted(&facts).len(), 3);
}

#[test]
fn without_branches_the_event_is_sampled_all_the_same() {
    let kernel: FakeOpen = |attr, target| match attr.has_branches() {
        true => refuse(EOPNOTSUPP),
        false => accept(attr, target),
    };
    let events = vec![Choice { carries: Carried::Branches, ..choice("cycles", CYCLES) }];
    let (facts, notes) = recorded(kernel, &[0], events, |start| {
        let cycles = id_of(RAW, CYCLES, 0);
        on_event(1, |ring| ring.record(9, &sample(cycles, start + 1, 0, 0x40_1010, 1000)));
    });
    assert_eq!((counted(&facts).len(), notes.len()), (1, 0));
}

/// PEBS: weight and source follow the stack. The words are of intel-pebs-skx-weightstruct, L3 and a line on its way. Cores from Sapphire
/// Rapids on need another event that leads the group; without it the kernel answers ENODATA.
#[test]
fn loads_with_latency_are_accesses() {
    const LOADS: u64 = 0x1cd;
    const LEADER: u64 = 0x8203;
    thread_local! {
        static LED: RefCell<bool> = const { RefCell::new(false) };
    }
    let kernel: FakeOpen = |attr, target| {
        let led = LED.replace(attr.config() == LEADER);
        if attr.has_accesses() && !led { refuse(61) } else { accept(attr, target) }
    };
    let loads = |leader| Choice { carries: Carried::Access { leader }, ..choice("loads", LOADS) };
    let (facts, notes) = recorded(kernel, &[0], vec![loads(Some(LEADER))], |start| {
        let id = id_of(RAW, LOADS, 0);
        for (at, weight, source) in [(1, 240, 0x106_5010_0842), (2, 70, 0x118_6810_0242), (3, 9, 1)]
        {
            let mut words = sample(id, start + at, 0, 0x40_1010, 1000);
            words[4] = 0x7f00_0000 + at;
            words.extend([weight, source, 4096]);
            on_event(1, |ring| ring.record(9, &words));
        }
    });
    assert_eq!(notes, [""; 0]);
    let found: Vec<_> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::MemorySample(MemorySample { access, address, latency, from, weight, .. }) => {
                Some((*access, address.expect("an address").0, *latency, *from, *weight))
            }
            _ => None,
        })
        .collect();
    let load =
        |address, latency, from| (AccessKind::Load, address, Some(latency), Some(from), 1000);
    // The third has no access.
    assert_eq!(
        found,
        [load(0x7f00_0001, 240, DataSource::L3), load(0x7f00_0002, 70, DataSource::FillBuffer)]
    );
    assert_eq!(counted(&facts).len(), 3);
    let (facts, notes) = recorded(kernel, &[0], vec![loads(None)], |_| {});
    assert!(names(&facts).is_empty() && notes[0].contains("not sampled: loads"), "{notes:?}");
}

#[path = "access_tests.rs"]
mod accesses;
#[path = "traces_tests.rs"]
mod traces;
