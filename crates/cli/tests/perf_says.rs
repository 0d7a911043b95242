//! `perf report`, `perf mem report` and `perf c2c report` next to `fathom import` and `fathom report` of the same files: the
//! same samples, levels and lines.
//!
//! What for: each test makes one table of what perf prints and one of what Fathom prints. The stored tables come from perf 6.1;
//! where perf is installed, it is asked as well. What not: names of functions, which the machine of a recording alone knows.
//!
//! Assumption: samples of the idle task (process 0) are of no program; perf shows them, Fathom does not.

#[path = "../../import/tests/common/mod.rs"]
mod perf_data;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::programs::{Fathom, skip};

use self::perf_data::{ADDRESS_WEIGHT_SOURCE, Event, File};

/// A key and its count, per line.
type Table = BTreeMap<String, u64>;

fn text(table: &Table) -> String {
    table
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(key, count)| format!("{key}: {count}\n"))
        .collect()
}

/// Recordings that perf 6.1 can read.
const RECORDINGS: [&str; 21] = [
    "amd-zen4-lbr/perf.data.branch_stack_spec",
    "callchain-fp-lbr/perf.data.callgraph-3.8",
    "callchain-fp-lbr/perf.data.callgraph_and_branch-3.8",
    "callchain-fp-lbr/ro_sample.perf",
    "intel-pebs-skx-weightstruct/perf.data.weight_struct",
    "intel-pt-small/perf.data.intel_pt-4.14",
    "perfdata-format-edge/perf.data.branch-4.14",
    "perfdata-format-edge/perf.data.ctx_switch_namespaces-4.14",
    "perfdata-format-edge/perf.data.group_desc-4.14",
    "perfdata-format-edge/perf.data.hw_and_sw-3.4",
    "perfdata-format-edge/perf.data.hybrid_topology",
    "perfdata-format-edge/perf.data.lost_samples-4.4",
    "perfdata-format-edge/perf.data.numatopology-3.2",
    "perfdata-format-edge/perf.data.piped.ctx_switch_namespaces-4.14",
    "perfdata-format-edge/perf.data.piped.header_features-4.16",
    "perfdata-format-edge/perf.data.piped.header_features_aligned-6.12",
    "perfdata-format-edge/perf.data.piped.header_feautres_group_desc-6.8",
    "perfdata-format-edge/perf.data.piped.no_attr_ids-4.14",
    "perfdata-format-edge/perf.data.piped.target.throttled-3.4",
    "perfdata-format-edge/perf.data.proc.map.timeout-3.18",
    "perfdata-format-edge/perf.data.raw-3.4",
];

/// What perf prints, its lines split at `;`; `None` where it is not installed.
fn perf(arguments: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("perf");
    // No pager, no settings of a user.
    command.args(arguments).env("PERF_CONFIG", "/dev/null").env("PAGER", "cat");
    let Ok(output) = command.output() else {
        skip("perf is not installed: only its stored answers were compared");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.is_empty(), "{arguments:?}: {error}");
    let cells = |line: &str| line.split(';').map(|cell| cell.trim().to_owned()).collect();
    Some(text.lines().map(cells).collect())
}

/// Imports a file into `result`.
fn import(fathom: &Fathom, file: &Path, result: &str) {
    let output = fathom.output(["import", "-q", &file.display().to_string(), "-r", result]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", file.display());
}

fn number(cell: &Value) -> f64 {
    cell["value"].as_f64().unwrap_or(0.0)
}

/// The module as perf names it, without the modules of the kernel: here they are one.
fn module(name: &str, symbol: &str) -> String {
    let own = ["[vdso]", "[vsyscall]"];
    // A sample in the kernel of an event that should not count there has no mapping.
    let in_kernel = symbol.starts_with("[k]") || name.starts_with('[') && name != "[unknown]";
    if in_kernel && !own.contains(&name) { "[kernel]".to_owned() } else { name.to_owned() }
}

/// The rows of a view by module.
fn modules(fathom: &Fathom, result: &str, view: &str) -> Vec<(String, Value)> {
    let rows = fathom.rows(result, &[view, "-g", "module"]).into_iter();
    rows.filter_map(|row| Some((row["module"].as_str()?.to_owned(), row))).collect()
}

/// Samples of each event, and their sums for the events that are counts.
fn fathom_counts(fathom: &Fathom, result: &str) -> Table {
    let summary = fathom.report(result, &["summary"]);
    let mut table = Table::new();
    let mut add = |key: String, count: f64| *table.entry(key).or_default() += count as u64;
    for event in summary["source"]["events"].as_array().expect("events") {
        let (name, used_as) = (event["name"].as_str(), event["used_as"].as_str());
        let (name, used_as) = name.zip(used_as).expect("a name and a use");
        if used_as.starts_with("cpu-time") {
            for (module, row) in modules(fathom, result, "hotspots") {
                let samples = row["cpu_time"]["samples"].as_f64().unwrap_or(0.0);
                add(
                    format!("{name}, {module}"),
                    samples * f64::from(number(&row["cpu_time"]) > 0.0),
                );
            }
        } else if used_as == "memory-accesses" {
            for (module, row) in modules(fathom, result, "latency") {
                add(format!("{name}, {module}"), row["accesses"].as_f64().unwrap_or(0.0));
            }
        } else {
            for (module, row) in modules(fathom, result, "events") {
                if row["event"] == name {
                    add(format!("{name}, {module}"), row["samples"].as_f64().unwrap_or(0.0));
                    add(format!("sum of {name}, {module}"), number(&row["count"]));
                }
            }
        }
    }
    table
}

fn perf_counts(file: &str, sums: impl Fn(&str) -> bool) -> Option<Table> {
    let words = ["-i", file, "--stdio", "-f", "-t", ";", "-g", "none", "--no-branch-stack"];
    let fields = ["--no-children", "--no-group", "--itrace=i0", "-F", "sample,period"];
    let rows = perf(&[&["report"], &words[..], &fields, &["-s", "pid,dso,sym"]].concat())?;
    let mut table = Table::new();
    let mut event = String::new();
    for row in rows {
        if let Some((_, rest)) =
            row[0].split_once("# Samples:").and_then(|(_, rest)| rest.split_once('\''))
        {
            event = rest.trim_end_matches('\'').to_owned();
        }
        let [samples, sum, process, name, symbol] = row.as_slice() else { continue };
        if samples.starts_with('#') || process.starts_with("0:") || process.starts_with("-1:") {
            continue;
        }
        let key = format!("{event}, {}", module(name, symbol));
        let mut add = |key, text: &str| {
            *table.entry(key).or_default() += text.parse::<u64>().expect("a number")
        };
        if sums(&event) {
            add(format!("sum of {key}"), sum);
        }
        add(key, samples);
    }
    Some(table)
}

#[test]
fn recordings_have_the_samples_and_counts_that_perf_reports() {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "perf_report");
    let mut all = String::new();
    for (at, name) in RECORDINGS.iter().enumerate() {
        let Some(path) = testkit::fixtures::fixture(name) else { return };
        let result = format!("r{at}");
        import(&fathom, &path, &result);
        let found = fathom_counts(&fathom, &result);
        let sums =
            |event: &str| found.keys().any(|key| key.starts_with(&format!("sum of {event}, ")));
        if let Some(expected) = perf_counts(&path.display().to_string(), sums) {
            assert_eq!(text(&found), text(&expected), "{name}");
        }
        all.push_str(&format!("== {name}\n{}", text(&found)));
    }
    testkit::golden::check("tests/golden/perf_report.txt", &all);
}

/// Parts of `perf_mem_data_src` (include/uapi/linux/perf_event.h), where a field begins.
mod word {
    pub const LOAD: u64 = 2;
    pub const STORE: u64 = 4;
    const LEVEL: u32 = 5;
    pub const HIT: u64 = 2 << LEVEL;
    pub const MISS: u64 = 4 << LEVEL;
    pub const L1: u64 = 8 << LEVEL | 1 << 33;
    pub const BUFFER: u64 = 0x10 << LEVEL | 0xc << 33;
    pub const L2: u64 = 0x20 << LEVEL | 2 << 33;
    pub const L3: u64 = 0x40 << LEVEL | 3 << 33;
    pub const DRAM: u64 = 0x80 << LEVEL | 0xd << 33;
    pub const REMOTE_DRAM: u64 = 0x100 << LEVEL | 0xd << 33 | 1 << 37;
    /// Of a line that is shared: the kernel's table says L3.
    pub const REMOTE_DRAM_SHARED: u64 = 0x100 << LEVEL | 3 << 33 | 1 << 37;
    pub const REMOTE_CACHE: u64 = 0x400 << LEVEL | 3 << 33 | 1 << 37;
    pub const NONE: u64 = 2 << 19;
    pub const SNOOP_HIT: u64 = 4 << 19;
    pub const SNOOP_MISS: u64 = 8 << 19;
    pub const MODIFIED: u64 = 0x10 << 19;
    pub const LOCKED: u64 = 2 << 24;
    pub const TLB_HIT: u64 = (2 | 8 | 0x10) << 26;
    pub const TLB_MISS: u64 = (4 | 0x10) << 26;
}

/// What the kernel says of PEBS (arch/x86/events/intel/ds.c): a module for each kind of access, how often, its latency and word.
const KINDS: [(&str, u64, u64, u64); 16] = {
    use self::word::*;
    let hit = LOAD | HIT | TLB_HIT;
    [
        ("beyond_l3", 2, 300, LOAD | MISS | L3 | TLB_HIT),
        ("l1", 9, 5, hit | L1 | NONE),
        ("l1_locked", 3, 19, hit | L1 | NONE | LOCKED),
        ("l1_walk", 4, 30, LOAD | HIT | L1 | NONE | TLB_MISS),
        ("fill_buffer", 5, 60, hit | BUFFER | NONE),
        ("l2", 6, 14, hit | L2 | NONE),
        ("l3", 7, 50, hit | L3 | NONE),
        ("l3_miss", 2, 51, hit | L3 | SNOOP_MISS),
        ("l3_hit", 3, 70, hit | L3 | SNOOP_HIT),
        ("l3_modified", 4, 110, hit | L3 | MODIFIED),
        ("remote_hit", 2, 180, hit | REMOTE_CACHE | SNOOP_HIT),
        ("remote_modified", 5, 240, hit | REMOTE_CACHE | MODIFIED),
        ("dram_shared", 3, 200, hit | DRAM | SNOOP_HIT),
        ("dram", 8, 210, hit | DRAM | NONE | SNOOP_MISS),
        ("remote_dram_shared", 2, 330, hit | REMOTE_DRAM_SHARED | SNOOP_HIT),
        ("remote_dram", 4, 350, hit | REMOTE_DRAM | NONE | SNOOP_MISS),
    ]
};

const PID: u32 = 77;
const HEAP: u64 = 0x7000_0000;

/// Two nodes of two CPUs; accesses of each kind to a line of its own, and lines that threads share.
fn accesses() -> File {
    let mut file =
        File::new(vec![Event { kind: 4, config: 0x1cd, name: "cpu/mem-loads,ldlat=3/P" }]);
    file.further = (ADDRESS_WEIGHT_SOURCE, 0, 0);
    file.has_nodes(4, &["0-1", "2-3"]);
    for pid in [PID, PID + 10] {
        file.executed(1, pid, "solver");
        file.mapped_data(1, pid, (HEAP, 0x10_0000), "[heap]");
    }
    let mut time = 1000;
    let mut access =
        |file: &mut File, (pid, tid): (u32, u32), places: (u64, u64), what: (u64, u64)| {
            time += 1000;
            file.accessed((time, pid, tid, u64::from(tid % 4)), places, what);
        };
    for (at, (name, count, latency, word)) in (0..).zip(KINDS) {
        let (start, line) = (0x40_0000 + at * 0x10_000, HEAP + at * 64);
        file.mapped(1, PID, (start, 0x1000), &format!("/nowhere/{name}"));
        (0..count).for_each(|_| access(&mut file, (PID, PID), (start + 16, line), (latency, word)));
    }
    for pid in [PID, PID + 10] {
        file.mapped(1, pid, (0x80_0000, 0x1000), "/nowhere/shares");
        file.mapped(1, pid, (0x81_0000, 0x1000), "/nowhere/stores");
    }
    let [local, remote] = [KINDS[9].3, KINDS[11].3];
    let store = word::STORE | word::HIT | word::L1 | word::TLB_HIT;
    // False sharing of two threads, true sharing across nodes, and the same address in another process.
    for (count, thread, offset, word) in [
        (7, 0, 0x1000, local),
        (6, 1, 0x1008, store),
        (3, 1, 0x1008, remote),
        (5, 2, 0x1040, remote),
        (4, 3, 0x1040, store),
        (2, 3, 0x1040, local),
        (1, 10, 0x1000, local),
        (3, 11, 0x1000, store),
        (2, 0, 0x1080, KINDS[1].3),
        (2, 1, 0x1080, store),
    ] {
        let pid = if thread < 10 { PID } else { PID + 10 };
        let code = if word == store { 0x81_0010 } else { 0x80_0010 };
        for _ in 0..count {
            access(&mut file, (pid, PID + thread), (code, HEAP + offset), (100, word));
        }
    }
    file
}

/// The file of [`accesses`], imported.
fn imported(name: &str) -> (Fathom, String) {
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), name);
    let file = fathom.scratch.join("perf.data");
    std::fs::write(&file, accesses().bytes()).expect("write");
    import(&fathom, &file, "result");
    (fathom, file.display().to_string())
}

const LEVELS: [&str; 9] =
    ["l1", "fill_buffer", "l2", "l3", "remote_cache", "dram", "remote", "modified", "page_walks"];

/// What Fathom calls that which perf prints of a level: `Remote Remote RAM (1 hop) or L3 hit`, by `mem_lvl`, then by `mem_lvl_num`.
fn levels_of(printed: &str) -> &'static [&'static str] {
    let by_level = printed.split(" or ").next().unwrap_or(printed);
    match by_level {
        _ if !printed.ends_with("hit") => &[],
        level if level.contains("Remote RAM") => &["dram", "remote"],
        level if level.contains("RAM") => &["dram"],
        level if level.contains("Remote Cache") => &["remote_cache"],
        "L1" => &["l1"],
        "L2" => &["l2"],
        "L3" => &["l3"],
        level if level.starts_with("LFB") => &["fill_buffer"],
        _ => panic!("{printed}"),
    }
}

fn fathom_levels(fathom: &Fathom, result: &str) -> Table {
    let mut table = Table::new();
    for (module, row) in modules(fathom, result, "latency") {
        let loads = row["sampled_loads"].as_u64().expect("loads");
        if loads == 0 {
            continue;
        }
        table.insert(format!("{module}, loads"), loads);
        table.insert(
            format!("{module}, cycles"),
            (number(&row["latency"]) * loads as f64).round() as u64,
        );
        for key in LEVELS {
            let count = number(&row[key]) * row[key]["samples"].as_f64().unwrap_or(0.0) / 100.0;
            table.insert(format!("{module}, {key}"), count.round() as u64);
        }
    }
    table
}

fn perf_levels(file: &str) -> Option<Table> {
    let words = ["mem", "-f", "-i", file, "-t", "load", "-x", ";", "report", "--stdio", "-F"];
    let sort = "pid,dso,sym,mem,snoop,tlb,local_weight";
    let mut table = Table::new();
    for row in perf(&[&words[..], &["sample", "-s", sort]].concat())? {
        let [samples, process, name, symbol, level, snoop, tlb, weight] = row.as_slice() else {
            continue;
        };
        // It prints stores with the loads.
        if samples.starts_with('#') || process.starts_with("0:") || name == "stores" {
            continue;
        }
        let module = module(name, symbol);
        let count = samples.parse::<u64>().expect("a number");
        let mut add =
            |key: &str, count| *table.entry(format!("{module}, {key}")).or_default() += count;
        add("loads", count);
        add("cycles", count * weight.parse::<u64>().expect("a number"));
        levels_of(level).iter().for_each(|key| add(key, count));
        add("modified", count * u64::from(snoop == "HitM"));
        add("page_walks", count * u64::from(tlb == "L2 miss"));
    }
    Some(table)
}

#[test]
fn sampled_loads_have_the_levels_that_perf_mem_reports() {
    let (fathom, file) = imported("perf_mem");
    let mut all = String::new();
    let mut compare = |file: &str, result: &str| {
        let found = text(&fathom_levels(&fathom, result));
        if let Some(expected) = perf_levels(file) {
            assert_eq!(found, text(&expected));
        }
        all.push_str(&format!("== {result}\n{found}"));
    };
    compare(&file, "result");
    if let Some(path) = testkit::fixtures::fixture(RECORDINGS[4]) {
        import(&fathom, &path, "skylake");
        compare(&path.display().to_string(), "skylake");
        testkit::golden::check("tests/golden/perf_mem.txt", &all);
    }
}

/// Each line with a conflict: its address, loads of modified copies in this node and in another, stores.
type Lines = Vec<[u64; 4]>;

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn fathom_lines(fathom: &Fathom) -> Lines {
    let mut lines: BTreeMap<(bool, u64), [u64; 4]> = BTreeMap::new();
    for row in fathom.rows("result", &["sharing", "--limit", "1000"]) {
        let address = row["line_address"].as_str().and_then(hexadecimal).expect("an address");
        let number = |key: &str| row[key].as_u64().expect(key);
        let thread = row["thread"].as_str().expect("a thread");
        let mut digits = thread.rsplit(|letter: char| !letter.is_ascii_digit());
        let tid = digits.find_map(|digits| digits.parse::<u32>().ok());
        // Each process has its own line at an address.
        let other = tid.expect("a number") >= PID + 10;
        let remote = number("remote_conflicts");
        let parts = [number("conflicts") - remote, remote, number("sampled_stores")];
        let sums = lines.entry((other, address)).or_insert([address, 0, 0, 0]);
        sums[1..].iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }
    let mut lines: Lines = lines.into_values().collect();
    lines.sort_unstable();
    lines
}

/// The table of shared lines: index, address, node, physical addresses, share, then the numbers. Its totals of loads count each load from
/// another node twice (`mrem` in c2c_decode_stats, tools/perf/util/mem-events.c), so they are left out.
fn perf_lines(file: &str) -> Option<Lines> {
    let rows = perf(&["c2c", "report", "-f", "-i", file, "--stdio", "--no-source", "-d", "tot"])?;
    let rows = rows.into_iter().flatten();
    let table = rows.skip_while(|line| !line.contains("Shared Data Cache Line Table"));
    let line = |line: String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, address, _, _, _, _, local, remote, _, _, stores, ..] = words.as_slice() else {
            return None;
        };
        let number = |word: &str| word.parse::<u64>().ok();
        Some([hexadecimal(address)?, number(local)?, number(remote)?, number(stores)?])
    };
    let table = table.take_while(|line| !line.contains("Pareto")).filter_map(line);
    let mut lines: Lines = table.filter(|[_, local, remote, _]| local + remote > 0).collect();
    lines.sort_unstable();
    Some(lines)
}

#[test]
fn shared_lines_are_those_that_perf_c2c_reports() {
    let (fathom, file) = imported("perf_c2c");
    let found = fathom_lines(&fathom);
    if let Some(expected) = perf_lines(&file) {
        assert_eq!(found, expected);
    }
    // Of perf 6.1. Two processes have a line at one address.
    let stored = [
        [0x7000_0240, 4, 0, 0],
        [0x7000_02c0, 0, 5, 0],
        [0x7000_1000, 1, 0, 3],
        [0x7000_1000, 7, 3, 6],
        [0x7000_1040, 2, 5, 4],
    ];
    assert_eq!(found, stored);
    let rows = fathom.rows("result", &["sharing", "--limit", "1000"]);
    let sharing = |line: &str| {
        let of = rows.iter().find(|row| row["line_address"] == line);
        of.and_then(|row| row["sharing"].as_str()).map(str::to_owned)
    };
    // As the offsets of its distribution say: different bytes, the same bytes.
    assert_eq!(sharing("0x70001000").as_deref(), Some("false"));
    assert_eq!(sharing("0x70001040").as_deref(), Some("true"));
}
