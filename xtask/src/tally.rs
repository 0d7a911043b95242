//! What libtest printed, turned into how many tests passed, failed and were skipped.
//!
//! A test that cannot run on this machine prints `skipped: REASON` and returns; libtest calls that passed. With
//! `--show-output` the line stands in a section under the test's name, so that each test is counted once:
//! passed, failed, or skipped.
//! What not: no process, no terminal. Assumption: libtest's plain output (rustc's `library/test/src/formatters/
//! pretty.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How many of each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Ran to the end and were content.
    pub passed: usize,
    /// Failed; a test program that died, or a step that failed, counts as one.
    pub failed: usize,
    /// Could not run here.
    pub skipped: usize,
    /// Why, each with how many tests said so.
    pub reasons: BTreeMap<String, usize>,
    /// The names of those that failed, where they had one.
    pub failures: BTreeSet<String>,
    /// Failed among the others and passed by themselves; counted in `passed`.
    pub second_try: BTreeSet<String>,
}

impl Tally {
    /// Takes over how the named failures did in a second run of them alone.
    pub fn tried_again(&mut self, again: &Tally) {
        let all_named = again.failures.len() == again.failed;
        if !all_named || again.passed + again.skipped + again.failed < self.failures.len() {
            return;
        }
        let better: Vec<String> = self.failures.difference(&again.failures).cloned().collect();
        for name in better {
            self.failures.remove(&name);
            self.second_try.insert(name);
            self.failed -= 1;
            self.passed += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Reads the lines one by one, and says which a person needs to see.
#[derive(Default)]
pub struct Reader {
    tally: Tally,
    /// The test program that is running.
    program: Program,
    running: bool,
}

/// What is known of one test program.
#[derive(Default)]
struct Program {
    failed: BTreeSet<String>,
    skipped: BTreeSet<String>,
    /// Whose captured output the lines belong to.
    section: Option<String>,
    /// Between `successes:` and `failures:`: output of tests that passed.
    in_successes: bool,
    /// Lines that say `skipped:` outside of any section: from a test with a harness of its own.
    unnamed_skips: usize,
}

impl Reader {
    /// Takes one line of standard output; `true` when it is worth showing.
    pub fn line(&mut self, line: &str) -> bool {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.end_of_program();
            self.running = true;
            return true;
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.result(result);
            return true;
        }
        match line {
            "successes:" => self.program.in_successes = true,
            "failures:" => self.program.in_successes = false,
            _ => self.within(line),
        }
        !self.program.in_successes
    }

    fn within(&mut self, line: &str) {
        if let Some(name) =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.program.section = Some(name.to_owned());
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.program.failed.insert(name.to_owned());
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            self.skip(reason.trim());
        }
    }

    fn skip(&mut self, reason: &str) {
        match &self.program.section {
            // It failed; that it also skipped a part does not make it better.
            Some(name) if self.program.failed.contains(name) => return,
            Some(name) => {
                self.program.skipped.insert(name.clone());
            }
            None => self.program.unnamed_skips += 1,
        }
        *self.tally.reasons.entry(reason.to_owned()).or_default() += 1;
    }

    /// `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
    fn result(&mut self, text: &str) {
        let count = |what: &str| -> usize {
            let part = text.split([';', '.']).find(|part| part.trim().ends_with(what));
            part.and_then(|part| part.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
        };
        let skipped = self.program.skipped.len() + self.program.unnamed_skips;
        let ignored = count("ignored");
        self.tally.passed += count("passed").saturating_sub(skipped);
        self.tally.failed += count("failed");
        self.tally.failures.append(&mut self.program.failed);
        self.tally.skipped += skipped + ignored;
        if ignored > 0 {
            *self.tally.reasons.entry("marked to be ignored".to_owned()).or_default() += ignored;
        }
        self.program = Program::default();
        self.running = false;
    }

    /// A program that began and gave no result has died.
    fn end_of_program(&mut self) {
        if self.running {
            self.tally.failed += 1;
        }
        self.program = Program::default();
        self.running = false;
    }

    /// The sum. `success` is whether `cargo test` said so: it may have failed without any test, by not compiling.
    pub fn finish(mut self, success: bool) -> Tally {
        self.end_of_program();
        if !success && self.tally.failed == 0 {
            self.tally.failed = 1;
        }
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_PROGRAMS: &str = "
running 3 tests
test works ... ok
test needs_numa ... ok
test breaks ... FAILED

successes:

---- needs_numa stdout ----
skipped: this machine has one memory node
skipped: and no other


successes:
    needs_numa
    works

failures:

---- breaks stdout ----
skipped: a part of it
panicked at src/lib.rs:1:1: no


failures:
    breaks

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s


running 1 test
test other ... ok

successes:

---- other stdout ----
skipped: this machine has one memory node

successes:
    other

test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    fn read(text: &str, success: bool) -> (Tally, String) {
        let mut reader = Reader::default();
        let shown: String =
            text.lines().filter(|line| reader.line(line)).map(|line| format!("{line}\n")).collect();
        (reader.finish(success), shown)
    }

    #[test]
    fn each_test_counts_once() {
        let (tally, shown) = read(TWO_PROGRAMS, false);
        assert_eq!(tally.to_string(), "1 passed, 1 failed, 4 skipped");
        let reasons: Vec<(&str, usize)> =
            tally.reasons.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        assert_eq!(
            reasons,
            [
                ("and no other", 1),
                ("marked to be ignored", 2),
                ("this machine has one memory node", 2)
            ]
        );
        // The output of what passed is not shown, that of what failed is.
        assert!(!shown.contains("needs_numa stdout"));
        assert!(shown.contains("panicked at src/lib.rs"));
        assert!(shown.contains("test result: ok."));
    }

    #[test]
    fn a_second_try_counts_only_when_it_passed() {
        let result = |passed: usize, failed: &[&str]| {
            let lines: String =
                failed.iter().map(|name| format!("test {name} ... FAILED\n")).collect();
            let failed = failed.len();
            let text = format!(
                "running 9 tests\n{lines}test result: no. {passed} passed; {failed} failed; 0 ignored; 0 measured\n"
            );
            read(&text, failed == 0).0
        };
        let mut tally = result(7, &["slow", "wrong"]);
        tally.tried_again(&result(1, &["wrong"]));
        assert_eq!(tally.to_string(), "8 passed, 1 failed, 0 skipped");
        assert_eq!(tally.second_try, BTreeSet::from(["slow".to_owned()]));
        // It did not run, or something without a name failed.
        let mut tally = result(8, &["slow"]);
        tally.tried_again(&result(0, &[]));
        tally.tried_again(&read("", false).0);
        assert_eq!(tally.to_string(), "8 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn what_dies_or_does_not_compile_has_failed() {
        let died = "running 2 tests\ntest a ... ok\n\nrunning 1 test\ntest b ... ok\n\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(read(died, false).0.to_string(), "1 passed, 1 failed, 0 skipped");
        assert_eq!(read("", false).0.to_string(), "0 passed, 1 failed, 0 skipped");
        assert_eq!(read("", true).0.to_string(), "0 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn every_line_counts_without_a_harness() {
        let text = "running 2 tests\nskipped: no perf events here\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(read(text, true).0.to_string(), "1 passed, 0 failed, 1 skipped");
    }
}
