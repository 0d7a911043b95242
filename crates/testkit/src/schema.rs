//! A validator for the part of JSON Schema 2020-12 that our schemas use.
//!
//! What for: the schemas in `docs/format` are tested against real output without a further dependency.
//! What not: a general validator. Keywords: `type`, `required`, `properties`, `items`, `enum`, `const`, `$ref` to
//! `#/$defs/NAME`, `additionalProperties` (true, false or a schema), `minimum`; `$schema`, `$id`, `title`, `description` and
//! `$defs` are allowed and ignored. Any other keyword is an error: a schema must not seem to check what it does
//! not.
//!
//! Source: JSON Schema Core and Validation, draft 2020-12 (<https://json-schema.org/draft/2020-12>).

use serde_json::Value;

const KNOWN: [&str; 14] = [
    "$schema",
    "$id",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "required",
    "properties",
    "items",
    "enum",
    "const",
    "additionalProperties",
    "minimum",
];

/// References deeper than this are a cycle.
const MAX_DEPTH: usize = 64;

/// Checks `document` against `schema`. Returns every violation as `/path/to/value: what is wrong`; none means valid.
#[must_use]
pub fn violations(schema: &Value, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Validator { root: schema, found: &mut found }.check(schema, document, "", 0);
    found
}

struct Validator<'a> {
    root: &'a Value,
    found: &'a mut Vec<String>,
}

impl<'a> Validator<'a> {
    fn report(&mut self, path: &str, what: &str) {
        self.found.push(format!("{}: {what}", if path.is_empty() { "/" } else { path }));
    }

    fn check(&mut self, schema: &'a Value, value: &Value, path: &str, depth: usize) {
        let object = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return self.report(path, "is not allowed"),
            Value::Object(object) => object,
            _ => return self.report(path, "its schema is neither an object nor a boolean"),
        };
        if depth > MAX_DEPTH {
            return self.report(path, "its schema refers to itself without end");
        }
        for keyword in object.keys().filter(|keyword| !KNOWN.contains(&keyword.as_str())) {
            self.report(
                path,
                &format!("its schema uses '{keyword}', which this validator does not know"),
            );
        }
        if let Some(reference) = object.get("$ref") {
            match self.resolve(reference) {
                Some(target) => self.check(target, value, path, depth + 1),
                None => self
                    .report(path, &format!("its schema refers to {reference}, which is not there")),
            }
        }
        if let Some(types) = object.get("type")
            && !has_type(types, value)
        {
            self.report(path, &format!("is {}, not {types}", shorten(value)));
        }
        if let Some(Value::Array(allowed)) = object.get("enum")
            && !allowed.contains(value)
        {
            self.report(
                path,
                &format!("is {}, not one of {}", shorten(value), Value::Array(allowed.clone())),
            );
        }
        if let Some(only) = object.get("const")
            && only != value
        {
            self.report(path, &format!("is {}, not {only}", shorten(value)));
        }
        if let (Some(least), Some(number)) =
            (object.get("minimum").and_then(Value::as_f64), value.as_f64())
            && number < least
        {
            self.report(path, &format!("is {number}, below {least}"));
        }
        match value {
            Value::Array(items) => {
                let Some(schema) = object.get("items") else { return };
                for (at, item) in items.iter().enumerate() {
                    self.check(schema, item, &format!("{path}/{at}"), depth + 1);
                }
            }
            Value::Object(fields) => self.check_fields(object, fields, path, depth),
            _ => {}
        }
    }

    fn check_fields(
        &mut self,
        schema: &'a serde_json::Map<String, Value>,
        fields: &serde_json::Map<String, Value>,
        path: &str,
        depth: usize,
    ) {
        if let Some(Value::Array(required)) = schema.get("required") {
            for name in required.iter().filter_map(Value::as_str) {
                if !fields.contains_key(name) {
                    self.report(path, &format!("lacks '{name}'"));
                }
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields {
            let path = format!("{path}/{name}");
            let known = properties.and_then(|properties| properties.get(name));
            if let Some(schema) = known.or_else(|| schema.get("additionalProperties")) {
                self.check(schema, field, &path, depth + 1);
            }
        }
    }

    fn resolve(&self, reference: &Value) -> Option<&'a Value> {
        let name = reference.as_str()?.strip_prefix("#/$defs/")?;
        self.root.get("$defs")?.get(name)
    }
}

fn has_type(types: &Value, value: &Value) -> bool {
    match types {
        Value::String(name) => is_type(name, value),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).any(|name| is_type(name, value))
        }
        _ => false,
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        // A number without a fraction is an integer, however it is written (2020-12, section 6.1.1).
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_keyword_finds_its_violation() {
        let schema = json!({
            "type": "object",
            "required": ["a", "b"],
            "additionalProperties": false,
            "properties": {
                "a": {"type": ["integer", "null"], "minimum": 1},
                "b": {"type": "array", "items": {"$ref": "#/$defs/word"}},
                "c": {"const": 3}
            },
            "$defs": {"word": {"type": "string", "enum": ["x", "y"]}}
        });
        let check = |document: Value| violations(&schema, &document);
        assert_eq!(check(json!({"a": 2.0, "b": ["x", "y"], "c": 3})), Vec::<String>::new());
        assert_eq!(
            check(json!({"a": 0.5, "b": ["z", 1], "c": 4, "d": 0})),
            [
                "/a: is 0.5, not [\"integer\",\"null\"]",
                "/a: is 0.5, below 1",
                "/b/0: is \"z\", not one of [\"x\",\"y\"]",
                "/b/1: is 1, not \"string\"",
                "/b/1: is 1, not one of [\"x\",\"y\"]",
                "/c: is 4, not 3",
                "/d: is not allowed",
            ]
        );
        assert_eq!(check(json!({})), ["/: lacks 'a'", "/: lacks 'b'"]);
        assert_eq!(check(json!(7)), ["/: is 7, not \"object\""]);
    }

    #[test]
    fn a_schema_that_checks_nothing_is_found_out() {
        assert_eq!(violations(&json!({"patern": "x"}), &json!("y")).len(), 1);
        assert_eq!(violations(&json!({"$ref": "#/$defs/none"}), &json!(1)).len(), 1);
        let cycle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert_eq!(violations(&cycle, &json!(1)), ["/: its schema refers to itself without end"]);
    }
}
