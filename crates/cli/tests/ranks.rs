//! Several recordings that begin at once, and ranks of an MPI job.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::programs::{
    Fathom, NO_CALIBRATION, assert_ended_well, perf_events_work, plain_python, root, skip, target,
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
    let not_traced = "no accesses were traced: other ranks were chosen";
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
    let (spin, scratch) = (target("spin"), fathom.scratch.path());
    let program = Path::new(env!("CARGO_BIN_EXE_fathom"));
    plain_python("slurm/slurm.py", &[program, spin.as_ref(), scratch]);
}

/// A program of MPI built with a library's own compiler, as Debian names it; `None` where that is missing.
fn built_with(library: &str, name: &str, fathom: &Fathom) -> Option<PathBuf> {
    let program = fathom.scratch.join(&format!("{name}-{library}"));
    let mut compiler = std::process::Command::new(format!("mpicc.{library}"));
    compiler.args(["-O1", "-g", "-o"]).arg(&program);
    let built = compiler.arg(root().join(format!("tests/programs/mpi_{name}.c"))).output();
    built.is_ok_and(|output| output.status.success()).then_some(program)
}

/// Open MPI refuses root and more ranks than cores unless asked to.
fn job(fathom: &Fathom, words: &[&str], program: &Path) -> Command {
    let mut command = fathom.command(["mpi", "-k", NO_CALIBRATION]);
    command.args(words).arg("--").arg(program);
    for name in [
        "OMPI_ALLOW_RUN_AS_ROOT",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "OMPI_MCA_rmaps_base_oversubscribe",
    ] {
        command.env(name, "1");
    }
    // Without it, ranks beyond the CPUs yield instead of spinning: then the wait is none of CPU time.
    command.env("OMPI_MCA_mpi_yield_when_idle", "0");
    command
}

/// Two ranks that meet at barriers; the first computes 0.03 s of each round, the second 0.01 s, and waits for the rest.
fn waits_are_distinguished(library: &str) {
    if !perf_events_work() {
        return;
    }
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), &format!("mpi-{library}"));
    let Some(program) = built_with(library, "barriers", &fathom) else {
        return skip(&format!("mpicc.{library} is missing: scripts/packages.sh ranks"));
    };
    let words = ["-n", "2", "-r", "job", "--format", "json", "--dataset", "fleet"];
    let output = job(&fathom, &words, &program).output().expect("fathom runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let [first, second] =
        [0, 1].map(|rank| fathom.report(&format!("job/rank.{rank}"), &["summary"]));
    let value =
        |of: &Value, path: &str| of.pointer(path).and_then(Value::as_f64).expect("a figure");
    let waits = |of: &Value| value(of, "/time_split/mpi_wait/value");
    let works = |of: &Value| value(of, "/cpu_time/value") - waits(of);
    // 0.6 and 0.2 s; besides, what starting MPI takes.
    assert!(
        works(&first) > 0.55 && works(&second) < 0.7 * works(&first),
        "{} {}",
        works(&first),
        works(&second)
    );
    assert!(waits(&second) > waits(&first), "{} {}", waits(&second), waits(&first));
    assert!(value(&second, "/time_split/spinning/value") >= waits(&second));
    let verdict = second["verdict"].as_str().expect("a sentence");
    assert!(
        verdict.contains("But it waits in MPI for ") && !verdict.contains("for each other."),
        "{verdict}"
    );
    let rows = fathom.rows("job/rank.1", &["hotspots"]);
    let barrier = rows
        .iter()
        .find(|row| row["function"].as_str().is_some_and(|name| name.ends_with("MPI_Barrier")));
    let barrier = value(barrier.expect("a row"), "/total_time/value");
    assert!((waits(&second) / barrier - 1.0).abs() < 0.5, "{} {barrier}", waits(&second));

    // The table of the job; only the first rank was to be traced.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let table: Value = serde_json::from_str(text.split_once('{').map_or("", |(_, rest)| {
        // The program's own output comes first, the dataset's count last.
        &text[text.len() - rest.len() - 1..=text.rfind('}').expect("an end")]
    }))
    .expect("JSON");
    let rows = table["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| &row["rank"]).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(rows[1]["mpi_wait"]["value"], second["time_split"]["mpi_wait"]["value"]);
    assert_eq!((&rows[1]["recorded"], &rows[1]["end"]), (&"sampled".into(), &"ended".into()));
    let busiest = table["notes"][0].as_str().expect("a note");
    assert!(
        busiest.starts_with("Rank 0 has most work: ")
            && busiest.contains("The others wait in MPI for "),
        "{busiest}"
    );
    assert!(text.ends_with("fleet: 2 added\n"), "{text}");
    let jobs = [0, 1].map(|rank| manifest(&fathom, &format!("job/rank.{rank}"))["rank"].clone());
    assert_eq!((&jobs[0]["ranks"], &jobs[0]["job"]), (&2.into(), &jobs[1]["job"]));
    assert!(jobs[0]["job"].is_string(), "{jobs:?}");
}

#[test]
fn waits_in_mpi_are_distinguished_in_open_mpi() {
    waits_are_distinguished("openmpi");
}

#[test]
fn waits_in_mpi_are_distinguished_in_mpich() {
    waits_are_distinguished("mpich");
}

/// Ranks that exchange large messages move data for a good part of their time; one that asks for a message waits.
fn moving_is_no_waiting(library: &str) {
    if !perf_events_work() {
        return;
    }
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), &format!("moving-{library}"));
    let Some(program) = built_with(library, "exchange", &fathom) else {
        return skip(&format!("mpicc.{library} is missing: scripts/packages.sh ranks"));
    };
    let value = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_f64);
    let figures = |kind: &str, rank: u32| {
        let summary = fathom.report(&format!("{kind}/rank.{rank}"), &["summary"]);
        let of = |name| value(&summary, &format!("/time_split/{name}/value")).expect("a figure");
        let figures = [of("mpi_wait"), of("mpi_moving"), of("mpi_calls")];
        (figures, value(&summary, "/cpu_time/value").expect("a figure"), summary)
    };
    for kind in ["large", "ask"] {
        let words = ["-n", "2", "-r", kind, "-q", "--trace", "none"];
        let output = job(&fathom, &words, &program).arg(kind).output().expect("fathom runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for rank in [0, 1] {
        let ([wait, moving, calls], cpu, summary) = figures("large", rank);
        let unseen = &summary["time_split"]["mpi_moving"]["note"];
        assert!(moving > 0.1 * calls || unseen.is_string(), "{moving} of {calls}");
        assert!(wait + moving <= calls * 1.001 && calls <= cpu * 1.001, "{wait} {calls} {cpu}");
    }
    let ([wait, moving, _], cpu, summary) = figures("ask", 1);
    // Besides, what starting MPI takes.
    assert!(wait > 0.3 && moving < 0.1 * wait, "{wait} {moving} of {cpu}");
    let verdict = summary["verdict"].as_str().expect("a sentence");
    assert!(wait < 0.2 * cpu || verdict.contains("But it waits in MPI for "), "{verdict}");
}

#[test]
fn moving_data_is_no_waiting_in_open_mpi() {
    moving_is_no_waiting("openmpi");
}

#[test]
fn moving_data_is_no_waiting_in_mpich() {
    moving_is_no_waiting("mpich");
}

#[test]
fn a_job_never_takes_a_name_or_a_launcher_that_is_not_its_own() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "mpi-names");
    let programs = ["openmpi", "mpich"].map(|library| built_with(library, "barriers", &fathom));
    let [Some(open_mpi), Some(mpich)] = programs else {
        return skip("two libraries of MPI are needed: scripts/packages.sh ranks");
    };
    // Four jobs that begin at once.
    let start = |program: &PathBuf| {
        let mut command = job(&fathom, &["-n", "2", "-a", "hotspots", "-q"], program);
        command.stdout(Stdio::null()).spawn().expect("fathom runs")
    };
    let running = [&open_mpi, &mpich, &open_mpi, &mpich].map(start);
    for mut one in running {
        assert_eq!(one.wait().expect("its end").code(), Some(0));
    }
    for (at, rank) in (0..4).flat_map(|at| [(at, 0), (at, 1)]) {
        let of = manifest(&fathom, &format!("r00{at}mpi/rank.{rank}"));
        assert_eq!(
            (&of["state"], &of["rank"]["rank"], &of["rank"]["ranks"]),
            (&"complete".into(), &rank.into(), &2.into())
        );
    }
    let refused = |words: &[&str], program| {
        let output = job(&fathom, words, program).output().expect("fathom runs");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let why = refused(&["-n", "2", "--launcher", "mpirun.mpich -l"], &open_mpi);
    assert!(
        why.contains("mpirun.mpich is of MPICH, and the program was built with Open MPI"),
        "{why}"
    );
    assert!(
        refused(&["--launcher", "no-such"], &mpich).contains("no launcher 'no-such' is in PATH")
    );
    assert!(refused(&["-r", "r000mpi"], &mpich).contains("r000mpi is there already"));
    // A rank that dies: MPICH ends the job, and what the ranks recorded is kept.
    let words = ["-n", "2", "-a", "hotspots", "-r", "dead", "--launcher", "mpirun.mpich"];
    let script = "[ $PMI_RANK = 1 ] && kill -9 $$; exec \"$0\" --ms 300";
    let mut dies = job(&fathom, &words, Path::new("sh"));
    let output = dies.args(["-c", script]).arg(target("spin")).output().expect("fathom runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("signal 9 (SIGKILL)"), "{text}");
}
