//! Damaged and hostile files: no panic, no hang, no endless memory.
//!
//! Nothing here is timed; a hang is seen as a test that does not end. The whole takes a few seconds.

mod common;

use base::{FileOffset, RemoteAddr};
use common::{directory, offsets_in_section, offsets_of, tool};
use symbols::{Demangle, Elf, ModuleImage, PerfMap, Problem, check_debug_file, variables};

/// Deterministic numbers (xorshift64*, Vigna 2016), so that a failure repeats.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound as u64) as usize
    }
}

const PROGRAM: &str = "\
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int add(int *p, int i) { return p[i] + 1; }
static inline __attribute__((always_inline)) int twice(int *p, int i) { return add(p, i) + add(p, i + 1); }
int sum(int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += twice(p, i); return s; }
int main(void) { int *p = calloc(9, 4); printf(\"%d\\n\", sum(p, 8)); return 0; }
";

fn build(test: &str, flags: &[&str]) -> Vec<u8> {
    let place = directory(test);
    std::fs::write(place.join("program.c"), PROGRAM).unwrap();
    let mut words = vec!["cc", "-O1", "program.c", "-o", "program"];
    words.extend(flags);
    tool(&place, &words);
    std::fs::read(place.join("program")).unwrap()
}

/// Everything that this crate does with a file, for addresses all over it.
fn use_all(bytes: &[u8], debug: Option<&[u8]>, offsets: &[FileOffset]) -> usize {
    let Ok(main) = Elf::parse(bytes) else { return 0 };
    let _ = (main.build_id(), main.debug_link(), main.alternate_link());
    let debug = debug.and_then(|bytes| Elf::parse(bytes).ok());
    let _ = main.load_bias(RemoteAddr(0x7000), offsets.first().copied().unwrap_or_default());
    let found = variables(&main, debug.as_ref(), "m", Demangle::Yes, 100);
    assert!(found.list.len() <= 100 && found.list.iter().all(|variable| variable.bytes.0 > 0));
    if let Some(debug) = &debug {
        let _ = check_debug_file(&main, debug);
    }
    let alternate = Elf::parse(bytes).ok();
    let image = ModuleImage::new(main, debug, alternate);
    let table = image.symbol_table(Demangle::Yes);
    let named = offsets.iter().map(|offset| table.lookup(*offset).len()).sum();
    for offset in offsets {
        let _ = table.function_start(*offset);
    }
    for problem in table.problems() {
        let _ = problem.to_string();
    }
    named
}

fn interesting_offsets(bytes: &[u8]) -> Vec<FileOffset> {
    let mut offsets: Vec<_> =
        ["sum", "main"].into_iter().flat_map(|name| offsets_of(bytes, name)).step_by(3).collect();
    offsets.extend(offsets_in_section(bytes, ".plt").step_by(8).map(FileOffset));
    offsets.extend([0, 1, bytes.len() as u64, u64::MAX - 1, u64::MAX].map(FileOffset));
    offsets
}

/// Positions that matter: headers, debug sections, symbol tables; code and padding change nothing.
fn positions(bytes: &[u8]) -> Vec<usize> {
    use object::read::{Object as _, ObjectSection as _};
    let file = object::File::parse(bytes).unwrap();
    let code = [".text", ".rodata", ".comment"];
    let mut positions: Vec<usize> = (0..0x400).collect();
    for section in file.sections().filter(|section| !code.contains(&section.name().unwrap())) {
        if let Some((start, size)) = section.file_range() {
            positions.extend(start as usize..(start + size) as usize);
        }
    }
    // The section headers stand at the end.
    positions.extend(bytes.len() - 64 * file.sections().count()..bytes.len());
    positions
}

fn damage(bytes: &[u8], rounds: usize, numbers: &mut Numbers) {
    let positions = positions(bytes);
    let offsets = interesting_offsets(bytes);
    assert!(use_all(bytes, None, &offsets) > 10);
    for round in 0..rounds {
        let mut damaged = bytes.to_vec();
        for _ in 0..=round % 3 {
            let at = positions[numbers.below(positions.len())];
            damaged[at] = match numbers.below(4) {
                0 => 0,
                1 => 0xff,
                2 => damaged[at] ^ (1 << numbers.below(8)),
                _ => numbers.below(256) as u8,
            };
        }
        let _ = use_all(&damaged, None, &offsets);
    }
}

#[test]
fn flipped_bytes_neither_panic_nor_hang() {
    let mut numbers = Numbers(0x5eed);
    for (version, rounds) in [("-gdwarf-5", 4000), ("-gdwarf-4", 2000)] {
        damage(&build("flipped", &[version]), rounds, &mut numbers);
    }
}

#[test]
fn flipped_bytes_in_compressed_sections() {
    let mut numbers = Numbers(0xc0de);
    for format in ["zlib", "zstd"] {
        damage(
            &build(
                "flipped-compressed",
                &["-g", &format!("-Wl,--compress-debug-sections={format}")],
            ),
            600,
            &mut numbers,
        );
    }
}

/// Unwind information alone is damaged: what is found begins at or before the address.
#[test]
fn flipped_bytes_in_unwind_information() {
    let bytes = build("flipped-unwind", &["-g0"]);
    let offsets = interesting_offsets(&bytes);
    let section = offsets_in_section(&bytes, ".eh_frame");
    let mut numbers = Numbers(0xface);
    let mut found = 0;
    for _ in 0..4000 {
        let mut damaged = bytes.clone();
        for _ in 0..3 {
            let at = section.start as usize + numbers.below((section.end - section.start) as usize);
            damaged[at] = [0, 0xff, damaged[at] ^ (1 << numbers.below(8))][numbers.below(3)];
        }
        let image = ModuleImage::new(Elf::parse(&damaged).unwrap(), None, None);
        let table = image.symbol_table(Demangle::Yes);
        for offset in &offsets {
            let start = table.function_start(*offset);
            assert!(start.is_none_or(|start| start <= *offset), "{start:?} > {offset}");
            found += usize::from(start.is_some());
        }
    }
    assert!(found > 4000, "{found} found");
}

#[test]
fn truncated_files() {
    let bytes = build("truncated", &["-g"]);
    let offsets = interesting_offsets(&bytes);
    for length in (0..bytes.len()).step_by(37) {
        let _ = use_all(&bytes[..length], None, &offsets);
        let _ = use_all(&bytes, Some(&bytes[..length]), &offsets);
    }
}

/// Assembles hand-written DWARF and returns the problems that a look-up in `function` meets.
fn assembled(test: &str, source: &str) -> Vec<Problem> {
    let place = directory(test);
    std::fs::write(place.join("hostile.s"), source).unwrap();
    tool(&place, &["cc", "-shared", "-nostdlib", "hostile.s", "-o", "hostile.so"]);
    let bytes = std::fs::read(place.join("hostile.so")).unwrap();
    let image = ModuleImage::new(Elf::parse(&bytes).unwrap(), None, None);
    let table = image.symbol_table(Demangle::Yes);
    let frames = table.lookup(offsets_of(&bytes, "function")[1]);
    // The symbol table still answers.
    assert_eq!(common::shown(&frames), "function ?:?");
    table.problems()
}

const CODE: &str = "\
        .text
        .globl function
        .type function, @function
function: .fill 64, 1, 0x90
        .size function, 64
";

/// Two million inlined calls, each in the one before: a byte each, and a level of recursion each in the parser.
#[test]
fn endless_nesting_is_refused() {
    let dwarf = "
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0      # unit: low_pc, high_pc
        .byte 2, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0, 0      # subprogram: low_pc, high_pc
        .byte 3, 0x1d, 1, 0, 0                              # inlined call without attributes
        .byte 0
        .section .debug_info,\"\",@progbits
        .long end - begin
begin:  .value 4
        .long 0
        .byte 8
        .byte 1
        .quad function, 64
        .byte 2
        .quad function, 64
        .fill 2000000, 1, 3
end:
";
    let problems = assembled("nesting", &format!("{CODE}{dwarf}"));
    assert_eq!(problems, [Problem::Absurd { reason: "calls inlined into each other without end" }]);
}

/// Ten thousand units that share one list of a hundred thousand ranges: a billion ranges from 2 MB.
#[test]
fn shared_range_lists_are_refused() {
    let dwarf = "
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 0, 0x55, 0x17, 0, 0                  # unit: ranges
        .byte 0
        .section .debug_ranges,\"\",@progbits
        .rept 100000
        .quad 1, 2
        .endr
        .quad 0, 0
        .section .debug_info,\"\",@progbits
        .rept 10000
        .long 12
        .value 4
        .long 0
        .byte 8
        .byte 1
        .long 0
        .endr
";
    let problems = assembled("ranges", &format!("{CODE}{dwarf}"));
    assert_eq!(problems, [Problem::Absurd { reason: "more work than its size explains" }]);
}

/// A function whose name refers to itself.
#[test]
fn cyclic_references_end() {
    let dwarf = "
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0
        .byte 2, 0x2e, 0, 0x11, 0x01, 0x12, 0x07, 0x31, 0x13, 0, 0   # low_pc, high_pc, abstract_origin
        .byte 0
        .section .debug_info,\"\",@progbits
unit:   .long end - begin
begin:  .value 4
        .long 0
        .byte 8
        .byte 1
        .quad function, 64
self:   .byte 2
        .quad function, 64
        .long self - unit
        .byte 0
end:
";
    assert_eq!(assembled("cycle", &format!("{CODE}{dwarf}")), []);
}

/// A hundred thousand entries that share one description with a million letters: a hundred billion letters read
/// from 3 MB.
#[test]
fn shared_unwind_descriptions_are_refused() {
    let unwind = "
        .section .eh_frame,\"a\",@progbits
cie:    .long cie_end - cie_begin
cie_begin:
        .long 0
        .byte 1
        .ascii \"z\"
        .fill 1000000, 1, 0x53                              # S: the frame of a signal handler
        .byte 0, 1, 0x78, 16, 0                             # alignments, return address, no data
        .balign 4
cie_end:
        .rept 100000
        .long 24
1:      .long 1b - cie
        .quad function, 64
        .long 0
        .endr
        .long 0
";
    // The section keeps its name from the linker, which would not believe it.
    let unwind = unwind.replace(".eh_frame", ".eh_fraud");
    let place = directory("unwind");
    std::fs::write(place.join("hostile.s"), format!("{CODE}{unwind}")).unwrap();
    tool(&place, &["cc", "-c", "hostile.s", "-o", "hostile.o"]);
    tool(&place, &["ld", "-no-pie", "-e", "function", "hostile.o", "-o", "hostile"]);
    tool(&place, &["objcopy", "--rename-section", ".eh_fraud=.eh_frame", "hostile"]);
    let bytes = std::fs::read(place.join("hostile")).unwrap();
    let image = ModuleImage::new(Elf::parse(&bytes).unwrap(), None, None);
    let table = image.symbol_table(Demangle::Yes);
    let offsets = offsets_of(&bytes, "function");
    // What was read before the budget ended is used.
    assert_eq!(table.function_start(offsets[63]), Some(offsets[0]));
}

/// Some hundred bytes that say they unfold to 16 TiB.
#[test]
fn decompression_bombs_are_refused() {
    let mut bytes = build("bomb", &["-g", "-Wl,--compress-debug-sections=zlib"]);
    let header = offsets_in_section(&bytes, ".debug_info").start as usize;
    // Elf64_Chdr: type, reserved, then the size (gABI, "Section Compression").
    bytes[header + 8..header + 16].copy_from_slice(&(1_u64 << 44).to_le_bytes());
    let image = ModuleImage::new(Elf::parse(&bytes).unwrap(), None, None);
    let table = image.symbol_table(Demangle::Yes);
    assert_eq!(common::shown(&table.lookup(offsets_of(&bytes, "sum")[0])), "sum ?:?");
    let problems = table.problems();
    assert!(
        matches!(&problems[..], [Problem::Compressed { section: ".debug_info", .. }]),
        "{problems:?}"
    );
}

#[test]
fn noise_is_no_perf_map() {
    let mut numbers = Numbers(0xf00d);
    for _ in 0..200 {
        let text: Vec<u8> =
            (0..2000).map(|_| b"0123456789abcdefx  \n\n\xff"[numbers.below(22)]).collect();
        let map = PerfMap::parse(&text).unwrap();
        for _ in 0..50 {
            let _ = map.lookup(base::RemoteAddr(numbers.below(1 << 20) as u64), Demangle::Yes);
        }
    }
}
