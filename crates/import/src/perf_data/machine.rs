//! Where a perf.data file was recorded, and what of this machine is the same.
//!
//! What for: names. A file here stands for a recorded one if it has the same build-id, or if the recording is of this
//! machine. Addresses in the kernel have names here only if this boot recorded them. What not: reading symbols
//! (`collect::symbolise`).

use std::collections::HashMap;
use std::path::PathBuf;

use collect::Recorded;
use collect::symbolise::Elsewhere;
use linux_perf_data::linux_perf_event_reader::Endianness;
use linux_perf_data::{DsoKey, Feature, PerfFile};

use super::names::is_simpleperf;
use crate::{Imported, RecordedMachine};

/// Fills in what the header says, and returns what the recorder must know.
pub(super) fn of(file: &PerfFile, first: u64, imported: &mut Imported) -> Recorded {
    let text = |found: Result<Option<&str>, _>| -> String {
        let found: Result<Option<&str>, linux_perf_data::Error> = found;
        found.ok().flatten().unwrap_or_default().trim().to_owned()
    };
    let machine = RecordedMachine {
        host: text(file.hostname()),
        kernel: text(file.os_release()),
        architecture: text(file.arch()),
        cpu: text(file.cpu_desc()),
        cpu_id: identified(&text(file.cpu_id())),
        cores: cores(file).unwrap_or(0),
        cpus: file.nr_cpus().ok().flatten().map_or(0, |cpus| cpus.nr_cpus_online),
        // In KiB (perf.data-file-format.txt, HEADER_TOTAL_MEM).
        memory_bytes: file.total_mem().ok().flatten().unwrap_or(0).saturating_mul(1024),
    };
    let here = !machine.host.is_empty() && machine.host == said("/proc/sys/kernel/hostname");
    // A kernel is at other addresses after each boot, so its start tells whether this one was recorded.
    let build_ids = file.build_ids().unwrap_or_default();
    let kernel = build_ids.get(&DsoKey::Kernel).map(|kernel| symbols::hex(&kernel.build_id));
    let same_kernel = here
        && machine.kernel == said("/proc/sys/kernel/osrelease")
        && kernel.is_none_or(|recorded| running_kernel().is_none_or(|here| here == recorded));
    imported.elsewhere =
        Elsewhere { files: !here, kernel: !same_kernel || booted_after(file, first) };
    let command = command_line(file);
    let about = file.simpleperf_meta_info().ok().flatten().unwrap_or_default();
    let about = |key: &str| about.get(key).copied().filter(|value| !value.is_empty());
    // With `--app` the command line has the options of simpleperf only.
    imported.command = match about("app_package_name") {
        Some(app) => vec![app.to_owned()],
        None => program(&command),
    };
    let tool = if is_simpleperf(file, &command) { "simpleperf" } else { "perf" };
    let version =
        about("simpleperf_version").map_or_else(|| text(file.perf_version()), str::to_owned);
    imported.source.tool = format!("{tool} {version}").trim_end().to_owned();
    imported.started_unix =
        about("timestamp").and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    if let Ok(Some(clock)) = file.clock_data() {
        let start = clock.wall_clock_ns.saturating_sub(clock.clockid_time_ns).saturating_add(first);
        imported.started_unix = start / 1_000_000_000;
    }
    imported.machine = machine;
    let build_ids: HashMap<String, String> = build_ids
        .into_iter()
        .filter(|(key, _)| matches!(key, DsoKey::User { .. } | DsoKey::Vdso64))
        .filter(|(_, one)| one.build_id.iter().any(|byte| *byte != 0))
        .map(|(_, one)| {
            (String::from_utf8_lossy(&one.path).into_owned(), symbols::hex(&one.build_id))
        })
        .collect();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    Recorded { build_ids, here, caches: home.map(|home| home.join(".debug")).into_iter().collect() }
}

/// `GenuineIntel,6,85,4` (tools/perf/arch/x86/util/header.c, `get_cpuid`); others have other forms.
fn identified(text: &str) -> Option<(String, String)> {
    let (vendor, numbers) = text.split_once(',')?;
    let parts: Vec<&str> = numbers.split(',').collect();
    let sound = parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok());
    sound.then(|| (vendor.to_owned(), parts.join("/")))
}

/// HEADER_CPU_TOPOLOGY: lists of CPUs by package, then lists of CPUs by core, each with its number and its texts.
fn cores(file: &PerfFile) -> Option<u32> {
    let mut rest = file.feature_section_data(Feature::CPU_TOPOLOGY)?;
    let number = |rest: &mut &[u8]| {
        let (bytes, after) = rest.split_first_chunk::<4>()?;
        *rest = after;
        Some(match file.endian() {
            Endianness::LittleEndian => u32::from_le_bytes(*bytes),
            Endianness::BigEndian => u32::from_be_bytes(*bytes),
        })
    };
    for _ in 0..number(&mut rest)? {
        let length = usize::try_from(number(&mut rest)?).ok()?;
        rest = rest.get(length..)?;
    }
    number(&mut rest)
}

/// perf's command line. The parser reserves memory for as many words as the file claims: no more than there are bytes.
pub(super) fn command_line(file: &PerfFile) -> Vec<String> {
    let claimed = file.feature_section_data(Feature::CMDLINE).and_then(|bytes| {
        let number = *bytes.first_chunk::<4>()?;
        let words = match file.endian() {
            Endianness::LittleEndian => u32::from_le_bytes(number),
            Endianness::BigEndian => u32::from_be_bytes(number),
        };
        Some(words as usize <= bytes.len())
    });
    if claimed != Some(true) {
        return Vec::new();
    }
    let words = file.cmdline().ok().flatten().unwrap_or_default();
    words.into_iter().map(str::to_owned).collect()
}

/// The program after perf's own options: behind `--`, else the whole line.
fn program(words: &[String]) -> Vec<String> {
    match words.iter().position(|word| word == "--") {
        Some(at) if at + 1 < words.len() => words[at + 1..].to_vec(),
        _ => words.to_vec(),
    }
}

/// Whether this machine was started since. Without the clock of the recording that is unknown, and taken to be so.
fn booted_after(file: &PerfFile, first: u64) -> bool {
    let recorded = match file.clock_data() {
        Ok(Some(clock)) => {
            clock.wall_clock_ns.saturating_sub(clock.clockid_time_ns) / 1_000_000_000
        }
        // perf's usual clock counts from the boot, as /proc/uptime does.
        _ => return first / 1_000_000_000 > uptime(),
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let boot = now.map_or(0, |now| now.as_secs()).saturating_sub(uptime());
    // The wall clock may have been set meanwhile: half a minute is no other boot.
    recorded.abs_diff(boot) > 30
}

/// Seconds since the boot.
fn uptime() -> u64 {
    let text = said("/proc/uptime");
    text.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
}

fn running_kernel() -> Option<String> {
    symbols::build_id_of_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

fn said(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
