//! Known answers from files that are really there: this test program, the kernel, the vdso.

use std::path::PathBuf;

use base::{CodeAddress, Nanos};

use super::*;

/// A function of this test program, to be found under its own name.
#[inline(never)]
fn well_known_function(number: u64) -> u64 {
    std::hint::black_box(number).wrapping_mul(3)
}

/// An executable mapping of this process, and the offset in its file of `address`.
fn mapping_of(address: u64) -> (String, FileOffset) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).unwrap();
    for line in maps.lines() {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let (start, end) = words[0].split_once('-').unwrap();
        if (hexadecimal(start)..hexadecimal(end)).contains(&address) {
            let offset = address - hexadecimal(start) + hexadecimal(words[2]);
            return (words[5].to_owned(), FileOffset(offset));
        }
    }
    panic!("no mapping of {address:#x}");
}

fn module(id: u32, kind: ModuleKind, path: &str, build_id: Option<String>) -> Module {
    Module { id: ModuleId(id), kind, path: path.to_owned(), build_id }
}

fn one(module: Module, offset: FileOffset) -> Symbolised {
    let addresses = [CodeAddress::new(module.id, offset)];
    symbolise(&[module], &addresses, &Options::default(), &mut |_| {})
}

fn own_function() -> (Module, FileOffset) {
    assert_eq!(well_known_function(5), 15);
    let (path, offset) = mapping_of(well_known_function as fn(u64) -> u64 as usize as u64);
    let build_id = Elf::parse(&std::fs::read(&path).unwrap()).unwrap().build_id();
    (module(7, ModuleKind::File, &path, build_id), offset)
}

#[test]
fn own_function_has_name_file_and_line() {
    let (module, offset) = own_function();
    let found = one(module, offset);
    assert_eq!(found.problems, [""; 0]);
    let frame = found.frames.last().unwrap();
    assert_eq!(frame.function, "collect::symbolise::tests::well_known_function");
    assert!(frame.file.as_deref().unwrap().ends_with("symbolise/tests.rs"));
    assert!((8..20).contains(&frame.line.unwrap()));
    assert!(!frame.inlined);
}

#[test]
fn many_addresses_come_sorted_and_the_same_each_time() {
    let (module, start) = own_function();
    let kernel = self::module(3, ModuleKind::Kernel, "[kernel]", None);
    let at = |module: ModuleId, offset| CodeAddress::new(module, FileOffset(offset));
    let mut addresses: Vec<_> = (0..4000).rev().map(|n| at(module.id, start.0 + n * 7)).collect();
    addresses.extend((0..100).map(|n| at(kernel.id, 0xffff_ffff_8100_0000 + n * 4096)));
    addresses.push(at(module.id, start.0));
    addresses.push(at(ModuleId(99), start.0));
    let modules = [module, kernel];
    let mut last = (0, 0);
    let first = symbolise(&modules, &addresses, &Options::default(), &mut |step| {
        let Step::Done(done, total) = step else { return };
        last = (done, total)
    });
    // Distinct addresses of modules that there are, whether they could be named or not.
    assert_eq!(last, (4100, 4100));
    let key = |frame: &Frame| (frame.module, frame.offset, frame.depth);
    assert!(first.frames.is_sorted_by_key(key));
    assert!(first.frames.len() > 3000);
    assert_eq!(symbolise(&modules, &addresses, &Options::default(), &mut |_| {}), first);
}

/// A stripped copy of this program: each of its functions is one row, called after its start.
#[test]
fn addresses_of_one_nameless_function_share_its_row() {
    let (own, start) = own_function();
    let stripped = std::env::temp_dir().join(format!("fathom-stripped-{}", std::process::id()));
    let mut strip = std::process::Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(&own.path);
    assert!(strip.status().unwrap().success());
    let path = stripped.to_str().unwrap();
    let module = module(5, ModuleKind::File, path, own.build_id);
    let addresses = [start.0, start.0 + 5].map(|at| CodeAddress::new(module.id, FileOffset(at)));
    let found = symbolise(&[module], &addresses, &Options::default(), &mut |_| {});
    std::fs::remove_file(&stripped).unwrap();
    let names: Vec<_> = found.frames.iter().map(|frame| frame.function.clone()).collect();
    let name = format!("[fathom-stripped-{}+{start}]", std::process::id());
    assert_eq!(names, [name.clone(), name]);
}

#[test]
fn files_that_are_not_the_recorded_ones_are_refused() {
    let (own, offset) = own_function();
    let replaced = Module { build_id: Some("00ff".to_owned()), ..own.clone() };
    let deleted = Module { path: format!("{} (deleted)", own.path), ..own.clone() };
    let missing = Module { path: "/nowhere/libmissing.so".to_owned(), ..own.clone() };
    let text = Module { path: "/proc/self/status".to_owned(), build_id: None, ..own.clone() };
    for (module, expected) in [
        (replaced, " (build-id 00ff then, "),
        (deleted, "deleted or replaced while the program ran"),
        (missing, "cannot be opened for its symbols: No such file"),
        (text, "not a readable ELF file"),
    ] {
        let found = one(module, offset);
        assert_eq!(found.frames, []);
        assert!(
            matches!(&found.problems[..], [one] if one.contains(expected)),
            "{:?}",
            found.problems
        );
    }
}

#[test]
fn vdso_functions_are_named() {
    let Ok(bytes) = vdso_image() else {
        eprintln!("skipped: this process has no vdso");
        return;
    };
    let elf = Elf::parse(&bytes).unwrap();
    let vdso = module(1, ModuleKind::Vdso, "[vdso]", elf.build_id());
    let at = |offset| CodeAddress::new(vdso.id, FileOffset(offset));
    let addresses: Vec<_> = (0..bytes.len() as u64).map(at).collect();
    let found =
        symbolise(std::slice::from_ref(&vdso), &addresses, &Options::default(), &mut |_| {});
    assert!(found.frames.iter().any(|frame| frame.function.contains("clock_gettime")));
    assert_eq!(found.problems, [""; 0]);
    let other = Module { build_id: None, ..vdso };
    assert_eq!(one(other, FileOffset(0)).problems.len(), 1);
}

/// One test for all of the file's fates: there is one such file per process.
#[test]
fn generated_code_is_named_by_its_map() {
    let pid = Pid(i32::try_from(std::process::id()).unwrap());
    let anonymous = || module(2, ModuleKind::Anonymous { pid }, "[anon]", None);
    let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));

    let found = one(anonymous(), FileOffset(0x1008));
    assert!(found.problems[0].contains("node --perf-basic-prof"), "{:?}", found.problems);

    let text =
        "1000 10 py::Mesh.<lambda>:/a:b.py\n1010 8 py::f:<string>\n1018 8 ~g /x.js:4\nbad line\n";
    std::fs::write(&path, text).unwrap();
    let named = |offset| {
        let mut found = one(anonymous(), FileOffset(offset));
        assert_eq!(found.frames.len(), 1);
        let frame = found.frames.remove(0);
        (frame.function, frame.file)
    };
    let mesh = ("py::Mesh.<lambda>".to_owned(), Some("/a:b.py".to_owned()));
    assert_eq!(named(0x1008), mesh);
    assert_eq!(named(0x1010), ("py::f:<string>".to_owned(), None));
    assert_eq!(named(0x1018), ("~g /x.js:4".to_owned(), None));
    let found = one(anonymous(), FileOffset(0x1008));
    std::fs::remove_file(&path).unwrap();
    assert!(found.problems[0].contains("1 lines of"), "{:?}", found.problems);

    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    let found = one(anonymous(), FileOffset(0x1008));
    std::fs::remove_file(&path).unwrap();
    assert!(found.problems[0].contains("not a regular file"), "{:?}", found.problems);
}

/// libc has its debug information in a file of its own (Debian: libc6-dbg).
#[test]
fn separate_debug_files_are_found_by_build_id() {
    let (path, offset) = mapping_of(libc_function());
    let bytes = std::fs::read(&path).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let Some(build_id) = elf.build_id() else { return };
    let debug = format!("/usr/lib/debug/.build-id/{}/{}.debug", &build_id[..2], &build_id[2..]);
    let libc = module(4, ModuleKind::File, &path, Some(build_id));
    let found = one(libc.clone(), offset);
    if elf.has_debug_information() || PathBuf::from(debug).exists() {
        assert!(found.frames[0].line.is_some(), "{found:?}");
    } else {
        eprintln!("without lines: the debug symbols of {path} are not installed");
        assert!(found.problems[0].contains("no debug information"), "{found:?}");
    }
    // Without a place to search, names are left.
    let nowhere = Options { debug_directories: Vec::new(), ..Options::default() };
    let found = symbolise(&[libc], &[CodeAddress::new(ModuleId(4), offset)], &nowhere, &mut |_| {});
    assert_eq!(found.frames.len(), 1);
    assert!(found.problems[0].contains("no debug information"), "{found:?}");
}

/// An address in libc: where its `free` begins, as the symbol table of the mapped file says.
fn libc_function() -> u64 {
    use object::{Object as _, ObjectSymbol as _};
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("/libc.so.6")).unwrap();
    let start = u64::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap();
    let bytes = std::fs::read(line.split_ascii_whitespace().last().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    start + file.dynamic_symbols().find(|symbol| symbol.name() == Ok("free")).unwrap().address()
}

/// The background gives the same names, and those that are known early are a part of them.
#[test]
fn names_are_looked_up_in_the_background() {
    let (module, start) = own_function();
    let at = |n: u64| CodeAddress::new(module.id, FileOffset(start.0 + n * 11));
    let addresses: Vec<_> = (0..2000).map(at).collect();
    let options = Options::default();
    let expected = symbolise(std::slice::from_ref(&module), &addresses, &options, &mut |_| {});
    let (mappings, processes) = (Vec::new(), Vec::new());
    let modules = vec![module];
    let mut naming = Naming::start(Wanted { modules, addresses, options, mappings, processes });
    let early = naming.wait(Nanos(0), &mut |_, _| {});
    let (named, globals) =
        early.or_else(|| naming.wait(Nanos(u64::MAX), &mut |_, _| {})).expect("the end of it");
    assert_eq!((named, globals), (expected, Globals::default()));
    // With lines or, of a large file, without.
    assert!(naming.so_far().iter().any(|frame| frame.offset == start && frame.depth == 0));
}
