//! How much faster native code is, from loops that make even progress.
//!
//! What for: the factor between a burst and native code, without any instrumentation in the native part. A pointer or an index
//! that a loop moves on evenly rose by so much in a burst, and by so much natively directly behind it; both over their CPU
//! time, that is the factor. What not: code in which no register makes even progress (`native` bounds that).
//!
//! A register of a function counts when in most bursts it rose by the same per instruction, to [`EVEN`], and when most of the
//! factors lie together, to [`TOGETHER`]: what holds data does neither. Of several, the one whose factors scatter least.
//! Bounds: the scatter of the logarithms (Student), and [`STOPS`].
//! Assumptions: a loop that begins anew in between, which sets its registers back, is the exception; its factor lies away from
//! the others and is left out. A register that is set back every few iterations rises by little, and not evenly.

use std::collections::{BTreeMap, HashMap};

use base::BurstId;
use facts::Recording;

use super::native::Work;
use crate::interval::{median, student_95};
use crate::stack::FunctionId;

/// Part by which the rise per instruction may be off the middle one.
const EVEN: f64 = 0.05;
/// Factor by which a factor may be off the middle one.
const TOGETHER: f64 = 1.25;
/// Of the native time, up to this part may be the stop at its end: 5 to 20 µs of a millisecond and more.
const STOPS: f64 = 0.02;
/// Fewer tell nothing.
const FEWEST: usize = 3;
/// Of a register's looks, this part must be alike.
const MOST: f64 = 0.66;

/// A factor, and the factor by which it is open in both directions, with 95 %.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Progress {
    pub(super) likely: f64,
    pub(super) scatter: f64,
}

/// A register in a burst and behind it.
#[derive(Clone, Copy)]
struct Look {
    /// Its rise per instruction.
    pace: f64,
    /// How much faster it rose natively; negative where it went back.
    factor: f64,
}

/// Of each function in which bursts began, as far as one of its registers tells.
pub(super) fn progress(recording: &Recording, works: &[Work]) -> HashMap<FunctionId, Progress> {
    let by_burst: HashMap<BurstId, &Work> = works.iter().map(|work| (work.burst, work)).collect();
    let mut looks: HashMap<FunctionId, BTreeMap<&str, Vec<Look>>> = HashMap::new();
    for advance in &recording.native_advances {
        let Some(work) = by_burst.get(&advance.burst) else { continue };
        let rise = |by: u64| by.cast_signed() as f64;
        let natively = rise(advance.natively) / advance.cpu_time.seconds();
        let factor = natively / (rise(advance.inside) / work.seconds);
        let pace = rise(advance.inside) / work.instructions;
        if factor.is_finite() && pace.is_finite() {
            let of_function = looks.entry(work.function).or_default();
            of_function.entry(&advance.register).or_default().push(Look { pace, factor });
        }
    }
    let best = |(function, registers): (FunctionId, BTreeMap<&str, Vec<Look>>)| {
        let told = registers.values().filter_map(|looks| even(looks));
        Some((function, told.min_by(|a, b| a.scatter.total_cmp(&b.scatter))?))
    };
    looks.into_iter().filter_map(best).collect()
}

fn even(looks: &[Look]) -> Option<Progress> {
    let middle_pace = middle(looks.iter().map(|look| look.pace))?;
    let is_even = |look: &&Look| (look.pace / middle_pace - 1.0).abs() <= EVEN;
    let factors: Vec<f64> = looks.iter().filter(is_even).map(|look| look.factor).collect();
    let middle_factor = middle(factors.iter().copied())?;
    let is_near = |factor: &&f64| {
        let off = **factor / middle_factor;
        (TOGETHER.recip()..=TOGETHER).contains(&off)
    };
    let logarithms: Vec<f64> = factors.iter().filter(is_near).map(|factor| factor.ln()).collect();
    let enough = |some: usize| some >= FEWEST && some as f64 >= MOST * looks.len() as f64;
    if !enough(logarithms.len()) || middle_factor <= 0.0 {
        return None;
    }
    let n = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / n;
    let squares: f64 = logarithms.iter().map(|one| (one - mean).powi(2)).sum();
    let half = student_95(logarithms.len() - 1) * (squares / (n - 1.0) / n).sqrt();
    Some(Progress { likely: mean.exp(), scatter: (half + STOPS).exp() })
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    median(&values)
}

#[cfg(test)]
mod tests {
    use base::{Nanos, Tid};
    use facts::NativeAdvance;

    use super::*;

    /// A millisecond, in which a thousand bytes are gone through natively for each of `factors`; a burst of 3 ms goes through
    /// three thousand, with 1,500 instructions.
    fn recorded(register: &str, factors: &[f64]) -> (Recording, Vec<Work>) {
        let advance = |(number, factor): (u32, &f64)| NativeAdvance {
            burst: BurstId(number),
            register: register.to_owned(),
            cpu_time: Nanos(1_000_000),
            inside: 3000,
            natively: ((factor * 1000.0) as i64).cast_unsigned(),
        };
        let native_advances = (0..).zip(factors).map(advance).collect();
        let work = |number| Work {
            burst: BurstId(number),
            tid: Tid(7),
            time: Nanos(0),
            function: FunctionId::new(1),
            seconds: 3e-3,
            instructions: 1500.0,
            records: 10.0,
            stops: 2,
            is_untimed: false,
        };
        let works = (0..factors.len() as u32).map(work).collect();
        (Recording { native_advances, ..Recording::default() }, works)
    }

    fn told((recording, works): &(Recording, Vec<Work>)) -> Option<Progress> {
        progress(recording, works).get(&FunctionId::new(1)).copied()
    }

    #[test]
    fn even_progress_tells_the_factor_and_a_loop_that_begins_anew_is_left_out() {
        let found = told(&recorded("rdi", &[2.0, 2.0, 2.0, 2.0, -40.0])).unwrap();
        assert!((found.likely - 2.0).abs() < 1e-9 && (found.scatter - STOPS.exp()).abs() < 1e-9);
        let found = told(&recorded("rdi", &[1.9, 2.1, 2.0])).unwrap();
        // sd of the logarithms 0.0501, times 4.303 over the root of 3.
        assert!((found.scatter.ln() - STOPS - 0.1244).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn what_goes_anywhere_tells_nothing() {
        assert_eq!(told(&recorded("rax", &[2.0, -7.0, 400.0, 0.1, 3.0])), None);
        assert_eq!(told(&recorded("rax", &[2.0, 2.0])), None);
        assert_eq!(told(&recorded("rax", &[-2.0, -2.0, -2.0])), None);
        // Not the same per instruction.
        let mut uneven = recorded("rax", &[2.0, 2.0, 2.0, 2.0]);
        for (number, work) in uneven.1.iter_mut().enumerate() {
            work.instructions *= 1.0 + number as f64;
        }
        assert_eq!(told(&uneven), None);
    }

    #[test]
    fn of_two_registers_the_one_that_scatters_less_speaks() {
        let (mut both, works) = recorded("rcx", &[1.9, 2.1, 2.0]);
        both.native_advances.extend(recorded("rdi", &[1.5, 1.5, 1.5]).0.native_advances);
        let found = told(&(both, works)).unwrap();
        assert!((found.likely - 1.5).abs() < 1e-9, "{found:?}");
    }
}
