//! Work on several CPUs, with the result that one CPU would give.
//!
//! What for: long tables with independent rows, and figures that do not wait for each other. What not: sums of floats over several
//! CPUs, which would depend on how the work was divided.
//!
//! The program that starts the analysis sets the number of CPUs ([`use_cpus`]); no result depends on it.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, ScopedJoinHandle, scope};

/// CPUs; as many as the smallest machines have, until [`use_cpus`] sets the number.
static CPUS: AtomicUsize = AtomicUsize::new(4);
/// More threads are not started: each takes some megabytes.
const MOST: usize = 64;
/// Items that a thread takes at a time, of a long list; a thread is not worth its start for less.
const TAKEN: usize = 256;

/// From here on work is divided among this many CPUs.
pub fn use_cpus(cpus: usize) {
    CPUS.store(cpus.clamp(1, MOST), Ordering::Relaxed);
}

/// Does the same on all CPUs, but not on more than there are items of work.
pub(crate) fn on_all_cpus<R: Send>(items: usize, work: impl Fn() -> R + Sync) -> Vec<R> {
    let others = CPUS.load(Ordering::Relaxed).min(items).saturating_sub(1);
    scope(|scope| {
        let thread = |_| Builder::new().spawn_scoped(scope, &work).ok();
        // Where no further thread can be had, this one does it all.
        let others: Vec<_> = (0..others).filter_map(thread).collect();
        let mut all = vec![work()];
        all.extend(others.into_iter().map(joined));
        all
    })
}

/// Makes one of each item, in their order.
pub fn each<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    each_of(items, TAKEN, make)
}

/// The same for few items that each take long.
pub fn each_long<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    each_of(items, 1, make)
}

fn each_of<T: Sync, R: Send>(items: &[T], taken: usize, make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() <= taken {
        return items.iter().map(make).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut parts: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let first = next.fetch_add(taken, Ordering::Relaxed);
            let Some(rest) = items.get(first..).filter(|rest| !rest.is_empty()) else { break };
            parts.push((first, rest.iter().take(taken).map(&make).collect()));
        }
        parts
    };
    let mut parts: Vec<_> = on_all_cpus(items.len(), work).into_iter().flatten().collect();
    parts.sort_unstable_by_key(|(first, _)| *first);
    parts.into_iter().flat_map(|(_, made)| made).collect()
}

/// Makes two things at a time.
pub fn both<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    scope(|scope| {
        let a = scope.spawn(a);
        let b = b();
        (joined(a), b)
    })
}

fn joined<R>(thread: ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keeps_the_order_whatever_the_length() {
        for length in [0usize, 1, TAKEN, TAKEN + 1, 10 * TAKEN + 7] {
            let items: Vec<usize> = (0..length).collect();
            let squares: Vec<usize> = items.iter().map(|item| item * item).collect();
            assert_eq!(each(&items, |item| item * item), squares);
            assert_eq!(each_long(&items, |item| item * item), squares);
        }
    }

    #[test]
    fn both_are_made() {
        assert_eq!(both(|| 1, || "two"), (1, "two"));
    }
}
