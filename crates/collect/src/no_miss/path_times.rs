//! How long paths take without misses (`paths`).
//!
//! What for: one path after the other until the time is over, on several cores at once. What not: which paths; the
//! timing of one (`timing`).

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{BlockId, Nanos};
use facts::{Block, BranchResolution, CodePath, NoMissOutcome, NoMissTime};
use sys::no_miss::{NoMissError, StartState};
use x86::GprSet;

use super::code::{Code, SampledStates};
use super::paths::{self, Path};
use super::timing::{self, Processor, Stretch};
use super::{INSTRUCTIONS, MOST_ITERATIONS, part_of};

/// A path takes some 4 ms. One that needs much longer, because no registers are found with which it runs, leaves the
/// time to others.
const USUAL_PATH: Nanos = Nanos(4_000_000);
const LONGEST_PATH: Nanos = Nanos(30_000_000);
/// Of one path in so many it is measured what its branches wait for: that takes twice as long again.
const PER_RESOLUTION: usize = 4;
/// Where other programs have the CPUs, paths may take so many times the time, until as many are timed as usually are.
const BUSY: u64 = 4;
/// Most cores that time at once.
const MOST_WORKERS: usize = 4;

/// The times of `paths`, in their order; `None` for those for which there is no time. `until` tells until when, once it begins.
///
/// # Errors
/// The process in which code is timed cannot be created here.
pub(super) fn of(
    paths: &[Path],
    (blocks, sampled): (&HashMap<BlockId, &Block>, &SampledStates),
    (processor, until): (Processor, &dyn Fn() -> Nanos),
    shown: &mut dyn FnMut(),
) -> Result<Vec<Option<NoMissTime>>, NoMissError> {
    let (next, known) = (AtomicUsize::new(0), Mutex::default());
    let workers = processor.at_once(cores())?;
    // A busy machine takes long to tell that.
    let (now, until) = (sys::process::monotonic(), until());
    let (time, processor) = (until - now.min(until), processor.until(until));
    let enough = time.0 / USUAL_PATH.0 * workers as u64;
    let latest = processor.until(now + Nanos(time.0 * BUSY));
    let distinct: HashSet<_> = paths.iter().map(Path::code).collect();
    let shares = distinct.len().div_ceil(workers);
    let queue = Queue { paths, blocks, sampled, processor, enough, latest, next, known, shares };
    let mut timed = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, || queue.work(&mut || {}));
        let others: Vec<_> = (1..workers).map_while(|number| spawn(number).ok()).collect();
        let mut timed = queue.work(shown);
        for other in others {
            let more = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            timed = timed.and_then(|mut timed| {
                timed.extend(more?);
                Ok(timed)
            });
        }
        timed
    })?;
    timed.sort_by_key(|(number, _)| *number);
    Ok(timed.into_iter().map(|(_, time)| time).collect())
}

/// Cores of one kind, as far as the system says.
fn cores() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // A directory for each kind of core, where there are several (Documentation/ABI/testing/sysfs-bus-event_source-devices).
    let are_alike = !std::path::Path::new("/sys/devices/cpu_atom").exists();
    let smt = std::fs::read_to_string("/sys/devices/system/cpu/smt/active");
    let threads = if smt.is_ok_and(|smt| smt.trim() == "1") { 2 } else { 1 };
    if are_alike { (cpus / threads).clamp(1, MOST_WORKERS) } else { 1 }
}

/// Paths that are timed, each by the worker that comes first.
struct Queue<'a> {
    paths: &'a [Path],
    blocks: &'a HashMap<BlockId, &'a Block>,
    sampled: &'a SampledStates,
    processor: Processor,
    /// The first ones have longer.
    enough: u64,
    latest: Processor,
    next: AtomicUsize,
    known: Mutex<HashMap<Vec<(BlockId, usize)>, NoMissTime>>,
    /// Different ones that a core times.
    shares: usize,
}

impl Queue<'_> {
    fn work(
        &self,
        shown: &mut dyn FnMut(),
    ) -> Result<Vec<(usize, Option<NoMissTime>)>, NoMissError> {
        let mut timed = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = self.paths.get(number) else { return Ok(timed) };
            shown();
            let is_early = (number as u64) < self.enough;
            let processor = if is_early { self.latest } else { self.processor };
            let fenced = number.is_multiple_of(PER_RESOLUTION);
            timed.push((number, self.time((path, fenced), processor)?));
        }
    }

    /// Paths after the end of the time are left out, even if their time is known: otherwise frequent code would count
    /// too often.
    fn time(
        &self,
        (path, fenced): (&Path, bool),
        processor: Processor,
    ) -> Result<Option<NoMissTime>, NoMissError> {
        if processor.is_late() {
            return Ok(None);
        }
        let code = path.code();
        let known = || self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = known().get(&code) {
            return Ok(Some(path.like(known)));
        }
        let until = processor.until.min(sys::process::monotonic() + LONGEST_PATH);
        let patient = part_of(self.processor.until, self.shares);
        let no_miss =
            path.no_miss((self.blocks, self.sampled), (processor.until(until), patient), fenced)?;
        let Some(no_miss) = no_miss.or_else(|| path.refused().filter(|_| !processor.is_late()))
        else {
            return Ok(None);
        };
        // Another worker may have been quicker.
        Ok(Some(path.like(known().entry(code).or_insert(no_miss))))
    }
}

impl Path {
    /// The part of it that determines its time: without misses the same instructions take the same time.
    fn code(&self) -> Vec<(BlockId, usize)> {
        self.steps.iter().map(|step| (step.block, step.executed)).collect()
    }

    /// The no-miss time of a path with the same code.
    fn like(&self, other: &NoMissTime) -> NoMissTime {
        let path = other.path.map(|path| CodePath { burst: self.burst, ..path });
        NoMissTime { path, ..other.clone() }
    }

    /// Its code cannot be read, or it took too long.
    fn refused(&self) -> Option<NoMissTime> {
        let instructions = paths::instructions(&self.steps) as u64;
        let path = Some(CodePath { burst: self.burst, instructions });
        let why = "no registers were found in time with which it runs";
        let (block, outcome) = (self.steps.first()?.block, NoMissOutcome::Refused(why.to_owned()));
        Some(NoMissTime { block, path, iterations: 1, outcome, resolution: None })
    }

    /// The registers at its start. Those that only later blocks use are in the records of these, as long as nothing
    /// on the way changes them.
    pub(super) fn start(&self, codes: &HashMap<BlockId, Code<'_>>, unknown: u64) -> StartState {
        let mut state = StartState::default();
        let mut known = GprSet::default();
        for (number, step) in self.steps.iter().enumerate() {
            let code = &codes[&step.block];
            if number == 0 {
                state = code.start(&step.values, unknown);
            }
            for one in code.seen(&step.values) {
                if one.at == 0 && !known.contains(one.register) {
                    state.general[one.register.number()] = one.value;
                    known.insert(one.register);
                }
            }
            let executed = code.block.instructions.iter().take(step.executed);
            known.extend(executed.flat_map(|one| one.registers().changed.iter()));
        }
        state
    }

    /// `None` when the code of one of its blocks cannot be read, and where there is no time left.
    pub(super) fn no_miss(
        &self,
        (blocks, sampled): (&HashMap<BlockId, &Block>, &SampledStates),
        (processor, patient): (Processor, Nanos),
        fenced: bool,
    ) -> Result<Option<NoMissTime>, NoMissError> {
        let codes = self.codes(blocks, sampled);
        let first = self.steps.first().and_then(|first| Some((first.block, codes.as_ref()?)));
        let Some((block, codes)) = first else { return Ok(None) };
        let start = |unknown| self.start(codes, unknown);
        let mut steps = self.steps.as_slice();
        loop {
            let path = steps.iter().map(|step| codes[&step.block].part(step.executed)).collect();
            let instructions = paths::instructions(steps);
            let most = (INSTRUCTIONS / instructions.max(1)).clamp(1, MOST_ITERATIONS);
            // Each copy goes the same way again.
            let seen = steps.iter().map(|step| codes[&step.block].seen(&step.values));
            let seen = seen.cycle().take(2 * most * steps.len()).collect();
            let turns = timing::TURNS_OF_PATH;
            let (kept, carried) = (None, None);
            let stretch = Stretch { path, seen, kept, carried, fenced, turns, patient, processor };
            let Some(timed) = stretch.time(start, &(1..=most))? else { return Ok(None) };
            // The first half touches fewer pages.
            if timed.many_pages && steps.len() > 1 {
                steps = &steps[..steps.len() / 2];
                continue;
            }
            let resolution = timed.resolution.map(|time| BranchResolution {
                blocks: u32::try_from(steps.len()).unwrap_or(u32::MAX),
                time,
            });
            let path = Some(CodePath { burst: self.burst, instructions: instructions as u64 });
            let (iterations, outcome) = (timed.copies as u64, timed.outcome);
            return Ok(Some(NoMissTime { block, path, iterations, outcome, resolution }));
        }
    }
}
