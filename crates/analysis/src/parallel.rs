//! Work on several CPUs, with the result that one CPU would give.
//!
//! What for: long tables whose rows know nothing of each other, and figures that do not wait for each other. What not: sums of
//! floats over several CPUs, which would depend on how the work was divided.
//!
//! Assumption: a few threads more than there are CPUs cost next to nothing. So their number is fixed, and nobody has to be
//! asked for that of the CPUs.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{ScopedJoinHandle, scope};

/// Threads, the caller's not counted.
const OTHERS: usize = 3;
/// Items that a thread takes at a time, of a long list; a thread is not worth its start for less.
const TAKEN: usize = 256;

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
    let mut parts = scope(|scope| {
        let others: Vec<_> = (0..OTHERS).map(|_| scope.spawn(work)).collect();
        let mut parts = work();
        others.into_iter().for_each(|other| parts.extend(joined(other)));
        parts
    });
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
