//! Fills the summary's model from the analyses.
//!
//! What not: text.

use analysis::faults::{fault_scales, fault_table};
use analysis::findings::Figures;
use analysis::heap::{heap_sums, huge_pages};
use analysis::memory::{Class, Limit, Roof};
use analysis::page_costs::{PageCosts, walk_cost, walk_time};
use analysis::summary::{Overview, overview};
use analysis::uarch::walk_share;
use analysis::{Profile, Selection, Weight, parallel};
use facts::host::{Calibration, Host, LoadedLatency};
use facts::{Analysis, Evidence, ExitKind, Metric, Run, RunState, SamplingMethod, Target};

use super::core_limit::core_limit;
use super::memory::memory_part;
use super::repeat;
use super::{
    CoverageSummary, DtlbSummary, HeapSummary, HostSummary, Levels, MachineSummary, OverheadParts,
    PageFaultSummary, RefusedSummary, RoofSummary, SUMMARY_SCHEMA, SamplingSummary, Summary,
    TextExtra, TimeSplitSummary, TopFaults, TopFunction,
};
use crate::json::tidy;
use crate::prepared::Prepared;

const NOT_CALIBRATED: &str = "this machine was not measured: run `fathom machine`";

/// The function as which `collect` shows its library.
const AGENT: &str = "[fathom agent]";

/// Functions in the summary.
const TOP: usize = 10;
/// Less than this share of the CPU time is not a top function, %.
const TOP_PERCENT: f64 = 0.5;

impl Summary {
    /// The summary of a recording.
    #[must_use]
    pub(crate) fn new(prepared: &Prepared<'_>, result: &str) -> Summary {
        let (profile, code) = (&prepared.profile, &prepared.code);
        let objects = prepared.objects();
        let recording = profile.recording;
        let run = &recording.run;
        let (found, bursts) = parallel::both(|| overview(profile), || prepared.memory());
        let heap = heap_sums(recording);
        let [huge_pages_2mb, huge_pages_1gb] = huge_pages(&heap.peak);
        let (mut memory, judged) = parallel::both(
            || memory_part(prepared, &bursts),
            || {
                prepared.judged(|| {
                    let shared = || prepared.shared(&Selection::default());
                    Figures::new(profile, code, &bursts, objects, &found, shared)
                })
            },
        );
        let mut notes = found.notes.clone();
        notes.append(&mut memory.notes);
        let (exit_code, exit) = exit(run.exit);
        let core_limit = core_limit(prepared, &bursts, memory.verdict.class, &found.cpu_time);
        let (top_functions, more_functions) = top_functions(profile, &found);
        let mut extra = text_extra(profile, &found, more_functions);
        extra.cross_check = crate::views::disagreements(profile, &bursts);
        notes.extend(extra.cross_check.iter().map(|says| format!("cross-check: {says}")));
        extra.loaded_latency = loaded_latency(profile.calibration(), &memory.bandwidth.average);
        let heap_library = tidy(heap_library(profile, &found));
        let walk_time_percent = walk_share(profile)
            .map_or_else(|| walk_time_percent(profile, &found, &memory.page_walks), tidy);
        let overhead = whole_overhead(run, &found, &heap_library);
        let (mean, spread) = repeat::spread(run);
        let mpi = found.split.mpi.as_ref();
        let mut summary = Summary {
            schema: SUMMARY_SCHEMA,
            fathom_version: run.fathom_version.clone(),
            result: result.to_owned(),
            command: run.command.clone(),
            exit_code,
            exit: match run.target {
                Some(Target::Machine) => "everything on this machine".to_owned(),
                _ => exit,
            },
            state: match run.state {
                RunState::Complete => "complete",
                RunState::Incomplete => "incomplete",
            },
            target: match &run.source {
                Some(_) => "imported",
                None => run.target.as_ref().map_or("launched", Target::name),
            },
            source: run.source.clone(),
            analysis: run.analysis.name(),
            host: host(&run.host),
            sampling: sampling(run, &found),
            time_split: TimeSplitSummary {
                user: tidy(found.split.user),
                spinning: tidy(found.split.spinning),
                mpi_wait: mpi.map(|mpi| tidy(mpi.wait.clone())),
                mpi_moving: mpi.map(|mpi| tidy(mpi.moving.clone())),
                mpi_calls: mpi.map(|mpi| tidy(mpi.calls.clone())),
                kernel: tidy(found.split.kernel),
                page_faults: tidy(found.split.page_faults),
                waiting: tidy(found.split.waiting),
                thread_time: tidy(found.split.thread_time),
            },
            machine: machine(profile.calibration(), &PageCosts::of(run), &bursts.roofs()),
            page_faults: PageFaultSummary {
                minor: tidy(found.minor_faults),
                major: tidy(found.major_faults),
                time_percent: tidy(found.fault_cost.percent),
                time: tidy(found.fault_cost.time),
            },
            dram_bandwidth: memory.bandwidth,
            cache_bandwidth: memory.cache_bandwidth,
            classification: memory.verdict.class.map(Class::name),
            bandwidth_level: memory.verdict.class.and_then(Class::level),
            core_limit,
            classification_reason: memory.verdict.why,
            classification_certainty: (run.analysis == Analysis::MemoryAccess)
                .then(|| memory.verdict.certainty.name()),
            verdict: String::new(),
            verdict_decided_by: None,
            memory_bound: memory.memory_bound,
            elapsed_without_misses: memory.without_misses,
            elapsed_without_bandwidth_limit: memory.without_limit,
            average_load_latency: memory.latency,
            exposed_load_latency: memory.exposed,
            loads: memory.loads,
            stores: memory.stores,
            levels: memory.levels,
            remote_accesses: memory.remote,
            flops: memory.flops,
            arithmetic_intensity: memory.intensity,
            dtlb: DtlbSummary { misses: memory.page_walks, walk_time_percent },
            threading: super::threading::threading_part(profile, found.usable_cpus),
            heap: HeapSummary {
                allocations: tidy(heap.allocations),
                bytes_allocated: tidy(heap.bytes),
                peak_bytes: tidy(heap.peak),
                huge_pages_2mb: tidy(huge_pages_2mb),
                huge_pages_1gb: tidy(huge_pages_1gb),
                huge_page_share: tidy(found.huge_page_share.clone()),
            },
            elapsed: tidy(found.elapsed),
            paused: found.paused.map(tidy),
            cpu_time: tidy(found.cpu_time),
            threads: tidy(found.threads),
            processes: tidy(found.processes),
            cpu_utilisation: tidy(found.cpu_utilisation),
            overhead: tidy(overhead),
            overhead_parts: OverheadParts {
                cpu_time: tidy(found.overhead.cpu_time),
                consumer_cpu: tidy(found.overhead.consumer_cpu),
                stand_still: tidy(found.overhead.stand_still),
                burst_time: tidy(found.overhead.burst_time),
                slowdown: tidy(found.overhead.slowdown),
                heap_library,
            },
            coverage: CoverageSummary {
                traced: tidy(found.coverage.traced),
                bursts: tidy(found.coverage.bursts),
                stretches: tidy(found.coverage.stretches),
                records: tidy(found.coverage.records),
                cpu_time: tidy(found.coverage.cpu_time),
                refused: found.coverage.refused.into_iter().map(refused).collect(),
            },
            sampling_cost: tidy(found.sampling_cost),
            kernel_time_percent: tidy(found.kernel_percent),
            huge_page_share: tidy(found.huge_page_share),
            peak_resident: tidy(found.peak_resident),
            context_switches: tidy(found.context_switches),
            other_cpu_percent: tidy(found.other_cpu),
            stolen_percent: tidy(found.stolen),
            first_checks: super::first_checks::first_checks(profile),
            kernel_entries: super::kernel::kernel_part(profile),
            top_functions,
            findings: crate::findings::summaries(judged, result),
            undecided: crate::findings::undecided(judged),
            top_objects: memory.top_objects,
            regions: analysis::marked::regions_by_time(profile),
            notes,
            extra,
            runs: run.runs.len().max(1) as u64,
            spread,
        };
        repeat::per_run(&mut summary, mean);
        summary.notes.extend(repeat::advice(&summary).map(|advice| advice.note));
        super::verdict::judge(&mut summary);
        summary
    }
}

fn refused((reason, percent): (String, Metric)) -> RefusedSummary {
    RefusedSummary { reason, percent: tidy(percent) }
}

fn exit(exit: Option<ExitKind>) -> (Option<i32>, String) {
    match exit {
        Some(ExitKind::Code(code)) => (Some(code), format!("exited with code {code}")),
        Some(ExitKind::Signal(signal)) => {
            (Some(signal.saturating_add(128)), format!("killed by {}", signal_name(signal)))
        }
        Some(ExitKind::StillRunning) => {
            (None, "still running when the collection stopped".to_owned())
        }
        Some(ExitKind::Unknown) => (None, "ended; its exit code is not known".to_owned()),
        None => (None, "its end was not observed".to_owned()),
    }
}

/// `signal 11 (SIGSEGV)`: numbers of signal(7) that are the same on x86 and Arm.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 12] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
    ];
    match NAMES.iter().find(|(number, _)| *number == signal) {
        Some((_, name)) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

fn host(host: &Host) -> HostSummary {
    HostSummary {
        cpu: host.cpu.clone(),
        cores: host.cores,
        logical_cpus: host.logical_cpus,
        sockets: host.sockets,
        caches: host.caches.clone(),
        memory_bytes: host.memory_bytes,
        numa_nodes: host.numa_nodes.len() as u64,
        page_bytes: host.page_bytes,
        kernel: host.kernel.clone(),
        os: host.os.clone(),
        virtualised: host.hypervisor.clone(),
        container: host.container.clone(),
        pmu: host.pmu.clone(),
    }
}

fn sampling(run: &Run, found: &Overview) -> SamplingSummary {
    SamplingSummary {
        method: match run.collector.method {
            SamplingMethod::PerfEvents => "perf-events",
            SamplingMethod::Ptrace => "ptrace",
            SamplingMethod::ProcOnly => "proc-only",
            SamplingMethod::Imported => "imported",
        },
        period_seconds: base::Nanos(run.collector.sampling_period_ns).seconds(),
        kernel_functions: run.collector.kernel_samples,
        samples: found.samples,
        lost_samples: found.lost_samples,
        lost_faults: found.lost_faults,
        lost_events: found.lost_events,
        thinned_samples: found.thinned,
        lost_blocks: found.lost_blocks,
        lost_regions: found.lost_regions,
    }
}

/// From the walks of the TLB model and what one costs in as much memory as the program has.
fn walk_time_percent(profile: &Profile<'_>, found: &Overview, walks: &Metric) -> Metric {
    let resident = found.peak_resident.value;
    let cost = profile.calibration().and_then(|known| walk_cost(known, resident));
    if let (None, Some(why)) = (walks.value, &walks.note) {
        return Metric::unavailable("percent", why);
    }
    let time = walk_time(walks, cost.as_ref(), &found.cpu_time, &found.huge_page_share);
    time.map_or_else(|why| Metric::unavailable("percent", why), tidy)
}

fn machine(calibration: Option<&Calibration>, pages: &PageCosts, roofs: &[Roof]) -> MachineSummary {
    let measured = |metric: Option<&Metric>, unit: &str, why: &str| match metric {
        Some(metric) => tidy(metric.clone()),
        None => Metric::unavailable(unit, if calibration.is_some() { why } else { NOT_CALIBRATED }),
    };
    let level = |level: u32| {
        let caches = calibration.map_or(&[][..], |calibration| &calibration.effective_caches);
        let cache = caches.iter().find(|cache| cache.level == level);
        measured(
            cache.map(|cache| &cache.latency),
            "ns",
            "the measurement shows no such level on this machine",
        )
    };
    let part = |part: fn(&Calibration) -> Option<&Metric>| calibration.and_then(part);
    let failed = "could not be measured on this machine: see `fathom machine`";
    MachineSummary {
        dram_bandwidth_peak: measured(part(|c| Some(c.peak()?.rate)), "GB/s", failed),
        load_latency: Levels {
            l1: level(1),
            l2: level(2),
            l3: level(3),
            dram: measured(part(|c| c.dram_latency.as_ref()), "ns", failed),
        },
        flops_peak: measured(part(|c| c.flops_peak.as_ref()), "GFLOP/s", failed),
        page_fault_4k: measured(pages.small.as_ref(), "ns", failed),
        page_fault_2m: measured(pages.large.as_ref(), "ns", "2 MB pages are not available here"),
        roofs: roofs.iter().map(roof).collect(),
    }
}

fn roof(roof: &Roof) -> RoofSummary {
    let arithmetic = matches!(roof.limit, Limit::Scalar | Limit::Vector);
    RoofSummary {
        roof: roof.limit.name(),
        precision: arithmetic.then_some(if roof.double { "double" } else { "single" }),
        threads: roof.threads,
        like: roof.like.clone(),
        rate: tidy(roof.rate.clone()),
    }
}

/// The functions with the most self time, and how many more there are.
fn top_functions(profile: &Profile<'_>, found: &Overview) -> (Vec<TopFunction>, usize) {
    let stacks = &profile.stacks;
    let with_time = || found.functions.rows.iter().filter(|row| !row.self_time.is_empty());
    let row = |row: &analysis::hotspots::Hotspot| {
        let function = stacks.function_of(row.place);
        TopFunction {
            function: function.name.clone(),
            file: function.file.clone(),
            line: stacks.places[row.place.index()].line,
            module: stacks.module_of(row.place).name.clone(),
            cpu_time: tidy(found.scale.quantity(&row.self_time)),
            self_percent: tidy(found.scale.percent(&row.self_time)),
            total_percent: tidy(found.scale.percent(&row.total_time)),
        }
    };
    let large = |row: &&analysis::hotspots::Hotspot| {
        found.scale.share(&row.self_time) * 100.0 >= TOP_PERCENT
    };
    let top: Vec<TopFunction> = with_time().take(TOP).filter(large).map(row).collect();
    let more = with_time().count() - top.len();
    (top, more)
}

/// Samples in our library in the program, without the allocator and the kernel that it calls.
fn in_library(profile: &Profile<'_>, found: &Overview) -> Option<Weight> {
    let stacks = &profile.stacks;
    let mut rows = found.functions.rows.iter();
    let row = rows.find(|row| stacks.function_of(row.place).name == AGENT)?;
    Some(row.self_time)
}

/// What it takes, in seconds of CPU time.
fn heap_library(profile: &Profile<'_>, found: &Overview) -> Metric {
    if profile.recording.heap_totals.is_empty() {
        return Metric::unavailable("s", "Fathom's heap library was not in the program");
    }
    found.scale.quantity(&in_library(profile, found).unwrap_or_default())
}

/// The profiler's own part, and everything that it costs the program.
fn whole_overhead(run: &Run, found: &Overview, heap_library: &Metric) -> Metric {
    let own = &found.overhead.whole;
    let elapsed = found.elapsed.value.filter(|elapsed| *elapsed > 0.0);
    let (Some(percent), Some(elapsed)) = (own.value, elapsed) else { return own.clone() };
    let cpu_time = found.cpu_time.value.unwrap_or(0.0);
    let samples = found.sampling_cost.value.unwrap_or(0.0) / 100.0 * cpu_time;
    let faults = run.own_cost.fault_watching_ns.unwrap_or(0) as f64 * 1e-9;
    let library = heap_library.value.unwrap_or(0.0);
    let switches = run.own_cost.switch_watching_ns.unwrap_or(0) as f64 * 1e-9;
    let inside = samples + faults + switches + library;
    if inside == 0.0 {
        return own.clone();
    }
    let value = Some(percent + inside / elapsed * 100.0);
    let (low, high, evidence) = (None, None, Some(Evidence::Estimated));
    Metric { value, low, high, evidence, ..own.clone() }.noted(
        "CPU time of the profiler, as far as the program waited for a CPU, plus the cost to the \
         program's threads: bursts, samples, thread switches, page-fault and heap-block counting",
    )
}

/// Latency of memory without load, and at this rate.
fn loaded_latency(calibration: Option<&Calibration>, rate: &Metric) -> Option<[(f64, f64); 2]> {
    let [idle, there] = calibration?.latency_at(rate.value?)?;
    let pair = |point: &LoadedLatency| Some((point.rate.value?, point.latency.value?));
    Some([pair(idle)?, pair(there)?])
}

fn text_extra(profile: &Profile<'_>, found: &Overview, more_functions: usize) -> TextExtra {
    let run = &profile.recording.run;
    let calibration = profile.calibration();
    let faults = fault_table(profile, &Selection::default(), &[]);
    let all = fault_scales(profile.recording).all;
    let top_faults = faults.rows.first().map(|row| {
        let function = profile.stacks.function_of(row.place);
        TopFaults {
            function: function.name.clone(),
            file: function.file.clone(),
            line: profile.stacks.places[row.place.index()].line,
            percent: all.share(&row.all) * 100.0,
        }
    });
    TextExtra {
        detail: false,
        usable_cpus: found.usable_cpus,
        peak_reached_by: calibration.and_then(|calibration| calibration.peak()?.reached_by),
        calibrated: calibration.is_some(),
        calibration_age: calibration
            .map_or(0, |calibration| run.started_unix.saturating_sub(calibration.measured_unix)),
        calibration_notes: profile
            .machine
            .iter()
            .flat_map(|then| then.note.iter().chain(&then.calibration().notes).cloned())
            .collect(),
        loaded_latency: None,
        top_faults,
        more_functions,
        agent: in_library(profile, found).map(|weight| found.scale.percent(&weight)),
        why_no_samples: profile.why_no_samples(),
        sampled_loads: crate::views::sampled_loads(profile),
        only_counted: profile.whole().is_empty() && !profile.recording.counted_events.is_empty(),
        cross_check: None,
        kernel_causes: super::kernel::top_causes(profile),
    }
}
