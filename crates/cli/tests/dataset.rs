//! `fathom dataset add` with results of this machine: once each, whole or not at all, whatever happens meanwhile.
//!
//! What not: the figures against their views (`tests/dataset/figures.py`, started here), questions (`across.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::programs::{
    Fathom, NO_CALIBRATION, assert_ended_well, is_root, python, root, spark, target,
};

fn said(fathom: &Fathom, words: &[&str]) -> (Option<i32>, String, String) {
    let output = fathom.output(words);
    let [out, error] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), out, error)
}

/// All files below a folder with their bytes, by path in it.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let bytes = std::fs::read(&path).expect("a file");
                found.insert(path.strip_prefix(folder).expect("below").to_owned(), bytes);
            }
        }
    }
    found
}

fn results(name: &str, number: usize) -> (Fathom, Vec<String>) {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), name);
    let names: Vec<String> = (0..number).map(|at| format!("r{at}")).collect();
    for name in &names {
        assert_ended_well(&fathom.collect(name, &[], &target("spin"), &["--ms", "60"]));
    }
    (fathom, names)
}

fn add<'a>(dataset: &'a str, names: &'a [String]) -> Vec<&'a str> {
    ["dataset", "add", dataset].into_iter().chain(names.iter().map(String::as_str)).collect()
}

#[test]
fn a_result_is_added_once_and_its_figures_are_those_of_the_report() {
    let (fathom, names) = results("dataset", 2);
    let words = add("ds", &names);
    let first = said(&fathom, &words);
    assert_eq!(first, (Some(0), "ds: 2 added\n".to_owned(), String::new()));
    let before = content(&fathom.scratch.join("ds"));
    let again = said(&fathom, &words);
    assert_eq!(again.1, "ds: 0 added, 2 there already\n");
    assert_eq!(content(&fathom.scratch.join("ds")), before);
    // Under another name it is the same result.
    std::fs::rename(fathom.scratch.join("r0"), fathom.scratch.join("moved")).expect("a name");
    assert_eq!(
        said(&fathom, &["dataset", "add", "ds", "moved"]).1,
        "ds: 0 added, 1 there already\n"
    );
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let of_host =
        |path: &&PathBuf| path.to_string_lossy().contains(&format!("host={}", host.trim()));
    assert!(before.keys().filter(of_host).count() >= 8, "{:?}", before.keys());
    for view in [&["summary"][..], &["hotspots"], &["hotspots", "-g", "source-line"]] {
        let name = view.last().expect("a word");
        let file = fathom.scratch.join(&format!("{name}.json"));
        let text = fathom.report("r1", view).to_string();
        std::fs::write(file, text).expect("a file");
    }
    python("dataset/figures.py", &[fathom.scratch.path()]);
}

#[test]
fn files_that_are_damaged_or_left_over_are_named() {
    let (fathom, names) = results("dataset-verify", 2);
    assert_eq!(said(&fathom, &add("ds", &names)).0, Some(0));
    let verify = || said(&fathom, &["dataset", "verify", "ds"]);
    assert_eq!(verify().1, "ds: 2 results are whole, 0 files are damaged\n");
    let folder = fathom.scratch.join("ds");
    let of = |table: &str| {
        let files = content(&folder).into_keys();
        let ours = |path: &PathBuf| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            path.starts_with(table) && !name.starts_with("schema-")
        };
        files.filter(ours).collect::<Vec<_>>()
    };
    let [functions, runs] = ["functions", "runs"].map(of);
    std::fs::write(folder.join(&functions[0]), "PAR1").expect("a file");
    std::fs::remove_file(folder.join(&runs[1])).expect("a file");
    let (code, text, _) = verify();
    assert_eq!(code, Some(4));
    assert!(text.contains("damaged  ds/functions/") && text.contains("unread   ds/figures/"));
    assert!(text.ends_with("ds: 1 results are whole, 1 files are damaged\n"), "{text}");
    // Adding again mends both: what is damaged is not there.
    std::fs::remove_file(folder.join(&functions[0])).expect("a file");
    std::fs::remove_file(folder.join(&runs[0])).expect("a file");
    assert_eq!(said(&fathom, &add("ds", &names)).0, Some(0));
    assert_eq!(verify().1, "ds: 2 results are whole, 0 files are damaged\n");
    assert_eq!(said(&fathom, &["dataset", "verify", "nowhere"]).0, Some(2));
}

#[test]
fn what_cannot_be_added_is_left_out_with_a_reason_and_can_be_added_later() {
    let (fathom, names) = results("quarantine", 3);
    let file = |name: &str| fathom.scratch.join(name);
    let table = file("r1/samples.parquet");
    let whole = std::fs::read(&table).expect("a table");
    std::fs::write(&table, &whole[..whole.len() / 2]).expect("half of it");
    let manifest = std::fs::read_to_string(file("r2/run.json")).expect("a manifest");
    let started = |seconds: u64| {
        let lines = manifest.lines().map(|line| match line.contains("\"started_unix\"") {
            true => format!("  \"started_unix\": {seconds},\n"),
            false => format!("{line}\n"),
        });
        std::fs::write(file("r2/run.json"), lines.collect::<String>()).expect("a manifest");
    };
    started(1_000_000_000_000);
    let mut all = names.clone();
    all.insert(0, "nothing".to_owned());
    let (code, out, error) = said(&fathom, &add("ds", &all));
    assert_eq!((code, out.as_str()), (Some(4), "ds: 1 added, 3 left out\n"), "{error}");
    for part in [
        "nothing was left out: nothing is not a result of Fathom: it has no run.json",
        "r1 was left out: ",
        "r2 was left out: its clock said 1000000000000 seconds since 1970",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let kept = content(&file("ds/quarantine"));
    assert_eq!(kept.len(), 2, "{:?}", kept.keys());
    let [of_r1, ..] =
        &kept.iter().map(|(name, text)| (name, String::from_utf8_lossy(text))).collect::<Vec<_>>()
            [..]
    else {
        panic!("no reason")
    };
    assert!(of_r1.0.to_string_lossy().starts_with("r1-") && of_r1.1.contains("samples.parquet"));
    assert_eq!(
        std::fs::read(&table).expect("it").len(),
        whole.len() / 2,
        "the result is untouched"
    );
    std::fs::write(&table, &whole).expect("the whole table");
    // A clock that is ahead is said, and no reason to leave a result out.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    started(now.as_secs() + 3600);
    let (code, out, error) = said(&fathom, &add("ds", &names));
    assert_eq!((code, out.as_str()), (Some(0), "ds: 2 added, 1 there already\n"), "{error}");
    assert!(error.contains("s in the future; it is added"), "{error}");
    assert!(content(&file("ds/quarantine")).is_empty());
}

#[test]
fn an_incomplete_result_is_renewed_when_it_is_whole() {
    let (fathom, names) = results("renewed", 1);
    let file = |name: &str| fathom.scratch.join(name);
    // As it was before the end: a manifest that says so, and the journal that a killed profiler left.
    let killed = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "renewed-killed");
    let mut child = killed
        .command(["collect", "hotspots", "-q", "-k", NO_CALIBRATION, "-r", "k", "--"])
        .arg(target("spin"))
        .args(["--ms", "3000"])
        .spawn()
        .expect("fathom runs");
    std::thread::sleep(std::time::Duration::from_millis(1800));
    child.kill().expect("a kill");
    child.wait().expect("its end");
    let (code, out, error) = said(&killed, &["dataset", "add", "ds", "k"]);
    assert_eq!((code, out.as_str()), (Some(0), "ds: 1 added\n"), "{error}");
    assert!(error.contains("it is added as incomplete"), "{error}");
    assert_eq!(said(&killed, &["dataset", "add", "ds", "k"]).1, "ds: 0 added, 1 there already\n");
    // The same recording, complete: its manifest stands for that of the killed one.
    let read = |path: PathBuf| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).expect("a manifest")).expect("JSON")
    };
    let of_killed = read(killed.scratch.join("k/run.json"));
    let mut whole = read(file("r0/run.json"));
    for field in ["started_unix", "started_part_ns", "command", "working_directory", "target"] {
        whole[field] = of_killed[field].clone();
    }
    std::fs::write(file("r0/run.json"), whole.to_string()).expect("a manifest");
    let dataset = killed.scratch.join("ds");
    let words = ["dataset", "add", dataset.to_str().expect("a path"), names[0].as_str()];
    let (code, out, error) = said(&fathom, &words);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains(": 0 added, 1 renewed"), "{out} {error}");
    assert!(said(&fathom, &words).1.contains("1 there already"));
}

#[test]
fn only_datasets_of_this_version_are_added_to() {
    let (fathom, names) = results("versions", 1);
    let file = |name: &str| fathom.scratch.join(name);
    let words = add("ds", &names);
    std::fs::create_dir(file("ds")).expect("a folder");
    assert_eq!(said(&fathom, &words).0, Some(0), "an empty directory becomes one");
    std::fs::write(file("ds/dataset.json"), "{\"fathom_dataset\": 99}").expect("a file");
    let (code, _, error) = said(&fathom, &words);
    assert!(code == Some(3) && error.contains("has version 99 of the dataset's format"), "{error}");
    std::fs::write(file("ds/dataset.json"), "{}").expect("a file");
    let (code, _, error) = said(&fathom, &words);
    assert!(code == Some(4) && error.contains("it names no version"), "{error}");
    let (code, _, error) = said(&fathom, &["dataset", "add", "r0", "r0"]);
    assert!(code == Some(2) && error.contains("r0 is not a dataset"), "{error}");
}

#[test]
fn after_a_kill_at_any_moment_the_same_command_goes_on() {
    let (fathom, names) = results("killed", 6);
    assert_eq!(said(&fathom, &add("whole", &names)).0, Some(0));
    let whole = content(&fathom.scratch.join("whole"));
    for (at, millis) in [3, 17, 40, 71, 110, 160, 230].into_iter().enumerate() {
        let name = format!("cut{at}");
        let words = add(&name, &names);
        let mut child = fathom.command(&words).spawn().expect("fathom runs");
        std::thread::sleep(std::time::Duration::from_millis(millis));
        child.kill().expect("a kill");
        child.wait().expect("its end");
        let (code, _, error) = said(&fathom, &words);
        assert_eq!(code, Some(0), "{error}");
        assert_eq!(content(&fathom.scratch.join(&name)), whole, "killed after {millis} ms");
    }
}

/// A mounted tmpfs, unmounted at the end.
struct Mounted(PathBuf);

impl Mounted {
    fn mount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "fathom-test"]).arg(&self.0);
        mount.output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    if !is_root() {
        return;
    }
    let (fathom, names) = results("full-disk", 4);
    assert_eq!(said(&fathom, &add("whole", &names)).0, Some(0));
    let disk = Mounted(fathom.scratch.join("disk"));
    std::fs::create_dir(&disk.0).expect("a folder");
    // Room for a part of the results: a tmpfs gives whole pages.
    let pages = |bytes: &Vec<u8>| bytes.len().div_ceil(4096);
    let pages: usize = content(&fathom.scratch.join("whole")).values().map(pages).sum();
    if !disk.mount(&format!("size={}k", pages * 4 * 7 / 10)) {
        return testkit::programs::skip("no tmpfs can be mounted here");
    }
    let words = add("disk/ds", &names);
    let (code, _, error) = said(&fathom, &words);
    assert_eq!(code, Some(3), "{error}");
    assert!(
        error.contains("no space left to write") && error.contains("goes on from there"),
        "{error}"
    );
    let unfinished = |path: &PathBuf| path.extension().is_some_and(|end| end == "new");
    assert!(!content(&disk.0).keys().any(unfinished), "no temporary file stays");
    assert!(disk.mount("remount,size=64m"), "a larger disk");
    assert_eq!(said(&fathom, &words).0, Some(0));
    assert_eq!(content(&disk.0.join("ds")), content(&fathom.scratch.join("whole")));
}

#[test]
fn a_job_of_kubernetes_adds_each_result() {
    let (fathom, names) = results("dataset-kubernetes", 3);
    let folder = fathom.scratch.path().to_str().expect("text");
    let mut words = vec![env!("CARGO_BIN_EXE_fathom"), folder];
    words.extend(names.iter().map(String::as_str));
    python("deploy/job.py", &words);
}

#[test]
fn a_job_of_spark_adds_each_result_and_runs_what_failed_again() {
    let Some(folder) = spark() else { return };
    let (fathom, mut names) = results("dataset-spark", 4);
    let file = |name: &str| fathom.scratch.join(name);
    std::fs::create_dir(file("damaged")).expect("a folder");
    std::fs::write(file("damaged/run.json"), "{").expect("a manifest");
    names.push("damaged".to_owned());
    // The first try with one of them fails, as on a full disk.
    let [tried, program] = ["tried", "once.sh"].map(file);
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in */r1) [ -e {0} ] || {{ touch {0}; exit 3; }} ;; esac\nexec {1} \"$@\"\n",
        tried.display(),
        env!("CARGO_BIN_EXE_fathom")
    );
    std::fs::write(&program, script).expect("a script");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("a mode");
    let add = || {
        let mut command = Command::new(folder.join("spark-submit"));
        command.args(["--master", "local-cluster[2,1,1024]"]);
        for setting in ["driver.bindAddress=127.0.0.1", "driver.host=127.0.0.1", "ui.enabled=false"]
        {
            command.arg("--conf").arg(format!("spark.{setting}"));
        }
        command.arg(root().join("deploy/spark_add.py")).arg("--fathom").arg(&program).arg("ds");
        command.args(&names).current_dir(fathom.scratch.path());
        command.env("PYSPARK_PYTHON", folder.join("python3")).env("SPARK_LOCAL_IP", "127.0.0.1");
        let output = command.output();
        let output = output.expect("Spark starts");
        let [said, error] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert_eq!(output.status.code(), Some(4), "{said}{error}");
        assert!(said.ends_with("/ds: 4 of 5 results are in it\n"), "{said}");
        // spark-submit sends all that a program prints to its standard output.
        assert!(said.contains("damaged was left out"), "{said}");
    };
    add();
    assert!(tried.exists());
    let whole = said(&fathom, &["dataset", "verify", "ds"]).1;
    assert!(whole.starts_with("ds: 4 results are whole"), "{whole}");
    let before = content(&file("ds"));
    add();
    assert_eq!(content(&file("ds")), before);
}
