//! Clock samples with registers: whose data they waited for, by hand.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use analysis::objects::{Grouping, Objects};
use analysis::stalls::{ObjectsOfSites, StallRow, StallRows, Stalls, stall_rows};
use analysis::{Key, Profile, Selection, SiteName, TracedCode};
use base::{Bytes, CodeAddress, CpuId, FileOffset, ModuleId, Nanos, NodeId, Pid, RemoteAddr};
use common::{PID, registers};
use facts::host::{Calibration, NumaNode, SampleDistance};
use facts::{
    CounterKind, Evidence, GENERAL_REGISTERS, Global, Metric, Page, Recording, RegisterEncoder,
    SampledCode, SampledPlace, SampledState,
};
use testkit::recording::{CODE_BASE, RecordingBuilder};

const START: u64 = 0x1000;
/// 1000 mov rax,[rdi+rcx*8]; 1004 add rcx,1; 1008 add rbx,[rsi+rcx*8]; 100c cmp rcx,rdx; 100f jne 1000; 1011 ret
const TWO: &[u8] = &[
    0x48, 0x8b, 0x04, 0xcf, 0x48, 0x83, 0xc1, 0x01, 0x48, 0x03, 0x1c, 0xce, 0x48, 0x39, 0xd1, 0x75,
    0xef, 0xc3,
];
/// 1000 mov rdi,[rdi+8]; 1004 test rdi,rdi; 1007 jne 1000; 1009 ret
const CHASE: &[u8] = &[0x48, 0x8b, 0x7f, 0x08, 0x48, 0x85, 0xff, 0x75, 0xf7, 0xc3];
/// 1000 mov rax,[rdi]; 1003 mov [rsi],rax; 1006 div rcx; 1009 jmp 1000
const MIXED: &[u8] = &[0x48, 0x8b, 0x07, 0x48, 0x89, 0x06, 0x48, 0xf7, 0xf1, 0xeb, 0xf5];

const A: u64 = 0x1_0000_0000;
const B: u64 = 0x2_0000_0000;

/// Where samples stand, how many, and the registers by number.
type Stand<'a> = (u64, u64, &'a [(usize, u64)]);

fn global(name: &str, start: u64) -> Global {
    Global {
        time: Nanos(0),
        pid: Pid(PID),
        module: ModuleId(0),
        start: RemoteAddr(start),
        bytes: Bytes(1 << 20),
        name: name.into(),
    }
}

fn calibration() -> Calibration {
    let percent = |value| Metric::counted(value, "percent");
    let one_behind = |kind: &str| SampleDistance {
        kind: kind.to_owned(),
        percent: [1.0, 90.0, 2.0, 0.0].map(percent).to_vec(),
    };
    let kinds = ["load", "load-op", "atomic", "store", "division"];
    Calibration { sample_distances: kinds.map(one_behind).to_vec(), ..Calibration::default() }
}

fn recording(code: &[u8], stands: &[Stand<'_>]) -> Recording {
    let mut builder = RecordingBuilder::new();
    let module = builder.file("/home/user/program");
    let mut encoder = RegisterEncoder::default();
    let mut all = 0;
    for (offset, count, values) in stands {
        let at = builder.code(module, *offset, &[("loop", "/src/program.c", 1)]);
        let stack = builder.stack(&[at]);
        let first = builder.recording.samples.len();
        builder.samples(PID, PID, stack, *count);
        all += count;
        let place = SampledPlace {
            module,
            offset: FileOffset(*offset),
            address: RemoteAddr(CODE_BASE + offset),
            registers: u16::MAX,
            slots: Vec::new(),
            frame: facts::SampledFrame::Own,
        };
        let mut registers = [0; GENERAL_REGISTERS];
        values.iter().for_each(|(number, value)| registers[*number] = *value);
        for sample in &builder.recording.samples[first..] {
            encoder.push(&SampledState {
                time: sample.time,
                cpu_time: None,
                place: &place,
                registers: &registers,
                slots: &[],
            });
        }
    }
    builder.counter(CounterKind::TaskClock, all * 1_000_000);
    let recording = &mut builder.recording;
    recording.run.calibration = Some(calibration());
    recording.globals.extend([global("a", A), global("b", B)]);
    recording.sample_registers.push(registers(encoder));
    recording.sampled_code.push(sampled(module, code));
    builder.build()
}

fn sampled(module: ModuleId, code: &[u8]) -> SampledCode {
    SampledCode { module, offset: FileOffset(START), bytes: code.to_vec() }
}

/// The first access of an instruction.
fn site(offset: u64) -> SiteName {
    SiteName { instruction: CodeAddress::new(ModuleId(0), FileOffset(offset)), number: 0 }
}

struct Found {
    rows: BTreeMap<String, StallRow>,
    all: StallRows,
    stalls: Stalls,
    seconds: BTreeMap<String, Metric>,
}

fn found(recording: &Recording, seen: &ObjectsOfSites) -> Found {
    let code = TracedCode::default();
    let profile = Profile::with_addresses(recording, code.addresses());
    let objects = Objects::new(&profile);
    let stalls = Stalls::new(&profile);
    let (selection, keys) = (&Selection::default(), &[Key::Object]);
    let (profile, code, objects) = (&profile, &code, &objects);
    let grouping = Grouping { profile, code, objects, selection, keys };
    let all = stall_rows(&grouping, &stalls, seen);
    let name = |object: Option<analysis::objects::ObjectId>| {
        objects.get(object.expect("by object")).name.clone()
    };
    let rows = all.rows.iter().map(|(key, row)| (name(key.object), *row)).collect();
    let scale = profile.cpu_scale();
    let seconds = all.rows.iter();
    let seconds = seconds
        .map(|(key, row)| (name(key.object), row.metric(&scale, "s", &stalls.totals.among)))
        .collect();
    Found { rows, all, stalls, seconds }
}

fn of(stands: &[Stand<'_>], code: &[u8]) -> Found {
    found(&recording(code, stands), &ObjectsOfSites::new())
}

fn near(value: f64, truth: f64) {
    assert!((value - truth).abs() < 1e-9, "{value} instead of {truth}");
}

const RCX: usize = 1;
const RSI: usize = 6;
const RDI: usize = 7;

/// 60 behind the load of a, 30 behind the addition of b, 10 where nothing is waited for: of three such places.
fn two() -> [Stand<'static>; 3] {
    [
        (0x1004, 60, &[(RDI, A), (RCX, 7), (RSI, B)]),
        (0x100c, 30, &[(RDI, A), (RCX, 8), (RSI, B)]),
        (0x100f, 10, &[(RDI, A), (RCX, 8), (RSI, B)]),
    ]
}

#[test]
fn time_goes_to_the_objects_of_the_addresses_less_what_stands_anywhere() {
    let found = of(&two(), TWO);
    assert_eq!(found.rows.keys().collect::<Vec<_>>(), ["a", "b"]);
    let (a, b) = (&found.seconds["a"], &found.seconds["b"]);
    near(a.value.expect("known"), (60.0 - 10.0 / 3.0) / 1000.0);
    near(b.value.expect("known"), (30.0 - 10.0 / 3.0) / 1000.0);
    assert_eq!((a.evidence, a.samples), (Some(Evidence::Sampled), 60));
    // What stands anywhere stays in the upper end.
    assert!(a.low < a.value && a.high > Some(0.060), "{a:?}");
    let totals = found.stalls.totals;
    assert_eq!((totals.waiting.records(), totals.addressed.records()), (90, 90));
    assert_eq!((totals.shared.records(), totals.unknown.records()), (0, 0));
    assert_eq!(found.stalls.uncalibrated, []);
}

#[test]
fn evenly_spread_samples_wait_for_nothing() {
    let values: &[(usize, u64)] = &[(RDI, A), (RSI, B)];
    let everywhere = [0x1000, 0x1004, 0x1008, 0x100c, 0x100f].map(|at| (at, 20, values));
    let found = of(&everywhere, TWO);
    near(found.seconds["a"].value.expect("known"), 0.0);
    near(found.seconds["a"].low.expect("known"), 0.0);
    assert!(found.seconds["a"].high > Some(0.020));
}

#[test]
fn without_calibration_both_candidates_share_and_divisions_are_no_memory() {
    let stands: [Stand<'_>; 2] = [(0x1003, 40, &[(RDI, A), (RSI, B)]), (0x1009, 20, &[])];
    let mut one = recording(MIXED, &stands);
    one.run.calibration = None;
    let found = found(&one, &ObjectsOfSites::new());
    assert_eq!(found.stalls.uncalibrated.len(), 5);
    assert_eq!(found.rows["a"].stood.amount(), 20_000_000);
    assert_eq!(found.rows["b"].stood.amount(), 20_000_000);
    assert_eq!(found.stalls.totals.shared.records(), 40);
    assert_eq!(found.stalls.totals.dividing.records(), 20);
    // Calibrated, the sample at the store waited for the load.
    let found = of(&stands, MIXED);
    assert_eq!((found.rows.len(), found.rows["a"].stood.amount()), (1, 40_000_000));
}

#[test]
fn a_chase_is_named_by_bursts_else_by_its_next_address() {
    let stands: [Stand<'_>; 1] = [(0x1004, 50, &[(RDI, A + 64)])];
    let next = of(&stands, CHASE);
    assert_eq!(next.rows.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(next.all.by_neighbour.stood.records(), 50);

    let one = recording(CHASE, &stands);
    let profile = Profile::new(&one);
    let objects = Objects::new(&profile);
    let b = objects.at(Pid(PID), RemoteAddr(B), Nanos(1)).0;
    let seen = BTreeMap::from([(site(START), BTreeSet::from([b]))]);
    let named = found(&one, &seen);
    assert_eq!(named.rows.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(named.all.by_bursts.stood.records(), 50);

    let nowhere = of(&[(0x1004, 50, &[(RDI, 0)])], CHASE);
    assert!(nowhere.rows.is_empty());
    assert_eq!(nowhere.all.lost.stood.records(), 50);
}

#[test]
fn bursts_that_say_otherwise_are_heard() {
    let one = recording(TWO, &two());
    let profile = Profile::new(&one);
    let objects = Objects::new(&profile);
    let b = objects.at(Pid(PID), RemoteAddr(B), Nanos(1)).0;
    let seen = [0x1000, 0x1008].map(|at| (site(at), BTreeSet::from([b])));
    let found = found(&one, &BTreeMap::from(seen));
    assert_eq!(found.all.compared.stood.records(), 90);
    assert_eq!(found.all.disagree.stood.records(), 60);
    assert_eq!(found.rows["a"].stood.records(), 60, "the address is what was sampled");
}

#[test]
fn pages_of_another_node_are_remote() {
    let mut one = recording(TWO, &two());
    let node = |id, cpus| NumaNode { id, cpus, memory_bytes: 1 << 30, distances: vec![10, 20] };
    one.run.host.page_bytes = 4096;
    one.run.host.numa_nodes = vec![node(0, vec![0]), node(1, vec![1])];
    let page = |address, node| Page {
        time: Nanos(0),
        pid: Pid(PID),
        address: RemoteAddr(address),
        stands_for: Bytes(4096),
        huge: Some(false),
        node: Some(NodeId(node)),
    };
    one.pages.extend([page(A, 1), page(B, 0)]);
    one.samples.iter_mut().for_each(|sample| sample.cpu = Some(CpuId(0)));
    let found = found(&one, &ObjectsOfSites::new());
    let remote = |name: &str| found.rows[name].remote_percent(2).value;
    assert_eq!((remote("a"), remote("b")), (Some(100.0), Some(0.0)));
    assert_eq!(found.rows["a"].remote_percent(1).value, None);
}

#[test]
fn damaged_registers_are_counted_and_code_that_is_not_known_is_said() {
    let mut one = recording(TWO, &two());
    one.sample_registers[0].bytes.truncate(40);
    assert_eq!(found(&one, &ObjectsOfSites::new()).stalls.totals.damaged, 1);
    let mut one = recording(TWO, &two());
    one.sampled_code[0].bytes.clear();
    let nothing = found(&one, &ObjectsOfSites::new());
    assert_eq!((nothing.rows.len(), nothing.stalls.totals.unknown.records()), (0, 100));
    let mut one = recording(TWO, &two());
    one.sampled_code.clear();
    assert!(found(&one, &ObjectsOfSites::new()).stalls.missing().is_some());
    let mut one = recording(TWO, &two());
    one.sample_registers.clear();
    assert!(found(&one, &ObjectsOfSites::new()).stalls.missing().is_some());
}
