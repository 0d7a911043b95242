//! The one golden check: text out of a test against a file next to it.
//!
//! `FATHOM_BLESS=1 cargo test` writes the files instead; read the difference before you commit it.

use std::path::Path;

/// Compares `actual` with the file at `path`.
///
/// # Panics
/// When they differ, with the first differing line of both: this is an assertion for tests.
pub fn check(path: impl AsRef<Path>, actual: &str) {
    let path = path.as_ref();
    if std::env::var_os("FATHOM_BLESS").is_some() {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
        }
        std::fs::write(path, actual)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_else(|error| {
        panic!("cannot read {}: {error}; FATHOM_BLESS=1 writes it", path.display())
    });
    if expected == actual {
        return;
    }
    let mut lines = (1..).zip(expected.lines().zip(actual.lines()));
    let first = lines.find(|(_, (expected, actual))| expected != actual);
    let (line, (expected_line, actual_line)) =
        first.unwrap_or((0, ("(one is longer)", "(one is longer)")));
    panic!(
        "{}:{line} differs; FATHOM_BLESS=1 accepts it\n  expected: {expected_line}\n  actual:   {actual_line}\n\n{actual}",
        path.display()
    );
}
