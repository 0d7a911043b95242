//! The machine we run on: its files and CPUID leaves for `machine` to understand.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use facts::host::Host;
use machine::cpuid::CpuidDump;
use machine::pmu::{Pmu, Rights};
use machine::{Snapshot, Source};

/// The live file system.
struct Live;

/// More of a file than this is not read: `/proc/cpuinfo` of 1024 CPUs has 2 MB.
const LARGEST_FILE: u64 = 8 << 20;

impl Source for Live {
    fn read(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(path)?).into_owned())
    }

    fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        File::open(path).ok()?.take(LARGEST_FILE).read_to_end(&mut content).ok()?;
        Some(content)
    }

    fn list(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    }
}

/// Describes this machine, in a few milliseconds. The second value lists what is missing or makes no sense, one
/// sentence each.
#[must_use]
pub fn host() -> (Host, Vec<String>) {
    machine::describe(&snapshot())
}

/// The hardware counters of this machine.
#[derive(Debug)]
pub struct Counters {
    /// What each can do.
    pub pmus: Vec<Pmu>,
    /// What this process may open.
    pub rights: Rights,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: String,
}

/// The hardware counters, as the kernel describes them now.
#[must_use]
pub fn counters() -> Counters {
    let said = |path| Live.read(path).unwrap_or_default().trim().to_owned();
    let paranoid = said("/proc/sys/kernel/perf_event_paranoid");
    let rights = machine::pmu::rights(&paranoid, &said("/proc/self/status"));
    Counters { pmus: machine::pmu::pmus(&Live), rights, paranoid }
}

/// The files and CPUID leaves that [`host`] goes by; for bug reports and tests.
#[must_use]
pub fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::take(&Live);
    snapshot.cpuid = CpuidDump::collect(sys::kernels::cpuid);
    snapshot.architecture = std::env::consts::ARCH.to_owned();
    snapshot.page_bytes = sys::kernels::page_bytes().0;
    if snapshot.cpuid.tsc_is_invariant() && snapshot.cpuid.tsc_hz().is_none() {
        snapshot.measured_tsc_hz = measure_tsc();
    }
    snapshot
}

/// Files of the live system that change while we run, such as `/proc/meminfo`.
pub(crate) fn read(path: &str) -> Option<String> {
    Live.read(path)
}

/// Rate of the time-stamp counter against CLOCK_MONOTONIC: the median of three 2 ms intervals. Both clocks are
/// read within about 50 ns of each other, which makes an error of 25 parts per million.
fn measure_tsc() -> Option<f64> {
    let mut rates = Vec::new();
    for _ in 0..3 {
        let (start, first) = (Instant::now(), sys::kernels::read_tsc()?);
        while start.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        let (elapsed, last) = (start.elapsed(), sys::kernels::read_tsc()?);
        rates.push(last.saturating_sub(first) as f64 / elapsed.as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    (rates[1] > 0.0).then_some(rates[1])
}
