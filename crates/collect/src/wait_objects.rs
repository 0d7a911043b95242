//! Names of the variables that threads waited at, looked up after the collection.
//!
//! What for: "waits for `queue_lock`" instead of an address. What not: locks on the heap or a stack have no name; the stack
//! with which threads wait tells which it is.
//! Assumptions: as in [`crate::symbolise`]: the same machine, soon after. An address that was another module's before keeps
//! the name that fits the last mapping.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use base::{ModuleId, Pid, RemoteAddr};
use facts::{Fact, Mapping, Module, ModuleKind, Wait, WaitObject};
use symbols::{Elf, Variables};
use sys::map::FileMap;

/// More objects than anybody looks at; a bound on memory.
const MOST_OBJECTS: usize = 10_000;
/// Data lies behind the code of its module, this far at most: what is farther is another mapping's.
const FARTHEST: u64 = 4 << 30;

/// Remembers, while facts pass, which addresses must be named.
#[derive(Default)]
pub struct WaitObjects {
    objects: BTreeSet<(Pid, RemoteAddr)>,
    mappings: BTreeMap<(Pid, RemoteAddr), Mapping>,
}

impl WaitObjects {
    /// Takes note of a fact.
    pub fn note(&mut self, fact: &Fact) {
        match fact {
            Fact::Wait(Wait { pid, object: Some(address), .. })
                if self.objects.len() < MOST_OBJECTS =>
            {
                self.objects.insert((*pid, *address));
            }
            Fact::Mapping(mapping) => {
                self.mappings.insert((mapping.pid, mapping.start), *mapping);
            }
            _ => {}
        }
    }

    /// Names what can be named, in a fixed order.
    #[must_use]
    pub fn name(&self, modules: &[Module]) -> Vec<WaitObject> {
        let files: HashMap<ModuleId, &Module> = modules
            .iter()
            .filter(|module| module.kind == ModuleKind::File)
            .map(|module| (module.id, module))
            .collect();
        let mut read: HashMap<ModuleId, Option<Variables>> = HashMap::new();
        let mut named = Vec::new();
        for &(pid, address) in &self.objects {
            let below = self.mappings.range((pid, RemoteAddr(0))..=(pid, address)).rev();
            let near = below.take_while(|(_, mapping)| address.0 - mapping.start.0 < FARTHEST);
            let mut near = near.filter(|(_, mapping)| files.contains_key(&mapping.module));
            // The nearest code below is that of the module whose data this is, or the data is nobody's.
            let Some((_, mapping)) = near.next() else { continue };
            let module = files[&mapping.module];
            let variables = read.entry(module.id).or_insert_with(|| variables(module));
            let name = variables
                .as_ref()
                .and_then(|variables| variables.at(address, mapping.start, mapping.file_offset));
            if let Some(name) = name {
                named.push(WaitObject { pid, address, name, module: module.path.clone() });
            }
        }
        named
    }
}

/// A file that cannot be read, or was replaced since, has no variables.
fn variables(module: &Module) -> Option<Variables> {
    let map = FileMap::open(Path::new(&module.path)).ok()?;
    let elf = Elf::parse(&map).ok()?;
    let same = module.build_id.is_none() || module.build_id == elf.build_id();
    same.then(|| Variables::new(&elf))
}
