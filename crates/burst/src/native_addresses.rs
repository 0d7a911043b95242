//! Native addresses of translated code.
//!
//! What for: samplers also interrupt threads in bursts, at addresses of the code cache. These samples belong to the
//! program's own code. What not: registers; those that samplers unwind with (rsp, rbp) are native in translated code.
//!
//! Assumption: a sample is looked up within about a second. If a cache is emptied and filled again in that time, a
//! sample of the earlier code is attributed to the later code.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use base::{Pid, RemoteAddr};
use x86::translate::{NativeRip, Parts, States};

/// Whether a mapping of this name (`/proc/PID/maps`) is ours.
#[must_use]
pub fn is_our_mapping(name: &str) -> bool {
    name.starts_with("/memfd:fathom")
}

struct Copy {
    length: usize,
    /// Native addresses from an offset on.
    natives: Vec<(usize, RemoteAddr)>,
}

type Copies = BTreeMap<RemoteAddr, Copy>;

/// The tracer adds addresses; samplers look them up.
#[derive(Clone, Default)]
pub struct NativeAddresses(Arc<RwLock<HashMap<Pid, Copies>>>);

impl NativeAddresses {
    /// A block was translated, to a copy of so many bytes.
    pub(crate) fn add(&self, pid: Pid, parts: &Parts, length: usize, states: &States) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let copies = all.entry(pid).or_default();
        for range in [0..parts.split, parts.split..length] {
            let mut natives: Vec<(usize, RemoteAddr)> = Vec::new();
            for (offset, state) in states.from.iter().filter(|(from, _)| range.contains(from)) {
                // While a return looks up its target, the address is only in a register, which samples lack. The last
                // known address is one instruction away.
                if let NativeRip::Known(address) = state.rip
                    && natives.last().is_none_or(|(_, last)| *last != address)
                {
                    natives.push((offset - range.start, address));
                }
            }
            let at = parts.address(range.start);
            // Remove blocks that remain from an emptied cache: one inside this range would be found first.
            let end = at.offset(range.len() as u64);
            let former: Vec<RemoteAddr> = copies.range(at..end).map(|(at, _)| *at).collect();
            former.iter().for_each(|at| drop(copies.remove(at)));
            copies.insert(at, Copy { length: range.len(), natives });
        }
    }

    /// Forgets all processes except these. Samples of the others were looked up when their end was observed.
    pub(crate) fn keep(&self, processes: &[Pid]) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|pid, _| processes.contains(pid));
    }

    /// The native address for one in translated code; `None` for all others.
    #[must_use]
    pub fn native(&self, pid: Pid, address: RemoteAddr) -> Option<RemoteAddr> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (at, copy) = all.get(&pid)?.range(..=address).next_back()?;
        let offset =
            usize::try_from(address.0 - at.0).ok().filter(|offset| *offset < copy.length)?;
        let behind = copy.natives.partition_point(|(from, _)| *from <= offset);
        // Code before the first known address (the check of a table entry) belongs to the start of the block.
        copy.natives.get(behind.saturating_sub(1)).map(|(_, native)| *native)
    }
}

#[cfg(test)]
mod tests {
    use x86::translate::{Saved, State};

    use super::*;

    #[test]
    fn translated_code_has_native_addresses() {
        let at = |rip| State {
            rip,
            saved: Saved::default(),
            recorded: false,
            instruction: None,
            pointer_in_slot: false,
            looping: false,
        };
        let states = States {
            from: vec![
                (0, at(NativeRip::Slot(0x40))),
                (4, at(NativeRip::Known(RemoteAddr(0x1000)))),
                (9, at(NativeRip::Known(RemoteAddr(0x1000)))),
                (12, at(NativeRip::Known(RemoteAddr(0x1005)))),
                (20, at(NativeRip::Slot(0x40))),
                (24, at(NativeRip::Known(RemoteAddr(0x1000)))),
            ],
        };
        let native_addresses = NativeAddresses::default();
        let (pid, other) = (Pid(7), Pid(8));
        let parts = Parts { hot: RemoteAddr(0x9000), cold: RemoteAddr(0xa000), split: 20 };
        native_addresses.add(pid, &parts, 28, &states);
        let native =
            |pid, address| native_addresses.native(pid, RemoteAddr(address)).map(|at| at.0);
        for (address, expected) in [
            (0x8fff, None),
            (0x9000, Some(0x1000)),
            (0x9004, Some(0x1000)),
            (0x900b, Some(0x1000)),
            (0x900c, Some(0x1005)),
            (0x9013, Some(0x1005)),
            (0x9014, None),
            (0xa000, Some(0x1000)),
            (0xa007, Some(0x1000)),
            (0xa008, None),
        ] {
            assert_eq!(native(pid, address), expected, "{address:#x}");
        }
        assert_eq!(native(other, 0x9004), None);
        native_addresses.keep(&[pid]);
        assert_eq!(native(pid, 0x9000), Some(0x1000));
        native_addresses.keep(&[other]);
        assert_eq!(native(pid, 0x9000), None);
    }

    #[test]
    fn our_mappings_have_our_name() {
        assert!(is_our_mapping("/memfd:fathom (deleted)"));
        assert!(!is_our_mapping("/memfd:other (deleted)") && !is_our_mapping("/usr/bin/fathom"));
    }
}
