//! Shorter documents: the JSON of the command line without indentation and without the absent parts of metrics.
//!
//! What not: their content (`report`).

use std::collections::HashMap;

use serde_json::{Value, json};

/// The same document on one line. In metrics, fields that are null, and `lost` when it is 0, are left out.
pub(crate) fn compact(json: &str) -> String {
    let value = serde_json::from_str::<Value>(json);
    value.map_or_else(|_| json.to_owned(), |value| compacted(value).to_string())
}

/// The same of a document that is not text yet.
pub(crate) fn compacted(mut value: Value) -> Value {
    strip(&mut value);
    value
}

/// An answer: reading the text of one that has just been made takes longer than making it.
pub(crate) enum Found {
    Text(String),
    Value(Value),
}

impl Found {
    pub(crate) fn text(self) -> String {
        match self {
            Found::Text(text) => text,
            Found::Value(value) => value.to_string(),
        }
    }

    pub(crate) fn packed(self) -> String {
        match self {
            Found::Text(text) => packed(&text),
            Found::Value(value) => packed_table(&value).unwrap_or_else(|| value.to_string()),
        }
    }
}

/// A table whose rows are lists of positions in `cells`, one for each column; other documents unchanged. Rows repeat
/// cells (an unknown value is often unknown in the next row, and all rows of an object have its size), so a page is
/// about half as large. `ui/src/data.ts` rebuilds the rows.
fn packed(json: &str) -> String {
    let table = serde_json::from_str(json).ok();
    table.and_then(|table| packed_table(&table)).unwrap_or_else(|| json.to_owned())
}

fn packed_table(table: &Value) -> Option<String> {
    let (rows, columns) = (table["rows"].as_array()?, table["columns"].as_array()?);
    let keys: Vec<&str> = columns.iter().filter_map(|column| column["key"].as_str()).collect();
    let mut cells: Vec<&Value> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut position = |cell| {
        *known.entry(Value::to_string(cell)).or_insert_with(|| {
            cells.push(cell);
            cells.len() - 1
        })
    };
    let mut packed: Vec<Vec<usize>> = Vec::new();
    for row in rows {
        // What has other fields than its columns is no row of ours.
        row.as_object().filter(|fields| fields.len() == keys.len())?;
        packed.push(keys.iter().map(|key| position(&row[*key])).collect());
    }
    let fields = table.as_object()?.iter();
    let mut whole: serde_json::Map<String, Value> = fields
        .filter(|(name, _)| *name != "rows")
        .map(|(name, field)| (name.clone(), field.clone()))
        .collect();
    whole.insert("cells".to_owned(), json!(cells));
    whole.insert("rows".to_owned(), json!(packed));
    Some(Value::Object(whole).to_string())
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(strip),
        Value::Object(fields) => {
            if fields.contains_key("evidence") && fields.contains_key("samples") {
                fields.retain(|name, field| {
                    !(field.is_null() || (name == "lost" && field.as_u64() == Some(0)))
                });
            }
            fields.values_mut().for_each(strip);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_lose_what_they_do_not_have_and_rows_keep_theirs() {
        let json = r#"{"rows": [{"file": null, "t": {"value": 1.5, "unit": "s", "low": null, "high": null,
            "evidence": "sampled", "samples": 3, "lost": 0, "note": null}}]}"#;
        let small = r#"{"rows":[{"file":null,"t":{"evidence":"sampled","samples":3,"unit":"s","value":1.5}}]}"#;
        assert_eq!(compact(json), small);
        assert_eq!(compact("no JSON"), "no JSON");
    }

    #[test]
    fn cells_of_tables_are_written_once_and_other_documents_are_left_alone() {
        let table = r#"{"columns":[{"key":"a"},{"key":"b"}],"rows":[{"a":"x","b":null},{"a":null,"b":"x"}]}"#;
        let small =
            r#"{"cells":["x",null],"columns":[{"key":"a"},{"key":"b"}],"rows":[[0,1],[1,0]]}"#;
        assert_eq!(packed(table), small);
        for other in [
            "no JSON",
            r#"{"rows":[1]}"#,
            r#"{"columns":[],"rows":[{"a":1}]}"#,
            r#"{"columns":[{"key":"a"}],"rows":[[1]]}"#,
        ] {
            assert_eq!(packed(other), other);
        }
    }
}
