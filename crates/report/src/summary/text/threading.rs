//! What limits the threads, as text.

use super::{Page, figure};
use crate::summary::{AtOnceSummary, Summary};
use crate::text::{number, percent, printable};

/// Cells of the longest bar.
const BAR: f64 = 40.0;

pub(super) fn threads(summary: &Summary, page: &mut Page) {
    let Some(threading) = &summary.threading else { return };
    page.heading("What limits the threads", "");
    if threading.verdicts.is_empty() {
        page.item("n/a: no thread ran.");
    }
    for verdict in &threading.verdicts {
        let mut sentence = printable(&verdict.sentence);
        if let Some(first) = sentence.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        page.item(&format!("{sentence}."));
    }
    page.heading("What threads did", "percent of the lifetimes of all threads");
    let shown = |metric| figure(metric, |value| format!("{} %", percent(value)));
    page.entry(
        "Running",
        &format!(
            "{} (spinning: {})",
            shown(&threading.running_percent),
            shown(&threading.spinning_percent)
        ),
    );
    page.entry("Waiting for a CPU", &shown(&threading.ready_percent));
    let reasons: Vec<String> = threading
        .waiting
        .iter()
        .map(|row| format!("{} {}", row.reason, shown(&row.percent)))
        .collect();
    let reasons =
        if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
    page.entry("Waiting", &format!("{}{reasons}", shown(&threading.waiting_percent)));
    if threading.unknown_percent.value.is_some_and(|value| value >= 0.05) {
        page.entry("Unknown", &shown(&threading.unknown_percent));
    }
}

/// How long how many ran.
pub(super) fn at_once(summary: &Summary, page: &mut Page) {
    let Some(threading) = summary.threading.as_ref().filter(|found| !found.at_once.is_empty())
    else {
        return;
    };
    let cpus = figure(&threading.effective_cpus, number);
    page.heading("Threads running at once", &format!("{cpus} CPUs in use on average"));
    let bar = |row: &AtOnceSummary| {
        let value = row.percent.value.unwrap_or(0.0);
        let bar = "█".repeat((value / 100.0 * BAR).round() as usize);
        let line = format!("  {:>5}  {:>5} %  {bar}", row.threads, percent(value));
        format!("{}\n", line.trim_end())
    };
    page.drawing(&threading.at_once.iter().map(bar).collect::<String>());
}
