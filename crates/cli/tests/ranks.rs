//! Several recordings that begin at once, and ranks of an MPI job.

use std::process::Stdio;

use serde_json::Value;
use testkit::programs::{
    Fathom, NO_CALIBRATION, assert_ended_well, perf_events_work, root, skip, target,
};

fn manifest(fathom: &Fathom, result: &str) -> Value {
    let text =
        std::fs::read(fathom.scratch.join(&format!("{result}/run.json"))).expect("a manifest");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn recordings_that_begin_at_once_get_a_result_each() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "at-once");
    let program = target("spin");
    let words = ["collect", "hotspots", "-q", "-k", NO_CALIBRATION, "--"];
    let start = |_| {
        let mut command = fathom.command(words);
        command
            .arg(&program)
            .args(["--ms", "20"])
            .stdout(Stdio::null())
            .spawn()
            .expect("fathom runs")
    };
    let running: Vec<_> = (0..12).map(start).collect();
    for mut one in running {
        assert_eq!(one.wait().expect("its end").code(), Some(0));
    }
    let mut names: Vec<String> = std::fs::read_dir(fathom.scratch.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with("hs"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 12, "{names:?}");
    for name in names {
        assert_eq!(manifest(&fathom, &name)["state"], "complete", "{name}");
    }
}

#[test]
fn a_rank_names_its_result_and_is_kept_in_it() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "ranks");
    let program = target("spin");
    let run = |rank: Option<&str>, words: &[&str]| {
        let mut command = fathom.command(words);
        command.arg("--").arg(&program).args(["--ms", "60"]);
        for name in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"] {
            command.env_remove(name);
        }
        if let Some(rank) = rank {
            command.env("OMPI_COMM_WORLD_RANK", rank).env("OMPI_COMM_WORLD_SIZE", "4");
        }
        command.output().expect("fathom runs")
    };
    let words =
        ["collect", "memory-access", "-q", "-k", NO_CALIBRATION, "--ranks", "0,2", "-r", "job.%r"];
    for rank in ["2", "3"] {
        assert_ended_well(&run(Some(rank), &words));
    }
    let (traced, sampled) = (manifest(&fathom, "job.2"), manifest(&fathom, "job.3"));
    assert_eq!((&traced["rank"]["rank"], &traced["rank"]["ranks"]), (&2.into(), &4.into()));
    let has = |run: &Value, text: &str| {
        run["notes"].as_array().expect("notes").iter().any(|note| note == text)
    };
    assert!(has(&traced, "this is MPI rank 2 of 4") && has(&sampled, "this is MPI rank 3 of 4"));
    let not_traced = "no accesses were traced: --ranks chose other ranks";
    assert!(!has(&traced, not_traced) && has(&sampled, not_traced));
    for words in
        [&["collect", "hotspots", "-r", "job.%r"][..], &["collect", "hotspots", "--ranks", "0"]]
    {
        let output = run(None, words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && error.contains("no MPI rank is known here"),
            "{error}"
        );
    }
    let output = run(Some("0"), &["collect", "hotspots", "--ranks", "1-x"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("'1-x' is no rank or range of ranks"));
}

#[test]
fn ranks_of_open_mpi_are_found() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "mpirun");
    let mut command = std::process::Command::new("mpirun");
    command.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "3",
        env!("CARGO_BIN_EXE_fathom"),
    ]);
    command
        .args(["collect", "hotspots", "-q", "-k", NO_CALIBRATION, "-r", "job.%r", "--"])
        .arg(target("spin"));
    let output = match command.args(["--ms", "50"]).current_dir(fathom.scratch.path()).output() {
        Ok(output) => output,
        Err(error) => return skip(&format!("mpirun of Open MPI is not here: {error}")),
    };
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    for rank in 0..3 {
        assert_eq!(manifest(&fathom, &format!("job.{rank}"))["rank"]["rank"], rank, "{error}");
    }
}

#[test]
fn ranks_of_slurm_are_found_on_two_nodes_and_added_by_an_array_job() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "slurm");
    let mut command = std::process::Command::new("python3");
    command.arg(root().join("tests/slurm/slurm.py")).arg(env!("CARGO_BIN_EXE_fathom"));
    let output = match command.arg(target("spin")).arg(fathom.scratch.path()).output() {
        Ok(output) => output,
        Err(error) => return skip(&format!("python3 is not here: {error}")),
    };
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    if let Some(reason) = said.strip_prefix("skipped: ") {
        skip(reason.trim_end());
    }
}

/// Two ranks that meet at barriers; the first computes 0.03 s of each round, the second 0.01 s, and waits for the rest.
#[test]
fn what_a_rank_waits_in_mpi_is_spinning_and_its_work_is_not() {
    if !perf_events_work() {
        return;
    }
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "mpi-waits");
    let (source, program) =
        (root().join("tests/programs/mpi_barriers.c"), fathom.scratch.join("barriers"));
    let built = std::process::Command::new("mpicc")
        .args(["-O1", "-g", "-o"])
        .arg(&program)
        .arg(source)
        .output();
    if !built.is_ok_and(|output| output.status.success()) {
        return skip("mpicc is missing: scripts/packages.sh ranks");
    }
    let mut command = std::process::Command::new("mpirun");
    command.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "2",
        env!("CARGO_BIN_EXE_fathom"),
    ]);
    command
        .args(["collect", "hotspots", "-q", "-k", NO_CALIBRATION, "-r", "job.%r", "--"])
        .arg(&program);
    // Without it, ranks beyond the CPUs yield instead of spinning: then the wait is none of CPU time.
    command.env("OMPI_MCA_mpi_yield_when_idle", "0");
    let output = command.current_dir(fathom.scratch.path()).output().expect("mpirun");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [first, second] = [0, 1].map(|rank| fathom.report(&format!("job.{rank}"), &["summary"]));
    let value =
        |of: &Value, path: &str| of.pointer(path).and_then(Value::as_f64).expect("a figure");
    let spins = |of: &Value| value(of, "/time_split/spinning/value");
    let works = |of: &Value| value(of, "/cpu_time/value") - spins(of);
    // 0.6 and 0.2 s; besides, what starting MPI takes.
    assert!(
        works(&first) > 0.55 && works(&second) < 0.7 * works(&first),
        "{} {}",
        works(&first),
        works(&second)
    );
    assert!(spins(&second) > spins(&first), "{} {}", spins(&second), spins(&first));
    let report = fathom.report("job.1", &["hotspots"]);
    let rows = report["rows"].as_array().expect("rows");
    let barrier = rows
        .iter()
        .find(|row| row["function"].as_str().is_some_and(|name| name.ends_with("MPI_Barrier")));
    let barrier = value(barrier.expect("a row"), "/total_time/value");
    assert!((spins(&second) / barrier - 1.0).abs() < 0.5, "{} {barrier}", spins(&second));
}
