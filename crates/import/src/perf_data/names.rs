//! Names of functions that simpleperf writes into its files, as the files of the recorded machine had them.
//!
//! What for: the files of a phone are seldom on the machine of the import; of code that a runtime interprets (dex files) or generates
//! (JIT), no other file tells. What not: source lines.
//!
//! Source: system/extras/simpleperf/record_file_format.h of Android ("file feature section", "file2"), dso.cpp, `IpToVaddrInFile`;
//! thread_tree.cpp, `FindSymbol`. A module's offsets are offsets in its file, those of the kernel and of generated code addresses
//! (`facts::ModuleKind`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use base::{CodeAddress, FileOffset, ModuleId, Pid};
use facts::{Fact, Frame, Module, ModuleKind, Sink, SinkError};
use linux_perf_data::linux_perf_event_reader::{EventRecord, RawEventRecord, RecordType};
use linux_perf_data::{
    Feature, PerfFile, SimpleperfFileRecord, SimpleperfTypeSpecificInfo, simpleperf_dso_type,
};
use symbols::Demangle;

/// Larger tables are not read: in memory they take up to 24 times as much.
const MOST_BYTES: usize = 64 << 20;
/// Most names of generated functions, of all processes together: processes share their files.
const MOST_GENERATED: usize = 1 << 20;
/// simpleperf's word for an unknown offset.
const UNKNOWN: u64 = u64::MAX;
/// simpleperf's mark on the mapping of a generated function, besides `PROT_EXEC` and its like (thread_tree.h).
pub(super) const GENERATED: u32 = 0x4000;
/// The process of mappings of the kernel.
const KERNEL: i32 = -1;

/// Whether simpleperf wrote the file: its command line, and its own description in newer files, say so.
pub(super) fn is_simpleperf(file: &PerfFile, command: &[String]) -> bool {
    let program = command.first().and_then(|word| word.rsplit('/').next());
    file.simpleperf_meta_info().ok().flatten().is_some()
        || program.is_some_and(|name| name.starts_with("simpleperf"))
}

/// What the first reading of a file learns of mappings.
#[derive(Default)]
pub(super) struct Mapped {
    /// The files of generated functions, and whose they are.
    generated: BTreeSet<(Pid, String)>,
    /// Where the modules of the kernel begin and end, and their files.
    loaded: BTreeMap<u64, (u64, String)>,
}

impl Mapped {
    pub(super) fn see(&mut self, raw: &RawEventRecord<'_>) {
        if !matches!(raw.record_type, RecordType::MMAP | RecordType::MMAP2) {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match raw.parse() {
            Ok(EventRecord::Mmap2(map)) if map.protection & GENERATED != 0 => {
                self.generated.insert((Pid(map.pid), text(&map.path.as_slice())));
            }
            Ok(EventRecord::Mmap(map)) if map.pid == KERNEL => {
                let end = map.address.saturating_add(map.length);
                self.loaded.insert(map.address, (end, text(&map.path.as_slice())));
            }
            _ => {}
        }
    }
}

/// Where the addresses of a file's symbols begin.
#[derive(Clone, Copy)]
enum Base {
    /// Offsets are addresses.
    Same,
    /// This address is at this offset.
    Anchor(u64, u64),
    /// This address is where the code is mapped from: older files do not say the offset.
    Mapped(u64),
}

/// The functions of a file.
struct Functions {
    base: Base,
    /// Start, length and name, by start.
    list: Vec<(u64, u64, String)>,
}

impl Functions {
    fn of(file: SimpleperfFileRecord) -> Option<Functions> {
        let base = match (file.r#type, &file.type_specific_msg) {
            // The addresses of a dex file are offsets in the file that it is in.
            (
                simpleperf_dso_type::DSO_KERNEL
                | simpleperf_dso_type::DSO_DEX_FILE
                | simpleperf_dso_type::DSO_SYMBOL_MAP_FILE,
                _,
            ) => Base::Same,
            (
                simpleperf_dso_type::DSO_KERNEL_MODULE,
                Some(SimpleperfTypeSpecificInfo::KernelModule(about)),
            ) if about.memory_offset_of_min_vaddr != UNKNOWN => {
                Base::Anchor(file.min_vaddr, about.memory_offset_of_min_vaddr)
            }
            (
                simpleperf_dso_type::DSO_ELF_FILE,
                Some(SimpleperfTypeSpecificInfo::ElfFile(about)),
            ) if about.file_offset_of_min_vaddr != UNKNOWN => {
                Base::Anchor(file.min_vaddr, about.file_offset_of_min_vaddr)
            }
            (simpleperf_dso_type::DSO_ELF_FILE, _) => Base::Mapped(file.min_vaddr),
            _ => return None,
        };
        let symbols = file.symbol.into_iter();
        let mut list: Vec<(u64, u64, String)> =
            symbols.map(|one| (one.vaddr, u64::from(one.len), one.name)).collect();
        list.retain(|(.., name)| !name.is_empty());
        list.sort();
        Some(Functions { base, list })
    }

    /// `mapped`: the least offset of the module's mapped code.
    fn name(&self, offset: FileOffset, mapped: Option<FileOffset>) -> Option<&str> {
        let address = match self.base {
            Base::Same => offset.0,
            Base::Anchor(address, at) => offset.0.wrapping_sub(at).wrapping_add(address),
            Base::Mapped(address) => offset.0.wrapping_sub(mapped?.0).wrapping_add(address),
        };
        let after = self.list.partition_point(|(start, ..)| *start <= address);
        let (start, length, name) = self.list.get(after.checked_sub(1)?)?;
        // A symbol without a length goes on to the next.
        (*length == 0 || address - start < *length).then_some(name.as_str())
    }
}

/// Generated functions of one process. The files of several do not say which of them was at an address first: where functions of
/// different names overlap, none of them is named.
fn distinct(mut list: Vec<(u64, u64, String)>) -> Functions {
    list.retain(|(start, length, _)| *length > 0 && start.checked_add(*length).is_some());
    list.sort();
    list.dedup();
    let mut until = 0;
    // Where the functions before each one end.
    let end_before = |(start, length, _): &(u64, u64, String)| {
        let before = until;
        until = before.max(start + length);
        before
    };
    let ends: Vec<u64> = list.iter().map(end_before).collect();
    let starts: Vec<u64> = list.iter().map(|(start, ..)| *start).collect();
    let is_alone = |number: usize, (start, length, _): &(u64, u64, String)| {
        ends[number] <= *start && starts.get(number + 1).is_none_or(|next| start + length <= *next)
    };
    let numbered = list.into_iter().enumerate();
    let list = numbered.filter(|(number, one)| is_alone(*number, one)).map(|(_, one)| one);
    Functions { base: Base::Same, list: list.collect() }
}

/// All names of a file.
#[derive(Default)]
pub(super) struct Names {
    files: HashMap<String, Functions>,
    kernel: Option<Functions>,
    /// Modules of the kernel, as `Mapped::loaded`.
    loaded: BTreeMap<u64, (u64, String)>,
    generated: HashMap<Pid, Functions>,
    /// Files whose code is mapped as data, for a runtime that interprets it.
    interpreted: HashSet<String>,
}

impl Names {
    /// What is wrong with them is noted.
    pub(super) fn of(file: &PerfFile, mapped: Mapped, notes: &mut Vec<String>) -> Names {
        let sections = [Feature::SIMPLEPERF_FILE2, Feature::SIMPLEPERF_FILE];
        let bytes =
            sections.iter().find_map(|one| file.feature_section_data(*one)).map_or(0, <[u8]>::len);
        let tables = if bytes > MOST_BYTES { Ok(None) } else { file.simpleperf_symbol_tables() };
        let mut names = Names { loaded: mapped.loaded, ..Names::default() };
        match tables {
            Ok(Some(tables)) => {
                let left_out = names.add(tables, &mapped.generated);
                if left_out > 0 {
                    notes.push(format!("{left_out} names of generated functions were left out"));
                }
            }
            Ok(None) if bytes == 0 => {}
            Ok(None) => {
                notes.push(format!("the tables of functions have {bytes} bytes, and were not read"))
            }
            Err(error) => notes.push(format!("the tables of functions could not be read: {error}")),
        }
        names
    }

    /// How many names of generated functions there is no room for.
    fn add(
        &mut self,
        tables: Vec<SimpleperfFileRecord>,
        generated: &BTreeSet<(Pid, String)>,
    ) -> usize {
        let mut processes: HashMap<Pid, Vec<(u64, u64, String)>> = HashMap::new();
        for table in tables {
            let (kind, path) = (table.r#type, table.path.clone());
            let Some(functions) = Functions::of(table) else { continue };
            match kind {
                simpleperf_dso_type::DSO_KERNEL => self.kernel = Some(functions),
                simpleperf_dso_type::DSO_SYMBOL_MAP_FILE => {
                    if let Some(pid) = process_of(&path) {
                        processes.entry(pid).or_default().extend(functions.list);
                    }
                }
                _ => {
                    if kind == simpleperf_dso_type::DSO_DEX_FILE {
                        self.interpreted.insert(path.clone());
                    }
                    self.files.insert(path, functions);
                }
            }
        }
        let (mut room, mut left_out) = (MOST_GENERATED, 0);
        for (pid, path) in generated {
            let Some(functions) = self.files.get(path) else { continue };
            match room.checked_sub(functions.list.len()) {
                Some(rest) => {
                    room = rest;
                    processes.entry(*pid).or_default().extend_from_slice(&functions.list);
                }
                None => left_out += functions.list.len(),
            }
        }
        self.generated = processes.into_iter().map(|(pid, list)| (pid, distinct(list))).collect();
        left_out
    }

    /// Files whose code is mapped as data.
    pub(super) fn interpreted(&self) -> HashSet<String> {
        self.interpreted.clone()
    }

    /// Whether there may be names for addresses of this module.
    fn knows(&self, module: &Module) -> bool {
        match module.kind {
            ModuleKind::File => self.files.contains_key(&module.path),
            ModuleKind::Kernel => self.kernel.is_some() || !self.files.is_empty(),
            ModuleKind::Anonymous { pid } => self.generated.contains_key(&pid),
            _ => false,
        }
    }

    /// `mapped`: see [`Functions::name`].
    fn name(
        &self,
        module: &Module,
        offset: FileOffset,
        mapped: Option<FileOffset>,
    ) -> Option<&str> {
        match module.kind {
            ModuleKind::File => self.files.get(&module.path)?.name(offset, mapped),
            ModuleKind::Anonymous { pid } => self.generated.get(&pid)?.name(offset, mapped),
            ModuleKind::Kernel => {
                let loaded = self.loaded.range(..=offset.0).next_back();
                let loaded = loaded.filter(|(_, (end, _))| offset.0 < *end);
                let of_module = loaded.and_then(|(start, (_, path))| {
                    self.files.get(path)?.name(FileOffset(offset.0 - start), None)
                });
                of_module.or_else(|| self.kernel.as_ref()?.name(offset, mapped))
            }
            _ => None,
        }
    }
}

/// The process of `perf-1142.map`, a runtime's list of what it generated.
fn process_of(path: &str) -> Option<Pid> {
    let name = path.rsplit('/').next()?;
    name.strip_prefix("perf-")?.strip_suffix(".map")?.parse().ok().map(Pid)
}

/// Collects, while facts pass, the addresses that may get names.
pub(super) struct NamingSink<'a> {
    sink: &'a mut dyn Sink,
    names: Names,
    modules: BTreeMap<ModuleId, Module>,
    /// Where their mapped code begins.
    mapped: BTreeMap<ModuleId, FileOffset>,
    addresses: BTreeSet<CodeAddress>,
}

impl<'a> NamingSink<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink, names: Names) -> NamingSink<'a> {
        NamingSink {
            sink,
            names,
            modules: BTreeMap::new(),
            mapped: BTreeMap::new(),
            addresses: BTreeSet::new(),
        }
    }

    /// Names what has a name here, but for modules whose files are at hand. Whether there was any.
    pub(super) fn name(self, at_hand: impl Fn(&Module) -> bool) -> Result<bool, SinkError> {
        let mut any = false;
        for address in self.addresses {
            let module = self.modules.get(&address.module).filter(|module| !at_hand(module));
            let mapped = self.mapped.get(&address.module).copied();
            let name = module.and_then(|one| self.names.name(one, address.offset, mapped));
            let Some(name) = name else { continue };
            any = true;
            self.sink.push(Fact::Frame(Frame {
                module: address.module,
                offset: address.offset,
                depth: 0,
                function: symbols::function_name(name.as_bytes(), Demangle::Yes),
                file: None,
                line: None,
                inlined: false,
            }))?;
        }
        Ok(any)
    }
}

impl Sink for NamingSink<'_> {
    fn push(&mut self, fact: Fact) -> Result<(), SinkError> {
        match &fact {
            Fact::Module(module) if self.names.knows(module) => {
                self.modules.insert(module.id, module.clone());
            }
            Fact::Mapping(mapping) if self.modules.contains_key(&mapping.module) => {
                let least = self.mapped.entry(mapping.module).or_insert(mapping.file_offset);
                *least = mapping.file_offset.min(*least);
            }
            Fact::StackNode(node) if self.modules.contains_key(&node.module) => {
                self.addresses.insert(node.code_address());
            }
            _ => {}
        }
        self.sink.push(fact)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }
}
