//! Known answers: printed examples, and how often tests alarm on runs that differ by chance alone.

use facts::{Evidence, Metric};

use super::*;

/// Splitmix64 (Steele, Lea and Flood, OOPSLA 2014), and normal deviates by Box and Muller.
struct Chance(u64);

impl Chance {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }

    /// Times of runs of 2 s: 1 % of noise, and one in eight disturbed by up to 10 %.
    fn runs(&mut self, mean: f64, count: usize) -> Vec<f64> {
        let mut run = || {
            let disturbed = if self.uniform() < 0.125 { 0.1 * self.uniform() } else { 0.0 };
            mean * (1.0 + 0.01 * self.normal() + disturbed)
        };
        (0..count).map(|_| run()).collect()
    }
}

fn compared(base: &[f64], new: &[f64]) -> Comparison {
    runs(&Side::of(base, 0.0).unwrap(), &Side::of(new, 0.0).unwrap()).unwrap()
}

#[test]
fn welch_on_few_runs() {
    // By hand: means 3 and 5, variances 2.5 / 5 each, so t = 2 / 1 with 8 degrees of freedom.
    let found = compared(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(found.difference, 2.0);
    // Abramowitz and Stegun 26.10: t(95 %, 8) = 2.306; p of t = 2 with 8 degrees: 0.0805.
    let (low, high) = found.difference_interval.unwrap();
    assert!((low - (2.0 - 2.306)).abs() < 1e-3 && (high - 4.306).abs() < 1e-3);
    assert!((found.p.unwrap() - 0.0805).abs() < 1e-3);
    let (low, high) = found.ratio_interval.unwrap();
    assert!(low < 1.0 && 1.0 < high && found.ratio == Some(5.0 / 3.0));
}

#[test]
fn ten_runs_are_trimmed_and_one_outlier_does_not_hide_a_change() {
    let base: Vec<f64> = (0..10).map(|at| 100.0 + f64::from(at) * 0.1).collect();
    let mut new: Vec<f64> = base.iter().map(|value| value * 1.03).collect();
    new[0] = 500.0;
    let found = compared(&base, &new);
    assert!(found.p.unwrap() < 1e-6, "{found:?}");
    let (low, high) = found.ratio_interval.unwrap();
    assert!(low < 1.035 && high > 1.03 && high - low < 0.02, "{low} {high}");
}

#[test]
fn equal_counts_are_no_certainty() {
    let side = |values: &[f64]| Side::of(values, 1.0).unwrap();
    let found = runs(&side(&[1000.0; 3]), &side(&[1001.0; 3])).unwrap();
    assert!(found.p.unwrap() > 0.05);
    assert!(runs(&side(&[1000.0; 3]), &side(&[2000.0; 3])).unwrap().p.unwrap() < 1e-6);
    assert_eq!(compared(&[0.0, 0.0], &[0.0, 0.0]).p, Some(1.0));
    assert!(runs(&side(&[1.0]), &side(&[2.0, 3.0])).is_none());
    assert!(Side::of(&[f64::NAN], 0.0).is_none());
}

/// 1000 comparisons of 5 and of 10 runs a side without any change: at most 5 % alarms (and two standard errors of such a
/// count); and a change of 3 % is found in most comparisons with 20 runs in all
/// (nine of ten; a plain Welch test finds seven).
#[test]
fn alarms_are_rare_and_changes_are_found() {
    let mut chance = Chance(1);
    for count in [3, 5, 10] {
        let alarms = (0..1000).filter(|_| {
            let (a, b) = (chance.runs(2.0, count), chance.runs(2.0, count));
            compared(&a, &b).p.is_some_and(|p| p < LEVEL)
        });
        assert!(alarms.count() <= 64, "{count} runs a side");
    }
    let found = (0..1000).filter(|_| {
        let (a, b) = (chance.runs(2.0, 10), chance.runs(2.06, 10));
        compared(&a, &b).p.is_some_and(|p| p < LEVEL / 2.0)
    });
    assert!(found.count() >= 850);
}

#[test]
fn pairs_are_runs_in_turn() {
    let base = [10, 30, 50, 70, 90];
    // Given in another order, and with either of a pair first.
    let new = [99, 15, 25, 55, 69];
    let pairs = pairs_in_turn(&base, &new).unwrap();
    assert_eq!(pairs, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]);
    // One side after the other, three of one side next to each other, unequal numbers, equal times, few.
    for new in [
        &[100, 101, 102, 103, 104][..],
        &[15, 16, 17, 69, 99],
        &[15, 25, 55, 69],
        &[30, 30, 50, 70, 90],
    ] {
        assert_eq!(pairs_in_turn(&base, new), None, "{new:?}");
    }
    assert_eq!(pairs_in_turn(&base[..4], &[15, 25, 55, 69]), None);
}

#[test]
fn pairs_by_hand() {
    // Quotients 1.1, 1.2 and 1.1^2/1.2: the mean logarithm is that of 1.1. The machine was twice as slow for the second.
    let base = [1.0, 2.0, 1.0];
    let new = [1.1, 2.4, 1.21 / 1.2];
    let (found, spread) = paired(&base, &new, 0.0).unwrap();
    assert!((found.ratio.unwrap() - 1.1).abs() < 1e-9 && spread < 0.1, "{found:?}");
    let half = (1.2f64 / 1.1).ln() / 3f64.sqrt() * 4.303;
    let (low, high) = found.ratio_interval.unwrap();
    assert!((low - 1.1 * (-half).exp()).abs() < 1e-3 && (high - 1.1 * half.exp()).abs() < 1e-3);
    assert!(paired(&[1.0, 0.0], &[1.0, 1.0], 0.0).is_none());
    assert!(paired(&[1.0; 3], &[1.0; 2], 0.0).is_none());
    assert_eq!(paired(&[2.0; 3], &[2.0; 3], 0.0).unwrap().0.p, Some(1.0));
    assert!(paired(&[1000.0; 3], &[1001.0; 3], 1.0).unwrap().0.p.unwrap() > 0.05);
}

/// As for [`runs`], also where the machine's speed wanders by 8 % from pair to pair: a change of 3 % is found as if it did not.
#[test]
fn pairs_do_not_alarm_and_do_not_feel_a_machine_that_wanders() {
    let mut chance = Chance(2);
    let mut trial = |count: usize, change: f64, wander: f64| {
        let speeds: Vec<f64> = (0..count).map(|_| 1.0 + wander * chance.normal()).collect();
        let mut side = |mean: f64| -> Vec<f64> {
            chance.runs(mean, count).iter().zip(&speeds).map(|(run, speed)| run * speed).collect()
        };
        let (base, new) = (side(2.0), side(2.0 * change));
        paired(&base, &new, 0.0).and_then(|(found, _)| found.p)
    };
    for (count, wander) in [(5, 0.0), (5, 0.08), (10, 0.0), (10, 0.08)] {
        let alarms = (0..1000).filter(|_| trial(count, 1.0, wander).is_some_and(|p| p < LEVEL));
        assert!(alarms.count() <= 64, "{count} pairs, {wander}");
    }
    let found = (0..1000).filter(|_| trial(10, 1.03, 0.08).is_some_and(|p| p < LEVEL / 2.0));
    let found = found.count();
    assert!(found >= 700, "{found}");
}

#[test]
fn holm_is_as_printed() {
    // Holm 1979, section 3 in words: multiply the k-th smallest by what is left, never below the one before.
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (adjusted, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!((adjusted - expected).abs() < 1e-12, "{adjusted} {expected}");
    }
    assert!(holm(&[]).is_empty());
}

#[test]
fn single_runs_have_the_errors_of_their_figures_and_no_test() {
    let metric = |value: f64, half: f64| {
        Metric::with_interval(Evidence::Sampled, value, "s", (value - half, value + half), 100)
    };
    let found = single(&metric(10.0, 0.3), &metric(12.0, 0.4)).unwrap();
    let (low, high) = found.difference_interval.unwrap();
    assert!((low - 1.5).abs() < 1e-9 && (high - 2.5).abs() < 1e-9);
    let (low, high) = found.ratio_interval.unwrap();
    // To first order: 1.2 (1 +- sqrt(0.03^2 + 0.0333^2)).
    assert!((low - 1.146).abs() < 3e-3 && (high - 1.254).abs() < 3e-3, "{low} {high}");
    assert_eq!(found.p, None);
    let exact = single(&Metric::counted(4.0, "s"), &Metric::counted(5.0, "s")).unwrap();
    assert_eq!(exact.ratio_interval, Some((1.25, 1.25)));
    assert_eq!(single(&Metric::counted(0.0, "s"), &metric(1.0, 0.1)).unwrap().ratio, None);
    assert!(single(&Metric::unavailable("s", "why"), &metric(1.0, 0.1)).is_none());
}

#[test]
fn runs_needed_follow_the_square_of_the_noise() {
    assert_eq!(runs_to_decide(0.03, 0.02), Some(9));
    assert_eq!(runs_to_decide(0.03, 0.04), Some(30));
    assert_eq!(runs_to_decide(0.5, 0.01), Some(3));
    assert_eq!(runs_to_decide(0.0, 0.01), None);
}
