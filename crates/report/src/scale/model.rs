//! The table of `fathom scale`, and its notes.

use std::collections::BTreeSet;

use analysis::scaling::Scaling;
use estimate::interval::median;
use facts::{Evidence, Metric};

use super::overlay::range;
use super::{Collected, ScaleInput, ScalePoint, metric};
use crate::table::{Cell, CellStyle, Column, Table};

/// Without repeats there are no intervals; below this many they come mostly from other numbers of threads.
const FEW_REPEATS: usize = 3;

const fn figure(key: &'static str, label: &'static str, unit: &'static str) -> Column {
    Column { key, label, unit: Some(unit) }
}

const COLUMNS: [Column; 13] = [
    Column { key: "threads", label: "Threads", unit: None },
    figure("elapsed", "Elapsed", "s"),
    figure("elapsed_min", "Least", "s"),
    figure("elapsed_mean", "Mean", "s"),
    figure("elapsed_max", "Most", "s"),
    figure("speedup", "Speed-up", "ratio"),
    figure("efficiency", "Efficiency", "percent"),
    figure("cpu_time", "CPU time", "s"),
    figure("flop_rate", "Arithmetic", "GFLOP/s"),
    figure("flops_percent", "Of the machine's peak", "percent"),
    figure("dram_bandwidth", "Traffic with memory", "GB/s"),
    figure("bandwidth_percent", "Of the machine's peak", "percent"),
    figure("printed", "Printed by the program", ""),
];

const NOT_COLLECTED: &str = "no run under the collector with this number of threads";

pub(super) fn table(input: &ScaleInput, found: &Scaling) -> Table {
    let rows = found.rows.iter().filter_map(|row| {
        let point = input.points.iter().find(|point| point.threads == row.threads)?;
        let rates = rates(point, row.seconds.value);
        let mut cells = vec![
            Cell::Number(u64::from(row.threads)),
            Cell::metric(metric(&row.seconds, 1.0, "s")),
        ];
        cells.extend(range(&point.seconds).map(Cell::metric));
        cells.extend([
            Cell::metric(metric(&row.speedup, 1.0, "ratio")),
            Cell::metric(metric(&row.efficiency, 100.0, "percent")),
            Cell::metric(middle(&point.cpu_seconds, "s", "its CPU time is not known")),
        ]);
        cells.extend(rates.into_iter().map(Cell::metric));
        cells.push(Cell::metric(middle(
            &point.printed,
            "",
            "no figure of the program's output was asked for",
        )));
        Some(cells)
    });
    let mut text_columns = vec![
        CellStyle::Number("threads").titled("threads"),
        CellStyle::Time("elapsed").titled("time"),
        CellStyle::Time("elapsed_min").titled("min"),
        CellStyle::Time("elapsed_mean").titled("avg"),
        CellStyle::Time("elapsed_max").titled("max"),
        CellStyle::Ratio("speedup").titled("speed-up"),
        CellStyle::Percent("efficiency").titled("efficiency %"),
    ];
    if input.points.iter().any(|point| point.collected.is_some()) {
        text_columns.extend([
            CellStyle::Ratio("flop_rate").titled("GFLOP/s"),
            CellStyle::Percent("flops_percent").titled("% of peak"),
            CellStyle::Measure("dram_bandwidth").titled("bandwidth"),
            CellStyle::Percent("bandwidth_percent").titled("% of peak"),
        ]);
    }
    if input.figure.is_some() {
        text_columns.push(CellStyle::Ratio("printed").titled("printed"));
    }
    Table {
        view: "scale",
        result: input.result.clone(),
        columns: COLUMNS.to_vec(),
        rows: rows.collect(),
        total: vec![Cell::Missing; COLUMNS.len()],
        notes: Vec::new(),
        title: format!("{}: {}", input.result, input.command.join(" ")),
        text_columns,
        page: usize::MAX,
        empty: "Nothing was measured.".to_owned(),
    }
}

/// GFLOP/s, its share of the peak, GB/s, its share of the peak.
fn rates(point: &ScalePoint, seconds: f64) -> [Metric; 4] {
    let Some(collected) = &point.collected else {
        return ["GFLOP/s", "percent", "GB/s", "percent"]
            .map(|unit| Metric::unavailable(unit, NOT_COLLECTED));
    };
    let flops = over(&collected.flop_rate, point, seconds);
    let bandwidth = over(&collected.bandwidth, point, seconds);
    let flops_percent = share(&flops, &collected.flops_peak);
    let bandwidth_percent = share(&bandwidth, &collected.bandwidth_peak);
    [flops, flops_percent, bandwidth, bandwidth_percent]
}

/// A rate of the collected run as one of the runs without collector: the same amount in their time.
pub(super) fn over(rate: &Metric, point: &ScalePoint, seconds: f64) -> Metric {
    match point.collected.as_ref().and_then(|collected| collected.elapsed.value) {
        Some(elapsed) => scaled(rate, elapsed / seconds, &rate.unit),
        None => rate.clone(),
    }
}

fn scaled(metric: &Metric, factor: f64, unit: &str) -> Metric {
    let evidence = metric.value.map(|_| Evidence::Estimated);
    Metric { evidence, ..metric.times(factor, unit) }
}

fn share(rate: &Metric, peak: &Metric) -> Metric {
    match (rate.value, peak.value.filter(|peak| *peak > 0.0)) {
        (Some(_), Some(peak)) => scaled(rate, 100.0 / peak, "percent"),
        (None, _) => Metric { unit: "percent".to_owned(), ..rate.clone() },
        _ => Metric::unavailable("percent", "this machine was not measured: run `fathom machine`"),
    }
}

fn middle(values: &[f64], unit: &str, why: &str) -> Metric {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match median(&sorted) {
        Some(value) => Metric {
            low: sorted.first().copied(),
            high: sorted.last().copied(),
            samples: values.len() as u64,
            evidence: Some(Evidence::Estimated),
            note: Some("median of the runs; the interval is their range".to_owned()),
            ..Metric::counted(value, unit)
        },
        None => Metric::unavailable(unit, why),
    }
}

pub(super) fn notes(input: &ScaleInput, found: &Scaling) -> Vec<String> {
    let mut notes = Vec::new();
    let runs = input.points.iter().map(|point| point.seconds.len()).min().unwrap_or(0);
    match found.spread {
        Some(spread) => notes.push(format!(
            "Medians of {runs} runs each, in random order; runs differ by {:.1} % (standard deviation). Intervals are 95 %.",
            spread * 100.0
        )),
        None => notes.push("One run per number of threads: no intervals (--repeat 3 or more).".to_owned()),
    }
    if found.spread.is_some() && runs < FEW_REPEATS {
        notes.push(format!(
            "{runs} runs each are few: intervals assume the same variation at every number of \
                threads."
        ));
    }
    if let Some(figure) = &input.figure {
        notes.push(format!("'printed' is the number after '{figure}' in the program's output."));
    }
    let collected: Vec<_> =
        input.points.iter().filter_map(|point| point.collected.as_ref()).collect();
    if let (Some(first), Some(last)) = (collected.first(), collected.last()) {
        notes.push(format!(
            "GB/s and GFLOP/s are the bytes and operations of one further run each under the collector ({} ... {}) \
             in the time of the others.",
            first.result, last.result
        ));
        for (name, rate) in [
            ("GFLOP/s", (|point| &point.flop_rate) as fn(&Collected) -> &Metric),
            ("GB/s", |point| &point.bandwidth),
        ] {
            let missing = collected.iter().filter(|point| rate(point).value.is_none());
            let reasons: BTreeSet<&str> = missing
                .map(|point| rate(point).note.as_deref().unwrap_or("not recorded"))
                .collect();
            notes.extend(reasons.iter().map(|reason| format!("{name}: n/a, {reason}.")));
        }
        let seen: Vec<f64> = collected.iter().filter_map(|one| one.threads.value).collect();
        if seen.len() > 1 && seen.iter().all(|threads| *threads == seen[0]) {
            notes.push(format!(
                "The program ran {} thread{} at every number. Does it read OMP_NUM_THREADS, or take {{threads}} in \
                its arguments?",
                seen[0],
                if seen[0] == 1.0 { "" } else { "s" }
            ));
        }
    }
    notes
}
