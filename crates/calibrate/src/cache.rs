//! Stored calibrations: one JSON file per machine under the user's cache directory.
//!
//! What not: measuring. The name contains the fingerprint, so that machines that share a home directory have one file each. The
//! file is written under another name and renamed: a reader sees the old content or the new one.
//!
//! These count as absent: a file of another version or fingerprint; a damaged one; on a machine with several NUMA nodes, one
//! without pairs of nodes (of an earlier build); after an hour, one that was measured while other programs used the machine,
//! because it must not represent the machine permanently.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use facts::host::{Calibration, Host};

use crate::{VERSION, history};

/// How long a calibration of a busy machine is used, seconds.
const DISTURBED_LASTS: u64 = 3600;

/// A calibration has about 60 KB of JSON.
const LARGEST_FILE: u64 = 4 << 20;

/// Where the calibration of `host` is stored; `None` when there is no such [`directory`].
#[must_use]
pub fn path(host: &Host) -> Option<PathBuf> {
    Some(file_in(&directory()?, host))
}

/// Fathom's directory for what it keeps between runs: `$XDG_CACHE_HOME/fathom`, else `~/.cache/fathom` (XDG base
/// directory specification: relative values count as unset); `None` if neither is set.
#[must_use]
pub fn directory() -> Option<PathBuf> {
    let absolute =
        |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = absolute(std::env::var_os("XDG_CACHE_HOME"))
        .or_else(|| Some(absolute(std::env::var_os("HOME"))?.join(".cache")))?;
    Some(directory.join("fathom"))
}

fn file_in(directory: &Path, host: &Host) -> PathBuf {
    directory.join(format!("calibration-{}.json", machine::fingerprint(host)))
}

/// The stored calibration of this machine; `None` if none matches.
#[must_use]
pub fn load(host: &Host) -> Option<Calibration> {
    load_from(&path(host)?, host)
}

fn load_from(path: &Path, host: &Host) -> Option<Calibration> {
    let calibration = stored(path, host)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let age = now.saturating_sub(calibration.measured_unix);
    let lacks_nodes = host.memory_nodes().count() > 1 && calibration.node_pairs.is_empty();
    let outdated = calibration.disturbed && age > DISTURBED_LASTS;
    (!outdated && !lacks_nodes).then_some(calibration)
}

/// The last calibration of this machine, however busy it was then.
fn stored(path: &Path, host: &Host) -> Option<Calibration> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(LARGEST_FILE).read_to_end(&mut text).ok()?;
    let calibration: Calibration = serde_json::from_slice(&text).ok()?;
    let fits =
        calibration.version == VERSION && calibration.fingerprint == machine::fingerprint(host);
    fits.then_some(calibration)
}

/// Stores a fresh calibration and returns its path. Adds the earlier peaks first, and a note if its own is unlike
/// them.
///
/// # Errors
/// Those of the file system; `NotFound` if neither `XDG_CACHE_HOME` nor `HOME` is set. The calibration is still good:
/// without a cache it is measured again next time.
pub fn save(host: &Host, calibration: &mut Calibration) -> io::Result<PathBuf> {
    let path = path(host).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "neither XDG_CACHE_HOME nor HOME is an absolute path",
        )
    })?;
    if let Some(stored) = stored(&path, host) {
        history::follow(&stored, calibration);
    }
    save_to(&path, calibration)?;
    Ok(path)
}

fn save_to(path: &Path, calibration: &Calibration) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(calibration).map_err(io::Error::other)?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let temporary = path.with_extension(format!("json.{}.tmp", std::process::id()));
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(&text)?;
        // Before the rename, or a power cut may leave an empty file under the final name.
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // Nothing to do when that fails too: the caller learns of the first error.
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_without_pairs_of_nodes_is_not_of_a_machine_with_several() {
        let directory = directory("cache-nodes");
        let node = |id| facts::host::NumaNode {
            id,
            cpus: vec![id],
            memory_bytes: 1 << 30,
            distances: vec![10, 21],
        };
        let host = Host { numa_nodes: vec![node(0), node(1)], ..Host::default() };
        let path = file_in(&directory.0, &host);
        save_to(&path, &calibration(&host)).expect("temporary directory is writable");
        assert_eq!(load_from(&path, &host), None);
        let figure = || facts::Metric::unavailable("ns", "no right");
        let pair = facts::host::NodePair {
            from: 0,
            to: 1,
            latency: figure(),
            one_thread: figure(),
            all_threads: figure(),
            threads: 1,
            loaded: Vec::new(),
        };
        let whole = Calibration { node_pairs: vec![pair], ..calibration(&host) };
        save_to(&path, &whole).expect("temporary directory is writable");
        assert_eq!(load_from(&path, &host), Some(whole));
    }

    struct Directory(PathBuf);

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn directory(name: &str) -> Directory {
        Directory(std::env::temp_dir().join(format!("fathom-{name}-{}", std::process::id())))
    }

    fn calibration(host: &Host) -> Calibration {
        let metric = crate::statistics::median_metric(&[1.0, 0.1, 2.5], "ns");
        Calibration {
            version: VERSION,
            fingerprint: machine::fingerprint(host),
            dram_latency: Some(metric),
            ..Calibration::default()
        }
    }

    #[test]
    fn what_is_saved_is_loaded_and_nothing_else_lies_around() {
        let directory = directory("cache-round");
        let host = Host { cpu: "X".into(), ..Host::default() };
        let path = file_in(&directory.0, &host);
        save_to(&path, &calibration(&host)).expect("temporary directory is writable");
        assert_eq!(load_from(&path, &host), Some(calibration(&host)));
        assert_eq!(fs::read_dir(&directory.0).expect("exists").count(), 1);
    }

    #[test]
    fn other_versions_other_machines_and_damage_count_as_absent() {
        let directory = directory("cache-bad");
        let host = Host::default();
        let path = file_in(&directory.0, &host);
        assert_eq!(load_from(&path, &host), None, "no file");
        save_to(&path, &Calibration { version: VERSION + 1, ..calibration(&host) })
            .expect("writable");
        assert_eq!(load_from(&path, &host), None, "newer version");
        save_to(&path, &calibration(&Host { cpu: "other".into(), ..Host::default() }))
            .expect("writable");
        assert_eq!(load_from(&path, &host), None, "another machine");
        let long_ago = Calibration { measured_unix: 1, ..calibration(&host) };
        save_to(&path, &long_ago).expect("writable");
        assert_eq!(
            load_from(&path, &host).as_ref(),
            Some(&long_ago),
            "an idle machine's figures stay"
        );
        save_to(&path, &Calibration { disturbed: true, ..long_ago }).expect("writable");
        assert_eq!(load_from(&path, &host), None, "a busy machine's figures do not");
        save_to(&path, &calibration(&host)).expect("writable");
        let text = fs::read(&path).expect("just written");
        for length in 0..text.len() {
            fs::write(&path, &text[..length]).expect("writable");
            assert_eq!(load_from(&path, &host), None, "cut after {length} bytes");
        }
    }
}
