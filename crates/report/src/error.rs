//! What can be wrong with a request. Each message lists what is possible instead.

/// Why a view cannot be made. All of them are the user's to correct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// No view has this name.
    #[error("there is no view '{name}'; possible are {possible}")]
    UnknownView {
        /// What was asked for.
        name: String,
        /// All views.
        possible: String,
    },
    /// What-if is of the whole program.
    #[error("the view 'nodes' is of the whole program: it takes no filters")]
    NodesNotFiltered,
    /// Only one view lays a program out.
    #[error("the view '{view}' has no topology; only 'nodes' has")]
    NoTopology {
        /// The view.
        view: &'static str,
    },
    /// Bands of bandwidth that are none.
    #[error("'{text}' are not bands: give two rising shares of the peak in percent, such as 30,70")]
    BadBands {
        /// What was typed.
        text: String,
    },
    /// No grouping has this name.
    #[error(
        "there is no grouping '{name}'; possible are {possible}, or several of them joined by commas"
    )]
    UnknownKey {
        /// What was asked for.
        name: String,
        /// All groupings.
        possible: String,
    },
    /// The grouping is planned, but needs data that this version does not collect.
    #[error(
        "grouping by '{name}' needs {needs}, which this version does not have; possible are {possible}"
    )]
    KeyNotYet {
        /// The grouping.
        name: String,
        /// What it would need.
        needs: &'static str,
        /// All groupings.
        possible: String,
    },
    /// The filter is not of the form KEY=VALUE, or its key or value is not possible.
    #[error("'{text}' is not a filter; possible are {possible}")]
    BadFilter {
        /// What was typed.
        text: String,
        /// All filters, as examples.
        possible: String,
    },
    /// The view cannot be grouped like this.
    #[error("the view '{view}' cannot be grouped by '{key}'; it takes {possible}")]
    GroupNotPossible {
        /// The view.
        view: &'static str,
        /// The grouping.
        key: &'static str,
        /// What it can be grouped by.
        possible: String,
    },
    /// The view has no figures by object.
    #[error("the view '{view}' takes no filter by object; 'objects' and 'accesses' do")]
    NotByObject {
        /// The view.
        view: &'static str,
    },
    /// The view has no figures by NUMA node.
    #[error(
        "the view '{view}' takes no filter by bandwidth-domain; 'bandwidth' does, without '-g thread' and '-g region'"
    )]
    NotByDomain {
        /// The view.
        view: &'static str,
    },
    /// Nothing is known by NUMA node.
    #[error("a filter by bandwidth-domain is not possible: {why}")]
    NodesUnknown {
        /// Why.
        why: &'static str,
    },
    /// The view has no such column to sort by, or to show.
    #[error("the view '{view}' has no column '{name}'; possible are {possible}")]
    NoSuchColumn {
        /// The view.
        view: &'static str,
        /// What was asked for.
        name: String,
        /// Its columns.
        possible: String,
    },
    /// The summary has no rows.
    #[error("the summary has no rows to sort and no columns to choose; every other view does")]
    SummaryNotArranged,
    /// The summary has no filters.
    #[error(
        "the summary and the findings are of the whole recording and take no filter; use `fathom report hotspots \
         --filter ...`"
    )]
    SummaryNotFiltered,
    /// A filter names something that the recording does not have.
    #[error(transparent)]
    Selection(#[from] analysis::AnalysisError),
    /// A view has no figure of this name to compare.
    #[error("there is no figure '{name}' in this view; possible are {possible}")]
    NoSuchFigure {
        /// What was asked for.
        name: String,
        /// The figures of the view.
        possible: String,
    },
    /// A gate that is none.
    #[error(
        "'{text}' is not a gate: write FIGURE<=N% or FIGURE>=N%, with a figure of the summary's JSON or \
         function:NAME, such as elapsed<=3%, dram_bandwidth.average>=-5% or function:main<=10%"
    )]
    BadGate {
        /// What was typed.
        text: String,
    },
    /// A gate names something that neither side has.
    #[error(
        "the gate '{gate}' names a figure that no result has: the names are those of `fathom report summary --format csv`, \
         or function:NAME for a function of the table"
    )]
    GateWithoutFigure {
        /// What was typed.
        gate: String,
    },
}
