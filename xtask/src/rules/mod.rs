//! The house rules, one line each in [`RULES`]; each is a function from the tree to problems.

pub mod dependencies;
pub mod direction;
mod heads;
mod links;
mod purity;
mod recordings;
mod retired;
mod tables;
mod unsafety;
mod words;

use serde_json::Value;

use crate::problem::Problem;
use crate::tree::Tree;

/// A rule: what it says, and its checker.
struct Rule {
    says: &'static str,
    check: fn(&Tree, &Value) -> Vec<Problem>,
}

/// Every rule. The second argument of a checker is the answer of `cargo metadata`.
const RULES: &[Rule] = &[
    Rule {
        says: "crates depend on each other as the table in ARCHITECTURE.md says, and it names every crate",
        check: direction::check,
    },
    Rule {
        says: "every third-party crate has a row in docs/decisions/0002-dependencies.md, and is used by the crate that asks for it",
        check: dependencies::check,
    },
    Rule {
        says: "every .rs file begins with a //! head, every C file with a comment",
        check: |tree, _| heads::check(tree),
    },
    Rule {
        says: "unsafe stands only in crates/sys, crates/agent and include/rust, each with a Safety comment",
        check: |tree, _| unsafety::check(tree),
    },
    Rule {
        says: "libraries do not print and do not exit; nothing is left to be done; files stay short",
        check: |tree, _| words::check(tree),
    },
    Rule {
        says: "pure crates open no file, read no clock, no environment, no network, start no process",
        check: |tree, _| purity::check(tree),
    },
    Rule {
        says: "links between pages lead somewhere, and stay inside the checkout; files of crates that pages name exist",
        check: |tree, _| links::check(tree),
    },
    Rule {
        says: "a table of a page has a head, and its rows have as many cells",
        check: |tree, _| tables::check(tree),
    },
    Rule {
        says: "no recording and no large file is committed",
        check: |tree, _| recordings::check(tree),
    },
    Rule {
        says: "names and texts use no retired word (xtask/retired_words.txt)",
        check: |tree, _| retired::check(tree),
    },
];

/// All problems of the tree.
pub fn check(tree: &Tree, metadata: &Value) -> Vec<Problem> {
    RULES.iter().flat_map(|rule| (rule.check)(tree, metadata)).collect()
}

/// The rules as text, one per line.
pub fn list() -> String {
    RULES.iter().map(|rule| format!("{}\n", rule.says)).collect()
}
