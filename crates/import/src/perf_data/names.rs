//! Names of functions that simpleperf writes into its files, as the files of the recorded machine had them.
//!
//! What for: the files of a phone are seldom on the machine of the import. What not: code that a runtime interprets or generates
//! (dex files, JIT), modules of the kernel, source lines.
//!
//! Source: system/extras/simpleperf/record_file_format.h of Android ("file feature section", "file2"), dso.cpp, `IpToVaddrInFile`. A
//! module's offsets are offsets in its file, those of the kernel addresses (`facts::ModuleKind`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{CodeAddress, FileOffset, ModuleId};
use facts::{Fact, Frame, Module, ModuleKind, Sink, SinkError};
use linux_perf_data::{
    Feature, PerfFile, SimpleperfFileRecord, SimpleperfTypeSpecificInfo, simpleperf_dso_type,
};
use symbols::Demangle;

/// Larger tables are not read: in memory they take up to 24 times as much.
const MOST_BYTES: usize = 64 << 20;
/// A section with records of what was mapped before, which the parser does not read.
const INIT_MAP: Feature = Feature(134);
/// simpleperf's word for an unknown offset.
const UNKNOWN: u64 = u64::MAX;

/// Whether simpleperf wrote the file: its command line, and its own description in newer files, say so.
pub(super) fn is_simpleperf(file: &PerfFile, command: &[String]) -> bool {
    let program = command.first().and_then(|word| word.rsplit('/').next());
    file.simpleperf_meta_info().ok().flatten().is_some()
        || program.is_some_and(|name| name.starts_with("simpleperf"))
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
            (simpleperf_dso_type::DSO_KERNEL, _) => Base::Same,
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

/// All names of a file.
#[derive(Default)]
pub(super) struct Names {
    files: HashMap<String, Functions>,
    kernel: Option<Functions>,
}

impl Names {
    /// What is wrong with them is noted.
    pub(super) fn of(file: &PerfFile, notes: &mut Vec<String>) -> Names {
        if file.feature_section_data(INIT_MAP).is_some() {
            let what = "the file has mappings from before the recording in a section of its own (init_map), which is not read: \
                        their code has no names";
            notes.push(what.to_owned());
        }
        let sections = [Feature::SIMPLEPERF_FILE2, Feature::SIMPLEPERF_FILE];
        let bytes =
            sections.iter().find_map(|one| file.feature_section_data(*one)).map_or(0, <[u8]>::len);
        let tables = if bytes > MOST_BYTES { Ok(None) } else { file.simpleperf_symbol_tables() };
        let mut names = Names::default();
        match tables {
            Ok(Some(tables)) => {
                for table in tables {
                    let (is_kernel, path) =
                        (table.r#type == simpleperf_dso_type::DSO_KERNEL, table.path.clone());
                    match Functions::of(table) {
                        Some(functions) if is_kernel => names.kernel = Some(functions),
                        Some(functions) => drop(names.files.insert(path, functions)),
                        None => {}
                    }
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

    fn of_module(&self, module: &Module) -> Option<&Functions> {
        match module.kind {
            ModuleKind::File => self.files.get(&module.path),
            ModuleKind::Kernel => self.kernel.as_ref(),
            _ => None,
        }
    }
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
            let functions = module.and_then(|module| self.names.of_module(module));
            let mapped = self.mapped.get(&address.module).copied();
            let name = functions.and_then(|one| one.name(address.offset, mapped));
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
            Fact::Module(module) if self.names.of_module(module).is_some() => {
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
