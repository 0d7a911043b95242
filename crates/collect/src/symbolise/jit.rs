//! Finds `/tmp/perf-PID.map`, which JIT compilers write.
//!
//! What for: the process's own view of /tmp first (it may live in a container), then ours. What not: parsing
//! (`symbols::PerfMap`). Assumption: everybody can write to /tmp. A file there is trusted only if it belongs to the
//! process's user or to us. It is copied, not mapped, because its writer may shorten it at any moment.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base::Pid;
use symbols::PERF_MAP_LIMIT;

/// The map of process `pid`: where it was, and its text. The error is a sentence for the user.
pub(super) fn read_map(pid: Pid) -> Result<(PathBuf, Vec<u8>), String> {
    let inside = innermost_pid(pid).unwrap_or(pid);
    let places = [
        PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{inside}.map")),
        PathBuf::from(format!("/tmp/perf-{pid}.map")),
    ];
    let mut refusal = None;
    for place in places {
        match read(&place, pid) {
            Ok(bytes) => return Ok((place, bytes)),
            Err(Refused::Missing) => {}
            Err(Refused::Because(reason)) => {
                refusal = Some(format!("{}: {reason}", place.display()))
            }
        }
    }
    Err(refusal.unwrap_or_else(|| {
        format!(
            "code that process {pid} generated at run time cannot be named without /tmp/perf-{pid}.map; tell its \
             runtime to write it (node --perf-basic-prof, java -XX:+DumpPerfMapAtExit, python3 -X perf)"
        )
    }))
}

enum Refused {
    Missing,
    Because(String),
}

fn read(path: &Path, pid: Pid) -> Result<Vec<u8>, Refused> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Refused::Missing,
        _ => Refused::Because(error.to_string()),
    };
    // Examined before it is opened, because opening a FIFO waits for its writer; and compared after, because somebody
    // may have replaced it in between.
    let before = std::fs::symlink_metadata(path).map_err(unreadable)?;
    if !before.is_file() {
        return Err(Refused::Because("not a regular file".to_owned()));
    }
    let file = File::open(path).map_err(unreadable)?;
    let opened = file.metadata().map_err(unreadable)?;
    if (before.dev(), before.ino()) != (opened.dev(), opened.ino()) {
        return Err(Refused::Because("was replaced while it was opened".to_owned()));
    }
    let owner_of = |path: &str| std::fs::metadata(path).map(|metadata| metadata.uid()).ok();
    let believed = [owner_of("/proc/self"), owner_of(&format!("/proc/{pid}"))];
    if !believed.contains(&Some(opened.uid())) {
        return Err(Refused::Because(format!(
            "belongs to user {}, who is neither the program's nor ours",
            opened.uid()
        )));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed, so that the parser can tell "too large".
    file.take(PERF_MAP_LIMIT.0 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// The pid in the process's own name space: the last one in the line `NSpid` (proc_pid_status(5)).
fn innermost_pid(pid: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok().map(Pid)
}
