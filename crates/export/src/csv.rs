//! A table of stacks with their figures, for spreadsheets and data frames (RFC 4180).
//!
//! What not: tables of a view, which `fathom report --format csv` writes, with intervals.

use std::fmt::Write;

use base::csv_field;

use crate::stacks::Exported;

pub(crate) fn csv(exported: &Exported) -> String {
    let mut text = String::from("stack,function,file,line,module,thread");
    for figure in &exported.figures {
        // A count needs no unit.
        let unit = if figure.unit == "count" { "" } else { figure.unit };
        let separator = if unit.is_empty() { "" } else { "_" };
        let _ = write!(text, ",{}{separator}{unit}", figure.name);
    }
    text.push_str("\r\n");
    for sample in &exported.samples {
        let frames = || sample.stack.iter().map(|&frame| &exported.frames[frame]);
        let names: Vec<String> =
            frames().rev().map(|frame| frame.function.replace(';', ":")).collect();
        let innermost = frames().next();
        let texts = [
            names.join(";"),
            innermost.map_or_else(String::new, |frame| frame.function.clone()),
            innermost.and_then(|frame| frame.file.clone()).unwrap_or_default(),
            innermost
                .and_then(|frame| frame.line)
                .map_or_else(String::new, |line| line.to_string()),
            innermost.map_or_else(String::new, |frame| frame.module.clone()),
            sample.thread.clone().unwrap_or_default(),
        ];
        let mut cells: Vec<String> = texts.iter().map(|text| csv_field(text)).collect();
        // A stack has the figures of its own source only: what it has not is left empty.
        let amount = |amount: &f64| if *amount > 0.0 { amount.to_string() } else { String::new() };
        cells.extend(sample.amounts.iter().map(amount));
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}
