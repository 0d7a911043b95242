//! Runs a program under the collector and prints how many facts of each kind came: a look at the collector without
//! store, symbols and report. `cargo run -p collect --example watch -- [perf|ptrace|proc] PROGRAM ARGS...`

use std::collections::BTreeMap;
use std::ffi::OsString;

use base::{CpuId, Nanos};
use collect::session::{self, Options};
use facts::{Fact, SamplingMethod};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let method = match arguments.next().and_then(|word| word.into_string().ok()).as_deref() {
        Some("perf") => SamplingMethod::PerfEvents,
        Some("ptrace") => SamplingMethod::Ptrace,
        _ => SamplingMethod::ProcOnly,
    };
    let command: Vec<OsString> = arguments.collect();
    let path = std::env::var("PATH").unwrap_or_default();
    let file = collect::program::find(&command[0].to_string_lossy(), &path).expect("a program");
    let options = Options {
        period: Nanos(1_003_009),
        stack_bytes: 8192,
        cpus: (0..2).map(CpuId).collect(),
        repeat: 1,
        duration: None,
        bursts: None,
        best_method: method,
        heap: None,
        follow_waits: true,
        kernel: false,
        regions: true,
        environment: Vec::new(),
        output: None,
        events: Vec::new(),
        controllers: Vec::new(),
        region_library: None,
        start_paused: false,
        about: None,
        began: sys::process::monotonic(),
        affinity: None,
    };
    let signals = sys::process::SignalFd::take_over().expect("signalfd");
    let mut facts = Vec::new();
    let outcome = session::launch(&file, &command, &options, &signals, &mut facts).expect("launch");
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for fact in &facts {
        let (kind, weight) = match fact {
            Fact::Sample(sample) => ("sample", sample.weight.0),
            Fact::Fault(fault) => ("fault", fault.weight),
            Fact::StackNode(node) => ("stack node (truncated)", u64::from(node.truncated)),
            Fact::Lost(lost) => ("lost", lost.count),
            Fact::Module(_) => ("module", 0),
            Fact::Mapping(_) => ("mapping", 0),
            Fact::ThreadEvent(_) => ("thread event", 0),
            Fact::Counter(counter) => {
                println!("{counter:?}");
                ("counter", 0)
            }
            Fact::Gauge(_) => ("gauge", 0),
            Fact::Frame(_) => ("frame", 0),
            Fact::Block(_) => ("block", 0),
            Fact::Burst(burst) => ("burst", burst.elapsed.0),
            Fact::Records(records) => ("records of bursts (bytes)", records.bytes.len() as u64),
            Fact::BurstRefused(_) => ("refused burst", 0),
            Fact::NoMissTime(_) => ("core no_miss", 0),
            Fact::Allocation(block) => ("heap block (bytes)", block.size.0),
            Fact::Release(_) => ("freed heap block", 0),
            Fact::HeapTotal(total) => ("heap total (bytes)", total.allocated.0),
            Fact::KernelEntry(entry) => ("entries into the kernel", entry.count),
            // Of what other analyses collect, only how much.
            _ => ("other facts", 0),
        };
        let entry = kinds.entry(kind).or_default();
        entry.0 += 1;
        entry.1 += weight;
    }
    for (kind, (count, weight)) in kinds {
        println!("{kind:>24} {count:>8} weight {weight}");
    }
    println!("{outcome:#?}");
}
