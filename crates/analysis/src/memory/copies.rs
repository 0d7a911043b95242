//! The native share of count windows.
//!
//! What for: copies of blocks take longer than native code: counters, jumps to the next block, look-ups of returns, branches that the core has
//! not learned there, code that does not fit into its caches. What not: the speed of bursts (`native`).
//!
//! 1. *Beforehand*: where a block takes w in a window on average, w / (w + [`COPIES`]) of that is native. So long blocks hardly take longer,
//!    and short ones several times as long. How far that is off in one program is known, too: [`COPIES_APART`].
//! 2. *Words of memory* that rise as the program works correct that for all windows alike (`words`): by their native rate over that in windows.
//!    How far regions of the code are apart from each other does not matter: what windows found in each is compared with the time of all
//!    windows (`native_pace`).

use std::collections::HashMap;

use base::BlockId;
use estimate::corrected;
use estimate::parameters::{COPIES, COPIES_APART};

use super::words::{Words, pairs};

/// A native share outside of these is no comparison of the same code.
const LEAST: f64 = 0.1;
const MOST: f64 = 2.0;

/// Native share of a window's time, 0 to 1; more where a core runs copies faster than native code. What is not known of it is the same in all
/// windows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NativeShare {
    pub(super) best: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl NativeShare {
    /// All of it.
    pub(super) const WHOLE: NativeShare = NativeShare { best: 1.0, low: 1.0, high: 1.0 };
}

/// What a window tells of its native share.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// How often blocks ran.
    pub(super) counts: HashMap<BlockId, u64>,
    /// How long it took.
    pub(super) seconds: f64,
    /// By how much words of memory rose.
    pub(super) words: Words,
}

/// Native shares of windows, in their order, where a cycle of the time-stamp counter takes so many seconds, and `own` of the program's CPU
/// time is outside of the kernel.
pub(super) fn native_shares(windows: &[&Window], cycle: f64, own: f64) -> Vec<NativeShare> {
    let usual = |window: &&Window| {
        let blocks: u64 = window.counts.values().sum();
        let each = window.seconds / blocks.max(1) as f64;
        each / (each + COPIES.value * cycle)
    };
    let usual: Vec<f64> = windows.iter().map(usual).collect();
    let native: Vec<f64> =
        windows.iter().zip(&usual).map(|(one, share)| one.seconds * share).collect();
    let (faster, half) = corrected(&pairs(windows, &native, own), COPIES_APART.value);
    let of = |usual: &f64| {
        let log = usual.ln() - faster;
        let [best, low, high] =
            [log, log - half, log + half].map(|log| log.exp().clamp(LEAST, MOST));
        NativeShare { best, low, high }
    };
    usual.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use base::{Pid, RemoteAddr};

    use super::*;

    const CYCLE: f64 = 0.4e-9;

    /// A window of 100,000 blocks, which take so many nanoseconds each.
    fn window(each: f64) -> Window {
        let counts = [(BlockId(1), 1000), (BlockId(2), 99_000)].into();
        Window { counts, seconds: 100_000.0 * each * 1e-9, words: Words::default() }
    }

    fn shares(windows: &[Window], own: f64) -> Vec<NativeShare> {
        native_shares(&windows.iter().collect::<Vec<_>>(), CYCLE, own)
    }

    #[test]
    fn long_blocks_take_hardly_longer_in_copies() {
        let shares = shares(&[window(0.5), window(50.0)], 1.0);
        let usual = |each: f64| each / (each + COPIES.value * 0.4);
        for (share, each) in shares.iter().zip([0.5, 50.0]) {
            assert!((share.best / usual(each) - 1.0).abs() < 1e-6, "{shares:?}");
            assert!(share.low < 0.7 * share.best && share.high > 1.4 * share.best, "{shares:?}");
        }
        assert!(super::tests::shares(&[], 1.0).is_empty());
    }

    /// Natively a word rises three times as fast as in windows, in the half of the CPU time that is not the kernel's.
    #[test]
    fn words_of_memory_tell_what_copies_take() {
        let window = |at: usize| {
            let one = window(1.0);
            let noise = 1.0 + 0.2 * (at % 3) as f64;
            let [inside, natively] = [1e9 * one.seconds * noise, 3e9 * 0.03 / 2.0];
            let word = (Pid(1), RemoteAddr(0x1000));
            let words = Words { rose: vec![(word, [inside, natively])], seconds: 0.03 };
            Window { words, ..one }
        };
        let all: Vec<Window> = (0..60).map(window).collect();
        let share = shares(&all, 0.5)[0];
        assert!((share.best / 0.4 - 1.0).abs() < 0.05, "{share:?}");
        assert!(share.high / share.low > 1.05 && share.high / share.low < 1.3, "{share:?}");
        let few = shares(&all[..6], 0.5)[0];
        assert!(few.high / few.low > 1.1 * share.high / share.low, "{few:?} {share:?}");
    }
}
