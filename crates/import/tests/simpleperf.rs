//! Recordings of simpleperf: a file with known answers, and those that it made on phones and workstations.
//!
//! What not: files of Linux perf (`perf_data.rs`). The real ones are from simpleperf's own tests (system/extras/simpleperf/testdata of
//! the Android Open Source Project, Apache License 2.0); their figures were read from the bytes of the files by hand.

mod common;
mod found;

use std::collections::BTreeMap;

use base::Nanos;
use facts::{EventUse, Fact, Frame, ModuleKind};
use import::{ImportError, Imported, import};

use self::common::{Event, File, functions as table};
use self::found::{samples, stack_nodes};

/// `None` where the recording is not on this machine.
fn imported(name: &str) -> Option<(Imported, Vec<Fact>)> {
    let path = testkit::fixtures::fixture(&format!("simpleperf/{name}"))?;
    let mut facts = Vec::new();
    let imported = import(&path, &mut facts).expect("a file of simpleperf");
    Some((imported, facts))
}

/// An app whose runtime generated code long before the recording, and the tables of two of its files and of the kernel.
fn of_an_app() -> File {
    const MILLISECOND: u64 = 1_000_000;
    const START: u64 = 5_000_000 * MILLISECOND;
    const KERNEL: u64 = 0xffff_ff80_0808_0000;
    let mut file = File::new(vec![Event { kind: 1, config: 0, name: "cpu-clock" }]);
    file.mapped(7 * MILLISECOND, 7, (0x7100_0000, 0x1000), "/data/app/jit");
    file.mapped(0, 7, (0x7000_0000, 0x10_0000), "/system/lib64/libc.so");
    file.mapped(0, 7, (0x7200_0000, 0x10_0000), "/data/app/libgame.so");
    let kernel = (-128_i64).cast_unsigned();
    let chains: [&[u64]; 5] = [
        &[0x7000_2010],
        &[0x7000_2020],
        &[0x7200_0100, 0x7000_2030],
        &[0x7200_0200],
        &[kernel, KERNEL + 0x40],
    ];
    for (chain, at) in chains.iter().zip(0..) {
        file.sample(0, START + at * MILLISECOND, 7, MILLISECOND, chain);
    }
    let about = "simpleperf_version\x001.build.9\0app_package_name\0org.example.game\0timestamp\x001700000000\0event_type_info\0cpu-clock,1,0\0";
    let tables = [
        // In this file the address 0x3000 is at the offset 0x2000, and the next function at 0x3100.
        table(
            "/system/lib64/libc.so",
            2,
            (0x3000, 0x2000),
            &[(0x3000, 0x100, "malloc"), (0x3100, 8, "free")],
        ),
        table(
            "/data/app/libgame.so",
            2,
            (0, 0),
            &[(0x100, 0x100, "_ZN4game4drawEv"), (0x180, 0, "")],
        ),
        table("[kernel.kallsyms]", 0, (0, 0), &[(KERNEL, 0x80, "do_idle")]),
        table("/data/app/base.vdex", 3, (0, 0), &[(0, 0x100, "a.b.c")]),
    ];
    file.features = vec![(129, about.as_bytes().to_vec()), (132, tables.concat())];
    file
}

/// Names by the file's own tables, C++ names as in the source; no name beyond a function's end.
#[test]
fn functions_have_the_names_of_the_file() {
    let path = std::env::temp_dir().join(format!("fathom-simpleperf-app-{}", std::process::id()));
    std::fs::write(&path, of_an_app().bytes()).expect("a file can be written");
    let mut facts = Vec::new();
    let imported = import(&path, &mut facts).expect("a file of simpleperf");
    let _ = std::fs::remove_file(&path);
    let found: Vec<(&str, usize)> = functions(&facts).into_iter().collect();
    assert_eq!(found, [("", 1), ("do_idle", 1), ("game::draw()", 1), ("malloc", 2)]);
    assert_eq!(imported.elapsed, Nanos(4_000_000));
    assert_eq!(
        (imported.command.as_slice(), imported.started_unix),
        (&["org.example.game".to_owned()][..], 1_700_000_000)
    );
    assert_eq!(imported.source.tool, "simpleperf 1.build.9");
    let mut broken = of_an_app();
    broken.features[1].1.truncate(20);
    broken.features.push((134, vec![0; 8]));
    std::fs::write(&path, broken.bytes()).expect("a file can be written");
    let imported = import(&path, &mut Vec::<Fact>::new()).expect("its samples are whole");
    let _ = std::fs::remove_file(&path);
    for note in ["the tables of functions could not be read", "8 B of mappings from before"] {
        assert!(imported.notes.iter().any(|one| one.starts_with(note)), "{:?}", imported.notes);
    }
}

/// A file with code that a runtime interprets and generates, and of a module of the kernel; all was mapped before, in a section of
/// its own where `apart`.
fn of_a_runtime(apart: bool) -> File {
    const MODULE: u64 = 0xffff_ff80_0a00_0000;
    const GENERATED: u32 = 0x4000;
    let mut file = File::new(vec![Event { kind: 1, config: 0, name: "cpu-clock" }]);
    file.mapped_as(7, (0x7000_0000, 0x10_0000, 0x8000), "/data/app/base.apk!/classes.dex", 1);
    let app = "perf.data_jit_app_cache:";
    let generated =
        [(0x100, "0-784"), (0x200, "784-1640"), (0x200, "1640-2000"), (0x300, "2000-9")];
    for (at, name) in generated {
        file.mapped_as(7, (0x9000_0000 + at, 0x100, 0), &format!("{app}{name}"), GENERATED);
    }
    file.map(0, u32::MAX, (MODULE, 0x8000), "/vendor/lib/modules/touch.ko", 1);
    let before = if apart { file.take_records() } else { Vec::new() };
    let kernel = (-128_i64).cast_unsigned();
    let chains: [&[u64]; 6] = [
        &[0x9000_0110, 0x7000_0044],
        // Two functions were there, one after the other.
        &[0x9000_0210],
        &[0x9000_0310],
        &[0x7000_0044],
        &[0x5000_0010],
        &[kernel, MODULE + 0x1010],
    ];
    for (chain, at) in chains.iter().zip(0..) {
        file.sample(0, 1_000_000_000 + at, 7, 1_000_000, chain);
    }
    let list = |name: &str, at: u64, function| {
        table(&format!("{app}{name}"), 2, (0, 0), &[(0x9000_0000 + at, 0x100, function)])
    };
    let tables = [
        table(
            "/data/app/base.apk!/classes.dex",
            3,
            (0, 0),
            &[(0x8040, 0x10, "org.example.Game.draw"), (0x8050, 0x10, "org.example.Game.stop")],
        ),
        list("0-784", 0x100, "void org.example.Game.hot()"),
        list("784-1640", 0x200, "void org.example.Game.first()"),
        list("1640-2000", 0x200, "void org.example.Game.second()"),
        list("2000-9", 0x300, "void org.example.Game.last()"),
        table("perf-7.map", 4, (0, 0), &[(0x5000_0000, 0x20, "stub")]),
        // Its text is at 0x1000 in memory, and at address 0 in the file.
        table("/vendor/lib/modules/touch.ko", 1, (0, 0x1000), &[(0x10, 0x10, "touch_irq")]),
    ];
    let about = b"simpleperf_version\x001.build.9\0event_type_info\0cpu-clock,1,0\0";
    file.mapped(0, 7, (0x5000_0000, 0x1000), "//anon");
    file.features = vec![(129, about.to_vec()), (132, tables.concat())];
    if apart {
        file.features.push((134, before));
    }
    file
}

/// No other file has the names of such code. Which of two functions at one address ran is unknown.
#[test]
fn code_of_runtimes_and_kernel_modules_has_names() {
    for apart in [false, true] {
        let path = std::env::temp_dir()
            .join(format!("fathom-simpleperf-runtime-{}-{apart}", std::process::id()));
        std::fs::write(&path, of_a_runtime(apart).bytes()).expect("a file can be written");
        let mut facts = Vec::new();
        let imported = import(&path, &mut facts).expect("a file of simpleperf");
        let _ = std::fs::remove_file(&path);
        let found: Vec<(&str, usize)> = functions(&facts).into_iter().collect();
        let expected = [
            ("", 1),
            ("org.example.Game.draw", 1),
            ("stub", 1),
            ("touch_irq", 1),
            ("void org.example.Game.hot()", 1),
            ("void org.example.Game.last()", 1),
        ];
        assert_eq!(found, expected, "{apart}");
        assert!(!imported.notes.iter().any(|note| note.contains("init_map")));
    }
}

/// The names of generated code, of code in archives, and of what the interpreter ran, as they are in the bytes of the files.
#[test]
fn code_of_apps_has_the_names_of_the_phone() {
    let cases = [
        ("perf_with_jit_symbol.data", "com.android.simpleperf.debuggable.MainActivity$1.run"),
        ("perf_display_bitmaps.data", "android.view.View.layout"),
        ("perf_with_interpreter_frames.data", "android.os.Looper.loop"),
    ];
    for (file, name) in cases {
        let Some((_, facts)) = imported(file) else { continue };
        let is_it = |fact: &Fact| matches!(fact, Fact::Frame(frame) if frame.function == name);
        assert!(facts.iter().any(is_it), "{file}");
    }
}

/// Samples of CPU time by the function at their top.
fn functions(facts: &[Fact]) -> BTreeMap<&str, usize> {
    let nodes = stack_nodes(facts);
    let frames: Vec<&Frame> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Frame(frame) => Some(frame),
            _ => None,
        })
        .collect();
    let mut found = BTreeMap::new();
    for sample in samples(facts) {
        let node = nodes.iter().find(|node| Some(node.id) == sample.stack).expect("a node");
        let frame = frames.iter().find(|frame| frame.code_address() == node.code_address());
        *found.entry(frame.map_or("", |frame| frame.function.as_str())).or_insert(0) += 1;
    }
    found
}

/// Nanoseconds of each sample; none weighs nothing, although the kernel begins with periods of one cycle.
fn weights(facts: &[Fact]) -> Vec<u64> {
    let weights: Vec<u64> = samples(facts).iter().map(|sample| sample.weight.0).collect();
    assert!(!weights.is_empty() && !weights.contains(&0), "{weights:?}");
    weights
}

/// The names come from the file: its machine was a phone.
#[test]
fn functions_have_the_names_of_the_phone() {
    let Some((imported, facts)) = imported("perf_with_callchain_record.data") else { return };
    assert!(imported.source.tool.starts_with("simpleperf 1."), "{}", imported.source.tool);
    assert_eq!(imported.machine.architecture, "aarch64");
    let event = &imported.source.events[0];
    assert_eq!((event.samples, event.used_as), (21, EventUse::CpuTime));
    assert_eq!(weights(&facts).len(), 21);
    let found = functions(&facts);
    assert_eq!(found.values().sum::<usize>(), 21);
    let of = |name: &str| found.get(name).copied();
    assert_eq!((of("__do_softirq"), of("perf_event_comm")), (Some(5), Some(2)), "{found:?}");
    let lookup = "__dl__ZNK6soinfo10gnu_lookupER10SymbolNamePK12version_infoPj";
    assert_eq!((of(lookup), of("je_malloc")), (Some(4), Some(1)), "{found:?}");
    let note = "functions have the names that simpleperf found on the recorded machine";
    assert!(imported.notes.iter().any(|one| one.starts_with(note)), "{:?}", imported.notes);
}

/// Each sample reads cycles and instructions: from the first reading to the last.
#[test]
fn groups_are_counted() {
    let Some((imported, facts)) = imported("perf_with_add_counter.data") else { return };
    let names: Vec<&str> = imported.source.events.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["cpu-cycles", "instructions"]);
    assert_eq!(imported.elapsed, Nanos(1_001_940_959));
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for fact in &facts {
        if let Fact::EventCount(count) = fact {
            *counts.entry(count.event).or_default() += count.count;
        }
    }
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [2_034_455, 2_048_526]);
}

/// Samples follow each other by up to 195 µs, and too few tell how long a cycle takes: no more time than passed.
#[test]
fn branch_stacks_show_loops() {
    let Some((imported, facts)) = imported("perf_lbr.data") else { return };
    assert!(imported.source.events[0].used_as == EventUse::CpuTime, "{:?}", imported.source);
    assert!(facts.iter().any(|fact| matches!(fact, Fact::BranchLoop(_))));
    // A period of 250 µs, and from the first sample to the last.
    assert_eq!(weights(&facts).iter().sum::<u64>(), 250_000 + 1_340_520);
}

#[test]
fn the_shortest_one_has_its_modules() {
    let Some((imported, facts)) = imported("runtest_two_functions_arm64_perf.data") else { return };
    assert_eq!(imported.source.events[0].samples, 2);
    let is_program = |fact: &Fact| {
        matches!(fact, Fact::Module(module) if module.kind == ModuleKind::File
        && module.path.ends_with("/simpleperf_runtest_two_functions_arm64"))
    };
    assert!(facts.iter().any(is_program));
}

/// The parser reserves memory for as many ids as the file claims.
#[test]
fn lists_of_ids_lie_within_the_file() {
    let path = std::env::temp_dir().join(format!("fathom-simpleperf-ids-{}", std::process::id()));
    let read = |ids| {
        let mut file = of_an_app();
        file.ids = Some(ids);
        std::fs::write(&path, file.bytes()).expect("a file can be written");
        let mut facts = Vec::new();
        let result = import(&path, &mut facts).map(|_| facts.len());
        let _ = std::fs::remove_file(&path);
        result.map_err(|error| error.to_string())
    };
    assert!(read((104, 8)).is_ok_and(|facts| facts > 5));
    for ids in [(104, 0x37ff_ffff_ffff_fff8), (u64::MAX, 8), (104, 1 << 40)] {
        let why = read(ids).expect_err("it cannot be there");
        assert!(why.ends_with("its list of event ids would end beyond the file"), "{why}");
    }
}

/// Cut anywhere, a file gives an error or what comes before.
#[test]
fn cut_files_are_refused_or_read_as_far_as_they_go() {
    let whole = of_an_app().bytes();
    let path = std::env::temp_dir().join(format!("fathom-simpleperf-{}", std::process::id()));
    for length in (0..whole.len()).step_by(53) {
        std::fs::write(&path, &whole[..length]).expect("a file can be written");
        let result = import(&path, &mut Vec::<Fact>::new());
        let refused = matches!(
            result,
            Ok(_)
                | Err(ImportError::Damaged { .. }
                    | ImportError::NotPerfData(_)
                    | ImportError::NoTime { .. })
        );
        assert!(refused, "{length}: {:?}", result.err());
    }
    let _ = std::fs::remove_file(&path);
}
