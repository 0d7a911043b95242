//! Turns the sums over every block into facts: per call chain, per pair of allocation and free, per class of
//! lifetimes.
//!
//! What not: the sums themselves (`aggregate`). Sites with one stack and call share a row.

use std::collections::BTreeMap;

use base::{Bytes, Nanos};
use facts::{AllocationCall, Fact, HeapFree, HeapLifetime, HeapStack, SinkError};

use super::super::aggregate::{CALL_FREE, CALL_PERSISTENT, Changes, SiteId, Sums, lifetime_class};
use super::{Context, Exact};
use crate::recorder::Recorder;

impl Exact {
    /// Writes what changed. Sites with one stack share a row.
    pub(super) fn write(
        &mut self,
        at: &Context<'_>,
        changes: &Changes,
        length: impl Fn(u64) -> Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let mut rows: BTreeMap<_, Sums> = BTreeMap::new();
        for (site, sums) in &changes.sites {
            let Some(named) = self.named.get(site.0 as usize) else { continue };
            let key = (named.process, named.stack, named.call);
            let state = self.rows.entry(key).or_default();
            let before = self.at_peak.insert(*site, sums.at_peak).unwrap_or(0);
            state.at_peak = state.at_peak.saturating_add(sums.at_peak).saturating_sub(before);
            state.largest = state.largest.max(sums.largest);
            let row = rows.entry(key).or_default();
            row.add(sums);
        }
        for ((process, stack, call), row) in rows {
            if call == CALL_FREE {
                continue;
            }
            let state = self.rows.get(&(process, stack, call)).copied().unwrap_or_default();
            recorder.push(Fact::HeapStack(HeapStack {
                time: at.now,
                pid: crate::heap::rings::pid(at.memory, process as usize),
                stack,
                call: call_of(call),
                allocations: row.allocations,
                allocated: Bytes(row.allocated),
                frees: row.frees,
                freed: Bytes(row.freed),
                temporary: row.temporary,
                lifetime: length(row.lifetime),
                largest: Bytes(state.largest),
                at_peak: Bytes(state.at_peak),
            }))?;
        }
        self.write_frees(at, changes, recorder)?;
        self.write_lifetimes(at, changes, recorder)
    }

    fn write_frees(
        &self,
        at: &Context<'_>,
        changes: &Changes,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let mut frees: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for part in &changes.freed_by {
            let process = self.named.get(part.site.0 as usize).map_or(0, |named| named.process);
            let key = (process, self.stack_of(part.site), self.stack_of(SiteId(part.part)));
            let sum = frees.entry(key).or_default();
            *sum = (sum.0.saturating_add(part.blocks), sum.1.saturating_add(part.bytes.0));
        }
        for ((process, stack, free_stack), (frees, freed)) in frees {
            let pid = crate::heap::rings::pid(at.memory, process as usize);
            let (time, freed) = (at.now, Bytes(freed));
            recorder.push(Fact::HeapFree(HeapFree {
                time,
                pid,
                stack,
                free_stack,
                frees,
                freed,
            }))?;
        }
        Ok(())
    }

    fn write_lifetimes(
        &self,
        at: &Context<'_>,
        changes: &Changes,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let mut rows: BTreeMap<_, (u64, u64, u64)> = BTreeMap::new();
        for part in &changes.lived {
            let Some(named) = self.named.get(part.site.0 as usize) else { continue };
            let (longest, temporary) = lifetime_class(part.part);
            let key = (named.process, named.stack, named.call, longest);
            let row = rows.entry(key).or_default();
            let temporary = if temporary { part.blocks } else { 0 };
            row.0 = row.0.saturating_add(part.blocks);
            row.1 = row.1.saturating_add(part.bytes.0);
            row.2 = row.2.saturating_add(temporary);
        }
        for ((process, stack, call, longest), (frees, freed, temporary)) in rows {
            recorder.push(Fact::HeapLifetime(HeapLifetime {
                time: at.now,
                pid: crate::heap::rings::pid(at.memory, process as usize),
                stack,
                call: call_of(call),
                longest: Nanos(longest),
                frees,
                freed: Bytes(freed),
                temporary,
            }))?;
        }
        Ok(())
    }
}

/// The call of a site.
fn call_of(site: u8) -> AllocationCall {
    match site {
        CALL_PERSISTENT => AllocationCall::Persistent,
        call => crate::heap::call(u32::from(call)),
    }
}
