//! Nodes of memory and threads, in a recording written by hand.

use base::{Bytes, NodeId};
use facts::{Recording, host::NumaNode};
use testkit::recording::RecordingBuilder;

use self::bursts::{PID, layout};
use super::*;

#[path = "../../../../tests/common/mod.rs"]
mod bursts;

#[test]
fn runs_touch_the_lines_of_their_pages() {
    let lines = |start: u64, stride: i64, count: u64| {
        let mut found = Vec::new();
        for_lines(start, stride, count, |page, lines| found.push((page, lines)));
        found
    };
    assert_eq!(lines(0, 8, 8), [(0, 1)]);
    assert_eq!(lines(4096 - 64, 8, 16), [(0, 1 << 63), (1, 1)]);
    assert_eq!(lines(8192 + 4095, -8, 513), [(1, 1 << 63), (2, u64::MAX)]);
    assert_eq!(lines(0, 4096, 2), [(0, 1), (1, 1)]);
    assert_eq!(lines(64, 0, 5), [(0, 2)]);
    assert_eq!(lines(0, 64, 64 * 3), [(0, u64::MAX), (1, u64::MAX), (2, u64::MAX)]);
}

#[test]
fn the_node_is_that_of_the_nearest_page_in_the_nearest_snapshot() {
    let page = |time, address, node| Page {
        time: Nanos(time),
        pid: Pid(7),
        address: RemoteAddr(address),
        stands_for: Bytes(0x10_000),
        huge: None,
        node: Some(NodeId(node)),
    };
    let snapshots = PageSnapshots::new(&[
        page(10, 0x10_0000, 0),
        page(10, 0x11_0000, 1),
        page(90, 0x10_0000, 1),
    ]);
    let node = |address, time| snapshots.node(Pid(7), address, Nanos(time));
    assert_eq!(node(0x10_1000, 20), Some(0));
    assert_eq!(node(0x10_f000, 20), Some(1));
    assert_eq!(node(0x10_1000, 80), Some(1));
    // The later look does not know the second stretch.
    assert_eq!(node(0x11_8000, 80), Some(1));
    assert_eq!(node(0x13_0000, 80), None);
    assert_eq!(snapshots.node(Pid(8), 0x10_0000, Nanos(10)), None);
}

/// Eight bursts alike: their share is known to a few lines, what the pages without a node hide is in the interval.
#[test]
fn lines_whose_node_is_not_known_may_all_be_remote_or_none() {
    let share = |remote: f64, known: f64| {
        let found = remote_share(&[Lines { remote, known, all: 100.0 }; 8])?;
        Some([found.low, found.value, found.high].map(|one| one.unwrap()))
    };
    let [low, best, high] = share(50.0, 100.0).unwrap();
    assert!(best == 50.0 && (low + high - 100.0).abs() < 1e-9);
    let expected = [low * 0.8, best, high * 0.8 + 20.0];
    let found = share(40.0, 80.0).unwrap();
    assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9), "{found:?}");
    assert_eq!(share(40.0, 40.0), None);
    assert_eq!(remote_share(&[]).map(|one| one.value), None);
}

/// addsd xmm0,[rdi]; add rdi,64; cmp rdi,rsi; jne
const SUM: &[u8] = &[0xf2, 0x0f, 0x58, 0x07, 0x48, 0x83, 0xc7, 0x40, 0x48, 0x39, 0xf7, 0x75, 0xf3];

/// Two threads sum up the two halves of 2 MiB in each of four bursts, one on each of two nodes.
fn summed() -> Recording {
    let mut test = RecordingBuilder::new();
    let module = test.file("/home/user/program");
    let block = test.block(PID, module, 0x1000, SUM, &layout(SUM, 0x1000).to_string());
    test.code(module, 0x1000, &[("sum", "/src/program.c", 7)]);
    for (tid, start) in [(PID, 0x10_0000u64), (PID + 1, 0x20_0000)] {
        for _ in 0..4 {
            test.burst(PID, tid, &[(block, 0x10_0000 / 64, vec![start, start + 0x10_0000])]);
        }
        test.rewind(0.0).samples(PID, tid, None, 1000);
    }
    for sample in &mut test.recording.samples {
        sample.cpu = Some(base::CpuId(u32::from(sample.tid.0 != PID)));
    }
    let node = |id| NumaNode { id, cpus: vec![id], memory_bytes: 1 << 30, distances: vec![10, 21] };
    test.recording.run.host.numa_nodes = vec![node(0), node(1)];
    test.build()
}

fn figure_of(recording: &Recording, nodes: [u32; 2]) -> Result<Vec<RemoteFigure>, NotJudged> {
    let page = |(half, node): (u64, u32)| Page {
        time: Nanos(0),
        pid: Pid(PID),
        address: RemoteAddr(0x18_0000 + half * 0x10_0000),
        stands_for: Bytes(0x10_0000),
        huge: None,
        node: Some(NodeId(node)),
    };
    let pages = (0..).zip(nodes).map(page).collect();
    let recording = &Recording { pages, ..recording.clone() };
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    let objects = Objects::new(&profile);
    let id = profile.stacks.functions.iter().position(|one| one.name == "sum");
    let function = HotFunction {
        place: NamedLocation { id: id.map(FunctionId::new), ..NamedLocation::default() },
        time: Metric::counted(1.0, "s"),
        waits: Metric::counted(50.0, "percent").into(),
        of_reach: Metric::counted(0.0, "percent").into(),
        overwritten: Metric::counted(0.0, "percent").into(),
        serial: Metric::counted(0.0, "percent"),
        fitting: Metric::counted(0.0, "bytes"),
        sites: Vec::new(),
    };
    remote(&profile, &code, &objects, &[function])
}

#[test]
fn lines_on_another_node_than_the_thread_are_remote() {
    let recording = summed();
    let of = |nodes| figure_of(&recording, nodes).expect("nodes are known").remove(0);
    // One thread touched all of it first; each its own half; each the other's half.
    for (nodes, remote, fullest) in
        [([0, 0], 50.0, 100.0), ([0, 1], 0.0, 50.0), ([1, 0], 100.0, 50.0)]
    {
        let figure = of(nodes);
        let near = |value: f64, wanted: f64| (value - wanted).abs() < 1.0;
        assert!(near(figure.remote.value.expect("a share"), remote), "{figure:?}");
        assert!(near(figure.fullest, fullest), "{figure:?}");
        assert_eq!(figure.remote.samples, 8);
    }
    assert!(of([0, 0]).remote.low > Some(15.0) && of([1, 0]).remote.low > Some(60.0));
}

#[test]
fn a_machine_with_one_node_has_no_remote_memory() {
    let mut recording = summed();
    recording.run.host.numa_nodes.truncate(1);
    assert_eq!(figure_of(&recording, [0, 0]), Ok(Vec::new()));
}

#[test]
fn a_recording_without_nodes_cannot_tell() {
    let recording = summed();
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let found = remote(&profile, &code, &Objects::new(&profile), &[]);
    assert!(found.is_err_and(|why| why.text().contains("was not recorded")));
}
