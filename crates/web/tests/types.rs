//! The page's types come from the server's: `ui/src/generated.ts` is written from the schema of the summary and from the
//! names that the command line knows. `FATHOM_BLESS=1` writes it anew; then build the page again.

use std::path::Path;

use report::View;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn generated_types_match() {
    let schema = root().join("docs/format/summary.schema.json");
    let schema = std::fs::read_to_string(schema).expect("the schema is there");
    let schema: Value = serde_json::from_str(&schema).expect("the schema is JSON");
    let mut text = String::from(
        "// Written by crates/web/tests/types.rs from docs/format/summary.schema.json and the names of the command line.\n\n\
         import type { Metric } from \"./types\";\n\n",
    );
    let views: Vec<String> =
        View::ALL.iter().map(|(view, _)| format!("{:?}", view.name())).collect();
    text += &format!(
        "export type ViewName = {} | \"stacks\" | \"points\" | \"moments\";\n",
        views.join(" | ")
    );
    let evidence = [
        "counted",
        "sampled",
        "timed",
        "traced",
        "simulated",
        "estimated",
        "calibrated",
        "modelled",
    ];
    text += &format!("export type EvidenceName = {};\n", union(&evidence));
    let questions: Vec<&str> = web::EMBEDDED.to_vec();
    text += "/** What a page on its own can answer. */\n";
    text += &format!("export const EMBEDDED = {questions:?} as const;\n");
    text += "export type Embedded = (typeof EMBEDDED)[number];\n";
    let tables: Vec<String> = View::ALL
        .iter()
        .map(|(view, says)| format!("  [{:?}, {says:?}],\n", view.name()))
        .collect();
    text += &format!("export const VIEWS: [ViewName, string][] = [\n{}];\n", tables.concat());
    for (name, of) in schema["$defs"].as_object().expect("definitions") {
        if name != "metric" {
            text += &format!("\nexport type {} = {};\n", type_name(name), shape(of, 0));
        }
    }
    text += &format!("\nexport type Summary = {};\n", shape(&schema, 0));
    testkit::golden::check(root().join("ui/src/generated.ts"), &text);
}

fn union(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" | ")
}

/// `first_checks` as `FirstChecks`.
fn type_name(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split(['_', '-']).filter(|part| !part.is_empty()).map(word).collect()
}

/// A schema as a type: the few words of JSON Schema that ours uses.
fn shape(schema: &Value, depth: usize) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return type_name(reference.rsplit('/').next().unwrap_or_default());
    }
    if schema.get("const").is_some() {
        return schema["const"].to_string();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        return choices.iter().map(|one| shape(one, depth)).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let one = |kind: &Value| {
                let mut only = schema.clone();
                only["type"] = kind.clone();
                shape(&only, depth)
            };
            kinds.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
        Value::String(kind) => match kind.as_str() {
            "object" => object(schema, depth),
            "array" => format!("({})[]", shape(&schema["items"], depth)),
            "integer" | "number" => "number".to_owned(),
            other => other.to_owned(),
        },
        _ => "unknown".to_owned(),
    }
}

fn object(schema: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth + 1);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(fields) = schema["properties"].as_object() else { return "object".to_owned() };
    let field = |(name, of): (&String, &Value)| {
        let optional = if required.contains(&name.as_str()) { "" } else { "?" };
        format!("{indent}{name}{optional}: {};\n", shape(of, depth + 1))
    };
    format!("{{\n{}{}}}", fields.iter().map(field).collect::<String>(), "  ".repeat(depth))
}
