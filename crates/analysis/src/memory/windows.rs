//! Count windows: what each did, and between which bounds its native time lies.
//!
//! What for: the pairs of a window and the burst in front of it. What not: what all windows say of a region of the code
//! (`native`), what copies of blocks take (`copies`).

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, BurstId, Nanos, Pid, Tid};
use estimate::Bounds;
use facts::{Burst, BurstEnd, BurstFlavour, Recording, decode_records};

use super::code_regions::{CodeRegion, CodeRegions};
use super::copies::{NativeShare, Window};
use super::core_time::{branch_miss, quickest};
use super::native::{COLD, Speed, Work, running, taken_off, tells_rates, toll};
use super::words::Words;
use crate::traced::{TracedCode, pieces_by_burst};

/// A window later than this after a burst is no pair with it.
const NEAR: Nanos = Nanos(50_000_000);

/// A window and the burst before it, or sums of many.
#[derive(Debug)]
pub(super) struct Pair {
    /// When the window began.
    pub(super) time: Nanos,
    /// Where most of its instructions ran.
    pub(super) place: CodeRegion,
    /// Instructions and seconds in the burst; one a second where there is none.
    pub(super) traced: (f64, f64),
    /// The same in the window.
    pub(super) counted: (f64, f64),
    /// Seconds that passed in the window, without the usual time of its stops: what it took at most.
    pub(super) passed: f64,
    /// Seconds that its instructions take at least.
    pub(super) least: f64,
    /// What it tells of its native share.
    pub(super) window: Window,
    /// What of its time is native.
    pub(super) share: NativeShare,
    /// Its instructions by region.
    pub(super) by_place: BTreeMap<CodeRegion, f64>,
}

/// What native code takes at most: each access waits for memory and a page walk, one after the other, and behind each instruction a
/// branch was mispredicted. A burst that took longer has time in it that is not the program's: of stops, of questions for code, or of a
/// host that does not say what it takes.
#[derive(Clone, Copy)]
pub(super) struct Slowest {
    /// Seconds of an access; unknown where the latency ladder was not measured.
    access: Option<f64>,
    instruction: f64,
}

impl Slowest {
    pub(super) fn of(recording: &Recording) -> Slowest {
        let ladder = recording.run.calibration.iter().flat_map(|one| &one.ladder);
        let longest = ladder.filter_map(|point| point.latency.value).max_by(f64::total_cmp);
        Slowest {
            access: longest.map(|nanos| nanos * 1e-9),
            instruction: branch_miss(recording).high,
        }
    }

    /// Whether so many instructions with so many accesses can have taken so long.
    pub(super) fn allows(self, seconds: f64, instructions: f64, accesses: f64) -> bool {
        let most = |access| instructions * self.instruction + accesses * access;
        self.access.is_none_or(|access| seconds <= most(access))
    }
}

/// What words of memory did in windows and behind them.
fn words(recording: &Recording) -> HashMap<BurstId, Words> {
    let pids: HashMap<BurstId, Pid> =
        recording.bursts.iter().map(|burst| (burst.id, burst.pid)).collect();
    let mut words: HashMap<BurstId, Words> = HashMap::new();
    for advance in &recording.word_advances {
        let Some(pid) = pids.get(&advance.burst) else { continue };
        let words = words.entry(advance.burst).or_default();
        let by = [advance.inside, advance.natively].map(|by| by.cast_signed() as f64);
        words.rose.push(((*pid, advance.address), by));
        words.seconds = advance.cpu_time.seconds();
    }
    words
}

/// All windows, each with the burst in front of it where that one was looked at: a report that leaves traces out to save time needs
/// no less of windows, which cost it little.
pub(super) fn pairs<'w>(
    recording: &Recording,
    (code, places): (&TracedCode, &CodeRegions),
    works: &'w [Work],
) -> Vec<(Option<&'w Work>, Pair)> {
    let (pieces, toll) = (pieces_by_burst(recording), toll(recording));
    let (quickest, slowest) = (quickest(recording), Slowest::of(recording));
    let mut last: HashMap<Tid, Vec<&'w Work>> = HashMap::new();
    works.iter().for_each(|work| last.entry(work.tid).or_default().push(work));
    let mut pairs = Vec::new();
    let counting = |burst: &&Burst| burst.flavour == BurstFlavour::Count && !burst.records_lost;
    let counts = |burst: BurstId| {
        let mut counts: HashMap<BlockId, u64> = HashMap::new();
        for piece in pieces.get(&burst).map_or(&[][..], Vec::as_slice) {
            let _ = decode_records(piece, |record| {
                *counts.entry(record.block).or_default() += record.iterations;
            });
        }
        counts
    };
    let mut words = words(recording);
    let full: HashMap<BurstId, &Burst> = recording
        .bursts
        .iter()
        .filter(|burst| burst.flavour == BurstFlavour::Count)
        .map(|burst| (burst.id, burst))
        .collect();
    let is_followed = |one: &Burst| {
        let next = full.get(&BurstId(one.id.0.wrapping_add(1)));
        next.is_some_and(|next| next.tid == one.tid && next.time == one.time + one.elapsed)
    };
    for window in recording.bursts.iter().filter(counting) {
        let before = last.get(&window.tid).map_or(&[][..], Vec::as_slice);
        let near = before.partition_point(|work| work.time <= window.time);
        // A window speaks for a burst only while the program is in the same phase.
        let is_near = |work: &&Work| window.time - work.time <= NEAR && work.seconds > 0.0;
        let work = near.checked_sub(1).map(|index| before[index]).filter(is_near);
        let seconds = running(window).seconds();
        if seconds <= 0.0 || !tells_rates(window, toll) {
            continue;
        }
        // It met new code at once, while caches were cold from the tracer.
        if window.end == BurstEnd::Untranslated && seconds < COLD {
            continue;
        }
        // The code was cold, and the next window shows how fast it is.
        if is_followed(window) {
            continue;
        }
        let taken_off = taken_off(window, toll);
        let (mut instructions, mut accesses) = (0.0, 0.0);
        let mut blocks = 0.0;
        let mut by_place: BTreeMap<CodeRegion, f64> = BTreeMap::new();
        let counted = counts(window.id);
        for (id, times) in &counted {
            let times = *times as f64;
            blocks += times;
            if let Some(block) = code.counted.get(id) {
                let own = times * block.instructions as f64;
                instructions += own;
                accesses += times * block.accesses;
                // Where several call a function, its counts do not tell which did.
                let place = places
                    .of_counted(*id)
                    .filter(|one| !places.is_shared(*one) && !places.is_passed(*one));
                if let Some(place) = place {
                    *by_place.entry(place).or_default() += own;
                }
            }
        }
        if !slowest.allows(seconds, instructions, accesses) {
            continue;
        }
        let words = words.remove(&window.id).unwrap_or_default();
        let observed = Window { counts: counted, seconds, words };
        let most = by_place.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let place = most.map(|(place, _)| *place).or_else(|| work.map(|work| work.place));
        if let Some(place) = place.filter(|_| instructions > 0.0) {
            let pair = Pair {
                time: window.time,
                place,
                traced: work.map_or((1.0, 1.0), |work| (work.instructions, work.seconds)),
                counted: (instructions, seconds),
                passed: seconds.max(window.in_code().seconds() - taken_off),
                // A core may take a comparison and the branch behind it as one instruction.
                least: (instructions - blocks).max(0.0) * quickest,
                window: observed,
                share: NativeShare::WHOLE,
                by_place,
            };
            pairs.push((work, pair));
        }
    }
    pairs
}

impl Pair {
    /// Whether the window lasted for longer than caches are cold.
    pub(super) fn is_long(&self) -> bool {
        self.counted.1 >= COLD
    }

    /// Native seconds of what the window did, which took `passed` at most.
    pub(super) fn between(&self, passed: f64) -> Bounds {
        let (share, seconds) = (self.share, self.counted.1);
        let low = (seconds * share.low).max(self.least);
        let high = (passed * share.high).max(low);
        Bounds { best: (seconds * share.best).clamp(low, high), low, high }
    }

    /// Ratio of the burst's time to that of its own window; the scatter of bursts tells how likely it is for others.
    pub(super) fn speed(&self, native: Bounds) -> Option<Speed> {
        let speed = |seconds: f64| self.counted.0 / seconds / (self.traced.0 / self.traced.1);
        let speed = Speed::between(speed(native.best), speed(native.high), speed(native.low));
        let is_one = |speed: f64| speed.is_finite() && speed > 0.0;
        [speed.low, speed.best, speed.high].into_iter().all(is_one).then_some(speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 250 ns, a fifth to all of it native: its instructions take 100 ns at least.
    #[test]
    fn no_window_is_shorter_than_its_instructions() {
        let pair = |least: f64| Pair {
            time: Nanos(0),
            place: CodeRegion::Loop(0),
            traced: (1.0, 1.0),
            counted: (1000.0, 250e-9),
            passed: 250e-9,
            least,
            window: Window::default(),
            share: NativeShare { best: 0.6, low: 0.2, high: 1.0 },
            by_place: BTreeMap::new(),
        };
        let of = |least: f64| pair(least).between(250e-9);
        let free = of(0.0);
        assert!((free.low - 50e-9).abs() < 1e-12 && (free.best - 150e-9).abs() < 1e-12, "{free:?}");
        assert_eq!(of(100e-9), Bounds { low: 100e-9, ..free });
        assert_eq!(of(200e-9), Bounds { low: 200e-9, best: 200e-9, high: 250e-9 });
        assert_eq!(of(300e-9), Bounds::exactly(300e-9));
    }
}
