//! The machine code of functions, with the CPU time of each instruction.
//!
//! What for: bursts store the bytes of the code that they ran, so a function can be read without its source or its file. With
//! the file, the code is complete. What not: decoding (`x86`), reading files.
//! Assumption: what claims to be a function's code is an allegation. It is shown, and nothing is computed from it.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use base::{CodeAddress, FileOffset, ModuleId};
use facts::Module;
use x86::disassemble;

use crate::profile::Profile;
use crate::stack::{FunctionId, LocationId, NO_STACK, NodeIndex};

/// Code of a whole function, as its module's file has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FunctionCode {
    /// Where it begins in the file.
    pub start: FileOffset,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where the code of another line begins, with its file and line, rising.
    pub lines: Vec<(FileOffset, Option<String>, u32)>,
}

/// An instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct AssemblyRow {
    /// Where it lies in the file.
    pub offset: FileOffset,
    /// What it says.
    pub text: String,
    /// The innermost function there, where the recording names it.
    pub function: Option<String>,
    /// Source file, where it is known.
    pub file: Option<String>,
    /// Line, where it is known.
    pub line: Option<u32>,
    /// CPU time of samples at it, nanoseconds before scaling.
    pub samples: u64,
}

/// The code of one compiled function.
#[derive(Clone, PartialEq, Debug)]
pub struct Assembly {
    /// Its name.
    pub function: String,
    /// Whether it is all of it, from the file, and not only what bursts ran.
    pub whole: bool,
    /// Its instructions.
    pub rows: Vec<AssemblyRow>,
}

/// The code around offsets of a module's file, in their order; `None`: the file is not there, is another build, or has no function
/// there.
pub type CodeOf<'a> = dyn Fn(&Module, &[FileOffset]) -> Vec<Option<FunctionCode>> + Sync + 'a;

/// The code in which each function, given with the name of its module, was seen most: its own, or of what it was inlined into.
/// `files` is asked once for each module. `None` where no code of the function was seen, or there are no bytes of it.
pub fn assemblies(
    profile: &Profile<'_>,
    functions: &[(&str, &str)],
    files: &CodeOf<'_>,
) -> Vec<Option<Assembly>> {
    let seen = SampledCode::new(profile);
    let traced = LazyCell::new(|| traced(profile));
    let compiled = |(function, module): &(&str, &str)| {
        let named = |place: LocationId| {
            let found = profile.stacks.function_of(place);
            found.name == *function && profile.stacks.module_of(place).name == *module
        };
        let sampled = seen.leaves.iter().filter(|(_, leaf)| leaf.places.iter().any(|p| named(*p)));
        let hottest = sampled.max_by_key(|(_, leaf)| leaf.weight).map(|(address, _)| *address);
        let anchor = hottest.or_else(|| {
            let place = |address: &&CodeAddress| profile.stacks.place_at(**address);
            traced.keys().find(|address| named(place(address))).copied()
        })?;
        Some((anchor, seen.compiled(profile, anchor)?))
    };
    let found: Vec<Option<(CodeAddress, FunctionId)>> = functions.iter().map(compiled).collect();
    let mut offsets: BTreeMap<ModuleId, Vec<FileOffset>> = BTreeMap::new();
    for (anchor, _) in found.iter().flatten() {
        offsets.entry(anchor.module).or_default().push(anchor.offset);
    }
    let asked = profile.recording.modules.iter().filter_map(|module| {
        let offsets = offsets.get(&module.id)?;
        let at = offsets.iter().map(|offset| CodeAddress::new(module.id, *offset));
        Some(at.zip(files(module, offsets)).collect::<Vec<_>>())
    });
    let whole: BTreeMap<CodeAddress, Option<FunctionCode>> = asked.flatten().collect();
    let assembly = |(anchor, compiled): (CodeAddress, FunctionId)| {
        let whole = whole.get(&anchor).and_then(Option::as_ref);
        let rows = match whole {
            Some(code) => of_file(profile, &seen, anchor.module, code),
            None => of_bursts(profile, &seen, &traced, (anchor.module, compiled)),
        };
        let function = profile.stacks.functions[compiled.index()].name.clone();
        (!rows.is_empty()).then_some(Assembly { function, whole: whole.is_some(), rows })
    };
    found.into_iter().map(|found| found.and_then(assembly)).collect()
}

/// Samples at one address.
struct Leaf {
    weight: u64,
    /// The function there and those it was inlined into.
    places: Vec<LocationId>,
}

struct SampledCode {
    leaves: BTreeMap<CodeAddress, Leaf>,
}

impl SampledCode {
    fn new(profile: &Profile<'_>) -> SampledCode {
        let mut weights: BTreeMap<u32, u64> = BTreeMap::new();
        for sample in &profile.recording.samples {
            if let Some(stack) = sample.stack {
                *weights.entry(stack.0).or_default() += sample.weight.0;
            }
        }
        let mut leaves: BTreeMap<CodeAddress, Leaf> = BTreeMap::new();
        for node in &profile.recording.stack_nodes {
            let Some(weight) = weights.get(&node.id.0) else { continue };
            let found = profile.stacks.find(node.id);
            let leaf = leaves
                .entry(node.code_address())
                .or_insert_with(|| Leaf { weight: 0, places: places(profile, found) });
            leaf.weight = leaf.weight.saturating_add(*weight);
        }
        SampledCode { leaves }
    }

    /// The compiled function at an address.
    fn compiled(&self, profile: &Profile<'_>, address: CodeAddress) -> Option<FunctionId> {
        let sampled = self.leaves.get(&address).and_then(|leaf| leaf.places.last());
        match sampled {
            Some(place) => Some(profile.stacks.places[place.index()].function),
            None => {
                let known = profile.stacks.place_at(address) != NO_STACK;
                known.then(|| profile.stacks.compiled_at(address))
            }
        }
    }

    fn row(&self, profile: &Profile<'_>, address: CodeAddress, text: String) -> AssemblyRow {
        let leaf = self.leaves.get(&address);
        let place = leaf.and_then(|leaf| leaf.places.first().copied());
        let place = place.or_else(|| Some(profile.stacks.place_at(address)));
        let place = place.filter(|place| *place != NO_STACK);
        let function = place.map(|place| profile.stacks.function_of(place));
        AssemblyRow {
            offset: address.offset,
            text,
            function: function.map(|function| function.name.clone()),
            file: function.and_then(|function| function.file.clone()),
            line: place.and_then(|place| profile.stacks.places[place.index()].line),
            samples: leaf.map_or(0, |leaf| leaf.weight),
        }
    }
}

/// The frames of one address: up to the first that was not inlined.
fn places(profile: &Profile<'_>, leaf: Option<NodeIndex>) -> Vec<LocationId> {
    let mut found = Vec::new();
    for place in profile.stacks.frames(leaf) {
        found.push(place);
        if !profile.stacks.places[place.index()].inlined {
            break;
        }
    }
    found
}

fn of_file(
    profile: &Profile<'_>,
    seen: &SampledCode,
    module: ModuleId,
    code: &FunctionCode,
) -> Vec<AssemblyRow> {
    let lines = disassemble(&code.bytes, code.start).into_iter().map(|line| {
        let mut row = seen.row(profile, CodeAddress::new(module, line.offset), line.text);
        let before = code.lines.partition_point(|(from, ..)| *from <= line.offset);
        if let Some((_, file, number)) = before.checked_sub(1).and_then(|at| code.lines.get(at)) {
            (row.file, row.line) = (file.clone(), Some(*number));
        }
        row
    });
    lines.collect()
}

/// The text of every instruction that a burst ran. An instruction with neither a name nor a sample belongs where the one
/// before it does, in the order of execution.
fn traced(profile: &Profile<'_>) -> BTreeMap<CodeAddress, (String, Option<CodeAddress>)> {
    let mut found = BTreeMap::new();
    for piece in profile.recording.blocks.iter().flat_map(|block| &block.pieces) {
        let mut known: Option<CodeAddress> = None;
        for line in disassemble(&piece.bytes, piece.offset) {
            let address = CodeAddress::new(piece.module, line.offset);
            if profile.stacks.place_at(address) != NO_STACK {
                known = Some(address);
            }
            found.entry(address).or_insert((line.text, known));
        }
    }
    found
}

fn of_bursts(
    profile: &Profile<'_>,
    seen: &SampledCode,
    traced: &BTreeMap<CodeAddress, (String, Option<CodeAddress>)>,
    (module, compiled): (ModuleId, FunctionId),
) -> Vec<AssemblyRow> {
    let of_it = |(address, (_, known)): &(&CodeAddress, &(String, Option<CodeAddress>))| {
        let own = seen.compiled(profile, **address);
        own.or_else(|| seen.compiled(profile, (*known)?)) == Some(compiled)
    };
    let from = CodeAddress::new(module, FileOffset(0));
    let to = CodeAddress::new(module, FileOffset(u64::MAX));
    let rows = traced.range(from..=to).filter(of_it);
    rows.map(|(address, (text, _))| seen.row(profile, *address, text.clone())).collect()
}
