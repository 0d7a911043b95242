//! No recording and no large file in the checkout: other people's recordings have their own licences and homes,
//! and history never forgets a megabyte. Tests look for them in `$FATHOM_FIXTURES` and are skipped without.

use crate::problem::Problem;
use crate::tree::{File, Tree};

/// Endings of file names that recordings have.
const NAMES: [&str; 8] =
    ["perf.data", "perf.data.old", ".perfdata", ".perf", ".pool", ".journal", ".core", ".vtune"];

/// How recordings begin, whatever they are called.
const MAGIC: [(&[u8], &str); 3] = [
    (b"PERFILE2", "a perf.data file"),
    (b"2ELIFREP", "a perf.data file"),
    (b"PAR1", "a Parquet file"),
];

/// In bytes. Golden texts and stored runs of benches stay far below.
const LARGEST: u64 = 512 * 1024;

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    tree.files.iter().filter_map(check_file).collect()
}

fn check_file(file: &File) -> Option<Problem> {
    let name = file.path.rsplit('/').next().unwrap_or(&file.path);
    let by_magic = MAGIC.iter().find(|(magic, _)| file.start.starts_with(magic));
    let sentence = if let Some((_, what)) = by_magic {
        format!(
            "is {what}: recordings are not committed; make it in the test, or use $FATHOM_FIXTURES"
        )
    } else if NAMES.iter().any(|end| name.ends_with(end)) {
        "has the name of a recording: make it in the test, or use $FATHOM_FIXTURES".to_owned()
    } else if file.bytes > LARGEST {
        format!("has {} bytes; {LARGEST} are the limit", file.bytes)
    } else {
        return None;
    };
    Some(Problem::error(&file.path, 0, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_known_by_name_content_and_size() {
        let large = "x".repeat(600_000);
        let tree = Tree::of(&[
            ("a/perf.data", ""),
            ("b/innocent.txt", "PERFILE2...."),
            ("c/samples.parquet", "PAR1...."),
            ("d/large.txt", &large),
            ("e/fine.rs", "//! perf.data is mentioned"),
        ]);
        let problems = check(&tree);
        let found: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(found, ["a/perf.data", "b/innocent.txt", "c/samples.parquet", "d/large.txt"]);
    }
}
