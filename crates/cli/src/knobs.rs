//! The knobs of a collection, each with what sets it. Parsing, help and the manifest use this table; a test compares it with
//! `docs/guide/command-line.md`.
//!
//! What not: what a knob changes (the options of `collect`).

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Bytes, CpuId};
use collect::bursts::BurstOptions;
use collect::counting::{Carried, Choice, SampleRate, Scope};
use facts::{Analysis, SamplingMethod};
use machine::events::EventCode;
use machine::pmu::{Pmu, PmuKind};

use crate::exit::Failure;

/// A knob as `fathom knobs` lists it.
pub struct Knob {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its value when not given.
    pub default: &'static str,
    /// What VTune calls it, if it has it.
    pub vtune: &'static str,
    /// The analyses that use it; empty: all.
    used_by: &'static [Analysis],
    /// What it does, with units and range.
    about: &'static str,
    /// Sets its field; `None` where the value is not allowed.
    set: fn(&mut Settings, &str) -> Option<()>,
}

impl Knob {
    /// Its meaning, and the analyses that use it if not all do.
    pub fn meaning(&self) -> String {
        match self.used_by {
            [] => self.about.to_owned(),
            _ => format!("{} ({} only)", self.about, self.users()),
        }
    }

    fn users(&self) -> String {
        self.used_by.iter().map(|analysis| analysis.name()).collect::<Vec<_>>().join(" and ")
    }
}

const ALL: &[Analysis] = &[];
const ACCESSES: &[Analysis] = &[Analysis::MemoryAccess];
const OBJECTS: &[Analysis] = &[Analysis::MemoryAccess, Analysis::UarchExploration];
const BLOCKS: &[Analysis] = &[Analysis::MemoryAccess, Analysis::MemoryConsumption];
const KERNEL: &[Analysis] = &[Analysis::SystemOverview];

/// All knobs.
#[rustfmt::skip] // What a knob is on a line, what sets it on the next.
pub const KNOBS: [Knob; 14] = [
    Knob { name: "sampling-interval", default: "auto", vtune: "sampling-interval", used_by: ALL, about: "ms of CPU time between two samples of a thread, 0.1 to 1000; auto: 1, or up to 4 where samples would take more than 1 % of the time; more where a program's threads fill more than 4 CPUs, or switch often",
        set: |settings, value| { settings.period = or_auto(value, |value| number(value, 0.1, 1000.0).map(period))?; Some(()) } },
    Knob { name: "stack-size", default: "8192", vtune: "stack-size", used_by: ALL, about: "bytes of stack that a sample copies for unwinding, 256 to 65000",
        set: |settings, value| { settings.stack_bytes = value.parse().ok().filter(|bytes| (256..=65_000).contains(bytes))?; Some(()) } },
    Knob { name: "sampling-mode", default: "auto", vtune: "sampling-mode", used_by: ALL, about: "auto (perf events, else ptrace), ptrace, or off (totals only)",
        set: |settings, value| { settings.method = one_of(value, &[("auto", SamplingMethod::PerfEvents), ("sw", SamplingMethod::PerfEvents), ("ptrace", SamplingMethod::Ptrace), ("off", SamplingMethod::ProcOnly)])?; Some(()) } },
    Knob { name: "memory-tracing", default: "true", vtune: "", used_by: ACCESSES, about: "true: record exact memory accesses in bursts",
        set: |settings, value| { settings.tracing = value.parse().ok()?; Some(()) } },
    Knob { name: "overhead", default: "3", vtune: "", used_by: ACCESSES, about: "percent of the program's time that bursts may take, 0.1 to 100",
        set: |settings, value| { settings.bursts.as_mut()?.overhead = number(value, 0.1, 100.0)? / 100.0; Some(()) } },
    Knob { name: "burst-interval", default: "auto", vtune: "", used_by: ACCESSES, about: "mean ms between bursts, 0.5 to 10000; auto: as `overhead` allows",
        set: |settings, value| { settings.bursts.as_mut()?.interval = or_auto(value, |value| milliseconds(value, 0.5, 10_000.0))?; Some(()) } },
    Knob { name: "burst-time", default: "3", vtune: "", used_by: ACCESSES, about: "longest burst in ms, 0.1 to 100",
        set: |settings, value| { settings.bursts.as_mut()?.longest = milliseconds(value, 0.1, 100.0)?; Some(()) } },
    Knob { name: "mem-object-size-min-thres", default: "32768", vtune: "mem-object-size-min-thres", used_by: BLOCKS, about: "bytes, 1 to 1e12: each heap block of this size or more is recorded with its call stack",
        set: |settings, value| { settings.heap.large_from = bytes(value, 1)?; Some(()) } },
    Knob { name: "mem-object-sampling", default: "524288", vtune: "", used_by: BLOCKS, about: "mean bytes between two recorded smaller blocks, 64 to 1e12",
        set: |settings, value| { settings.heap.sample_every = bytes(value, 64)?; Some(()) } },
    Knob { name: "stacks", default: "sampled", vtune: "", used_by: BLOCKS, about: "sampled: record large heap blocks and a sample of the others, each with the stack of its allocation; all: record every block, also with the stack of its free",
        set: |settings, value| { settings.heap.every_block = one_of(value, &[("all", true), ("sampled", false)])?; Some(()) } },
    Knob { name: "collecting-mode", default: "auto", vtune: "collecting-mode", used_by: KERNEL, about: "auto, or hw-tracing: accepted for VTune's scripts, kernel tracepoints are used",
        set: |_, value| one_of(value, &[("auto", ()), ("hw-tracing", ())]) },
    Knob { name: "analyze-mem-objects", default: "true", vtune: "analyze-mem-objects", used_by: OBJECTS, about: "true: record heap blocks (after an attach: new ones), mapped memory and variables, to name the objects of accesses",
        set: |settings, value| { settings.objects = value.parse().ok()?; Some(()) } },
    Knob { name: "event-config", default: "", vtune: "event-config", used_by: ALL, about: "events to count, with commas between them: page-faults, cycles, cpu/event=0x3c,umask=0x1/; {A,B} are counted at the same times, A:sa=N takes a sample of the code per N; `report events` shows them",
        set: |_, _| Some(()) }, // `parse` sets it: it has errors of its own.
    Knob { name: "dram-bandwidth-limits", default: "true", vtune: "dram-bandwidth-limits", used_by: ALL, about: "true: measure this machine once, after the first run (about 16 s), and read the memory's speed before and after each (0.07 s each)",
        set: |settings, value| { settings.calibrate = value.parse().ok()?; Some(()) } },
];

/// What the knobs came to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Between samples, in nanoseconds; `None`: see [`usual_period`]. Not round: see `collect::perf::events`.
    pub period: Option<base::Nanos>,
    /// Bytes of stack.
    pub stack_bytes: u32,
    /// The best method to try.
    pub method: SamplingMethod,
    /// Whether bursts are taken.
    tracing: bool,
    /// How bursts are taken, if they are.
    pub bursts: Option<BurstOptions>,
    /// What to record of the heap.
    pub heap: HeapSettings,
    /// Whether memory-access records it too, and what else an address may lie in.
    pub objects: bool,
    /// Groups of events to count.
    pub events: Vec<Vec<Choice>>,
    /// Whether to measure the machine when it was not yet, and its memory's speed at each run.
    pub calibrate: bool,
    /// What differs from the defaults, for the manifest.
    pub changed: BTreeMap<String, String>,
}

/// What to record of the heap, where the analysis is about it.
#[derive(Clone, Copy, Debug)]
pub struct HeapSettings {
    /// From which size on each block is recorded.
    pub large_from: Bytes,
    /// Mean bytes between two smaller ones that are.
    pub sample_every: Bytes,
    /// Record all.
    pub every_block: bool,
}

/// 1.003009 ms: as near to 1 ms as it may be without falling into step with the kernel's 1, 4 or 10 ms ticks.
const PERIOD_PER_MILLISECOND: f64 = 1_003_009.0;

/// Reads `NAME=VALUE` words.
pub fn parse(words: &[String]) -> Result<Settings, Failure> {
    let mut settings = Settings {
        period: None,
        stack_bytes: 8192,
        method: SamplingMethod::PerfEvents,
        tracing: true,
        bursts: Some(BurstOptions {
            overhead: 0.03,
            interval: None,
            longest: Duration::from_millis(3),
            rationed: false,
        }),
        heap: HeapSettings {
            large_from: Bytes(32 << 10),
            sample_every: Bytes(512 << 10),
            every_block: false,
        },
        objects: true,
        events: Vec::new(),
        calibrate: true,
        changed: BTreeMap::new(),
    };
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            return Err(Failure::usage(format!("knob '{word}' is not NAME=VALUE")));
        };
        let Some(knob) = KNOBS.iter().find(|knob| knob.name == name) else {
            let names: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
            return Err(Failure::usage(format!(
                "no knob '{name}'; knobs are {}",
                names.join(", ")
            )));
        };
        (knob.set)(&mut settings, value).ok_or_else(|| {
            Failure::usage(format!("knob {name}: '{value}' is not allowed: {}", knob.meaning()))
        })?;
        if name == "event-config" {
            settings.events = events(value)?;
        }
        if value != knob.default {
            settings.changed.insert(name.to_owned(), value.to_owned());
        }
    }
    settings.bursts = settings.bursts.filter(|_| settings.tracing);
    Ok(settings)
}

/// A note for each knob in `words` that `analysis` does not use. Not an error: scripts may set the same knobs for every
/// analysis.
pub fn ignored(words: &[String], analysis: Analysis) -> impl Iterator<Item = String> {
    let is_set = |knob: &&Knob| {
        words.iter().any(|word| word.split_once('=').is_some_and(|(name, _)| name == knob.name))
    };
    KNOBS
        .iter()
        .filter(move |knob| !knob.used_by.is_empty() && !knob.used_by.contains(&analysis))
        .filter(is_set)
        .map(|knob| format!("knob {} is ignored: it is for {} only", knob.name, knob.users()))
}

/// The default period: a millisecond, or longer, so that samples take at most 1 % of the time. `sample_cost`: nanoseconds
/// per sample (5 to 16 us in virtual machines); `None` when unknown.
pub fn usual_period(sample_cost: Option<f64>) -> base::Nanos {
    const SHARE: f64 = 0.01;
    let sample_cost = sample_cost.filter(|cost| cost.is_finite()).unwrap_or(0.0);
    period((sample_cost / SHARE / 1e6).clamp(1.0, 4.0))
}

fn period(milliseconds: f64) -> base::Nanos {
    base::Nanos((milliseconds * PERIOD_PER_MILLISECOND) as u64)
}

/// A value that may be `auto`; `None` in the inner option for `auto`.
fn or_auto<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text == "auto" { Some(None) } else { read(text).map(Some) }
}

fn one_of<T: Copy>(text: &str, values: &[(&str, T)]) -> Option<T> {
    values.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

fn milliseconds(text: &str, least: f64, most: f64) -> Option<Duration> {
    number(text, least, most).map(|number| Duration::from_secs_f64(number / 1000.0))
}

/// `A,{B,C}`: groups of events.
fn events(text: &str) -> Result<Vec<Vec<Choice>>, Failure> {
    let (mut groups, mut name) = (vec![Vec::new()], String::new());
    let (mut in_group, mut in_terms) = (false, false);
    for letter in text.chars().chain([',']) {
        match letter {
            '/' => in_terms = !in_terms,
            '{' | '}' | ',' if !in_terms => {
                if !name.is_empty() {
                    let last = groups.len() - 1;
                    groups[last].push(std::mem::take(&mut name));
                }
                in_group = (in_group || letter == '{') && letter != '}';
                if !in_group || letter == '{' {
                    groups.push(Vec::new());
                }
                continue;
            }
            _ => {}
        }
        name.push(letter);
    }
    groups.retain(|group| !group.is_empty());
    if in_group || in_terms {
        return Err(Failure::usage(format!(
            "knob event-config: '{text}' does not end: }} or / is missing"
        )));
    }
    // Reading what the machine has costs some milliseconds.
    let pmus = if groups.is_empty() { Vec::new() } else { calibrate::counters().pmus };
    let known = |name: String| {
        let (event, sampled) = sampled(&name)?;
        let of_maker = || {
            let (host, _) = calibrate::host();
            let written = machine::event_names::written(event, &host, &pmus)?;
            choice(event, &written, &pmus)
        };
        let found = choice(event, event, &pmus).or_else(of_maker);
        let found = found.map(|choice| Choice { sampled, ..choice });
        found.ok_or_else(|| {
            let text = format!("knob event-config: there is no event '{event}' here");
            Failure::usage(text)
                .hint("for example: cycles, page-faults, PMU/EVENT/, cycles:sa=2000003; also names of the maker's tables, as MEM_LOAD_RETIRED.L3_MISS (Intel), ls_not_halted_cyc (AMD), \
                       STALL_BACKEND_MEM (Arm)")
        })
    };
    groups.into_iter().map(|group| group.into_iter().map(known).collect()).collect()
}

/// `EVENT:sa=N`, as VTune writes it: an event that takes a sample of the code per N occurrences.
fn sampled(text: &str) -> Result<(&str, Option<SampleRate>), Failure> {
    let Some((event, digits)) = text.rsplit_once(":sa=") else { return Ok((text, None)) };
    match digits.parse().ok().filter(|period| *period > 0) {
        Some(period) => Ok((event, Some(SampleRate::Period(period)))),
        None => Err(Failure::usage(format!(
            "knob event-config: '{text}': a sample after how many? sa=2000003 is one per 2,000,003"
        ))),
    }
}

/// An event to count, by a name for people.
pub fn choice(name: &str, event: &str, pmus: &[Pmu]) -> Option<Choice> {
    let EventCode { pmu, config, only_in_kernel } = machine::events::resolve(event, pmus)?;
    let described = pmus.iter().find(|one| one.number == pmu);
    Some(Choice {
        name: name.to_owned(),
        pmu,
        config,
        only_in_kernel,
        scope: described.map_or(Scope::Modes, scope),
        sampled: None,
        carries: Carried::Nothing,
    })
}

/// What a PMU can tell apart. Devices' PMUs have a `cpumask`, too; the kernel's own have none.
fn scope(pmu: &Pmu) -> Scope {
    let has_mask = pmu.kind == PmuKind::Other && pmu.cpus.is_some();
    if pmu.kind.is_of_machine() || has_mask {
        let cpus = pmu.cpus.as_deref().unwrap_or(&[0]);
        return Scope::Machine(cpus.iter().map(|cpu| CpuId(*cpu)).collect());
    }
    if pmu.kind == PmuKind::Registers { Scope::Threads } else { Scope::Modes }
}

fn bytes(text: &str, least: u64) -> Option<Bytes> {
    text.parse().ok().filter(|bytes| (least..=1_000_000_000_000).contains(bytes)).map(Bytes)
}

fn number(text: &str, least: f64, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knob_takes_its_default_and_refuses_nonsense() {
        for knob in &KNOBS {
            let settings = parse(&[format!("{}={}", knob.name, knob.default)]);
            assert!(settings.is_ok_and(|settings| settings.changed.is_empty()), "{}", knob.name);
            assert!(parse(&[format!("{}=nonsense", knob.name)]).is_err(), "{}", knob.name);
        }
        let words = ["memory-tracing=false", "analyze-mem-objects=false"].map(str::to_owned);
        let settings = parse(&words).expect("both are knobs");
        assert!(settings.bursts.is_none() && !settings.objects && settings.calibrate);
        let settings = parse(&["dram-bandwidth-limits=false".to_owned()]).expect("a knob");
        assert!(settings.bursts.is_some() && settings.objects && !settings.calibrate);
        assert!(parse(&["sampling-interval".to_owned()]).is_err());
        assert!(parse(&["no-such=1".to_owned()]).is_err());
        assert!(parse(&["sampling-interval=NaN".to_owned()]).is_err());
        assert!(
            parse(&["sampling-interval=2".to_owned()])
                .is_ok_and(|settings| settings.period.is_some())
        );
    }

    #[test]
    fn events_alone_and_in_groups() {
        let of = |text: &str| {
            let groups = events(text).map_err(|_| ())?;
            Ok::<_, ()>(
                groups
                    .iter()
                    .map(|group| group.iter().map(|one| one.name.clone()).collect())
                    .collect(),
            )
        };
        let expected = |groups: &[&[&str]]| -> Result<Vec<Vec<String>>, ()> {
            Ok(groups
                .iter()
                .map(|group| group.iter().map(|name| (*name).to_owned()).collect())
                .collect())
        };
        assert_eq!(of(""), expected(&[]));
        assert_eq!(of("page-faults,cycles"), expected(&[&["page-faults"], &["cycles"]]));
        assert_eq!(
            of("task-clock,{cycles,instructions},branches"),
            expected(&[&["task-clock"], &["cycles", "instructions"], &["branches"]])
        );
        for wrong in ["{cycles", "cpu/event=1", "cycles,cyclos", "cycles:sa=0", "cycles:sa=often"] {
            assert_eq!(of(wrong), Err(()), "{wrong}");
        }
        let sampled: Vec<_> = events("page-faults:sa=7,cycles")
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .map(|one| (one.name, one.sampled))
            .collect();
        let period = Some(SampleRate::Period(7));
        assert_eq!(sampled, [("page-faults".to_owned(), period), ("cycles".to_owned(), None)]);
    }

    #[test]
    fn pmus_outside_of_the_cores_count_the_machine() {
        let pmu = |name: &str, number, kind, cpus: Option<&[u32]>| Pmu {
            name: name.to_owned(),
            number,
            kind,
            cpus: cpus.map(<[u32]>::to_vec),
            fields: Vec::new(),
            events: Vec::new(),
            capabilities: Vec::new(),
        };
        let pmus = [
            pmu("cpu", 4, PmuKind::Core, None),
            pmu("uncore_imc_0", 12, PmuKind::MemoryController, Some(&[0, 28])),
            pmu("amd_iommu_0", 13, PmuKind::Other, Some(&[0])),
            pmu("power", 14, PmuKind::Power, None),
            pmu("msr", 15, PmuKind::Registers, None),
        ];
        let of = |name: &str| choice(name, name, &pmus).expect("an event").scope;
        let machine = |cpus: &[u32]| Scope::Machine(cpus.iter().map(|cpu| CpuId(*cpu)).collect());
        assert_eq!([of("cycles"), of("cpu/config=1/")], [Scope::Modes, Scope::Modes]);
        assert_eq!(of("uncore_imc_0/config=0x304/"), machine(&[0, 28]));
        assert_eq!(
            [of("amd_iommu_0/config=1/"), of("power/config=2/")],
            [machine(&[0]), machine(&[0])]
        );
        assert_eq!(of("msr/config=0/"), Scope::Threads);
    }

    #[test]
    fn knobs_of_another_analysis_are_named() {
        let words = ["burst-time=5", "stack-size=4096", "stacks=all"].map(str::to_owned);
        let ignored = |analysis| ignored(&words, analysis).collect::<Vec<_>>();
        assert_eq!(ignored(Analysis::MemoryAccess), [""; 0]);
        let burst_time = "knob burst-time is ignored: it is for memory-access only";
        let stacks = "knob stacks is ignored: it is for memory-access and memory-consumption only";
        assert_eq!(ignored(Analysis::MemoryConsumption), [burst_time]);
        assert_eq!(ignored(Analysis::Hotspots), [burst_time, stacks]);
    }

    #[test]
    fn samples_take_a_hundredth_of_the_time_at_most() {
        let periods = [None, Some(f64::NAN), Some(3e3), Some(15e3), Some(1e9)];
        let expected = [1_003_009, 1_003_009, 1_003_009, 1_504_513, 4_012_036].map(base::Nanos);
        assert_eq!(periods.map(usual_period), expected);
    }
}
