//! Third-party crates: each of `[workspace.dependencies]` has its row, with its version, in the decision about
//! dependencies; and no row is left over.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::tree::Tree;

const MANIFEST: &str = "Cargo.toml";
const PAGE: &str = "docs/decisions/0002-dependencies.md";

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let manifest = third_party(tree.text(MANIFEST).unwrap_or(""));
    let page = rows(tree.text(PAGE).unwrap_or(""));
    let mut problems = Vec::new();
    for (name, (version, line)) in &manifest {
        match page.get(name) {
            None => {
                let text = format!("{name} has no row in {PAGE}: say why it and not another");
                problems.push(Problem::error(MANIFEST, *line, text));
            }
            Some((told, line)) if told != version => {
                let text = format!("says {name} {told}, Cargo.toml says {version}");
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
        let said: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "docs/decisions/0002-dependencies.md:4: says serde 2, Cargo.toml says 1",
                "Cargo.toml:7: zstd has no row in docs/decisions/0002-dependencies.md: say why it and not another",
                "docs/decisions/0002-dependencies.md:5: has a row for clap, which Cargo.toml does not have",
            ]
        );
    }
}
