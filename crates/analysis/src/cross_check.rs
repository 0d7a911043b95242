//! Where bursts and the hardware disagree, in recordings that have both.
//!
//! What for: each figure that bursts estimate and counters or sampled accesses tell, too, side by side, with a judgement by their
//! intervals. What not: which of them is right; figures that only one of them has.
//!
//! They differ where their intervals have no value in common. Some counters see more than the program: those of memory controllers see all
//! programs, and events that count in the kernel see the program's system calls. Against these, bursts can only be too high.
//!
//! Assumption: loads that the hardware samples above a threshold of cycles are all that missed the second level: a hit of the third
//! takes longer than the threshold that Fathom and `perf mem` set (30). Shares of those beyond it are then unaffected.

use estimate::Estimate;
use facts::{Evidence, Metric, Recording};

use crate::machine_traffic::MachineTraffic;
use crate::memory::Memory;
use crate::objects::Objects;
use crate::profile::Profile;
use crate::sampled::{SampledAccesses, has_sampled_accesses};
use crate::selection::Selection;
use crate::uarch::{EventToCount, counts_by_name, events_of_walks};

/// Whether two sources agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agreement {
    /// Their intervals have values in common, or bursts are below a counter that sees more than the program.
    Agree,
    /// They have none.
    Differ,
    /// One of them does not have the figure, or its interval is not known.
    Unknown,
}

impl Agreement {
    /// The name in views.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Agreement::Agree => "agree",
            Agreement::Differ => "differ",
            Agreement::Unknown => "unknown",
        }
    }
}

/// A figure from both.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// What it is, in words.
    pub figure: &'static str,
    /// By bursts.
    pub bursts: Metric,
    /// By the hardware.
    pub hardware: Metric,
    /// What of the hardware.
    pub source: &'static str,
    /// Whether the hardware sees more than the program.
    pub at_most: bool,
    /// Of both.
    pub agreement: Agreement,
    /// Bursts / hardware.
    pub ratio: Metric,
}

/// Loads and stores, then loads by level: the names of an event, the best first.
const COUNTED: [(&str, &[&str]); 5] = [
    (
        "loads, counters",
        &["mem_inst_retired.all_loads", "mem_uops_retired.all_loads", "ls_dispatch.ld_dispatch"],
    ),
    (
        "stores, counters",
        &[
            "mem_inst_retired.all_stores",
            "mem_uops_retired.all_stores",
            "ls_dispatch.store_dispatch",
        ],
    ),
    ("loads from L2, counters", &["mem_load_retired.l2_hit", "mem_load_uops_retired.l2_hit"]),
    ("loads from L3, counters", &["mem_load_retired.l3_hit", "mem_load_uops_retired.l3_hit"]),
    ("loads from DRAM, counters", &["mem_load_retired.l3_miss", "mem_load_uops_retired.l3_miss"]),
];
/// Cycles of the cores, and of the time-stamp counter while they did not halt.
const CLOCKS: [&str; 2] = ["cycles", "ref-cycles"];
/// Events of Intel's cores from Skylake on (perfmon) and of AMD's Zen (Processor Programming References, "LsDispatch").
const INTEL: [(&str, &str); 5] = [
    ("mem_inst_retired.all_loads", "event=0xd0,umask=0x81"),
    ("mem_inst_retired.all_stores", "event=0xd0,umask=0x82"),
    ("mem_load_retired.l2_hit", "event=0xd1,umask=0x2"),
    ("mem_load_retired.l3_hit", "event=0xd1,umask=0x4"),
    ("mem_load_retired.l3_miss", "event=0xd1,umask=0x20"),
];
const AMD: [(&str, &str); 2] = [
    ("ls_dispatch.ld_dispatch", "event=0x29,umask=0x1"),
    ("ls_dispatch.store_dispatch", "event=0x29,umask=0x2"),
];

/// Events to count next to bursts, by groups, page walks of the summary included; the kernel's own names have no terms.
#[must_use]
pub fn events(host: &facts::host::Host) -> Vec<Vec<EventToCount>> {
    let of = |events: &[(&'static str, &'static str)]| -> Vec<EventToCount> {
        let pmu = if host.core_types.is_empty() { "cpu" } else { "cpu_core" };
        events.iter().map(|&(name, terms)| EventToCount { name, terms, pmu }).collect()
    };
    let groups = crate::uarch::groups(host).unwrap_or_default();
    // Efficient cores count other things under these codes.
    let is_known =
        |beginning: &str| groups.iter().flatten().any(|event| event.name.starts_with(beginning));
    match host.vendor.as_str() {
        "GenuineIntel" if is_known("mem_load_retired.") => {
            vec![of(&INTEL[..2]), of(&INTEL[2..]), events_of_walks(&groups)]
        }
        "AuthenticAMD" if is_known("ls_not_halted_cyc") => vec![of(&AMD)],
        _ => Vec::new(),
    }
}

/// All figures that the hardware may tell, in a fixed order. Empty without bursts, or without anything of the hardware.
#[must_use]
pub fn cross_check(profile: &Profile<'_>, memory: &Memory<'_>) -> Vec<Check> {
    let recording = profile.recording;
    if memory.bursts().is_none() {
        return Vec::new();
    }
    let mut checks = traffic(recording, memory);
    checks.extend(counted(profile, memory));
    checks.extend(sampled(profile, memory));
    checks
}

fn check(
    figure: &'static str,
    bursts: Metric,
    hardware: Metric,
    source: &'static str,
    at_most: bool,
) -> Check {
    let agreement = match (bursts.low, bursts.high, hardware.low, hardware.high) {
        (Some(low), _, _, Some(most)) if low > most => Agreement::Differ,
        (Some(_), Some(_), _, Some(_)) if at_most => Agreement::Agree,
        (Some(_), Some(high), Some(least), Some(_)) if high < least => Agreement::Differ,
        (Some(_), Some(_), Some(_), Some(_)) => Agreement::Agree,
        _ => Agreement::Unknown,
    };
    let ratio = ratio(&bursts, &hardware);
    Check { figure, bursts, hardware, source, at_most, agreement, ratio }
}

/// Of two independent figures: the ends of their intervals.
fn ratio(part: &Metric, whole: &Metric) -> Metric {
    let over =
        |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|one| *one > 0.0)?);
    match over(part.value, whole.value) {
        None => Metric::unavailable(
            "ratio",
            [part, whole]
                .iter()
                .find_map(|one| one.note.as_deref())
                .unwrap_or("the hardware says 0"),
        ),
        Some(value) => Metric {
            unit: "ratio".to_owned(),
            value: Some(value),
            low: over(part.low, whole.high),
            high: over(part.high, whole.low),
            evidence: Some(Evidence::Estimated),
            samples: part.samples,
            lost: 0,
            note: None,
        },
    }
}

/// What the program moves is a part of what memory controllers move.
fn traffic(recording: &Recording, memory: &Memory<'_>) -> Vec<Check> {
    let Some(all) = MachineTraffic::new(recording)
        .and_then(|machine| machine.domains().into_iter().find(|domain| domain.socket.is_none()))
    else {
        return Vec::new();
    };
    let [bytes, _] = memory.moved();
    let source = "memory controllers, all programs";
    vec![check("DRAM traffic, controllers", bytes, all.bytes, source, true)]
}

/// Retired loads and stores, and the levels that loads hit.
fn counted(profile: &Profile<'_>, memory: &Memory<'_>) -> Vec<Check> {
    let recording = profile.recording;
    let counts = counts_by_name(recording);
    let kernel = recording.counted_events.iter().any(|event| event.kernel);
    let find = |at: usize| {
        let (figure, names) = COUNTED[at];
        let count = names.iter().find_map(|name| counts.get(*name))?;
        Some((figure, count.clone()))
    };
    let executed = memory.executed();
    let levels = memory.all_levels();
    let loads = find(0);
    let mut checks = Vec::new();
    for (found, bursts) in [(loads.clone(), executed.loads), (find(1), executed.stores)] {
        let Some((figure, count)) = found else { continue };
        // All that was counted while bursts ran may be the tracer's.
        let hardware = metric(count.as_ref(), "count");
        let hardware =
            Metric { low: hardware.low.map(|low| low * (1.0 - in_bursts(profile))), ..hardware };
        let source = if kernel { "counter, program and kernel" } else { "counter" };
        checks.push(check(figure, bursts, hardware, source, kernel));
    }
    let Some((_, loads)) = loads else { return checks };
    for (at, bursts) in (2..).zip([levels.l2, levels.l3, levels.dram]) {
        let Some((figure, count)) = find(at) else { continue };
        let share = match (&count, &loads) {
            (Ok(count), Ok(loads)) if loads.point() > 0.0 => {
                Ok(count.clone().with(loads, |count, loads| count / loads * 100.0))
            }
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
            _ => Err("no load was counted".to_owned()),
        };
        checks.push(check(
            figure,
            bursts,
            metric(share.as_ref(), "percent"),
            "counters of demand loads",
            false,
        ));
    }
    checks
}

fn metric(count: Result<&Estimate, &String>, unit: &str) -> Metric {
    match count {
        Err(why) => Metric::unavailable(unit, why),
        Ok(count) => match count.known_interval() {
            Some((low, high)) if low == high => Metric::counted(count.point(), unit),
            Some(ends) => Metric::with_interval(Evidence::Estimated, count.point(), unit, ends, 1),
            None => Metric {
                low: None,
                high: None,
                evidence: Some(Evidence::Estimated),
                ..Metric::counted(count.point(), unit)
            },
        },
    }
}

/// Share of the CPU time in which bursts ran, 0 to 1.
pub(crate) fn in_bursts(profile: &Profile<'_>) -> f64 {
    let bursts = profile.recording.run.own_cost.burst_time_ns.unwrap_or(0) as f64;
    (bursts / (profile.whole().amount().max(1) as f64)).min(1.0)
}

/// Levels and latency of loads that the hardware sampled.
fn sampled(profile: &Profile<'_>, memory: &Memory<'_>) -> Vec<Check> {
    if !has_sampled_accesses(profile) {
        return Vec::new();
    }
    let objects = Objects::new(profile);
    let accesses = SampledAccesses::new(profile, &Selection::default(), &objects);
    let (ours, theirs) = (memory.all_levels(), accesses.levels());
    let source = "sampled loads";
    let recording = profile.recording;
    let threshold = recording.counted_events.iter().any(|event| event.name.contains("ldlat"));
    let beyond = |part: &Metric, l3: &Metric| {
        let of = |part: Option<f64>, l3: Option<f64>| {
            let part = part?;
            Some(part / (part + l3?).max(f64::MIN_POSITIVE) * 100.0)
        };
        Metric {
            value: of(part.value, l3.value),
            low: of(part.low, l3.high),
            high: of(part.high, l3.low),
            ..part.clone()
        }
    };
    let mut checks = vec![check(
        "DRAM beyond L2, samples",
        beyond(&ours.dram, &ours.l3),
        beyond(&theirs.dram, &theirs.l3),
        source,
        false,
    )];
    let all = [
        ("loads from L1, samples", ours.l1, theirs.l1),
        ("loads from L2, samples", ours.l2, theirs.l2),
        ("loads from L3, samples", ours.l3, theirs.l3),
        ("loads from DRAM, samples", ours.dram, theirs.dram),
    ];
    let why = "the hardware samples only loads that took longer than a threshold";
    for (figure, bursts, hardware) in all {
        let hardware = if threshold { Metric::unavailable("percent", why) } else { hardware };
        checks.push(check(figure, bursts, hardware, source, false));
    }
    let latency = |found: Result<crate::memory::Latency, String>, unit| match found {
        Ok(latency) => latency.mean,
        Err(why) => Metric::unavailable(unit, &why),
    };
    let hardware = match (threshold, nanoseconds_per_cycle(recording)) {
        (true, _) => Metric::unavailable("ns", why),
        (_, Err(why)) => Metric::unavailable("ns", &why),
        (_, Ok(each)) => latency(accesses.latency(), "cycles").times(each, "ns"),
    };
    checks.push(check(
        "latency of loads, samples",
        latency(memory.latency(), "ns"),
        hardware,
        source,
        false,
    ));
    checks
}

/// Of the cores while the program ran.
fn nanoseconds_per_cycle(recording: &Recording) -> Result<f64, String> {
    let counts = counts_by_name(recording);
    let unknown = "the clock of the cores is not known: cycles and ref-cycles were not counted";
    let [cycles, reference] = CLOCKS.map(|name| match counts.get(name) {
        Some(Ok(count)) if count.point() > 0.0 => Ok(count.point()),
        _ => Err(unknown.to_owned()),
    });
    let ticks = recording.run.host.tsc_hz.filter(|hz| *hz > 0.0).ok_or(unknown)?;
    Ok(reference? / cycles? / ticks * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(low: f64, high: f64) -> Metric {
        Metric::with_interval(Evidence::Estimated, (low + high) / 2.0, "count", (low, high), 1)
    }

    #[test]
    fn they_differ_where_no_value_is_in_both_intervals() {
        let of = |bursts: (f64, f64), hardware: (f64, f64), at_most| {
            let (bursts, hardware) = (between(bursts.0, bursts.1), between(hardware.0, hardware.1));
            check("", bursts, hardware, "", at_most).agreement
        };
        assert_eq!(of((1.0, 3.0), (2.0, 4.0), false), Agreement::Agree);
        assert_eq!(of((5.0, 6.0), (2.0, 4.0), false), Agreement::Differ);
        assert_eq!(of((0.0, 1.0), (2.0, 4.0), false), Agreement::Differ);
        // Others move the rest.
        assert_eq!(of((0.0, 1.0), (2.0, 4.0), true), Agreement::Agree);
        assert_eq!(of((5.0, 6.0), (2.0, 4.0), true), Agreement::Differ);
        let none = Metric::unavailable("count", "it was not counted");
        let unknown = check("", between(1.0, 2.0), none, "", false);
        assert_eq!(unknown.agreement, Agreement::Unknown);
        assert_eq!(unknown.ratio.note.as_deref(), Some("it was not counted"));
    }
}
