//! The columns that several views share: the key of a row, and its time.

use analysis::objects::Piece;
use analysis::{Key, LocationId, Profile, RowKey, Scale, Weight};

use super::Request;
use crate::table::{Cell, CellStyle, Column, TextColumn};

/// A column of text.
pub(crate) const fn name(key: &'static str, label: &'static str) -> Column {
    Column { key, label, unit: None }
}

/// A column of metrics.
pub(crate) const fn figure(key: &'static str, label: &'static str, unit: &'static str) -> Column {
    Column { key, label, unit: Some(unit) }
}

pub(crate) const CPU_TIME: Column = figure("cpu_time", "CPU time", "s");
pub(crate) const SELF_PERCENT: Column = figure("self_percent", "Self", "percent");
pub(crate) const TOTAL_TIME: Column = figure("total_time", "Total time", "s");
pub(crate) const TOTAL_PERCENT: Column = figure("total_percent", "Total", "percent");

/// Columns that say what a row is, for rows grouped by `keys`.
pub(crate) fn of_keys(keys: &[Key]) -> Vec<Column> {
    let has = |key| keys.contains(&key);
    let mut columns = Vec::new();
    let mut add = |wanted: bool, column| {
        if wanted {
            columns.push(column);
        }
    };
    add(has(Key::Type), name("type", "Type"));
    add(has(Key::Field), name("field", "Field"));
    add(has(Key::Process), name("process", "Process"));
    add(has(Key::Thread), name("thread", "Thread"));
    add(has(Key::Function), name("function", "Function"));
    add(has(Key::Function) || has(Key::SourceLine), name("file", "File"));
    add(has(Key::Function) || has(Key::SourceLine), name("line", "Line"));
    add(has(Key::Function) || has(Key::Module), name("module", "Module"));
    add(has(Key::CallStack), name("stack", "Call stack"));
    columns
}

/// The same in text: a function's place and module after its name, the stack last.
pub(crate) fn text_columns(keys: &[Key]) -> Vec<TextColumn> {
    let has = |key| keys.contains(&key);
    let mut text_columns = Vec::new();
    let mut add = |wanted: bool, style: CellStyle, label| {
        if wanted {
            text_columns.push(style.titled(label));
        }
    };
    add(has(Key::Type), CellStyle::Text("type"), "type");
    add(has(Key::Field), CellStyle::Text("field"), "field");
    add(has(Key::Process), CellStyle::Text("process"), "process");
    add(has(Key::Thread), CellStyle::Text("thread"), "thread");
    // The function is the first of the stack.
    let function = has(Key::Function) && !has(Key::CallStack);
    add(function, CellStyle::Function("function", None), "function");
    add(function || has(Key::SourceLine), CellStyle::SourceLine, "source");
    add(function || has(Key::Module), CellStyle::Text("module"), "module");
    add(has(Key::CallStack), CellStyle::Stack("stack"), "call stack");
    text_columns
}

/// The same next to many figures: the module is in JSON then, unless it was asked for; figures and names would not fit on a
/// line.
pub(crate) fn short_columns(keys: &[Key], asked: &[Key]) -> Vec<TextColumn> {
    let mut text_columns = text_columns(keys);
    text_columns
        .retain(|one| one.style != CellStyle::Text("module") || asked.contains(&Key::Module));
    text_columns
}

/// `function, source-line`.
pub(crate) fn names(keys: &[Key]) -> String {
    keys.iter().map(|key| key.name()).collect::<Vec<_>>().join(", ")
}

/// The cells of [`of_keys`]. `place` is the row's heaviest place, `stack` the frames of its call path.
pub(crate) fn cells_of_key(
    profile: &Profile<'_>,
    keys: &[Key],
    key: &RowKey,
    place: LocationId,
    stack: Option<Vec<String>>,
) -> Vec<Cell> {
    let stacks = &profile.stacks;
    let mut cells = Vec::new();
    for column in of_keys(keys) {
        let by_line = key.line.map(|line| &stacks.lines[line.index()]);
        cells.push(match column.key {
            "type" => {
                key.value_type.map_or(Cell::Missing, |of| Cell::text(profile.types.type_name(of)))
            }
            "field" => {
                key.field.map_or(Cell::Missing, |field| Cell::text(profile.types.field_name(field)))
            }
            "process" => key
                .process
                .map_or(Cell::Missing, |pid| Cell::text(profile.threads.process_label(pid))),
            "thread" => key
                .thread
                .map_or(Cell::Missing, |thread| Cell::text(profile.threads.get(thread).label())),
            "file" => match by_line {
                Some((file, _)) => Cell::text_or_missing(file.as_deref()),
                None => Cell::text_or_missing(stacks.function_of(place).file.as_deref()),
            },
            "line" => {
                let line = by_line.map_or(stacks.places[place.index()].line, |(_, line)| *line);
                line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line)))
            }
            "function" => Cell::text(stacks.function_of(place).name.clone()),
            "module" => Cell::text(stacks.module_of(place).name.clone()),
            _ => stack.clone().map_or(Cell::Missing, Cell::Stack),
        });
    }
    cells
}

/// Function, file, line and module of a place.
pub(crate) fn cells_of_place(profile: &Profile<'_>, place: LocationId) -> Vec<Cell> {
    cells_of_key(profile, &[Key::Function], &RowKey::default(), place, None)
}

/// Columns that say which object a row is of, and which part of it.
pub(crate) fn of_objects(keys: &[Key]) -> Vec<Column> {
    let has = |key| keys.contains(&key);
    let mut columns = Vec::new();
    if has(Key::Object) {
        columns.extend([name("object", "Object"), name("object_kind", "Kind of object")]);
    }
    if has(Key::CacheLine) || has(Key::Offset) {
        columns.push(name("object_offset", "Offset in the object"));
    }
    columns
}

/// The same in text.
pub(crate) fn columns_of_objects(keys: &[Key]) -> Vec<TextColumn> {
    let style = |column: Column| match column.key {
        "object" => Some(CellStyle::Text("object").titled("object")),
        "object_offset" => Some(CellStyle::Figure("object_offset").titled("offset")),
        _ => None,
    };
    of_objects(keys).into_iter().filter_map(style).collect()
}

/// Objects, then code. Two names and a path do not fit into a line: next to objects, a function's location is in JSON only.
pub(crate) fn columns_next_to_objects(keys: &[Key]) -> Vec<TextColumn> {
    let objects = columns_of_objects(keys);
    if objects.is_empty() {
        return text_columns(keys);
    }
    let mut code = short_columns(keys, keys);
    code.retain(|one| one.style != CellStyle::SourceLine || keys.contains(&Key::SourceLine));
    objects.into_iter().chain(code).collect()
}

/// The cells of [`of_objects`].
pub(crate) fn cells_of_objects(request: &Request<'_>, keys: &[Key], key: &RowKey) -> Vec<Cell> {
    let object = key.object.map(|id| request.objects().get(id));
    let cell = |column: Column| match column.key {
        "object" => Cell::text_or_missing(object.map(|object| object.name.as_str())),
        "object_kind" => Cell::text_or_missing(object.map(|object| object.kind.name())),
        _ => key.piece.map_or(Cell::Missing, |piece| Cell::text(range(piece))),
    };
    of_objects(keys).into_iter().map(cell).collect()
}

/// `128`, or `128-191`.
fn range(piece: Piece) -> String {
    match piece.bytes.0 {
        1 => piece.offset.0.to_string(),
        bytes => format!("{}-{}", piece.offset.0, piece.offset.0.saturating_add(bytes - 1)),
    }
}

/// A time and its percentage.
pub(crate) fn time_cells(scale: &Scale, weight: &Weight) -> [Cell; 2] {
    [Cell::metric(scale.quantity(weight)), Cell::metric(scale.percent(weight))]
}

/// The same for a row of totals: without doubt when nothing was filtered out.
pub(crate) fn total_cells(scale: &Scale, weight: &Weight, everything: bool) -> [Cell; 2] {
    if everything {
        [Cell::metric(scale.whole_quantity()), Cell::metric(scale.whole_percent())]
    } else {
        time_cells(scale, weight)
    }
}

/// As many missing cells.
pub(crate) fn missing(count: usize) -> Vec<Cell> {
    vec![Cell::Missing; count]
}
