//! Laws of how time depends on the number of threads n, fitted by least squares of relative errors.
//!
//! | law | seconds with n threads | source |
//! |---|---|---|
//! | Amdahl | T (s + (1 - s) / n) | Amdahl, AFIPS 1967 |
//! | universal | T (1 + a (n - 1) + b n (n - 1)) / n | Gunther, "Guerrilla Capacity Planning", Springer 2007, chapter 4 |
//! | roof | max(T / n, c) | threads share a resource, such as memory bandwidth, that some of them use up |
//!
//! T is the time of one thread. Amdahl's is the universal law without its coherence term b: T s = T a.

use super::{Estimate, estimate};

/// A law.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// A serial share.
    Amdahl,
    /// Contention and coherence.
    Universal,
    /// A resource that is used up.
    Roof,
}

/// A fitted law.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// Which.
    pub law: Law,
    /// Amdahl and universal: T, T a, T b; roof: T, c, 0.
    pub coefficients: [f64; 3],
    /// Amdahl: the serial share s. Universal: contention a.
    pub contention: Option<Estimate>,
    /// Universal: coherence b.
    pub coherence: Option<Estimate>,
    /// Threads from which more bring nothing: of the roof T / c, of the universal law sqrt((1 - a) / b).
    pub saturation: Option<Estimate>,
    /// Root of the mean square of relative deviations of the measured times from the law.
    pub error: f64,
}

impl Law {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Law::Amdahl => "Amdahl's law",
            Law::Universal => "universal scalability law",
            Law::Roof => "roof",
        }
    }

    fn parameters(self) -> usize {
        if self == Law::Universal { 3 } else { 2 }
    }

    /// Seconds by the law.
    #[must_use]
    pub fn seconds(self, [t, x, y]: [f64; 3], threads: u32) -> f64 {
        let n = f64::from(threads);
        match self {
            Law::Amdahl | Law::Universal => t / n + x * (n - 1.0) / n + y * (n - 1.0),
            Law::Roof => (t / n).max(x),
        }
    }
}

/// All laws that have fewer parameters than there are times, best first; `replicates` are times that other runs might have
/// given, for the intervals.
pub(super) fn fits(threads: &[u32], times: &[f64], replicates: &[Vec<f64>]) -> Vec<Fit> {
    let mut found: Vec<(f64, Fit)> = Vec::new();
    for law in [Law::Amdahl, Law::Universal, Law::Roof] {
        let Some((coefficients, error)) = fit(law, threads, times) else { continue };
        let drawn: Vec<[f64; 3]> =
            replicates.iter().filter_map(|times| Some(fit(law, threads, times)?.0)).collect();
        let of = |part: fn([f64; 3]) -> f64| {
            estimate(part(coefficients), drawn.iter().map(|drawn| part(*drawn)).collect())
        };
        let universal = law == Law::Universal;
        let saturation = match law {
            Law::Roof => Some(of(|[t, c, _]| t / c)),
            Law::Universal => Some(of(|[t, x, y]| (((t - x) / y).max(1.0)).sqrt())),
            Law::Amdahl => None,
        };
        let fit = Fit {
            law,
            coefficients,
            contention: (law != Law::Roof).then(|| of(|[t, x, _]| x / t)),
            coherence: universal.then(|| of(|[t, _, y]| y / t)),
            saturation: saturation.filter(|threads| threads.value.is_finite()),
            error,
        };
        found.push((information(law, threads.len(), error), fit));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, fit)| fit).collect()
}

/// Akaike's criterion for least squares, m ln(error^2) + 2 k: less is better (Burnham and Anderson, "Model Selection and
/// Multimodel Inference", Springer 2002, section 2.2). Errors below a thousandth are equally good.
fn information(law: Law, points: usize, error: f64) -> f64 {
    points as f64 * error.max(1e-3).powi(2).ln() + 2.0 * law.parameters() as f64
}

/// Coefficients and error; `None` when there are not more times than parameters.
pub(super) fn fit(law: Law, threads: &[u32], times: &[f64]) -> Option<([f64; 3], f64)> {
    if times.len() <= law.parameters() {
        return None;
    }
    let coefficients = match law {
        Law::Amdahl => amdahl(threads, times),
        Law::Universal => smooth(
            threads,
            times,
            &[[true, true, true], [true, true, false], [true, false, true], [true, false, false]],
        ),
        Law::Roof => roof(threads, times),
    }?;
    Some((coefficients, error(law, coefficients, threads, times)))
}

fn error(law: Law, coefficients: [f64; 3], threads: &[u32], times: &[f64]) -> f64 {
    let square = |(n, time): (&u32, &f64)| (law.seconds(coefficients, *n) / time - 1.0).powi(2);
    (threads.iter().zip(times).map(square).sum::<f64>() / times.len() as f64).sqrt()
}

/// The best coefficients none of which is negative: the best of those that are not among all choices of terms.
fn smooth(threads: &[u32], times: &[f64], choices: &[[bool; 3]]) -> Option<[f64; 3]> {
    let possible = choices.iter().filter_map(|terms| {
        let solved = least_squares(threads, times, *terms)?;
        solved.iter().all(|value| *value >= 0.0).then_some(solved)
    });
    possible.min_by(|a, b| {
        let error = |coefficients: &[f64; 3]| error(Law::Universal, *coefficients, threads, times);
        error(a).total_cmp(&error(b))
    })
}

/// Minimises the sum of (law / time - 1)^2 over the chosen terms, by the normal equations.
fn least_squares(threads: &[u32], times: &[f64], terms: [bool; 3]) -> Option<[f64; 3]> {
    let mut matrix = [[0.0f64; 4]; 3];
    for (&n, &time) in threads.iter().zip(times) {
        let n = f64::from(n);
        let row = [1.0 / n / time, (n - 1.0) / n / time, (n - 1.0) / time];
        // A term that is not chosen stands in no equation.
        let row =
            [row[0], if terms[1] { row[1] } else { 0.0 }, if terms[2] { row[2] } else { 0.0 }];
        for (equation, own) in matrix.iter_mut().zip(row) {
            for (sum, other) in equation.iter_mut().zip([row[0], row[1], row[2], 1.0]) {
                *sum += own * other;
            }
        }
    }
    // Its empty equation would make the system singular; this one says that the coefficient is 0.
    for at in (1..3).filter(|at| !terms[*at]) {
        matrix[at][at] = 1.0;
    }
    solve(matrix)
}

/// Gauss elimination of three equations with pivots; `None` when they do not determine the unknowns.
fn solve(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        let scale = matrix[column][column];
        if scale.abs() < 1e-12 {
            return None;
        }
        let row = matrix[column].map(|value| value / scale);
        matrix[column] = row;
        for other in (0..3).filter(|other| *other != column) {
            let factor = matrix[other][column];
            for (value, part) in matrix[other].iter_mut().zip(row) {
                *value -= factor * part;
            }
        }
    }
    Some([matrix[0][3], matrix[1][3], matrix[2][3]])
}

/// The universal law without coherence. More than all of it cannot be serial: then all numbers of threads take as long.
fn amdahl(threads: &[u32], times: &[f64]) -> Option<[f64; 3]> {
    let [t, x, y] = smooth(threads, times, &[[true, true, false], [true, false, false]])?;
    if x <= t {
        return Some([t, x, y]);
    }
    best(times.iter().map(|time| 1.0 / time)).map(|time| [time, time, 0.0])
}

/// The x with the least sum of (x w - 1)^2: sum w / sum w^2.
fn best(weights: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, squares) = weights.fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    (squares > 0.0).then(|| sum / squares)
}

/// The best roof: for each number of leading times on the slope, slope and roof fit on their own.
fn roof(threads: &[u32], times: &[f64]) -> Option<[f64; 3]> {
    let pairs = || threads.iter().zip(times);
    let candidate = |on_slope: usize| {
        let t = best(pairs().take(on_slope).map(|(n, time)| 1.0 / f64::from(*n) / time))?;
        let c = best(times.iter().skip(on_slope).map(|time| 1.0 / time))?;
        Some([t, c, 0.0])
    };
    (1..times.len()).filter_map(candidate).min_by(|a, b| {
        let error = |coefficients: &[f64; 3]| error(Law::Roof, *coefficients, threads, times);
        error(a).total_cmp(&error(b))
    })
}
