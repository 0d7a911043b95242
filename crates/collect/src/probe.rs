//! What can be measured on this machine, and what would enable the rest: the facts for `fathom doctor`.
//!
//! What for: each probe tries the operation itself, on this process or on a short-lived child of ours. What not:
//! reading settings instead, because a container may forbid what they allow.

use std::ffi::OsString;
use std::path::Path;

use base::{CpuId, Nanos, Pid, Tid};
use sys::perf::{Attr, Flag, OpenTarget, SoftwareEvent};
use sys::process::{Launch, Suspended};

use crate::counting::{TrialError, try_here};
use crate::heap;
use crate::perf::{OpenError, PerfSampler, Settings};

/// Whether one thing works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ability {
    /// It works.
    Works,
    /// A part of it works.
    Partly {
        /// What is missing.
        missing: String,
        /// The command that enables it.
        remedy: String,
    },
    /// It does not work.
    Unavailable {
        /// Why.
        reason: String,
        /// The command that enables it, or the machine that it needs.
        remedy: String,
    },
}

/// One line of the doctor's report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What is measured, in the user's words.
    pub what: &'static str,
    /// What it takes, in words that README.md has too.
    pub means: &'static str,
    /// Whether that works here.
    pub ability: Ability,
}

/// Runs all probes. Takes some milliseconds.
#[must_use]
pub fn look(cpus: &[CpuId], pmu: &[String]) -> Vec<Finding> {
    let sampling = sampling(cpus);
    let traced = match (&sampling, facts::host::no_bursts_on(std::env::consts::ARCH)) {
        (_, Some(why)) => Ability::Unavailable {
            reason: why.to_owned(),
            remedy: "an x86-64 machine; where the cores have SPE, which a virtual machine rarely has, accesses are sampled instead"
                .to_owned(),
        },
        (Ability::Unavailable { remedy, .. }, None) => Ability::Unavailable {
            reason: "where perf events are refused, sampling needs ptrace for itself".to_owned(),
            remedy: remedy.clone(),
        },
        _ => ptrace(),
    };
    let waits = waits(&sampling);
    let mut findings = vec![
        Finding {
            what: "functions, lines, call stacks",
            means: "perf_event_open (kernel.perf_event_paranoid 2 or less)",
            ability: sampling,
        },
        Finding {
            what: "exact memory accesses",
            means: "x86-64, perf_event_open, and ptrace of the program",
            ability: traced,
        },
        Finding { what: "page faults with address", means: "perf_event_open", ability: faults() },
        Finding {
            what: "what threads wait for",
            means: "kernel.perf_event_paranoid 1 or less",
            ability: waits,
        },
        Finding {
            what: "entries into the kernel, with their time",
            means: "root, or CAP_BPF and CAP_PERFMON",
            ability: kernel_tracing(cpus),
        },
        Finding {
            what: "fallback sampling",
            means: "ptrace of your own programs",
            ability: ptrace(),
        },
        Finding {
            what: "kernel function names",
            means: "root, or kernel.kptr_restrict 0",
            ability: kernel_symbols(),
        },
        Finding {
            what: "hardware counters",
            means: "a PMU, which few virtual machines have",
            ability: hardware_counters(pmu, cpus),
        },
    ];
    findings.extend(heap::NO_EXACT_MODE.map(|why| Finding {
        what: "every heap block; the heap of a running process",
        means: "x86-64",
        ability: Ability::Unavailable {
            reason: why.to_owned(),
            remedy: "nothing to do: of programs that fathom starts, all blocks are counted, and some drawn with their stack"
                .to_owned(),
        },
    }));
    findings
}

/// Where the kernel's settings allow it and the system call is refused.
pub const REMEDY_IN_CONTAINER: &str = "in a container: run it with --cap-add PERFMON and a seccomp profile that allows perf_event_open";
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

fn sampling(cpus: &[CpuId]) -> Ability {
    let opened = with_child(|child| {
        let settings = Settings {
            period: Nanos(1_003_009),
            echoes: false,
            stack_bytes: 8192,
            fault_rate: 1000,
            cpus: cpus.to_vec(),
            wait_stack_rate: None,
            start_paused: false,
            wakes: None,
            counted: Vec::new(),
        };
        PerfSampler::on_launch(child, &settings).map(|sampler| sampler.sees_kernel())
    });
    match opened {
        None => Ability::Unavailable {
            reason: "no child process could be created".to_owned(),
            remedy: "raise the limit of processes (ulimit -u)".to_owned(),
        },
        Some(Ok(true)) => Ability::Works,
        Some(Ok(false)) => Ability::Partly {
            missing: format!(
                "time in the kernel has no functions (perf_event_paranoid is {})",
                paranoid()
            ),
            remedy: "sudo sysctl kernel.perf_event_paranoid=1".to_owned(),
        },
        Some(Err(error)) => refused(&error),
    }
}

/// Every wait with its stack, only long waits, or what `/proc` shows ten times a second.
fn waits(sampling: &Ability) -> Ability {
    let (missing, remedy) = match sampling {
        Ability::Works => return Ability::Works,
        Ability::Partly { remedy, .. } => {
            ("only waits that are found by ten readings a second have a stack", remedy)
        }
        Ability::Unavailable { remedy, .. } => {
            ("threads are read ten times a second; context switches are not recorded", remedy)
        }
    };
    Ability::Partly { missing: missing.to_owned(), remedy: remedy.clone() }
}

fn faults() -> Ability {
    let attr = Attr::software(SoftwareEvent::MinorFaults).flags(&[Flag::Disabled, Flag::ExcludeHv]);
    let target = OpenTarget { tid: Tid(0), cpu: None };
    match sys::perf::open(&attr, target) {
        Ok(_) => Ability::Works,
        Err(_) => match sys::perf::open(&attr.flags(&[Flag::ExcludeKernel]), target) {
            Ok(_) => Ability::Partly {
                missing: format!(
                    "faults inside system calls are counted, not located (perf_event_paranoid is {})",
                    paranoid()
                ),
                remedy: "sudo sysctl kernel.perf_event_paranoid=1".to_owned(),
            },
            Err(error) => refused(&OpenError::from(error)),
        },
    }
}

fn kernel_tracing(cpus: &[CpuId]) -> Ability {
    match crate::kernel::try_here(cpus) {
        Ok(()) => Ability::Works,
        Err(error) => Ability::Unavailable {
            reason: error.to_string(),
            remedy: "sudo fathom collect system-overview ...; in a container: run it with --cap-add BPF --cap-add PERFMON"
                .to_owned(),
        },
    }
}

fn refused(error: &OpenError) -> Ability {
    Ability::Unavailable {
        reason: format!("{error}; kernel.perf_event_paranoid is {}", paranoid()),
        remedy: remedy_of_refusal(),
    }
}

fn remedy_of_refusal() -> String {
    if paranoid().parse::<i32>().is_ok_and(|level| level > 2) {
        "sudo sysctl kernel.perf_event_paranoid=1".to_owned()
    } else {
        REMEDY_IN_CONTAINER.to_owned()
    }
}

fn paranoid() -> String {
    std::fs::read_to_string(PARANOID)
        .map_or_else(|_| "not readable".to_owned(), |text| text.trim().to_owned())
}

fn ptrace() -> Ability {
    match with_child(|child| tracee::Tracees::seize(child).map(|_| ())) {
        Some(Ok(())) => Ability::Works,
        Some(Err(error)) => Ability::Unavailable {
            reason: error.to_string(),
            remedy: "in a container: run it with --cap-add SYS_PTRACE".to_owned(),
        },
        None => Ability::Unavailable {
            reason: "no child process could be created".to_owned(),
            remedy: "raise the limit of processes (ulimit -u)".to_owned(),
        },
    }
}

fn kernel_symbols() -> Ability {
    use std::io::{BufRead, BufReader};
    let hidden = |reason: &str| Ability::Unavailable {
        reason: reason.to_owned(),
        remedy: "sudo sysctl kernel.kptr_restrict=0".to_owned(),
    };
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else {
        return hidden("/proc/kallsyms cannot be read");
    };
    let mut line = String::new();
    let read = BufReader::new(file).lines().map_while(Result::ok).take(64).any(|one| {
        line = one;
        !line.starts_with("0000000000000000")
    });
    if read { Ability::Works } else { hidden("the kernel hides its addresses from this user") }
}

fn hardware_counters(pmu: &[String], cpus: &[CpuId]) -> Ability {
    if pmu.is_empty() {
        return Ability::Unavailable {
            reason: "this machine shows no hardware counters (usual in virtual machines)".to_owned(),
            remedy: "none needed: Fathom measures without them; bare metal or a VM with a virtual PMU has them"
                .to_owned(),
        };
    }
    if let Err(error) = try_here(cpus.first().copied().unwrap_or(CpuId(0))) {
        let remedy = match &error {
            TrialError::Refused(_) => remedy_of_refusal(),
            TrialError::NotCounted(_) => {
                "nothing to do while it is so; bare metal or a VM with a virtual PMU counts"
                    .to_owned()
            }
            TrialError::ShowsZero => {
                "the host of the virtual machine must lend it a PMU; Fathom measures without one"
                    .to_owned()
            }
        };
        let reason = format!("present ({}), but nothing can be counted: {error}", pmu.join(", "));
        return Ability::Unavailable { reason, remedy };
    }
    Ability::Partly {
        missing: format!(
            "present ({}): counted and sampled (knob event-config, uarch-exploration; memory-access, next to bursts), but no \
             figure of bursts is made of them",
            pmu.join(", ")
        ),
        remedy: "nothing to do".to_owned(),
    }
}

/// Gives `probe` a child of ours that waits before its execve and then ends without executing anything.
fn with_child<T>(probe: impl FnOnce(Pid) -> T) -> Option<T> {
    let arguments = [OsString::from("true")];
    let launch = Launch {
        file: Path::new("/bin/true"),
        arguments: &arguments,
        environment: &[],
        own_group: false,
        output: None,
        affinity: None,
        runs: None,
    };
    let child = Suspended::fork(&launch).ok()?;
    let result = probe(child.pid());
    drop(child);
    Some(result)
}
