//! Names and sizes of result directories.
//!
//! What not: their content (`open`, `writer`).

use std::fs;
use std::path::{Path, PathBuf};

use base::Bytes;

/// The next free default name in `parent`: `r000ma`, `r001ma`, ... As in VTune, the number is one more than the
/// highest of any `rNNN??` there, whatever its suffix, so that names also show the order of the runs.
/// [`crate::Writer::create`] decides whether it is still free when used.
#[must_use]
pub fn next_free(parent: &Path, suffix: &str) -> PathBuf {
    let next = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .filter_map(|entry| run_number(entry.ok()?.file_name().to_str()?))
        .max()
        .map_or(0, |highest| u64::from(highest) + 1);
    parent.join(format!("r{next:03}{suffix}"))
}

/// `12` of `r012ma`: an r, at least three digits, two or three lower-case letters.
fn run_number(name: &str) -> Option<u32> {
    let rest = name.strip_prefix('r')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let suffix = &rest[digits..];
    let is_suffix =
        matches!(suffix.len(), 2 | 3) && suffix.bytes().all(|byte| byte.is_ascii_lowercase());
    if digits >= 3 && is_suffix { rest[..digits].parse().ok() } else { None }
}

/// Size of all files of a result; 0 for what cannot be read. Not recursive: results have no folders.
#[must_use]
pub fn size_on_disk(directory: &Path) -> Bytes {
    let sizes = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .filter(|metadata| metadata.is_file())
        .map(|metadata| metadata.len());
    Bytes(sizes.sum())
}

#[cfg(test)]
mod tests {
    use super::run_number;

    #[test]
    fn names_of_results() {
        let cases = [
            ("r000ma", Some(0)),
            ("r012hs", Some(12)),
            ("r1234ue", Some(1234)),
            ("r012tr2", None),
            ("r12ma", None),
            ("r012", None),
            ("run.json", None),
            ("r99999999999999ma", None),
            ("r012MA", None),
        ];
        for (name, number) in cases {
            assert_eq!(run_number(name), number, "{name}");
        }
    }
}
