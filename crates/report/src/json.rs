//! JSON, and the figures as they leave the program.

use facts::{Evidence, Metric};
use serde::Serialize;
use serde_json::Value;

/// Significant digits of figures that are not exact: more than any interval here justifies.
const DIGITS: i32 = 6;

/// Indented JSON with a newline at the end.
pub(crate) fn render(document: &impl Serialize) -> String {
    // Only maps with keys that are not text can fail to serialise, and there are none.
    let mut text = serde_json::to_string_pretty(document).unwrap_or_else(|_| "null".to_owned());
    text.push('\n');
    text
}

/// All metrics in a document with their paths, e.g. `page_faults.minor`, in alphabetical order.
pub(crate) fn metrics(document: &impl Serialize) -> Vec<(String, Metric)> {
    let mut found = Vec::new();
    if let Ok(document) = serde_json::to_value(document) {
        collect(&document, String::new(), &mut found);
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Arrays are no part of it: their elements have no name.
fn collect(value: &Value, path: String, found: &mut Vec<(String, Metric)>) {
    let Some(object) = value.as_object() else { return };
    if object.contains_key("evidence") {
        if let Ok(metric) = serde_json::from_value(value.clone()) {
            found.push((path, metric));
        }
        return;
    }
    for (name, field) in object {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(field, path, found);
    }
}

/// Rounds what is not exact, and turns what is no number into "not available".
pub(crate) fn tidy(metric: Metric) -> Metric {
    let Some(value) = metric.value else { return metric };
    if !value.is_finite() {
        return Metric::unavailable(
            &metric.unit,
            "the figure is not a number: its inputs are damaged",
        );
    }
    let exact = metric.evidence == Some(Evidence::Counted) && metric.unit != "percent";
    let round =
        |value: f64| if exact { nanos_exact(value, &metric.unit) } else { significant(value) };
    let bound = |bound: Option<f64>| bound.filter(|bound| bound.is_finite()).map(round);
    Metric { value: Some(round(value)), low: bound(metric.low), high: bound(metric.high), ..metric }
}

/// Counted times have whole nanoseconds: rounding to them removes what the conversion to seconds added.
fn nanos_exact(value: f64, unit: &str) -> f64 {
    if unit == "s" && value.abs() < 1e6 { (value * 1e9).round() / 1e9 } else { value }
}

pub(crate) fn significant(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    // Through text: the nearest number with this many digits, which prints as such.
    format!("{value:.*e}", (DIGITS - 1) as usize).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inexact_figures_are_rounded_and_counts_are_not() {
        let sampled =
            Metric::with_interval(Evidence::Sampled, 12.345_678_9, "s", (1.0 / 3.0, 2e9 / 3.0), 3);
        let tidied = tidy(sampled);
        assert_eq!(
            (tidied.value, tidied.low, tidied.high),
            (Some(12.3457), Some(0.333333), Some(666667000.0))
        );
        assert_eq!(tidy(Metric::counted(2_147_557_472.0, "bytes")).value, Some(2_147_557_472.0));
        assert_eq!(tidy(Metric::counted(3.0 * 0.1, "s")).value, Some(0.3));
    }

    #[test]
    fn what_is_no_number_is_not_available() {
        let broken = tidy(Metric::counted(f64::NAN, "s"));
        assert!(broken.value.is_none() && broken.note.is_some());
    }
}
