//! What decides which remedies fit: the machine's means, and the program's behaviour, from a recording.
//!
//! What not: the remedies (`analysis::remedies`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use analysis::Profile;
use analysis::objects::Objects;
use analysis::remedies::{Behaviour, Heap, Means};
use facts::host::Host;
use facts::{AllocationCall, ExitKind, Metric, Recording};
use report::{Document, Options, Summary};

use crate::arguments::TryOptions;
use crate::exit::{CANNOT_MEASURE, Failure};

/// Where Linux distributions keep shared libraries (Debian, Fedora, others).
const LIBRARY_DIRECTORIES: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];
/// So many persistent blocks are looked up.
const SOME_BLOCKS: usize = 1000;
const ALLOCATORS: [&str; 3] = ["libjemalloc.so", "libtcmalloc_minimal.so", "libmimalloc.so"];
/// Beginnings of the file names of OpenMP runtimes: GNU's, LLVM's, Intel's.
const OPENMP: [&str; 3] = ["libgomp.so", "libomp.so", "libiomp5.so"];

/// What this machine offers.
pub fn means(host: &Host) -> Means<'_> {
    let installed = |name: &&str| Some(((*name).to_owned(), library(name)?.display().to_string()));
    // In a thread of its own: what we inherited stays as it is.
    let refused = |policy, nodes: Vec<base::NodeId>| {
        let set = move || sys::process::set_memory_policy(policy, &nodes);
        std::thread::spawn(set).join().unwrap_or(Ok(())).err()
    };
    let policy = refused(sys::process::MemoryPolicy::Local, Vec::new());
    let all = host.memory_nodes().map(|node| base::NodeId(node.id)).collect();
    let weights = refused(sys::process::MemoryPolicy::Weighted, all);
    Means {
        host,
        glibc: sys::process::glibc_version(),
        allocators: ALLOCATORS.iter().filter_map(installed).collect(),
        no_memory_policy: policy.map(|error| sys::kernels::unbound(&error).to_owned()),
        no_weights: weights.map(|error| {
            format!("the kernel spreads no memory by weights ({error}): it takes Linux 6.9")
        }),
        no_next_touch: sys::process::next_touch_works()
            .err()
            .map(|error| sys::process::no_next_touch(&error)),
    }
}

/// A library by the beginning of its file name: the one with the shortest version.
fn library(name: &str) -> Option<PathBuf> {
    let files = |directory: &&str| std::fs::read_dir(directory).ok();
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
    };
    let entries = LIBRARY_DIRECTORIES.iter().filter_map(files).flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(named).min_by_key(|path| path.as_os_str().len())
}

/// The program's behaviour, and the remedies that its findings advise, largest gain first: from the named result, or
/// from a recording made now.
pub fn behaviour(options: &TryOptions) -> Result<(Behaviour, Vec<String>), Failure> {
    let recording = match &options.result {
        Some(directory) => super::super::report::open(directory)?,
        None => record(options)?,
    };
    match report::build(&recording, &Options::default(), &|_| None) {
        Ok(Document::Summary(summary)) => {
            Ok((from_summary(&recording, &summary), advised(&summary)))
        }
        Ok(_) => unreachable!("the default view is the summary"),
        Err(error) => Err(Failure::new(CANNOT_MEASURE, error)),
    }
}

/// `fathom try NAME -- ...`
fn advised(summary: &Summary) -> Vec<String> {
    let names = summary.findings.iter().filter_map(|finding| {
        let mut words = finding.next_command.split(' ').skip(1);
        (words.next()? == "try").then(|| words.next().map(str::to_owned))?
    });
    names.filter(|name| name != "--").collect()
}

/// A directory that is removed again.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records the program once, in a process of its own and not by `collect_program`: recording raises a process's limit
/// of open files, which the timed runs would inherit, and gives the program our input, which the timed runs do not
/// have.
fn record(options: &TryOptions) -> Result<Recording, Failure> {
    let cannot = |error: std::io::Error| Failure::new(CANNOT_MEASURE, error);
    if !options.quiet {
        eprintln!("fathom: recording the program once, to choose remedies");
    }
    let scratch = Scratch(std::env::temp_dir().join(format!("fathom-try-{}", std::process::id())));
    let result = scratch.0.join("r000ma");
    std::fs::create_dir_all(&scratch.0).map_err(cannot)?;
    let status = Command::new(std::env::current_exe().map_err(cannot)?)
        .args(["collect", "memory-access", "--quiet", "-k", "dram-bandwidth-limits=false", "-r"])
        .arg(&result)
        .arg("--")
        .args(&options.command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(cannot)?;
    // It ends with the program's own code.
    if !status.success() && !result.join("run.json").exists() {
        let message = format!("the program or its recording failed: {status}");
        return Err(Failure::new(CANNOT_MEASURE, anyhow::Error::msg(message))
            .hint("its messages are above; a failing program cannot be compared"));
    }
    let recording = super::super::report::open(Path::new(&result))?;
    match recording.run.exit {
        Some(ExitKind::Code(_)) => Ok(recording),
        _ => Err(Failure::usage("the program did not end by itself: it cannot be compared")),
    }
}

fn from_summary(recording: &Recording, summary: &Summary) -> Behaviour {
    let seconds = summary.elapsed.value.filter(|seconds| *seconds > 0.0);
    let rate = |count: &Metric| Some(count.value? / seconds?);
    let minor = summary.page_faults.minor.value;
    let faults = minor.map(|minor| minor + summary.page_faults.major.value.unwrap_or(0.0));
    let copies = summary.top_functions.iter().filter(|function| copies(&function.function));
    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let openmp = |path: &str| OPENMP.iter().any(|name| file(path).starts_with(name));
    Behaviour {
        threads: summary.threads.value.unwrap_or(1.0),
        faults_per_second: faults.zip(seconds).map(|(faults, seconds)| faults / seconds),
        fault_percent: summary.page_faults.time_percent.value,
        huge_percent: summary.huge_page_share.value,
        resident: summary.peak_resident.value,
        heap_peak: summary.heap.peak_bytes.value,
        mapped: Objects::new(&Profile::new(recording)).most_mapped(recording).value,
        pool: pool(recording),
        blocks_per_second: rate(&summary.heap.allocations),
        // Not `sum`, which is -0 for none.
        copy_percent: copies
            .filter_map(|function| function.self_percent.value)
            .fold(0.0, |sum, percent| sum + percent),
        hot_block: summary
            .top_objects
            .iter()
            .find_map(|object| Some((object.block_bytes?, object.stall_percent.value?))),
        openmp: recording.modules.iter().any(|module| openmp(&module.path)),
        heap: heap(recording),
    }
}

/// Bytes of the largest file that persistent blocks lie in.
fn pool(recording: &Recording) -> Option<f64> {
    let blocks = recording.allocations.iter().filter(|one| one.call == AllocationCall::Persistent);
    let file = |block: &facts::Allocation| {
        let mut regions = recording
            .regions
            .iter()
            .filter(|one| one.pid == block.pid && one.name.starts_with('/'));
        let holds = |one: &facts::Region| {
            block.address.0.checked_sub(one.start.0).is_some_and(|at| at < one.bytes.0)
        };
        regions.find(|one| holds(one)).map(|one| one.bytes.0)
    };
    // Blocks of one program lie in one pool, mostly.
    blocks.take(SOME_BLOCKS).filter_map(file).max().map(|bytes| bytes as f64)
}

/// Its heap allocator. A program without a C library file has one of its own.
fn heap(recording: &Recording) -> Heap {
    let loaded = |beginning: &str| {
        let file = |path: &str| path.rsplit('/').next().unwrap_or_default().starts_with(beginning);
        recording.modules.iter().any(|module| file(&module.path))
    };
    match () {
        () if loaded("libjvm.so") => Heap::Java,
        () if loaded("libjemalloc.so") => Heap::Jemalloc,
        () if loaded("libmimalloc.so") => Heap::Mimalloc,
        () if loaded("ld-musl") || loaded("libc.musl") => Heap::Other,
        () if loaded("libc.so") || loaded("libc-2") => Heap::Glibc,
        () if recording.modules.is_empty() => Heap::Glibc,
        () => Heap::Other,
    }
}

/// The C library's copying functions, whatever the variant for this processor: `__memmove_avx_unaligned_erms`.
fn copies(function: &str) -> bool {
    let name = function.trim_start_matches('_');
    ["memcpy", "memmove", "memset", "mempcpy"].iter().any(|known| name.starts_with(known))
}
