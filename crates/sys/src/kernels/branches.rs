//! Branches that no predictor can predict, and the same ones that every predictor predicts.
//!
//! What not: what follows from the difference of their times (`calibrate`).

/// Runs this many iterations, each with one branch that depends on a drawn number (xorshift64, Marsaglia 2003): with
/// `chance` it goes either way at random, else always the same. Every second branch of the former is mispredicted,
/// whatever the predictor. Each iteration waits for the number of the one before, so that nothing is executed ahead
/// of an unresolved branch. Returns the number of branches not taken; `None` on processors without such a loop.
#[must_use]
pub fn branches(chance: bool, turns: u64) -> Option<u64> {
    run(chance, turns.max(1))
}

#[cfg(target_arch = "x86_64")]
fn run(chance: bool, turns: u64) -> Option<u64> {
    let mask = u64::from(chance) << 20;
    let mut passed = 0u64;
    // SAFETY: registers only, all of them named as outputs; no memory, no stack. It ends: `turns` is at least 1 and counts
    // down to 0.
    unsafe {
        std::arch::asm!(
            "2:",
            "mov {copy}, {state}",
            "shl {copy}, 13",
            "xor {state}, {copy}",
            "mov {copy}, {state}",
            "shr {copy}, 7",
            "xor {state}, {copy}",
            "mov {copy}, {state}",
            "shl {copy}, 17",
            "xor {state}, {copy}",
            "mov {copy}, {state}",
            "and {copy}, {mask}",
            "jz 3f",
            "add {passed}, 1",
            "3:",
            "sub {turns}, 1",
            "jnz 2b",
            copy = out(reg) _,
            state = inout(reg) 0x2545_f491_4f6c_dd1d_u64 => _,
            mask = in(reg) mask,
            passed = inout(reg) passed,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    Some(passed)
}

#[cfg(target_arch = "aarch64")]
fn run(chance: bool, turns: u64) -> Option<u64> {
    let mask = u64::from(chance) << 20;
    let mut passed = 0u64;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "2:",
            "eor {state}, {state}, {state}, lsl #13",
            "eor {state}, {state}, {state}, lsr #7",
            "eor {state}, {state}, {state}, lsl #17",
            "tst {state}, {mask}",
            "b.eq 3f",
            "add {passed}, {passed}, #1",
            "3:",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            state = inout(reg) 0x2545_f491_4f6c_dd1d_u64 => _,
            mask = in(reg) mask,
            passed = inout(reg) passed,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    Some(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_them_go_each_way_by_chance_and_all_the_same_without() {
        let passed = branches(true, 100_000).expect("a loop");
        assert!((49_000..51_000).contains(&passed), "{passed}");
        assert_eq!(branches(false, 100_000), Some(0));
        assert_eq!(branches(false, 0), Some(0));
    }
}
