//! A view by region: its rows in each region that the program marks, and outside of all.
//!
//! What for: `-g region`, alone or next to keys of the view. A sample, a burst or a fault is of the innermost region of its thread
//! at that moment, so that rows add up. What not: times and passes of regions (`regions`), which count what is within, too.

use analysis::{Key, RegionParts};

use super::Request;
use super::columns::{OF_KEYS, name};
use super::regions::EMPTY;
use crate::table::{Cell, CellStyle, Table};
use crate::{Options, View, text};

/// So many regions are distinguished: each takes a pass over what was recorded.
pub(crate) const MOST: usize = 40;
/// From this share of a region's time on that lies between its passes, it is said.
const BETWEEN: f64 = 0.05;
/// What is in no region.
const OUTSIDE: &str = "(none)";

/// `make` makes the view of a request without regions.
pub(crate) fn by_region(request: &Request<'_>, make: impl Fn(&Request<'_>) -> Table) -> Table {
    let mut group = request.options.group.clone();
    group.retain(|key| *key != Key::Region);
    let is_alone =
        group.is_empty() && matches!(request.options.view, View::Hotspots | View::Faults);
    let options = Options { group, ..request.options.clone() };
    let mut whole = make(&Request { options: &options, ..*request });
    let found = request.selection.by_region(request.profile, MOST);
    let are_marked = found.parts.iter().any(|(region, _)| region.is_some());
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for (region, selection) in found.parts.iter().filter(|_| are_marked) {
        let table = make(&Request { options: &options, selection, ..*request });
        let region = region.as_deref().unwrap_or(OUTSIDE);
        let of_region = match is_alone {
            true if table.rows.is_empty() => Vec::new(),
            true => vec![table.total],
            false => table.rows,
        };
        rows.extend(of_region.into_iter().map(|row| with(Cell::text(region), row)));
        if let Some(share) = selection.between_short_passes().filter(|share| *share > BETWEEN) {
            let share = text::percent(share * 100.0);
            notes.push(format!("{share} % of the time of {region} lies between passes of it that are too short to be distinguished."));
        }
    }
    whole.rows = rows;
    whole.total = with(Cell::Missing, whole.total);
    whole.columns.insert(0, name("region", "Region"));
    let is_name =
        |key: &str| key == "stack" || OF_KEYS.iter().any(|(_, column, _)| column.key == key);
    let shows_name =
        |style: CellStyle| style == CellStyle::SourceLine || style.key().is_some_and(is_name);
    if is_alone {
        whole = whole.without(is_name);
        whole.text_columns.retain(|one| !shows_name(one.style));
    }
    let at = whole.text_columns.iter().position(|one| shows_name(one.style));
    let at = at.unwrap_or(whole.text_columns.len());
    whole.text_columns.insert(at, CellStyle::Text("region").titled("region"));
    let shown = whole.text_columns.iter().filter_map(|one| one.style.key());
    let figure = |key: &&str| whole.column(key).is_some_and(|at| whole.columns[at].unit.is_some());
    if let Some(first) = shown.clone().find(figure) {
        whole.sort_by(first);
    }
    whole.title = title(&whole.title, is_alone);
    if !are_marked {
        whole.empty = EMPTY.to_owned();
    }
    if !found.too_short.is_empty() {
        notes.push(too_short(&found));
    }
    whole.notes.extend(notes);
    whole
}

/// Which regions are not distinguished.
pub(crate) fn too_short(found: &RegionParts) -> String {
    format!(
        "Passes of these regions are too short to be distinguished from what is around them, and are a part of that: {}.",
        found.too_short.join(", ")
    )
}

fn with(first: Cell, row: Vec<Cell>) -> Vec<Cell> {
    std::iter::once(first).chain(row).collect()
}

/// `r000ma: CPU time by region, function`.
fn title(of_view: &str, is_alone: bool) -> String {
    match of_view.split_once(" by ") {
        Some((before, after)) if is_alone => {
            let key = after.find([',', ' ', '\n']).unwrap_or(after.len());
            format!("{before} by region{}", &after[key..])
        }
        Some((before, after)) => format!("{before} by region, {after}"),
        None => {
            let end = of_view.find([',', '\n']).unwrap_or(of_view.len());
            format!("{} by region{}", &of_view[..end], &of_view[end..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn titles_name_the_region_first() {
        let titled = |text: &str| title(text, false);
        assert_eq!(
            titled("r: CPU time by function, thread 7"),
            "r: CPU time by region, function, thread 7"
        );
        assert_eq!(titled("r: memory objects, thread 7"), "r: memory objects by region, thread 7");
        assert_eq!(
            title("r: CPU time by function, thread 7", true),
            "r: CPU time by region, thread 7"
        );
    }
}
