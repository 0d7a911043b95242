//! Figures from the analyses of a recording.
//!
//! What for: names instead of ids, and the sums over samples that only rules need. What not: traced accesses (`traced`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::{Nanos, Pid};
use facts::{Evidence, FaultKind, GaugeKind, Metric};

use super::flushes::flushes;
use super::rounds::Work;
use super::shared::shared;
use super::waits::computed;
use super::{
    FaultFigures, Figures, NamedLocation, RemoteFigure, Spent, ThreadTime, Traced, UsedByAll,
};
use crate::faults::{counted_faults, fault_cost, fault_scales, fault_table, fault_total};
use crate::findings::NotJudged;
use crate::hotspots::Key;
use crate::memory::Memory;
use crate::objects::{ObjectKind, Objects};
use crate::page_costs::{PageCosts, walk_cost};
use crate::parallel::both;
use crate::placement::{Topology, Use, placement};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::sharing::SharedLines;
use crate::stack::{LocationId, NodeIndex};
use crate::summary::{Overview, huge_page_share};
use crate::threading::Threading;
use crate::traced::TracedCode;
use crate::weight::Weight;
use estimate::interval::ratio_of_sums;

/// Name of the code of our library in the program (`collect::symbolise`).
const AGENT: &str = "[fathom agent]";

/// Functions that hand out blocks and take them back: those of C, C++ and glibc's own inner ones.
const ALLOCATOR: [&str; 17] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "aligned_alloc",
    "posix_memalign",
    "cfree",
    "__libc_malloc",
    "__libc_free",
    "__libc_calloc",
    "__libc_realloc",
    "__GI___libc_malloc",
    "__GI___libc_free",
    "_int_malloc",
    "_int_free",
    "_int_realloc",
    "malloc_consolidate",
];

impl NamedLocation {
    pub(super) fn of(profile: &Profile<'_>, place: LocationId) -> NamedLocation {
        let id = profile.stacks.places[place.index()].function;
        let function = &profile.stacks.functions[id.index()];
        NamedLocation {
            id: Some(id),
            function: Some(function.name.clone()),
            file: function.file.clone(),
            line: profile.stacks.places[place.index()].line,
            object: None,
        }
    }
}

impl Figures {
    /// All figures. The bursts are gone through three times more, and once more each where a site walks across lines, where
    /// there are records, and where stores fetch lines; twice more where a loop was quicker with registers.
    #[must_use]
    pub fn new<'s>(
        profile: &Profile<'_>,
        code: &TracedCode,
        memory: &Memory<'_>,
        objects: &Objects,
        overview: &Overview,
        lines: impl FnOnce() -> Cow<'s, SharedLines>,
    ) -> Figures {
        let elapsed = profile.observed().seconds();
        let cpu = overview.cpu_time.value.unwrap_or(0.0);
        let (used_by_all, traced) = both(
            || used_by_all(profile, code, objects),
            || super::traced::traced(profile, code, memory, objects),
        );
        let split = super::waits::split(profile);
        let work = Work::of_threads(profile);
        let running = if elapsed > 0.0 { (cpu / elapsed).max(1.0) } else { 1.0 };
        Figures {
            elapsed,
            running,
            cpu_time: overview.cpu_time.clone(),
            usable_cpus: overview.usable_cpus,
            quota: profile.recording.run.host.cpu_quota,
            other_percent: overview.other_cpu.clone(),
            displaced: displaced(profile, elapsed, cpu, &overview.other_cpu),
            waiting: overview.split.waiting.clone(),
            walk_cost: profile.calibration().and_then(|found| walk_cost(found, None)),
            store_rate: store_rate(profile, running),
            virtualised: profile.recording.run.host.hypervisor.is_some(),
            remote: remote((profile, code, objects), &traced),
            used_by_all,
            shared: shared((profile, code, objects), &traced, lines),
            flushes: flushes((profile, code, objects), memory, &traced),
            traced,
            faults: faults(profile, objects),
            allocator: allocator(profile),
            threads: threads(profile, &work, split.as_ref()),
            runnable: runnable(profile),
            rounds: super::rounds::rounds(profile, &work),
            waits: super::waits::waits(profile, split.as_ref()),
            system: super::system::system(profile),
            entries: super::system::entries(profile),
            command: profile.recording.run.command.clone(),
        }
    }
}

fn runnable(profile: &Profile<'_>) -> Metric {
    /// Fewer polls give no mean.
    const FEWEST: usize = 5;
    let mut snapshots: BTreeMap<Nanos, f64> = BTreeMap::new();
    let polled = profile.recording.gauges.iter();
    for gauge in polled.filter(|gauge| gauge.kind == GaugeKind::RunnableThreads) {
        *snapshots.entry(gauge.time).or_default() += gauge.value as f64;
    }
    let each: Vec<(f64, f64)> = snapshots.values().map(|threads| (*threads, 1.0)).collect();
    match ratio_of_sums(&each) {
        Some((mean, Some(interval))) if each.len() >= FEWEST => {
            Metric::with_interval(Evidence::Sampled, mean, "count", interval, each.len() as u64)
        }
        _ => Metric::unavailable("count", "the number of runnable threads was not recorded"),
    }
}

fn displaced(profile: &Profile<'_>, elapsed: f64, cpu: f64, others: &Metric) -> f64 {
    let offered = elapsed * f64::from(profile.recording.run.host.logical_cpus);
    let others = others.value.unwrap_or(0.0) / 100.0 * offered;
    let idle = (offered - others - cpu).max(0.0);
    (others - idle).max(0.0)
}

fn remote(
    (profile, code, objects): (&Profile<'_>, &TracedCode, &Objects),
    traced: &Result<Traced, NotJudged>,
) -> Result<Vec<RemoteFigure>, NotJudged> {
    let functions = &traced.as_ref().map_err(NotJudged::clone)?.functions;
    super::nodes::remote(profile, code, objects, functions)
}

/// Only where nothing is remote.
fn used_by_all(profile: &Profile<'_>, code: &TracedCode, objects: &Objects) -> Option<UsedByAll> {
    let run = &profile.recording.run;
    // An imported recording has no bursts, a damaged one no machine.
    if run.host.memory_nodes().count() != 1 || profile.threads.all().len() < 2 {
        return None;
    }
    let topology = Topology::usual(&run.host, run.calibration.as_ref());
    let found = placement(profile, code, objects, topology).ok()?;
    let first = found.objects.iter().find(|one| objects.get(one.object).kind.is_named())?;
    let [remote, ..] = &first.remote;
    (first.use_by == Use::All && found.workers > 1).then(|| UsedByAll {
        object: objects.get(first.object).name.clone(),
        topology: found.topology.name.clone(),
        threads: found.workers,
        share: first.share.clone(),
        remote: remote.clone(),
        read_only: first.read_only,
    })
}

/// The best of as many threads at most as run at a time.
fn store_rate(profile: &Profile<'_>, running: f64) -> Option<f64> {
    let points = profile.calibration()?.bandwidth.iter();
    let stores = points.filter(|point| point.kernel == "store");
    let fits = stores.filter(|point| f64::from(point.threads) <= running.ceil());
    fits.filter_map(|point| point.bus.value).reduce(f64::max)
}

/// CPU time in the kernel to give memory back; and in faults that take a page of 2 MiB at once, nanoseconds.
fn release_and_huge(profile: &Profile<'_>) -> (Metric, f64) {
    let (mut release, mut huge) = (Weight::default(), Weight::default());
    let stacks = &profile.stacks;
    for cell in profile.stack_cells().iter().filter(|cell| cell.kernel) {
        let named = |known: fn(&str) -> bool| {
            stacks.frames(cell.stack).any(|place| known(&stacks.function_of(place).name))
        };
        match stacks.in_page_fault(cell.stack) {
            // `do_huge_pmd_anonymous_page` (mm/huge_memory.c), whatever it calls to clear.
            true if named(|name| name.contains("huge_pmd")) => huge.merge(&cell.weight),
            false if named(gives_back) => release.merge(&cell.weight),
            _ => {}
        }
    }
    let scale = profile.cpu_scale();
    (scale.quantity(&release), scale.quantity(&huge).value.unwrap_or(0.0) * 1e9)
}

/// System calls with which a program gives memory back, as all architectures' kernels name them.
fn gives_back(name: &str) -> bool {
    name.contains("munmap") || ["sys_brk", "sys_madvise"].iter().any(|call| name.ends_with(call))
}

fn faults(profile: &Profile<'_>, objects: &Objects) -> FaultFigures {
    let recording = profile.recording;
    let scales = fault_scales(recording);
    let (minor, major) = counted_faults(recording);
    let top = slowest(profile).or_else(|| {
        let table = fault_table(profile, &Selection::default(), &[Key::Function, Key::SourceLine]);
        let own = table.rows.iter().find(|row| !in_loader(profile, row.place));
        own.or(table.rows.first()).map(|row| (row.place, scales.all.share(&row.all)))
    });
    let host = &recording.run.host;
    let page = if host.page_bytes > 0 { host.page_bytes } else { 4096 };
    let ours = recording.run.own_cost.burst_resident_bytes.unwrap_or(0);
    let usage = recording.run.resource_use.as_ref().map(|usage| usage.peak_resident_bytes);
    let usage = usage.map(|bytes| bytes.saturating_sub(ours));
    let resident = usage.filter(|bytes| *bytes > 0).or(crate::timeline::largest_resident(profile));
    let calibration = recording.run.calibration.as_ref();
    let minor = fault_total(minor, &scales.minor);
    let (release, huge_nanos) = release_and_huge(profile);
    // Few enough that none is taken for a large one that is not.
    let large = calibration.and_then(|found| found.page_fault_2m.as_ref()?.high);
    let huge = large.map_or(0.0, |nanos| huge_nanos / nanos.max(1.0));
    FaultFigures {
        time: fault_cost(profile).time,
        release,
        huge: huge.min(minor.value.unwrap_or(0.0)),
        minor,
        major: fault_total(major, &scales.major),
        place: top
            .map_or_else(NamedLocation::default, |(place, _)| NamedLocation::of(profile, place)),
        place_percent: top.map_or(0.0, |(_, share)| share * 100.0),
        resident_pages: resident.map(|bytes| bytes as f64 / page as f64),
        of_files_percent: of_files(profile, objects) * 100.0,
        of_one_process: of_one_process(profile),
        huge_percent: huge_page_share(profile),
        costs: PageCosts::of(&recording.run),
        transparent: host.huge_pages.transparent.clone(),
    }
}

/// The line outside of the dynamic loader with most of the time in page faults, and its share of that time.
fn slowest(profile: &Profile<'_>) -> Option<(LocationId, f64)> {
    let stacks = &profile.stacks;
    let mut times: BTreeMap<LocationId, u64> = BTreeMap::new();
    for cell in profile.stack_cells().iter().filter(|cell| stacks.in_page_fault(cell.stack)) {
        let time = times.entry(stacks.innermost_user(cell.stack)).or_default();
        *time = time.saturating_add(cell.weight.amount());
    }
    let all: u64 = times.values().fold(0, |sum, time| sum.saturating_add(*time));
    let own = times.into_iter().filter(|(place, _)| !in_loader(profile, *place));
    let (place, time) = own.max_by_key(|(_, time)| *time)?;
    Some((place, time as f64 / all as f64))
}

/// The part of the recorded faults that are on pages of files, or in the dynamic loader, whatever it writes to.
fn of_files(profile: &Profile<'_>, objects: &Objects) -> f64 {
    let (mut of_files, mut all) = (0.0, 0.0);
    for fault in &profile.recording.faults {
        let stack = fault.stack.and_then(|id| profile.stacks.find(id));
        let at = || objects.get(objects.at(fault.pid, fault.address, fault.time).0);
        let on_file = || at().kind == ObjectKind::Mapping && at().name.starts_with('/');
        let weight = fault.weight as f64;
        all += weight;
        if in_loader(profile, profile.stacks.innermost_user(stack)) || on_file() {
            of_files += weight;
        }
    }
    if all > 0.0 { of_files / all } else { 0.0 }
}

/// Whether this is code of the dynamic loader, of glibc or musl.
fn in_loader(profile: &Profile<'_>, place: LocationId) -> bool {
    let module = &profile.stacks.module_of(place).name;
    module.starts_with("ld-linux") || module.starts_with("ld-musl")
}

/// The largest part of the minor faults that one process had, percent.
fn of_one_process(profile: &Profile<'_>) -> Option<f64> {
    let recording = profile.recording;
    // Weights of a damaged result add up to any number.
    let mut faults: BTreeMap<Pid, f64> = BTreeMap::new();
    for fault in recording.faults.iter().filter(|fault| fault.kind == FaultKind::Minor) {
        *faults.entry(fault.pid).or_default() += fault.weight as f64;
    }
    let (most, all) = (faults.values().copied().reduce(f64::max), faults.values().sum::<f64>());
    match most.filter(|_| all > 0.0) {
        Some(most) => Some(most / all * 100.0),
        None => (profile.threads.process_count() < 2).then_some(100.0),
    }
}

/// Whether this frame belongs to the allocator.
fn allocates(profile: &Profile<'_>, place: LocationId) -> bool {
    let name = profile.stacks.function_of(place).name.as_str();
    ALLOCATOR.contains(&name)
        || name.starts_with("operator new")
        || name.starts_with("operator delete")
}

fn allocator(profile: &Profile<'_>) -> Result<Spent, NotJudged> {
    if profile.whole().is_empty() {
        return Err(profile.why_no_samples().into());
    }
    let [mut all, mut in_program, mut counting] = [Weight::default(); 3];
    let mut askers: BTreeMap<LocationId, u64> = BTreeMap::new();
    for cell in profile.stack_cells() {
        // Page faults inside of the allocator are those of new memory: another rule's.
        if profile.stacks.in_page_fault(cell.stack) {
            continue;
        }
        if counts_blocks(profile, cell.stack) {
            counting.merge(&cell.weight);
            continue;
        }
        if let Some(asker) = asker(profile, cell.stack) {
            all.merge(&cell.weight);
            if !cell.kernel {
                in_program.merge(&cell.weight);
            }
            *askers.entry(asker).or_default() += cell.weight.amount();
        }
    }
    let top = askers.into_iter().max_by_key(|(_, amount)| *amount).map(|(place, _)| place);
    Ok(Spent {
        time: profile.cpu_scale().quantity(&all),
        in_program: profile.cpu_scale().quantity(&in_program),
        counting: profile.cpu_scale().quantity(&counting),
        place: top.map_or_else(NamedLocation::default, |place| NamedLocation::of(profile, place)),
    })
}

/// Whether the innermost frame outside of the kernel is our library's.
fn counts_blocks(profile: &Profile<'_>, stack: Option<NodeIndex>) -> bool {
    let place = profile.stacks.innermost_user(stack);
    profile.stacks.function_of(place).name == AGENT
}

/// The caller of the allocator, if this stack is inside of it: the frame outside of its outermost one.
fn asker(profile: &Profile<'_>, stack: Option<NodeIndex>) -> Option<LocationId> {
    let mut asker = None;
    let mut inside = false;
    for place in profile.stacks.frames(stack) {
        if allocates(profile, place) {
            inside = true;
            asker = Some(place);
        } else if inside && profile.stacks.function_of(place).name != AGENT {
            return Some(place);
        }
    }
    asker
}

/// By the switches of threads where these were followed, else by samples.
fn threads(
    profile: &Profile<'_>,
    work: &[Work],
    split: Option<&Threading>,
) -> Result<Vec<ThreadTime>, NotJudged> {
    if profile.whole().is_empty() && split.is_none() {
        return Err(profile.why_no_samples().into());
    }
    let all = || profile.threads.all().iter().zip(work);
    let mut busiest: BTreeMap<Pid, &Work> = BTreeMap::new();
    for (thread, own) in all() {
        let most = busiest.entry(thread.pid).or_insert(own);
        if own.computed.amount() > most.computed.amount() {
            *most = own;
        }
    }
    let scale = profile.cpu_scale();
    let threads = all().enumerate().map(|(at, (thread, own))| {
        let counted = split.and_then(|found| found.threads.get(at)).map(computed);
        ThreadTime {
            label: thread.label(),
            pid: thread.pid,
            main: thread.tid.0 == thread.pid.0,
            cpu: counted.unwrap_or_else(|| scale.quantity(&own.computed)),
            alike: busiest.get(&thread.pid).is_some_and(|most| own.is_like(most)),
            place: own.place(profile),
            life: (thread.start.seconds(), thread.end.seconds()),
        }
    });
    Ok(threads.collect())
}

#[cfg(test)]
mod tests {
    use testkit::recording::RecordingBuilder;

    use super::*;

    /// A damaged journal may say that each record stands for 2^64 - 1 faults.
    #[test]
    fn weights_of_faults_add_up_to_any_number() {
        let mut builder = RecordingBuilder::new();
        for (pid, records) in [(1, 3), (2, 1)] {
            builder.faults((pid, pid), None, FaultKind::Minor, records, u64::MAX, 0.0);
        }
        let recording = builder.build();
        let percent = of_one_process(&Profile::new(&recording)).expect("there are faults");
        assert!((percent - 75.0).abs() < 1e-6, "{percent}");
    }
}
