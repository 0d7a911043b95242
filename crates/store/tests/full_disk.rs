//! A disk that fills up, for real: a tmpfs of 1 MB where we may mount one.

mod support;

use std::path::Path;
use std::process::Command;

use facts::{Run, RunState, Sink};
use store::{StoreError, Writer, open, size_on_disk, verify};
use support::{SMALL, Scratch, Shape, facts, run};

/// A mounted tmpfs, unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    /// `None`, with the reason on stderr, where mounting is not allowed.
    fn mount(at: &Path, kilobytes: u32) -> Option<SmallDisk<'_>> {
        let options = format!("size={kilobytes}k,mode=0755");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "fathom-test"])
            .arg(at)
            .output();
        match done {
            Ok(output) if output.status.success() => Some(SmallDisk(at)),
            Ok(output) => {
                eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                eprintln!("skipped: cannot run mount: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

const LONG: Shape = Shape { seconds: 60, threads: 4, stack_nodes: 500, faults: 20_000 };

#[test]
fn what_was_written_before_the_disk_was_full_stays_readable() {
    let scratch = Scratch::new("full");
    let Some(disk) = SmallDisk::mount(scratch.path(), 1024) else { return };
    let directory = disk.0.join("r000ma");
    let mut writer = Writer::create(&directory, &run(LONG)).expect("a new directory");
    let mut error = None;
    for (number, fact) in facts(LONG).into_iter().enumerate() {
        let result = writer.push(fact);
        let result = if number % 1000 == 0 {
            result.and_then(|()| Sink::flush(&mut writer))
        } else {
            result
        };
        if let Err(failure) = result {
            error = Some(failure.to_string());
            break;
        }
    }
    let error = error.expect("1 MB is not enough");
    assert!(error.contains("no space left to write"), "{error}");
    assert!(writer.push(facts(SMALL).remove(0)).is_err(), "nothing more is taken");
    assert!(writer.finish(&run(LONG)).is_err());
    let opened = open(&directory).expect("it opens");
    assert!(opened.recording.samples.len() > 50_000, "{}", opened.recording.samples.len());
    assert_eq!(opened.problems.len(), 1, "{:?}", opened.problems);
    assert_eq!(verify(&directory).expect("verify"), []);
}

/// Room for the journal, not for the tables in addition.
#[test]
fn a_conversion_without_room_keeps_the_journal() {
    let scratch = Scratch::new("convert");
    let Some(disk) = SmallDisk::mount(scratch.path(), 1024) else { return };
    let directory = disk.0.join("r000ma");
    let shape = Shape { seconds: 65, threads: 2, stack_nodes: 500, faults: 5000 };
    let all = facts(shape);
    let mut writer = Writer::create(&directory, &run(shape)).expect("a new directory");
    all.iter().for_each(|fact| writer.push(fact.clone()).expect("room for the journal"));
    writer.flush().expect("room for the journal");
    let run = Run { notes: vec!["ended".to_owned()], ..run(shape) };
    let error = writer.finish(&run).expect_err("no room for the tables");
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    let opened = open(&directory).expect("it opens");
    assert_eq!(opened.recording.run.state, RunState::Incomplete);
    assert_eq!(opened.recording.run.notes, ["ended"]);
    let expected = support::recording(opened.recording.run.clone(), &all);
    assert!(opened.recording == expected, "the recording differs");
    assert_eq!(verify(&directory).expect("verify"), [], "no half tables are left");
    assert!(size_on_disk(&directory).0 < 1 << 20);
}

#[test]
fn a_disk_without_any_room_is_said_at_the_start() {
    let scratch = Scratch::new("noroom");
    let Some(disk) = SmallDisk::mount(scratch.path(), 8) else { return };
    let filler = disk.0.join("filler");
    let _ = std::fs::write(&filler, vec![0; 64 << 10]);
    let directory = disk.0.join("r000ma");
    let error = Writer::create(&directory, &run(SMALL)).err().expect("no room");
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    std::fs::remove_file(&filler).expect("removed");
    assert!(!directory.exists(), "the name is free for the next attempt");
}
