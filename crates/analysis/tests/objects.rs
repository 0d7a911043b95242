//! Memory objects: they add up to the whole, and each object has its own part of it.

mod common;

use std::borrow::Cow;
use std::sync::Arc;

use analysis::accesses::{accesses, accesses_of_objects};
use analysis::memory::{Memory, PartRow, Replayed};
use analysis::objects::{Grouping, ObjectKind, Objects, Pieces, estimated_shares, object_table};
use analysis::sharing::{SharedLines, sharing};
use analysis::stalls::Stalls;
use analysis::{Key, Profile, Selection, TracedCode};
use base::{AllocationId, Bytes, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, Tid};
use facts::{
    Allocation, AllocationCall, CounterKind, Global, Metric, ModuleKind, Recording, Region,
    RegionKind,
};

use common::{PID, Test};

// movsd xmm0,[rdx+rax*8]; mulsd xmm0,xmm1; addsd xmm0,[rsi+rax*8]; movsd [rdi+rax*8],xmm0; add rax,1; cmp rax,rcx; jne
const TRIAD: &[u8] = &[
    0xf2, 0x0f, 0x10, 0x04, 0xc2, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x58, 0x04, 0xc6, 0xf2, 0x0f,
    0x11, 0x04, 0xc7, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x75, 0xe4,
];
const TURNS: u64 = 300_000;
const BURSTS: u64 = 11;
/// The first array ends in the middle of what the bursts go through.
const HALF: u64 = 0x1_0000_0000 + 8 * TURNS * BURSTS / 2;

fn global(name: &str, start: u64, bytes: u64) -> Global {
    Global {
        time: Nanos(0),
        pid: Pid(PID),
        module: ModuleId(0),
        start: RemoteAddr(start),
        bytes: Bytes(bytes),
        name: name.into(),
    }
}

/// Loads from `lower` and `upper`, which are neighbours, and from `other`; stores to what has no name.
fn recording() -> Recording {
    let mut test = Test::new();
    let block = test.block(0x1000, TRIAD);
    let array = |number: u64| 0x1_0000_0000 + number * 0x1000_0000;
    for number in 0..BURSTS {
        let start = number * TURNS;
        let values = vec![start, array(0), array(1), array(2), start + TURNS];
        test.builder.burst(PID, PID, &[(block, TURNS, values)]);
    }
    test.builder.counter(CounterKind::TaskClock, 1_000_000_000);
    test.builder.recording.run.elapsed_ns = 1_000_000_000;
    let globals = [
        global("lower", array(0), HALF - array(0)),
        global("upper", HALF, 1 << 26),
        global("other", array(1), 1 << 26),
    ];
    test.builder.recording.globals.extend(globals);
    test.builder.build()
}

fn value(metric: &Metric) -> f64 {
    metric.value.expect("a value")
}

fn near(value: f64, truth: f64) {
    assert!((value / truth - 1.0).abs() < 1e-9, "{value} instead of {truth}");
}

fn shared(grouping: &Grouping<'_>) -> Cow<'static, SharedLines> {
    Cow::Owned(sharing(grouping.profile, grouping.code, grouping.selection))
}

/// Rows by object, with names, and those of the whole program: read, written, loads, stores.
fn rows(pieces: Pieces, keys: &[Key]) -> (Vec<(String, PartRow)>, [f64; 4]) {
    let recording = recording();
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let objects = Objects::new(&profile);
    let selection = Selection::default();
    let grouping =
        Grouping { profile: &profile, code: &code, objects: &objects, selection: &selection, keys };
    let memory = Memory::with_objects(&profile, &code, &objects, pieces);
    let name = |row: PartRow| (objects.get(row.key.object.expect("by object")).name.clone(), row);
    let rows = memory.part_rows(&grouping).expect("rows").into_iter().map(name).collect();
    let whole = Memory::new(&profile, &code).rows(&selection, &[Key::Module]).expect("rows");
    let whole = [&whole[0].read, &whole[0].write, &whole[0].loads, &whole[0].stores].map(value);
    let table = object_table(
        &grouping,
        accesses_of_objects(&grouping),
        &memory,
        &Stalls::new(&profile),
        || shared(&grouping),
        estimated_shares(&grouping),
    );
    let share = |row: &analysis::objects::ObjectRow| {
        row.accesses.as_ref().map_or(0.0, |row| value(&row.share))
    };
    near(table.rows.values().map(share).sum(), 100.0);
    (rows, whole)
}

#[test]
fn objects_sum_up_to_the_program_and_a_loop_is_cut_where_one_ends() {
    let (rows, whole) = rows(Pieces::Whole, &[Key::Object]);
    let of = |name: &str| &rows.iter().find(|(one, _)| one == name).expect("a row").1;
    let sum = |part: fn(&PartRow) -> &Metric| rows.iter().map(|(_, row)| value(part(row))).sum();
    near(sum(|row| &row.read), whole[0]);
    near(sum(|row| &row.write), whole[1]);
    near(sum(|row| &row.loads), whole[2]);
    near(sum(|row| &row.stores), whole[3]);
    // Half of the loads are of `other`; the rest is split where `lower` ends.
    near(value(&of("other").loads), whole[2] / 2.0);
    near(value(&of("lower").loads), whole[2] / 4.0);
    near(value(&of("upper").loads), whole[2] / 4.0);
    near(value(&of("unknown addresses").stores), whole[3]);
    assert_eq!(value(&of("other").stores), 0.0);
    // A quarter of what is read; a third of it is read for the stores.
    assert!((value(&of("lower").read) / whole[0] - 1.0 / 6.0).abs() < 0.01);
}

#[test]
fn accesses_by_several_keys_at_once_are_those_by_each() {
    let recording = recording();
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let (objects, selection) = (Objects::new(&profile), Selection::default());
    let keys = [
        vec![Key::Object],
        vec![Key::Function],
        vec![Key::Object, Key::SourceLine],
        vec![],
        vec![Key::Function, Key::Object],
    ];
    let replayed = Replayed::new(&profile, &code, &objects, Pieces::Whole, Some(&keys));
    let memory = Memory::of(&profile, &code, Arc::new(replayed));
    assert_eq!(memory.known_by(&[Key::Module]), None);
    for keys in &keys {
        let together = memory.known_by(keys).expect("read along");
        let (profile, code, objects, selection) = (&profile, &code, &objects, &selection);
        let alone = match keys.contains(&Key::Object) {
            true => accesses_of_objects(&Grouping { profile, code, objects, selection, keys }),
            false => (accesses(profile, code, selection, keys), Vec::new()),
        };
        assert!(!alone.0.rows.is_empty());
        assert_eq!(together, alone, "{keys:?}");
    }
}

/// Rows of code by object are those of objects, with levels; by code alone they are those of code.
#[test]
fn rows_of_code_are_split_by_object() {
    let recording = recording();
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let objects = Objects::new(&profile);
    let selection = Selection::default();
    let memory = Memory::with_objects(&profile, &code, &objects, Pieces::Whole);
    let grouping = |keys| Grouping {
        profile: &profile,
        code: &code,
        objects: &objects,
        selection: &selection,
        keys,
    };
    let by_object = memory.rows_of_objects(&grouping(&[Key::Object])).expect("rows");
    let parts = memory.part_rows(&grouping(&[Key::Object])).expect("rows");
    assert_eq!(by_object.len(), parts.len());
    for (row, part) in by_object.iter().zip(&parts) {
        assert_eq!((row.key, &row.read, &row.loads), (part.key, &part.read, &part.loads));
        let levels = [&row.levels.l1, &row.levels.l2, &row.levels.l3, &row.levels.dram];
        if value(&row.loads) > 0.0 {
            near(levels.map(value).iter().sum(), 100.0);
        }
    }
    let by_code = memory.rows_of_objects(&grouping(&[Key::Function])).expect("rows");
    let code_alone = memory.rows(&selection, &[Key::Function]).expect("rows");
    for (row, alone) in by_code.iter().zip(&code_alone) {
        near(value(&row.read), value(&alone.read));
        if value(&row.loads) > 0.0 {
            near(value(&row.levels.l1), value(&alone.levels.l1));
        }
        assert_eq!(row.place, alone.place);
    }
}

#[test]
fn pieces_sum_up_to_the_same() {
    for (pieces, key) in [(Pieces::Lines, Key::CacheLine), (Pieces::Offsets, Key::Offset)] {
        let (rows, whole) = rows(pieces, &[Key::Object, key]);
        let of_other = rows.iter().filter(|(name, _)| name == "other");
        let loads: f64 = of_other.clone().map(|(_, row)| value(&row.loads)).sum();
        near(loads, whole[2] / 2.0);
        // 64 MiB in 1024 pieces, of which the bursts go through the first 26.4 MB.
        assert_eq!(of_other.count() as u64, (BURSTS * TURNS * 8).div_ceil(64 << 10));
        near(rows.iter().map(|(_, row)| value(&row.read)).sum(), whole[0]);
    }
}

// mov rax,[rax]; dec rcx; jne
const CHASE: &[u8] = &[0x48, 0x8b, 0x00, 0x48, 0xff, 0xc9, 0x75, 0xf8];

/// Of 64-byte blocks that were drawn with p = 1 - exp(-64 / 128), four are recorded; ten accesses to each, a hundred to others.
#[test]
fn drawn_blocks_speak_for_those_without_a_record() {
    let mut test = Test::new();
    let block = test.block(0x2000, CHASE);
    let mut records = Vec::new();
    for visit in 0..40 {
        records.push((block, 1, vec![0x1000_0000 + visit % 4 * 1024]));
    }
    for visit in 0..100 {
        records.push((block, 1, vec![0x1000_0000 + 512 + visit % 8 * 1024]));
    }
    test.builder.burst(PID, PID, &records);
    test.builder.counter(CounterKind::TaskClock, 1_000_000_000);
    test.builder.recording.run.elapsed_ns = 1_000_000_000;
    for number in 0..4u32 {
        test.builder.recording.allocations.push(Allocation {
            id: AllocationId(number),
            time: Nanos(0),
            pid: Pid(PID),
            tid: Tid(PID),
            address: RemoteAddr(0x1000_0000 + u64::from(number) * 1024),
            size: Bytes(64),
            call: AllocationCall::Malloc,
            stack: None,
            sample_every: Bytes(128),
        });
    }
    test.builder.recording.regions.push(Region {
        time: Nanos(0),
        pid: Pid(PID),
        tid: None,
        start: RemoteAddr(0x1000_0000),
        bytes: Bytes(1 << 20),
        kind: RegionKind::Break,
        name: "[heap]".into(),
        file_offset: FileOffset(0),
        page: None,
        stack: None,
    });
    let recording = test.builder.build();
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let objects = Objects::new(&profile);
    let (profile, code, objects) = (&profile, &code, &objects);
    let (selection, keys) = (&Selection::default(), &[Key::Object]);
    let grouping = Grouping { profile, code, objects, selection, keys };
    let memory = Memory::with_objects(profile, code, objects, Pieces::Whole);
    let table = object_table(
        &grouping,
        accesses_of_objects(&grouping),
        &memory,
        &Stalls::new(profile),
        || shared(&grouping),
        estimated_shares(&grouping),
    );
    let kinds: Vec<ObjectKind> = objects.all().iter().map(|object| object.kind).collect();
    assert_eq!(kinds, [ObjectKind::Unknown, ObjectKind::Heap, ObjectKind::SmallBlocks]);
    let [share] = &table.with_unrecorded.values().collect::<Vec<_>>()[..] else {
        panic!("one object has drawn blocks")
    };
    let weight = 1.0 / (1.0 - (-0.5f64).exp());
    near(value(share), 40.0 * weight / 140.0 * 100.0);
    // No less than what was seen; the scatter reaches beyond all there is.
    near(share.low.expect("low"), 40.0 / 140.0 * 100.0);
    near(share.high.expect("high"), 100.0);
}

/// An array of NumPy is of the Python function that made it, by what it called; with memory of Python's own that says nothing.
#[test]
fn arrays_are_of_their_python_functions() {
    let mut test = Test::new();
    let b = &mut test.builder;
    let (numpy, python) =
        (b.file("/lib/_multiarray_umath.so"), b.file("/lib/libpython3.13.so.1.0"));
    let anonymous = b.module(ModuleKind::Anonymous { pid: Pid(PID) }, "[anon]");
    let inside = b.code(numpy, 0x10, &[("PyDataMem_UserNEW", "", 0)]);
    let zeros = b.code(numpy, 0x20, &[("array_zeros", "", 0)]);
    let evaluate = b.code(python, 0x10, &[("_PyEval_EvalFrameDefault", "/p/ceval.c", 9)]);
    let arena = b.code(python, 0x20, &[("new_arena", "/p/obmalloc.c", 7)]);
    let script = b.code(anonymous, 0x10, &[("py::<module>", "/home/u/x.py", 0)]);
    let solve = b.code(anonymous, 0x20, &[("py::Grid.solve", "/home/u/x.py", 0)]);
    let stacks = [
        b.stack(&[inside, zeros, evaluate, script, evaluate]),
        b.stack(&[inside, zeros, evaluate, solve, evaluate, script]),
        b.stack(&[inside, zeros, evaluate]),
    ];
    let arena = b.stack(&[arena, evaluate, solve]);
    for (number, stack) in (0..).zip(stacks) {
        b.recording.allocations.push(Allocation {
            id: AllocationId(number),
            time: Nanos(0),
            pid: Pid(PID),
            tid: Tid(PID),
            address: RemoteAddr(0x1000_0000 + u64::from(number) * 0x10_0000),
            size: Bytes(0x10_0000),
            call: AllocationCall::Calloc,
            stack,
            sample_every: Bytes(1),
        });
    }
    b.recording.regions.push(Region {
        time: Nanos(0),
        pid: Pid(PID),
        tid: None,
        start: RemoteAddr(0x2000_0000),
        bytes: Bytes(1 << 20),
        kind: RegionKind::Anonymous,
        name: String::new(),
        file_offset: FileOffset(0),
        page: None,
        stack: arena,
    });
    let recording = test.builder.build();
    let objects = Objects::new(&Profile::new(&recording));
    let name = |address| {
        let (object, _) = objects.at(Pid(PID), RemoteAddr(address), Nanos(1));
        objects.get(object).name.as_str()
    };
    assert_eq!(name(0x1000_0000), "array_zeros in py::<module> x.py");
    assert_eq!(name(0x1010_0000), "array_zeros in py::Grid.solve x.py");
    assert_eq!(name(0x1020_0000), "array_zeros");
    assert_eq!(name(0x2000_0000), "new_arena obmalloc.c:7");
}
