//! Loops in which the core waits for one known instruction nearly all the time.
//!
//! What for: measuring the skid of clock samples, which differs by processor. What not: sampling, statistics.
//! Assumption: the buffer is larger than the caches; each iteration touches a random word of it, or divides.

use super::Buffer;

/// The instruction that the core waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// `mov` from memory.
    Load,
    /// `add` of a word in memory to a register.
    LoadOperand,
    /// `lock xadd`.
    Atomic,
    /// `mov` to memory.
    Store,
    /// `div`.
    Division,
}

/// Addresses of that instruction and of the three after it.
pub type WaitedAt = [u64; 4];

/// Runs `turns` (at least 1) iterations of the loop that waits for `wait` and returns the addresses of its
/// instructions. `None` if there is no such loop: on other architectures, with less than two words.
pub fn wait_for(wait: Wait, buffer: &mut Buffer, turns: u64) -> Option<WaitedAt> {
    run(wait, buffer.words_mut(), turns.max(1))
}

/// One loop: xorshift64 (Marsaglia 2003) draws the word. The instructions after the one that is waited for do
/// nothing.
#[cfg(target_arch = "x86_64")]
macro_rules! waits {
    ($words:expr, $mask:expr, $turns:expr, $setup:literal, $culprit:literal) => {{
        let mut at = [0u64; 4];
        // Safety: the index is cut to `mask`, which is below the number of words, all borrowed to read and write; `at` takes
        // four words. No division overflows: its dividend is below 2^63 times its divisor. Registers and flags are declared; the stack is not used.
        unsafe {
            std::arch::asm!(
                "lea {t}, [rip + 3f]",
                "mov [{at}], {t}",
                "lea {t}, [rip + 4f]",
                "mov [{at} + 8], {t}",
                "lea {t}, [rip + 5f]",
                "mov [{at} + 16], {t}",
                "lea {t}, [rip + 6f]",
                "mov [{at} + 24], {t}",
                "2:",
                "mov {t}, {x}",
                "shl {t}, 13",
                "xor {x}, {t}",
                "mov {t}, {x}",
                "shr {t}, 7",
                "xor {x}, {t}",
                "mov {t}, {x}",
                "shl {t}, 17",
                "xor {x}, {t}",
                "mov {i}, {x}",
                "and {i}, {mask}",
                $setup,
                "3:",
                $culprit,
                "4:",
                "nop",
                "5:",
                "nop",
                "6:",
                "nop",
                "nop",
                "dec {turns}",
                "jnz 2b",
                words = in(reg) $words,
                mask = in(reg) $mask,
                at = in(reg) at.as_mut_ptr(),
                turns = inout(reg) $turns => _,
                x = inout(reg) 88_172_645_463_325_252_u64 => _,
                t = out(reg) _,
                i = out(reg) _,
                out("rax") _,
                out("rdx") _,
                options(nostack),
            );
        }
        at
    }};
}

#[cfg(target_arch = "x86_64")]
fn run(wait: Wait, words: &mut [u64], turns: u64) -> Option<WaitedAt> {
    // Below the largest power of two of words.
    let mask = (1u64 << words.len().checked_ilog2().filter(|bits| *bits > 0)?) - 1;
    let words = words.as_mut_ptr();
    Some(match wait {
        Wait::Load => waits!(words, mask, turns, "", "mov rax, [{words} + {i} * 8]"),
        Wait::LoadOperand => waits!(words, mask, turns, "", "add rax, [{words} + {i} * 8]"),
        Wait::Atomic => waits!(words, mask, turns, "", "lock xadd [{words} + {i} * 8], rax"),
        Wait::Store => waits!(words, mask, turns, "", "mov [{words} + {i} * 8], {i}"),
        // 128 bits by 64, with a quotient that fits: the slowest form.
        Wait::Division => waits!(
            words,
            mask,
            turns,
            "/* {words} */\nmov rdx, {i}\nmov rax, {x}\nmov {t}, {x}\nbts {t}, 63\nshr rdx, 1",
            "div {t}"
        ),
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn run(_: Wait, _: &mut [u64], _: u64) -> Option<WaitedAt> {
    None
}

#[cfg(test)]
mod tests {
    use base::Bytes;

    use super::super::Pages;
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_loop_ends_and_says_where_it_is() {
        let mut buffer = Buffer::map(Bytes(1 << 20), Pages::Base).expect("1 MiB can be mapped");
        for wait in [Wait::Load, Wait::LoadOperand, Wait::Atomic, Wait::Store, Wait::Division] {
            let at = wait_for(wait, &mut buffer, 1000).expect("x86-64");
            assert!(at[0] < at[1] && at[1] + 1 == at[2] && at[2] + 1 == at[3], "{at:x?}");
        }
        assert!(buffer.words_mut().iter().any(|word| *word > 0), "stores arrive");
    }
}
