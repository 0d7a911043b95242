//! Arithmetic loops: the peak floating-point rate of each SIMD set.
//!
//! Each loop turns over many independent accumulators, `x = x * m + a`, so that it is bound by the arithmetic
//! units and not by the latency of one operation: 12 chains cover two fused units of 5 cycles' latency.
//! The values stay between 1 and 2: no infinity, no denormals, no constant folding by anybody.
//! What not: no timing and no threads.

#[cfg(target_arch = "x86_64")]
mod x86;

/// Size of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// 64 bits.
    Double,
    /// 32 bits.
    Single,
}

impl Precision {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Precision::Double => "double",
            Precision::Single => "single",
        }
    }
}

/// Which instructions do the arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlopMethod {
    /// One number at a time, a multiplication and an addition: what compilers make of plain code that they
    /// cannot vectorise, without `-march`.
    Scalar,
    /// 16-byte vectors, a multiplication and an addition.
    Sse2,
    /// 32-byte vectors, fused.
    Avx2Fma,
    /// 64-byte vectors, fused.
    Avx512,
}

impl FlopMethod {
    /// All, slowest first.
    const ALL: [FlopMethod; 4] =
        [FlopMethod::Scalar, FlopMethod::Sse2, FlopMethod::Avx2Fma, FlopMethod::Avx512];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FlopMethod::Scalar => "scalar",
            FlopMethod::Sse2 => "sse2",
            FlopMethod::Avx2Fma => "avx2+fma",
            FlopMethod::Avx512 => "avx512f",
        }
    }

    /// Usable on this CPU, slowest first. Never empty.
    #[must_use]
    pub fn available() -> Vec<FlopMethod> {
        FlopMethod::ALL.into_iter().filter(|method| method.is_available()).collect()
    }

    fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            FlopMethod::Scalar | FlopMethod::Sse2 => true,
            FlopMethod::Avx2Fma => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
            }
            FlopMethod::Avx512 => is_x86_feature_detected!("avx512f"),
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == FlopMethod::Scalar
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn vector_bytes(self, precision: Precision) -> u64 {
        match (self, precision) {
            (FlopMethod::Scalar, Precision::Double) => 8,
            (FlopMethod::Scalar, Precision::Single) => 4,
            (FlopMethod::Sse2, _) => 16,
            (FlopMethod::Avx2Fma, _) => 32,
            (FlopMethod::Avx512, _) => 64,
        }
    }
}

/// Independent accumulators per loop.
const CHAINS: u64 = 12;

/// Runs `turns` turns of 12 independent multiply-adds and returns how many floating-point operations that were,
/// a multiply-add counted as two. A method that the CPU lacks falls back to scalar.
pub fn multiply_add(method: FlopMethod, precision: Precision, turns: u64) -> u64 {
    let method = if method.is_available() { method } else { FlopMethod::Scalar };
    let turns = turns.max(1);
    #[cfg(target_arch = "x86_64")]
    {
        x86::run(method, precision, turns);
        let number_bytes = match precision {
            Precision::Double => 8,
            Precision::Single => 4,
        };
        2 * CHAINS * turns * (method.vector_bytes(precision) / number_bytes)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = method;
        plain(precision, turns);
        2 * CHAINS * turns
    }
}

/// The loop as plain Rust: for architectures without assembly here.
#[cfg(not(target_arch = "x86_64"))]
fn plain(precision: Precision, turns: u64) {
    use std::hint::black_box;
    match precision {
        Precision::Double => {
            let (m, a) = black_box((0.5_f64, 0.75));
            let mut chains = black_box([1.0_f64; CHAINS as usize]);
            for _ in 0..turns {
                chains.iter_mut().for_each(|x| *x = x.mul_add(m, a));
            }
            black_box(chains);
        }
        Precision::Single => {
            let (m, a) = black_box((0.5_f32, 0.75));
            let mut chains = black_box([1.0_f32; CHAINS as usize]);
            for _ in 0..turns {
                chains.iter_mut().for_each(|x| *x = x.mul_add(m, a));
            }
            black_box(chains);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_width() {
        let expected = [
            (FlopMethod::Scalar, 24_000, 24_000),
            (FlopMethod::Sse2, 48_000, 96_000),
            (FlopMethod::Avx2Fma, 96_000, 192_000),
            (FlopMethod::Avx512, 192_000, 384_000),
        ];
        for (method, double, single) in expected {
            if !FlopMethod::available().contains(&method) {
                println!("skipped: this CPU has no {}", method.name());
                continue;
            }
            assert_eq!(multiply_add(method, Precision::Double, 1000), double, "{}", method.name());
            assert_eq!(multiply_add(method, Precision::Single, 1000), single, "{}", method.name());
        }
    }

    /// `x = x * 0.5 + 0.75` from 1.0 tends to 1.5: shows that the loops compute what they claim to.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_arithmetic_really_happens() {
        for method in FlopMethod::available() {
            assert_eq!(
                x86::run(method, Precision::Double, 1),
                1.25,
                "{} after one turn",
                method.name()
            );
            assert_eq!(
                x86::run(method, Precision::Double, 100),
                1.5,
                "{} in the limit",
                method.name()
            );
            assert_eq!(
                x86::run(method, Precision::Single, 100),
                1.5,
                "{} in the limit",
                method.name()
            );
        }
    }
}
