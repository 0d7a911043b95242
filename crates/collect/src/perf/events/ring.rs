//! How large the rings are: enough for the time between two readings, within what a user may lock.
//!
//! What not: reading them (`sys::perf`).

use sys::perf::{Event, Ring};

use super::error::{OpenError, libc_errno};

/// Bytes of ring for all CPUs together, and the bounds of one CPU's share. A sample with its stack takes some 8 KiB,
/// so 512 KiB last 60 ms at 1 kHz. Samples that do not fit are lost and counted.
const ALL_RINGS: usize = 32 << 20;
const RING_MOST: usize = 2 << 20;
const RING_LEAST: usize = 128 << 10;

/// What every user may lock per CPU by default: perf_event_mlock_kb is 516, 4 of it for the control page.
const RING_ALLOWANCE: usize = 512 << 10;

/// Bytes of one CPU's ring, a power of two.
pub(super) fn ring_bytes(cpus: usize) -> usize {
    let most = if sys::process::user_id() == 0 { RING_MOST } else { RING_ALLOWANCE };
    1 << (ALL_RINGS / cpus.max(1)).clamp(2 * RING_LEAST, most).ilog2()
}

/// Maps a ring, a smaller one where the limit of locked memory is reached. `shared`: an ordinary user's limit must do for a trace, too.
pub(super) fn map_ring(owner: &Event, cpus: usize, shared: bool) -> Result<Ring, OpenError> {
    let page = sys::process::page_size();
    let is_limited = shared && sys::process::user_id() != 0;
    let mut bytes = ring_bytes(cpus) >> u32::from(is_limited);
    loop {
        match Ring::map(owner, bytes / page) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.raw_os_error() == Some(libc_errno::EPERM) && bytes > RING_LEAST => {
                bytes /= 2;
            }
            Err(error) => return Err(OpenError::Failed(error)),
        }
    }
}
