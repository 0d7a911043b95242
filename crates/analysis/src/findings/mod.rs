//! Findings: what is slow for a known reason, with evidence, location, advice and predicted gain.
//!
//! What for: [`RULES`] is the table, one file per rule. A rule is a pure function from [`Figures`] to findings. What not:
//! measuring; a rule adds no figure but the gain.
//!
//! A rule decides for each of its subjects: yes, no, or undecided, by the probability that its condition holds and that it saves
//! at least [`LEAST_GAIN`] of the elapsed time ([`gain`], the one place that compares). So noise and trifles are not reported.
//! The interval of the gain itself is wider: it contains what nobody measured, and may contain 0. An undecided rule is reported
//! ([`Unjudged`]), with what would decide it. A finding is identified by its rule and its location.
//!
//! Formulas of the gains: `docs/findings/README.md`. All are of elapsed time: CPU seconds are divided by the number of
//! threads that run at a time.

mod allocator;
mod asked;
mod bandwidth;
mod barriers;
mod chase;
mod core;
mod disk;
mod entries;
mod faults;
pub(crate) mod figures;
mod flushes;
mod gain;
mod imbalance;
mod io;
mod locks;
mod oversubscribed;
mod quota;
mod records;
mod reloads;
mod remote;
mod repeated;
mod reread;
mod sharing;
mod steps;
mod stores;
mod strided;
mod swap;
mod tlb;
mod used_by_all;

use facts::{Evidence, Metric};

use self::gain::{Gain, Part, Truth};
use crate::selection::bare_function_name;

pub(crate) use self::asked::{Answers, Asked, Asking, stored};
pub use self::figures::{
    EntryFigure, FaultFigures, Figures, FlushFigure, HotFunction, HotSite, LockWait, NamedLocation,
    ReloadedLoop, RemoteFigure, RepeatedFunction, Rounds, SharedFigure, Spent, SystemFigures,
    ThreadTime, Traced, UsedByAll, WaitFigures, Waited, Walk,
};
pub use self::steps::Restarts;

/// A finding saves at least this share of the elapsed time.
pub const LEAST_GAIN: f64 = 0.03;
/// From these shares of the elapsed time on, the severity is medium and high.
const MEDIUM: f64 = 0.08;
const HIGH: f64 = 0.25;
/// Names in a reason.
const MOST_NAMES: usize = 3;

/// Bytes that a tile may take: half of a usual second-level cache of 512 KiB and more; the other half is for other
/// arrays.
const TILE: f64 = 256.0 * 1024.0;

/// How much there is to gain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing to gain: what is known.
    Info,
    /// Below 8 % of the elapsed time.
    Low,
    /// Below 25 %.
    Medium,
    /// More.
    High,
}

impl Severity {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
        }
    }
}

/// A figure that a finding rests on.
#[derive(Clone, PartialEq, Debug)]
pub struct Proof {
    /// What it is.
    pub what: String,
    /// The figure.
    pub metric: Metric,
}

impl Proof {
    fn new(what: impl Into<String>, metric: &Metric) -> Proof {
        Proof { what: what.into(), metric: metric.clone() }
    }
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The rule.
    pub id: &'static str,
    /// By the gain.
    pub severity: Severity,
    /// In a sentence.
    pub title: String,
    /// What it rests on.
    pub evidence: Vec<Proof>,
    /// Where.
    pub place: NamedLocation,
    /// What to do.
    pub advice: String,
    /// Elapsed seconds that this would save; `value` is `None` where nothing is to be gained.
    pub gain: Metric,
    /// The command that shows more or tries a remedy, without the result's name.
    pub next: Vec<String>,
}

/// What a rule says before it is ranked.
struct Draft {
    title: String,
    evidence: Vec<Proof>,
    place: NamedLocation,
    advice: String,
    gain: Gain,
    next: Vec<String>,
}

/// A row of the table.
pub struct Rule {
    /// Its name, fixed.
    pub id: &'static str,
    /// What it looks for.
    pub about: &'static str,
    judge: Judge,
}

/// What a rule says, or why it could not be judged.
type Judge = fn(&Figures) -> Result<Vec<Draft>, NotJudged>;

/// All rules. The order is that of equal gains.
pub const RULES: [Rule; 24] = [
    rule("bandwidth-saturated", "the memory bandwidth is saturated", bandwidth::judge),
    rule(
        "non-temporal-stores",
        "lines are fetched only to be overwritten (write-allocate)",
        stores::judge,
    ),
    rule(
        "pointer-chase",
        "each load needs the address that the load before it returns",
        chase::judge,
    ),
    rule(
        "strided-walk",
        "a loop steps from line to line and returns later for the neighbours",
        strided::judge,
    ),
    rule("low-line-use", "most bytes of fetched lines are not used", records::judge),
    rule(
        "repeated-loads",
        "a function or a loop reads the same addresses for each element",
        repeated::judge,
    ),
    rule("tlb-bound", "address translation needs page walks", tlb::judge),
    rule(
        "unbatched-flushes",
        "a fence waits for each of many neighbouring cache lines",
        flushes::judge_unbatched,
    ),
    rule(
        "redundant-flushes",
        "cache lines are flushed that are not dirty",
        flushes::judge_redundant,
    ),
    rule("false-sharing", "threads write different bytes of one line", sharing::judge_false),
    rule("true-sharing", "threads write the same bytes again and again", sharing::judge_true),
    rule("fault-churn", "memory is released and faulted in again", faults::judge_churn),
    rule("fault-startup", "new memory costs a page fault for every 4 KiB", faults::judge_startup),
    rule("disk-faults", "pages come from a disk", disk::judge),
    rule("allocator-churn", "allocating and freeing take much time", allocator::judge),
    rule("load-imbalance", "threads wait for the one with the most work", imbalance::judge),
    rule(
        "oversubscribed",
        "more threads compute than there are usable CPUs",
        oversubscribed::judge,
    ),
    rule("lock-contention", "threads wait for a lock", locks::judge),
    rule(
        "barrier-waits",
        "threads wait at barriers although their total work is even",
        barriers::judge,
    ),
    rule("cpu-quota", "a CPU quota stops threads", quota::judge),
    rule("swapping", "the machine has too little memory", swap::judge),
    rule("io-bound", "the program waits for files or disks", io::judge),
    rule("kernel-entries", "entries into the kernel take much time", entries::judge),
    rule(
        "remote-memory",
        "memory is on another NUMA node than the threads that use it",
        remote::judge,
    ),
];

const fn rule(id: &'static str, about: &'static str, judge: Judge) -> Rule {
    Rule { id, about, judge }
}

/// Why a rule could not be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotJudged {
    /// This analysis does not record what the rule needs; the sentence names the one that does.
    OtherAnalysis(String),
    /// What was recorded does not decide it.
    Open(String),
}

impl NotJudged {
    /// The sentence.
    #[must_use]
    pub fn text(&self) -> &str {
        let (NotJudged::OtherAnalysis(text) | NotJudged::Open(text)) = self;
        text
    }
}

impl From<String> for NotJudged {
    fn from(text: String) -> NotJudged {
        NotJudged::Open(text)
    }
}

impl From<&str> for NotJudged {
    fn from(text: &str) -> NotJudged {
        NotJudged::Open(text.to_owned())
    }
}

/// A rule that could not be judged, or not of all that it may be about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unjudged {
    /// The rule.
    pub id: &'static str,
    /// What it looks for.
    pub about: &'static str,
    /// Why not, and what would allow it.
    pub why: NotJudged,
}

/// The whole of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Findings {
    /// Most seconds saved first.
    pub found: Vec<Finding>,
    /// In the order of the table.
    pub unjudged: Vec<Unjudged>,
}

/// Judges all rules.
#[must_use]
pub fn findings(figures: &Figures) -> Findings {
    let mut all = Findings::default();
    for rule in &RULES {
        let mut unjudged =
            |why| all.unjudged.push(Unjudged { id: rule.id, about: rule.about, why });
        match (rule.judge)(figures) {
            Ok(drafts) => {
                doubts(&drafts).into_iter().map(NotJudged::Open).for_each(&mut unjudged);
                let found = drafts.into_iter().filter(|draft| draft.gain.truth == Truth::Yes);
                all.found.extend(found.map(|draft| finding(rule.id, draft, figures)));
            }
            Err(why) => unjudged(why),
        }
    }
    // The sort is stable: equal gains keep the order of the table.
    all.found.sort_by(|a, b| b.gain.value.unwrap_or(0.0).total_cmp(&a.gain.value.unwrap_or(0.0)));
    if let Some(draft) = core::judge(figures, &all.found) {
        all.found.push(finding(core::ID, draft, figures));
    }
    if let Some(draft) = used_by_all::judge(figures) {
        all.found.push(finding(used_by_all::ID, draft, figures));
    }
    all
}

/// Each reason for which a rule is undecided, with what it may be about and is not known to be.
fn doubts(drafts: &[Draft]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for draft in drafts {
        let Truth::Undecided(why) = &draft.gain.truth else { continue };
        let known = |one: &Draft| one.gain.truth == Truth::Yes && one.place == draft.place;
        let name = draft.place.function.as_deref().map(bare_function_name);
        let name = name.unwrap_or_else(|| "the program".to_owned());
        if drafts.iter().any(known) {
            continue;
        }
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let said = reasons.into_iter().map(|(why, mut names)| {
        let more = names.split_off(names.len().min(MOST_NAMES)).len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("it may apply to {}{more}, but {why}", names.join(", "))
    });
    said.collect()
}

fn finding(id: &'static str, draft: Draft, figures: &Figures) -> Finding {
    let Draft { title, evidence, place, advice, gain, next } = draft;
    let gain = gain.metric;
    let severity = match gain.value.map(|gain| gain / figures.elapsed.max(1e-9)) {
        None => Severity::Info,
        Some(share) if share >= HIGH => Severity::High,
        Some(share) if share >= MEDIUM => Severity::Medium,
        Some(_) => Severity::Low,
    };
    Finding { id, severity, title, evidence, place, advice, gain, next }
}

/// The low end; 0 without one.
fn low(metric: &Metric) -> f64 {
    metric.low.unwrap_or(0.0)
}

/// The high end; infinite without one.
fn high(metric: &Metric) -> f64 {
    metric.high.unwrap_or(f64::INFINITY)
}

/// A share that is known exactly.
fn exactly(percent: f64) -> Metric {
    Metric::counted(percent, "percent")
}

/// The rule's findings for the whole program where it holds of that, else for the functions, as far as it may be.
fn candidates(traced: &Traced, draft: impl Fn(&HotFunction) -> Option<Draft>) -> Vec<Draft> {
    match traced.whole.as_ref().and_then(&draft) {
        Some(whole) if whole.gain.truth == Truth::Yes => vec![whole],
        whole => {
            let mut all: Vec<Draft> = traced.functions.iter().filter_map(draft).collect();
            if all.iter().all(|one| one.gain.truth == Truth::No) {
                all.extend(whole);
            }
            all
        }
    }
}

/// Elapsed seconds if what `threads` threads waited for `seconds` in all went away: no more than leaves the CPUs busy all
/// the time. At least half of it is said to go: others may come to wait instead.
fn without_waits(figures: &Figures, seconds: &Metric, waits: &WaitFigures) -> Metric {
    let busy = waits.useful / figures.usable_cpus.unwrap_or(waits.workers).max(1.0);
    let most = (figures.elapsed - busy).max(0.0);
    let Some(waited) = seconds.value else { return seconds.clone() };
    at_least_half((waited / waits.workers.max(1.0)).min(most), seconds.samples)
}

/// A gain that is this at most, and half of it at least.
fn at_least_half(seconds: f64, samples: u64) -> Metric {
    let interval = (seconds / 2.0, seconds);
    Metric::with_interval(Evidence::Estimated, seconds, "s", interval, samples)
}

/// Percent of the lifetimes of the working threads.
fn of_lives(seconds: &Metric, waits: &WaitFigures) -> f64 {
    seconds.value.unwrap_or(0.0) / waits.lived.max(1e-9) * 100.0
}

/// What a rule says of each function.
fn each_function(
    figures: &Figures,
    draft: impl Fn(&HotFunction) -> Option<Draft>,
) -> Result<Vec<Draft>, NotJudged> {
    let traced = figures.traced.as_ref().map_err(NotJudged::clone)?;
    Ok(traced.functions.iter().filter_map(draft).collect())
}

/// The words of a command.
fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// The words of a command that shows a view of one function by these keys.
fn view_by(name: &str, place: &NamedLocation, keys: &str) -> Vec<String> {
    [view(name, place), words(&format!("-g {keys}"))].concat()
}

/// The words of a command that shows a view of one function.
fn view(name: &str, place: &NamedLocation) -> Vec<String> {
    let mut words = vec!["report".to_owned(), name.to_owned()];
    if let Some(function) = place.function.as_deref().filter(|name| !name.starts_with('[')) {
        let function = bare_function_name(function);
        words.extend(["--filter".to_owned(), format!("function={function}")]);
    }
    words
}

/// The words of a command that runs the program with a remedy; with all that fit if none is named.
fn try_remedy(figures: &Figures, remedy: Option<&str>) -> Vec<String> {
    let words = ["try"].into_iter().chain(remedy).chain(["--"]).map(str::to_owned);
    words.chain(figures.command.iter().cloned()).collect()
}

/// How much of what a site fetches is of the object that its place names.
fn about(site: &HotSite) -> Option<Proof> {
    let object = site.place.object.as_deref()?;
    site.of_object.value?;
    Some(Proof::new(format!("share of its lines from {object}"), &site.of_object))
}

/// `1.2 MiB`, for advice.
fn size(bytes: f64) -> String {
    base::Bytes(bytes as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of a cell: `1/4`, `0.95 to 1.05`, `0 to 15 %`.
    fn numbers(cell: &str) -> Vec<f64> {
        let percent = if cell.contains('%') { 0.01 } else { 1.0 };
        let number = |word: &str| match word.split_once('/') {
            Some((a, b)) => Some(a.parse::<f64>().ok()? / b.parse::<f64>().ok()?),
            None => word.parse().ok(),
        };
        let words = cell.split([' ', ';', ',']);
        words.filter_map(number).map(|number: f64| number * percent).collect()
    }

    #[test]
    fn parts_that_are_assumed_are_those_of_the_page() {
        let page = include_str!("../../../../docs/findings/README.md");
        let of = |part: Part<'_>| match part {
            Part::Assumed(values) => values,
            _ => unreachable!("the rows are assumed"),
        };
        let rows = [
            ("runs", gain::RUNS),
            ("bytes (`bandwidth-saturated`)", of(bandwidth::BYTES_LEFT)),
            ("reordered (`strided-walk`, `low-line-use`)", of(gain::REORDERED)),
            ("overlap", of(gain::OVERLAP)),
            ("seen (`tlb-bound`)", of(tlb::SEEN)),
            ("hidden (sharing)", of(sharing::HIDDEN)),
            ("back (sharing)", of(sharing::BACK)),
            ("`refetch` (`fault-churn`)", of(faults::REFETCH)),
            ("fetched (`fault-churn`)", of(faults::FETCHED)),
            ("backed (`fault-startup`, `tlb-bound`)", of(faults::BACKED)),
            ("compacted (`fault-startup`, `tlb-bound`)", of(faults::COMPACTED)),
            ("goes (`allocator-churn`)", of(allocator::GOES)),
            ("behind (`allocator-churn`)", of(allocator::BEHIND)),
            ("saved (`redundant-flushes`)", of(flushes::SAVED)),
            ("overlapped (`unbatched-flushes`)", of(flushes::OVERLAPPED)),
            ("slower (`remote-memory`)", crate::placement::SLOWER),
        ];
        for (name, [low, best, high]) in rows {
            let row = page.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
            let cells: Vec<&str> =
                row.unwrap_or_else(|| panic!("no row of {name}")).split(" | ").collect();
            let (estimate, range) = (numbers(cells[0]), numbers(cells[1]));
            let said = [range[0], estimate[0], range[1]];
            let same = said.iter().zip([low, best, high]).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(same, "{name}: the page says {said:?}, the rule {:?}", [low, best, high]);
        }
    }
}
