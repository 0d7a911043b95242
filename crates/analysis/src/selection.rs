//! Filters: which samples and which frames a view looks at.
//!
//! Filters on thread, process and time choose *samples*; filters on function, module and source file choose
//! *frames*. So `function=main` asks how much time was spent in `main` itself and below it, and does not hide
//! what `main` calls from the totals. Filters of one kind widen (either matches), of different kinds narrow.

use base::{Nanos, Pid};

use crate::error::AnalysisError;
use crate::objects::{Object, ObjectId, Objects};
use crate::profile::Profile;
use crate::stack::PlaceId;
use crate::threads::{Thread, ThreadIndex};

/// One condition.
#[derive(Clone, PartialEq, Debug)]
pub enum Filter {
    /// Frames of this function: its whole name, its name without parameters and template arguments (and without
    /// namespaces), or a pattern with `*`.
    Function(String),
    /// Frames of this module: its path, the last part of it, or a pattern with `*`.
    Module(String),
    /// Frames whose code is in this file: its path, the end of it, or a pattern with `*`.
    SourceFile(String),
    /// Samples of this thread: name, id, `name (id)`, or a pattern with `*`.
    Thread(String),
    /// Samples of this process: name of its first thread, id, `name (id)`, or a pattern with `*`.
    Process(String),
    /// Accesses to this memory object: its whole name, a word of it, or a pattern with `*`.
    Object(String),
    /// Samples in this time, seconds from the start of the recording; the end is not included.
    Time {
        /// From.
        start: f64,
        /// To.
        end: f64,
    },
}

impl Filter {
    /// Names of all filters as typed, with an example each.
    pub const NAMES: [(&'static str, &'static str); 7] = [
        ("function", "function=main"),
        ("module", "module=libc.so.6"),
        ("source-file", "source-file=triad.c"),
        ("thread", "thread=1234"),
        ("process", "process=triad"),
        ("object", "object=build_tree"),
        ("time", "time=0.5..2"),
    ];

    /// Its name as typed.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Filter::Function(_) => "function",
            Filter::Module(_) => "module",
            Filter::SourceFile(_) => "source-file",
            Filter::Thread(_) => "thread",
            Filter::Process(_) => "process",
            Filter::Object(_) => "object",
            Filter::Time { .. } => "time",
        }
    }
}

/// Filters applied to a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selection {
    threads: Option<Vec<bool>>,
    time: Option<(Nanos, Nanos)>,
    places: Option<Vec<bool>>,
    objects: Option<Vec<bool>>,
}

impl Selection {
    /// Checks the filters against the recording. A name that matches nothing is an error that lists what exists,
    /// unless the recording has nothing to match.
    /// Filters on objects are for [`Selection::choose_objects`].
    pub fn resolve(profile: &Profile<'_>, filters: &[Filter]) -> Result<Selection, AnalysisError> {
        let mut selection = Selection::default();
        for (name, _) in Filter::NAMES {
            let alike: Vec<&Filter> =
                filters.iter().filter(|filter| filter.name() == name).collect();
            if alike.is_empty() {
                continue;
            }
            match alike[0] {
                Filter::Object(_) => {}
                Filter::Time { .. } => selection.add_times(profile, &alike)?,
                Filter::Thread(_) | Filter::Process(_) => selection.add_threads(profile, &alike)?,
                _ => selection.add_places(profile, &alike)?,
            }
        }
        Ok(selection)
    }

    /// Applies the filters on objects, likewise.
    ///
    /// # Errors
    /// When a name matches nothing.
    pub fn choose_objects(
        &mut self,
        objects: &Objects,
        filters: &[Filter],
    ) -> Result<(), AnalysisError> {
        for filter in filters {
            let Filter::Object(wanted) = filter else { continue };
            let all = objects.all();
            let matches = |object: &Object| {
                name_matches(&object.name, wanted)
                    || object.name.split(' ').any(|word| name_matches(word, wanted))
            };
            let found: Vec<bool> = all.iter().map(matches).collect();
            if objects.any() && !found.contains(&true) {
                let mut known: Vec<&Object> = all.iter().collect();
                known.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
                let known = known.into_iter().map(|object| object.name.clone()).collect();
                return Err(listing(filter.name(), wanted, known));
            }
            let either =
                |before: &Vec<bool>| before.iter().zip(&found).map(|(a, b)| *a || *b).collect();
            self.objects = Some(self.objects.as_ref().map_or_else(|| found.clone(), either));
        }
        Ok(())
    }

    /// Whether a filter on objects is set.
    #[must_use]
    pub fn chooses_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// Whether accesses to this object count.
    #[must_use]
    pub fn has_object(&self, object: ObjectId) -> bool {
        self.objects.as_ref().is_none_or(|chosen| chosen[object.index()])
    }

    /// Whether samples of this thread count.
    #[must_use]
    pub fn has_thread(&self, thread: ThreadIndex) -> bool {
        self.threads.as_ref().is_none_or(|chosen| chosen[thread.index()])
    }

    /// Whether all threads of a process count: what a filter on processes chooses.
    #[must_use]
    pub fn has_whole_process(&self, profile: &Profile<'_>, pid: Pid) -> bool {
        let Some(chosen) = &self.threads else { return true };
        let of_it = profile.threads.all().iter().zip(chosen);
        let mut of_it = of_it.filter(|(thread, _)| thread.pid == pid).peekable();
        of_it.peek().is_some() && of_it.all(|(_, chosen)| *chosen)
    }

    /// Whether a filter on threads is set.
    #[must_use]
    pub fn chooses_threads(&self) -> bool {
        self.threads.is_some()
    }

    /// Whether samples at this time count.
    #[must_use]
    pub fn has_time(&self, time: Nanos) -> bool {
        self.time.is_none_or(|(start, end)| start <= time && time < end)
    }

    /// Whether this frame was asked for.
    #[must_use]
    pub fn has_place(&self, place: PlaceId) -> bool {
        self.places.as_ref().is_none_or(|chosen| chosen[place.index()])
    }

    /// The chosen time range.
    #[must_use]
    pub fn time(&self) -> Option<(Nanos, Nanos)> {
        self.time
    }

    /// Whether a filter on frames is set.
    #[must_use]
    pub fn chooses_places(&self) -> bool {
        self.places.is_some()
    }

    /// Whether any filter is set.
    #[must_use]
    pub fn chooses_anything(&self) -> bool {
        *self != Selection::default()
    }

    fn add_times(
        &mut self,
        profile: &Profile<'_>,
        filters: &[&Filter],
    ) -> Result<(), AnalysisError> {
        let elapsed = profile.elapsed().seconds();
        for filter in filters {
            let Filter::Time { start, end } = filter else { continue };
            if elapsed > 0.0 && *start > elapsed {
                return Err(AnalysisError::TimeOutside {
                    start: start.to_string(),
                    end: end.to_string(),
                    elapsed: format!("{elapsed:.3}"),
                });
            }
            let (start, end) = (Nanos::from_seconds(*start), Nanos::from_seconds(*end));
            // Several ranges become the range that spans them.
            self.time = Some(self.time.map_or((start, end), |(a, b)| (a.min(start), b.max(end))));
        }
        Ok(())
    }

    fn add_threads(
        &mut self,
        profile: &Profile<'_>,
        filters: &[&Filter],
    ) -> Result<(), AnalysisError> {
        let threads = profile.threads.all();
        let mut chosen = vec![false; threads.len()];
        for filter in filters {
            let mut any = threads.is_empty();
            for (at, thread) in threads.iter().enumerate() {
                if thread_matches(profile, thread, filter) {
                    chosen[at] = true;
                    any = true;
                }
            }
            if !any {
                return Err(no_match(profile, filter));
            }
        }
        let both = |before: &Vec<bool>| before.iter().zip(&chosen).map(|(a, b)| *a && *b).collect();
        self.threads = Some(self.threads.as_ref().map_or_else(|| chosen.clone(), both));
        Ok(())
    }

    fn add_places(
        &mut self,
        profile: &Profile<'_>,
        filters: &[&Filter],
    ) -> Result<(), AnalysisError> {
        let stacks = &profile.stacks;
        let mut chosen = vec![false; stacks.places.len()];
        for filter in filters {
            let functions: Vec<bool> = stacks
                .functions
                .iter()
                .map(|function| match filter {
                    Filter::Function(wanted) => function_matches(&function.name, wanted),
                    Filter::Module(wanted) => {
                        let module = &stacks.modules[function.module.index()];
                        module.name == *wanted || name_matches(&module.path, wanted)
                    }
                    Filter::SourceFile(wanted) => {
                        function.file.as_deref().is_some_and(|file| file_matches(file, wanted))
                    }
                    _ => false,
                })
                .collect();
            let mut any = profile.whole().is_empty() && profile.recording.faults.is_empty();
            for (at, place) in stacks.places.iter().enumerate() {
                if functions[place.function.index()] {
                    chosen[at] = true;
                    any = true;
                }
            }
            if !any {
                return Err(no_match(profile, filter));
            }
        }
        let both = |before: &Vec<bool>| before.iter().zip(&chosen).map(|(a, b)| *a && *b).collect();
        self.places = Some(self.places.as_ref().map_or_else(|| chosen.clone(), both));
        Ok(())
    }
}

fn thread_matches(profile: &Profile<'_>, thread: &Thread, filter: &Filter) -> bool {
    match filter {
        Filter::Thread(wanted) => {
            name_matches(&thread.name, wanted)
                || thread.tid.to_string() == *wanted
                || thread.label() == *wanted
        }
        Filter::Process(wanted) => {
            name_matches(profile.threads.process_name(thread.pid), wanted)
                || thread.pid.to_string() == *wanted
                || profile.threads.process_label(thread.pid) == *wanted
        }
        _ => false,
    }
}

fn file_matches(file: &str, wanted: &str) -> bool {
    let ends = file.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('/'));
    ends || name_matches(file, wanted)
}

fn function_matches(name: &str, wanted: &str) -> bool {
    if name_matches(name, wanted) {
        return true;
    }
    let bare = bare_function_name(name);
    bare == wanted || bare.strip_suffix(wanted).is_some_and(|rest| rest.ends_with("::"))
}

/// A demangled name without return type, parameters, template arguments and anonymous namespaces:
/// `void ns::Grid<double>::step<4>(int)` becomes `ns::Grid::step`. Names that cannot be taken apart so simply
/// (`operator<`, `<T as Trait>::f`, `[libc.so.6+0x12]`) are returned as they are.
#[must_use]
pub fn bare_function_name(name: &str) -> String {
    if name.starts_with(['[', '<']) || name.contains("operator") {
        return name.to_owned();
    }
    let named = name.replace("(anonymous namespace)::", "").replace("{anonymous}::", "");
    let mut bare = String::new();
    let mut depth = 0usize;
    for c in named.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' | '[' if depth == 0 => break,
            ' ' if depth == 0 => bare.clear(),
            _ if depth == 0 => bare.push(c),
            _ => {}
        }
    }
    if bare.is_empty() { name.to_owned() } else { bare }
}

/// Equality, or a match of a pattern in which `*` stands for any text.
fn name_matches(name: &str, wanted: &str) -> bool {
    if !wanted.contains('*') {
        return name == wanted;
    }
    let mut parts = wanted.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn no_match(profile: &Profile<'_>, filter: &Filter) -> AnalysisError {
    let (value, known) = match filter {
        Filter::Function(value) => {
            (value, heaviest(profile, |stacks, place| Some(stacks.function_of(place).name.clone())))
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
        Filter::Object(value) => (value, Vec::new()),
        Filter::Time { .. } => (&String::new(), Vec::new()),
    };
    listing(filter.name(), value, known)
}

fn listing(key: &'static str, value: &str, mut known: Vec<String>) -> AnalysisError {
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
    name: impl Fn(&crate::stack::Stacks, PlaceId) -> Option<String>,
) -> Vec<String> {
    let mut sums: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for cell in profile.all_cells() {
        if let Some(name) = name(&profile.stacks, profile.stacks.innermost(cell.stack)) {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(cell.weight.amount());
        }
    }
    let mut names: Vec<(String, u64)> = sums.into_iter().collect();
    names.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    names.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_match_by_full_bare_and_pattern_names() {
        let name = "void ns::Grid<double>::step<4>(int, char const*)";
        for wanted in [name, "*step<4>*", "void ns::*"] {
            assert!(function_matches(name, wanted), "{wanted}");
        }
        for wanted in ["ns::Grid::step", "Grid::step", "step"] {
            assert!(function_matches(name, wanted), "{wanted}");
        }
        assert!(function_matches("ns::(anonymous namespace)::g(int)", "ns::g"));
        assert!(function_matches("core::ptr::drop_in_place<Vec<u8>>", "drop_in_place"));
        assert!(function_matches("ns::f<int>(double)", "f"));
        assert!(function_matches("ns::f(double)", "ns::f"));
        assert!(!function_matches("ns::leaf(double)", "f"));
        assert!(!function_matches("main", "mai"));
        assert!(function_matches("[libc.so.6+0x12]", "[libc.so.6+0x12]"));
        assert!(function_matches("<Vec<u8> as Drop>::drop", "<Vec<u8> as Drop>::drop"));
    }

    #[test]
    fn patterns_match_any_text_at_stars() {
        for (name, wanted, expected) in [
            ("abcabc", "a*c", true),
            ("abcabc", "*bca*", true),
            ("abc", "abc*", true),
            ("abc", "*d", false),
            ("ab", "ab*b", false),
            ("", "*", true),
        ] {
            assert_eq!(name_matches(name, wanted), expected, "{name} {wanted}");
        }
    }

    #[test]
    fn files_match_by_their_end() {
        assert!(file_matches("/home/u/src/triad.c", "triad.c"));
        assert!(file_matches("/home/u/src/triad.c", "src/triad.c"));
        assert!(!file_matches("/home/u/src/triad.c", "iad.c"));
    }
}
