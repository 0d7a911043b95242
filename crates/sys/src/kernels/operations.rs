//! Single operations of the core: each waiting for the one before, and many at a time.
//!
//! What for: what limits a loop whose data is at hand depends on how long an operation takes and how often one can begin; no
//! table of processors has to be kept for that. What not: which instructions of a program are like which (`x86`), timing.

/// An operation and its width. Widths are those of registers; 64 is a scalar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Operation {
    /// The name in calibrations; `x86` has the same.
    pub name: &'static str,
    /// 64, 128, 256, 512.
    pub bits: u32,
}

/// Names, widths, and whether one can wait for another.
#[rustfmt::skip]
const ALL: [(&str, &[u32], bool); 15] = [
    ("instruction", &[64], false),
    ("simple", &[64], true),
    ("multiply", &[64], true),
    ("divide", &[32, 64], true),
    ("divide-long", &[32, 64], true),
    ("float-add", &[64, 128, 256, 512], true),
    ("float-multiply", &[64, 128, 256, 512], true),
    ("float-fused", &[64, 128, 256, 512], true),
    ("float-divide", &[64, 128, 256, 512], true),
    ("float-root", &[64, 128, 256, 512], true),
    ("single-divide", &[64, 128, 256, 512], true),
    ("single-root", &[64, 128, 256, 512], true),
    ("load", &[64, 128, 256, 512], false),
    ("store", &[64, 128, 256, 512], false),
    ("forward", &[64], true),
];

impl Operation {
    /// All, of every width.
    pub fn all() -> impl Iterator<Item = Operation> {
        ALL.into_iter().flat_map(|(name, widths, _)| {
            widths.iter().map(move |bits| Operation { name, bits: *bits })
        })
    }

    /// Whether one can wait for another.
    #[must_use]
    pub fn chains(self) -> bool {
        ALL.iter().any(|(name, _, chains)| *name == self.name && *chains)
    }
}

/// Operations per turn.
const EACH: u64 = 64;

/// Runs `turns` turns of 64 of these, each waiting for the one before if it is a `chain`, and returns how many; `None` where this
/// processor has no such operation.
#[must_use]
pub fn operate(operation: Operation, chain: bool, turns: u64) -> Option<u64> {
    let turns = turns.max(1);
    if chain && !operation.chains() {
        return None;
    }
    run(operation, chain, turns).then(|| turns.saturating_mul(EACH))
}

/// A line of memory of our own.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct Lines([u64; 64]);

/// `$each` is one operation of which register number `\\r` is its own; `$first` the number of a chain, `$all` eight numbers.
#[cfg(target_arch = "x86_64")]
macro_rules! turns {
    ($chain:expr, $turns:expr, $setup:expr, $first:literal, $all:literal, $each:literal) => {
        if $chain {
            turns!($turns, $setup, concat!(".irp r, ", $first, "\n.rept 8\n", $each, "\n.endr\n.endr"))
        } else {
            turns!($turns, $setup, concat!(".irp r, ", $all, "\n", $each, "\n.endr"))
        }
    };
    ($turns:expr, $setup:expr, $body:expr) => {{
        let mut lines = Lines([0; 64]);
        let doubles: [u64; 2] = [0x3ff8_0000_3f80_0001, 0x3ff0_0000_3f80_0001]; // 1.5 and 1, and no denormal single
        let singles: u64 = 0x3f80_0001_3f80_0001; // twice 1
        // Safety: memory is that of `lines`, 512 bytes aligned to a line, and the constants are read; all registers are named
        // as clobbered, the stack is not used. The caller has asked the CPU for the instructions. Divisions are of 1 or of
        // 2^63 (2^31) by 1, with nothing in the upper half, and do not overflow. It ends: `turns` counts down from 1 or more.
        unsafe {
            std::arch::asm!(
                // 1.5 in all registers but the last, which has 1.
                ".irp r, 0,1,2,3,4,5,6,7,14\nmovq xmm\\r, [r9]\nmovddup xmm\\r, xmm\\r\n.endr",
                "movq xmm15, [r9 + 8]",
                "movddup xmm15, xmm15",
                $setup,
                ".p2align 5",
                "2:",
                ".rept 8",
                $body,
                ".endr",
                "dec rcx",
                "jnz 2b",
                inout("rcx") $turns => _,
                in("rdi") lines.0.as_mut_ptr(),
                inout("r9") doubles.as_ptr() => _,
                inout("r10") singles => _,
                inout("rsi") 1u64 => _,
                inout("rax") 1u64 => _,
                out("rdx") _,
                out("r8") _,
                out("r11") _,
                out("r12") _,
                out("r13") _,
                out("r14") _,
                out("r15") _,
                clobber_abi("sysv64"),
                options(nostack),
            );
        }
        true
    }};
}

/// An operation on vector registers in its four widths.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
macro_rules! vectors {
    ($bits:expr, $chain:expr, $turns:expr, $setup:literal, $scalar:literal, $sse:literal, $avx:literal, $avx512:literal) => {
        match $bits {
            64 => turns!($chain, $turns, $setup, "0", "0,1,2,3,4,5,6,7", $scalar),
            128 => turns!($chain, $turns, $setup, "0", "0,1,2,3,4,5,6,7", $sse),
            256 if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => {
                let done = turns!($chain, $turns, concat!($setup, "\n.irp r, 0,1,2,3,4,5,6,7,14,15\nvbroadcastsd ymm\\r, xmm\\r\n.endr"), "0", "0,1,2,3,4,5,6,7", $avx);
                zero_upper();
                done
            }
            512 if is_x86_feature_detected!("avx512f") => {
                let done = turns!($chain, $turns, concat!($setup, "\n.irp r, 0,1,2,3,4,5,6,7,14,15\nvbroadcastsd zmm\\r, xmm\\r\n.endr"), "0", "0,1,2,3,4,5,6,7", $avx512);
                zero_upper();
                done
            }
            _ => false,
        }
    };
}

/// Else the next instructions of another kind would wait (SDM vol. 1, 14.1.2).
#[cfg(target_arch = "x86_64")]
fn zero_upper() {
    // Safety: only processors that have it come here; it changes the upper halves of vector registers, all of them clobbered.
    unsafe { std::arch::asm!("vzeroupper", clobber_abi("sysv64"), options(nomem, nostack)) }
}

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
fn run(Operation { name, bits }: Operation, chain: bool, turns: u64) -> bool {
    let fused = is_x86_feature_detected!("fma");
    if !is_x86_feature_detected!("sse3") {
        return false;
    }
    match name {
        "instruction" => turns!(chain, turns, "", "8", "8,9,10,11,12,13,14,15", "nop"),
        "simple" => turns!(chain, turns, "", "8", "8,9,10,11,12,13,14,15", "add r\\r, rsi"),
        "multiply" => turns!(chain, turns, "", "8", "8,9,10,11,12,13,14,15", "imul r\\r, rsi"),
        "divide" | "divide-long" => divide(name == "divide-long", bits, chain, turns),
        "float-add" => vectors!(bits, chain, turns, "", "addsd xmm\\r, xmm15", "addpd xmm\\r, xmm15", "vaddpd ymm\\r, ymm\\r, ymm15", "vaddpd zmm\\r, zmm\\r, zmm15"),
        "float-multiply" => vectors!(bits, chain, turns, "", "mulsd xmm\\r, xmm15", "mulpd xmm\\r, xmm15", "vmulpd ymm\\r, ymm\\r, ymm15", "vmulpd zmm\\r, zmm\\r, zmm15"),
        "float-fused" => fused && vectors!(bits, chain, turns, "", "vfmadd213sd xmm\\r, xmm15, xmm14", "vfmadd213pd xmm\\r, xmm15, xmm14", "vfmadd213pd ymm\\r, ymm15, ymm14", "vfmadd213pd zmm\\r, zmm15, zmm14"),
        "float-divide" => vectors!(bits, chain, turns, "", "divsd xmm\\r, xmm15", "divpd xmm\\r, xmm15", "vdivpd ymm\\r, ymm\\r, ymm15", "vdivpd zmm\\r, zmm\\r, zmm15"),
        "float-root" => vectors!(bits, chain, turns, "", "sqrtsd xmm\\r, xmm\\r", "sqrtpd xmm\\r, xmm\\r", "vsqrtpd ymm\\r, ymm\\r", "vsqrtpd zmm\\r, zmm\\r"),
        "single-divide" => vectors!(bits, chain, turns, "movq xmm15, r10\nmovddup xmm15, xmm15", "divss xmm\\r, xmm15", "divps xmm\\r, xmm15", "vdivps ymm\\r, ymm\\r, ymm15", "vdivps zmm\\r, zmm\\r, zmm15"),
        "single-root" => vectors!(bits, chain, turns, "", "sqrtss xmm\\r, xmm\\r", "sqrtps xmm\\r, xmm\\r", "vsqrtps ymm\\r, ymm\\r", "vsqrtps zmm\\r, zmm\\r"),
        "load" => vectors!(bits, chain, turns, "", "mov rax, [rdi + 8 * \\r]", "movaps xmm\\r, [rdi + 16 * \\r]", "vmovaps ymm\\r, [rdi + 32 * \\r]", "vmovaps zmm\\r, [rdi + 64 * (\\r % 8)]"),
        "store" => vectors!(bits, chain, turns, "", "mov [rdi + 8 * \\r], rsi", "movaps [rdi + 16 * \\r], xmm0", "vmovaps [rdi + 32 * \\r], ymm0", "vmovaps [rdi + 64 * (\\r % 8)], zmm0"),
        "forward" => turns!(chain, turns, "", "8", "8,9,10,11,12,13,14,15", "mov [rdi], rax\nmov rax, [rdi]"),
        _ => false,
    }
}

/// Processors divide the longer the more bits the quotient has: here it has one, or all.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
fn divide(long: bool, bits: u32, chain: bool, turns: u64) -> bool {
    match (long, bits, chain) {
        (false, 32, true) => turns!(true, turns, "", "8", "8", "xor edx, edx\ndiv esi"),
        (false, _, true) => turns!(true, turns, "", "8", "8", "xor edx, edx\ndiv rsi"),
        (true, 32, true) => turns!(true, turns, "mov eax, 0x80000000", "8", "8", "xor edx, edx\ndiv esi"),
        (true, _, true) => turns!(true, turns, "shl rax, 63", "8", "8", "xor edx, edx\ndiv rsi"),
        (false, 32, false) => turns!(true, turns, "mov r8, rax", "8", "8", "mov rax, r8\nxor edx, edx\ndiv esi"),
        (false, _, false) => turns!(true, turns, "mov r8, rax", "8", "8", "mov rax, r8\nxor edx, edx\ndiv rsi"),
        (true, 32, false) => turns!(true, turns, "mov r8d, 0x80000000", "8", "8", "mov rax, r8\nxor edx, edx\ndiv esi"),
        (true, _, false) => turns!(true, turns, "shl rax, 63\nmov r8, rax", "8", "8", "mov rax, r8\nxor edx, edx\ndiv rsi"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn run(_: Operation, _: bool, _: u64) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_operation_runs_or_is_not_there() {
        for operation in Operation::all() {
            let done = operate(operation, false, 3);
            assert!(
                done == Some(192) || operation.bits > 128 || operation.name == "float-fused",
                "{operation:?}"
            );
            assert_eq!(
                operate(operation, true, 3),
                done.filter(|_| operation.chains()),
                "{operation:?}"
            );
        }
        assert_eq!(operate(Operation { name: "else", bits: 64 }, false, 1), None);
    }
}
