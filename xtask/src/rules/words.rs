//! What no file may contain: printing in libraries, work left over, too many lines.

use crate::problem::Problem;
use crate::rust_text::{Position, RustText, find_words};
use crate::tree::{File, Tree};

/// Who may print and exit: programs that people start, and what runs inside of tests only.
const PRINTING: [&str; 3] = ["crates/cli", "crates/testkit", "xtask"];

const PRINT_MACROS: [&str; 4] = ["println", "print", "eprintln", "eprint"];

/// Code that says "not done". `ignore` is the attribute: a test that is not run proves nothing; one that cannot
/// run here prints `skipped: REASON` and returns.
const LEFT_OVER: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];

const LEFT_OVER_IN_COMMENTS: [&str; 2] = ["FIXME", "XXX"];

/// From here on a file is worth cutting; the house aims at 600.
const MANY_LINES: usize = 700;
const TOO_MANY_LINES: usize = 1000;

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, text) in tree.rust() {
        // A build script answers cargo by printing.
        let may_print = PRINTING.iter().any(|folder| file.is_under(folder))
            || file.is_test_code()
            || file.path.ends_with("/build.rs");
        if !may_print {
            problems.extend(printing(file, &text));
        }
        problems.extend(left_over(file, &text));
    }
    for file in tree.files.iter().filter(|file| file.has_extension(&["rs", "c", "h", "cpp", "sh"]))
    {
        problems.extend(length(file));
        if !file.has_extension(&["rs"]) {
            problems.extend(left_over_comments(file, file.text.as_deref().unwrap_or("")));
        }
    }
    problems
}

fn printing(file: &File, text: &RustText) -> Vec<Problem> {
    let mut problems = Vec::new();
    for name in PRINT_MACROS {
        for Position { line, offset: at } in text.words(name) {
            if text.code[at + name.len()..].starts_with('!') && !text.is_test_line(line) {
                let sentence =
                    format!("{name}! in a library: return the text, crates/cli prints it");
                problems.push(Problem::error(&file.path, line, sentence));
            }
        }
    }
    for Position { line, .. } in text.words("process::exit") {
        if !text.is_test_line(line) {
            let sentence =
                "process::exit in a library: return an error, crates/cli chooses the exit code";
            problems.push(Problem::error(&file.path, line, sentence));
        }
    }
    problems
}

fn left_over(file: &File, text: &RustText) -> Vec<Problem> {
    let mut problems = left_over_comments(file, &text.comments);
    for words in LEFT_OVER {
        let word = words.trim_end_matches('!');
        for Position { line, offset: at } in text.words(word) {
            if text.code[at..].starts_with(words) {
                let sentence = format!("{words} is left over: finish it, or take it out");
                problems.push(Problem::error(&file.path, line, sentence));
            }
        }
    }
    problems
}

fn left_over_comments(file: &File, comments: &str) -> Vec<Problem> {
    LEFT_OVER_IN_COMMENTS
        .iter()
        .flat_map(|word| {
            find_words(comments, word).into_iter().map(move |found| (word, found.line))
        })
        .map(|(word, line)| {
            let sentence = format!("{word}: do it now, or open an issue");
            Problem::error(&file.path, line, sentence)
        })
        .collect()
}

fn length(file: &File) -> Option<Problem> {
    let lines = file.text.as_deref()?.lines().count();
    if lines > TOO_MANY_LINES {
        let sentence = format!("{lines} lines; {TOO_MANY_LINES} are the limit: cut it by purpose");
        return Some(Problem::error(&file.path, 0, sentence));
    }
    (lines > MANY_LINES).then(|| {
        let sentence = format!("{lines} lines: cut it by purpose before it has {TOO_MANY_LINES}");
        Problem::warning(&file.path, 0, sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn libraries_do_not_print() {
        let text = "fn a() { println!(\"x\"); }\nfn b() { std::process::exit(1) }\n// println!\n\
            #[cfg(test)]\nmod tests { fn c() { eprintln!(\"skipped: x\"); } }\n";
        assert_eq!(lines("crates/store/src/a.rs", text), [1, 2]);
        assert_eq!(lines("crates/store/tests/a.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/store/examples/a.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/cli/src/a.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/client/src/a.rs", text), [1, 2]);
    }

    #[test]
    fn nothing_is_left_over() {
        let text = "fn a() { todo!() }\n// FIXME later\n#[ignore]\n#[test]\nfn b() { dbg!(1) }\nlet s = \"todo!\";\n";
        let mut found = lines("crates/cli/tests/a.rs", text);
        found.sort_unstable();
        assert_eq!(found, [1, 2, 3, 5]);
        assert_eq!(lines("recipes/a.c", "/* XXX */\nmkstemp(\"a.XXXXXX\");\n"), [1]);
    }

    #[test]
    fn files_stay_short() {
        let said = |count: usize| {
            let text = "// line\n".repeat(count);
            check(&Tree::of(&[("recipes/a.c", &text)])).first().map(|problem| problem.warning)
        };
        assert_eq!(said(MANY_LINES), None);
        assert_eq!(said(MANY_LINES + 1), Some(true));
        assert_eq!(said(TOO_MANY_LINES), Some(true));
        assert_eq!(said(TOO_MANY_LINES + 1), Some(false));
    }
}
