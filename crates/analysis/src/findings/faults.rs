//! `fault-churn` and `fault-startup`: time in minor page faults.
//!
//! Churn: one process has faults on more pages than [`TIMES`] times its largest resident size, so the same memory was released
//! and faulted in again. A fault that took a huge page counts as 512. Otherwise it is first touch.
//!
//! Gain of churn: of keeping the memory. It saves the time in faults, the time of releasing the memory, and what faults cost the
//! program afterwards ([`REFETCH`]). Against that, lines that the kernel had just zeroed now come from memory if they are in no
//! cache ([`FETCHED`]). Gain of first touch: of huge pages, by what pages cost when the run began (`page_costs`):
//! 1 - (cost of a 2 MiB page) / (512 × cost of a 4 KiB page) of the time, below 0 where large pages are dear. Of that time only
//! the cost of as many small pages counts: a program with huge pages spends the rest on zeroing them. Pages that nobody tried
//! may be dear: those beyond the free ones ([`COMPACTED`]), and those that a hypervisor must find memory for ([`BACKED`]).

use facts::{Evidence, Metric};

use super::gain::{Gain, judged};
use super::{Draft, FaultFigures, Figures, NotJudged, Part, Proof, exactly, try_remedy, words};
use crate::figure::Figure;

/// A program that touches each page once has as many faults as pages. Growth by copying (`realloc`) may double that, and is no
/// churn.
const TIMES: f64 = 2.5;
/// Small pages in a large one.
const PAGES: f64 = 512.0;
/// Bytes of a small one.
const PAGE: f64 = 4096.0;
/// Cost of a fault outside the kernel, as a share of its time there: the pipeline restarts after an exception, and the page that
/// was cleared has displaced 4 KiB of a first level of 32. Nobody measures it: it is assumed.
pub(super) const REFETCH: Part<'static> = Part::Assumed([0.0, 0.05, 0.15]);
/// Share of the zeroed bytes that is fetched when memory is kept: none where it fits into a cache, else all.
pub(super) const FETCHED: Part<'static> = Part::Assumed([0.0, 0.5, 1.0]);
/// Cost of a small page in the hypervisor over its cost in the guest, where the guest gets memory that it did not have before;
/// nothing where it had. A virtual machine that was given 160 ms to save lost 670 ms, which is five times.
pub(super) const BACKED: Part<'static> = Part::Assumed([0.0, 0.0, 8.0]);
/// Cost of a large page beyond the free ones over that of the small ones: the kernel moves others out of the way. On an AMD
/// Zen 4 virtual machine full of cached files it was 1.0 to 6.3 times for 32 to 750 of them.
pub(super) const COMPACTED: Part<'static> = Part::Assumed([0.0, 1.5, 8.0]);
/// Of so many events that were all alike, others have at most this many in as many again (rule of three, 95 %).
const UNSEEN: f64 = 3.0;

impl FaultFigures {
    /// Whether `fathom try huge-pages` can do something here.
    pub(super) fn may_be_huge(&self) -> bool {
        self.transparent.as_deref().is_some_and(|how| how != "never")
    }
}

/// Pages of 2 MiB that would hold the program.
fn large_pages(faults: &FaultFigures) -> f64 {
    faults.resident_pages.map_or(0.0, |pages| (pages / PAGES).ceil())
}

/// What large pages that nobody tried cost in addition, over the small ones.
fn untried(figures: &Figures) -> [f64; 3] {
    let costs = &figures.faults.costs;
    let beyond = costs.beyond(large_pages(&figures.faults));
    let unlike = match figures.virtualised {
        true => (1.0 - beyond) * UNSEEN / costs.seen.max(UNSEEN),
        false => 0.0,
    };
    let (Part::Assumed(compacted), Part::Assumed(backed)) = (COMPACTED, BACKED) else {
        unreachable!("nobody measures them")
    };
    std::array::from_fn(|at| beyond * compacted[at] + unlike * backed[at])
}

/// What would tell, where new large pages cost too different times for an answer.
const PAGES_DIFFER: &str = "some new pages of 2 MiB cost many times as much as others here: \
    `fathom try huge-pages -- PROGRAM ARGS` measures what they do for the program";

/// Seconds of the run that getting the program's memory in large pages costs beyond what small ones cost, never below 0, where
/// the machine's costs are known.
pub(super) fn dearer(figures: &Figures) -> Option<(Figure, [f64; 3])> {
    let pages = large_pages(&figures.faults);
    let costs = &figures.faults.costs;
    let (small, large) = (costs.small.as_ref()?, costs.large.as_ref()?);
    let pages = pages / figures.running;
    let whole = PAGES * small.value? * pages * 1e-9;
    let seconds = |large: Option<f64>| Some(large? * pages * 1e-9 - whole);
    let interval = (seconds(large.low)?, seconds(large.high)?);
    let value = seconds(large.value)?;
    let more = Metric::with_interval(Evidence::Calibrated, value, "s", interval, large.samples);
    Some((Figure::from(more).sharper_by(PAGES_DIFFER), untried(figures).map(|part| part * whole)))
}

/// What pages cost when the run began, for evidence.
pub(super) fn page_proofs(figures: &Figures) -> impl Iterator<Item = Proof> {
    let costs = &figures.faults.costs;
    let shown = costs.seen > 0.0;
    let one = |what: &str, metric: &Option<Metric>| {
        metric.as_ref().filter(|_| shown).map(|metric| Proof::new(what, metric))
    };
    let large = one("a new page of 2 MiB just before this run", &costs.large);
    large.into_iter().chain(one("a new page of 4 KiB", &costs.small))
}

/// Faults per page that was resident at most, of the process that had most of them: processes that come one after
/// another, as of a build, take each their own memory once.
fn rounds(faults: &FaultFigures) -> Option<f64> {
    let pages = faults.resident_pages.filter(|pages| *pages >= 1.0)?;
    Some(
        (faults.minor.value? + faults.huge * (PAGES - 1.0)) * faults.of_one_process?
            / 100.0
            / pages,
    )
}

fn known(figures: &Figures) -> Result<f64, NotJudged> {
    let faults = &figures.faults;
    if faults.time.value.is_none() {
        let why = faults.time.note.as_deref().unwrap_or("the time in page faults is not known");
        return Err(format!("{why}: run `fathom machine`").into());
    }
    if faults.of_one_process.is_none() {
        return Err("which of the processes had the page faults was not recorded".into());
    }
    rounds(faults).ok_or_else(|| "the size of the program was not polled".into())
}

fn draft(
    figures: &Figures,
    title: String,
    advice: String,
    gain: Gain,
    remedy: Option<&str>,
) -> Draft {
    let faults = &figures.faults;
    Draft {
        title,
        evidence: vec![
            Proof::new("CPU time in page faults", &faults.time),
            Proof::new("minor faults", &faults.minor),
            Proof::new("page faults of this line, of all", &exactly(faults.place_percent)),
        ],
        place: faults.place.clone(),
        advice,
        gain,
        next: match remedy {
            Some(remedy) => try_remedy(figures, Some(remedy)),
            None => words("report faults -g function,source-line"),
        },
    }
}

/// Whether memory is given back and taken anew, as far as that is known.
pub(super) fn churns(figures: &Figures) -> bool {
    // Pages that come back from swap fault as well, but the program did not release them.
    known(figures).is_ok_and(|rounds| rounds >= TIMES) && !super::swap::explains(figures)
}

pub(super) fn judge_churn(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let rounds = known(figures)?;
    if !churns(figures) {
        return Ok(Vec::new());
    }
    let title = format!("Memory is released and faulted in again, {rounds:.0} times over");
    let advice = "Keep the memory: reuse a buffer instead of mapping and unmapping it. Where malloc does it: \
                GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776 keeps freed \
                blocks in the program."
        .to_owned();
    let faults = &figures.faults;
    // Read for the store, and written back once.
    let bytes = 2.0 * PAGE * (faults.minor.value.unwrap_or(0.0) + faults.huge * (PAGES - 1.0));
    let fetch = figures.store_rate.map_or(0.0, |rate| bytes / (rate * 1e9) / figures.running);
    let [time, release] = [&faults.time, &faults.release].map(Part::Seconds);
    let saves = |[time, release, refetch, fetched]: [f64; 4]| {
        (time * (1.0 + refetch) + release - fetched * fetch).max(0.0)
    };
    let gain = judged(figures, [time, release, REFETCH, FETCHED], |_| true, saves);
    let mut draft = draft(figures, title, advice, gain, Some("keep-memory"));
    draft.evidence.push(Proof::new("CPU time of releasing it", &faults.release));
    Ok(vec![draft])
}

pub(super) fn judge_startup(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    if known(figures)? >= TIMES {
        return Ok(Vec::new());
    }
    let faults = &figures.faults;
    let (Some(small), Some(large)) = (&faults.costs.small, &faults.costs.large) else {
        return Err("the cost of huge pages was not measured, or they are not available here: run `fathom machine`"
            .into());
    };
    let saves = |large: Option<f64>, small: Option<f64>| {
        Some((1.0 - large? / (PAGES * small?)).min(1.0) * 100.0)
    };
    let part = Metric {
        value: saves(large.value, small.value),
        low: saves(large.high, small.low),
        high: saves(large.low, small.high),
        unit: "percent".to_owned(),
        evidence: Some(Evidence::Calibrated),
        ..small.clone()
    };
    // A page of a file faults when it is first touched, too, but is no new memory.
    let new = 1.0 - faults.of_files_percent / 100.0;
    let pages = faults.minor.value.unwrap_or(0.0) * new;
    let title = format!("New memory takes a page fault for each of {pages:.0} small pages");
    let cost =
        |time: Option<f64>, nanos: Option<f64>| Some((time? * new).min(pages * nanos? * 1e-9));
    let time = Metric {
        value: cost(faults.time.value, small.value),
        low: cost(faults.time.low, small.low),
        high: cost(faults.time.high, small.high),
        ..faults.time.clone()
    };
    let remedy = faults.may_be_huge().then_some("huge-pages");
    let part = part.into();
    let parts = [Part::Seconds(&time), Part::Share(&part), Part::Assumed(untried(figures))];
    let gain = judged(figures, parts, |_| true, |[time, part, untried]| time * (part - untried));
    let mut draft = draft(figures, title, huge_pages(faults), gain, remedy);
    draft.evidence.extend(page_proofs(figures));
    Ok(vec![draft])
}

/// How many huge pages, and how to get them on this system.
pub(super) fn huge_pages(faults: &FaultFigures) -> String {
    let count = faults.resident_pages.map_or(String::new(), |_| {
        format!("{:.0} pages of 2 MiB hold all of it. ", large_pages(faults))
    });
    let how = match faults.transparent.as_deref() {
        Some("always") => {
            "The system uses them for aligned blocks of 2 MiB and more: allocate large blocks at once \
             (aligned_alloc(2097152, ...)) instead of growing in small steps."
        }
        Some("madvise") => {
            "Ask for them with madvise(..., MADV_HUGEPAGE) before the first touch, or, for malloc of glibc 2.35 and \
             later, without a change to the program: GLIBC_TUNABLES=glibc.malloc.hugetlb=1."
        }
        _ => {
            "This system has none ready: `echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled`, then \
             madvise(..., MADV_HUGEPAGE) or GLIBC_TUNABLES=glibc.malloc.hugetlb=1."
        }
    };
    format!("{count}{how} MAP_POPULATE takes the faults of a mapping all at once.")
}
