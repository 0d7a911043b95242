//! What in the core limits a loop: a chain of instructions of which each waits for the one before, the divider, loads, stores,
//! arithmetic units, or the rate at which instructions are fetched; and of a program also mispredicted branches.
//!
//! What for: where memory is not what limits. What not: how much of the time is the core's (`memory`).
//!
//! An iteration with all its data in the first level takes at least what each of these needs (`x86::demand`), at costs that were
//! measured on the machine (`fathom machine`). Of those that explain the time that it does take, the longest limits.
//! The time is that without memory (`facts::NoMissTime`), or, of a loop that accesses none, the native one (`pace`). All of it is a
//! model, over measured times.
//!
//! Assumptions: a need of [`EXPLAINS`] of the time leaves no room for another reason, because two about equal needs together
//! take up to a fifth longer than each alone. A need of [`REFUTED`] times the time shows that the model does not fit the code:
//! then the result is unknown.

use std::collections::HashMap;

use base::{BlockId, CodeAddress, RemoteAddr};
use estimate::Bounds;
use facts::host::OperationCost;
use facts::{Evidence, Metric, NoMissOutcome, Recording};
use x86::{CodeBytes, Demand, Flow, Limits, OperationTime, Range, Reader, find_roots, self_loop};

use crate::memory::{BOUND_PERCENT, seconds};
use crate::pace::LoopPace;
use crate::threading::waiting_modules;

/// A need of this share of an iteration's time explains the time.
const EXPLAINS: f64 = 0.8;
/// A need that is longer than the time by this, beyond what both are measured to, is none.
const REFUTED: f64 = 1.15;

/// What limits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// Each iteration waits for the one before.
    Chain,
    /// Divisions and square roots.
    Divider,
    /// Loads that hit.
    Loads,
    /// Stores that hit.
    Stores,
    /// Multiplications and floating-point arithmetic.
    Arithmetic,
    /// Fetching and decoding instructions.
    FrontEnd,
    /// Mispredicted branches.
    Mispredictions,
}

impl Cause {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Chain => "dependency-chain",
            Cause::Divider => "divider",
            Cause::Loads => "loads",
            Cause::Stores => "stores",
            Cause::Arithmetic => "arithmetic",
            Cause::FrontEnd => "front-end",
            Cause::Mispredictions => "mispredictions",
        }
    }
}

/// What limits a loop.
#[derive(Clone, PartialEq, Debug)]
pub struct LoopLimit {
    /// What.
    pub cause: Cause,
    /// The slowest instruction of a chain.
    pub instruction: Option<String>,
    /// What that needs per iteration, seconds.
    pub bound: Metric,
    /// Time of an iteration with all its data in L1, seconds.
    pub time: Metric,
}

/// What limits most of a program's time.
#[derive(Clone, PartialEq, Debug)]
pub struct ProgramLimit {
    /// What.
    pub cause: Cause,
    /// Share of the CPU time, percent.
    pub share: Metric,
    /// The loop with most of it, by position.
    pub position: Option<usize>,
}

/// What limits each of these loops, where that is known. Of loops that wait for others nothing is.
#[must_use]
pub fn loop_limits(recording: &Recording, rows: &[LoopPace]) -> Vec<Option<LoopLimit>> {
    let none = || vec![None; rows.len()];
    let Some(calibration) = &recording.run.calibration else { return none() };
    let Some(load) = calibration.cache_latency(1) else { return none() };
    let known = costs(&calibration.operations);
    let costs = |name: &str, bits: u32| known.get(&(name, bits)).copied();
    let no_miss_times = no_miss_times(recording);
    let mut reader = Reader::new();
    let waiting = waiting_modules(recording);
    let one = |row: &LoopPace| {
        if waiting.contains(&row.start.module) {
            return None;
        }
        let block = read(recording, row.start, &mut reader)?;
        let time = time(row, &block, &no_miss_times)?;
        let demand = x86::demand(&block, &costs, load)?;
        let (cause, (least, most)) = limit(&demand, time.value? * 1e9)?;
        let slowest = demand.slowest.filter(|_| cause == Cause::Chain);
        Some(LoopLimit {
            cause,
            instruction: slowest.and_then(|at| Some(block.instructions.get(at)?.mnemonic())),
            bound: Metric::with_interval(
                Evidence::Estimated,
                (time.value? * 1e9).clamp(least, most.max(least)) * 1e-9,
                "s",
                (least * 1e-9, most * 1e-9),
                time.samples,
            ),
            time,
        })
    };
    rows.iter().map(one).collect()
}

/// The limit of most of the program's CPU time, from the limits of these loops and the seconds that mispredicted branches take;
/// `None` where none has [`BOUND_PERCENT`] of it.
#[must_use]
pub fn program_limit(
    rows: &[LoopPace],
    limits: &[Option<LoopLimit>],
    mispredicted: &Metric,
    whole: f64,
) -> Option<ProgramLimit> {
    let mut causes: HashMap<Cause, Bounds> = HashMap::new();
    let mut add = |cause, metric: &Metric| {
        let Some(best) = metric.value else { return };
        let (low, high) = (metric.low.unwrap_or(best), metric.high.unwrap_or(best));
        let sum = causes.entry(cause).or_default();
        *sum = sum.plus(Bounds { best, low, high });
    };
    let of_loops = || rows.iter().zip(limits).enumerate();
    for (_, (row, limit)) in of_loops() {
        if let Some(limit) = limit {
            add(limit.cause, &row.cpu_time);
        }
    }
    add(Cause::Mispredictions, mispredicted);
    let most = causes.into_iter().max_by(|(a, x), (b, y)| x.best.total_cmp(&y.best).then(b.cmp(a)));
    let (cause, seconds) = most?;
    let Bounds { best, low, high } =
        seconds.each(|seconds| (seconds / whole * 100.0).clamp(0.0, 100.0));
    if whole <= 0.0 || best < BOUND_PERCENT {
        return None;
    }
    let (evidence, loops) = (Evidence::Estimated, rows.len() as u64);
    let share = Metric::with_interval(evidence, best, "percent", (low, high), loops);
    // Rows come by time.
    let like = |(_, (_, limit)): &(usize, (&LoopPace, &Option<LoopLimit>))| {
        limit.as_ref().is_some_and(|limit| limit.cause == cause)
    };
    Some(ProgramLimit { cause, share, position: of_loops().find(like).map(|(at, _)| at) })
}

/// Nanoseconds, by name and width. A division takes as long as its quotient is.
fn costs(operations: &[OperationCost]) -> HashMap<(&str, u32), OperationTime> {
    let of = |metric: Option<&Metric>| metric.and_then(|metric| metric.value);
    let row = |name: &str, bits: u32| {
        operations.iter().find(|one| one.operation == name && one.bits == bits)
    };
    let all = operations.iter().filter_map(|one| {
        let long = match one.operation.as_str() {
            "divide" => row("divide-long", one.bits).unwrap_or(one),
            _ => one,
        };
        let range =
            |part: fn(&OperationCost) -> Option<&Metric>| Some((of(part(one))?, of(part(long))?));
        let each = range(|one| Some(&one.each))?;
        let latency = range(|one| one.latency.as_ref()).unwrap_or((0.0, 0.0));
        Some(((one.operation.as_str(), one.bits), OperationTime { each, latency }))
    });
    all.collect()
}

/// Loops that were timed without memory, by where they begin.
fn no_miss_times(recording: &Recording) -> HashMap<CodeAddress, Metric> {
    let starts: HashMap<BlockId, CodeAddress> = recording
        .blocks
        .iter()
        .filter_map(|block| Some((block.id, block.pieces.first()?.code_address())))
        .collect();
    let loops = recording.no_miss_times.iter().filter(|one| one.path.is_none());
    let timed = loops.filter_map(|one| {
        let NoMissOutcome::Measured(time) = &one.outcome else { return None };
        let Bounds { best, low, high } = seconds(time);
        let samples = u64::from(time.repetitions);
        let time = Metric::with_interval(Evidence::Timed, best, "s", (low, high), samples);
        Some((*starts.get(&one.block)?, time))
    });
    timed.collect()
}

/// The loop that begins there, if it is one of one block.
fn read(recording: &Recording, at: CodeAddress, reader: &mut Reader) -> Option<x86::Block> {
    let is_in = |code: &&facts::SampledCode| {
        let after = at.offset.0.checked_sub(code.offset.0);
        code.module == at.module && after.is_some_and(|after| after < code.bytes.len() as u64)
    };
    let code = recording.sampled_code.iter().find(is_in)?;
    let bytes = CodeBytes { start: RemoteAddr(code.offset.0), bytes: &code.bytes };
    let block = x86::read_block(reader, &bytes, RemoteAddr(at.offset.0), &Limits::SUPER);
    self_loop(&block, &find_roots(&block))?;
    Some(block)
}

/// What an iteration takes without memory.
fn time(
    row: &LoopPace,
    block: &x86::Block,
    no_miss_times: &HashMap<CodeAddress, Metric>,
) -> Option<Metric> {
    if let Some(no_miss) = no_miss_times.get(&row.start) {
        return Some(no_miss.clone());
    }
    let code = &block.instructions;
    let accesses = code.iter().any(|one| !one.accesses().is_empty());
    // With more branches its way is unknown.
    let branches = code.iter().filter(|one| matches!(one.flow(), Flow::Conditional(_))).count();
    (!accesses && branches == 1 && row.iteration_time.value.is_some())
        .then(|| row.iteration_time.clone())
}

/// What limits an iteration of so many nanoseconds, and what that needs.
fn limit(demand: &Demand, time: f64) -> Option<(Cause, Range)> {
    let exactly = |value: f64| (value, value);
    let needs = [
        (Cause::Chain, demand.chain),
        (Cause::Divider, demand.divider),
        (Cause::Loads, exactly(demand.loads)),
        (Cause::Stores, exactly(demand.stores)),
        (Cause::Arithmetic, exactly(demand.arithmetic)),
        (Cause::FrontEnd, exactly(demand.front)),
    ];
    if needs.iter().any(|(_, (least, _))| *least > REFUTED * time) {
        return None;
    }
    let explains = needs.into_iter().filter(|(_, (_, most))| *most >= EXPLAINS * time);
    let near = |(_, (least, most)): &(Cause, Range)| most.min(time).max(*least);
    // The first of equals.
    explains.rev().max_by(|a, b| near(a).total_cmp(&near(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(chain: f64, divider: Range, loads: f64, front: f64) -> Demand {
        let (through, slowest) = (Vec::new(), None);
        let chain = (chain, chain);
        Demand { chain, through, slowest, divider, arithmetic: 0.5, loads, stores: 0.0, front }
    }

    #[test]
    fn the_longest_need_that_explains_the_time_limits() {
        let none = (0.0, 0.0);
        let of = |demand: Demand, time| limit(&demand, time).map(|(cause, _)| cause);
        assert_eq!(of(demand(4.0, none, 1.0, 2.0), 4.2), Some(Cause::Chain));
        assert_eq!(of(demand(1.0, none, 3.8, 3.7), 4.0), Some(Cause::Loads));
        assert_eq!(of(demand(1.0, none, 1.0, 3.7), 4.0), Some(Cause::FrontEnd));
        // Nothing explains it; and what would take longer than it does.
        assert_eq!(of(demand(2.0, none, 1.0, 2.0), 4.0), None);
        assert_eq!(of(demand(6.0, none, 1.0, 2.0), 4.0), None);
        // How long a division takes depends on the quotient.
        assert_eq!(of(demand(1.0, (3.0, 8.0), 1.0, 2.0), 5.0), Some(Cause::Divider));
        assert_eq!(of(demand(1.0, (6.0, 8.0), 1.0, 2.0), 5.0), None);
        assert_eq!(of(demand(5.0, (3.0, 8.0), 1.0, 2.0), 5.0), Some(Cause::Chain));
    }
}
