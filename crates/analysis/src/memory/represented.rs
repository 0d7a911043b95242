//! How much of the program's time each moment of a series represents.
//!
//! What for: bursts and windows are not spread over a run evenly. In its first second they are few, for code must be translated first,
//! and a host may keep the tracer from its CPU. A program does one thing first and another then: so a moment represents
//! the samples around it, and not as many as any other. What not: which code they were in (`strata`).
//!
//! Moments that follow each other form groups. The time of the samples between the middles of the gaps between two groups
//! is divided among the moments of a group evenly. This is post-stratification by time (Cochran 1977, 5A.9); a group has
//! [`TOGETHER`], so that none has the weight of a gap that is long by chance, and [`ENOUGH`] samples on average. One without any
//! represents half of one.
//!
//! Assumption: the program does the same in a group and around it.

use base::Nanos;

use crate::profile::Profile;

/// Moments of a group. Alone, moments at random times would have weights whose scatter makes the variance of a mean 1.5 times as large.
const TOGETHER: usize = 3;
/// Fewer samples have a scatter of a third by chance.
const ENOUGH: usize = 10;
/// Samples are sorted by so many parts of the time that they cover.
const PARTS: usize = 4096;

/// What each of these moments represents, over what it would if all represented the same.
pub(super) fn represented(profile: &Profile<'_>, moments: &[Nanos]) -> Vec<f64> {
    let samples = profile.recording.samples.iter();
    by_samples(samples.map(|sample| (sample.time, sample.weight.0 as f64)), moments)
}

fn by_samples(samples: impl Iterator<Item = (Nanos, f64)> + Clone, moments: &[Nanos]) -> Vec<f64> {
    let count = moments.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|at| moments[*at]);
    let last = samples.clone().map(|(time, _)| time).max().unwrap_or(Nanos(0));
    let number = samples.clone().count();
    let part = last.0 / PARTS as u64 + 1;
    let mut weights = vec![0.0; PARTS];
    samples.for_each(|(time, weight)| weights[(time.0 / part) as usize] += weight);
    let all: f64 = weights.iter().sum();
    let groups = (count / TOGETHER).min(number / ENOUGH);
    if all <= 0.0 || groups < 2 {
        return vec![1.0; count];
    }
    let mut represented = vec![1.0; count];
    let mut begin = 0;
    for group in 0..groups {
        let members = &order[group * count / groups..(group + 1) * count / groups];
        let end = match order.get((group + 1) * count / groups) {
            Some(next) => {
                let last = moments[members[members.len() - 1]];
                ((last.0 + (moments[*next].0 - last.0) / 2) / part).min(PARTS as u64) as usize
            }
            None => PARTS,
        };
        let end = end.max(begin);
        let time = weights[begin..end].iter().sum::<f64>().max(all / number as f64 / 2.0);
        let each = time / all * count as f64 / members.len() as f64;
        members.iter().for_each(|at| represented[*at] = each);
        begin = end;
    }
    represented
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample each millisecond for a second.
    fn samples() -> impl Iterator<Item = (Nanos, f64)> + Clone {
        (0..1000).map(|at| (Nanos(at * 1_000_000), 1e6))
    }

    #[test]
    fn moments_that_are_far_apart_represent_more() {
        // Three in the first half, in no order, and nine in the other.
        let late = (0..9).map(|at| 525 + at * 50);
        let moments: Vec<Nanos> =
            [400, 100, 250].into_iter().chain(late).map(|at| Nanos(at * 1_000_000)).collect();
        let represented = by_samples(samples(), &moments);
        // To the middle between 400 and 525 ms.
        let early = 0.4625 * 12.0 / 3.0;
        assert!(represented[..3].iter().all(|one| (one - early).abs() < 0.01), "{represented:?}");
        assert!((represented[3] - 0.1875 * 4.0).abs() < 0.01, "{represented:?}");
        assert!((represented.iter().sum::<f64>() - 12.0).abs() < 1e-9);
    }

    #[test]
    fn few_moments_and_those_without_samples_represent_the_same() {
        let moments = [1, 2, 900, 901, 902].map(|at| Nanos(at * 1_000_000));
        assert_eq!(by_samples(samples(), &moments), [1.0; 5]);
        assert_eq!(by_samples(std::iter::empty(), &[Nanos(1); 9]), [1.0; 9]);
        assert!(by_samples(samples(), &[]).is_empty());
        // All at one moment: the first three have no samples.
        let same = by_samples(samples(), &[Nanos(0); 6]);
        assert!(same.iter().all(|one| *one > 0.0), "{same:?}");
        assert!((same.iter().sum::<f64>() - 6.0).abs() < 0.01, "{same:?}");
        let few = samples().step_by(100);
        assert_eq!(by_samples(few, &[100, 200, 900, 901, 902, 903].map(Nanos)), [1.0; 6]);
    }
}
