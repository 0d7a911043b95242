//! Allocations as a clock of the program: how much native time windows stand for.
//!
//! What for: the library that counts heap blocks knows how many the program allocated in all its time, nearly all of it native. Count
//! windows tell how many it allocated in them. So the windows' native time is theirs over the rate of all, whatever their copies of
//! code took: jumps, look-ups of returns, cold code. What not: what counts of single blocks tell (`copies`), programs that allocate seldom.
//!
//! Each window's native time has bounds ([`super::copies`]). What copies take is off in all alike: so all windows stand at the same
//! fraction between their bounds, at which their sum is the native time that their allocations show. Windows of code with narrow
//! bounds hardly change by that.
//!
//! Bounds: the scatter of the windows' allocations, as that of a ratio (Cochran 1977, 6.4).
//!
//! Assumption: windows begin at random in the program's time, as samples do.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::{BlockId, CodeAddress, Pid};
use estimate::Bounds;
use estimate::student::quantile_95;
use facts::{MarkKind, Target};

use super::code_regions::CodeRegions;
use crate::profile::Profile;
use crate::traced::TracedCode;

/// Functions of allocators that allocate a block with each call. The library that counts hands each call on to one of these.
const ALLOCATE: [&str; 6] =
    ["malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"];
/// What comes before that in glibc's own symbols: `__GI___libc_malloc`, for example.
const PREFIXES: [&str; 4] = ["__GI_", "__libc_", "libc_", "__"];
/// Fewer allocations in all windows, or fewer windows, tell no rate.
const FEWEST: f64 = 100.0;
/// Where fewer of the windows than this part have any, the program has phases without them, of which there may be windows by chance.
const TICKS: f64 = 0.9;
const FEWEST_WINDOWS: usize = 3;

/// The rate of allocations.
#[derive(Debug)]
pub(super) struct AllocationClock {
    processes: HashSet<Pid>,
    /// Blocks of code with which an allocation begins.
    begins: HashSet<BlockId>,
    /// Allocations in a native second of CPU time.
    rate: f64,
}

/// Where windows stand between the bounds of their native time: -1 at the lower ones, 1 at the upper ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Standing {
    best: f64,
    low: f64,
    high: f64,
}

impl AllocationClock {
    /// `None` where allocations were not counted, or no window came to any; or in another time than samples: they go on while the
    /// collection is paused, and in a program that ran before, they are counted from some moment behind its first sample.
    pub(super) fn new(
        profile: &Profile<'_>,
        code: &TracedCode,
        places: &CodeRegions,
    ) -> Option<AllocationClock> {
        let recording = profile.recording;
        let is_attached = matches!(recording.run.target, Some(Target::Attached { .. }));
        if is_attached || recording.marks.iter().any(|mark| mark.kind == MarkKind::Pause) {
            return None;
        }
        let processes: HashSet<Pid> = recording.heap_totals.iter().map(|total| total.pid).collect();
        let allocations: u64 = recording.heap_totals.iter().map(|total| total.allocations).sum();
        let own = recording.samples.iter().filter(|sample| processes.contains(&sample.pid));
        let weight: f64 = own.map(|sample| sample.weight.0 as f64).sum();
        let seconds = weight * profile.seconds_per_weight() * places.undisturbed.share();
        let begins = begins(profile, code);
        let is_known = seconds > 0.0 && !begins.is_empty();
        is_known.then(|| AllocationClock { processes, begins, rate: allocations as f64 / seconds })
    }

    /// Allocations among the executions of blocks in a window of a process; `None` where they were not counted.
    pub(super) fn count(&self, pid: Pid, executions: &HashMap<BlockId, u64>) -> Option<f64> {
        let begun = self.begins.iter().filter_map(|block| executions.get(block));
        self.processes.contains(&pid).then(|| begun.sum::<u64>() as f64)
    }

    /// Where windows stand with so many allocations in a native time between these bounds. `None` where they are too few, or
    /// contradict all of it.
    pub(super) fn standing(&self, windows: &[(f64, Bounds)]) -> Option<Standing> {
        let count = windows.len() as f64;
        let allocations: f64 = windows.iter().map(|(allocations, _)| allocations).sum();
        let ticks = windows.iter().filter(|(allocations, _)| *allocations > 0.0).count() as f64;
        if windows.len() < FEWEST_WINDOWS || allocations < FEWEST || ticks < TICKS * count {
            return None;
        }
        let all = |at: f64| -> f64 { windows.iter().map(|(_, native)| within(native, at)).sum() };
        let seconds = allocations / self.rate;
        let best = stands_at(&all, seconds);
        let each = allocations / all(best);
        let residual = |(own, native): &(f64, Bounds)| own - each * within(native, best);
        let squares: f64 = windows.iter().map(|window| residual(window).powi(2)).sum();
        let scatter = (squares * count / (count - 1.0)).sqrt() / allocations;
        let half = (quantile_95(count - 1.0) * scatter).exp();
        let (least, most) = (seconds / half, seconds * half);
        // Where it says less than the least or more than the most, it contradicts what is known of copies, and narrows nothing.
        let agrees = (all(-1.0)..=all(1.0)).contains(&seconds);
        let at = |seconds| stands_at(&all, seconds);
        agrees.then(|| Standing { best, low: at(least), high: at(most) })
    }
}

impl Standing {
    /// Nothing but the bounds is known.
    pub(super) const ANYWHERE: Standing = Standing { best: 0.0, low: -1.0, high: 1.0 };

    /// The native time of a window with these bounds.
    pub(super) fn of(self, native: &Bounds) -> Bounds {
        let [best, low, high] = [self.best, self.low, self.high].map(|at| within(native, at));
        Bounds { best, low, high }
    }
}

/// Blocks with which these functions begin: of each, the first that was ever counted. Whoever calls it comes to that one.
fn begins(profile: &Profile<'_>, code: &TracedCode) -> HashSet<BlockId> {
    let stacks = &profile.stacks;
    let allocates = |at: CodeAddress| {
        let function = stacks.compiled_at(at);
        let function_name = &stacks.functions.get(function.index())?.name;
        let of = |name, prefix| str::strip_prefix(name, prefix).unwrap_or(name);
        let name = PREFIXES.iter().fold(function_name.as_str(), |name, prefix| of(name, *prefix));
        ALLOCATE.contains(&name).then_some(function)
    };
    let mut first = BTreeMap::new();
    for block in code.counted.values() {
        if let Some((at, function)) = block.start.and_then(|at| Some((at, allocates(at)?))) {
            let known = first.entry(function).or_insert(at);
            *known = at.min(*known);
        }
    }
    let is_first = |at: &CodeAddress| first.values().any(|one| one == at);
    let counted = code.counted.iter();
    counted
        .filter(|(_, block)| block.start.as_ref().is_some_and(is_first))
        .map(|(id, _)| *id)
        .collect()
}

/// A time between bounds.
fn within(native: &Bounds, at: f64) -> f64 {
    let end = if at < 0.0 { native.low } else { native.high };
    native.best * (end / native.best).powf(at.abs())
}

/// Where a sum that grows comes to so much, from -1 to 1.
fn stands_at(all: &impl Fn(f64) -> f64, seconds: f64) -> f64 {
    /// Halves of what is left: to a millionth.
    const STEPS: usize = 21;
    let (mut low, mut high) = (-1.0, 1.0);
    for _ in 0..STEPS {
        let middle = 0.5 * (low + high);
        if all(middle) < seconds { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(rate: f64) -> AllocationClock {
        AllocationClock { processes: HashSet::new(), begins: HashSet::new(), rate }
    }

    /// Copies took three times as long as native code, in windows whose bounds reach from a quarter of their time to all of it.
    #[test]
    fn windows_stand_where_their_allocations_show() {
        let native = Bounds { best: 0.5e-3, low: 0.25e-3, high: 1e-3 };
        let windows = |each: f64| vec![(each, native); 10];
        // 1000 in a native millisecond.
        let stands = clock(1e6).standing(&windows(333.0)).unwrap();
        let found = stands.of(&native);
        assert!((found.best - 0.333e-3).abs() < 1e-9 && found.high - found.low < 1e-9, "{found:?}");
        // What is exact remains so.
        let exact = Bounds::exactly(1e-3);
        assert_eq!(stands.of(&exact), exact);
        // Nothing between the bounds explains it.
        assert_eq!(clock(1e6).standing(&windows(100.0)), None);
        assert_eq!(clock(1e6).standing(&windows(2000.0)), None);
        assert_eq!(clock(1e6).standing(&windows(333.0)[..2]), None);
        assert_eq!(clock(1e6).standing(&windows(9.0)), None);
    }

    #[test]
    fn windows_with_more_and_less_allocations_scatter() {
        let native = Bounds { best: 0.5e-3, low: 0.1e-3, high: 1e-3 };
        let windows = |least: f64| -> Vec<_> {
            (0..20).map(|n| (least + f64::from(n % 2) * (1000.0 - 2.0 * least), native)).collect()
        };
        assert_eq!(clock(1e6).standing(&windows(0.0)), None, "there are phases without any");
        let windows = windows(1.0);
        let found = clock(1e6).standing(&windows).unwrap().of(&native);
        assert!((found.best - 0.5e-3).abs() < 1e-7, "{found:?}");
        assert!(found.low < 0.4e-3 && found.high > 0.6e-3, "{found:?}");
        assert_eq!(Standing::ANYWHERE.of(&native), native);
    }
}
