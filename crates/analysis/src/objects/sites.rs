//! Who asked for memory: the innermost function of a stack that is not there only to allocate.
//!
//! What for: blocks that one line asked for are one object, and `operator new`, `std::vector` or `xmalloc` are the line of
//! nobody. What not: where the blocks lie.
//!
//! Assumption: names are demangled. What a C library, a C++ or Fortran runtime allocates, it does for its caller.

use crate::selection::bare_function_name;
use crate::stack::{NodeIndex, PlaceId, Stacks};

/// Files whose functions all ask on behalf of their callers.
const LIBRARIES: [&str; 9] = [
    "libc.so",
    "libc-",
    "libstdc++.so",
    "libc++.so",
    "libc++abi.so",
    "libgfortran.so",
    "ld-linux",
    "ld-musl",
    "libfathom_agent",
];

/// Beginnings of names without parameters and template arguments.
const PREFIXES: [&str; 19] = [
    "operator new",
    "std::",
    "__gnu_cxx::",
    "alloc::",
    "<alloc::",
    "core::",
    "<core::",
    "hashbrown::",
    "<hashbrown::",
    "__rust_",
    "__rustc",
    "__rdl_",
    "__rg_",
    "_gfortran_",
    "_gfortrani_",
    "g_malloc",
    "g_realloc",
    "g_slice_",
    "_IO_",
];

/// Functions of C libraries, for programs that have them linked in.
const FUNCTIONS: [&str; 24] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "mmap",
    "mmap64",
    "mremap",
    "shmat",
    "strdup",
    "strndup",
    "getline",
    "getdelim",
    "fopen",
    "fopen64",
    "fdopen",
    "open_memstream",
    "asprintf",
    "vasprintf",
    "sysmalloc",
];

/// Words that programs put in front of a function of the C library to add an error message.
const CHECKED: [&str; 6] = ["x", "xx", "safe_", "check_", "checked_", "my_"];

/// The place that asked, or the innermost when all frames are wrappers.
pub(crate) fn asking_place(stacks: &Stacks, stack: Option<NodeIndex>) -> PlaceId {
    let asks = |place: &PlaceId| {
        !is_wrapper(&stacks.function_of(*place).name, &stacks.module_of(*place).name)
    };
    stacks.frames(stack).find(asks).unwrap_or_else(|| stacks.innermost(stack))
}

/// Whether `malloc` or a relative of it is on a stack: memory mapped from there is for small blocks.
pub(super) fn is_by_malloc(stacks: &Stacks, stack: NodeIndex) -> bool {
    let allocates = |place: PlaceId| {
        let name = function(&stacks.function_of(place).name);
        ["malloc", "calloc", "realloc", "memalign"].iter().any(|one| name.ends_with(one))
            || name.starts_with("operator new")
    };
    stacks.frames(Some(stack)).any(allocates)
}

fn is_wrapper(name: &str, module: &str) -> bool {
    if LIBRARIES.iter().any(|library| module.starts_with(library)) {
        return true;
    }
    let name = function(name);
    let checked = || CHECKED.iter().filter_map(|word| name.strip_prefix(word));
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || FUNCTIONS.contains(&name.as_str())
        || checked().any(|rest| FUNCTIONS.contains(&rest))
}

/// Without what does not tell functions apart here; leading underscores are other names of the same.
fn function(name: &str) -> String {
    let bare = bare_function_name(name);
    match bare.strip_prefix("__libc_").or_else(|| bare.strip_prefix("__")) {
        Some(rest) if FUNCTIONS.contains(&rest) => rest.to_owned(),
        _ => bare,
    }
}

/// `function file.c:12`, as far as it is known.
pub(super) fn name_of(stacks: &Stacks, place: PlaceId) -> String {
    let function = stacks.function_of(place);
    let name = bare_function_name(&function.name);
    let file = function.file.as_deref().and_then(|path| path.rsplit('/').next());
    match (file, stacks.places[place.index()].line) {
        (Some(file), Some(line)) => format!("{name} {file}:{line}"),
        (Some(file), None) => format!("{name} {file}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::is_wrapper;

    #[test]
    fn those_who_allocate_for_others_are_known() {
        for name in [
            "operator new(unsigned long)",
            "operator new[](unsigned long, std::align_val_t)",
            "std::allocator<int>::allocate(unsigned long)",
            "void std::vector<Node, std::allocator<Node> >::_M_realloc_insert<Node>(Node&&)",
            "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
            "xmalloc",
            "safe_calloc",
            "__libc_malloc",
            "__strdup",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "_gfortran_st_open",
        ] {
            assert!(is_wrapper(name, "app"), "{name}");
        }
        for name in ["main", "build_tree(int)", "stdio_like", "mallocate_all", "Grid::Grid(int)"] {
            assert!(!is_wrapper(name, "app"), "{name}");
        }
        assert!(is_wrapper("[libc.so.6+0x1234]", "libc.so.6"));
        assert!(!is_wrapper("[app+0x1234]", "app"));
    }
}
