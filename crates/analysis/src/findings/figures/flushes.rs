//! Flushes and fences for rules, by the function that does them or calls the library that does, and by object.
//!
//! What not: which flushes are redundant (`crate::flushes`), and whether that matters (`findings::flushes`).

use facts::Metric;

use super::{NamedLocation, Traced};
use crate::figure::Figure;
use crate::findings::NotJudged;
use crate::hotspots::Key;
use crate::memory::{FlushPlace, FlushRow, Memory, flushes_any};
use crate::objects::{Grouping, Objects};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::traced::TracedCode;

/// Flushes of lines of an object in a function.
#[derive(Clone, PartialEq, Debug)]
pub struct FlushFigure {
    /// The line with most of them, and the object.
    pub place: NamedLocation,
    /// The line with most flushes for nothing, and the object.
    pub redundant_place: NamedLocation,
    /// CPU time of samples at them, seconds.
    pub time: Metric,
    /// Per second.
    pub flushes: Metric,
    /// Those of lines that were not dirty, percent.
    pub redundant: Figure,
    /// Per second.
    pub fences: Metric,
    /// Lines that a fence waits for.
    pub lines_per_fence: Metric,
    /// Fences that wait for a line or two as one of many in a row, percent.
    pub alone: Figure,
}

pub(super) fn flushes(
    (profile, code, objects): (&Profile<'_>, &TracedCode, &Objects),
    memory: &Memory<'_>,
    traced: &Result<Traced, NotJudged>,
) -> Result<Vec<FlushFigure>, NotJudged> {
    if !flushes_any(code) {
        // Of a program without a burst nothing is known.
        let why = traced.as_ref().err().filter(|_| code.blocks.is_empty());
        return why.map_or(Ok(Vec::new()), |why| Err(why.clone()));
    }
    let selection = &Selection::default();
    let keys = &[Key::Function, Key::Object];
    let grouping = Grouping { profile, code, objects, selection, keys };
    let found = memory.flushes(&grouping, FlushPlace::Caller)?;
    if found.unused > 0 {
        let why =
            format!("{} records of bursts could not be used: stores are missing", found.unused);
        return Err(why.into());
    }
    Ok(found.rows.into_iter().map(|row| figure(profile, objects, row)).collect())
}

fn figure(profile: &Profile<'_>, objects: &Objects, row: FlushRow) -> FlushFigure {
    let object = row.key.object.map(|id| objects.get(id)).filter(|one| one.kind.is_named());
    let place = |place| NamedLocation {
        object: object.map(|one| one.name.clone()),
        ..NamedLocation::of(profile, place)
    };
    FlushFigure {
        place: place(row.place),
        redundant_place: place(row.redundant_place),
        time: row.time,
        flushes: row.flushes,
        redundant: row.redundant,
        fences: row.fences,
        lines_per_fence: row.lines_per_fence,
        alone: row.alone,
    }
}
