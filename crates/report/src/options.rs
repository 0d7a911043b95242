//! What can be requested: views, groupings and filters, by the names that a user types; and whether they go together.

mod parse;
#[cfg(test)]
mod tests;
mod view;

use analysis::memory::Bands;
use analysis::placement::Topology;
use analysis::{Filter, Key};

pub use self::parse::{parse_bands, parse_filter, parse_keys};
pub use self::view::View;
use crate::ReportError;

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
    /// The column to sort by, by its key. `None`: the view's own order.
    pub sort: Option<String>,
    /// Keys of the columns to show; none means the view's own.
    pub columns: Vec<String>,
    /// Bandwidth only: from which shares of the machine's peak on a rate is medium and high.
    pub bands: Bands,
    /// Nodes only: the machine to lay the program out on. `None`: that of the recording, or two of it if it has one node.
    pub topology: Option<Topology>,
    /// Beginnings of names of functions that allocate for their callers, besides the known ones.
    pub wrappers: Vec<String>,
    /// Summary only: every figure, how it was measured, and what is missing, instead of the first screen.
    pub detail: bool,
    /// Name of the result, for headings and for commands to type next.
    pub result_name: String,
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), ReportError> {
        if matches!(self.view, View::Summary | View::Findings) && !self.filters.is_empty() {
            return Err(ReportError::SummaryNotFiltered);
        }
        if self.view == View::Nodes && !self.filters.is_empty() {
            return Err(ReportError::NodesNotFiltered);
        }
        if self.view != View::Nodes && self.topology.is_some() {
            return Err(ReportError::NoTopology { view: self.view.name() });
        }
        let arranged = self.sort.is_some() || !self.columns.is_empty();
        if self.view == View::Summary && arranged {
            return Err(ReportError::SummaryNotArranged);
        }
        let by_object = self.filters.iter().any(|filter| matches!(filter, Filter::Object(_)));
        if by_object && !self.view.has_objects() {
            return Err(ReportError::NotByObject { view: self.view.name() });
        }
        let by_node = |filter: &Filter| matches!(filter, Filter::BandwidthDomain(_));
        let has_nodes = self.view == View::Bandwidth
            && !self.group.iter().any(|key| matches!(key, Key::Thread | Key::Region));
        if self.filters.iter().any(by_node) && !has_nodes {
            return Err(ReportError::NotByDomain { view: self.view.name() });
        }
        // Regions are next to any of these keys.
        let takes_regions = self.takes_regions();
        let mut group = self.group.clone();
        group.retain(|key| *key != Key::Region || !takes_regions);
        let (allowed, possible): (&[Key], _) = match self.view {
            View::Allocations => keys_of_allocations(&group),
            View::Events => (
                &Key::OF_EVENTS,
                "'function', 'call-stack', 'source-line', 'module', 'thread', 'process' and 'cpu'",
            ),
            View::Hotspots | View::Uarch => (
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
            View::Flushes => (
                &[
                    Key::Object,
                    Key::Function,
                    Key::SourceLine,
                    Key::Module,
                    Key::CacheLine,
                    Key::Offset,
                ],
                "'object', 'function', 'source-line', 'module', 'cache-line' and 'offset'",
            ),
            View::Nodes => (&[Key::Object], "only 'object'"),
            View::Timeline => (&[Key::Thread], "only 'thread'"),
            View::Waits => {
                (&[Key::Thread, Key::CallStack, Key::Waker], "'thread', 'call-stack' and 'waker'")
            }
            View::Kernel => (&Key::OF_KERNEL, "'cause', 'process', 'thread', 'cpu' and 'time'"),
            View::Bandwidth if group.contains(&Key::Time) && group.len() == 2 => {
                (&[Key::BandwidthDomain, Key::Time], "'bandwidth-domain' and 'time'")
            }
            View::Bandwidth if group.len() == 1 => (
                &[
                    Key::BandwidthDomain,
                    Key::Object,
                    Key::Function,
                    Key::SourceLine,
                    Key::Module,
                    Key::Type,
                    Key::Field,
                    Key::Thread,
                ],
                "'bandwidth-domain', also with 'time', 'object', 'function', 'source-line', 'module', 'type', 'field', and 'thread' alone",
            ),
            View::Bandwidth => (
                &[
                    Key::BandwidthDomain,
                    Key::Object,
                    Key::Function,
                    Key::SourceLine,
                    Key::Module,
                    Key::Type,
                    Key::Field,
                ],
                "'bandwidth-domain', 'object', 'function', 'source-line', 'module', 'type' and 'field'",
            ),
            View::Latency | View::Reuse => (
                &[Key::Object, Key::Function, Key::SourceLine, Key::Module, Key::Type, Key::Field],
                "'object', 'function', 'source-line', 'module', 'type' and 'field'",
            ),
            View::Roofline if group.contains(&Key::Loop) => (&[Key::Loop], "'loop' alone"),
            View::Roofline => (
                &[Key::Function, Key::SourceLine, Key::Module],
                "'function', 'source-line' and 'module', and 'loop' alone",
            ),
            _ => (&[], "none"),
        };
        match group.iter().find(|key| !allowed.contains(key)) {
            None => Ok(()),
            Some(key) => Err(ReportError::GroupNotPossible {
                view: self.view.name(),
                key: key.name(),
                possible: match self.view {
                    View::Bandwidth | View::Latency | View::Reuse | View::Roofline => {
                        format!("{possible}; and 'region' next to one of them")
                    }
                    _ if takes_regions => format!("{possible}; and 'region'"),
                    _ => possible.to_owned(),
                },
            }),
        }
    }

    /// Whether the view can be made of each region: its figures follow a filter on one, and it is not over time.
    fn takes_regions(&self) -> bool {
        match self.view {
            View::Hotspots | View::Faults | View::Objects | View::Accesses | View::Flushes => true,
            // The machine's counters know of no regions.
            View::Bandwidth if self.group.contains(&Key::BandwidthDomain) => false,
            View::Bandwidth | View::Latency | View::Reuse | View::Roofline => self.group.len() > 1,
            _ => false,
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
