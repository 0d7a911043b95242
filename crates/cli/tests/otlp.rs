//! Profiles sent to a receiver of OpenTelemetry: `fathom export otlp --send` and `fathom watch --otlp`, against a receiver that
//! reads every request with the classes of opentelemetry-proto (`tests/otlp/receiver.py`).
//!
//! What not: figures of a profile (`export_sums.rs`), the schedule of the watch (`watch.rs`).

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use testkit::programs::{
    Fathom, assert_ended_well, perf_events_work, python_with, root, skip, target, watch_once,
};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// A receiver that runs, and what it saw.
struct Receiver {
    child: Child,
    _input: ChildStdin,
    seen: Lines<BufReader<ChildStdout>>,
    port: String,
}

impl Receiver {
    /// `None`, with the reason printed, where Python lacks what it needs.
    fn start(arguments: &[PathBuf]) -> Option<Receiver> {
        let folder = python_with("requirements.txt")?;
        let mut command = Command::new(folder.join("python3"));
        command.arg(root().join("tests/otlp/receiver.py")).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it");
        let input = child.stdin.take().expect("its input");
        let mut seen = BufReader::new(child.stdout.take().expect("its output")).lines();
        let port = seen.next().expect("a line").expect("a port");
        Some(Receiver { child, _input: input, seen, port })
    }

    fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The next request.
    fn seen(&mut self) -> Value {
        let line = self.seen.next().expect("a request").expect("text");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

#[test]
fn a_receiver_gets_the_figures_of_the_result_and_who_it_was() {
    let Some(mut receiver) = Receiver::start(&[]) else { return };
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("otlp");
    assert_ended_well(&fathom.collect("r", &[], &target("spin"), &["--ms", "300"]));
    let send = |words: &[&str]| {
        let words = ["export", "otlp", "-r", "r"].into_iter().chain(words.iter().copied());
        // An address of the environment is nobody's word.
        let elsewhere = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
        fathom.command(words).env(elsewhere.0, elsewhere.1).output().expect("fathom runs")
    };
    let address = receiver.at("");
    let output = send(&["--send", &address, "--attribute", "k8s.pod.name=shop-7"]);
    assert!(output.status.success(), "{}", said(&output));
    let seen = receiver.seen();
    assert_eq!(seen["wrong"], Value::Null);
    assert_eq!(seen["path"], "/v1development/profiles");
    let folded = fathom.output(["export", "folded", "-r", "r"]);
    let folded = String::from_utf8_lossy(&folded.stdout).into_owned();
    let amounts = folded.lines().filter_map(|line| line.rsplit_once(' '));
    let nanoseconds: u64 = amounts.map(|(_, amount)| amount.parse::<u64>().expect("one")).sum();
    let cpu = &seen["profiles"]["cpu"];
    assert_eq!((&cpu["unit"], cpu["total"].as_u64()), (&"nanoseconds".into(), Some(nanoseconds)));
    assert!(cpu["functions"]["inlined_work"].as_u64() > Some(nanoseconds / 2), "{cpu}");
    assert!(seen["profiles"]["samples"]["total"].as_u64() > Some(0));
    let run = std::fs::read_to_string(fathom.scratch.join("r/run.json")).expect("a manifest");
    let run: Value = serde_json::from_str(&run).expect("JSON");
    let who = &seen["resource"];
    assert_eq!((&who["service.name"], &who["k8s.pod.name"]), (&"spin".into(), &"shop-7".into()));
    assert_eq!(
        (&who["host.name"], &who["process.pid"]),
        (&run["host_name"], &run["target"]["launched"]["pid"])
    );
    assert!(who["process.command_line"].as_str().is_some_and(|text| text.ends_with("--ms 300")));
    let output =
        send(&["--send", &address, "--redact", "arguments,paths", "--attribute", "service.name=a"]);
    assert!(
        output.status.success() && said(&output).starts_with("sent r in "),
        "{}",
        said(&output)
    );
    let again = receiver.seen();
    let who = &again["resource"];
    assert_eq!((&who["service.name"], &who["process.command_line"]), (&"a".into(), &"spin".into()));
    send(&["--send", &address]);
    assert_eq!(receiver.seen()["ids"], seen["ids"], "a profile that is sent twice is known");
    for (path, code, what) in [
        ("/refuse", 4, "it answered 400: this receiver wants no profiles"),
        ("/busy", 3, "it answered 503: later"),
        ("/part", 4, "did not take 1 of r: one is too large"),
        ("/other", 2, "takes profiles at /v1development/profiles"),
    ] {
        let output = send(&["--send", &receiver.at(path)]);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(what), "{}", said(&output));
        assert_eq!(receiver.seen()["path"], path);
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let output = send(&["--send", &format!("http://{gone}")]);
    assert!(
        output.status.code() == Some(3) && said(&output).contains("refused"),
        "{}",
        said(&output)
    );
    let output = send(&["--send", "127.0.0.1:4318"]);
    assert!(
        output.status.code() == Some(2) && said(&output).contains("is no address"),
        "{}",
        said(&output)
    );
    let output = fathom.output(["export", "pprof", "-r", "r", "--send", &address]);
    assert!(
        output.status.code() == Some(2) && said(&output).contains("are for otlp"),
        "{}",
        said(&output)
    );
    let output = send(&["-o", "r.otlp"]);
    assert!(output.status.success() && fathom.scratch.join("r.otlp").is_file());
}

#[test]
fn https_is_spoken_with_a_certificate_that_is_known_and_a_key_of_the_environment() {
    let fathom = fathom("otlp-https");
    let files = ["key.pem", "certificate.pem"].map(|name| fathom.scratch.join(name));
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost", "-keyout"]).arg(&files[0]);
    let made = openssl.arg("-out").arg(&files[1]).output();
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    if !has_curl || !made.is_ok_and(|output| output.status.success()) {
        return skip("openssl and curl are needed");
    }
    let [key, certificate] = files;
    let Some(mut receiver) = Receiver::start(&["--https".into(), certificate.clone(), key]) else {
        return;
    };
    if !perf_events_work() {
        return;
    }
    assert_ended_well(&fathom.collect("r", &[], &target("spin"), &["--ms", "100"]));
    let address = format!("https://localhost:{}", receiver.port);
    let mut command = fathom.command(["export", "otlp", "-r", "r", "--send", &address]);
    let output = command.output().expect("fathom runs");
    assert!(
        output.status.code() == Some(3) && said(&output).contains("certificate"),
        "{}",
        said(&output)
    );
    command.env("CURL_CA_BUNDLE", &certificate).env("TMPDIR", fathom.scratch.path());
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s\"3cret");
    let output = command.output().expect("fathom runs");
    assert!(output.status.success(), "{}", said(&output));
    let seen = receiver.seen();
    assert_eq!((&seen["wrong"], &seen["key"]), (&Value::Null, &"Bearer s\"3cret".into()));
    let left = std::fs::read_dir(fathom.scratch.path()).expect("it").filter_map(Result::ok);
    let left =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("fathom-request"));
    assert_eq!(left.count(), 0, "requests leave no file");
}

#[test]
fn profiles_of_a_watch_wait_for_a_receiver_that_is_away_and_the_dataset_does_not() {
    let Some(mut receiver) = Receiver::start(&[]) else { return };
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("otlp-watch");
    let copy = fathom.scratch.join("ot_spin");
    std::fs::copy(target("spin"), &copy).expect("a copy");
    let mut spin =
        Command::new(copy).args(["--ms", "60000"]).stdout(Stdio::null()).spawn().expect("it");
    let round = |more: &[&str]| {
        let more: Vec<&str> = ["--metrics", "m"].iter().chain(more).copied().collect();
        let output = fathom.output(watch_once("program=ot_spin", &more));
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    let busy = receiver.at("/busy");
    let log = round(&["--dataset", "ds", "--otlp", &busy]);
    assert!(log.contains("\"waits\"") && log.contains("it answered 503"), "{log}");
    assert_eq!(receiver.seen()["wrong"], Value::Null);
    let metrics = || std::fs::read_to_string(fathom.scratch.join("m")).expect("metrics");
    assert!(metrics().contains("fathom_watch_waiting_results 1\n"), "{}", metrics());
    assert!(metrics().contains("fathom_watch_sent_total 0\n"));
    let verified = || said(&fathom.output(["dataset", "verify", "ds"]));
    assert!(verified().starts_with("ds: 1 results are whole"), "{}", verified());
    let address = receiver.at("");
    let log = round(&["--dataset", "ds", "--otlp", &address]);
    assert!(!log.contains("\"waits\""), "{log}");
    let [one, other] = [receiver.seen(), receiver.seen()];
    assert_eq!((&one["wrong"], &other["wrong"]), (&Value::Null, &Value::Null));
    assert_ne!(one["ids"], other["ids"]);
    assert_eq!(one["resource"]["service.name"], "ot_spin");
    assert!(metrics().contains("fathom_watch_sent_total 2\n"), "{}", metrics());
    assert!(metrics().contains("fathom_watch_waiting_results 0\n"));
    assert!(verified().starts_with("ds: 2 results are whole"), "{}", verified());
    // One that the receiver has no use for is not sent again.
    let log = round(&["--otlp", &receiver.at("/refuse")]);
    assert!(
        log.contains("is not at the receiver: no profile was sent") && !log.contains("\"waits\""),
        "{log}"
    );
    receiver.seen();
    assert!(metrics().contains("fathom_watch_waiting_results 0\n"), "{}", metrics());
    assert!(metrics().contains("fathom_watch_sent_total 2\n"));
    let refused = fathom.output(["watch", "--once", "--otlp", "nowhere", "--off-file", "off"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let _ = spin.kill();
    let _ = spin.wait();
}
