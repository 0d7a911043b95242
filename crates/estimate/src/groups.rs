//! Values of several groups: what each group's mean is, and that of one more.
//!
//! What for: groups with few values ([`of_values`]) or pairs whose ratio is wanted ([`of_ratios`]) borrow from the others, as far as groups
//! are alike. Random effects: value = mean + effect of its group + noise of its own. What not: groups whose values are exact.
//!
//! 1. Of values, one far from the median, [`FAR`] robust deviations (1.4826 times the median distance, Hampel 1974), is taken for the nearest
//!    that is not (P. J. Huber, "Robust Statistics", 1981, 1.7). The variance of a mean is that of those values over the square of
//!    the part that was left as it was (R. Wilcox, "Introduction to Robust Estimation and Hypothesis Testing", 3rd ed. 2012, 4.3).
//! 2. The variance of effects is by moments (R. DerSimonian, N. Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7
//!    (1986) 177-188), with what is known of it before, [`GROUPS_APART`], as if from [`BEFORE`] further groups: a few groups hardly tell it.
//! 3. A group's mean is shrunk towards that of all (C. N. Morris, "Parametric empirical Bayes inference", JASA 78 (1983) 47-55).
//!
//! Assumption: noise has the same variance in all groups.

use crate::interval::median;
use crate::parameters::GROUPS_APART;
use crate::student::quantile_95;

/// Normal values are as far from the median once in 370.
const FAR: f64 = 3.0;
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

/// What values of several groups tell: the mean of each group, in their order. `None` below three values: these say nothing of their
/// noise. A group without values is one more.
#[must_use]
pub fn of_values(all: &[Vec<f64>]) -> Option<Vec<GroupMean>> {
    let mut sorted: Vec<f64> = all.iter().flatten().copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len() as f64;
    if sorted.len() < 3 {
        return None;
    }
    let centre = median(&sorted)?;
    let mut distances: Vec<f64> = sorted.iter().map(|one| (one - centre).abs()).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let reach = FAR * 1.4826 * median(&distances)?;
    let far = distances.iter().filter(|distance| **distance > reach).count() as f64;
    let near = |one: &f64| one.clamp(centre - reach, centre + reach);
    let mean_of = |group: &Vec<f64>| group.iter().map(near).sum::<f64>() / group.len() as f64;
    let some: Vec<(f64, f64)> = all
        .iter()
        .filter(|group| !group.is_empty())
        .map(|group| (mean_of(group), group.len() as f64))
        .collect();
    let within = |group: &Vec<f64>| {
        let mean = mean_of(group);
        group.iter().map(|one| (near(one) - mean).powi(2)).sum::<f64>()
    };
    let number = some.len() as f64;
    let (squares, freedom) = match count - number {
        0.0 => (within(&sorted), count - 1.0),
        freedom => (all.iter().map(within).filter(|one| one.is_finite()).sum(), freedom),
    };
    let noise = (squares / freedom / (1.0 - far / count).powi(2)).max(LEAST * LEAST);
    let effects = Effects::of(&some, noise, count, None);
    let own = |group: &Vec<f64>| (!group.is_empty()).then(|| (mean_of(group), group.len() as f64));
    Some(all.iter().map(|group| effects.group(own(group))).collect())
}

/// The same of ratios: each group has pairs, and its ratio is that of their sums, of the first over the second. The means are logarithms. Of
/// pairs whose first is often 0 a mean of logarithms would tell nothing; that of sums is right on average.
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
    let effects = Effects::of(&some, noise, count + BEFORE, Some(known));
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
    /// that is known beforehand, if so.
    fn of(some: &[(f64, f64)], noise: f64, count: f64, known: Option<f64>) -> Effects {
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
        let before = known.map_or(0.0, |known| known.powi(-2));
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

    #[test]
    fn many_values_of_a_group_tell_it_alone() {
        let spread = |centre: f64| (0..101).map(|at| centre + f64::from(at - 50) / 100.0).collect();
        let each = of_values(&[spread(0.0), spread(2.0), vec![2.0], Vec::new()]).unwrap();
        // sd 0.29 of 101: 0.057 is half of the interval.
        let half = |at: usize| each[at].own.hypot(each[at].common);
        assert!(each[0].mean.abs() < 0.01 && (half(0) / 0.057 - 1.0).abs() < 0.1, "{each:?}");
        assert!((each[1].mean - 2.0).abs() < 0.01 && each[1].common < 0.01, "{each:?}");
        // Between its own value and the mean; known worse than the others, better than one more.
        assert!(each[2].mean > 1.5 && each[2].mean < 2.0, "{each:?}");
        assert!(half(2) > 5.0 * half(1) && half(2) < half(3), "{each:?}");
        assert!(of_values(&[vec![1.0], vec![2.0]]).is_none());
    }

    #[test]
    fn far_values_count_as_near_ones() {
        let alike: Vec<f64> = (0..20).map(|at| f64::from(at % 5) / 10.0).collect();
        let each = of_values(std::slice::from_ref(&alike)).unwrap()[0];
        let with = of_values(&[[alike, vec![-7.0, 9.0]].concat()]).unwrap()[0];
        assert!((with.mean - each.mean).abs() < 0.05, "{with:?} {each:?}");
        assert!(with.own > each.own && with.own < 2.0 * each.own, "{with:?} {each:?}");
        let same = of_values(&[vec![1.0; 5]]).unwrap()[0];
        assert!((same.mean - 1.0).abs() < 1e-9 && same.own < 1e-5, "{same:?}");
    }

    /// 400 programs of 1 to 6 groups of 1 to 8 values: effects with a deviation of 0.3, noise of 0.4, one value in ten far off.
    #[test]
    fn intervals_hold_their_share_of_groups() {
        let mut draws = Draws::new(7);
        let (mut held, mut further, mut n, mut programs) = ([0.0, 0.0], [0.0, 0.0], 0.0, 0.0);
        let mut numbers: Vec<f64> = Vec::new();
        let mut even: Vec<f64> = Vec::new();
        for _ in 0..100 {
            numbers.extend(draws.normal());
            even.extend(draws.even());
        }
        let (mut numbers, mut even) = (numbers.into_iter().cycle(), even.into_iter().cycle());
        for _ in 0..400 {
            let mut effect = || 0.3 * numbers.next().unwrap();
            let effects: Vec<f64> = (0..7).map(|_| effect()).collect();
            let count = 1 + (even.next().unwrap() * 6.0) as usize;
            let mut values = |effect: f64| {
                let n = 1 + (even.next().unwrap() * 8.0) as usize;
                let mut value = || {
                    let far = if even.next().unwrap() < 0.1 { 10.0 } else { 1.0 };
                    effect + 0.4 * far * numbers.next().unwrap()
                };
                (0..n).map(|_| value()).collect::<Vec<f64>>()
            };
            let mut all: Vec<Vec<f64>> = effects[..count].iter().map(|one| values(*one)).collect();
            all.push(Vec::new());
            let Some(each) = of_values(&all) else { continue };
            let holds = |one: &GroupMean, truth: f64| {
                usize::from((one.mean - truth).abs() <= one.own.hypot(one.common))
            };
            for (one, truth) in each[..count].iter().zip(&effects) {
                held[holds(one, *truth)] += 1.0;
                n += 1.0;
            }
            further[holds(&each[count], effects[6])] += 1.0;
            programs += 1.0;
        }
        let [own, one_more] = [held[1] / n, further[1] / programs];
        assert!((0.92..0.99).contains(&own), "{own} of {n}");
        assert!((0.92..0.995).contains(&one_more), "{one_more} of {programs}");
    }

    /// 400 programs as above; of each pair the first is a count, of which half are 0.
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
