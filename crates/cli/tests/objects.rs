//! Memory objects together with bursts: heap blocks, mapped regions and variables, against a program that knows where they lie;
//! and that the program runs as alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use base::{Nanos, RemoteAddr};
use facts::{AllocationCall, Recording, Region, RegionKind};
use testkit::programs::{
    Fathom, NO_CALIBRATION, assert_ended_well, facts_of, is_root, number, perf_events_work, recipe,
    skip, target,
};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

const RUN: [&str; 6] = ["run", "-q", "-r", "result", "-k", NO_CALIBRATION];

fn run(fathom: &Fathom, options: &[&str], program: &Path, arguments: &[&str]) -> Output {
    let mut words = RUN.to_vec();
    words.extend(options);
    words.extend(["--", program.to_str().expect("a path of ours")]);
    words.extend(arguments);
    fathom.output(&words)
}

fn recording(fathom: &Fathom) -> Recording {
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    store::open(&fathom.scratch.join("result")).expect("the result opens").recording
}

/// A program that tells where its memory lies.
struct Known {
    recording: Recording,
    stated: BTreeMap<String, String>,
}

impl Known {
    fn of(fathom: &Fathom, program: &str) -> Known {
        let output = run(fathom, &[], &target(program), &[]);
        assert_ended_well(&output);
        Known { recording: recording(fathom), stated: facts_of(&output.stdout) }
    }

    fn stated(&self, what: &str) -> u64 {
        u64::from_str_radix(&self.stated[what], 16).expect("a hexadecimal number")
    }

    /// The last region that holds the first byte of what the program tells of, which it mapped.
    fn region(&self, what: &str, kind: RegionKind) -> &Region {
        let at = self.stated(what);
        let held = |region: &&Region| at.wrapping_sub(region.start.0) < region.bytes.0;
        let found = self.recording.regions.iter().filter(held).find(|region| region.kind == kind);
        found.unwrap_or_else(|| panic!("{what} at {at:x} among {:#?}", self.recording.regions))
    }

    /// The functions that called for a region, innermost first.
    fn callers(&self, region: &Region) -> Vec<&str> {
        let nodes: BTreeMap<_, _> =
            self.recording.stack_nodes.iter().map(|node| (node.id, node)).collect();
        let mut at = region.stack;
        let mut names = Vec::new();
        while let Some(node) = at.and_then(|id| nodes.get(&id)) {
            let here =
                |frame: &&facts::Frame| (frame.module, frame.offset) == (node.module, node.offset);
            names.extend(self.recording.frames.iter().filter(here).map(|f| f.function.as_str()));
            at = node.parent;
        }
        names
    }

    fn end_of(&self, start: u64) -> Option<Nanos> {
        let mut ends = self.recording.region_ends.iter();
        ends.find(|end| end.start == RemoteAddr(start)).map(|end| end.time)
    }
}

/// Memory by sbrk and brk is distinguished from malloc's in the same data segment, and polls leave it so.
#[test]
fn memory_by_brk_has_its_caller_and_its_end() {
    let fathom = fathom("objects-break");
    let known = Known::of(&fathom, "own_break");
    for (what, caller) in [("taken", "take"), ("more", "take_up_to")] {
        let at = known.stated(what);
        let held = |region: &&Region| at.wrapping_sub(region.start.0) < region.bytes.0;
        let region = known.recording.regions.iter().rfind(held).expect(what);
        assert_eq!((region.start.0, region.kind), (at, RegionKind::Break), "{what}");
        assert_eq!(region.bytes.0, known.stated(&format!("{what}_bytes")), "{what}");
        assert_eq!(known.callers(region).first(), Some(&caller), "{what}");
    }
    assert!(known.end_of(known.stated("back")).is_some(), "{:?}", known.recording.region_ends);
}

/// Each call of mmap has a record, or is counted as lost.
#[test]
fn calls_of_mmap_without_a_record_are_counted() {
    let fathom = fathom("objects-many");
    let known = Known::of(&fathom, "map_many");
    let rounds: usize = known.stated["rounds"].parse().expect("a number");
    let by_caller = |region: &&Region| {
        region.bytes.0 == 4096 && known.callers(region).first() == Some(&"map_one")
    };
    let stated = known.recording.regions.iter().filter(by_caller).count();
    let lost = known.recording.lost(facts::LostSource::Regions);
    assert!(
        stated <= rounds && stated as u64 + lost >= rounds as u64,
        "{stated} and {lost} of {rounds}"
    );
    let summary = fathom.report("result", &["summary"]);
    assert_eq!(summary["sampling"]["lost_regions"], lost);
    let text = fathom.output(["report", "summary", "-r", "result"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert_eq!(text.contains("that mapped or unmapped memory"), lost > 0, "{text}");
}

#[test]
fn mapped_memory_has_its_kind_its_caller_and_its_end() {
    let fathom = fathom("objects-mapped");
    let known = Known::of(&fathom, "mapped_memory");
    for (what, kind, caller) in [
        ("anonymous", RegionKind::Anonymous, "map_anonymous"),
        ("shared", RegionKind::Shared, "map_shared"),
        ("file", RegionKind::File, "map_file"),
        ("moved", RegionKind::Anonymous, "move"),
    ] {
        let region = known.region(what, kind);
        assert_eq!(region.start.0, known.stated(what), "{what}");
        assert_eq!(region.bytes.0, known.stated(&format!("{what}_bytes")), "{what}");
        assert_eq!(known.callers(region).first(), Some(&caller), "{what}");
        assert_eq!(region.tid.map(|tid| tid.0), Some(region.pid.0), "{what}");
    }
    assert!(known.region("file", RegionKind::File).name.ends_with("/mapped_memory.data"));
    let [moved, file] = ["moved", "file"].map(|what| known.end_of(known.stated(what)));
    let left = known.end_of(known.stated("anonymous"));
    assert!(left.is_some() && left < moved && left < file, "{:?}", known.recording.region_ends);
    let kinds = [RegionKind::Break, RegionKind::Stack];
    for (kind, name) in kinds.into_iter().zip(["[heap]", "[stack]"]) {
        let found = known.recording.regions.iter().any(|r| r.kind == kind && r.name == name);
        assert!(found, "{name} among {:#?}", known.recording.regions);
    }
    let block = known.stated("block");
    let block = known.recording.allocations.iter().find(|found| found.address.0 == block);
    assert_eq!(block.map(|block| block.size.0), Some(known.stated("block_bytes")));
    let ours = |name: &str| name.contains("fathom_agent") || name.contains("memfd:fathom");
    assert!(!known.recording.regions.iter().any(|region| ours(&region.name)));
}

#[test]
fn variables_have_their_place_and_stripped_ones_their_section() {
    for (program, [zeroes, constants]) in [
        ("mapped_memory", ["zeroes", "constants"]),
        (
            "mapped_memory_stripped",
            ["[.bss of mapped_memory_stripped]", "[.data of mapped_memory_stripped]"],
        ),
    ] {
        let fathom = fathom("objects-variables");
        let known = Known::of(&fathom, program);
        for (what, name) in [("zeroes", zeroes), ("constants", constants)] {
            let (at, bytes) = (known.stated(what), known.stated(&format!("{what}_bytes")));
            let mut globals = known.recording.globals.iter();
            let held = |start: u64, length: u64| start <= at && at + bytes <= start + length;
            let found = globals.find(|found| held(found.start.0, found.bytes.0));
            assert_eq!(found.map(|found| found.name.as_str()), Some(name), "{program} {what}");
        }
    }
}

#[test]
fn blocks_in_a_pool_are_blocks_too() {
    let Some(program) = recipe("pmdk_triad_after") else { return };
    let fathom = fathom("objects-pool");
    let pool = fathom.scratch.join("pool");
    let pool = pool.to_str().expect("a path of ours");
    let words = ["--elements", "300000", "--repeat", "3", "--pool", pool];
    let output = run(&fathom, &[], &program, &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recording = recording(&fathom);
    let blocks: Vec<_> = recording
        .allocations
        .iter()
        .filter(|block| block.call == AllocationCall::Persistent)
        .collect();
    assert_eq!(blocks.iter().map(|block| block.size.0).collect::<Vec<_>>(), [1_200_000; 3]);
    for block in blocks {
        let holds = |region: &&Region| {
            block.address.0.wrapping_sub(region.start.0) < region.bytes.0
                && matches!(
                    region.kind,
                    RegionKind::File | RegionKind::Shared | RegionKind::Anonymous
                )
        };
        let pool = recording.regions.iter().find(holds).expect("the pool is mapped");
        // Files get their names by looks, and the program may have ended before the first.
        assert!(pool.name.is_empty() || pool.name.ends_with("/pool"), "{block:?} {pool:?}");
    }
}

/// Allocated and reserved objects of a pool that is created; the same ones of a pool that is opened.
#[test]
fn objects_of_a_pool_that_is_opened_are_known() {
    let program = target("persistent_objects");
    if !program.exists() {
        return skip("libpmemobj is not installed");
    }
    let fathom = fathom("objects-opened-pool");
    let pool = fathom.scratch.join("pool");
    let pool = pool.to_str().expect("a path of ours");
    let mut found = Vec::new();
    for name in ["created", "opened"] {
        let words = [
            "collect",
            "memory-consumption",
            "-q",
            "-r",
            name,
            "-k",
            "mem-object-size-min-thres=100000",
        ];
        let program = program.to_str().expect("UTF-8");
        let output = fathom.output([&words[..], &["--", program, pool]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let opened = store::open(&fathom.scratch.join(name)).expect("the result opens");
        let blocks = opened.recording.allocations.iter();
        let blocks = blocks.filter(|block| block.call == AllocationCall::Persistent);
        let mut sizes: Vec<u64> = blocks.map(|block| block.size.0).collect();
        sizes.sort_unstable();
        found.push(sizes);
    }
    assert_eq!(found[0], [400_000, 800_000]);
    // Of objects that exist the usable size is known, which is not less; the reservation is new.
    let [reserved, more, array] = found[1][..] else { panic!("{found:?}") };
    assert_eq!(reserved, 200_000, "{found:?}");
    assert!((400_000..500_000).contains(&more) && (800_000..900_000).contains(&array), "{found:?}");
}

#[test]
fn huge_pages_are_distinguished() {
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    let free = free.ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
    if free < 4 {
        return skip("fewer than 4 huge pages are free here (vm.nr_hugepages)");
    }
    let fathom = fathom("objects-huge");
    let output = run(&fathom, &[], &target("huge_mapping"), &[]);
    assert_ended_well(&output);
    let stated = facts_of(&output.stdout);
    let at = u64::from_str_radix(&stated["huge"], 16).expect("a hexadecimal number");
    let recording = recording(&fathom);
    let region = recording.regions.iter().find(|region| region.start.0 == at);
    let region = region.expect("the mapping");
    assert_eq!((region.kind, region.page.map(|page| page.0)), (RegionKind::Huge, Some(2 << 20)));
    assert_eq!(region.bytes.0, 8 << 20);
}

/// The environment differs where the guide says so, and not with the knob.
#[test]
fn what_is_preloaded_can_be_left_out() {
    for (knob, loaded) in [("true", true), ("false", false)] {
        let fathom = fathom("objects-knob");
        let knob = format!("analyze-mem-objects={knob}");
        let output = run(&fathom, &["-k", &knob], Path::new("/usr/bin/env"), &[]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.contains("libfathom_agent-"), loaded, "{text}");
        let recording = recording(&fathom);
        assert_eq!(recording.heap_totals.is_empty(), !loaded);
        // It may have ended before anybody looked.
        assert!(loaded || recording.regions.is_empty());
    }
}

#[test]
fn what_the_program_preloads_itself_stays() {
    let fathom = fathom("objects-preload");
    let source = fathom.scratch.join("own.c");
    let text = "#include <stdlib.h>\n#include <unistd.h>\nstatic int calls;\n\
                void *__libc_malloc(size_t);\n\
                void *malloc(size_t size) { calls++; return __libc_malloc(size); }\n\
                __attribute__((destructor)) static void end(void) { if (calls) write(2, \"own malloc\\n\", 11); }\n";
    std::fs::write(&source, text).expect("a file can be written");
    let library = fathom.scratch.join("own.so");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output()
        .expect("cc can be started");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let output = fathom
        .command(RUN.iter().copied().chain(["--"]))
        .arg(target("malloc_mix"))
        .args(["--rounds", "20"])
        .env("LD_PRELOAD", &library)
        .output()
        .expect("fathom can be started");
    assert_ended_well(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("own malloc"), "{output:?}");
    let known = facts_of(&output.stdout);
    let heap = &fathom.report("result", &["summary"])["heap"];
    // cc's own library may allocate; fathom itself has it preloaded, too.
    let bytes = heap["bytes_allocated"]["value"].as_f64().expect("a number");
    assert!((bytes - number(&known, "bytes_asked")).abs() < 1.0, "{heap}");
}

#[test]
fn programs_run_as_alone() {
    for name in [
        "fork_children",
        "threads_churn",
        "signal_storm",
        "vfork_exec",
        "exec_chain",
        "self_check_static",
    ] {
        let fathom = fathom("objects-life");
        let program = target(name);
        let alone = Command::new(&program).output().expect("it can be started");
        let options = ["-k", "burst-interval=2", "-k", "overhead=50"];
        let output = run(&fathom, &options, &program, &[]);
        assert_eq!(output.status.code(), alone.status.code(), "{name}: {output:?}");
        recording(&fathom);
    }
}

/// A process that ran before: what is mapped, its threads' stacks and its variables. Its heap: `attach_heap`.
#[test]
fn a_running_process_has_regions_stacks_and_variables() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("objects-attach");
    let mut running = Command::new(target("threads"))
        .args(["--threads", "3", "--ms", "4000"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program can be started");
    let pid = running.id().to_string();
    let output = fathom.output(
        ["collect", "memory-access", "-q", "-r", "result", "-k", NO_CALIBRATION]
            .into_iter()
            .chain(["-d", "2", "--pid", &pid]),
    );
    assert!(running.wait().expect("it ends").success());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recording = recording(&fathom);
    let stacks: BTreeSet<i32> = recording
        .regions
        .iter()
        .filter(|region| region.kind == RegionKind::Stack)
        .filter_map(|region| region.tid.map(|tid| tid.0))
        .collect();
    assert!(stacks.len() >= 4, "{:#?}", recording.regions);
    assert!(recording.regions.iter().any(|region| region.name.ends_with("/threads")));
    // Variables are named in processes of which addresses of data are known; on a busy machine there may be none.
    let addresses_known = !recording.bursts.is_empty() || !recording.faults.is_empty();
    assert!(!addresses_known || recording.globals.iter().any(|global| global.name == "__environ"));
}

/// Whether a process has a child that executes a program of this name.
fn has_started(parent: u32, program: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten();
    let children = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
        .collect::<Vec<_>>()
        .join(" ");
    children.split_whitespace().any(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| program.starts_with(name.trim()))
    })
}

/// Killed while the program allocates, maps and runs bursts: the program ends well.
#[test]
fn killing_the_profiler_leaves_the_program_running() {
    if !is_root() {
        return;
    }
    for pause in [50, 150, 250] {
        let fathom = fathom("objects-killed");
        let file = fathom.scratch.join("said");
        let said = std::fs::File::create(&file).expect("a file can be made");
        let program = target("mapped_memory");
        let mut child = fathom
            .command(RUN.iter().copied().chain([
                "-k",
                "burst-interval=2",
                "-k",
                "overhead=50",
                "--",
            ]))
            .arg(&program)
            .stdout(said)
            .spawn()
            .expect("fathom can be started");
        // Killed before, nothing would have been started.
        while !has_started(child.id(), "mapped_memory") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(pause));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        let ended = (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            std::fs::read_to_string(&file).is_ok_and(|said| said.contains("EXIT-SUCCESS"))
        });
        assert!(ended, "{pause} ms: {:?}", std::fs::read_to_string(&file));
    }
}
