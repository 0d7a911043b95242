//! Code that clock samples show: where threads ran, and where their callers go on.
//!
//! What for: the tracer translates it before a thread comes there in a burst. What not: which code is translated (`burst`).

use std::collections::HashSet;

use base::{Pid, RemoteAddr};

use super::{Position, Recorder};

/// Frames of a stack that count: outer ones are returned to seldom.
const FRAMES: usize = 16;
/// So many addresses are remembered; beyond that, all are new again.
const MOST: usize = 1 << 16;

/// Addresses, each once.
#[derive(Default)]
pub(super) struct SeenCode {
    known: HashSet<(Pid, RemoteAddr)>,
    new: Vec<(Pid, RemoteAddr)>,
}

impl Recorder<'_> {
    /// Notes the frames of a sample that was just unwound.
    pub(super) fn note_code(&mut self, pid: Pid, position: Position<'_>) {
        let is_own =
            position.kernel.is_empty() && position.guest.is_none() && position.user.is_some();
        if !is_own || self.native_addresses.is_none() {
            return;
        }
        let seen = &mut self.seen_code;
        if seen.known.len() >= MOST {
            seen.known.clear();
        }
        for (depth, frame) in self.user_frames.iter().take(FRAMES).enumerate() {
            // A caller's address is one byte before where it goes on.
            let at = frame.address.offset(u64::from(depth > 0));
            if seen.known.insert((pid, at)) {
                seen.new.push((pid, at));
            }
        }
    }

    /// What is new since the last call.
    pub fn take_code(&mut self) -> Vec<(Pid, RemoteAddr)> {
        std::mem::take(&mut self.seen_code.new)
    }
}
