//! The heap library as a file: the dynamic linker preloads files only.
//!
//! What not: the library itself (`agent`). The file is in the cache directory, named by a hash of its content, and
//! never removed. A program that outlives the recording still names it in its environment; if it were gone, the
//! linker would print a warning to that program's user.

use std::io;
use std::path::{Path, PathBuf};

/// The file, written now unless it exists.
///
/// # Errors
/// Those of the file system; `NotFound` if there is no cache directory.
pub fn path() -> io::Result<PathBuf> {
    let directory = calibrate::cache::directory().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "neither XDG_CACHE_HOME nor HOME is an absolute path",
        )
    })?;
    in_directory(&directory, agent::LIBRARY)
}

fn in_directory(directory: &Path, library: &[u8]) -> io::Result<PathBuf> {
    let file = directory.join(format!("libfathom_agent-{:016x}.so", name_of(library)));
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
fn name_of(library: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    library.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_mended() {
        let directory = std::env::temp_dir().join(format!("fathom-agent-{}", std::process::id()));
        let first = in_directory(&directory, b"one").unwrap();
        assert_eq!(std::fs::read(&first).unwrap(), b"one");
        std::fs::write(&first, b"broken").unwrap();
        assert_eq!(in_directory(&directory, b"one").unwrap(), first);
        assert_eq!(std::fs::read(&first).unwrap(), b"one");
        assert_ne!(in_directory(&directory, b"two").unwrap(), first);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
