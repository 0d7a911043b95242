//! The first checks in words: only problems. The load of other programs is with the times, stolen time with the method.

use facts::Metric;

use super::Page;
use crate::summary::Summary;
use crate::text::{count, percent, seconds};

/// From these shares on a figure of the program suffers, %.
const WAITING_FOR_DISKS: f64 = 10.0;
const THROTTLED: f64 = 1.0;
/// Fewer pages, 4 MB, took microseconds, and were perhaps of another program.
const SOME_PAGES: f64 = 1000.0;

pub(super) fn first_checks(summary: &Summary, page: &mut Page) {
    let wrong = wrong(summary);
    if !wrong.is_empty() {
        page.heading("First checks", "");
        wrong.iter().for_each(|line| page.item(line));
    }
}

/// What makes every other figure doubtful.
pub(super) fn wrong(summary: &Summary) -> Vec<String> {
    let checks = &summary.first_checks;
    let elapsed = summary.elapsed.value.unwrap_or(0.0);
    let mut wrong = Vec::new();
    let throttled = checks.quota_throttled.value;
    if let Some(time) = throttled.filter(|time| time * 100.0 > elapsed * THROTTLED) {
        wrong.push(format!(
            "The program reached the CPU quota of its control group. Its threads were stopped for {} in total. \
             Raise the quota, or use fewer threads.",
            seconds(time)
        ));
    }
    if let Some(pages) = checks.swapped_pages.value.filter(|pages| *pages > 0.0) {
        let pages = count(pages);
        wrong.push(format!(
            "The machine swapped {pages} pages during the run: memory was too small."
        ));
    }
    if let Some(share) = checks.io_wait_percent.value.filter(|share| *share >= WAITING_FOR_DISKS) {
        let share = percent(share);
        wrong
            .push(format!("CPUs were idle for {share} % of the time while a task waited for I/O."));
    }
    if let Some(times) = checks.clock_throttles.value.filter(|times| *times > 0.0) {
        wrong.push(format!("Cores lowered their clock {} times because of heat.", count(times)));
    }
    // All of these are of the whole machine: the kernel counts nothing of the kind for a program.
    let some = |metric: &Metric| metric.value.filter(|pages| *pages >= SOME_PAGES).map(count);
    if let Some(pages) = some(&checks.reclaimed_pages) {
        wrong.push(format!(
            "Programs of this machine reclaimed {pages} pages themselves when they needed memory: they waited for that."
        ));
    }
    if let Some(pages) = some(&checks.moved_pages) {
        wrong.push(format!("NUMA balancing moved {pages} pages to other nodes."));
    }
    let [down, up] = [&checks.demoted_pages, &checks.promoted_pages].map(some);
    if down.is_some() || up.is_some() {
        let [down, up] = [down, up].map(|pages| pages.unwrap_or_else(|| "no".to_owned()));
        wrong.push(format!(
            "The kernel moved {down} pages to a slower tier of memory, and {up} to a faster one."
        ));
    }
    wrong
}
