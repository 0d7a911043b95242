//! Whether a change makes a program faster, from runs with it and without.
//!
//! What for: `fathom try`. Each round runs the program unchanged and with the change; the logarithm of the quotient of both times
//! is one observation, so that disturbances of a whole round cancel. The mean of these, with Student's interval, is the change.
//! What not: running programs.
//!
//! Testing again after each round until the answer pleases would find differences where there are none. So decisions are made only
//! at the rounds of [`LOOKS`], and the 5 % for a false alarm are divided by the number of these and of changes that are tried
//! together (Bonferroni): in 95 of 100 trials *all* intervals hold the truth, at all of these rounds.
//!
//! A change is given up early if it certainly brings no gain of 1 %, be it slower or not: the size of a loss is not needed.
//!
//! Assumption: rounds are independent, and the logarithms are close to normal.

use facts::{Evidence, Metric};

use estimate::student::quantile;

/// After these numbers of rounds the trial decides whether more are needed.
pub const LOOKS: [usize; 7] = [4, 6, 9, 13, 19, 28, 41];
/// A change of less than this makes no difference worth a line in a script.
const NONE_BELOW: f64 = 0.01;
const FALSE_ALARM: f64 = 0.05;
/// An interval that spans more than this factor to either side says nothing.
const WIDEST: f64 = 3.0;
/// With fewer rounds the scatter is not known well enough to say how many more it takes.
const FEWEST_TO_SAY: usize = 3;
/// More rounds than these take too long.
const MOST_MORE: usize = 200;

/// What a change did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Less time, beyond doubt.
    Faster,
    /// More time, beyond doubt.
    Slower,
    /// Less than 1 % either way, beyond doubt.
    Same,
    /// No less time by 1 %, beyond doubt; whether more is open.
    NoGain,
    /// Not clear yet.
    Open,
}

/// The times of one round, seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Round {
    /// Without the change.
    pub plain: f64,
    /// With the change.
    pub changed: f64,
}

/// The effect of one change.
#[derive(Clone, PartialEq, Debug)]
pub struct Effect {
    /// Change of the time, percent; negative is faster.
    pub change: Metric,
    /// What that means.
    pub verdict: Verdict,
}

/// How much longer each round took with the change than without, as a logarithm.
fn logarithms(rounds: &[Round]) -> Vec<f64> {
    let logarithms = rounds.iter().map(|round| (round.changed / round.plain).ln());
    logarithms.filter(|logarithm| logarithm.is_finite()).collect()
}

/// The effect over `rounds`, of which none has a time of 0; `changes` are tried side by side, 1 or more.
#[must_use]
pub fn effect(rounds: &[Round], changes: usize) -> Effect {
    let logarithms = logarithms(rounds);
    let (n, count) = (logarithms.len() as f64, logarithms.len());
    if count < 2 {
        let why = format!("{count} rounds were run; an interval needs at least two");
        return Effect { change: Metric::unavailable("percent", &why), verdict: Verdict::Open };
    }
    let mean = logarithms.iter().sum::<f64>() / n;
    let squares: f64 = logarithms.iter().map(|logarithm| (logarithm - mean).powi(2)).sum();
    let looks = (LOOKS.len() * changes.max(1)) as f64;
    let half =
        quantile((count - 1) as f64, 1.0 - FALSE_ALARM / looks) * (squares / (n - 1.0) / n).sqrt();
    let (low, high) = (mean - half, mean + half);
    let verdict = match () {
        () if high < 0.0 && mean < -NONE_BELOW => Verdict::Faster,
        () if low > 0.0 && mean > NONE_BELOW => Verdict::Slower,
        () if low > -NONE_BELOW && high < NONE_BELOW => Verdict::Same,
        () if low > -NONE_BELOW => Verdict::NoGain,
        () => Verdict::Open,
    };
    let percent = |logarithm: f64| logarithm.exp_m1() * 100.0;
    let interval = (percent(low), percent(high));
    let change =
        Metric::with_interval(Evidence::Timed, percent(mean), "percent", interval, count as u64);
    let change = match half < WIDEST.ln() {
        true => change,
        false => {
            let why = format!("{count} rounds scatter too much for an interval");
            Metric { low: None, high: None, note: Some(why), ..change }
        }
    };
    Effect { change, verdict }
}

/// After how many more rounds an open change would be clear, if they went like those before: as few as make its interval
/// lie on one side of 0, or leave no gain of 1 %. `None` where that is more than [`MOST_MORE`], or too few were run to say.
#[must_use]
pub fn more_rounds(rounds: &[Round], changes: usize) -> Option<usize> {
    let logarithms = logarithms(rounds);
    let (n, count) = (logarithms.len() as f64, logarithms.len());
    if count < FEWEST_TO_SAY {
        return None;
    }
    let mean = logarithms.iter().sum::<f64>() / n;
    let squares: f64 = logarithms.iter().map(|logarithm| (logarithm - mean).powi(2)).sum();
    let looks = (LOOKS.len() * changes.max(1)) as f64;
    // How far the interval's ends must be: from 0 for a difference that counts, from 1 % less for none.
    let far = if mean < -NONE_BELOW { -mean } else { mean + NONE_BELOW };
    let enough = (count + 1..=count + MOST_MORE).find(|all| {
        let half = quantile((all - 1) as f64, 1.0 - FALSE_ALARM / looks)
            * (squares / (n - 1.0) / *all as f64).sqrt();
        half < far
    })?;
    // Decisions fall at the looks only.
    let look = LOOKS.into_iter().find(|look| *look >= enough).unwrap_or(enough);
    Some(look - count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers, about normal: the sum of twelve uniform ones less 6.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            let uniform = || {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (self.0 >> 11) as f64 / (1u64 << 53) as f64
            };
            std::iter::repeat_with(uniform).take(12).sum::<f64>() - 6.0
        }
    }

    /// A trial with noise of 2 % per run, until it is decided.
    fn trial(noise: &mut Noise, factor: f64, changes: usize) -> (Effect, usize) {
        let mut rounds = Vec::new();
        for look in LOOKS {
            while rounds.len() < look {
                let plain = 2.0 * (1.0 + 0.02 * noise.next());
                let changed = 2.0 * factor * (1.0 + 0.02 * noise.next());
                rounds.push(Round { plain, changed });
            }
            let effect = effect(&rounds, changes);
            if effect.verdict != Verdict::Open {
                return (effect, look);
            }
        }
        (effect(&rounds, changes), rounds.len())
    }

    #[test]
    fn no_difference_is_rarely_taken_for_one() {
        let mut noise = Noise(7);
        let alarms = (0..1000)
            .filter(|_| {
                let (effect, _) = trial(&mut noise, 1.0, 3);
                matches!(effect.verdict, Verdict::Faster | Verdict::Slower)
            })
            .count();
        assert!(alarms < 25, "{alarms} of 1000");
    }

    #[test]
    fn a_real_difference_is_found_and_lies_in_its_interval() {
        let mut noise = Noise(11);
        let (mut found, mut held, mut rounds) = (0, 0, 0);
        for _ in 0..300 {
            let (effect, looks) = trial(&mut noise, 0.9, 3);
            found += usize::from(effect.verdict == Verdict::Faster);
            let (low, high) = (effect.change.low.unwrap(), effect.change.high.unwrap());
            held += usize::from(low <= -10.0 && -10.0 <= high);
            rounds += looks;
        }
        assert_eq!(found, 300);
        assert!(held >= 285, "{held} of 300");
        assert!(rounds < 300 * 9, "{rounds} rounds");
    }

    #[test]
    fn a_loser_is_given_up_and_what_is_open_says_what_it_needs() {
        let round = |changed| Round { plain: 1.0, changed };
        let slower: Vec<Round> = (0..6).map(|n| round(1.005 + 0.02 * f64::from(n % 2))).collect();
        assert_eq!(effect(&slower, 1).verdict, Verdict::NoGain);
        let open: Vec<Round> = (0..6).map(|n| round(0.94 + 0.06 * f64::from(n % 2))).collect();
        assert_eq!(effect(&open, 1).verdict, Verdict::Open);
        let more = more_rounds(&open, 1).expect("some");
        assert!(LOOKS.contains(&(6 + more)), "{more}");
        assert_eq!(more_rounds(&open[..2], 1), None);
        // Two rounds that scatter by a fifth have no interval worth printing.
        let change = effect(&[round(0.8), round(1.2)], 10).change;
        assert!(change.value.is_some() && change.low.is_none() && change.high.is_none());
    }

    #[test]
    fn too_few_rounds_say_nothing() {
        let effect = effect(&[Round { plain: 1.0, changed: 0.1 }], 1);
        assert_eq!((effect.change.value, effect.verdict), (None, Verdict::Open));
        let none = [Round { plain: 0.0, changed: 1.0 }; 9];
        assert_eq!(super::effect(&none, 1).verdict, Verdict::Open);
    }
}
