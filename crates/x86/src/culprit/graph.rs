//! Which instruction can run before which.
//!
//! What for: decodes from addresses at which instructions certainly begin, along all direct branches, each byte once.
//! Where that does not show what precedes an address, linear decoding does, if it agrees from each of the 15 bytes at
//! a sufficient distance before: x86 code that is decoded from a wrong byte resynchronises within a few instructions.
//! What not: indirect jumps, other functions.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use base::RemoteAddr;

use super::Surroundings;
use super::step::Step;
use crate::code::{CodeBytes, LONGEST_INSTRUCTION, Window};
use crate::instruction::{Flow, Reader};

/// Most instructions of a loop that are followed to see whether a load feeds its own address.
pub(super) const LONGEST_LOOP: usize = 1024;
/// How far before an address linear decoding begins, bytes: some 16 instructions to resynchronise.
const SWEEP_BYTES: u64 = 64;

/// The predecessors of an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct Predecessors {
    from: Vec<RemoteAddr>,
    /// A call returns there.
    returns: bool,
}

impl Predecessors {
    pub(super) fn is_known(&self) -> bool {
        self.returns || !self.from.is_empty()
    }

    /// Exactly one instruction, and no returning call.
    pub(super) fn is_one(&self) -> bool {
        !self.returns && self.from.len() == 1
    }

    pub(super) fn instructions(&self) -> impl Iterator<Item = RemoteAddr> {
        self.from.iter().copied()
    }
}

pub(super) fn read(
    code: &[CodeBytes<'_>],
    starts: impl IntoIterator<Item = RemoteAddr>,
) -> Surroundings {
    let mut surroundings = Surroundings { steps: BTreeMap::new(), before: BTreeMap::new() };
    let mut reader = Reader::new();
    let starts: Vec<RemoteAddr> = starts.into_iter().collect();
    surroundings.follow(code, &mut reader, starts.clone());
    for start in starts {
        // Linear decoding is a guess. It is made only where the code itself does not tell what ran
        // before.
        let known = surroundings.before.get(&start).is_some_and(Predecessors::is_known);
        if !known
            && surroundings.steps.contains_key(&start)
            && let Some(from) = sweep(code, &mut reader, start)
        {
            surroundings.follow(code, &mut reader, vec![from]);
        }
    }
    surroundings
}

impl Surroundings {
    fn follow(&mut self, code: &[CodeBytes<'_>], reader: &mut Reader, mut open: Vec<RemoteAddr>) {
        while let Some(at) = open.pop() {
            if self.steps.contains_key(&at) {
                continue;
            }
            let Some(step) = Step::read(reader, Window::read(code, at).bytes(), at) else {
                continue;
            };
            let calls = matches!(step.flow, Some(Flow::Call(_) | Flow::IndirectCall));
            for next in step.leads_to(at) {
                let before = self.before.entry(next).or_default();
                before.returns |= calls;
                // Before the return ran the end of the callee, which is unknown.
                if !calls && !before.from.contains(&at) {
                    before.from.push(at);
                }
                open.push(next);
            }
            self.steps.insert(at, step);
        }
    }
}

/// The instruction before `at`, if linear decoding from every byte at a sufficient distance that reaches `at` reaches
/// it from the same instruction. Of 15 consecutive bytes one begins an instruction; decoding that does not reach `at`
/// began at another.
fn sweep(code: &[CodeBytes<'_>], reader: &mut Reader, at: RemoteAddr) -> Option<RemoteAddr> {
    let first = at.0.checked_sub(SWEEP_BYTES + LONGEST_INSTRUCTION as u64)?;
    let mut agreed = None;
    for start in (first..).take(LONGEST_INSTRUCTION) {
        let Some((from, step)) = last_before(code, reader, RemoteAddr(start), at) else { continue };
        let goes_on = matches!(step.flow, Some(Flow::Next | Flow::Conditional(_)))
            || matches!(step.flow, Some(Flow::Call(_) | Flow::IndirectCall));
        if !goes_on || agreed.is_some_and(|agreed| agreed != from) {
            return None;
        }
        agreed = Some(from);
    }
    agreed
}

/// The last instruction on the linear way from `from` to exactly `at`.
fn last_before(
    code: &[CodeBytes<'_>],
    reader: &mut Reader,
    mut from: RemoteAddr,
    at: RemoteAddr,
) -> Option<(RemoteAddr, Step)> {
    loop {
        let step = Step::read(reader, Window::read(code, from).bytes(), from)?;
        let next = RemoteAddr(from.0.checked_add(u64::from(step.length))?);
        match next.cmp(&at) {
            Ordering::Less => from = next,
            Ordering::Equal => return Some((from, step)),
            Ordering::Greater => return None,
        }
    }
}
