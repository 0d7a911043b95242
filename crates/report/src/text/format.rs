//! Figures with human units, and names shortened to fit.

use base::Bytes;
use facts::Metric;

/// Three significant digits, never in scientific notation; what is more than nothing does not print as nothing.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value > 0.0 && value < 0.005 {
        return "<0.01".to_owned();
    }
    let digits = match magnitude {
        m if m == 0.0 || m >= 99.95 => 0,
        m if m >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// A duration with the unit that leaves 1 to 3 digits before the point.
pub(crate) fn seconds(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0 s".to_owned();
    }
    // A value that would print as 1000 belongs to the next larger unit.
    let (unit, name) =
        UNITS.into_iter().find(|(unit, _)| magnitude >= unit * 0.9995).unwrap_or(UNITS[3]);
    format!("{} {name}", number(value / unit))
}

/// A count: all digits to 9,999, then k, M, G, T.
pub(crate) fn count(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude < 9_999.5 {
        let digits = format!("{value:.0}");
        return match digits.len() {
            4 if value > 0.0 => format!("{},{}", &digits[..1], &digits[1..]),
            _ => digits,
        };
    }
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (unit, name) =
        UNITS.into_iter().find(|(unit, _)| magnitude >= unit * 0.9995).unwrap_or(UNITS[3]);
    format!("{} {name}", number(value / unit))
}

/// A size in binary units.
pub(crate) fn bytes(value: f64) -> String {
    Bytes(value.max(0.0) as u64).to_string()
}

/// A rate that is given in `GB/s` or `GFLOP/s`, with the prefix that leaves 1 to 3 digits before the point: `850 kB/s`.
pub(crate) fn rate(value: f64, unit: &str) -> String {
    let (factor, unit) = prefixed(value, unit);
    format!("{} {unit}", number(value / factor))
}

/// Two rates with one unit between them, that of the larger one: `0.30 to 11.9 GB/s`; `None` where both read alike.
pub(crate) fn rates(low: f64, high: f64, unit: &str) -> Option<String> {
    let (factor, unit) = prefixed(low.abs().max(high.abs()), unit);
    let (low, high) = (number(low / factor), number(high / factor));
    (low != high).then(|| format!("{low} to {high} {unit}").trim_end().to_owned())
}

/// The factor and the unit that leave 1 to 3 digits before the point of a rate; other units stay as they are.
fn prefixed(value: f64, unit: &str) -> (f64, String) {
    const PREFIXES: [(f64, &str); 4] = [(1.0, "G"), (1e-3, "M"), (1e-6, "k"), (1e-9, "")];
    let magnitude = value.abs();
    let base = unit.strip_prefix('G').filter(|base| matches!(*base, "B/s" | "FLOP/s"));
    let Some(base) = base.filter(|_| magnitude > 0.0) else { return (1.0, unit.to_owned()) };
    let fits = |(factor, _): &(f64, &str)| magnitude >= factor * 0.9995;
    let (factor, prefix) = PREFIXES.into_iter().find(fits).unwrap_or(PREFIXES[3]);
    (factor, format!("{prefix}{base}"))
}

/// A figure with its unit.
pub(crate) fn measure(value: f64, unit: &str) -> String {
    match unit {
        "s" => seconds(value),
        "ns" => seconds(value * 1e-9),
        "bytes" => bytes(value),
        "count" => count(value),
        "count/s" => format!("{}/s", count(value)),
        "percent" => format!("{} %", percent(value)),
        unit => rate(value, unit),
    }
}

/// `3.12 s (2.95 s to 3.3 s)`; an end that is nothing needs no unit: `0 to 3.3 s`. No interval where its ends read alike.
pub(crate) fn interval(metric: &Metric, value: f64) -> String {
    let one = |value: f64| measure(value, &metric.unit);
    let alike = matches!(metric.unit.as_str(), "percent" | "count");
    let first = |low: f64| if low == 0.0 && !alike { "0".to_owned() } else { one(low) };
    match (metric.low, metric.high) {
        (Some(low), Some(high)) if low < high && one(low) != one(high) => {
            format!("{} ({} to {})", one(value), first(low), one(high))
        }
        _ => one(value),
    }
}

/// Longer lines of prose are hard to read, however wide the terminal is.
pub(crate) const PROSE: usize = 100;

/// One decimal; what is more than nothing does not print as nothing.
pub(crate) fn percent(value: f64) -> String {
    // A sum of nothing is -0.0; with 0.0 on top it is 0.0.
    if value > 0.0 && value < 0.05 { "<0.1".to_owned() } else { format!("{:.1}", value + 0.0) }
}

/// `97.0 ±1.2 % of running time could be traced; 3.0 %: jit code`.
pub(crate) fn coverage<'a>(
    traced: &Metric,
    refused: impl Iterator<Item = (&'a str, &'a Metric)>,
) -> String {
    let mut line =
        format!("{} % of running time could be traced", share(traced, traced.value.unwrap_or(0.0)));
    for (reason, part) in refused {
        let part = percent(part.value.unwrap_or(0.0));
        line += &format!("; {part} %: {}", printable(reason));
    }
    line
}

/// What a reason for refused bursts means, and what the user can do about it. `docs/guide/command-line.md` lists all reasons.
pub(crate) fn about_refusals(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "waits often" => {
            "threads that wait again within a millisecond (for clients, disks, other threads) are not traced: a \
             burst could cut a wait short. More work between waits can be traced: larger requests, pipelining, \
             more clients at a time"
        }
        "jit code" => {
            "code that the program itself wrote is not traced, nor, with several threads, code of files that are no \
             libraries. If the program can run without its just-in-time \
             compiler, the rest can be traced"
        }
        "no room for code" => {
            "translated code needs some 70 MiB of address space near the program's, and takes none below a limit (ulimit -v) of \
             64 times that: raise the limit above 5 GB, or remove it"
        }
        "system call filter" => {
            "the program filters its system calls (seccomp). An option may turn that sandbox off"
        }
        "not allowed" => {
            "another process traces it (TracerPid in /proc/PID/status names it), or ptrace is not allowed: `fathom doctor` says \
             whether it is"
        }
        "shadow stack" => {
            "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off in its environment starts it without a shadow stack"
        }
        "instruction" | "system call" => {
            "code near such instructions is not traced; clock samples cover it all the same"
        }
        "gs in use" => "translated code needs the gs segment, which this program uses itself",
        "not 64-bit code" => "build the program for 64 bits to have it traced",
        _ => return None,
    })
}

/// The larger distance from the value to an end of its interval; `None` for exact figures and those without one.
fn half_interval(metric: &Metric) -> Option<f64> {
    let (value, low, high) = (metric.value?, metric.low?, metric.high?);
    let half = (high - value).max(value - low);
    (half > 0.0).then_some(half)
}

/// ` ±1.2` of percents, or nothing. A few runs whose spread is not known may give anything: those digits say nothing.
pub(crate) fn plus_minus(metric: &Metric) -> String {
    match half_interval(metric) {
        Some(half) if half >= 999.95 => " ±>999".to_owned(),
        Some(half) => format!(" ±{half:.1}"),
        None => String::new(),
    }
}

/// `12.3 ±0.8`, in percent. Where the interval is wide and reaches nothing or all there is, or would seem to reach beyond, the
/// ends say more than the middle: `0.0 to 61.2`.
pub(crate) fn share(metric: &Metric, value: f64) -> String {
    /// Narrower intervals are those of figures that are known.
    const WIDE: f64 = 1.0;
    let half = half_interval(metric).unwrap_or(0.0);
    let is_at_end = |low: f64, high: f64| low < 0.05 || high > 99.95;
    match (metric.low, metric.high) {
        (Some(low), Some(high))
            if high - low >= WIDE
                && (is_at_end(low, high) || is_at_end(value - half, value + half)) =>
        {
            format!("{} to {}", percent(low), percent(high))
        }
        (Some(low), None) if low < value => format!("at least {}", percent(low)),
        _ => format!("{}{}", percent(value), plus_minus(metric)),
    }
}

/// Without control characters: a function's name must not command the reader's terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Cut at the right to `width` characters.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The width of a function's name in a sentence.
pub(crate) const IN_PROSE: usize = 60;

/// A function's name in `width` characters: first its parameters go, then what stands between the outermost angle
/// brackets, then the middle.
pub(crate) fn shorten_function(name: &str, width: usize) -> String {
    let fits = |text: &str| text.chars().count() <= width;
    if fits(name) {
        return name.to_owned();
    }
    let without_parameters = elide(name, '(', ')');
    if fits(&without_parameters) {
        return without_parameters;
    }
    let without_arguments = elide(&without_parameters, '<', '>');
    if fits(&without_arguments) { without_arguments } else { cut_middle(&without_arguments, width) }
}

/// Replaces what stands between the outermost `open` and `close` by `…`. Leaves the text alone when they do not
/// match up (`operator<`, `->`) or when the text starts with one (`<T as Trait>::f`).
fn elide(text: &str, open: char, close: char) -> String {
    let mut out = String::new();
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        if c == open {
            if at == 0 {
                return text.to_owned();
            }
            depth += 1;
            if depth == 1 {
                out.push(open);
                if !text[at + 1..].starts_with(close) {
                    out.push('…');
                }
            }
        } else if c == close {
            let Some(outer) = depth.checked_sub(1) else { return text.to_owned() };
            depth = outer;
            if depth == 0 {
                out.push(close);
            }
        } else if depth == 0 {
            out.push(c);
        }
    }
    if depth == 0 { out } else { text.to_owned() }
}

/// Cut in the middle to `width` characters.
pub(crate) fn cut_middle(text: &str, width: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    // The end of a name says more than its namespaces.
    let head = kept * 2 / 5;
    let tail = kept - head;
    chars[..head].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect()
}

/// A path in `width` characters: directories go from the left.
pub(crate) fn shorten_path(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return path.to_owned();
    }
    let ends =
        path.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| &path[at..]);
    let longest = ends.map(|end| format!("…{end}")).find(|end| end.chars().count() <= width);
    longest.unwrap_or_else(|| {
        let last = path.rsplit('/').next().unwrap_or(path);
        let skip = last.chars().count().saturating_sub(width.saturating_sub(1));
        if skip == 0 {
            last.to_owned()
        } else {
            format!("…{}", last.chars().skip(skip).collect::<String>())
        }
    })
}

/// What may follow a number and belongs to it.
const UNITS: [&str; 28] = [
    "%",
    "s",
    "ms",
    "µs",
    "ns",
    "B",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "bytes",
    "k",
    "M",
    "G",
    "T",
    "GB/s",
    "MB/s",
    "kB/s",
    "B/s",
    "GFLOP/s",
    "MFLOP/s",
    "kFLOP/s",
    "FLOP/byte",
    "GHz",
    "MHz",
    "cycles",
    "CPU",
    "CPUs",
];

/// Whether a line must not end between these words: a number and its unit or error, `3.7 %`, `(0.4 GB/s)`, `68.1 ±3.7`.
fn belong_together(word: &str, next: &str) -> bool {
    let is_number = word.ends_with(|c: char| c.is_ascii_digit())
        && word.starts_with(|c: char| c.is_ascii_digit() || "(<>±-+".contains(c));
    let unit = next.trim_end_matches([',', '.', ';', ':', ')']);
    is_number && (UNITS.contains(&unit) || next.starts_with('±'))
}

/// Lines of at most `width` characters, broken at spaces but not between a number and its unit; words that are longer stand
/// alone.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pieces = words.chunk_by(|word, next| belong_together(word, next));
    filled(
        pieces.map(|words| words.join(" ")).map(|piece| (piece.chars().count(), piece)),
        width,
        " ",
    )
}

/// Puts pieces into lines of at most `width` characters, with so much between them. Each piece comes with how wide it is,
/// which colours hide.
pub(crate) fn filled(
    pieces: impl Iterator<Item = (usize, String)>,
    width: usize,
    between: &str,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for (wide, piece) in pieces {
        match lines.last_mut() {
            Some(line) if length + between.len() + wide <= width => {
                line.push_str(between);
                line.push_str(&piece);
                length += between.len() + wide;
            }
            _ => {
                lines.push(piece);
                length = wide;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_says_nothing_has_no_digits() {
        let interval = |half| {
            let interval = (5.0 - half, 5.0 + half);
            Metric::with_interval(facts::Evidence::Sampled, 5.0, "percent", interval, 2)
        };
        assert_eq!(plus_minus(&interval(1.5)), " ±1.5");
        assert_eq!(plus_minus(&interval(2e17)), " ±>999");
        assert_eq!(plus_minus(&Metric::counted(5.0, "percent")), "");
    }

    #[test]
    fn a_share_that_may_be_nothing_or_all_is_a_range() {
        let shown = |value, low, high| {
            let metric = facts::Evidence::Sampled;
            share(&Metric::with_interval(metric, value, "percent", (low, high), 9), value)
        };
        assert_eq!(shown(0.0, 0.0, 61.2), "0.0 to 61.2");
        assert_eq!(shown(34.9, 0.0, 63.0), "0.0 to 63.0");
        assert_eq!(shown(100.0, 67.6, 100.0), "67.6 to 100.0");
        assert_eq!(shown(21.0, 14.0, 28.0), "21.0 ±7.0");
        assert_eq!(shown(80.0, 37.6, 96.4), "37.6 to 96.4");
        assert_eq!(shown(0.0, 0.0, 0.4), "0.0 ±0.4");
        let interval = (12.02, f64::INFINITY);
        let open = Metric::with_interval(facts::Evidence::Estimated, 101.1, "percent", interval, 3);
        assert_eq!(share(&Metric { high: None, ..open }, 101.1), "at least 12.0");
    }

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let times = [0.0, 1.5e-9, 999.7e-6, 0.0456, 0.9996, 1.234, 61.72, 3600.0].map(seconds);
        assert_eq!(
            times,
            ["0 s", "1.50 ns", "1.00 ms", "45.6 ms", "1.00 s", "1.23 s", "61.7 s", "3600 s"]
        );
        let counts =
            [0.0, 999.0, 1000.0, 9999.0, 10_000.0, 999_960.0, 120_345.0, 4.56e9].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "9,999", "10.0 k", "1.00 M", "120 k", "4.56 G"]);
        assert_eq!([0.0, 0.001, 0.005, 0.5].map(number), ["0", "<0.01", "0.01", "0.50"]);
        assert_eq!([0.0, 0.01, 0.05, 99.95].map(percent), ["0.0", "<0.1", "0.1", "100.0"]);
    }

    #[test]
    fn rates_have_the_prefix_that_suits_them() {
        let shown = [0.0, 6.45, 0.9996, 0.45, 8.5e-4, 2e-7, 3e-12].map(|value| rate(value, "GB/s"));
        assert_eq!(
            shown,
            ["0 GB/s", "6.45 GB/s", "1.00 GB/s", "450 MB/s", "850 kB/s", "200 B/s", "<0.01 B/s"]
        );
        assert_eq!(rate(2e-3, "GFLOP/s"), "2.00 MFLOP/s");
        assert_eq!(rate(2e-1, "cycles"), "0.20 cycles");
        assert_eq!(rates(0.3, 11.9, "GB/s").as_deref(), Some("0.30 to 11.9 GB/s"));
        assert_eq!(rates(0.0, 2e-4, "GB/s").as_deref(), Some("0 to 200 kB/s"));
        assert_eq!(rates(1.5, 2.5, "").as_deref(), Some("1.50 to 2.50"));
        assert_eq!(rates(1.501, 1.502, "GB/s"), None);
    }

    #[test]
    fn functions_lose_parameters_then_arguments_then_the_middle() {
        let name = "ns::Grid<double, 4>::step(std::vector<int> const&, bool)";
        let shorten = |width| shorten_function(name, width);
        assert_eq!(shorten(60), name);
        assert_eq!(shorten(30), "ns::Grid<double, 4>::step(…)");
        assert_eq!(shorten(22), "ns::Grid<…>::step(…)");
        assert_eq!(shorten(12), "ns::…step(…)");
        assert_eq!(shorten_function("f()", 2).chars().count(), 2);
        assert_eq!(shorten_function("operator->(int)", 14), "operator->(…)");
        assert_eq!(shorten_function("<Vec<u8> as Drop>::drop", 15), "<Vec<…op>::drop");
    }

    #[test]
    fn paths_lose_directories_from_the_left() {
        let shorten = |width| shorten_path("/home/user/project/src/triad.c", width);
        assert_eq!(shorten(30), "/home/user/project/src/triad.c");
        assert_eq!(shorten(20), "…/src/triad.c");
        assert_eq!(shorten(8), "triad.c");
        assert_eq!(shorten(5), "…ad.c");
    }

    #[test]
    fn a_number_keeps_its_unit_and_its_error() {
        assert_eq!(wrap("waits for 3.46 ns, or so", 14), ["waits for", "3.46 ns, or so"]);
        assert_eq!(wrap("it takes 68.1 ±3.7 % of it", 13), ["it takes", "68.1 ±3.7 %", "of it"]);
        assert_eq!(wrap("at most (<0.1 GB/s)", 14), ["at most", "(<0.1 GB/s)"]);
        // A name that ends in a digit is no number.
        assert_eq!(wrap("hit level L2 s", 12), ["hit level L2", "s"]);
    }

    #[test]
    fn text_wraps_at_spaces_and_drops_control_characters() {
        assert_eq!(wrap("a bc def ghij", 6), ["a bc", "def", "ghij"]);
        assert_eq!(wrap("unbreakable x", 4), ["unbreakable", "x"]);
        assert_eq!(printable("a\x1b[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
        assert_eq!(fit("abcdef", 4), "abc…");
    }
}
