//! The questions of `fathom across` over facts written by hand, whose answers are known, on every engine that is installed.
//!
//! What not: figures of real results (`dataset.rs`). Each program of these facts is for one question, and has an incomplete run
//! that must not count.

#[path = "../../web/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use dataset::{Dataset, Identity, Rows, TableColumns, Value};
use facts::{Rank, Run, RunState};
use serde_json::Value as Json;
use testkit::programs::{Fathom, python, python_with, spark};

/// 2026-11-01T00:00:00Z.
const NOVEMBER: u64 = 1_793_491_200;

/// A run by hand.
#[derive(Clone, Default)]
struct ByHand {
    program: &'static str,
    host: &'static str,
    day: u64,
    at: f64,
    rank: Option<Rank>,
    incomplete: bool,
    labels: &'static str,
    rows: Vec<(&'static str, Vec<(&'static str, Value)>)>,
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

impl ByHand {
    /// A run of `program` on `host`, on a day of November 2026.
    fn new(program: &'static str, host: &'static str, day: u64, at: f64) -> ByHand {
        ByHand { program, host, day, at, ..ByHand::default() }
    }

    /// A figure with its variance; `None`: not available.
    fn figure(
        mut self,
        table: &'static str,
        own: &[(&'static str, &str)],
        figure: &str,
        unit: &str,
        value: Option<(f64, f64)>,
    ) -> ByHand {
        let mut row: Vec<_> = own.iter().map(|(name, of)| (*name, text(of))).collect();
        row.extend([("figure", text(figure)), ("unit", text(unit))]);
        if let Some((value, variance)) = value {
            let reach = 1.959_964 * variance.sqrt();
            row.extend([
                ("value", Value::Real(value)),
                ("low", Value::Real(value - reach)),
                ("high", Value::Real(value + reach)),
                ("variance", Value::Real(variance)),
                ("evidence", text("sampled")),
                ("samples", Value::Whole(100)),
            ]);
        } else {
            row.push(("note", text("not measured")));
        }
        self.rows.push((table, row));
        self
    }

    fn of_summary(self, figure: &str, unit: &str, value: f64, variance: f64) -> ByHand {
        self.figure("figures", &[], figure, unit, Some((value, variance)))
    }

    fn elapsed(self, seconds: f64) -> ByHand {
        self.of_summary("elapsed", "s", seconds, 0.0)
    }

    fn bin(mut self, start: f64, read: Option<f64>, write: Option<f64>) -> ByHand {
        for (name, rate) in [("read", read), ("write", write)] {
            self = self.figure("bandwidth", &[], name, "GB/s", rate.map(|rate| (rate, 0.0)));
            let row = self.rows.last_mut().expect("the row");
            row.1.extend([("start", Value::Real(start)), ("end", Value::Real(start + 0.1))]);
        }
        self
    }

    fn add(mut self, dataset: &Dataset) {
        let started = NOVEMBER + (self.day - 1) * 86_400 + 3600;
        let state = if self.incomplete { RunState::Incomplete } else { RunState::Complete };
        let run = Run {
            started_unix: started + self.at as u64,
            started_part_ns: (self.at.fract() * 1e9) as u32,
            command: vec![self.program.to_owned()],
            host_name: Some(self.host.to_owned()),
            rank: self.rank.clone(),
            state,
            ..Run::default()
        };
        let identity = Identity::of(&run, None).expect("an identity");
        let whole =
            |number: Option<u32>| number.map_or(Value::Null, |one| Value::Whole(one.into()));
        let rank = self.rank.as_ref();
        let rack = if self.host == "a" { "r1" } else { "r2" };
        let own = vec![
            ("result", text(&format!("results/{}.{}.{}", self.program, self.host, self.day))),
            ("program", text(self.program)),
            ("host_name", text(self.host)),
            ("rack", text(rack)),
            ("started", Value::Real(started as f64 + self.at)),
            ("state", text(if self.incomplete { "incomplete" } else { "complete" })),
            ("labels", if self.labels.is_empty() { Value::Null } else { text(self.labels) }),
            ("mpi_rank", whole(rank.map(|rank| rank.rank))),
            ("mpi_ranks", whole(rank.and_then(|rank| rank.ranks))),
            ("job_name", rank.and_then(|rank| rank.job.as_deref()).map_or(Value::Null, text)),
        ];
        self.rows.push(("runs", own));
        let mut tables: BTreeMap<&str, Vec<Vec<Value>>> = BTreeMap::new();
        for (table, mut row) in self.rows {
            row.push(("run", text(&identity.run)));
            let columns = TableColumns::named(table).expect("a table").columns();
            let cell = |(name, _)| {
                let found = row.iter().find(|(known, _)| *known == name);
                found.map_or(Value::Null, |(_, value)| value.clone())
            };
            tables.entry(table).or_default().push(columns.map(cell).collect());
        }
        dataset.add(&identity, &Rows::of_tables(tables), state).expect("it is added");
    }
}

fn of_ranks(dataset: &Dataset) {
    for (rank, seconds) in (0..).zip([10.0, 10.0, 10.0, 14.0]) {
        let of = Rank { rank, ranks: Some(4), local_rank: None, job: Some("j/1".to_owned()) };
        let run = ByHand::new("mpi", if rank < 2 { "a" } else { "b" }, 20, 0.25 * f64::from(rank));
        ByHand { rank: Some(of), ..run }.of_summary("cpu_time", "s", seconds, 0.04).add(dataset);
    }
}

fn of_hosts(dataset: &Dataset) {
    let runs = [("a", 10.0), ("a", 12.0), ("b", 11.0), ("b", 11.0), ("c", 20.0)];
    for (at, (host, seconds)) in (0..).zip(runs) {
        ByHand::new("app", host, 20, f64::from(at)).elapsed(seconds).add(dataset);
    }
    let cut = ByHand { incomplete: true, ..ByHand::new("app", "c", 20, 99.0) };
    cut.elapsed(1000.0).add(dataset);
}

fn of_two_sides(dataset: &Dataset) {
    let runs = [
        ("a", 20, 10.0),
        ("a", 20, 10.2),
        ("a", 25, 11.0),
        ("a", 25, 11.2),
        // Hosts on one side only say nothing.
        ("b", 20, 50.0),
        ("c", 25, 5.0),
    ];
    for (at, (host, day, seconds)) in (0..).zip(runs) {
        ByHand::new("reg", host, day, f64::from(at)).elapsed(seconds).add(dataset);
    }
}

fn of_functions(dataset: &Dataset) {
    let f = [("function", "f(int)"), ("module", "app")];
    let g = [("function", "g"), ("module", "app")];
    let time = |run: ByHand, of: &[(&'static str, &str)], seconds| {
        run.figure("functions", of, "cpu_time", "s", Some((seconds, 0.01)))
    };
    let stall = |run: ByHand, object: &str, seconds, variance| {
        let of = [f[0], f[1], ("object", object)];
        run.figure("functions", &of, "stall_time", "s", Some((seconds, variance)))
    };
    let run = |day, at| ByHand::new("fn", "a", day, at).of_summary("cpu_time", "s", 10.0, 0.0);
    let first = time(time(run(20, 0.0), &f, 1.0), &g, 0.5);
    stall(stall(first, "x", 1.0, 0.01), "y", 2.0, 0.04).add(dataset);
    stall(time(run(20, 1.0), &f, 1.2), "x", 3.0, 0.09).add(dataset);
    time(run(25, 0.0), &f, 2.0).add(dataset);
    time(run(25, 1.0), &f, 2.2).add(dataset);
}

fn of_bandwidth(dataset: &Dataset) {
    for (at, (seconds, rate, variance)) in (0..).zip([(10.0, 2.0, 0.01), (30.0, 4.0, 0.04)]) {
        let run = ByHand::new("bw", "a", 20, f64::from(at))
            .elapsed(seconds)
            .of_summary("dram_bandwidth.average", "GB/s", rate, variance)
            .of_summary("machine.dram_bandwidth_peak", "GB/s", 10.0, 0.0);
        let run = match at {
            0 => run.bin(0.0, Some(3.0), Some(1.0)),
            // A bin whose writes are not known is no busiest moment.
            _ => run.bin(0.0, Some(9.0), None).bin(0.1, Some(4.0), Some(2.0)),
        };
        run.add(dataset);
    }
    // Not measured there: no row, and never 0.
    ByHand::new("bw", "b", 20, 9.0)
        .elapsed(1.0)
        .figure("figures", &[], "dram_bandwidth.average", "GB/s", None)
        .add(dataset);
}

fn of_objects(dataset: &Dataset) {
    let of = |run: ByHand, object: &str, stall, remote: Option<(f64, f64)>| {
        let own = [("object", object), ("object_kind", "heap")];
        run.figure("objects", &own, "stall_time", "s", Some((stall, 0.04))).figure(
            "objects",
            &own,
            "remote_percent",
            "percent",
            remote,
        )
    };
    let first = of(ByHand::new("numa", "a", 20, 0.0), "x", 2.0, Some((50.0, 25.0)));
    of(first, "y", 7.0, None).add(dataset);
    of(ByHand::new("numa", "b", 20, 1.0), "x", 6.0, Some((10.0, 4.0))).add(dataset);
}

fn of_results(dataset: &Dataset) {
    let run = |host, day, labels| ByHand { labels, ..ByHand::new("mem", host, day, 0.0) };
    let times = |run: ByHand, cpu| run.elapsed(10.0).of_summary("cpu_time", "s", cpu, 0.0);
    let quick = |run: ByHand, seconds| run.of_summary("elapsed_without_misses", "s", seconds, 0.01);
    quick(times(run("a", 20, "unit=web.service"), 20.0), 6.0).add(dataset);
    quick(times(run("b", 22, "unit=db.service,image=db:1"), 10.0), 9.0).add(dataset);
    // Its memory time is not known.
    times(run("b", 23, ""), 5.0).add(dataset);
    times(ByHand { incomplete: true, ..run("a", 24, "") }, 1000.0).add(dataset);
}

fn of_days(dataset: &Dataset) {
    for day in 11..19 {
        let mean = if day < 15 { 10.0 } else { 12.0 };
        for (at, seconds) in (0..).zip([mean - 0.1, mean + 0.1]) {
            ByHand::new("tr", "a", day, f64::from(at)).elapsed(seconds).add(dataset);
        }
    }
}

/// A question with its parameters, and of its rows the cells that are known: text, or value with low and high.
type Known = (&'static str, &'static [&'static str], Vec<Vec<(&'static str, Cell)>>);

enum Cell {
    Text(&'static str),
    Nothing,
    Number(f64),
    Figure(f64, f64, f64),
    /// A value without interval.
    Alone(f64),
}

use Cell::{Alone, Figure, Nothing, Number, Text};

fn known() -> Vec<Known> {
    vec![
        (
            "imbalance",
            &["program=mpi"],
            vec![vec![
                ("job", Text("j/1")),
                ("runs", Number(4.0)),
                ("ranks", Number(4.0)),
                // 14 / 11; its relative variance is 0.04/14² + 0.01/11² - 2*0.01/(14*11).
                ("imbalance", Figure(27.2727, 24.1486, 30.3969)),
                ("mean", Figure(11.0, 10.804, 11.196)),
                ("largest_rank", Number(3.0)),
                ("largest_host", Text("b")),
                ("starts", Alone(0.75)),
            ]],
        ),
        (
            "slowest-node",
            &["program=app"],
            vec![
                vec![
                    ("host", Text("c")),
                    ("rack", Text("r2")),
                    ("runs", Number(1.0)),
                    ("hosts", Number(3.0)),
                    // 20 against 11; the spread is 1 with 2 degrees of freedom: t is 4.303.
                    ("slower", Figure(81.8182, 28.9554, 134.681)),
                    ("mean", Figure(20.0, 15.6974, 24.3027)),
                ],
                vec![("host", Text("a"))],
                vec![("host", Text("b"))],
            ],
        ),
        (
            "regressed",
            &["program=reg", "since=2026-11-25"],
            vec![vec![
                ("verdict", Text("more")),
                ("hosts", Number(1.0)),
                ("change", Figure(9.90099, 3.57114, 16.2308)),
                ("before", Figure(10.1, 9.66974, 10.5303)),
                ("after", Figure(11.1, 10.6697, 11.5303)),
                ("runs", Number(2.0)),
            ]],
        ),
        (
            "regressed-functions",
            &["program=fn", "since=2026-11-25"],
            vec![
                vec![
                    ("function", Text("f(int)")),
                    // t of one degree of freedom is 12.706, times the root of 0.02.
                    ("verdict", Text("not clear")),
                    ("difference", Figure(1.0, -0.796_928, 2.79693)),
                ],
                // One run of two has it, before; the other had no sample of it.
                vec![("function", Text("g")), ("before", Figure(0.25, 0.0, 3.42655))],
            ],
        ),
        (
            "top-functions",
            &["program=fn"],
            vec![vec![
                ("function", Text("f(int)")),
                ("amount", Figure(6.0, 5.26663, 6.73337)),
                ("share", Figure(15.0, 13.1666, 16.8334)),
                ("runs", Number(2.0)),
                ("hosts", Number(1.0)),
                ("file", Nothing),
            ]],
        ),
        (
            "bandwidth",
            &["program=bw"],
            vec![vec![
                ("rack", Text("r1")),
                ("host", Text("a")),
                ("runs", Number(2.0)),
                ("average", Figure(3.5, 3.20194, 3.79806)),
                ("busiest", Alone(6.0)),
                ("peak", Alone(10.0)),
                ("used", Figure(35.0, 32.0194, 37.9806)),
            ]],
        ),
        (
            "remote-objects",
            &["program=numa"],
            vec![vec![
                ("object", Text("x")),
                ("remote", Figure(20.0, 16.173, 23.827)),
                ("stall_time", Figure(8.0, 7.44563, 8.55437)),
                ("hosts", Number(2.0)),
            ]],
        ),
        ("trend", &["program=tr", "window=2"], of_trend()),
        ("results", &["program=mem"], of_each()),
    ]
}

fn of_each() -> Vec<Vec<(&'static str, Cell)>> {
    vec![
        vec![("state", Text("incomplete")), ("day", Text("2026-11-24"))],
        vec![("host", Text("b")), ("labels", Nothing), ("cpu_time", Figure(5.0, 5.0, 5.0))],
        vec![
            ("labels", Text("unit=db.service,image=db:1")),
            ("memory_time", Figure(1.0, 0.804_004, 1.196_00)),
        ],
        vec![
            ("host", Text("a")),
            ("program", Text("mem")),
            ("result", Text("results/mem.a.20")),
            ("elapsed", Figure(10.0, 10.0, 10.0)),
            // 20 s of CPU time, of which 4 of 10 s of elapsed time are saved; the 6 s of the rest are known to 0.196 s.
            ("memory_time", Figure(8.0, 7.608_01, 8.391_99)),
            ("runs", Number(1.0)),
        ],
    ]
}

fn of_trend() -> Vec<Vec<(&'static str, Cell)>> {
    let days = ["11", "12", "13", "14", "15", "16", "17", "18"];
    let row = |(at, _): (usize, &&str)| {
        let point = if at == 4 { Text("more") } else { Nothing };
        let mut row = vec![("point", point), ("runs", Number(2.0))];
        match at {
            0 => row.push(("mean", Figure(10.0, 9.76944, 10.2306))),
            // 10 to 12 with an error of 0.1; t of 8 degrees of freedom is 2.306.
            4 => row
                .extend([("day", Text("2026-11-15")), ("change", Figure(20.0, 17.6944, 22.3056))]),
            _ => {}
        }
        row
    };
    days.iter().enumerate().map(row).collect()
}

/// The dataset, one file of which is of an earlier version.
fn by_hand(fathom: &Fathom) -> bool {
    let path = fathom.scratch.join("ds");
    let dataset = Dataset::create(&path).expect("a dataset");
    let all = [of_ranks, of_hosts, of_two_sides, of_functions, of_bandwidth, of_objects, of_days];
    for facts in all.into_iter().chain([of_results as fn(&Dataset)]) {
        facts(&dataset);
    }
    let first = |mut folder: std::path::PathBuf| {
        while folder.is_dir() {
            let entries = std::fs::read_dir(&folder).expect("a folder");
            let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
            names.sort();
            folder = names.swap_remove(0);
        }
        folder
    };
    python("dataset/older.py", &[first(path.join("figures/date=2026-11-20/host=a"))])
}

fn words<'a>(question: &'a str, parameters: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["across", "ds", question];
    words.extend(parameters.iter().flat_map(|one| ["--param", one]));
    words
}

/// PATH with the engines of the tests in front.
fn path_with(folder: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(all).expect("a PATH")
}

#[track_caller]
fn compare(name: &str, found: &[Json], expected: &[Vec<(&'static str, Cell)>]) {
    assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
    let near = |found: &Json, value: f64| {
        let found = found.as_f64().unwrap_or(f64::NAN);
        (found - value).abs() <= 2e-5 * value.abs().max(1e-9)
    };
    for (row, cells) in found.iter().zip(expected) {
        for (key, cell) in cells {
            let one = &row[key];
            let is = match cell {
                Text(text) => one == text,
                Nothing => one.is_null(),
                Number(number) => near(one, *number),
                Alone(value) => near(&one["value"], *value),
                Figure(value, low, high) => {
                    near(&one["value"], *value)
                        && near(&one["low"], *low)
                        && near(&one["high"], *high)
                }
            };
            assert!(is, "{name}, {key}: {one} in {row}");
        }
    }
}

fn answers(fathom: &Fathom, engine: &str, folder: &Path) {
    for (question, parameters, expected) in known() {
        let mut words = words(question, parameters);
        words.extend(["--engine", engine, "--format", "json"]);
        let output = fathom.command(&words).env("PATH", path_with(folder)).output();
        let output = output.expect("fathom runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{engine} {question}: {error}");
        let answer: Json = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = answer["rows"].as_array().expect("rows");
        compare(&format!("{engine} {question}"), rows, &expected);
    }
}

#[test]
fn duckdb_answers_every_question() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "across-duckdb");
    let Some(folder) = python_with("requirements.txt") else { return };
    if by_hand(&fathom) {
        answers(&fathom, "duckdb", &folder);
        let output = fathom
            .command(words("slowest-node", &["program=app"]))
            .env("PATH", path_with(&folder))
            .output();
        let text = String::from_utf8_lossy(&output.expect("fathom runs").stdout).into_owned();
        testkit::golden::check(
            testkit::programs::root().join("crates/cli/tests/golden/across.txt"),
            &text,
        );
    }
}

/// `fathom html` carries the answers that `fathom open` gives, and needs no server.
#[test]
fn the_page_of_a_dataset_is_clicked_through() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "across-page");
    let Some(folder) = python_with("requirements.txt") else { return };
    let dataset = Dataset::create(&fathom.scratch.join("ds")).expect("a dataset");
    of_results(&dataset);
    of_functions(&dataset);
    of_days(&dataset);
    let output = fathom
        .command(["html", "ds", "-o", "fleet.html"])
        .env("PATH", path_with(&folder))
        .output()
        .expect("fathom runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fathom.scratch.join("fleet.html");
    support::click_through("fleet.mjs", &format!("file://{}", page.display()), &[]);
    let wrong = fathom.output(["html", "ds", "--with", "ds", "-o", "x.html"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn clickhouse_gives_the_same_answers() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "across-clickhouse");
    let Some(folder) = python_with("engines.txt") else { return };
    if by_hand(&fathom) {
        answers(&fathom, "clickhouse", &folder);
    }
}

/// Each start of Spark takes 10 s and more: one question as a user asks it, the others in one session of two workers.
#[test]
fn spark_gives_the_same_answers() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "across-spark");
    let Some(folder) = spark() else { return };
    if !by_hand(&fathom) {
        return;
    }
    let mut asked = words("bandwidth", &["program=bw"]);
    asked.extend(["--engine", "spark:local[1]", "--format", "json"]);
    let run = |words: &[&str]| {
        let output = fathom.command(words).env("PATH", path_with(&folder)).output();
        let output = output.expect("fathom runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        output.stdout
    };
    let answer: Json = serde_json::from_slice(&run(&asked)).expect("JSON");
    let (_, _, expected) = known().swap_remove(5);
    compare("spark bandwidth", answer["rows"].as_array().expect("rows"), &expected);
    let sql = fathom.scratch.join("sql");
    std::fs::create_dir(&sql).expect("a folder");
    for (question, parameters, _) in known() {
        let mut words = words(question, parameters);
        words.extend(["--engine", "spark", "--sql"]);
        std::fs::write(sql.join(format!("{question}.sql")), run(&words)).expect("a file");
    }
    python("dataset/spark.py", &[&sql]);
    for (question, _, expected) in known() {
        let lines = std::fs::read_to_string(sql.join(format!("{question}.jsonl"))).expect("rows");
        let rows = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).map(nested);
        compare(&format!("spark {question}"), &rows.collect::<Vec<_>>(), &expected);
    }
}

/// A row of an engine as that of the view: what has a lower end is a metric.
fn nested(row: Json) -> Json {
    let row = row.as_object().expect("an object");
    let part = |key: &str, end: &str| row.get(&format!("{key}_{end}")).cloned().unwrap_or_default();
    let cell = |(key, value): (&String, &Json)| {
        let value = match part(key, "evidence") {
            Json::Null => value.clone(),
            _ => {
                serde_json::json!({ "value": value, "low": part(key, "low"), "high": part(key, "high") })
            }
        };
        (key.clone(), value)
    };
    Json::Object(row.iter().map(cell).collect())
}

#[test]
fn a_clickhouse_server_is_asked_over_http() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "across-http");
    let Some(folder) = python_with("engines.txt") else { return };
    if !by_hand(&fathom) {
        return;
    }
    let script = testkit::programs::root().join("tests/dataset/clickhouse_http.py");
    let mut server = Command::new(folder.join("python3"));
    let mut server =
        server.arg(script).stdout(std::process::Stdio::piped()).spawn().expect("python");
    let mut port = String::new();
    let mut said = std::io::BufReader::new(server.stdout.take().expect("its output"));
    std::io::BufRead::read_line(&mut said, &mut port).expect("a port");
    answers(&fathom, &format!("clickhouse://127.0.0.1:{}", port.trim()), &folder);
    // It goes away in the middle of a query.
    let asked = |host: &str| {
        let mut words = words("trend", &["program=dies"]);
        words.extend(["--engine", host]);
        let output = fathom.output(words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = asked(&format!("clickhouse://127.0.0.1:{}", port.trim()));
    assert!(
        code == Some(3) && error.contains("closed the connection before it answered"),
        "{error}"
    );
    server.wait().expect("its end");
    let (code, error) = asked(&format!("clickhouse://127.0.0.1:{}", port.trim()));
    assert!(code == Some(3) && error.contains("Connection refused"), "{error}");
}

#[test]
fn what_cannot_be_asked_is_said() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "across-refused");
    Dataset::create(&fathom.scratch.join("ds")).expect("a dataset");
    // Neither DuckDB nor Python there.
    let run = |words: &[&str]| {
        let output = fathom.command(words).env("PATH", fathom.scratch.path()).output();
        let output = output.expect("fathom runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let cases: [(&[&str], i32, &str); 8] = [
        (&["across", "ds"], 0, "imbalance            Which ranks of a job"),
        (&["across", "ds", "trend"], 3, "pip install duckdb"),
        (&["across", "ds", "trend", "--engine", "spark"], 3, "pip install pyspark"),
        (&["across", "ds", "trend", "--engine", "clickhouse"], 3, "pip install chdb"),
        (&["across", "ds", "trend", "--engine", "mysql"], 2, "possible are duckdb, spark"),
        (&["across", "ds", "trends"], 2, "there is no question 'trends'"),
        (&["across", "ds", "regressed"], 2, "regressed needs --param since=VALUE"),
        (&["across", "nowhere", "trend"], 2, "there is no dataset nowhere"),
    ];
    for (words, code, what) in cases {
        let (found, said) = run(words);
        assert!(found == Some(code) && said.contains(what), "{words:?}: {found:?} {said}");
    }
}
