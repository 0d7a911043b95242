//! Which row of one result corresponds to which of another, when the program was rebuilt, moved, or changed in between.
//!
//! | part | is the same when |
//! |---|---|
//! | module | its file name is, without directory and version (`libc.so.6` is `libc.so`); the program itself, whatever its name |
//! | function | its demangled name is, without the suffixes of compiler clones (`.constprop.0`); static functions of one name in a module are one |
//! | code without a name | it is in the same module: addresses move from build to build |
//! | line | function and file name are, and the line after all lines of the function were shifted by one number |

use std::collections::{BTreeMap, HashMap};

use estimate::interval::poisson;
use facts::{Evidence, Metric};

use super::{DiffOptions, RunFigures};
use crate::table::{Cell, Table};

/// What a row is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
struct Name {
    function: Option<String>,
    module: Option<String>,
    file: Option<String>,
    line: Option<u64>,
    stack: Vec<String>,
}

/// A row with its figure in each run; `None` where that run cannot have it.
#[derive(Clone, Debug)]
pub(super) struct Aligned {
    /// Cells of the key columns of the newest run that has the row.
    pub(super) labels: Vec<(&'static str, Cell)>,
    /// Its line before and after, when lines are compared.
    pub(super) lines: Option<(Option<u64>, Option<u64>)>,
    pub(super) base: Vec<Metric>,
    pub(super) new: Vec<Metric>,
}

struct Entry<'a> {
    metric: Metric,
    row: &'a [Cell],
    table: &'a Table,
}

type Side<'a> = Vec<BTreeMap<Name, Entry<'a>>>;

/// The columns that say what a row is.
const KEYS: [&str; 5] = ["function", "file", "line", "module", "stack"];

/// All rows of either side, each once, in a fixed order.
pub(super) fn align(
    base: &[RunFigures],
    new: &[RunFigures],
    options: &DiffOptions,
) -> Vec<Aligned> {
    let by_line = options.table.group.contains(&analysis::Key::SourceLine);
    let (old, young) = (side(base, options, by_line), side(new, options, by_line));
    let shifts = if by_line { shifts(&old, &young) } else { HashMap::new() };
    let unseen = |runs: &[RunFigures]| -> Vec<Option<f64>> {
        runs.iter().map(|run| unseen(run, &options.metric)).collect()
    };
    let unseen = (unseen(base), unseen(new));
    let mut rows: BTreeMap<Name, Aligned> = BTreeMap::new();
    for (is_new, runs) in [(false, old), (true, young)] {
        for (run, entries) in runs.into_iter().enumerate() {
            for (name, entry) in entries {
                let line = name.line;
                let key = if is_new { moved_back(name, &shifts) } else { name };
                let row = rows
                    .entry(key)
                    .or_insert_with(|| Aligned::empty(&entry, (&unseen.0, &unseen.1)));
                row.labels = labels(&entry);
                let figures = if is_new { &mut row.new } else { &mut row.base };
                figures[run] = entry.metric;
                if by_line {
                    let lines = row.lines.get_or_insert((None, None));
                    *(if is_new { &mut lines.1 } else { &mut lines.0 }) = line;
                }
            }
        }
    }
    rows.into_values().collect()
}

impl Aligned {
    fn empty(entry: &Entry<'_>, (base, new): (&[Option<f64>], &[Option<f64>])) -> Aligned {
        let unit = &entry.metric.unit;
        let absent = |runs: &[Option<f64>]| runs.iter().map(|most| absent(unit, *most)).collect();
        Aligned { labels: Vec::new(), lines: None, base: absent(base), new: absent(new) }
    }
}

/// The figure of a run in which nothing was seen of a row: 0 of what adds up, and at most `most`; else unknown.
fn absent(unit: &str, most: Option<f64>) -> Metric {
    if !adds_up(unit) {
        return Metric::unavailable(unit, "not seen in this run");
    }
    // That no sample hit it does not mean that it took no time: without a bound there is no interval.
    let ends = (most.map(|_| 0.0), most);
    let zero = Metric::counted(0.0, unit);
    Metric { low: ends.0, high: ends.1, samples: 0, evidence: Some(Evidence::Sampled), ..zero }
}

/// What a row of which a run has no sample has at most: what the upper end of a count of no samples stands for.
fn unseen(run: &RunFigures, metric: &str) -> Option<f64> {
    let at = run.table.column(metric)?;
    let sampled = run.table.rows.iter().filter_map(|row| match &row[at] {
        Cell::Metric(one) if one.evidence == Some(Evidence::Sampled) => {
            Some((one.value?, one.samples))
        }
        _ => None,
    });
    let (all, samples) =
        sampled.fold((0.0, 0), |(all, samples), one| (all + one.0, samples + one.1));
    (samples > 0).then(|| poisson(0.0).1 * all / samples as f64)
}

fn adds_up(unit: &str) -> bool {
    matches!(unit, "s" | "bytes" | "count")
}

fn side<'a>(runs: &'a [RunFigures], options: &DiffOptions, by_line: bool) -> Side<'a> {
    runs.iter().map(|run| entries(run, &options.metric, by_line)).collect()
}

fn entries<'a>(run: &'a RunFigures, metric: &str, by_line: bool) -> BTreeMap<Name, Entry<'a>> {
    let table = &run.table;
    let program = run.summary.command.first().map(|word| file_name(word));
    let mut found: BTreeMap<Name, Entry<'a>> = BTreeMap::new();
    let Some(at) = table.column(metric) else { return found };
    for row in &table.rows {
        let Cell::Metric(metric) = &row[at] else { continue };
        let name = name(table, row, program, by_line);
        match found.entry(name) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(Entry { metric: metric.clone(), row, table });
            }
            // The heaviest row comes first: where figures do not add up, it represents all.
            std::collections::btree_map::Entry::Occupied(mut taken) if adds_up(&metric.unit) => {
                let sum = sum(&taken.get().metric, metric);
                taken.get_mut().metric = sum;
            }
            std::collections::btree_map::Entry::Occupied(_) => {}
        }
    }
    found
}

/// Two figures together; their errors are independent.
fn sum(a: &Metric, b: &Metric) -> Metric {
    let (Some(x), Some(y)) = (a.value, b.value) else {
        return if a.value.is_some() { a.clone() } else { b.clone() };
    };
    let half = |bound: fn(&Metric) -> Option<f64>| {
        bound(a).zip(bound(b)).map(|(p, q)| (p - x).hypot(q - y))
    };
    let below = half(|metric| metric.low);
    let above = half(|metric| metric.high);
    Metric {
        value: Some(x + y),
        low: below.map(|below| x + y - below),
        high: above.map(|above| x + y + above),
        samples: a.samples + b.samples,
        ..a.clone()
    }
}

fn name(table: &Table, row: &[Cell], program: Option<&str>, by_line: bool) -> Name {
    let cell = |key| table.column(key).map(|at| &row[at]);
    let text = |key| match cell(key) {
        Some(Cell::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    Name {
        function: text("function").map(|function| plain_function(function).to_owned()),
        module: text("module").map(|module| plain_module(module, program).to_owned()),
        file: text("file").filter(|_| by_line).map(|file| file_name(file).to_owned()),
        line: match cell("line") {
            Some(Cell::Number(line)) if by_line => Some(*line),
            _ => None,
        },
        stack: match cell("stack") {
            Some(Cell::Stack(frames)) => {
                frames.iter().map(|frame| plain_function(frame).to_owned()).collect()
            }
            _ => Vec::new(),
        },
    }
}

fn labels(entry: &Entry<'_>) -> Vec<(&'static str, Cell)> {
    let cell = |key: &'static str| entry.table.column(key).map(|at| (key, entry.row[at].clone()));
    KEYS.into_iter().filter_map(cell).collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Without the version after `.so`; the program itself has one name in all builds.
fn plain_module<'a>(module: &'a str, program: Option<&str>) -> &'a str {
    if Some(module) == program {
        return "[program]";
    }
    module.split_once(".so.").map_or(module, |(name, _)| &module[..name.len() + 3])
}

/// Without what compilers append to their copies of a function (GCC: "clone suffixes"), and without the address of code
/// that has no name.
fn plain_function(name: &str) -> &str {
    const CLONES: [&str; 5] = [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv."];
    if name.starts_with('[') {
        return name.split_once("+0x").map_or(name, |_| "[no name]");
    }
    let end = CLONES.iter().filter_map(|clone| name.find(clone)).min().unwrap_or(name.len());
    &name[..end]
}

/// Function, module and file: what lines move in together.
type Home = (Option<String>, Option<String>, Option<String>);

fn home(name: &Name) -> Home {
    (name.function.clone(), name.module.clone(), name.file.clone())
}

fn moved_back(name: Name, shifts: &HashMap<Home, i64>) -> Name {
    let shift = shifts.get(&home(&name)).copied().unwrap_or(0);
    Name { line: name.line.map(|line| line.saturating_add_signed(-shift)), ..name }
}

/// The number of lines by which each function moved: the shift after which most of its figures lie on the same lines as before.
fn shifts(base: &Side<'_>, new: &Side<'_>) -> HashMap<Home, i64> {
    let (base, new) = (weights(base), weights(new));
    let moved = |(home, lines): (Home, Vec<(u64, f64)>)| {
        let shift = best_shift(base.get(&home)?, &lines);
        (shift != 0).then_some((home, shift))
    };
    new.into_iter().filter_map(moved).collect()
}

/// Per function its lines with their shares of it.
fn weights(side: &Side<'_>) -> HashMap<Home, Vec<(u64, f64)>> {
    let mut sums: HashMap<Home, BTreeMap<u64, f64>> = HashMap::new();
    for entries in side {
        for (name, entry) in entries {
            if let (Some(line), Some(value)) = (name.line, entry.metric.value) {
                *sums.entry(home(name)).or_default().entry(line).or_default() += value;
            }
        }
    }
    let share = |lines: BTreeMap<u64, f64>| {
        let whole: f64 = lines.values().sum();
        lines
            .into_iter()
            .map(|(line, value)| (line, value / whole.max(f64::MIN_POSITIVE)))
            .collect()
    };
    sums.into_iter().map(|(home, lines)| (home, share(lines))).collect()
}

/// How much more of a function must lie on the same lines before it is taken to have moved. Lines that share a loop swap
/// some of their samples from run to run.
const CLEARLY: f64 = 0.1;
/// Lines per side that shifts are tried for: those with the most weight.
const HEAVIEST: usize = 40;

fn best_shift(base: &[(u64, f64)], new: &[(u64, f64)]) -> i64 {
    let before: HashMap<u64, f64> = base.iter().copied().collect();
    let overlap = |shift: i64| -> f64 {
        let common = |(line, share): &(u64, f64)| {
            before.get(&line.saturating_add_signed(-shift)).map_or(0.0, |before| before.min(*share))
        };
        new.iter().map(common).sum()
    };
    let heaviest = |lines: &[(u64, f64)]| {
        let mut lines = lines.to_vec();
        lines.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        lines.truncate(HEAVIEST);
        lines
    };
    let (base, new) = (heaviest(base), heaviest(new));
    let mut tried: Vec<i64> = base
        .iter()
        .flat_map(|(from, _)| {
            new.iter().filter_map(|(to, _)| i64::try_from(*to).ok()?.checked_sub_unsigned(*from))
        })
        .collect();
    // The smallest move first: of shifts that explain equally much it wins.
    tried.sort_by_key(|shift| (shift.unsigned_abs(), *shift));
    tried.dedup();
    let mut best = (overlap(0) + CLEARLY, 0);
    for shift in tried {
        let found = overlap(shift);
        if found > best.0 {
            best = (found, shift);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_a_build_adds() {
        let names = ["work.constprop.0", "work.part.1.cold", "[app+0x12]", "[kernel]", "a::b(int)"]
            .map(plain_function);
        assert_eq!(names, ["work", "work", "[no name]", "[kernel]", "a::b(int)"]);
        let modules = ["libc.so.6", "libm.so", "after", "[kernel]"];
        assert_eq!(
            modules.map(|module| plain_module(module, Some("after"))),
            ["libc.so", "libm.so", "[program]", "[kernel]"]
        );
    }

    #[test]
    fn lines_follow_their_function_and_stay_when_they_only_swap_samples() {
        let base = [(10, 0.6), (12, 0.3), (15, 0.1)];
        assert_eq!(best_shift(&base, &[(17, 0.55), (19, 0.35), (22, 0.1)]), 7);
        assert_eq!(best_shift(&base, &[(4, 0.6), (6, 0.4)]), -6);
        assert_eq!(best_shift(&base, &[(10, 0.55), (12, 0.38), (15, 0.07)]), 0);
        // A line in front became hot: the others stay.
        assert_eq!(best_shift(&base, &[(9, 0.5), (10, 0.3), (12, 0.2)]), 0);
        assert_eq!(best_shift(&base, &[]), 0);
    }
}
