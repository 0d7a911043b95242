//! Counting with a kernel that is made up: its answers to opens, and the groups that reads give.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use base::{CpuId, Nanos, Pid, Tid};
use facts::{CountedEvent, EventCount, Fact, Sink, SinkError};
use sys::perf::{Attr, Flag, OpenTarget};

use super::{Allowed, Carried, Choice, ControllerEvent, Counting, Scope, TrialError, try_here};
use crate::recorder::Recorder;

const EACCES: i32 = 13;
const ENOENT: i32 = 2;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ESRCH: i32 = 3;

#[derive(Default)]
struct Kept(Vec<Fact>);

impl Sink for Kept {
    fn push(&mut self, fact: Fact) -> Result<(), SinkError> {
        self.0.push(fact);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A group's words: how many counts, enabled, running, counts.
type Read = Vec<u64>;

thread_local! {
    /// What each event that is opened gives when it is read, in this order.
    static READS: RefCell<Vec<Vec<Read>>> = const { RefCell::new(Vec::new()) };
    /// How many events are open, and what was opened: PMU, configuration, whether its leader's switch is in it.
    static OPENED: RefCell<Vec<(u64, OpenTarget, bool)>> = const { RefCell::new(Vec::new()) };
}

fn descriptor() -> OwnedFd {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    let reads = READS.with_borrow_mut(|reads| (!reads.is_empty()).then(|| reads.remove(0)));
    for word in reads.into_iter().flatten().flatten() {
        theirs.write_all(&word.to_ne_bytes()).expect("room in a socket");
    }
    ours.into()
}

fn accept(attr: &Attr, target: OpenTarget) -> io::Result<OwnedFd> {
    OPENED.with_borrow_mut(|opened| {
        opened.push((attr.config(), target, attr.has(Flag::Disabled)));
    });
    Ok(descriptor())
}

fn error(number: i32) -> io::Result<OwnedFd> {
    Err(io::Error::from_raw_os_error(number))
}

/// Two counters: a third event does not fit into a group.
fn two_counters(attr: &Attr, target: OpenTarget) -> io::Result<OwnedFd> {
    let in_group = OPENED
        .with_borrow(|opened| opened.iter().rev().take_while(|(_, _, leads)| !leads).count() + 1);
    if !attr.has(Flag::Disabled) && in_group >= 2 { error(EINVAL) } else { accept(attr, target) }
}

fn choice(name: &str, config: u64) -> Choice {
    Choice {
        name: name.to_owned(),
        pmu: 4,
        config: [config, 0, 0],
        only_in_kernel: false,
        scope: Scope::default(),
        sampled: None,
        carries: Carried::Nothing,
    }
}

fn with_kernel<T>(
    answer: sys::perf::FakeOpen,
    reads: Vec<Vec<Read>>,
    test: impl FnOnce() -> T,
) -> T {
    READS.set(reads);
    OPENED.take();
    sys::perf::fake_open(Some(answer));
    let result = test();
    sys::perf::fake_open(None);
    result
}

/// The facts when it is read at these times, the last being the end.
fn recorded(
    mut counting: Counting,
    times: &[u64],
) -> (Vec<CountedEvent>, Vec<EventCount>, Vec<String>) {
    let mut kept = Kept::default();
    let mut recorder = Recorder::new(&mut kept);
    let (end, looks) = times.split_last().expect("an end");
    for time in looks {
        counting.look(Nanos(*time), &mut recorder).expect("a sink that takes all");
    }
    let notes = counting.finish(Nanos(*end), &mut recorder).expect("a sink that takes all");
    drop(recorder);
    let (mut events, mut counts) = (Vec::new(), Vec::new());
    for fact in kept.0 {
        match fact {
            Fact::CountedEvent(event) => events.push(event),
            Fact::EventCount(count) => counts.push(count),
            other => panic!("{other:?}"),
        }
    }
    (events, counts, notes)
}

#[test]
fn readings_are_differences_with_the_time_that_a_counter_was_there() {
    let reads = vec![vec![
        vec![2, 100, 50, 7, 1000],
        vec![2, 300, 150, 10, 1600],
        vec![2, 300, 150, 10, 1600],
    ]];
    let wanted = [vec![choice("misses", 1), choice("cycles", 2)]];
    let (events, counts, _) = with_kernel(accept, reads, || {
        let counting = Counting::on_launch(Pid(7), &wanted);
        // A look that comes too early reads nothing; at the end nothing was added.
        recorded(counting, &[1, 100_000_000, 150_000_000, 200_000_000, 210_000_000])
    });
    let named: Vec<_> = events.iter().map(|one| (one.id, one.name.as_str(), one.group)).collect();
    assert_eq!(named, [(0, "misses", 0), (1, "cycles", 0)]);
    let row = |time, event, count, enabled, running| EventCount {
        time: Nanos(time),
        event,
        count,
        enabled: Nanos(enabled),
        running: Nanos(running),
    };
    assert_eq!(
        counts,
        [
            row(100_000_000, 0, 7, 100, 50),
            row(100_000_000, 1, 1000, 100, 50),
            row(200_000_000, 0, 3, 200, 100),
            row(200_000_000, 1, 600, 200, 100),
        ]
    );
}

#[test]
fn a_group_that_does_not_fit_is_split() {
    let wanted = [vec![choice("a", 1), choice("b", 2), choice("c", 3), choice("d", 4)]];
    let (events, _, notes) = with_kernel(two_counters, Vec::new(), || {
        recorded(Counting::on_launch(Pid(7), &wanted), &[9])
    });
    let groups: Vec<_> = events.iter().map(|one| (one.name.as_str(), one.group)).collect();
    assert_eq!(groups, [("a", 0), ("b", 0), ("c", 1), ("d", 1)]);
    assert_eq!(notes, [""; 0]);
}

#[test]
fn an_event_that_no_pmu_has_is_named_and_the_rest_is_counted() {
    let answer: sys::perf::FakeOpen =
        |attr, target| if attr.config() == 1 { error(ENOENT) } else { accept(attr, target) };
    let wanted = [vec![choice("no-such", 1), choice("cycles", 2)]];
    let (events, _, notes) =
        with_kernel(answer, Vec::new(), || recorded(Counting::on_launch(Pid(7), &wanted), &[9]));
    assert_eq!(events.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["cycles"]);
    assert!(notes.iter().all(|note| note.contains("this machine does not count no-such:")));
    assert_eq!(notes.len(), 1);
}

#[test]
fn where_the_kernel_may_not_be_counted_the_program_is() {
    let answer: sys::perf::FakeOpen = |attr, target| {
        if attr.has(Flag::ExcludeKernel) { accept(attr, target) } else { error(EACCES) }
    };
    let switches = Choice { only_in_kernel: true, ..choice("context-switches", 3) };
    let wanted = [vec![choice("cycles", 1)], vec![switches]];
    let (events, _, notes) =
        with_kernel(answer, Vec::new(), || recorded(Counting::on_launch(Pid(7), &wanted), &[9]));
    assert_eq!(events.len(), 1);
    assert!(!events[0].kernel);
    assert_eq!(
        notes,
        [
            "counted events: of the program, not of the kernel, and not context-switches, which happen there only \
             (kernel.perf_event_paranoid is 2 or more)"
        ]
    );
}

#[test]
fn a_refusal_says_who_can_enable_it() {
    let refuse: sys::perf::FakeOpen = |_, _| error(EACCES);
    let wanted = [vec![choice("cycles", 1)]];
    let (events, counts, notes) = with_kernel(refuse, Vec::new(), || {
        recorded(Counting::on_machine(&[CpuId(0)], &wanted), &[9])
    });
    assert!(events.is_empty() && counts.is_empty());
    assert_eq!(
        notes,
        [
            "counted events: none: perf_event_open is not permitted here (Permission denied (os error 13)); to enable: sudo \
             sysctl kernel.perf_event_paranoid=0"
        ]
    );
}

/// A container that refuses the system call, a PMU that another tool has, one that counts nothing, and what the kernel allows.
#[test]
fn whether_counting_works_is_tried() {
    let of = |answer, read: &[u64]| {
        let reads = vec![vec![read.to_vec()], Vec::new()];
        with_kernel(answer, reads, || try_here(CpuId(0)))
    };
    let said = of(|_, _| error(EACCES), &[]);
    let refused = "perf_event_open is not permitted here (Permission denied (os error 13))";
    assert_eq!(said, Err(TrialError::Refused(refused.to_owned())));
    let taken = of(|_, _| error(EBUSY), &[]).expect_err("it is taken").to_string();
    assert!(taken.contains("another tool has the counters"), "{taken}");
    let unknown = of(|_, _| error(ENOENT), &[]).expect_err("there is none").to_string();
    assert!(unknown.contains("does not count cycles"), "{unknown}");
    let long = 2_000_000;
    assert_eq!(of(accept, &[1, long, long, 0]), Err(TrialError::ShowsZero));
    let all = Allowed { kernel: true, machine: true };
    assert_eq!(of(accept, &[1, long, long, 5_000_000]), Ok(all));
    // It had no counter: that tells nothing of the PMU.
    assert_eq!(of(accept, &[1, long, 0, 0]), Ok(all));
    let own: sys::perf::FakeOpen = |attr, target| {
        let own = target.cpu.is_none() && attr.has(Flag::ExcludeKernel);
        if own { accept(attr, target) } else { error(EACCES) }
    };
    assert_eq!(of(own, &[1, long, long, 9]), Ok(Allowed { kernel: false, machine: false }));
}

/// A group of a CPU that went offline is read no more; a CPU that comes has no group.
#[test]
fn a_cpu_that_goes_offline_keeps_its_counts() {
    let stays = vec![vec![1, 10, 10, 5], vec![1, 20, 20, 9], vec![1, 30, 30, 14]];
    let goes = vec![vec![1, 10, 10, 100]];
    let wanted = [vec![choice("cycles", 1)]];
    let (_, counts, _) = with_kernel(accept, vec![stays, goes], || {
        let counting = Counting::on_machine(&[CpuId(0), CpuId(1)], &wanted);
        recorded(counting, &[100_000_000, 200_000_000, 300_000_000])
    });
    let found: Vec<_> = counts.iter().map(|one| (one.count, one.enabled.0)).collect();
    assert_eq!(found, [(105, 20), (4, 10), (5, 10)]);
    let reads = vec![vec![vec![100, 10, 10], vec![150, 20, 20]], vec![vec![7, 10, 10]]];
    let controller = ControllerEvent {
        name: "memory reads".to_owned(),
        link: None,
        pmu: 10,
        config: [0x304, 0, 0],
        cpus: vec![CpuId(0), CpuId(28)],
        bytes_per_thousand: 64_000,
    };
    let (_, counts, _) = with_kernel(accept, reads, || {
        let counting = Counting::on_launch(Pid(7), &[]).with_sockets(&[controller]);
        recorded(counting, &[100_000_000, 200_000_000])
    });
    let found: Vec<_> = counts.iter().map(|one| (one.event, one.count)).collect();
    assert_eq!(found, [(0, 100), (1, 7), (0, 50)]);
}

/// Another tool has the PMU of one event: the rest is counted, and the note names it.
#[test]
fn a_pmu_that_another_tool_has_is_named() {
    let answer: sys::perf::FakeOpen =
        |attr, target| if attr.config() == 1 { error(EBUSY) } else { accept(attr, target) };
    let wanted = [vec![choice("cycles", 1), choice("misses", 2)], vec![choice("cycles", 1)]];
    let (events, _, notes) = with_kernel(answer, Vec::new(), || {
        recorded(Counting::on_machine(&[CpuId(0), CpuId(1)], &wanted), &[9])
    });
    assert_eq!(events.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["misses"]);
    assert_eq!(
        notes,
        [
            "counted events: not counted where another tool has the counters (perf_event_open: EBUSY): cycles"
        ]
    );
}

/// Sums over CPUs, and a thread that ended before it could be opened.
#[test]
fn threads_and_cpus_are_summed() {
    let reads = vec![vec![vec![1, 10, 10, 5]], vec![vec![1, 20, 10, 6]]];
    let wanted = [vec![choice("cycles", 1)]];
    let (_, counts, _) = with_kernel(accept, reads, || {
        recorded(Counting::on_machine(&[CpuId(0), CpuId(1)], &wanted), &[9])
    });
    assert_eq!((counts[0].count, counts[0].enabled, counts[0].running), (11, Nanos(30), Nanos(20)));
    let answer: sys::perf::FakeOpen =
        |attr, target| if target.tid == Tid(1) { error(ESRCH) } else { accept(attr, target) };
    let opened = with_kernel(answer, Vec::new(), || {
        recorded(Counting::on_running(&[Tid(1), Tid(2)], &wanted), &[9]);
        OPENED.with_borrow(Clone::clone)
    });
    assert_eq!(opened, [(1, OpenTarget { tid: Tid(2), cpu: None }, true)]);
}

/// A PMU outside of the cores: it takes no exclusions, no thread, and only the CPUs of its mask.
fn outside_of_the_cores(attr: &Attr, target: OpenTarget) -> io::Result<OwnedFd> {
    const UNCORE: u32 = 12;
    let excludes = attr.has(Flag::ExcludeHv) || attr.has(Flag::ExcludeKernel);
    let in_mask = [Some(CpuId(0)), Some(CpuId(28))].contains(&target.cpu);
    let follows = attr.has(Flag::EnableOnExec) || attr.has(Flag::Inherit);
    match attr.pmu() == UNCORE && (excludes || follows || !in_mask) {
        true => error(EINVAL),
        false => accept(attr, target),
    }
}

fn uncore(name: &str, config: u64) -> Choice {
    let scope = Scope::Machine(vec![CpuId(0), CpuId(28)]);
    Choice { pmu: 12, scope, ..choice(name, config) }
}

#[test]
fn a_pmu_outside_of_the_cores_is_opened_on_the_cpus_of_its_mask() {
    type Start = fn(&[CpuId], &[Vec<Choice>]) -> Counting;
    let of_sockets = || {
        let of = |counts: [u64; 2]| vec![vec![2, 10, 10, counts[0], counts[1]]];
        vec![of([100, 1]), vec![], of([200, 2])]
    };
    let uncore = vec![uncore("uncore_imc_0/reads/", 7), uncore("uncore_imc_0/writes/", 8)];
    let wanted = [vec![choice("cycles", 1)], uncore];
    let machine = [CpuId(0), CpuId(1), CpuId(28)];
    let starts: [Start; 3] = [
        |_, wanted| Counting::on_launch(Pid(7), wanted),
        |_, wanted| Counting::on_running(&[Tid(7)], wanted),
        |cpus, wanted| Counting::on_machine(cpus, wanted),
    ];
    for start in starts {
        let (events, counts, notes) = with_kernel(outside_of_the_cores, of_sockets(), || {
            recorded(start(&machine, &wanted[1..]), &[9])
        });
        assert_eq!(counts.iter().map(|one| one.count).collect::<Vec<_>>(), [300, 3]);
        assert!(events.iter().all(|event| event.kernel && event.group == 0), "{events:?}");
        let said = "counted events: of all that runs on the machine, as their PMU cannot tell programs apart: \
                    uncore_imc_0/reads/, uncore_imc_0/writes/";
        assert_eq!(notes, [said]);
    }
    let opened = with_kernel(outside_of_the_cores, Vec::new(), || {
        recorded(Counting::on_launch(Pid(7), &wanted), &[9]);
        OPENED.with_borrow(Clone::clone)
    });
    let at = |config, cpu, leads| {
        (config, OpenTarget { tid: crate::perf::ALL_THREADS, cpu: Some(CpuId(cpu)) }, leads)
    };
    let sockets = [at(7, 0, true), at(8, 0, false), at(7, 28, true), at(8, 28, false)];
    assert_eq!(opened[1..], sockets);
}

/// A user who may count programs only counts these. A note names the rest.
#[test]
fn what_only_the_machines_users_may_count_does_not_stop_the_rest() {
    let answer: sys::perf::FakeOpen = |attr, target| {
        let own = target.cpu.is_none() && attr.has(Flag::ExcludeKernel);
        if own { accept(attr, target) } else { error(EACCES) }
    };
    let registers = Choice { pmu: 13, scope: Scope::Threads, ..choice("msr/tsc/", 9) };
    let wanted = [vec![choice("cycles", 1), uncore("power/energy-pkg/", 2), registers]];
    let (events, _, notes) =
        with_kernel(answer, Vec::new(), || recorded(Counting::on_launch(Pid(7), &wanted), &[9]));
    assert_eq!(events.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["cycles"]);
    assert_eq!(
        notes,
        [
            "counted events: only users who may count the whole machine may count power/energy-pkg/, msr/tsc/; to enable: sudo \
             sysctl kernel.perf_event_paranoid=0",
            "counted events: of the program, not of the kernel (kernel.perf_event_paranoid is 2 or more)"
        ]
    );
}

/// Four controllers of two sockets: a read of each socket's counters is the sum over its controllers. Readings are count, enabled,
/// running.
#[test]
fn memory_controllers_are_summed_by_socket() {
    let controllers: Vec<ControllerEvent> = [10, 11]
        .map(|pmu| ControllerEvent {
            name: "memory reads".to_owned(),
            link: None,
            pmu,
            config: [0x304, 0, 0],
            cpus: vec![CpuId(0), CpuId(28)],
            bytes_per_thousand: 64_000,
        })
        .to_vec();
    let reads = [[100, 10, 10], [200, 10, 10], [7, 10, 10], [9, 10, 10]];
    let reads = reads.map(|words| vec![words.to_vec()]).to_vec();
    let (events, counts, notes) = with_kernel(accept, reads, || {
        let counting = Counting::on_launch(Pid(7), &[]).with_sockets(&controllers);
        recorded(counting, &[9])
    });
    let named: Vec<_> =
        events.iter().map(|one| (one.id, one.socket, one.bytes_per_thousand)).collect();
    assert_eq!(named, [(0, Some(0), Some(64_000)), (1, Some(1), Some(64_000))]);
    let found: Vec<_> = counts.iter().map(|one| (one.event, one.count, one.enabled.0)).collect();
    assert_eq!(found, [(0, 107, 20), (1, 209, 20)]);
    assert!(notes.is_empty(), "{notes:?}");
    let links = ["UPI 0", "UPI 1"]
        .map(|link| ControllerEvent { link: Some(link.to_owned()), ..controllers[0].clone() });
    let (events, ..) = with_kernel(accept, Vec::new(), || {
        recorded(Counting::on_launch(Pid(7), &[]).with_sockets(&links), &[9])
    });
    let named: Vec<_> = events.iter().map(|one| (one.socket, one.link.as_deref())).collect();
    let expected = [(0, "UPI 0"), (1, "UPI 0"), (0, "UPI 1"), (1, "UPI 1")];
    assert_eq!(named, expected.map(|(socket, link)| (Some(socket), Some(link))));
    let refuse: sys::perf::FakeOpen =
        |attr, target| if attr.pmu() == 11 { error(EACCES) } else { accept(attr, target) };
    let (events, _, notes) = with_kernel(refuse, Vec::new(), || {
        let counting = Counting::on_launch(Pid(7), &[]).with_sockets(&controllers);
        recorded(counting, &[9])
    });
    assert!(events.is_empty());
    assert_eq!(
        notes,
        [
            "machine traffic: the traffic of memory was not counted for the whole machine: perf_event_open is not permitted here \
             (Permission denied (os error 13)); to enable: sudo sysctl kernel.perf_event_paranoid=0"
        ]
    );
}
