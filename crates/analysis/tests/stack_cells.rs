//! Cells of call stacks against a recording written by hand: every sample is in one cell, under its own stack.

use analysis::objects::Objects;
use analysis::stack_cells::{StackFigure, stack_cells};
use analysis::{Filter, Profile, Selection};
use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, Tid};
use facts::{Allocation, AllocationCall, FaultKind, MarkedPass, MarkedRegion};
use testkit::recording::RecordingBuilder;

#[test]
fn every_sample_is_in_one_cell_under_its_stack() {
    let mut builder = RecordingBuilder::new();
    let program = builder.file("/bin/program");
    let inner = builder.code(program, 16, &[("inlined", "a.c", 3), ("inner", "a.c", 7)]);
    let main = builder.code(program, 32, &[("main", "a.c", 20)]);
    builder.thread(1, 1, "program", 0.0, 1.28).thread(1, 2, "worker", 0.0, 1.28);
    let deep = builder.stack(&[inner, main]);
    let flat = builder.stack(&[main]);
    builder.samples(1, 1, deep, 600).kernel_samples(1, 1, flat, 40).samples(1, 2, None, 60);
    builder.faults((1, 2), flat, FaultKind::Minor, 3, 8, 0.5);
    builder.recording.run.elapsed_ns = 1_280_000_000;
    let recording = builder.build();
    let profile = Profile::new(&recording);
    let objects = Objects::new(&profile);

    let found = stack_cells(&profile, &objects, &Selection::default(), None);
    let names: Vec<(Option<u32>, &str)> = found
        .nodes
        .iter()
        .map(|node| (node.parent, profile.stacks.function_of(node.place).name.as_str()))
        .collect();
    let under = |name: &str, parent: Option<u32>| {
        names.iter().position(|node| *node == (parent, name)).map(|at| at as u32)
    };
    let main = under("main", None).expect("the outermost frame");
    let inner = under("inner", Some(main)).expect("called by main");
    let inlined = under("inlined", Some(inner)).expect("inlined into inner");
    let [time, faults] = found.figures.as_slice() else { panic!("two figures were seen") };
    assert_eq!((time.figure, time.records, time.left_out), (StackFigure::CpuTime, 700, 0.0));
    let sum = |node: u32, kernel: bool| -> f64 {
        let cells = time.cells.iter().filter(|cell| (cell.node, cell.kernel) == (node, kernel));
        cells.map(|cell| cell.amount).sum()
    };
    assert_eq!((sum(inlined, false), sum(main, true), sum(main, false)), (600e6, 40e6, 0.0));
    assert_eq!(time.whole, 700e6);
    // 1.28 s in 128 bins: ten samples of 1 ms in each.
    assert_eq!(time.bin.0, 10_000_000);
    assert!(time.cells.iter().all(|cell| cell.amount <= 10e6));
    assert_eq!(time.lanes.iter().map(|cell| cell.amount).sum::<f64>(), 700e6);
    assert_eq!((faults.figure, faults.whole), (StackFigure::PageFaults, 24.0));
    assert_eq!(faults.cells.len(), 1);

    let late = Selection::resolve(&profile, &[Filter::Time { start: 0.5, end: 2.0 }]);
    let found = stack_cells(&profile, &objects, &late.expect("a time"), None);
    assert_eq!(found.figures[0].whole, 201e6);
    // Intervals are of shares of the whole recording: what is behind it does not depend on what is chosen.
    let all = found.figures[0].all;
    assert_eq!((found.figures[0].records, all.amount, all.effective), (201, 700e6, 700.0));
}

#[test]
fn of_an_object_there_are_its_blocks_and_no_samples() {
    let mut builder = RecordingBuilder::new();
    let program = builder.file("/bin/program");
    let codes = [("make_list", 16), ("make_table", 32)]
        .map(|(name, offset)| builder.code(program, offset, &[(name, "a.c", 3)]));
    builder.thread(1, 1, "program", 0.0, 1.0);
    for (at, code) in codes.into_iter().enumerate() {
        let stack = builder.stack(&[code]);
        builder.samples(1, 1, stack, 100);
        builder.recording.allocations.push(Allocation {
            id: AllocationId(at as u32),
            time: Nanos(1_000_000),
            pid: Pid(1),
            tid: Tid(1),
            address: RemoteAddr(0x10_0000 * (at as u64 + 1)),
            size: Bytes(4096),
            call: AllocationCall::Malloc,
            stack,
            sample_every: Bytes(0),
        });
    }
    let recording = builder.build();
    let profile = Profile::new(&recording);
    let objects = Objects::new(&profile);
    let wanted = [Filter::Object("make_table".into())];
    let mut selection = Selection::resolve(&profile, &wanted).expect("no other filter");
    selection.choose_objects(&objects, &wanted).expect("an object of this name");
    let found = stack_cells(&profile, &objects, &selection, None);
    let figures: Vec<_> = found.figures.iter().map(|one| (one.figure, one.whole)).collect();
    let expected = [(StackFigure::Allocations, 1.0), (StackFigure::AllocatedBytes, 4096.0)];
    assert_eq!(figures, expected);
}

#[test]
fn blocks_with_a_record_each_are_apart_from_those_drawn() {
    let mut builder = RecordingBuilder::new();
    let program = builder.file("/bin/program");
    let code = builder.code(program, 16, &[("grow", "a.c", 3)]);
    builder.thread(1, 1, "program", 0.0, 1.0);
    let stack = builder.stack(&[code]);
    // A large block, and of small ones two that were drawn: each stands for 524,288 bytes, nearly.
    for (at, size, every) in [(0, 1 << 30, 0), (1, 64, 524_288), (2, 64, 524_288)] {
        builder.recording.allocations.push(Allocation {
            id: AllocationId(at),
            time: Nanos(1_000_000),
            pid: Pid(1),
            tid: Tid(1),
            address: RemoteAddr(0x1_0000_0000 * (u64::from(at) + 1)),
            size: Bytes(size),
            call: AllocationCall::Malloc,
            stack,
            sample_every: Bytes(every),
        });
    }
    let recording = builder.build();
    let profile = Profile::new(&recording);
    let objects = Objects::new(&profile);
    let found = stack_cells(&profile, &objects, &Selection::default(), None);
    let bytes = found.figures.iter().find(|one| one.figure == StackFigure::AllocatedBytes);
    let all = bytes.expect("allocated bytes").all;
    assert_eq!(all.sure, f64::from(1 << 30));
    assert!((all.drawn - 2.0).abs() < 1e-9 && !all.alone, "{all:?}");
    assert!((all.amount - all.sure - 1_048_576.0).abs() < 100.0, "{all:?}");
}

#[test]
fn a_sample_is_of_the_innermost_region_of_its_thread() {
    let mut builder = RecordingBuilder::new();
    builder.thread(1, 1, "program", 0.0, 1.0).thread(1, 2, "worker", 0.0, 1.0);
    builder.samples(1, 1, None, 1000).rewind(0.0).samples(1, 2, None, 1000);
    builder.recording.run.elapsed_ns = 1_000_000_000;
    for (region, name, from, to, depth) in [(0, "outer", 100, 600, 0), (1, "inner", 200, 300, 1)] {
        let millisecond = |time: u64| Nanos(time * 1_000_000);
        let inside = millisecond(to - from);
        let name = name.to_owned();
        builder.recording.marked_regions.push(MarkedRegion { id: region, name, domain: None });
        builder.recording.marked_passes.push(MarkedPass {
            time: millisecond(from),
            span: inside,
            region,
            pid: Pid(1),
            tid: Tid(1),
            depth,
            passes: 1,
            inside,
            own: millisecond(if region == 0 { 400 } else { 100 }),
        });
    }
    let recording = builder.build();
    let profile = Profile::new(&recording);
    let selection = Selection::default();
    let regions = selection.by_region(&profile, 10);
    let found = stack_cells(&profile, &Objects::new(&profile), &selection, Some(&regions));
    let sum = |name: Option<&str>| -> f64 {
        let part = regions.parts.iter().position(|(region, _)| region.as_deref() == name);
        let cells = found.figures[0].cells.iter();
        let mine = cells.filter(|cell| cell.part.map(|part| part as usize) == part);
        mine.map(|cell| cell.amount).sum()
    };
    // The other thread is in no region.
    assert_eq!((sum(Some("outer")), sum(Some("inner")), sum(None)), (400e6, 100e6, 1500e6));
}

#[test]
fn nothing_seen_is_no_figure() {
    let recording = facts::Recording::default();
    let profile = Profile::new(&recording);
    let found = stack_cells(&profile, &Objects::new(&profile), &Selection::default(), None);
    assert!(found.nodes.is_empty() && found.figures.is_empty());
}
