//! Sampled accesses with known answers: by hand, and 15,676 of LULESH on a real machine.
//!
//! What not: how such samples are read (`import`).

use std::collections::BTreeMap;
use std::process::Command;

use analysis::objects::{Grouping, Objects};
use analysis::sampled::{SampledAccesses, SampledRow, sampled_loops};
use analysis::sharing::Sharing;
use analysis::{Key, Profile, Selection, TracedCode};
use base::{Bytes, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    AccessKind, BranchLoop, DataSource, Global, MemorySample, Privilege, Recording, Snoop,
    Translation,
};
use testkit::recording::RecordingBuilder;

const PID: i32 = 7;

fn load(time: u64, stack: Option<StackId>, address: u64) -> MemorySample {
    MemorySample {
        time: Nanos(time),
        pid: Pid(PID),
        tid: Tid(PID),
        cpu: None,
        stack,
        privilege: Privilege::User,
        event: 0,
        weight: 1,
        access: AccessKind::Load,
        address: Some(RemoteAddr(address)),
        latency: None,
        instruction_latency: None,
        from: None,
        snoop: None,
        translation: None,
        locked: None,
        page: None,
    }
}

fn rows(recording: &Recording, keys: &[Key]) -> Vec<(String, SampledRow)> {
    let profile = Profile::new(recording);
    let (objects, selection) = (Objects::new(&profile), Selection::default());
    let code = TracedCode::default();
    let accesses = SampledAccesses::new(&profile, &selection, &objects);
    let found = accesses.rows(&Grouping {
        profile: &profile,
        code: &code,
        objects: &objects,
        selection: &selection,
        keys,
    });
    let name = |row: &SampledRow| match row.key.object {
        Some(object) => objects.get(object).name.clone(),
        None => {
            let place = profile.stacks.places[row.place.index()];
            format!("{}:{}", profile.stacks.function_of(row.place).name, place.line.unwrap_or(0))
        }
    };
    found.into_iter().map(|row| (name(&row), row)).collect()
}

/// Loads that weigh 1 and 3, of which some lack a latency, a source or a translation.
#[test]
fn shares_are_of_the_samples_that_have_the_part() {
    let mut builder = RecordingBuilder::new();
    let file = builder.file("/bin/gather");
    let gather = builder.code(file, 0x10, &[("gather", "gather.c", 3)]);
    let stack = builder.stack(&[gather]);
    builder.thread(PID, PID, "gather", 0.0, 1.0);
    let mut recording = builder.build();
    let one = |number: u64, weight, latency, from| MemorySample {
        weight,
        latency,
        from,
        ..load(number, stack, 0x1000)
    };
    recording.memory_samples = vec![
        MemorySample {
            translation: Some(Translation::Walk),
            snoop: Some(Snoop::Modified),
            ..one(1, 3, Some(100), Some(DataSource::RemoteDram))
        },
        MemorySample {
            translation: Some(Translation::Hit),
            ..one(2, 1, Some(20), Some(DataSource::L1))
        },
        MemorySample { page: Some(Bytes(4096)), ..one(3, 1, None, Some(DataSource::L1)) },
        // A neighbour gave the line, modified or not: no part of the share of modified ones.
        MemorySample {
            snoop: Some(Snoop::Peer),
            page: Some(Bytes(2 << 20)),
            ..one(4, 5, None, None)
        },
        MemorySample { access: AccessKind::Store, ..one(5, 9, None, Some(DataSource::L1)) },
    ];
    let all = rows(&recording, &[Key::Function]);
    let [(name, row)] = all.as_slice() else { panic!("one row: {all:?}") };
    assert_eq!((name.as_str(), row.loads, row.stores), ("gather:3", 4, 1));
    let levels = &row.levels;
    assert_eq!((levels.remote_dram.value, levels.dram.value), (Some(60.0), Some(60.0)));
    assert_eq!((levels.l1.value, levels.l2.value), (Some(40.0), Some(0.0)));
    // 5 of 6 that tell their page.
    assert_eq!(levels.huge_pages.value.map(|share| share.round()), Some(83.0));
    assert_eq!((levels.modified.value, levels.page_walks.value), (Some(100.0), Some(75.0)));
    let latency = row.latency.as_ref().expect("two latencies");
    // (3 * 100 + 20) / 4; half of the weight is reached at 100.
    assert_eq!((latency.mean.value, latency.p50.value), (Some(80.0), Some(100.0)));
    assert_eq!((latency.covered.value, latency.mean.unit.as_str()), (Some(40.0), "cycles"));
    assert!(latency.mean.low <= Some(80.0) && latency.mean.high >= Some(80.0));
}

#[test]
fn lines_are_shared_by_what_threads_use_of_them() {
    let mut builder = RecordingBuilder::new();
    for tid in [PID, PID + 1] {
        builder.thread(PID, tid, "worker", 0.0, 1.0);
    }
    let mut recording = builder.build();
    let mut number = 0;
    let mut add = |tid: i32, address: u64, access, snoop| {
        number += 1;
        let sample = load(number, None, address);
        recording.memory_samples.push(MemorySample { tid: Tid(tid), access, snoop, ..sample });
    };
    let modified = Some(Snoop::Modified);
    // Different words; the same word; read by both, written by nobody; modified, but the writer was not sampled.
    add(PID, 0x1000, AccessKind::Store, None);
    add(PID + 1, 0x1008, AccessKind::Load, modified);
    add(PID, 0x2000, AccessKind::Store, None);
    add(PID + 1, 0x2004, AccessKind::Load, modified);
    add(PID + 1, 0x2004, AccessKind::Load, modified);
    add(PID, 0x3000, AccessKind::Load, Some(Snoop::Hit));
    add(PID + 1, 0x3000, AccessKind::Load, Some(Snoop::Hit));
    add(PID, 0x4000, AccessKind::Load, modified);
    let lines = |recording: &Recording| {
        let profile = Profile::new(recording);
        let objects = Objects::new(&profile);
        let found = SampledAccesses::new(&profile, &Selection::default(), &objects).shared_lines();
        let line = |line: &analysis::sampled::SampledLine| {
            (line.address.0, line.sharing, line.modified, line.threads.len())
        };
        found.lines.iter().map(line).collect::<Vec<_>>()
    };
    let expected = [
        (0x2000, Some(Sharing::True), 2, 2),
        (0x1000, Some(Sharing::False), 1, 2),
        (0x4000, None, 1, 1),
    ];
    assert_eq!(lines(&recording), expected);
    // Hardware that tells nothing of other caches: a line counts that two threads use and one writes.
    for tells_nothing in [None, Some(Snoop::Peer)] {
        recording.memory_samples.iter_mut().for_each(|sample| sample.snoop = tells_nothing);
        let shared: Vec<u64> = lines(&recording).iter().map(|line| line.0).collect();
        assert_eq!(shared, [0x2000, 0x1000], "{tells_nothing:?}");
    }
}

/// Variable, line, latency of each sample, against plain sums over the same rows.
#[test]
fn lulesh_by_line_and_by_variable() {
    let Some(path) = testkit::fixtures::fixture("memaxes-lulesh/samples.out.gz") else { return };
    let output = Command::new("gzip").arg("-dc").arg(&path).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        println!("skipped: gzip cannot unpack {}", path.display());
        return;
    };
    let text = String::from_utf8(output.stdout).expect("a text");
    let mut builder = RecordingBuilder::new();
    let file = builder.file("/bin/lulesh");
    builder.thread(PID, PID, "lulesh", 0.0, 1.0);
    let mut places: BTreeMap<u32, Option<StackId>> = BTreeMap::new();
    let mut variables: BTreeMap<String, u64> = BTreeMap::new();
    let mut samples = Vec::new();
    let (mut by_line, mut by_variable): (BTreeMap<u32, Vec<f64>>, BTreeMap<String, u64>) =
        (BTreeMap::new(), BTreeMap::new());
    for row in text.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let number = |at: usize| cells[at].parse::<u64>().expect("a number");
        let (line, latency) = (number(2) as u32, number(5) as u32);
        let stack = *places.entry(line).or_insert_with(|| {
            let at = 0x1000 + u64::from(line) * 16;
            let code = builder.code(file, at, &[("kernel", "LULESH_OMP.cc", line)]);
            builder.stack(&[code])
        });
        let next = 0x1000_0000 * (variables.len() as u64 + 1);
        let start = *variables.entry(cells[0].to_owned()).or_insert(next);
        let sample = load(samples.len() as u64, stack, start + number(9) % 0x10_0000 * 8);
        samples.push(MemorySample { latency: Some(latency), ..sample });
        by_line.entry(line).or_default().push(f64::from(latency));
        *by_variable.entry(cells[0].to_owned()).or_default() += 1;
    }
    assert_eq!(samples.len(), 15_676);
    let mut recording = builder.build();
    recording.memory_samples = samples;
    let global = |(name, start): (&String, &u64)| Global {
        time: Nanos(0),
        pid: Pid(PID),
        module: file,
        start: RemoteAddr(*start),
        bytes: Bytes(0x0fff_ffff),
        name: name.clone(),
    };
    recording.globals = variables.iter().map(global).collect();
    let lines = rows(&recording, &[Key::SourceLine]);
    assert_eq!(lines.len(), by_line.len());
    let mut whole = 0.0;
    for (name, row) in &lines {
        let line: u32 = name.rsplit(':').next().and_then(|line| line.parse().ok()).expect("a line");
        let of_line = &by_line[&line];
        let mean = of_line.iter().sum::<f64>() / of_line.len() as f64;
        let found = row.latency.as_ref().expect("each has a latency").mean.value.expect("a mean");
        assert_eq!(row.loads, of_line.len() as u64, "{name}");
        assert!((found - mean).abs() < 1e-9 * mean, "{name}: {found} of {mean}");
        whole += row.time_share.value.expect("a share");
    }
    assert!((whole - 100.0).abs() < 1e-6, "{whole}");
    let objects = rows(&recording, &[Key::Object]);
    let found: BTreeMap<String, u64> =
        objects.into_iter().map(|(name, row)| (name, row.loads)).collect();
    assert_eq!(found, by_variable);
}

/// Two loops of one function, one back call, and what their trip counts are.
#[test]
fn loops_of_branch_stacks_have_a_share_and_a_trip_count() {
    let mut builder = RecordingBuilder::new();
    let file = builder.file("/bin/loops");
    let mut at = |offset: u64, function: &str, line: u32| {
        let code = builder.code(file, offset, &[(function, "loops.c", line)]);
        builder.stack(&[code])
    };
    let (outer_head, inner_head) = (at(0x100, "walk", 10), at(0x110, "walk", 11));
    let (inner_back, outer_back) = (at(0x130, "walk", 11), at(0x140, "walk", 10));
    let callee = at(0x80, "other", 3);
    let mut recording = builder.build();
    // Each of 100 stacks has 8 branches back of the inner loop, of which 2 begin a run: trips of 5. Of the outer loop 2, of
    // which none begins one.
    let inner = BranchLoop {
        pid: Pid(PID),
        branch: inner_back,
        head: inner_head,
        taken: 900,
        stacks: 100,
        decided: 800,
        starts: 200,
        decided_squares: 6400,
        products: 1600,
        starts_squares: 400,
    };
    let outer = BranchLoop {
        branch: outer_back,
        head: outer_head,
        taken: 300,
        decided: 200,
        starts: 0,
        decided_squares: 400,
        products: 0,
        starts_squares: 0,
        ..inner
    };
    let call = BranchLoop { branch: outer_back, head: callee, ..inner };
    recording.branch_loops = vec![outer, call, inner];
    let profile = Profile::new(&recording);
    let found = sampled_loops(&profile, &Selection::default());
    let line = |at: usize| profile.stacks.places[found[at].place.index()].line;
    assert_eq!((found.len(), line(0), line(1)), (2, Some(11), Some(10)));
    assert_eq!((found[0].share.value, found[1].share.value), (Some(75.0), Some(25.0)));
    let trips = &found[0].trip_count;
    // All stacks are alike: the ratio has no scatter.
    assert_eq!((trips.value, trips.low, trips.high), (Some(5.0), Some(5.0), Some(5.0)));
    let note = found[1].trip_count.note.as_deref().expect("a reason");
    assert!(found[1].trip_count.value.is_none() && note.contains("longer than stacks"), "{note}");
}
