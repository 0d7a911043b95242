//! Markdown as GitHub and GitLab show it: for comments of a pull request and summaries of a job.
//!
//! What for: the sentences and tables of the text, with names of the program as code. What not: other sentences.
//!
//! Assumption: names come from hostile files. Outside code nothing of theirs is markup, a mention or a reference.

use super::table::Drawn;
use super::{PROSE, printable};
use crate::table::{Cell, CellStyle, Table};

/// A comment has room for 65,536 characters; a name gets this much of them.
const NAME: usize = 120;

/// Text that is shown as it is. What stands between two backquotes, as commands do in our sentences, stays code.
pub(crate) fn escaped(text: &str) -> String {
    let text = printable(text);
    if text.matches('`').count() % 2 == 1 {
        return plain(&text.replace('`', "'"));
    }
    let parts = text.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { plain(part) } else { format!("`{part}`") }).collect()
}

fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let within_a_word =
            before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        before = c;
        match c {
            '_' if within_a_word => out.push(c),
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            // `@name` would notify somebody, `#1` link to an issue; a backslash does not prevent either.
            '@' | '#' => out.extend([c].into_iter().chain("<!-- -->".chars())),
            '\\' | '*' | '_' | '~' | '[' | ']' | '|' | '$' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// A name or a command, as code; nothing stays nothing.
pub(crate) fn code(text: &str) -> String {
    // A backquote in a name is rare, and a fence of several around it would not survive all renderers of tables.
    let text = printable(text).replace('`', "'").replace('|', "\\|");
    if text.trim().is_empty() { String::new() } else { format!("`{}`", text.trim()) }
}

/// A drawing of characters, or text that was laid out for a terminal.
pub(crate) fn fenced(text: &str) -> String {
    format!("```text\n{}\n```\n", text.trim_end().replace("```", "'''"))
}

/// The whole view.
pub(crate) fn view(table: &Table) -> String {
    let mut out = String::new();
    for (at, line) in table.title.lines().enumerate() {
        out += &format!("{}{}\n\n", if at == 0 { "### " } else { "" }, escaped(line.trim()));
    }
    out += &grid(table);
    out += &notes(&table.notes);
    out
}

/// Remarks, as a list.
pub(crate) fn notes(notes: &[String]) -> String {
    let lines = notes.iter().map(|note| format!("- {}\n", escaped(note)));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Rows of a table, its total in bold, and how many are left out.
pub(crate) fn grid(table: &Table) -> String {
    if table.rows.is_empty() {
        return format!("{}\n", escaped(&table.empty));
    }
    let shown = &table.rows[..table.rows.len().min(table.page)];
    // Bars have no heading, and add no information.
    let drawn = table.text_columns.iter().filter(|one| !matches!(one.style, CellStyle::Bar(_)));
    let columns: Vec<Drawn> =
        drawn.map(|one| Drawn::new(table, shown, one.style, one.title)).collect();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(columns.iter().map(|column| plain(column.label)).collect());
    let rule = |column: &Drawn| if column.is_right_aligned() { "--:" } else { "---" }.to_owned();
    out += &line(columns.iter().map(rule).collect());
    for row in shown {
        out += &line(columns.iter().map(|column| cell(column, table, row)).collect());
    }
    if table.total.iter().any(|cell| *cell != Cell::Missing) {
        let total = |column: &Drawn| match cell(column, table, &table.total) {
            empty if empty.is_empty() => empty,
            text => format!("**{text}**"),
        };
        out += &line(columns.iter().map(total).collect());
    }
    let hidden = table.rows.len().saturating_sub(table.page);
    if hidden > 0 {
        out += &format!("\n*{hidden} more rows: `--limit {}`*\n", table.rows.len());
    }
    out
}

fn cell(column: &Drawn, table: &Table, row: &[Cell]) -> String {
    let lines = column.cell(table, row);
    let show = |line: &String| match column.style {
        CellStyle::Function(..) => indented(line, &super::shorten_function(line.trim(), NAME)),
        CellStyle::SourceLine | CellStyle::Code(_) | CellStyle::Stack(_) => indented(line, line),
        _ => plain(line.trim()),
    };
    lines.iter().map(show).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("<br>")
}

/// Renderers drop spaces: the depth in a call tree, or of code, is drawn by those that they keep.
fn indented(line: &str, shown: &str) -> String {
    let shown = code(shown);
    let depth = if shown.is_empty() { 0 } else { line.len() - line.trim_start().len() };
    "\u{a0}".repeat(depth) + &shown
}

/// Width of what only a terminal's layout can show.
pub(crate) const FENCED_WIDTH: usize = PROSE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(
            escaped("a*b <c> | @me `fathom machine` {lambda()#1}"),
            "a\\*b &lt;c&gt; \\| @<!-- -->me `fathom machine` {lambda()#<!-- -->1}"
        );
        assert_eq!(escaped("one ` alone, and \x1b[31m"), "one ' alone, and \u{fffd}\\[31m");
        assert_eq!(code("f<int>(a|b`c)"), "`f<int>(a\\|b'c)`");
        assert_eq!(escaped("cpu_time of _start"), "cpu_time of \\_start");
        assert_eq!(code("  "), "");
        assert_eq!(fenced("a\n```\nb\n"), "```text\na\n'''\nb\n```\n");
    }
}
