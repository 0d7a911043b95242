//! A module's look-up table: DWARF first, then the symbol table, then unwind information for code without a name.
//!
//! What for: [`ModuleImage`] holds a module's bytes (decompressed where needed), [`SymbolTable`] answers. What not:
//! searching for files, a cache over modules. Assumptions: addr2line parses lazily: creating a table reads the
//! headers of all units, the first look-up in a unit reads that unit, further ones only search. One thread uses a
//! table.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use addr2line::{LookupContinuation as _, LookupResult, gimli};
use base::{Bytes, FileOffset};
use gimli::{Reader as _, SectionId};

use crate::budget::{Budget, BudgetedReader};
use crate::demangle::{Demangler, is_mangled};
use crate::elf::{Elf, LinkAddress};
use crate::function_symbols::{FunctionSymbols, SymbolSource};
use crate::plt::Stubs;
use crate::unwind_functions::UnwindFunctions;
use crate::{Demangle, Problem};

/// The sections that addresses are looked up with, and types of variables. Macros stay unread.
const SECTIONS: [(SectionId, &str); 13] = [
    (SectionId::DebugAbbrev, ".debug_abbrev"),
    (SectionId::DebugAddr, ".debug_addr"),
    (SectionId::DebugAranges, ".debug_aranges"),
    (SectionId::DebugInfo, ".debug_info"),
    (SectionId::DebugLine, ".debug_line"),
    (SectionId::DebugLineStr, ".debug_line_str"),
    (SectionId::DebugLoc, ".debug_loc"),
    (SectionId::DebugLocLists, ".debug_loclists"),
    (SectionId::DebugRanges, ".debug_ranges"),
    (SectionId::DebugRngLists, ".debug_rnglists"),
    (SectionId::DebugStr, ".debug_str"),
    (SectionId::DebugStrOffsets, ".debug_str_offsets"),
    (SectionId::DebugTypes, ".debug_types"),
];

/// One function at an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFrame {
    /// Name, never empty.
    pub function: String,
    /// Source file as the compiler named it, made absolute with the directory it was compiled in.
    pub file: Option<String>,
    /// Line: of the address in the innermost frame, of the inlined call in the others.
    pub line: Option<u32>,
    /// Whether the function was inlined into the next frame.
    pub inlined: bool,
}

type DwarfBytes<'data> = Vec<(SectionId, Cow<'data, [u8]>)>;

/// A module's file, with its debug files.
#[derive(Debug)]
pub struct ModuleImage<'data> {
    main: Elf<'data>,
    debug: Option<Elf<'data>>,
    dwarf: DwarfBytes<'data>,
    alternate: DwarfBytes<'data>,
    budget: Budget,
    types_budget: Budget,
    problems: Vec<Problem>,
}

impl<'data> ModuleImage<'data> {
    /// Puts a module together. `debug` is its separate debug file and `alternate` the one that `dwz` made; the
    /// caller has checked that they belong to it ([`crate::check_debug_file`], [`crate::check_alternate_file`]).
    /// Decompresses sections, so it can take a second and gigabytes for huge compressed files.
    #[must_use]
    pub fn new(
        main: Elf<'data>,
        debug: Option<Elf<'data>>,
        alternate: Option<Elf<'data>>,
    ) -> ModuleImage<'data> {
        let mut problems = Vec::new();
        let mut decompressed = 0;
        let source = debug.as_ref().filter(|debug| debug.has_debug_information()).unwrap_or(&main);
        let link = source.alternate_link();
        let dwarf = dwarf_bytes(source, &mut decompressed, &mut problems);
        let alternate = match (&alternate, link) {
            (Some(elf), Some(_)) => dwarf_bytes(elf, &mut decompressed, &mut problems),
            (None, Some(link)) => {
                problems.push(Problem::AlternateMissing { name: link.name });
                Vec::new()
            }
            (_, None) => Vec::new(),
        };
        let size = dwarf.iter().chain(&alternate).map(|(_, bytes)| bytes.len() as u64).sum();
        let (budget, types_budget) = (Budget::for_size(size), Budget::for_size(size));
        ModuleImage { main, debug, dwarf, alternate, budget, types_budget, problems }
    }

    /// A module with nothing but its symbol table, which takes no time.
    #[must_use]
    pub fn without_debug_information(main: Elf<'data>) -> ModuleImage<'data> {
        let (budget, types_budget) = (Budget::for_size(0), Budget::for_size(0));
        let (dwarf, alternate, problems) = (Vec::new(), Vec::new(), Vec::new());
        ModuleImage { main, debug: None, dwarf, alternate, budget, types_budget, problems }
    }

    /// How many reads of debug information are still allowed; tests watch how far real programs stay below.
    #[must_use]
    pub fn reads_left(&self) -> u64 {
        self.budget.reads_left()
    }

    /// The table of this module.
    #[must_use]
    pub fn symbol_table(&self, demangle: Demangle) -> SymbolTable<'_> {
        let problems = RefCell::new(self.problems.clone());
        let context = self.context(&problems);
        SymbolTable {
            image: self,
            context,
            functions: OnceCell::new(),
            stubs: OnceCell::new(),
            unwind_functions: OnceCell::new(),
            demangler: Demangler::new(demangle),
            names: RefCell::default(),
            problems,
        }
    }

    /// The module's file itself.
    pub(crate) fn main(&self) -> &Elf<'data> {
        &self.main
    }

    /// The debug information for types, which are paid from a budget of their own; `None` when there is none.
    pub(crate) fn dwarf_for_types(&self) -> Option<gimli::Dwarf<BudgetedReader<'_>>> {
        self.debug_information(&self.types_budget)
    }

    fn debug_information<'a>(
        &'a self,
        budget: &'a Budget,
    ) -> Option<gimli::Dwarf<BudgetedReader<'a>>> {
        let has_entries = |bytes: &DwarfBytes<'_>| {
            bytes.iter().any(|(id, bytes)| *id == SectionId::DebugInfo && !bytes.is_empty())
        };
        if !has_entries(&self.dwarf) {
            return None;
        }
        budget.enter();
        let mut dwarf = gimli_sections(&self.dwarf, budget);
        if has_entries(&self.alternate) {
            dwarf.set_sup(gimli_sections(&self.alternate, budget));
        }
        // Units that share their abbreviations (all of a `dwz` file) then parse them once.
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        Some(dwarf)
    }

    fn context<'a>(
        &'a self,
        problems: &RefCell<Vec<Problem>>,
    ) -> Option<addr2line::Context<BudgetedReader<'a>>> {
        match addr2line::Context::from_dwarf(self.debug_information(&self.budget)?) {
            Ok(context) => Some(context),
            Err(error) => {
                note(problems, damage(error, &self.budget));
                None
            }
        }
    }
}

fn dwarf_bytes<'data>(
    elf: &Elf<'data>,
    decompressed: &mut u64,
    problems: &mut Vec<Problem>,
) -> DwarfBytes<'data> {
    let mut sections = Vec::with_capacity(SECTIONS.len());
    for (id, name) in SECTIONS {
        match elf.debug_section(name, decompressed) {
            Ok(bytes) => sections.push((id, bytes)),
            Err(problem) => problems.push(problem),
        }
    }
    sections
}

fn gimli_sections<'a>(
    sections: &'a DwarfBytes<'_>,
    budget: &'a Budget,
) -> gimli::Dwarf<BudgetedReader<'a>> {
    let reader = |id: SectionId| -> Result<_, std::convert::Infallible> {
        let bytes =
            sections.iter().find(|(other, _)| *other == id).map_or(&[][..], |(_, bytes)| bytes);
        Ok(BudgetedReader::new(bytes, budget))
    };
    match gimli::Dwarf::load(reader) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

fn damage(error: gimli::Error, budget: &Budget) -> Problem {
    match budget.refused() {
        Some(reason) => Problem::Absurd { reason },
        None => Problem::DamagedDebugInformation { reason: error.to_string() },
    }
}

/// Keeps one problem of each kind: the first.
fn note(problems: &RefCell<Vec<Problem>>, problem: Problem) {
    let mut problems = problems.borrow_mut();
    let kind = std::mem::discriminant(&problem);
    if !problems.iter().any(|known| std::mem::discriminant(known) == kind) {
        problems.push(problem);
    }
}

/// Answers for one module.
pub struct SymbolTable<'a> {
    image: &'a ModuleImage<'a>,
    context: Option<addr2line::Context<BudgetedReader<'a>>>,
    functions: OnceCell<FunctionSymbols<'a>>,
    stubs: OnceCell<Stubs<'a>>,
    unwind_functions: OnceCell<UnwindFunctions>,
    demangler: Demangler,
    names: RefCell<HashMap<&'a [u8], String>>,
    problems: RefCell<Vec<Problem>>,
}

/// A frame whose function may be nameless yet.
struct Unnamed {
    function: Option<String>,
    /// The name came without name space or class.
    unqualified: bool,
    file: Option<String>,
    line: Option<u32>,
}

impl<'a> SymbolTable<'a> {
    /// The functions at `offset`, innermost first; all but the last are inlined. Empty when the offset is not
    /// loaded or nothing names it. Needs 1 MiB of stack.
    #[must_use]
    pub fn lookup(&self, offset: FileOffset) -> Vec<SourceFrame> {
        let Some(address) = self.image.main.address_of(offset) else {
            return Vec::new();
        };
        let mut frames = self.dwarf_frames(address);
        if frames.is_empty() {
            frames.push(Unnamed { function: None, unqualified: true, file: None, line: None });
        }
        if let Some(outermost) = frames.last_mut() {
            self.name_by_symbol(outermost, address);
        }
        // An inlined function without a name (its entry is in a file that is missing) cannot have a row; its
        // time is the caller's, at the line of the call.
        let mut named: Vec<_> = frames
            .into_iter()
            .filter_map(|frame| {
                let function = frame.function?;
                Some(SourceFrame { function, file: frame.file, line: frame.line, inlined: true })
            })
            .collect();
        if let Some(outermost) = named.last_mut() {
            outermost.inlined = false;
        }
        named
    }

    /// The start of the function that covers `offset`, by the module's unwind information: for code that
    /// [`SymbolTable::lookup`] cannot name, so that all addresses of one function are counted together. `None` if no
    /// entry covers it, as in hand-written assembly. Cold parts that the compiler moved out of their function count
    /// as functions.
    #[must_use]
    pub fn function_start(&self, offset: FileOffset) -> Option<FileOffset> {
        let main = &self.image.main;
        let functions = self.unwind_functions.get_or_init(|| UnwindFunctions::read(main));
        main.offset_of_code(functions.start_of(main.address_of(offset)?)?)
    }

    /// Where the function around `offset` begins and how many bytes it has, by unwind information alone, as
    /// [`SymbolTable::function_start`].
    #[must_use]
    pub fn function_extent(&self, offset: FileOffset) -> Option<(FileOffset, Bytes)> {
        let main = &self.image.main;
        let functions = self.unwind_functions.get_or_init(|| UnwindFunctions::read(main));
        let range = functions.range_of(main.address_of(offset)?)?;
        let length = Bytes(range.end.0.checked_sub(range.start.0)?);
        Some((main.offset_of_code(range.start)?, length))
    }

    /// Why the answers so far are incomplete, at most one reason of each kind.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.problems.borrow().clone();
        if self.context.is_none() && problems.is_empty() {
            problems.push(match self.functions().source() {
                SymbolSource::Full => Problem::SymbolTableOnly,
                SymbolSource::Exported => Problem::ExportedSymbolsOnly,
                SymbolSource::None => Problem::NoSymbols,
            });
        }
        problems
    }

    fn dwarf_frames(&self, address: LinkAddress) -> Vec<Unnamed> {
        let Some(context) = &self.context else {
            return Vec::new();
        };
        self.image.budget.enter();
        match self.find_frames(context, address) {
            Ok(frames) => frames,
            Err(error) => {
                note(&self.problems, damage(error, &self.image.budget));
                Vec::new()
            }
        }
    }

    fn find_frames(
        &self,
        context: &addr2line::Context<BudgetedReader<'a>>,
        address: LinkAddress,
    ) -> Result<Vec<Unnamed>, gimli::Error> {
        let mut step = context.find_frames(address.0);
        let mut found = loop {
            match step {
                LookupResult::Output(frames) => break frames?,
                LookupResult::Load { load, continuation } => {
                    let name =
                        load.path.and_then(|path| Some(path.to_string_lossy().ok()?.into_owned()));
                    let example = name.unwrap_or_else(|| "unnamed .dwo file".to_owned());
                    note(&self.problems, Problem::SplitDebugInformation { example });
                    step = continuation.resume(None);
                }
            }
        };
        let mut frames = Vec::new();
        while let Some(frame) = found.next()? {
            let raw = frame.function.as_ref().map_or(&[][..], |name| name.name.rest());
            let unqualified = !is_mangled(raw);
            let function = Some(self.name(raw)).filter(|name| !name.is_empty());
            let (file, line) = frame.location.map_or((None, None), |at| (at.file, at.line));
            let file = file.map(without_dot_directories);
            frames.push(Unnamed { function, unqualified, file, line });
        }
        Ok(frames)
    }

    /// Names a function that has no name yet, or a bare one: "line tables only" (the usual setting of optimised
    /// Rust and C++ builds) says `push` where the symbol says `alloc::vec::Vec<T>::push`.
    fn name_by_symbol(&self, frame: &mut Unnamed, address: LinkAddress) {
        match &frame.function {
            None => frame.function = self.symbol_name(address),
            Some(bare) if frame.unqualified => {
                let symbol = self.functions().lookup(address).filter(|name| is_mangled(name));
                if let Some(symbol) = symbol {
                    let name = self.name(symbol);
                    // A linker that folds equal functions leaves one symbol for several; it must fit.
                    if fits(bare, &name) {
                        frame.function = Some(name);
                    }
                }
            }
            Some(_) => {}
        }
    }

    fn symbol_name(&self, address: LinkAddress) -> Option<String> {
        if let Some(name) = self.functions().lookup(address) {
            return Some(self.name(name));
        }
        let main = &self.image.main;
        let stubs = self.stubs.get_or_init(|| Stubs::read(main));
        let name = stubs.lookup(main, address)?;
        Some(self.name(name) + "@plt")
    }

    /// The name for the reader. Demangling C++ costs some 10 us, and the same small functions are inlined
    /// everywhere, so what was demangled is kept.
    fn name(&self, raw: &'a [u8]) -> String {
        if !is_mangled(raw) {
            return self.demangler.name(raw);
        }
        let mut known = self.names.borrow_mut();
        known.entry(raw).or_insert_with(|| self.demangler.name(raw)).clone()
    }

    fn functions(&self) -> &FunctionSymbols<'a> {
        self.functions
            .get_or_init(|| FunctionSymbols::read(&self.image.main, self.image.debug.as_ref()))
    }
}

/// Whether the qualified name is that of the function with this bare name. Template arguments are written
/// differently, and so are the numbers of closures.
fn fits(bare: &str, qualified: &str) -> bool {
    bare.split(['<', '#']).next().is_some_and(|name| qualified.contains(name))
}

/// Removes `.` and empty components: `/a/./b//c` is the same file as `/a/b/c`, and would make a second row of it.
/// `..` stays: after a symbolic link it leads elsewhere than the text says.
fn without_dot_directories(path: &str) -> String {
    let absolute = if path.starts_with('/') { "/" } else { "" };
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("{absolute}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_dots_only() {
        let shown = ["/a/./b//c.h", "./malloc/./malloc.c", "/a/../b.c", "x.c", "/"]
            .map(without_dot_directories);
        assert_eq!(shown, ["/a/b/c.h", "malloc/malloc.c", "/a/../b.c", "x.c", "/"]);
    }

    #[test]
    fn bare_names_fit_their_qualified_ones() {
        assert!(fits("push<u8>", "alloc::vec::Vec<T>::push"));
        assert!(fits("{closure#0}", "collect::work::{{closure}}"));
        assert!(fits("operator<<", "std::operator<<(std::ostream&, char)"));
        assert!(!fits("pop<u8>", "alloc::vec::Vec<T>::push"));
    }
}
