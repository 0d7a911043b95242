//! Known answers on files that the system's compiler and binutils make.

mod common;

use std::path::Path;

use base::{FileOffset, RemoteAddr};
use common::{answers, directory, offsets_in_section, offsets_of, shown, tool};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use symbols::{
    Demangle, Elf, ModuleImage, Problem, SourceFrame, alternate_file_candidates,
    check_alternate_file, check_debug_file, variables,
};

/// Two levels of inlining, with known lines, and a call through the PLT.
const NESTED: &str = "\
#include <stdlib.h>
static inline __attribute__((always_inline)) double innermost(double *p, long i) {
    return p[i] * 3.0;
}
static inline __attribute__((always_inline)) double middle(double *p, long i) {
    return innermost(p, i) + 1.0;
}
__attribute__((noinline)) double outer(double *p, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += middle(p, i);
    return sum;
}
int main(void) {
    double *p = calloc(100, 8);
    return (int)outer(p, 100);
}
";

const INLINED_TWICE: &str =
    "innermost nested.c:3 (inlined) < middle nested.c:6 (inlined) < outer nested.c:11";

fn build(test: &str, flags: &[&str]) -> (std::path::PathBuf, Vec<u8>) {
    let place = directory(test);
    std::fs::write(place.join("nested.c"), NESTED).unwrap();
    let mut words = vec!["cc", "-O1", "nested.c", "-o", "nested"];
    words.extend(flags);
    tool(&place, &words);
    let bytes = std::fs::read(place.join("nested")).unwrap();
    (place, bytes)
}

fn problems(main: &[u8], offset: FileOffset) -> Vec<Problem> {
    let image = ModuleImage::new(Elf::parse(main).unwrap(), None, None);
    let table = image.symbol_table(Demangle::Yes);
    let _ = table.lookup(offset);
    table.problems()
}

#[test]
fn inlined_calls_are_rows_with_call_sites() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let (_, bytes) = build("inlined", &[version]);
        let offsets = offsets_of(&bytes, "outer");
        let found = answers(&bytes, None, &offsets);
        assert!(found.iter().any(|answer| answer == INLINED_TWICE), "{version}: {found:#?}");
        assert!(found.iter().all(|answer| answer.contains("outer nested.c:")), "{found:#?}");
        assert_eq!(problems(&bytes, offsets[0]), []);
    }
}

#[test]
fn file_offsets_differ_from_addresses_without_pie() {
    let (_, bytes) = build("no-pie", &["-g", "-no-pie"]);
    let found = answers(&bytes, None, &offsets_of(&bytes, "outer"));
    assert!(found.iter().any(|answer| answer == INLINED_TWICE), "{found:#?}");
    // Nothing is loaded from behind the end of the file.
    assert_eq!(
        answers(&bytes, None, &[FileOffset(bytes.len() as u64), FileOffset(u64::MAX)]),
        [""]
    );
}

#[test]
fn compressed_sections_give_the_same_answers() {
    let (place, plain) = build("compressed", &["-g"]);
    let expected = answers(&plain, None, &offsets_of(&plain, "outer"));
    for format in ["zlib", "zlib-gnu", "zstd"] {
        tool(
            &place,
            &["objcopy", &format!("--compress-debug-sections={format}"), "nested", format],
        );
        let bytes = std::fs::read(place.join(format)).unwrap();
        assert_eq!(answers(&bytes, None, &offsets_of(&bytes, "outer")), expected, "{format}");
    }
}

#[test]
fn separate_debug_files_are_checked_and_used() {
    for build_id in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let (place, plain) = build("separate", &["-g", build_id]);
        let offsets = offsets_of(&plain, "outer");
        let expected = answers(&plain, None, &offsets);
        tool(&place, &["objcopy", "--only-keep-debug", "nested", "nested.debug"]);
        tool(&place, &["strip", "nested"]);
        tool(&place, &["objcopy", "--add-gnu-debuglink=nested.debug", "nested"]);
        let main = std::fs::read(place.join("nested")).unwrap();
        let mut debug = std::fs::read(place.join("nested.debug")).unwrap();
        let main_elf = Elf::parse(&main).unwrap();
        assert!(!main_elf.has_debug_information());
        assert_eq!(main_elf.build_id().is_some(), build_id == "-Wl,--build-id");
        assert_eq!(main_elf.debug_link().unwrap().name, "nested.debug");
        check_debug_file(&main_elf, &Elf::parse(&debug).unwrap()).unwrap();
        assert_eq!(answers(&main, Some(&debug), &offsets), expected);

        // Another build: the last byte of the section headers or of a string table differs.
        let last = debug.len() - 1;
        debug[last] ^= 1;
        let unchanged_id = check_debug_file(&main_elf, &Elf::parse(&debug).unwrap());
        assert_eq!(unchanged_id.is_ok(), build_id == "-Wl,--build-id");
        let other = Elf::parse(&plain).unwrap();
        let own = check_debug_file(&other, &Elf::parse(&main).unwrap());
        assert_eq!(own.is_ok(), build_id == "-Wl,--build-id");
    }
}

#[test]
fn symbol_tables_stand_in_for_debug_information() {
    let (place, bytes) = build("symbols-only", &["-g0"]);
    let offsets = offsets_of(&bytes, "outer");
    assert_eq!(answers(&bytes, None, &offsets), ["outer ?:?"]);
    assert_eq!(problems(&bytes, offsets[0]), [Problem::SymbolTableOnly]);

    tool(&place, &["strip", "nested", "-o", "stripped"]);
    let stripped = std::fs::read(place.join("stripped")).unwrap();
    assert_eq!(answers(&stripped, None, &offsets), [""]);
    assert_eq!(problems(&stripped, offsets[0]), [Problem::NoSymbols]);

    tool(&place, &["cc", "-g0", "-O1", "-shared", "-fPIC", "nested.c", "-o", "library.so"]);
    let library = std::fs::read(place.join("library.so")).unwrap();
    let offsets = offsets_of(&library, "outer");
    tool(&place, &["strip", "library.so"]);
    let library = std::fs::read(place.join("library.so")).unwrap();
    assert_eq!(answers(&library, None, &offsets), ["outer ?:?"]);
    assert_eq!(problems(&library, offsets[0]), [Problem::ExportedSymbolsOnly]);
}

/// All bytes of a function without a name have one start: where the symbol was before it was stripped.
#[test]
fn functions_of_stripped_files_begin_where_their_symbols_did() {
    for flag in ["-Wl,--eh-frame-hdr", "-Wl,--no-eh-frame-hdr", "-no-pie"] {
        let (place, bytes) = build("stripped", &["-g", flag]);
        tool(&place, &["strip", "nested"]);
        let stripped = std::fs::read(place.join("nested")).unwrap();
        let image = ModuleImage::new(Elf::parse(&stripped).unwrap(), None, None);
        let table = image.symbol_table(Demangle::Yes);
        for name in ["outer", "main"] {
            let offsets = offsets_of(&bytes, name);
            assert!(offsets.len() > 10);
            for offset in &offsets {
                assert_eq!(table.lookup(*offset), []);
                assert_eq!(table.function_start(*offset), Some(offsets[0]), "{flag} {name}");
            }
        }
        for nowhere in [0, stripped.len() as u64, u64::MAX] {
            assert_eq!(table.function_start(FileOffset(nowhere)), None);
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn stubs_are_named_after_their_target() {
    let variants: [&[&str]; 3] =
        [&["-Wl,-z,lazy"], &["-fcf-protection=full", "-Wl,-z,ibtplt"], &["-Wl,-z,now"]];
    for flags in variants {
        let (_, bytes) = build("stubs", flags);
        let found: Vec<_> = [".plt", ".plt.sec", ".plt.got"]
            .into_iter()
            .filter(|name| object::File::parse(&*bytes).unwrap().section_by_name(name).is_some())
            .flat_map(|name| {
                answers(
                    &bytes,
                    None,
                    &offsets_in_section(&bytes, name).map(FileOffset).collect::<Vec<_>>(),
                )
            })
            .collect();
        assert!(found.iter().any(|answer| answer == "calloc@plt ?:?"), "{flags:?}: {found:?}");
        assert!(
            found.iter().all(|answer| answer.is_empty() || answer.contains("@plt")),
            "{flags:?}: {found:?}"
        );
    }
}

#[test]
fn split_debug_information_is_a_problem_with_lines() {
    let (_, bytes) = build("split", &["-g", "-gsplit-dwarf"]);
    let offsets = offsets_of(&bytes, "outer");
    let found = answers(&bytes, None, &offsets);
    assert!(found.iter().any(|answer| answer == "outer nested.c:11"), "{found:?}");
    let problems = problems(&bytes, offsets[0]);
    assert!(
        matches!(&problems[..], [Problem::SplitDebugInformation { example }] if example.ends_with(".dwo")),
        "{problems:?}"
    );
}

#[test]
fn c_plus_plus_names_are_demangled() {
    let place = directory("c++");
    let source = "\
#include <vector>
namespace solver {
template <class T> struct Grid {
    std::vector<T> cells;
    __attribute__((noinline)) T sum() { T s = 0; for (auto &c : cells) s += c; return s; }
};
}
int main(int argc, char **) { solver::Grid<double> g; g.cells.resize(argc); return (int)g.sum(); }
";
    std::fs::write(place.join("grid.cc"), source).unwrap();
    tool(&place, &["c++", "-g", "-O2", "grid.cc", "-o", "grid"]);
    let bytes = std::fs::read(place.join("grid")).unwrap();
    let found = answers(&bytes, None, &offsets_of(&bytes, "_ZN6solver4GridIdE3sumEv"));
    assert!(
        found.iter().any(|answer| answer.ends_with("solver::Grid<double>::sum() grid.cc:5")),
        "{found:#?}"
    );
    assert!(
        found.iter().any(|answer| answer
            .contains("std::vector<double, std::allocator<double> >::begin() stl_vector.h:")),
        "{found:#?}"
    );
}

/// A function of this test program, to be found under its own name.
#[inline(never)]
fn collatz_steps(mut number: u64) -> u64 {
    let mut steps = 0;
    while number != 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

#[test]
fn rust_names_are_demangled() {
    assert_eq!(std::hint::black_box(collatz_steps)(27), 111);
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let name = file
        .symbols()
        .filter_map(|symbol| symbol.name().ok())
        .find(|name| name.contains("collatz_steps"));
    let found = answers(&bytes, None, &offsets_of(&bytes, name.unwrap()));
    let expected = "real_files::collatz_steps real_files.rs:";
    assert!(found.iter().all(|answer| answer.contains(expected)), "{found:#?}");
}

/// Distributions move what several debug files share into one (`dwz -m`); names of inlined functions are then there.
#[test]
fn shared_debug_files_are_checked_and_used() {
    if std::process::Command::new("dwz").arg("--version").output().is_err() {
        eprintln!("skipped: dwz is missing (Debian: dwz)");
        return;
    }
    let place = directory("shared");
    let header = "static inline __attribute__((always_inline)) double shared_by_both(double *values_of_it, long index_of_it) \
                  {\n    double long_name_of_a_local = values_of_it[index_of_it];\n    return long_name_of_a_local * 3.0;\n}\n";
    std::fs::write(place.join("shared.h"), header).unwrap();
    for name in ["one", "two"] {
        let source = format!(
            "#include \"shared.h\"\ndouble {name}(double *p) {{\n    return shared_by_both(p, 5);\n}}\n"
        );
        std::fs::write(place.join(format!("{name}.c")), source).unwrap();
        let (file, output) = (format!("{name}.c"), format!("{name}.so"));
        tool(&place, &["cc", "-g", "-O2", "-gdwarf-4", "-shared", "-fPIC", &file, "-o", &output]);
    }
    tool(&place, &["dwz", "-m", "common.debug", "one.so", "two.so"]);
    let main = std::fs::read(place.join("one.so")).unwrap();
    let elf = Elf::parse(&main).unwrap();
    let link = elf.alternate_link().expect("a link to common.debug");
    let places = alternate_file_candidates(&place.join("one.so"), &link, &[]);
    let common = std::fs::read(&places[0]).unwrap();
    let alternate = Elf::parse(&common).unwrap();
    check_alternate_file(&link, &alternate).unwrap();
    check_alternate_file(&link, &elf).unwrap_err();

    let offsets = offsets_of(&main, "one");
    let image = ModuleImage::new(elf, None, Some(alternate));
    let table = image.symbol_table(Demangle::Yes);
    let found: Vec<_> = offsets.iter().map(|offset| shown(&table.lookup(*offset))).collect();
    let expected = "shared_by_both shared.h:3 (inlined) < one one.c:3";
    assert!(found.iter().any(|answer| answer == expected), "{found:#?}");
    assert_eq!(table.problems(), []);

    // Without the common file the inlined function has no name; its caller stands for it.
    assert!(answers(&main, None, &offsets).iter().all(|answer| answer.starts_with("one one.c:")));
    let missing = problems(&main, offsets[0]);
    assert!(matches!(&missing[..], [Problem::AlternateMissing { .. }]), "{missing:?}");
}

/// Recipe R1: the hottest function is a static inline function of a library's header.
#[test]
fn pmemobj_direct_inline_is_a_row_of_its_own() {
    if !Path::new("/usr/include/libpmemobj.h").exists() {
        eprintln!("skipped: /usr/include/libpmemobj.h is missing (Debian: libpmemobj-dev)");
        return;
    }
    let place = directory("pmemobj");
    let source = "\
#include <libpmemobj.h>
POBJ_LAYOUT_BEGIN(triad);
POBJ_LAYOUT_TOID(triad, int);
POBJ_LAYOUT_END(triad);
__attribute__((noinline)) void triad(TOID(int) a, TOID(int) b, TOID(int) c, long n) {
    for (long i = 0; i < n; i++)
        D_RW(c)[i] = 3 * D_RO(a)[i] + D_RO(b)[i];
}
";
    std::fs::write(place.join("triad.c"), source).unwrap();
    tool(&place, &["cc", "-O2", "-g", "-shared", "-fPIC", "triad.c", "-o", "triad.so"]);
    let bytes = std::fs::read(place.join("triad.so")).unwrap();
    let image = ModuleImage::new(Elf::parse(&bytes).unwrap(), None, None);
    let table = image.symbol_table(Demangle::Yes);
    let frames: Vec<Vec<SourceFrame>> =
        offsets_of(&bytes, "triad").into_iter().map(|offset| table.lookup(offset)).collect();
    let inlined: Vec<_> =
        frames.iter().filter(|f| f[0].function == "pmemobj_direct_inline").collect();
    assert!(!inlined.is_empty(), "{:#?}", frames.iter().map(|f| shown(f)).collect::<Vec<_>>());
    // The body of the function in the header, by its own text.
    let header = std::fs::read_to_string("/usr/include/libpmemobj/base.h").unwrap();
    let first =
        1 + header.lines().position(|line| line.starts_with("pmemobj_direct_inline(")).unwrap();
    let length = header.lines().skip(first).position(|line| line == "}").unwrap();
    for frames in inlined {
        let [header_row, caller] = &frames[..] else { panic!("{}", shown(frames)) };
        assert!(header_row.inlined);
        assert_eq!(header_row.file.as_deref(), Some("/usr/include/libpmemobj/base.h"));
        let line = header_row.line.unwrap() as usize;
        assert!((first..=first + length + 1).contains(&line), "line {line}");
        assert_eq!(shown(std::slice::from_ref(caller)), "triad triad.c:7");
    }
}

/// The budget against absurd input leaves real programs alone: reading all that this test program has, entry by
/// entry, stays a factor of five below it.
#[test]
fn a_whole_program_stays_far_below_its_budget() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let image = ModuleImage::new(Elf::parse(&bytes).unwrap(), None, None);
    let before = image.reads_left();
    let table = image.symbol_table(Demangle::Yes);
    let mut named = 0;
    for offset in offsets_in_section(&bytes, ".text").step_by(16) {
        named += usize::from(!table.lookup(FileOffset(offset)).is_empty());
    }
    let used = before - image.reads_left();
    eprintln!("{named} addresses named, {used} of {before} reads used");
    assert!(named > 1000);
    assert_eq!(table.problems(), []);
    assert!(used < before / 5, "{used} of {before} reads used");
}

const DATA: &str = "\
#include <stdio.h>
int initialised[1000] = {1};
static char own_zeroes[1 << 20];
const double own_constants[64] = {1.0};
_Thread_local int per_thread[100];
namespace space { int inside[50]; }
int count() { static long calls[20]; own_zeroes[calls[0]++]++; return (int)own_zeroes[calls[0]] + per_thread[0]; }
int main() { printf(\"%d %p\\n\", count() + initialised[0], (void *)own_constants); return space::inside[3]; }
";

/// Where the file says that a variable lies, its size and name; with the module where its addresses say.
fn data_of(test: &str, flags: &[&str]) -> Vec<(u64, u64, String)> {
    let place = directory(test);
    std::fs::write(place.join("data.cpp"), DATA.replace("_Thread_local", "thread_local")).unwrap();
    let mut words = vec!["c++", "-O1", "data.cpp", "-o", "data"];
    words.extend(flags);
    tool(&place, &words);
    let bytes = std::fs::read(place.join("data")).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let (offset, _) = text.file_range().unwrap();
    let page = offset & !0xfff;
    let moved =
        elf.load_bias(RemoteAddr(text.address() - (offset - page)), FileOffset(page)).unwrap();
    let found = variables(&elf, None, "data", Demangle::Yes, 10_000);
    assert_eq!(found.left_out, 0);
    let mut last = 0;
    let shown = found.list.into_iter().map(|variable| {
        let address = variable.address(moved).0;
        assert!(address >= last);
        last = address + variable.bytes.0;
        (address, variable.bytes.0, variable.name)
    });
    shown.collect()
}

#[test]
fn variables_have_their_place_size_and_name() {
    for flags in [&[][..], &["-no-pie"], &["-static"]] {
        let found = data_of("variables", flags);
        let size = |name: &str| found.iter().find(|row| row.2 == name).map(|row| row.1);
        assert_eq!(size("initialised"), Some(4000), "{flags:?}");
        assert_eq!(size("own_zeroes"), Some(1 << 20));
        assert_eq!(size("own_constants"), Some(512));
        assert_eq!(size("space::inside"), Some(200));
        assert_eq!(size("count()::calls"), Some(160));
        assert_eq!(size("per_thread"), None);
    }
}

#[test]
fn data_of_a_stripped_file_is_named_by_its_section() {
    let found = data_of("variables-stripped", &["-s"]);
    let size = |name: &str| found.iter().filter(|row| row.2 == name).map(|row| row.1).sum::<u64>();
    assert!(size("[.bss of data]") >= (1 << 20) + 360, "{found:?}");
    assert!((4000..5000).contains(&size("[.data of data]")), "{found:?}");
    assert!(size("[.rodata of data]") >= 512, "{found:?}");
}

#[test]
fn the_largest_variables_are_taken() {
    let place = directory("variables-bounded");
    std::fs::write(
        place.join("data.c"),
        "int a[10], b[30], c[20]; int main(void) { return a[0] + b[0] + c[0]; }",
    )
    .unwrap();
    tool(&place, &["cc", "data.c", "-o", "data"]);
    let bytes = std::fs::read(place.join("data")).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let all = variables(&elf, None, "data", Demangle::Yes, 1000).list.len();
    let found = variables(&elf, None, "data", Demangle::Yes, 3);
    assert_eq!((found.list.len(), found.left_out), (3, all - 3));
    assert!(found.list.iter().any(|variable| variable.name == "b"));
}
