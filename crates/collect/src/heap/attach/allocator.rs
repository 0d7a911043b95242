//! The functions whose calls are redirected, and the redirection targets.
//!
//! What for: the process may use the C library's allocator or another one, and its address space decides at which
//! addresses the agent is reachable. What not: changing anything.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;

use base::{Pid, RemoteAddr};
use tracee::maps;

use super::loaded::Loaded;
use super::{NoHeap, read_word};
use crate::preload::is_sanitizer;

/// The C library's functions that map memory, whichever library allocates.
pub const MAPPING: [&str; 4] = ["mmap", "mmap64", "munmap", "mremap"];
/// Redirected too, so that the agent drops its rules for code that is unloaded.
const CLOSING: &str = "dlclose";
/// The byte of an address that is changed: values of it are 4 GiB apart.
pub const BYTE: u32 = 4;
const PAGE: u64 = 4096;

/// The page that holds an address.
pub fn page_of(address: RemoteAddr) -> RemoteAddr {
    RemoteAddr(address.0 & !(PAGE - 1))
}

/// Whether a file is glibc's.
pub fn is_c_library(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    file.starts_with("libc.so") || file.starts_with("libc-2.")
}

/// The C library among the files of a process.
pub fn c_library(files: &[Loaded]) -> Result<&Loaded, NoHeap> {
    if files.iter().any(|file| file.name.contains("/ld-musl")) {
        return Err(NoHeap::Process("the program uses musl, and the agent needs glibc"));
    }
    files.iter().find(|file| is_c_library(&file.name)).ok_or(NoHeap::Process(
        "the program is linked statically or has no C library: its allocator is in its own file",
    ))
}

/// Where agents are mapped.
pub fn agents(pid: Pid) -> Vec<Range<RemoteAddr>> {
    let text = maps::read(pid);
    let lines = text.lines().filter_map(maps::parse_line);
    lines
        .filter(|line| line.executable && crate::recorder::is_our_agent(line.name))
        .map(|line| line.start..line.end)
        .collect()
}

/// Whether a word leads to an agent that a killed recording left behind.
pub fn is_former(value: RemoteAddr, real: RemoteAddr, former: &[Range<RemoteAddr>]) -> bool {
    (value.0 ^ real.0) & !(0xff << (8 * BYTE)) == 0
        && former.iter().any(|range| range.contains(&value))
}

/// The functions to redirect: those of the library whose `malloc` or `free` the files' words hold.
pub fn functions(
    memory: &File,
    pid: Pid,
    files: &[Loaded],
    library: &Loaded,
    wanted: &[&str],
    former: &[Range<RemoteAddr>],
) -> Result<HashMap<String, RemoteAddr>, NoHeap> {
    let mut system = library.defined(wanted);
    let usual = ["malloc", "free"];
    let words = files.iter().flat_map(|file| file.imports(&usual));
    let held: Vec<RemoteAddr> = words.filter_map(|import| read_word(memory, import.at)).collect();
    let holds =
        |at: &RemoteAddr| held.iter().any(|value| value == at || is_former(*value, *at, former));
    let is_called = |defined: &HashMap<String, RemoteAddr>| {
        usual.iter().filter_map(|name| defined.get(*name)).any(holds)
    };
    let mut allocators: Vec<(&Loaded, HashMap<String, RemoteAddr>)> =
        files.iter().map(|file| (file, file.defined(wanted))).collect();
    allocators.retain(|(_, defined)| is_called(defined));
    let [(file, defined)] = &*allocators else {
        let why = if allocators.is_empty() {
            "no call of the C library's allocator was made through a library so far"
        } else {
            "it uses several allocators at once"
        };
        return Err(NoHeap::Process(why));
    };
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    if program.to_string_lossy() == file.name.as_str() {
        return Err(NoHeap::Process("the program brings an allocator of its own in its file"));
    }
    if crate::recorder::is_our_agent(&file.name) {
        return Err(NoHeap::Process("the agent was preloaded into it when it was started"));
    }
    if is_sanitizer(file.name.rsplit('/').next().unwrap_or_default().as_bytes()) {
        return Err(NoHeap::Process("the program is built with a sanitizer"));
    }
    system.retain(|name, _| name == CLOSING || MAPPING.contains(&name.as_str()));
    let own = defined
        .iter()
        .filter(|(name, _)| name.as_str() != CLOSING && !MAPPING.contains(&name.as_str()));
    Ok(own.map(|(name, at)| (name.clone(), *at)).chain(system).collect())
}

/// The bits of an address to flip, such that all resulting addresses are free and far from growing mappings.
pub fn free_distance(pid: Pid, functions: impl Iterator<Item = RemoteAddr>) -> Option<u64> {
    // The jump needs a page that no growing mapping will ask for: 4 GiB of room, else 64 MiB. Nothing below 64 MiB
    // (vm.mmap_min_addr, static programs), nothing above user space.
    const FAR: u64 = 1 << 32;
    const NEAR: u64 = 64 << 20;
    const END: u64 = 1 << 47;
    let pages: BTreeSet<RemoteAddr> = functions.map(page_of).collect();
    let text = maps::read(pid);
    let mapped: Vec<(u64, u64)> =
        text.lines().filter_map(maps::parse_line).map(|line| (line.start.0, line.end.0)).collect();
    let is_free = |flip: u64, margin: u64| {
        pages.iter().all(|page| {
            let at = page.0 ^ flip;
            let (low, high) = (at.saturating_sub(margin), at + PAGE + margin);
            at > NEAR && at < END && mapped.iter().all(|(start, end)| *end <= low || high <= *start)
        })
    };
    let flips = || (1..=0xff_u64).rev().map(|bits| bits << (8 * BYTE));
    flips().find(|flip| is_free(*flip, FAR)).or_else(|| flips().find(|flip| is_free(*flip, NEAR)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_agent_is_known_by_its_mapping_and_the_distance() {
        let real = RemoteAddr(0x7f12_3456_7890);
        let former = [RemoteAddr(0x7fed_3456_7000)..RemoteAddr(0x7fed_3456_8000)];
        assert!(is_former(RemoteAddr(0x7fed_3456_7890), real, &former));
        assert!(!is_former(RemoteAddr(0x7fed_3456_7880), real, &former), "another function");
        assert!(!is_former(RemoteAddr(0x7fee_3456_7890), real, &former), "nothing of ours");
        assert!(!is_former(real, real, &former), "no agent there");
    }

    #[test]
    fn a_free_distance_is_one_byte_and_free() {
        let own = Pid(std::process::id().cast_signed());
        let function = RemoteAddr(a_free_distance_is_one_byte_and_free as *const () as u64);
        let flip = free_distance(own, [function].into_iter()).unwrap();
        assert_eq!(flip & !(0xff << 32), 0);
        let lead = RemoteAddr(function.0 ^ flip);
        let text = maps::read(own);
        let mut lines = text.lines().filter_map(maps::parse_line);
        assert!(lines.all(|line| lead < line.start || line.end <= lead));
    }
}
