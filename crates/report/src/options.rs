//! What can be asked for: views, groupings and filters, by the names a user types.

use analysis::memory::Bands;
use analysis::{Filter, Key};

use crate::ReportError;

/// A view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum View {
    /// The whole recording on one page.
    #[default]
    Summary,
    /// Self and total time per function or other key.
    Hotspots,
    /// Functions and who calls them, as a tree.
    Callers,
    /// Functions and what they call, as a tree.
    Callees,
    /// Time per line beside the source text.
    Source,
    /// Page faults per function or other key.
    Faults,
    /// CPU time, page faults and memory over time.
    Timeline,
    /// Threads with their CPU time.
    Threads,
    /// Traced memory accesses: how many, in which pattern, over how many lines.
    Accesses,
    /// Traffic with memory, over time or by code.
    Bandwidth,
    /// How long loads take.
    Latency,
    /// How much cache code would need, from reuse distances.
    Reuse,
    /// The pages that bursts touched, over time.
    WorkingSet,
    /// Lines that threads take from each other.
    Sharing,
    /// Floating-point operations against bytes.
    Roofline,
    /// Heap blocks per function or other key.
    Allocations,
    /// What threads waited for, and where.
    Waits,
    /// Entries into the kernel per cause or other key.
    Kernel,
    /// What is slow for a known reason.
    Findings,
    /// Memory objects: what their accesses cost.
    Objects,
}

/// Groupings that later versions have, and what they need.
const LATER_KEYS: [(&str, &str); 3] = [
    ("allocation-stack", "figures per call stack of an allocation"),
    ("page-size", "figures per page"),
    ("bandwidth-domain", "bandwidth counters"),
];

/// Another name for `object`.
const MEMORY_OBJECT: &str = "memory-object";

impl View {
    /// All views, with what each is for in a few words.
    pub const ALL: [(View, &'static str); 20] = [
        (View::Summary, "the whole recording on one page"),
        (
            View::Hotspots,
            "self and total time per function, line, module, thread, process or call stack",
        ),
        (View::Callers, "functions and who calls them, as a tree"),
        (View::Callees, "functions and what they call, as a tree"),
        (View::Source, "time per line beside the source text"),
        (View::Faults, "page faults per function, line, module, thread, process or call stack"),
        (View::Timeline, "CPU time, page faults and memory over time"),
        (View::Threads, "threads with their lifetimes and CPU time"),
        (
            View::Accesses,
            "traced memory accesses per instruction, function, line or module: pattern, cache lines",
        ),
        (View::Bandwidth, "traffic with memory over time, or per function, line, module or thread"),
        (View::Latency, "how long loads take, as a histogram or per function, line or module"),
        (
            View::Reuse,
            "miss ratio by cache size, size to block for and TLB reach per function, line or module",
        ),
        (View::WorkingSet, "memory pages touched by bursts, over time"),
        (View::Sharing, "cache lines that threads take from each other: false and true sharing"),
        (View::Roofline, "floating-point operations and bytes per function, line or module"),
        (
            View::Allocations,
            "heap blocks per function, line, module, thread, process, call stack, call, size, who freed, or over time: bytes, peak, leaks",
        ),
        (View::Waits, "what threads waited for and where: locks, barriers, I/O, sleep"),
        (
            View::Kernel,
            "entries into the kernel per cause, process, thread, CPU or over time: count and time",
        ),
        (
            View::Findings,
            "what is slow for a known reason, where, what to do, and what it would gain",
        ),
        (
            View::Objects,
            "loads, stores, traffic, latency and strides per memory object, and by function, line, cache line, offset or \
             field in it",
        ),
    ];

    /// Its name as typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            View::Summary => "summary",
            View::Hotspots => "hotspots",
            View::Callers => "callers",
            View::Callees => "callees",
            View::Source => "source",
            View::Faults => "faults",
            View::Timeline => "timeline",
            View::Threads => "threads",
            View::Accesses => "accesses",
            View::Bandwidth => "bandwidth",
            View::Latency => "latency",
            View::Reuse => "reuse",
            View::WorkingSet => "working-set",
            View::Sharing => "sharing",
            View::Roofline => "roofline",
            View::Allocations => "allocations",
            View::Waits => "waits",
            View::Kernel => "kernel",
            View::Findings => "findings",
            View::Objects => "objects",
        }
    }

    /// Whether it needs the records of bursts decoded.
    pub(crate) fn is_traced(self) -> bool {
        matches!(
            self,
            View::Summary
                | View::Accesses
                | View::Bandwidth
                | View::Latency
                | View::Reuse
                | View::WorkingSet
                | View::Sharing
                | View::Roofline
                | View::Findings
                | View::Objects
        )
    }

    /// Whether a filter on memory objects makes sense.
    fn has_objects(self) -> bool {
        matches!(self, View::Objects | View::Accesses)
    }

    /// The view of this name.
    ///
    /// # Errors
    /// Lists the views when there is none.
    pub fn parse(name: &str) -> Result<View, ReportError> {
        if let Some((view, _)) = View::ALL.iter().find(|(view, _)| view.name() == name) {
            return Ok(*view);
        }
        let possible = View::ALL.map(|(view, _)| view.name()).join(", ");
        let name = name.to_owned();
        Err(ReportError::UnknownView { name, possible })
    }
}

/// Groupings from text such as `thread,function`.
///
/// # Errors
/// Lists the groupings when one does not exist.
pub fn parse_keys(text: &str) -> Result<Vec<Key>, ReportError> {
    let mut keys = Vec::new();
    for name in text.split(',').map(str::trim) {
        let name = if name == MEMORY_OBJECT { Key::Object.name() } else { name };
        let Some(key) = Key::ALL.into_iter().find(|key| key.name() == name) else {
            let possible = Key::ALL.map(Key::name).join(", ");
            let name = name.to_owned();
            return Err(match LATER_KEYS.iter().find(|(later, _)| *later == name) {
                Some((_, needs)) => ReportError::KeyNotYet { name, needs, possible },
                None => ReportError::UnknownKey { name, possible },
            });
        };
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// A filter from text such as `function=main` or `time=0.5..2` (seconds; either end may be missing).
///
/// # Errors
/// Lists the filters when the text is none.
pub fn parse_filter(text: &str) -> Result<Filter, ReportError> {
    let bad = || ReportError::BadFilter {
        text: text.to_owned(),
        possible: Filter::NAMES.map(|(_, example)| example).join(", "),
    };
    let (name, value) = text.split_once('=').ok_or_else(bad)?;
    let value = value.trim();
    if value.is_empty() {
        return Err(bad());
    }
    let owned = value.to_owned();
    match name.trim() {
        "function" => Ok(Filter::Function(owned)),
        "module" => Ok(Filter::Module(owned)),
        "source-file" => Ok(Filter::SourceFile(owned)),
        "thread" => Ok(Filter::Thread(owned)),
        "process" => Ok(Filter::Process(owned)),
        "object" => Ok(Filter::Object(owned)),
        "time" => parse_time(value).ok_or_else(bad),
        _ => Err(bad()),
    }
}

/// Bounds of the medium and the high band from text such as `30,70`, percent of the machine's peak.
///
/// # Errors
/// When they are not two rising numbers from 0 to 100.
pub fn parse_bands(text: &str) -> Result<Bands, ReportError> {
    let bad = || ReportError::BadBands { text: text.to_owned() };
    let (medium, high) = text.split_once(',').ok_or_else(bad)?;
    let share = |text: &str| text.trim().parse::<f64>().map(|percent| percent / 100.0);
    let (medium, high) = (share(medium).map_err(|_| bad())?, share(high).map_err(|_| bad())?);
    let rising = 0.0 < medium && medium < high && high <= 1.0;
    rising.then_some(Bands { medium, high }).ok_or_else(bad)
}

fn parse_time(range: &str) -> Option<Filter> {
    let (start, end) = range.split_once("..")?;
    let second = |text: &str, missing: f64| match text.trim() {
        "" => Some(missing),
        text => text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0),
    };
    // "No end" is later than any recording; still an exact number of nanoseconds.
    let (start, end) = (second(start, 0.0)?, second(end, 1e9)?);
    (start < end).then_some(Filter::Time { start, end })
}

/// What to show.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// The view.
    pub view: View,
    /// Groupings; empty means the view's own.
    pub group: Vec<Key>,
    /// Filters; none means everything.
    pub filters: Vec<Filter>,
    /// Most rows (for the timeline: most bins). `None`: JSON and CSV have all, text what fits a page or two.
    pub limit: Option<usize>,
    /// Bandwidth only: from which shares of the machine's peak on a rate is medium and high.
    pub bands: Bands,
    /// Name of the result, for headings and for commands to type next.
    pub result_name: String,
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), ReportError> {
        if matches!(self.view, View::Summary | View::Findings) && !self.filters.is_empty() {
            return Err(ReportError::SummaryNotFiltered);
        }
        let by_object = self.filters.iter().any(|filter| matches!(filter, Filter::Object(_)));
        if by_object && !self.view.has_objects() {
            return Err(ReportError::NotByObject { view: self.view.name() });
        }
        let (allowed, possible): (&[Key], _) = match self.view {
            View::Allocations => keys_of_allocations(&self.group),
            View::Hotspots => (
                &Key::OF_SAMPLES,
                "'function', 'call-stack', 'source-line', 'module', 'thread' and 'process'",
            ),
            View::Faults => (
                &[
                    Key::Object,
                    Key::Function,
                    Key::CallStack,
                    Key::SourceLine,
                    Key::Module,
                    Key::Thread,
                    Key::Process,
                ],
                "'object', 'function', 'call-stack', 'source-line', 'module', 'thread' and 'process'",
            ),
            View::Objects | View::Accesses => (
                &[
                    Key::Object,
                    Key::Function,
                    Key::SourceLine,
                    Key::Module,
                    Key::CacheLine,
                    Key::Offset,
                    Key::Type,
                    Key::Field,
                ],
                "'object', 'function', 'source-line', 'module', 'cache-line', 'offset', 'type' and 'field'",
            ),
            View::Timeline => (&[Key::Thread], "only 'thread'"),
            View::Waits => {
                (&[Key::Thread, Key::CallStack, Key::Waker], "'thread', 'call-stack' and 'waker'")
            }
            View::Kernel => (&Key::OF_KERNEL, "'cause', 'process', 'thread', 'cpu' and 'time'"),
            View::Bandwidth if self.group.len() == 1 => (
                &[
                    Key::Object,
                    Key::Function,
                    Key::SourceLine,
                    Key::Module,
                    Key::Type,
                    Key::Field,
                    Key::Thread,
                ],
                "'object', 'function', 'source-line', 'module', 'type', 'field', and 'thread' alone",
            ),
            View::Bandwidth | View::Latency | View::Reuse => (
                &[Key::Object, Key::Function, Key::SourceLine, Key::Module, Key::Type, Key::Field],
                "'object', 'function', 'source-line', 'module', 'type' and 'field'",
            ),
            View::Roofline => (
                &[Key::Function, Key::SourceLine, Key::Module],
                "'function', 'source-line' and 'module'",
            ),
            _ => (&[], "none"),
        };
        match self.group.iter().find(|key| !allowed.contains(key)) {
            None => Ok(()),
            Some(key) => Err(ReportError::GroupNotPossible {
                view: self.view.name(),
                key: key.name(),
                possible,
            }),
        }
    }
}

/// Time and sizes are counted without code, and frees without how blocks were asked for.
fn keys_of_allocations(group: &[Key]) -> (&'static [Key], &'static str) {
    let has = |key| group.contains(&key);
    if has(Key::Time) {
        (&[Key::Time], "'time' alone")
    } else if has(Key::SizeClass) {
        (&[Key::SizeClass, Key::Process], "'size-class', and 'process' with it")
    } else if has(Key::FreeStack) {
        (
            &[
                Key::FreeStack,
                Key::Function,
                Key::CallStack,
                Key::SourceLine,
                Key::Module,
                Key::Process,
            ],
            "'free-stack', and 'function', 'call-stack', 'source-line', 'module' and 'process' with it",
        )
    } else if has(Key::Lifetime) {
        (
            &[
                Key::Lifetime,
                Key::Function,
                Key::CallStack,
                Key::SourceLine,
                Key::Module,
                Key::Process,
                Key::Call,
            ],
            "'lifetime', and 'function', 'call-stack', 'source-line', 'module', 'process' and 'call' with it",
        )
    } else {
        (
            &[
                Key::Function,
                Key::CallStack,
                Key::SourceLine,
                Key::Module,
                Key::Thread,
                Key::Process,
                Key::Call,
            ],
            "'function', 'call-stack', 'source-line', 'module', 'thread', 'process', 'call', 'free-stack', 'size-class', 'lifetime' and 'time'",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_and_key_is_found_by_its_name() {
        for (view, _) in View::ALL {
            assert_eq!(View::parse(view.name()), Ok(view));
        }
        assert_eq!(parse_keys("thread, function,thread"), Ok(vec![Key::Thread, Key::Function]));
    }

    #[test]
    fn wrong_names_list_what_is_possible() {
        let shown = |error: ReportError| error.to_string();
        let views: Vec<&str> = View::ALL.iter().map(|(view, _)| view.name()).collect();
        assert_eq!(
            shown(View::parse("hotspot").expect_err("no such view")),
            format!("there is no view 'hotspot'; possible are {}", views.join(", "))
        );
        assert_eq!(
            shown(parse_keys("function,line").expect_err("no such key")),
            format!(
                "there is no grouping 'line'; possible are {}, or several of them joined by commas",
                Key::ALL.map(Key::name).join(", ")
            )
        );
        assert_eq!(parse_keys("memory-object,object"), Ok(vec![Key::Object]));
        assert!(
            shown(parse_keys("page-size").expect_err("later")).contains("needs figures per page")
        );
    }

    #[test]
    fn filters_are_checked() {
        assert_eq!(parse_filter("function=a=b"), Ok(Filter::Function("a=b".into())));
        assert_eq!(parse_filter("time=0.5..2"), Ok(Filter::Time { start: 0.5, end: 2.0 }));
        assert_eq!(parse_filter("time=..2"), Ok(Filter::Time { start: 0.0, end: 2.0 }));
        for wrong in [
            "function",
            "function=",
            "time=2",
            "time=2..1",
            "time=-1..1",
            "time=a..b",
            "time=nan..1",
            "x=y",
        ] {
            assert!(matches!(parse_filter(wrong), Err(ReportError::BadFilter { .. })), "{wrong}");
        }
    }
}
