//! JSON of speedscope (https://www.speedscope.app/file-format-schema.json): a profile for each figure.

use serde_json::{Value, json};

use crate::stacks::Exported;

pub(crate) fn speedscope(exported: &Exported) -> String {
    let frames: Vec<Value> = exported
        .frames
        .iter()
        .map(|frame| {
            let mut value = json!({"name": frame.function});
            if let Some(file) = &frame.file {
                value["file"] = json!(file);
            }
            if let Some(line) = frame.line {
                value["line"] = json!(line);
            }
            value
        })
        .collect();
    let profile = |(at, figure): (usize, &crate::Figure)| {
        let chosen = || exported.samples.iter().filter(move |sample| sample.amounts[at] > 0.0);
        let outermost_first =
            |sample: &crate::Sample| -> Vec<usize> { sample.stack.iter().rev().copied().collect() };
        let unit = if figure.unit == "count" { "none" } else { figure.unit };
        json!({
            "type": "sampled",
            "name": figure.name,
            "unit": unit,
            "startValue": 0,
            "endValue": chosen().map(|sample| sample.amounts[at]).sum::<f64>(),
            "samples": chosen().map(outermost_first).collect::<Vec<_>>(),
            "weights": chosen().map(|sample| sample.amounts[at]).collect::<Vec<_>>(),
        })
    };
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("fathom ", env!("CARGO_PKG_VERSION")),
        "name": exported.result,
        "activeProfileIndex": exported.main_figure().unwrap_or(0),
        "shared": {"frames": frames},
        "profiles": exported.figures.iter().enumerate().map(profile).collect::<Vec<_>>(),
    });
    document.to_string() + "\n"
}
