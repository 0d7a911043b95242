//! Names of the variables at which threads waited, looked up after the collection.
//!
//! What for: "waits for `queue_lock`" instead of an address. What not: locks on the heap or a stack, which have no
//! name; the stack of the waiting thread identifies them. Assumptions: as in [`crate::symbolise`]: the same machine,
//! soon after. An address that belonged to another module before gets the name by its last mapping.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use base::{ModuleId, Pid, RemoteAddr};
use facts::{Fact, Mapping, Module, ModuleKind, Wait, WaitObject};
use symbols::{Demangle, Elf};
use sys::map::FileMap;

/// Bounds memory; nobody reads that many.
const MOST_OBJECTS: usize = 10_000;
/// Data follows the code of its module within this distance; beyond, it belongs to another mapping.
const FARTHEST: u64 = 4 << 30;

/// Collects the addresses to be named while facts pass.
#[derive(Default)]
pub struct WaitObjects {
    objects: BTreeSet<(Pid, RemoteAddr)>,
    mappings: BTreeMap<(Pid, RemoteAddr), Mapping>,
}

impl WaitObjects {
    /// Notes a fact.
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

    /// Names the addresses for which a name is found, in a fixed order.
    #[must_use]
    pub fn name(&self, modules: &[Module]) -> Vec<WaitObject> {
        let files: HashMap<ModuleId, &Module> = modules
            .iter()
            .filter(|module| module.kind == ModuleKind::File)
            .map(|module| (module.id, module))
            .collect();
        let mut by_module: BTreeMap<ModuleId, Vec<(&Mapping, RemoteAddr)>> = BTreeMap::new();
        for &(pid, address) in &self.objects {
            let below = self.mappings.range((pid, RemoteAddr(0))..=(pid, address)).rev();
            let near = below.take_while(|(_, mapping)| address.0 - mapping.start.0 < FARTHEST);
            let mut near = near.filter(|(_, mapping)| files.contains_key(&mapping.module));
            // Data belongs to the module with the nearest code below it, or to none.
            let Some((_, mapping)) = near.next() else { continue };
            by_module.entry(mapping.module).or_default().push((mapping, address));
        }
        let mut named = Vec::new();
        for (module, objects) in by_module {
            named.extend(of_module(files[&module], &objects).unwrap_or_default());
        }
        named
    }
}

/// A file that cannot be read, or was replaced since, has no variables.
fn of_module(module: &Module, objects: &[(&Mapping, RemoteAddr)]) -> Option<Vec<WaitObject>> {
    let map = FileMap::open(Path::new(&module.path)).ok()?;
    let elf = Elf::parse(&map).ok()?;
    if module.build_id.is_some() && module.build_id != elf.build_id() {
        return None;
    }
    let variables = symbols::variables(&elf, None, "", Demangle::Yes, usize::MAX);
    let name = |(mapping, address): &(&Mapping, RemoteAddr)| {
        let moved = elf.load_bias(mapping.start, mapping.file_offset)?;
        let name = variables.at(*address, moved)?;
        let (pid, module) = (mapping.pid, module.path.clone());
        // A name in brackets stands for an address without a symbol: not worth showing.
        (!name.starts_with('[')).then_some(WaitObject { pid, address: *address, name, module })
    };
    Some(objects.iter().filter_map(name).collect())
}
