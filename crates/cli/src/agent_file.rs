//! The heap library, the region library and the placement library as files: the dynamic linker loads files only.
//!
//! What not: the libraries themselves (`agent`). A file is in the cache directory, named by a hash of its content, and
//! never removed. A program that outlives the recording still names it in its environment; if it were gone, the
//! linker would print a warning to that program's user.

use std::io;
use std::path::{Path, PathBuf};

/// The heap library, written now unless it exists.
///
/// # Errors
/// Those of the file system; `NotFound` if there is no cache directory.
pub fn path() -> io::Result<PathBuf> {
    written("agent", agent::LIBRARY)
}

/// The region library, likewise.
///
/// # Errors
/// As for [`path`].
pub fn regions() -> io::Result<PathBuf> {
    written("regions", agent::REGIONS)
}

/// The placement library, likewise.
///
/// # Errors
/// As for [`path`].
pub fn placement() -> io::Result<PathBuf> {
    written("placement", agent::PLACEMENT)
}

fn written(name: &str, library: &[u8]) -> io::Result<PathBuf> {
    let directory = calibrate::cache::directory().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "neither XDG_CACHE_HOME nor HOME is an absolute path",
        )
    })?;
    in_directory(&directory, name, library)
}

fn in_directory(directory: &Path, name: &str, library: &[u8]) -> io::Result<PathBuf> {
    let file = directory.join(format!("libfathom_{name}-{:016x}.so", hash_of(library)));
    if std::fs::read(&file).is_ok_and(|content| content == library) {
        return Ok(file);
    }
    std::fs::create_dir_all(directory)?;
    // A program may map the old file right now: a new one takes its place whole.
    let temporary = file.with_extension(format!("so.{}.tmp", std::process::id()));
    std::fs::write(&temporary, library)
        .and_then(|()| std::fs::rename(&temporary, &file))
        .inspect_err(|_| {
            // Nothing to do when that fails too: the caller learns of the first error.
            let _ = std::fs::remove_file(&temporary);
        })?;
    Ok(file)
}

/// FNV-1a (Fowler, Noll, Vo): distinguishes versions; the content is compared, too.
fn hash_of(library: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    library.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_mended() {
        let directory = std::env::temp_dir().join(format!("fathom-agent-{}", std::process::id()));
        let first = in_directory(&directory, "agent", b"one").unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), b"one");
        std::fs::write(&first, b"broken").unwrap();
        assert_eq!(in_directory(&directory, "agent", b"one").unwrap(), first);
        assert_eq!(std::fs::read(&first).unwrap(), b"one");
        assert_ne!(in_directory(&directory, "agent", b"two").unwrap(), first);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
