//! Folded stacks: the text that `flamegraph.pl`, inferno and many viewers read.
//!
//! What not: threads and lines; the format has no place for them.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::stacks::{Exported, whole_numbers};

pub(crate) fn folded(exported: &Exported, figure: usize) -> String {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for sample in exported.samples.iter().filter(|sample| sample.amounts[figure] > 0.0) {
        let names = sample.stack.iter().rev().map(|&frame| {
            // The characters that divide frames and lines.
            exported.frames[frame].function.replace(';', ":").replace(['\n', '\r'], " ")
        });
        *sums.entry(names.collect::<Vec<_>>().join(";")).or_default() += sample.amounts[figure];
    }
    let mut text = String::new();
    for (stack, amount) in sums.keys().zip(whole_numbers(sums.values().copied())) {
        let _ = writeln!(text, "{stack} {amount}");
    }
    text
}
