//! A ratio that is known beforehand to some part, and that pairs of observations correct.
//!
//! What for: how fast native code is over what is known of copies ([`crate::parameters::COPIES`]), by what both did. What not: ratios of which
//! nothing is known (`ratios`).
//!
//! The ratio of the sums, and what is known beforehand, each by the inverse of its variance (a normal prior of the logarithm; Gelman et al.,
//! Bayesian Data Analysis, 3rd ed., 2.5). A mean of logarithms would tell nothing where the first of a pair is often 0.

use crate::student::quantile_95;

/// Degrees of freedom of what is known beforehand: few, for it was measured on one kind of processor. The scatter of pairs has as many more than its
/// own.
const BEFORE: f64 = 3.0;
const FEWEST: usize = 3;

/// The logarithm of the ratio of the first values of pairs to the second ones, and half of its 95 % interval. Beforehand it is 0,
/// with the standard deviation `known`. Pairs count as much as their second value; one more, an average one, has the ratio 1.
#[must_use]
pub fn corrected(pairs: &[(f64, f64)], known: f64) -> (f64, f64) {
    let count = pairs.len() as f64;
    let lower: f64 = pairs.iter().map(|(_, lower)| lower).sum();
    if pairs.len() < FEWEST || lower <= 0.0 {
        return (0.0, quantile_95(BEFORE) * known);
    }
    let each = lower / count;
    let upper: f64 = pairs.iter().map(|(upper, _)| upper).sum();
    let ratio = (upper + each) / (lower + each);
    let residual = |(upper, lower): &(f64, f64)| ((upper / ratio - lower) / each).powi(2);
    let noise = pairs.iter().map(residual).sum::<f64>() / (count - 1.0) / count;
    let part = known.powi(2) / (known.powi(2) + noise);
    (ratio.ln() * part, quantile_95(count - 1.0 + BEFORE) * (noise * part).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    /// 400 programs of 20 pairs, with ratios that deviate by 0.3. Of each pair the second is a count, of which half are 0.
    #[test]
    fn intervals_hold_their_share() {
        let mut draws = Draws::new(9);
        let mut numbers =
            std::iter::repeat_with(move || draws.normal().into_iter().zip(draws.even())).flatten();
        let mut next = move || numbers.next().expect("without end");
        let (mut held, mut off) = (0, 0.0);
        for _ in 0..400 {
            let truth = 0.3 * next().0;
            let mut pair = || {
                let (_, even) = next();
                let count = if even < 0.5 { 0.0 } else { 4.0 * (even - 0.5) };
                (truth.exp() * 0.5, count)
            };
            let pairs: Vec<(f64, f64)> = (0..20).map(|_| pair()).collect();
            let (best, half) = corrected(&pairs, 0.3);
            held += usize::from((best - truth).abs() <= half);
            off += best - truth;
        }
        assert!((370..=395).contains(&held), "{held} of 400");
        assert!((off / 400.0).abs() < 0.05, "{}", off / 400.0);
    }

    #[test]
    fn few_pairs_tell_nothing() {
        let (best, half) = corrected(&[(9.0, 1.0); 2], 0.3);
        assert!(best == 0.0 && half > 0.9 && half < 1.0, "{half}");
        assert_eq!(corrected(&[(9.0, 0.0); 9], 0.3), (best, half));
        let (best, half) = corrected(&[(2.0, 1.0); 30], 0.3);
        assert!(best > 0.6 && half < 0.05, "{best} {half}");
    }
}
