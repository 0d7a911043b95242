//! Groupings, filters and bounds from the text that a user types.

use analysis::memory::Bands;
use analysis::{Filter, Key};

use crate::ReportError;

/// Groupings that later versions have, and what they need.
const LATER_KEYS: [(&str, &str); 3] = [
    ("allocation-stack", "figures per call stack of an allocation"),
    ("page-size", "figures per page"),
    ("bandwidth-domain", "bandwidth counters"),
];

/// Another name for `object`.
const MEMORY_OBJECT: &str = "memory-object";

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
        "bandwidth-domain" => Ok(Filter::BandwidthDomain(owned)),
        "region" => Ok(Filter::Region(owned)),
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
