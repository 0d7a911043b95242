//! `source`: time per line, with the text of the file where it is available.

use std::collections::BTreeMap;

use analysis::hotspots::{Hotspot, Hotspots};
use analysis::{Key, Profile, Selection, Weight};

use super::Request;
use super::columns::time_cells;
use super::list::{Columns, OWN, WITH_CALLEES};
use crate::assembly::SKID;
use crate::table::{Cell, CellStyle, Table};

/// Lines around those with time that are shown for orientation.
const CONTEXT: u32 = 3;
/// A source file is an allegation too: longer lines are cut.
const LONGEST_LINE: usize = 400;

/// Self and total time by line.
type Times = BTreeMap<u32, (Weight, Weight)>;

struct Line<'a> {
    at: u32,
    times: Option<(&'a Weight, &'a Weight)>,
    code: Option<&'a str>,
}

pub(crate) fn source(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let chosen;
    let mut what = "time per source line".to_owned();
    let selection = if request.selection.chooses_places() {
        request.selection
    } else {
        let hottest = hottest_function(request);
        if let Some(function) = &hottest {
            what = format!(
                "time per source line of {function}, the hottest function with a source file"
            );
        }
        chosen = hottest.and_then(|function| with_function(request, function));
        chosen.as_ref().unwrap_or(request.selection)
    };
    let lines = analysis::hotspots::hotspots(profile, selection, &[Key::SourceLine]);
    let scale = profile.cpu_scale();
    let (file, times, elsewhere) = heaviest_file(profile, &lines);
    let text = file.as_deref().and_then(|file| read(request, file));
    let mut columns = Columns::new();
    columns.name("file", "File", CellStyle::Text, "", |_: &Line<'_>| {
        Cell::text_or_missing(file.as_deref())
    });
    columns.name("line", "Line", CellStyle::Number, "line", |line| Cell::Number(line.at.into()));
    columns.end_of_names();
    // A line that no sample hit is there for orientation; it has no figures of its own.
    let cells = |times: Option<&Weight>| {
        times.map_or([Cell::Missing, Cell::Missing], |time| time_cells(&scale, time))
    };
    columns.figures(OWN, |line| cells(line.times.map(|(own, _)| own)));
    columns.figures(WITH_CALLEES, |line| cells(line.times.map(|(_, all)| all)));
    columns.name("code", "Code", CellStyle::Code, "code", |line| {
        line.code.map_or(Cell::Missing, |code| Cell::Text(tidy_code(code)))
    });
    columns.show(&["self_percent", "cpu_time", "total_percent", "line", "code"]);
    let mut own = Weight::default();
    times.values().for_each(|(line, _)| own.merge(line));
    let all = Line { at: 0, times: Some((&own, &lines.selected)), code: None };
    let total = columns.total(Some(&all));
    let code: Vec<&str> = text.as_deref().unwrap_or_default().lines().collect();
    let rows: Vec<Line<'_>> = lines_to_show(&times, code.len())
        .into_iter()
        .map(|at| Line {
            at,
            times: times.get(&at).map(|(own, all)| (own, all)),
            code: code.get((at as usize).wrapping_sub(1)).copied(),
        })
        .collect();
    let notes = notes(request, file.as_deref(), text.is_some(), scale.share(&elsewhere));
    let title = match &file {
        Some(file) => format!("{}\n  {file}", request.title(&what)),
        None => request.title(&what),
    };
    Table {
        total,
        notes,
        title,
        page: 200,
        empty: empty(request, &lines),
        ..columns.table(request, "source", &what, &rows)
    }
}

fn notes(request: &Request<'_>, file: Option<&str>, readable: bool, elsewhere: f64) -> Vec<String> {
    let mut notes = request.sampling_notes();
    let Some(file) = file else { return notes };
    notes.push(SKID.to_owned());
    if !readable {
        notes.push(format!("The source file {file} is not readable here: line numbers only."));
    }
    if elsewhere > 0.0 {
        notes.push(format!(
            "{:.1} % of the CPU time is in other files: select one with --filter source-file=...",
            elsewhere * 100.0
        ));
    }
    notes
}

fn empty(request: &Request<'_>, lines: &Hotspots) -> String {
    if lines.rows.is_empty() {
        return request.empty("samples");
    }
    "No line numbers are known for this code: it was built without debug information (-g), or its debug file was \
     not found."
        .to_owned()
}

/// The function with the most self time whose source file is known.
fn hottest_function(request: &Request<'_>) -> Option<String> {
    let profile = request.profile;
    let table = analysis::hotspots::hotspots(profile, request.selection, &[Key::Function]);
    let functions = table.rows.iter().map(|row| profile.stacks.function_of(row.place));
    functions
        .into_iter()
        .find(|function| function.file.is_some())
        .map(|function| function.name.clone())
}

fn with_function(request: &Request<'_>, function: String) -> Option<Selection> {
    let mut filters = request.options.filters.clone();
    filters.push(analysis::Filter::Function(function));
    Selection::resolve(request.profile, &filters).ok()
}

/// The file with the most self time (total time when there is none), its lines, and the self time in other files.
fn heaviest_file(profile: &Profile<'_>, lines: &Hotspots) -> (Option<String>, Times, Weight) {
    let mut files: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let place = |row: &Hotspot| row.key.line.map(|line| &profile.stacks.lines[line.index()]);
    for row in &lines.rows {
        if let Some((Some(file), Some(_))) = place(row) {
            let sums = files.entry(file).or_default();
            sums.0 = sums.0.saturating_add(row.self_time.amount());
            sums.1 = sums.1.saturating_add(row.total_time.amount());
        }
    }
    let heaviest = files.iter().max_by_key(|(_, sums)| **sums).map(|(file, _)| (*file).to_owned());
    let mut times = Times::new();
    let mut elsewhere = Weight::default();
    for row in &lines.rows {
        match place(row) {
            Some((file, Some(line))) if *file == heaviest && file.is_some() => {
                let times = times.entry(*line).or_default();
                times.0.merge(&row.self_time);
                times.1.merge(&row.total_time);
            }
            _ => elsewhere.merge(&row.self_time),
        }
    }
    (heaviest, times, elsewhere)
}

fn read(request: &Request<'_>, file: &str) -> Option<String> {
    let directory = &request.profile.recording.run.working_directory;
    let joined =
        (!file.starts_with('/') && !directory.is_empty()).then(|| format!("{directory}/{file}"));
    joined.and_then(|path| (request.sources)(&path)).or_else(|| (request.sources)(file))
}

/// Lines with time and, where the text is there, some around them.
fn lines_to_show(times: &Times, text_lines: usize) -> Vec<u32> {
    let last = u32::try_from(text_lines).unwrap_or(u32::MAX);
    let mut shown = std::collections::BTreeSet::new();
    for &line in times.keys() {
        shown.insert(line);
        let (from, to) =
            (line.saturating_sub(CONTEXT).max(1), line.saturating_add(CONTEXT).min(last));
        shown.extend(from..to.saturating_add(1).max(from));
    }
    shown.into_iter().collect()
}

fn tidy_code(code: &str) -> String {
    code.replace('\t', "    ").chars().take(LONGEST_LINE).collect::<String>().trim_end().to_owned()
}
