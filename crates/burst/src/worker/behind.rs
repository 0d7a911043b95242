//! What follows a burst while its thread runs natively again.
//!
//! What for: translates what the code leads to, hands blocks and records over. What not: the burst (`worker`), what records mean
//! (`drain`).

use std::sync::mpsc::TrySendError;

use base::{Nanos, Pid};
use facts::{Burst, BurstFlavour};
use sys::process;

use super::Worker;
use crate::schedule::Length;
use crate::tracer::Observation;

/// Blocks translated behind a long burst at most: about a millisecond; and behind a brief one.
pub(super) const BLOCKS_BETWEEN: usize = 100;
const BLOCKS_BEHIND_BRIEF: usize = 10;
/// Brief bursts are handed over by so many, or when the first of them is so old: to wake up the consumer takes as long as
/// such a burst.
pub const BATCH: usize = 8;
const LATEST: Nanos = Nanos(500_000_000);

impl Worker {
    /// What takes long behind a burst: translates what counted code leads to, and wakes the consumer up. Of what traces lead to,
    /// 2 to 11 % ever run: only that is translated to which windows came, and the rest left to the thread that comes there.
    pub(super) fn look_behind(&mut self, pid: Pid, flavour: BurstFlavour) {
        let most = match self.length {
            Length::Brief => BLOCKS_BEHIND_BRIEF,
            Length::Long => BLOCKS_BETWEEN,
        };
        let Some(program) = self.programs.get_mut(&pid) else { return };
        let counts = flavour == BurstFlavour::Count;
        if let Some((cache, code)) = program.ready(flavour).filter(|_| counts) {
            cache.translate_waiting(code, most, &mut self.next_block);
            program.prepare_traces(BLOCKS_BETWEEN, &mut self.next_block);
        }
        program.note_pages(flavour, &mut self.cost.pages);
        self.send_blocks(pid, flavour);
        let now = process::monotonic() - self.start;
        let is_late = self.pending.first().is_some_and(|(first, _)| now - first.time >= LATEST);
        let is_due = is_late || self.pending.len() >= BATCH || self.length == Length::Long;
        if is_due && !self.pending.is_empty() {
            self.hand_over();
        }
    }

    pub(super) fn send_blocks(&mut self, pid: Pid, flavour: BurstFlavour) {
        let ready = self.programs.get_mut(&pid).and_then(|program| program.ready(flavour));
        for block in ready.map(|(cache, _)| cache.take_new_blocks()).unwrap_or_default() {
            let _ = self.outlets.send.send(Observation::Block(pid, flavour, block));
        }
    }

    /// Hands what waits to the consumer; what it has no room for is lost, and said to be.
    pub(super) fn hand_over(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) =
            self.outlets.send_raw.try_send(pending)
        {
            for (burst, raw) in lost {
                self.shared.give_back(raw);
                let burst = Burst { records_lost: true, ..burst };
                let _ = self.outlets.send.send(Observation::Burst(burst));
            }
        }
    }
}
