//! Loops in branch stacks.
//!
//! What for: a branch to an address shortly before itself closes a loop. A stack has the branches before a sample, so the
//! branches before the closing one show whether a run of the loop continued or began. What not: names, shares, trip counts
//! (`analysis`).
//!
//! For each closing branch, the branches before it are read back in time:
//! * within the loop, or a call out of it together with its return: passed over;
//! * the same branch: the run continued;
//! * a branch outside the loop: the run began;
//! * a branch from outside into the loop, without a call for it in the stack: the run began, unless the loop is seen to call; then it
//!   may be a return, and is undecided;
//! * the end of the stack: undecided.
//!
//! The oldest branch of a stack is never decided, whatever the loop; so runs of all lengths are decided alike, as far as an iteration
//! fits into a stack.

use std::collections::{BTreeMap, HashMap};

use base::{Pid, StackId};
use facts::BranchLoop;

/// Deeper stacks than any hardware has are cut.
const DEEPEST: usize = 64;
/// Farther back it is no loop of one function.
const LONGEST: u64 = 64 << 10;
/// A return comes to the instruction after its call.
const LONGEST_CALL: u64 = 16;
/// More different branches are not kept: no program has as many hot loops.
const MOST: usize = 100_000;
/// The kernel's half of the address space.
const KERNEL: u64 = 1 << 63;

/// A branch of a stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Branch {
    /// The address of the branch.
    pub from: u64,
    /// Its target.
    pub to: u64,
}

impl Branch {
    /// Whether its ends are in the loop that `back` closes.
    fn ends_in(self, back: Branch) -> (bool, bool) {
        let body = back.to..=back.from;
        (body.contains(&self.from), body.contains(&self.to))
    }
}

/// Sums over stacks.
#[derive(Clone, Copy, Default)]
struct Runs {
    decided: u64,
    starts: u64,
    decided_squares: u64,
    products: u64,
    starts_squares: u64,
}

impl Runs {
    fn add(&mut self, decided: u64, starts: u64) {
        self.decided += decided;
        self.starts += starts;
        self.decided_squares += decided * decided;
        self.products += decided * starts;
        self.starts_squares += starts * starts;
    }
}

#[derive(Default)]
struct Sums {
    frames: Option<(Option<StackId>, Option<StackId>)>,
    taken: u64,
    stacks: u64,
    /// Without those that came in from outside, and with them as beginnings.
    sure: Runs,
    all: Runs,
    calls: bool,
}

/// The evidence of one branch of a stack about its loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BranchContext {
    SameRun,
    Outside,
    CameIn,
    Unknown,
}

/// All loops.
#[derive(Default)]
pub struct Branches {
    loops: HashMap<(Pid, Branch), Sums>,
    /// Stacks that the hardware kept of calls only, or of some branches.
    pub unusable: u64,
}

impl Branches {
    /// Takes the stack of a sample, the latest branch first: `from`, `to` and flags of each (`struct perf_branch_entry`). Returns the
    /// loops of it that have no frames yet.
    pub fn take(&mut self, pid: Pid, entries: impl Iterator<Item = [u64; 3]>) -> Vec<Branch> {
        let mut stack = Vec::with_capacity(DEEPEST);
        let mut goes_back = Vec::with_capacity(DEEPEST);
        for [from, to, flags] in entries.take(DEEPEST) {
            let branch = Branch { from, to };
            stack.push(branch);
            // Types since Linux 4.14, where they were asked for: unknown, conditional, unconditional, indirect.
            let jumps = flags >> 20 & 0xf <= 3;
            let near = branch.to <= branch.from && branch.from - branch.to < LONGEST;
            goes_back.push(jumps && near && branch.from < KERNEL && branch.to > 0);
        }
        let mut counts: BTreeMap<Branch, ([u64; 4], bool)> = BTreeMap::new();
        for (at, back) in stack.iter().enumerate().filter(|(at, _)| goes_back[*at]) {
            let (before, calls) = before(&stack[at + 1..], *back);
            let ([taken, decided, starts, came_in], called) = counts.entry(*back).or_default();
            *called |= calls;
            *taken += 1;
            *decided +=
                u64::from(matches!(before, BranchContext::SameRun | BranchContext::Outside));
            *starts += u64::from(before == BranchContext::Outside);
            *came_in += u64::from(before == BranchContext::CameIn);
        }
        let mut new = Vec::new();
        for (back, ([taken, decided, starts, came_in], called)) in counts {
            if self.loops.len() >= MOST && !self.loops.contains_key(&(pid, back)) {
                continue;
            }
            let sums = self.loops.entry((pid, back)).or_default();
            sums.taken += taken;
            sums.stacks += 1;
            sums.calls |= called;
            sums.sure.add(decided, starts);
            sums.all.add(decided + came_in, starts + came_in);
            if sums.frames.is_none() {
                new.push(back);
            }
        }
        new
    }

    /// The frames of a loop: at its branch, and where it begins.
    pub fn name(&mut self, pid: Pid, back: Branch, frames: (Option<StackId>, Option<StackId>)) {
        if let Some(sums) = self.loops.get_mut(&(pid, back)) {
            sums.frames = Some(frames);
        }
    }

    /// The facts, most taken first.
    pub fn into_facts(self) -> Vec<BranchLoop> {
        let mut loops: Vec<((Pid, Branch), Sums)> = self.loops.into_iter().collect();
        loops.sort_by_key(|((pid, back), sums)| {
            (std::cmp::Reverse(sums.taken), pid.0, back.from, back.to)
        });
        let fact = |((pid, _), sums): ((Pid, Branch), Sums)| {
            let (branch, head) = sums.frames.unwrap_or_default();
            let runs = if sums.calls { sums.sure } else { sums.all };
            BranchLoop {
                pid,
                branch,
                head,
                taken: sums.taken,
                stacks: sums.stacks,
                decided: runs.decided,
                starts: runs.starts,
                decided_squares: runs.decided_squares,
                products: runs.products,
                starts_squares: runs.starts_squares,
            }
        };
        loops.into_iter().map(fact).collect()
    }
}

/// The code before a branch that closes a loop, and whether the loop was seen to call. `older`: the branches before.
fn before(older: &[Branch], back: Branch) -> (BranchContext, bool) {
    let (mut at, mut calls) = (0, false);
    while let Some(branch) = older.get(at) {
        let before = match branch.ends_in(back) {
            _ if *branch == back => BranchContext::SameRun,
            (true, true) => {
                at += 1;
                continue;
            }
            (false, true) => {
                let is_call = |call: &&Branch| {
                    let after = branch.to.checked_sub(call.from);
                    call.ends_in(back) == (true, false)
                        && after.is_some_and(|bytes| (1..=LONGEST_CALL).contains(&bytes))
                };
                let older = &older[at + 1..];
                match older.iter().position(|call| is_call(&call)) {
                    Some(call) => {
                        calls = true;
                        at += call + 2;
                        continue;
                    }
                    None => BranchContext::CameIn,
                }
            }
            _ => BranchContext::Outside,
        };
        return (before, calls);
    }
    (BranchContext::Unknown, calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACK: Branch = Branch { from: 0x140, to: 0x100 };
    const OUT: Branch = Branch { from: 0x500, to: 0x600 };

    fn counted(stacks: &[&[Branch]]) -> BranchLoop {
        let mut branches = Branches::default();
        for stack in stacks {
            branches.take(Pid(7), stack.iter().map(|branch| [branch.from, branch.to, 0]));
        }
        let facts = branches.into_facts();
        facts.into_iter().find(|one| one.taken > 0).expect("a loop")
    }

    #[test]
    fn runs_go_on_begin_or_are_cut_off() {
        // Two runs of three and, cut off, of two.
        let found = counted(&[&[BACK, BACK, BACK, OUT, BACK, BACK]]);
        assert_eq!((found.taken, found.stacks), (5, 1));
        assert_eq!((found.decided, found.starts), (4, 1));
        assert_eq!((found.decided_squares, found.products, found.starts_squares), (16, 4, 1));
    }

    #[test]
    fn branches_within_and_calls_are_passed_over() {
        let within = Branch { from: 0x110, to: 0x120 };
        let call = Branch { from: 0x130, to: 0x900 };
        let back_home = Branch { from: 0x920, to: 0x135 };
        let found = counted(&[&[BACK, within, BACK, back_home, call, within, BACK, OUT]]);
        assert_eq!((found.taken, found.decided, found.starts), (3, 3, 1));
    }

    #[test]
    fn who_comes_in_begins_unless_the_loop_calls() {
        let enters = Branch { from: 0x50, to: 0x120 };
        let found = counted(&[&[BACK, BACK, enters]]);
        assert_eq!((found.decided, found.starts), (2, 1));
        // The same where a return may be it: its call is beyond the stack.
        let (call, back_home) =
            (Branch { from: 0x130, to: 0x900 }, Branch { from: 0x920, to: 0x135 });
        let calls: &[Branch] = &[BACK, back_home, call, BACK, OUT];
        let found = counted(&[calls, calls, &[BACK, BACK, back_home]]);
        assert_eq!((found.decided, found.starts), (5, 2));
    }

    #[test]
    fn calls_far_jumps_and_the_kernel_are_no_loops() {
        let mut branches = Branches::default();
        for entry in [
            [0x140, 0x100, 4 << 20],
            [0x200_0000, 0x100, 0],
            [KERNEL + 0x140, KERNEL + 0x100, 0],
            [0x100, 0x140, 0],
        ] {
            branches.take(Pid(7), [entry].into_iter());
        }
        assert!(branches.into_facts().is_empty());
    }
}
