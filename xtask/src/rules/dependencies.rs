//! Third-party crates: each of `[workspace.dependencies]` has its row, with its version, in the decision about
//! dependencies; no row is left over; and what a crate of ours asks for it also names in its code.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::problem::Problem;
use crate::tree::Tree;

const MANIFEST: &str = "Cargo.toml";
const PAGE: &str = "docs/decisions/0002-dependencies.md";

/// The rule.
pub fn check(tree: &Tree, metadata: &Value) -> Vec<Problem> {
    let mut problems = compare_page(tree);
    problems.extend(unused(tree, metadata));
    problems
}

fn compare_page(tree: &Tree) -> Vec<Problem> {
    let manifest = third_party(tree.text(MANIFEST).unwrap_or(""));
    let page = rows(tree.text(PAGE).unwrap_or(""));
    let mut problems = Vec::new();
    for (name, (version, line)) in &manifest {
        match page.get(name) {
            None => {
                let text = format!("{name} has no row in {PAGE}: say why it and not another");
                problems.push(Problem::error(MANIFEST, *line, text));
            }
            Some((stated, line)) if stated != version => {
                let text = format!("says {name} {stated}, Cargo.toml says {version}");
                problems.push(Problem::error(PAGE, *line, text));
            }
            Some(_) => {}
        }
    }
    for (name, (_, line)) in page.iter().filter(|(name, _)| !manifest.contains_key(*name)) {
        let text = format!("has a row for {name}, which Cargo.toml does not have");
        problems.push(Problem::error(PAGE, *line, text));
    }
    problems
}

/// Dependencies that no file of the crate names. One that is only there for its features would be named here too;
/// say so in a comment of the code then (`use name as _;`).
fn unused(tree: &Tree, metadata: &Value) -> Vec<Problem> {
    let root = metadata["workspace_root"].as_str().unwrap_or("");
    let mut problems = Vec::new();
    for package in metadata["packages"].as_array().map_or(&[] as &[Value], Vec::as_slice) {
        let manifest = package["manifest_path"].as_str().unwrap_or("");
        let Some(manifest) = manifest.strip_prefix(root).map(|path| path.trim_start_matches('/'))
        else {
            continue;
        };
        let folder = manifest.trim_end_matches("/Cargo.toml");
        let sources: Vec<_> = tree.rust().filter(|(file, _)| file.is_under(folder)).collect();
        let dependencies =
            package["dependencies"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        for name in dependencies.iter().filter_map(|one| one["name"].as_str()) {
            let in_code = name.replace('-', "_");
            if !sources.iter().any(|(_, text)| !text.words(&in_code).is_empty()) {
                let text = format!("{name} is not named in any file of the crate: take it out");
                problems.push(Problem::error(manifest, 0, text));
            }
        }
    }
    problems
}

/// Name -> version and line.
type Table = BTreeMap<String, (String, usize)>;

/// The entries of `[workspace.dependencies]` that have a version (ours have only a path).
fn third_party(manifest: &str) -> Table {
    let section = manifest
        .lines()
        .enumerate()
        .skip_while(|(_, line)| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['));
    section
        .filter_map(|(index, line)| {
            let (name, value) = line.split_once('=')?;
            let version = match value.trim().strip_prefix('"') {
                Some(plain) => plain,
                None => value.split_once("version = \"")?.1,
            };
            let version = version.split('"').next()?;
            let name = name.trim();
            (!name.starts_with('#')).then(|| (name.to_owned(), (version.to_owned(), index + 1)))
        })
        .collect()
}

/// Rows that begin with a name and a version in back ticks: `| `name` | `1.2` | ...`.
fn rows(page: &str) -> Table {
    let ticked = |cell: &str| Some(cell.trim().strip_prefix('`')?.strip_suffix('`')?.to_owned());
    page.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let mut cells = line.strip_prefix('|')?.split('|');
            Some((ticked(cells.next()?)?, (ticked(cells.next()?)?, index + 1)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_manifest_agree() {
        let manifest = "[workspace]\n[workspace.dependencies]\nbase = { path = \"crates/base\" }\n# why = \"9\"\n\
            libc = \"0.2\"\nserde = { version = \"1\", features = [\"derive\"] }\nzstd = \"0.14\"\n[profile.dev]\nopt-level = \"1\"\n";
        let page = "| Crate | Version |\n|---|---|\n| `libc` | `0.2` |\n| `serde` | `2` |\n| `clap` | `4` |\n";
        let tree = Tree::of(&[(MANIFEST, manifest), (PAGE, page)]);
        let said: Vec<String> =
            check(&tree, &Value::Null).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "docs/decisions/0002-dependencies.md:4: says serde 2, Cargo.toml says 1",
                "Cargo.toml:7: zstd has no row in docs/decisions/0002-dependencies.md: say why it and not another",
                "docs/decisions/0002-dependencies.md:5: has a row for clap, which Cargo.toml does not have",
            ]
        );
    }

    #[test]
    fn what_is_asked_for_is_used() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "use rustc_demangle::x;\n// libc\n")]);
        let metadata = serde_json::json!({"workspace_root": "/w", "packages": [{
            "manifest_path": "/w/crates/a/Cargo.toml",
            "dependencies": [{"name": "rustc-demangle"}, {"name": "libc"}],
        }]});
        let said: Vec<String> = check(&tree, &metadata).iter().map(ToString::to_string).collect();
        let sentence =
            "crates/a/Cargo.toml: libc is not named in any file of the crate: take it out";
        assert_eq!(said, [sentence]);
    }
}
