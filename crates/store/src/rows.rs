//! Stored facts as JSON, for who asks about them in SQL: which tables a recording has, and the first rows of one.
//!
//! What not: files; this is of a recording in memory. Columns of bytes, which only Fathom reads, are left out. A number that
//! JavaScript would round (beyond 2^53, such as an address of the kernel) is a text: its hexadecimal digits.

use facts::Recording;
use serde_json::{Value, json};

use crate::schema::{Cell, Column, ColumnKind, Row, RowSink};
use crate::table::Table;

/// The largest whole number that JavaScript keeps exactly.
const EXACT: u64 = (1 << 53) - 1;

struct JsonRow {
    columns: &'static [Column],
    cells: Vec<Value>,
    at: usize,
}

impl RowSink for JsonRow {
    fn cell(&mut self, cell: Cell<'_>) {
        let kind = self.columns.get(self.at).map(|column| column.kind);
        self.at += 1;
        let value = match (cell, kind) {
            (_, Some(ColumnKind::Bytes)) => return,
            (Cell::Null | Cell::Bytes(_), _) => Value::Null,
            (Cell::U64(value), _) if value > EXACT => json!(format!("{value:#x}")),
            (Cell::U64(value), _) => json!(value),
            (Cell::U32(value), _) => json!(value),
            (Cell::I32(value), _) => json!(value),
            (Cell::Bool(value), _) => json!(u8::from(value)),
            (Cell::Text(text), _) => json!(text),
            (Cell::Word(at), Some(ColumnKind::Word(words))) => json!(words.get(usize::from(at))),
            (Cell::Word(_), _) => Value::Null,
        };
        self.cells.push(value);
    }
}

fn row<R: Row>(fact: &R) -> Vec<Value> {
    let mut row = JsonRow { columns: R::COLUMNS, cells: Vec::new(), at: 0 };
    fact.put(&mut row);
    row.cells
}

macro_rules! rows {
    ($($kind:ident in $rows:ident $(at $time:ident)?;)+) => {
        fn count(recording: &Recording, table: Table) -> usize {
            match table {
                $(Table::$kind => recording.$rows.len()),+
            }
        }

        fn first(recording: &Recording, table: Table, most: usize) -> Vec<Vec<Value>> {
            match table {
                $(Table::$kind => recording.$rows.iter().take(most).map(row).collect()),+
            }
        }
    };
}

facts::every_kind_of_fact!(rows);

/// Names of the tables, and how many rows each has: `{"tables": [{"name", "rows"}]}`.
#[must_use]
pub fn tables_json(recording: &Recording) -> Value {
    let one = |table: &Table| json!({ "name": table.name(), "rows": count(recording, *table) });
    json!({ "tables": Table::ALL.iter().map(one).collect::<Vec<_>>() })
}

/// The first rows of a table, at most so many: `{"columns", "rows", "all"}`, where `all` is how many there are. `None` when no
/// table has that name.
#[must_use]
pub fn rows_json(recording: &Recording, name: &str, most: usize) -> Option<Value> {
    let table = Table::ALL.into_iter().find(|table| table.name() == name)?;
    let columns: Vec<&str> = table
        .columns()
        .iter()
        .filter(|column| column.kind != ColumnKind::Bytes)
        .map(|column| column.name)
        .collect();
    let all = count(recording, table);
    Some(json!({ "columns": columns, "rows": first(recording, table, most), "all": all }))
}

#[cfg(test)]
mod tests {
    use base::{Nanos, Pid, RemoteAddr, Tid};
    use facts::{Fault, FaultKind};

    use super::*;

    #[test]
    fn rows_are_what_the_columns_say() {
        let fault = |address| Fault {
            time: Nanos(7),
            pid: Pid(1),
            tid: Tid(2),
            address: RemoteAddr(address),
            stack: None,
            weight: 1,
            kind: FaultKind::Minor,
        };
        let recording = Recording {
            faults: vec![fault(4096), fault(u64::MAX), fault(0)],
            ..Recording::default()
        };
        let found = rows_json(&recording, "faults", 2).expect("a table");
        assert_eq!(
            found,
            json!({
                "columns": ["time_ns", "pid", "tid", "address", "stack", "weight", "kind"],
                "rows": [
                    [7, 1, 2, 4096, null, 1, "minor"],
                    [7, 1, 2, "0xffffffffffffffff", null, 1, "minor"],
                ],
                "all": 3,
            })
        );
        assert_eq!(rows_json(&recording, "nonsense", 2), None);
        let tables = tables_json(&recording);
        let tables = tables["tables"].as_array().expect("tables");
        assert_eq!(tables.len(), Table::ALL.len());
        assert!(tables.contains(&json!({ "name": "faults", "rows": 3 })));
    }

    #[test]
    fn no_row_has_more_or_fewer_cells_than_columns() {
        let burst = facts::Records { burst: base::BurstId(0), bytes: vec![1, 2] };
        let recording = Recording { records: vec![burst], ..Recording::default() };
        let found = rows_json(&recording, Table::Records.name(), 9).expect("a table");
        let columns = found["columns"].as_array().map(Vec::len);
        assert_eq!(found["rows"][0].as_array().map(Vec::len), columns);
    }
}
