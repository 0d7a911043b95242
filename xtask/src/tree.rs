//! The checkout in memory, so that every rule is a function from text to problems.
//!
//! What not: no git. Build output is left out by name, so that the check also works in an unpacked archive.

use std::collections::BTreeSet;
use std::path::Path;

use crate::rust_text::RustText;

/// Folders that are never part of the source: build output and what programs leave behind.
const NOT_SOURCE: [&str; 7] =
    ["target", ".git", "build", "corpus", "artifacts", "coverage", "node_modules"];

/// One file.
pub struct File {
    /// Relative to the checkout, with `/`.
    pub path: String,
    /// The content; `None` when it is not UTF-8.
    pub text: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// The first bytes, by which recordings are known whatever their name.
    pub start: Vec<u8>,
}

/// All files and folders.
#[derive(Default)]
pub struct Tree {
    /// Ascending by path.
    pub files: Vec<File>,
    /// Folders, relative, with `/`, without a slash at the end.
    pub folders: BTreeSet<String>,
}

impl File {
    /// A file by its text, for tests.
    #[cfg(test)]
    pub fn of_text(path: &str, text: &str) -> File {
        File::of_bytes(path, text.as_bytes())
    }

    fn of_bytes(path: &str, bytes: &[u8]) -> File {
        File {
            path: path.to_owned(),
            text: String::from_utf8(bytes.to_vec()).ok(),
            bytes: bytes.len() as u64,
            start: bytes.iter().take(8).copied().collect(),
        }
    }

    /// Whether the name ends in `.extension` for one of them.
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| extensions.contains(&found))
    }

    /// The first folders of the path: `crates/sys`, `xtask`.
    pub fn is_under(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Rust that never becomes part of a library or of the program: tests, examples, fuzz targets. A file that is
    /// declared by `#[cfg(test)] mod tests;` is known by its name.
    pub fn is_test_code(&self) -> bool {
        let folders = ["/tests/", "/examples/", "/benches/"];
        let path = format!("/{}", self.path);
        folders.iter().any(|folder| path.contains(folder))
            || path.ends_with("/tests.rs")
            || path.ends_with("_tests.rs")
            || self.is_under("fuzz")
    }
}

impl Tree {
    /// A tree of texts, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            let mut folder = *path;
            while let Some((above, _)) = folder.rsplit_once('/') {
                tree.folders.insert(above.to_owned());
                folder = above;
            }
            tree.files.push(File::of_text(path, text));
        }
        tree
    }

    /// The Rust files, taken apart.
    pub fn rust(&self) -> impl Iterator<Item = (&File, RustText)> {
        self.files.iter().filter(|file| file.has_extension(&["rs"])).filter_map(|file| {
            let text = file.text.as_deref()?;
            Some((file, RustText::of(text)))
        })
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    /// Whether a file or a folder of this name is there. Build output does not count.
    pub fn has(&self, path: &str) -> bool {
        path.is_empty()
            || self.folders.contains(path)
            || self.files.iter().any(|file| file.path == path)
    }
}

/// Reads the checkout.
pub fn read(root: &Path) -> Result<Tree, String> {
    let mut tree = Tree::default();
    read_folder(root, "", &mut tree)?;
    tree.files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(tree)
}

fn read_folder(root: &Path, folder: &str, tree: &mut Tree) -> Result<(), String> {
    let place = root.join(folder);
    let fail = |error: std::io::Error| format!("cannot read {}: {error}", place.display());
    for entry in std::fs::read_dir(&place).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        // A link is not followed: it may lead out of the checkout or in a circle.
        let kind = entry.file_type().map_err(fail)?;
        if kind.is_dir() {
            if NOT_SOURCE.contains(&name.as_str()) || is_result_directory(&name) {
                continue;
            }
            read_folder(root, &path, tree)?;
            tree.folders.insert(path);
        } else if kind.is_file() {
            // Files come and go while editors save; one that is gone needs no check.
            if let Ok(bytes) = std::fs::read(entry.path()) {
                tree.files.push(File::of_bytes(&path, &bytes));
            }
        }
    }
    Ok(())
}

/// `r000ma` and its like, which `fathom run` leaves in the current folder (and .gitignore leaves out).
fn is_result_directory(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() > 3 && bytes[0] == b'r' && bytes[1..4].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_known_by_its_path() {
        let is_test = |path: &str| File::of_text(path, "").is_test_code();
        assert!(is_test("crates/a/tests/x.rs"));
        assert!(is_test("tests/x.rs"));
        assert!(is_test("crates/a/src/thing/tests.rs"));
        assert!(is_test("crates/a/src/verify_tests.rs"));
        assert!(is_test("fuzz/fuzz_targets/elf.rs"));
        assert!(!is_test("crates/a/src/tests_of_time.rs"));
        assert!(!is_test("crates/a/src/lib.rs"));
    }

    #[test]
    fn result_directories_are_not_source() {
        assert!(is_result_directory("r000ma"));
        assert!(!is_result_directory("recipes"));
        assert!(!is_result_directory("r0"));
    }
}
