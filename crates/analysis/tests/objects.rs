//! Memory objects: what is told apart sums up to the whole, and each object has its own part of it.

mod common;

use analysis::memory::{Memory, PartRow};
use analysis::objects::{Grouping, Objects, Pieces, object_table};
use analysis::{Key, Profile, Selection, TracedCode};
use base::{Bytes, ModuleId, Nanos, Pid, RemoteAddr};
use facts::{CounterKind, Global, Metric, Recording};

use common::{PID, Test};

// movsd xmm0,[rdx+rax*8]; mulsd xmm0,xmm1; addsd xmm0,[rsi+rax*8]; movsd [rdi+rax*8],xmm0; add rax,1; cmp rax,rcx; jne
const TRIAD: &[u8] = &[
    0xf2, 0x0f, 0x10, 0x04, 0xc2, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x58, 0x04, 0xc6, 0xf2, 0x0f,
    0x11, 0x04, 0xc7, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x75, 0xe4,
];
const TURNS: u64 = 300_000;
/// The first array ends in the middle of each burst's stretch.
const HALF: u64 = 0x1_0000_0000 + 8 * 150_000;

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
    for _ in 0..6 {
        let values = vec![0, array(0), array(1), array(2), TURNS];
        test.builder.burst(PID, PID, &[(block, TURNS, values)]);
    }
    test.builder.counter(CounterKind::TaskClock, 1_000_000_000);
    test.builder.recording.run.elapsed_ns = 1_000_000_000;
    let globals = [
        global("lower", array(0), HALF - array(0)),
        global("upper", HALF, 1 << 24),
        global("other", array(1), 1 << 24),
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
    let table = object_table(&grouping, &memory);
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
fn pieces_sum_up_to_the_same() {
    for (pieces, key) in [(Pieces::Lines, Key::CacheLine), (Pieces::Offsets, Key::Offset)] {
        let (rows, whole) = rows(pieces, &[Key::Object, key]);
        let of_other = rows.iter().filter(|(name, _)| name == "other");
        let loads: f64 = of_other.clone().map(|(_, row)| value(&row.loads)).sum();
        near(loads, whole[2] / 2.0);
        // 16 MiB in 1024 pieces, of which the loop goes through the first 2.4 MB.
        assert_eq!(of_other.count(), (TURNS as usize * 8).div_ceil(16 << 10));
        near(rows.iter().map(|(_, row)| value(&row.read)).sum(), whole[0]);
    }
}
