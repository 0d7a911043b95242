//! The first screen: the verdict, at most [`FIGURES`] figures, where to look, what to change, and what is undecided.
//!
//! What for: a newcomer has the answer at once, in some forty lines. What not: figures that are unknown, or so uncertain that a
//! number would mislead: they are ranges in words here, or left to `--detail`, which has everything.

use facts::Metric;

use super::{
    Page, Summary, first_checks, functions, percent_with_error, quality, quoted, threading,
    time_split,
};
use crate::findings::{FindingSummary, nothing_found};
use crate::summary::TopObject;
use crate::text::{self, bytes, count, number, percent, printable, rate, rates, seconds};

/// More do not stay in mind.
const FIGURES: usize = 6;
const OBJECTS: usize = 3;
const FUNCTIONS: usize = 5;
const FINDINGS: usize = 3;
const UNDECIDED: usize = 3;
/// Threads that spin for less of the CPU time, percent, are not worth a word.
const SPINNING: f64 = 5.0;
/// A figure that is known to this factor is shown as a number; else as a range.
const KNOWN: f64 = 2.0;
/// Narrower intervals may lie as they like, points.
const LOPSIDED: f64 = 5.0;
/// Parts of the time below this are not worth a word, %.
const LEAST_PART: f64 = 0.5;
/// From this share of the CPU time on, page faults are a figure of their own, %.
const FAULTS_MATTER: f64 = 1.0;

pub(super) fn screen(summary: &Summary, page: &mut Page) {
    threading::threads(summary, page);
    figures(summary, page);
    objects(summary, page);
    if !summary.top_functions.is_empty() {
        functions::top_functions(summary, page, FUNCTIONS);
    }
    findings(summary, page);
    beware(summary, page);
}

/// The answer, and what would narrow it down.
pub(super) fn verdict(summary: &Summary, page: &mut Page) {
    if summary.verdict.is_empty() {
        return;
    }
    let decided_by = summary.verdict_decided_by.as_ref().map(|by| format!("To decide: {by}."));
    page.verdict(&summary.verdict, decided_by.as_deref());
}

fn figures(summary: &Summary, page: &mut Page) {
    let all = [
        ("Time", time(summary)),
        ("MPI", mpi(summary)),
        ("Memory's share", memory_share(summary)),
        ("Cache traffic", cache_traffic(summary)),
        ("DRAM traffic", traffic(summary)),
        ("Loads", loads(summary)),
        ("Remote memory", remote(summary)),
        ("Cross-check", summary.extra.cross_check.clone()),
        ("Sampled loads", summary.extra.sampled_loads.clone()),
        ("Page walks", walks(summary)),
        ("Page faults", faults(summary)),
        ("Kernel entries", entries(summary)),
        ("Memory", memory(summary)),
    ];
    let known: Vec<_> = all.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    if known.is_empty() {
        return;
    }
    page.heading("Figures", "");
    known.iter().take(FIGURES).for_each(|(name, text)| page.entry(name, text));
}

/// A number that its interval allows to be one.
fn known(metric: &Metric) -> Option<f64> {
    let value = metric.value?;
    let sharp = match (metric.low, metric.high) {
        (Some(low), Some(high)) => high <= low * KNOWN,
        (None, None) => true,
        _ => false,
    };
    sharp.then_some(value)
}

/// `92.7 ±0.8 %`, `16 to 73 %`, or `at least 12 %`.
fn share(metric: &Metric) -> Option<String> {
    let value = metric.value?;
    // One end far and the other near: a middle with ± would say something else.
    let lopsided = |low: f64, high: f64| {
        let (down, up) = (value - low, high - value);
        high - low >= LOPSIDED && (up > 2.0 * down || down > 2.0 * up)
    };
    Some(match (metric.low, metric.high) {
        (Some(low), Some(high)) if known(metric).is_none() || lopsided(low, high) => {
            match low < 1.0 {
                true if high < 1.0 => "less than 1 %".to_owned(),
                true => format!("at most {high:.0} %"),
                false => format!("{low:.0} to {high:.0} %"),
            }
        }
        // Without an upper end nothing is known but the lower one.
        (Some(low), None) if low < 1.0 => return None,
        (Some(low), None) => format!("at least {low:.0} %"),
        _ => format!("{} %", text::share(metric, value)),
    })
}

/// Of data, where counters, or the cost of one, tell them well enough.
fn walks(summary: &Summary) -> Option<String> {
    let walks = &summary.dtlb.walk_time_percent;
    let evidence = walks.evidence?.name();
    // A range wider than a factor of two is left to the details.
    walks.low.zip(walks.high).filter(|(low, high)| *high <= 2.0 * low)?;
    let share = share(walks).filter(|_| walks.high.is_none_or(|high| high >= LEAST_PART))?;
    Some(format!("for data in {share} of the cycles ({evidence})"))
}

fn time(summary: &Summary) -> Option<String> {
    let parts = time_split::parts(summary);
    let whole: f64 = parts.iter().filter_map(|(.., part)| part.value).sum();
    let shown = parts.iter().filter_map(|(name, _, part)| {
        let share = part.value? / whole * 100.0;
        (share >= LEAST_PART).then(|| format!("{name} {} %", percent(share)))
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let of = match summary.time_split.thread_time.value {
        Some(_) => "of the lifetimes of its threads",
        None => "of the CPU time",
    };
    let spinning = spinning(summary).map_or_else(String::new, |spinning| {
        format!("; spinning takes {} % of the CPU time", percent(spinning))
    });
    (!shown.is_empty()).then(|| format!("{shown} {of}{spinning}"))
}

/// Percent of the CPU time in which threads spin outside of MPI, if it is worth a word.
fn spinning(summary: &Summary) -> Option<f64> {
    let split = &summary.time_split;
    let in_mpi = split.mpi_wait.as_ref().and_then(|wait| wait.value).unwrap_or(0.0);
    of_cpu_time(summary, split.spinning.value? - in_mpi).filter(|spinning| *spinning >= SPINNING)
}

fn of_cpu_time(summary: &Summary, time: f64) -> Option<f64> {
    Some(time / summary.cpu_time.value?.max(1e-9) * 100.0)
}

/// What a rank does in calls of MPI, if that is worth a word.
fn mpi(summary: &Summary) -> Option<String> {
    let split = &summary.time_split;
    let whole = of_cpu_time(summary, split.mpi_calls.as_ref()?.value?)?;
    let part = |metric: &Option<Metric>, says: &str| {
        let share = metric.as_ref()?.times(whole / split.mpi_calls.as_ref()?.value?, "percent");
        Some(format!("{says} {}", self::share(&share)?))
    };
    let parts = [part(&split.mpi_wait, "waits"), part(&split.mpi_moving, "moves data")];
    let parts = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    (whole >= SPINNING && !parts.is_empty())
        .then(|| format!("{parts} of the CPU time; all calls {} %", percent(whole)))
}

/// What it would be without: the verdict has the share itself already.
fn memory_share(summary: &Summary) -> Option<String> {
    known(&summary.memory_bound)?;
    let best = seconds(known(&summary.elapsed_without_misses)?);
    let (share, now) = (share(&summary.memory_bound)?, seconds(summary.elapsed.value?));
    let mpi = mpi(summary).filter(|says| says.starts_with("waits"));
    let without = match (spinning(summary), mpi) {
        (Some(_), Some(_)) => " without spinning and waits in MPI",
        (Some(_), None) => " without spinning",
        (None, Some(_)) => " without waits in MPI",
        (None, None) => "",
    };
    Some(format!(
        "{share} of the time of its own code{without}; {best} instead of {now} with all data in the first-level cache"
    ))
}

/// Against what such a mixture of reads and writes, by as many threads, reaches on this machine.
fn traffic(summary: &Summary) -> Option<String> {
    let used = &summary.dram_bandwidth;
    let value = used.average.value?;
    let shown = match (used.average.low, used.average.high) {
        (Some(low), Some(high)) if known(&used.average).is_none() => match low < high / 100.0 {
            true => format!("at most {}", rate(high, "GB/s")),
            false => rates(low, high, "GB/s").unwrap_or_else(|| rate(value, "GB/s")),
        },
        _ => rate(value, "GB/s"),
    };
    let of_reach = match (&used.of_reachable, used.reachable.value) {
        (Metric { note: Some(why), value: None, .. }, Some(_)) => format!("; {why}"),
        // An end beyond what memory reaches says nothing.
        (of, Some(reach)) => share(&within(of, 100.0)).map_or_else(String::new, |of| {
            let reach = rate(reach, "GB/s");
            let is_read = used.reachable.low < used.reachable.value;
            let then = if is_read { " as of this run" } else { "" };
            format!("; while it runs, {of} of the {reach} that as many threads reach here{then}")
        }),
        _ => String::new(),
    };
    Some(format!("{shown}{of_reach}"))
}

/// The metric without an upper end above this.
fn within(metric: &Metric, most: f64) -> Metric {
    let high = metric
        .high
        .filter(|high| *high <= most || metric.low.is_some_and(|low| low * KNOWN >= *high));
    Metric { high, ..metric.clone() }
}

/// From the level of cache whose bandwidth limits, if one does.
fn cache_traffic(summary: &Summary) -> Option<String> {
    let level = summary.bandwidth_level?;
    let used = summary.cache_bandwidth.of(level)?;
    let (value, reach) = (rate(used.rate.value?, "GB/s"), rate(used.reachable.value?, "GB/s"));
    let of = share(&used.of_reachable)?;
    Some(format!(
        "{value} from {level} while it runs, {of} of the {reach} that as many threads reach"
    ))
}

fn loads(summary: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    if known(&summary.levels.dram).is_some_and(|dram| dram >= LEAST_PART) {
        parts.push(format!("{} come from DRAM", percent_with_error(&summary.levels.dram)));
    }
    if let Some(nanos) = known(&summary.average_load_latency) {
        parts.push(format!("{} ns on average", number(nanos)));
    }
    if let Some(nanos) = known(&summary.exposed_load_latency) {
        let nanos = number(nanos);
        parts.push(format!("a load that misses L1 delays the program by {nanos} ns on average"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// On a machine with several nodes.
fn remote(summary: &Summary) -> Option<String> {
    Some(format!("{} of the accesses go to another NUMA node", share(&summary.remote_accesses)?))
}

fn faults(summary: &Summary) -> Option<String> {
    let faults = &summary.page_faults;
    let (number, time) = (faults.minor.value?, faults.time_percent.value?);
    let major = faults.major.value.filter(|major| *major > 0.0);
    let major = major.map_or_else(String::new, |major| format!(", {} from a disk", count(major)));
    let text =
        format!("{}{major}: {} of the CPU time", count(number), share(&faults.time_percent)?);
    (time >= FAULTS_MATTER).then_some(text)
}

fn entries(summary: &Summary) -> Option<String> {
    let found = &summary.kernel_entries;
    let (entries, rate) = (found.count.value?, found.per_second.value?);
    let time = share(&found.time_percent).map(|share| format!(": {share} of the CPU time"));
    let (entries, rate) = (count(entries), count(rate));
    Some(format!("{entries}, {rate} per second{}", time.unwrap_or_default()))
}

fn memory(summary: &Summary) -> Option<String> {
    let heap = &summary.heap;
    let resident = summary.peak_resident.value.map(|most| format!("{} resident", bytes(most)));
    let blocks = heap.allocations.value.filter(|blocks| *blocks > 0.0);
    let heap = blocks.filter(|_| heap.peak_bytes.value.is_some()).map(|blocks| {
        let plural = if blocks == 1.0 { "" } else { "s" };
        format!(
            "{} on the heap, in {} block{plural} in total",
            super::faults::most_live(summary),
            count(blocks)
        )
    });
    let parts: Vec<String> = resident.into_iter().chain(heap).collect();
    (!parts.is_empty()).then(|| format!("at most {}", parts.join(", ")))
}

fn objects(summary: &Summary, page: &mut Page) {
    let of: fn(&TopObject) -> &Metric =
        match summary.top_objects.iter().any(|object| object.stall_percent.value.is_some()) {
            true => |object| &object.stall_percent,
            false => |object| &object.dram_percent,
        };
    // What may be nothing is not worth a look.
    let least = |metric: &Metric| metric.low.or(metric.value);
    let worth = |object: &&TopObject| least(of(object)).is_some_and(|low| low >= LEAST_PART);
    let top: Vec<&TopObject> = summary.top_objects.iter().filter(worth).take(OBJECTS).collect();
    let Some(first) = top.first() else { return };
    let says = match first.stall_percent.value {
        Some(_) => {
            "share of the CPU time at their accesses; hits count here, but not in the verdict"
        }
        None => "share of the traffic with memory",
    };
    page.heading("Objects", says);
    for object in &top {
        let name = format!("{} {}", printable(&object.object), object.extent);
        page.entry(&share(of(object)).unwrap_or_default(), &name);
    }
}

fn findings(summary: &Summary, page: &mut Page) {
    if summary.analysis != "memory-access" {
        return super::findings::findings(summary, page);
    }
    page.heading("What to change", "");
    if summary.findings.is_empty() {
        page.item(&match summary.classification_certainty {
            Some("undecided") => {
                "No cause was found, but the data are too few to exclude one.".to_owned()
            }
            _ => nothing_found(&summary.undecided),
        });
    }
    for (at, finding) in summary.findings.iter().take(FINDINGS).enumerate() {
        let gain = &finding.predicted_gain;
        let saves = match (gain.low, gain.high, known(gain)) {
            (Some(low), ..) if low < 0.0 => finding.gain(),
            (.., Some(value)) => format!("saves about {}", seconds(value)),
            (Some(low), Some(high), _) => format!("saves {} to {}", seconds(low), seconds(high)),
            _ => String::new(),
        };
        let parts = [finding.short_title(), place(finding), saves];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        page.entry(finding.id, &printable(&parts.join("; ")));
        // Of the others the view of findings has it.
        if at == 0 {
            page.entry("", &printable(remedy(&finding.advice)));
        }
    }
    undecided(summary, page);
}

/// Rules of this analysis that could not be judged, and what would decide them.
fn undecided(summary: &Summary, page: &mut Page) {
    let mut open: Vec<(&str, Vec<String>)> = Vec::new();
    for one in summary.undecided.iter().filter(|one| !one.elsewhere) {
        // The same rule may have fired on other code.
        let fired = summary.findings.iter().any(|finding| one.rules.contains(&finding.id));
        let elsewhere = if fired { " for other code" } else { "" };
        let rules = one.rules.iter().map(|rule| format!("{rule}{elsewhere}"));
        let by = one.decided_by.as_ref().unwrap_or(&one.reason);
        match open.iter_mut().find(|(known, _)| *known == by.as_str()) {
            Some((_, known)) => known.extend(rules),
            None => open.push((by, rules.collect())),
        }
    }
    let words = open.iter().take(UNDECIDED);
    let mut words: Vec<String> =
        words.map(|(by, rules)| format!("{} ({by})", rules.join(", "))).collect();
    match open.iter().skip(UNDECIDED).map(|(_, rules)| rules.len()).sum() {
        0 => {}
        1 => words.push("1 more rule".to_owned()),
        more => words.push(format!("{more} more rules")),
    }
    if !words.is_empty() {
        page.item(&printable(&format!("Undecided: {}.", words.join("; "))));
    }
}

/// Where it is, without a function that the title names.
fn place(finding: &FindingSummary) -> String {
    let place = &finding.place;
    if place.function.as_deref() == Some("[unknown]") {
        return place.object.clone().unwrap_or_default();
    }
    if !place.function.as_ref().is_some_and(|name| finding.title.contains(name)) {
        return finding.place();
    }
    let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
    let file = place.file.as_ref().map(|file| format!("{file}{line}"));
    let parts: Vec<String> = file.into_iter().chain(place.object.clone()).collect();
    parts.join(", ")
}

/// The advice as far as it fits into two lines or so; the rest is in the view of findings.
fn remedy(advice: &str) -> &str {
    const ENOUGH: usize = 80;
    let ends = advice.match_indices(". ").map(|(at, _)| at + 1);
    let end = ends.into_iter().find(|end| *end >= ENOUGH);
    end.map_or(advice, |end| &advice[..end])
}

/// The reasons to doubt figures; empty where there are none.
fn beware(summary: &Summary, page: &mut Page) {
    let mut lines = first_checks::wrong(summary);
    lines.extend(quality::doubtful(summary));
    if lines.is_empty() {
        return;
    }
    page.heading("Beware", "");
    lines.iter().for_each(|line| page.item(line));
}

/// The command that shows all that is left out here, and what that is.
pub(super) fn detail(summary: &Summary) -> (String, String) {
    let notes = match summary.notes.len() {
        0 => String::new(),
        1 => ", 1 note".to_owned(),
        notes => format!(", {notes} notes"),
    };
    let command = format!("fathom report summary --detail -r {}", quoted(&summary.result));
    (command, format!("every figure, the machine, how it was measured{notes}"))
}
