//! What words of memory tell of copies: counters, positions and sizes that rise as the program works.
//!
//! What for: by how much they rise per second natively, over by how much in count windows, corrects the native share of windows. What
//! not: which words (`burst::odometers`), the shares (`copies`).
//!
//! 1. A word's rises in windows, per native second as that is known beforehand, and natively, per second of the program's own time until the
//!    thread's next stop, are both over its mean native rate: then words of all kinds are alike.
//! 2. Of the words of one window the mean counts, each by how evenly it rises: by the square of its rate's relative scatter from window
//!    to window, but no less than natively, and no more than that would be in windows if it rose by chance. A word of few windows scatters for
//!    all that is known.
//! 3. Windows are where the program's time is. So the ratio is that of the sums over all windows: what each word does outside of some
//!    regions does not matter.
//!
//! Assumptions: the kernel's part of the CPU time is the same in all stretches. No word follows the clock.

use std::collections::BTreeMap;

use base::{Pid, RemoteAddr};

use super::copies::Window;

/// A word that moves the other way this part of the time, or more often, is no odometer: a loop's counter is set back now and then.
const BACK: usize = 16;
/// A word scatters as if it had in so many further windows as much as its mean.
const BEFORE: f64 = 3.0;

/// What words did in a window, and natively behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    /// By how much each rose in both.
    pub(super) rose: Vec<((Pid, RemoteAddr), [f64; 2])>,
    /// CPU time behind the window.
    pub(super) seconds: f64,
}

/// A window, by its place, and by how much a word rose in it and behind it.
type Moves = (usize, [f64; 2]);

/// The rates of a word in a window and natively, and the seconds of both.
#[derive(Clone, Copy)]
struct Pass {
    window: usize,
    inside: f64,
    natively: f64,
    seconds: [f64; 2],
}

/// Native rates and rates in windows, of windows with words. `native`: native seconds of each window, as they are known beforehand; `own`:
/// the part of CPU time that is not the kernel's.
pub(super) fn pairs(windows: &[&Window], native: &[f64], own: f64) -> Vec<(f64, f64)> {
    let mut words: BTreeMap<(Pid, RemoteAddr), Vec<Moves>> = BTreeMap::new();
    for (at, window) in windows.iter().enumerate() {
        for (word, rose) in &window.words.rose {
            words.entry(*word).or_default().push((at, *rose));
        }
    }
    // By window: sums of weights, of native rates and of rates in windows.
    let mut sums: BTreeMap<usize, [f64; 3]> = BTreeMap::new();
    for moves in words.into_values() {
        let passes = passes(windows, native, own, &moves);
        let Some((rate, weight)) = weighed(&passes) else { continue };
        for pass in passes {
            let sums = sums.entry(pass.window).or_default();
            sums[0] += weight;
            sums[1] += weight * pass.natively / pass.seconds[1] / rate;
            sums[2] += weight * pass.inside / pass.seconds[0] / rate;
        }
    }
    let pair = |[weight, natively, inside]: [f64; 3]| (natively / weight, inside / weight);
    sums.into_values().map(pair).collect()
}

/// Where a word moved its way, if it has one.
fn passes(windows: &[&Window], native: &[f64], own: f64, moves: &[Moves]) -> Vec<Pass> {
    let all = || moves.iter().flat_map(|(_, both)| both);
    let (rose, fell) =
        (all().filter(|by| **by > 0.0).count(), all().filter(|by| **by < 0.0).count());
    if rose.min(fell) * BACK > rose.max(fell) {
        return Vec::new();
    }
    let way = if rose > fell { 1.0 } else { -1.0 };
    let pass = |(window, both): &Moves| {
        let [inside, natively] = both.map(|by| by * way);
        let seconds = [native[*window], windows[*window].words.seconds * own];
        let is_forward = inside >= 0.0 && natively >= 0.0 && seconds.iter().all(|one| *one > 0.0);
        is_forward.then_some(Pass { window: *window, inside, natively, seconds })
    };
    moves.iter().filter_map(pass).collect()
}

/// A word's native rate, and its weight.
fn weighed(passes: &[Pass]) -> Option<(f64, f64)> {
    type Rate = (f64, f64);
    let scatter = |rate: &dyn Fn(&Pass) -> Rate| {
        let sum = |sum: Rate, one: Rate| (sum.0 + one.0, sum.1 + one.1);
        let (rose, seconds) = passes.iter().map(rate).fold((0.0, 0.0), sum);
        let mean = rose / seconds;
        let square = |pass: &Pass| {
            let (rose, seconds) = rate(pass);
            seconds * (rose / seconds / mean - 1.0).powi(2)
        };
        let found = passes.iter().map(square).sum::<f64>() / seconds;
        let count = passes.len() as f64;
        (mean, (found * count + BEFORE) / (count + BEFORE), seconds)
    };
    let (rate, natively, long) = scatter(&|pass| (pass.natively, pass.seconds[1]));
    let (inside, in_windows, short) = scatter(&|pass| (pass.inside, pass.seconds[0]));
    if rate <= 0.0 || rate.is_nan() {
        return None;
    }
    let by_chance = natively * long / short;
    let found = if inside > 0.0 { in_windows.min(by_chance) } else { by_chance };
    Some((rate, 1.0 / found.max(natively)))
}
