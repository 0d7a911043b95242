//! The section about hardware counters of `fathom doctor` and `fathom machine`.
//!
//! What not: reading them from sysfs (`machine::pmu`), trying one (`collect::counting`).

use collect::counting::{Allowed, TrialError, try_here};
use collect::probe::REMEDY_IN_CONTAINER;
use facts::host::Host;
use machine::pmu::{Pmu, PmuKind, Rights};

use super::collect::SAMPLES;

/// Columns of a name.
const NAME: usize = 18;
/// Columns of a line.
const WIDTH: usize = 100;
/// Named events of a PMU outside of the cores that are shown.
const EVENTS: usize = 6;

/// One line per kind of PMU, how many events have names, what sampling one takes, and what this user can count, which is tried. Empty where no PMU
/// counts anything.
pub fn section(pmus: &[Pmu], host: &Host, rights: Rights, paranoid: &str) -> String {
    let calibration = calibrate::cache::load(host);
    let sample_nanos = calibration.and_then(|found| found.sample_cost?.value);
    let has_cores = |pmu: &Pmu| pmu.kind == PmuKind::Core && host.pmu.contains(&pmu.name);
    let cpu = super::collect::online_cpus().first().copied().unwrap_or(base::CpuId(0));
    let tried = pmus.iter().any(has_cores).then(|| try_here(cpu));
    written(pmus, host, (rights, paranoid, tried.as_ref()), sample_nanos)
}

/// What the kernel's settings allow, the setting, and what happened when it was tried.
type Tried<'a> = (Rights, &'a str, Option<&'a Result<Allowed, TrialError>>);

fn written(pmus: &[Pmu], host: &Host, tried: Tried<'_>, sample_nanos: Option<f64>) -> String {
    let shown: Vec<&Pmu> = pmus.iter().filter(|pmu| host.pmu.contains(&pmu.name)).collect();
    if shown.is_empty() {
        return String::new();
    }
    let mut text = "\nHardware counters\n".to_owned();
    let mut rest: &[&Pmu] = &shown;
    while let Some(first) = rest.first() {
        let alike = |pmu: &&&Pmu| (pmu.kind, stem(&pmu.name)) == (first.kind, stem(&first.name));
        let count = rest.iter().take_while(alike).count();
        text += &line(stem(&first.name), &about(first, count));
        rest = &rest[count..];
    }
    let known = machine::event_names::known(host, pmus);
    if let Some((maker, count)) =
        known.filter(|_| shown.iter().any(|one| one.kind == PmuKind::Core))
    {
        let names = format!(
            "{count} events of the cores by the names of {maker}'s tables (--knob event-config)"
        );
        text += &line("event names", &names);
    }
    if shown.iter().any(|pmu| pmu.kind == PmuKind::Core) {
        text += &line("overhead", &overhead(sample_nanos));
    }
    text + &allowed(tried, shown.iter().any(|pmu| pmu.kind.is_of_machine()))
}

/// Of samples that a counter takes. Counting alone takes less than a reading in 90 ms, which is left out.
fn overhead(sample_nanos: Option<f64>) -> String {
    let Some(nanos) = sample_nanos else {
        return "not known: `fathom machine` measures what a sample takes".to_owned();
    };
    format!(
        "each event that is sampled, {SAMPLES} times a second while it has a counter, takes {:.2} % of a CPU, by \
         arithmetic: {:.1} us per sample, as measured here of the clock's",
        nanos * SAMPLES as f64 / 1e7,
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
    if let Some(deep) = pmu.capability("branches").filter(|deep| *deep > 0) {
        says.push(format!("branch stacks, {deep} deep"));
    }
    let has_event = |name: &str| pmu.events.iter().any(|event| event.name == name);
    if pmu.has_field("ldlat") && has_event("mem-loads") {
        says.push("sampled loads with latency (PEBS)".to_owned());
    }
    if has_event("mem-stores") {
        says.push("sampled stores".to_owned());
    }
    if has_event("topdown-retiring") || has_event("topdown-slots-issued") {
        says.push("top-down".to_owned());
    }
    if pmu.kind == PmuKind::Ibs && pmu.name.starts_with("ibs_op") {
        says.push("sampled loads and stores with latency".to_owned());
    }
    if pmu.kind == PmuKind::Spe {
        says.push("sampled loads and stores with latency, as a trace".to_owned());
    }
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

/// `0-3,8`.
fn list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut().filter(|(_, last)| last.checked_add(1) == Some(*cpu)) {
            Some((_, last)) => *last = *cpu,
            None => ranges.push((*cpu, *cpu)),
        }
    }
    let one = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(one).collect::<Vec<_>>().join(",")
}

/// What may be counted, and the command for the rest.
fn allowed((settings, paranoid, tried): Tried<'_>, has_machine: bool) -> String {
    let setting = if paranoid.is_empty() {
        "kernel.perf_event_paranoid cannot be read".to_owned()
    } else {
        format!("kernel.perf_event_paranoid is {paranoid}")
    };
    let Rights { own, kernel, machine } = match tried {
        None => settings,
        Some(Ok(Allowed { kernel, machine })) => {
            Rights { own: true, kernel: *kernel, machine: *machine }
        }
        Some(Err(TrialError::Refused(_))) => Rights { own: false, kernel: false, machine: false },
        Some(Err(error)) => return line("rights", &format!("nothing can be counted: {error}")),
    };
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
    let text = line("rights", &format!("{says} ({although}{setting})"));
    let level = match (kernel, machine || !has_machine) {
        (true, true) => return text,
        (false, true) => 1,
        (_, false) => 0,
    };
    let command = if is_refused {
        REMEDY_IN_CONTAINER.to_owned()
    } else {
        format!(
            "sudo sysctl kernel.perf_event_paranoid={level}, or sudo setcap cap_perfmon+ep \"$(command -v fathom)\""
        )
    };
    // A command is not wrapped: it must survive being copied.
    text + &format!("  {:<NAME$} {command}\n", "to enable")
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
    use machine::pmu::{Bits, Field, PmuEvent};

    use super::*;

    fn pmu(name: &str, kind: PmuKind) -> Pmu {
        Pmu {
            name: name.to_owned(),
            number: 10,
            kind,
            cpus: None,
            fields: Vec::new(),
            events: Vec::new(),
            capabilities: Vec::new(),
        }
    }

    fn event(name: &str, unit: Option<&str>) -> PmuEvent {
        PmuEvent {
            name: name.to_owned(),
            terms: Vec::new(),
            scale: None,
            unit: unit.map(str::to_owned),
        }
    }

    #[test]
    fn a_server_and_what_its_user_may_count() {
        let core = Pmu {
            fields: vec![Field {
                name: "ldlat".to_owned(),
                bits: vec![Bits { word: 1, first: 0, last: 15 }],
            }],
            events: vec![event("mem-loads", None), event("mem-stores", None)],
            capabilities: vec![("branches".to_owned(), "32".to_owned())],
            ..pmu("cpu", PmuKind::Core)
        };
        let controller = |number: u32| Pmu {
            cpus: Some(vec![0, 28]),
            events: vec![event("cas_count_read", Some("MiB"))],
            ..pmu(&format!("uncore_imc_{number}"), PmuKind::MemoryController)
        };
        let pmus = [core, controller(0), controller(1), pmu("software", PmuKind::Other)];
        let host = Host {
            pmu: ["cpu", "uncore_imc_0", "uncore_imc_1"].map(str::to_owned).to_vec(),
            vendor: "AuthenticAMD".to_owned(),
            family_model_stepping: "25/17/1".to_owned(),
            ..Host::default()
        };
        let rights = Rights { own: true, kernel: false, machine: false };
        let expected = "
Hardware counters
  cpu                cores; branch stacks, 32 deep; sampled loads with latency (PEBS); sampled
                     stores; 2 named events
  uncore_imc         memory controllers (2); opened on CPU 0,28; cas_count_read in MiB
  event names        336 events of the cores by the names of AMD's tables (--knob event-config)
  overhead           each event that is sampled, 199 times a second while it has a counter, takes
                     0.06 % of a CPU, by arithmetic: 3.1 us per sample, as measured here of the
                     clock's
  rights             your own programs may be counted, without their time in the kernel
                     (kernel.perf_event_paranoid is 2)
  to enable          sudo sysctl kernel.perf_event_paranoid=0, or sudo setcap cap_perfmon+ep \"$(command -v fathom)\"
";
        assert_eq!(written(&pmus, &host, (rights, "2", None), Some(3100.0)), expected);
        let all = Rights { own: true, kernel: true, machine: true };
        let uncalibrated = written(&pmus, &host, (all, "-1", None), None);
        assert!(uncalibrated.contains("overhead           not known"), "{uncalibrated}");
        assert!(uncalibrated.ends_with(
            "  rights             everything may be counted (kernel.perf_event_paranoid is -1)\n"
        ));
        assert_eq!(written(&pmus, &Host::default(), (all, "-1", None), None), "");
    }

    #[test]
    fn what_was_tried_counts_for_more_than_settings() {
        let all = Rights { own: true, kernel: true, machine: true };
        let own = Rights { own: true, kernel: false, machine: false };
        let says = |settings, tried: &Result<Allowed, TrialError>| {
            allowed((settings, "0", Some(tried)), true)
        };
        let refused = Err(TrialError::Refused("not permitted".to_owned()));
        let container = "  to enable          in a container: run it with --cap-add PERFMON and a seccomp profile that allows perf_event_open\n";
        assert_eq!(
            says(all, &refused),
            format!(
                "  rights             nothing may be counted (although kernel.perf_event_paranoid is 0)\n{container}"
            )
        );
        let zero = "
  rights             nothing can be counted: this PMU does not count: it shows 0 cycles for a
                     program that runs, as in some virtual machines
";
        assert_eq!(says(all, &Err(TrialError::ShowsZero)), zero[1..]);
        assert_eq!(
            says(all, &Ok(Allowed { kernel: true, machine: true })),
            "  rights             everything may be counted (kernel.perf_event_paranoid is 0)\n"
        );
        let some = says(own, &Ok(Allowed { kernel: false, machine: false }));
        assert!(some.contains("without their time in the kernel"), "{some}");
        assert!(some.contains("sudo sysctl") && !some.contains("although"), "{some}");
    }
}
