//! Several sweeps against one baseline, and what the second hardware threads of cores bring.
//!
//! What not: running them; the figures (`analysis::scaling`).

use analysis::scaling::{Point, against, hardware_threads as judged};
use facts::Metric;

use super::{ScaleInput, metric};
use crate::table::{Cell, CellStyle, Column, Table};

const COLUMNS: [Column; 7] = [
    Column { key: "sweep", label: "Sweep", unit: None },
    Column { key: "threads", label: "Threads", unit: None },
    Column { key: "elapsed_min", label: "Least", unit: Some("s") },
    Column { key: "elapsed_mean", label: "Mean", unit: Some("s") },
    Column { key: "elapsed_max", label: "Most", unit: Some("s") },
    Column { key: "speedup", label: "Speed-up", unit: Some("ratio") },
    Column { key: "efficiency", label: "Efficiency", unit: Some("percent") },
];

/// Least, mean and most of some runs' seconds.
pub(super) fn range(seconds: &[f64]) -> [Metric; 3] {
    let runs = seconds.len() as u64;
    if runs == 0 {
        return [(); 3].map(|()| Metric::unavailable("s", "no run was timed"));
    }
    let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = seconds.iter().copied().fold(0.0, f64::max);
    let mean = seconds.iter().sum::<f64>() / runs as f64;
    [least, mean, most].map(|value| Metric { samples: runs, ..Metric::counted(value, "s") })
}

/// Speed-ups of each sweep by its name.
type Curves = Vec<(String, Vec<(u32, f64)>)>;

/// The table, and speed-ups to draw; `None` without other sweeps.
pub(super) fn overlay(input: &ScaleInput, own: &[Point]) -> Option<(Table, Curves)> {
    let other = input.others.first()?;
    let name = match input.pin {
        Some(pin) => format!("{} --pin {pin}", input.result),
        None => input.result.clone(),
    };
    let (base, base_name) = match input.first_is_baseline {
        true => (other.points.as_slice(), other.name.as_str()),
        false => (own, name.as_str()),
    };
    let others = input.others.iter().map(|sweep| (sweep.name.as_str(), sweep.points.as_slice()));
    // The baseline comes first.
    let mut sweeps: Vec<(&str, &[Point])> = others.collect();
    sweeps.insert(usize::from(input.first_is_baseline), (&name, own));
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for (name, points) in sweeps {
        let found = against(base, points).unwrap_or_default();
        for row in &found {
            let runs = points.iter().find(|point| point.threads == row.threads);
            let mut cells = vec![Cell::text(name), Cell::Number(u64::from(row.threads))];
            cells.extend(range(runs.map_or(&[], |point| &point.seconds)).map(Cell::metric));
            cells.push(Cell::metric(metric(&row.speedup, 1.0, "ratio")));
            cells.push(Cell::metric(metric(&row.efficiency, 100.0, "percent")));
            rows.push(cells);
        }
        let curve = found.iter().map(|row| (row.threads, row.speedup.value)).collect();
        curves.push((name.to_owned(), curve));
    }
    let fewest = base.iter().map(|point| point.threads).min()?;
    let threads = if fewest == 1 { "thread" } else { "threads" };
    let table = Table {
        view: "overlay",
        result: input.result.clone(),
        columns: COLUMNS.to_vec(),
        total: vec![Cell::Missing; COLUMNS.len()],
        rows,
        notes: Vec::new(),
        title: format!("Speed-up against {fewest} {threads} of {base_name}"),
        text_columns: vec![
            CellStyle::Text("sweep").titled("sweep"),
            CellStyle::Number("threads").titled("threads"),
            CellStyle::Time("elapsed_min").titled("min"),
            CellStyle::Time("elapsed_mean").titled("avg"),
            CellStyle::Time("elapsed_max").titled("max"),
            CellStyle::Ratio("speedup").titled("speed-up"),
            CellStyle::Percent("efficiency").titled("efficiency %"),
        ],
        page: usize::MAX,
        empty: "No other sweep has a time.".to_owned(),
    };
    Some((table, curves))
}

/// Percent, or why it is not known.
pub(super) fn hardware_threads(input: &ScaleInput, points: &[Point]) -> Metric {
    let missing = |why: &str| Metric::unavailable("percent", why);
    let (cores, cpus) = match input.cores {
        None => return missing("this system does not say which CPUs share a core"),
        Some((cores, cpus)) if cores == cpus => {
            return missing("cores have one hardware thread each here");
        }
        Some(cores) => cores,
    };
    if input.pin == Some("compact") {
        return missing(
            "compact uses both hardware threads of a core from two threads on: --pin cores",
        );
    }
    match judged(points, cores, cpus) {
        Some(found) => Metric {
            note: Some(format!("{} threads against {}, one on each core", found.cpus, found.cores)),
            ..metric(&found.gain, 100.0, "percent")
        },
        None => missing(
            "it takes a number of threads up to the cores, and one up to their hardware threads",
        ),
    }
}
