//! The columns that several views share: the key of a row, and its time.

use analysis::objects::Piece;
use analysis::{Key, LocationId, RowKey, Scale, Weight, name_of_node};

use super::Request;
use crate::table::{Cell, CellStyle, Column, TextColumn};

/// A column of text.
pub(crate) const fn name(key: &'static str, label: &'static str) -> Column {
    Column { key, label, unit: None }
}

/// Makes the cell of a column of [`OF_KEYS`]. The place is the row's heaviest.
type CellOfKey = fn(&Request<'_>, &RowKey, LocationId) -> Cell;

/// Columns that say what a row is, where rows are grouped by one of these keys.
pub(super) const OF_KEYS: [(&[Key], Column, CellOfKey); 14] = [
    (&[Key::Object], name("object", "Object"), |request, key, _| {
        key.object.map_or(Cell::Missing, |id| Cell::text(request.objects().get(id).name.clone()))
    }),
    (&[Key::Object], name("object_kind", "Kind of object"), |request, key, _| {
        key.object.map_or(Cell::Missing, |id| Cell::text(request.objects().get(id).kind.name()))
    }),
    (&[Key::BandwidthDomain], name("bandwidth_domain", "Bandwidth domain"), |_, key, _| {
        Cell::text(name_of_node(key.node))
    }),
    (&[Key::CacheLine, Key::Offset], name("object_offset", "Offset in the object"), |_, key, _| {
        key.piece.map_or(Cell::Missing, |piece| Cell::text(range(piece)))
    }),
    (&[Key::Call], name("call", "Call"), |_, key, _| {
        key.call.map_or(Cell::Missing, |call| Cell::text(call.name()))
    }),
    (&[Key::Type], name("type", "Type"), |request, key, _| {
        let name = |of| Cell::text(request.profile.types.type_name(of));
        key.value_type.map_or(Cell::Missing, name)
    }),
    (&[Key::Field], name("field", "Field"), |request, key, _| {
        let name = |field| Cell::text(request.profile.types.field_name(field));
        key.field.map_or(Cell::Missing, name)
    }),
    (&[Key::Process], name("process", "Process"), |request, key, _| {
        let label = |pid| Cell::text(request.profile.threads.process_label(pid));
        key.process.map_or(Cell::Missing, label)
    }),
    (&[Key::Thread], name("thread", "Thread"), |request, key, _| {
        let label = |thread| Cell::text(request.profile.threads.get(thread).label());
        key.thread.map_or(Cell::Missing, label)
    }),
    (&[Key::Cpu], name("cpu", "CPU"), |_, key, _| {
        key.cpu.map_or(Cell::Missing, |cpu| Cell::text(cpu.to_string()))
    }),
    (&[Key::Function], name("function", "Function"), |request, _, place| {
        Cell::text(request.profile.stacks.function_of(place).name.clone())
    }),
    (&[Key::Function, Key::SourceLine], name("file", "File"), |request, key, place| {
        let stacks = &request.profile.stacks;
        let function = || &stacks.function_of(place).file;
        let file = key.line.map_or_else(function, |line| &stacks.lines[line.index()].0);
        Cell::text_or_missing(file.as_deref())
    }),
    (&[Key::Function, Key::SourceLine], name("line", "Line"), |request, key, place| {
        let stacks = &request.profile.stacks;
        let of_place = stacks.places[place.index()].line;
        let line = key.line.map_or(of_place, |line| stacks.lines[line.index()].1);
        line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line)))
    }),
    (&[Key::Function, Key::Module], name("module", "Module"), |request, _, place| {
        Cell::text(request.profile.stacks.module_of(place).name.clone())
    }),
];

/// What rows grouped by `keys` are, in text: a function's place and module after its name, the stack last.
pub(crate) fn text_columns(keys: &[Key]) -> Vec<TextColumn> {
    let has = |key| keys.contains(&key);
    let mut text_columns = Vec::new();
    let mut add = |wanted: bool, style: CellStyle, label| {
        if wanted {
            text_columns.push(style.titled(label));
        }
    };
    add(has(Key::Call), CellStyle::Text("call"), "call");
    add(has(Key::Type), CellStyle::Text("type"), "type");
    add(has(Key::Field), CellStyle::Text("field"), "field");
    add(has(Key::Process), CellStyle::Text("process"), "process");
    add(has(Key::Thread), CellStyle::Text("thread"), "thread");
    add(has(Key::Cpu), CellStyle::Text("cpu"), "CPU");
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

/// Which object a row is of, and which part of it, in text.
pub(crate) fn columns_of_objects(keys: &[Key]) -> Vec<TextColumn> {
    let domain = CellStyle::Text("bandwidth_domain").titled("domain");
    let object = CellStyle::Text("object").titled("object");
    let offset = CellStyle::Figure("object_offset").titled("offset");
    let has_object = keys.contains(&Key::Object).then_some(object);
    let has_offset = keys.contains(&Key::CacheLine) || keys.contains(&Key::Offset);
    let has_domain = keys.contains(&Key::BandwidthDomain).then_some(domain);
    let domain = has_domain.into_iter();
    domain.chain(has_object).chain(has_offset.then_some(offset)).collect()
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

/// As many missing cells.
pub(crate) fn missing(count: usize) -> Vec<Cell> {
    vec![Cell::Missing; count]
}
