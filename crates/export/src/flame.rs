//! A flame graph as SVG: one file, no script; names and amounts show under the pointer; light and dark as the viewer is set.
//!
//! What not: threads; frames of one function below the same callers are one box, whatever their lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::stacks::Exported;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const TOP: f64 = 34.0;
/// Width of a letter, about, at 12 px.
const LETTER: f64 = 7.0;
/// Boxes below this are not drawn; their callers keep the width.
const NARROWEST: f64 = 0.3;

const STYLE: &str = "\
text{font:12px ui-monospace,monospace;fill:#1a1a1a}\
.bg{fill:#fff}.h{font:600 13px system-ui,sans-serif}\
rect{stroke:#fff;stroke-width:.5}\
.u0{fill:#f2b26b}.u1{fill:#eda15a}.u2{fill:#f5c483}.u3{fill:#e8976a}.k{fill:#a9c1e0}\
g:hover rect{stroke:#000;stroke-width:1.5}\
@media(prefers-color-scheme:dark){text{fill:#f0f0f0}.bg{fill:#16181c}rect{stroke:#16181c}\
.u0{fill:#8a5420}.u1{fill:#7a4a1f}.u2{fill:#99602a}.u3{fill:#84422a}.k{fill:#37517a}\
g:hover rect{stroke:#fff}}";

#[derive(Default)]
struct Node<'a> {
    amount: f64,
    kernel: bool,
    children: BTreeMap<&'a str, Node<'a>>,
}

impl Node<'_> {
    fn depth(&self, width: f64, unit: f64) -> usize {
        if width < NARROWEST {
            return 0;
        }
        let deepest = self.children.values().map(|child| child.depth(child.amount * unit, unit));
        1 + deepest.max().unwrap_or(0)
    }
}

pub(crate) fn svg(exported: &Exported, figure: usize) -> String {
    let mut root = Node::default();
    for sample in exported.samples.iter().filter(|sample| sample.amounts[figure] > 0.0) {
        root.amount += sample.amounts[figure];
        let mut node = &mut root;
        for frame in sample.stack.iter().rev().map(|&frame| &exported.frames[frame]) {
            node = node.children.entry(&frame.function).or_default();
            node.amount += sample.amounts[figure];
            node.kernel = frame.kernel;
        }
    }
    let unit = if root.amount > 0.0 { WIDTH / root.amount } else { 0.0 };
    let rows = root.depth(WIDTH, unit).max(1);
    let height = TOP + rows as f64 * ROW + 12.0;
    let kind = &exported.figures[figure];
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\"><style>{STYLE}</style>\
         <rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>\
         <text class=\"h\" x=\"8\" y=\"21\">{}: {} by call stack, {} in all</text>\n",
        escaped(&exported.result),
        kind.name.replace('_', " "),
        amount(root.amount, kind.unit),
    );
    let bottom = TOP + (rows - 1) as f64 * ROW;
    let mut draw = Draw { text: &mut text, unit, whole: root.amount, measure: kind.unit };
    draw.boxes("all", &root, 0.0, bottom);
    text += "</svg>\n";
    text
}

struct Draw<'a> {
    text: &'a mut String,
    /// Pixels per amount.
    unit: f64,
    whole: f64,
    measure: &'static str,
}

impl Draw<'_> {
    fn boxes(&mut self, name: &str, node: &Node<'_>, left: f64, top: f64) {
        let width = node.amount * self.unit;
        if width < NARROWEST {
            return;
        }
        let class = match node.kernel {
            true => "k".to_owned(),
            // Neighbours differ; the same function has the same colour everywhere.
            false => format!("u{}", name.bytes().map(usize::from).sum::<usize>() % 4),
        };
        let share = node.amount / self.whole * 100.0;
        let _ = write!(
            self.text,
            "<g><title>{}: {}, {share:.1} %</title><rect class=\"{class}\" x=\"{left:.2}\" y=\"{top}\" \
             width=\"{width:.2}\" height=\"{ROW}\"/>",
            escaped(name),
            amount(node.amount, self.measure),
        );
        let room = ((width - 6.0) / LETTER).max(0.0) as usize;
        if room >= 3 {
            let all = name.chars().count() <= room;
            let shown: String = name.chars().take(if all { room } else { room - 1 }).collect();
            let (x, y) = (left + 3.0, top + 13.0);
            let dots = if all { "" } else { "…" };
            let _ =
                write!(self.text, "<text x=\"{x:.2}\" y=\"{y}\">{}{dots}</text>", escaped(&shown));
        }
        *self.text += "</g>\n";
        let mut next = left;
        for (name, child) in &node.children {
            self.boxes(name, child, next, top - ROW);
            next += child.amount * self.unit;
        }
    }
}

fn amount(value: f64, unit: &str) -> String {
    match unit {
        "nanoseconds" => format!("{:.3} s", value / 1e9),
        "bytes" => format!("{:.3} MB", value / 1e6),
        _ => format!("{value:.0}"),
    }
}

fn escaped(text: &str) -> String {
    // XML 1.0 has no way to write other control characters.
    let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
