//! Chooses blocks to translate before a thread reaches them: each block that a thread must stop for costs it some 60
//! us.
//!
//! What not: translating them (`x86::translate`).

use base::RemoteAddr;

use super::Cache;
use crate::code_map::CodeMap;

impl Cache {
    /// Where basic blocks begin in the blocks with these numbers, each once.
    #[must_use]
    pub fn basic_blocks(&self, numbers: &[u32]) -> Vec<RemoteAddr> {
        let blocks = numbers.iter().filter_map(|number| self.block(*number));
        let mut starts: Vec<RemoteAddr> =
            blocks.flat_map(|block| block.basic_blocks.iter().copied()).collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Translates blocks with these starts, at most `most`. No thread waits for it.
    pub fn translate_all(
        &mut self,
        code: &CodeMap,
        starts: &[RemoteAddr],
        most: usize,
        next_id: &mut u32,
    ) {
        let new: Vec<RemoteAddr> =
            starts.iter().copied().filter(|start| !self.has(*start)).take(most).collect();
        for start in new {
            if self.is_full() {
                return;
            }
            // An error is left for the thread that gets there: it will ask again.
            let _ = self.enter(code, start, next_id);
        }
    }

    /// Translates what can be reached from `from` by direct jumps, at most `most` blocks.
    pub fn translate_ahead(
        &mut self,
        code: &CodeMap,
        from: RemoteAddr,
        most: usize,
        next_id: &mut u32,
    ) {
        let mut todo = vec![from];
        let mut next = 0;
        let mut added = 0;
        while let Some(at) = todo.get(next).copied() {
            next += 1;
            let known = self.has(at);
            // What known blocks lead to was translated with them, or was not wanted then.
            if known && at != from || !known && self.enter(code, at, next_id).is_err() {
                continue;
            }
            added += usize::from(!known);
            if added >= most {
                return;
            }
            for target in self.leads_to(at) {
                if !todo.contains(&target) {
                    todo.push(target);
                }
            }
        }
    }

    /// Where the block at this address leads by jumps whose targets have no block yet.
    #[must_use]
    pub fn leads_to(&self, start: RemoteAddr) -> Vec<RemoteAddr> {
        let block = self.by_start.get(&start).and_then(|number| self.block(*number));
        let exits = block.map_or(0..0, |block| block.exits.clone());
        let targets = self.exits[exits].iter().map(|exit| exit.exit.target);
        targets.filter(|target| !self.has(*target)).collect()
    }

    /// Number of blocks, and of those that windows counted.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.blocks.len(), self.ran)
    }

    /// Of code that counts: where threads came to so far, and whether by a jump whose target is known.
    #[must_use]
    pub fn came_to(&self) -> Vec<(RemoteAddr, bool)> {
        let ran =
            |exit: &u32| self.block(self.exits[*exit as usize].block).is_some_and(|from| from.ran);
        let there = self.blocks.iter().filter(|block| block.ran);
        there.map(|block| (block.start, block.linked.iter().any(ran))).collect()
    }

    /// Translates, at most `most` blocks, where windows [`came_to`](Cache::came_to): what blocks lead to, and what is led to by no
    /// jump with a known target. Superblocks contain the rest.
    pub fn translate_reached(
        &mut self,
        code: &CodeMap,
        came_to: &[(RemoteAddr, bool)],
        most: usize,
        next_id: &mut u32,
    ) {
        let mut left = most;
        // What is translated leads on.
        loop {
            let leads =
                |(start, jumped): &&(RemoteAddr, bool)| !jumped || self.waiting.contains_key(start);
            let wanted = came_to.iter().filter(leads).map(|(start, _)| *start);
            let wanted: Vec<RemoteAddr> = wanted.collect();
            let tried = self.translate_new(code, &wanted, left, next_id);
            if tried == 0 {
                return;
            }
            left -= tried;
        }
    }

    /// Translates those of these targets that are not there yet, at most `most`; returns how many it tried.
    fn translate_new(
        &mut self,
        code: &CodeMap,
        targets: &[RemoteAddr],
        most: usize,
        next_id: &mut u32,
    ) -> usize {
        let mut tried = 0;
        for target in targets.iter().copied() {
            if tried == most {
                break;
            }
            if self.is_full() || self.hopeless.contains(&target) || self.has(target) {
                continue;
            }
            tried += 1;
            if self.enter(code, target, next_id).is_err() {
                self.hopeless.insert(target);
            }
        }
        tried
    }

    /// Translates what blocks that ran lead to and is not there yet, at most `most` blocks. For the time between bursts, when
    /// no thread waits for it. What blocks lead to that never ran is mostly not wanted either. Of code that counts.
    pub fn translate_waiting(&mut self, code: &CodeMap, most: usize, next_id: &mut u32) {
        self.returns.retain(|target, _| !self.by_start.contains_key(target));
        let ran = |number: u32| self.block(number).is_some_and(|block| block.ran);
        let returns = self.returns.iter().filter(|(_, from)| ran(**from)).map(|(target, _)| target);
        let leads =
            |exits: &Vec<u32>| exits.iter().any(|exit| ran(self.exits[*exit as usize].block));
        let waiting =
            self.waiting.iter().filter(|(_, exits)| leads(exits)).map(|(target, _)| target);
        let targets: Vec<RemoteAddr> = returns.chain(waiting).copied().collect();
        self.translate_new(code, &targets, most, next_id);
    }
}
