//! The code around the code that is timed, and the layout of the timing process.
//!
//! What for: machine code of ours that sets registers, runs the given code and reads the clock, many times without a
//! system call. What not: the process (`child`), the code that is timed.
//!
//! ```text
//! arena   +0x0000  this stub         read, execute
//!         +0x1000  its data          read, write
//!         +0xe000  the code to time  read, execute; ends with a jump to `behind`
//!
//! outer:  clock -> began
//! inner:  registers := data; lfence; jump to entry
//!           the code
//! behind: lfence; inner again, `inner` times
//!         clock - began -> results; outer again, `outer` times; int3
//! ```
//!
//! Every pass begins with the same registers, so every pass does the same. The fences separate passes: without them
//! the start of one would overlap the end of the one before, and a chain of dependent instructions would look
//! shorter.
//!
//! Assumptions: `lfence` waits for all earlier instructions (SDM vol. 2, LFENCE; AMD: with DE_CFG[1], which Linux
//! sets, arch/x86/kernel/cpu/amd.c). The cost of a pass without its code is the same in each, and cancels in a
//! difference.

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// Offset of the data in the arena.
pub(super) const DATA: usize = PAGE;
/// Offset of the code to time.
pub(super) const CODE: usize = DATA + NOTES + 8 * MOST_NOTES;
/// Most bytes of it, including the jump after it.
pub(super) const CODE_BYTES: usize = 32 * PAGE;
/// Bytes of the arena.
pub(super) const ARENA_BYTES: usize = CODE + CODE_BYTES;

// Offsets in the data. The first sixteen words are rax .. r15 by number of the encoding.
pub(super) const ENTRY: usize = 0x80;
pub(super) const INNER: usize = 0x88;
const LEFT: usize = 0x90;
pub(super) const OUTER: usize = 0x98;
pub(super) const DONE: usize = 0xa0;
const BEGAN: usize = 0xa8;
/// The flags, and the stack from which they are popped.
pub(super) const FLAGS: usize = 0xb0;
/// A `struct itimerval`.
pub(super) const TIMER: usize = 0xc0;
pub(super) const RESULTS: usize = 0x100;
/// Most results.
pub(super) const MOST_RESULTS: usize = 256;
/// An XSAVE image in standard format; aligned to 64 bytes, as XRSTOR demands (SDM vol. 2).
pub(super) const IMAGE: usize = 0x1000;
/// Room for it: all state up to AVX-512 ends before 2.7 KiB (SDM vol. 1, 13.4 and CPUID leaf 0DH).
pub(super) const IMAGE_BYTES: usize = 4 * PAGE;
/// Words that the code may fill.
pub(super) const NOTES: usize = IMAGE + IMAGE_BYTES;
/// Number of them.
pub(super) const MOST_NOTES: usize = 4096;

std::arch::global_asm!(
    ".pushsection .rodata.fathom_timing,\"a\",@progbits",
    ".globl fathom_timing_begin, fathom_timing_outer, fathom_timing_behind, fathom_timing_end",
    ".hidden fathom_timing_begin, fathom_timing_outer, fathom_timing_behind, fathom_timing_end",
    ".balign 64",
    "fathom_timing_begin:",
    "syscall",
    "int3",
    // Padding must be nops: in a section of constants it would be zeroes.
    ".balign 64, 0x90",
    "fathom_timing_outer:",
    "mov rax, [rip + fathom_timing_begin + {data} + {inner}]",
    "mov [rip + fathom_timing_begin + {data} + {left}], rax",
    "lfence",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov [rip + fathom_timing_begin + {data} + {began}], rax",
    ".balign 64, 0x90",
    "20:",
    // x87, SSE, AVX, AVX-512; nothing is loaded for those that the processor lacks (SDM vol. 1, 13.8).
    "mov eax, 0xe7",
    "xor edx, edx",
    "xrstor64 [rip + fathom_timing_begin + {data} + {image}]",
    "lea rsp, [rip + fathom_timing_begin + {data} + {flags}]",
    "popfq",
    "mov rax, [rip + fathom_timing_begin + {data}]",
    "mov rcx, [rip + fathom_timing_begin + {data} + 8]",
    "mov rdx, [rip + fathom_timing_begin + {data} + 16]",
    "mov rbx, [rip + fathom_timing_begin + {data} + 24]",
    "mov rsp, [rip + fathom_timing_begin + {data} + 32]",
    "mov rbp, [rip + fathom_timing_begin + {data} + 40]",
    "mov rsi, [rip + fathom_timing_begin + {data} + 48]",
    "mov rdi, [rip + fathom_timing_begin + {data} + 56]",
    "mov r8, [rip + fathom_timing_begin + {data} + 64]",
    "mov r9, [rip + fathom_timing_begin + {data} + 72]",
    "mov r10, [rip + fathom_timing_begin + {data} + 80]",
    "mov r11, [rip + fathom_timing_begin + {data} + 88]",
    "mov r12, [rip + fathom_timing_begin + {data} + 96]",
    "mov r13, [rip + fathom_timing_begin + {data} + 104]",
    "mov r14, [rip + fathom_timing_begin + {data} + 112]",
    "mov r15, [rip + fathom_timing_begin + {data} + 120]",
    "lfence",
    "jmp qword ptr [rip + fathom_timing_begin + {data} + {entry}]",
    ".balign 64, 0x90",
    "fathom_timing_behind:",
    "lfence",
    "dec qword ptr [rip + fathom_timing_begin + {data} + {left}]",
    "jnz 20b",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "sub rax, [rip + fathom_timing_begin + {data} + {began}]",
    "mov rcx, [rip + fathom_timing_begin + {data} + {done}]",
    "lea rdx, [rip + fathom_timing_begin + {data} + {results}]",
    "mov [rdx + rcx * 8], rax",
    "inc rcx",
    "mov [rip + fathom_timing_begin + {data} + {done}], rcx",
    "cmp rcx, [rip + fathom_timing_begin + {data} + {outer}]",
    "jb fathom_timing_outer",
    "int3",
    "fathom_timing_end:",
    ".popsection",
    data = const DATA,
    inner = const INNER,
    left = const LEFT,
    began = const BEGAN,
    image = const IMAGE,
    flags = const FLAGS,
    entry = const ENTRY,
    done = const DONE,
    results = const RESULTS,
    outer = const OUTER,
);

// Safety: the labels above, at which constant bytes lie for as long as we run.
unsafe extern "C" {
    static fathom_timing_begin: u8;
    static fathom_timing_outer: u8;
    static fathom_timing_behind: u8;
    static fathom_timing_end: u8;
}

/// The stub. It begins with `syscall; int3` and ends with `int3`; it runs wherever its data is [`DATA`] bytes after
/// it.
pub(super) fn bytes() -> &'static [u8] {
    // Safety: both labels stand in one section of constants, this many bytes apart.
    unsafe {
        std::slice::from_raw_parts(
            &raw const fathom_timing_begin,
            offset(&raw const fathom_timing_end),
        )
    }
}

/// Offset of the label at which the process is started.
pub(super) fn outer() -> usize {
    offset(&raw const fathom_timing_outer)
}

/// Offset of the label to which the timed code jumps.
pub(super) fn behind() -> usize {
    offset(&raw const fathom_timing_behind)
}

fn offset(label: *const u8) -> usize {
    (label as usize).wrapping_sub(&raw const fathom_timing_begin as usize)
}
