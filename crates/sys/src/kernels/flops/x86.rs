//! The arithmetic loops in x86-64 assembly: 12 accumulators in registers 0-11, multiplier in 14, addend in 15.

use std::arch::asm;

use super::{FlopMethod, Precision};

/// Multiplier and addend of both precisions, where the loops load them from.
static DOUBLE: [f64; 3] = [1.0, 0.5, 0.75];
static SINGLE: [f32; 3] = [1.0, 0.5, 0.75];

/// One loop. `\\r` stands for the number of an accumulator in `$start` and `$body`.
macro_rules! turns {
    ($constants:expr, $number:ty, $turns:ident, $setup:literal, $start:literal, $body:literal, $finish:literal) => {{
        let mut result: $number = 0.0;
        // Safety: reads three constants and writes one number, all of the size that the loop's instructions
        // have; the ABI's clobbers cover every vector register; the stack is not used. The caller has asked the
        // CPU for these instructions.
        unsafe {
            asm!(
                $setup,
                ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                $start,
                ".endr",
                ".p2align 5",
                "2:",
                ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                $body,
                ".endr",
                "dec rcx",
                "jnz 2b",
                $finish,
                inout("rcx") $turns => _,
                in("rsi") $constants.as_ptr(),
                in("rdi") &raw mut result,
                clobber_abi("sysv64"),
                options(nostack),
            );
        }
        result
    }};
}

/// Runs `turns` (at least 1) turns and returns the first element of the first accumulator. The CPU must have
/// the method: [`super::multiply_add`] has checked.
pub(super) fn run(method: FlopMethod, precision: Precision, turns: u64) -> f64 {
    match precision {
        Precision::Double => double(method, turns),
        Precision::Single => f64::from(single(method, turns)),
    }
}

fn double(method: FlopMethod, turns: u64) -> f64 {
    match method {
        FlopMethod::Scalar => turns!(
            DOUBLE,
            f64,
            turns,
            "movsd xmm14, [rsi + 8]\nmovsd xmm15, [rsi + 16]",
            "movsd xmm\\r, [rsi]",
            "mulsd xmm\\r, xmm14\naddsd xmm\\r, xmm15",
            "movsd [rdi], xmm0"
        ),
        FlopMethod::Sse2 => turns!(
            DOUBLE,
            f64,
            turns,
            "movsd xmm14, [rsi + 8]\nunpcklpd xmm14, xmm14\nmovsd xmm15, [rsi + 16]\nunpcklpd xmm15, xmm15",
            "movsd xmm\\r, [rsi]\nunpcklpd xmm\\r, xmm\\r",
            "mulpd xmm\\r, xmm14\naddpd xmm\\r, xmm15",
            "movsd [rdi], xmm0"
        ),
        FlopMethod::Avx2Fma => turns!(
            DOUBLE,
            f64,
            turns,
            "vbroadcastsd ymm14, [rsi + 8]\nvbroadcastsd ymm15, [rsi + 16]",
            "vbroadcastsd ymm\\r, [rsi]",
            "vfmadd213pd ymm\\r, ymm14, ymm15",
            "vmovsd [rdi], xmm0\nvzeroupper"
        ),
        FlopMethod::Avx512 => turns!(
            DOUBLE,
            f64,
            turns,
            "vbroadcastsd zmm14, [rsi + 8]\nvbroadcastsd zmm15, [rsi + 16]",
            "vbroadcastsd zmm\\r, [rsi]",
            "vfmadd213pd zmm\\r, zmm14, zmm15",
            "vmovsd [rdi], xmm0\nvzeroupper"
        ),
    }
}

fn single(method: FlopMethod, turns: u64) -> f32 {
    match method {
        FlopMethod::Scalar => turns!(
            SINGLE,
            f32,
            turns,
            "movss xmm14, [rsi + 4]\nmovss xmm15, [rsi + 8]",
            "movss xmm\\r, [rsi]",
            "mulss xmm\\r, xmm14\naddss xmm\\r, xmm15",
            "movss [rdi], xmm0"
        ),
        FlopMethod::Sse2 => turns!(
            SINGLE,
            f32,
            turns,
            "movss xmm14, [rsi + 4]\nshufps xmm14, xmm14, 0\nmovss xmm15, [rsi + 8]\nshufps xmm15, xmm15, 0",
            "movss xmm\\r, [rsi]\nshufps xmm\\r, xmm\\r, 0",
            "mulps xmm\\r, xmm14\naddps xmm\\r, xmm15",
            "movss [rdi], xmm0"
        ),
        FlopMethod::Avx2Fma => turns!(
            SINGLE,
            f32,
            turns,
            "vbroadcastss ymm14, [rsi + 4]\nvbroadcastss ymm15, [rsi + 8]",
            "vbroadcastss ymm\\r, [rsi]",
            "vfmadd213ps ymm\\r, ymm14, ymm15",
            "vmovss [rdi], xmm0\nvzeroupper"
        ),
        FlopMethod::Avx512 => turns!(
            SINGLE,
            f32,
            turns,
            "vbroadcastss zmm14, [rsi + 4]\nvbroadcastss zmm15, [rsi + 8]",
            "vbroadcastss zmm\\r, [rsi]",
            "vfmadd213ps zmm\\r, zmm14, zmm15",
            "vmovss [rdi], xmm0\nvzeroupper"
        ),
    }
}
