//! What goes into a result comes out again: closed properly, interrupted, or killed.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base::Nanos;
use facts::{Fact, Recording, Run, RunState, Sample, Sink};
use store::{Problem, StoreError, Table, Writer, open, verify};
use support::{SMALL, Scratch, Shape, facts, recording, run};

fn write(directory: &std::path::Path, run: &Run, facts: &[Fact]) -> Writer {
    let mut writer = Writer::create(directory, run).expect("a new directory");
    for fact in facts {
        writer.push(fact.clone()).expect("room on the disk");
    }
    writer
}

#[test]
fn a_complete_result_comes_back_whole() {
    let scratch = Scratch::new("complete");
    let directory = scratch.path().join("r000ma");
    let facts = facts(SMALL);
    let mut writer = write(&directory, &run(SMALL), &facts);
    let early = writer.recording(&run(SMALL)).expect("the journal");
    let finished = writer.finish(&run(SMALL)).expect("finish");
    let opened = open(&directory).expect("open");
    assert_eq!((early.recording, early.problems), (opened.recording.clone(), Vec::new()));
    let expected = recording(Run { state: RunState::Complete, ..run(SMALL) }, &facts);
    assert_eq!(opened.problems, []);
    assert_eq!(opened.recording, expected);
    assert_eq!(verify(&directory).expect("verify"), []);
    assert_eq!(finished.size, store::size_on_disk(&directory));
    assert_eq!(finished.notes, Vec::<String>::new());
    let mut names: Vec<String> = fs::read_dir(&directory)
        .expect("readable")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    let mut expected: Vec<String> = Table::ALL.map(Table::file_name).to_vec();
    expected.push("run.json".to_owned());
    expected.sort();
    assert_eq!(names, expected);
    for name in names {
        let mode = fs::metadata(directory.join(&name)).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{name}");
    }
    assert_eq!(fs::metadata(&directory).expect("metadata").permissions().mode() & 0o777, 0o755);
}

#[test]
fn many_row_groups_come_back_in_order() {
    let scratch = Scratch::new("groups");
    let directory = scratch.path().join("r000ma");
    let shape = Shape { seconds: 60, threads: 4, stack_nodes: 5000, faults: 20_000 };
    let facts = facts(shape);
    write(&directory, &run(shape), &facts).finish(&run(shape)).expect("finish");
    let opened = open(&directory).expect("open");
    let expected = recording(Run { state: RunState::Complete, ..run(shape) }, &facts);
    assert_eq!(opened.recording.samples.len(), 240_000);
    assert!(opened.recording == expected, "the recording differs");
    assert_eq!(verify(&directory).expect("verify"), []);
}

/// Tables that results of a version had not yet.
fn later_tables(version: u32) -> impl Iterator<Item = Table> {
    Table::ALL.into_iter().filter(move |table| table.since() > version)
}

/// Gives tables and keys of a complete result the names that they had in a version.
fn name_as_in(version: u32, directory: &Path, manifest: &mut serde_json::Value) {
    manifest["schema"] = version.into();
    for table in Table::ALL {
        let (now, then) = (table.name(), table.name_in(version));
        let seals = manifest["tables"].as_object_mut().expect("seals");
        if now != then && table.since() <= version {
            let seal = seals.remove(now).expect("a seal");
            seals.insert(then.to_owned(), seal);
            let file = directory.join(format!("{then}.parquet"));
            fs::rename(directory.join(table.file_name()), file).expect("a table");
        }
    }
    let collector = manifest["collector"].as_object_mut().expect("a collector");
    let overhead = collector.remove("timed_load_overhead_cycles").expect("it was there");
    collector.insert("timed_load_floor_cycles".to_owned(), overhead);
}

/// Version 1 had neither the tables of bursts nor their costs.
#[test]
fn a_result_of_version_1_opens() {
    let scratch = Scratch::new("version-1");
    let directory = scratch.path().join("r000ma");
    let mut facts = facts(SMALL);
    facts.retain(|fact| Table::of(fact).since() <= 1);
    write(&directory, &run(SMALL), &facts).finish(&run(SMALL)).expect("finish");
    for table in later_tables(1) {
        fs::remove_file(directory.join(table.file_name())).expect("it was there");
    }
    let manifest = directory.join("run.json");
    let text = fs::read_to_string(&manifest).expect("the manifest");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    value["schema"] = 1.into();
    let cost = value["own_cost"].as_object_mut().expect("a cost");
    for name in ["burst_stand_still_ns", "burst_time_ns", "burst_slowdown_ns", "consumer_cpu_ns"] {
        cost.remove(name).expect("it was there");
    }
    fs::write(&manifest, value.to_string()).expect("written");
    let opened = open(&directory).expect("open");
    assert_eq!(opened.problems, []);
    let expected = Run { state: RunState::Complete, schema: 1, ..run(SMALL) };
    assert_eq!(opened.recording, recording(expected, &facts));
    assert_eq!(verify(&directory).expect("verify"), []);
}

/// Version 2 had no no-miss times, version 3 no heap, version 4 neither other objects nor waits.
#[test]
fn results_of_earlier_versions_open() {
    (2..facts::SCHEMA_VERSION).for_each(opens_as);
}

fn opens_as(version: u32) {
    let scratch = Scratch::new(&format!("version-{version}"));
    let directory = scratch.path().join("r000ma");
    let mut facts = facts(SMALL);
    facts.retain(|fact| Table::of(fact).since() <= version);
    write(&directory, &run(SMALL), &facts).finish(&run(SMALL)).expect("finish");
    for table in later_tables(version) {
        fs::remove_file(directory.join(table.file_name())).expect("it was there");
    }
    let manifest = directory.join("run.json");
    let text = fs::read_to_string(&manifest).expect("the manifest");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    name_as_in(version, &directory, &mut value);
    fs::write(&manifest, value.to_string()).expect("written");
    let opened = open(&directory).expect("open");
    assert_eq!(opened.problems, []);
    let expected = Run { state: RunState::Complete, schema: version, ..run(SMALL) };
    assert_eq!(opened.recording, recording(expected, &facts));
    assert_eq!(verify(&directory).expect("verify"), []);
}

/// Version 5 got the table of pages before it was released: results from before neither have it nor name it.
#[test]
fn a_result_without_pages_opens() {
    let scratch = Scratch::new("no-pages");
    let directory = scratch.path().join("r000ma");
    let mut facts = facts(SMALL);
    facts.retain(|fact| !matches!(fact, Fact::Page(_)));
    write(&directory, &run(SMALL), &facts).finish(&run(SMALL)).expect("finish");
    let pages = directory.join(Table::Page.file_name());
    fs::remove_file(&pages).expect("it was there");
    assert!(open(&directory).is_err(), "the manifest names it");
    let manifest = directory.join("run.json");
    let text = fs::read_to_string(&manifest).expect("the manifest");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    value["tables"].as_object_mut().expect("seals").remove("pages").expect("it was there");
    fs::write(&manifest, value.to_string()).expect("written");
    let opened = open(&directory).expect("open");
    assert_eq!((opened.problems, opened.recording.pages), (vec![], vec![]));
}

#[test]
fn an_empty_run_is_a_result() {
    let scratch = Scratch::new("empty");
    let directory = scratch.path().join("r000ma");
    write(&directory, &Run::default(), &[]).finish(&Run::default()).expect("finish");
    let opened = open(&directory).expect("open");
    assert_eq!(opened.problems, []);
    assert_eq!(opened.recording.samples, []);
    assert_eq!(verify(&directory).expect("verify"), []);
}

#[test]
fn an_interrupted_result_holds_what_was_flushed() {
    let scratch = Scratch::new("interrupted");
    let directory = scratch.path().join("r000ma");
    let facts = facts(SMALL);
    let half = facts.len() / 2;
    let mut writer = write(&directory, &run(SMALL), &facts[..half]);
    writer.flush().expect("flush");
    // The writer is alive: what a second process sees now is what it would see after a crash.
    let opened = open(&directory).expect("open");
    let last = opened
        .recording
        .samples
        .last()
        .expect("samples")
        .time
        .max(opened.recording.faults.last().expect("faults").time);
    let expected = recording(Run { elapsed_ns: last.0, ..run(SMALL) }, &facts[..half]);
    assert_eq!(opened.problems, [Problem::Incomplete { milliseconds: last.0 / 1_000_000 }]);
    assert_eq!(opened.recording, expected);
    assert_eq!(opened.recording.run.state, RunState::Incomplete);
    assert_eq!(verify(&directory).expect("verify"), []);
    drop(writer);
}

/// Run as a child by the test below: writes, says so, and waits to be killed.
#[test]
fn child_that_is_killed() {
    let Ok(directory) = std::env::var("FATHOM_STORE_TEST_CHILD") else { return };
    let mut writer = write(directory.as_ref(), &run(SMALL), &facts(SMALL));
    writer.flush().expect("flush");
    for fact in facts(SMALL) {
        writer.push(fact).expect("room");
    }
    fs::write(format!("{directory}.ready"), "").expect("a sign");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn kill_9_loses_only_what_was_not_flushed() {
    let scratch = Scratch::new("killed");
    let directory = scratch.path().join("r000ma");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_that_is_killed"])
        .env("FATHOM_STORE_TEST_CHILD", &directory)
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    let sign = scratch.path().join("r000ma.ready");
    while !sign.exists() {
        assert!(child.try_wait().expect("a child").is_none(), "the child ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("a dead child");
    let opened = open(&directory).expect("open");
    let expected = recording(run(SMALL), &facts(SMALL));
    assert_eq!(opened.recording.samples, expected.samples);
    assert_eq!(opened.recording.frames, expected.frames);
    assert_eq!(opened.problems, [Problem::Incomplete { milliseconds: 1000 }]);
}

/// Every prefix of a journal opens, and holds a prefix of the facts.
#[test]
fn a_torn_journal_opens_up_to_its_last_good_frame() {
    let scratch = Scratch::new("torn");
    let directory = scratch.path().join("r000ma");
    let all = facts(SMALL);
    let mut writer = write(&directory, &run(SMALL), &[]);
    for piece in all.chunks(150) {
        piece.iter().for_each(|fact| writer.push(fact.clone()).expect("room"));
        writer.flush().expect("flush");
    }
    let journal = directory.join("journal.fathom");
    let bytes = fs::read(&journal).expect("the journal");
    std::mem::forget(writer);
    let whole = open(&directory).expect("open").recording;
    let mut counts = std::collections::BTreeSet::new();
    for length in (16..bytes.len()).step_by(31) {
        fs::write(&journal, &bytes[..length]).expect("a shorter journal");
        let opened = open(&directory).expect("a torn journal opens");
        assert!(is_prefix(&opened.recording, &whole), "cut at {length}");
        counts.insert(opened.recording.samples.len());
        let torn = opened.problems.iter().any(|p| matches!(p, Problem::TornTail { .. }));
        let repaired = opened.problems.iter().any(|p| matches!(p, Problem::Repaired { .. }));
        assert!(!repaired, "a prefix needs no repair");
        assert_eq!(verify(&directory).expect("verify").is_empty(), !torn, "cut at {length}");
    }
    assert!(counts.len() > 10, "{counts:?}");
    fs::write(&journal, &bytes[..10]).expect("a stump");
    assert!(matches!(open(&directory), Err(StoreError::Damaged { .. })));
}

fn is_prefix(part: &Recording, whole: &Recording) -> bool {
    let end = Nanos(part.run.elapsed_ns);
    whole.stack_nodes.starts_with(&part.stack_nodes)
        && whole.frames.starts_with(&part.frames)
        && part.samples.iter().all(|sample| sample.time <= end)
        && is_subsequence(&part.samples, &whole.samples)
}

fn is_subsequence(part: &[Sample], whole: &[Sample]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|wanted| rest.any(|found| found == wanted))
}

#[test]
fn nothing_is_overwritten() {
    let scratch = Scratch::new("exists");
    for (name, make) in [("dir", fs::create_dir as fn(_) -> _), ("file", |p| fs::write(p, "x"))] {
        let path = scratch.path().join(name);
        make(path.clone()).expect("something there");
        let error = Writer::create(&path, &run(SMALL)).err().expect("refused");
        assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    }
    let error = Writer::create(&scratch.path().join("no/such/parent"), &run(SMALL)).err();
    assert!(matches!(error, Some(StoreError::Create { .. })));
}

#[test]
fn a_vanished_directory_is_noticed() {
    let scratch = Scratch::new("vanished");
    let directory = scratch.path().join("r000ma");
    let mut writer = write(&directory, &run(SMALL), &facts(SMALL));
    fs::remove_dir_all(&directory).expect("removed");
    assert!(matches!(writer.flush(), Err(StoreError::Vanished { .. })));
    assert!(writer.push(facts(SMALL).remove(0)).is_err(), "nothing more is taken");
    assert!(writer.finish(&run(SMALL)).is_err());
}

/// Collectors may hand the writer to another thread.
#[test]
fn the_writer_may_change_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Writer>();
}

#[test]
fn names_follow_the_highest_number() {
    let scratch = Scratch::new("names");
    let next = |suffix| {
        let path = store::next_free(scratch.path(), suffix);
        path.file_name().expect("a name").to_str().expect("UTF-8").to_owned()
    };
    assert_eq!(next("ma"), "r000ma");
    fs::create_dir(scratch.path().join("r000ma")).expect("mkdir");
    assert_eq!(next("ma"), "r001ma");
    fs::create_dir(scratch.path().join("r007hs")).expect("mkdir");
    assert_eq!(next("ma"), "r008ma");
    fs::create_dir(scratch.path().join("r999ma")).expect("mkdir");
    assert_eq!(next("hs"), "r1000hs");
    assert_eq!(
        store::next_free("/no/such/place".as_ref(), "ma"),
        std::path::Path::new("/no/such/place/r000ma")
    );
}
