//! One truth per fact: what must hold between the views of one recording.
//!
//! What for: two views of the same fact, or a whole and its parts, must not contradict each other, whatever the program does.
//! `fathom verify` checks this in every result after the invariants of its files, and so do the tests that make results.
//! What not: whether figures are true. Each check is a row of [`CHECKS`]; one that needs an unavailable figure passes.
//!
//! Assumption: figures are rounded to six digits, and sums of many of them deviate by [`ROUNDED`].

use analysis::memory::{BOUND_PERCENT, IMPOSSIBLE};
use facts::{KernelCause, Metric, Recording};

use crate::json::metrics;
use crate::table::{Cell, Table};
use crate::{Document, Options, Prepared, ReportError, Summary, View, build_prepared};

/// Sums and wholes that differ by this part are alike.
const ROUNDED: f64 = 0.005;
const FAULT: KernelCause = KernelCause::PageFault;
/// No mean of loads is shorter than a hit by more than the ladder errs.
const HIT: f64 = 0.9;

/// Figures in percent of something that they are no part of: of the bandwidth that as many threads reach, of one CPU, of the
/// program's time.
const NO_PARTS: [&str; 4] =
    ["dram_bandwidth.of_reachable", "cpu_utilisation", "overhead", "sampling_cost"];

/// A row of [`CHECKS`].
pub struct Check {
    /// Its name, stable.
    pub name: &'static str,
    /// What must hold, in a sentence.
    pub says: &'static str,
    finds: fn(&Views) -> Vec<String>,
}

/// All of them.
pub const CHECKS: &[Check] = &[
    Check {
        name: "values-within-intervals",
        says: "a figure lies within its interval",
        finds: values,
    },
    Check {
        name: "parts-within-wholes",
        says: "no share exceeds 100 %, and neither do the sums over objects and functions",
        finds: shares,
    },
    Check { name: "levels-add-up", says: "each load hits in one level", finds: levels },
    Check {
        name: "objects-add-up",
        says: "loads, stores and traffic of all objects are those of the program, within its intervals",
        finds: objects,
    },
    Check {
        name: "time-adds-up",
        says: "CPU time over time is no more than the program's, traffic over time is the program's; so is the CPU time that objects wait",
        finds: times,
    },
    Check {
        name: "fault-time-once",
        says: "the time of page faults is that of their rows among the entries into the kernel",
        finds: fault_time,
    },
    Check {
        name: "below-peaks",
        says: "nothing moves or computes faster than the machine can, or the figure says why it seems so",
        finds: peaks,
    },
    Check {
        name: "gains-within-elapsed",
        says: "nothing saves more time than there is",
        finds: gains,
    },
    Check {
        name: "class-by-share",
        says: "what limits the program has its part of the time",
        finds: class,
    },
];

/// What is compared.
struct Views {
    summary: Box<Summary>,
    /// In the order of [`TABLES`].
    tables: Vec<Table>,
}

const TABLES: [View; 7] = [
    View::Objects,
    View::Hotspots,
    View::Bandwidth,
    View::Timeline,
    View::Roofline,
    View::Accesses,
    View::Kernel,
];

/// Which checks fail, with what contradicts what.
///
/// # Errors
/// When a view cannot be made, which those of a whole recording can.
pub fn contradictions(recording: &Recording) -> Result<Vec<(&'static str, String)>, ReportError> {
    Ok(made(recording)?.map_or_else(Vec::new, |views| failed(&views)))
}

fn failed(views: &Views) -> Vec<(&'static str, String)> {
    let failed = CHECKS
        .iter()
        .flat_map(|check| (check.finds)(views).into_iter().map(|detail| (check.name, detail)));
    failed.collect()
}

fn made(recording: &Recording) -> Result<Option<Views>, ReportError> {
    let prepared = Prepared::new(recording);
    let document =
        |view| build_prepared(&prepared, &Options { view, ..Options::default() }, &|_: &str| None);
    let Document::Summary(summary) = document(View::Summary)? else { return Ok(None) };
    let mut tables = Vec::new();
    for view in TABLES {
        if let Document::Table(table) = document(view)? {
            tables.push(*table);
        }
    }
    Ok(Some(Views { summary, tables }))
}

impl Views {
    fn table(&self, view: View) -> &Table {
        let at = TABLES.iter().position(|one| *one == view).unwrap_or(0);
        &self.tables[at]
    }

    /// A column of a view, of rows that have it.
    fn column<'a>(&'a self, view: View, key: &str) -> Vec<&'a Metric> {
        let table = self.table(view);
        let Some(at) = table.columns.iter().position(|column| column.key == key) else {
            return Vec::new();
        };
        let metrics = table.rows.iter().filter_map(|row| match row.get(at) {
            Some(Cell::Metric(metric)) if metric.value.is_some() => Some(metric),
            _ => None,
        });
        metrics.collect()
    }

    fn sum(&self, view: View, key: &str) -> f64 {
        self.column(view, key).iter().filter_map(|metric| metric.value).sum()
    }

    /// The amount of each row of a view over time, times the row's length.
    fn over_time(&self, view: View, key: &str, per_second: bool) -> f64 {
        let table = self.table(view);
        let find = |key: &str| table.columns.iter().position(|column| column.key == key);
        let Some(((start, end), at)) = find("start").zip(find("end")).zip(find(key)) else {
            return 0.0;
        };
        let of_row = |row: &Vec<Cell>| match (&row[start], &row[end], &row[at]) {
            (Cell::Seconds(start), Cell::Seconds(end), Cell::Metric(metric)) => {
                Some(metric.value? * if per_second { end - start } else { 1.0 })
            }
            _ => None,
        };
        table.rows.iter().filter_map(of_row).sum()
    }
}

/// Whether a sum lies within an interval, give or take rounding.
fn within(sum: f64, whole: &Metric, factor: f64) -> bool {
    let Some(value) = whole.value else { return true };
    let end = |end: Option<f64>, open: f64| end.map_or(open, |end| end * factor);
    let slack = ROUNDED * (value * factor).abs().max(1e-6);
    (end(whole.low, f64::NEG_INFINITY) - slack..=end(whole.high, f64::INFINITY) + slack)
        .contains(&sum)
}

fn ends(metric: &Metric) -> String {
    let end = |end: Option<f64>| end.map_or("?".to_owned(), |end| format!("{end:.4}"));
    format!("{} ({} to {}) {}", end(metric.value), end(metric.low), end(metric.high), metric.unit)
}

/// Every figure of the summary and of the tables, by its name.
fn all(views: &Views) -> Vec<(String, Metric)> {
    let mut all = metrics(&views.summary);
    for table in &views.tables {
        for row in &table.rows {
            for (column, cell) in table.columns.iter().zip(row) {
                if let Cell::Metric(metric) = cell {
                    all.push((format!("{}: {}", table.view, column.key), metric.clone()));
                }
            }
        }
    }
    all
}

fn values(views: &Views) -> Vec<String> {
    let astray = all(views).into_iter().filter(|(_, metric)| {
        let open = |end: Option<f64>, value: f64| end.unwrap_or(value);
        metric.value.is_some_and(|value| {
            let (low, high) = (open(metric.low, value), open(metric.high, value));
            let slack = ROUNDED * value.abs() + 1e-9;
            !(low - slack..=high + slack).contains(&value)
        })
    });
    astray.map(|(name, metric)| format!("{name} is {}", ends(&metric))).collect()
}

fn shares(views: &Views) -> Vec<String> {
    let whole = |name: &String| !NO_PARTS.iter().any(|one| name.starts_with(one));
    let most = 100.0 * (1.0 + ROUNDED);
    let single = all(views).into_iter().filter(|(name, metric)| {
        metric.unit == "percent" && whole(name) && metric.value.is_some_and(|part| part > most)
    });
    let mut found: Vec<String> =
        single.map(|(name, metric)| format!("{name} is {}", ends(&metric))).collect();
    let parts = [
        (View::Objects, "dram_percent"),
        (View::Objects, "stall_percent"),
        (View::Objects, "access_percent"),
        (View::Hotspots, "self_percent"),
    ];
    for (view, key) in parts {
        let sum = views.sum(view, key);
        if sum > most {
            found.push(format!("{}: {key} is {sum:.2} % in all", view.name()));
        }
    }
    found
}

fn levels(views: &Views) -> Vec<String> {
    let crate::summary::Levels { l1, l2, l3, dram } = &views.summary.levels;
    let parts: Option<f64> = [l1, l2, l3, dram].into_iter().map(|level| level.value).sum();
    let astray = parts.filter(|sum| (sum - 100.0).abs() > 100.0 * ROUNDED);
    astray.map(|sum| format!("the hit levels have {sum:.2} % of the loads")).into_iter().collect()
}

fn objects(views: &Views) -> Vec<String> {
    let Summary { loads, stores, dram_bandwidth, runs, .. } = views.summary.as_ref();
    // Of several runs the summary has the mean. Where objects were not collected there are no rows.
    if *runs > 1 || views.table(View::Objects).rows.is_empty() {
        return Vec::new();
    }
    let seconds = views.summary.observed().unwrap_or(0.0);
    let moved = views.sum(View::Objects, "dram_read") + views.sum(View::Objects, "dram_write");
    let sums = [
        ("loads", views.sum(View::Objects, "loads"), loads, 1.0),
        ("stores", views.sum(View::Objects, "stores"), stores, 1.0),
        ("traffic", moved, &dram_bandwidth.average, seconds * 1e9),
    ];
    let astray = sums.into_iter().filter(|(_, sum, whole, factor)| !within(*sum, whole, *factor));
    let said = astray.map(|(name, sum, whole, factor)| {
        format!(
            "{name} of all objects are {sum:.4e}, of the program {factor:.3e} x {}",
            ends(whole)
        )
    });
    said.collect()
}

fn times(views: &Views) -> Vec<String> {
    let Summary { cpu_time, dram_bandwidth, runs, .. } = views.summary.as_ref();
    if *runs > 1 {
        return Vec::new();
    }
    let seconds = views.summary.observed().unwrap_or(0.0);
    let mut found = Vec::new();
    let computed = views.over_time(View::Timeline, "cpu_time", false);
    // It may be less: of a process that was attached to, or of short threads, samples show a part.
    if computed > cpu_time.high.or(cpu_time.value).unwrap_or(f64::INFINITY) * (1.0 + ROUNDED) {
        found.push(format!("CPU time over time is {computed:.4} s, in all {}", ends(cpu_time)));
    }
    let moved = views.over_time(View::Bandwidth, "total", true);
    // Of a bin with a pause in it, the rate is of the rest.
    let whole = views.summary.paused.is_none();
    if moved > 0.0 && whole && !within(moved, &dram_bandwidth.average, seconds) {
        let whole = ends(&dram_bandwidth.average);
        found.push(format!("traffic over time is {moved:.4} GB in {seconds:.3} s, in all {whole}"));
    }
    let waited = views.sum(View::Objects, "stall_time");
    let most = cpu_time.high.or(cpu_time.value).unwrap_or(f64::INFINITY);
    if waited > most * (1.0 + ROUNDED) {
        found.push(format!("objects are waited for {waited:.4} s of {most:.4} s of CPU time"));
    }
    found
}

fn fault_time(views: &Views) -> Vec<String> {
    let Summary { page_faults, kernel_entries, runs, .. } = views.summary.as_ref();
    let table = views.table(View::Kernel);
    let (Some(cause), Some(time)) = (table.column("cause"), table.column("time")) else {
        return Vec::new();
    };
    let of_fault =
        |row: &&Vec<Cell>| matches!(&row[cause], Cell::Text(name) if name == FAULT.name());
    let times = table.rows.iter().filter(of_fault).map(|row| match &row[time] {
        Cell::Metric(metric) => metric.value,
        _ => None,
    });
    // Entries that only the machine as a whole has are none of the program's.
    let known = *runs == 1 && kernel_entries.count.value.is_some();
    let sum: Option<f64> = times.sum::<Option<f64>>().filter(|_| known);
    let astray = sum.filter(|sum| !within(*sum, &page_faults.time, 1.0));
    let said =
        |sum| format!("page faults take {sum:.4} s by cause, {} in all", ends(&page_faults.time));
    astray.map(said).into_iter().collect()
}

fn peaks(views: &Views) -> Vec<String> {
    let Summary { dram_bandwidth: used, machine, average_load_latency, .. } =
        views.summary.as_ref();
    let mut found = Vec::new();
    let peak = machine.dram_bandwidth_peak.value.unwrap_or(f64::INFINITY);
    // Reachable may be the highest that any pass reached (a note says so), not that of the median.
    let highest = machine.dram_bandwidth_peak.high.filter(|_| used.reachable.note.is_some());
    let most = highest.unwrap_or(peak).max(peak);
    if used.reachable.value.is_some_and(|rate| rate > most * (1.0 + ROUNDED)) {
        found.push(format!("{} is within reach, of {peak} GB/s", ends(&used.reachable)));
    }
    // What seems to be more says so instead of its part of what is within reach.
    let beyond = used.average.low.is_some_and(|rate| rate > IMPOSSIBLE * peak);
    if beyond && used.of_reachable.value.is_some() {
        found.push(format!("it moves {}, of {peak} GB/s", ends(&used.average)));
    }
    let largest = used.observed_max.value.unwrap_or(f64::INFINITY);
    if used.average.value.is_some_and(|mean| mean > largest * (1.0 + ROUNDED)) {
        found.push(format!("it moves {} on average, at most {largest}", ends(&used.average)));
    }
    let hit = machine.load_latency.l1.value.unwrap_or(0.0) * HIT;
    if average_load_latency.value.is_some_and(|mean| mean < hit) {
        found.push(format!("a mean load takes {}, a hit {hit:.2} ns", ends(average_load_latency)));
    }
    let table = views.table(View::Roofline);
    let at = |key: &str| table.column(key);
    if let (Some(rate), Some(roof), Some(why)) = (at("flop_rate"), at("roof"), at("above")) {
        // What seems to be above says why.
        for row in table.rows.iter().filter(|row| row[why] == Cell::Missing) {
            let (Cell::Metric(rate), Cell::Metric(roof)) = (&row[rate], &row[roof]) else {
                continue;
            };
            let most = roof.high.or(roof.value).unwrap_or(f64::INFINITY);
            if rate.low.or(rate.value).is_some_and(|rate| rate > most * (1.0 + ROUNDED)) {
                found.push(format!("{} under a roof of {}", ends(rate), ends(roof)));
            }
        }
    }
    found
}

fn gains(views: &Views) -> Vec<String> {
    let Some(elapsed) = views.summary.elapsed.value.filter(|_| views.summary.runs == 1) else {
        return Vec::new();
    };
    let findings = views.summary.findings.iter();
    let gains = findings.map(|one| (one.id, &one.predicted_gain));
    // What is left is no gain, but is no longer either.
    let left = [("without misses", &views.summary.elapsed_without_misses)];
    let astray = gains.chain(left).filter(|(_, seconds)| {
        seconds.value.is_some_and(|seconds| seconds > elapsed * (1.0 + ROUNDED))
    });
    astray.map(|(name, seconds)| format!("{name}: {} of {elapsed} s", ends(seconds))).collect()
}

fn class(views: &Views) -> Vec<String> {
    let Summary { classification, memory_bound: share, .. } = views.summary.as_ref();
    let contradicts = match classification {
        Some("core-bound") => share.low.is_some_and(|low| low > 50.0),
        Some("latency-bound" | "tlb-bound") => share.high.is_some_and(|high| high < BOUND_PERCENT),
        _ => false,
    };
    let said = format!("{} with {}", classification.unwrap_or_default(), ends(share));
    if contradicts { vec![said] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use facts::Evidence;
    use testkit::recording::RecordingBuilder;

    use super::*;

    fn views() -> Views {
        let recording = RecordingBuilder::new().build();
        assert_eq!(contradictions(&recording).expect("views"), []);
        made(&recording).expect("views").expect("a summary")
    }

    fn about(value: f64, unit: &str) -> Metric {
        let interval = (value * 0.9, value * 1.1);
        Metric::with_interval(Evidence::Estimated, value, unit, interval, 9)
    }

    /// The names of the checks that fail once something is changed.
    fn broken(change: impl Fn(&mut Views)) -> Vec<&'static str> {
        let mut views = views();
        change(&mut views);
        failed(&views).into_iter().map(|(name, _)| name).collect()
    }

    fn add_row(views: &mut Views, view: View, cells: &[(&str, Cell)]) {
        let at = TABLES.iter().position(|one| *one == view).expect("a view");
        let table = &mut views.tables[at];
        let cell = |key: &str| cells.iter().find(|(name, _)| *name == key);
        let of = |column: &crate::Column| {
            cell(column.key).map_or(Cell::Missing, |(_, cell)| cell.clone())
        };
        let row = table.columns.iter().map(of).collect();
        table.rows.push(row);
    }

    #[test]
    fn each_check_sees_what_contradicts() {
        let outside = |views: &mut Views| {
            views.summary.flops = Metric { low: Some(3.0), ..about(2.0, "GFLOP/s") };
        };
        assert_eq!(broken(outside), ["values-within-intervals"]);
        let half = |views: &mut Views| {
            for _ in 0..3 {
                let cell = Cell::Metric(about(50.0, "percent"));
                add_row(views, View::Hotspots, &[("self_percent", cell)]);
            }
        };
        assert_eq!(broken(half), ["parts-within-wholes"]);
        let levels = |views: &mut Views| {
            let levels = &mut views.summary.levels;
            for level in [&mut levels.l1, &mut levels.l2, &mut levels.l3, &mut levels.dram] {
                *level = about(20.0, "percent");
            }
        };
        assert_eq!(broken(levels), ["levels-add-up"]);
        let loads = |views: &mut Views| {
            views.summary.loads = about(1e9, "count");
            let cell = Cell::Metric(about(2e9, "count"));
            add_row(views, View::Objects, &[("loads", cell)]);
        };
        assert_eq!(broken(loads), ["objects-add-up"]);
        let bins = |views: &mut Views| {
            views.summary.cpu_time = about(1.0, "s");
            let cells = [
                ("start", Cell::Seconds(0.0)),
                ("end", Cell::Seconds(2.0)),
                ("cpu_time", Cell::Metric(about(2.0, "s"))),
            ];
            add_row(views, View::Timeline, &cells);
        };
        assert_eq!(broken(bins), ["time-adds-up"]);
        let faults = |views: &mut Views| {
            views.summary.page_faults.time = about(0.0689, "s");
            views.summary.kernel_entries.count = about(9.0, "count");
            for time in [0.0449, 0.0098] {
                let time = Cell::Metric(about(time, "s"));
                add_row(
                    views,
                    View::Kernel,
                    &[("cause", Cell::text(FAULT.name())), ("time", time)],
                );
            }
        };
        assert_eq!(broken(faults), ["fault-time-once"]);
        let reach = |views: &mut Views| {
            views.summary.dram_bandwidth.reachable = about(55.0, "GB/s");
            views.summary.machine.dram_bandwidth_peak = about(50.0, "GB/s");
        };
        assert_eq!(broken(reach), ["below-peaks"]);
        let mean = |views: &mut Views| {
            views.summary.dram_bandwidth.average = about(4.0, "GB/s");
            views.summary.dram_bandwidth.observed_max = about(3.0, "GB/s");
        };
        assert_eq!(broken(mean), ["below-peaks"]);
        let roof = |views: &mut Views| {
            let [rate, roof] = [3.0, 1.0].map(|rate| Cell::Metric(about(rate, "GFLOP/s")));
            add_row(views, View::Roofline, &[("flop_rate", rate), ("roof", roof)]);
        };
        assert_eq!(broken(roof), ["below-peaks"]);
        let said = |views: &mut Views| {
            let [rate, roof] = [3.0, 1.0].map(|rate| Cell::Metric(about(rate, "GFLOP/s")));
            let above = Cell::text("the machine was busy");
            add_row(
                views,
                View::Roofline,
                &[("flop_rate", rate), ("roof", roof), ("above", above)],
            );
        };
        assert!(broken(said).is_empty());
        let longer = |views: &mut Views| {
            views.summary.elapsed = about(1.0, "s");
            views.summary.elapsed_without_misses = about(2.0, "s");
        };
        assert_eq!(broken(longer), ["gains-within-elapsed"]);
        let class = |views: &mut Views| {
            views.summary.classification = Some("core-bound");
            views.summary.memory_bound = about(80.0, "percent");
        };
        assert_eq!(broken(class), ["class-by-share"]);
    }
}
