//! A dataset in an S3 store: made, added to and asked, against a store that checks signatures (`tests/dataset/store.py`, moto).
//!
//! What not: what a dataset has (`dataset.rs`), questions (`across.rs`).

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use testkit::programs::{Fathom, assert_ended_well, python_with, root, target};

/// A store that runs.
struct Store {
    child: Child,
    input: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
    variables: [(&'static str, String); 4],
}

impl Store {
    fn start() -> Option<Store> {
        let folder = python_with("requirements.txt")?;
        let mut command = Command::new(folder.join("python3"));
        command.arg(root().join("tests/dataset/store.py"));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python can be started");
        let input = child.stdin.take().expect("its input");
        let mut said = BufReader::new(child.stdout.take().expect("its output")).lines();
        let first: Value =
            serde_json::from_str(&said.next().expect("a line").expect("text")).expect("JSON");
        let text = |key: &str| first[key].as_str().expect("text").to_owned();
        let variables = [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", first["port"])),
            ("AWS_ACCESS_KEY_ID", text("id")),
            ("AWS_SECRET_ACCESS_KEY", text("secret")),
            // The Python of an engine is the one with its packages.
            ("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"))),
        ];
        Some(Store { child, input, said, variables })
    }

    /// Does a command; the names of all objects after it.
    fn asked(&mut self, command: &str) -> Vec<String> {
        writeln!(self.input, "{command}").expect("it listens");
        let line = self.said.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    }

    fn run(&self, fathom: &Fathom, words: &[&str]) -> (Option<i32>, String) {
        let mut command = fathom.command(words);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        said(&command.env("TMPDIR", fathom.scratch.path()).output().expect("fathom runs"))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(output: &Output) -> (Option<i32>, String) {
    let all = [output.stdout.clone(), output.stderr.clone()].concat();
    (output.status.code(), String::from_utf8_lossy(&all).into_owned())
}

#[test]
fn a_store_has_what_a_folder_has_once_and_whole() {
    let Some(mut store) = Store::start() else { return };
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "stored");
    for name in ["r0", "r1"] {
        assert_ended_well(&fathom.collect(name, &[], &target("spin"), &["--ms", "60"]));
    }
    let place = "s3://fleet/a/b";
    let add = |store: &Store, words: &[&str]| {
        let words = ["dataset", "add"].iter().chain(words).copied().collect::<Vec<_>>();
        store.run(&fathom, &words)
    };
    assert_eq!(add(&store, &[place, "r0"]), (Some(0), format!("{place}: 1 added\n")));
    assert_eq!(
        add(&store, &[place, "r0", "r1"]),
        (Some(0), format!("{place}: 1 added, 1 there already\n"))
    );
    // Object by object what a folder has.
    assert_eq!(said(&fathom.output(["dataset", "add", "-q", "ds", "r0", "r1"])).0, Some(0));
    let found = Command::new("find")
        .args([".", "-type", "f", "-printf", "a/b/%P\\n"])
        .current_dir(fathom.scratch.join("ds"))
        .output();
    let found = String::from_utf8(found.expect("find").stdout).expect("text");
    let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
    files.sort();
    assert_eq!(store.asked("keys"), files);
    // The same answers, from Python's DuckDB.
    let answer = |store: &Store, dataset: &str| {
        let (code, text) = store.run(&fathom, &["across", dataset, "results", "--format", "csv"]);
        assert_eq!(code, Some(0), "{text}");
        text
    };
    assert_eq!(answer(&store, place), answer(&store, "ds"));
    // What broke off is added again: without the file of `runs` a result is not there.
    let runs =
        files.iter().find(|name| name.contains("/runs/") && !name.contains("schema-")).expect("it");
    store.asked(&format!("break {runs}"));
    assert_eq!(
        add(&store, &[place, "r0", "r1"]),
        (Some(0), format!("{place}: 1 added, 1 there already\n"))
    );
    assert_eq!(answer(&store, place), answer(&store, "ds"));
    // A busy store is asked again; one that stays busy is said, and the same command goes on.
    store.asked("fail PUT 2");
    assert_eq!(
        add(&store, &["s3://fleet/c", "r0"]),
        (Some(0), "s3://fleet/c: 1 added\n".to_owned())
    );
    // A result that is none of a whole one.
    std::fs::create_dir(fathom.scratch.join("bad")).expect("a folder");
    std::fs::write(fathom.scratch.join("bad/run.json"), "{").expect("a file");
    let (code, text) = add(&store, &[place, "bad"]);
    assert!(code == Some(4) && text.contains("bad was left out"), "{text}");
    let quarantined = |store: &mut Store| {
        store.asked("keys").iter().filter(|name| name.contains("/quarantine/")).count()
    };
    assert_eq!(quarantined(&mut store), 1);
    std::fs::remove_dir_all(fathom.scratch.join("bad")).expect("it");
    std::fs::rename(fathom.scratch.join("r1"), fathom.scratch.join("bad")).expect("a name");
    assert_eq!(
        add(&store, &[place, "bad"]),
        (Some(0), format!("{place}: 0 added, 1 there already\n"))
    );
    assert_eq!(quarantined(&mut store), 0, "it is there: the reason is gone");
    let left = std::fs::read_dir(fathom.scratch.path()).expect("it").filter_map(Result::ok);
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("fathom-"));
    assert_eq!(left.count(), 0, "nothing stays here");
}

#[test]
fn what_a_store_refuses_is_said() {
    let Some(store) = Store::start() else { return };
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "stored-refused");
    assert_ended_well(&fathom.collect("r0", &[], &target("spin"), &["--ms", "60"]));
    let with = |change: (&str, &str), words: &[&str]| {
        let mut command = fathom.command(words);
        command.envs(store.variables.iter().map(|(name, value)| (name, value)));
        said(&command.env(change.0, change.1).output().expect("fathom runs"))
    };
    let add = ["dataset", "add", "s3://fleet/x", "r0"];
    for (change, words, code, what) in [
        (("AWS_SECRET_ACCESS_KEY", "wrong"), &add[..], 2, "the store answered 403"),
        (("AWS_ACCESS_KEY_ID", ""), &add, 2, "aws configure export-credentials"),
        (("AWS_ENDPOINT_URL", "http://127.0.0.1:9"), &add, 3, "refused"),
        (("A", ""), &["dataset", "add", "s3://nobucket/x", "r0"], 2, "the store answered 404"),
        (("A", ""), &["dataset", "add", "s3:///x", "r0"], 2, "names no bucket"),
        (("A", ""), &["dataset", "verify", "s3://fleet/x"], 2, "aws s3 sync s3://fleet/x copy"),
        (("A", ""), &["across", "s3://fleet/x", "results"], 2, "there is no dataset s3://fleet/x"),
    ] {
        let (found, text) = with(change, words);
        assert!(found == Some(code) && text.contains(what), "{words:?} {found:?} {text}");
    }
    assert_eq!(with(("A", ""), &add).0, Some(0));
    let (code, text) =
        with(("A", ""), &["across", "s3://fleet/x", "results", "--engine", "spark", "--sql"]);
    assert!(code == Some(0) && text.contains("'s3a://fleet/x/runs'"), "{text}");
    let (code, text) = with(("A", ""), &["across", "s3://fleet/x", "results", "--engine", "spark"]);
    assert!(code == Some(3) && text.contains("--sql prints"), "{text}");
    let (code, text) = with(("A", ""), &["dataset", "add", "s3://fleet", "r0"]);
    assert!(code == Some(2) && text.contains("is not a dataset: it has x/"), "{text}");
}
