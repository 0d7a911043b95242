//! `/proc/PID/maps`: the mappings of a process (format: `proc_pid_maps(5)`).
//!
//! What not: what a mapping is for (`collect::regions`).

use base::{FileOffset, Pid, RemoteAddr};

/// A parsed line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapsLine<'a> {
    /// First address.
    pub start: RemoteAddr,
    /// First address after it.
    pub end: RemoteAddr,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether code may run there.
    pub executable: bool,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether other processes that map it see what is written.
    pub shared: bool,
    /// The file's inode; 0 where there is no file.
    pub inode: u64,
    /// Offset of `start` in the file.
    pub offset: FileOffset,
    /// Path or the kernel's name; empty for anonymous memory.
    pub name: &'a str,
}

/// The text of a process's maps; empty when it is gone.
#[must_use]
pub fn read(pid: Pid) -> String {
    // If the main thread has ended, its own file is empty; that of any other thread shows the same memory.
    let text = crate::threads_of(pid)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|tid| std::fs::read(format!("/proc/{pid}/task/{tid}/maps")).ok())
        .find(|text| !text.is_empty())
        .unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Parses a line; `None` if it is malformed.
#[must_use]
pub fn parse_line(line: &str) -> Option<MapsLine<'_>> {
    // start-end perms offset dev inode            name (which may hold spaces)
    let mut rest = line;
    let mut field = || {
        rest = rest.trim_start_matches(' ');
        let (field, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        field
    };
    let (range, permissions, offset, _device, inode) =
        (field(), field(), field(), field(), field());
    let (start, end) = range.split_once('-')?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (RemoteAddr(hexadecimal(start)?), RemoteAddr(hexadecimal(end)?));
    if start >= end {
        return None;
    }
    Some(MapsLine {
        start,
        end,
        readable: permissions.as_bytes().first() == Some(&b'r'),
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        writable: permissions.as_bytes().get(1) == Some(&b'w'),
        shared: permissions.as_bytes().get(3) == Some(&b's'),
        inode: inode.parse().unwrap_or(0),
        offset: FileOffset(hexadecimal(offset)?),
        name: rest.trim_start_matches(' '),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds() {
        let shown = |line| {
            parse_line(line).map(|l| {
                let (x, w) = (l.executable, l.writable);
                format!("{} {} {x} {w} {} {} {:?}", l.start, l.end, l.offset, l.inode, l.name)
            })
        };
        for (line, expected) in [
            (
                "55d0c0de1000-55d0c0de5000 r-xp 00001000 fe:00 131093                     /usr/bin/my program",
                Some(
                    "0x55d0c0de1000 0x55d0c0de5000 true false 0x1000 131093 \"/usr/bin/my program\"",
                ),
            ),
            ("7f00-7f10 rwxp 00000000 00:00 0 ", Some("0x7f00 0x7f10 true true 0x0 0 \"\"")),
            (
                "7f00-7f10 r--p 00000000 00:00 0 [vvar]",
                Some("0x7f00 0x7f10 false false 0x0 0 \"[vvar]\""),
            ),
            ("7f10-7f00 r--p 00000000 00:00 0", None),
            ("", None),
            ("zz-yy r-xp 0 0 0", None),
        ] {
            assert_eq!(shown(line).as_deref(), expected, "{line}");
        }
    }
}
