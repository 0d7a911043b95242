//! Source files: which ones may be read, and which ones a self-contained page carries.
//!
//! What not: rendering them (`ui`). A result is untrusted. It may name `/etc/shadow` as the source of a function, and
//! its page may be mailed. So the result must name a file, *and* the file must have the name of a source file.

use std::collections::BTreeSet;

use facts::Recording;

/// Endings of names that source files have.
const ENDINGS: [&str; 34] = [
    "c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "h++", "inc", "ipp", "tcc", "inl",
    "rs", "go", "f", "f77", "f90", "f95", "f03", "f08", "for", "s", "asm", "d", "zig", "swift",
    "m", "mm", "cu", "ml", "adb", "nim",
];

/// Longest text that a page carries, bytes.
pub(crate) const LONGEST: usize = 300_000;

/// Whether the recording names this file, and the name is that of a source file.
pub(crate) fn is_allowed(recording: &Recording, file: &str) -> bool {
    looks_like_source(file)
        && recording.frames.iter().any(|frame| frame.file.as_deref() == Some(file))
}

fn looks_like_source(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    // C++'s own headers have no ending: /usr/include/c++/12/vector.
    let of_cpp = file.contains("/include/c++/") && !file.contains("/../");
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    of_cpp || ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// The text, when it may be read. Relative names are tried against the run's working directory first, as in the view
/// `source`.
pub(crate) fn text(
    recording: &Recording,
    sources: &dyn Fn(&str) -> Option<String>,
    file: &str,
) -> Option<String> {
    if !is_allowed(recording, file) {
        return None;
    }
    let directory = &recording.run.working_directory;
    let joined =
        (!file.starts_with('/') && !directory.is_empty()).then(|| format!("{directory}/{file}"));
    joined.and_then(|path| sources(&path)).or_else(|| sources(file))
}

/// The distinct files in a column of rows, in their order, at most `most`.
pub(crate) fn files_of(table: &report::Table, most: usize) -> Vec<String> {
    let Some(column) = table.column("file") else { return Vec::new() };
    let mut seen = BTreeSet::new();
    let files = table.rows.iter().filter_map(|row| match row.get(column) {
        Some(report::Cell::Text(file)) => Some(file.clone()),
        _ => None,
    });
    files.filter(|file| seen.insert(file.clone())).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_source_is_read() {
        for source in ["/a/b.c", "triad.F90", "/usr/include/c++/12/vector", "x.rs"] {
            assert!(looks_like_source(source), "{source}");
        }
        for other in [
            "/etc/shadow",
            "/root/.ssh/id_rsa",
            "key.pem",
            "",
            "/a/.c/b",
            "/include/c++/../../etc/shadow",
        ] {
            assert!(!looks_like_source(other), "{other}");
        }
    }
}
