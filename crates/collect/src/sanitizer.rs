//! Programs that are built with a sanitizer: their runtime wants to be the first library of the process and ends it
//! otherwise ("ASan runtime does not come first in initial library list"), so nothing is preloaded into them.
//!
//! What not: programs that such a program starts, or that a script does; they are not known before. Runtimes that are
//! linked into the program have their own `malloc` there, which comes before every library's, and do not mind.

use std::path::Path;

use object::read::{Object as _, ObjectSection as _};
use sys::map::FileMap;

/// The libraries of gcc and clang that replace the allocator (gcc's manual, "Program Instrumentation Options").
const RUNTIMES: [&[u8]; 5] =
    [b"libasan.so", b"libtsan.so", b"liblsan.so", b"libhwasan.so", b"libclang_rt."];

/// Whether the program names such a library. What cannot be read, or is a script, does not.
#[must_use]
pub fn has_sanitizer(program: &Path) -> bool {
    FileMap::open(program).is_ok_and(|bytes| names_runtime(&bytes))
}

fn names_runtime(bytes: &[u8]) -> bool {
    let Ok(elf) = object::File::parse(bytes) else { return false };
    let Some(strings) = elf.section_by_name(".dynstr") else { return false };
    let Ok(strings) = strings.data() else { return false };
    let mut names = strings.split(|byte| *byte == 0);
    names.any(|name| RUNTIMES.iter().any(|runtime| name.starts_with(runtime)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_programs_have_none() {
        let own = std::env::current_exe().unwrap();
        assert!(!has_sanitizer(&own));
        assert!(!has_sanitizer(Path::new("/nonexistent")));
        assert!(!names_runtime(b"#!/bin/sh\n# libasan.so"));
    }
}
