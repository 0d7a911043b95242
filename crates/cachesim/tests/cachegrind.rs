//! A second opinion: valgrind's cachegrind simulates a program with two levels; the same program's exact trace, from
//! valgrind's lackey, goes through ours. Miss counts of both levels agree within 1 %.
//!
//! Made comparable: cachegrind has an instruction cache in front of the same last level; the program's few lines of code hardly
//! displace its data there, and are left out here. It takes a read-modify-write for a read, counts an access over two lines as one
//! miss, has no inclusion and no write-backs (cachegrind manual, section 5.7; `cg_sim.c`).
//! Skipped without valgrind or a C compiler.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use base::{Bytes, RemoteAddr};
use cachesim::{Access, Config, Geometry, Hierarchy, Kind, SiteId, SiteTally};
use common::plain;
use testkit::programs::{Scratch, skip};

const PROGRAM: &str = "
#include <stdlib.h>
static int words[1 << 17];
int main(void)
{
    unsigned state = 1;
    int sum = 0;
    for (int n = 0; n < 1 << 16; n++)
        words[n] = n;
    for (int n = 0; n < 60000; n++) {
        state = state * 1664525u + 1013904223u;
        sum += words[state >> 15];
        words[(state >> 11) & 0xfff]++;
    }
    for (int n = 0; n < 1 << 17; n += 40)
        words[n] = sum;
    return 0;
}
";

const L1: Geometry = Geometry { bytes: Bytes(16 << 10), ways: 4, line_bytes: 64 };
const LLC: Geometry = Geometry { bytes: Bytes(256 << 10), ways: 8, line_bytes: 64 };

/// `None` when the program is not there.
fn output(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(output)
        }
        Err(error) => {
            skip(&format!("{}: {error}", command.get_program().to_string_lossy()));
            None
        }
    }
}

fn cachegrind(program: &Path, scratch: &Scratch) -> Option<BTreeMap<String, u64>> {
    let shape = |name: &str, level: Geometry| {
        format!("--{name}={},{},{}", level.bytes.0, level.ways, level.line_bytes)
    };
    let file = scratch.join("cachegrind.out");
    output(
        Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=yes"])
            .args([shape("I1", L1), shape("D1", L1), shape("LL", LLC)])
            .arg(format!("--cachegrind-out-file={}", file.display()))
            .arg(program),
    )?;
    let text = std::fs::read_to_string(file).expect("cachegrind wrote its file");
    let line = |start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start));
        line.unwrap_or_else(|| panic!("no {start}")).split_whitespace().map(str::to_owned)
    };
    let numbers = line("summary:").map(|number| number.parse().expect("a number"));
    Some(line("events:").zip(numbers).collect())
}

/// Sites of the trace's kinds of access.
const READ: usize = 0;
const WRITE: usize = 1;
const MODIFY: usize = 2;

/// The tallies by site.
fn ours(program: &Path, scratch: &Scratch) -> Option<Vec<SiteTally>> {
    let file = scratch.join("lackey.out");
    output(
        Command::new("valgrind")
            .args(["--tool=lackey", "--trace-mem=yes"])
            .arg(format!("--log-file={}", file.display()))
            .arg(program),
    )?;
    let config = Config { llc: Some(LLC), ..plain(L1) };
    let mut hierarchy = Hierarchy::new(&config).expect("it can be simulated");
    for line in std::fs::read_to_string(file).expect("lackey wrote its file").lines() {
        // ` L 1ffefffd48,8`; instructions begin with `I`, and the program's and valgrind's own words stand between `==`.
        let Some((address, bytes)) = line.get(3..).and_then(|rest| rest.split_once(',')) else {
            continue;
        };
        let (site, kind) = match &line[..2] {
            " L" => (READ, Kind::Read),
            " S" => (WRITE, Kind::Write),
            " M" => (MODIFY, Kind::ReadWrite),
            _ => continue,
        };
        let address = RemoteAddr(u64::from_str_radix(address.trim(), 16).expect("an address"));
        let bytes = bytes.trim().parse().expect("a size");
        let access = Access { address, bytes, kind, site: SiteId(site as u32) };
        hierarchy.access(&access);
    }
    Some(hierarchy.tallies().to_vec())
}

#[test]
fn cachegrind_agrees() {
    let scratch = Scratch::new("cachesim-cachegrind");
    let (source, program) = (scratch.join("program.c"), scratch.join("program"));
    std::fs::write(&source, PROGRAM).expect("the scratch directory can be written");
    let built = output(Command::new("gcc").arg("-O1").arg("-o").arg(&program).arg(&source));
    let Some(theirs) = built.and_then(|_| cachegrind(&program, &scratch)) else { return };
    let Some(ours) = ours(&program, &scratch) else { return };
    let l1 = |site: usize| ours[site].l1.absent.misses as f64;
    let llc = |site: usize| ours[site].llc.absent.misses as f64;
    let pairs = [
        ("Dr", (ours[READ].loads + ours[MODIFY].loads) as f64),
        ("Dw", ours[WRITE].stores as f64),
        ("D1mr", l1(READ) + l1(MODIFY)),
        ("D1mw", l1(WRITE)),
        ("DLmr", llc(READ) + llc(MODIFY)),
        ("DLmw", llc(WRITE)),
    ];
    for (event, our_count) in pairs {
        let their_count = theirs[event] as f64;
        println!("{event}: cachegrind {their_count}, ours {our_count}");
        assert!(
            (our_count - their_count).abs() <= 0.01 * their_count,
            "{event}: cachegrind {their_count}, ours {our_count}"
        );
    }
}
