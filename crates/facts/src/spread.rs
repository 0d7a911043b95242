//! The order in which bursts are looked at where not all can be: each beginning of it represents the whole recording.
//!
//! What for: a result has room for so many bytes, and a report time for so many lines; both take a beginning of the same order, so
//! that the report uses what the result has. What not: how long that beginning is (`store`, `analysis`).
//!
//! Traces are of two lengths, and a long one takes the room of a dozen brief ones. Many bursts tell more of rates, some long
//! ones more of reuse. So long ones come in turn with brief ones, such that they have a third of all bytes in each beginning.
//! Both are spread evenly over the time.

use crate::burst::Burst;

/// A trace with more encoded bytes is long: more than a brief one's 12,288 words can take (`burst::schedule`), and less than a long
/// one's that filled its buffer do. Not compared with the others: a loop has few bytes, other functions have many, and all must
/// be represented.
const LONG: u64 = 120_000;
/// Bytes of brief traces for each of a long one.
const BRIEF_PER_LONG: f64 = 2.0;

/// Puts traces, in order of time and each with the bytes of its encoded records, into that order. With several threads, two
/// successive ones stay together: they show what threads share.
#[must_use]
pub fn spread<'a>(traces: &[(&'a Burst, u64)]) -> Vec<&'a Burst> {
    let (long, brief): (Vec<_>, Vec<_>) =
        traces.iter().copied().partition(|(_, bytes)| *bytes > LONG);
    let mean = |of: &[(&Burst, u64)]| {
        of.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>() / of.len().max(1) as f64
    };
    let each = (BRIEF_PER_LONG * mean(&long) / mean(&brief).max(1.0)).ceil().max(1.0) as usize;
    let [long, brief] = [long, brief].map(evenly);
    let mut long = long.into_iter();
    let mut order = Vec::with_capacity(traces.len());
    for (position, burst) in brief.into_iter().enumerate() {
        order.push(burst);
        if position % each == each / 2 {
            order.extend(long.next());
        }
    }
    order.extend(long);
    order
}

/// Each beginning is spread evenly over all (van der Corput's sequence: bits of the position reversed).
fn evenly(bursts: Vec<(&Burst, u64)>) -> Vec<&Burst> {
    let together = u32::from(bursts.iter().any(|(burst, _)| burst.tid != bursts[0].0.tid));
    let position = |at: u32| (at >> together).reverse_bits();
    let bursts = bursts.into_iter().map(|(burst, _)| burst);
    let mut numbered: Vec<(u32, &Burst)> = (0u32..).map(position).zip(bursts).collect();
    // Stable: the earlier of two stays the earlier.
    numbered.sort_by_key(|(position, _)| *position);
    numbered.into_iter().map(|(_, burst)| burst).collect()
}

#[cfg(test)]
mod tests {
    use base::{BurstId, Nanos, Pid, RemoteAddr, Tid};

    use super::*;
    use crate::{BurstEnd, BurstFlavour};

    /// Of bursts of these threads, with so many bytes of records each.
    fn order(of: &[(i32, u64)]) -> Vec<u32> {
        let burst = |(id, (tid, _)): (u32, &(i32, u64))| Burst {
            id: BurstId(id),
            time: Nanos(0),
            pid: Pid(1),
            tid: Tid(*tid),
            flavour: BurstFlavour::Trace,
            end: BurstEnd::Full,
            elapsed: Nanos(1),
            cpu_time: None,
            stand_still: Nanos(0),
            stops: 1,
            fs_base: RemoteAddr(0),
            records: 1,
            records_lost: false,
        };
        let bursts: Vec<Burst> = (0..).zip(of).map(burst).collect();
        let bytes = of.iter().map(|(_, bytes)| *bytes);
        let traces: Vec<_> = bursts.iter().zip(bytes).collect();
        spread(&traces).iter().map(|burst| burst.id.0).collect()
    }

    #[test]
    fn each_beginning_is_spread_over_all() {
        assert_eq!(order(&[(7, 5); 8]), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert!(order(&[]).is_empty());
    }

    #[test]
    fn bursts_of_threads_that_follow_each_other_stay_together() {
        let two = [(7, 5), (8, 5)];
        assert_eq!(order(&[two, two, two, two].concat()), [0, 1, 4, 5, 2, 3, 6, 7]);
    }

    /// Two in ten are long, as much as ten brief ones each: one comes for twenty of these.
    #[test]
    fn long_ones_come_in_turn_with_brief_ones() {
        let ten = [vec![(7, 20_000); 8], vec![(7, 200_000); 2]].concat();
        let order = order(&vec![ten; 10].concat());
        let is_long = |id: &u32| id % 10 >= 8;
        let first: Vec<usize> = (0..80).filter(|at| is_long(&order[*at])).collect();
        assert_eq!(first, [11, 32, 53, 74]);
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }

    /// First a loop, then other code for as long.
    #[test]
    fn code_with_many_records_is_represented_like_code_with_few() {
        let order = order(&[[(7, 20); 64], [(7, 30_000); 64]].concat());
        let many = order[..32].iter().filter(|id| **id >= 64).count();
        assert_eq!(many, 16);
    }
}
