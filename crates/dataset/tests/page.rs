//! The tables of a dataset against `docs/format/dataset.md`: names and types of all columns, in their order.

use dataset::{ColumnType, PARTITIONS, TABLES};

const PAGE: &str = include_str!("../../../docs/format/dataset.md");

/// Name and type of the rows of the first table of the page after `start`.
fn described(start: &str) -> Vec<(&'static str, &'static str)> {
    let at = PAGE.find(start).unwrap_or_else(|| panic!("the page lacks {start}"));
    let rows = PAGE[at..].lines().skip_while(|line| !line.starts_with("| Column |"));
    rows.skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            (cells.next().expect("a name").trim_matches('`'), cells.next().expect("a type"))
        })
        .collect()
}

#[test]
fn the_page_has_the_columns_of_the_files() {
    let figure = described("All other tables have one row per figure");
    for table in &TABLES {
        let name = |kind| match kind {
            ColumnType::Text => "text",
            ColumnType::Real => "real",
            ColumnType::Whole => "whole",
        };
        let columns: Vec<_> = table.columns().map(|(column, kind)| (column, name(kind))).collect();
        let mut page = match table.name {
            "runs" => described("**runs**"),
            "figures" => vec![("run", "text")],
            other => [vec![("run", "text")], described(&format!("**{other}**"))].concat(),
        };
        if table.name != "runs" {
            page.extend(&figure);
        }
        assert_eq!(columns, page, "{}", table.name);
    }
    for part in PARTITIONS {
        assert!(PAGE.contains(&format!("/{part}=")), "{part}");
    }
}
