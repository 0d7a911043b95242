//! Stack nodes expanded to the frames that a user knows: function, file, line, module, with inlined functions as frames of their
//! own.
//!
//! What not: no symbol lookup (that was done when the recording was written). An address without a frame gets a name made of its
//! module and offset.
//!
//! Assumptions: parents come before children. Where they do not (a cycle, a damaged file), the outer part is cut off.

mod build;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::OnceLock;

use base::{CodeAddress, IndexMap, StackId};
use facts::Recording;

use self::build::Builder;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(u32);

        impl $name {
            /// The position in its table.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the entry at `index`. Tables here have fewer than 2^32 entries, as the stack ids do.
            pub(crate) fn new(index: usize) -> $name {
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }
        }
    };
}
pub(crate) use index;

index!(/// A module of [`Stacks`].
    ModuleIndex);
index!(/// A function of [`Stacks`].
    FunctionId);
index!(/// A source line (file and line) of [`Stacks`].
    LineId);
index!(/// A place in the code (function and line) of [`Stacks`].
    LocationId);
index!(/// A stack node of [`Stacks`].
    NodeIndex);
index!(/// A distinct sequence of functions from a leaf to its root.
    CallPathId);

/// The place of samples that came without any frame.
pub(crate) const NO_STACK: LocationId = LocationId(0);

/// The place with the most of what is counted; that without a stack where none is.
pub(crate) fn busiest(places: &BTreeMap<LocationId, u64>) -> LocationId {
    let most = places.iter().max_by_key(|(_, count)| **count);
    most.map_or(NO_STACK, |(place, _)| *place)
}

/// What kind of code a module holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// A program or library file, the vdso, or code made at run time.
    User,
    /// The kernel.
    Kernel,
}

/// A module as a user knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeModule {
    /// Last part of the path, e.g. `libc.so.6`, or `[kernel]`.
    pub name: String,
    /// The whole path.
    pub path: String,
    /// Kernel or user.
    pub code: Code,
}

/// A function. Two functions of the same name in different files or modules are different.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// Demangled name, or `[module+0xoffset]`.
    pub name: String,
    /// The file its code comes from, where debug information names it.
    pub file: Option<String>,
    /// Its module.
    pub module: ModuleIndex,
}

/// A line in a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// The function.
    pub function: FunctionId,
    /// The line number, where debug information names it.
    pub line: Option<u32>,
    /// The file and line.
    pub source: LineId,
    /// Whether the function was inlined here.
    pub inlined: bool,
}

/// How much of the recording was unusable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Problems {
    /// Nodes whose parent is missing, later or too deep: the outer part of their stacks is cut off.
    pub broken_parents: u64,
    /// Nodes with an id that was there before: ignored.
    pub duplicate_nodes: u64,
    /// Nodes that name no known module: shown as `[unknown]`.
    pub unknown_modules: u64,
    /// Frames beyond the inline limit: dropped.
    pub dropped_frames: u64,
}

impl Problems {
    /// Whether anything was unusable.
    #[must_use]
    pub fn any(&self) -> bool {
        *self != Problems::default()
    }
}

struct Node {
    parent: Option<NodeIndex>,
    /// Into `Stacks::pool`, innermost first.
    frames: Range<u32>,
    depth: u32,
    truncated: bool,
    page_fault: bool,
    /// The innermost function from here on outwards that is compiled user code.
    compiled: Option<FunctionId>,
}

/// All stacks of a recording, expanded and interned.
pub struct Stacks {
    /// Modules; 0 is `[unknown]`.
    pub modules: Vec<CodeModule>,
    /// Functions; 0 is `[no stack]`.
    pub functions: Vec<Function>,
    /// Places; 0 is that of `[no stack]`.
    pub places: Vec<Location>,
    /// Distinct (file, line) pairs.
    pub lines: Vec<(Option<String>, Option<u32>)>,
    /// What was unusable.
    pub problems: Problems,
    nodes: Vec<Node>,
    pool: Vec<LocationId>,
    ids: Vec<(StackId, NodeIndex)>,
    /// The innermost place at each address asked for.
    at: HashMap<CodeAddress, LocationId>,
    /// The place in the compiled function, not in one inlined into it, at each of these.
    compiled_at: HashMap<CodeAddress, LocationId>,
    /// What source lines assign to.
    variables: HashMap<LineId, String>,
    /// Beginnings of the names of functions that only allocate, in addition to the known ones.
    wrappers: Vec<String>,
    /// By code location, whether its function only allocates; computed once.
    is_wrapper: OnceLock<Vec<bool>>,
}

impl Stacks {
    /// Expands all stack nodes of `recording`, and `addresses`.
    #[must_use]
    pub fn new(recording: &Recording, addresses: impl Iterator<Item = CodeAddress>) -> Stacks {
        Builder::new(recording).build(recording, addresses)
    }

    /// The innermost place at one of the addresses that were asked for.
    #[must_use]
    pub fn place_at(&self, address: CodeAddress) -> LocationId {
        self.at.get(&address).copied().unwrap_or(NO_STACK)
    }

    /// What the line of a place assigns to.
    #[must_use]
    pub fn variable_of(&self, place: LocationId) -> Option<&str> {
        self.variables.get(&self.places[place.index()].source).map(String::as_str)
    }

    /// Functions with names that begin so allocate for their callers, too.
    pub fn add_wrappers(&mut self, beginnings: &[String]) {
        self.wrappers.extend_from_slice(beginnings);
        self.is_wrapper = OnceLock::new();
    }

    /// Whether a place's function only allocates, as `judge` says by its name, its module and the added beginnings.
    pub(crate) fn is_wrapper(
        &self,
        place: LocationId,
        judge: impl Fn(&str, &str, &[String]) -> bool,
    ) -> bool {
        let all = self.is_wrapper.get_or_init(|| {
            let of = |function: &Function| {
                judge(&function.name, &self.modules[function.module.index()].name, &self.wrappers)
            };
            let functions: Vec<bool> = self.functions.iter().map(of).collect();
            self.places.iter().map(|place| functions[place.function.index()]).collect()
        });
        all[place.index()]
    }

    /// The compiled function at one of the addresses that were asked for: that into which others are inlined.
    #[must_use]
    pub fn compiled_at(&self, address: CodeAddress) -> FunctionId {
        self.places[self.compiled_place_at(address).index()].function
    }

    /// The place at one of these addresses in the compiled function, not in one inlined into it.
    pub(crate) fn compiled_place_at(&self, address: CodeAddress) -> LocationId {
        self.compiled_at.get(&address).copied().unwrap_or(NO_STACK)
    }

    /// The innermost compiled function outside of the kernel, or the innermost function when there is none.
    #[must_use]
    pub fn compiled_user(&self, leaf: Option<NodeIndex>) -> FunctionId {
        leaf.and_then(|node| self.nodes[node.index()].compiled)
            .unwrap_or_else(|| self.places[self.innermost(leaf).index()].function)
    }

    /// A property of each node, by its index: for sums over many more samples than there are stacks.
    pub(crate) fn of_each_node<T>(&self, what: impl Fn(Option<NodeIndex>) -> T) -> Vec<T> {
        (0..self.nodes.len()).map(|at| what(Some(NodeIndex::new(at)))).collect()
    }

    /// The node with this id, when the recording has it.
    #[must_use]
    pub fn find(&self, id: StackId) -> Option<NodeIndex> {
        // Ids are usually handed out in order from 0.
        if let Some(&(at, node)) = self.ids.get(id.0 as usize)
            && at == id
        {
            return Some(node);
        }
        self.ids.binary_search_by_key(&id, |entry| entry.0).ok().map(|at| self.ids[at].1)
    }

    /// The caller's node.
    pub(crate) fn parent(&self, node: NodeIndex) -> Option<NodeIndex> {
        self.nodes[node.index()].parent
    }

    /// The frames of a stack, innermost first. Without a stack there is one: `[no stack]`.
    pub fn frames(&self, leaf: Option<NodeIndex>) -> impl Iterator<Item = LocationId> + '_ {
        let mut next = leaf;
        let nodes = std::iter::from_fn(move || {
            let node = &self.nodes[next?.index()];
            next = node.parent;
            Some(node)
        });
        let none = leaf.is_none().then_some(NO_STACK);
        let pool = |node: &Node| &self.pool[node.frames.start as usize..node.frames.end as usize];
        nodes.flat_map(move |node| pool(node).iter().copied()).chain(none)
    }

    /// The innermost frame.
    #[must_use]
    pub fn innermost(&self, leaf: Option<NodeIndex>) -> LocationId {
        self.frames(leaf).next().unwrap_or(NO_STACK)
    }

    /// The innermost frame outside of the kernel, or the innermost frame when there is none.
    #[must_use]
    pub fn innermost_user(&self, leaf: Option<NodeIndex>) -> LocationId {
        let user = |place: &LocationId| self.module_of(*place).code == Code::User;
        self.frames(leaf).find(user).unwrap_or_else(|| self.innermost(leaf))
    }

    /// The function of a place.
    #[must_use]
    pub fn function_of(&self, place: LocationId) -> &Function {
        &self.functions[self.places[place.index()].function.index()]
    }

    /// The module of a place.
    #[must_use]
    pub fn module_of(&self, place: LocationId) -> &CodeModule {
        &self.modules[self.function_of(place).module.index()]
    }

    /// Whether the kernel was serving a page fault on this stack.
    #[must_use]
    pub fn in_page_fault(&self, leaf: Option<NodeIndex>) -> bool {
        leaf.is_some_and(|node| self.nodes[node.index()].page_fault)
    }

    /// Whether the outer part of this stack is missing.
    #[must_use]
    pub fn is_truncated(&self, leaf: Option<NodeIndex>) -> bool {
        leaf.is_none_or(|node| self.nodes[node.index()].truncated)
    }

    /// Whether any kernel address got a name: without kernel symbols page-fault handling is not recognised.
    #[must_use]
    pub fn has_kernel_names(&self) -> bool {
        self.functions.iter().any(|function| {
            self.modules[function.module.index()].code == Code::Kernel
                && !function.name.starts_with('[')
        })
    }

    /// For every node the sequence of functions from it outwards, as an id that equal sequences share; and for
    /// every id its functions, innermost first.
    #[must_use]
    pub fn call_paths(&self) -> CallPaths {
        CallPaths::new(self)
    }
}

/// Distinct function sequences.
pub struct CallPaths {
    of_node: Vec<Option<CallPathId>>,
    paths: Vec<(Option<CallPathId>, FunctionId)>,
    no_stack: CallPathId,
}

impl CallPaths {
    fn new(stacks: &Stacks) -> CallPaths {
        let mut known: IndexMap<(Option<CallPathId>, FunctionId), CallPathId> = IndexMap::default();
        let mut paths = Vec::new();
        let mut intern = |key: (Option<CallPathId>, FunctionId)| {
            *known.entry(key).or_insert_with(|| {
                paths.push(key);
                CallPathId::new(paths.len() - 1)
            })
        };
        let no_stack = intern((None, stacks.places[NO_STACK.index()].function));
        let mut of_node: Vec<Option<CallPathId>> = Vec::with_capacity(stacks.nodes.len());
        for node in &stacks.nodes {
            let mut path = node.parent.and_then(|parent| of_node[parent.index()]);
            for place in
                stacks.pool[node.frames.start as usize..node.frames.end as usize].iter().rev()
            {
                path = Some(intern((path, stacks.places[place.index()].function)));
            }
            of_node.push(path);
        }
        CallPaths { of_node, paths, no_stack }
    }

    /// The path of a stack.
    #[must_use]
    pub fn of(&self, leaf: Option<NodeIndex>) -> CallPathId {
        leaf.and_then(|node| self.of_node[node.index()]).unwrap_or(self.no_stack)
    }

    /// The names of the functions of a path, innermost first. `stacks` are those that the paths were made from.
    #[must_use]
    pub fn names(&self, stacks: &Stacks, path: CallPathId) -> Vec<String> {
        self.functions(path).map(|id| stacks.functions[id.index()].name.clone()).collect()
    }

    /// The functions of a path, innermost first.
    pub fn functions(&self, path: CallPathId) -> impl Iterator<Item = FunctionId> + '_ {
        let mut next = Some(path);
        std::iter::from_fn(move || {
            let (parent, function) = self.paths[next?.index()];
            next = parent;
            Some(function)
        })
    }
}

/// Kernel functions that are entered for every page fault, on x86 and arm64, from Linux 3.10 to 6.x
/// (`arch/x86/mm/fault.c`, `arch/x86/entry/entry_64.S`, `arch/arm64/mm/fault.c`, `mm/memory.c`).
/// `handle_mm_fault` also serves `MAP_POPULATE` and `mlock`: the same work without the exception.
const PAGE_FAULT_ENTRIES: [&str; 13] = [
    "__do_page_fault",
    "__handle_mm_fault",
    "asm_exc_page_fault",
    "async_page_fault",
    "do_async_page_fault",
    "do_mem_abort",
    "do_page_fault",
    "do_translation_fault",
    "do_user_addr_fault",
    "exc_page_fault",
    "handle_mm_fault",
    "hugetlb_fault",
    "page_fault",
];

/// Whether a kernel function of this name serves page faults. Compiler suffixes (`.isra.0`, `.cold`) are ignored.
#[must_use]
pub fn is_page_fault_entry(kernel_function: &str) -> bool {
    let name = kernel_function.split('.').next().unwrap_or(kernel_function);
    PAGE_FAULT_ENTRIES.contains(&name)
}
