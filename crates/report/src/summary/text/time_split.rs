//! Where the time of all threads went: one bar, its legend, and what disturbed it.

use facts::Metric;

use super::{DISTURBING, Page, Summary};
use crate::text::{filled, percent, seconds};

/// Names, signs and times of the parts.
pub(super) fn parts(summary: &Summary) -> [(&'static str, char, Metric); 4] {
    let split = &summary.time_split;
    // Without a division between program and kernel, their sum may still be known.
    let undivided = Metric {
        value: summary
            .cpu_time
            .value
            .map(|cpu| (cpu - split.page_faults.value.unwrap_or(0.0)).max(0.0)),
        ..summary.cpu_time.clone()
    };
    let divided = split.user.value.is_some() || undivided.value.is_none();
    let own = match divided {
        true => ("program", '█', split.user.clone()),
        false => ("program and kernel", '█', undivided),
    };
    [
        own,
        ("kernel", '▓', split.kernel.clone()),
        ("page faults", '▒', split.page_faults.clone()),
        ("waiting", '░', split.waiting.clone()),
    ]
}

pub(super) fn time_split(summary: &Summary, page: &mut Page) {
    let split = &summary.time_split;
    let parts = parts(summary);
    let parts = parts.each_ref().map(|(name, sign, metric)| (*name, *sign, metric));
    let values = parts.map(|(_, _, metric)| metric.value.unwrap_or(0.0).max(0.0));
    let sum: f64 = values.iter().sum();
    let of = match split.thread_time.value {
        Some(lived) => format!("of {}, the summed lifetimes of all threads", seconds(lived)),
        None => "of the CPU time".to_owned(),
    };
    page.heading("Where the time goes", &of);
    if sum <= 0.0 {
        page.item("n/a: neither samples nor counters have it.");
        return;
    }
    let bar_width = page.width.saturating_sub(4).min(72);
    let mut bar = String::new();
    let mut legend = Vec::new();
    for (at, cells) in divide(&values, bar_width).into_iter().enumerate() {
        let (name, sign, metric) = parts[at];
        if metric.value.is_none() {
            continue;
        }
        bar += &page.paint.series(at, &sign.to_string().repeat(cells));
        let sign = page.paint.series(at, &sign.to_string());
        let text = format!(" {name} {} %", percent(values[at] / sum * 100.0));
        legend.push((text.chars().count() + 1, sign + &text));
    }
    let mut drawing = format!("  {bar}\n");
    for line in filled(legend.into_iter(), page.width - 2, "   ") {
        drawing += &format!("  {line}\n");
    }
    page.drawing(&drawing);
    if let Some(others) = summary.other_cpu_percent.value.filter(|value| *value >= DISTURBING) {
        page.item(&format!(
            "Other programs used {} % of the machine. Part of the waiting may be for a CPU, and figures of this \
             run are less reliable.",
            percent(others)
        ));
    }
    for (name, _, metric) in parts {
        if metric.value.is_none() {
            let why = metric.note.as_deref().unwrap_or("not recorded");
            page.item(&format!("{name}: n/a, {why}"));
        }
    }
}

/// Splits `width` cells in proportion; what rounding leaves goes to the largest remainders, and what is not
/// nothing gets at least one cell while there is room.
fn divide(values: &[f64; 4], width: usize) -> [usize; 4] {
    let sum: f64 = values.iter().sum();
    let exact = values.map(|value| value / sum * width as f64);
    let mut cells = exact.map(|cells| cells.floor() as usize);
    let mut order = [0, 1, 2, 3];
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()).then(a.cmp(&b)));
    let rest = width.saturating_sub(cells.iter().sum());
    order.iter().take(rest).for_each(|&at| cells[at] += 1);
    for at in 0..4 {
        let largest = (0..4).max_by_key(|&at| cells[at]).unwrap_or(0);
        if values[at] / sum >= 0.001 && cells[at] == 0 && cells[largest] > 1 {
            cells[at] = 1;
            cells[largest] -= 1;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_its_width_and_shows_what_is_small() {
        assert_eq!(divide(&[1.0, 1.0, 1.0, 1.0], 8), [2, 2, 2, 2]);
        assert_eq!(divide(&[0.98, 0.01, 0.0, 0.01], 10), [8, 1, 0, 1]);
        for values in [[3.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [1.0, 2.0, 3.0, 4.0]] {
            assert_eq!(divide(&values, 71).iter().sum::<usize>(), 71);
        }
    }
}
