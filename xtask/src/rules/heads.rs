//! Every source file opens with what it is for, what it is not for, and what it assumes.
//!
//! A program can check only that a head is there, not what it says.

use crate::problem::Problem;
use crate::tree::{File, Tree};

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    tree.files.iter().filter_map(check_file).collect()
}

fn check_file(file: &File) -> Option<Problem> {
    let text = file.text.as_deref()?;
    if file.has_extension(&["rs"]) {
        let head = rust_head(text);
        return match head.as_deref() {
            None => Some(Problem::error(
                &file.path,
                1,
                "begins without a //! head: what for, what not, assumptions",
            )),
            Some("To be written.") => {
                Some(Problem::error(&file.path, 1, "is a placeholder: write it or remove it"))
            }
            Some(_) => None,
        };
    }
    let in_c = file.has_extension(&["c", "h", "cpp"])
        && (file.is_under("recipes") || file.is_under("tests/programs"));
    let first = text.trim_start();
    (in_c && !first.starts_with("/*") && !first.starts_with("//")).then(|| {
        let text =
            "begins without a comment: which behaviour it shows and what a profiler should say";
        Problem::error(&file.path, 1, text)
    })
}

/// The text of the `//!` lines at the start (a `#!` line or inner attributes may stand before them).
fn rust_head(text: &str) -> Option<String> {
    let mut lines =
        text.lines().skip_while(|line| line.starts_with("#!") || line.trim().is_empty());
    let head: Vec<&str> = lines.by_ref().map_while(|line| line.strip_prefix("//!")).collect();
    let head = head.join("\n").trim().to_owned();
    (!head.is_empty()).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Option<String> {
        check_file(&File::of_text(path, text)).map(|problem| problem.to_string())
    }

    #[test]
    fn rust_needs_a_head() {
        assert_eq!(said("a.rs", "//! Parses sysfs.\nfn a() {}\n"), None);
        assert_eq!(said("a.rs", "#![no_main]\n//! Parses.\n"), None);
        let missing = "a.rs:1: begins without a //! head: what for, what not, assumptions";
        assert_eq!(said("a.rs", "fn a() {}\n").as_deref(), Some(missing));
        assert_eq!(said("a.rs", "//!\n//!  \nfn a() {}\n").as_deref(), Some(missing));
        assert_eq!(said("a.rs", "/// Not a head.\nfn a() {}\n").as_deref(), Some(missing));
        assert!(said("a.rs", "//! To be written.\n").is_some());
    }

    #[test]
    fn programs_in_c_need_a_comment() {
        assert_eq!(said("recipes/a.c", "\n/* R1. */\n"), None);
        assert_eq!(said("tests/programs/a.cpp", "// One.\n"), None);
        assert!(said("tests/programs/a.h", "#ifndef A\n").is_some());
        assert_eq!(said("elsewhere/a.h", "#ifndef A\n"), None);
    }
}
