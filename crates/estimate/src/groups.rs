//! Ratios of several groups: what each group's ratio is, and that of one more.
//!
//! What for: groups with few pairs borrow from the others, as far as groups are alike. Random effects: ratio = ratio of all x effect of its
//! group x noise of its own. What not: groups whose ratios are exact.
//!
//! 1. The variance of effects is by moments (R. DerSimonian, N. Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7
//!    (1986) 177-188), with what is known of it before, [`GROUPS_APART`], as if from [`BEFORE`] further groups: a few groups hardly tell it.
//! 2. A group's mean is shrunk towards that of all (C. N. Morris, "Parametric empirical Bayes inference", JASA 78 (1983) 47-55), and that
//!    towards what is known beforehand.
//!
//! Assumption: noise has the same variance in all groups.

use crate::parameters::GROUPS_APART;
use crate::student::quantile_95;

/// So many groups' worth is known of effects before.
const BEFORE: f64 = 3.0;
/// No standard deviation is smaller.
const LEAST: f64 = 1e-6;

/// The mean of a group, and halves of 95 % intervals: of what is not known of this group alone, and of what is not known of any. Both
/// together are the root of the sum of their squares.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct GroupMean {
    /// The best value.
    pub mean: f64,
    /// Another in each group.
    pub own: f64,
    /// The same in all groups.
    pub common: f64,
}

/// What pairs of several groups tell: the ratio of each group, in their order, as a logarithm. It is that of the sums of its pairs, of the
/// first over the second. Of pairs whose first is often 0 a mean of logarithms would tell nothing; a ratio of sums is right on
/// average. A group without pairs is one more.
///
/// Beforehand the ratio is 1, with this standard deviation of its logarithm in all groups together: as in a further pair of each group, and in
/// their mean.
///
/// Assumption: pairs of all groups scatter alike, as a part of their ratio.
#[must_use]
pub fn of_ratios(all: &[Vec<(f64, f64)>], known: f64) -> Vec<GroupMean> {
    let count = all.iter().flatten().count() as f64;
    let whole: f64 = all.iter().flatten().map(|(_, lower)| lower).sum();
    let each = whole / count.max(1.0);
    // The further pair is an average one.
    let sums = |pairs: &[(f64, f64)]| {
        pairs.iter().fold((each, each), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let ratio = |group: &Vec<(f64, f64)>| {
        let (upper, lower) = sums(group);
        upper / lower
    };
    let within = |group: &Vec<(f64, f64)>| {
        let own = ratio(group);
        group.iter().map(|(upper, lower)| ((upper / own - lower) / each).powi(2)).sum::<f64>()
    };
    let counted = all.iter().filter(|group| !group.is_empty());
    let number = counted.clone().count() as f64;
    let (squares, freedom) = match count - number {
        0.0 => (within(&all.concat()), count - 1.0),
        freedom => (all.iter().map(within).sum(), freedom),
    };
    if count < 3.0 || whole <= 0.0 {
        let half = quantile_95(BEFORE);
        let one = GroupMean { mean: 0.0, own: half * GROUPS_APART.value, common: half * known };
        return vec![one; all.len()];
    }
    let noise = (squares / freedom).max(LEAST * LEAST);
    let own = |group: &Vec<(f64, f64)>| (ratio(group).ln(), group.len() as f64);
    let some: Vec<(f64, f64)> = counted.map(own).collect();
    let effects = Effects::of(&some, noise, count + BEFORE, known);
    let own = |group: &Vec<(f64, f64)>| (!group.is_empty()).then(|| own(group));
    all.iter().map(|group| effects.group(own(group))).collect()
}

/// Random effects of groups.
struct Effects {
    /// Variance of a value in its group.
    noise: f64,
    /// Variance of groups.
    effects: f64,
    /// Of all groups, and its variance.
    mean: f64,
    variance: f64,
    /// Halves of 95 % intervals over standard deviations.
    quantile: f64,
}

impl Effects {
    /// From the mean and the number of values of each group that has some, `count` in all. The mean of all is 0 with a standard deviation
    /// that is known beforehand.
    fn of(some: &[(f64, f64)], noise: f64, count: f64, known: f64) -> Effects {
        let number = some.len() as f64;
        let weigh = |effects: f64| {
            let weight = |n: f64| 1.0 / (noise / n + effects);
            let sum: f64 = some.iter().map(|(_, n)| weight(*n)).sum();
            (some.iter().map(|(mean, n)| weight(*n) * mean).sum::<f64>() / sum, sum)
        };
        let (alike, sum) = weigh(0.0);
        let apart: f64 = some.iter().map(|(mean, n)| n / noise * (mean - alike).powi(2)).sum();
        let of_squares: f64 = some.iter().map(|(_, n)| (n / noise).powi(2)).sum();
        let found = match number {
            1.0 => 0.0,
            _ => ((apart - (number - 1.0)) / (sum - of_squares / sum)).max(0.0),
        };
        let before = BEFORE * GROUPS_APART.value.powi(2);
        let effects = (before + (number - 1.0) * found) / (BEFORE + number - 1.0);
        let (mean, sum) = weigh(effects);
        let before = known.powi(-2);
        let (mean, variance) = (mean * sum / (sum + before), 1.0 / (sum + before));
        Effects { noise, effects, mean, variance, quantile: quantile_95(count - 1.0) }
    }

    /// Of a group with its own mean and number of values, if it has any.
    fn group(&self, own: Option<(f64, f64)>) -> GroupMean {
        let half = |variance: f64| self.quantile * variance.sqrt();
        let Some((own, n)) = own else {
            return GroupMean {
                mean: self.mean,
                own: half(self.effects),
                common: half(self.variance),
            };
        };
        let noise = self.noise / n;
        let shrunk = noise / (noise + self.effects);
        GroupMean {
            mean: own + shrunk * (self.mean - own),
            own: half((1.0 - shrunk) * noise),
            common: shrunk * half(self.variance),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    /// 400 programs of three groups of 12 pairs, with effects of a deviation of 0.3. Of each pair the first is a count, of which half are 0.
    #[test]
    fn ratios_hold_their_share_of_groups() {
        let mut draws = Draws::new(9);
        let mut normal = std::iter::repeat_with(|| draws.normal())
            .take(60)
            .flatten()
            .collect::<Vec<_>>()
            .into_iter()
            .cycle();
        let mut even = std::iter::repeat_with(|| draws.even())
            .take(60)
            .flatten()
            .collect::<Vec<_>>()
            .into_iter()
            .cycle();
        let (mut held, mut n, mut off) = (0.0, 0.0, 0.0);
        for _ in 0..400 {
            let effects: Vec<f64> = (0..3).map(|_| 0.3 * normal.next().unwrap()).collect();
            let all: Vec<Vec<(f64, f64)>> = effects
                .iter()
                .map(|effect| {
                    let runs = |even: f64| if even < 0.5 { 0.0 } else { 4.0 * (even - 0.5) };
                    let mut pair = || {
                        (
                            effect.exp() * 2.0 * runs(even.next().unwrap()),
                            0.5 + even.next().unwrap(),
                        )
                    };
                    (0..12).map(|_| pair()).collect()
                })
                .collect();
            let each = of_ratios(&all, 0.3);
            for (one, effect) in each.iter().zip(&effects) {
                let truth = effect;
                held += f64::from(u8::from((one.mean - truth).abs() <= one.own.hypot(one.common)));
                off += one.mean - truth;
                n += 1.0;
            }
        }
        assert!((0.92..0.99).contains(&(held / n)), "{} of {n}", held / n);
        assert!((off / n).abs() < 0.05, "{}", off / n);
        assert!(of_ratios(&[], 0.3).is_empty());
        let [none, some] =
            [vec![(0.0, 1.0); 5], vec![(1.0, 1.0); 5]].map(|one| of_ratios(&[one], 0.3)[0]);
        assert!(none.mean < -0.5 && some.mean.abs() < 1e-9, "{none:?} {some:?}");
        let known = of_ratios(&[Vec::new(), vec![(9.0, 1.0)]], 0.3);
        assert_eq!(
            (known[0].mean, known[0]),
            (0.0, known[1]),
            "two pairs tell nothing of their noise"
        );
    }
}
