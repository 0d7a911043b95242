//! Links between Markdown pages: the file is there, the heading is there, and nothing leads out of the checkout. Also
//! pages that comments name, and files of `crates` that pages name.
//!
//! What not: addresses on the network are not visited. Only links of the form `[text](target)` are seen.

use crate::markdown::{without_code, without_fences};
use crate::problem::Problem;
use crate::rust_text::line_of;
use crate::tree::{File, Tree};

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let pages = tree.files.iter().filter(|file| file.has_extension(&["md"]));
    let mut problems: Vec<Problem> = pages.flat_map(|page| check_page(tree, page)).collect();
    problems.extend(pages_named_in_code(tree));
    problems.extend(files_named_in_pages(tree));
    problems
}

fn check_page(tree: &Tree, page: &File) -> Vec<Problem> {
    let Some(text) = page.text.as_deref() else { return Vec::new() };
    let text = without_code(text);
    let mut problems = Vec::new();
    for (at, _) in text.match_indices("](") {
        let rest = &text[at + 2..];
        let Some(target) = rest.find([')', '\n']).map(|end| rest[..end].trim()) else { continue };
        // A title may follow: [text](target "title").
        let target = target.split_whitespace().next().unwrap_or("");
        if let Some(sentence) = broken(tree, page, target) {
            problems.push(Problem::error(&page.path, line_of(&text, at), sentence));
        }
    }
    problems
}

fn broken(tree: &Tree, page: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { page.path.clone() } else { resolve(&page.path, path)? };
    if path.starts_with("..") {
        return Some(format!("the link {target} leads out of the checkout"));
    }
    if !tree.has(&path) {
        return Some(format!("the link {target} leads nowhere: there is no {path}"));
    }
    let text = tree.text(&path).filter(|_| !heading.is_empty() && path.ends_with(".md"))?;
    (!headings(text).iter().any(|found| found == heading))
        .then(|| format!("the link {target}: {path} has no such heading"))
}

/// The target of a link as a path from the top of the checkout; begins with `..` when it leads out of it.
fn resolve(page: &str, target: &str) -> Option<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> =
        if target.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_none_or(|part| part.is_empty() || *part == "..") => {
                parts.push("..");
            }
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join("/"))
}

/// The headings as the fragments that GitHub gives them: lower case, punctuation gone, spaces to hyphens, a
/// repeated one numbered.
fn headings(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in without_fences(text).lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept =
            title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let slug: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let before = found.iter().filter(|other| **other == slug).count();
        found.push(if before == 0 { slug } else { format!("{slug}-{before}") });
    }
    found
}

/// Comments in code that send the reader to a page: `docs/decisions/0002-dependencies.md`.
fn pages_named_in_code(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.rust().filter(|(file, _)| !file.is_under("xtask")) {
        for (at, _) in text.comments.match_indices("docs/") {
            let rest = &text.comments[at..];
            let end = rest
                .find(|letter: char| !letter.is_ascii_alphanumeric() && !"/_-.".contains(letter));
            let path = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            if path.ends_with(".md") && !tree.has(path) {
                let sentence = format!("the comment names {path}, which is not there");
                problems.push(Problem::error(&file.path, line_of(&text.comments, at), sentence));
            }
        }
    }
    problems
}

/// Paths in backticks that begin at the top: `crates/cli/src/knobs.rs`. A path with braces names several files and is not
/// looked up.
fn files_named_in_pages(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for page in tree.files.iter().filter(|file| file.has_extension(&["md"])) {
        let text = page.text.as_deref().unwrap_or("");
        for (at, _) in text.match_indices("`crates/") {
            let Some((path, _)) = text[at + 1..].split_once('`') else { continue };
            let is_path =
                path.chars().all(|one| one.is_ascii_alphanumeric() || "/_-.".contains(one));
            if is_path && !tree.has(path.trim_end_matches('/')) {
                let sentence = format!("the page names {path}, which is not there");
                problems.push(Problem::error(&page.path, line_of(text, at), sentence));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        let page = "# Top\n[a](../b.md) [b](c.md#two-words) [c](https://x.org/y) [d](#top) [e](/b.md) [f](sub)\n\
            `[g](gone.md)`\n```\n[h](gone.md)\n```\n[i](gone.md \"title\")\n[j](c.md#three)\n[k](../../out.md)\n";
        let files = [
            ("docs/a.md", page),
            ("b.md", ""),
            ("docs/c.md", "# One\n## `Two` words!\n"),
            ("docs/sub/d.txt", ""),
        ];
        assert_eq!(
            said(&files),
            [
                "docs/a.md:7: the link gone.md leads nowhere: there is no docs/gone.md",
                "docs/a.md:8: the link c.md#three: docs/c.md has no such heading",
                "docs/a.md:9: the link ../../out.md leads out of the checkout",
            ]
        );
    }

    #[test]
    fn headings_become_fragments() {
        let text = "# R1. Overhead (PMDK)\n## A-b_c\n## A-b_c\n```\n# no\n```\n";
        assert_eq!(headings(text), ["r1-overhead-pmdk", "a-b_c", "a-b_c-1"]);
    }

    #[test]
    fn pages_in_comments_exist() {
        let text = "//! See `docs/format/x.md` and docs/here.md.\nlet a = \"docs/gone.md\";\n";
        assert_eq!(
            said(&[("crates/a/src/lib.rs", text), ("docs/here.md", "")]),
            ["crates/a/src/lib.rs:1: the comment names docs/format/x.md, which is not there"]
        );
    }

    #[test]
    fn files_in_pages_exist() {
        let page =
            "`crates/a/src/lib.rs`, `crates/a/`\n`crates/a/src/{b,c}.rs`, `crates/a/gone.rs`\n";
        assert_eq!(
            said(&[("docs/a.md", page), ("crates/a/src/lib.rs", "")]),
            ["docs/a.md:2: the page names crates/a/gone.rs, which is not there"]
        );
    }
}
