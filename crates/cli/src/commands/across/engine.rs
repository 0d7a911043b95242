//! Query engines, as programs of their own: which one is there, how it is started, and the rows that it prints.
//!
//! What for: `docs/decisions/0009-query-engines.md` says why they are not a part of Fathom. What not: SQL (`dataset`).
//!
//! All print rows as JSON objects. Assumption: an engine only reads the dataset, so one that fails or is killed loses nothing.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::str::FromStr;

use ::dataset::Dialect;
use serde_json::{Deserializer, Map, Value};

use super::engine_failure;
use crate::exit::Failure;
use crate::http::{Address, Request, ask};

/// Reads SQL from stdin, prints a JSON object per row.
const DUCKDB_SCRIPT: &str = "\
import json, math, sys
import duckdb
sql = sys.stdin.read()
connection = duckdb.connect()
if \"'s3://\" in sql:
    # Of this process: nothing is downloaded, and the variables of the environment say where and who.
    import fsspec
    connection.register_filesystem(fsspec.filesystem('s3'))
found = connection.execute(sql)
names = [column[0] for column in found.description]
def plain(value):
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return float(value) if math.isfinite(value) else None
while rows := found.fetchmany(10000):
    for row in rows:
        print(json.dumps(dict(zip(names, map(plain, row)))))
";
const CHDB_SCRIPT: &str = "\
import sys
import chdb
sys.stdout.write(str(chdb.query(sys.stdin.read(), 'JSONEachRow')))
";
const PYSPARK_SCRIPT: &str = "import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), 'bin', 'spark-sql'))";

/// ClickHouse's port for HTTP.
const HTTP_PORT: u16 = 8123;

/// Where a question is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Engine {
    /// DuckDB: its CLI, or its Python module.
    DuckDb,
    /// Spark, with this master.
    Spark(String),
    /// ClickHouse in a process of its own: `clickhouse local`, or chDB.
    ClickHouseLocal,
    /// A ClickHouse server: host and port.
    ClickHouse(String, u16),
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Engine, String> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("duckdb", "") => Ok(Engine::DuckDb),
            ("spark", "") => Ok(Engine::Spark("local[*]".to_owned())),
            ("spark", server) if server.starts_with("//") => Ok(Engine::Spark(text.to_owned())),
            ("spark", master) => Ok(Engine::Spark(master.to_owned())),
            ("clickhouse", "") => Ok(Engine::ClickHouseLocal),
            ("clickhouse", server) => {
                let server = server.strip_prefix("//").unwrap_or_default().trim_end_matches('/');
                let (host, port) = match server.rsplit_once(':') {
                    Some((host, port)) => (host, port.parse().ok()),
                    None => (server, Some(HTTP_PORT)),
                };
                let port = port.filter(|_| !host.is_empty());
                let port =
                    port.ok_or(format!("--engine {text}: must be clickhouse://HOST:PORT"))?;
                Ok(Engine::ClickHouse(host.to_owned(), port))
            }
            _ => Err(format!(
                "--engine {text}: possible are duckdb, spark, spark://HOST:PORT, spark:MASTER, clickhouse and clickhouse://HOST:PORT"
            )),
        }
    }
}

impl Engine {
    /// What it speaks.
    pub fn dialect(&self) -> Dialect {
        match self {
            Engine::DuckDb => Dialect::DuckDb,
            Engine::Spark(_) => Dialect::Spark,
            Engine::ClickHouseLocal | Engine::ClickHouse(..) => Dialect::ClickHouse,
        }
    }

    /// Runs the statements; the last one gives the rows.
    pub fn rows(&self, statements: &[String]) -> Result<Vec<Map<String, Value>>, Failure> {
        let sql = statements.join(";\n");
        let text = match self {
            Engine::DuckDb => duckdb(&sql),
            Engine::Spark(master) => spark(master, &sql),
            Engine::ClickHouseLocal => clickhouse_local(&sql),
            Engine::ClickHouse(host, port) => clickhouse(host, *port, &sql),
        }?;
        parse(&text)
            .map_err(|error| engine_failure(format!("the engine's answer is not JSON: {error}")))
    }
}

/// Objects, one after the other or in an array. Lines that begin with neither are an engine's messages.
fn parse(text: &str) -> Result<Vec<Map<String, Value>>, serde_json::Error> {
    let lines = text.lines().filter(|line| line.starts_with(['{', '[', ']', ',']));
    let mut rows = Vec::new();
    for value in Deserializer::from_str(&lines.collect::<Vec<_>>().join("\n")).into_iter() {
        match value? {
            Value::Object(row) => rows.push(row),
            Value::Array(all) => rows.extend(all.into_iter().filter_map(|row| match row {
                Value::Object(row) => Some(row),
                _ => None,
            })),
            _ => {}
        }
    }
    Ok(rows)
}

fn duckdb(sql: &str) -> Result<String, Failure> {
    // It draws on stdout in queries of more than 2 s, in front of the first row.
    let is_stored = sql.contains("'s3://");
    let sql = &format!("SET enable_progress_bar = false;\n{sql}");
    if is_stored {
        return match python_with("duckdb").filter(|_| python_with("s3fs").is_some()) {
            Some(python) => run("duckdb", Command::new(python).args(["-c", DUCKDB_SCRIPT]), sql),
            None => Err(engine_failure(
                "DuckDB reads a store with Python's s3fs, which is not installed".to_owned(),
            )
            .hint("pip install duckdb s3fs; or choose --engine clickhouse")),
        };
    }
    if let Some(program) = on_path("duckdb") {
        let mut command = Command::new(program);
        return run("duckdb", command.args(["-batch", "-json", "-init", "/dev/null"]), sql);
    }
    match python_with("duckdb") {
        Some(python) => run("duckdb", Command::new(python).args(["-c", DUCKDB_SCRIPT]), sql),
        None => Err(engine_failure("DuckDB is not installed".to_owned())
            .hint("pip install duckdb, or put the program duckdb on PATH; or choose another engine: --engine spark, --engine clickhouse")),
    }
}

fn clickhouse_local(sql: &str) -> Result<String, Failure> {
    if let Some(program) = on_path("clickhouse") {
        return run("clickhouse", Command::new(program).arg("local"), sql);
    }
    match python_with("chdb") {
        Some(python) => run("chdb", Command::new(python).args(["-c", CHDB_SCRIPT]), sql),
        None => Err(engine_failure("ClickHouse is not installed".to_owned())
            .hint("pip install chdb, or put the program clickhouse on PATH; or name a server: --engine clickhouse://HOST:PORT")),
    }
}

fn spark(master: &str, sql: &str) -> Result<String, Failure> {
    if sql.contains("'s3a://") {
        return Err(engine_failure(
            "Spark needs its own settings and libraries for a store".to_owned(),
        )
        .hint(
            "--sql prints the statements for your cluster; or choose --engine duckdb or clickhouse",
        ));
    }
    let home = std::env::var_os("SPARK_HOME").map(|home| PathBuf::from(home).join("bin/spark-sql"));
    let of_module = || {
        let python = python_with("pyspark")?;
        let output = Command::new(python).args(["-c", PYSPARK_SCRIPT]).output().ok()?;
        Some(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    };
    let program =
        home.filter(|path| path.exists()).or_else(|| on_path("spark-sql")).or_else(of_module);
    let Some(program) = program else {
        return Err(engine_failure("Spark is not installed".to_owned())
            .hint("pip install pyspark (it needs Java 17), or put spark-sql on PATH or its folder in SPARK_HOME"));
    };
    // Spark leaves files where it runs.
    let folder = std::env::temp_dir().join(format!("fathom-spark-{}", std::process::id()));
    let file = folder.join("question.sql");
    let put = || {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&file, format!("{sql};\n"))
    };
    put().map_err(|error| engine_failure(format!("cannot write {}: {error}", file.display())))?;
    let mut command = Command::new(program);
    command.current_dir(&folder).args(["--master", master]);
    let mut settings = vec![
        "spark.sql.catalogImplementation=in-memory",
        "spark.sql.sources.partitionColumnTypeInference.enabled=false",
        "spark.ui.enabled=false",
    ];
    if master.starts_with("local") {
        // It listens, for itself only.
        settings.extend(["spark.driver.bindAddress=127.0.0.1", "spark.driver.host=127.0.0.1"]);
    }
    for setting in settings {
        command.args(["--conf", setting]);
    }
    let answer = run("spark-sql", command.arg("-f").arg(&file), "");
    let _ = std::fs::remove_dir_all(&folder);
    answer
}

/// A query over HTTP: <https://clickhouse.com/docs/interfaces/http>. The server must see the dataset under the same path, below
/// its `user_files_path`.
fn clickhouse(host: &str, port: u16, sql: &str) -> Result<String, Failure> {
    let failed = |what: String| engine_failure(format!("ClickHouse at {host}:{port}: {what}"));
    let secret = |name: &str| std::env::var(name).ok();
    let login = [("CLICKHOUSE_USER", "User"), ("CLICKHOUSE_PASSWORD", "Key")];
    let login = login
        .iter()
        .filter_map(|(name, header)| Some((format!("X-ClickHouse-{header}"), secret(name)?)));
    let path = "/?wait_end_of_query=1".to_owned();
    let address = Address { is_secure: false, host: host.to_owned(), port, path };
    let headers = login.collect();
    let request = Request { method: "POST", headers, body: sql.as_bytes(), patience: None };
    let answer = ask(&address, &request).map_err(|error| failed(error.to_string()))?;
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    match answer.status {
        200 => Ok(body),
        _ => Err(failed(last_lines(&body))),
    }
}

fn run(name: &str, command: &mut Command, input: &str) -> Result<String, Failure> {
    let failed = |what: String| engine_failure(format!("{name}: {what}"));
    let mut start = || -> std::io::Result<Output> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // One that ended before it read says why on stderr.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    };
    let output = start().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let error = last_lines(&String::from_utf8_lossy(&output.stderr));
        return Err(failed(format!("it ended with {}: {error}", output.status))
            .hint("the dataset is unchanged; run the same command again"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The message of an engine's error, without its stack.
fn last_lines(text: &str) -> String {
    let is_frame = |line: &&str| !line.trim_start().starts_with("at ") && !line.trim().is_empty();
    let lines: Vec<&str> = text.lines().filter(is_frame).map(str::trim_end).collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The Python on PATH, if it has a module.
fn python_with(module: &str) -> Option<PathBuf> {
    let python = on_path("python3")?;
    let script = format!(
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    );
    let status = Command::new(&python).args([OsStr::new("-c"), OsStr::new(&script)]).status();
    status.is_ok_and(|status| status.success()).then_some(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_by_name() {
        let of = |text: &str| text.parse::<Engine>();
        assert_eq!(of("duckdb"), Ok(Engine::DuckDb));
        assert_eq!(of("spark"), Ok(Engine::Spark("local[*]".to_owned())));
        assert_eq!(of("spark://node1:7077"), Ok(Engine::Spark("spark://node1:7077".to_owned())));
        let cluster = "local-cluster[2,1,1024]";
        assert_eq!(of(&format!("spark:{cluster}")), Ok(Engine::Spark(cluster.to_owned())));
        assert_eq!(of("clickhouse"), Ok(Engine::ClickHouseLocal));
        assert_eq!(of("clickhouse://a"), Ok(Engine::ClickHouse("a".to_owned(), 8123)));
        assert_eq!(of("clickhouse://a:9/"), Ok(Engine::ClickHouse("a".to_owned(), 9)));
        for wrong in ["", "sqlite", "duckdb:x", "clickhouse://", "clickhouse://a:b"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rows_come_as_lines_or_as_an_array() {
        let rows = |text: &str| parse(text).expect("JSON").len();
        assert_eq!(rows("{\"a\":1}\n{\"a\":2}\n"), 2);
        assert_eq!(rows("[{\"a\":1},\n{\"a\":2}]\n"), 2);
        assert_eq!(rows("Spark master: local\n{\"a\":1}\nTime taken: 1 s\n"), 1);
        assert_eq!(rows(""), 0);
        assert!(parse("{\"a\":").is_err());
    }
}
