//! Whether a program tolerates a preloaded library.
//!
//! What for: a preloaded library must not change how a program runs. It would in a program built with a sanitizer,
//! whose runtime ends the process unless it is the first library ("ASan runtime does not come first in initial
//! library list"), and with another C library, whose loader does not find what ours needs.
//!
//! What not: programs that this one starts, or that a script starts; they are not known before. A sanitizer that is
//! linked into the program has its own `malloc` there, which comes before that of every library, and does not mind.

use std::path::Path;

use object::read::{Object as _, ObjectSection as _};
use sys::map::FileMap;

/// The libraries of gcc and clang that replace the allocator (gcc's manual, "Program Instrumentation Options").
const SANITIZERS: [&[u8]; 5] =
    [b"libasan.so", b"libtsan.so", b"liblsan.so", b"libhwasan.so", b"libclang_rt."];

/// Why a program tolerates no library of ours, as a clause. A file that cannot be read, and a script, are assumed to
/// tolerate one.
#[must_use]
pub fn obstacle(program: &Path) -> Option<&'static str> {
    FileMap::open(program).ok().and_then(|bytes| obstacle_in(&bytes))
}

/// Whether a library's file name is one of those.
pub(crate) fn is_sanitizer(name: &[u8]) -> bool {
    SANITIZERS.iter().any(|library| name.starts_with(library))
}

/// Whether a program names a library that it is linked with, by its file name. A script names none.
#[must_use]
pub fn names_library(program: &Path, is_it: impl Fn(&[u8]) -> bool) -> bool {
    FileMap::open(program).is_ok_and(|bytes| {
        let elf = object::File::parse(&*bytes).ok();
        let names = elf.as_ref().and_then(|elf| elf.section_by_name(".dynstr")?.data().ok());
        names.is_some_and(|names| names.split(|byte| *byte == 0).any(is_it))
    })
}

fn obstacle_in(bytes: &[u8]) -> Option<&'static str> {
    let elf = object::File::parse(bytes).ok()?;
    let section = |name| elf.section_by_name(name).and_then(|section| section.data().ok());
    // The path of its loader (System V gABI, "Program Interpreter").
    if section(".interp").is_some_and(|path| path.windows(8).any(|part| part == b"/ld-musl")) {
        return Some("the program uses musl, and the library to preload needs glibc");
    }
    let mut names = section(".dynstr")?.split(|byte| *byte == 0);
    names.any(is_sanitizer).then_some(
        "the program is built with a sanitizer, which tolerates no library in front of its own",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_programs_have_none() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(obstacle(&own), None);
        assert_eq!(obstacle(Path::new("/nonexistent")), None);
        assert_eq!(obstacle_in(b"#!/bin/sh\n# libasan.so"), None);
    }

    #[test]
    fn a_program_that_names_a_sanitizer_or_another_loader_has_one() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let with = |from: &[u8], to: &[u8]| {
            let mut bytes = own.clone();
            let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
            bytes[at..at + to.len()].copy_from_slice(to);
            obstacle_in(&bytes)
        };
        assert!(with(b"/ld-linux", b"/ld-musl-").is_some_and(|why| why.contains("musl")));
        // The names of libraries are in the same string table as those of functions.
        let long = b"\0__cxa_thread_atexit_impl\0";
        assert!(with(long, b"\0libasan.so").is_some_and(|why| why.contains("sanitizer")));
    }
}
