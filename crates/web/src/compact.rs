//! Documents as few bytes: the JSON of the command line without indentation, and without what a metric does not have.

use serde_json::Value;

/// The same document on one line. In metrics, fields that are null, and `lost` when it is 0, are left out.
pub(crate) fn compact(json: &str) -> String {
    serde_json::from_str::<Value>(json).map_or_else(|_| json.to_owned(), compact_value)
}

/// The same of a document that is not text yet.
pub(crate) fn compact_value(mut value: Value) -> String {
    strip(&mut value);
    value.to_string()
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
}
