//! CSV as in RFC 4180, except that lines end in `\n`.
//!
//! What not: which rows (views).

use base::csv_field;
use facts::Metric;

use crate::table::{Cell, Table};

fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn evidence(metric: &Metric) -> &'static str {
    metric.evidence.map_or("", facts::Evidence::name)
}

fn line(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|text| csv_field(text)).collect();
    fields.join(",") + "\n"
}

/// One line per row, without the total. Stacks are joined by `;`, innermost first.
pub(crate) fn table(table: &Table) -> String {
    let mut header = Vec::new();
    for column in &table.columns {
        header.push(column.key.to_owned());
        if column.unit.is_some() {
            header.extend(["low", "high", "evidence"].map(|part| format!("{}_{part}", column.key)));
        }
    }
    let mut text = line(&header);
    for row in &table.rows {
        let mut fields = Vec::new();
        for (column, cell) in table.columns.iter().zip(row) {
            match cell {
                Cell::Text(text) => fields.push(text.clone()),
                Cell::Number(number) => fields.push(number.to_string()),
                Cell::Seconds(number) | Cell::Probability(number) => {
                    fields.push(number.to_string())
                }
                Cell::Stack(frames) => fields.push(frames.join(";")),
                Cell::Metric(metric) => {
                    fields.extend([number(metric.value), number(metric.low), number(metric.high)]);
                    fields.push(evidence(metric).to_owned());
                }
                Cell::Missing => {
                    let width = if column.unit.is_some() { 4 } else { 1 };
                    fields.extend(std::iter::repeat_n(String::new(), width));
                }
            }
        }
        text += &line(&fields);
    }
    text
}

/// One line per metric, named by its path in the JSON.
pub(crate) fn metrics(metrics: Vec<(String, Metric)>) -> String {
    let header = ["metric", "value", "unit", "low", "high", "evidence", "samples", "lost", "note"];
    let mut text = line(&header.map(str::to_owned));
    for (path, metric) in metrics {
        text += &line(&[
            path,
            number(metric.value),
            metric.unit.clone(),
            number(metric.low),
            number(metric.high),
            evidence(&metric).to_owned(),
            metric.samples.to_string(),
            metric.lost.to_string(),
            metric.note.unwrap_or_default(),
        ]);
    }
    text
}
