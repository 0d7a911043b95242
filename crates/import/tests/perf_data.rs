//! perf.data files with known answers, damaged ones, and recordings of real machines.
//!
//! What not: the command (`cli/tests`), names of functions.

mod common;
mod found;

use std::path::{Path, PathBuf};

use base::{FileOffset, Nanos, Pid, Tid};
use facts::{
    AccessKind, DataSource, EventSample, EventUse, Fact, FaultKind, MemorySample, Module,
    ModuleKind, Privilege, RegionKind, Sample, Translation,
};
use import::{ImportError, Imported, perf_data};

use self::common::{Event, File};
use self::found::{samples, stack_nodes};

const CPU_CLOCK: Event = Event { kind: 1, config: 0, name: "cpu-clock" };
const CYCLES: Event = Event { kind: 0, config: 0, name: "cycles:P" };
const FAULTS: Event = Event { kind: 1, config: 2, name: "page-faults" };
const MISSES: Event = Event { kind: 0, config: 3, name: "cache-misses" };
const DUMMY: Event = Event { kind: 1, config: 9, name: "dummy" };

const PID: u32 = 4242;
const START: u64 = 5_000_000_000;
const MILLISECOND: u64 = 1_000_000;
const KERNEL: u64 = (-128_i64).cast_unsigned();
const USER: u64 = (-512_i64).cast_unsigned();

/// A file in the test's own directory.
fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the file can be written");
    path
}

fn imported(name: &str, file: &File) -> (Result<Imported, ImportError>, Vec<Fact>) {
    let mut facts = Vec::new();
    let path = written(name, &file.bytes());
    (perf_data(&path, &mut facts), facts)
}

fn begun(events: Vec<Event>) -> File {
    let mut file = File::new(events);
    file.executed(START, PID, "solver");
    file.mapped(START, PID, (0x40_0000, 0x10_0000), "/nowhere/solver");
    file
}

/// The frames of a sample, innermost first, as kind of module and offset.
fn frames(facts: &[Fact], sample: &Sample) -> Vec<(ModuleKind, FileOffset)> {
    let nodes = stack_nodes(facts);
    let modules: Vec<&Module> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Module(module) => Some(module),
            _ => None,
        })
        .collect();
    let mut frames = Vec::new();
    let mut next = sample.stack;
    while let Some(node) = next.and_then(|id| nodes.iter().find(|node| node.id == id)) {
        let module = modules.iter().find(|module| module.id == node.module).expect("a module");
        frames.push((module.kind, node.offset));
        next = node.parent;
    }
    frames
}

#[test]
fn clock_samples_become_samples_with_their_call_chains() {
    let mut file = begun(vec![CPU_CLOCK]);
    file.sample(0, START + MILLISECOND, PID, MILLISECOND, &[USER, 0x40_1000, 0x40_2005]);
    let in_kernel = [KERNEL, 0xffff_ffff_8100_0010, 0xffff_ffff_8100_0105, USER, 0x40_1010];
    file.sample(0, START + 2 * MILLISECOND, PID, MILLISECOND, &in_kernel);
    file.lost(START + 3 * MILLISECOND, 7);
    let (imported, facts) = imported("clock.data", &file);
    let imported = imported.expect("a sound file");
    assert_eq!(imported.command, ["./solver"]);
    assert_eq!(imported.elapsed, Nanos(3 * MILLISECOND));
    assert_eq!(imported.period, Nanos(MILLISECOND));
    assert!(imported.kernel_samples && imported.elsewhere.files && imported.elsewhere.kernel);
    let event = &imported.source.events[0];
    assert_eq!(
        (event.name.as_str(), event.samples, event.used_as),
        ("cpu-clock", 2, EventUse::CpuTime)
    );
    let samples = samples(&facts);
    let [user, kernel] = samples.as_slice() else { panic!("two samples: {samples:?}") };
    assert_eq!((user.pid, user.tid, user.time), (Pid(4242), Tid(4242), Nanos(MILLISECOND)));
    assert_eq!((user.weight, user.privilege), (Nanos(MILLISECOND), Privilege::User));
    assert_eq!(kernel.privilege, Privilege::Kernel);
    // Callers are one byte before their return addresses.
    let file = ModuleKind::File;
    assert_eq!(frames(&facts, user), [(file, FileOffset(0x1000)), (file, FileOffset(0x2004))]);
    let expected = [
        (ModuleKind::Kernel, FileOffset(0xffff_ffff_8100_0010)),
        (ModuleKind::Kernel, FileOffset(0xffff_ffff_8100_0104)),
        (file, FileOffset(0x1010)),
    ];
    assert_eq!(frames(&facts, kernel), expected);
    assert!(facts.iter().any(|fact| matches!(fact, Fact::Lost(lost) if lost.count == 7)));
}

/// `perf kvm record`: PERF_RECORD_MISC_GUEST_KERNEL and _GUEST_USER. Guest addresses may be those of a mapping of the host.
#[test]
fn samples_in_virtual_machines_are_of_no_code_of_the_host() {
    const GUEST_KERNEL: u16 = 4;
    const GUEST_USER: u16 = 5;
    let mut file = begun(vec![CPU_CLOCK]);
    for (at, misc, ip) in [(1, GUEST_KERNEL, 0xffff_ffff_8100_0010), (2, GUEST_USER, 0x40_1000)] {
        let mut body = u64::to_le_bytes(ip).to_vec();
        body.extend([PID, PID].iter().flat_map(|word| word.to_le_bytes()));
        let words = [START + at * MILLISECOND, 1, 0, MILLISECOND, 0];
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        file.record(9, misc, &body);
    }
    let (imported, facts) = imported("guest.data", &file);
    let imported = imported.expect("a sound file");
    assert!(imported.notes[0].starts_with("2 samples are of code in virtual machines"));
    assert!(!imported.kernel_samples);
    let samples = samples(&facts);
    let found: Vec<_> = samples.iter().flat_map(|sample| frames(&facts, sample)).collect();
    let expected = [FileOffset(0xffff_ffff_8100_0010), FileOffset(0x40_1000)];
    assert_eq!(found, expected.map(|offset| (ModuleKind::Unknown, offset)));
    let names: Vec<&str> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Module(module) if module.kind == ModuleKind::Unknown => Some(&*module.path),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["[guest kernel]", "[guest program]"]);
    assert!(samples.iter().all(|sample| sample.privilege == Privilege::User));
}

#[test]
fn cycles_become_time_by_the_pace_of_their_samples() {
    let mut file = begun(vec![CYCLES]);
    // 2.5 GHz: a million cycles in 400 µs. Every third time the thread waits in between.
    let mut time = START;
    for number in 0..90 {
        time += 400_000 + u64::from(number % 3 == 0) * 7 * MILLISECOND;
        file.sample(0, time, PID, 1_000_000, &[USER, 0x40_1000]);
    }
    let (imported, facts) = imported("cycles.data", &file);
    let imported = imported.expect("a sound file");
    assert_eq!(imported.period, Nanos(400_000));
    assert!(samples(&facts).iter().all(|sample| sample.weight == Nanos(400_000)));
    assert!(
        imported.notes.iter().any(|note| note.contains("0.400 ns per cycle")),
        "{:?}",
        imported.notes
    );
}

#[test]
fn too_few_samples_of_cycles_count_as_periods_of_the_frequency() {
    let mut file = begun(vec![CYCLES]);
    file.sample(0, START + MILLISECOND, PID, 1, &[USER, 0x40_1000]);
    let (imported, facts) = imported("few.data", &file);
    assert!(imported.is_ok());
    assert_eq!(samples(&facts)[0].weight, Nanos(MILLISECOND));
}

#[test]
fn faults_are_faults_and_what_has_no_view_is_counted() {
    let mut file = begun(vec![CPU_CLOCK, FAULTS, DUMMY]);
    file.sample(0, START + 1, PID, MILLISECOND, &[USER, 0x40_1000]);
    file.sample(1, START + 2, PID, 3, &[USER, 0x40_1000]);
    file.sample(2, START + 3, PID, 1000, &[USER, 0x40_1000]);
    let (imported, facts) = imported("several.data", &file);
    let imported = imported.expect("a sound file");
    assert_eq!(samples(&facts).len(), 1);
    let faults: Vec<_> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Fault(fault) => Some((fault.weight, fault.kind)),
            _ => None,
        })
        .collect();
    assert_eq!(faults, [(3, FaultKind::Minor)]);
    let uses: Vec<EventUse> = imported.source.events.iter().map(|event| event.used_as).collect();
    assert_eq!(uses, [EventUse::CpuTime, EventUse::PageFaults, EventUse::Nothing]);
    assert!(imported.notes.iter().any(|note| note.contains("dummy (1 samples)")));
}

fn counts(facts: &[Fact]) -> Vec<EventSample> {
    let count = |fact: &Fact| match fact {
        Fact::EventSample(sample) => Some(*sample),
        _ => None,
    };
    facts.iter().filter_map(count).collect()
}

fn counted_events(facts: &[Fact]) -> Vec<(u32, String, u32)> {
    let event = |fact: &Fact| match fact {
        Fact::CountedEvent(event) => Some((event.id, event.name.clone(), event.group)),
        _ => None,
    };
    facts.iter().filter_map(event).collect()
}

#[test]
fn samples_of_other_events_are_counts_of_the_code() {
    let mut file = begun(vec![CPU_CLOCK, CYCLES, MISSES]);
    file.sample(0, START + 1, PID, MILLISECOND, &[USER, 0x40_1000]);
    file.sample(1, START + 2, PID, 100_000, &[USER, 0x40_1000]);
    file.sample(2, START + 3, PID, 1000, &[USER, 0x40_2000, 0x40_3005]);
    let (imported, facts) = imported("counts.data", &file);
    let imported = imported.expect("a sound file");
    let uses: Vec<EventUse> = imported.source.events.iter().map(|event| event.used_as).collect();
    assert_eq!(uses, [EventUse::CpuTime, EventUse::Counts, EventUse::Counts]);
    let event = |id, name: &str| (id, name.to_owned(), id);
    assert_eq!(counted_events(&facts), [event(0, "cycles:P"), event(1, "cache-misses")]);
    let found: Vec<_> = counts(&facts).iter().map(|one| (one.event, one.weight)).collect();
    assert_eq!(found, [(0, 100_000), (1, 1000)]);
    assert!(counts(&facts).iter().all(|one| one.stack.is_some() && one.tid == Tid(4242)));
    // Next to a clock, cycles are no time.
    let mut file = begun(vec![CPU_CLOCK, CYCLES]);
    file.sample(0, START + 1, PID, MILLISECOND, &[USER, 0x40_1000]);
    file.sample(1, START + 2, PID, 100_000, &[USER, 0x40_1000]);
    let (imported, facts) = self::imported("clock_and_cycles.data", &file);
    let uses = imported.expect("a sound file").source.events;
    let uses: Vec<EventUse> = uses.iter().map(|event| event.used_as).collect();
    assert_eq!(uses, [EventUse::CpuTime, EventUse::Counts]);
    assert_eq!(counts(&facts).iter().map(|one| one.weight).collect::<Vec<_>>(), [100_000]);
    // Cycles alone show as time.
    let mut file = begun(vec![CYCLES]);
    file.sample(0, START + 1, PID, 100_000, &[USER, 0x40_1000]);
    assert!(counts(&self::imported("cycles_alone.data", &file).1).is_empty());
}

/// PERF_SAMPLE_READ with PERF_FORMAT_TOTAL_TIME_ENABLED, TOTAL_TIME_RUNNING, ID and GROUP, as `perf record -e
/// '{cycles,instructions}:S'` asks for (include/uapi/linux/perf_event.h): the leader alone takes samples.
#[test]
fn a_group_that_samples_read_counts_by_differences() {
    const INSTRUCTIONS: Event = Event { kind: 0, config: 1, name: "instructions" };
    let mut file = begun(vec![CYCLES, INSTRUCTIONS]);
    file.further = (1 << 4, 1 | 2 | 4 | 8, 0);
    let readings = [
        (START + MILLISECOND, 0x40_1000, [2, 1000, 500, 300, 1, 90, 2]),
        (START + 2 * MILLISECOND, 0x40_2000, [2, 2000, 1500, 400, 1, 490, 2]),
        (START + 100 * MILLISECOND, 0x40_1000, [2, 3000, 2000, 700, 1, 490, 2]),
    ];
    for (time, ip, words) in readings {
        let rest = [&words[..], &[0]].concat();
        file.sample_of(0, time, PID, 300, ip, &rest);
    }
    let (imported, facts) = imported("group.data", &file);
    let imported = imported.expect("a sound file");
    let event = |id, name: &str| (id, name.to_owned(), 0);
    assert_eq!(counted_events(&facts), [event(0, "cycles:P"), event(1, "instructions")]);
    let found: Vec<_> = counts(&facts)
        .iter()
        .map(|one| (one.time.0 / MILLISECOND, one.event, one.weight))
        .collect();
    assert_eq!(found, [(1, 0, 300), (1, 1, 90), (2, 0, 100), (2, 1, 400), (100, 0, 300)]);
    let stretches: Vec<_> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::EventCount(one) => Some((one.event, one.count, one.enabled.0, one.running.0)),
            _ => None,
        })
        .collect();
    assert_eq!(stretches, [(0, 700, 3000, 2000), (1, 490, 3000, 2000)]);
    let uses: Vec<EventUse> = imported.source.events.iter().map(|event| event.used_as).collect();
    assert_eq!(uses, [EventUse::CpuTime, EventUse::Counts]);
}

/// Name, samples, sum of the periods.
type CountedSum = (&'static str, u64, u64);

/// Samples and sum of the periods of each event, as `perf report -F sample,period` 6.1 prints them.
const COUNTED: [(&str, &[CountedSum]); 3] = [
    (
        "perfdata-format-edge/perf.data.lost_samples-4.4",
        &[
            ("cycles:pp", 97, 1_940_291),
            ("instructions:pp", 80, 1_600_240),
            ("branch-instructions:pp", 14, 280_042),
        ],
    ),
    (
        "perfdata-format-edge/perf.data.piped.header_feautres_group_desc-6.8",
        &[("cycles:u", 11, 540_774), ("instructions:u", 10, 588_431)],
    ),
    (
        "perfdata-format-edge/perf.data.group_desc-4.14",
        &[("cache-references", 7, 165_909), ("branch-misses", 6, 23_813)],
    ),
];

#[test]
fn recordings_of_real_machines_keep_their_counts() {
    for (name, expected) in COUNTED {
        let Some(path) = testkit::fixtures::fixture(name) else { continue };
        let mut facts = Vec::new();
        perf_data(&path, &mut facts).expect(name);
        let events = counted_events(&facts);
        let (samples, names) = (counts(&facts), events.iter().map(|(_, name, _)| name.as_str()));
        let found: Vec<(&str, u64, u64)> = names
            .zip(0..)
            .map(|(name, id)| {
                let of = samples.iter().filter(|one| one.event == id);
                (name, of.clone().count() as u64, of.map(|one| one.weight).sum())
            })
            .collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_file_without_time_is_refused_by_the_names_of_its_events() {
    let mut file = begun(vec![DUMMY]);
    file.sample(0, START + 1, PID, 1000, &[USER, 0x40_1000]);
    let error = imported("dummy.data", &file).0.err().expect("no time");
    assert!(matches!(error, ImportError::NoTime { .. }));
    assert!(error.to_string().contains("dummy"), "{error}");
}

#[test]
fn other_files_and_damaged_ones_differ() {
    let refused = |name: &str, bytes: &[u8]| {
        perf_data(&written(name, bytes), &mut Vec::new()).err().expect("refused")
    };
    assert!(matches!(refused("text.data", b"no such thing"), ImportError::NotPerfData(_)));
    assert!(matches!(refused("empty.data", b""), ImportError::NotPerfData(_)));
    assert!(matches!(refused("head.data", b"PERFILE2"), ImportError::Damaged { .. }));
    let missing = perf_data(Path::new("/nowhere/perf.data"), &mut Vec::new());
    assert!(matches!(missing, Err(ImportError::Unreadable { .. })));
    let directory = perf_data(Path::new("/"), &mut Vec::new());
    assert!(matches!(directory, Err(ImportError::Unreadable { .. })));
}

/// Each claim of a size, as absurd as it can be, and the file cut at each byte: an error or a part, no panic, and no
/// memory for what is not there.
#[test]
fn damage_is_an_error_or_a_shorter_recording() {
    let mut file = begun(vec![CPU_CLOCK, FAULTS]);
    for number in 0..5 {
        file.sample(number % 2, START + number as u64, PID, 1, &[USER, 0x40_1000, 0x40_2000]);
    }
    let whole = file.bytes();
    for length in 0..whole.len() {
        let _ = perf_data(&written("cut.data", &whole[..length]), &mut Vec::new());
    }
    for at in 0..whole.len() {
        for value in [0, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            // Words grow as well: most claims are of four bytes or eight.
            if at + 4 <= bytes.len() && value == 0xff {
                bytes[at..at + 4].fill(0xff);
            }
            let _ = perf_data(&written("bent.data", &bytes), &mut Vec::new());
        }
    }
}

/// Name, number of samples of time as `perf report --header` of 6.1 counts them, threads with samples at least.
const REAL: [(&str, u64, usize); 8] = [
    ("callchain-lunarlake-fp/perf.data", 3203, 1),
    ("callchain-fp-lbr/perf.data.callgraph-3.8", 1768, 2),
    ("perfdata-format-edge/perf.data.hw_and_sw-3.4", 4734, 2),
    ("perfdata-format-edge/perf.data.numatopology-3.2", 175, 2),
    ("perfdata-format-edge/perf.data.piped.target.throttled-3.4", 228, 1),
    ("perfdata-rust-lib/sleep.compressed2.data", 7, 1),
    ("perfdata-rust-lib/sleep.compressed.pipe.data", 8, 1),
    ("perfdata-rust-lib/fibo.compressed2.pipe.data", 547, 1),
];

#[test]
fn recordings_of_real_machines_keep_their_samples() {
    for (name, expected, threads) in REAL {
        let Some(path) = testkit::fixtures::fixture(name) else { continue };
        let mut facts = Vec::new();
        let imported = perf_data(&path, &mut facts).expect(name);
        let of_time = imported.source.events.iter().filter(|one| one.used_as == EventUse::CpuTime);
        assert_eq!(of_time.map(|event| event.samples).sum::<u64>(), expected, "{name}");
        let samples = samples(&facts);
        // Those of the idle task are no program's.
        assert!(
            samples.len() as u64 <= expected && !samples.is_empty(),
            "{name}: {}",
            samples.len()
        );
        let mut seen: Vec<Tid> = samples.iter().map(|sample| sample.tid).collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() >= threads, "{name}: {}", seen.len());
        assert!(samples.iter().all(|sample| sample.time <= imported.elapsed), "{name}");
    }
}

/// What `perf script` 6.1 prints of it: address, weight and source of each sample. Two are of the idle task.
#[test]
fn samples_of_load_latency_keep_address_latency_and_source() {
    let Some(path) =
        testkit::fixtures::fixture("intel-pebs-skx-weightstruct/perf.data.weight_struct")
    else {
        return;
    };
    let mut facts = Vec::new();
    let imported = perf_data(&path, &mut facts).expect("a recording without time");
    let event = &imported.source.events[0];
    assert_eq!((event.samples, event.used_as), (14, EventUse::MemoryAccesses));
    assert!(imported.notes.iter().any(|note| note.contains("64 cycles or more")));
    let found: Vec<_> = accesses(&facts)
        .iter()
        .map(|one| {
            (one.tid.0, one.address.expect("an address").0, one.latency, one.from, one.translation)
        })
        .collect();
    let (hit, walk) = (Some(Translation::Hit), Some(Translation::Walk));
    let (l1, l2, l3) = (Some(DataSource::L1), Some(DataSource::L2), Some(DataSource::L3));
    let buffer = Some(DataSource::FillBuffer);
    let expected = [
        (20144, 0x55ff_ba5c_da08, Some(225), buffer, hit),
        (18995, 0xffff_ffff_a5e1_20e8, Some(96), buffer, hit),
        (3216, 0xffff_c36a_5ba4_ba40, Some(71), l1, hit),
        (20595, 0x4a1_cba7_6618, Some(70), buffer, hit),
        (19460, 0x4e7_ca80, Some(92), l1, hit),
        (26755, 0xffff_8b6d_0d9c_b308, Some(77), l2, hit),
        (19360, 0x4482_53ad_3300, Some(240), l3, walk),
        (19993, 0xffff_8b6c_e18f_1608, Some(70), l3, hit),
        (20391, 0x4609_440b_d6d0, Some(117), l3, hit),
        (3217, 0xffff_c36a_bf0c_631c, Some(81), l1, hit),
        (3216, 0xffff_c36a_c013_1180, Some(249), buffer, hit),
        (19892, 0x7fc3_ada9_f408, Some(168), l1, hit),
    ];
    assert_eq!(found, expected);
    let locked: Vec<i32> = accesses(&facts)
        .iter()
        .filter(|one| one.locked == Some(true))
        .map(|one| one.tid.0)
        .collect();
    assert_eq!(locked, [19460, 3217]);
    assert!(accesses(&facts).iter().all(|one| one.weight == 10_009 && one.stack.is_some()));
}

fn accesses(facts: &[Fact]) -> Vec<MemorySample> {
    let access = |fact: &Fact| match fact {
        Fact::MemorySample(sample) => Some(*sample),
        _ => None,
    };
    facts.iter().filter_map(access).collect()
}

#[test]
fn hardware_traces_are_named_with_their_size() {
    let known = [
        ("intel-pt-small/perf.data.intel_pt-4.14", "Intel PT"),
        ("intel-pt-small/perf.data.piped.intel_pt-4.14", "Intel PT"),
    ];
    for (name, kind) in known {
        let Some(path) = testkit::fixtures::fixture(name) else { continue };
        let imported = perf_data(&path, &mut Vec::new()).expect(name);
        let of_traces = |note: &&String| note.contains("hardware traces");
        let note = imported.notes.iter().find(of_traces).expect("a note");
        assert!(note.contains(kind) && note.contains("KiB"), "{note}");
    }
}

/// `PERF_RECORD_AUXTRACE` of a terabyte, and a compressed record that would become gigabytes.
#[test]
fn claims_of_records_are_compared_with_the_file() {
    let mut file = begun(vec![CPU_CLOCK]);
    let mut trace = (1_u64 << 40).to_le_bytes().to_vec();
    trace.extend([0; 32]);
    file.record(71, 0, &trace);
    let error = imported("trace.data", &file).0.err().expect("refused").to_string();
    assert!(error.contains("1099511627776 bytes would end beyond the file"), "{error}");

    // A frame of zstd without a size: blocks of 128 KiB of one byte, 4 bytes each (RFC 8878, 3.1.1.2).
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for _ in 0..15_000 {
        let (last, run_length, size) = (0, 1 << 1, (128 << 10) << 3);
        let head: u32 = last | run_length | size;
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(0);
    }
    let mut file = begun(vec![CPU_CLOCK]);
    file.record(81, 0, &frame);
    let error = imported("bomb.data", &file).0.err().expect("refused").to_string();
    assert!(error.contains("its compressed records would become more than 67108864"), "{error}");
}

/// Found by fuzzing: a feature of pipe mode whose number has more than 32 bits, and a description of four billion events.
#[test]
fn a_feature_is_checked_by_the_bits_that_the_parser_looks_at() {
    let mut bytes = b"PERFILE2".to_vec();
    bytes.extend(16_u64.to_le_bytes());
    let mut record = |kind: u32, body: &[u8]| {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0_u16.to_le_bytes());
        bytes.extend((body.len() as u16 + 8).to_le_bytes());
        bytes.extend(body);
    };
    // PERF_RECORD_HEADER_ATTR: type, size and the rest of an attribute, then an id.
    let mut attribute =
        [1_u32, 128].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    attribute.resize(128, 0);
    attribute.extend(1_u64.to_le_bytes());
    record(64, &attribute);
    let mut feature = (12 | 1_u64 << 40).to_le_bytes().to_vec();
    feature.extend([u32::MAX, 128].iter().flat_map(|word| word.to_le_bytes()));
    record(80, &feature);
    let error =
        perf_data(&written("feature.data", &bytes), &mut Vec::new()).err().expect("refused");
    assert!(error.to_string().contains("descriptions of events are cut off"), "{error}");
}

/// Parts that the crate misreads or drops: groups of counts with lost ones, branches with their counters.
#[test]
fn groups_of_counts_and_branches_do_not_shift_what_follows() {
    let load = 2 | (2 | 0x80) << 5 | 2 << 26 | 8 << 26;
    for (lost, counters) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut file =
            begun(vec![Event { kind: 4, config: 0x1cd, name: "cpu/mem-loads,ldlat=30/P" }]);
        // READ, BRANCH_STACK, WEIGHT and DATA_SRC besides; PERF_FORMAT_GROUP and ID.
        file.further = (16 | 2048 | 16384 | 32768, 8 | 4, u64::from(counters) << 19);
        let mut rest: Vec<u64> = vec![2];
        for value in 0..2_u64 {
            rest.extend([value, value + 1]);
            rest.extend(lost.then_some(0));
        }
        // No call chain, then two branches.
        rest.extend([0, 2, 0x40_1100, 0x40_1000, 0, 0x40_1100, 0x40_1000, 0]);
        rest.extend(counters.then_some([3, 4]).iter().flatten());
        rest.extend([77, load]);
        file.sample_of(0, START + 5, PID, 30, 0x40_1100, &rest);
        let (imported, facts) = imported(&format!("group{lost}{counters}.data"), &file);
        imported.expect("a sound file");
        let [access] = accesses(&facts)[..] else { panic!("one access") };
        assert_eq!((access.latency, access.from), (Some(77), Some(DataSource::Dram)));
        assert_eq!(access.translation, Some(Translation::L1));
    }
}

#[test]
fn branch_stacks_of_real_machines_become_loops() {
    let known = [
        "callchain-fp-lbr/perf.data.callgraph_and_branch-3.8",
        "callchain-fp-lbr/hierarchical_discriminator_test.x86_64.perf.data",
        "perfdata-format-edge/perf.data.branch-4.14",
    ];
    for name in known {
        let Some(path) = testkit::fixtures::fixture(name) else { continue };
        let mut facts = Vec::new();
        perf_data(&path, &mut facts).expect(name);
        let loops: Vec<_> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::BranchLoop(one) => Some(*one),
                _ => None,
            })
            .collect();
        assert!(!loops.is_empty(), "{name}");
        for one in &loops {
            assert!(one.branch.is_some() && one.head.is_some() && one.stacks > 0, "{name}");
            assert!(one.taken >= one.decided && one.decided >= one.starts, "{name}: {one:?}");
        }
        let taken: Vec<u64> = loops.iter().map(|one| one.taken).collect();
        assert!(taken.is_sorted_by(|one, next| one >= next), "{name}");
    }
}

/// `perf record --call-graph lbr`: PERF_SAMPLE_BRANCH_USER and CALL_STACK. Each branch is a call that did not return, the latest first.
#[test]
fn calls_that_the_hardware_keeps_are_callers() {
    let mut file = begun(vec![CPU_CLOCK]);
    file.further = (2048, 0, 1 | 1 << 11);
    let calls = [2, 0x40_2000, 0x40_1000, 0, 0x40_3000, 0x40_2f00, 0];
    let with = |chain: &[u64]| [&[chain.len() as u64][..], chain, &calls].concat();
    // Without frame pointers in the program, the kernel finds its own address and a wrong caller.
    file.sample_of(0, START + 1, PID, 30, 0x40_1010, &with(&[USER, 0x40_1010, 0x40_9999]));
    file.sample_of(0, START + 2, PID, 30, 0x40_1010, &with(&[]));
    let kernel = 0xffff_ffff_8100_0010;
    file.sample_of(0, START + 3, PID, 30, kernel, &with(&[KERNEL, kernel, USER, 0x40_1020]));
    // Nothing called: what frame pointers found stays.
    let none = [3, USER, 0x40_1010, 0x40_2005, 0];
    file.sample_of(0, START + 4, PID, 30, 0x40_1010, &none);
    let (imported, facts) = imported("call_stacks.data", &file);
    let imported = imported.expect("a sound file");
    assert_eq!(imported.source.events[0].used_as, EventUse::CpuTime);
    assert!(!imported.notes.iter().any(|note| note.contains("branch")), "{:?}", imported.notes);
    assert!(!facts.iter().any(|fact| matches!(fact, Fact::BranchLoop(_))));
    let found: Vec<Vec<u64>> = samples(&facts)
        .iter()
        .map(|sample| frames(&facts, sample).into_iter().map(|(_, offset)| offset.0).collect())
        .collect();
    let expected: [&[u64]; 4] = [
        &[0x1010, 0x2000, 0x3000],
        &[0x1010, 0x2000, 0x3000],
        &[kernel, 0x1020, 0x2000, 0x3000],
        &[0x1010, 0x2004],
    ];
    assert_eq!(found, expected);
}

/// `perf record -d -e ibs_op//`: cycles and accesses in one event; and what was mapped.
#[test]
fn an_event_may_tell_time_and_accesses() {
    let store = 4 | (2 | 8) << 5 | 2 << 26 | 16 << 26;
    let mut file = begun(vec![Event { kind: 11, config: 0, name: "ibs_op//" }]);
    file.further = (16384 | 32768, 0, 0);
    file.mapped_data(START, PID, (0x7000_0000, 0x2000), "[heap]");
    for number in 1..=40 {
        // Every second op accesses no memory.
        let source = if number % 2 == 0 { store } else { 1 };
        file.sample_of(0, START + number * 100_000, PID, 250_000, 0x40_1100, &[0, 0, source]);
    }
    let (imported, facts) = imported("ibs.data", &file);
    let imported = imported.expect("a sound file");
    assert_eq!(imported.source.events[0].used_as, EventUse::CpuTimeAndMemoryAccesses);
    assert_eq!((samples(&facts).len(), accesses(&facts).len()), (40, 20));
    let access = accesses(&facts)[0];
    assert_eq!((access.access, access.from), (AccessKind::Store, Some(DataSource::L1)));
    assert_eq!((access.translation, access.latency), (Some(Translation::L2), None));
    assert_eq!(access.weight, 250_000);
    let regions: Vec<_> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Region(region) => Some((region.start.0, region.bytes.0, region.kind)),
            _ => None,
        })
        .collect();
    assert_eq!(regions, [(0x7000_0000, 0x2000, RegionKind::Break)]);
}

/// A load of an instruction of the program, as packets of Arm SPE: latency 30 of 40 cycles, the data source, and the end.
fn load(ip: u64, address: u64, source: u8, context: Option<u32>, ticks: Option<u64>) -> Vec<u8> {
    let mut bytes = vec![0xb0];
    // EL0, not secure.
    bytes.extend((ip | 1 << 63).to_le_bytes());
    if let Some(tid) = context {
        bytes.push(0x64);
        bytes.extend(tid.to_le_bytes());
    }
    bytes.extend([0x49, 0, 0x52, 0x16, 0, 0x99, 10, 0, 0x98, 40, 0, 0xb2]);
    bytes.extend(address.to_le_bytes());
    bytes.extend([0x43, source]);
    match ticks {
        Some(ticks) => {
            bytes.push(0x71);
            bytes.extend(ticks.to_le_bytes());
        }
        None => bytes.push(1),
    }
    bytes
}

const SPE: Event = Event { kind: 9, config: 0, name: "arm_spe_0/ts_enable=1,min_latency=20/" };
const NEOVERSE_N1: u64 = 0x413f_d0c1;
const UNKNOWN: u32 = u32::MAX;

/// A buffer per CPU: who ran there when, by switches or by the trace itself. The timer has 25 MHz: 40 ns a tick.
#[test]
fn arm_spe_becomes_sampled_accesses_between_the_records() {
    let other = PID + 1;
    let mut file = begun(vec![SPE]);
    file.executed(START, other, "other");
    file.spe(NEOVERSE_N1, 40 << 10, START);
    let mut trace = load(0x40_1000, 0x7000_0040, 0x0e, None, Some(250));
    trace.extend(load(0x40_1004, 0x7000_0080, 0x0c, None, Some(750)));
    trace.extend(load(0x40_1008, 0x7000_00c0, 0x08, Some(PID), Some(1250)));
    file.switched_in(START + 5_000, PID);
    file.switched_in(START + 20_000, other);
    file.announced(START + 60_000, other, (0, trace.len() as u64), 1);
    file.traced(0, (UNKNOWN, 0), &trace);
    // Nothing tells who ran on CPU 7.
    file.traced(0, (UNKNOWN, 7), &load(0x40_1000, 0x7000_0040, 0x0e, None, Some(2000)));
    let (imported, facts) = imported("spe.data", &file);
    let imported = imported.expect("a sound file");
    let event = &imported.source.events[0];
    assert_eq!((event.samples, event.used_as), (4, EventUse::MemoryAccesses));
    let found: Vec<_> = accesses(&facts)
        .iter()
        .map(|one| {
            (one.time.0, one.tid.0.cast_unsigned(), one.address.map_or(0, |at| at.0), one.from)
        })
        .collect();
    let expected = [
        (10_000, PID, 0x7000_0040, Some(DataSource::Dram)),
        (30_000, other, 0x7000_0080, Some(DataSource::L3)),
        (50_000, PID, 0x7000_00c0, Some(DataSource::L2)),
    ];
    assert_eq!(found, expected);
    let first = accesses(&facts)[0];
    assert_eq!((first.latency, first.instruction_latency), (Some(30), Some(40)));
    assert_eq!((first.access, first.privilege), (AccessKind::Load, Privilege::User));
    let node = facts.iter().find_map(|fact| match fact {
        Fact::StackNode(node) if Some(node.id) == first.stack => Some(node.offset),
        _ => None,
    });
    assert_eq!(node, Some(FileOffset(0x1000)));
    let notes = imported.notes.join("\n");
    assert!(notes.contains("1 accesses of arm_spe_0"), "{notes}");
    assert!(notes.contains("was full 1 times") && notes.contains("20 cycles or more"), "{notes}");
    assert!(!notes.contains("hardware traces"), "{notes}");
}

/// A buffer of one thread without time stamps: the records that announce its parts have them. An unknown core has no sources.
#[test]
fn arm_spe_without_time_stamps_takes_those_of_its_parts() {
    let mut file = begun(vec![SPE]);
    file.spe(0x480f_d010, 40 << 10, START);
    let (first, second) = (
        load(0x40_1000, 0x7000_0040, 0x0e, None, None),
        load(0x40_1004, 0x7000_0080, 0x0e, None, None),
    );
    let at = first.len() as u64;
    file.announced(START + 1000, PID, (0, at), 0);
    file.announced(START + 2000, PID, (at, second.len() as u64), 0);
    file.traced(0, (PID, UNKNOWN), &[first, second].concat());
    let (imported, facts) = imported("untimed.data", &file);
    imported.expect("a sound file");
    let found: Vec<_> = accesses(&facts).iter().map(|one| (one.time.0, one.from)).collect();
    assert_eq!(found, [(1000, Some(DataSource::L1)), (2000, Some(DataSource::L1))]);
}
