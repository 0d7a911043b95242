//! The few figures that alert, in the text format of Prometheus.
//!
//! What for: a file for node_exporter's textfile collector, and the same text for `--listen`. What not: where the figures come from
//! (`round`), a history: Prometheus has it. A figure that is not known has no line.
//!
//! Format: prometheus.io, "Exposition formats", version 0.0.4. `promtool check metrics` is the test.

use std::fmt::Write;

use serde_json::Value;

use super::workload::Workload;

/// The figures of a profile, in base units.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figures {
    /// CPUs that the program used while it was profiled.
    pub cpus: Option<f64>,
    /// Share of its time that memory takes.
    pub memory_bound: Option<f64>,
    /// The most that it may be.
    pub memory_bound_at_most: Option<f64>,
    /// Bytes per second from and to DRAM.
    pub dram_bandwidth: Option<f64>,
    /// Share of the bandwidth that as many threads reach on this machine.
    pub dram_bandwidth_used: Option<f64>,
    /// Share of its time that page faults take.
    pub page_faults: Option<f64>,
    /// What limits it, as a sentence.
    pub verdict: Option<String>,
    /// The function with most CPU time.
    pub function: Option<String>,
    /// What samples cost its threads, seconds.
    pub sampling_cost: Option<f64>,
}

impl Figures {
    /// Figures of `fathom report summary --format json`.
    pub fn of_summary(summary: &Value) -> Figures {
        let part = |path: &str, end: &str| summary.pointer(path)?[end].as_f64();
        let value = |path: &str| part(path, "value");
        let share = |path: &str| value(path).map(|percent| percent / 100.0);
        let text =
            |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let elapsed = value("/elapsed");
        Figures {
            cpus: value("/cpu_time").zip(elapsed).map(|(cpu, elapsed)| cpu / elapsed),
            memory_bound: share("/memory_bound"),
            memory_bound_at_most: part("/memory_bound", "high").map(|percent| percent / 100.0),
            dram_bandwidth: value("/dram_bandwidth/average").map(|gigabytes| gigabytes * 1e9),
            dram_bandwidth_used: share("/dram_bandwidth/of_reachable"),
            page_faults: share("/page_faults/time_percent"),
            verdict: text(&summary["verdict"]),
            function: text(&summary["top_functions"][0]["function"]),
            sampling_cost: share("/sampling_cost")
                .zip(value("/cpu_time"))
                .map(|(share, cpu)| share * cpu),
        }
    }
}

/// Counts of the watch; "total" counts from the creation of its spool on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counts {
    pub rounds: u64,
    pub profiles: u64,
    pub failures: u64,
    pub sent: u64,
    pub dropped: u64,
    /// Seconds of CPU time.
    pub cost: f64,
}

/// The state of the watch.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Watched {
    pub counts: Counts,
    /// Share of the host's time in the last hour, and what it may be.
    pub cost: f64,
    pub budget: f64,
    pub off: bool,
    /// Results that wait to be sent; `None` where nobody wants them.
    pub waiting: Option<u64>,
    pub spool_bytes: u64,
    /// When it ended, seconds since 1970.
    pub last_round: f64,
    pub last_profile: Option<f64>,
}

/// All lines. `profiles`: the last ones of different workloads, with the names of their programs.
pub fn text<'a>(
    watched: &Watched,
    profiles: impl Iterator<Item = (&'a str, &'a Workload, &'a Figures)> + Clone,
) -> String {
    let mut text = String::new();
    let counts = &watched.counts;
    for (name, help, value) in [
        ("rounds", "Rounds that began.", Some(counts.rounds as f64)),
        ("profiles", "Profiles that were made.", Some(counts.profiles as f64)),
        ("failures", "Profiles that could not be made.", Some(counts.failures as f64)),
        (
            "sent",
            "Results that arrived where they should go: in the dataset, at the receiver.",
            watched.waiting.map(|_| counts.sent as f64),
        ),
        (
            "dropped",
            "Results that were removed before they arrived there.",
            watched.waiting.map(|_| counts.dropped as f64),
        ),
        (
            "cost_seconds",
            "CPU time of Fathom and the time that it took from the programs.",
            Some(counts.cost),
        ),
    ] {
        family(
            &mut text,
            &format!("fathom_watch_{name}_total"),
            "counter",
            help,
            [(String::new(), value)],
        );
    }
    for (name, help, value) in [
        (
            "cost_ratio",
            "Share of this host's CPU time that Fathom took in the last hour.",
            Some(watched.cost),
        ),
        (
            "budget_ratio",
            "Share of this host's CPU time that Fathom may take in any hour.",
            Some(watched.budget),
        ),
        ("off", "Whether the off file is there.", Some(f64::from(u8::from(watched.off)))),
        (
            "waiting_results",
            "Results that wait to be sent.",
            watched.waiting.map(|count| count as f64),
        ),
        ("spool_bytes", "Size of the spool.", Some(watched.spool_bytes as f64)),
        ("last_round_timestamp_seconds", "When the last round ended.", Some(watched.last_round)),
        ("last_profile_timestamp_seconds", "When the last profile was made.", watched.last_profile),
    ] {
        family(&mut text, &format!("fathom_watch_{name}"), "gauge", help, [(String::new(), value)]);
    }
    type Figure = fn(&Figures) -> Option<f64>;
    let of_profiles: [(&str, &str, Figure); 5] = [
        ("cpus", "CPUs that the profiled process used.", |of| of.cpus),
        ("memory_bound_ratio", "Share of its time that memory takes, estimated.", |of| {
            of.memory_bound
        }),
        ("dram_bytes_per_second", "Traffic of the profiled process with DRAM, estimated.", |of| {
            of.dram_bandwidth
        }),
        (
            "dram_bandwidth_used_ratio",
            "Share of the DRAM bandwidth that as many threads reach here, estimated.",
            |of| of.dram_bandwidth_used,
        ),
        ("page_fault_time_ratio", "Share of its time that page faults take.", |of| of.page_faults),
    ];
    for (name, help, of) in of_profiles {
        let rows = profiles.clone().map(|(program, workload, figures)| {
            let names = std::iter::once(("program", program)).chain(workload.names());
            (labels(names), of(figures))
        });
        family(&mut text, &format!("fathom_profile_{name}"), "gauge", help, rows);
    }
    text
}

fn family(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    rows: impl IntoIterator<Item = (String, Option<f64>)>,
) {
    let lines: String = rows
        .into_iter()
        .filter_map(|(labels, value)| {
            Some(format!("{name}{labels} {}\n", value.filter(|value| value.is_finite())?))
        })
        .collect();
    if !lines.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
    }
}

fn labels<'a>(names: impl Iterator<Item = (&'static str, &'a str)>) -> String {
    let escaped =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let all: Vec<String> =
        names.map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_no_line() {
        let watched = Watched { last_round: 1_795_651_200.0, budget: 0.005, ..Watched::default() };
        let workload = Workload { pod: Some("a\"b\\c\nd".to_owned()), ..Workload::default() };
        let figures =
            Figures { memory_bound: Some(0.5), cpus: Some(f64::NAN), ..Figures::default() };
        let text = text(&watched, [("db", &workload, &figures)].into_iter());
        let profile: Vec<&str> =
            text.lines().filter(|line| line.contains("fathom_profile")).collect();
        assert_eq!(
            profile,
            [
                "# HELP fathom_profile_memory_bound_ratio Share of its time that memory takes, estimated.",
                "# TYPE fathom_profile_memory_bound_ratio gauge",
                "fathom_profile_memory_bound_ratio{program=\"db\",pod=\"a\\\"b\\\\c\\nd\"} 0.5",
            ]
        );
        assert!(!text.contains("waiting") && !text.contains("last_profile"), "{text}");
        assert!(text.contains("fathom_watch_last_round_timestamp_seconds 1795651200\n"), "{text}");
    }

    #[test]
    fn figures_are_those_of_the_summary() {
        let summary = serde_json::json!({
            "elapsed": { "value": 10.0 }, "cpu_time": { "value": 15.0 },
            "memory_bound": { "value": 40.0, "high": 60.0 },
            "dram_bandwidth": { "average": { "value": 1.5 }, "of_reachable": { "value": null } },
            "verdict": "", "top_functions": [{ "function": "walk" }], "sampling_cost": { "value": 1.0 }
        });
        let figures = Figures::of_summary(&summary);
        let known = Figures {
            cpus: Some(1.5),
            memory_bound: Some(0.4),
            memory_bound_at_most: Some(0.6),
            dram_bandwidth: Some(1.5e9),
            function: Some("walk".to_owned()),
            sampling_cost: Some(0.15),
            ..Figures::default()
        };
        assert_eq!(figures, known);
        assert_eq!(Figures::of_summary(&Value::Null), Figures::default());
    }
}
