//! `fathom doctor`: prints what can be measured here, and how to enable the rest.
//!
//! What not: the probes (`collect::probe`).

use std::process::ExitCode;

use collect::probe::{self, Ability, Finding};

use crate::exit::Failure;

/// Says what can be measured here.
pub fn doctor() -> Result<ExitCode, Failure> {
    let (host, problems) = calibrate::host();
    let mut text = format!("What can be measured here ({}, Linux {})\n\n", host.cpu, host.kernel);
    for finding in &findings(&host) {
        text.push_str(&describe(finding));
    }
    text.push_str(&super::counters::look(&host).text());
    for problem in problems {
        text.push_str(&format!("\n  note: {problem}\n"));
    }
    super::print(&text)
}

/// What is measured, by which means, and whether that works here.
pub fn findings(host: &facts::host::Host) -> Vec<Finding> {
    let mut findings = probe::look(&super::collect::online_cpus(), &host.pmu);
    findings.push(calibration(host));
    findings
}

fn describe(finding: &Finding) -> String {
    let head = |mark: &str| format!("  {mark:<8} {}  ({})\n", finding.what, finding.means);
    let more = |label: &str, text: &str| format!("           {label}: {text}\n");
    match &finding.ability {
        Ability::Works => head("yes"),
        Ability::Partly { missing, remedy } => {
            head("partly") + &more("missing", missing) + &more("to enable", remedy)
        }
        Ability::Unavailable { reason, remedy } => {
            head("no") + &more("why", reason) + &more("to enable", remedy)
        }
    }
}

fn calibration(host: &facts::host::Host) -> Finding {
    let ability = if calibrate::cache::load(host).is_some() {
        Ability::Works
    } else {
        Ability::Partly {
            missing: "not measured yet; the first run measures it (about 16 s)".to_owned(),
            remedy: "fathom machine".to_owned(),
        }
    };
    Finding {
        what: "what the machine's memory can do",
        means: "about 16 s once per machine, after the first run",
        ability,
    }
}
