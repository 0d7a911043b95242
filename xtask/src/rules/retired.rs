//! Words that the project no longer uses: `xtask/retired_words.txt` lists them with their replacements.
//!
//! What is not renamed yet is exempted by path in `xtask/retired_exempt.txt`. That list only shrinks: an exemption
//! that nothing needs any more is an error, and so is a list that is longer than [`MOST_EXEMPTIONS`].
//!
//! What not: grammar. Identifiers are read in Rust only; of other languages the whole text counts as prose.

use std::collections::BTreeSet;

use crate::markdown::without_code;
use crate::problem::Problem;
use crate::rust_text::{RustText, find_words, line_of};
use crate::tree::{File, Tree};

const WORDS: &str = "xtask/retired_words.txt";
const EXEMPT: &str = "xtask/retired_exempt.txt";

/// Pairs of a path and a word in the list of exemptions. Lower it when the list gets shorter, never raise it.
const MOST_EXEMPTIONS: usize = 1;

/// Where a retired word is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Prose,
    Name,
    Type,
}

/// A line of the list.
struct Retired<'a> {
    kind: Kind,
    word: &'a str,
    instead: &'a str,
}

/// A path and a word that it may still use.
struct Exemption<'a> {
    line: usize,
    path: &'a str,
    word: &'a str,
}

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    check_against(tree, MOST_EXEMPTIONS)
}

fn check_against(tree: &Tree, most: usize) -> Vec<Problem> {
    let Some(words) = tree.text(WORDS) else {
        return vec![Problem::error(WORDS, 0, "is missing: it lists the retired words")];
    };
    let mut problems = Vec::new();
    let retired: Vec<Retired> = lines_of(words)
        .filter_map(|(line, text)| {
            let parsed = retired_of(text);
            if parsed.is_none() {
                problems.push(Problem::error(
                    WORDS,
                    line,
                    "is not: prose, name or type | retired | instead",
                ));
            }
            parsed
        })
        .collect();
    let exemptions: Vec<Exemption> = lines_of(tree.text(EXEMPT).unwrap_or(""))
        .flat_map(|(line, text)| {
            let (path, words) = text.split_once(':').unwrap_or((text, ""));
            let words = words.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(move |word| Exemption { line, path: path.trim(), word })
        })
        .collect();

    let mut needed = BTreeSet::new();
    for file in tree.files.iter().filter(|file| is_read(file)) {
        for (line, index) in uses(file, &retired) {
            let Retired { word, instead, .. } = retired[index];
            let exempt = exemptions.iter().position(|one| {
                one.word == word && (file.path == one.path || file.is_under(one.path))
            });
            match exempt {
                Some(at) => drop(needed.insert(at)),
                None => problems.push(Problem::error(
                    &file.path,
                    line,
                    format!("'{word}' is retired; write: {instead}"),
                )),
            }
        }
    }
    for (at, one) in exemptions.iter().enumerate() {
        if !needed.contains(&at) {
            let sentence =
                format!("{} no longer uses '{}': take the exemption out", one.path, one.word);
            problems.push(Problem::error(EXEMPT, one.line, sentence));
        }
    }
    if exemptions.len() != most {
        let sentence = format!(
            "has {} exemptions, MOST_EXEMPTIONS is {most}: lower that constant; a longer list is refused",
            exemptions.len()
        );
        problems.push(Problem::error(EXEMPT, 0, sentence));
    }
    problems
}

/// Lines that are neither empty nor remarks, with their numbers.
fn lines_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn retired_of(line: &str) -> Option<Retired<'_>> {
    let mut parts = line.splitn(3, '|').map(str::trim);
    let kind = match parts.next()? {
        "prose" => Kind::Prose,
        "name" => Kind::Name,
        "type" => Kind::Type,
        _ => return None,
    };
    let (word, instead) = (parts.next()?, parts.next()?);
    (!word.is_empty() && !instead.is_empty()).then_some(Retired { kind, word, instead })
}

/// Stored results of benches are what was printed then; `ui/dist` is made from `ui/src`; this file and the style page
/// quote retired words.
fn is_read(file: &File) -> bool {
    let written = file.path.contains("/results/") || file.is_under("ui/dist");
    let quotes = ["xtask/src/rules/retired.rs", "docs/style.md"].contains(&file.path.as_str());
    !written && !quotes && file.has_extension(&["md", "rs", "ts", "tsx"])
}

/// Every use: its line, and which retired word it is.
fn uses(file: &File, retired: &[Retired]) -> Vec<(usize, usize)> {
    let Some(text) = file.text.as_deref() else { return Vec::new() };
    let parts = file.has_extension(&["rs"]).then(|| RustText::of(text));
    let prose = match &parts {
        Some(parts) => without_code(&format!("{}\n", parts.prose)),
        None if file.has_extension(&["md"]) => without_code(text),
        None => text.replace("Math.floor", "Math.     "),
    };
    let prose = prose.to_lowercase();
    let names = parts.map(|parts| identifiers(&parts.code)).unwrap_or_default();
    let mut found = Vec::new();
    for (index, one) in retired.iter().enumerate() {
        match one.kind {
            Kind::Prose => {
                found.extend(find_words(&prose, one.word).iter().map(|word| (word.line, index)));
            }
            Kind::Name => {
                let has = |name: &&(usize, String)| words_of(&name.1).any(|word| word == one.word);
                found.extend(names.iter().filter(has).map(|(line, _)| (*line, index)));
            }
            Kind::Type => {
                let has = |name: &&(usize, String)| name.1 == one.word;
                found.extend(names.iter().filter(has).map(|(line, _)| (*line, index)));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Every identifier with its line. `x.floor()` is the standard library's, as are `std::hint::likely` and its kin.
fn identifiers(code: &str) -> Vec<(usize, String)> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = code[at..].find(is_word).map(|offset| at + offset) {
        let length = code[start..].find(|letter| !is_word(letter)).unwrap_or(code.len() - start);
        at = start + length;
        let name = &code[start..at];
        let rounds =
            name == "floor" && code[at..].starts_with('(') && code[..start].ends_with(['.', ':']);
        if !rounds && !name.starts_with(|letter: char| letter.is_ascii_digit()) {
            found.push((line_of(code, start), name.to_owned()));
        }
    }
    found
}

/// The words of an identifier, in lower case: `CoreFloor` and `core_floor` have two.
fn words_of(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().expect("one at least").extend(letter.to_lowercase());
        }
        after_lower = letter.is_lowercase() || letter.is_ascii_digit();
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "# kind\nname | told | reported\nprose | told | reported\ntype | Now | State\n";

    fn said(exempt: &str, most: usize, path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(WORDS, LIST), (EXEMPT, exempt), (path, text)]);
        check_against(&tree, most).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn prose_is_documents_comments_and_messages() {
        let refused = ["docs/a.md:2: 'told' is retired; write: reported"];
        assert_eq!(said("", 0, "docs/a.md", "`told`\nIt is\x20Told.\n```\ntold\n```\n"), refused);
        let code = "//! Told.\nfn f() { g(\"is told\") }\nlet retold = 1;\n";
        let lines: Vec<String> = said("", 0, "crates/a/src/b.rs", code);
        assert_eq!(lines.len(), 2, "{lines:?}");
    }

    #[test]
    fn names_are_read_word_by_word() {
        let lines = said(
            "",
            0,
            "a.rs",
            "let told_at = 1;\nstruct ToldOnce;\nstruct Now;\nstruct Nowhere;\n",
        );
        let at: Vec<&str> = lines.iter().filter_map(|line| line.split(':').nth(1)).collect();
        assert_eq!(at, ["1", "2", "3"]);
        assert_eq!(identifiers("x.floor() + floor_of").len(), 2);
    }

    #[test]
    fn exemptions_are_needed_and_do_not_grow() {
        assert!(said("crates/a: told\n", 1, "crates/a/src/b.rs", "let told = 1;\n").is_empty());
        let unused = said("crates/a: told, Now\n", 2, "crates/a/src/b.rs", "let told = 1;\n");
        assert_eq!(
            unused,
            [format!("{EXEMPT}:1: crates/a no longer uses 'Now': take the exemption out")]
        );
        assert_eq!(said("crates/a: told\n", 0, "crates/a/src/b.rs", "let told = 1;\n").len(), 1);
        assert_eq!(said("", 1, "b.rs", "").len(), 1);
    }
}
