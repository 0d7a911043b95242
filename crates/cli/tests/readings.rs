//! Readings of the memory's speed at a run: which recordings have them, and what is said where there is none.
//!
//! What not: how fast the memory is; what follows from a reading (`analysis`). Each test has a calibration of its own, so that
//! none measures the machine for 16 s.

use std::process::{Command, Output};

use facts::host::{BandwidthPoint, Calibration, ReadingMoment};
use facts::{Evidence, Metric, Run};
use testkit::programs::{Fathom, NO_CALIBRATION, assert_ended_well, skip, target};

/// With a stored calibration of the two kernels that readings compare.
fn fathom(name: &str) -> Fathom {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), name);
    let (host, _) = calibrate::host();
    let rate = |value: f64| {
        Metric::with_interval(Evidence::Calibrated, value, "GB/s", (value * 0.9, value * 1.1), 9)
    };
    let usable = host.usable_cpus().unwrap_or(1.0).floor().max(1.0) as u32;
    let counts = (1..=usable).flat_map(|threads| ["load", "triad-nt"].map(|name| (name, threads)));
    let bandwidth = counts.map(|(kernel, threads)| BandwidthPoint {
        kernel: kernel.to_owned(),
        threads,
        program: rate(40.0),
        bus: rate(40.0),
    });
    let calibration = Calibration {
        version: calibrate::VERSION,
        fingerprint: machine::fingerprint(&host),
        measured_unix: 1_795_000_000,
        dram_bandwidth_peak: Some(rate(50.0)),
        bandwidth: bandwidth.collect(),
        ..Calibration::default()
    };
    let folder = fathom.scratch.join("cache/fathom");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(format!("calibration-{}.json", calibration.fingerprint));
    let text = serde_json::to_vec(&calibration).expect("plain data");
    std::fs::write(file, text).expect("a file");
    fathom
}

/// What a run of `spin` into `name` says of itself, with its output.
fn run(fathom: &Fathom, name: &str, knobs: &[&str], environment: &[(&str, &str)]) -> (Run, Output) {
    let mut command = fathom.command(["run", "-r", name]);
    for knob in knobs {
        command.args(["-k", knob]);
    }
    command.arg("--").arg(target("spin")).args(["--ms", "200"]).envs(environment.iter().copied());
    let output = command.output().expect("fathom can be started");
    assert_ended_well(&output);
    let verified = fathom.output(["verify", name]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    (store::open(&fathom.scratch.join(name)).expect("a result").recording.run, output)
}

fn why_not(run: &Run) -> Option<&String> {
    run.notes.iter().find(|note| note.starts_with("the memory's speed was not read"))
}

#[test]
fn a_run_has_a_reading_before_and_after_it() {
    let fathom = fathom("readings");
    let (run, output) = run(&fathom, "r", &[], &[]);
    if run.memory_readings.is_empty() {
        let why = why_not(&run).expect("a reason");
        return skip(why);
    }
    let moments: Vec<ReadingMoment> =
        run.memory_readings.iter().map(|reading| reading.moment).collect();
    let all = [ReadingMoment::Before, ReadingMoment::After];
    assert!(moments == all || moments == all[..1] || moments == all[1..], "{moments:?}");
    assert_eq!(why_not(&run), None, "one is enough");
    for reading in &run.memory_readings {
        assert!(reading.points.iter().all(|point| !point.passes.is_empty()), "{reading:?}");
        assert!(reading.measured_unix > 1_795_000_000, "{reading:?}");
    }
    let pages = run.page_reading.as_ref().expect("what pages cost");
    assert!(!pages.large.is_empty() && !pages.small.is_empty(), "{pages:?}");
    // As fast as 40 GB/s, faster or slower: that is said.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let detail = fathom.output(["report", "summary", "-r", "r", "--detail"]);
    let detail = String::from_utf8_lossy(&detail.stdout).into_owned();
    // Lines are broken anywhere.
    let detail = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(detail.contains("this machine was measured"), "{said}\n{detail}");
}

#[test]
fn who_wants_none_has_none() {
    let fathom = fathom("readings-none");
    for (name, knob) in [("a", NO_CALIBRATION), ("b", "memory-tracing=false")] {
        let (run, _) = run(&fathom, name, &[knob], &[]);
        assert!(run.memory_readings.is_empty() && why_not(&run).is_none(), "{knob}");
        assert_eq!(run.page_reading, None, "{knob}");
    }
}

/// Others of its ranks may still run.
#[test]
fn a_rank_of_a_job_is_not_measured_next_to_the_others() {
    let fathom = fathom("readings-rank");
    let rank = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
    let (run, _) = run(&fathom, "r", &[], &rank);
    assert!(run.memory_readings.is_empty());
    assert!(why_not(&run).is_some_and(|note| note.contains("other ranks")), "{:?}", run.notes);
}

/// Under a limit of address space a reading may fail, and nothing else does.
#[test]
fn a_limit_of_memory_leaves_it_out() {
    let fathom = fathom("readings-limit");
    let script = "ulimit -v 700000 && exec \"$0\" run -r r -- \"$1\" --ms 200";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_fathom")]).arg(target("spin"));
    command.current_dir(fathom.scratch.path());
    command.env("XDG_CACHE_HOME", fathom.scratch.join("cache"));
    let output = command.output().expect("a shell can be started");
    assert_ended_well(&output);
    let run = store::open(&fathom.scratch.join("r")).expect("a result").recording.run;
    assert!(!run.memory_readings.is_empty() || why_not(&run).is_some(), "{:?}", run.notes);
}
