//! One line of `/proc/PID/maps` (format: `proc_pid_maps(5)`).

use base::{FileOffset, RemoteAddr};

/// A parsed line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapsLine<'a> {
    /// First address.
    pub start: RemoteAddr,
    /// First address behind it.
    pub end: RemoteAddr,
    /// Whether code may run there.
    pub executable: bool,
    /// Offset of `start` in the file.
    pub offset: FileOffset,
    /// Path or the kernel's word; empty for anonymous memory.
    pub name: &'a str,
}

/// Parses a line; `None` when it is none.
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
    let (range, permissions, offset, _device, _inode) =
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
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
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
                format!("{} {} {} {} {:?}", l.start, l.end, l.executable, l.offset, l.name)
            })
        };
        for (line, expected) in [
            (
                "55d0c0de1000-55d0c0de5000 r-xp 00001000 fe:00 131093                     /usr/bin/my program",
                Some("0x55d0c0de1000 0x55d0c0de5000 true 0x1000 \"/usr/bin/my program\""),
            ),
            ("7f00-7f10 rwxp 00000000 00:00 0 ", Some("0x7f00 0x7f10 true 0x0 \"\"")),
            ("7f00-7f10 r--p 00000000 00:00 0 [vvar]", Some("0x7f00 0x7f10 false 0x0 \"[vvar]\"")),
            ("7f10-7f00 r--p 00000000 00:00 0", None),
            ("", None),
            ("zz-yy r-xp 0 0 0", None),
        ] {
            assert_eq!(shown(line).as_deref(), expected, "{line}");
        }
    }
}
