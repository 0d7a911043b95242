//! The folder in which profiles wait until they are where they should go, and are kept for a while after that.
//!
//! ```text
//! SPOOL/lock          one watch at a time
//! SPOOL/state.json    what was spent in the last hour, counts
//! SPOOL/new/NAME      a result that is not yet everywhere where it should go
//! SPOOL/kept/NAME     a result that is, or that goes nowhere
//! SPOOL/*/NAME.json   the workload of the profile, and where it is already (`sent`, `refused`)
//! ```
//! NAME begins with the time, so that names sort by age. What for: a bounded size. The oldest result in `kept` is deleted
//! first, then the oldest in `new`. What not: sending (`send`).

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exit::{CANNOT_MEASURE, Failure};

/// An open spool.
pub struct Spool {
    root: PathBuf,
    /// Bytes.
    limit: u64,
    /// Held as long as we run.
    _lock: File,
}

/// How full a spool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpoolSize {
    /// Bytes on the disk.
    pub bytes: u64,
    /// Number of results.
    pub results: usize,
}

/// A result that was removed to make room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    /// Its name.
    pub name: String,
    /// Whether it had not gone where it should yet.
    pub is_lost: bool,
}

impl Spool {
    /// Opens it; makes it where it is not there. Only its owner may read it: command lines may be secret.
    pub fn open(root: &Path, limit: u64) -> Result<Spool, Failure> {
        let cannot = |error: io::Error| {
            let error = anyhow::anyhow!("cannot use the spool {}: {error}", root.display());
            Failure::new(CANNOT_MEASURE, error)
        };
        for folder in ["new", "kept"] {
            make_private(&root.join(folder)).map_err(cannot)?;
        }
        let lock = File::create(root.join("lock")).map_err(cannot)?;
        if !sys::process::lock(&lock).map_err(cannot)? {
            return Err(Failure::usage(format!("another fathom watch uses {}", root.display()))
                .hint("name another directory: --spool DIR"));
        }
        Ok(Spool { root: root.to_owned(), limit, _lock: lock })
    }

    /// A place for a new result that is a profile of `target`.
    pub fn new_result(&self, name: &str, target: &Value) -> io::Result<PathBuf> {
        let result = self.root.join("new").join(name);
        fs::write(described(&result), format!("{target:#}\n"))?;
        Ok(result)
    }

    /// The results that wait, the oldest first.
    pub fn waiting(&self) -> Vec<PathBuf> {
        self.results("new")
    }

    fn results(&self, folder: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten();
        let mut found: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        found.sort();
        found
    }

    /// The target of the profile in a result.
    pub fn target(result: &Path) -> Value {
        let text = fs::read_to_string(described(result)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The names in a list next to a result: places that have it (`sent`), or that do not want it (`refused`).
    pub fn noted(result: &Path, list: &str) -> Vec<String> {
        let target = Spool::target(result);
        let names = target[list].as_array().into_iter().flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// Adds a name to such a list.
    pub fn note(result: &Path, list: &str, name: &str) -> io::Result<()> {
        let mut names = Spool::noted(result, list);
        names.push(name.to_owned());
        let mut target = Spool::target(result);
        if !target.is_object() {
            target = Value::Object(serde_json::Map::new());
        }
        target[list] = names.into();
        replace(&described(result), format!("{target:#}\n").as_bytes(), 0o600)
    }

    /// A result does not wait any more.
    pub fn keep(&self, result: &Path) -> io::Result<()> {
        let Some(name) = result.file_name() else { return Ok(()) };
        let kept = self.root.join("kept").join(name);
        // What it is follows it; without the result it is nothing.
        let _ = fs::rename(described(result), described(&kept));
        fs::rename(result, kept)
    }

    /// Removes a result.
    pub fn remove(result: &Path) {
        let _ = fs::remove_file(described(result));
        let _ = fs::remove_dir_all(result);
    }

    /// How full it is.
    pub fn size(&self) -> SpoolSize {
        let all = self.all();
        SpoolSize { bytes: all.iter().map(|(_, bytes)| bytes).sum(), results: all.len() }
    }

    /// All with their sizes, in the order in which they go.
    fn all(&self) -> Vec<(PathBuf, u64)> {
        let results = self.results("kept").into_iter().chain(self.results("new"));
        results
            .map(|path| {
                let bytes = bytes_of(&path);
                (path, bytes)
            })
            .collect()
    }

    /// Removes results until `bytes` more have room.
    pub fn make_room(&self, bytes: u64) -> Vec<Removed> {
        let all = self.all();
        let mut used: u64 = all.iter().map(|(_, bytes)| bytes).sum();
        let mut removed = Vec::new();
        for (path, its) in all {
            if used + bytes <= self.limit {
                break;
            }
            used -= its;
            removed.extend(self.take_out(&path));
        }
        removed
    }

    /// Removes the oldest result, after a disk was full.
    pub fn remove_oldest(&self) -> Option<Removed> {
        let (path, _) = self.all().into_iter().next()?;
        self.take_out(&path)
    }

    fn take_out(&self, path: &Path) -> Option<Removed> {
        Spool::remove(path);
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Removed { name, is_lost: path.starts_with(self.root.join("new")) })
    }

    /// What the process before us knew.
    pub fn state(&self) -> Value {
        let text = fs::read_to_string(self.root.join("state.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Keeps it.
    pub fn keep_state(&self, state: &Value) -> io::Result<()> {
        replace(&self.root.join("state.json"), format!("{state:#}\n").as_bytes(), 0o600)
    }
}

/// Makes a folder that only its owner may read.
pub fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The file that says of what a result is a profile.
fn described(result: &Path) -> PathBuf {
    let mut name = result.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum()
}

/// Writes a file at once: a reader sees the old one or the new one. Who may read it is in `mode`, whatever the umask.
pub fn replace(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let temporary = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = File::create(&temporary).and_then(|mut to| {
        to.set_permissions(Permissions::from_mode(mode))?;
        to.write_all(bytes)
    });
    written.and_then(|()| fs::rename(&temporary, file)).inspect_err(|_| {
        // The caller learns of the first error.
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_was_sent_goes_first() {
        let root = std::env::temp_dir().join(format!("fathom-spool-{}", std::process::id()));
        let spool = Spool::open(&root, 2500).unwrap();
        assert!(Spool::open(&root, 2500).is_err(), "one watch at a time");
        for name in ["1-a", "2-b", "3-c"] {
            let result = spool.new_result(name, &serde_json::json!({ "pid": 7 })).unwrap();
            fs::create_dir(&result).unwrap();
            fs::write(result.join("run.json"), [b' '; 1000]).unwrap();
        }
        spool.keep(&spool.waiting()[1]).unwrap();
        let names = || -> Vec<String> {
            spool
                .all()
                .iter()
                .map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(
            (names(), spool.size()),
            (
                ["2-b", "1-a", "3-c"].map(str::to_owned).to_vec(),
                SpoolSize { bytes: 3000, results: 3 }
            )
        );
        let removed = |name: &str, is_lost| Removed { name: name.to_owned(), is_lost };
        assert_eq!(spool.make_room(0), [removed("2-b", false)], "what was sent is no loss");
        assert_eq!(spool.make_room(1000), [removed("1-a", true)]);
        let last = &spool.waiting()[0];
        assert_eq!(Spool::target(last)["pid"], 7);
        assert!(Spool::noted(last, "sent").is_empty());
        Spool::note(last, "sent", "otlp").unwrap();
        assert_eq!(Spool::noted(last, "sent"), ["otlp"]);
        assert_eq!(spool.remove_oldest(), Some(removed("3-c", true)));
        assert_eq!(
            (spool.remove_oldest(), spool.size()),
            (None, SpoolSize { bytes: 0, results: 0 })
        );
        assert!(fs::read_dir(root.join("new")).unwrap().next().is_none(), "descriptions go, too");
        let state = serde_json::json!({ "spent": [[1.5, 2.0]] });
        spool.keep_state(&state).unwrap();
        assert_eq!(spool.state(), state);
        fs::remove_dir_all(&root).unwrap();
    }
}
