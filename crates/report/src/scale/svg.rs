//! The plots of `fathom scale` as one SVG (SVG 1.1, no scripts, no fonts of its own).

use std::fmt::Write;

use analysis::scaling::Estimate;

use super::{Scale, by_law};
use crate::text::number;

const PANEL: (f64, f64) = (420.0, 300.0);
const MARGIN: f64 = 50.0;

/// A plot with its own axes; both begin at 0.
struct Panel {
    left: f64,
    right: f64,
    top: f64,
    out: String,
}

impl Panel {
    fn x(&self, threads: f64) -> f64 {
        self.left + MARGIN + threads / self.right * (PANEL.0 - 1.5 * MARGIN)
    }

    fn y(&self, value: f64) -> f64 {
        PANEL.1 - MARGIN - value / self.top * (PANEL.1 - 2.0 * MARGIN)
    }

    fn line(&mut self, points: &[(f64, f64)], style: &str) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
        self.add(format_args!(
            "<polyline fill=\"none\" {style} points=\"{}\"/>\n",
            points.join(" ")
        ));
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n"
        ));
    }

    fn add(&mut self, part: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(part);
    }

    fn axes(&mut self, title: &str, threads: &[u32]) {
        let (right, top) = (self.right, self.top);
        self.line(&[(0.0, top), (0.0, 0.0), (right, 0.0)], "stroke=\"black\"");
        for share in [0.0, 0.5, 1.0] {
            let (x, y) = (self.x(0.0) - 6.0, self.y(top * share) + 4.0);
            self.text(x, y, "end", &number(top * share));
        }
        for one in threads {
            let (x, y) = (self.x(f64::from(*one)), self.y(0.0) + 16.0);
            self.text(x, y, "middle", &one.to_string());
        }
        let middle = self.left + PANEL.0 / 2.0;
        self.text(middle, PANEL.1 - 12.0, "middle", "threads");
        self.text(middle, MARGIN / 2.0, "middle", title);
    }

    /// Points with their intervals.
    fn points(&mut self, figures: &[(u32, Estimate)]) {
        for (threads, figure) in figures {
            let x = f64::from(*threads);
            if let Some((low, high)) = figure.interval {
                self.line(&[(x, low.max(0.0)), (x, high.min(self.top))], "stroke=\"#1f5fa8\"");
            }
            let (x, y) = (self.x(x), self.y(figure.value));
            self.add(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"#1f5fa8\"/>\n"
            ));
        }
    }
}

const DASHED: &str = "stroke=\"#888\" stroke-dasharray=\"4 4\"";

pub(super) fn svg(scale: &Scale) -> String {
    let curve = &scale.curve;
    let threads: Vec<u32> = curve.speedup.iter().map(|(threads, _)| *threads).collect();
    let (fewest, most) =
        (threads.first().copied().unwrap_or(1), threads.last().copied().unwrap_or(1));
    let right = f64::from(most);
    let ideal = right / f64::from(fewest);
    let largest = |figures: &[(u32, Estimate)], least: f64| {
        figures.iter().map(|(_, figure)| figure.value).fold(least, f64::max)
    };
    let mut panel =
        Panel { left: 0.0, right, top: largest(&curve.speedup, ideal), out: String::new() };
    panel.axes("speed-up (dashed: ideal, line: best law)", &threads);
    panel.line(&[(0.0, 0.0), (right, ideal)], DASHED);
    if let Some(fit) = &curve.law {
        let points: Vec<(f64, f64)> =
            (fewest..=most).map(|n| (f64::from(n), by_law(fit, fewest, n))).collect();
        panel.line(&points, "stroke=\"#c06020\"");
    }
    panel.points(&curve.speedup);
    let mut body = panel.out;
    let mut width = PANEL.0;
    if !curve.bandwidth.is_empty() {
        let top = largest(&curve.bandwidth, curve.peak.unwrap_or(0.0)).max(f64::MIN_POSITIVE);
        let mut panel = Panel { left: PANEL.0, right, top, out: String::new() };
        panel.axes("GB/s of traffic with memory (dashed: peak)", &threads);
        if let Some(peak) = curve.peak {
            panel.line(&[(0.0, peak), (right, peak)], DASHED);
        }
        panel.points(&curve.bandwidth);
        body += &panel.out;
        width *= 2.0;
    }
    if !curve.overlay.is_empty() {
        let (panel, right) = (overlay(scale, width), width + PANEL.0);
        body += &panel;
        width = right;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n",
        height = PANEL.1
    )
}

/// Okabe and Ito's colours, which colour-blind people tell apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#000000"];

/// All sweeps against one baseline.
fn overlay(scale: &Scale, left: f64) -> String {
    let sweeps = &scale.curve.overlay;
    let points = || sweeps.iter().flat_map(|(_, points)| points);
    let mut threads: Vec<u32> = points().map(|(threads, _)| *threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let right = f64::from(threads.last().copied().unwrap_or(1));
    let base =
        sweeps.first().and_then(|(_, points)| points.first()).map_or(1, |(threads, _)| *threads);
    let ideal = right / f64::from(base);
    let top = points().map(|(_, speedup)| *speedup).fold(ideal, f64::max);
    let mut panel = Panel { left, right, top, out: String::new() };
    panel.axes("speed-up against the first sweep (dashed: ideal)", &threads);
    panel.line(&[(0.0, 0.0), (right, ideal)], DASHED);
    for (at, (name, points)) in sweeps.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points: Vec<(f64, f64)> =
            points.iter().map(|(threads, speedup)| (f64::from(*threads), *speedup)).collect();
        panel.line(&points, &format!("stroke=\"{colour}\" stroke-width=\"2\""));
        let (x, y) = (left + MARGIN + 8.0, MARGIN + 14.0 * (at as f64 + 1.0));
        panel.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\n",
            y - 9.0
        ));
        panel.text(x + 14.0, y, "start", name);
    }
    panel.out
}
