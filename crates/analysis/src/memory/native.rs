//! How long what bursts did takes natively.
//!
//! What for: native seconds of what bursts did. A burst's own time is too long where recording slows the code down. After many
//! bursts, a count window of the same thread only counts blocks, which costs far less: windows tell how long an instruction of
//! each region of the code takes ([`each`]).
//! What not: the time of single instructions.
//!
//! The rule: native seconds of what a burst did in a region = its instructions there x the time of one there, by all windows. So a
//! total is that of the region's time, which samples tell, over what windows find per instruction, times what bursts find: windows
//! are longer than bursts, and where a region runs fast at one time and slowly at another, the bursts of each do not matter. (Loads of
//! six runs of Lua alike, of 8.1 G: 6.6 to 23 G by the time of each burst, 6.5 to 8.2 G by windows.)
//! In loops with a pace it is iterations / pace. For regions of which fewer than two windows tell: the rest of the burst's time, which
//! is its instructions / instructions per second in the window after it. Without a window, it is its CPU time / the slow-down of other
//! bursts; where its time tells nothing, its instructions x the time of one in all regions ([`anywhere`]).
//! Copies of blocks take longer than native code: what of a window's time is native is known beforehand to some part, and words of
//! the program's memory that rise tell it (`copies`). A window in which many blocks ran is followed at once by another one, which counts in its place: in the first the
//! copies were cold.
//! Such a rest in several regions is divided in proportion to its instructions in each, times the mean time of an instruction there,
//! which samples of the whole run show.
//! Bounds: the scatter of windows, and what is not known of copies. For bursts without windows: the
//! scatter of other slow-downs, which are at least 1. Where there are none, a burst with many records may have been as slow as the core
//! can make it by comparison: records fill cold memory, the copies of code were cold, other programs had the CPU. (perl on a busy
//! machine: 30,000 instructions took 0.1 to 0.5 ms, natively 3 us.) A burst with few was slower by [`MOST_PER_RECORD`] each,
//! [`MOST_PER_BURST`], and [`EXTRA`] at most.
//!
//! Native code is never faster than with all its data in the first level, as its loops and paths were timed (`path_paces`), nor than the
//! core runs instructions of which none waits ([`quickest`]). No speed is known better than to [`SPEED_OFF`].
//!
//! A window's CPU time is schedstat's. A virtual machine deducts the time that its host stole from it, in steps of up to a
//! tenth of a millisecond: 0 was seen for 26,000 instructions. So the upper bound of a single window's time is all the time that
//! passed. Windows of a region scatter by it, which is a part of their interval. (In a run of seven minutes, 60 to 140 us passed in
//! each window besides its CPU time, nearly alike in all: the thread's way out of a stop, and the tracer's to the next one.)
//!
//! Assumptions: instructions of one region take the same time in both. What windows miss of their cost, they miss in all regions: one
//! draw in all of a replicate (`expansion`).

use std::collections::HashMap;

use base::{BurstId, Nanos, Tid};
use facts::{Burst, BurstEnd, Recording};

use super::bound::TOO_MUCH;
use super::code_regions::{CodeRegion, CodeRegions};
use super::copies::native_shares;
use super::core_time::{cycle, quickest};
use super::native_pace::NativePaces;
use super::path_paces::{PathPace, PathPaces};
use super::represented::represented;
use super::windows::pairs;
use super::work::BurstWork;
use crate::profile::Profile;
use crate::traced::TracedCode;
use estimate::interval::mean_and_half;
use estimate::parameters::{COLD_BLOCK, SPEED_OFF};

/// Seconds: a burst that left our code at once says little.
const SHORTEST: f64 = 1e-6;

/// Lower bound of a burst's time outside loops with a pace: this share of what its instructions there would take at the burst's
/// mean. Both times have errors of some percent, and their difference may be small.
const LEAST_REST: f64 = 0.1;

/// Seconds until a second-level cache of 1 MiB is filled again, at 15 ns per line from the third level. Times of shorter bursts
/// show nothing.
pub(super) const COLD: f64 = 250e-6;

/// Seconds that a record takes at most: two and a half times what a loop of small blocks shows (bench/results/burst-inside).
const MOST_PER_RECORD: f64 = 2.5e-9;
/// Factor by which a burst may be slower besides: caches and TLBs that it shares with its records (the same results: a chase
/// through memory, upper end).
const EXTRA: f64 = 1.2;
/// Seconds that entering, leaving and warming up a burst take at most. Where the tracer measured what the first two usually
/// take and took that off, as much again: one stop in ten takes twice the usual (bench/results/stop-parts).
const MOST_PER_BURST: f64 = 60e-6;
/// Seconds that entering and leaving usually take: bursts of two stops and three records show 13 to 22 µs with the stops.
const USUAL_PER_BURST: f64 = 15e-6;
/// Seconds of the thread's CPU time that a stop for new code takes: 2 to 6 µs in bursts of a hundred records on a quiet
/// machine, 17 to 24 where other programs have its CPUs and caches meanwhile. The larger: bursts with many stops are left out
/// rather than taken for slow code.
const PER_STOP: f64 = 20e-6;
/// A stop for new code takes up to so many times what an empty burst shows: 40 us for that, and 60 to 200 us for each such stop, on a
/// virtual machine where wake-ups and timers are slow.
const MOST_PER_STOP: f64 = 5.0;
/// Stops of a burst that meets no new code: one on the way in and one on the way out.
const FEWEST_STOPS: u32 = 2;
/// A burst of which more than this share may be the tracer's gives no rates.
const MOST_TRACING: f64 = 0.5;
/// More than this is no comparison of the same code.
const MOST: f64 = 30.0;
/// A burst is slower than native code by no more than this, where nothing else bounds it.
const FASTEST: f64 = 10_000.0;
/// Records that can take less than this share of a burst are few.
const FEW: f64 = 0.02;
/// Seconds that an instruction takes in code that waits for little.
const PER_INSTRUCTION: f64 = 1e-9;
/// With more accesses per instruction a burst has repeated string instructions, or gathers.
const MOST_ACCESSES: f64 = 4.0;
/// With fewer windows a region has no rate, and with fewer bursts there is no usual slow-down.
const FEWEST: usize = 3;

/// What a burst did, as far as speed is concerned.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Work {
    pub(crate) burst: BurstId,
    pub(crate) tid: Tid,
    pub(crate) time: Nanos,
    /// Where most of its instructions ran.
    pub(crate) place: CodeRegion,
    /// CPU time in it.
    pub(crate) seconds: f64,
    pub(crate) instructions: f64,
    /// What it takes at least, with all data in the first level, seconds ([`least`]).
    pub(crate) least: f64,
    pub(crate) records: f64,
    pub(crate) stops: u32,
    /// Loads and stores.
    pub(crate) accesses: f64,
    /// Its time is no measure: caches were cold, or most of it was not the program's.
    pub(crate) is_untimed: bool,
    /// Most of its time was not the program's.
    pub(crate) is_foreign: bool,
}

/// Factor by which native code is faster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Speed {
    pub(crate) best: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// By which logarithms its time is off besides ([`Speeds::into_off`]).
    pub(crate) off: Option<usize>,
    /// Native time is no less than this part of its best value.
    pub(crate) least: f64,
}

impl Speed {
    /// As fast as in the burst, exactly.
    pub(crate) const KNOWN: Speed = Speed { best: 1.0, low: 1.0, high: 1.0, off: None, least: 0.0 };

    /// Between these two, evenly.
    pub(crate) fn between(best: f64, low: f64, high: f64) -> Speed {
        Speed { best, low, high, off: None, least: 0.0 }
    }

    /// Whether it is known exactly.
    pub(crate) fn is_known(self) -> bool {
        self.low >= self.high && self.off.is_none()
    }

    /// Native seconds over their best value, where the speed stands at `place` between its ends, -1 to 1.
    pub(crate) fn time_at(&self, place: f64) -> f64 {
        let end = if place < 0.0 { self.low } else { self.high };
        (self.best / end).powf(place.abs())
    }

    /// Native code is no quicker than with all its data in the first level. If it surely was, that time is wrong: on repeated
    /// data a loop may wait for its own stores.
    fn with_misses(self, work: &Work) -> Speed {
        let most = |least: f64| (work.seconds / least).max(1.0);
        let [usual, most] = [work.least, work.least / TOO_MUCH].map(most);
        if self.low > usual {
            return self;
        }
        let best = self.best.min(usual);
        Speed { best, low: self.low.min(best), high: self.high.min(most).max(best), ..self }
    }
}

/// What a burst did in one place natively: seconds of the program's own time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Part {
    pub(crate) seconds: f64,
    pub(crate) speed: Speed,
}

/// Native time of each burst in each region. In a loop with a pace it follows from the number of iterations, whatever the burst
/// took for them. The rest of the burst's time is divided by instructions, each as long as it takes in its region.
pub(crate) fn native_parts(
    all: &[BurstWork],
    works: &[Work],
    speeds: &Speeds,
    (places, paths): (&CodeRegions, &PathPaces),
) -> Vec<Part> {
    let mut parts = Vec::with_capacity(all.len());
    let bursts = || all.chunk_by(|one, next| one.burst == next.burst).zip(works);
    let native = |whole: &Work| whole.seconds / speeds.of(whole).best;
    // Instructions of each place in a second of all: bursts begin at random moments, and each counts alike.
    let mut instructions: HashMap<CodeRegion, f64> = HashMap::new();
    for (of_burst, whole) in bursts() {
        let seconds = native(whole).max(SHORTEST);
        for work in of_burst {
            *instructions.entry(work.place).or_default() += effort(work) / seconds;
        }
    }
    let mean = |place: CodeRegion| {
        let Some(share) = places.share(place) else { return 1.0 };
        let of = instructions.get(&place).copied().filter(|count| *count > 0.0);
        of.map_or(0.0, |count| share / count)
    };
    for (of_burst, whole) in bursts() {
        let (speed, id) = (speeds.of(whole), whole.burst);
        let native = native(whole);
        // A burst of summarised loops runs at native speed, and windows, which count each iteration, know it less.
        let is_slowed = whole.is_untimed || is_slowed(whole);
        let known = |work: &BurstWork| match places.paced(work.place) {
            Some(paced) => Some((places.iterations(id, work.place) * paced.seconds, Speed::KNOWN)),
            None => {
                let (each, speed) = speeds.each(work, whole).filter(|_| is_slowed)?;
                let seconds = effort(work) * each;
                let least = (least(work, paths) / TOO_MUCH / seconds).min(1.0);
                Some((seconds * places.own_share(work.place), Speed { least, ..speed }))
            }
        };
        // In a burst also the kernel's time passes.
        let with_kernel = |work| Some(known(work)?.0 / places.own_share(work.place));
        let in_known: f64 = of_burst.iter().filter_map(with_kernel).sum();
        let long = |work: &BurstWork| effort(work) * mean(work.place);
        let others: f64 = of_burst.iter().filter(|work| known(work).is_none()).map(long).sum();
        let whole: f64 = of_burst.iter().map(long).sum();
        let part = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 0.0 };
        // The burst's own time tells it, or else the known parts' and what samples say of both.
        let usual = in_known * part(others, whole - others);
        let rest = (native - in_known)
            .max(LEAST_REST * native * part(others, whole))
            .max(LEAST_REST * usual);
        let part = |work: &BurstWork| match known(work) {
            Some((seconds, speed)) => Part { seconds, speed },
            None => {
                let seconds = rest * part(long(work), others);
                Part { seconds: seconds * places.own_share(work.place), speed }
            }
        };
        parts.extend(of_burst.iter().map(part));
    }
    parts
}

/// The part of all samples' time that is outside of the kernel.
fn own(profile: &Profile<'_>) -> f64 {
    let (mut own, mut all) = (0.0, 0.0);
    for cell in profile.stack_cells() {
        let amount = cell.weight.amount() as f64;
        own += if cell.kernel { 0.0 } else { amount };
        all += amount;
    }
    if own > 0.0 { own / all } else { 1.0 }
}

/// Speeds of bursts.
#[derive(Debug, Default)]
pub(crate) struct Speeds {
    /// For bursts with a window right after them.
    own: HashMap<BurstId, Speed>,
    /// Native seconds of an instruction, by all windows.
    paces: NativePaces,
    /// Slow-downs that windows show for the bursts of all regions: those that show how fast code is, and the others.
    usual: [Option<Speed>; 2],
    /// Seconds that entering and leaving a burst take at most.
    most_per_burst: f64,
    /// Seconds of an instruction where a core runs as many as it can.
    quickest: f64,
}

impl Speeds {
    /// From the pairs of each region. `works` are bursts in the order of time.
    pub(crate) fn new(
        profile: &Profile<'_>,
        (code, places): (&TracedCode, &CodeRegions),
        works: &[Work],
        regions: impl Iterator<Item = CodeRegion>,
    ) -> Speeds {
        let recording = profile.recording;
        let mut pairs = pairs(recording, (code, places), works);
        // A window that ended while caches were cold tells a rate only where all do: threads that meet every few
        // microseconds have no longer ones.
        let mut long: HashMap<CodeRegion, usize> = HashMap::new();
        for (_, pair) in pairs.iter().filter(|(_, pair)| pair.is_long()) {
            *long.entry(pair.place).or_default() += 1;
        }
        pairs.retain(|(_, pair)| {
            pair.is_long() || long.get(&pair.place).is_none_or(|count| *count < FEWEST)
        });
        let windows = pairs.iter().map(|(_, pair)| &pair.window);
        let shares = native_shares(&windows.collect::<Vec<_>>(), cycle(recording), own(profile));
        pairs.iter_mut().zip(shares).for_each(|((_, pair), share)| pair.share = share);
        let moments: Vec<Nanos> = pairs.iter().map(|(_, pair)| pair.time).collect();
        let weights = represented(profile, &moments);
        let windows = pairs.iter().zip(&weights);
        let windows =
            windows.map(|((_, pair), weight)| (pair, *weight, pair.between(pair.counted.1)));
        let windows: Vec<_> = windows.collect();
        let paces = NativePaces::new(&windows, places, regions, quickest(recording));
        let (mut own, mut all) = (HashMap::new(), [Vec::new(), Vec::new()]);
        for (work, pair) in pairs {
            let slowed = work.filter(|work| is_slowed(work));
            if let Some((work, speed)) = slowed.zip(pair.speed(pair.between(pair.passed))) {
                all[usize::from(work.is_untimed)].push(speed.best.ln());
                own.insert(work.burst, speed);
            }
        }
        Speeds {
            own,
            paces,
            usual: all.map(|logarithms| usual_speed(&logarithms)),
            quickest: quickest(recording),
            most_per_burst: toll(recording).unwrap_or(MOST_PER_BURST),
        }
    }

    /// How much faster than in this burst.
    pub(crate) fn of(&self, work: &Work) -> Speed {
        let Speed { best, low, high, .. } =
            self.by_windows(work).unwrap_or_else(|| self.by_time(work));
        let off = 1.0 + SPEED_OFF.value;
        Speed::between(best, low.min(best / off), high.max(best * off)).with_misses(work)
    }

    /// Whether windows tell how long a burst took natively, whatever it took.
    pub(super) fn is_counted(&self, work: &Work) -> bool {
        self.paces.tells_all() || self.paces.tells(work.place, 1) || self.by_windows(work).is_some()
    }

    /// Native seconds of an instruction of a burst in a region, where windows tell it. A burst whose own time tells nothing, and
    /// which no window followed, is as fast as windows are anywhere.
    fn each(&self, work: &BurstWork, whole: &Work) -> Option<(f64, Speed)> {
        let is_lost = whole.is_untimed && self.by_windows(whole).is_none();
        let few = || self.paces.of(work.place).or_else(|| self.paces.anywhere(work.place));
        match self.paces.tells(work.place, FEWEST) {
            true => self.paces.of(work.place),
            false => is_lost.then(few)?,
        }
    }

    /// Logarithms of native times over their best value, by [`Speed::off`].
    pub(crate) fn into_off(self) -> Vec<Vec<f64>> {
        self.paces.into_off()
    }

    fn by_windows(&self, work: &Work) -> Option<Speed> {
        let own = self.own.get(&work.burst).copied();
        own.filter(|_| is_like_others(work.accesses, work.instructions))
    }

    /// Native seconds by the burst's own time and the slow-down of bursts in other regions.
    fn by_time(&self, work: &Work) -> Speed {
        // What records, cold caches and other programs added is not known: the core may have run it as fast as it can.
        let least = work.least.max(work.instructions * self.quickest);
        let fastest = (work.seconds / least).clamp(1.0, FASTEST);
        let (best, most) = match (work.is_untimed, is_slowed(work)) {
            (true, _) => (fastest.sqrt(), fastest),
            // Not by more than bursts in cold caches are.
            (false, true) => {
                (1.0, self.usual[1].map_or(fastest, |cold| cold.high.clamp(1.0, fastest)))
            }
            (false, false) => (1.0, self.slowest(work)),
        };
        let usual = self.usual[usize::from(work.is_untimed)];
        let usual = usual.unwrap_or(Speed::between(best, 1.0, most));
        let best = usual.best.clamp(1.0, most);
        Speed::between(best, usual.low.clamp(1.0, best), usual.high.clamp(best, most))
    }

    /// Upper bound of the slow-down of a burst with few records.
    fn slowest(&self, work: &Work) -> f64 {
        let stops = f64::from(work.stops.saturating_sub(2)) * PER_STOP;
        let ours = work.records * MOST_PER_RECORD + stops + self.most_per_burst;
        (EXTRA * work.seconds / (work.seconds - ours).max(work.seconds / MOST)).min(MOST)
    }
}

/// Instructions, of which a repeated string instruction is as many as others need for its accesses.
fn effort(work: &BurstWork) -> f64 {
    work.instructions.max(work.accesses() / MOST_ACCESSES)
}

/// Seconds that a burst's work in a region takes at least: its loops with all data in the first level, and its other instructions as the
/// quickest path of its function.
pub(super) fn least(work: &BurstWork, paths: &PathPaces) -> f64 {
    let others = (work.instructions - work.no_miss_instructions).max(0.0);
    work.no_miss_time.low + others * paths.of(work).map_or(0.0, PathPace::quickest)
}

/// Whether instructions with so many accesses take as long as others: repeated string instructions do not.
fn is_like_others(accesses: f64, instructions: f64) -> bool {
    accesses <= MOST_ACCESSES * instructions
}

/// Range of the slow-down of one more burst, from the logarithms of those of some: where one more lies, with 95 %.
fn usual_speed(logarithms: &[f64]) -> Option<Speed> {
    if logarithms.len() < FEWEST {
        return None;
    }
    let (mean, half) = mean_and_half(logarithms, 1.0)?;
    Some(Speed::between(mean.exp(), (mean - half).exp(), (mean + half).exp()))
}

/// Whether a burst took longer by its records, and not only its window by counters. New code makes bursts long by stops.
fn is_slowed(work: &Work) -> bool {
    work.records * MOST_PER_RECORD >= FEW * work.seconds.min(work.instructions * PER_INSTRUCTION)
}

/// CPU time of a thread in a burst. The kernel's clock may be late when it begins, and then has time of before in it: it is
/// not longer than the burst.
pub(crate) fn running(burst: &Burst) -> Nanos {
    let passed = burst.in_code();
    let own = passed - burst.stand_still.min(passed);
    // None at all is what a host stole.
    let counted = burst.cpu_time.filter(|cpu| cpu.0 > 0);
    counted.map_or(own, |cpu| cpu.min(passed))
}

/// Seconds of stops that were taken off a burst's CPU time.
pub(super) fn taken_off(burst: &Burst, toll: Option<f64>) -> f64 {
    toll.unwrap_or(0.0) * f64::from(burst.entered())
}

/// Whether a burst's CPU time is mostly the program's. One that meets new code again and again has stops in it and little
/// else: its accesses per second would be far too few.
pub(crate) fn tells_rates(burst: &Burst, toll: Option<f64>) -> bool {
    // Where the tracer took all of the CPU time off for its stops, the time that passed is of these, too.
    let nothing_left = burst.cpu_time == Some(Nanos(0)) && burst.entered() >= FEWEST_STOPS;
    let running = if nothing_left { 0.0 } else { running(burst).seconds() };
    // In calls a thread stops for no new code.
    let is_new = burst.in_calls.is_none_or(|time| time.0 == 0);
    let new_code = if is_new { f64::from(burst.entered().saturating_sub(1)) } else { 0.0 };
    // Code that it waited for without a stop is cold.
    let cold = f64::from(burst.answers.unwrap_or(0)) * COLD_BLOCK.value;
    let tracing = match toll {
        // What stops for new code take besides may be several times that.
        Some(toll) => new_code * (MOST_PER_STOP * toll).max(PER_STOP),
        None => USUAL_PER_BURST + f64::from(burst.entered() + 1) * PER_STOP,
    };
    taken_off(burst, toll) <= running && tracing + cold <= MOST_TRACING * running
}

/// Whether a burst tells only what code does, and not how fast: it ended, by its records, while caches were still cold from the tracer's
/// own work.
pub(super) fn is_cold(burst: &Burst) -> bool {
    burst.end == BurstEnd::Full && running(burst).seconds() < COLD
}

/// Seconds that were taken off a burst's CPU time for each way into translated code and out again. Each takes some: where the
/// median is 0, the thread's clock did not show it, and it is unknown.
pub(crate) fn toll(recording: &Recording) -> Option<f64> {
    let toll = recording.run.own_cost.burst_toll_ns.filter(|toll| *toll > 0);
    toll.map(|toll| Nanos(toll).seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_that_were_cut_short_or_stopped_often_tell_no_rates() {
        let mut builder = testkit::recording::RecordingBuilder::new();
        builder.burst(1, 1, &[]);
        let recording = builder.build();
        let of = |cpu_time, stops| Burst {
            cpu_time: Some(Nanos(cpu_time)),
            elapsed: Nanos(8_000_000),
            stand_still: Nanos(6_900_000),
            stops,
            ..recording.bursts[0].clone()
        };
        let toll = Some(6e-6);
        assert!(!tells_rates(&of(0, 66), toll));
        assert!(tells_rates(&of(4_500_000, 66), toll));
        assert!(!tells_rates(&of(800_000, 66), toll), "65 stops for new code");
        let calls = Burst { in_calls: Some(Nanos(1)), entries: Some(66), ..of(800_000, 140) };
        assert!(tells_rates(&calls, toll));
        let answered = |answers| Burst { answers: Some(answers), ..of(800_000, 2) };
        assert!(tells_rates(&answered(300), toll) && !tells_rates(&answered(500), toll));
        // A window of two stops: a host stole the thread's time.
        assert!(tells_rates(&of(0, 2), toll));
    }
}
