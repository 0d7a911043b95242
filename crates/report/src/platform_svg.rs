//! The machine as SVG: sockets, nodes, caches and cores as boxes in boxes, with what they were measured to give.
//!
//! What for: `fathom machine --format svg`; one file, no script, light and dark as the viewer is set. What not: which box is in which
//! (`platform`), a recorded run (the page draws that).
//!
//! A core has words where there are few; of many there is a square each, and what they are stands below.

use std::fmt::Write;

use facts::Metric;
use facts::host::{CacheKind, Calibration, Host};

use crate::machine::measured_by_level_and_node;
use crate::platform::{PlatformBox, PlatformCache, boxes};
use crate::text::{bytes, printable, rate, seconds};

const WIDTH: f64 = 900.0;
const TOP: f64 = 34.0;
const LINE: f64 = 15.0;
const PAD: f64 = 7.0;
const GAP: f64 = 5.0;
/// Width of a letter, about, at 12 px.
const LETTER: f64 = 7.3;
/// Side of a core without words.
const SQUARE: f64 = 14.0;
/// More innermost boxes than these have no words.
const WORDS: usize = 8;
/// Letters of a line below the boxes.
const TEXT: usize = 110;

const STYLE: &str = "\
text{font:12px ui-monospace,monospace;fill:#1a1a1a;white-space:pre}\
.bg{fill:#fff}.h{font:600 13px system-ui,sans-serif}\
rect{stroke:#8a8f98;stroke-width:1;fill:#f4f6f9}.outer{fill:#e6ebf2}.core{fill:#f2b26b}\
@media(prefers-color-scheme:dark){text{fill:#f0f0f0}.bg{fill:#16181c}\
rect{stroke:#777e89;fill:#20242b}.outer{fill:#1a1d22}.core{fill:#8a5420}}";

/// A box at its place.
struct Shape {
    class: &'static str,
    place: [f64; 2],
    size: [f64; 2],
    says: String,
    lines: Vec<String>,
}

/// Boxes that are laid out.
struct Laid {
    size: [f64; 2],
    shapes: Vec<Shape>,
}

impl Laid {
    fn moved(self, by: [f64; 2]) -> impl Iterator<Item = Shape> {
        self.shapes.into_iter().map(move |shape| {
            let place = [shape.place[0] + by[0], shape.place[1] + by[1]];
            Shape { place, ..shape }
        })
    }
}

/// The drawing.
#[must_use]
pub fn machine_svg(host: &Host, calibration: &Calibration) -> String {
    let mut notes = Vec::new();
    let boxes = boxes(host, &mut notes);
    let leaves: Vec<&PlatformBox> = boxes.iter().flat_map(leaves).collect();
    let small = leaves.len() > WORDS;
    let drawing = Drawing { calibration, small };
    let room = WIDTH - 2.0 * PAD;
    let whole = shelves(boxes.iter().map(|one| drawing.lay(one, room)).collect(), room);
    let mut below = if small { drawing.legend(&leaves) } else { Vec::new() };
    below.extend(measured_by_level_and_node(host, calibration, TEXT).lines().map(str::to_owned));
    below.extend(notes);
    let under = TOP + whole.size[1] + 2.0 * LINE;
    let height = under + below.len() as f64 * LINE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\"><style>{STYLE}</style><rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>\
         <text class=\"h\" x=\"{PAD}\" y=\"21\">{}</text>\n",
        escaped(&format!(
            "{}: CPUs {}, cores {}, sockets {}, memory {}",
            if host.cpu.is_empty() { "this machine" } else { &host.cpu },
            host.logical_cpus,
            host.cores,
            host.sockets,
            bytes(host.memory_bytes as f64)
        ))
    );
    whole.moved([PAD, TOP]).for_each(|shape| draw(&shape, &mut out));
    for (at, line) in below.iter().enumerate() {
        text(&mut out, [PAD, under + at as f64 * LINE], line);
    }
    out += "</svg>\n";
    out
}

struct Drawing<'a> {
    calibration: &'a Calibration,
    /// Whether the innermost boxes have no words.
    small: bool,
}

impl Drawing<'_> {
    fn lay(&self, of: &PlatformBox, room: f64) -> Laid {
        let cpus = ranges(&of.cpus);
        let parts = self.parts(of);
        if is_leaf(of) && self.small {
            let says = format!("{}: CPU {cpus}", parts.join(", "));
            let (place, size, lines) = ([0.0; 2], [SQUARE; 2], Vec::new());
            return Laid { size, shapes: vec![Shape { class: "core", place, size, says, lines }] };
        }
        let within = room - 2.0 * PAD;
        let inside = shelves(of.inside.iter().map(|one| self.lay(one, within)).collect(), within);
        let cpus = match of.cpus.is_empty() {
            true => "no CPUs".to_owned(),
            false => format!("CPUs {cpus}"),
        };
        let lines: Vec<String> = [cpus].into_iter().chain(parts).collect();
        let words =
            lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as f64 * LETTER;
        let head = lines.len() as f64 * LINE + PAD;
        let below = if of.inside.is_empty() { 0.0 } else { PAD };
        let size = [words.max(inside.size[0]) + 2.0 * PAD, head + inside.size[1] + below];
        let class = if of.package || of.node.is_some() {
            "outer"
        } else if is_leaf(of) {
            "core"
        } else {
            ""
        };
        let says = lines.join(", ");
        let own = Shape { class, place: [0.0; 2], size, says, lines };
        let shapes = [own].into_iter().chain(inside.moved([PAD, head])).collect();
        Laid { size, shapes }
    }

    /// What a box is, outermost part first, with what was measured of it.
    fn parts(&self, of: &PlatformBox) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(of.package.then(|| "socket".to_owned()));
        if let Some(node) = of.node {
            let size = of.memory_bytes.map_or("n/a".to_owned(), |size| bytes(size as f64));
            found.push(format!("node {node}: {size}"));
            for pair in self.calibration.node_pairs.iter().filter(|pair| pair.to == node) {
                let (latency, all) = (nanos(&pair.latency), gigabytes(&pair.all_threads));
                found.push(format!("from node {}: {latency}, {all}", pair.from));
            }
        }
        found.extend(of.core.then(|| "core".to_owned()));
        found.extend(of.caches.iter().map(|cache| self.cache(cache)));
        found
    }

    fn cache(&self, cache: &PlatformCache) -> String {
        let kind = match cache.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        let name = format!("L{}{kind} {}", cache.level, bytes(cache.bytes as f64));
        let mut measured = self.calibration.effective_caches.iter();
        let measured = measured.find(|one| one.level == cache.level && kind != "i");
        measured.map_or(name.clone(), |one| format!("{name}, {}", nanos(&one.latency)))
    }

    /// What the squares are: how many of each kind.
    fn legend(&self, leaves: &[&PlatformBox]) -> Vec<String> {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for leaf in leaves {
            let mut what = self.parts(leaf).join("; ");
            if leaf.cpus.len() > 1 {
                let _ = write!(what, "; {} hardware threads", leaf.cpus.len());
            }
            match kinds.iter_mut().find(|(known, _)| *known == what) {
                Some((_, count)) => *count += 1,
                None => kinds.push((what, 1)),
            }
        }
        kinds.into_iter().map(|(what, count)| format!("{count} squares, each: {what}")).collect()
    }
}

fn is_leaf(of: &PlatformBox) -> bool {
    of.inside.is_empty() && !of.cpus.is_empty() && of.node.is_none() && !of.package
}

fn leaves(of: &PlatformBox) -> Vec<&PlatformBox> {
    if is_leaf(of) { vec![of] } else { of.inside.iter().flat_map(leaves).collect() }
}

/// Boxes in rows, about twice as wide as high where there is room.
fn shelves(all: Vec<Laid>, room: f64) -> Laid {
    let area: f64 = all.iter().map(|one| (one.size[0] + GAP) * (one.size[1] + GAP)).sum();
    let widest = all.iter().map(|one| one.size[0]).fold(0.0, f64::max);
    let most = room.min(widest.max((area * 2.2).sqrt()));
    let (mut x, mut y, mut row, mut width) = (0.0, 0.0, 0.0_f64, 0.0_f64);
    let mut shapes = Vec::new();
    for one in all {
        if x > 0.0 && x + one.size[0] > most {
            (x, y, row) = (0.0, y + row + GAP, 0.0);
        }
        width = width.max(x + one.size[0]);
        row = row.max(one.size[1]);
        let place = [x, y];
        x += one.size[0] + GAP;
        shapes.extend(one.moved(place));
    }
    Laid { size: [width, y + row], shapes }
}

fn draw(shape: &Shape, out: &mut String) {
    let Shape { class, place: [x, y], size: [width, height], says, lines } = shape;
    let _ = write!(
        out,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         rx=\"3\"/>",
        escaped(says)
    );
    for (at, line) in lines.iter().enumerate() {
        text(out, [x + PAD, y + (at + 1) as f64 * LINE], line);
    }
    *out += "</g>\n";
}

fn text(out: &mut String, [x, y]: [f64; 2], line: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(line));
}

fn nanos(metric: &Metric) -> String {
    metric.value.map_or("n/a".to_owned(), |nanos| seconds(nanos * 1e-9))
}

fn gigabytes(metric: &Metric) -> String {
    metric.value.map_or("n/a".to_owned(), |value| rate(value, "GB/s"))
}

/// `0-35, 72`.
fn ranges(cpus: &[u32]) -> String {
    let parts = cpus.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let one = |part: &[u32]| match part {
        [first, .., last] => format!("{first}-{last}"),
        _ => part.iter().map(u32::to_string).collect(),
    };
    parts.map(one).collect::<Vec<String>>().join(", ")
}

fn escaped(text: &str) -> String {
    let text = printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
