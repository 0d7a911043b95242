//! Pure crates: what they answer depends on what they are given and on nothing else, so that any finding can be
//! recomputed from a file, on another machine, in a test.

use crate::problem::Problem;
use crate::rust_text::{RustText, line_of};
use crate::tree::Tree;

const PURE: [&str; 9] =
    ["base", "estimate", "facts", "machine", "x86", "cachesim", "symbols", "analysis", "report"];

/// Modules and types of `std` that reach outside of the process or of the moment.
const OUTSIDE: [&str; 7] =
    ["fs", "env", "net", "process", "time::SystemTime", "time::Instant", "os::unix::net"];

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.rust() {
        let pure = PURE.iter().find(|name| file.is_under(&format!("crates/{name}/src")));
        let Some(name) = pure.filter(|_| !file.is_test_code()) else { continue };
        for (line, path) in std_paths(&text) {
            let outside = OUTSIDE.iter().find(|module| begins_with_path(&path, module));
            if let Some(module) = outside.filter(|_| !text.is_test_line(line)) {
                let sentence =
                    format!("std::{module} in {name}, which is pure: let the caller hand it in");
                problems.push(Problem::error(&file.path, line, sentence));
            }
        }
    }
    problems
}

/// `fs::read` begins with `fs`, `fstat` does not.
fn begins_with_path(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path that begins with `std::`, without that, groups taken apart: `use std::{fs, time::{Duration, Instant}}`
/// gives `fs`, `time::Duration`, `time::Instant`.
fn std_paths(text: &RustText) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    for position in text.words("std") {
        let start = position.offset + "std".len();
        if let Some(rest) = text.code[start..].strip_prefix("::") {
            let mut reader = Reader { code: rest, at: 0, paths: Vec::new() };
            reader.read("", 0);
            let here = reader.paths.into_iter();
            paths
                .extend(here.map(|(offset, path)| (line_of(&text.code, start + 2 + offset), path)));
        }
    }
    paths
}

/// Reads one tree of paths.
struct Reader<'a> {
    code: &'a str,
    at: usize,
    paths: Vec<(usize, String)>,
}

/// Groups within groups; more is not written by people.
const DEEPEST: usize = 8;

impl Reader<'_> {
    /// Reads `a::b`, or `a::{b, c::d}`, with `prefix` before it.
    fn read(&mut self, prefix: &str, depth: usize) {
        self.skip_space();
        let start = self.at;
        if self.code[start..].starts_with('{') && depth < DEEPEST {
            self.at += 1;
            while self.at < self.code.len() && !self.code[self.at..].starts_with('}') {
                let before = self.at;
                self.read(prefix, depth + 1);
                self.skip_space();
                if self.code[self.at..].starts_with(',') {
                    self.at += 1;
                } else if self.at == before {
                    return;
                }
                self.skip_space();
            }
            self.at = self.code.len().min(self.at + 1);
            return;
        }
        let rest = &self.code[start..];
        let end = rest
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '*');
        let name = &rest[..end.unwrap_or(rest.len())];
        self.at += name.len();
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") };
        if !name.is_empty() && self.code[self.at..].starts_with("::") {
            self.at += 2;
            self.read(&path, depth);
        } else {
            self.paths.push((start, path));
            self.skip_renaming();
        }
    }

    /// ` as other`.
    fn skip_renaming(&mut self) {
        if let Some(rest) = self.code[self.at..].strip_prefix(" as ") {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            self.at += " as ".len() + end.unwrap_or(rest.len());
        }
    }

    fn skip_space(&mut self) {
        let rest = &self.code[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_are_taken_apart() {
        let text = RustText::of(
            "use std::{\n    fs as files,\n    time::{Duration, Instant},\n    io,\n};\nlet a = std::mem::take(&mut b);\n",
        );
        let paths: Vec<String> =
            std_paths(&text).into_iter().map(|(line, path)| format!("{line} {path}")).collect();
        assert_eq!(paths, ["2 fs", "3 time::Duration", "3 time::Instant", "4 io", "6 mem::take"]);
    }

    #[test]
    fn broken_groups_end() {
        for text in [
            "use std::{",
            "use std::{{{",
            "use std::{a b}",
            "use std::",
            "use std::{;}",
            "std::{é}",
        ] {
            std_paths(&RustText::of(text));
        }
    }

    #[test]
    fn pure_crates_stay_inside() {
        let text = "use std::fs;\nuse std::time::{Duration, SystemTime};\nfn f() { std::env::var(\"A\"); }\n\
            use std::fmt;\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert_eq!(
            said("crates/machine/src/a.rs", text),
            [
                "crates/machine/src/a.rs:1: std::fs in machine, which is pure: let the caller hand it in",
                "crates/machine/src/a.rs:2: std::time::SystemTime in machine, which is pure: let the caller hand it in",
                "crates/machine/src/a.rs:3: std::env in machine, which is pure: let the caller hand it in",
            ]
        );
        assert_eq!(said("crates/machine/tests/a.rs", text), [] as [&str; 0]);
        assert_eq!(said("crates/store/src/a.rs", text), [] as [&str; 0]);
    }
}
