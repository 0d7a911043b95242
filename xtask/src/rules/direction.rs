//! Dependencies between our crates against the table "Dependency direction" of ARCHITECTURE.md.
//!
//! The table is the law and the page that people read, so the two cannot disagree: a crate may use what its row
//! names, a crate without a row and a row without a crate are problems. Tests (dev-dependencies) may use
//! `testkit` and `sys` as well: a pure crate's test may compare it with the machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::problem::Problem;
use crate::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Dependency direction";
/// What the tests of every crate may use besides.
const FOR_TESTS: &[&str] = &["testkit", "sys"];

/// What a row allows, and where the row stands.
struct Row {
    may_use: Vec<String>,
    line: usize,
}

/// Asks cargo for the crates of the workspace and what they depend on.
pub fn cargo_metadata(root: &Path) -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata does not answer in JSON: {error}"))
}

/// The rule.
pub fn check(tree: &Tree, metadata: &Value) -> Vec<Problem> {
    let Some(page) = tree.text(PAGE) else {
        return vec![Problem::error(PAGE, 0, "is missing")];
    };
    let table = read_table(page);
    let crates = read_crates(metadata);
    let mut problems = Vec::new();
    for (name, row) in &table {
        if !crates.contains_key(name) {
            let text =
                format!("the table has a row for {name}, which is no crate of the workspace");
            problems.push(Problem::error(PAGE, row.line, text));
        }
    }
    for (name, uses) in &crates {
        match table.get(name) {
            Some(row) => problems.extend(compare(name, row, uses)),
            None => {
                let text = format!("the table under \"{HEADING}\" has no row for the crate {name}");
                problems.push(Problem::error(PAGE, 0, text));
            }
        }
    }
    problems.extend(named_crates_exist(tree, page));
    problems
}

/// One dependency on a crate of ours.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    name: String,
    only_in_tests: bool,
}

fn compare(name: &str, row: &Row, uses: &[Use]) -> Vec<Problem> {
    let allowed = |used: &&Use| {
        row.may_use.contains(&used.name)
            || row.may_use.iter().any(|word| word == "everything")
            || (used.only_in_tests && FOR_TESTS.contains(&used.name.as_str()))
    };
    uses.iter()
        .filter(|used| !allowed(used))
        .map(|used| {
            let what = if used.only_in_tests { "the tests of " } else { "" };
            let text = format!(
                "{what}{name} may not use {}: take it out of the crate's Cargo.toml, or argue the row",
                used.name
            );
            Problem::error(PAGE, row.line, text)
        })
        .collect()
}

/// The rows `| crate | may use |` under the heading, up to the next heading.
fn read_table(page: &str) -> BTreeMap<String, Row> {
    let mut table = BTreeMap::new();
    let lines = page.lines().enumerate().skip_while(|(_, line)| line.trim() != HEADING).skip(1);
    for (index, line) in lines.take_while(|(_, line)| !line.starts_with("## ")) {
        let Some((name, may_use)) = two_cells(line) else { continue };
        if name == "crate" || name.starts_with('-') || name.starts_with(':') {
            continue;
        }
        let words = may_use.split([' ', ',']).filter(|word| !word.is_empty() && *word != "nothing");
        let row = Row { may_use: words.map(str::to_owned).collect(), line: index + 1 };
        table.insert(name, row);
    }
    table
}

/// The first two cells of a row, without emphasis and back ticks.
fn two_cells(line: &str) -> Option<(String, String)> {
    let mut cells =
        line.trim().strip_prefix('|')?.split('|').map(|cell| cell.replace(['`', '*'], ""));
    let (first, second) = (cells.next()?, cells.next()?);
    // The last `|` of a row makes an empty cell: a row of one cell is no row.
    cells.next()?;
    Some((first.trim().to_owned(), second.trim().to_owned()))
}

/// The crates of the workspace and what each uses of the others.
fn read_crates(metadata: &Value) -> BTreeMap<String, Vec<Use>> {
    let packages = metadata["packages"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    packages
        .iter()
        .filter_map(|package| {
            let dependencies = package["dependencies"].as_array()?;
            // Only a dependency of ours has a path.
            let ours = dependencies.iter().filter(|one| one["path"].is_string());
            let uses = ours.filter_map(|one| {
                let only_in_tests = one["kind"] == "dev";
                Some(Use { name: one["name"].as_str()?.to_owned(), only_in_tests })
            });
            Some((package["name"].as_str()?.to_owned(), uses.collect()))
        })
        .collect()
}

/// Every `crates/NAME` in the page is a folder.
fn named_crates_exist(tree: &Tree, page: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in page.lines().enumerate() {
        for (at, prefix) in line.match_indices("crates/") {
            let rest = &line[at + prefix.len()..];
            let end = rest.find(|letter: char| {
                !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-'
            });
            let name = &rest[..end.unwrap_or(rest.len())];
            let folder = format!("crates/{name}");
            if !name.is_empty() && !tree.has(&folder) {
                problems.push(Problem::error(PAGE, index + 1, format!("there is no {folder}")));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "# A\n\n## Dependency direction\n\nThe law.\n\n| crate | may use |\n|---|---|\n\
        | `base` | nothing |\n| sys | base |\n| fathom (see crates/cli) | everything |\n\n## Else\n\n| gone | base |\n";

    /// A crate and what it uses, with cargo's word for the kind.
    type Package<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

    fn metadata(packages: &[Package<'_>]) -> Value {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, uses)| {
                let uses: Vec<Value> = uses
                    .iter()
                    .map(|(used, kind)| json!({"name": used, "kind": kind, "path": "/somewhere"}))
                    .chain([json!({"name": "libc", "kind": null})])
                    .collect();
                json!({"name": name, "dependencies": uses})
            })
            .collect();
        json!({ "packages": packages })
    }

    fn said(page: &str, packages: &[Package<'_>]) -> Vec<String> {
        let tree = Tree::of(&[(PAGE, page), ("crates/cli/src/main.rs", "")]);
        check(&tree, &metadata(packages)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_table_allows_is_allowed() {
        let page = TABLE.replace("fathom (see crates/cli)", "fathom");
        let packages: [(&str, &[_]); 3] = [
            ("base", &[("testkit", Some("dev")), ("sys", Some("dev"))]),
            ("sys", &[("base", None)]),
            ("fathom", &[("base", None), ("sys", None)]),
        ];
        assert_eq!(said(&page, &packages), [] as [&str; 0]);
    }

    #[test]
    fn what_it_does_not_allow_is_named_with_the_row() {
        let page = TABLE.replace("| fathom (see crates/cli) | everything |\n", "");
        let packages: [(&str, &[_]); 2] =
            [("base", &[("sys", None), ("fathom", Some("dev"))]), ("sys", &[("testkit", None)])];
        assert_eq!(
            said(&page, &packages),
            [
                "ARCHITECTURE.md:9: base may not use sys: take it out of the crate's Cargo.toml, or argue the row",
                "ARCHITECTURE.md:9: the tests of base may not use fathom: take it out of the crate's Cargo.toml, or argue the row",
                "ARCHITECTURE.md:10: sys may not use testkit: take it out of the crate's Cargo.toml, or argue the row",
            ]
        );
    }

    #[test]
    fn rows_and_crates_match() {
        let packages: [(&str, &[_]); 3] = [("base", &[]), ("sys", &[]), ("fathom", &[])];
        assert_eq!(
            said(TABLE, &packages),
            [
                "ARCHITECTURE.md:11: the table has a row for fathom (see crates/cli), which is no crate of the workspace",
                "ARCHITECTURE.md: the table under \"## Dependency direction\" has no row for the crate fathom",
            ]
        );
    }

    #[test]
    fn a_crate_that_the_page_names_exists() {
        let page = "## Dependency direction\n\n`crates/cli/src/main.rs` and `crates/gone/src`\n";
        assert_eq!(said(page, &[]), ["ARCHITECTURE.md:3: there is no crates/gone"]);
    }
}
