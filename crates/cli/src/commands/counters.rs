//! The hardware counters of this machine, as `fathom doctor` and `fathom machine` show them: a section of text, and data for JSON.
//!
//! What not: reading them from sysfs (`machine::pmu`), trying one (`collect::counting`).

use calibrate::Counters;
use collect::counting::{Allowed, TrialError, try_here};
use collect::probe::REMEDY_IN_CONTAINER;
use facts::host::Host;
use facts::{Evidence, Metric};
use machine::pmu::{Field, Pmu, PmuEvent, PmuKind, Rights};
use serde_json::{Value, json};

use super::collect::{SAMPLES, sampled_accesses};

/// Columns of a name.
const NAME: usize = 18;
/// Columns of a line.
const WIDTH: usize = 100;
/// Named events of a PMU outside of the cores that are shown.
const EVENTS: usize = 6;

/// What is known of the counters here.
pub struct Observation<'a> {
    host: &'a Host,
    said: Counters,
    /// What happened when one was tried; `None` without a PMU of the cores.
    tried: Option<Result<Allowed, TrialError>>,
    /// Time of a clock sample, which one of a counter takes, too.
    sample_cost: Option<Metric>,
}

/// What this user may count.
struct Allowance {
    rights: Rights,
    says: String,
    to_enable: Option<String>,
}

/// Reads what the kernel says of the counters, and tries one.
pub fn look(host: &Host) -> Observation<'_> {
    let said = calibrate::counters();
    let has_cores = said.pmus.iter().any(|pmu| is_core(pmu) && host.pmu.contains(&pmu.name));
    let cpu = super::collect::online_cpus().first().copied().unwrap_or(base::CpuId(0));
    let tried = has_cores.then(|| try_here(cpu));
    let sample_cost = calibrate::cache::load(host).and_then(|found| found.sample_cost);
    Observation { host, said, tried, sample_cost }
}

fn is_core(pmu: &Pmu) -> bool {
    pmu.kind == PmuKind::Core
}

impl Observation<'_> {
    /// PMUs of the hardware; the kernel has others.
    fn shown(&self) -> Vec<&Pmu> {
        self.said.pmus.iter().filter(|pmu| self.host.pmu.contains(&pmu.name)).collect()
    }

    /// The maker of the cores, and for how many of their events its tables have names.
    fn named(&self) -> Option<(&'static str, usize)> {
        let known = machine::event_names::known(self.host, &self.said.pmus);
        known.filter(|_| self.shown().into_iter().any(is_core))
    }

    /// One line per kind of PMU, how many events have names, what sampling one takes, and what this user can count, which is tried. Empty where
    /// no PMU counts anything.
    pub fn text(&self) -> String {
        let shown = self.shown();
        if shown.is_empty() {
            return String::new();
        }
        let mut text = "\nHardware counters\n".to_owned();
        let mut rest: &[&Pmu] = &shown;
        while let Some(first) = rest.first() {
            let alike =
                |pmu: &&&Pmu| (pmu.kind, stem(&pmu.name)) == (first.kind, stem(&first.name));
            let count = rest.iter().take_while(alike).count();
            text += &line(stem(&first.name), &about(first, count));
            rest = &rest[count..];
        }
        if let Some((maker, count)) = self.named() {
            let names = format!(
                "{count} events of the cores by the names of {maker}'s tables (--knob event-config)"
            );
            text += &line("event names", &names);
        }
        if shown.into_iter().any(is_core) {
            let nanos = self.sample_cost.as_ref().and_then(|cost| cost.value);
            text += &line("overhead", &overhead(nanos, sampled_accesses(&self.said.pmus)));
        }
        let allowed = self.allowed();
        text += &line("rights", &allowed.says);
        // A command is not wrapped: it must survive being copied.
        let command = |command| format!("  {:<NAME$} {command}\n", "to enable");
        text + &allowed.to_enable.map(command).unwrap_or_default()
    }

    /// The same for programs: each PMU with all its events, and the rights apart.
    pub fn data(&self) -> Value {
        let Allowance { rights, says, to_enable } = self.allowed();
        let named = self.named().map(|(maker, events)| json!({"maker": maker, "events": events}));
        json!({
            "pmus": self.shown().into_iter().map(pmu_data).collect::<Vec<_>>(),
            "named_by_maker": named,
            "sampled_event_cost": self.sampled_event_cost(),
            "sampled_accesses_cost": self.sampled_accesses_cost(),
            "rights": {
                "own_programs": rights.own,
                "kernel": rights.kernel,
                "whole_machine": rights.machine,
                "tried": self.tried.is_some(),
                "perf_event_paranoid": self.said.paranoid.parse::<i32>().ok(),
                "says": says,
                "to_enable": to_enable,
            },
            "note": self.shown().is_empty().then_some(NO_PMU),
        })
    }

    /// Share of a CPU that an event takes while it is sampled.
    fn sampled_event_cost(&self) -> Metric {
        let Some(cost) = self.sample_cost.as_ref().filter(|cost| cost.value.is_some()) else {
            return Metric::unavailable("percent", UNCALIBRATED);
        };
        let note =
            format!("by arithmetic: {SAMPLES} times a second what a clock sample takes here");
        let share = cost.times(SAMPLES as f64 / 1e7, "percent");
        Metric { evidence: Some(Evidence::Estimated), note: Some(note), ..share }
    }

    /// The same of all events that sample memory accesses.
    fn sampled_accesses_cost(&self) -> Metric {
        match sampled_accesses(&self.said.pmus) {
            0 => Metric::unavailable(
                "percent",
                "no event of this machine samples accesses at a rate",
            ),
            events => self.sampled_event_cost().times(events as f64, "percent"),
        }
    }

    /// What may be counted, and the command for the rest.
    fn allowed(&self) -> Allowance {
        let Counters { rights: settings, paranoid, .. } = &self.said;
        let has_machine = self.shown().iter().any(|pmu| pmu.kind.is_of_machine());
        let setting = if paranoid.is_empty() {
            "kernel.perf_event_paranoid cannot be read".to_owned()
        } else {
            format!("kernel.perf_event_paranoid is {paranoid}")
        };
        let nothing = Rights { own: false, kernel: false, machine: false };
        let rights = match &self.tried {
            None => *settings,
            Some(Ok(Allowed { kernel, machine })) => {
                Rights { own: true, kernel: *kernel, machine: *machine }
            }
            Some(Err(TrialError::Refused(_))) => nothing,
            Some(Err(error)) => {
                let says = format!("nothing can be counted: {error}");
                return Allowance { rights: nothing, says, to_enable: None };
            }
        };
        let Rights { own, kernel, machine } = rights;
        let says = match (own, kernel, machine) {
            (false, ..) => "nothing may be counted",
            (_, false, _) => "your own programs may be counted, without their time in the kernel",
            (_, _, false) => "your own programs may be counted, but not the whole machine",
            _ => "everything may be counted",
        };
        // Something else refuses what the settings allow.
        let is_refused = settings.own && !own
            || settings.kernel && !kernel
            || settings.machine && !machine && has_machine;
        let although = if is_refused { "although " } else { "" };
        let command = |level: i32| match is_refused {
            true => REMEDY_IN_CONTAINER.to_owned(),
            false => format!(
                "sudo sysctl kernel.perf_event_paranoid={level}, or sudo setcap cap_perfmon+ep \"$(command -v fathom)\""
            ),
        };
        let to_enable = match (kernel, machine || !has_machine) {
            (true, true) => None,
            (false, true) => Some(command(1)),
            (_, false) => Some(command(0)),
        };
        Allowance { rights, says: format!("{says} ({although}{setting})"), to_enable }
    }
}

fn pmu_data(pmu: &Pmu) -> Value {
    let event = |event: &PmuEvent| {
        let terms: serde_json::Map<String, Value> =
            event.terms.iter().map(|(field, value)| (field.clone(), json!(value))).collect();
        json!({"name": event.name, "terms": terms, "scale": event.scale, "unit": event.unit})
    };
    let fields: serde_json::Map<String, Value> =
        pmu.fields.iter().map(|field| (field.name.clone(), json!(layout(field)))).collect();
    json!({
        "name": pmu.name,
        "kind": pmu.kind.name(),
        "counts_whole_machine": pmu.kind.is_of_machine(),
        "cpus": pmu.cpus,
        "abilities": abilities(pmu),
        "capabilities": pmu.capabilities.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "fields": fields,
        "events": pmu.events.iter().map(event).collect::<Vec<_>>(),
    })
}

/// As the kernel writes it: `config1:0-15`.
fn layout(field: &Field) -> String {
    let word = match field.bits.first().map_or(0, |bits| bits.word) {
        0 => String::new(),
        word => word.to_string(),
    };
    let ranges = field.bits.iter().map(|bits| range(bits.first.into(), bits.last.into()));
    format!("config{word}:{}", ranges.collect::<Vec<_>>().join(","))
}

/// What an empty list of PMUs means.
const NO_PMU: &str = "the kernel shows no hardware counters on this machine";
/// Why the cost of a sample is missing.
const UNCALIBRATED: &str = "not known: `fathom machine` measures what a sample takes";

/// Of samples that a counter takes. Counting alone takes less than a reading in 90 ms, which is left out.
fn overhead(sample_nanos: Option<f64>, of_accesses: usize) -> String {
    let Some(nanos) = sample_nanos else {
        return UNCALIBRATED.to_owned();
    };
    let percent = nanos * SAMPLES as f64 / 1e7;
    let accesses = match of_accesses {
        0 => String::new(),
        events => format!("; sampled accesses take {:.2} %", percent * events as f64),
    };
    format!(
        "each event that is sampled, {SAMPLES} times a second while it has a counter, takes {percent:.2} % of a CPU, by \
         arithmetic: {:.1} us per sample, as measured here of the clock's{accesses}",
        nanos / 1e3
    )
}

/// `uncore_imc` of `uncore_imc_3`.
fn stem(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((stem, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

fn about(pmu: &Pmu, count: usize) -> String {
    let mut says = vec![match count {
        1 => pmu.kind.name().to_owned(),
        count => format!("{} ({count})", pmu.kind.name()),
    }];
    if let Some(cpus) = &pmu.cpus {
        let what = if pmu.kind.is_of_machine() { "opened on CPU" } else { "CPU" };
        says.push(format!("{what} {}", list(cpus)));
    }
    says.extend(abilities(pmu));
    match pmu.events.len() {
        0 => {}
        events if pmu.kind.is_of_machine() && events <= EVENTS => {
            let names = pmu.events.iter().map(|event| match &event.unit {
                Some(unit) => format!("{} in {unit}", event.name),
                None => event.name.clone(),
            });
            says.push(names.collect::<Vec<_>>().join(", "));
        }
        1 => says.push("1 named event".to_owned()),
        events => says.push(format!("{events} named events")),
    }
    says.join("; ")
}

/// What it can do besides counting.
fn abilities(pmu: &Pmu) -> Vec<String> {
    let mut can = Vec::new();
    if let Some(deep) = pmu.capability("branches").filter(|deep| *deep > 0) {
        can.push(format!("branch stacks, {deep} deep"));
    }
    let has_event = |name: &str| pmu.events.iter().any(|event| event.name == name);
    if pmu.has_field("ldlat") && has_event("mem-loads") {
        can.push("sampled loads with latency (PEBS)".to_owned());
    }
    if has_event("mem-stores") {
        can.push("sampled stores".to_owned());
    }
    if has_event("topdown-retiring") || has_event("topdown-slots-issued") {
        can.push("top-down".to_owned());
    }
    if pmu.kind == PmuKind::Ibs && pmu.name.starts_with("ibs_op") {
        can.push("sampled loads and stores with latency".to_owned());
    }
    if pmu.kind == PmuKind::Spe {
        can.push("sampled loads and stores with latency, as a trace".to_owned());
    }
    can
}

/// `0-3,8`.
fn list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut().filter(|(_, last)| last.checked_add(1) == Some(*cpu)) {
            Some((_, last)) => *last = *cpu,
            None => ranges.push((*cpu, *cpu)),
        }
    }
    ranges.into_iter().map(|(first, last)| range(first, last)).collect::<Vec<_>>().join(",")
}

fn range(first: u32, last: u32) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

fn line(name: &str, text: &str) -> String {
    let (mut lines, mut rest) = (Vec::new(), text);
    let room = WIDTH - NAME - 3;
    while rest.chars().count() > room {
        let end = rest.char_indices().nth(room).map_or(rest.len(), |(at, _)| at);
        let Some(space) = rest[..end].rfind(' ') else { break };
        lines.push(&rest[..space]);
        rest = &rest[space + 1..];
    }
    lines.push(rest);
    let indented = lines.iter().enumerate();
    let one = |(at, text): (usize, &&str)| {
        format!("  {:<NAME$} {text}\n", if at == 0 { name } else { "" })
    };
    indented.map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Files below `/sys/bus/event_source/devices`, with the lines that kernels write.
    const SERVER: [(&str, &str); 14] = [
        ("cpu/type", "4"),
        ("cpu/format/event", "config:0-7,32-35"),
        ("cpu/format/ldlat", "config1:0-15"),
        ("cpu/events/mem-loads", "event=0xcd,ldlat=?"),
        ("cpu/events/mem-stores", "event=0xd0"),
        ("cpu/caps/branches", "32"),
        ("uncore_imc_0/type", "13"),
        ("uncore_imc_0/cpumask", "0,28"),
        ("uncore_imc_0/events/cas_count_read", "event=0x04"),
        ("uncore_imc_0/events/cas_count_read.scale", "6.103515625e-5"),
        ("uncore_imc_0/events/cas_count_read.unit", "MiB"),
        ("uncore_imc_1/type", "14"),
        ("uncore_imc_1/cpumask", "0,28"),
        ("software/type", "1"),
    ];

    fn server() -> Host {
        Host {
            pmu: ["cpu", "uncore_imc_0", "uncore_imc_1"].map(str::to_owned).to_vec(),
            vendor: "AuthenticAMD".to_owned(),
            family_model_stepping: "25/17/1".to_owned(),
            ..Host::default()
        }
    }

    fn observed<'a>(host: &'a Host, rights: Rights, paranoid: &str) -> Observation<'a> {
        let file = |(path, text): (&str, &str)| {
            (format!("/sys/bus/event_source/devices/{path}"), format!("{text}\n"))
        };
        let tree: BTreeMap<String, String> = SERVER.map(file).into_iter().collect();
        let pmus = machine::pmu::pmus(&tree);
        let said = Counters { pmus, rights, paranoid: paranoid.to_owned() };
        let sample_cost =
            Metric::with_interval(Evidence::Calibrated, 3100.0, "ns", (3000.0, 3300.0), 9);
        Observation { host, said, tried: None, sample_cost: Some(sample_cost) }
    }

    const OWN: Rights = Rights { own: true, kernel: false, machine: false };
    const ALL: Rights = Rights { own: true, kernel: true, machine: true };

    #[test]
    fn a_server_and_what_its_user_may_count() {
        let host = server();
        let expected = "
Hardware counters
  cpu                cores; branch stacks, 32 deep; sampled loads with latency (PEBS); sampled
                     stores; 2 named events
  uncore_imc         memory controllers (2); opened on CPU 0,28; cas_count_read in MiB
  event names        336 events of the cores by the names of AMD's tables (--knob event-config)
  overhead           each event that is sampled, 199 times a second while it has a counter, takes
                     0.06 % of a CPU, by arithmetic: 3.1 us per sample, as measured here of the
                     clock's; sampled accesses take 0.12 %
  rights             your own programs may be counted, without their time in the kernel
                     (kernel.perf_event_paranoid is 2)
  to enable          sudo sysctl kernel.perf_event_paranoid=0, or sudo setcap cap_perfmon+ep \"$(command -v fathom)\"
";
        assert_eq!(observed(&host, OWN, "2").text(), expected);
        let uncalibrated = Observation { sample_cost: None, ..observed(&host, ALL, "-1") }.text();
        assert!(uncalibrated.contains("overhead           not known"), "{uncalibrated}");
        assert!(uncalibrated.ends_with(
            "  rights             everything may be counted (kernel.perf_event_paranoid is -1)\n"
        ));
        assert_eq!(observed(&Host::default(), ALL, "-1").text(), "");
    }

    #[test]
    fn programs_read_the_same() {
        let host = server();
        let controller = |name: &str, events: Value| {
            json!({
                "name": name,
                "kind": "memory controllers",
                "counts_whole_machine": true,
                "cpus": [0, 28],
                "abilities": [],
                "capabilities": {},
                "fields": {},
                "events": events,
            })
        };
        let event = |name: &str, terms: Value| json!({"name": name, "terms": terms, "scale": null, "unit": null});
        let read = json!([{"name": "cas_count_read", "terms": {"event": 4}, "scale": 6.103_515_625e-5, "unit": "MiB"}]);
        let expected = json!({
            "pmus": [
                {
                    "name": "cpu",
                    "kind": "cores",
                    "counts_whole_machine": false,
                    "cpus": null,
                    "abilities": ["branch stacks, 32 deep", "sampled loads with latency (PEBS)", "sampled stores"],
                    "capabilities": {"branches": "32"},
                    "fields": {"event": "config:0-7,32-35", "ldlat": "config1:0-15"},
                    "events": [
                        event("mem-loads", json!({"event": 0xcd, "ldlat": null})),
                        event("mem-stores", json!({"event": 0xd0})),
                    ],
                },
                controller("uncore_imc_0", read),
                controller("uncore_imc_1", json!([])),
            ],
            "named_by_maker": {"maker": "AMD", "events": 336},
            "rights": {
                "own_programs": true,
                "kernel": false,
                "whole_machine": false,
                "tried": false,
                "perf_event_paranoid": 2,
                "says": "your own programs may be counted, without their time in the kernel (kernel.perf_event_paranoid is 2)",
                "to_enable": "sudo sysctl kernel.perf_event_paranoid=0, or sudo setcap cap_perfmon+ep \"$(command -v fathom)\"",
            },
            "note": null,
        });
        let mut found = observed(&host, OWN, "2").data();
        let mut take = |key: &str| found.as_object_mut().and_then(|all| all.remove(key));
        let cost = take("sampled_event_cost");
        let accesses = take("sampled_accesses_cost").expect("a metric");
        assert_eq!(found, expected);
        let cost = cost.expect("a metric");
        assert_eq!((&cost["unit"], &cost["evidence"]), (&json!("percent"), &json!("estimated")));
        let value = cost["value"].as_f64().expect("a value");
        assert!((value - 0.06169).abs() < 1e-9 && cost["low"].as_f64() < Some(value), "{cost}");
        assert_eq!(accesses["value"].as_f64(), Some(2.0 * value));
        let uncalibrated = Observation { sample_cost: None, ..observed(&host, ALL, "-1") }.data();
        assert_eq!(uncalibrated["sampled_event_cost"]["value"], Value::Null);
        assert_eq!(uncalibrated["rights"]["to_enable"], Value::Null);
        let without = observed(&Host::default(), ALL, "").data();
        assert_eq!(without["note"], NO_PMU);
        assert_eq!((&without["pmus"], &without["named_by_maker"]), (&json!([]), &Value::Null));
        assert_eq!(without["rights"]["perf_event_paranoid"], Value::Null);
    }

    #[test]
    fn what_was_tried_counts_for_more_than_settings() {
        let host = server();
        let allowed = |settings, tried: Result<Allowed, TrialError>| {
            Observation { tried: Some(tried), ..observed(&host, settings, "0") }.allowed()
        };
        let refused = allowed(ALL, Err(TrialError::Refused("not permitted".to_owned())));
        assert_eq!(
            refused.says,
            "nothing may be counted (although kernel.perf_event_paranoid is 0)"
        );
        assert_eq!(
            refused.to_enable.as_deref(),
            Some(
                "in a container: run it with --cap-add PERFMON and a seccomp profile that allows perf_event_open"
            )
        );
        let zero = allowed(ALL, Err(TrialError::ShowsZero));
        assert!(!zero.rights.own && zero.to_enable.is_none());
        assert_eq!(
            zero.says,
            "nothing can be counted: this PMU does not count: it shows 0 cycles for a program that runs, as in some virtual machines"
        );
        let all = allowed(ALL, Ok(Allowed { kernel: true, machine: true }));
        assert_eq!(all.says, "everything may be counted (kernel.perf_event_paranoid is 0)");
        assert_eq!(all.to_enable, None);
        let some = allowed(OWN, Ok(Allowed { kernel: false, machine: false }));
        assert!(some.says.contains("without their time in the kernel"), "{}", some.says);
        assert!(!some.says.contains("although"), "{}", some.says);
        assert!(some.to_enable.is_some_and(|command| command.starts_with("sudo sysctl")));
    }
}
