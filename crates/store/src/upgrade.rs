//! Results of earlier versions of the format: how their tables differ from today's. Nothing is rewritten; a result is read as it is.
//!
//! * A table that a version did not have is empty (`since` in `tables`).
//! * A table that was renamed has its former name ([`Table::name_in`]).
//! * A column that came later reads as NULL ([`lacks_later_columns_only`]).
//! * A column that may be NULL since a later version has a value in every row (`parquet_read`).
//! * Keys of `run.json` that came later have a default, renamed ones an alias (`#[serde(default, alias)]` in `facts::Run`).
//!
//! What not: later versions, which are refused (`open`); damage (`repair`, `verify`). `docs/format/result-directory.md` lists what
//! each version changed.

use crate::schema::Column;
use crate::table::Table;

/// Tables that had another name before a version of the format: the version and that name.
const RENAMED: [(Table, u32, &str); 2] =
    [(Table::NoMissTime, 10, "core_floors"), (Table::NoReloadTime, 10, "kept_floors")];

impl Table {
    /// The table's name in results of this version of the format.
    #[must_use]
    pub fn name_in(self, schema: u32) -> &'static str {
        let former = RENAMED.iter().find(|(table, since, _)| *table == self && schema < *since);
        former.map_or(self.name(), |(_, _, name)| name)
    }

    /// Whether results of this version of the format have the table.
    pub(crate) fn is_in(self, schema: u32) -> bool {
        schema >= self.since()
    }
}

/// Whether a table with the first `found` of these columns lacks only columns that came later. These stand at the end and may be
/// NULL: a column anywhere else would give the values of others its name.
pub(crate) fn lacks_later_columns_only(found: usize, columns: &[Column]) -> bool {
    columns.get(found..).is_some_and(|later| later.iter().all(|column| column.nullable))
}
