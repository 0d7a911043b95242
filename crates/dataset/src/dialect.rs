//! What differs between engines, all in one place: how they read the files, and the few things that each says in its own way.
//!
//! What for: one SQL text per question. What not: running an engine (cli).
//!
//! Texts keep to what all of them have: WITH, JOIN ... ON equal columns, GROUP BY, window functions with ROWS, CASE, NULLIF, COALESCE,
//! SQRT, ABS, VAR_SAMP, NULLS LAST. They avoid: GREATEST and LEAST (NULL differs), / between integers that must stay whole, medians,
//! NaN (ClickHouse's VAR_SAMP of one row), decimal literals next to integers (Spark), aliases named like a column of an aggregate.

use std::collections::BTreeMap;

use crate::tables::{ColumnType, PARTITIONS, TABLES, TableColumns};

/// An engine's SQL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// DuckDB.
    DuckDb,
    /// Spark SQL.
    Spark,
    /// ClickHouse, chDB.
    ClickHouse,
}

/// `use_hive_partitioning`: columns from the path. The structure is stated, so that no footer is read for it, and columns that older
/// files lack are NULL. The others make it follow the standard: NULL in outer joins, columns before aliases, numbers as numbers.
const CLICKHOUSE_SETTINGS: &str = "use_hive_partitioning = 1, input_format_parquet_allow_missing_columns = 1, join_use_nulls = 1, \
     prefer_column_name_to_alias = 1, output_format_json_quote_64bit_integers = 0";

impl Dialect {
    /// All.
    pub const ALL: [Dialect; 3] = [Dialect::DuckDb, Dialect::Spark, Dialect::ClickHouse];

    /// The query over the dataset's tables, with what must be said before it.
    pub(crate) fn statements(
        self,
        dataset: &str,
        query: &str,
        values: &BTreeMap<&str, String>,
    ) -> Result<Vec<String>, String> {
        if let Some(letter) = dataset.chars().find(|letter| "'\\*?[]{}".contains(*letter)) {
            return Err(format!(
                "{dataset}: engines read {letter} in a path as a pattern; move the dataset"
            ));
        }
        let used = TABLES.iter().filter(|table| uses(query, table.name));
        let tables: Vec<String> = used
            .clone()
            .map(|table| format!("{} AS ({})", table.name, self.table(dataset, table, values)))
            .collect();
        let rest = query.trim().strip_prefix("WITH ").ok_or("a question begins with WITH")?;
        let query = format!("WITH {},\n{rest}", tables.join(",\n"));
        Ok(match self {
            Dialect::DuckDb => vec![query],
            Dialect::Spark => {
                let files = used.map(|table| spark_files(dataset, table));
                files.chain([format!("SELECT to_json(struct(*)) FROM (\n{query}\n)")]).collect()
            }
            Dialect::ClickHouse => {
                vec![format!("{query}\nSETTINGS {CLICKHOUSE_SETTINGS}\nFORMAT JSONEachRow")]
            }
        })
    }

    /// The rows of a table that the common parameters leave.
    fn table(self, dataset: &str, table: &TableColumns, values: &BTreeMap<&str, String>) -> String {
        let files = format!("{dataset}/{}/**/*.parquet", table.name);
        let from = match self {
            Dialect::DuckDb => format!(
                "SELECT * FROM read_parquet('{files}', hive_partitioning = true, hive_types_autocast = false, union_by_name = true)"
            ),
            Dialect::Spark => format!("SELECT * FROM {}_files", table.name),
            Dialect::ClickHouse => {
                let columns: Vec<&str> = table.columns().map(|(name, _)| name).collect();
                let parts = PARTITIONS.map(|part| {
                    format!("NULLIF({part}, '{}') AS {part}", crate::identity::UNKNOWN)
                });
                let structure = self.structure(table, &PARTITIONS);
                // An address of the web is that of a store; the key is in the engine's environment.
                let function = if dataset.contains("://") { "s3" } else { "file" };
                format!(
                    "SELECT * FROM (SELECT {}, {} FROM {function}('{files}', Parquet, '{structure}'))",
                    columns.join(", "),
                    parts.join(", ")
                )
            }
        };
        let value = |name: &str| values.get(name).map_or("''", String::as_str);
        let (from_day, to_day, program) = (value("from"), value("to"), value("program"));
        let mut kept = format!("{from} WHERE date >= {from_day} AND date <= {to_day}");
        if table.name == "runs" && program != "''" {
            kept += &format!(" AND program = {program}");
        }
        kept
    }

    /// Names and types of the columns of a table and of `more` text columns. With the partitions among them no engine guesses types
    /// from the first path.
    fn structure(self, table: &TableColumns, more: &[&'static str]) -> String {
        let more = more.iter().map(|name| (*name, ColumnType::Text));
        let column = |(name, kind): (&str, ColumnType)| match (self, kind) {
            (Dialect::ClickHouse, ColumnType::Text) => format!("`{name}` Nullable(String)"),
            (Dialect::ClickHouse, ColumnType::Real) => format!("`{name}` Nullable(Float64)"),
            (Dialect::ClickHouse, ColumnType::Whole) => format!("`{name}` Nullable(Int64)"),
            (_, ColumnType::Text) => format!("`{name}` STRING"),
            (_, ColumnType::Real) => format!("`{name}` DOUBLE"),
            (_, ColumnType::Whole) => format!("`{name}` BIGINT"),
        };
        table.columns().chain(more).map(column).collect::<Vec<_>>().join(", ")
    }
}

/// Spark takes a stated schema in a statement of its own only. A setting (cli) keeps it from guessing types of partitions.
fn spark_files(dataset: &str, table: &TableColumns) -> String {
    let (name, structure) = (table.name, Dialect::Spark.structure(table, &PARTITIONS));
    format!(
        "CREATE OR REPLACE TEMPORARY VIEW {name}_files ({structure}) USING parquet OPTIONS (path '{dataset}/{name}')"
    )
}

fn uses(query: &str, table: &str) -> bool {
    let words: Vec<&str> =
        query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
    words.windows(2).any(|pair| ["FROM", "JOIN"].contains(&pair[0]) && pair[1] == table)
}

/// Replaces `{NAME}` by a value, `{NAME - 1}` by a number less one, and `{FUNCTION(EXPRESSION)}` by its meaning.
pub(crate) fn expand(text: &str, values: &BTreeMap<&str, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, behind) = after.split_once('}').ok_or("a { without its }")?;
        out += before;
        out += &meaning(inside, values)?;
        rest = behind;
    }
    Ok(out + rest)
}

fn meaning(inside: &str, values: &BTreeMap<&str, String>) -> Result<String, String> {
    if let Some(value) = values.get(inside) {
        return Ok(value.clone());
    }
    if let Some(number) = inside.strip_suffix(" - 1").and_then(|name| values.get(name)) {
        let number: u64 = number.parse().map_err(|_| format!("{inside}: not a whole number"))?;
        return Ok(number.saturating_sub(1).to_string());
    }
    let call = inside.split_once('(').zip(inside.strip_suffix(')'));
    let Some(((function, _), whole)) = call else { return Err(format!("{{{inside}}} is unknown")) };
    let of = &whole[function.len() + 1..];
    Ok(match function {
        // What pooled figures are: the evidence that all have.
        "evidence" => format!(
            "CASE WHEN MIN({of}) = MAX({of}) THEN MIN({of}) WHEN MIN({of}) IS NOT NULL THEN 'estimated' END"
        ),
        // A sum that is unknown where a part is unknown.
        "all_of" => format!("CASE WHEN COUNT({of}) = COUNT(*) THEN SUM({of}) END"),
        // The lower end of what is never negative: a time, a size, a rate.
        "low" => {
            let (value, reach) = of.split_once("; ").ok_or("low needs a value and a reach")?;
            format!(
                "CASE WHEN {value} - {reach} < 0 AND {value} >= 0 THEN 0E0 ELSE {value} - {reach} END"
            )
        }
        // What rounding makes of 0.
        "at_least_0" => format!("CASE WHEN ({of}) > 0 THEN ({of}) WHEN ({of}) <= 0 THEN 0E0 END"),
        // The 97.5 % quantile of Student's t (Cornish and Fisher 1937, three terms): 3.16 for 3 degrees of freedom where 3.18 is
        // right, and within 0.3 % from 4 on. Exact for 1 and 2, where it is too small.
        "t95" => format!(
            "CASE WHEN {of} = 1 THEN 12.7062E0 WHEN {of} = 2 THEN 4.30265E0 WHEN {of} > 0 THEN 1.959964E0 + 2.372E0 / ({of}) + 2.823E0 / (({of}) * ({of})) + 2.556E0 / (({of}) * ({of}) * ({of})) END"
        ),
        _ => return Err(format!("{{{inside}}} is unknown")),
    })
}
