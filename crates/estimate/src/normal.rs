//! The normal distribution: its quantile, and the probability below a value.
//!
//! What for: random parts of replicates take the quantiles of their distribution. What not: random numbers (`draws`).

/// The value below which a standard normal number lies with this probability, 0 to 1 without the ends.
///
/// Source: P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution function" (2003); relative
/// error below 1.2e-9.
pub(crate) fn quantile(probability: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    const LOW: f64 = 0.024_25;
    let polynomial = |of: &[f64], x: f64| of.iter().fold(0.0, |sum, one| sum * x + one);
    let tail = |probability: f64| {
        let q = (-2.0 * probability.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    };
    if probability < LOW {
        tail(probability)
    } else if probability > 1.0 - LOW {
        -tail(1.0 - probability)
    } else {
        let q = probability - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}

/// The probability that a standard normal number is below this one.
///
/// Source: W. J. Cody's erfc through Numerical Recipes' Chebyshev fit (Press et al., 3rd ed., 6.2.2, `erfccheb`); here the
/// short fit of 6.2 (2nd ed., `erfcc`), whose relative error is below 1.2e-7.
pub(crate) fn below(z: f64) -> f64 {
    const T: [f64; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let x = z.abs() / 2f64.sqrt();
    let t = 1.0 / (1.0 + 0.5 * x);
    let sum = T.iter().fold(0.0, |sum, one| sum * t + one);
    let erfc = t * (-x * x + sum).exp();
    if z > 0.0 { 1.0 - erfc / 2.0 } else { erfc / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abramowitz and Stegun, tables 26.1 and 26.5.
    #[test]
    fn both_match_the_printed_tables() {
        for (probability, z) in
            [(0.5, 0.0), (0.975, 1.959_964), (0.01, -2.326_348), (0.841_344_7, 1.0)]
        {
            assert!((quantile(probability) - z).abs() < 1e-6, "{probability}");
            assert!((below(z) - probability).abs() < 1e-6, "{z}: {}", below(z));
        }
    }
}
