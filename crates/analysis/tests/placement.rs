//! Threads, their first touches and their accesses, in recordings written by hand.

mod common;

use analysis::objects::Objects;
use analysis::placement::{
    ONE_NODE, Placement, Policy, RecordedNodes, Topology, Use, placement, recorded_nodes,
};
use analysis::{Profile, Selection, TracedCode};
use base::{AllocationId, BlockId, Bytes, CpuId, Nanos, NodeId, Pid, RemoteAddr, Tid};
use facts::host::NumaNode;
use facts::{
    Allocation, AllocationCall, Evidence, Fault, FaultKind, Metric, Page, Recording, Sample,
};
use testkit::recording::RecordingBuilder;

use self::common::{PID, layout};

/// addsd xmm0,[rdi]; add rdi,64; cmp rdi,rsi; jne
const SUM: &[u8] = &[0xf2, 0x0f, 0x58, 0x07, 0x48, 0x83, 0xc7, 0x40, 0x48, 0x39, 0xf7, 0x75, 0xf3];
const MIB: u64 = 1 << 20;
const DATA: u64 = 16 * MIB;
const COLD: u64 = 64 * MIB;

/// Two threads that sum up 4 MiB of one heap block. `first`: who touches each MiB first. `parts`: each thread reads its
/// half alone, else both read all.
fn summed(first: [i32; 4], parts: bool) -> Recording {
    two_threads(first, parts).0.build()
}

/// The same before it is whole, and the block of code.
fn two_threads(first: [i32; 4], parts: bool) -> (RecordingBuilder, BlockId) {
    let mut test = RecordingBuilder::new();
    let module = test.file("/home/user/program");
    let block = test.block(PID, module, 0x1000, SUM, &layout(SUM, 0x1000).to_string());
    test.code(module, 0x1000, &[("sum", "/src/program.c", 7)]);
    for (at, tid) in [PID, PID + 1].into_iter().enumerate() {
        test.thread(PID, tid, "program", at as f64 / 10.0, 9.0);
        for number in 0..8u64 {
            let half = if parts { at as u64 } else { number % 2 };
            let start = DATA + half * 2 * MIB;
            test.burst(PID, tid, &[(block, 2 * MIB / 64, vec![start, start + 2 * MIB])]);
        }
        test.rewind(0.0).samples(PID, tid, None, 1000);
    }
    for (mib, tid) in first.into_iter().enumerate() {
        for page in 0..256 {
            test.recording.faults.push(Fault {
                time: Nanos(0),
                pid: Pid(PID),
                tid: Tid(tid),
                address: RemoteAddr(DATA + mib as u64 * MIB + page * 4096),
                stack: None,
                weight: 1,
                kind: FaultKind::Minor,
            });
        }
    }
    (test, block)
}

fn laid(recording: &Recording, topology: &str) -> Result<Placement, String> {
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    let objects = Objects::new(&profile);
    placement(&profile, &code, &objects, Topology::parse(topology).expect("a shape"))
}

/// Percent of remote accesses by policy, in their order.
fn remote(recording: &Recording, topology: &str) -> Vec<Option<f64>> {
    let found = laid(recording, topology).expect("faults and bursts are there");
    found.variants.iter().map(|one| one.remote.value.map(f64::round)).collect()
}

const MAIN: i32 = PID;
const OTHER: i32 = PID + 1;

/// Of the faults of both halves only the first is there, so who filled the first half may have filled nearly all of it. That is in the
/// interval; the best value goes by the nearer one.
#[test]
fn pages_between_faults_of_two_threads_may_be_of_either() {
    let interval = |recording: &Recording| {
        let found = laid(recording, "2x1").expect("faults and bursts are there");
        let remote = found.variants[0].remote.clone();
        [remote.low, remote.value, remote.high].map(|one| one.expect("known").round())
    };
    let mut recording = summed([MAIN, MAIN, OTHER, OTHER], true);
    let all = interval(&recording);
    assert_eq!(all[1], 0.0);
    recording.faults.retain(|fault| (fault.address.0 - DATA).is_multiple_of(2 * MIB));
    let few = interval(&recording);
    // Each half of the first half is nearer to another one; the second half is only near one.
    assert_eq!(few[1], 25.0);
    assert!(few[0] < 5.0 && few[2] > 50.0 + all[2] / 2.0, "{all:?} {few:?}");
}

#[test]
fn one_toucher_makes_the_other_threads_accesses_remote() {
    let recording = summed([MAIN; 4], true);
    let found = laid(&recording, "2x1").expect("faults and bursts are there");
    assert_eq!((found.workers, found.known), (2, 100.0));
    let shares: Vec<_> = found.variants.iter().map(|one| one.remote.value).collect();
    // Its threads do not fit on one node; memory on one is remote for half of them.
    assert_eq!(shares, [Some(50.0), Some(0.0), Some(50.0), Some(50.0), None]);
    assert_eq!(found.variants[0].fullest.value, Some(100.0));
    assert_eq!(found.variants[2].fullest.value, Some(50.0));
    let as_it_is = &found.variants[0].remote;
    assert_eq!((as_it_is.evidence, as_it_is.samples), (Some(Evidence::Modelled), 16));
    assert!(as_it_is.low > Some(25.0) && as_it_is.high < Some(75.0), "{as_it_is:?}");
    assert_eq!(found.objects[0].use_by, Use::Parts);
}

#[test]
fn each_toucher_decides_for_its_pages() {
    let all = |first| remote(&summed(first, true), "2x1")[0];
    assert_eq!(all([MAIN, MAIN, OTHER, OTHER]), Some(0.0));
    assert_eq!(all([OTHER, OTHER, MAIN, MAIN]), Some(100.0));
    assert_eq!(all([MAIN, OTHER, OTHER, OTHER]), Some(25.0));
}

/// All of it on the node without CPUs, or only a second block, which one burst of seventeen read.
#[test]
fn cold_objects_go_to_the_tier() {
    let of = |found: &Placement, policy| {
        let variant = found.variants.iter().find(|one| one.policy == policy);
        variant.map(|one| [&one.remote, &one.on_tier].map(|metric| metric.value.map(f64::round)))
    };
    let found = laid(&summed([MAIN, MAIN, OTHER, OTHER], true), "2x1+1")
        .expect("faults and bursts are there");
    assert_eq!(of(&found, Policy::AsIs), Some([Some(0.0); 2]));
    assert_eq!(of(&found, Policy::Interleave), Some([Some(67.0), Some(33.0)]));
    assert_eq!(of(&found, Policy::Tier), Some([Some(100.0); 2]));
    // Nothing was recorded as an object: nothing can be placed by itself.
    assert_eq!((of(&found, Policy::HotAndCold), found.cold.len()), (Some([None; 2]), 0));

    let (mut test, block) = two_threads([MAIN, MAIN, OTHER, OTHER], true);
    let module = test.file("/home/user/program");
    for (number, (name, start)) in [("hot", DATA), ("cold", COLD)].into_iter().enumerate() {
        let place = test.code(module, 0x2000 + number as u64 * 16, &[(name, "/src/program.c", 1)]);
        let stack = test.stack(&[place]);
        test.recording.allocations.push(Allocation {
            id: AllocationId(number as u32),
            time: Nanos(0),
            pid: Pid(PID),
            tid: Tid(PID),
            address: RemoteAddr(start),
            size: Bytes(4 * MIB),
            call: AllocationCall::Malloc,
            stack,
            sample_every: Bytes(1),
        });
    }
    test.burst(PID, PID, &[(block, 2 * MIB / 64, vec![COLD, COLD + 2 * MIB])]);
    let found = laid(&test.build(), "2x1+1").expect("faults and bursts are there");
    // One of nine bursts of one of two threads.
    assert_eq!(of(&found, Policy::HotAndCold), Some([Some(6.0); 2]));
    assert_eq!(found.cold.len(), 1);
    let on_tier = |at: usize| found.objects[at].remote[6].value;
    assert_eq!((on_tier(0), on_tier(1)), (Some(0.0), Some(100.0)));
}

#[test]
fn what_every_thread_reads_stays_remote_wherever_it_is_touched() {
    let recording = summed([MAIN, MAIN, OTHER, OTHER], false);
    let found = laid(&recording, "2x1").expect("faults and bursts are there");
    assert_eq!(found.objects[0].use_by, Use::All);
    let by_users = found.variants[1].remote.value.expect("other bursts saw it");
    assert!(by_users > 45.0, "{by_users}");
    assert_eq!(found.variants[0].remote.value, Some(50.0));
}

#[test]
fn the_topology_decides() {
    let recording = summed([MAIN; 4], true);
    // Both threads fit on one node; the third node has memory only.
    assert_eq!(remote(&recording, "2x2")[3], Some(0.0));
    assert_eq!(remote(&recording, "2x1+1")[2], Some(67.0));
    assert_eq!(remote(&recording, "4x1")[2], Some(75.0));
    assert_eq!(remote(&recording, "1x2+1")[0], Some(0.0));
}

/// One thread fills all and then waits: it has no place, and the first node has its pages.
#[test]
fn who_only_fills_is_no_worker() {
    let mut recording = summed([PID - 1; 4], true);
    for sample in 0..300 {
        let mut one = recording.samples[0];
        (one.tid, one.time) = (Tid(PID - 1), Nanos(2_000_000_000 + sample * 1_000_000));
        recording.samples.push(one);
    }
    let found = laid(&recording, "2x1").expect("faults and bursts are there");
    assert_eq!((found.workers, found.variants[0].remote.value), (2, Some(50.0)));
}

/// One record stands for 1024 faults, of the 4 MiB around it.
#[test]
fn a_fault_represents_its_neighbours() {
    let mut recording = summed([MAIN; 4], true);
    recording.faults.truncate(1);
    let half = laid(&recording, "2x1").expect("some is known").known;
    recording.faults[0].weight = 1024;
    let all = laid(&recording, "2x1").expect("all is known").known;
    assert!(half < 60.0 && all == 100.0, "{half} {all}");
}

#[test]
fn without_faults_no_first_toucher_is_known() {
    let mut recording = summed([MAIN; 4], true);
    recording.faults.clear();
    let why = laid(&recording, "2x1").expect_err("nothing to go by");
    assert!(why.contains("touched a page first is not known"), "{why}");
    let mut recording = summed([MAIN; 4], true);
    recording.faults.truncate(256);
    // No object joins the last MiB with the first: the nearest fault is more than a huge page away.
    let found = laid(&recording, "2x1").expect("most is known");
    assert!((74.0..76.0).contains(&found.known), "{}", found.known);
}

/// Each thread on a node of its own, and the two halves of the block on these.
fn on_two_nodes(halves: [u32; 2]) -> Recording {
    let mut recording = summed([MAIN; 4], true);
    let node = |id| NumaNode { id, cpus: vec![id], memory_bytes: 1 << 30, distances: vec![10, 21] };
    recording.run.host.numa_nodes = vec![node(0), node(1)];
    // Until behind the last burst.
    let second = Nanos(1_000_000_000);
    let later = recording.samples.clone().into_iter();
    recording.samples.extend(later.map(|one| Sample { time: one.time + second, ..one }));
    for sample in &mut recording.samples {
        sample.cpu = Some(CpuId(u32::from(sample.tid.0 == OTHER)));
    }
    let page = |(half, node): (u64, u32)| Page {
        time: Nanos(0),
        pid: Pid(PID),
        address: RemoteAddr(DATA + (2 * half + 1) * MIB),
        stands_for: Bytes(2 * MIB),
        huge: None,
        node: Some(NodeId(node)),
    };
    recording.pages = (0..).zip(halves).map(page).collect();
    recording
}

fn recorded<T>(recording: &Recording, ask: impl Fn(Result<RecordedNodes, &'static str>) -> T) -> T {
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    ask(recorded_nodes(&profile, &code))
}

#[test]
fn the_recorded_run_is_remote_by_its_pages_and_cpus() {
    let everything = &Selection::default();
    for (halves, remote) in [([0, 0], 50.0), ([0, 1], 0.0), ([1, 0], 100.0)] {
        let recording = on_two_nodes(halves);
        let ends = [0, 8].map(|burst| recording.bursts[burst].time);
        recorded(&recording, |found| {
            let found = found.expect("pages and CPUs are known");
            let all = found.remote();
            assert_eq!((all.value.map(f64::round), all.samples), (Some(remote), 16));
            assert_eq!(all.evidence, Some(Evidence::Estimated));
            // The bursts of one thread come before those of the other.
            let [start, end] = ends;
            let first = found.remote_in(everything, start, end);
            let wanted = if halves[0] == 0 { 0.0 } else { 100.0 };
            assert_eq!((first.value.map(f64::round), first.samples), (Some(wanted), 8));
            let nothing = found.remote_in(everything, start, start);
            assert!(nothing.note.is_some_and(|why| why.contains("no burst")));
        });
    }
}

#[test]
fn a_recording_says_why_its_nodes_are_not_known() {
    let why = |recording: &Recording| recorded(recording, |found| found.err());
    let mut recording = on_two_nodes([0, 0]);
    recording.pages.clear();
    assert!(why(&recording).is_some_and(|why| why.contains("was not recorded")));
    recording.run.host.numa_nodes.truncate(1);
    assert_eq!(why(&recording), Some(ONE_NODE));
}

#[test]
fn a_slower_far_load_makes_a_longer_run() {
    let exactly = |value: f64| {
        Metric::with_interval(Evidence::Estimated, value, "percent", (value, value), 9)
    };
    let mut there = Topology::parse("2x1+1").expect("a shape");
    (there.slower, there.tier_slower) = ([1.2, 1.5, 2.0], [1.5, 2.5, 4.0]);
    let time = there.elapsed(&exactly(50.0), &exactly(0.0), &exactly(40.0), 10.0);
    let near =
        |value: Option<f64>, wanted: f64| value.is_some_and(|value| (value - wanted).abs() < 1e-9);
    assert!(near(time.value, 11.0) && near(time.low, 10.4) && near(time.high, 12.0), "{time:?}");
    // Half of those are on the tier.
    let time = there.elapsed(&exactly(50.0), &exactly(25.0), &exactly(40.0), 10.0);
    assert!(near(time.value, 12.0) && near(time.low, 10.7) && near(time.high, 14.0), "{time:?}");
    let unknown = Metric::unavailable("percent", "few bursts");
    let time = there.elapsed(&exactly(50.0), &exactly(0.0), &unknown, 10.0);
    assert_eq!(time.note.as_deref(), Some("few bursts"));
}
