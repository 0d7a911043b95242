//! Where the debug file of a module may be, and whether a candidate is the right one.
//!
//! What for: the order in which GDB searches
//! (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html>), and in each directory the
//! layout of the debuginfod client's cache (`debuginfod_find_debuginfo(3)`). What not: opening files, downloads.
//! Assumption: build-ids are unique; a debuglink name is not, so its checksum decides.

use std::path::{Path, PathBuf};

use crate::elf::{AlternateLink, DebugLink, Elf};

/// Why a file is not the debug file that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DebugFileMismatch {
    /// The build-ids differ: it belongs to another build.
    #[error(
        "belongs to another build (build-id {found}, wanted {wanted}); install the matching debug package"
    )]
    BuildId {
        /// In the candidate; "none" when it has none.
        found: String,
        /// In the module.
        wanted: String,
    },
    /// The debuglink checksum differs.
    #[error(
        "belongs to another build (CRC {found:#010x}, wanted {wanted:#010x}); install the matching debug package"
    )]
    Checksum {
        /// Of the candidate.
        found: u32,
        /// In the module's debuglink.
        wanted: u32,
    },
    /// Nothing tells whether it belongs to the module.
    #[error("cannot be matched to the module, which has neither build-id nor debuglink")]
    Unidentified,
}

/// The places where the debug file of the module at `path` may lie, best first. `directories` are the roots to
/// search (usually `/usr/lib/debug`); `build_id` is lower-case hex.
#[must_use]
pub fn debug_file_candidates(
    path: &Path,
    build_id: Option<&str>,
    link: Option<&DebugLink>,
    directories: &[PathBuf],
) -> Vec<PathBuf> {
    let mut candidates = by_build_id(build_id, directories, "debuginfo");
    if let Some(link) = link {
        let directory = path.parent().unwrap_or(Path::new("/"));
        candidates.push(directory.join(&link.name));
        candidates.push(directory.join(".debug").join(&link.name));
        // `/usr` merge: packages name the directory either way.
        let inside = directory.strip_prefix("/").unwrap_or(directory);
        for root in directories {
            candidates.push(root.join(inside).join(&link.name));
            if let Ok(short) = inside.strip_prefix("usr") {
                candidates.push(root.join(short).join(&link.name));
            }
        }
    }
    // A debuglink may name the module itself (a file that kept its name in another directory).
    candidates.retain(|candidate| candidate != path);
    candidates
}

/// The places where the file that `debug_path` shares entries with may lie, best first.
#[must_use]
pub fn alternate_file_candidates(
    debug_path: &Path,
    link: &AlternateLink,
    directories: &[PathBuf],
) -> Vec<PathBuf> {
    let directory = debug_path.parent().unwrap_or(Path::new("/"));
    // `join` with an absolute name gives that name.
    let mut candidates = vec![directory.join(&link.name)];
    candidates.extend(by_build_id(Some(&link.build_id), directories, "debuginfo"));
    if let Some(name) = Path::new(&link.name).file_name() {
        candidates.extend(directories.iter().map(|root| root.join(".dwz").join(name)));
    }
    candidates
}

fn by_build_id(build_id: Option<&str>, directories: &[PathBuf], cached_as: &str) -> Vec<PathBuf> {
    // Checked although `Elf::build_id` makes nothing else: it may come from a result file.
    let valid = |id: &&str| {
        (3..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let Some(id) = build_id.filter(valid) else {
        return Vec::new();
    };
    let (first, rest) = id.split_at(2);
    let file = format!("{rest}.debug");
    directories
        .iter()
        .flat_map(|root| {
            [root.join(".build-id").join(first).join(&file), root.join(id).join(cached_as)]
        })
        .collect()
}

/// Whether `candidate` is the debug file of `module`.
///
/// # Errors
/// Says why it is not.
pub fn check_debug_file(module: &Elf<'_>, candidate: &Elf<'_>) -> Result<(), DebugFileMismatch> {
    if let Some(wanted) = module.build_id() {
        return same_build_id(&wanted, candidate);
    }
    let Some(link) = module.debug_link() else {
        return Err(DebugFileMismatch::Unidentified);
    };
    match crc32(candidate.bytes()) {
        found if found == link.crc => Ok(()),
        found => Err(DebugFileMismatch::Checksum { found, wanted: link.crc }),
    }
}

/// Whether `candidate` is the file that `link` names.
///
/// # Errors
/// Says why it is not.
pub fn check_alternate_file(
    link: &AlternateLink,
    candidate: &Elf<'_>,
) -> Result<(), DebugFileMismatch> {
    same_build_id(&link.build_id, candidate)
}

fn same_build_id(wanted: &str, candidate: &Elf<'_>) -> Result<(), DebugFileMismatch> {
    match candidate.build_id() {
        Some(found) if found == wanted => Ok(()),
        found => Err(DebugFileMismatch::BuildId {
            found: found.unwrap_or_else(|| "none".to_owned()),
            wanted: wanted.to_owned(),
        }),
    }
}

/// CRC-32 as in zlib and `.gnu_debuglink` (ISO-HDLC: polynomial 0xedb88320 reflected, inverted at both ends).
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc: u32, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_known_answer() {
        // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn places_in_order() {
        let link = DebugLink { name: "libfoo.so.1.debug".to_owned(), crc: 0 };
        let roots = [PathBuf::from("/usr/lib/debug")];
        let found = debug_file_candidates(
            Path::new("/usr/lib/libfoo.so.1"),
            Some("abcdef01"),
            Some(&link),
            &roots,
        );
        let shown: Vec<_> = found.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        assert_eq!(
            shown,
            [
                "/usr/lib/debug/.build-id/ab/cdef01.debug",
                "/usr/lib/debug/abcdef01/debuginfo",
                "/usr/lib/libfoo.so.1.debug",
                "/usr/lib/.debug/libfoo.so.1.debug",
                "/usr/lib/debug/usr/lib/libfoo.so.1.debug",
                "/usr/lib/debug/lib/libfoo.so.1.debug",
            ]
        );
        assert_eq!(
            debug_file_candidates(Path::new("/x"), Some("../../etc"), None, &roots),
            [""; 0].map(PathBuf::from)
        );
    }

    #[test]
    fn alternate_places() {
        let link =
            AlternateLink { name: "../../.dwz/all.debug".to_owned(), build_id: "0011".to_owned() };
        let found = alternate_file_candidates(
            Path::new("/usr/lib/debug/.build-id/ab/cd.debug"),
            &link,
            &[PathBuf::from("/usr/lib/debug")],
        );
        assert_eq!(found[0], Path::new("/usr/lib/debug/.build-id/ab/../../.dwz/all.debug"));
        assert_eq!(found[1], Path::new("/usr/lib/debug/.build-id/00/11.debug"));
    }
}
