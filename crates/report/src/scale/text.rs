//! `fathom scale` as text: table, conclusions, plots.

use super::plot::{Series, plot};
use super::{LawReport, Scale, by_law};
use crate::text::{self, Paint, number, seconds, wrap};

pub(super) fn text(scale: &Scale, width: usize, paint: Paint) -> String {
    let mut out = text::table(&scale.table, width, paint);
    out.push('\n');
    let mut say = |sentence: String| {
        for (at, line) in wrap(&sentence, width - 4).iter().enumerate() {
            out += &format!("{}{line}\n", if at == 0 { "  " } else { "    " });
        }
    };
    sentences(scale).into_iter().for_each(&mut say);
    out.push('\n');
    if let Some(overlay) = &scale.overlay {
        out += &text::table(overlay, width, paint);
        out.push('\n');
    }
    out += &plots(scale, width, paint);
    for note in &scale.notes {
        for (at, line) in wrap(&text::printable(note), width - 4).iter().enumerate() {
            out += &format!("{}{line}\n", if at == 0 { "  - " } else { "    " });
        }
    }
    out
}

/// `3.1 (2.0 to 4.1)`.
fn with_interval(metric: &facts::Metric) -> String {
    // Threads come whole, but where laws meet they need not.
    let number = |value: f64| match metric.unit.as_str() {
        "count" if value.fract() == 0.0 => format!("{value:.0}"),
        "count" => format!("{value:.1}"),
        _ => number(value),
    };
    let value = metric.value.map_or("n/a".to_owned(), number);
    match (metric.low, metric.high) {
        (Some(low), Some(high)) if low < high => {
            format!("{value} ({} to {})", number(low), number(high))
        }
        _ => value,
    }
}

fn sentences(scale: &Scale) -> Vec<String> {
    let mut said = Vec::new();
    let most = scale.table.rows.len();
    match scale.saturation.value {
        Some(_) => {
            said.push(format!("Saturated from {} threads on.", with_interval(&scale.saturation)))
        }
        None if most > 1 => {
            said.push(
                "Not saturated: the largest number of threads measured still helps.".to_owned(),
            );
        }
        None => {}
    }
    if let Some(threads) = scale.bandwidth_saturation.value {
        let plural = if threads == 1.0 { "" } else { "s" };
        said.push(format!(
            "Memory traffic is largest from {} thread{plural} on.",
            with_interval(&scale.bandwidth_saturation)
        ));
    }
    if let Some(next) = &scale.next {
        said.push(format!(
            "One more thread, {} in total, would gain {} % by the best law: {}.",
            next.threads,
            with_interval(&next.gain),
            seconds(next.elapsed.value.unwrap_or(0.0))
        ));
    }
    let hardware = &scale.hardware_threads;
    if let (Some(value), Some(what)) = (hardware.value, &hardware.note) {
        let verdict = match (hardware.low, hardware.high) {
            (Some(low), _) if low > 0.0 => "Hyper-threads help",
            (_, Some(high)) if high < 0.0 => "Hyper-threads harm",
            (None, None) => "Hyper-threads, not judged with one run each",
            _ => "Hyper-threads bring nothing that is certain",
        };
        let gained = with_interval(hardware);
        let word = if value < 0.0 { "more (so slower)" } else { "more" };
        said.push(format!("{verdict}: {what}, do {gained} % {word}."));
    }
    said.extend(scale.laws.iter().enumerate().map(|(at, law)| sentence(law, at == 0)));
    said
}

fn sentence(law: &LawReport, best: bool) -> String {
    let mut parts = Vec::new();
    let contention = if law.coherence.is_some() { "contention" } else { "serial share" };
    parts.extend(
        law.contention.as_ref().map(|share| format!("{contention} {} %", with_interval(share))),
    );
    parts.extend(
        law.coherence.as_ref().map(|share| format!("coherence {} %", with_interval(share))),
    );
    parts.extend(
        law.saturation
            .as_ref()
            .map(|threads| format!("most at {} threads", with_interval(threads))),
    );
    format!(
        "{}{}: {}; measured times are {} % from it.",
        law.law,
        if best { " (fits best)" } else { "" },
        parts.join(", "),
        number(law.error)
    )
}

fn plots(scale: &Scale, width: usize, paint: Paint) -> String {
    let curve = &scale.curve;
    let (Some(first), Some(last)) = (curve.speedup.first(), curve.speedup.last()) else {
        return String::new();
    };
    let (fewest, most) = (first.0, last.0);
    if fewest == most {
        return String::new();
    }
    let ticks: Vec<u32> = curve.speedup.iter().map(|(threads, _)| *threads).collect();
    let right = f64::from(most);
    let ideal = |x: f64| x / f64::from(fewest);
    let fine = || (0..=144).map(move |step| right * f64::from(step) / 144.0);
    let mut series = vec![Series { sign: '.', points: fine().map(|x| (x, ideal(x))).collect() }];
    if let Some(fit) = &curve.law {
        let points = (fewest..=most).map(|n| (f64::from(n), by_law(fit, fewest, n))).collect();
        series.push(Series { sign: '-', points });
    }
    let measured = |points: &[(u32, analysis::scaling::Estimate)]| Series {
        sign: '*',
        points: points
            .iter()
            .map(|(threads, figure)| (f64::from(*threads), figure.value))
            .collect(),
    };
    series.push(measured(&curve.speedup));
    let top = curve.speedup.iter().map(|(_, figure)| figure.value).fold(ideal(right), f64::max);
    let mut out = paint.bold(&format!("  speed-up against {fewest} (* measured, - law, . ideal)"));
    out.push('\n');
    out += &plot(&series, right, top, width, &ticks);
    if !curve.overlay.is_empty() {
        out.push('\n');
        out += &overlay_plot(scale, width, paint);
    }
    if !curve.bandwidth.is_empty() {
        let largest = curve.bandwidth.iter().map(|(_, figure)| figure.value).fold(0.0, f64::max);
        let top = curve.peak.unwrap_or(largest).max(largest);
        let peak = curve
            .peak
            .map(|peak| Series { sign: '.', points: fine().map(|x| (x, peak)).collect() });
        let series: Vec<Series> = peak.into_iter().chain([measured(&curve.bandwidth)]).collect();
        out.push('\n');
        out += &paint.bold("  GB/s of traffic with memory (* estimated, . the machine's peak)");
        out.push('\n');
        out += &plot(&series, right, top.max(f64::MIN_POSITIVE), width, &ticks);
    }
    out.push('\n');
    out
}

/// Signs of sweeps; more of them share the last one.
const SIGNS: [char; 8] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', '+'];

fn overlay_plot(scale: &Scale, width: usize, paint: Paint) -> String {
    let sweeps = &scale.curve.overlay;
    let points = || sweeps.iter().flat_map(|(_, points)| points);
    let right = f64::from(points().map(|(threads, _)| *threads).max().unwrap_or(1));
    let base =
        sweeps.first().and_then(|(_, points)| points.first()).map_or(1, |(threads, _)| *threads);
    let ideal = |x: f64| x / f64::from(base);
    let top = points().map(|(_, speedup)| *speedup).fold(ideal(right), f64::max);
    let fine = (0..=144).map(|step| right * f64::from(step) / 144.0).map(|x| (x, ideal(x)));
    let mut series = vec![Series { sign: '.', points: fine.collect() }];
    let mut legend = Vec::new();
    for (at, (name, points)) in sweeps.iter().enumerate() {
        let sign = SIGNS[at.min(SIGNS.len() - 1)];
        legend.push(format!("{sign} {name}"));
        let points = points.iter().map(|(threads, speedup)| (f64::from(*threads), *speedup));
        series.push(Series { sign, points: points.collect() });
    }
    let title = format!("speed-up against the first ({}, . ideal)", legend.join(", "));
    let mut out = String::new();
    for line in wrap(&title, width - 4) {
        out += &format!("{}\n", paint.bold(&format!("  {}", text::printable(&line))));
    }
    let mut ticks: Vec<u32> = points().map(|(threads, _)| *threads).collect();
    ticks.sort_unstable();
    ticks.dedup();
    out + &plot(&series, right, top, width, &ticks)
}
