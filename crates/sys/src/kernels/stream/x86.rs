//! The kernels in x86-64 assembly, for 16, 32 and 64-byte vectors.
//!
//! Every loop handles four lines (256 bytes) of each array per turn and counts one register up from minus the
//! array's length to zero, so that all arrays share it: `[end of array + counter]`.

use std::arch::asm;

use super::{Arrays, FACTOR, Kernel, STEP, Simd};

/// Ends of the arrays and minus their length in bytes, as the loops want them.
struct Operands {
    destination: *mut f64,
    first: *const f64,
    second: *const f64,
    minus_bytes: isize,
}

/// Runs one pass. `simd` must be available on this CPU: [`super::sweep`] has checked.
pub(super) fn sweep(kernel: Kernel, simd: Simd, arrays: &mut Arrays<'_>) {
    let length = arrays.length();
    assert!(length > 0 && length.is_multiple_of(STEP), "arrays are cut to whole turns of the loop");
    let operands = Operands {
        destination: arrays.destination.as_mut_ptr_range().end,
        first: arrays.first.as_ptr_range().end,
        second: arrays.second.as_ptr_range().end,
        minus_bytes: -((length * size_of::<f64>()) as isize),
    };
    // Safety: every array that `kernel` uses has `length` elements, a whole number of turns (asserted), starts at
    // a multiple of 256 bytes of a 2 MiB-aligned buffer, and is borrowed for this call, the written one
    // exclusively. The caller has asked the CPU for `simd`.
    unsafe {
        match simd {
            Simd::Baseline => sse2(kernel, &operands),
            Simd::Avx2 => avx2(kernel, &operands),
            Simd::Avx512 => avx512(kernel, &operands),
        }
    }
}

/// One loop: `$offsets` are the vectors of four lines, `\\o` stands for one of them in a `$step`.
macro_rules! turn {
    ($operands:ident, $setup:expr, $offsets:literal, $finish:literal, $($step:expr),+) => {
        // Safety: the caller vouches for the arrays; the loop runs from the first to the last byte of each and
        // no further. The ABI's clobbers cover every vector register; memory is a clobber by default.
        unsafe {
            asm!(
                $setup,
                ".p2align 5",
                "2:",
                concat!(".irp o, ", $offsets),
                $($step,)+
                ".endr",
                "add rcx, 256",
                "js 2b",
                $finish,
                inout("rcx") $operands.minus_bytes => _,
                in("rdi") $operands.destination,
                in("rsi") $operands.first,
                in("rdx") $operands.second,
                in("r8") &raw const FACTOR_IN_MEMORY,
                clobber_abi("sysv64"),
                options(nostack),
            )
        }
    };
}

/// Where the loops read their constant.
static FACTOR_IN_MEMORY: f64 = FACTOR;

/// All kernels for one vector width. `$v` and `$s` are the scratch register and the one with the constant,
/// `$dup` repeats the first operand where the encoding has three.
#[rustfmt::skip] // What a kernel does on a line.
macro_rules! kernels {
    ($name:ident, $v:literal, $s:literal, $dup:literal, $load:literal, $store:literal, $store_nt:literal,
     $add:literal, $mul:literal, $setup:literal, $offsets:literal, $finish:literal) => {
        /// # Safety
        /// The CPU has the instructions; the arrays are as `sweep` above says.
        unsafe fn $name(kernel: Kernel, operands: &Operands) {
            macro_rules! step {
                (load first) => { concat!($load, " ", $v, ", [rsi + rcx + \\o]") };
                (load second) => { concat!($load, " ", $v, ", [rdx + rcx + \\o]") };
                (add first) => { concat!($add, " ", $v, ", ", $dup, "[rsi + rcx + \\o]") };
                (add second) => { concat!($add, " ", $v, ", ", $dup, "[rdx + rcx + \\o]") };
                (scale) => { concat!($mul, " ", $v, ", ", $dup, $s) };
                (store) => { concat!($store, " [rdi + rcx + \\o], ", $v) };
                (store past) => { concat!($store_nt, " [rdi + rcx + \\o], ", $v) };
                (store constant) => { concat!($store, " [rdi + rcx + \\o], ", $s) };
                (store constant past) => { concat!($store_nt, " [rdi + rcx + \\o], ", $s) };
            }
            match kernel {
                Kernel::Load => turn!(operands, $setup, $offsets, $finish, step!(load first)),
                Kernel::Store => turn!(operands, $setup, $offsets, $finish, step!(store constant)),
                Kernel::StoreNt => turn!(operands, $setup, $offsets, $finish, step!(store constant past)),
                Kernel::Copy => turn!(operands, $setup, $offsets, $finish, step!(load first), step!(store)),
                Kernel::CopyNt => turn!(operands, $setup, $offsets, $finish, step!(load first), step!(store past)),
                Kernel::Scale => turn!(operands, $setup, $offsets, $finish, step!(load first), step!(scale), step!(store)),
                Kernel::Add => turn!(operands, $setup, $offsets, $finish, step!(load first), step!(add second), step!(store)),
                Kernel::Triad => turn!(operands, $setup, $offsets, $finish,
                    step!(load second), step!(scale), step!(add first), step!(store)),
                Kernel::TriadNt => turn!(operands, $setup, $offsets, $finish,
                    step!(load second), step!(scale), step!(add first), step!(store past)),
            }
        }
    };
}

// `sfence`: non-temporal stores leave the write-combining buffers before the pass counts as done (SDM vol. 1,
// 10.4.6.2). `vzeroupper`: no penalty for the SSE code that follows (optimisation manual, 15.3).
kernels!(
    sse2,
    "xmm0",
    "xmm15",
    "",
    "movapd",
    "movapd",
    "movntpd",
    "addpd",
    "mulpd",
    "movsd xmm15, [r8]\nunpcklpd xmm15, xmm15",
    "0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240",
    "sfence"
);
kernels!(
    avx2,
    "ymm0",
    "ymm15",
    "ymm0, ",
    "vmovapd",
    "vmovapd",
    "vmovntpd",
    "vaddpd",
    "vmulpd",
    "vbroadcastsd ymm15, [r8]",
    "0, 32, 64, 96, 128, 160, 192, 224",
    "sfence\nvzeroupper"
);
kernels!(
    avx512,
    "zmm0",
    "zmm15",
    "zmm0, ",
    "vmovapd",
    "vmovapd",
    "vmovntpd",
    "vaddpd",
    "vmulpd",
    "vbroadcastsd zmm15, [r8]",
    "0, 64, 128, 192",
    "sfence\nvzeroupper"
);
