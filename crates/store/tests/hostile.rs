//! Whatever is done to the files of a result, reading ends with an answer: never a panic of the caller, never an
//! allocation without bound, never a reference into nothing.

mod support;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use facts::{Recording, Run, Sink};
use store::{Opened, Problem, StoreError, Table, Writer, open, verify};
use support::{Numbers, SMALL, Scratch, Shape, facts, run};

/// Small enough to be opened some ten thousand times, and with all tables.
const TINY: Shape = Shape { seconds: 1, threads: 1, stack_nodes: 30, faults: 40 };

fn complete(directory: &Path, shape: Shape) {
    let mut writer = Writer::create(directory, &run(shape)).expect("a new directory");
    facts(shape).into_iter().for_each(|fact| writer.push(fact).expect("room"));
    writer.finish(&run(shape)).expect("room");
}

fn incomplete(directory: &Path, shape: Shape) {
    let mut writer = Writer::create(directory, &run(shape)).expect("a new directory");
    for piece in facts(shape).chunks(100) {
        piece.iter().for_each(|fact| writer.push(fact.clone()).expect("room"));
        writer.flush().expect("room");
    }
}

/// What analysis relies on without asking.
fn assert_sound(recording: &Recording) {
    let modules = recording.modules.len();
    let stacks = recording.stack_nodes.len();
    for (row, node) in recording.stack_nodes.iter().enumerate() {
        assert_eq!(node.id.0 as usize, row);
        assert!(node.parent.is_none_or(|parent| (parent.0 as usize) < row));
        assert!((node.module.0 as usize) < modules);
    }
    let samples = recording.samples.iter().map(|sample| sample.stack);
    let faults = recording.faults.iter().map(|fault| fault.stack);
    let accesses = recording.memory_samples.iter().map(|sample| sample.stack);
    let loops = recording.branch_loops.iter().flat_map(|one| [one.branch, one.head]);
    let faults = faults.chain(accesses).chain(loops);
    let regions = recording.regions.iter().map(|region| region.stack);
    let waits = recording.waits.iter().map(|wait| wait.stack);
    let wakes = recording.wakes.iter();
    let wakes = wakes.flat_map(|wake| [wake.stack, wake.waker.and_then(|waker| waker.stack)]);
    let mut named = samples.chain(faults).chain(regions).chain(waits).chain(wakes).flatten();
    assert!(named.all(|stack| (stack.0 as usize) < stacks));
    let frames = recording.frames.iter().map(|frame| frame.module);
    let mappings = recording.mappings.iter().map(|mapping| mapping.module);
    let globals = recording.globals.iter().map(|global| global.module);
    let types = recording.access_types.iter().map(|typed| typed.module);
    let assigned = recording.assignments.iter().map(|assignment| assignment.module);
    let mut named = frames.chain(mappings).chain(globals).chain(types).chain(assigned);
    assert!(named.all(|module| (module.0 as usize) < modules));
}

/// Opens; the outcome in one word.
fn outcome(directory: &Path) -> &'static str {
    match open(directory) {
        Ok(Opened { recording, problems }) => {
            assert_sound(&recording);
            if problems.is_empty() { "clean" } else { "problem" }
        }
        Err(StoreError::Damaged { .. }) => "damaged",
        Err(StoreError::Newer { .. }) => "newer",
        Err(error) => panic!("unexpected: {error}"),
    }
}

/// Flips bits of `file` at `count` places, one at a time, and cuts it off there.
fn torture(directory: &Path, file: &str, count: usize) -> HashSet<&'static str> {
    let path = directory.join(file);
    let good = fs::read(&path).expect("the file");
    let mut numbers = Numbers(good.len() as u64);
    let mut seen = HashSet::new();
    let step = (good.len() / count).max(1);
    for at in (0..good.len()).step_by(step) {
        let mut bad = good.clone();
        bad[at] ^= 1 + numbers.below(255) as u8;
        fs::write(&path, &bad).expect("written");
        let flipped = outcome(directory);
        let harmless = file.ends_with("run.json");
        assert!(flipped != "clean" || harmless, "{file}: a flip at {at} went unnoticed");
        seen.insert(flipped);
        // Verifying reads the same way and then looks at rows unrepaired; a part of the places will do.
        if at % 8 == 0 {
            let _ = verify(directory);
        }
        fs::write(&path, &good[..at]).expect("written");
        let cut = outcome(directory);
        // A journal may end at any frame.
        assert!(cut != "clean", "{file}: a cut at {at} went unnoticed");
        seen.insert(cut);
    }
    fs::write(&path, &good).expect("written");
    seen
}

#[test]
fn flipped_and_cut_tables() {
    let scratch = Scratch::new("tables");
    let directory = scratch.path().join("r000ma");
    complete(&directory, TINY);
    for table in Table::ALL {
        let seen = torture(&directory, &table.file_name(), 150);
        assert!(seen.contains("damaged"), "{seen:?}");
    }
    assert_eq!(outcome(&directory), "clean");
}

/// Somebody who recomputes the seal gets past it; what is behind must hold alone. Without a seal every table
/// reads as changed, so this is the same torture with the first line of defence taken away.
#[test]
fn flipped_bytes_behind_a_missing_seal() {
    let scratch = Scratch::new("unsealed");
    let directory = scratch.path().join("r000ma");
    complete(&directory, TINY);
    let manifest = directory.join("run.json");
    let text = fs::read_to_string(&manifest).expect("the manifest");
    let start = text.find("\"tables\"").expect("the seals");
    fs::write(&manifest, format!("{}\"tables\": {{}}\n}}\n", &text[..start])).expect("written");
    assert_eq!(outcome(&directory), "problem");
    for table in [Table::Sample, Table::Frame, Table::StackNode, Table::Module] {
        torture(&directory, &table.file_name(), 500);
    }
}

#[test]
fn flipped_and_cut_manifest() {
    let scratch = Scratch::new("manifest");
    let directory = scratch.path().join("r000ma");
    complete(&directory, TINY);
    let manifest = directory.join("run.json");
    let good = fs::read(&manifest).expect("the manifest");
    // The final newline may go.
    fs::write(&manifest, good.trim_ascii_end()).expect("written");
    let seen = torture(&directory, "run.json", 1000);
    assert!(seen.contains("damaged"), "{seen:?}");
}

#[test]
fn flipped_and_cut_journal() {
    let scratch = Scratch::new("journal");
    let directory = scratch.path().join("r000ma");
    incomplete(&directory, TINY);
    let seen = torture(&directory, "journal.fathom", 2000);
    assert!(seen.contains("problem"), "{seen:?}");
}

#[test]
fn foreign_files() {
    let scratch = Scratch::new("foreign");
    let directory = scratch.path().join("r000ma");
    complete(&directory, SMALL);
    let samples = directory.join("samples.parquet");
    let good = fs::read(&samples).expect("the table");
    let refused = |what: &str| {
        let error = open(&directory).expect_err("refused").to_string();
        assert!(error.contains(what), "{error}");
    };
    fs::copy(directory.join("faults.parquet"), &samples).expect("copied");
    refused("its columns are not those of this table");
    fs::write(&samples, "PAR1 nothing of the kind PAR1").expect("written");
    refused("samples.parquet is damaged");
    fs::remove_file(&samples).expect("removed");
    refused("the file is missing");
    fs::create_dir(&samples).expect("a directory");
    refused("it is not a regular file");
    fs::remove_dir(&samples).expect("removed");
    // A footer length beyond the file.
    let mut bad = good.clone();
    let end = bad.len();
    bad[end - 8..end - 4].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(&samples, &bad).expect("written");
    refused("samples.parquet is damaged");
    // Another recording's table: whole, but not the one that was sealed.
    let other = scratch.path().join("r001ma");
    complete(&other, TINY);
    fs::copy(other.join("samples.parquet"), &samples).expect("copied");
    let problems = open(&directory).expect("it reads").problems;
    assert!(matches!(&problems[..], [Problem::Changed { file, .. }] if file == "samples.parquet"));
}

#[test]
fn foreign_manifests() {
    let scratch = Scratch::new("manifests");
    let directory = scratch.path().join("r000ma");
    complete(&directory, SMALL);
    let manifest = directory.join("run.json");
    let good = fs::read_to_string(&manifest).expect("the manifest");
    let newer = facts::SCHEMA_VERSION + 1;
    let manifest_of = format!("{{\"schema\": {newer}, \"everything\": \"else\"}}");
    fs::write(&manifest, manifest_of).expect("written");
    let error = open(&directory).expect_err("newer");
    assert!(
        matches!(error, StoreError::Newer { found, known: facts::SCHEMA_VERSION, .. } if found == newer),
        "{error}"
    );
    assert!(error.to_string().ends_with("upgrade Fathom to open it"), "{error}");
    for bad in ["", "[]", "null", "{\"schema\": 0}", "{\"schema\": 1}", "{\"schema\": -1}"] {
        fs::write(&manifest, bad).expect("written");
        assert!(matches!(open(&directory), Err(StoreError::Damaged { .. })), "{bad}");
    }
    fs::write(&manifest, "[".repeat(1 << 20)).expect("written");
    assert!(matches!(open(&directory), Err(StoreError::Damaged { .. })));
    fs::write(&manifest, good.replace("\"complete\"", "\"incomplete\"")).expect("written");
    assert!(matches!(open(&directory), Err(StoreError::Damaged { .. })), "no journal");
    fs::remove_file(&manifest).expect("removed");
    assert!(matches!(open(&directory), Err(StoreError::NotAResult { .. })));
    assert!(matches!(open("/no/such/result".as_ref()), Err(StoreError::NotAResult { .. })));
    assert!(matches!(open("/dev/null".as_ref()), Err(StoreError::NotAResult { .. })));
}

/// A journal of valid frames whose rows lie: ids of nothing, parents in a circle.
#[test]
fn a_journal_that_lies_is_repaired() {
    use base::{FileOffset, ModuleId, StackId};
    let scratch = Scratch::new("lies");
    let directory = scratch.path().join("r000ma");
    let mut writer = Writer::create(&directory, &Run::default()).expect("a new directory");
    for id in 0..10 {
        let node = facts::StackNode {
            id: StackId(id),
            parent: Some(StackId((id + 1) % 10)),
            module: ModuleId(u32::MAX),
            offset: FileOffset(u64::MAX),
            truncated: true,
        };
        writer.push(facts::Fact::StackNode(node)).expect("room");
    }
    writer.flush().expect("room");
    let opened = open(&directory).expect("it opens");
    assert_sound(&opened.recording);
    let names: Vec<&str> =
        verify(&directory).expect("it reads").iter().map(|violation| violation.invariant).collect();
    assert_eq!(names, ["parents-first", "truncated-outermost", "modules-exist"]);
}

/// What may name a stack or a module names one that is missing.
#[test]
fn names_of_nothing_are_dropped() {
    use base::{ModuleId, StackId};
    use facts::Fact;
    let scratch = Scratch::new("nothing");
    let directory = scratch.path().join("r000ma");
    let mut writer = Writer::create(&directory, &Run::default()).expect("a new directory");
    let (module, stack) = (ModuleId(u32::MAX), Some(StackId(u32::MAX)));
    for mut fact in facts(TINY) {
        match &mut fact {
            Fact::Region(region) => region.stack = stack,
            Fact::Wait(wait) => wait.stack = stack,
            Fact::Wake(wake) => wake.waker.iter_mut().for_each(|waker| waker.stack = stack),
            Fact::Global(global) => global.module = module,
            Fact::AccessType(typed) => typed.module = module,
            Fact::Assignment(assignment) => assignment.module = module,
            _ => {}
        }
        writer.push(fact).expect("room");
    }
    writer.flush().expect("room");
    let Recording { regions, waits, wakes, globals, access_types, assignments, .. } = {
        let opened = open(&directory).expect("it opens");
        assert_sound(&opened.recording);
        opened.recording
    };
    assert!(regions.iter().all(|region| region.stack.is_none()) && !regions.is_empty());
    assert!(waits.iter().all(|wait| wait.stack.is_none()) && !waits.is_empty());
    let waker = |wake: &facts::Wake| wake.waker.and_then(|waker| waker.stack);
    assert!(wakes.iter().all(|wake| waker(wake).is_none()) && !wakes.is_empty());
    assert!(globals.is_empty() && access_types.is_empty() && assignments.is_empty());
}
