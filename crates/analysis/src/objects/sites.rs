//! Allocation sites: the innermost function of a stack that does more than allocate.
//!
//! What for: blocks of one allocation site are one object; a frame of `operator new`, `std::vector` or `xmalloc` is not the site.
//! What not: where the blocks are.
//!
//! Both rules are one table each. Assumption: names are demangled. A C library, or a C++ or Fortran runtime, allocates for its
//! caller.

use crate::selection::bare_function_name;
use crate::stack::{LocationId, NodeIndex, Stacks};

/// What a rule compares a frame with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NameMatch {
    /// The beginning of its module's name.
    Module,
    /// The beginning of its name, without parameters and template arguments.
    Beginning,
    /// That name as a whole, also after a word of [`CHECKED`] and as a C library's own (`__libc_malloc`).
    Name,
    /// The end of that name, whatever its capitals.
    End,
    /// A method of this name of a template of classes: containers, of whatever library. Its constructors are, too.
    Method,
}

/// Functions that allocate on behalf of their callers, and are not the line that people look for. `fathom report --wrappers` adds
/// beginnings of names.
const WRAPPERS: [(NameMatch, &[&str]); 5] = [
    (
        NameMatch::Module,
        &[
            "libc.so",
            "libc-",
            "libstdc++.so",
            "libc++.so",
            "libc++abi.so",
            "libgfortran.so",
            "ld-linux",
            "ld-musl",
            "libfathom_agent",
            "libjemalloc",
            "libtcmalloc",
            "libmimalloc",
        ],
    ),
    (
        NameMatch::Beginning,
        &[
            "operator new",
            "std::",
            "__gnu_cxx::",
            "alloc::",
            "<alloc::",
            "core::",
            "<core::",
            "hashbrown::",
            "<hashbrown::",
            "indexmap::",
            "<indexmap::",
            "smallvec::",
            "<smallvec::",
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
            "boost::container::",
            "boost::alignment::",
            "absl::",
            "folly::fbvector",
            "Eigen::internal::",
            "Eigen::PlainObjectBase",
            "Eigen::DenseStorage",
            "tbb::",
            "PyMem_",
            "PyObject_Malloc",
            "_PyMem_",
            "_PyObject_",
            "PyDataMem_",
            "PyArray_",
        ],
    ),
    (
        NameMatch::Name,
        &[
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
        ],
    ),
    (
        NameMatch::End,
        &[
            "malloc",
            "calloc",
            "realloc",
            "memalign",
            "alloc_aligned",
            "aligned_alloc",
            "aligned_new",
            "_alloc",
            "::allocate",
            "::alloc",
            "_allocate",
        ],
    ),
    (
        NameMatch::Method,
        &[
            "resize",
            "reserve",
            "reserve_exact",
            "push_back",
            "emplace_back",
            "push_front",
            "emplace",
            "insert",
            "append",
            "assign",
            "push",
            "grow",
            "extend",
            "alloc",
            "allocate",
            "create",
            "init",
            "make",
            "clone",
            "copy",
            "operator=",
            "operator[]",
        ],
    ),
];

/// Functions that the compiler wrote around the initial values of variables: only the line says what was meant.
const START_UP: [&str; 3] =
    ["__static_initialization_and_destruction", "_GLOBAL__sub_I_", "__cxx_global_var_init"];

/// Words that programs put in front of a function of the C library to add an error message.
const CHECKED: [&str; 6] = ["x", "xx", "safe_", "check_", "checked_", "my_"];

/// The place that asked, or the innermost when all frames are wrappers.
pub(crate) fn asking_place(stacks: &Stacks, stack: Option<NodeIndex>) -> LocationId {
    let asks = |place: &LocationId| !stacks.is_wrapper(*place, is_wrapper);
    stacks.frames(stack).find(asks).unwrap_or_else(|| stacks.innermost(stack))
}

/// The innermost function of a Python program, where its interpreter names them for profilers.
pub(super) fn python_function(stacks: &Stacks, stack: NodeIndex) -> Option<LocationId> {
    stacks.frames(Some(stack)).find(|place| {
        stacks.function_of(*place).name.starts_with("py::")
            && stacks.module_of(*place).name == "[anon]"
    })
}

/// Whether `malloc` or a relative of it is on a stack: memory mapped from there is for small blocks.
pub(super) fn is_by_malloc(stacks: &Stacks, stack: NodeIndex) -> bool {
    let allocates = |place: LocationId| {
        let name = bare(&stacks.function_of(place).name);
        ["malloc", "calloc", "realloc", "memalign"].iter().any(|one| name.ends_with(one))
            || name.starts_with("operator new")
    };
    stacks.frames(Some(stack)).any(allocates)
}

/// Whether the loader asks on a stack for thread-local variables (names of glibc's `elf/dl-tls.c`).
pub(super) fn is_thread_local(stacks: &Stacks, stack: NodeIndex) -> bool {
    // The loader asks within a few frames; a program called `tls_get_addr` further out would be another.
    const INNERMOST: usize = 6;
    let asks = |place: LocationId| {
        let name = stacks.function_of(place).name.trim_start_matches('_');
        ["dl_allocate_tls", "allocate_dtv", "tls_get_addr", "dl_resize_dtv"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    stacks.frames(Some(stack)).take(INNERMOST).any(asks)
}

/// Whether a function asks for its callers; `more` are beginnings of names that the user knows.
fn is_wrapper(name: &str, module: &str, more: &[String]) -> bool {
    let bare = bare(name);
    let bare = bare.as_str();
    let lower = || bare.to_ascii_lowercase();
    let checked = || CHECKED.iter().filter_map(|word| bare.strip_prefix(word));
    let method = method_of_template(name);
    let is = |by: NameMatch, what: &str| match by {
        NameMatch::Module => module.starts_with(what),
        NameMatch::Beginning => bare.starts_with(what),
        NameMatch::Name => bare == what || checked().any(|rest| rest == what),
        NameMatch::End => lower().ends_with(what),
        NameMatch::Method => method == Some(what),
    };
    WRAPPERS.iter().any(|(by, all)| all.iter().any(|what| is(*by, what)))
        || method.is_some_and(|method| bare.ends_with(&format!("{method}::{method}")))
        || more.iter().any(|what| bare.starts_with(what.as_str()))
}

/// `resize` of `pvector<int>::resize(unsigned long)`; the class's name of its constructor.
fn method_of_template(name: &str) -> Option<&str> {
    let end = name.find('(').unwrap_or(name.len());
    let (of, method) = name[..end].rsplit_once("::")?;
    of.ends_with('>').then_some(method)
}

/// Without parts that do not distinguish functions here; leading underscores are other names of the same function.
fn bare(name: &str) -> String {
    let bare = bare_function_name(name);
    let names =
        WRAPPERS.iter().filter(|(by, _)| *by == NameMatch::Name).flat_map(|(_, names)| *names);
    match bare.strip_prefix("__libc_").or_else(|| bare.strip_prefix("__")) {
        Some(rest) if names.into_iter().any(|name| *name == rest) => rest.to_owned(),
        _ => bare,
    }
}

/// `cells: build grid.c:12` where the line says what it assigns to, else `build grid.c:12`, as far as it is known.
pub(super) fn name_of(stacks: &Stacks, place: LocationId, variable: Option<&str>) -> String {
    let function = stacks.function_of(place);
    let file = function.file.as_deref().and_then(|path| path.rsplit('/').next());
    let line = match (file, stacks.places[place.index()].line) {
        (Some(file), Some(line)) => Some(format!("{file}:{line}")),
        (file, _) => file.map(str::to_owned),
    };
    let name = bare_function_name(&function.name);
    let of_compiler = START_UP.iter().any(|start| name.starts_with(start));
    let name = match (of_compiler, variable) {
        (false, _) => Some(name),
        (true, Some(_)) => None,
        (true, None) => Some("start-up".to_owned()),
    };
    let place = [name, line].into_iter().flatten().collect::<Vec<_>>().join(" ");
    match variable {
        Some(variable) => format!("{variable}: {place}"),
        None => place,
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
            "pvector<int>::pvector(unsigned long)",
            "Array2D<double>::resize(int, int)",
            "zmalloc",
            "ggc_internal_alloc",
            "mkl_serv_AlignedMalloc",
            "util::aligned_alloc<float>(unsigned long)",
            "Arena::allocate(unsigned long)",
        ] {
            assert!(is_wrapper(name, "app", &[]), "{name}");
        }
        for name in [
            "main",
            "build_tree(int)",
            "stdio_like",
            "mallocate_all",
            "Grid::Grid(int)",
            "BuilderBase<int, int>::MakeGraph()",
            "allocate_grid",
            "Tree<int>::build(int)",
        ] {
            assert!(!is_wrapper(name, "app", &[]), "{name}");
        }
        assert!(is_wrapper("[libc.so.6+0x1234]", "libc.so.6", &[]));
        assert!(!is_wrapper("[app+0x1234]", "app", &[]));
        assert!(is_wrapper("Pool<int>::take()", "app", &["Pool::".to_owned()]));
    }
}
