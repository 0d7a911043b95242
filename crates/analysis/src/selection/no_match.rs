//! The error for a filter that matches nothing: it lists the names that exist.

use super::Filter;
use super::names::bare_function_name;
use crate::error::AnalysisError;
use crate::profile::Profile;
use crate::stack::LocationId;
use crate::threads::Thread;

pub(super) fn no_match(profile: &Profile<'_>, filter: &Filter) -> AnalysisError {
    let (value, known) = match filter {
        Filter::Function(value) => {
            // A filter takes such a name, too, and parameters would fill the screen.
            let bare = |stacks: &crate::stack::Stacks, place| {
                Some(bare_function_name(&stacks.function_of(place).name))
            };
            (value, heaviest(profile, bare))
        }
        Filter::Module(value) => {
            (value, heaviest(profile, |stacks, place| Some(stacks.module_of(place).name.clone())))
        }
        Filter::SourceFile(value) => {
            (value, heaviest(profile, |stacks, place| stacks.function_of(place).file.clone()))
        }
        Filter::Thread(value) => (value, profile.threads.all().iter().map(Thread::label).collect()),
        Filter::Process(value) => {
            let label = |thread: &Thread| profile.threads.process_label(thread.pid);
            let mut labels: Vec<String> = profile.threads.all().iter().map(label).collect();
            labels.dedup();
            (value, labels)
        }
        // Of these, those who look for them list what there is.
        Filter::Object(value) | Filter::Region(value) | Filter::BandwidthDomain(value) => {
            (value, Vec::new())
        }
        Filter::Time { .. } => (&String::new(), Vec::new()),
    };
    listing(filter.name(), value, known)
}

pub(super) fn listing(key: &'static str, value: &str, mut known: Vec<String>) -> AnalysisError {
    const SHOWN: usize = 6;
    let more = known.len().saturating_sub(SHOWN);
    known.truncate(SHOWN);
    let mut list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    AnalysisError::NoMatch { key, value: value.to_owned(), known: list }
}

/// Names by falling self time.
fn heaviest(
    profile: &Profile<'_>,
    name: impl Fn(&crate::stack::Stacks, LocationId) -> Option<String>,
) -> Vec<String> {
    let mut sums: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for cell in profile.stack_cells() {
        if let Some(name) = name(&profile.stacks, profile.stacks.innermost(cell.stack)) {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(cell.weight.amount());
        }
    }
    let mut names: Vec<(String, u64)> = sums.into_iter().collect();
    names.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    names.into_iter().map(|(name, _)| name).collect()
}
