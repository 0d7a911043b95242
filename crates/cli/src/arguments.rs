//! The command line as a table. Help, man pages and completions are generated from it; a test compares it with
//! `docs/guide/command-line.md`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::mpi::MpiOptions;
use crate::commands::place::PlaceOptions;
use crate::commands::watch::Selection;
use crate::ranks::Ranks;
use crate::redact::Redact;

/// Why is memory making this program slow, and what can be done about it?
#[derive(Parser, Debug)]
#[command(name = "fathom", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Start here:\n  fathom run -- ./my_program its arguments")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a program, say where its time goes and why, and keep the result
    #[command(
        after_help = "Examples:\n  fathom run -- ./stream --threads 2\n  fathom run -r before -- ./solver input.dat\n  fathom run --repeat 10 -- ./short_program\nTo attach to a running process: fathom collect memory-access --pid 4242"
    )]
    Run(RunOptions),
    /// Collect one analysis of a new or a running process
    #[command(
        after_help = "Examples:\n  fathom collect hotspots -- ./solver input.dat\n  fathom collect hotspots --pid 4242 -d 10\n  fathom collect memory-access -k sampling-interval=5 -- ./solver\n  fathom collect memory-consumption -k stacks=all -- ./solver\n  fathom collect threading -- ./solver\n  fathom collect hotspots --repeat 20 -- ./short_program"
    )]
    Collect(CollectOptions),
    /// Run an MPI job with every rank recorded, and show the ranks side by side
    #[command(
        after_help = "Examples:\n  fathom mpi -n 4 -- ./app input.dat\n  fathom mpi -n 64 --trace 0,32 --dataset fleet -- ./app\n  fathom mpi -n 8 --nodes node3 --launcher 'srun -N 2' -- ./app\n  fathom mpi -n 2 --launcher 'mpirun.openmpi --oversubscribe' -a hotspots -- ./app"
    )]
    Mpi(MpiOptions),
    /// Pause or resume a collection that runs, or mark a moment in it
    #[command(
        name = "command",
        after_help = "Examples:\n  fathom collect hotspots --start-paused -- ./solver input.dat\n  fathom command resume\n  fathom command mark 'second phase'\n  fathom command pause --pid 4242\n  fathom command pause -r r000ma\n\nWithout --pid and -r, it steers the only collection of this user that runs here. While it is paused,\nthe program runs on and nothing is observed; figures are of the rest, and the summary says so."
    )]
    Steer(CommandOptions),
    /// Show a view of a result
    #[command(
        after_help = "Examples:\n  fathom report summary\n  fathom report hotspots -r r000ma -g source-line --limit 20\n  fathom report callers --filter function=memcpy\n  fathom report source --filter function=multiply1\n  fathom report faults --format csv\n  fathom report waits -g call-stack\n  fathom report objects --sort dram_read --columns object,stall_time,dram_read --format csv -o objects.csv"
    )]
    Report(ReportOptions),
    /// Show a result in the browser (serves 127.0.0.1 until Ctrl-C)
    #[command(
        after_help = "Examples:\n  fathom open\n  fathom open r000ma\n  fathom open r000ma --with r001ma\n  fathom open fleet"
    )]
    Open(OpenOptions),
    /// Write a result as one HTML file that needs no network
    #[command(
        after_help = "Examples:\n  fathom html r000ma -o report.html\n  fathom html r000ma --with r001ma -o report.html"
    )]
    Html(HtmlOptions),
    /// Try remedies on the program and measure what each one brings
    #[command(
        after_help = "Examples:\n  fathom try -- ./solver input.dat\n  fathom try huge-pages jemalloc --budget 600 -- ./solver input.dat"
    )]
    Try(TryOptions),
    /// Run a program on given CPUs, with its memory on given NUMA nodes
    #[command(
        name = "place",
        after_help = "Examples:\n  fathom place --interleave all -- ./solver input.dat\n  fathom place -N 0 -m 0 -- ./solver\n  fathom place --each-thread 0,2,1,3 -- ./server\n\nOptions are named as numactl's, which does the same but for --each-thread."
    )]
    Placed(PlaceOptions),
    /// Compare two results, or two sets of repeated runs; gates for CI
    #[command(
        after_help = "Examples:\n  fathom diff r000hs r001hs\n  fathom diff --base r000hs r002hs r004hs --new r001hs r003hs r005hs\n  fathom diff --gate 'elapsed<=3%' -r old1 -r old2 -r old3 -- new1 new2 new3\n  fathom diff r000ma r001ma --view bandwidth -g source-line\n\nOne run per side shows how figures differ, not whether the program changed. That needs\nrepeated runs of both sides, recorded alternately: at least three each; ten find a change\nof 3 % on a quiet machine."
    )]
    Diff(DiffArguments),
    /// Run a program with several numbers of threads: speed-up, bandwidth, saturation point
    #[command(
        after_help = "Examples:\n  fathom scale --threads 1,2,4,8 -- ./solver input.dat\n  fathom scale --threads 1-8 --repeat 5 --svg scale.svg -- ./stream --threads {threads}\n  fathom scale --threads 1-4 --figure Triad: -e GOMAXPROCS={threads} -- ./stream\n\n{threads} in arguments and in -e is replaced by the number of threads. fathom also sets\nOMP_NUM_THREADS, MKL_NUM_THREADS, OPENBLAS_NUM_THREADS and RAYON_NUM_THREADS. The result\ndirectory keeps the program's output."
    )]
    Scale(ScaleArguments),
    /// Make a result of another tool's recording: perf.data
    #[command(
        after_help = "Examples:\n  perf record -g -- ./solver input.dat && fathom import perf.data\n  fathom import perf.data -r r000hs\n\nFiles of `perf record` are read, also those written to a pipe and compressed ones, of this or of\nanother machine. Views show CPU time (cpu-clock, task-clock or cycles) with call chains by frame\npointers, DWARF or LBR, and page faults. What else a file has is counted and left out."
    )]
    Import(ImportOptions),
    /// Write a result in the format of another viewer
    #[command(
        after_help = "Examples:\n  fathom export pprof -o r000ma.pb.gz && go tool pprof -http : r000ma.pb.gz\n  fathom export speedscope -r r000ma -o r000ma.speedscope.json\n  fathom export folded --figure alloc_space | inferno-flamegraph > heap.svg\n  fathom export perfetto -o r000ma.pftrace\n  fathom export otlp --send http://127.0.0.1:4318\n  fathom export svg -o flame.svg\n\nTables of a view: fathom report VIEW --format csv -o FILE. The result's own files are Parquet."
    )]
    Export(ExportOptions),
    /// Collect the figures of many results as Parquet files that query engines read
    Dataset {
        #[command(subcommand)]
        action: DatasetAction,
    },
    /// Ask a question about all results of a dataset
    #[command(
        after_help = "Examples:\n  fathom across fleet\n  fathom across fleet top-functions --param limit=20\n  fathom across fleet regressed --param since=2026-11-24 --format json\n  fathom across fleet imbalance --engine spark://node1:7077\n\nThe default engine is DuckDB: pip install duckdb"
    )]
    Across(AcrossOptions),
    /// Profile what uses most memory time on this machine, again and again, for a few seconds each
    #[command(
        after_help = "Examples:\n  fathom watch --once\n  fathom watch --every 10m --for 10s --dataset fleet\n  fathom watch --select unit=*.service --exclude program=postgres --metrics fathom.prom\n\nIt ends on Ctrl-C, and does nothing while the off file is there: touch /run/fathom/off"
    )]
    Watch(WatchOptions),
    /// Describe this machine: caches, pages, NUMA, measured bandwidth, latency, FLOPS
    #[command(
        after_help = "Examples:\n  fathom machine\n  fathom machine --refresh\n  fathom machine --format json"
    )]
    Machine(MachineOptions),
    /// List what can be measured here, and how to enable the rest
    #[command(after_help = "Example:\n  fathom doctor")]
    Doctor,
    /// Check the invariants of a result
    #[command(after_help = "Example:\n  fathom verify r000ma")]
    Verify(VerifyOptions),
    /// List the knobs of `collect` with their defaults and VTune's names
    Knobs,
    /// Write the man pages into a directory, or the main page to stdout
    #[command(after_help = "Example:\n  fathom man /usr/local/share/man/man1")]
    Man {
        /// Directory for the pages; without it the main page goes to stdout
        directory: Option<PathBuf>,
    },
    /// Write shell completions to stdout
    #[command(after_help = "Example:\n  fathom completions bash > /etc/bash_completion.d/fathom")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What `run` and `collect` share.
#[derive(Args, Debug)]
pub struct Collection {
    /// New directory for the result; %r: the MPI rank, %h: the host [default: the next free of r000ma, r001ma, ...]
    #[arg(short, long, value_name = "DIR")]
    pub result: Option<PathBuf>,
    /// Trace accesses only in these MPI ranks, as in 0,4-7, or all, or none; the others are sampled
    #[arg(long, value_name = "LIST")]
    pub ranks: Option<Ranks>,
    /// Trace accesses only in MPI ranks on these hosts, and in those of --ranks; the others are sampled
    #[arg(long, value_name = "HOST[,HOST...]", value_delimiter = ',')]
    pub nodes: Vec<String>,
    /// Stop collecting after SEC seconds; the program continues
    #[arg(short, long, value_name = "SEC", value_parser = seconds)]
    pub duration: Option<std::time::Duration>,
    /// Set a knob (repeatable); `fathom knobs` lists them
    #[arg(short, long = "knob", value_name = "NAME=VALUE")]
    pub knobs: Vec<String>,
    /// Observe nothing until `fathom command resume`, or until the program asks for it
    #[arg(long)]
    pub start_paused: bool,
    /// Limit the size of the result, in MB; samples are thinned evenly beyond it
    #[arg(long, value_name = "MB", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub limit: u64,
    /// Print errors only: no progress, no report
    #[arg(short, long)]
    pub quiet: bool,
}

/// How often a program is run.
#[derive(Args, Debug)]
pub struct Repeat {
    /// Run the program N times and pool the runs: narrower intervals for short programs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
}

#[derive(Args, Debug)]
pub struct RunOptions {
    #[command(flatten)]
    pub collection: Collection,
    #[command(flatten)]
    pub repeat: Repeat,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM ARGS")]
    pub command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct CollectOptions {
    /// What to collect
    pub analysis: AnalysisName,
    #[command(flatten)]
    pub collection: Collection,
    #[command(flatten)]
    pub repeat: Repeat,
    /// Attach to this process instead of starting a program
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["command", "repeat"])]
    pub pid: Option<i32>,
    /// Observe the whole machine (system-overview, uarch-exploration), with a program until this ends
    #[arg(long, conflicts_with_all = ["pid", "repeat"])]
    pub system: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM ARGS")]
    pub command: Vec<OsString>,
}

/// What to do with a collection that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Steer {
    /// Observe nothing from now on
    Pause,
    /// Observe again
    Resume,
    /// Give this moment a name
    Mark,
}

#[derive(Args, Debug)]
pub struct CommandOptions {
    /// What to do
    pub action: Steer,
    /// The name of a mark
    #[arg(value_name = "NAME", required_if_eq("action", "mark"))]
    pub name: Option<String>,
    /// The collection that observes this process [default: the only one that runs]
    #[arg(short, long, value_name = "PID", conflicts_with = "result")]
    pub pid: Option<i32>,
    /// The collection that writes this result
    #[arg(short, long, value_name = "DIR")]
    pub result: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum AnalysisName {
    /// CPU time, memory accesses, bandwidth, objects, page faults
    MemoryAccess,
    /// CPU time only
    Hotspots,
    /// Heap blocks: who allocates and frees how much, peak, leaks
    MemoryConsumption,
    /// Threads: running, waiting for what and where, use of the CPUs
    Threading,
    /// Kernel: page faults, system calls, interrupts, with their time
    SystemOverview,
    /// CPU time, and top-down analysis of the core by its counters
    UarchExploration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Tables for people
    Text,
    /// Every number with its evidence and interval
    Json,
    /// One header line, then one line per row
    Csv,
    /// For a comment of a pull request or the summary of a job
    Markdown,
}

/// How `fathom machine` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MachineFormat {
    /// Tables for people
    Text,
    /// Every number with its evidence and interval
    Json,
    /// One header line, then one line per figure
    Csv,
    /// For a comment of a pull request or the summary of a job
    Markdown,
    /// A drawing: sockets, nodes, caches and cores, with what was measured
    Svg,
}

#[derive(Args, Debug)]
pub struct ReportOptions {
    /// What to show; the views are listed below
    #[arg(value_name = "VIEW")]
    pub view: String,
    /// The result [default: the newest in this directory]
    #[arg(short, long, value_name = "DIR")]
    pub result: Option<PathBuf>,
    /// Group rows by these keys, e.g. `function,source-line`
    #[arg(short, long, value_name = "KEY[,KEY...]")]
    pub group: Option<String>,
    /// Keep only what matches, e.g. `thread=4711` or `time=1.5..2`, in seconds (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub filter: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Show at most N rows
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Sort by this column, largest first; the keys are those of --format json
    #[arg(long, value_name = "KEY")]
    pub sort: Option<String>,
    /// Show only these columns, in this order
    #[arg(long, value_name = "KEY[,KEY...]", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For bandwidth: where the medium and the high band begin, in percent of the bandwidth that as many threads can
    /// reach here [default: 30,70]
    #[arg(long, value_name = "MEDIUM,HIGH")]
    pub bands: Option<String>,
    /// For nodes: the machine to lay the program out on, as NODESxCPUS (`2x18`; `2x18+1` with a node of memory only), or a
    /// file from `fathom machine --format json` there [default: the recorded machine if it has several nodes, else two of it]
    #[arg(long, value_name = "SHAPE|FILE")]
    pub topology: Option<String>,
    /// Treat functions whose names begin with one of these as allocation wrappers, e.g. `xmalloc,Pool::`: objects are named after
    /// their callers
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',')]
    pub wrappers: Vec<String>,
    /// For summary: show every figure, how it was measured, and what is missing
    #[arg(long)]
    pub detail: bool,
}

/// What the page shows.
#[derive(Args, Debug)]
pub struct Shown {
    /// The result, or a dataset [default: the newest result in this directory]
    pub result: Option<PathBuf>,
    /// Compare it with this result
    #[arg(long, value_name = "DIR")]
    pub with: Option<PathBuf>,
    /// Also show this sweep of `fathom scale`
    #[arg(long, value_name = "DIR")]
    pub scaling: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct OpenOptions {
    #[command(flatten)]
    pub shown: Shown,
    /// The port; 0 chooses a free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
    /// Print the address, start no browser
    #[arg(long)]
    pub no_browser: bool,
}

#[derive(Args, Debug)]
pub struct HtmlOptions {
    #[command(flatten)]
    pub shown: Shown,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

#[derive(Args, Debug)]
pub struct TryOptions {
    /// Try only these remedies, even where they seem pointless [default: all that fit]
    #[arg(value_name = "REMEDY")]
    pub remedies: Vec<String>,
    /// Choose remedies by this result of the program [default: record the program once]
    #[arg(short, long, value_name = "DIR")]
    pub result: Option<PathBuf>,
    /// Begin no new round after SEC seconds
    #[arg(long, value_name = "SEC", value_parser = seconds, default_value = "120")]
    pub budget: std::time::Duration,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Print errors and the table only
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS")]
    pub command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct DiffArguments {
    /// Results of the base: repeated runs of one program
    #[arg(short = 'r', long, value_name = "DIR", num_args = 1..)]
    pub base: Vec<PathBuf>,
    /// Results of the new side
    #[arg(short, long, value_name = "DIR", num_args = 1..)]
    pub new: Vec<PathBuf>,
    /// The base and the new result; after --base, the new ones alone
    #[arg(value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Compare the rows of this view: hotspots, bandwidth, allocations, faults or latency
    #[arg(long, value_name = "VIEW", default_value = "hotspots")]
    pub view: String,
    /// Compare this figure of the view [default: its first one]
    #[arg(short, long, value_name = "KEY")]
    pub metric: Option<String>,
    /// Group rows by function, source-line, module or call-stack [default: function]
    #[arg(short, long, value_name = "KEY[,KEY...]")]
    pub group: Option<String>,
    /// Exit with 1 when the whole interval of a change lies beyond its limit, e.g. `elapsed<=3%` or
    /// `dram_bandwidth.average>=-5%` (repeatable); FIGURE is a path of the summary, or function:NAME
    #[arg(long, value_name = "FIGURE<=N%")]
    pub gate: Vec<String>,
    /// Exit with 1 also when the runs do not decide a gate
    #[arg(long)]
    pub strict: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Show at most N rows of the view
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

/// How threads are laid on CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Pin {
    /// The kernel's choice
    None,
    /// All hardware threads of a core, then the next core
    Compact,
    /// NUMA nodes and last-level caches in turn
    Scatter,
    /// One hardware thread of each core before the second ones
    Cores,
}

#[derive(Args, Debug)]
pub struct ScaleArguments {
    /// Numbers of threads, e.g. `1,2,4` or `1-8,16` [default: 1 to 8, then powers of two, up to the usable CPUs]
    #[arg(short, long, value_name = "LIST")]
    pub threads: Option<String>,
    /// Timed runs per number of threads
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// New directory for the results [default: the next free of r000sc, r001sc, ...]
    #[arg(short, long, value_name = "DIR")]
    pub result: Option<PathBuf>,
    /// Set a variable for the program, e.g. `GOMAXPROCS={threads}` (repeatable)
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Also show the number that the program prints after this text
    #[arg(long, value_name = "TEXT")]
    pub figure: Option<String>,
    /// Lay threads on CPUs in these ways, a sweep each
    #[arg(long, value_enum, value_name = "HOW", value_delimiter = ',', default_value = "none")]
    pub pin: Vec<Pin>,
    /// Compare with the sweep in this directory (repeatable); speed-ups are against the first one's fewest threads
    #[arg(long, value_name = "DIR")]
    pub overlay: Vec<PathBuf>,
    /// Measure times only: no GB/s, no GFLOP/s
    #[arg(long)]
    pub no_collect: bool,
    /// Set a knob of the collected runs (repeatable); `fathom knobs` lists them
    #[arg(short, long = "knob", value_name = "NAME=VALUE")]
    pub knobs: Vec<String>,
    /// Write the plots to this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Print no progress
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM ARGS")]
    pub command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct MachineOptions {
    /// Measure again, even if the machine was measured before
    #[arg(long)]
    pub refresh: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: MachineFormat,
}

#[derive(Args, Debug)]
pub struct ImportOptions {
    /// The file, as `perf record` wrote it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// New directory for the result [default: the next free of r000hs, r001hs, ...]
    #[arg(short, long, value_name = "DIR")]
    pub result: Option<PathBuf>,
    /// Print errors only: no progress, no report
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ExportFormat {
    /// A line per call stack: flamegraph.pl, inferno
    Folded,
    /// All figures by call stack, gzip: go tool pprof, Pyroscope, Parca
    Pprof,
    /// All figures by call stack, protobuf: OpenTelemetry, and what takes its profiles
    Otlp,
    /// All figures by call stack, JSON: speedscope.app
    Speedscope,
    /// Samples at their times, threads, DRAM traffic: profiler.firefox.com
    Firefox,
    /// A row per call stack, a column per figure: spreadsheets, data frames
    Csv,
    /// CPU use and DRAM traffic over time: ui.perfetto.dev
    Perfetto,
    /// A flame graph, in any browser
    Svg,
}

#[derive(Args, Debug)]
pub struct ExportOptions {
    /// The format
    pub format: ExportFormat,
    /// The result [default: the newest in this directory]
    #[arg(short, long, value_name = "DIR")]
    pub result: Option<PathBuf>,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For folded and svg: show this figure [default: cpu, or the first that there is]
    #[arg(long, value_name = "NAME")]
    pub figure: Option<String>,
    /// For otlp: send it to this receiver instead of writing it; without a path in the address, to /v1development/profiles
    #[arg(long, value_name = "ADDRESS", conflicts_with = "output")]
    pub send: Option<String>,
    /// For otlp: a name of what was profiled (repeatable), such as k8s.pod.name=shop-7 or service.name=shop
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = attribute)]
    pub attributes: Vec<(String, String)>,
    /// Leave these out
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Redact>,
}

#[derive(Subcommand, Debug)]
pub enum DatasetAction {
    /// Add results to a dataset; a result that is there already is not added again
    #[command(
        after_help = "Examples:\n  fathom dataset add fleet r000ma r001ma\n  fathom dataset add /shared/fleet --label rack=r12 job.*\n\nA result that cannot be read is left out, with the reason in DATASET/quarantine; the others are\nadded, and the exit code is 4. After a full disk or a kill, the same command goes on."
    )]
    Add(AddOptions),
    /// Check that all files of a dataset can be read, and list what is not whole
    #[command(after_help = "Examples:\n  fathom dataset verify fleet")]
    Verify {
        /// The dataset's directory
        dataset: PathBuf,
    },
}

#[derive(Args, Debug)]
pub struct AddOptions {
    /// The dataset: a directory, or s3://BUCKET/PREFIX; made if it is not there
    pub dataset: PathBuf,
    /// Directories of results
    #[arg(required_unless_present = "watch")]
    pub results: Vec<PathBuf>,
    /// Add each result in DIR as soon as it is whole, until Ctrl-C
    #[arg(long, value_name = "DIR", conflicts_with = "results")]
    pub watch: Option<PathBuf>,
    /// Leave these out
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Redact>,
    /// Keep this with each result (repeatable); `rack` is a column of its own, `host` names a machine where the
    /// result does not
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub labels: Vec<(String, String)>,
    /// Print errors only: no progress, no count
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Args, Debug)]
pub struct WatchOptions {
    /// Profile once in each interval, at a random moment of it: 90, 90s, 10m, 1h
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10m")]
    pub every: std::time::Duration,
    /// Length of a profile
    #[arg(long = "for", value_name = "TIME", value_parser = span, default_value = "10s")]
    pub length: std::time::Duration,
    /// Limit of Fathom's share of the host's CPU time in any hour, percent
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0.5")]
    pub budget: f64,
    /// Number of workloads to profile in a round, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub top: u8,
    /// Profile only these (repeatable): KEY is program, unit, namespace, pod, container or image; `*` is any text
    #[arg(long, value_name = "KEY=PATTERN")]
    pub select: Vec<Selection>,
    /// Never profile these (repeatable)
    #[arg(long, value_name = "KEY=PATTERN")]
    pub exclude: Vec<Selection>,
    /// What to collect; hotspots only samples, and traces no accesses
    #[arg(long, value_name = "NAME", default_value = "memory-access")]
    pub analysis: AnalysisName,
    /// Set a knob of each profile (repeatable); `fathom knobs` lists them
    #[arg(short, long = "knob", value_name = "NAME=VALUE")]
    pub knobs: Vec<String>,
    /// Keep results in this directory, which only one watch may use
    #[arg(long, value_name = "DIR", default_value = "fathom-spool")]
    pub spool: PathBuf,
    /// Limit of the spool's size, MB; the oldest results are removed first
    #[arg(long, value_name = "MB", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(8..=1_000_000))]
    pub spool_limit: u64,
    /// Add the results to this dataset, a directory or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
    /// Write each profile as pprof into DIR
    #[arg(long, value_name = "DIR")]
    pub pprof: Option<PathBuf>,
    /// Send each profile to this receiver of OTLP, such as http://127.0.0.1:4318; without it nothing leaves the machine
    #[arg(long, value_name = "ADDRESS")]
    pub otlp: Option<String>,
    /// Leave these out of the dataset, of pprof and of what is sent
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub redact: Vec<Redact>,
    /// Write metrics for Prometheus to this file, as node_exporter's textfile collector reads them
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Also answer with the metrics at http://127.0.0.1:PORT/metrics; 0 chooses a free port
    #[arg(long, value_name = "PORT")]
    pub listen: Option<u16>,
    /// Do nothing while this file is there
    #[arg(long, value_name = "FILE", default_value = "/run/fathom/off")]
    pub off_file: PathBuf,
    /// Do one round now, then end
    #[arg(long)]
    pub once: bool,
    /// Format of the log: text or json
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct AcrossOptions {
    /// The dataset: a directory, or s3://BUCKET/PREFIX
    pub dataset: PathBuf,
    /// The question; without one, all are listed
    pub question: Option<String>,
    /// Set a parameter of the question (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parameter)]
    pub parameters: Vec<(String, String)>,
    /// The query engine: duckdb, spark, spark://HOST:PORT, spark:MASTER, clickhouse or clickhouse://HOST:PORT
    #[arg(long, value_name = "ENGINE", default_value = "duckdb")]
    pub engine: String,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// List the questions and their parameters
    #[arg(long)]
    pub list: bool,
    /// Print the SQL for the engine instead of running it
    #[arg(long)]
    pub sql: bool,
}

#[derive(Args, Debug)]
pub struct VerifyOptions {
    /// The result [default: the newest in this directory]
    pub result: Option<PathBuf>,
}

fn attribute(text: &str) -> Result<(String, String), String> {
    let pair = parameter(text)?;
    if pair.0.is_empty() { Err("must be NAME=VALUE".to_owned()) } else { Ok(pair) }
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.is_empty() || !name.chars().all(is_plain) || value.is_empty() || value.contains(',') {
        return Err(
            "must be NAME=VALUE: letters, digits and _, then a text without commas".to_owned()
        );
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// `90`, `90s`, `10m`, `1h`.
fn span(text: &str) -> Result<std::time::Duration, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        Some(b'h') => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    let number: f64 =
        number.parse().map_err(|_| "must be a time: 90, 90s, 10m or 1h".to_owned())?;
    seconds(&(number * unit).to_string())
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.parse().ok();
    percent
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .ok_or_else(|| "must be more than 0 and at most 100".to_owned())
}

pub fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(seconds > 0.0 && seconds < 1e8) {
        return Err("must be more than 0 and less than 1e8 seconds".to_owned());
    }
    Ok(std::time::Duration::from_secs_f64(seconds))
}
