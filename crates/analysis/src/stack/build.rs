//! How stacks are expanded: each address once, parents before children; damaged parts are cut off and counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::OnceLock;

use base::{CodeAddress, FileOffset, ModuleId, StackId};
use facts::{Frame, Module, ModuleKind, Recording, StackNode};

use super::{
    Code, CodeModule, Function, FunctionId, LineId, Location, LocationId, ModuleIndex, Node,
    NodeIndex, Problems, Stacks, is_page_fault_entry,
};

/// Deeper stacks lose their outermost part. The kernel's own limit is 127 frames, our unwinder's is below this.
const MAX_STACK_DEPTH: u32 = 2048;
/// Inlined functions kept per address; compilers stay far below.
const MAX_INLINE_DEPTH: usize = 64;

pub(super) struct Builder<'a> {
    modules: Vec<CodeModule>,
    module_kinds: Vec<ModuleKind>,
    module_ids: HashMap<ModuleId, ModuleIndex>,
    functions: Vec<Function>,
    function_ids: HashMap<Function, FunctionId>,
    places: Vec<Location>,
    place_ids: HashMap<(FunctionId, Option<u32>, bool), LocationId>,
    lines: Vec<(Option<String>, Option<u32>)>,
    line_ids: HashMap<(Option<String>, Option<u32>), LineId>,
    /// Frames by address, innermost first.
    frames: HashMap<CodeAddress, Vec<&'a Frame>>,
    /// A file for frames that have none, by module and function.
    files: HashMap<(ModuleId, &'a str), &'a str>,
    expanded: HashMap<CodeAddress, Range<u32>>,
    pool: Vec<LocationId>,
    problems: Problems,
}

impl<'a> Builder<'a> {
    pub(super) fn new(recording: &'a Recording) -> Builder<'a> {
        let mut builder = Builder {
            modules: Vec::new(),
            module_kinds: Vec::new(),
            module_ids: HashMap::new(),
            functions: Vec::new(),
            function_ids: HashMap::new(),
            places: Vec::new(),
            place_ids: HashMap::new(),
            lines: Vec::new(),
            line_ids: HashMap::new(),
            frames: HashMap::with_capacity(recording.frames.len()),
            files: HashMap::new(),
            expanded: HashMap::new(),
            pool: Vec::new(),
            problems: Problems::default(),
        };
        let unknown = builder.add_module(ModuleKind::Unknown, "[unknown]");
        builder.place("[no stack]".to_owned(), None, None, unknown, false);
        for Module { id, kind, path, .. } in &recording.modules {
            let index = builder.add_module(*kind, path);
            builder.module_ids.entry(*id).or_insert(index);
        }
        builder.index_frames(&recording.frames);
        builder
    }

    fn index_frames(&mut self, frames: &'a [Frame]) {
        for frame in frames {
            self.frames.entry(frame.code_address()).or_default().push(frame);
            if let Some(file) = &frame.file {
                self.files.entry((frame.module, &frame.function)).or_insert(file);
            }
        }
        for rows in self.frames.values_mut() {
            rows.sort_by_key(|frame| frame.depth);
            rows.dedup_by_key(|frame| frame.depth);
            if rows.len() > MAX_INLINE_DEPTH {
                self.problems.dropped_frames += (rows.len() - MAX_INLINE_DEPTH) as u64;
                rows.truncate(MAX_INLINE_DEPTH);
            }
        }
    }

    fn add_module(&mut self, kind: ModuleKind, path: &str) -> ModuleIndex {
        let name = match path.rsplit('/').next() {
            Some(last) if !last.is_empty() => last,
            _ => path,
        };
        let code = if kind == ModuleKind::Kernel { Code::Kernel } else { Code::User };
        self.modules.push(CodeModule { name: name.to_owned(), path: path.to_owned(), code });
        self.module_kinds.push(kind);
        ModuleIndex::new(self.modules.len() - 1)
    }

    fn place(
        &mut self,
        name: String,
        file: Option<&str>,
        line: Option<u32>,
        module: ModuleIndex,
        inlined: bool,
    ) -> LocationId {
        let function = Function { name, file: file.map(str::to_owned), module };
        let function = match self.function_ids.entry(function) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.functions.push(new.key().clone());
                *new.insert(FunctionId::new(self.functions.len() - 1))
            }
        };
        if let Some(&known) = self.place_ids.get(&(function, line, inlined)) {
            return known;
        }
        let source = (file.map(str::to_owned), line);
        let lines = &mut self.lines;
        let source = *self.line_ids.entry(source).or_insert_with_key(|source| {
            lines.push(source.clone());
            LineId::new(lines.len() - 1)
        });
        self.places.push(Location { function, line, source, inlined });
        let id = LocationId::new(self.places.len() - 1);
        self.place_ids.insert((function, line, inlined), id);
        id
    }

    /// The frames at an address: those that symbolisation found, else one made of module and offset.
    fn expand(&mut self, address: CodeAddress) -> Range<u32> {
        if let Some(range) = self.expanded.get(&address) {
            return range.clone();
        }
        let module = self.module_ids.get(&address.module).copied();
        if module.is_none() {
            self.problems.unknown_modules += 1;
        }
        let module = module.unwrap_or(ModuleIndex(0));
        let start = self.pool.len() as u32;
        let rows = self.frames.remove(&address).unwrap_or_default();
        for frame in &rows {
            let known = || self.files.get(&(address.module, frame.function.as_str())).copied();
            let file = frame.file.as_deref().or_else(known);
            // Line 0 is DWARF's "no line" (section 6.2.2).
            let line = frame.line.filter(|&line| line > 0 && frame.file.is_some());
            let place = self.place(frame.function.clone(), file, line, module, frame.inlined);
            self.pool.push(place);
        }
        if rows.is_empty() {
            let place =
                self.place(self.address_name(module, address.offset), None, None, module, false);
            self.pool.push(place);
        }
        let range = start..self.pool.len() as u32;
        self.expanded.insert(address, range.clone());
        range
    }

    /// A name for code without one. Kernel addresses and addresses outside of every mapping differ from run to
    /// run and mean nothing to a reader, so they share one name.
    fn address_name(&self, module: ModuleIndex, offset: FileOffset) -> String {
        let name = &self.modules[module.index()].name;
        match self.module_kinds[module.index()] {
            ModuleKind::Kernel => "[kernel]".to_owned(),
            // `[unknown]`, or what of a virtual machine it is.
            ModuleKind::Unknown => name.clone(),
            ModuleKind::Vdso => format!("[vdso+{offset}]"),
            // One row for all of it: addresses of generated code without names help no reader.
            ModuleKind::Anonymous { .. } => "[generated code]".to_owned(),
            ModuleKind::File => format!("[{name}+{offset}]"),
        }
    }

    pub(super) fn build(
        mut self,
        recording: &Recording,
        addresses: impl Iterator<Item = CodeAddress>,
    ) -> Stacks {
        let mut nodes: Vec<Node> = Vec::with_capacity(recording.stack_nodes.len());
        let mut known: HashMap<StackId, NodeIndex> =
            HashMap::with_capacity(recording.stack_nodes.len());
        for fact in &recording.stack_nodes {
            let Entry::Vacant(slot) = known.entry(fact.id) else {
                self.problems.duplicate_nodes += 1;
                continue;
            };
            slot.insert(NodeIndex::new(nodes.len()));
            let parent = fact.parent.and_then(|parent| known.get(&parent).copied());
            let parent = parent.filter(|parent| parent.index() < nodes.len());
            let node = self.node(fact, parent, &nodes);
            nodes.push(node);
        }
        let mut ids: Vec<(StackId, NodeIndex)> = known.into_iter().collect();
        ids.sort_unstable();
        let (mut at, mut compiled_at) = (HashMap::new(), HashMap::new());
        for address in addresses {
            let frames = self.expand(address);
            at.insert(address, self.pool[frames.start as usize]);
            compiled_at.insert(address, self.pool[frames.end as usize - 1]);
        }
        let line_of = |one: &facts::Assignment| {
            self.line_ids.get(&(Some(one.file.clone()), Some(one.line))).copied()
        };
        let assigned = recording.assignments.iter();
        let variables =
            assigned.filter_map(|one| Some((line_of(one)?, one.variable.clone()))).collect();
        Stacks {
            variables,
            wrappers: Vec::new(),
            is_wrapper: OnceLock::new(),
            modules: self.modules,
            functions: self.functions,
            places: self.places,
            lines: self.lines,
            problems: self.problems,
            nodes,
            pool: self.pool,
            ids,
            at,
            compiled_at,
        }
    }

    fn node(&mut self, fact: &StackNode, parent: Option<NodeIndex>, nodes: &[Node]) -> Node {
        let above = parent.map(|parent| &nodes[parent.index()]);
        let above = above.filter(|above| above.depth < MAX_STACK_DEPTH);
        let broken = fact.parent.is_some() && above.is_none();
        if broken {
            self.problems.broken_parents += 1;
        }
        let frames = self.expand(fact.code_address());
        let function = |place: &LocationId| self.places[place.index()].function;
        let code = |function: FunctionId| {
            self.modules[self.functions[function.index()].module.index()].code
        };
        let own = &self.pool[frames.start as usize..frames.end as usize];
        let entry = own.iter().map(function).any(|function| {
            code(function) == Code::Kernel
                && is_page_fault_entry(&self.functions[function.index()].name)
        });
        let is_compiled = |place: &&LocationId| {
            !self.places[place.index()].inlined && code(function(place)) == Code::User
        };
        let compiled = own.iter().find(is_compiled).map(function);
        Node {
            parent: parent.filter(|_| above.is_some()),
            frames,
            depth: above.map_or(1, |above| above.depth + 1),
            truncated: broken || above.map_or(fact.truncated, |above| above.truncated),
            page_fault: entry || above.is_some_and(|above| above.page_fault),
            compiled: compiled.or_else(|| above.and_then(|above| above.compiled)),
        }
    }
}
